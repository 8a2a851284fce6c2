"""`Neighbors`, the choice to condition every observation on few others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel
from cavity.kernels.input_scales import input_scales
from cavity.latent.base import Capability, Inputs, Representation
from cavity.latent.neighbors.graph import NeighborInputs
from cavity.latent.neighbors.prior import NeighborPrior
from cavity.numerics.arrays import Array
from cavity.rows.base import RowSource, as_rows
from cavity.runtime.checks import require_integer

if TYPE_CHECKING:
    from cavity.means.functions import Mean


class Neighbors(Representation):
    """Each observation is conditioned on the k nearest ones before it in an order: O(n k^3) time, O(n k) memory.

    This is Vecchia's approximation of observations with Gaussian noise (Vecchia 1988; Katzfuss, Guinness and Lawrence
    2022 for inputs divided by length scales). Predictions are made from the 2 k nearest rows. With k = n - 1 nothing is
    approximated. The evidence is no bound, and for another k, or other scales, it is that of another approximation.

    Parameters
    ----------
    k : int
        Number of neighbors; fewer if there are not so many rows.
    scales : array (D,), optional
        Distances are measured in inputs divided by these; else by the length scales that the kernel has when the
        training rows are met.
    follow : bool
        Whether learning chooses the scales anew between its rounds.
    seed : int
        Of the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, Neighbors
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.random.default_rng(0).uniform(0, 10, (2000, 2))
    >>> y = np.sin(X[:, 0]) * np.cos(X[:, 1])
    >>> exact = GP(1.0 * SE(1.5), Gaussian(0.01)).condition(X, y)
    >>> near = GP(1.0 * SE(1.5), Gaussian(0.01), representation=Neighbors(30)).condition(X, y)
    >>> bool(abs(near.mean([[5.0, 5.0]]) - exact.mean([[5.0, 5.0]]))[0] < 0.02)
    True
    """

    name: ClassVar[str] = "neighbors"
    approximates: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[Capability]] = frozenset()

    def __init__(
        self, k: int = 40, *, scales: ArrayLike | None = None, follow: bool = True, seed: int = 0
    ) -> None:
        require_integer(k, "k", 1)
        self.k, self.seed, self._follow = int(k), seed, bool(follow)
        self.scales: Array | None = None
        if scales is not None:
            self.scales = np.array(scales, dtype=float)
            if self.scales.ndim != 1 or not np.all((self.scales > 0) & np.isfinite(self.scales)):
                raise ValueError(f"scales must be positive numbers, one for each column, got {scales!r}")
        self._set_up({}, ())

    def __repr__(self) -> str:
        known = "" if self.scales is None else f", scales={self.scales.tolist()!r}"
        return f"Neighbors(k={self.k}{known}, follow={self.follows}, seed={self.seed})"

    @property
    def follows(self) -> bool:
        """Whether learning chooses the scales anew."""
        return self._follow

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Made definite for data with these columns."""
        if self.scales is not None and len(self.scales) != n_features:
            raise ValueError(
                f"there are {len(self.scales)} scales, but the data have {n_features} columns: give one for each"
            )
        return self

    @property
    def definite(self) -> bool:
        """Whether the scales are known."""
        return self.scales is not None

    def for_rows(self, kernel: Kernel, X: Array | RowSource) -> Self:
        """With the scales of the kernel, unless there are any."""
        return self if self.definite else self.chosen_anew(kernel, as_rows(X).array)

    def chosen_anew(self, kernel: Kernel, X: Array) -> Self:
        """With the scales of this kernel for rows X (n, D)."""
        scales = input_scales(kernel, X)
        if scales is None:
            raise ValueError(
                f"neighbors need a kernel that measures distances, which {kernel!r} does not do in all of its terms: "
                "use representation='inducing', or give the scales of the columns (Neighbors(scales=...))"
            )
        return self._with_scales(scales)

    def _with_scales(self, scales: Array) -> Self:
        return type(self)(self.k, scales=scales, follow=self.follows, seed=self.seed)

    def prepare(self, X: ArrayLike | RowSource) -> NeighborInputs:
        """The inputs of one fit."""
        return NeighborInputs(X)

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> NeighborPrior:
        """The process at the inputs."""
        settled = self.for_rows(kernel, inputs.X)
        assert settled.scales is not None
        return NeighborPrior(settled, settled.scales, kernel, inputs, mean_function)
