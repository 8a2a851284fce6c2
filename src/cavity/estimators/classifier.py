"""`GPClassifier`: Gaussian process classification with scikit-learn's contract."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from cavity.estimators.base import GPEstimator
from cavity.estimators.decisions import (
    ErrorRejectCurve,
    check_loss,
    check_reject,
    decide,
    error_reject_curve,
    with_rejects,
)
from cavity.estimators.fit_warnings import issue, warnings_of
from cavity.estimators.inputs import checked_data
from cavity.estimators.members import Member
from cavity.estimators.multiclass import (
    STRATEGIES,
    Binary,
    OneModel,
    OneVsRest,
    Strategy,
    fit_member,
)
from cavity.gp import GP
from cavity.kernels import SE, Kernel, ard
from cavity.learning.choice.automatic import Chosen, choose_kernel_of_classes
from cavity.learning.large_data import is_dense
from cavity.learning.signal_prior import with_signal_prior
from cavity.learning.starts import Starts
from cavity.likelihoods import LeastSquares, Likelihood, as_likelihood
from cavity.numerics.arrays import Array
from cavity.numerics.memory import require_memory
from cavity.prediction import CategoricalPrediction, GaussianPrediction
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import InputError, InPython
from cavity.runtime.interrupts import Interrupts
from cavity.runtime.stop_reason import StopReason

Indices = NDArray[np.intp]

AUTO = "auto"
"""For a kernel that is to be chosen."""

SHARE_OF_CHOICE = 1 / 3
"""Of the time that is given, for choosing it."""


WIDE, COMPARABLE = 20, 100.0
"""Columns beyond which one length scale serves all of them, if their ranges differ by less than this factor.

Labels say too little about each of many length scales: on Sonar and Ionosphere (60 and 33 columns, 130 rows) learning
them all takes five times as long and has 1.3 to 1.4 times the log loss, on digits (64 columns, 500 rows) 14 times as
long and 1.15 times the log loss.
"""


def default_kernel(X: Array) -> Kernel:
    """A length scale for each column, or one for all of many columns of comparable ranges."""
    extent = np.ptp(X, axis=0)
    extent = extent[extent > 0]
    one = X.shape[1] > WIDE and extent.size > 0 and extent.max() < COMPARABLE * extent.min()
    return 1.0 * SE(1.0) if one else 1.0 * SE(ard)


@dataclass(eq=False, repr=False, kw_only=True)
class GPClassifier(ClassifierMixin, GPEstimator):  # type: ignore[misc]
    """Gaussian process classification, of two or more classes.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Covariance function of the latent functions, or its text. By default `1.0 * SE(ard)`, or `1.0 * SE(1.0)` for
        more than 20 columns of comparable ranges: labels say too little about a length scale for each. Its values are
        one of the starting points of learning, and its priors, bounds and fixed flags are respected. "auto" chooses
        one by how well rows that were left out are predicted: see `choice_`.
    likelihood : {"probit", "logit", "lapse-probit"} or Likelihood
        How latent values become probabilities of two classes, or of a class and the others; "lapse-probit" allows for
        wrong labels.
    inference : {"ep", "laplace", "variational", "mcmc", "auto"} or an inference rule
        How the posterior is approximated. EP is the accurate one.
    mean : Mean or {"zero", "constant", "linear"}
        Prior mean of the latent functions. With "zero" all classes are equally likely far away from the data; with
        "constant" the probabilities there are learned.
    objective : {"evidence"} or None
        What hyperparameters maximize, plus the log prior of those parameters that have one. None keeps all values
        as given.
    n_restarts : int
        Most runs of the optimizer beside the first, data-driven one; runs that agree end the search.
    multi_class : {"auto", "one_vs_rest", "softmax", "one_vs_one"}
        How more than two classes are handled. "one_vs_rest", which "auto" chooses: one model with a latent function
        for each class, which tells it from all others. "softmax": the functions are coupled by the softmax, whatever
        `likelihood`, with Laplace's method in place of EP; "mcmc" samples it, other rules are refused. "one_vs_one": a
        model for each pair of classes, with a kernel of its own, whose probabilities are combined.
    class_weight : dict or "balanced", optional
        Weights of classes, which multiply those of rows; "balanced" makes the classes' total weights equal.
    signal_prior : {"weak"}, Prior or None
        Prior of each free kernel factor (`variance * k`) to which the kernel gives none. Labels hardly tell large
        signals apart, and an optimizer of the evidence alone can run away; "weak" is flat below a signal standard
        deviation of 20 and falls beyond it, by 4.4 nats at 60. It never enters `log_evidence_`. None means no
        prior.
    random_state : int, Generator or RandomState, optional
    n_jobs : int, optional
        Processes: for the models of one_vs_one, else for the runs of the optimizer.
    warm_start : bool
        Start learning from the values of the last fit, if that was of the same model.
    max_time : float, optional
        Seconds after which learning returns the best so far, for all models of one_vs_one together; one evaluation of
        each is always made. Under "mcmc" as of `GPRegressor`.
    learn_rows : int, optional
        Rows that hyperparameters are learned from, at most, the same share of each class; the model is then
        conditioned on all. None for all rows.
    representation : {"auto", "dense", "inducing", "latent_neighbors", "markov"} or Representation
        How the process is held: exactly ("dense"), by its values at inducing inputs, in time proportional to the number
        of rows ("inducing", `cavity.Inducing`), by each value's nearest ones in up to 3 columns ("latent_neighbors",
        `cavity.LatentNeighbors`), or exactly for some kernels of one input ("markov"). "auto" is exact up
        to 3000 rows and decides by the data above (docs/guides/large_data.md).
    n_inducing : int or "auto"
        Number of inducing inputs. They are chosen by k-means; exact inference learns them as well. "auto" doubles their
        number from 250 to at most 1000 while that pays.

    Attributes
    ----------
    classes_ : array (C,)
    choice_ : Choice
        What "auto" chose, why, and what else was tried.
    members_ : list of Member
        The fitted models: one, or under one_vs_one several, in the order of `problems_`. Each has
        `name`, `model`, `kernel`, `mean`, `likelihood`, `posterior` and `runs`.
    kernel_, likelihood_, mean_, model_, posterior_, runs_
        Those of the one member. An AttributeError names `members_` if there are several.
    log_evidence_ : float
        Log probability of the labels; of one_vs_one the sum over the models.
    multi_class_ : {"binary", "one_vs_rest", "softmax", "one_vs_one"}
        What was used.
    problems_ : tuple of str
        What each model tells apart, if there are several.
    coding_ : Coding or None
        As of `GPRegressor`: how the columns of a data frame became numbers.
    n_features_in_, feature_names_in_
        Of X as it was given.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPClassifier
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.where(np.sin(x.ravel()) > 0, "up", "down")
    >>> model = GPClassifier(random_state=0).fit(x, y)
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['up', 'down']
    >>> model.predict([[1.5], [3.14]], reject=0.1).tolist()
    ['up', None]
    """

    _fewest_rows = 2

    likelihood: Any = "probit"
    inference: Any = "ep"
    mean: Any = "zero"
    n_restarts: int = 1
    multi_class: str = "auto"
    class_weight: Any = None
    signal_prior: Any = "weak"

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn hyperparameters and condition on the data.

        Parameters
        ----------
        X : array or DataFrame (n, D)
            A data frame may hold text, categories, dates and missing values, as of `GPRegressor`.
        y : array (n,)
            Labels: numbers or text.
        sample_weight : array (n,), optional
            Power of each row's likelihood factor: a row of weight 2 counts as two rows. Rows of weight zero are left
            out before anything else.
        """
        self._check_options()
        time = Deadline(self.max_time)
        data, labels, weight = self._checked_data(X, y, sample_weight)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"GPClassifier needs rows of at least two classes, got one class: {self.classes_.tolist()}"
            )
        weight = self._with_class_weight(codes, weight)
        rng = self._rng()
        strategy = self._strategy()
        self._adopt(strategy, self._fit_members(strategy, data, codes, weight, rng, time))
        for member in self.members_:
            issue(warnings_of(member.search, member.posterior, member.rows.X), member.name)
        return self

    def _checked_data(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Array, NDArray[Any], Array | None]:
        """Inputs, labels and weights of the rows whose weight is not zero."""
        data, labels = checked_data(self, X, y, reset=True)
        check_classification_targets(labels)
        weight = self._checked_weight(sample_weight, data)
        if weight is None:
            return data, labels, None
        used = weight > 0
        return data[used], labels[used], weight[used]

    def _targets_of(self, y: ArrayLike) -> Array:
        labels = np.asarray(y)
        codes = np.searchsorted(self.classes_, labels)
        codes = np.minimum(codes, len(self.classes_) - 1)
        wrong = self.classes_[codes] != labels
        if wrong.any():
            label = labels[wrong].tolist()[0]
            raise InputError(
                f"has the label {label!r}, which is not a class of the fit: {self.classes_.tolist()}",
                parameter="y",
                row=int(np.flatnonzero(wrong)[0]),
            )
        return self._strategy_.problems(codes, self.classes_)[0].targets

    def _check_options(self) -> None:
        """Refuse options that would otherwise show up as an error in the middle of something else."""
        super()._check_options()
        if self.multi_class not in ("auto", *STRATEGIES):
            names = ", ".join(map(repr, ("auto", *STRATEGIES)))
            raise ValueError(f"multi_class must be one of {names}, got {self.multi_class!r}")
        prior = self.signal_prior
        known = prior == "weak" if isinstance(prior, str) else prior is None or hasattr(prior, "log_density")
        if not known:
            raise ValueError(f"signal_prior must be 'weak', a prior or None, got {prior!r}")

    def _with_class_weight(self, codes: Indices, weight: Array | None) -> Array | None:
        """Weights of rows times those of their classes."""
        given = self.class_weight
        if given is None:
            return weight
        own = np.ones(len(codes)) if weight is None else weight
        C = len(self.classes_)
        if isinstance(given, str) and given == "balanced":
            total = np.bincount(codes, weights=own, minlength=C)
            by_class = total.sum() / (C * total)
        elif isinstance(given, dict):
            unknown = [label for label in given if label not in self.classes_]
            if unknown:
                raise ValueError(
                    f"class_weight names {unknown[0]!r}, which is not a class of y: {self.classes_.tolist()}"
                )
            listed = [given.get(label, 1.0) for label in self.classes_]
            if not all(isinstance(w, numbers.Real) and 0 < float(w) < np.inf for w in listed):
                raise ValueError(f"class_weight must hold positive numbers, got {given!r}")
            by_class = np.array(listed, dtype=float)
        else:
            raise ValueError(f"class_weight must be 'balanced', a dict or None, got {given!r}")
        return cast(Array, own * by_class[codes])

    def _strategy(self) -> Strategy:
        if len(self.classes_) == 2:
            return Binary()
        if self.multi_class != "auto":
            return STRATEGIES[self.multi_class]()
        return OneVsRest()

    @property
    def _is_open(self) -> bool:
        """Whether the kernel is to be chosen."""
        return isinstance(self.kernel, str) and self.kernel == AUTO

    def _choose(
        self,
        strategy: Strategy,
        X: Array,
        targets: Array,
        weight: Array | None,
        codes: Indices,
        rng: np.random.Generator,
        time: Deadline,
    ) -> Chosen | None:
        """The kernel of the first problem."""
        limit = Deadline(time.part(SHARE_OF_CHOICE))

        def build(kernel: Kernel) -> GP:
            return self._model(strategy, X, targets, kernel)

        return choose_kernel_of_classes(X, targets, weight, build, codes, rng=rng, time=limit)

    def _model(self, strategy: Strategy, X: Array, targets: Array, kernel: Kernel | None = None) -> GP:
        """The model before learning, bound to the columns of the data; `targets` are those of its first problem."""
        if kernel is None and self._is_open:
            kernel = default_kernel(X)
        likelihood, mean, rule = self._observation_model(), self.mean, self.inference
        regression = isinstance(likelihood, LeastSquares)
        if regression and isinstance(rule, str) and rule in ("auto", "ep"):
            rule = "least-squares"
        if isinstance(strategy, OneModel):
            likelihood, rule = strategy.likelihood(likelihood, len(self.classes_)), strategy.rule(rule)
            mean = None if isinstance(mean, str) and mean == "zero" else [mean] * likelihood.n_latent
        model = self._bound(self._unbound_model(likelihood, mean, rule, default_kernel(X), kernel=kernel))
        if self.signal_prior is None or regression:
            return model
        prior = None if isinstance(self.signal_prior, str) else self.signal_prior
        typical = model.replace(Starts.of(model, X, targets).first).kernel
        kernel = with_signal_prior(model.kernel, X, prior, typical)
        return model._rebuild({}, (kernel, model.mean, model.likelihood, model.representation))

    def _observation_model(self) -> Likelihood:
        likelihood = as_likelihood(self.likelihood)
        if not likelihood.discrete or likelihood.n_latent > 1:
            raise InputError(
                f"must be one of labels -1 and +1 ('probit', 'logit', 'lapse-probit'), got {self.likelihood!r}",
                parameter="likelihood",
                value=self.likelihood,
                remedy=[InPython("multi_class='softmax' chooses the softmax for more than two classes")],
            )
        likelihood.check(np.array([-1.0, 1.0]))
        return likelihood

    def _fit_members(
        self,
        strategy: Strategy,
        X: Array,
        codes: Indices,
        weight: Array | None,
        rng: np.random.Generator,
        time: Deadline,
    ) -> list[Member]:
        problems = strategy.problems(codes, self.classes_)
        first = X[problems[0].rows], problems[0].targets
        model = self._model(strategy, *first)
        key = self._key(model, strategy)
        warm = self.warm_start and getattr(self, "_model_key", None) == key
        chosen = None
        if self._is_open and not warm:
            own = None if weight is None else weight[problems[0].rows]
            chosen = self._choose(strategy, *first, own, codes[problems[0].rows], rng, time)
        if chosen is not None:
            model, self.choice_ = self._model(strategy, *first, chosen.model.kernel), chosen.choice
        models = [m.search.model for m in self.members_] if warm else [model] * len(problems)
        jobs = effective_n_jobs(self.n_jobs or 1)
        copies = min(jobs, len(problems) if strategy.several else self.n_restarts + 1)
        self._require_memory(model, X, max(len(p.rows) for p in problems), copies)
        options = {
            "size": self._size,
            "n_restarts": self.n_restarts if chosen is None else 0,
            "given": self._given_parts() if chosen is None else (),
            "data_driven": chosen is None,
            "warm": warm,
            "n_jobs": None if strategy.several else self.n_jobs,
        }
        tasks = zip(models, problems, rng.spawn(len(problems)))
        arguments = [(m, p, X, weight, self.objective, r, options) for m, p, r in tasks]
        interrupted = chosen is not None and chosen.interrupted
        if interrupted or not strategy.several or self.n_jobs in (None, 1):
            members = _one_after_another(arguments, time, interrupted)
        else:
            share = self._time_for_one(len(problems), jobs)
            members = Parallel(n_jobs=self.n_jobs)(
                delayed(fit_member)(*one, max_time=share) for one in arguments
            )
        self._model_key = key
        return members

    def _key(self, model: GP, strategy: Strategy) -> tuple[Any, ...]:
        """What tells the model from others: everything that was asked for, and the classes."""
        asked = (
            AUTO if self._is_open else repr(model),
            repr(self.representation),
            type(model.inference).__name__,
        )
        return (*asked, model._names, strategy.name, tuple(self.classes_.tolist()))

    def _require_memory(self, model: GP, X: Array, most: int, copies: int) -> None:
        """For so many fits at a time, each of so many rows at most."""
        if is_dense(model, X[: most + 1], self._size, self.objective):
            require_memory(most, "evidence", copies * model.likelihood.n_latent)

    def _time_for_one(self, count: int, at_once: int) -> float | None:
        """Share of `max_time` for each of several models, so many of them at once."""
        if self.max_time is None or count == 1:
            return self.max_time
        return float(self.max_time) * min(at_once, count) / count

    def _adopt(self, strategy: Strategy, members: list[Member]) -> None:
        self._strategy_, self.members_ = strategy, members
        self.multi_class_ = strategy.name
        self.problems_ = tuple(member.name for member in members)
        self.log_evidence_ = float(sum(member.posterior.log_evidence for member in members))

    # --- prediction -----------------------------------------------------------------------------------------

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Log probabilities of the classes, shape (m, C), small ones accurate too."""
        return self._log_proba(self._checked(X))

    def _log_proba(self, X: Array) -> Array:
        """The same for inputs as the model has them."""
        members = [member.log_probabilities(X) for member in self.members_]
        return self._strategy_.combine(members, len(self.classes_))

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes, shape (m, C), in the order of `classes_`.

        They are averaged over the posterior of the latent functions, not taken at its mean: uncertainty about
        the function moves them towards each other, and far away from the data they tend to those of the prior.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(
        self,
        X: ArrayLike,
        *,
        reject: float | None = None,
        loss: ArrayLike | None = None,
        reject_label: Any = None,
    ) -> NDArray[Any]:
        """Classes, or decisions of smallest expected loss.

        Parameters
        ----------
        X : array (m, D)
        reject : float, optional
            What declining to decide costs, where a wrong decision costs 1 (or as `loss` says). Cases in which
            every decision has a larger expected loss are declined: with `reject=0.1` those in which the most
            probable class has a probability below 0.9.
        loss : array (C, C), optional
            loss[c, d] of deciding for class d where c is true, in the order of `classes_`; 0/1 loss by default.
        reject_label
            What declined cases get; None by default, in an array of objects, since any number or text might be
            a class.

        Returns
        -------
        array (m,)
        """
        log_p = self.predict_log_proba(X)
        if loss is None:
            choice = np.argmax(log_p, axis=1)
            expected = -np.expm1(np.take_along_axis(log_p, choice[:, None], axis=1)[:, 0])
        else:
            choice, expected = decide(np.exp(log_p), check_loss(loss, len(self.classes_)))
        labels = np.asarray(self.classes_[choice])
        if reject is None:
            return labels
        return with_rejects(labels, expected > check_reject(reject), reject_label)

    def decision_function(self, X: ArrayLike) -> Array:
        """A score that rises with the probability of a class.

        For two classes the log odds of the second, shape (m,), positive where it is predicted; for more the log
        probability of each, shape (m, C). Unlike the latent mean (see `predict_latent`) they order cases as
        `predict_proba` does, because they take the uncertainty of the latent functions into account.
        """
        log_p = self.predict_log_proba(X)
        return log_p[:, 1] - log_p[:, 0] if len(self.classes_) == 2 else log_p

    def predict_dist(self, X: ArrayLike) -> CategoricalPrediction:
        """Distribution of the label at each row: the classes as 0, 1, ..., their places in `classes_`.

        Its `probabilities` are those of `predict_proba`; `predict_latent` is that of the latent functions.
        """
        log_p = self.predict_log_proba(X)
        return CategoricalPrediction(np.exp(log_p), np.arange(len(self.classes_)), log_p)

    def predict_latent(self, X: ArrayLike) -> GaussianPrediction:
        """Mean and variance of the latent functions f.

        One for two classes, shape (m,); one column for each class under "one_vs_rest" and "softmax", for each pair
        under "one_vs_one", in the order of `problems_`.
        """
        X = self._checked(X)
        parts = [member.posterior.predict_f(X) for member in self.members_]
        if not self._strategy_.several:
            return parts[0]
        columns = [np.column_stack([getattr(part, what) for part in parts]) for what in ("mean", "variance")]
        return GaussianPrediction(*columns)

    def error_reject_curve(self, X: ArrayLike, y: ArrayLike) -> ErrorRejectCurve:
        """Error rate on test data against the share of cases declined, as the threshold on certainty rises."""
        probabilities = self.predict_proba(X)
        labels = np.asarray(y)
        codes = np.clip(np.searchsorted(self.classes_, labels), 0, len(self.classes_) - 1)
        codes = np.where(self.classes_[codes] == labels, codes, -1)  # a class never seen is always wrong
        if labels.shape != (len(probabilities),):
            raise ValueError(f"y must have shape ({len(probabilities)},), got {labels.shape}")
        return error_reject_curve(probabilities, codes)


def _one_after_another(
    arguments: Sequence[tuple[Any, ...]], time: Deadline, interrupted: bool = False
) -> list[Member]:
    """Members fitted in turn, each in an equal part of the time that is left.

    After Ctrl-C the others remain where their learning starts. Chains cannot: without draws of each there is nothing.
    """
    members: list[Member] = []
    if interrupted and arguments[0][0].inference.samples:
        raise KeyboardInterrupt
    for place, one in enumerate(arguments):
        left = time.left
        seconds = 0.0 if interrupted else None if left is None else left / (len(arguments) - place)
        with (
            Interrupts() as pressed
        ):  # also where that waited until draws were kept, and nothing was cut short
            member = fit_member(*one, max_time=seconds)
        if interrupted:
            member = replace(member, search=replace(member.search, stopped=StopReason.INTERRUPTED))
        interrupted = interrupted or pressed.interrupted or member.interrupted
        members.append(member)
        if interrupted and member.posterior.model.inference.samples and len(members) < len(arguments):
            raise KeyboardInterrupt
    return members
