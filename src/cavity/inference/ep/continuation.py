"""Fixed points of EP by continuation: from an easy problem to the one that was posed, along a path of fixed points.

Unknowns are the cavities, in coordinates in which they always exist: shift nu_c and rho = log(tau_c - t_min). The
marginals are set to the tilted moments, which fixes the sites, lt = (lambda(tilted) - lc) / eta, and with them q. What
remains is one equation per moment, r = moments of q - tilted moments, with an exact Jacobian from third and fourth
tilted moments and the covariance of q:

    J = C_q (C_s^-1 C_t - I) / eta - C_t        (statistics f and -f^2/2; C_s of the Gaussian with the tilted moments)

A path r(x, lambda) = 0 is followed by pseudo-arclength steps: predict along the tangent, correct by Newton's method in
the plane orthogonal to it. Folds, where lambda turns back for a while, are no obstacle. lambda = 0 is the problem
posed; at large lambda the noise is wide (or the likelihood almost flat), the posterior nearly Gaussian, and plain EP
converges.

Everything is standardized by the tilted means and standard deviations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cavity.inference.ep.parallel import damped, state_or_none
from cavity.inference.ep.state import Problem
from cavity.latent.conditioned import Conditioned
from cavity.linalg import Array
from cavity.sites import Sites

LARGEST_PROBLEM = 1000
"""Points up to which a dense 2n x 2n Jacobian is worth its price."""

EASY, EASIEST = 4.0, 12.0
"""Where a path starts (log factor on the noise scale, or minus the log power), and how far it may retreat."""

LONGEST_MOVE = 4.0
"""Largest change of a standardized coordinate in one step."""

FIRST_STEP, LONGEST_STEP, SHORTEST_STEP = 0.5, 3.0, 1e-7
DIFFERENCE = 1e-5
ON_PATH, SOLVED = 1e-5, 1e-9
"""Mismatch of moments of a point on the way, and at the end."""

FLAT = 1e-9
"""A cavity whose precision, relative to the marginal's, falls below this while lambda stands still is running away."""

Path = Callable[[float], Problem]


class CavityPoint:
    """Cavities, what follows from them, and the mismatch of moments."""

    def __init__(self, problem: Problem, shift: Array, rho: Array) -> None:
        self.problem, self.shift, self.rho = problem, shift, rho
        self.excess = np.exp(rho)
        self.precision = problem.min_cavity_precision + self.excess
        t = self.tilted = problem.tilted(shift, self.precision, order=4)
        self.sites = Sites(
            (t.mean / t.var - shift) / problem.power, (1.0 / t.var - self.precision) / problem.power
        )
        q = self.q = Conditioned(problem.prior, self.sites)
        self.sd = np.sqrt(t.var)
        self.offset = (q.mean - t.mean) / self.sd
        self.ratio = q.var / t.var
        self.residual_vector = np.concatenate([self.offset, -0.5 * (self.ratio + self.offset**2 - 1.0)])
        if not (np.all(self.ratio > 0) and np.isfinite(self.residual_vector).all()):
            raise np.linalg.LinAlgError("moments are not finite")

    @property
    def residual(self) -> float:
        """Largest mismatch, as in `State.residual`."""
        return float(
            max(np.max(np.abs(self.offset) / np.sqrt(self.ratio)), np.max(np.abs(1.0 / self.ratio - 1.0)))
        )

    @property
    def merit(self) -> float:
        """Overall mismatch."""
        return float(np.sqrt(np.sum(self.offset**2 + np.log(self.ratio) ** 2)))

    def residual_near(self, reference: CavityPoint) -> Array:
        """The mismatch in the units of another point."""
        t, sd = reference.tilted, reference.sd
        second_q = self.q.var + (self.q.mean - t.mean) ** 2
        second_t = self.tilted.var + (self.tilted.mean - t.mean) ** 2
        return np.concatenate([(self.q.mean - self.tilted.mean) / sd, -0.5 * (second_q - second_t) / sd**2])

    def jacobian(self) -> Array:
        """d residual / d(standardized shift, rho), shape (2n, 2n)."""
        t, sd, a, eta = self.tilted, self.sd, self.offset, self.problem.power
        c3, c4 = t.c3 / sd**3, t.c4 / sd**4
        # covariances under q of x and -x^2/2, x standardized by the tilted moments
        R = self.q.covariance / sd / sd[:, None]
        Ra = R * a
        Q22 = 0.5 * R * R + a[:, None] * Ra
        # C_t = [1, t12; t12, t22], C_s = diag(1, 1/2), M = C_s^-1 C_t - I
        t12, t22 = -0.5 * c3, 0.25 * (c4 - 1.0)
        m12, m21, m22 = t12 / eta, 2.0 * t12 / eta, (2.0 * t22 - 1.0) / eta
        n = len(a)
        J = np.empty((2 * n, 2 * n))
        J[:n, :n] = -Ra * m21
        J[:n, n:] = R * m12 - Ra * m22
        J[n:, :n] = Q22 * m21
        J[n:, n:] = Q22 * m22 - Ra.T * m12
        i = np.arange(n)
        J[i, i] -= 1.0
        J[i, n + i] -= t12
        J[n + i, i] -= t12
        J[n + i, n + i] -= t22
        J[:, n:] *= self.excess * t.var
        return J

    def moved(self, direction: Array, problem: Problem | None = None) -> CavityPoint | None:
        """The point after a step in standardized coordinates, or None where there is none."""
        n = len(self.rho)
        rho = self.rho + direction[n:]
        precision = self.problem.min_cavity_precision + np.exp(rho)
        shift = self.shift + direction[:n] / self.sd + (precision - self.precision) * self.tilted.mean
        return point_or_none(problem or self.problem, shift, rho)

    def to_absolute(self, direction: Array) -> Array:
        """A small step in standardized coordinates as one in (shift, rho)."""
        n = len(self.rho)
        d_rho = direction[n:]
        return np.concatenate([direction[:n] / self.sd + self.excess * d_rho * self.tilted.mean, d_rho])

    def to_standardized(self, direction: Array) -> Array:
        """The inverse of `to_absolute`."""
        n = len(self.rho)
        d_rho = direction[n:]
        return np.concatenate([(direction[:n] - self.excess * d_rho * self.tilted.mean) * self.sd, d_rho])


def point_or_none(problem: Problem, shift: Array, rho: Array) -> CavityPoint | None:
    """The point with these cavities, or None where q is improper or moments are not finite."""
    if not (np.all(np.abs(rho) < 700) and np.isfinite(shift).all()):
        return None
    try:
        return CavityPoint(problem, shift, rho)
    except (np.linalg.LinAlgError, FloatingPointError):
        return None


def point_at(problem: Problem, sites: Sites) -> CavityPoint | None:
    """The point whose cavities are those of the given sites."""
    state = state_or_none(problem, sites)
    if state is None:
        return None
    shift, precision = state.cavity
    return point_or_none(problem, shift, np.log(precision - problem.min_cavity_precision))


def solve_or_none(matrix: Array, vector: Array) -> Array | None:
    """Solution of a linear system, or None where it is singular."""
    try:
        x = np.linalg.solve(matrix, vector)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(x, dtype=float) if np.isfinite(x).all() else None


def newton(point: CavityPoint, iterations: int = 12) -> CavityPoint | None:
    """Newton's method on the moment equations with step control."""
    for _ in range(iterations):
        if point.residual < SOLVED:
            return point
        step = solve_or_none(point.jacobian(), -point.residual_vector)
        if step is None:
            return None
        length = min(1.0, 0.75 * LONGEST_MOVE / float(np.max(np.abs(step))))
        while True:
            after = point.moved(length * step)
            if after is not None and after.merit < point.merit * (1.0 - 0.1 * length):
                break
            length *= 0.5
            if length < 0.02:
                return point if point.residual < 10 * SOLVED else None
        point = after
    return point if point.residual < 10 * SOLVED else None


def newton_from_sites(problem: Problem, sites: Sites) -> Sites | None:
    """A fixed point near the given sites, by Newton's method."""
    if problem.prior.n > LARGEST_PROBLEM:
        return None
    point = point_at(problem, sites)
    found = None if point is None else newton(point)
    return None if found is None else found.sites


# --- paths ----------------------------------------------------------------------------------------------------------


def paths(problem: Problem) -> Iterator[tuple[str, Path]]:
    """Ways from an easy problem (large lambda) to the one posed (lambda = 0)."""
    likelihood = problem.likelihood
    name = f"{likelihood.label}.scale"
    if "scale" in likelihood.params:
        scale = float(likelihood.params["scale"].value)
        yield "noise", lambda lam: replace(problem, likelihood=likelihood.update({name: scale * np.exp(lam)}))
    weight = problem.weight
    yield "temper", lambda lam: replace(problem, weight=weight * float(np.exp(-lam)))


def find_fixed_point(problem: Problem, deadline: float) -> tuple[Sites | None, int]:
    """Sites of a fixed point, and the steps taken; None where no path arrives in time."""
    if problem.prior.n > LARGEST_PROBLEM:
        return None, 0
    total = 0
    ways = list(paths(problem))
    for left, (_, path) in enumerate(ways):
        now = time.monotonic()
        share = now + (deadline - now) / (len(ways) - left)
        found, steps = follow(path, share)
        total += steps
        if found is not None:
            return found.sites, total
    return None, total


def _easy_start(path: Path) -> tuple[CavityPoint | None, float]:
    """The first point of a path, by plain EP on an easy problem."""
    lam = EASY
    while lam <= EASIEST:
        problem = path(lam)
        state, _, _ = damped(problem, Sites.zero(problem.prior.n))
        if state is not None:
            return point_at(problem, state.sites), lam
        lam *= 1.5
    return None, lam


def _lambda_slope(path: Path, point: CavityPoint, lam: float) -> Array | None:
    """d residual / d lambda, by a difference."""
    shifted = point_or_none(path(lam + DIFFERENCE), point.shift, point.rho)
    if shifted is None:
        return None
    return np.asarray((shifted.residual_near(point) - point.residual_vector) / DIFFERENCE)


def _tangent(path: Path, point: CavityPoint, lam: float) -> tuple[Array, float] | None:
    """Unit tangent (dx, dlambda) of the path; lengths count the mean square over points."""
    slope = _lambda_slope(path, point, lam)
    dx = None if slope is None else solve_or_none(point.jacobian(), -slope)
    if dx is None:
        return None
    norm = float(np.sqrt(dx @ dx / len(point.rho) + 1.0))
    return dx / norm, 1.0 / norm


def _correct(
    path: Path, point: CavityPoint, lam: float, along: Array, d_lam: float
) -> tuple[CavityPoint, float, int] | None:
    """Back to the path, orthogonally to the step: (point, lambda, iterations)."""
    n = len(point.rho)
    for iteration in range(6):
        if point.residual < ON_PATH:
            return point, lam, iteration
        slope = _lambda_slope(path, point, lam)
        if slope is None:
            return None
        matrix = np.empty((2 * n + 1, 2 * n + 1))
        matrix[:-1, :-1], matrix[:-1, -1] = point.jacobian(), slope
        matrix[-1, :-1], matrix[-1, -1] = point.to_standardized(along) / n, d_lam
        step = solve_or_none(matrix, -np.append(point.residual_vector, 0.0))
        if step is None or np.max(np.abs(step)) > LONGEST_MOVE or not -1.0 < lam + step[-1] < EASIEST + 1.0:
            return None
        after = point.moved(step[:-1], path(lam + step[-1]))
        if after is None or after.merit > point.merit:
            return None
        point, lam = after, lam + float(step[-1])
    return None


def follow(path: Path, deadline: float) -> tuple[CavityPoint | None, int]:
    """Follow a path of fixed points to lambda = 0; (fixed point or None, steps)."""
    point, lam = _easy_start(path)
    tangent = None if point is None else _tangent(path, point, lam)
    if point is None or tangent is None:
        return None, 0
    dx, d_lam = -tangent[0], -tangent[1]
    step, steps = FIRST_STEP, 0
    while time.monotonic() < deadline and step > SHORTEST_STEP:
        length = step if lam + step * d_lam >= 0 else -lam / d_lam
        target = max(lam + length * d_lam, 0.0)
        if target > EASIEST:
            return None, steps
        after = None
        if np.max(np.abs(length * dx)) < LONGEST_MOVE:
            predicted = point.moved(length * dx, path(target))
            if predicted is not None and target == 0.0:
                arrived = newton(predicted)
                if arrived is not None:
                    return arrived, steps
            elif predicted is not None:
                after = _correct(path, predicted, target, point.to_absolute(dx), d_lam)
        turned = None if after is None else _turned(path, after[0], after[1], point.to_absolute(dx), d_lam)
        if after is None or turned is None or (abs(turned[2]) < 0.5 and step > 1e-4):
            step *= 0.4
            continue
        point, lam, iterations = after
        sign = 1.0 if turned[2] >= 0 else -1.0
        dx, d_lam = sign * turned[0], sign * turned[1]
        steps += 1
        flattest = float(np.min(point.excess * point.tilted.var))
        if flattest < FLAT and abs(d_lam) < 1e-3:
            return None, steps
        step = min(1.7 * step, LONGEST_STEP) if iterations <= 2 else (0.7 * step if iterations >= 4 else step)
    return None, steps


def _turned(
    path: Path, point: CavityPoint, lam: float, along: Array, d_lam: float
) -> tuple[Array, float, float] | None:
    """The new tangent and the cosine of its angle with the old one."""
    tangent = _tangent(path, point, lam)
    if tangent is None:
        return None
    n = len(point.rho)
    old = point.to_standardized(along)
    norm = float(np.sqrt(old @ old / n + d_lam**2))
    return tangent[0], tangent[1], float(tangent[0] @ old / n + tangent[1] * d_lam) / norm
