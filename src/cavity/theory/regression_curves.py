"""How the error of a fitted regression falls with more rows: measured below the rows there are, predicted beyond.

Up to n rows: the variance of f at rows left out, given random subsets, at the learned hyperparameters (targets play no
part, so nothing is fitted again). Beyond: Sollich's curve from the eigenvalues of the kernel at the rows, scaled
so that it agrees with the measurement at the largest subset; how far it is off at half as many rows is told. Noise
of the targets is added to errors of predictions, and no number of rows takes it away. If the model is wrong, so is
the curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_inside
from cavity.runtime.errors import InputError
from cavity.theory.eigenfunctions import nystrom
from cavity.theory.learning_curves import mismatched_error, sollich

MOST_ROWS = 1000
"""Rows from which eigenvalues are computed, and in the largest subset that is measured."""


@dataclass(frozen=True)
class RegressionCurve:
    """Errors expected after so many rows.

    Attributes
    ----------
    n : array
    rms_error : array
        Root mean squared error of f at a new row, in units of the target.
    rms_error_of_y : array
        The same of a new target, noise included.
    measured : bool array
        Whether it is measured, or predicted from the eigenvalues.
    off_by : float
        By what factor the prediction was off where it could be checked, at half of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> x = np.linspace(0, 10, 60)[:, None]
    >>> y = np.sin(x).ravel() + 0.3 * np.random.default_rng(0).standard_normal(60)
    >>> curve = GPRegressor(n_restarts=0, random_state=0).fit(x, y).learning_curve([10, 30, 600])
    >>> curve.measured
    array([ True,  True, False])
    """

    n: Array
    rms_error: Array
    rms_error_of_y: Array
    measured: NDArray[np.bool_]
    off_by: float
    _eigenvalues: Array
    _noise: float
    _factor: float

    def rows_for(self, share: float = 0.5) -> float:
        """Rows in all at which the error of f is this share of what it is now; inf if that is beyond a billion."""
        require_inside(share, "share")
        now = float(self.rms_error[self.measured][-1])
        low = high = float(self.n[self.measured][-1])
        while self._predicted(high) > share * now:
            low, high = high, 2.0 * high
            if high > 1e9:
                return float("inf")
        while high / low > 1.0 + 1e-6:
            middle = np.sqrt(low * high)
            low, high = (middle, high) if self._predicted(middle) > share * now else (low, middle)
        return float(np.ceil(high))

    def _predicted(self, n: float) -> float:
        return float(np.sqrt(self._factor * sollich(self._eigenvalues, self._noise, [n])[0]))


def regression_curve(
    model: Any, n: ArrayLike | None = None, *, subsets: int = 8, rng: int | np.random.Generator | None = 0
) -> RegressionCurve:
    """The learning curve of a fitted `GPRegressor` with Gaussian noise.

    Parameters
    ----------
    model : GPRegressor
    n : array, optional
        Numbers of rows; from an eighth of those there are to eight times as many by default.
    subsets : int
        Random subsets for each number that is measured.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> x = np.linspace(0, 10, 80)[:, None]
    >>> y = np.sin(x).ravel() + 0.3 * np.random.default_rng(0).standard_normal(80)
    >>> curve = GPRegressor(n_restarts=0, random_state=0).fit(x, y).learning_curve()
    >>> bool(np.all(np.diff(curve.rms_error) < 0)), curve.rows_for(0.5) > 80
    (True, True)
    """
    likelihood = model.likelihood_
    variance = getattr(likelihood, "variance", None)
    if likelihood.n_latent > 1 or likelihood.discrete or variance is None or np.size(variance) != 1:
        raise InputError(
            f"needs Gaussian noise, got {type(likelihood).__name__}",
            parameter="model",
            remedy="for other noise compare fits of subsets, as sklearn.model_selection.learning_curve does",
        )
    noise, kernel, rows = float(variance), model.kernel_, np.asarray(model.rows_.X)
    generator = np.random.default_rng(rng)
    there = len(rows)
    largest = min(there - max(there // 10, 1), MOST_ROWS)
    if largest < 4:
        raise InputError(f"has {there} rows, which are too few for a curve", parameter="model")
    if n is None:
        below = largest * 2.0 ** np.arange(-3, 1)
        wanted = np.unique(np.concatenate([np.maximum(below.astype(int), 2), there * np.array([1, 2, 4, 8])]))
    else:
        wanted = np.unique(np.asarray(n, dtype=int))
    values = nystrom(kernel, generator.permutation(rows)[:MOST_ROWS]).values

    def measure(m: int) -> float:
        found = []
        for _ in range(subsets):
            order = generator.permutation(there)
            X, new = rows[order[:m]], rows[order[m : m + 200]]
            found.append(float(np.mean(mismatched_error(kernel, noise, kernel, noise, X, new))))
        return float(np.mean(found))

    at_largest, at_half = measure(largest), measure(max(largest // 2, 2))
    curve = sollich(values, noise, [largest, max(largest // 2, 2)])
    factor = at_largest / float(curve[0])
    measured = wanted <= largest
    squared = np.where(measured, 0.0, factor * sollich(values, noise, wanted))
    squared[measured] = [at_largest if m == largest else measure(int(m)) for m in wanted[measured]]
    if not measured.any():
        wanted, squared, measured = (
            np.concatenate([[largest], wanted]),
            np.concatenate([[at_largest], squared]),
            np.concatenate([[True], measured]),
        )
    return RegressionCurve(
        wanted,
        np.sqrt(squared),
        np.sqrt(squared + noise),
        measured,
        float(np.sqrt(factor * curve[1] / at_half)),
        values,
        noise,
        factor,
    )
