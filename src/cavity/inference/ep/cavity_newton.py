"""EP in cavity coordinates: a point, its equations with an exact Jacobian, and Newton's method.

The unknowns are the cavities, (shift nu_i, rho_i = log(precision_i - lower limit)), so that they always exist. Given
them, the tilted moments follow, sites are set so that marginals equal the tilted moments, and what is left over is the
mismatch with the marginals of q: 2n equations,

    J = C_q (C_s^-1 C_t - I) / eta - C_t,

with covariances of the statistics (f, -f^2/2) under q, the tilted densities, and the normal densities that share the
tilted moments.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np

from cavity.inference.ep.parallel import state_or_none
from cavity.inference.ep.state import TOLERANCE, EPProblem, EPState
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array

ERRORS = (np.linalg.LinAlgError, ValueError, FloatingPointError)
"""What evaluating a point raises where there is none."""

NEWTON_STEPS = 20


class CavityPoint:
    """Cavities and what follows from them.

    Standardized statistics are (x, -x^2/2) with x = (f - tilted mean)/tilted sd. A step has two halves: changes of
    the shifts (standardized, about the tilted means) and of rho.
    """

    def __init__(self, problem: EPProblem, shift: Array, rho: Array) -> None:
        self.problem, self.shift, self.rho = problem, shift, rho
        self.gap = np.exp(rho)
        self.precision = problem.min_cavity_precision + self.gap
        t = self.tilted = problem.tilted(shift, self.precision, 4)
        self.c3, self.c4 = cast(Array, t.c3), cast(Array, t.c4)
        if not (np.all(t.var > 0) and np.all(np.isfinite(t.mean)) and np.all(np.isfinite(self.c4))):
            raise FloatingPointError("tilted moments")
        self.sd = np.sqrt(t.var)
        eta = problem.power
        self.sites = Sites((t.mean / t.var - shift) / eta, (1 / t.var - self.precision) / eta)
        self.q = problem.given(self.sites)
        self.ratio = self.q.var / t.var
        if not np.all(self.ratio > 0):
            raise FloatingPointError("marginal variances")
        self.off = (self.q.mean - t.mean) / self.sd
        self.equations = np.concatenate([self.off, -0.5 * (self.ratio + self.off**2 - 1)])
        self.merit = float(np.sqrt(np.sum(self.off**2 + np.log(self.ratio) ** 2)))
        self.residual = float(
            max(np.max(np.abs(self.off) / np.sqrt(self.ratio)), np.max(np.abs(1 / self.ratio - 1)))
        )
        if not np.isfinite(self.merit):
            raise FloatingPointError("mismatch")

    @classmethod
    def of_state(cls, state: EPState) -> CavityPoint:
        """The point with the cavities of a state."""
        shift, precision = state.cavity
        return cls(state.problem, shift, np.log(precision - state.problem.min_cavity_precision))

    @cached_property
    def covariances(self) -> tuple[Array, Array, Array]:
        """Blocks 11, 12, 22 of the covariance of the standardized statistics under q."""
        R = self.q.covariance / self.sd[:, None] / self.sd
        a = self.off
        return R, -R * a, R * (0.5 * R + a[:, None] * a)

    @cached_property
    def tilted_covariances(self) -> tuple[Array, Array]:
        """Entries 12 and 22 of the covariances of the standardized statistics under the tilted densities (11 is 1)."""
        v = self.tilted.var
        return -0.5 * self.c3 / (v * self.sd), 0.25 * (self.c4 / v**2 - 1)

    def jacobian(self) -> Array:
        """d equations / d step."""
        (Q11, Q12, Q22), (T12, T22) = self.covariances, self.tilted_covariances
        eta, n = self.problem.power, len(self.rho)
        e = self.gap * self.tilted.var  # d precision / d rho, standardized
        m12, m21, m22 = T12 * e / eta, 2 * T12 / eta, (2 * T22 - 1) * e / eta
        J = np.empty((2 * n, 2 * n))
        J[:n, :n] = Q12 * m21
        J[:n, n:] = Q11 * m12 + Q12 * m22
        J[n:, :n] = Q22 * m21
        J[n:, n:] = Q12.T * m12 + Q22 * m22
        i = np.arange(n)
        J[i, i] -= 1
        J[i, n + i] -= T12 * e
        J[n + i, i] -= T12
        J[n + i, n + i] -= T22 * e
        return J

    def under_sites(self, d_shift: Array, d_precision: Array) -> Array:
        """Change of the moments of q under a change of the sites (standardized)."""
        Q11, Q12, Q22 = self.covariances
        return np.concatenate([Q11 @ d_shift + Q12 @ d_precision, Q12.T @ d_shift + Q22 @ d_precision])

    def under_moments(self, d1: Array, d2: Array, c1: Array | float = 0.0, c2: Array | float = 0.0) -> Array:
        """Change of the equations where tilted moments change by (d1, d2) and cavities by (c1, c2)."""
        eta = self.problem.power
        return np.asarray(self.under_sites((d1 - c1) / eta, (2 * d2 - c2) / eta) - np.concatenate([d1, d2]))

    def moved(
        self, step: Array, problem: EPProblem | None = None, reflect: int | None = None
    ) -> CavityPoint | None:
        """The point a step away (the cavity `reflect` mirrored at y instead); None where there is none."""
        n = len(self.rho)
        with np.errstate(all="ignore"):
            rho = self.rho + step[n:]
            precision = self.problem.min_cavity_precision + np.exp(rho)
            shift = self.shift + step[:n] / self.sd + (precision - self.precision) * self.tilted.mean
            if reflect is not None:
                rho[reflect] = self.rho[reflect]
                shift[reflect] = 2 * self.precision[reflect] * self.problem.y[reflect] - self.shift[reflect]
            try:
                return CavityPoint(problem or self.problem, shift, rho)
            except ERRORS:
                return None

    def absolute(self, step: Array) -> Array:
        """A step as a direction in (shift, rho)."""
        n = len(self.rho)
        return np.concatenate([step[:n] / self.sd + self.gap * step[n:] * self.tilted.mean, step[n:]])

    def standardized(self, direction: Array) -> Array:
        """Inverse of `absolute`."""
        n = len(self.rho)
        moved = direction[:n] - self.gap * direction[n:] * self.tilted.mean
        return np.concatenate([moved * self.sd, direction[n:]])

    def mean_row(self, i: int) -> Array:
        """The row that gives the change of tilted mean i, in sd, along a step."""
        n = len(self.rho)
        row = np.zeros(2 * n)
        row[i], row[n + i] = 1.0, self.tilted_covariances[0][i] * self.gap[i] * self.tilted.var[i]
        return row


def newton(point: CavityPoint, enough: float = 1e-14) -> CavityPoint | None:
    """Newton's method with step halving, down to rounding: a flat cavity is a small difference of large numbers."""
    for _ in range(NEWTON_STEPS):
        if point.residual < enough:
            break
        point.problem.effort.jacobian(len(point.rho))
        try:
            d = -np.linalg.solve(point.jacobian(), point.equations)
        except np.linalg.LinAlgError:
            return None
        if not np.all(np.isfinite(d)):
            return None
        g = min(1.0, 3 / np.max(np.abs(d)))
        while True:
            new = point.moved(g * d)
            if new is not None and new.merit < point.merit * (1 - 0.1 * g):
                break
            g *= 0.5
            if g < 0.05 or point.residual < 1e-9:
                return point if point.residual < TOLERANCE else None
        point = new
    return point if point.residual < TOLERANCE else None


def newton_from_sites(problem: EPProblem, sites: Sites, enough: float = 1e-14) -> Sites | None:
    """A fixed point near the given sites, by Newton's method; it stops where the mismatch is small enough."""
    if not problem.allows_dense_jacobian:
        return None
    state = state_or_none(problem, sites)
    if state is None:
        return None
    try:
        found = newton(CavityPoint.of_state(state), enough)
    except ERRORS:
        return None
    return None if found is None else found.sites
