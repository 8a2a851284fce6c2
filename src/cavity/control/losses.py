"""Losses of states, at points and in expectation under a Gaussian state, with derivatives.

Every loss is made of features y(s): the state itself, or the state with angles as sines and cosines. With e = A y + c,

    quadratic     d^2 = e'e,                 E = z'z + tr(A Cov(y) A'),                     z = A E y + c,
    saturating    1 - exp(-d^2 / (2 w^2)),   E = 1 - |G|^-1/2 exp(-z'G^-1 z / (2 w^2)),     G = I + A Cov(y) A'/w^2.

The moments of y are exact (`trigonometric`), so the first is exact; so is the second without angles, and with them it
takes y for Gaussian (Deisenroth and Rasmussen, 2011). The squared distance of a pole's tip from its goal is the first
with y = (x, sin, cos), which makes the expansion (7.57) of Kuss (2006) unnecessary; `TaylorLoss` is that expansion.

All methods take one state or distribution, or batches on leading axes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.problems import CartPole, Pendulum, Problem
from cavity.control.uncertain_inputs.trigonometric_moments import TrigonometricMap, angle_map
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_positive


class Loss(ABC):
    """A loss of states s (D numbers)."""

    @abstractmethod
    def __call__(self, states: ArrayLike) -> Array:
        """Loss at states (..., D), shape (...)."""

    @abstractmethod
    def gradient(self, states: Array) -> tuple[Array, Array]:
        """Loss (...) at states (..., D) and its derivative in them (..., D)."""

    @abstractmethod
    def expected(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Expected loss (...) for s ~ N(mean (..., D), cov (..., D, D)), and its derivatives in mean and covariance."""


class QuadraticLoss(Loss):
    """Squared length of e = A y(s) + c.

    Parameters
    ----------
    A : array (R, P)
        For P features, which are the states that are no angles in order, then sine and cosine of each angle.
    c : array (R,)
    angles : sequence of int
        Which states enter as sine and cosine.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import QuadraticLoss
    >>> loss = QuadraticLoss.around([0.6, 0.0], [1.0, 0.1])  # (7.54)
    >>> loss([0.5, 1.0]).round(4)
    np.float64(0.11)
    >>> loss.expected(np.array([0.5, 1.0]), np.diag([0.01, 0.1]))[0].round(4)
    np.float64(0.13)
    """

    def __init__(self, A: ArrayLike, c: ArrayLike, angles: Sequence[int] = ()) -> None:
        self.A, self.c = np.asarray(A, dtype=float), np.asarray(c, dtype=float)
        if self.A.ndim != 2 or self.c.shape != (len(self.A),):
            raise ValueError(f"A and c must have shapes (R, P) and (R,), got {self.A.shape}, {self.c.shape}")
        if not (np.isfinite(self.A).all() and np.isfinite(self.c).all()):
            raise ValueError(f"A and c must be finite, got {A!r}, {c!r}")
        self.angles = tuple(int(k) for k in angles)
        self.state_size = self.A.shape[1] - len(self.angles)
        self.features: TrigonometricMap | None = (
            angle_map(self.state_size, self.angles) if self.angles else None
        )

    @classmethod
    def around(cls, target: ArrayLike, weights: ArrayLike) -> QuadraticLoss:
        """(s - target)' W (s - target), with weights (D,) or a positive semi-definite matrix W (D, D)."""
        t, W = np.asarray(target, dtype=float), np.asarray(weights, dtype=float)
        if not np.isfinite(t).all():
            raise ValueError(
                f"target must be finite, got {target!r}; states that do not matter have weight 0"
            )
        W = np.diag(W) if W.ndim == 1 else W
        if W.shape != (len(t), len(t)) or not (np.isfinite(W).all() and np.allclose(W, W.T)):
            raise ValueError(f"weights must be {len(t)} numbers or a symmetric matrix, got {weights!r}")
        values, vectors = np.linalg.eigh(W)
        if values[0] < -1e-12 * abs(values[-1]):
            raise ValueError(
                f"weights must be positive semi-definite, the least eigenvalue is {values[0]:.3g}"
            )
        A = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return cls(A, -A @ t)

    def _check(self, states: Array) -> None:
        if states.ndim == 0 or states.shape[-1] != self.state_size:
            raise ValueError(f"the loss is of states of shape (..., {self.state_size}), got {states.shape}")

    def errors(self, states: Array) -> Array:
        """e at states (..., D), shape (..., R)."""
        self._check(states)
        y = states if self.features is None else self.features(states)
        return np.asarray(y @ self.A.T + self.c)

    def slopes(self, states: Array) -> Array:
        """de/ds at states (..., D), shape (..., R, D)."""
        if self.features is None:
            return self.A
        return np.asarray(self.A @ self.features.jacobian(states))

    def __call__(self, states: ArrayLike) -> Array:
        """Loss at states (..., D), shape (...)."""
        e = self.errors(np.asarray(states, dtype=float))
        return np.asarray(np.sum(e * e, axis=-1))

    def gradient(self, states: Array) -> tuple[Array, Array]:
        """Loss (...) and its derivative (..., D) at states (..., D)."""
        e = self.errors(states)
        pulled = (e[..., None, :] @ self.slopes(states))[..., 0, :]
        return np.sum(e * e, axis=-1), 2.0 * pulled

    def moments(self, mean: Array, cov: Array) -> tuple[Array, Array, object]:
        """Mean (..., R) and covariance (..., R, R) of e, and what `pull` needs."""
        self._check(mean)
        if self.features is None:
            return mean @ self.A.T + self.c, self.A @ cov @ self.A.T, None
        y, cache = self.features.forward(mean, cov, check=False)
        return y.mean @ self.A.T + self.c, self.A @ y.covariance @ self.A.T, cache

    def pull(self, cache: object, d_z: Array, d_C: Array) -> tuple[Array, Array]:
        """Adjoints of mean and covariance of e pulled back to those of the state."""
        d_y, d_Y = d_z @ self.A, self.A.T @ d_C @ self.A
        if self.features is None:
            return d_y, d_Y
        return self.features.pull(cache, d_mean=d_y, d_cov=d_Y)  # type: ignore[arg-type]

    def expected(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Expected loss (...) and its derivatives in mean (..., D) and covariance (..., D, D)."""
        z, C, cache = self.moments(mean, cov)
        value = np.sum(z * z, axis=-1) + np.trace(C, axis1=-2, axis2=-1)
        d_C = np.broadcast_to(np.eye(len(self.c)), C.shape)
        return (value, *self.pull(cache, 2.0 * z, d_C))


class SaturatingLoss(Loss):
    """1 - exp(-d^2 / (2 w^2)) for the d^2 of a quadratic loss: near zero at the goal, one far from it.

    An expected quadratic loss grows with every variance, so that a planner avoids uncertainty even on the only way to
    the goal; this loss does not punish an uncertain state more than one that is surely bad.

    Examples
    --------
    >>> from cavity.control import QuadraticLoss, SaturatingLoss
    >>> loss = SaturatingLoss(QuadraticLoss.around([0.6, 0.0], [1.0, 0.1]), width=0.5)
    >>> float(loss([0.6, 0.0])), round(float(loss([50.0, 0.0])), 4)
    (0.0, 1.0)
    """

    def __init__(self, quadratic: QuadraticLoss, width: float) -> None:
        require_positive(width, "width")
        self.quadratic, self.width = quadratic, float(width)

    def __call__(self, states: ArrayLike) -> Array:
        """Loss at states (..., D), shape (...)."""
        return np.asarray(-np.expm1(-0.5 * self.quadratic(states) / self.width**2))

    def gradient(self, states: Array) -> tuple[Array, Array]:
        """Loss (...) and its derivative (..., D) at states (..., D)."""
        square, slope = self.quadratic.gradient(states)
        near = np.exp(-0.5 * square / self.width**2)
        value = -np.expm1(-0.5 * square / self.width**2)
        return value, (0.5 * near / self.width**2)[..., None] * slope

    def expected(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Expected loss (...) and its derivatives in mean (..., D) and covariance (..., D, D)."""
        z, C, cache = self.quadratic.moments(mean, cov)
        w2 = self.width**2
        G = np.eye(z.shape[-1]) + C / w2
        inverse = np.linalg.inv(G)
        v = (inverse @ z[..., None])[..., 0]
        exponent = -0.5 * np.linalg.slogdet(G)[1] - 0.5 * np.sum(z * v, axis=-1) / w2
        near = np.exp(exponent)
        d_z = near[..., None] * v / w2
        d_G = 0.5 * near[..., None, None] * (inverse - v[..., :, None] * v[..., None, :] / w2)
        return (-np.expm1(exponent), *self.quadratic.pull(cache, d_z, d_G / w2))


class TaylorLoss(Loss):
    """A quadratic loss expanded to second order around the mean, (7.56) and (7.57) of Kuss (2006).

    E d^2 ~ d^2(m) + tr(H(m) S) / 2, where the Hessian H is shifted by its least eigenvalue if that is negative. The
    shift keeps the expected loss positive, and makes it non-smooth.
    """

    def __init__(self, quadratic: QuadraticLoss) -> None:
        self.quadratic = quadratic

    def __call__(self, states: ArrayLike) -> Array:
        """Loss at states (..., D), shape (...)."""
        return self.quadratic(states)

    def gradient(self, states: Array) -> tuple[Array, Array]:
        """Loss (...) and its derivative (..., D) at states (..., D)."""
        return self.quadratic.gradient(states)

    def _used(self) -> list[int]:
        """States the loss depends on; the Hessian is taken in these."""
        q = self.quadratic
        rest = [k for k in range(q.state_size) if k not in q.angles]
        return sorted([k for j, k in enumerate(rest) if q.A[:, j].any()] + list(q.angles))

    def expected(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Expected loss (...) and its derivatives in mean (..., D) and covariance (..., D, D)."""
        q = self.quadratic
        if q.features is None:
            return q.expected(mean, cov)
        value, slope = q.gradient(mean)
        used = self._used()
        omega, c = q.features.omega, q.features.c
        Q = q.A.T @ q.A
        phase = np.exp(1j * (mean @ omega.T))
        waves = c * phase[..., None, :]  # (..., P, K)
        J = q.features.jacobian(mean)
        a = q.errors(mean) @ q.A
        bend = -(a[..., None, :] @ waves.real)[..., 0, :]  # sum_p a_p d^2 y_p = omega' diag(bend) omega
        H = 2.0 * (np.swapaxes(J, -1, -2) @ Q @ J + (omega.T * bend[..., None, :]) @ omega)
        values, vectors = np.linalg.eigh(H[..., used, :][..., used])
        least, u = values[..., 0], np.zeros(mean.shape)
        u[..., used] = vectors[..., :, 0]
        spread = np.trace(cov[..., used, :][..., used], axis1=-2, axis2=-1)
        shift = np.maximum(-least, 0.0)
        inside = np.zeros((mean.shape[-1],) * 2)
        inside[used, used] = 1.0
        value = value + 0.5 * (np.sum(H * cov, axis=(-2, -1)) + shift * spread)
        d_cov = 0.5 * (H + shift[..., None, None] * inside)
        # derivative of tr(M H) at fixed M: the shift is that of the least eigenvalue u'H u
        lowered = np.where(least < 0, spread, 0.0)[..., None, None]
        M = 0.5 * (cov - lowered * u[..., :, None] * u[..., None, :])
        h = np.einsum("kd,...de,ke->...k", omega, M, omega)
        QJ = Q @ J
        turned = np.sum((QJ @ M @ omega.T) * waves.real, axis=-2)
        t = -(waves.real @ h[..., None])[..., 0]
        grown = (1j * waves).real
        third = -4.0 * turned @ omega + 2.0 * (t[..., None, :] @ QJ)[..., 0, :]
        third = third - 2.0 * (np.sum(a[..., :, None] * grown, axis=-2) * h) @ omega
        return value, slope + third, d_cov


def tip_distance(problem: Problem, speed: float = 0.0) -> QuadraticLoss:
    """Squared distance of the pole's tip from its place above the goal: (7.55) for the cart-pole, and the pendulum's.

    Parameters
    ----------
    problem : CartPole or Pendulum
    speed : float
        Seconds; adds (speed x')^2 for the cart's velocity, or the pendulum's angular velocity times its length. A tip
        that only passes its goal costs as little as one that rests there; a small weight lets short plans come to rest.

    Examples
    --------
    >>> from cavity.control import CartPole
    >>> from cavity.control import tip_distance
    >>> pole = CartPole()
    >>> float(tip_distance(pole)(pole.start).round(2))  # (4 l)^2, hanging
    1.44
    """
    if isinstance(problem, CartPole):
        reach = 2.0 * problem.length
        # features: x, x', theta', sin, cos
        rows, c = [[1.0, 0, 0, reach, 0], [0, 0, 0, 0, reach], [0, speed, 0, 0, 0]], [0.0, reach, 0.0]
        angle = 2
    elif isinstance(problem, Pendulum):
        length = problem.length
        # features: angular velocity, sin, cos
        rows, c = [[0, length, 0], [0, 0, length], [speed * length, 0, 0]], [0.0, -length, 0.0]
        angle = 0
    else:
        raise ValueError(
            f"tip_distance knows CartPole and Pendulum, got {problem!r}; use QuadraticLoss(A, c, angles)"
        )
    used = slice(None) if speed else slice(2)
    return QuadraticLoss(rows[used], c[used], angles=[angle])
