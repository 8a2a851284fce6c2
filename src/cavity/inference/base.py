"""What every inference rule answers: a Gaussian posterior, the log evidence with its gradient, and an honest status.

A rule chooses Gaussian sites in the place of likelihood factors. It speaks to the prior in the latent protocol
(`cavity.latent.base`) alone and knows no representation, and is given the data as `Observations`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.runtime.errors import Described, InputError, Text

if TYPE_CHECKING:
    from cavity.inference.exact_scale import UnknownScale
    from cavity.latent.base import Inputs, LatentPrior, PriorGradient, Process
    from cavity.latent.integrated_basis import ConditionedWithTrend
    from cavity.latent.prior_times_sites import Conditioned
    from cavity.latent.sites import Sites
    from cavity.likelihoods.base import Likelihood
    from cavity.prediction import Prediction


class ConvergenceWarning(Described, UserWarning):
    """An approximation or an optimization stopped before it met its own criterion."""


class InferenceFailedError(Described, np.linalg.LinAlgError):
    """An evaluation of the evidence that cannot be used by an optimizer; the message says why.

    Attributes
    ----------
    reached : float or None
        The part of the way from the run's best evaluation up to which its solution could be followed, if it is known.
    """

    def __init__(self, problem: Text, reached: float | None = None, *, remedy: Text = ()) -> None:
        super().__init__(problem, remedy=remedy)
        self.reached = reached


class UnsupportedPairError(InputError):
    """An inference rule was asked to handle a likelihood or a representation it cannot."""


class Stage(StrEnum):
    """Which algorithm found a result. Accuracy differs by stage."""

    EXACT = "exact"
    LEAST_SQUARES = "least squares"
    NEWTON = "newton"
    IRLS_NEWTON = "irls+newton"
    EP = "ep"
    EP_NEWTON = "ep by newton"
    EP_CONTINUATION = "ep by continuation"
    POWER_EP = "power ep"
    SEQUENTIAL_EP = "sequential ep"
    ADF = "adf"
    VARIATIONAL = "variational"
    SCALE_MIXTURE_EM = "scale-mixture EM"
    SAMPLING = "mcmc"


@dataclass(frozen=True)
class Status:
    """How an inference rule ended.

    Attributes
    ----------
    converged : bool
        Whether the rule's own criterion holds for what is returned.
    stage : Stage
        Which algorithm found the result.
    iterations : int
    residual : float
        The criterion's value: for EP the largest mismatch of moments, for Laplace the norm of the Newton
        step.
    jitter : float
        What was added to the diagonal of the factorized matrix; 0 nearly always.
    message : str
        Anything a user should know, in a sentence.
    extended : bool
        Whether some cavities of EP are improper.
    detail : str
        The method, of rules that have several.
    approximation_gap : float
        Nats a row by which the evidence may be off because of how the process is represented; nan if it is not known.
    gap_kind : {"exact", "certified", "sampled", "window", "none"}
        What the gap is: nothing is lost; a bound; an estimate of the bound from some rows; the difference on
        consecutive rows; not known.
    lost_information : float
        Share of the precision of sites that inducing inputs cannot carry; 0 if nothing is lost.
    trials : tuple of (str, float)
        Representations that were tried on some rows, with their mean log density of other rows.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> status = GP(1.0 * SE(1.0), Probit(), inference="laplace").condition([[0.0], [1.0]], [1, -1]).status
    >>> status.converged, status.stage.value
    (True, 'newton')
    """

    converged: bool = True
    stage: Stage = Stage.EXACT
    iterations: int = 0
    residual: float = 0.0
    jitter: float = 0.0
    message: str = ""
    extended: bool = False
    detail: str = ""
    approximation_gap: float = 0.0
    gap_kind: str = "exact"
    lost_information: float = 0.0
    trials: tuple[tuple[str, float], ...] = ()

    @property
    def label(self) -> str:
        """The stage in words, with what else there is to say of it."""
        return (
            f"{self.stage}{f' ({self.detail})' if self.detail else ''}{', extended' if self.extended else ''}"
        )


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Checked data of one fit.

    Attributes
    ----------
    X : array (n, D)
        Or rows in blocks (`cavity.rows.RowSource`), which have its length and shape.
    y : array (n,) or (n, T)
    weight : array (n,) or None
    inputs : Inputs
        X, with memory that successive evaluations on it share.
    """

    X: Array
    y: Array
    weight: Array | None
    inputs: Inputs

    def under(self, likelihood: Likelihood) -> Observations:
        """The targets as observations under a likelihood."""
        return Observations(likelihood, self.y, self.weight)


@dataclass(frozen=True)
class Gradient:
    """Derivatives of a scalar in the natural (flat) values of the parts of a model.

    `mean_values` are those in the values of the prior mean at the training rows, not a part of `flat`.
    """

    kernel: Array
    mean: Array
    likelihood: Array
    representation: Array = field(default_factory=lambda: np.zeros(0))
    mean_values: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, prior: Any, pulled: PriorGradient, d_mean: Array, d_likelihood: Array) -> Gradient:
        """From derivatives in the prior, in the values of its mean at the training rows, and in the likelihood."""
        return cls(pulled.kernel, prior.pull_mean(d_mean), d_likelihood, pulled.representation, d_mean)

    @classmethod
    def at_fixed_sites(cls, q: Conditioned, d_likelihood: Array) -> Gradient:
        """Of a log evidence that is stationary in the sites: that of the log normalizer of q."""
        pulled = q.pull(1.0)
        return cls.of(q.prior, pulled.prior, pulled.mean_values, d_likelihood)

    @property
    def flat(self) -> Array:
        """All of them, in the order of `GP.flat`."""
        return np.concatenate([self.kernel, self.mean, self.likelihood, self.representation])


class Evidence(NamedTuple):
    """One evaluation of the log evidence.

    Attributes
    ----------
    value : float
    gradient : Gradient
    warm : object
        What the rule wants to be given at the next evaluation near by; of the rule's own type, None if nothing.
    """

    value: float
    gradient: Gradient
    warm: Any = None


@dataclass(frozen=True)
class Approximation:
    """A Gaussian posterior process with its log evidence.

    Attributes
    ----------
    process : Process
    log_evidence : float
    status : Status
    q : Conditioned or ConditionedWithTrend or None
        The Gaussian at the training inputs; the latter has basis functions integrated out, and no sites. None if there
        are several targets or latent functions, or observations without noise.
    scale : UnknownScale or None
        What integrating over the overall scale makes of Gaussian predictions, under "exact-scale".

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> approximation = GP(1.0 * SE(1.0), Probit()).condition([[0.0], [1.0]], [1, -1]).approximation
    >>> len(approximation.sites), round(approximation.log_evidence, 2)
    (2, -1.6)
    """

    process: Process
    log_evidence: float
    status: Status = field(default_factory=Status)
    q: Conditioned | ConditionedWithTrend | None = None
    scale: UnknownScale | None = None

    @property
    def sites(self) -> Sites | None:
        """The sites of q; None for exact inference, where the likelihood is itself Gaussian."""
        from cavity.latent.prior_times_sites import Conditioned

        exact = self.status.stage is Stage.EXACT
        return self.q.sites if isinstance(self.q, Conditioned) and not exact else None


class InferenceRule(ABC):
    """Chooses sites for a prior and a likelihood.

    Attributes
    ----------
    name : str
    samples : bool
        Whether the rule draws from the posterior instead (`cavity.sampling`).
    integrates_basis : bool
        Whether it integrates out basis functions with vague weights.
    all_functions : bool
        Whether it treats functions that the likelihood keeps apart together, not one after the other.
    """

    name: str
    samples = False
    integrates_basis = False
    all_functions = False

    @abstractmethod
    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the rule can handle the likelihood at all."""

    def refuse_basis(self, prior: Any) -> None:
        """Basis functions with weights to be integrated out are not for rules that do not."""
        from cavity.means.basis import Basis
        from cavity.parameters.per_latent import PerLatent

        means = prior.mean_function
        if any(isinstance(m, Basis) for m in (means if isinstance(means, PerLatent) else [means])):
            raise UnsupportedPairError(
                f"basis functions whose weights are integrated out need exact inference; with inference={self.name!r} "
                "use a mean function with parameters ('constant', 'linear') or add a Linear kernel"
            )

    def refuse_several_targets(self, observations: Observations) -> None:
        """Rules that find sites take one target."""
        if observations.y.ndim != 1:
            raise UnsupportedPairError(
                f"inference={self.name!r} handles one target at a time, got y of shape {observations.y.shape}; fit a "
                "model per column"
            )

    @abstractmethod
    def infer(self, prior: LatentPrior, observations: Observations, warm: Any = None) -> Approximation:
        """The posterior process; that of the solution which `warm` remembers, if it can be found again."""

    @abstractmethod
    def evidence(self, prior: LatentPrior, observations: Observations, warm: Any = None) -> Evidence:
        """Log evidence and gradient, for learning.

        Raises
        ------
        InferenceFailedError
            If the value would not be comparable with the last one: no convergence, another branch, another stage.
        """

    @abstractmethod
    def leave_one_out(self, prior: LatentPrior, observations: Observations) -> Prediction:
        """Distribution of each target given the others, at the same hyperparameters."""

    def leave_one_out_log_prob(
        self, prior: LatentPrior, observations: Observations, averaged: bool = False
    ) -> tuple[float, Gradient]:
        """Sum of leave-one-out log densities and its gradient; only exact inference has it.

        `averaged` gives every row the mean leave-one-out precision: generalized cross-validation.
        """
        raise UnsupportedPairError(
            f"leave-one-out learning needs exact inference (Gaussian noise); with inference={self.name!r} use "
            "objective='evidence'"
        )

    @abstractmethod
    def degrees_of_freedom(self, prior: LatentPrior, observations: Observations) -> float:
        """Effective number of parameters of the fit."""

    def for_search(self) -> InferenceRule:
        """The rule to the few digits that tell starts of an optimizer apart, if that is cheaper."""
        return self

    def step_limit(self, likelihood: Likelihood) -> float:
        """Longest step of an optimizer, in unit steps of a parameter, after which a solution can still be followed."""
        return np.inf


def cavities_by_refit(rule: InferenceRule, q: Conditioned, observations: Observations) -> tuple[Array, Array]:
    """Mean and variance of each f_i without its own site, each (n,).

    Negative sites elsewhere can leave nothing proper behind; such a point is left out in earnest, by a new fit.
    """
    mean, var = q.cavities()
    for i in np.flatnonzero(np.isnan(var)):
        mean[i], var[i] = refit_without(rule, q.prior, observations, int(i))
    return mean, var


def refit_without(
    rule: InferenceRule, prior: Any, observations: Observations, i: int, share: float = 1.0
) -> tuple[Any, Any]:
    """Mean and variance of f_i from a fit without row i, or without this share of its weight.

    Numbers, or arrays (L,) and (L, L) for several latent functions.
    """
    weight = observations.weights.copy()
    weight[i] *= 1.0 - share
    keep = np.flatnonzero(weight > 0)
    if keep.size == 0:
        return prior.mean[i], prior.diagonal[i]
    others = observations.rows(keep)
    if share < 1.0:
        others = replace(others, weight=weight[keep])
    process: Any = rule.infer(prior.rows(keep), others).process
    at = prior.X[i : i + 1]
    return process.mean(at)[0], process.blocks(at)[0] if prior.n_latent > 1 else process.variance(at)[0]
