"""Fixed points of EP by continuation, along a path from an easy problem to the one that was posed.

A homotopy (the noise scale, or the likelihood to a power below one) joins an easy problem (lambda > 0), which plain
sweeps solve, with the one posed (lambda = 0). Its fixed points, in cavity coordinates (`points`), form a curve that is
followed by pseudo-arclength steps, through folds.

Flat cavities. For a Student-t likelihood the curve runs again and again to a place where one cavity precision goes to
zero at a finite lambda. That is not its end. There the tilted density has a remote second mode at distance D with mass
p: its mean is y + p D and its variance v0 + p D^2, so that D = (v - v0)/(m - y): as the marginal mean m passes the
datum y, D goes through infinity and comes back from the other side, while moments, sites and q are continuous. The
path steps across by reflecting that cavity about y (shift about y changes sign, same precision): see `Path.cross`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from cavity.inference.ep.cavity_newton import CavityPoint, newton
from cavity.inference.ep.parallel import damped
from cavity.inference.ep.state import TOLERANCE, EPProblem
from cavity.latent.sites import Sites
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param

PATH_TOLERANCE = 1e-3
"""Mismatch up to which a point counts as being on the path."""

LARGEST = 4.0
"""Largest step of a cavity coordinate."""

BEND = 0.3
"""The curved part of a predicted step is used up to this part of the straight one."""

COSINE = 0.15
"""Smallest cosine between the directions of the path before and after a step."""

EPS = 1e-6
"""Step of lambda for numerical derivatives."""

FIRST_TURN, LONGER = 100, 8
"""Steps of a path's first turn, and by how much each turn is longer than the last."""

Row = Callable[[CavityPoint], Array]


class Family:
    """Problems that depend on lambda >= 0; the one to be solved is at zero, an easy one at `first`."""

    name: str
    first, top = 4.0, 12.0

    def __init__(self, problem: EPProblem) -> None:
        self.problem = problem

    def at(self, lam: float) -> EPProblem:
        """The problem at lambda."""
        raise NotImplementedError

    def derivative(self, point: CavityPoint, lam: float) -> Array:
        """d equations / d lambda at given (shift, rho): a difference of tilted moments."""
        other, old = self.at(lam + EPS), point.tilted
        limit = other.min_cavity_precision
        t = other.tilted(point.shift, limit + point.gap, 2)
        d1 = (t.mean - old.mean) / point.sd / EPS
        d2 = -0.5 * (t.var / old.var - 1) / EPS
        c2 = (limit - point.problem.min_cavity_precision) * old.var / EPS
        out = point.under_moments(d1, d2, -c2 * old.mean / point.sd, c2)
        if other.power != point.problem.power:
            change = (point.problem.power / other.power - 1) / EPS
            sites = point.sites
            d_shift = change * (sites.shift - sites.precision * old.mean) * point.sd
            out = out + point.under_sites(d_shift, change * sites.precision * old.var)
        return out


class NoiseFamily(Family):
    """The scale of a likelihood of y - f times exp(lambda)."""

    name = "noise"

    def at(self, lam: float) -> EPProblem:
        """Scale up."""
        lik = self.problem.likelihood
        if lam == 0:
            return self.problem
        # a parameter of its own: the way may leave the bounds of the user's
        wider = lik.update({f"{lik.label}.scale": Param(lik.scale * float(np.exp(lam)))})
        return replace(self.problem, observations=self.problem.observations.under(wider))

    def derivative(self, point: CavityPoint, lam: float) -> Array:
        """Exact: scaling the noise is scaling the cavity about y, and the outcome back."""
        (T12, T22), v, m = point.tilted_covariances, point.tilted.var, point.tilted.mean
        y, precision = (point.problem.y - m) / point.sd, point.precision * v
        c2 = -2 * point.problem.min_cavity_precision * v  # the limit moves too
        c1 = -c2 * m / point.sd
        b1 = (point.shift - point.precision * point.problem.y) * point.sd + 2 * precision * y + c1
        b2 = 2 * precision + c2
        return point.under_moments(-y + b1 + T12 * b2, -1.0 + T12 * b1 + T22 * b2, c1, c2)


class TemperFamily(Family):
    """The likelihood to the power exp(-lambda)."""

    name = "temper"
    first, top = 2.0, 6.0
    """Small powers are slow: their mixing density has long tails."""

    def at(self, lam: float) -> EPProblem:
        """Weigh down."""
        return replace(self.problem, tempering=self.problem.tempering * float(np.exp(-lam)))


@dataclass
class Counts:
    """What a path did, and why it ended (or "alive")."""

    steps: int = 0
    failures: int = 0
    flips: int = 0
    crossings: int = 0
    why: str = "alive"


class Path:
    """The curve of fixed points (cavities, lambda), followed from an easy problem to lambda = 0.

    Directions have length one in the metric |step|^2/n + d lambda^2.
    """

    def __init__(self, family: Family, point: CavityPoint, lam: float) -> None:
        self.family, self.point, self.lam, self.n = family, point, lam, len(point.rho)
        self.effort = point.problem.effort
        self.h, self.counts = 0.5, Counts()
        self.orientation = 0.0
        self.before: tuple[Array, float] | None = None  # direction at the previous point, distance from it
        self.tried: dict[int, float] = {}
        row = np.zeros(2 * self.n + 1)
        row[-1] = 1.0
        tangent = self._tangent(self._bordered(point, lam, row), -1.0)
        if tangent is None:
            self.counts.why = "start"
        self.tangent: Array = row if tangent is None else tangent

    @classmethod
    def begin(cls, family: Family) -> Path | None:
        """A path from an easy problem, which plain sweeps solve."""
        lam = family.first
        while lam < family.top:
            problem = family.at(lam)
            state, _, _ = damped(problem, Sites.zero(problem.prior.n))
            if state is not None:
                return cls(family, CavityPoint.of_state(state), lam)
            lam *= 1.5
        return None

    @property
    def alive(self) -> bool:
        """Whether there is a point in going on."""
        return self.counts.why == "alive"

    def run(self, attempts: int) -> CavityPoint | None:
        """Go on for some steps; the fixed point at lambda = 0 if it was reached."""
        end = None
        for _ in range(attempts):
            if not self.alive or self.effort.spent:
                break
            if not self.cross():
                end = self.advance()
                if end is not None:
                    self.counts.why = "ok"
            if self.h < 1e-6:
                self.counts.why = "stuck"
            elif self.lam > self.family.top:
                self.counts.why = "away"
        return end

    def advance(self) -> CavityPoint | None:
        """One step along the path; the end of it where lambda = 0 was reached."""
        step, lam, last = self._predict()
        new = None
        if np.max(np.abs(step)) < LARGEST:
            new = self.point.moved(step[:-1], self.family.at(lam))
        if new is not None and last:
            end = newton(new)
            if end is not None:
                return end
        elif new is not None:
            direction = np.append(self.point.absolute(self.tangent[:-1]), self.tangent[-1])

            def row(point: CavityPoint) -> Array:
                z = self._unit(np.append(point.standardized(direction[:-1]), direction[-1]))
                z[:-1] /= self.n
                return z

            iterations = self._settle(new, lam, row)
            if iterations is not None:
                self.before = direction, self.h
                if iterations <= 2:
                    self.h = min(1.7 * self.h, 3.0)
                elif iterations >= 4:
                    self.h *= 0.7
                return None
        self.h *= 0.4
        self.counts.failures += 1
        return None

    def cross(self) -> bool:
        """Step across a flat cavity, from one side of y to the other, holding the reflected tilted mean."""
        point, z, y = self.point, self.tangent, self.point.problem.y
        x = (point.tilted.mean - y) / point.sd
        remote = np.abs(point.shift - point.precision * y) > 30 * np.abs(point.precision) * point.sd
        flat = (
            (point.precision > 0) & (point.precision * point.tilted.var < 0.02) & remote & (np.abs(x) < 0.05)
        )
        for i in map(int, np.flatnonzero(flat)):
            dx = float(point.mean_row(i) @ z[:-1])
            if x[i] * dx >= 0 or abs(x[i]) > 0.5 * self.tried.get(i, np.inf):
                continue
            self.tried[i] = abs(float(x[i]))
            step = -2 * x[i] / dx * z
            step[[i, self.n + i]] = 0.0
            lam = self.lam + float(step[-1])
            if np.max(np.abs(step)) > 1 or not 0 < lam < self.family.top:
                continue
            new = point.moved(step[:-1], self.family.at(lam), reflect=i)

            def row(other: CavityPoint, i: int = i, sign: float = float(np.sign(dx))) -> Array:
                r = np.append(sign * other.mean_row(i), 0.0)
                return np.asarray(r / np.linalg.norm(r))

            if new is not None and self._settle(new, lam, row, 10, straight=False) is not None:
                self.counts.crossings += 1
                self.h, self.before = 0.3, None
                del self.tried[i]
                return True
        return False

    def _predict(self) -> tuple[Array, float, bool]:
        """(step with d lambda, lambda, whether it ends at zero): along the tangent, bent as it bent before."""
        h, z = self.h, self.tangent
        last = bool(self.lam + h * z[-1] <= 0)
        if last:
            h = -self.lam / float(z[-1])
        step: Array = h * z
        if self.before is not None:
            direction, distance = self.before
            old = self._unit(np.append(self.point.standardized(direction[:-1]), direction[-1]))
            bend = 0.5 * h * h * (z - old) / distance
            if np.max(np.abs(bend)) < BEND * np.max(np.abs(step)):
                step = step + bend
                if not last and self.lam + step[-1] <= 0:
                    step[-1] = -0.7 * self.lam
        if last:
            step[-1] = -self.lam
        return step, 0.0 if last else self.lam + float(step[-1]), last

    def _settle(
        self, point: CavityPoint, lam: float, row: Row, steps: int = 6, straight: bool = True
    ) -> int | None:
        """Newton's method back to the path, across a row; moves there and gives the number of steps, or None."""
        for k in range(steps + 1):
            done = point.residual < PATH_TOLERANCE
            if not done and k == steps:
                return None
            r = row(point)
            M = self._bordered(point, lam, r)
            if not np.all(np.isfinite(M)):
                return None
            if done:
                break
            try:
                d = np.linalg.solve(M, -np.append(point.equations, 0.0))
            except np.linalg.LinAlgError:
                return None
            if not np.max(np.abs(d)) <= LARGEST or not 0 < lam + d[-1] < self.family.top + 1:
                return None
            new = point.moved(d[:-1], self.family.at(lam + d[-1]))
            if new is None or new.merit > point.merit:
                return None
            point, lam = new, lam + float(d[-1])
        tangent = self._tangent(M)
        if tangent is None or (straight and r @ tangent < COSINE and self.h > 1e-4):
            return None
        self.point, self.lam, self.tangent = point, lam, tangent
        self.counts.steps += 1
        return k

    def _bordered(self, point: CavityPoint, lam: float, row: Array) -> Array:
        """Jacobian in (step, lambda), with a row below."""
        self.effort.jacobian(self.n)
        M = np.empty((2 * self.n + 1, 2 * self.n + 1))
        M[:-1, :-1] = point.jacobian()
        M[:-1, -1] = self.family.derivative(point, lam)
        M[-1] = row
        return M

    def _tangent(self, M: Array, sign: float = 1.0) -> Array | None:
        """Direction with row @ direction of the given sign; None where the path has lost its orientation.

        Along one curve the determinant, bordered by the direction of travel, keeps its sign: a change tells that
        the corrector has come down on another piece of the curve.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lu, pivots = lu_factor(M, check_finite=False)
        z = lu_solve((lu, pivots), np.append(np.zeros(2 * self.n), sign), check_finite=False)
        if not np.all(np.isfinite(z)):
            return None
        swaps = np.count_nonzero(pivots != np.arange(len(pivots)))
        orientation = sign * float(np.prod(np.sign(np.diagonal(lu)))) * (-1) ** swaps
        if self.orientation not in (0.0, orientation):
            self.counts.flips += 1
            return None
        self.orientation = orientation
        return self._unit(z)

    def _unit(self, z: Array) -> Array:
        return np.asarray(z / np.sqrt(z[:-1] @ z[:-1] / self.n + z[-1] ** 2))


def families(problem: EPProblem) -> list[Family]:
    """Homotopies worth following. Powers of a mixture need slow quadrature, so it is not tempered."""
    out: list[Family] = []
    if isinstance(problem.likelihood, ScaleMixture):
        out.append(NoiseFamily(problem))
    if not out or np.all(problem.min_cavity_precision == 0):
        out.append(TemperFamily(problem))
    return out


def find_fixed_point(problem: EPProblem) -> tuple[Sites | None, int]:
    """Sites of a fixed point and the steps taken; None where no path arrives before the problem's effort is spent.

    The paths take turns, each turn longer than the one before: most end on the noise path within its first turn, and of
    the others most sooner by tempering.
    """
    if not problem.allows_dense_jacobian:
        return None, 0
    turn, steps = FIRST_TURN, 0
    queue: list[Family | Path] = list(families(problem))
    while queue and not problem.effort.spent:
        item = queue.pop(0)
        path = Path.begin(item) if isinstance(item, Family) else item
        if path is None:
            continue
        before = path.counts.steps
        end = path.run(turn)
        steps += path.counts.steps - before
        if end is not None and end.residual <= TOLERANCE:
            return end.sites, steps
        if path.alive:
            queue.append(path)
        turn *= LONGER
    return None, steps
