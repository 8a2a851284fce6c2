"""One point of expectation propagation: sites, the Gaussian they make, cavities, tilted moments, energy.

Notation (natural parameters, shift nu and precision tau): site lt, marginal ls of q, cavity lc = ls - eta lt. The
tilted density is t^eta times the cavity. At a fixed point the moments of tilted and marginal agree.

    log Z_EP = log Zq + 1/eta sum_i [ log Zt(lc_i) - log Zs(ls_i) ]          (minus the energy F)

with unnormalized integrals, so that improper cavities (tau_c <= 0) are expressible where the likelihood allows them.
A sample weight w makes the factor t^w: the tilted density then has the power eta w.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cavity.inference.ep.effort_budget import Effort
from cavity.latent.base import LatentPrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood, Tilted
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI, Moments

TOLERANCE = 1e-6
"""Largest mismatch of tilted and marginal moments, in posterior standard deviations, of a converged solution."""


LARGEST_PROBLEM = 1000
"""Points up to which a dense 2n x 2n Jacobian is worth its price."""


@dataclass(frozen=True)
class EPProblem:
    """What is approximated: a prior, a likelihood with data, and the power of EP (1 for EP proper).

    `effort` counts the work done on it and on problems made from it.
    """

    prior: LatentPrior
    likelihood: Likelihood
    y: Array
    weight: Array | float = 1.0
    power: float = 1.0
    effort: Effort = field(default_factory=Effort, compare=False)

    @cached_property
    def factor_power(self) -> Array | float:
        """Power of the likelihood in the tilted density."""
        return self.power * self.weight

    @cached_property
    def min_cavity_precision(self) -> Array:
        """Cavity precisions must exceed this, shape (n,)."""
        limit = np.asarray(self.factor_power) * self.likelihood.min_cavity_precision
        return np.broadcast_to(limit, (self.prior.n,))

    @property
    def allows_dense_jacobian(self) -> bool:
        """Whether a covariance matrix of all points can be had, and a 2n x 2n Jacobian is worth its price."""
        limit = self.prior.representation.covariance_limit
        return self.prior.n <= (LARGEST_PROBLEM if limit is None else min(limit, LARGEST_PROBLEM))

    @property
    def sample_weight(self) -> Array | None:
        """The weights as other rules take them."""
        return None if np.ndim(self.weight) == 0 else np.asarray(self.weight)

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

    def moments(self, shift: Array, precision: Array) -> Moments:
        """Mean, variance, third and fourth central moments alone."""
        self.effort.moments(len(shift), self._nodes)
        return self.likelihood.tilted_moments(self.y, shift, precision, self.factor_power)


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

    @property
    def matched(self) -> Tilted | Moments:
        """Tilted mean and variance, with or without more."""
        return self.tilted if self._with_evidence else self.moments

    @cached_property
    def mismatch(self) -> tuple[Array, Array]:
        """Difference of means in posterior sd, and relative difference of variances, each (n,)."""
        t, q = self.matched, self.q
        return (t.mean - q.mean) / np.sqrt(q.var), t.var / q.var - 1.0

    @cached_property
    def residual(self) -> float:
        """The largest mismatch; infinite where anything is not finite."""
        worst = max(float(np.max(np.abs(part))) for part in self.mismatch)
        return worst if np.isfinite(worst) else np.inf

    @cached_property
    def merit(self) -> float:
        """Overall mismatch, a smooth measure of progress."""
        t, q = self.matched, self.q
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.sum((t.mean - q.mean) ** 2 / q.var + np.log(t.var / q.var) ** 2)
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
        q, eta, t = self.q, self.problem.power, self.tilted
        shift, precision = self.cavity
        proper = precision > 0
        tau_c = np.where(proper, precision, 1.0)
        inside = t.log_z_normalized + 0.5 * (eta * q.weights) ** 2 / tau_c + 0.5 * (LOG_2PI - np.log(tau_c))
        outside = t.log_z - (shift - 0.5 * precision * q.mean) * q.mean
        factors = np.where(proper, inside, outside) - 0.5 * (LOG_2PI + np.log(q.var))
        return q.log_density_at_mean + float(np.sum(factors)) / eta
