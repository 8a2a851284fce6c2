"""The spectral mixture kernel (Wilson and Adams, 2013): a mixture of Gaussians as spectral density.

k = sum_q weight_q exp(-2 pi^2 sum_d (scale_qd tau_d)^2) cos(2 pi mean_q . tau),     tau = x - x'
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.cosine import TURN, phase
from cavity.kernels.distances import (
    Metric,
    drifts,
    mean_shift,
    prepare_metric,
    second_moments,
    squared_distances,
)
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, LOG, Transform
from cavity.parameters.units import Unit


class SpectralMixture(Kernel):
    """Spectral mixture: a mixture of Gaussians as spectral density, near any stationary kernel.

    k = sum_q weight_q exp(-2 pi^2 sum_d (scale_qd tau_d)^2) cos(2 pi mean_q . tau), tau = x - x'

    Parameters
    ----------
    weights : array (Q,)
        Variance of each component.
    means : array (Q,) or (Q, D)
        Center frequency of each component, per column, in cycles per unit of input (1 / period); may be 0.
    scales : array (Q,) or (Q, D)
        Width of each component in the same units; 1 / (2 pi scale) is the length over which it stays in step.
        Vectors are for one input column.

    Examples
    --------
    >>> from cavity.kernels import SpectralMixture
    >>> SpectralMixture([1.0], [0.5], [0.1])([[0.0], [1.0]]).round(3)
    array([[ 1.   , -0.821],
           [-0.821,  1.   ]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"weights": LOG, "means": IDENTITY, "scales": LOG}
    _units: ClassVar = {"weights": Unit.SHARED_VARIANCE, "means": Unit.FREQUENCY, "scales": Unit.BANDWIDTH}
    _nearest_markov = "a sum of Matern(lengthscale) * Cosine(period)"
    _widenable = False

    def __init__(self, weights: Any = (1.0,), means: Any = (1.0,), scales: Any = (0.1,)) -> None:
        self._set_up({"weights": weights, "means": means, "scales": scales})

    def _check(self) -> None:
        w, m, s = (np.shape(self._params[name].value) for name in ("weights", "means", "scales"))
        if len(w) != 1 or m != s or len(m) not in (1, 2) or m[0] != w[0]:
            raise ValueError(
                "SpectralMixture: weights must be (Q,), means and scales both (Q,) or both (Q, columns), "
                f"got shapes {w}, {m} and {s}"
            )
        self.n_dims = m[1] if len(m) == 2 else 1

    @property
    def _tables(self) -> tuple[Array, Array]:
        """means and scales, each (Q, D)."""
        Q = len(self.weights)
        return np.reshape(self.means, (Q, -1)), np.reshape(self.scales, (Q, -1))

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        rows: list[Any] = [X]
        for mean, scale in zip(*self._tables):
            f = np.zeros(len(X))
            for c in np.flatnonzero(mean):
                f += phase(X[:, c], 1.0 / mean[c])
            rows += [prepare_metric(X * (TURN * scale)), np.column_stack([np.cos(f), np.sin(f)])]
        return tuple(rows)

    def _component(self, a: Rows, b: Rows, q: int) -> tuple[Array, Array, Array]:
        """Envelope, cosine and sine of component q."""
        envelope, _ = squared_distances(cast(Metric, a[1 + 2 * q]), cast(Metric, b[1 + 2 * q]), False)
        envelope *= -0.5
        np.exp(envelope, out=envelope)
        ca, cb = a[2 + 2 * q], b[2 + 2 * q]
        return envelope, ca @ cb.T, ca[:, ::-1] @ (cb * [1.0, -1.0]).T

    def _block(self, a: Rows, b: Rows) -> Array:
        K = np.zeros((len(a[0]), len(b[0])))
        for q, weight in enumerate(self.weights):
            envelope, cosine, _ = self._component(a, b, q)
            envelope *= cosine
            envelope *= weight
            K += envelope
        return K

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        means, scales = self._tables
        d_weights, d_means, d_scales = np.zeros(len(means)), np.zeros_like(means), np.zeros_like(means)
        for q, weight in enumerate(self.weights):
            envelope, cosine, sine = self._component(a, b, q)
            envelope *= G
            cosine *= envelope
            d_weights[q] = cosine.sum()
            za, zb = a[1 + 2 * q][0], b[1 + 2 * q][0]
            d_scales[q] = -weight * second_moments(za, zb, cosine) / scales[q]
            sine *= envelope
            d_means[q] = -TURN * weight * mean_shift(a[0], b[0], sine)
        return np.concatenate([d_weights, d_means.ravel(), d_scales.ravel()])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        means, scales = self._tables
        dA, dB = np.zeros(a[0].shape), np.zeros(b[0].shape)
        for q, weight in enumerate(self.weights):
            envelope, cosine, sine = self._component(a, b, q)
            envelope *= weight
            envelope *= G
            sine *= envelope
            dA -= np.multiply.outer(sine.sum(axis=1), TURN * means[q])
            dB += np.multiply.outer(sine.sum(axis=0), TURN * means[q])
            cosine *= envelope
            da, db = drifts(a[1 + 2 * q][0], b[1 + 2 * q][0], cosine)
            dA -= da * (TURN * scales[q])
            dB -= db * (TURN * scales[q])
        return dA, dB

    def _diag(self, a: Rows) -> Array:
        return np.full(len(a[0]), self.weights.sum())

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.concatenate([np.full(len(self.weights), g.sum()), np.zeros(2 * self._tables[0].size)])

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros(a[0].shape)
