"""`Markov`, the choice of a Gaussian Markov process of one input."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel
from cavity.latent.base import Capability, Inputs, Representation
from cavity.latent.markov.prior import MarkovPrior
from cavity.latent.markov.times import TimeInputs, has_exact_markov_form
from cavity.rows.base import RowSource
from cavity.runtime.checks import require_integer

__all__ = ["Markov", "has_exact_markov_form"]

if TYPE_CHECKING:
    from cavity.means.functions import Mean


FEWEST_STATES, MOST_STATES = 2, 12
"""States that may stand for a squared exponential: of more, the covariance is singular to rounding."""


class Markov(Representation):
    """A Gaussian Markov process of one input: every row costs the same, and so do a million.

    Exact for kernels with a state-space form: `Matern` of half-integer order, `Wiener`, `IntegratedWiener`,
    `IntegratedOU`, `Seasonal`, `DampedOscillator`, `Celerite`, `Cosine`, `Autoregressive`, `Constant`, `Linear`,
    `Polynomial`, and their sums, products, powers and multiples.

    Parameters
    ----------
    states : int, optional
        Approximate `SE`, `RationalQuadratic` and `Periodic(SE(...))` too, with so many states for each squared
        exponential; 6 will often do. `Posterior.loss` and the status of an estimator say what that costs, in nats
        on a window of the data. By default such kernels are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE, Matern
    >>> from cavity.latent import Markov
    >>> from cavity.likelihoods import Gaussian
    >>> t = np.linspace(0, 100, 5000)[:, None]
    >>> y = np.sin(t[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(5000)
    >>> model = GP(1.0 * Matern(2.0, nu=2.5), Gaussian(0.01), representation=Markov())
    >>> abs(model.condition(t, y).mean([[50.0]])[0] - np.sin(50.0)) < 0.05
    np.True_

    What an approximation costs:

    >>> smooth = GP(1.0 * SE(2.0), Gaussian(0.01), representation=Markov(states=6)).condition(t, y)
    >>> smooth.loss().gap < 5e-3
    True
    """

    name: ClassVar[str] = "markov"
    linear_cost: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.WHITENING,
            Capability.WHITE_DERIVATIVES,
            Capability.POSTERIOR_WHITENING,
            Capability.SITES,
            Capability.NEGATIVE_SITES,
            Capability.SQUARED_CORRECTION,
        }
    )

    def __init__(self, states: int | None = None) -> None:
        if states is not None:
            require_integer(states, "Markov: states", FEWEST_STATES)
            if states > MOST_STATES:
                raise ValueError(f"Markov: states must be at most {MOST_STATES}, got {states}")
        self.states = states
        self._set_up({}, ())

    def __repr__(self) -> str:
        return "Markov()" if self.states is None else f"Markov(states={self.states})"

    @property
    def approximates(self) -> bool:  # type: ignore[override]
        """Whether kernels without an exact form are taken."""
        return self.states is not None

    def prepare(self, X: ArrayLike | RowSource) -> TimeInputs:
        """The times of one fit."""
        return TimeInputs(X)

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> MarkovPrior:
        """The process at the inputs."""
        return MarkovPrior(self, kernel, inputs, mean_function)
