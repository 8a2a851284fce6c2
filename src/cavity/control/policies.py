"""Feedback policies with bounded actions, and their moments at a Gaussian state, with all derivatives.

An action is u(s) = middle + half * squash(p(x(s))): features x are the state with angles as sines and cosines, p is
linear or a sum of Gaussian bumps, and squash (9 sin p + sin 3p) / 8 keeps actions within their bounds (Deisenroth,
2010). Moments are matched at each of the three stages; gains multiply, so that Cov(s, u) = Cov(s) K with
K = J_x q J_u, and nothing is divided by the covariance.

Parameters are one flat vector theta, and `pull` gives derivatives in them beside those in mean and covariance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.problems.problem import Problem, checked_ends
from cavity.control.uncertain_inputs.output_moments import OutputMoments
from cavity.control.uncertain_inputs.trigonometric_moments import TrigonometricMap, angle_map, squash_map
from cavity.numerics.arrays import Array
from cavity.runtime.storing import Storable


def _t(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


@dataclass(frozen=True)
class PolicyCache:
    """What `Policy.pull` needs of a forward pass."""

    features: Any
    inner: Any
    squashed: Any
    J_x: Array
    q: Array
    J_u: Array


class Policy(Storable, ABC):
    """A squashed policy of F actions; subclasses have the function p.

    Parameters
    ----------
    state_size : int
    action_bounds : array (F, 2)
    angles : sequence of int
        Which states enter as sine and cosine.
    theta : array
        Parameters.
    """

    def __init__(
        self, state_size: int, action_bounds: ArrayLike, angles: Sequence[int], theta: ArrayLike
    ) -> None:
        low, high = checked_ends(action_bounds, "action_bounds", len(np.asarray(action_bounds)))
        self.bounds = np.column_stack([low, high])
        self.state_size, self.angles = int(state_size), tuple(int(k) for k in angles)
        self.middle, half = 0.5 * (low + high), 0.5 * (high - low)
        self.F, self.P = len(low), self.state_size + len(self.angles)
        self.features: TrigonometricMap = angle_map(self.state_size, self.angles)
        self.squash = squash_map(self.F, range(self.F), half)
        self.theta = np.array(theta, dtype=float)

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The same policy with other parameters."""
        return type(self)(self.state_size, self.bounds, self.angles, theta)

    @abstractmethod
    def _forward(self, m: Array, S: Array) -> tuple[Array, Array, Array, Any]:
        """Mean (F,), covariance (F, F), gain (P, F) of p for x ~ N(m, S), and a cache."""

    @abstractmethod
    def _pull(self, cache: Any, d_m: Array, d_V: Array, d_q: Array) -> tuple[Array, Array, Array]:
        """Adjoints of these pulled back to m, S and theta."""

    @abstractmethod
    def _at(self, x: Array) -> tuple[Array, Any]:
        """p (..., F) at features x (..., P), and a cache."""

    @abstractmethod
    def _pull_at(self, cache: Any, d_p: Array) -> tuple[Array, Array]:
        """Adjoints of p (B, F) pulled back to features (B, P) and theta."""

    def __call__(self, states: ArrayLike) -> Array:
        """Actions (..., F) at states (..., D)."""
        s = np.asarray(states, dtype=float)
        if s.ndim == 0 or s.shape[-1] != self.state_size:
            raise ValueError(f"the policy is for states of shape (..., {self.state_size}), got {s.shape}")
        return np.asarray(self.middle + self.squash(self._at(self.features(s))[0]))

    def at(self, states: Array) -> tuple[Array, Any]:
        """Actions (B, F) at known states (B, D), and what `pull_at` needs."""
        p, cache = self._at(self.features(states))
        return self.middle + self.squash(p), (states, p, cache)

    def pull_at(self, cache: Any, d_actions: Array) -> tuple[Array, Array]:
        """Adjoints of actions (B, F) at known states pulled back to the states (B, D) and theta."""
        states, p, inner = cache
        slope = np.einsum("bff->bf", self.squash.jacobian(p))
        d_x, d_theta = self._pull_at(inner, d_actions * slope)
        return np.einsum("bp,bpd->bd", d_x, self.features.jacobian(states)), d_theta

    def forward(self, m: ArrayLike, S: ArrayLike) -> tuple[OutputMoments, PolicyCache]:
        """Moments of the action for s ~ N(m, S)."""
        x, c_x = self.features.forward(m, S, check=False)
        p, V, q, c_p = self._forward(x.mean, x.covariance)
        u, c_u = self.squash.forward(p, V, check=False)
        K = x.gain @ q @ u.gain
        result = OutputMoments(self.middle + u.mean, u.covariance, K, np.asarray(S) @ K)
        return result, PolicyCache(c_x, c_p, c_u, x.gain, q, u.gain)

    def pull(
        self, cache: PolicyCache, d_mean: Array, d_cov: Array, d_gain: Array
    ) -> tuple[Array, Array, Array]:
        """Adjoints of mean, covariance and gain of the action pulled back to m, S and theta."""
        J_x, q, J_u = cache.J_x, cache.q, cache.J_u
        d_p, d_V = self.squash.pull(cache.squashed, d_mean=d_mean, d_cov=d_cov, d_gain=_t(J_x @ q) @ d_gain)
        m_x, S_x, d_theta = self._pull(cache.inner, d_p, d_V, _t(J_x) @ d_gain @ _t(J_u))
        d_m, d_S = self.features.pull(cache.features, d_mean=m_x, d_cov=S_x, d_gain=d_gain @ _t(q @ J_u))
        return d_m, d_S, d_theta


class LinearPolicy(Policy):
    """p = W x + b.

    `theta` holds b (F,), then W (F, P) row by row.

    Examples
    --------
    >>> from cavity.control import LinearPolicy, Pendulum
    >>> policy = LinearPolicy.start(Pendulum(), rng=0)
    >>> policy(Pendulum().start).shape
    (1,)
    """

    @classmethod
    def start(cls, problem: Problem, rng: np.random.Generator | int | None = None) -> LinearPolicy:
        """Small random parameters."""
        size = problem.action_size * (problem.state_size + len(problem.angles) + 1)
        theta = 0.1 * np.random.default_rng(rng).standard_normal(size)
        return cls(problem.state_size, problem.action_bounds, problem.angles, theta)

    def __init__(
        self, state_size: int, action_bounds: ArrayLike, angles: Sequence[int], theta: ArrayLike
    ) -> None:
        super().__init__(state_size, action_bounds, angles, theta)
        if self.theta.shape != (self.F * (self.P + 1),):
            raise ValueError(
                f"theta must have F (P + 1) numbers, P = {self.P}, F = {self.F}, got shape {self.theta.shape}"
            )

    @property
    def offset(self) -> Array:
        """b (F,)."""
        return self.theta[: self.F]

    @property
    def slope(self) -> Array:
        """W (F, P)."""
        return self.theta[self.F :].reshape(self.F, self.P)

    def _at(self, x: Array) -> tuple[Array, Any]:
        return x @ self.slope.T + self.offset, x

    def _pull_at(self, cache: Any, d_p: Array) -> tuple[Array, Array]:
        return d_p @ self.slope, np.concatenate([d_p.sum(axis=0), (d_p.T @ cache).ravel()])

    def _forward(self, m: Array, S: Array) -> tuple[Array, Array, Array, Any]:
        W = self.slope
        return self._at(m)[0], W @ S @ W.T, W.T.copy(), (m, S)

    def _pull(self, cache: Any, d_m: Array, d_V: Array, d_q: Array) -> tuple[Array, Array, Array]:
        (m, S), W = cache, self.slope
        d_W = np.multiply.outer(d_m, m) + 2.0 * d_V @ W @ S + d_q.T
        return d_m @ W, W.T @ d_V @ W, np.concatenate([d_m, d_W.ravel()])


class RBFPolicy(Policy):
    """p_f = sum_i w_fi exp(-|x - c_i|^2 / 2), lengths in units of one length scale for each feature.

    `theta` holds the logarithms of the P length scales, the n centers (n, P), then the weights (F, n).

    With lengths so scaled, nu_i = c_i - m, A = I + S, u_i = A^-1 nu_i, R = I + 2 S:

        E b_i = |A|^-1/2 exp(-nu_i'u_i / 2),
        E b_i b_j = |R|^-1/2 exp(-|c_i - c_j|^2 / 4 - s'R^-1 s / 4),    s = nu_i + nu_j.

    Examples
    --------
    >>> from cavity.control import Pendulum, RBFPolicy
    >>> policy = RBFPolicy.start(Pendulum(), 20, rng=0)
    >>> len(policy.theta)  # 3 length scales, 20 centers of 3 features, 20 weights
    83
    """

    @classmethod
    def start(
        cls,
        problem: Problem,
        centers: int,
        rng: np.random.Generator | int | None = None,
        states: ArrayLike | None = None,
        length_scales: ArrayLike | None = None,
        size: float = 0.1,
    ) -> RBFPolicy:
        """Centers at random rows of `states` (by default of the region), weights of standard deviation `size`."""
        rng = np.random.default_rng(rng)
        known = problem.draw_states(centers, rng) if states is None else np.asarray(states, dtype=float)
        chosen = known[rng.choice(len(known), centers, replace=len(known) < centers)]
        x = angle_map(problem.state_size, problem.angles)(chosen)
        if length_scales is None:
            rest = [k for k in range(problem.state_size) if k not in problem.angles]
            width = (problem.state_high - problem.state_low)[rest]
            length_scales = np.concatenate([0.25 * width, np.ones(2 * len(problem.angles))])
        x = x + 0.1 * np.asarray(length_scales) * rng.standard_normal(x.shape)
        weights = size * rng.standard_normal((problem.action_size, centers))
        theta = np.concatenate([np.log(np.asarray(length_scales)), x.ravel(), weights.ravel()])
        return cls(problem.state_size, problem.action_bounds, problem.angles, theta)

    def __init__(
        self, state_size: int, action_bounds: ArrayLike, angles: Sequence[int], theta: ArrayLike
    ) -> None:
        super().__init__(state_size, action_bounds, angles, theta)
        self.n, left = divmod(len(self.theta) - self.P, self.P + self.F)
        if left or self.n < 1:
            raise ValueError(
                f"theta must have P + n (P + F) numbers, P = {self.P}, F = {self.F}, got {len(self.theta)}"
            )
        self.scales = np.exp(self.theta[: self.P])
        centers = self.theta[self.P : self.P * (self.n + 1)].reshape(self.n, self.P)
        self.centers = centers / self.scales
        self.weights = self.theta[self.P * (self.n + 1) :].reshape(self.F, self.n)

    def _at(self, x: Array) -> tuple[Array, Any]:
        y, c = x / self.scales, self.centers
        # -|y - c|^2 / 2, never positive but for rounding
        exponent = y @ c.T - 0.5 * np.einsum("...p,...p->...", y, y)[..., None]
        exponent -= 0.5 * np.einsum("np,np->n", c, c)
        b = np.exp(np.minimum(exponent, 0.0))
        return b @ self.weights.T, (y, b)

    def _pull_at(self, cache: Any, d_p: Array) -> tuple[Array, Array]:
        (y, b), c = cache, self.centers
        g = (d_p @ self.weights) * b  # (B, n)
        rows, columns = g.sum(axis=1)[:, None], g.sum(axis=0)[:, None]
        d_y, d_c = g @ c - rows * y, g.T @ y - columns * c
        # lengths are in units of the scales: d log scale = -(y dy + c dc)
        d_log = -np.sum(d_y * y, axis=0) - np.sum(d_c * c, axis=0)
        d_theta = np.concatenate([d_log, (d_c / self.scales).ravel(), (d_p.T @ b).ravel()])
        return d_y / self.scales, d_theta

    def _forward(self, m: Array, S: Array) -> tuple[Array, Array, Array, Any]:
        m, S = m / self.scales, S / np.multiply.outer(self.scales, self.scales)
        nu, eye = self.centers - m, np.eye(self.P)
        A, R = np.linalg.inv(eye + S), np.linalg.inv(eye + 2.0 * S)
        u = nu @ A
        b = np.exp(0.5 * np.linalg.slogdet(A)[1] - 0.5 * np.sum(nu * u, axis=1))
        turned = nu @ R
        own = np.sum(turned * nu, axis=1)
        square = np.sum(nu * nu, axis=1)
        # -(|nu_i - nu_j|^2 + (nu_i + nu_j)'R^-1(nu_i + nu_j)) / 4
        exponent = 0.5 * (nu - turned) @ nu.T - 0.25 * (square + own)[:, None] - 0.25 * (square + own)
        Q = np.exp(0.5 * np.linalg.slogdet(R)[1] + exponent)
        w = self.weights
        p, q = w @ b, (w * b) @ u
        V = w @ Q @ w.T - np.multiply.outer(p, p)
        return p, V, (q / self.scales).T, (m, S, nu, A, R, u, b, Q, p, q)

    def _pull(self, cache: Any, d_m: Array, d_V: Array, d_q: Array) -> tuple[Array, Array, Array]:
        m, S, nu, A, R, u, b, Q, p, q = cache
        w, scales = self.weights, self.scales
        d_V = 0.5 * (d_V + d_V.T)
        pb, qb = d_m - 2.0 * d_V @ p, d_q.T / scales  # (F,), (F, P)
        # single bumps
        along = pb[:, None] + qb @ u.T  # (F, n)
        g = b * np.sum(w * along, axis=0)
        d_w = b * along
        d_nu = -g[:, None] * u + b[:, None] * (w.T @ (qb @ A))
        bent = (qb @ A).T @ q
        d_S = 0.5 * ((u * g[:, None]).T @ u - g.sum() * A) - 0.5 * (bent + bent.T)
        # pairs
        G = (w.T @ d_V @ w) * Q
        r, GN = G.sum(axis=1), G @ nu
        rN = r[:, None] * nu
        d_nu -= rN - GN + (rN + GN) @ R
        d_S += R @ (rN.T @ nu + nu.T @ GN) @ R - G.sum() * R
        d_w += 2.0 * d_V @ (w @ Q)
        d_mean = -d_nu.sum(axis=0)
        d_log = -(d_mean * m + np.sum(d_nu * self.centers, axis=0) + 2.0 * np.sum(d_S * S, axis=0))
        d_log -= np.sum(qb * q, axis=0)
        d_theta = np.concatenate([d_log, (d_nu / scales).ravel(), d_w.ravel()])
        return d_mean / scales, d_S / np.multiply.outer(scales, scales), d_theta
