"""`Committee`, the choice of several exact processes on parts of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Kernel
from cavity.latent.base import Capability, Inputs, Representation
from cavity.latent.committee.prior import CommitteeInputs, CommitteePrior
from cavity.latent.committee.process import RULES
from cavity.rows.base import RowSource
from cavity.runtime.checks import require_integer, require_one_of

if TYPE_CHECKING:
    from cavity.means.functions import Mean


class Committee(Representation):
    """Exact processes on random parts of at most m rows, whose predictions are combined.

    Parameters
    ----------
    m : int
        Rows of a part.
    rule : {"gpoe", "bcm", "rbcm", "poe"}
        How predictions are combined (`cavity.latent.committee.process`). "gpoe" has sensible variances, the others are
        too sure of themselves with many parts; "rbcm" has the best means.
    seed : int
        Of the parts.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.latent import Committee
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.linspace(0, 10, 600)[:, None]
    >>> model = GP(1.0 * SE(1.0), Gaussian(0.01), representation=Committee(100))
    >>> model.condition(X, np.sin(X[:, 0])).mean([[1.5]]).round(2)
    array([1.])
    """

    name: ClassVar[str] = "committee"
    approximates: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.WHITENING, Capability.WHITE_DERIVATIVES, Capability.SITES, Capability.NEGATIVE_SITES}
    )

    def __init__(self, m: int = 500, rule: str = "gpoe", *, seed: int = 0) -> None:
        require_integer(m, "m", 1)
        require_one_of(rule, "rule", RULES)
        self.m, self.rule, self.seed = int(m), rule, seed
        self._set_up({}, ())

    def __repr__(self) -> str:
        return f"Committee(m={self.m}, rule={self.rule!r}, seed={self.seed})"

    def partition(self, n: int) -> list[NDArray[np.intp]]:
        """The rows of each part, in increasing order; all parts are of about the same size."""
        order = np.random.default_rng(self.seed).permutation(n)
        return [np.sort(part) for part in np.array_split(order, max(1, -(-n // self.m)))]

    def prepare(self, X: ArrayLike | RowSource) -> CommitteeInputs:
        """The inputs of one fit."""
        return CommitteeInputs(X)

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> CommitteePrior:
        """The process at the inputs."""
        return CommitteePrior(self, kernel, inputs, mean_function)
