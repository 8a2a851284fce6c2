"""One point of expectation propagation: sites, the Gaussian they make, cavities, tilted moments, energy.

Notation (natural parameters, shift nu and precision tau): site lt, marginal ls of q, cavity lc = ls - eta lt. The
tilted density is t^eta times the cavity. At a fixed point the moments of tilted and marginal agree.

    log Z_EP = log Zq + 1/eta sum_i [ log Zt(lc_i) - log Zs(ls_i) ]          (minus the energy F)

with unnormalized integrals, so that improper cavities (tau_c <= 0) are expressible where the likelihood allows them.
A sample weight w makes the factor t^w: the tilted density then has the power eta w.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cavity.inference.ep.effort_budget import Effort
from cavity.latent.base import LatentPrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood, Tilted
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI, Moments

TOLERANCE = 1e-6
"""Largest mismatch of tilted and marginal moments, in posterior standard deviations, of a converged solution."""


MANY = 100_000
"""Points from which sweeps keep tilted means and variances alone, and ask for them block by block: memory."""

BLOCK = 50_000
"""Points of such a block."""

SMALLEST_STEP = 1e-8
"""Part of a step below which none is taken."""

LARGEST_PROBLEM = 1000
"""Points up to which a dense 2n x 2n Jacobian is worth its price."""


def blocks(n: int) -> Iterator[slice]:
    """Parts of so many points."""
    for first in range(0, n, BLOCK):
        yield slice(first, min(n, first + BLOCK))


@dataclass(frozen=True)
class EPProblem:
    """What is approximated: a prior, observations, and the power of EP (1 for EP proper).

    `tempering` is a further power of all factors, 1 but on the way of a continuation; `effort` counts the work done on
    it and on problems made from it.
    """

    prior: LatentPrior
    observations: Observations
    power: float = 1.0
    tempering: float = 1.0
    effort: Effort = field(default_factory=Effort, compare=False)

    @property
    def likelihood(self) -> Likelihood:
        """That of the observations."""
        return self.observations.likelihood

    @property
    def y(self) -> Array:
        """The targets, shape (n,)."""
        return self.observations.y

    @cached_property
    def factor_power(self) -> Array | float:
        """Power of the likelihood in the tilted density."""
        power = self.power * self.tempering
        return power if self.observations.weight is None else power * self.observations.weight

    @cached_property
    def min_cavity_precision(self) -> Array:
        """Cavity precisions must exceed this, shape (n,)."""
        limit = np.asarray(self.factor_power) * self.likelihood.min_cavity_precision
        return np.broadcast_to(limit, (self.prior.n,))

    @property
    def many(self) -> bool:
        """Whether the points are so many that sweeps save memory, and go on with some of them."""
        return self.prior.n > MANY

    @property
    def allows_dense_jacobian(self) -> bool:
        """Whether a covariance matrix of all points can be had, and a 2n x 2n Jacobian is worth its price."""
        limit = self.prior.representation.covariance_limit
        return self.prior.n <= (LARGEST_PROBLEM if limit is None else min(limit, LARGEST_PROBLEM))

    def given(self, sites: Sites, *, transient: bool = False) -> Conditioned:
        """The Gaussian that sites make."""
        self.effort.gaussian(self.prior.n)
        return self.prior.given(sites, transient=transient)

    @cached_property
    def _nodes(self) -> float:
        """Nodes per point of the quadrature for tilted moments, on average."""
        return float(np.mean(self.likelihood.tilted_nodes(self.factor_power)))

    def tilted(self, shift: Array, precision: Array, order: int = 2) -> Tilted:
        """Moments of the tilted densities."""
        self.effort.moments(len(shift), self._nodes)
        return self.likelihood.tilted(self.y, shift, precision, self.factor_power, order)

    def matched_where(self, usable: NDArray[np.bool_], shift: Array, precision: Array) -> Tilted | FirstTwo:
        """Tilted mean and variance of those points whose cavities exist; of the others, something."""
        shift, precision = np.where(usable, shift, 0.0), np.where(usable, precision, 1.0)
        return self.first_two(shift, precision) if self.many else self.tilted(shift, precision)

    def first_two(self, shift: Array, precision: Array, rows: NDArray[np.intp] | None = None) -> FirstTwo:
        """Mean and variance alone, of many points, or of these rows."""
        found = FirstTwo(*np.empty((2, len(shift))))
        for at, t in self.tilted_by_block(shift, precision, rows):
            found.mean[at], found.var[at] = t.mean, t.var
        return found

    def tilted_by_block(
        self, shift: Array, precision: Array, rows: NDArray[np.intp] | None = None
    ) -> Iterator[tuple[slice, Tilted]]:
        """Moments of the tilted densities, some points at a time; of all points, or of these rows."""
        self.effort.moments(len(shift), self._nodes)
        for at in blocks(len(shift)):
            which = np.arange(at.start, at.stop) if rows is None else rows[at]
            power = self.factor_power
            if np.ndim(power):
                power = np.asarray(power)[which]
            part = self.likelihood.rows(which)
            yield at, part.tilted(self.y[which], shift[at], precision[at], power, 2)

    def moments(self, shift: Array, precision: Array) -> Moments:
        """Mean, variance, third and fourth central moments alone."""
        self.effort.moments(len(shift), self._nodes)
        return self.likelihood.tilted_moments(self.y, shift, precision, self.factor_power)


class FirstTwo(NamedTuple):
    """Mean and variance of tilted densities."""

    mean: Array
    var: Array


class EPState:
    """Everything that follows from the sites.

    Parameters
    ----------
    problem : EPProblem
    sites : Sites
    q : Conditioned, optional
        The Gaussian of these sites, if it is known.
    with_evidence : bool
        Whether tilted moments come with normalizers and derivatives at once; without, the first four moments alone
        are computed until the evidence is asked for.
    """

    def __init__(
        self, problem: EPProblem, sites: Sites, q: Conditioned | None = None, with_evidence: bool = True
    ) -> None:
        self.problem, self.sites, self._with_evidence = problem, sites, with_evidence
        self.q = q if q is not None else problem.given(sites)
        if problem.many:
            self.q.conditioning.release()

    @cached_property
    def cavity(self) -> tuple[Array, Array]:
        """(shift, precision) of the cavities."""
        return self.q.natural_cavities(self.problem.power)

    @cached_property
    def feasible(self) -> bool:
        """Whether every tilted density exists."""
        return bool(np.all(self.cavity[1] > self.problem.min_cavity_precision))

    @cached_property
    def proper(self) -> bool:
        """Whether every cavity is a proper density."""
        return bool(np.all(self.cavity[1] > 0))

    @cached_property
    def tilted(self) -> Tilted:
        """Moments of the tilted densities."""
        return self.problem.tilted(*self.cavity)

    @cached_property
    def moments(self) -> Moments:
        """The first four of them alone."""
        return self.problem.moments(*self.cavity)

    @cached_property
    def first_two(self) -> FirstTwo:
        """The first two of them alone."""
        return self.problem.first_two(*self.cavity)

    @property
    def matched(self) -> Tilted | Moments | FirstTwo:
        """Tilted mean and variance, with or without more."""
        if not self._with_evidence:
            return self.moments
        return self.first_two if self.problem.many else self.tilted

    @cached_property
    def mismatch(self) -> tuple[Array, Array]:
        """Difference of means in posterior sd, and relative difference of variances, each (n,)."""
        t, q = self.matched, self.q
        return (t.mean - q.mean) / np.sqrt(q.var), t.var / q.var - 1.0

    @cached_property
    def residual(self) -> float:
        """The largest mismatch; infinite where anything is not finite."""
        if self.problem.many:
            t, q = self.matched, self.q
            worst = max(float(np.max(_mismatches(t, q, at))) for at in blocks(len(q.mean)))
        else:
            worst = max(float(np.max(np.abs(part))) for part in self.mismatch)
        return worst if np.isfinite(worst) else np.inf

    def rows_off_by(self, limit: float) -> NDArray[np.intp]:
        """The points whose mismatch exceeds a limit, of very many."""
        t, q, found = self.matched, self.q, []
        for at in blocks(len(self.q.mean)):
            off = _mismatches(t, q, at) > limit
            found.append(at.start + np.flatnonzero(off))
        return np.concatenate(found)

    @cached_property
    def merit(self) -> float:
        """Overall mismatch, a smooth measure of progress."""
        t, q = self.matched, self.q
        value = 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            for at in blocks(len(q.mean)):
                var = q.var[at]
                value += np.sum((t.mean[at] - q.mean[at]) ** 2 / var + np.log(t.var[at] / var) ** 2)
        return float(np.sqrt(value)) if np.isfinite(value) else np.inf

    @cached_property
    def target(self) -> Sites:
        """Sites that would make each marginal equal its tilted moments, the cavities staying as they are."""
        t, eta = self.matched, self.problem.power
        shift, precision = self.cavity
        return Sites((t.mean / t.var - shift) / eta, (1.0 / t.var - precision) / eta)

    def towards_target(self, step: float) -> Sites:
        """Sites a part of the way to those that would match the moments (power one)."""
        t, at, (shift, precision) = self.matched, self.sites, self.cavity
        inverse = 1.0 / t.var
        return Sites(
            at.shift + step * (t.mean * inverse - shift - at.shift),
            at.precision + step * (inverse - precision - at.precision),
        )

    @cached_property
    def log_evidence(self) -> float:
        """log Z_EP, valid for cavities of either sign.

        With f measured from the posterior mean m of q, where the marginals have no shift and the cavities -eta alpha,
        every term is of the size of its contribution; natural parameters alone would cancel for sharp sites.
        """
        return self.q.log_density_at_mean + self._sums[0] / self.problem.power

    @property
    def d_likelihood(self) -> Array:
        """Derivatives of the sum of log Zt in the parameters of the likelihood."""
        return self._sums[1]

    @cached_property
    def _sums(self) -> tuple[float, Array]:
        """Sums over the points of log Zt - log Zs, and of derivatives of log Zt."""
        factors, slopes = 0.0, np.zeros(self.problem.likelihood.flat.size)
        for at, t in self._tilted_by_block():
            factors += self._log_factors(at, t)
            slopes = slopes + t.d_log_z.sum(axis=1)
        return factors, slopes

    def _tilted_by_block(self) -> Iterator[tuple[slice, Tilted]]:
        if not self.problem.many:
            return iter([(slice(0, self.problem.prior.n), self.tilted)])
        return self.problem.tilted_by_block(*self.cavity)

    def _log_factors(self, at: slice, t: Tilted) -> float:
        """The sum of log Zt - log Zs of some points."""
        q, eta = self.q, self.problem.power
        shift, precision = (part[at] for part in self.cavity)
        proper, mean = precision > 0, q.mean[at]
        tau_c = np.where(proper, precision, 1.0)
        inside = t.log_z_normalized + 0.5 * (eta * q.weights[at]) ** 2 / tau_c
        inside += 0.5 * (LOG_2PI - np.log(tau_c))
        outside = t.log_z - (shift - 0.5 * precision * mean) * mean
        factors = np.where(proper, inside, outside) - 0.5 * (LOG_2PI + np.log(q.var[at]))
        return float(np.sum(factors))


def any_state(problem: EPProblem, sites: Sites) -> EPState | None:
    """The state at these sites, or None if the posterior is improper; tilted densities need not exist."""
    try:
        state = EPState(problem, sites)
        return state if np.all(state.q.var > 0) else None
    except np.linalg.LinAlgError:
        return None


def stepped(problem: EPProblem, start: Array, change: Array) -> tuple[EPState | None, Array]:
    """State and sites (2, n) after the largest step, among halvings of the given one, that keeps the posterior proper.

    The memory of the change is used up.
    """
    step, sites = 1.0, np.add(start, change, out=change)
    while step > SMALLEST_STEP:
        after = any_state(problem, Sites(*sites))
        if after is not None:
            return after, sites
        step *= 0.5
        sites = 0.5 * (start + sites)
    return None, start


def _mismatches(t: Tilted | Moments | FirstTwo, q: Conditioned, at: slice) -> Array:
    """The larger mismatch of each point."""
    var = q.var[at]
    of_means = np.abs(t.mean[at] - q.mean[at]) / np.sqrt(var)
    return np.asarray(np.maximum(of_means, np.abs(t.var[at] / var - 1.0)))
