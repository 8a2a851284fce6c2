"""What the estimators share: nested parameters by name, options of learning, checks of inputs.

Models are immutable values, so `set_params(kernel__se__lengthscale=2.0)` puts an updated kernel in place of
the old one instead of changing it.
"""

from __future__ import annotations

import numbers
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from cavity.estimators.inputs import checked_inputs
from cavity.estimators.members import Member
from cavity.estimators.row_sources import blockwise, kept_rows, sampled_rows
from cavity.frames.coding import Coding
from cavity.gp import GP
from cavity.kernels import SE, Kernel, ard
from cavity.kernels import parse as parse_kernel
from cavity.latent.neighbors import Neighbors
from cavity.learning import Run
from cavity.learning.large_data import LEARN_ROWS, Size, with_status
from cavity.likelihoods import Likelihood
from cavity.numerics.arrays import Array
from cavity.parameters.param import Parametrized
from cavity.posterior import Posterior
from cavity.rows.base import RowSource
from cavity.runtime.checks import generator, is_number
from cavity.runtime.errors import InputError
from cavity.runtime.storing import Storable

N_NEIGHBORS = 40
"""Default number of neighbors."""


class NestedParameters(BaseEstimator):  # type: ignore[misc]
    """get_params and set_params that reach into kernels, means and likelihoods by name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator and, if `deep`, those of its parts, e.g. `kernel__se__lengthscale`."""
        params = cast("dict[str, Any]", super().get_params(deep=False))
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, Parametrized):
                    params.update(
                        {f"{name}__{k.replace('.', '__')}": p.value for k, p in value._paths().items()}
                    )
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of parts by their path, e.g. `kernel__se__lengthscale=2.0`."""
        direct = {k: v for k, v in params.items() if "__" not in k}
        super().set_params(**direct)
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            if "__" in key:
                name, _, path = key.partition("__")
                nested.setdefault(name, {})[path.replace("__", ".")] = value
        for name, changes in nested.items():
            part = getattr(self, name, None)
            if not isinstance(part, Parametrized):
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                    f"{sorted(self.get_params(deep=False))!r}; {name}={part!r} has no parameters of its own."
                )
            setattr(self, name, part.update(changes))
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class GPEstimator(Storable, NestedParameters):
    """Options that every estimator has, and what is done with them. A subclass says what they mean to it."""

    kernel: Kernel | str | None = field(default=None, kw_only=False)
    mean: Any = "constant"
    likelihood: Any = "gaussian"
    inference: Any = "auto"
    objective: str | None = "evidence"
    n_restarts: int = 3
    random_state: Any = None
    n_jobs: int | None = None
    warm_start: bool = False
    max_time: float | None = None
    learn_rows: int | None = LEARN_ROWS
    representation: Any = "auto"
    n_inducing: Any = "auto"

    members_: list[Member] = field(init=False)
    """The fitted models: one or several."""

    coding_: Coding | None = field(init=False)
    """How the columns of a data frame became numbers; None if they were numbers."""

    _fewest_rows: ClassVar[int] = 1
    """Smallest `learn_rows` that makes sense."""

    _objectives: ClassVar[tuple[str | None, ...]] = ("evidence", None)

    _checks_evidence = True
    """Whether a fit ends with the check of EP's evidence."""

    def for_other_rows(self) -> Self:
        """A copy that will learn from the values of this one, for predictions of rows that are held out from it.

        It has no further starts, and does not check EP's evidence, which is not asked for.
        """
        other = copy(self).set_params(warm_start=True, n_restarts=0)
        other._checks_evidence = False
        return other

    def _check_options(self) -> None:
        """Refuse options that would otherwise show up as an error in the middle of something else."""
        if self.objective not in self._objectives:
            *most, last = map(repr, self._objectives)
            problem = f"must be {', '.join(most)} or {last}, got {self.objective!r}"
            raise InputError(problem, parameter="objective", value=self.objective)
        limits: tuple[tuple[str, int, str | None], ...] = (
            ("n_restarts", 0, ""),
            ("learn_rows", self._fewest_rows, None),
            ("n_inducing", 1, "auto"),
        )
        if hasattr(self, "n_neighbors"):
            limits = (*limits, ("n_neighbors", 1, ""))
        for name, least, also in limits:
            value = getattr(self, name)
            if (also != "" and value is also) or (isinstance(value, str) and value == also):
                continue
            if not is_number(value, numbers.Integral) or value < least:
                other = "" if also == "" else f" or {also!r}"
                problem = f"must be an integer >= {least}{other}, got {value!r}"
                raise InputError(problem, parameter=name, value=value)
        limit = self.max_time
        if limit is not None and not (is_number(limit, numbers.Real) and limit >= 0):
            problem = f"must be a number of seconds >= 0 or None, got {limit!r}"
            raise InputError(problem, parameter="max_time", value=limit)
        jobs = self.n_jobs
        if jobs is not None and not (is_number(jobs, numbers.Integral) and jobs != 0):
            problem = f"must be a number of workers, -1 for one on each core, or None, got {jobs!r}"
            raise InputError(problem, parameter="n_jobs", value=jobs)

    def _checked(self, X: ArrayLike) -> Array:
        """Inputs of a prediction, with the columns of the fit."""
        check_is_fitted(self, "members_")
        return checked_inputs(self, X, reset=False)

    def _targets_of(self, y: ArrayLike) -> Array:
        """Targets of the one model, for targets or labels of the estimator."""
        raise NotImplementedError  # subclasses know what their targets are

    def condition_on(self, X: RowSource, y: ArrayLike) -> Self:
        """Given all these rows, in blocks, at the hyperparameters that were learned; a part of the rows is kept.

        Parameters
        ----------
        X : RowSource (n, D)
            Rows of `cavity.rows`, with the columns of the fit.
        y : array (n,)
        """
        member, targets = self._only_member("condition_on"), self._targets_of(y)
        posterior = blockwise(member.model, X).condition(X, targets)
        index = sampled_rows(len(targets), self._rng())
        kept, rows = kept_rows(with_status(posterior, ()), X.take(index), targets[index], index, len(targets))
        self.members_ = [replace(member, posterior=kept, rows=rows)]
        self.log_evidence_ = kept.log_evidence
        self._cavities: Any = None
        return self

    @staticmethod
    def _checked_weight(sample_weight: ArrayLike | None, X: Array) -> Array | None:
        if sample_weight is None:
            return None
        return cast(Array, _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))

    def plot(self, X: ArrayLike | None = None, y: ArrayLike | None = None, **options: Any) -> Any:
        """Draw what says most about the fit: one input with bands, contours of two, slices or relevance of more.

        See `cavity.plots.plot`; returns the matplotlib axes.
        """
        from cavity.plots import plot

        check_is_fitted(self, "members_")
        return plot(self, X, y, **options)

    # --- what there is one of if the estimator is one model -------------------------------------------------

    def _only_member(self, attribute: str) -> Member:
        """The one fitted model, of which `attribute` is asked."""
        members = self.__dict__.get("members_")
        if members is None:
            raise AttributeError(f"this {type(self).__name__} has no {attribute} yet: call fit first")
        if len(members) > 1:
            raise AttributeError(
                f"this {type(self).__name__} is made of {len(members)} models, each with its own: use members_, as in "
                f"[member.{attribute.removesuffix('_')} for member in model.members_]"
            )
        return cast(Member, members[0])

    @property
    def posterior_(self) -> Posterior:
        """The posterior of the one model."""
        return self._only_member("posterior_").posterior

    @property
    def model_(self) -> GP:
        """The one model, with learned values."""
        return self._only_member("model_").model

    @property
    def kernel_(self) -> Kernel:
        """Its kernel."""
        return self._only_member("kernel_").kernel

    @property
    def mean_(self) -> Any:
        """Its mean function."""
        return self._only_member("mean_").mean

    @property
    def likelihood_(self) -> Likelihood:
        """Its likelihood."""
        return self._only_member("likelihood_").likelihood

    @property
    def runs_(self) -> tuple[Run, ...]:
        """Every run of the optimizer of its hyperparameters."""
        return self._only_member("runs_").runs

    def _rng(self) -> np.random.Generator:
        return generator(self.random_state)

    def _given_parts(self) -> list[str]:
        """Parts of the model whose values the user chose: any kernel, but not a mean or noise by name alone."""
        return [
            name
            for name, given in (
                ("kernel", self.kernel is not None or getattr(self, "noise_kernel", None) is not None),
                ("mean", not isinstance(self.mean, str)),
                ("likelihood", not isinstance(self.likelihood, str)),
            )
            if given
        ]

    def _unbound_model(
        self,
        likelihood: Likelihood,
        mean: Any,
        inference: Any,
        default: Kernel | None = None,
        *,
        kernel: Any = None,
    ) -> GP:
        """The model with this kernel, the one asked for, or the default one, before it meets data."""
        asked = self.kernel if kernel is None else kernel
        kernel = (default or 1.0 * SE(ard)) if asked is None or asked == "auto" else asked
        if isinstance(kernel, str):
            kernel = parse_kernel(kernel)
        known = isinstance(self.representation, str) and self.representation in ("auto", "inducing")
        # which of these is decided when the rows are known
        representation = "dense" if known else self.representation
        if isinstance(representation, str) and representation == "neighbors":
            representation = Neighbors(getattr(self, "n_neighbors", N_NEIGHBORS))
        noise = getattr(self, "noise_kernel", None)
        if isinstance(noise, str):
            noise = parse_kernel(noise)
        return GP(kernel, likelihood, mean, inference, representation, noise)

    @property
    def _size(self) -> Size:
        """What was asked of a fit that may be large."""
        return Size(self.representation, self.n_inducing, self.learn_rows)

    def _bound(self, model: GP) -> GP:
        """The model made definite for the columns of the fit."""
        if self.coding_ is not None:
            return model.bind(len(self.coding_.features), self.coding_.features)
        names = getattr(self, "feature_names_in_", None)
        return model.bind(self.n_features_in_, None if names is None else [str(n) for n in names])
