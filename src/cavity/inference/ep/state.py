"""One point of expectation propagation: sites, the Gaussian they make, cavities, tilted moments, energy.

Notation (natural parameters, shift nu and precision tau): site lt, marginal ls of q, cavity lc = ls - eta lt. The
tilted density is t^eta times the cavity. At a fixed point the moments of tilted and marginal agree.

    log Z_EP = log Zq + 1/eta sum_i [ log Zt(lc_i) - log Zs(ls_i) ]          (minus the energy F)

with unnormalized integrals, so that improper cavities (tau_c <= 0) are expressible where the likelihood allows them.
A sample weight w makes the factor t^w: the tilted density then has the power eta w.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cavity.latent.conditioned import Conditioned
from cavity.latent.dense import DensePrior
from cavity.likelihoods.base import LOG_2PI, Likelihood, Tilted
from cavity.linalg import Array
from cavity.sites import Sites

TOLERANCE = 1e-6
"""Largest mismatch of tilted and marginal moments, in posterior standard deviations, of a converged solution."""


@dataclass(frozen=True)
class Problem:
    """What is approximated: a prior, a likelihood with data, and the power of EP (1 for EP proper)."""

    prior: DensePrior
    likelihood: Likelihood
    y: Array
    weight: Array | float = 1.0
    power: float = 1.0

    @cached_property
    def factor_power(self) -> Array | float:
        """Power of the likelihood in the tilted density."""
        return self.power * self.weight

    @cached_property
    def min_cavity_precision(self) -> Array:
        """Cavity precisions must exceed this, shape (n,)."""
        limit = np.asarray(self.factor_power) * self.likelihood.min_cavity_precision
        return np.broadcast_to(limit, (self.prior.n,))

    def tilted(self, shift: Array, precision: Array, order: int = 2) -> Tilted:
        """Moments of the tilted densities."""
        return self.likelihood.tilted(self.y, shift, precision, self.factor_power, order)


class State:
    """Everything that follows from the sites."""

    def __init__(self, problem: Problem, sites: Sites, q: Conditioned | None = None) -> None:
        self.problem, self.sites = problem, sites
        self.q = q if q is not None else Conditioned(problem.prior, sites)

    @cached_property
    def marginal_precision(self) -> Array:
        """1 / var of q."""
        return 1.0 / self.q.var

    @cached_property
    def cavity(self) -> tuple[Array, Array]:
        """(shift, precision) of the cavities."""
        eta, precision = self.problem.power, self.marginal_precision
        return (
            precision * self.q.mean - eta * self.sites.shift,
            precision - eta * self.sites.precision,
        )

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
    def mismatch(self) -> tuple[Array, Array]:
        """Difference of means in posterior sd, and relative difference of variances, each (n,)."""
        t, q = self.tilted, self.q
        return (t.mean - q.mean) / np.sqrt(q.var), t.var / q.var - 1.0

    @cached_property
    def residual(self) -> float:
        """The largest mismatch; infinite where anything is not finite."""
        worst = max(float(np.max(np.abs(part))) for part in self.mismatch)
        return worst if np.isfinite(worst) else np.inf

    @cached_property
    def merit(self) -> float:
        """Overall mismatch, a smooth measure of progress."""
        t, q = self.tilted, self.q
        value = np.sum((t.mean - q.mean) ** 2 / q.var + np.log(t.var / q.var) ** 2)
        return float(np.sqrt(value)) if np.isfinite(value) else np.inf

    @cached_property
    def target(self) -> Sites:
        """Sites that would make each marginal equal its tilted moments, the cavities staying as they are."""
        t, eta = self.tilted, self.problem.power
        shift, precision = self.cavity
        return Sites((t.mean / t.var - shift) / eta, (1.0 / t.var - precision) / eta)

    @cached_property
    def log_evidence(self) -> float:
        """log Z_EP, valid for cavities of either sign."""
        s = self.marginal_precision
        marginal = 0.5 * (LOG_2PI - np.log(s)) + 0.5 * s * self.q.mean**2
        return self.q.log_normalizer + float(np.sum(self.tilted.log_z - marginal)) / self.problem.power
