"""EP for log-concave likelihoods, whose sites have nonnegative precisions: Newton's method from a good guess.

What costs is factorizations of B = I + S K S, S^2 = diag(precisions of the sites), each with an inverse. Plain sweeps
take 16 to 33 of them where this takes 4 (USPS, Ionosphere): the first sweep is done by products with K alone
(`guessed_sites`), then come Newton steps (`newton_step`), and plain sweeps only where these do not help.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsymm, dsymv

from cavity.inference.ep.log_concave_newton import newton_sites
from cavity.inference.ep.state import TOLERANCE, Problem, State
from cavity.latent.conditioned import Pulled
from cavity.latent.dense import DensePrior
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import try_factorize
from cavity.numerics.tiles import lower_tiles

SWEEPS = 100
"""Factorizations after which the iteration is given up."""

FIRST_STEPS = (0.7, 0.9)
"""Plain sweeps from zero sites before Newton's method: all sites together go too far, so that full steps swing."""

ROUGHLY, FEW = 0.1, 20
"""Relative residual of the equations for guessed means, and most iterations on them."""

PLAIN_AFTER_FAILURE, DAMPING = 2, 0.9
"""Plain sweeps after a Newton step that did not help, and their step."""

NEAR = 1.0
"""Mismatch, in posterior sd, from which Newton's method is tried at once."""

CLEARLY = 0.9
"""Share of the tolerance at which the iteration ends: the mismatch may change a little when it is computed anew."""

SILENT = 1e-10
"""Smallest precision of a site, relative to the prior precision; below it is rounding of a site that says nothing."""

DIGITS = 1e-12
"""Where tau var is below this over the tolerance, 1 - (B^-1)_ii has too few digits and a product is used instead."""


class _Factor:
    """What is left of a factorization: the diagonal of the factor, for its determinant."""

    jitter = 0.0

    def __init__(self, diagonal: Array) -> None:
        self._diagonal = diagonal

    @property
    def log_det(self) -> float:
        """log |B|."""
        return 2.0 * float(np.log(self._diagonal).sum())


class PositivePosterior:
    """q for sites of positive precision, with B^-1 in the prior's workspace: valid until the next one is made.

    Attributes
    ----------
    mean, var, weights : array (n,)
        As in `Conditioned`.
    inverse : array (n, n)
        B^-1 in the lower triangle, with zeros on the diagonal.
    left : array (n,)
        That diagonal: 1 - tau var, the part of a marginal's precision that is not its own site's.
    """

    def __init__(self, prior: DensePrior, sites: Sites, digits: float = DIGITS / TOLERANCE) -> None:
        self.prior, n, K, tau = prior, prior.n, prior.lower_covariance, sites.precision
        root = self.root = np.sqrt(tau)
        B = prior.workspace.get("B", (n, n))
        for rows, columns in lower_tiles(n):
            tile = np.multiply(K[rows, columns], root[columns], out=B[rows, columns])
            tile *= root[rows, None]
        B.reshape(-1)[:: n + 1] += 1.0
        factor = try_factorize(B)
        if factor is None:
            raise np.linalg.LinAlgError("I + S K S is not positive definite")
        diagonal = B.reshape(-1)[:: n + 1]
        self.correction = _Factor(diagonal.copy())
        # S B^-1 S^-1 = I - R K subtracts nothing.
        self.weights = root * factor.solve((sites.shift - tau * prior.mean) / root)
        self.mean = prior.mean + dsymv(1.0, K.T, self.weights, lower=0)
        self.inverse = factor.into_inverse()
        left = self.left = diagonal.copy()
        explained = 1.0 - left
        self.var = explained / tau
        if explained.min() <= digits:
            weak = np.flatnonzero(explained <= digits)
            scaled = root[:, None] * prior.covariance[:, weak]
            known = np.einsum("ij,ij->j", scaled, dsymm(1.0, self.inverse.T, scaled, lower=0))
            self.var[weak] = prior.diagonal[weak] - known
        diagonal[:] = 0.0

    @property
    def unexplained(self) -> Array:
        """The diagonal of (K + T^-1)^-1."""
        return np.asarray(self.root * self.root * self.left)

    def pull(self, d_log_normalizer: float = 1.0) -> Pulled:
        """As `Conditioned.pull` of the log normalizer."""
        c, root, weights = d_log_normalizer, self.root, self.weights
        half = -0.5 * c * root
        self.inverse.reshape(-1)[:: len(root) + 1] = self.left

        def cotangent(rows: slice, columns: slice) -> Array:
            G = self.inverse[rows, columns] * root[columns]
            G *= half[rows, None]
            G += np.multiply.outer(0.5 * c * weights[rows], weights[columns])
            return G

        d_mean = c * weights
        d_precision = -0.5 * c * (self.var + self.mean**2)
        return Pulled(self.prior.pull(cotangent), self.prior.pull_mean(d_mean), c * self.mean, d_precision)


class _Prior:
    """q where the sites are zero."""

    def __init__(self, prior: DensePrior) -> None:
        self.prior, self.correction = prior, _Factor(np.ones(1))
        self.mean, self.var, self.left = prior.mean, prior.diagonal, np.ones(prior.n)
        self.weights = self.unexplained = np.zeros(prior.n)

    def pull(self, d_log_normalizer: float = 1.0) -> Pulled:
        """As `Conditioned.pull` of the log normalizer, on which neither kernel nor mean has an effect."""
        c, silent = d_log_normalizer, np.zeros(self.prior.n)
        d_precision = -0.5 * c * (self.var + self.mean**2)
        d_kernel = np.zeros(self.prior.kernel.flat.size)
        return Pulled(d_kernel, self.prior.pull_mean(silent), c * self.mean, d_precision)


def positive_state(problem: Problem, sites: Sites, tolerance: float = TOLERANCE) -> State | None:
    """State at nonnegative sites (power one), with four tilted moments; None where it cannot be used.

    Precisions below what rounding leaves of them are raised to that.
    """
    prior = problem.prior
    if not (np.isfinite(sites.shift).all() and np.isfinite(sites.precision).all()):
        return None
    if sites.precision.any() or sites.shift.any():
        sites = Sites(sites.shift, np.maximum(sites.precision, SILENT / prior.diagonal))
        try:
            q: PositivePosterior | _Prior = PositivePosterior(prior, sites, min(DIGITS / tolerance, 1e-2))
        except np.linalg.LinAlgError:
            return None
    else:
        q = _Prior(prior)
    if not q.var.min() > 0:
        return None
    state = State(problem, sites, q, order=4)  # type: ignore[arg-type]
    # What State would compute itself, from 1 - tau var as it is known here and with nothing done twice.
    precision = q.left / q.var
    state.__dict__["cavity"] = precision * q.mean - q.weights, precision
    if not (precision > problem.min_cavity_precision).all():
        return None
    t = state.moments
    ratio, off = t.var / q.var, (t.mean - q.mean) / np.sqrt(q.var)
    relative = np.log(ratio)
    merit = float(off @ off + relative @ relative) ** 0.5
    if not np.isfinite(merit):
        return None
    ratio -= 1.0
    state.__dict__["merit"] = merit
    state.__dict__["mismatch"] = off, ratio
    return state


def guessed_sites(problem: Problem) -> Sites:
    """Sites of a first sweep and of most of a second one, whose marginals are not computed but guessed.

    After the first sweep means need a linear solve (a few conjugate gradients), and variances lie between those of the
    prior, k, and k / (1 + x) with x_i = sum_j K_ij^2 tau_j / k_i (by Jensen's inequality, since 1/(1 + x) is convex):
    the geometric mean of the two is the guess.
    """
    prior = problem.prior
    n, K, k = prior.n, prior.lower_covariance, prior.diagonal
    known = 1.0 / k
    t = problem.moments(prior.mean * known, known)
    smallest = SILENT * known
    tau = np.maximum(1.0 / t.var - known, smallest)
    shift = t.mean / t.var - prior.mean * known
    root = np.sqrt(tau)
    squares = prior.workspace.get("B squared", (n, n))
    for rows, columns in lower_tiles(n):
        tile = K[rows, columns]
        np.multiply(tile, tile, out=squares[rows, columns])
    precision = known * np.sqrt(1.0 + known * dsymv(1.0, squares.T, tau, lower=0))
    weights = root * _roughly_solved(K, root, (shift - tau * prior.mean) / root)
    mean = prior.mean + dsymv(1.0, K.T, weights, lower=0)
    cavity = np.maximum(precision - tau, 0.1 * precision)
    moved = cavity * mean - weights
    t = problem.moments(moved, cavity)
    step = FIRST_STEPS[0]
    shift += step * (t.mean / t.var - moved - shift)
    tau += step * (np.maximum(1.0 / t.var - cavity, smallest) - tau)
    return Sites(shift, tau)


def _roughly_solved(K: Array, root: Array, right: Array) -> Array:
    """(I + S K S)^-1 right to a tenth, by conjugate gradients."""
    a, r, p = np.zeros(len(right)), right.copy(), right.copy()
    size = float(r @ r)
    enough = ROUGHLY**2 * size
    for _ in range(FEW):
        if not size > enough:
            break
        q = p + root * dsymv(1.0, K.T, root * p, lower=0)
        step = size / float(p @ q)
        a += step * p
        r -= step * q
        size, before = float(r @ r), size
        p *= size / before
        p += r
    return a


def positive_ep(problem: Problem, start: Sites, tolerance: float = TOLERANCE) -> tuple[State | None, int]:
    """(converged state, steps to it from the first one); the state is None if it did not converge."""
    plain: list[float] = []
    state = None
    if not (start.precision.any() or start.shift.any()):
        plain = list(FIRST_STEPS)
        state = positive_state(problem, guessed_sites(problem), tolerance)
    if state is None:
        state = positive_state(problem, start, tolerance)
    for sweep in range(SWEEPS):
        if state is None:
            return None, sweep
        if state.residual <= CLEARLY * tolerance:
            return state, sweep
        after = None
        if state.sites.precision.any() and (not plain or state.residual < NEAR):
            after = positive_state(problem, newton_sites(state, tolerance), tolerance)
            if after is None or after.merit > state.merit:
                after, plain = None, [DAMPING] * PLAIN_AFTER_FAILURE
        if after is None:
            sites = state.towards_target(plain.pop(0) if plain else 1.0)
            after = positive_state(problem, sites, tolerance)
        state = after
    return None, SWEEPS
