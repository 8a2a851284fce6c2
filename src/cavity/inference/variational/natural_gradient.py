"""Maximize a variational bound over the sites of a Gaussian approximation.

Both variational rules have the same shape, with g_i a function of one marginal N(m_i, v_i) alone:

    L(q) = sum_i g_i(m_i, v_i) - KL(q || p)

    full Gaussian approximation     g_i = E[log p(y_i | f_i)]
    scale-mixture EM                g_i = log p at the squared residual E[(y_i - f_i)^2]

At a maximum the precision of q differs from that of the prior by a diagonal matrix, so that 2 n site
parameters are enough (Opper and Archambeau 2009). Stationarity reads

    tau_i = -2 dg_i/dv_i,    nu_i = dg_i/dm_i + tau_i m_i,

and moving the sites towards these targets is natural-gradient ascent: dL = d' F d >= 0 along the direction d
from the sites to their targets, F the Fisher information of q. So a step that is short enough never lowers
the bound, and a step of length one is Newton's in the means (d2g/dm2 = 2 dg/dv under a normal density) and,
for scale mixtures, one iteration of EM. Anderson's extrapolation of these steps is tried first and taken only
if the bound does not fall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cavity.inference.anderson import correction, in_posterior_units
from cavity.inference.base import InferenceFailedError
from cavity.latent.base import ImproperPosteriorError, LatentPrior
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import NotPositiveDefiniteError

DEPTH = 8
"""Differences of past iterates that Anderson's extrapolation combines."""

SLACK = 1e-12
"""Fall of the bound, relative to the size of its terms, that is rounding."""

SMALLEST_STEP = 1e-10
"""Step length at which the search along the natural gradient gives up."""


class Local(NamedTuple):
    """g_i(m_i, v_i) and its derivatives in both, each (n,), and in the likelihood's parameters, (P, n)."""

    value: Array
    d_mean: Array
    d_var: Array
    d_flat: Array


LocalBound = Callable[[Array, Array], Local]


class Iterate:
    """A set of sites with everything that follows from it."""

    def __init__(self, prior: LatentPrior, local: LocalBound, sites: Sites) -> None:
        self.sites = sites
        self.q = prior.given(sites)
        if not np.all(self.q.var > 0):
            raise ImproperPosteriorError("a posterior variance is lost in rounding")
        with np.errstate(over="ignore", invalid="ignore"):
            self.local = local(self.q.mean, self.q.var)
        divergence = self.q.kl
        self.bound = float(self.local.value.sum()) - divergence
        # The terms themselves, and variances that are small differences from those of the prior.
        lost = float(np.abs(sites.precision) @ prior.diagonal) * np.finfo(float).eps
        self.rounding = SLACK * (1.0 + float(np.abs(self.local.value).sum()) + abs(divergence)) + lost

    @property
    def usable(self) -> bool:
        """Whether all that the next step needs is finite."""
        parts = (self.local.d_mean, self.local.d_var)
        return bool(np.isfinite(self.bound) and all(np.isfinite(p).all() for p in parts))

    @property
    def target(self) -> Sites:
        """The sites that the local derivatives ask for."""
        precision = -2.0 * self.local.d_var
        return Sites(self.local.d_mean + precision * self.q.mean, precision)

    @property
    def direction(self) -> Array:
        """From the sites to their targets, shape (2, n): shifts, precisions."""
        target = self.target
        return np.stack([target.shift - self.sites.shift, target.precision - self.sites.precision])

    def scaled(self, change: Array) -> Array:
        """A change (..., 2, n) of site parameters, in units of the posterior's sd and variance."""
        return in_posterior_units(change, self.q.mean, self.q.var)

    @property
    def mismatch(self) -> float:
        """Largest difference between a site and its target, in units of the posterior."""
        return float(np.abs(self.scaled(self.direction)).max(initial=0.0))

    def residual(self) -> float:
        """The mismatch, or how far a step to the targets would move the posterior if that is more.

        The latter, to first order, is the largest change of a mean in posterior standard deviations or of a
        variance relative to itself. It sees many small differences that add up because the points are
        strongly correlated.
        """
        q = self.q
        shift, precision = self.direction
        means, variances = q.conditioning.pull_sites(shift - precision * q.mean, precision)
        moved = max(
            np.abs(means / np.sqrt(q.var)).max(initial=0.0), np.abs(variances / q.var).max(initial=0.0)
        )
        return max(self.mismatch, float(moved))


@dataclass(frozen=True)
class Ascent:
    """Where the ascent ended.

    Attributes
    ----------
    iterate : Iterate
        The last one, which has the highest bound.
    residual : float
        Its distance from stationarity in units of the posterior.
    converged : bool
    bounds : tuple of float
        The bound at every iterate that was accepted.
    evaluations : int
        Evaluations of the bound, rejected ones included.
    """

    iterate: Iterate
    residual: float
    converged: bool
    bounds: tuple[float, ...]
    evaluations: int
    message: str = ""


class _Anderson:
    """Extrapolation from past iterates."""

    def __init__(self) -> None:
        self.points: list[Array] = []
        self.directions: list[Array] = []

    def add(self, iterate: Iterate) -> None:
        self.points.append(np.stack([iterate.sites.shift, iterate.sites.precision]))
        self.directions.append(iterate.direction)
        del self.points[: -DEPTH - 1], self.directions[: -DEPTH - 1]

    def clear(self) -> None:
        del self.points[:-1], self.directions[:-1]

    def propose(self, iterate: Iterate) -> Sites | None:
        if len(self.points) < 2:
            return None
        steps, changes = list(np.diff(self.points, axis=0)), list(np.diff(self.directions, axis=0))
        direction, q = self.directions[-1], iterate.q
        new = self.points[-1] + direction - correction(direction, steps, changes, q.mean, q.var)
        return Sites(new[0], new[1])


def _attempt(prior: LatentPrior, local: LocalBound, sites: Sites) -> Iterate | None:
    """The iterate at these sites, or None where there is none."""
    try:
        iterate = Iterate(prior, local, sites)
    except (ImproperPosteriorError, NotPositiveDefiniteError):
        return None
    return iterate if iterate.usable else None


def _toward_target(
    prior: LatentPrior, local: LocalBound, at: Iterate, step: float
) -> tuple[Iterate | None, float, int]:
    """The longest of step, step/2, ... along the natural gradient that does not lower the bound."""
    direction, tried = at.direction, 0
    while step > SMALLEST_STEP:
        tried += 1
        sites = Sites(at.sites.shift + step * direction[0], at.sites.precision + step * direction[1])
        new = _attempt(prior, local, sites)
        if new is not None and new.bound >= at.bound - at.rounding:
            return new, step, tried
        step *= 0.5
    return None, step, tried


def _first(prior: LatentPrior, local: LocalBound, start: Sites | None) -> Iterate:
    """The iterate to begin with: the given sites, their positive part, none at all, or the weakest that will
    do.

    Negative precisions found under other hyperparameters may outweigh this prior. And a vague prior can have
    an infinite expected log likelihood (a Poisson rate with a large variance, say): sites centered on the
    prior mean are then strengthened until the bound is finite.
    """
    candidates = [] if start is None else [start, Sites(start.shift, np.maximum(start.precision, 0.0))]
    candidates.append(Sites.zero(prior.n))
    for strength in 10.0 ** np.arange(0.0, 17.0, 2.0):
        precision = strength / prior.diagonal
        candidates.append(Sites(precision * prior.mean, precision))
    for sites in candidates:
        iterate = _attempt(prior, local, sites)
        if iterate is not None:
            return iterate
    raise InferenceFailedError(
        "the variational bound is not finite at any start: check the scale of the targets and the "
        "bounds of the hyperparameters"
    )


def maximize_bound(
    prior: LatentPrior,
    local: LocalBound,
    start: Sites | None = None,
    tolerance: float = 1e-6,
    max_evaluations: int = 500,
) -> Ascent:
    """Climb to a stationary point of the bound.

    Parameters
    ----------
    local : callable
        g and its derivatives as a function of means and variances, each (n,).
    start : Sites, optional
    tolerance : float
        Residual at which a point counts as stationary: see `Iterate.residual`.
    max_evaluations : int
        Evaluations of the bound after which the climb stops.
    """
    at = _first(prior, local, start)
    history, length, used, bounds = _Anderson(), 1.0, 1, [at.bound]
    message = f"stopped after {max_evaluations} evaluations of the bound"
    while used < max_evaluations:
        if at.mismatch <= tolerance and (residual := at.residual()) <= tolerance:
            return Ascent(at, residual, True, tuple(bounds), used)
        history.add(at)
        proposal, new = history.propose(at), None
        if proposal is not None:
            used += 1
            new = _attempt(prior, local, proposal)
            if new is None or new.bound < at.bound - at.rounding:
                new = None
                history.clear()
        if new is None:
            new, length, tried = _toward_target(prior, local, at, length)
            used += tried
            length = min(1.0, 2.0 * length)
        if new is None:
            message = "no step along the natural gradient raises the bound beyond rounding"
            break
        at = new
        bounds.append(at.bound)
    residual = at.residual()
    return Ascent(at, residual, residual <= tolerance, tuple(bounds), used, message)
