"""The latent protocol: what an inference rule may ask of a Gaussian process at the training inputs.

Almost every approximate inference rule replaces the likelihood factors by Gaussian sites
exp(nu_i f_i - tau_i f_i^2 / 2). A rule chooses sites; a *representation* (dense, inducing inputs, Markov, ...) answers
what they imply. Neither knows the other. Three objects carry the conversation:

    Representation   the choice, a part of the model; it may have parameters of its own, learned like any other
    LatentPrior      f ~ N(m, K) at n training inputs, at given hyperparameters; K is never handed out
    Conditioning     what follows from the precisions T = diag(tau) of the sites alone

With R = (K + T^-1)^-1 and Sigma = (K^-1 + T)^-1 = K - K R K. The Gaussian itself, `Conditioned`, needs
nothing else and is the same class for every representation. Derivatives are pulled back: a cotangent of a result
goes in, cotangents of what it was made of come out.

What only some representations can do is declared by their `capabilities`; asking for anything else raises
`CapabilityError`, which names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Kernel
from cavity.latent.sites import Sites
from cavity.means.functions import Constant, Mean, Zero
from cavity.numerics.arrays import Array
from cavity.numerics.tiles import Workspace
from cavity.parameters.param import Parametrized
from cavity.rows.base import Pull, RowSource, as_rows

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights, Trend
    from cavity.latent.multi_latent import SeveralPrior
    from cavity.latent.prior_times_sites import Conditioned


COVARIANCE_LIMIT = 1000
"""Rows up to which a representation that holds no covariance matrix makes one on request."""


class ImproperPosteriorError(np.linalg.LinAlgError):
    """Negative site precisions outweigh the prior: the product of prior and sites cannot be normalized.

    Attributes
    ----------
    row : int or None
        The row whose site outweighs the prior most, if it is known.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class Capability(Enum):
    """What a representation may be able to do beyond the protocol's core."""

    COVARIANCE = "a covariance matrix of all training rows"
    SEVERAL_FUNCTIONS = "several latent functions that the likelihood couples"
    WHITENING = "latent values in coordinates in which the prior is white"
    WHITE_DERIVATIVES = "derivatives of latent values in the hyperparameters, white coordinates held fixed,"
    POSTERIOR_WHITENING = "latent values in coordinates in which a Gaussian posterior is white"
    PERMUTATION = "results that do not depend on the order of the rows"
    NEGATIVE_SITES = "sites of negative precision"
    SQUARED_CORRECTION = "products with the squared entries of R, as derivatives of leave-one-out need them,"
    SITES = "anything but observations with Gaussian noise, their evidence and predictions"


class CapabilityError(ValueError):
    """A representation was asked for something that it cannot do.

    Attributes
    ----------
    representation : str
    capability : Capability
    limit : int or None
        The number of rows up to which it could, if there is one.
    """

    def __init__(self, representation: str, capability: Capability, limit: int | None = None) -> None:
        rows = "" if limit is None else f" of more than {limit} rows"
        remedy = "use representation='dense', or another inference rule"
        if capability is Capability.SITES:
            remedy = "use representation='inducing' or, in up to 3 dimensions, 'latent_neighbors'"
        super().__init__(
            f"the representation {representation!r} does not give {capability.value}{rows}; {remedy}"
        )
        self.representation, self.capability, self.limit = representation, capability, limit


class PriorGradient(NamedTuple):
    """Derivatives of a scalar in the natural (flat) values of the kernel and of the representation."""

    kernel: Array
    representation: Array = np.zeros(0)


class ObservedEvidence(NamedTuple):
    """The log density of observations with noise of given variances, and what its gradient is made of.

    Attributes
    ----------
    log_density : float
        log N(r | 0, K + diag(variance)) of residuals r.
    weights, unexplained : arrays (n,)
        R r and the diagonal of R = (K + diag(variance))^-1.
    prior : PriorGradient
        Its derivatives in the values of kernel and representation.
    """

    log_density: float
    weights: Array
    unexplained: Array
    prior: PriorGradient


class Inputs:
    """Training inputs for one fit, and memory that the evaluations on them share.

    Attributes
    ----------
    source : RowSource
        The inputs in blocks, wherever they are.
    scratch : Workspace
        Arrays of a representation; a prior made on these inputs is valid until the next one is made.
    """

    def __init__(self, X: ArrayLike | RowSource) -> None:
        self.source = as_rows(X)
        self.scratch = Workspace()
        self._parts: list[Inputs] = []

    @property
    def X(self) -> Array:
        """All inputs (n, D); refused if they are not in memory."""
        return self.source.array

    def parts(self, count: int) -> list[Inputs]:
        """The same inputs so many times, each with memory of its own (for several latent functions)."""
        while len(self._parts) < count:
            self._parts.append(Inputs(self.source))
        return self._parts[:count]

    def release(self) -> None:
        """Free the memory; what was held there is computed again on request."""
        self.scratch.release()
        self._parts = []

    def __len__(self) -> int:
        return len(self.source)


class Representation(Parametrized, ABC):
    """How a Gaussian process is held at the training inputs."""

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    linear_cost: ClassVar[bool] = False
    """Whether every row costs the same, however many there are."""
    approximates: ClassVar[bool] = False
    """Whether something of the process is lost, of which `Conditioning.loss` tells."""

    @abstractmethod
    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> LatentPrior:
        """The process at the inputs."""

    def several(self, kernel: Any, mean_functions: Any, inputs: Inputs, n_latent: int) -> SeveralPrior:
        """Several independent processes at the inputs; by default a likelihood that couples them is refused."""
        from cavity.latent.separate_functions import SeparateFunctions

        return SeparateFunctions(self, kernel, inputs, n_latent, mean_functions)

    def prepare(self, X: ArrayLike | RowSource) -> Inputs:
        """The inputs of one fit."""
        return Inputs(X)

    def require(self, capability: Capability) -> None:
        """Raise `CapabilityError` if the representation lacks the capability."""
        if capability not in self.capabilities:
            raise CapabilityError(self.name, capability)

    @property
    def covariance_limit(self) -> int | None:
        """Rows up to which covariance matrices are given; None if there is no limit."""
        return None if Capability.COVARIANCE in self.capabilities else COVARIANCE_LIMIT

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Made definite for data with these columns."""
        return self

    @property
    def definite(self) -> bool:
        """Whether nothing is left to be chosen for the training rows."""
        return True

    @property
    def follows(self) -> bool:
        """Whether what is chosen for the training rows is chosen anew when the kernel changes (`chosen_anew`)."""
        return False

    def chosen_anew(self, kernel: Kernel, X: Array) -> Self:
        """Made definite for these training inputs (n, D) once more, at other hyperparameters."""
        return self

    def for_rows(self, kernel: Kernel, X: Array | RowSource) -> Self:
        """Made definite for these training inputs (n, D): with inducing inputs chosen, say."""
        return self


class LatentPrior(ABC):
    """f ~ N(m, K) at the training inputs.

    Attributes
    ----------
    n : int
    mean : array (n,)
    kernel, mean_function
        The parts it was made of.
    """

    representation: Representation
    n_latent = 1
    shared = False
    """Whether several latent functions have one covariance."""
    cheap_squares = True
    """Whether products with Sigma o Sigma cost much less than a conditioning, so that Newton's method on sites pays."""

    def __init__(self, kernel: Kernel, inputs: Inputs, mean_function: Mean | None) -> None:
        self.kernel, self.inputs, self.mean_function = kernel, inputs, mean_function
        self.source, self.n = inputs.source, len(inputs)
        self.mean = np.zeros(self.n) if mean_function is None else mean_at(mean_function, self.source)

    @property
    def X(self) -> Array:
        """All inputs (n, D); refused if they are not in memory."""
        return self.source.array

    # --- conditioning ---------------------------------------------------------------------------------------

    @abstractmethod
    def condition(self, precision: Array, *, transient: bool = False) -> Conditioning:
        """Given sites of these precisions, of any sign, shape (n,).

        With `transient`, the result may use shared memory and is valid until the next transient one.

        Raises
        ------
        ImproperPosteriorError
            If and only if K^-1 + diag(precision) is not positive definite.
        """

    @abstractmethod
    def observe(self, variance: Array, *, transient: bool = False) -> Conditioning:
        """Given observations with these noise variances, shape (n,), zero if exact."""

    def observe_values(self, variance: Array, residual: Array, *, transient: bool = False) -> Conditioning:
        """As `observe`, given what was observed too, minus the mean, shape (n, T).

        A representation may find all that evidence and gradient need in one pass.
        """
        return self.observe(variance, transient=transient)

    def observe_more(self, known: Conditioning, variance: Array) -> Conditioning:
        """As `observe`, if `known` is that of the leading rows: a representation may extend it."""
        return self.observe(variance)

    def observed_evidence(self, residual: Array, variance: Array) -> ObservedEvidence | None:
        """The log density of residuals (n,) with noise of these variances (n,), if there is a faster way to have it
        with its gradient than `observe`; None if there is none, or if jitter might be needed."""
        return None

    def given(self, sites: Sites, *, transient: bool = False) -> Conditioned:
        """The Gaussian proportional to the prior times the sites."""
        from cavity.latent.prior_times_sites import Conditioned

        return Conditioned(self, sites, self.condition(sites.precision, transient=transient))

    # --- products with the covariance -----------------------------------------------------------------------

    @cached_property
    @abstractmethod
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""

    @abstractmethod
    def times(self, U: Array) -> Array:
        """K U, shape (n,) or (n, m)."""

    @property
    def white_dim(self) -> int:
        """Number of white coordinates r."""
        return self.n

    # refused by name if a representation has no root of K

    def unwhiten(self, U: Array) -> Array:
        """m + W U with W W' = K, for U of shape (r,) or (r, m)."""
        raise CapabilityError(self.representation.name, Capability.WHITENING)

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G for G of shape (n,) or (n, m)."""
        raise CapabilityError(self.representation.name, Capability.WHITENING)

    def whiten(self, F: Array) -> Array:
        """U with m + W U = F, for F of shape (n,) or (n, m); the shortest if there are several."""
        raise CapabilityError(self.representation.name, Capability.WHITENING)

    @property
    def white_jitter(self) -> float:
        """What was added to the diagonal of K for W."""
        raise CapabilityError(self.representation.name, Capability.WHITENING)

    # --- the same process elsewhere -------------------------------------------------------------------------

    def at(self, kernel: Kernel, mean_function: Mean | None) -> LatentPrior:
        """The same rows and representation with other hyperparameters, in memory of its own."""
        return self.representation.prior(kernel, mean_function, self.representation.prepare(self.source))

    def rows(self, index: NDArray[Any]) -> LatentPrior:
        """The same process at some of the rows."""
        return self.representation.prior(
            self.kernel, self.mean_function, self.representation.prepare(self.source.take(index))
        )

    def pull_mean(self, g: Array) -> Array:
        """Gradient, in the mean function's natural values, of sum_i g_i m(x_i)."""
        mean = self.mean_function
        if mean is None or self.source.in_memory:
            return np.zeros(0) if mean is None else mean.pull(self.X, g)
        if isinstance(mean, Zero | Constant):
            return mean.pull(np.zeros((1, self.source.shape[1])), np.array([g.sum()]))
        return self.source.map_sum(Pull(mean.pull, mean.flat.size), g)[0][0]

    @abstractmethod
    def process(
        self, weights: Array, conditioning: Conditioning, basis: BasisWeights | None = None
    ) -> Process:
        """The posterior process anywhere, given weights alpha with mean = m + K alpha."""

    def given_values(self, F: Array) -> Process | None:
        """The process given latent values (n, g) at the training inputs, one mean for each column.

        None if it follows from `observe` without noise.
        """
        return None

    # --- dense matrices, refused beyond the representation's limit ------------------------------------------

    @property
    def functions(self) -> list[LatentPrior]:
        """The prior of each latent function."""
        return [self]

    def covariance_matrix(self) -> Array:
        """K, shape (n, n), in memory of its own."""
        self.require_covariance()
        return self.times(np.eye(self.n))

    def white_root(self) -> Array:
        """W, shape (n, r), of representations whose coordinates can be had from values and back."""
        self.representation.require(Capability.WHITENING)
        self.require_covariance()
        return self.unwhiten(np.eye(self.white_dim)) - self.mean[:, None]

    def require_covariance(self) -> None:
        """Raise `CapabilityError` if there are too many rows for a covariance matrix."""
        limit = self.representation.covariance_limit
        if limit is not None and self.n > limit:
            raise CapabilityError(self.representation.name, Capability.COVARIANCE, limit)


class Loss(NamedTuple):
    """What a representation loses of the model that was asked for.

    Attributes
    ----------
    gap : float
        Nats a row by which the log evidence may be off; nan if it is not known.
    kind : {"exact", "certified", "sampled", "window", "none"}
        Nothing is lost; the gap is a bound; an estimate of the bound from some rows; the difference on consecutive
        rows; not known.
    information : float
        Share of the precision of sites that does not reach the representation.
    """

    gap: float = 0.0
    kind: str = "exact"
    information: float = 0.0


def mean_at(mean: Mean, source: RowSource) -> Array:
    """Values (n,) of a mean function at rows; of a constant without a look at them."""
    if isinstance(mean, Zero | Constant):
        value = mean(np.zeros((1, source.shape[1])))[0]
        return (
            np.full(len(source), value) if value else np.zeros(len(source))
        )  # zeros take no memory until written
    return source.evaluate(mean)


class FlatDirections(NamedTuple):
    """Directions in which a posterior has little precision left, and how that depends on prior and sites.

    Attributes
    ----------
    share : array (k,)
        c, the share of the precision that is left.
    vectors : array (n, k)
        a, with dc/dK = -a a'.
    by_site : array (n, k)
        dc/dtau.
    """

    share: Array
    vectors: Array
    by_site: Array


class Conditioning(ABC):
    """Sigma = (K^-1 + T)^-1 and R = (K + T^-1)^-1, functions of the precisions alone.

    Attributes
    ----------
    prior : LatentPrior
    log_det : float
        log |I + K T|.
    jitter : float
        What was added to the diagonal of the factorized matrix.
    """

    prior: LatentPrior
    log_det: float
    jitter: float = 0.0
    spread: Array | None = None
    """Variance of each f_i beyond Sigma, independent of all else, (n,): what a bound on the evidence adds."""
    apart: Array | None = None
    """Variance of predictions at the training inputs that K does not have, (n,)."""
    degenerate: bool = False
    """Whether predictions leave out the prior variance that the representation cannot hold."""

    @property
    def noisy_log_det(self) -> float:
        """log |K + diag(variance)|, if the conditioning is on observations."""
        raise NotImplementedError  # `observe` gives conditionings that have it

    @property
    def smallest_curvature(self) -> float:
        """Precision left in the flattest direction, as a share of what it is without the negative sites."""
        return 1.0

    def loss(self, weights: Array | None = None) -> Loss:
        """What the representation loses. `weights` (n, T) are R (y - m) of observations y; None of sites."""
        return Loss()

    def flat_directions(self, limit: float) -> FlatDirections:
        """The directions in which less than `limit` of the precision is left; none without negative sites."""
        return FlatDirections(np.zeros(0), np.zeros((self.prior.n, 0)), np.zeros((self.prior.n, 0)))

    @property
    @abstractmethod
    def var(self) -> Array:
        """Marginal variances of f, shape (n,): the diagonal of Sigma, and `spread`."""

    @property
    @abstractmethod
    def unexplained(self) -> Array:
        """tau (1 - tau var), shape (n,), computed without cancellation: the diagonal of R, if there is no `spread`."""

    @property
    def diagonal_of_R(self) -> Array:
        """The diagonal of R, shape (n,)."""
        return self.unexplained

    @abstractmethod
    def apply(self, U: Array) -> Array:
        """R U, shape (n,) or (n, m)."""

    @abstractmethod
    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, Sigma b), shapes (n,) or (n, m)."""

    def project_columns(self, index: NDArray[np.intp], scale: Array) -> tuple[Array, Array]:
        """`project` of the columns scale_k e_index_k, shapes (n, k): what few points do to all others."""
        columns = np.zeros((self.prior.n, len(index)))
        columns[index, np.arange(len(index))] = scale
        return self.project(columns)

    @abstractmethod
    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """(M, P) with U' R U = M'M - P'P for U (n, m); P is None if it is empty."""

    @abstractmethod
    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """Gradient, in the natural values of kernel and representation, of sum_ij G_ij K_ij, where G is held fixed and

            G = left right' + d_log_det R + (I - R K) diag(d_var) (I - K R) - R diag(d_unexplained) R,

        symmetrized; `right` is `left` if it is None. Shapes (n, k) and (n,). All but the first are cotangents: of
        log_det, var and unexplained, which may depend on the kernel in other ways too (`spread`). It may use up the
        factor of a transient conditioning; afterwards only products and diagonals may be asked for.
        """

    def pull_observations(self, weights: Array, targets: int) -> tuple[PriorGradient, Array]:
        """Gradient of sum_j -1/2 x_j'R x_j - targets/2 log|R^-1| in the prior, and in the noise variances (n,).

        For weights R x of shape (n, k), x held fixed: the log evidence of observations.
        """
        prior = self.pull_prior(np.sqrt(0.5) * weights, None, -0.5 * targets)
        return prior, 0.5 * (np.einsum("ij,ij->i", weights, weights) - targets * self.unexplained)

    def leave_one_out(self, residual: Array, trend: Trend | None) -> tuple[Array, Array] | None:
        """Means (n, T) and variances (n,) of each observation, minus the prior mean, given the others.

        None if they follow from R: if predictions are made by the same Gaussian.
        """
        return None

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """(Sigma d_mean, (Sigma o Sigma) d_var): all that Newton methods on sites need, shape (n,) each.

        None counts as zeros.
        """
        first = np.zeros(self.prior.n) if d_mean is None else self.project(d_mean)[1]
        second = np.zeros(self.prior.n) if d_var is None else (self.covariance**2) @ d_var
        return first, second

    def apply_squared(self, g: Array) -> Array:
        """(R o R) g, shape (n,): how the diagonal of R moves with noise variances."""
        return np.asarray((self.matrix() ** 2) @ g)

    # --- dense matrices, refused beyond the representation's limit ------------------------------------------

    @cached_property
    def covariance(self) -> Array:
        """Sigma, shape (n, n)."""
        self.prior.require_covariance()
        S = self.project(np.eye(self.prior.n))[1]
        return 0.5 * (S + S.T)

    def matrix(self) -> Array:
        """R, shape (n, n)."""
        self.prior.require_covariance()
        R = self.apply(np.eye(self.prior.n))
        return 0.5 * (R + R.T)

    def for_process(self) -> Conditioning:
        """R among the inputs that predictions are made from: what `reduce`, `apply` and `matrix` of a process are."""
        return self

    def for_rows(self) -> Conditioning:
        """R among the training rows, of a conditioning that `for_process` gave."""
        return self

    def weigh(self, U: Array) -> Array:
        """How much each target counts for predictions, (n, k), for cross-covariances U with the process's inputs."""
        return self.apply(U)

    def draw(self, size: int, rng: np.random.Generator) -> Array | None:
        """Draws of N(0, Sigma) and `spread`, shape (n, size); None if the representation has no direct way."""
        return None

    def release(self) -> None:
        """Free memory beside marginals; what was held there is computed again on request."""
        return

    def white(self) -> Whitening | None:
        """Coordinates in which N(0, Sigma) is white, at the price of a few conditionings; None if there are none."""
        return None

    # --- factors, for what is best done by orthogonal transformations ---------------------------------------

    def half_solve(self, U: Array) -> Array | None:
        """L^-1 U with R = L^-T L^-1; None if the representation has no such factor."""
        return None

    @property
    def half_solve_norm(self) -> float:
        """About the norm of L^-1."""
        return 1.0

    def half_solve_transposed(self, U: Array) -> Array:
        """L^-T U."""
        raise NotImplementedError  # only called where `half_solve` answers


class Whitening(Protocol):
    """A root W of a covariance, W W' = Sigma, that is never a matrix."""

    def unwhiten(self, U: Array) -> Array:
        """W U."""
        ...

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        ...

    def whiten(self, F: Array) -> Array:
        """W^-1 F."""
        ...


class Process(Protocol):
    """A Gaussian process anywhere, after data or sites."""

    @property
    def basis(self) -> BasisWeights | None:
        """Posterior of the weights of basis functions, if there are any."""
        ...

    def mean(self, X: ArrayLike) -> Array:
        """Shape (m,), or (m, T) for several targets."""
        ...

    def variance(self, X: ArrayLike) -> Array:
        """Shape (m,)."""
        ...

    def covariance(self, X: ArrayLike) -> Array:
        """Shape (m, m)."""
        ...

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws, shape (size, m)."""
        ...
