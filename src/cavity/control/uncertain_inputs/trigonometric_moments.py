"""Exact moments of sines and cosines of Gaussian variables: angles as (sin, cos), and squashed actions.

A `TrigonometricMap` takes x ~ N(m, S), D variables, to P outputs, each linear plus a trigonometric polynomial,

    y_p = l_p'x + Re sum_k c_pk exp(i w_k'x),

with K frequency vectors w_k. With p_k = E exp(i w_k'x) = exp(i w_k'm - w_k'S w_k / 2) and C_kj = w_k'S w_j,

    E y = l m + Re(c p),      gain J' with J = E dy/dx = l + B Omega,  B = Re(i c diag(p)),   Cov(z, y) = Cov(z, x) J'
    Cov(y, y') = l S l' + l S Omega'B' + B Omega S l' + Re(c F c^T + c G c^H) / 2,
    F_kj = p_k p_j (exp(-C_kj) - 1),    G_kj = p_k conj(p_j) (exp(C_kj) - 1)

(Stein's lemma for the mixed terms, exact for any z jointly Gaussian with x). The differences are taken with expm1,
so that small variances keep all digits; nothing is divided by S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.control.uncertain_inputs.output_moments import OutputMoments, checked_gaussian
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_positive

Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class TrigonometricCache:
    """What `TrigonometricMap.pull` needs of a forward pass."""

    S: Array
    phases: Complex
    F: Complex
    G: Complex
    J: Array


def _transposed(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


class TrigonometricMap:
    """Outputs that are linear plus trigonometric in D jointly Gaussian variables.

    Parameters
    ----------
    linear : array (P, D)
    frequencies : array (K, D)
    coefficients : complex array (P, K)
        A sine has coefficient -1j, a cosine 1.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import TrigonometricMap, angle_map
    >>> isinstance(angle_map(1, [0]), TrigonometricMap)
    True
    >>> result, _ = angle_map(1, [0]).forward([0.0], [[0.2]])
    >>> result.mean.round(4)  # E sin, E cos = exp(-0.1)
    array([0.    , 0.9048])
    """

    def __init__(self, linear: ArrayLike, frequencies: ArrayLike, coefficients: ArrayLike) -> None:
        self.linear = np.asarray(linear, dtype=float)
        self.omega = np.asarray(frequencies, dtype=float)
        self.c = np.asarray(coefficients, dtype=complex)
        self.P, self.D = self.linear.shape
        if self.omega.shape[1:] != (self.D,) or self.c.shape != (self.P, len(self.omega)):
            raise ValueError(
                f"linear {self.linear.shape}, frequencies {self.omega.shape} and coefficients {self.c.shape} do "
                "not fit together: they must be (P, D), (K, D) and (P, K)"
            )

    def __call__(self, x: ArrayLike) -> Array:
        """The map itself at points x (..., D), shape (..., P)."""
        x = np.asarray(x, dtype=float)
        return np.asarray(x @ self.linear.T + (np.exp(1j * (x @ self.omega.T)) @ self.c.T).real)

    def jacobian(self, x: ArrayLike) -> Array:
        """dy/dx at points x (..., D), shape (..., P, D)."""
        B = (1j * self.c * np.exp(1j * (np.asarray(x, dtype=float) @ self.omega.T))[..., None, :]).real
        return np.asarray(self.linear + B @ self.omega)

    def forward(
        self, m: ArrayLike, S: ArrayLike, check: bool = True
    ) -> tuple[OutputMoments, TrigonometricCache]:
        """Moments of y for x ~ N(m, S), one distribution or a batch on the leading axis.

        The input-output covariance is `result.cross`, Cov(x, y) = S J'; `result.gain` is J', shape (D, P).
        """
        if check:
            m, S = checked_gaussian(m, S, self.D)
        else:
            m, S = np.asarray(m, dtype=float), np.asarray(S, dtype=float)
        omega, linear, c = self.omega, self.linear, self.c
        theta, C = m @ omega.T, omega @ S @ omega.T
        own = np.diagonal(C, axis1=-2, axis2=-1)
        phases = np.exp(1j * theta - 0.5 * own)
        turn = np.exp(1j * theta)
        log_size = -0.5 * (own[..., :, None] + own[..., None, :])
        F = (turn[..., :, None] * turn[..., None, :]) * _grown(log_size, -C)
        G = (turn[..., :, None] * turn.conj()[..., None, :]) * _grown(log_size, C)
        B = (1j * c * phases[..., None, :]).real
        J = linear + B @ omega
        mixed = linear @ S @ omega.T @ _transposed(B)
        cov = linear @ S @ linear.T + mixed + _transposed(mixed)
        cov = cov + 0.5 * (c @ F @ c.T + c @ G @ c.conj().T).real
        gain = np.ascontiguousarray(_transposed(J))
        mean = m @ linear.T + (phases @ c.T).real
        result = OutputMoments(mean, 0.5 * (cov + _transposed(cov)), gain, S @ gain)
        return result, TrigonometricCache(S, phases, F, G, J)

    def pull(
        self,
        cache: TrigonometricCache,
        d_mean: ArrayLike | None = None,
        d_cov: ArrayLike | None = None,
        d_cross: ArrayLike | None = None,
        d_gain: ArrayLike | None = None,
    ) -> tuple[Array, Array]:
        """Adjoints of the results pulled back to m (..., D) and S (..., D, D), the latter symmetric."""
        omega, linear, c, S, p = self.omega, self.linear, self.c, cache.S, cache.phases
        lead = p.shape[:-1]
        B_bar = np.zeros((*lead, self.P, len(omega)))
        J_bar = np.zeros((*lead, self.P, self.D))
        a, d_S = np.zeros(p.shape, dtype=complex), np.zeros((*lead, self.D, self.D))
        d_theta, d_own = np.zeros(p.shape), np.zeros(p.shape)
        d_m = np.zeros((*lead, self.D))
        if d_mean is not None:
            mb = np.asarray(d_mean, dtype=float)
            a = a + (mb @ c) * p
            d_m += mb @ linear
        if d_gain is not None:
            J_bar += _transposed(np.asarray(d_gain, dtype=float))
        if d_cross is not None:
            X = np.asarray(d_cross, dtype=float)
            J_bar += _transposed(X) @ S
            d_S += X @ cache.J
        if d_cov is not None:
            V = np.asarray(d_cov, dtype=float)
            V = 0.5 * (V + _transposed(V))
            B = (1j * c * p[..., None, :]).real
            B_bar += 2.0 * V @ (linear @ S @ omega.T)
            d_S += linear.T @ V @ (linear + 2.0 * B @ omega)
            U, W = c.T @ V @ c, c.T @ V @ c.conj()
            MF, MG = U * cache.F, W * cache.G
            rows, columns = (MF + MG).sum(-1), MF.sum(-2)
            d_theta += 0.5 * (1j * (rows + columns - MG.sum(-2))).real
            d_own += -0.25 * (rows + columns + MG.sum(-2)).real
            # p_k p_j exp(-C) = F + p_k p_j, and likewise for G
            full_F = cache.F + p[..., :, None] * p[..., None, :]
            full_G = cache.G + p[..., :, None] * p.conj()[..., None, :]
            d_S += omega.T @ (0.5 * (W * full_G - U * full_F).real) @ omega
        B_bar += J_bar @ omega.T
        a = a + np.sum(B_bar * (1j * c * p[..., None, :]), axis=-2)
        d_theta += (1j * a).real
        d_own += -0.5 * a.real
        d_m += d_theta @ omega
        d_S += (omega.T * d_own[..., None, :]) @ omega
        return d_m, 0.5 * (d_S + _transposed(d_S))


def _grown(log_size: Array, t: Array) -> Array:
    """exp(log_size) (exp(t) - 1), without overflow for large t and without cancellation for small t."""
    large = t > 1.0
    small = np.exp(log_size) * np.expm1(np.where(large, 0.0, t))
    return np.where(large, np.exp(log_size + np.where(large, t, 0.0)) - np.exp(log_size), small)


def angle_map(n_inputs: int, angles: Sequence[int]) -> TrigonometricMap:
    """Angles as sines and cosines: the other variables in order, then (sin, cos) of each angle.

    Parameters
    ----------
    n_inputs : int
    angles : sequence of int
        Which variables are angles, in radians.

    Examples
    --------
    >>> import numpy as np
    >>> wheel = angle_map(2, [1])
    >>> result, _ = wheel.forward([0.5, np.pi / 2], np.diag([0.1, 0.2]))
    >>> result.mean.round(4)  # x, E sin = exp(-0.1), E cos = 0
    array([0.5   , 0.9048, 0.    ])
    """
    listed = [int(k) for k in angles]
    if len(set(listed)) < len(listed) or not all(0 <= k < n_inputs for k in listed):
        raise ValueError(f"angles must be different indices from 0 to {n_inputs - 1}, got {list(angles)!r}")
    rest = [k for k in range(n_inputs) if k not in listed]
    P = len(rest) + 2 * len(listed)
    linear, c = np.zeros((P, n_inputs)), np.zeros((P, len(listed)), dtype=complex)
    linear[: len(rest)] = np.eye(n_inputs)[rest]
    for k in range(len(listed)):
        c[len(rest) + 2 * k, k], c[len(rest) + 2 * k + 1, k] = -1j, 1.0
    return TrigonometricMap(linear, np.eye(n_inputs)[listed], c)


def squash_map(n_inputs: int, actions: Sequence[int], limit: ArrayLike) -> TrigonometricMap:
    """Bounded actions: all variables in order, those of `actions` squashed to [-limit, limit].

    The squashed action is limit (9 sin u + sin 3u) / 8, flat at the bounds and of slope 3/2 at zero (as in PILCO;
    Deisenroth, 2010).

    Parameters
    ----------
    n_inputs : int
    actions : sequence of int
        Which variables are squashed.
    limit : float or array (number of actions,)

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import squash_map
    >>> bounded, _ = squash_map(2, [1], limit=4.0).forward([0.5, 100.0], 1e-12 * np.eye(2))
    >>> bool(abs(bounded.mean[1]) <= 4.0)
    True
    """
    listed = [int(k) for k in actions]
    if len(set(listed)) < len(listed) or not all(0 <= k < n_inputs for k in listed):
        raise ValueError(f"actions must be different indices from 0 to {n_inputs - 1}, got {list(actions)!r}")
    bounds = np.broadcast_to(np.asarray(limit, dtype=float), (len(listed),))
    require_positive(bounds, "limit")
    linear, rates = np.eye(n_inputs), ((1.0, 9.0 / 8.0), (3.0, 1.0 / 8.0))
    omega = np.zeros((len(listed) * len(rates), n_inputs))
    c = np.zeros((n_inputs, len(omega)), dtype=complex)
    for j, (k, bound) in enumerate(zip(listed, bounds)):
        linear[k, k] = 0.0
        for r, (rate, size) in enumerate(rates):
            omega[j * len(rates) + r, k] = rate
            c[k, j * len(rates) + r] = -1j * bound * size
    return TrigonometricMap(linear, omega, c)
