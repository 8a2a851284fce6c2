"""`LatentNeighbors`, the choice to condition every latent value on few others."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel
from cavity.latent.base import Capability, Inputs
from cavity.latent.latent_neighbors.prior import LatentNeighborPrior
from cavity.latent.neighbors.representation import Neighbors
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.means.functions import Mean


class LatentNeighbors(Neighbors):
    """Each latent value is conditioned on the k nearest ones before it in an order: any likelihood, up to 3 columns.

    This is Vecchia's approximation of the process itself, so that its precision matrix is sparse: sites add to its
    diagonal, whatever their signs, and a sparse Cholesky factor with its inverse where it has entries answers what
    rules ask. About O(n^1.5) time in two dimensions, O(n^2) in three; with many columns the factor fills up. With
    k = n - 1 nothing is approximated. Observations with Gaussian noise alone are better off with `Neighbors`.

    Parameters
    ----------
    k : int
        Number of neighbors; predictions are made from twice as many.
    scales, follow, seed
        See `Neighbors`.
    nugget : float
        Share of its prior variance that is added to that of each value: smooth functions are determined by their
        neighbors nearly to rounding, and differences of that size are of no use to anybody.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, LatentNeighbors
    >>> from cavity.kernels import Matern
    >>> from cavity.likelihoods import Probit
    >>> X = np.random.default_rng(0).uniform(0, 10, (500, 2))
    >>> y = np.where(np.sin(X[:, 0]) * np.cos(X[:, 1]) > 0, 1, -1)
    >>> kernel = 4.0 * Matern(1.5, nu=1.5)
    >>> exact = GP(kernel, Probit()).condition(X, y)
    >>> near = GP(kernel, Probit(), representation=LatentNeighbors(20)).condition(X, y)
    >>> bool(abs(near.log_evidence - exact.log_evidence) < 1.0)
    True
    """

    name: ClassVar[str] = "latent_neighbors"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.WHITENING,
            Capability.POSTERIOR_WHITENING,
            Capability.SITES,
            Capability.NEGATIVE_SITES,
            Capability.SQUARED_CORRECTION,
        }
    )

    def __init__(
        self,
        k: int = 20,
        *,
        scales: ArrayLike | None = None,
        follow: bool = True,
        seed: int = 0,
        nugget: float = 1e-8,
    ) -> None:
        super().__init__(k, scales=scales, follow=follow, seed=seed)
        if not 0.0 <= nugget < 1.0:
            raise ValueError(f"nugget must be a share of the prior variance, 0 <= nugget < 1, got {nugget!r}")
        self.nugget = float(nugget)

    def __repr__(self) -> str:
        return f"Latent{super().__repr__()[:-1]}, nugget={self.nugget!r})"

    def _with_scales(self, scales: Array) -> Self:
        return type(self)(self.k, scales=scales, follow=self.follows, seed=self.seed, nugget=self.nugget)

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> LatentNeighborPrior:
        """The process at the inputs."""
        settled = self.for_rows(kernel, inputs.X)
        assert settled.scales is not None
        return LatentNeighborPrior(settled, settled.scales, kernel, inputs, mean_function)
