"""`GPRegressor`: Gaussian process regression with scikit-learn's contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from cavity.estimators.automatic import RobustLearning, robust, with_inflation, with_outliers
from cavity.estimators.base import N_NEIGHBORS
from cavity.estimators.fit_warnings import issue, warnings_of
from cavity.estimators.fitted_regressor import ROW_FORMS, FittedRegressor
from cavity.estimators.flat_targets import NOTHING_TO_LEARN, with_level
from cavity.estimators.inputs import checked_data
from cavity.estimators.leave_one_out import Cavities
from cavity.estimators.members import Member
from cavity.estimators.row_sources import Blocks, kept_rows, sampled_rows
from cavity.estimators.slope_rows import SlopeRows
from cavity.estimators.uncertain_inputs import fit_uncertain
from cavity.frames.dates import cycles
from cavity.gp import GP
from cavity.inference.registry import as_inference
from cavity.kernels import SE, Kernel, ard
from cavity.learning.choice import Choice
from cavity.learning.choice.automatic import Chosen, choose
from cavity.learning.choice.kinds import likelihood_for
from cavity.learning.choice.structures import Season
from cavity.learning.large_data import DENSE_ROWS, is_dense, learn_any_size
from cavity.learning.objective import OBJECTIVES
from cavity.learning.robust_starts import is_robust
from cavity.learning.run_choice import Learned
from cavity.learning.training_rows import TrainingRows, contains_white, require_numbers, require_usual_units
from cavity.likelihoods import (
    Gaussian,
    GaussianNoise,
    Likelihood,
    Noiseless,
    OrdinalProbit,
)
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.numerics.memory import require_memory
from cavity.parameters.per_latent import PerLatent
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import InputError
from cavity.runtime.stop_reason import StopReason

AUTO = "auto"
"""For a kernel or noise that is to be chosen."""

SHARE_OF_CHOICE = 1 / 3
"""Of the time that is given, for choosing the kind of model."""


@dataclass(frozen=True, eq=False)
class FitData:
    """Checked rows of one fit, and observed slopes, if there are any."""

    X: Array
    y: Array
    weight: Array | None = None
    sloped: SlopeRows | None = None

    @property
    def flat(self) -> bool:
        """Whether the targets do not vary: nothing says by how much they would."""
        if self.y.ndim > 1 or self.sloped is not None:
            return False
        return bool(np.ptp(self.y if self.weight is None else self.y[self.weight > 0]) == 0.0)


@dataclass(eq=False, repr=False, kw_only=True)
class GPRegressor(RegressorMixin, MultiOutputMixin, FittedRegressor):  # type: ignore[misc]
    """Gaussian process regression.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Covariance function, in the units of the data, or its text; `1.0 * SE(ard)` by default. Its values are
        one of the starting points of learning, and its priors, bounds and fixed flags are respected. "auto", and
        None with `likelihood="auto"`, choose one: see `choice_`.
    mean : Mean or {"zero", "constant", "linear"}
        Prior mean function. With several targets "constant" means a constant per target, integrated out.
    likelihood : Likelihood or str
        Noise model: "gaussian", or for data with outliers "student-t", "laplace", "mixture" (regular noise and
        occasional outliers) or "epsilon-insensitive"; for counts "poisson" or "negative-binomial", where
        predictions are of the rate; "positive", "share" and "ordinal" for targets of these ranges;
        "heteroscedastic" for noise that changes with the inputs; or a `Likelihood`. "auto" chooses by what the
        targets look like, and by how well rows that were left out are predicted. See docs/guides/noise.md.
    inference : {"auto", "exact", "laplace", "ep", "variational", "scale-mixture-em", "mcmc"} or an inference rule
        "auto" is exact for Gaussian noise and EP for other noise.
    objective : {"evidence", "loo", "gcv"} or None
        What hyperparameters maximize: log evidence, leave-one-out log density, or generalized cross-validation (of
        splines, say: the noise variance is then Wahba's estimate), each plus the log prior of those parameters
        that have one. None keeps all values as given.
    n_restarts : int
        Most runs of the optimizer beside the first, data-driven one; runs that head for an optimum already found are
        stopped, and runs that agree end the search. If 3 or more were asked for, noise is Gaussian and runs end in
        different places, there are as many again. One is from the kernel's own values if a kernel
        was given, the others from the most promising of many draws. With robust noise there is one more, from
        the solution for Gaussian noise, or from that for Laplace noise where tails are heavier and it is the
        more promising of the two.
    standardize : bool
        Whether the first start is read off the data. Otherwise it is the values given, with `n_restarts=0` the only
        one. It never changes the model: kernel values, `log_evidence_` and predictions are always in the units of the
        data.
    random_state : int, Generator or RandomState, optional
    n_jobs : int, optional
        Processes for the runs of the optimizer.
    warm_start : bool
        Start learning from the values of the last fit, if that was of the same model.
    max_time : float, optional
        Seconds after which learning returns the best so far; one evaluation is always made. Under "mcmc" learning has a
        quarter of them, chains end at the limit with the draws they have, and a TimeoutError says so if there are none.
    learn_rows : int, optional
        Rows that hyperparameters are learned from, at most (by neighbors, to which rows cost little, five times as
        many; "markov" learns from all unless there are to be fewer than 10,000); the model is then conditioned on all.
        None for all rows.
    representation : {"auto", "dense", "inducing", "neighbors", "latent_neighbors", "committee", "markov"} or object
        How the process is held: exactly ("dense"), by its values at inducing inputs, in time proportional to the number
        of rows ("inducing", `cavity.Inducing`), each row by its nearest ones ("neighbors", `cavity.Neighbors`, Gaussian
        noise only; "latent_neighbors", `cavity.LatentNeighbors`, any noise, up to 3 columns), or exactly for some
        kernels of one input ("markov", `cavity.latent.Markov`). "auto" is exact up to 3000 rows, for such kernels by
        "markov" from 1000 rows on, and decides by the data above (docs/guides/large_data.md).
    n_inducing : int or "auto"
        Number of inducing inputs. They are chosen by k-means; exact inference learns them as well. "auto" doubles their
        number from 250 to at most 1000 while that pays.
    n_neighbors : int
        Number of neighbors for "neighbors"; predictions take twice as many.
    refine : bool
        Whether predicted means are those of the exact process after a fit with inducing inputs (Gaussian noise;
        conjugate gradients, O(n^2) an iteration). Variances stay those of the inducing inputs, and predictions then
        cost O(n) a row.
    seasons : dict, optional
        Cycles that "auto" looks for: column name or index to the length of the cycle, in units of the column, or to
        several of them, by name or not: `{"date": {"year": 1.0}}`. By default years, weeks and days of dates in a data
        frame; none with {}.
    noise_kernel : Kernel or str, optional
        Noise that is correlated in time or space, beside that of the likelihood, such as `0.1 * Matern(1.0, nu=0.5)`:
        predictions of f (`predict_latent`, `noise=False`) leave it out, those of new observations take it in. Not for
        a kernel that is to be chosen, slopes or chains.

    Attributes
    ----------
    choice_ : Choice
        What "auto" chose, why, what else was tried, and how to have another; `print(model.choice_)`.
    inflation_ : float
        Factor by which variances under Gaussian noise that "auto" chose exceed those of highest evidence: residuals
        of rows left out ask for it. It leaves predicted means as they are.
    kernel_, mean_, likelihood_ : the parts with learned values
    model_ : GP
    posterior_ : Posterior
    members_ : list of Member
        The fitted model, as the only entry of a list (a classifier may have several).
    log_evidence_ : float
        For y in the user's units.
    runs_ : tuple of Run
        Every run of the optimizer: start, end, objective, so that local optima can be seen. Under EP the
        messages name the stage at which a run ended; one that ends where plain EP converges is preferred to
        others unless their evidence is higher by more than 10 nats, because those overestimate it.
    outlier_probability_ : array (n,)
        How likely each training row is an outlier, given all other rows.
    coding_ : Coding or None
        How the columns of a data frame became the inputs of the model, with `notes` in sentences, if they were not all
        numbers.
    n_features_in_, feature_names_in_
        Of X as it was given.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(x).ravel() + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> model = GPRegressor(random_state=0).fit(x, y)
    >>> mean, sd = model.predict([[1.5]], return_std=True)
    """

    _objectives = (*OBJECTIVES, None)

    standardize: bool = True
    n_neighbors: int = N_NEIGHBORS
    refine: bool = False
    seasons: Any = None
    noise_kernel: Kernel | str | None = None

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know: several targets at once need Gaussian noise."""
        tags = super().__sklearn_tags__()
        noise = self.likelihood
        by_name = isinstance(noise, str) and noise in ("gaussian", "noiseless")
        tags.target_tags.multi_output = by_name or isinstance(noise, GaussianNoise)
        return tags

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        slopes: Any = None,
        slope_signs: Any = None,
        input_sd: ArrayLike | None = None,
        input_errors: str = "slopes",
    ) -> Self:
        """Learn hyperparameters and condition on the data.

        Parameters
        ----------
        X : array or DataFrame (n, D)
            A data frame, of pandas or polars, may hold text, categories, dates and missing values: categories become
            0/1 columns, dates years or days, a missing value the median with a 0/1 column that says where, as in
            `cavity fit`. Columns of no use, such as free text, are left out with a warning.
            Or rows that are not in memory: Parquet files (`cavity.rows.read_parquet`), or a Dask data frame.
        y : array (n,) or (n, T)
            Of a Dask data frame the name of its target.
        sample_weight : array (n,), optional
            Power of each row's likelihood factor; rows of weight zero are left out before anything else.
        slopes : (X, gradients) or (X, slopes, direction), optional
            Observed derivatives of the function: at inputs (m, D) a number for each column (m, D), NaN where none was
            seen, or numbers (m,) along a direction (a column, a vector (D,), or one for each row). They have normal
            noise of a variance of their own, which is learned.
        slope_signs : (X, direction, sign), optional
            Where the function is known to rise (1) or to fall (-1) along a direction, as of a monotone function.
        input_sd : float, array (D,) or array (n, D), optional
            Standard errors of the training inputs. Predictions are at exact inputs.
        input_errors : {"slopes", "expected"}
            How they are taken into account, under any noise: "slopes" adds to each row the variance that the error of
            its input causes, by the slopes of the fit itself, in a few rounds; "expected" averages the kernel over the
            errors, in one fit, for sums of squared exponentials (`cavity.estimators.uncertain_inputs`).
        """
        self._check_options()
        if input_sd is not None:
            return cast(Self, fit_uncertain(self, X, y, sample_weight, input_sd, input_errors))
        time, blocks = Deadline(self.max_time), Blocks.of(X, y)
        if blocks is not None and not blocks.small:
            return self._fit_blocks(blocks, sample_weight, time)
        if blocks is not None:
            X, y = blocks.in_memory()
        data = self._data(X, y, sample_weight, slopes, slope_signs)
        rng, key = self._rng(), self._key(data)
        warm = self.warm_start and getattr(self, "_model_key", None) == key
        open_kind = self._is_open and not warm and not data.flat
        chosen = self._choose(data, rng, time) if open_kind else None
        model, rows = self._posed(data, chosen, warm)
        unlearned = with_level(model, rows) if data.flat and self.objective is not None else None
        learn_from = self._learner(rows, rng)
        if unlearned is not None:  # the likeliest model has no variance at all
            learned = learn_from(unlearned, None, objective=None)
        elif chosen is None:
            how = {"n_restarts": self.n_restarts, "given": self._given_parts(), "warm": warm}
            learned = learn_from(model, time.left, data_driven=self.standardize, **how)
        else:
            learned, self.choice_ = self._learned_choice(model, chosen, rows, learn_from, time)
            self.inflation_ = chosen.inflation
        if self._open_noise and not data.flat:
            learned = with_inflation(learned, rows, getattr(self, "inflation_", 1.0))
        if self.refine and learned.posterior.model.representation.approximates:
            learned = Learned(learned.search, learned.posterior.refine(max_time=time.left))
        self._model_key, self._form = key, "inputs" if data.sloped is None else "slopes"
        self._adopt(Member("", learned.search, learned.posterior, rows))
        found = warnings_of(learned.search, learned.posterior, rows.X, rows.y, self._checks_evidence)
        issue(found if unlearned is None else [NOTHING_TO_LEARN, *found])
        return self

    def _data(self, X: Any, y: Any, sample_weight: Any, slopes: Any, slope_signs: Any) -> FitData:
        """What is learned from, checked."""
        X, y = self._checked_data(X, y, reset=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = cast(Array, column_or_1d(y, warn=not self.__sklearn_tags__().target_tags.multi_output))
        weight = self._checked_weight(sample_weight, X)
        sloped = SlopeRows.of(X, y, slopes, slope_signs)
        if sloped is not None and self._is_open:
            raise InputError("needs a kernel and a likelihood that are given, not 'auto'", parameter="slopes")
        if self.noise_kernel is not None and (self._is_open or sloped is not None):
            other = (
                "observed slopes" if sloped is not None else "a kernel or noise that is to be chosen ('auto')"
            )
            raise InputError(f"is not for {other}", parameter="noise_kernel", value=self.noise_kernel)
        return FitData(X, y, weight, sloped)

    def _posed(self, data: FitData, chosen: Chosen | None, warm: bool) -> tuple[GP, TrainingRows]:
        """The model before learning, and the rows that it learns from."""
        model, X, y, weight = self._initial_model(data.X, data.y, chosen), data.X, data.y, data.weight
        if data.sloped is not None:
            model = data.sloped.model(model, self.inference)
            X, y, weight = data.sloped.after(X, y, weight)
        if warm:
            model = self.model_.with_likelihood(model.likelihood.with_flat(self.likelihood_.flat))
        rows = TrainingRows.of(X, y, weight, merge=self._may_merge(model))
        if rows.source is not None:
            model = model.with_likelihood(model.likelihood.rows(rows.source))
        if is_dense(model, rows.X, self._size, self.objective):
            copies = 1 if self.objective is None else effective_n_jobs(self.n_jobs or 1)
            require_memory(len(rows.X), self.objective or "evidence", min(copies, self.n_restarts + 1))
        return model, rows

    def _learner(self, rows: TrainingRows, rng: np.random.Generator) -> Callable[..., Learned]:
        """Learns a model from the rows, in the time that it is given."""
        options = {"size": self._size, "objective": self.objective, "rng": rng, "n_jobs": self.n_jobs}

        def learn_from(model: GP, max_time: float | None, **how: Any) -> Learned:
            # a fit reports for itself
            how = {**options, "max_time": max_time, "warn": False, **how}
            return learn_any_size(model, rows.X, rows.y, rows.weight, **how)

        return learn_from

    # --- the kind of model, if that is left open ------------------------------------------------------------

    @property
    def _is_open(self) -> bool:
        """Whether the kind of noise or the kernel is to be chosen."""
        return any(isinstance(part, str) and part == AUTO for part in (self.likelihood, self.kernel))

    @property
    def _open_noise(self) -> bool:
        return isinstance(self.likelihood, str) and self.likelihood == AUTO

    def _choose(self, data: FitData, rng: np.random.Generator, time: Deadline) -> Chosen:
        """The kind of model, from some of the rows."""
        X, y, weight = data.X, data.y, data.weight
        if y.ndim > 1 or self.objective is None:
            why = "several targets at once" if y.ndim > 1 else "objective=None"
            raise InputError(f"cannot be chosen for {why}", parameter="likelihood", value=AUTO)
        used = np.ones(len(y), dtype=bool) if weight is None else weight > 0
        open_kernel = self.kernel is None or (isinstance(self.kernel, str) and self.kernel == AUTO)
        kernel = None if open_kernel else self._bound(self._unbound_model(Gaussian(), "zero", "auto")).kernel
        return choose(
            X[used],
            y[used],
            None if weight is None else weight[used],
            self._screened,
            kernel=kernel,
            likelihood=None if self._open_noise else likelihood_for(self.likelihood, y),
            seasons=self._seasons(X.shape[1]),
            several=self.representation == "dense"
            or (self.representation == "auto" and len(y) <= DENSE_ROWS),
            rng=rng,
            time=Deadline(time.part(SHARE_OF_CHOICE)),
        )

    def _screened(self, kernel: Kernel, likelihood: Likelihood) -> GP:
        """A model to try on some of the rows."""
        model = GP(kernel, likelihood, self._mean_for(likelihood), "auto")
        return self._bound(model)

    def _mean_for(self, likelihood: Likelihood) -> Any:
        """The mean function of a likelihood; for several latent functions a mean for y, none for the noise level."""
        mean = self.mean
        if isinstance(mean, str) and likelihood.n_latent > 1:
            return [mean] + ["zero"] * (likelihood.n_latent - 1)
        if isinstance(likelihood, OrdinalProbit) and isinstance(mean, str) and mean == "constant":
            return "zero"  # thresholds have a level of their own
        return mean

    def _seasons(self, columns: int) -> list[Season]:
        """Cycles to look for, by column."""
        given = (
            getattr(self, "feature_names_in_", range(columns))
            if self.coding_ is None
            else self.coding_.features
        )
        names = [str(name) for name in given]
        found = []
        dates = None if self.coding_ is None else cycles(self.coding_.units)
        for column, periods in ((dates if self.seasons is None else self.seasons) or {}).items():
            where = names.index(column) if column in names else column
            if not isinstance(where, int) or not 0 <= where < columns:
                problem = f"names the column {column!r}, which X does not have"
                raise InputError(problem, parameter="seasons", value=self.seasons)
            listed = (
                periods.items()
                if isinstance(periods, Mapping)
                else [(str(p), p) for p in np.atleast_1d(periods)]
            )
            found += [Season(where, float(period), str(name)) for name, period in listed]
        return found

    def _learned_choice(
        self,
        model: GP,
        chosen: Chosen,
        rows: TrainingRows,
        learn_from: Callable[..., Learned],
        time: Deadline,
    ) -> tuple[Learned, Choice]:
        """The chosen model learned from all rows, from its values; and outliers, if the noise is open."""
        left = 0.0 if chosen.interrupted else time.left
        automatic = as_inference(self.inference, Gaussian()).name == "exact" and self.inference != "exact"
        may_change = self._open_noise and automatic and robust(model.likelihood) is not None
        clean = model if chosen.learned and chosen.set_aside else None
        from_data = clean is not None or not chosen.learned
        # what will be compared with robust noise is learned from one start first
        restarts = int(from_data and not (chosen.learned and may_change))
        learned = learn_from(model, left, n_restarts=restarts, data_driven=from_data)
        if chosen.interrupted:  # not that time was up, though no more was given
            learned = replace(learned, search=replace(learned.search, stopped=StopReason.INTERRUPTED))
        if not may_change:
            return learned, chosen.choice
        how = RobustLearning(learn_from, self.inference, self.n_restarts, clean)
        return with_outliers(learned, rows, chosen.choice, how, time)

    def _fit_blocks(self, blocks: Blocks, sample_weight: ArrayLike | None, time: Deadline) -> Self:
        """Learn from some rows and condition on all, in blocks; of the rows a part is kept."""
        if sample_weight is not None:
            raise InputError("is for rows in memory", parameter="sample_weight", value=sample_weight)
        rng = self._rng()
        index = sampled_rows(len(blocks.y), rng)
        some = blocks.named(blocks.source.take(index))
        X, y = self._checked_data(some, blocks.y[index], reset=True)
        targets = np.asarray(blocks.y, dtype=float)
        data = FitData(X, y)
        chosen = self._choose(data, rng, time) if self._is_open else None
        model = self._initial_model(X, y, chosen)
        if chosen is not None:
            self.choice_, self.inflation_ = chosen.choice, 1.0
        model.likelihood.check(targets)
        all_rows = TrainingRows(cast(Array, blocks.source), targets, None, np.arange(len(targets)))
        how = {"n_restarts": self.n_restarts, "given": self._given_parts()}
        driven = self.standardize and chosen is None
        learned = self._learner(all_rows, rng)(model, time.left, data_driven=driven, **how)
        posterior, rows = kept_rows(learned.posterior, X, y, index, len(targets))
        self._model_key, self._form = self._key(data), "inputs"
        self._adopt(Member("", learned.search, posterior, rows))
        issue(warnings_of(learned.search, posterior, X, y))
        return self

    def _targets_of(self, y: ArrayLike) -> Array:
        return np.asarray(y, dtype=float)

    def _checked_data(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[Array, Array]:
        require_numbers(y, "y")
        checked = checked_data(self, X, y, reset=reset, multi_output=True, y_numeric=True)
        return checked[0], np.asarray(checked[1], dtype=float)

    def _may_merge(self, model: GP) -> bool:
        """Whether equal rows may be one row with their total weight: not if something belongs to each row."""
        likelihood = model.likelihood
        by_row = likelihood.rows(np.arange(1)) is not likelihood
        exact = isinstance(likelihood, Noiseless)
        # chains give each row a noise variance of its own
        own_noise = model.inference.samples and is_robust(likelihood)
        several = likelihood.n_latent > 1
        return not (
            by_row
            or several
            or exact
            or own_noise
            or self.objective in ("loo", "gcv")
            or contains_white(model.kernel)
        )

    def _initial_model(self, X: Array, y: Array, chosen: Chosen | None) -> GP:
        """The model before learning."""
        if chosen is not None:
            model = chosen.model
            if self._open_noise and self.inference not in ("auto", "exact"):  # which is there for other noise
                model = model.with_likelihood(robust(model.likelihood) or model.likelihood)
            likelihood: Likelihood = model.likelihood
            kernel, mean = (list(p) if isinstance(p, PerLatent) else p for p in (model.kernel, model.mean))
            return self._bound(self._unbound_model(likelihood, mean, self.inference, kernel=kernel))
        if self._is_open and hasattr(self, "members_") and self.warm_start:  # it was chosen at the last fit
            return self.model_
        likelihood = Gaussian() if self._open_noise else likelihood_for(self.likelihood, y)
        mean = self._mean_for(likelihood)
        if y.ndim == 2 and isinstance(mean, str) and mean == "constant":
            mean = Basis("constant")
        if y.ndim == 2 and not isinstance(likelihood, GaussianNoise):
            raise ValueError(
                f"several targets at once need Gaussian noise, got likelihood={self.likelihood!r} and y of shape "
                f"{y.shape}; fit one model per target, for instance with sklearn.multioutput.MultiOutputRegressor"
            )
        likelihood.check(y)
        if not likelihood.discrete:
            require_usual_units(y)
        each = (
            [1.0 * SE(ard)] * likelihood.n_latent if self.kernel is None and likelihood.n_latent > 1 else None
        )
        return self._bound(self._unbound_model(likelihood, mean, self.inference, kernel=each))

    def _key(self, data: FitData) -> tuple[Any, ...]:
        """What tells the model from others: everything that was asked for, and the columns."""
        asked = repr((self.kernel, self.noise_kernel)), repr(self.likelihood), repr(self.mean)
        rule = self.inference if isinstance(self.inference, str) else type(self.inference).__name__
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        kinds = () if data.sloped is None else data.sloped.kinds
        shape = data.X.shape[1], names, data.y.shape[1:]
        known = (*asked, rule, repr(self.representation), self.n_inducing, *shape)
        return (*known, kinds) if kinds else known

    def _adopt(self, member: Member) -> None:
        self.members_ = [member]
        self.log_evidence_ = member.posterior.log_evidence
        self._cavities: Cavities | None = None

    # --- more data ------------------------------------------------------------------------------------------

    def update(self, X: ArrayLike, y: ArrayLike, noise_variance: ArrayLike | None = None) -> Self:
        """Condition on more data, keeping the hyperparameters: O(n^2 m) for m new rows.

        Under `KnownNoise` their noise variances must be given, a number or an array (m,). A model fitted to files or
        Dask data frames keeps inducing inputs alone: more rows cost O(m), and are not kept either, however many follow.
        """
        check_is_fitted(self, "members_")
        X, y = self._checked_data(X, y, reset=False)
        wanted = self.rows_.y.shape[1:]
        if y.shape[1:] not in (wanted, (*wanted, 1)):
            raise ValueError(f"y must have the columns of the fit, {wanted}, got {y.shape[1:]}")
        X = ROW_FORMS[self._form](X)
        kept = getattr(self.posterior_, "complete", True)
        rows = self.rows_.and_more(X, y.reshape(len(y), *wanted)) if kept else self.rows_
        if self.model_.representation.covariance_limit is None:
            require_memory(len(rows.X))
        posterior = self.posterior_.update(X, y.reshape(len(y), *wanted), noise_variance)
        self._adopt(replace(self.members_[0], posterior=posterior, rows=rows))
        return self
