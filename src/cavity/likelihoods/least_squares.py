"""Labels as numbers: probabilistic least-squares classification (Rasmussen and Williams, 2006, section 6.5.1).

The labels -1 and +1 are regressed on with Gaussian noise, and what the regression predicts is squashed:

    p(y | f) = lapse / 2 + (1 - lapse) Phi(y (f + offset) / sqrt(scale^2 + variance)).

In the book's parameters alpha = 1 / scale and beta = offset / scale, whose best values may be infinite: here it is
scale = 0. The regression itself is the rule `cavity.inference.least_squares`; this likelihood says what its predictions
mean.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from cavity.likelihoods.binary import LABELS, BinaryLikelihood
from cavity.numerics.arrays import Array
from cavity.parameters.transforms import IDENTITY, LOG
from cavity.parameters.transforms import Logit as LogitTransform
from cavity.parameters.units import Unit


class LeastSquares(BinaryLikelihood):
    """Labels -1 and +1 regressed on as numbers, and the prediction squashed.

    Parameters
    ----------
    variance : float or Param
        Noise variance of the labels as numbers.
    scale : float or Param
        Width of the squashing function beyond the uncertainty of the regression.
    offset : float or Param
        Added to predictions before they are squashed.
    lapse : float or Param
        Share of labels that are wrong whatever f; kept as it is unless given as `Param(value)`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import LeastSquares
    >>> model = GP(4.0 * SE(1.0), LeastSquares(0.1, 1.0))
    >>> posterior = model.condition([[-2.0], [-1.0], [0.5], [1.0], [2.5]], [-1, -1, 1, -1, 1])
    >>> posterior.predict_y([[2.0]]).probabilities.round(3)
    array([[0.657, 0.343]])
    """

    _transforms: ClassVar = {
        "variance": LOG,
        "scale": LOG,
        "offset": IDENTITY,
        "lapse": LogitTransform(0.0, 1.0),
    }
    _units: ClassVar = {"variance": Unit.NOISE_VARIANCE, "scale": Unit.NOISE_SD}

    def __init__(self, variance: Any = 0.1, scale: Any = 0.1, offset: Any = 0.0, lapse: Any = 1e-3) -> None:
        from cavity.parameters.param import Param

        fixed = lapse if isinstance(lapse, Param) else Param(lapse, fixed=True)
        self._set_up({"variance": variance, "scale": scale, "offset": offset, "lapse": fixed})

    def squashed(self, y: Array, mean: Array, var: Array) -> tuple[Array, Array, Array]:
        """log p(y) for a regression that predicts y ~ N(mean, var), noise included; z and the sd it is divided by."""
        s = np.sqrt(self.scale**2 + var)
        z = y * (mean + self.offset) / s
        with np.errstate(divide="ignore"):
            log_p = np.logaddexp(np.log(0.5 * self.lapse), np.log1p(-self.lapse) + log_ndtr(z))
        return np.asarray(log_p), np.asarray(z), np.asarray(s)

    def log_prob(self, y: Array, f: Array) -> Array:
        """The squashed regression, if it were known exactly but for its noise."""
        return self.squashed(y, f, np.asarray(self.variance))[0]

    def log_probabilities(self, mean: Array, var: Array) -> Array:
        """log p(y) of both labels for f ~ N(mean, var), shape (n, 2)."""
        return np.stack([self.squashed(label, mean, var + self.variance)[0] for label in LABELS], axis=1)
