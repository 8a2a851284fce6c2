"""`Markov`, the choice of a Gaussian Markov process of one input."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel
from cavity.kernels.state_space import NoStateSpaceError
from cavity.latent.base import Capability, Inputs, Representation
from cavity.latent.markov.prior import MarkovPrior
from cavity.latent.markov.times import TimeInputs
from cavity.rows.base import RowSource

if TYPE_CHECKING:
    from cavity.means.functions import Mean


def has_exact_markov_form(kernel: Kernel, X: ArrayLike) -> bool:
    """Whether the kernel is a Gaussian Markov process of the one column of X (n, 1).

    `kernel.state_space().size` is the number of its states.
    """
    if np.ndim(X) != 2 or np.shape(X)[1] != 1:
        return False
    try:
        kernel.state_space()
    except NoStateSpaceError:
        return False
    return True


class Markov(Representation):
    """A Gaussian Markov process of one input: every row costs the same, and so do a million.

    For kernels with an exact state-space form: `Matern` of half-integer order, `Wiener`, `IntegratedWiener`,
    `Seasonal`, `DampedOscillator`, `Cosine`, `Constant`, `Linear`, `Polynomial`, and their sums,
    products, powers and multiples.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import Matern
    >>> from cavity.latent import Markov
    >>> from cavity.likelihoods import Gaussian
    >>> t = np.linspace(0, 100, 5000)[:, None]
    >>> y = np.sin(t[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(5000)
    >>> model = GP(1.0 * Matern(2.0, nu=2.5), Gaussian(0.01), representation=Markov())
    >>> abs(model.condition(t, y).mean([[50.0]])[0] - np.sin(50.0)) < 0.05
    np.True_
    """

    name: ClassVar[str] = "markov"
    linear_cost: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.WHITENING, Capability.SITES, Capability.NEGATIVE_SITES}
    )

    def __init__(self) -> None:
        self._set_up({}, ())

    def __repr__(self) -> str:
        return "Markov()"

    def prepare(self, X: ArrayLike | RowSource) -> TimeInputs:
        """The times of one fit."""
        return TimeInputs(X)

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> MarkovPrior:
        """The process at the inputs."""
        return MarkovPrior(self, kernel, inputs, mean_function)
