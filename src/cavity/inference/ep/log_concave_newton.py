"""A Newton step of EP for log-concave likelihoods, by products with known matrices alone.

One conditioning gives everything a step needs: products with the posterior covariance and with its Hadamard square
(`Conditioning.pull_sites`).

In standardized statistics (x, -x^2/2), x = (f - mean)/sd, a change b = (b1, b2) of the sites changes the natural
parameters of the marginals by (R b1, (R o R) b2) with R the posterior correlations, those of the cavities by that minus
b, and the target sites by M times the change of the cavities, with one 2 x 2 block M_i = C_s^-1 C_t - I per point
(C_t, C_s: covariances of the statistics under the tilted density and under the normal density with its moments). So

    (I - M (blockdiag(R, R o R) - I)) b = target - sites,

which a few Krylov iterations solve: an n x n product each, since the eigenvalues are those of the plain iteration, well
inside the unit circle. The step is taken in the cavities, and the sites follow from the tilted moments there, so that
their precisions stay positive.

With shifts measured about the means after the step, means are exactly linear in b1; variances are linear to first order
only. So the equations are solved again with new tilted moments, until what the curvature of the variances leaves over
dominates: three factorizations where one linear solve each takes four.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cavity.inference.ep.state import TOLERANCE, EPState
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array
from cavity.numerics.special import Moments

KRYLOV, FORCING = 40, 0.1
"""Most iterations of a linear solve, and by how much it reduces the residual."""

INNER, ENOUGH, FALLING = 4, 0.05, 0.5
"""Most linear solves of a Newton step; the part of the mismatch (squared, where that is below one) at which they end,
since variances are only linear here; and by how much each must reduce it."""


class _Neighborhood:
    """Marginals and cavities near a state, as functions of the change of its sites.

    A change of the sites is b = (b1, b2): of the shifts about the means *after* the change, and of the precisions, both
    in units of the marginals. Means are then exactly linear in b1; precisions of the marginals nearly in b2.
    """

    def __init__(self, state: EPState) -> None:
        q = self.q = state.q
        self.sd, self.tau = np.sqrt(q.var), state.sites.precision
        self.precision = state.cavity[1]

    def others(self, b: Array) -> Array:
        """(R - I) b1 and (R o R - I) b2, what the other sites do."""
        sd, var = self.sd, self.q.var
        means, variances = self.q.conditioning.pull_sites(b[0] / sd, b[1] / var)
        out = np.empty_like(b)
        np.divide(means, sd, out=out[0])
        np.divide(variances, var, out=out[1])
        out -= b
        return out

    def gap(self, t: Moments, mean: Array, b: Array, u: Array) -> Array:
        """Target minus sites, in the same units and about the means."""
        out, inverse = np.empty((2, len(mean))), 1.0 / t.var
        np.multiply((t.mean - mean) * inverse, self.sd, out=out[0])
        np.multiply(self.q.var, inverse, out=out[1])
        out[1] -= 1.0 + b[1] + u[1]
        return out

    def move(self, b: Array, u: Array) -> tuple[Array, Array, Array, bool]:
        """Means, and shifts and precisions of the cavities, after b with u = others(b); whether these are as asked."""
        q, sd = self.q, self.sd
        wanted = self.precision + u[1] / q.var
        precision = _kept_positive(self.precision, wanted)
        moved = sd * (b[0] + u[0])
        mean = q.mean + moved
        # weights = shift - precision * mean of the sites, and those of the cavities are what is left of q's
        weights = q.weights + b[0] / sd - self.tau * moved
        return mean, precision * mean - weights, precision, precision is wanted


def newton_sites(state: EPState, tolerance: float = TOLERANCE) -> Sites:
    """Sites after a Newton step in the cavities.

    The equations are solved with new tilted moments, but with variances linear in the sites (`_Neighborhood`): products
    with known matrices alone, and what is left over is small of second order with a small constant.
    """
    near, n = _Neighborhood(state), len(state.sites)
    t, mean = state.moments, state.q.mean
    b = u = np.zeros((2, n))
    gap = near.gap(t, mean, b, u)
    size = _norm(gap)
    enough = max(ENOUGH * min(1.0, size) * size, 0.3 * tolerance)
    sites: Sites | None = None
    for _ in range(INNER):
        equations = _equations(near, t, mean, b, u, gap)
        wanted = max(min(FORCING, size) * size, 0.5 * enough)
        step = krylov(equations, gap.reshape(-1), wanted).reshape(2, n)
        b, u = b + step, u + near.others(step)
        mean, shift, precision, as_asked = near.move(b, u)
        t = state.problem.moments(shift, precision)
        gap = near.gap(t, mean, b, u)
        before, size = size, _norm(gap)
        if sites is None or size < before:
            inverse = 1.0 / t.var
            sites = Sites(t.mean * inverse - shift, inverse - precision)
        if not as_asked or size <= enough or not size < FALLING * before:
            break
    assert sites is not None
    return sites


def _norm(a: Array) -> float:
    flat = a.reshape(-1)
    return math.sqrt(flat @ flat)


def _equations(
    near: _Neighborhood, t: Moments, mean: Array, b: Array, u: Array, gap: Array
) -> Callable[[Array], Array]:
    """Change of (sites - target) with a further change d = (d1, d2) of the sites.

    With X = R d1 the change of the means and M as in `_blocks`, cavities change by c1 = (1 + u2) X - d1 and c2 =
    others(d2), targets by M c, and sites by d1 + b2 X and d2; the gap, measured about the means, by -gap2 X.
    """
    M11, M12, M21, M22 = _blocks(t, mean, near.sd)
    n = len(mean)
    about = b[1] + gap[1]
    of_step, of_others, of_swapped = np.empty((3, 2, n))
    np.add(about, 1.0, out=of_step[0])
    of_step[1] = 1.0
    np.subtract(about, M11, out=of_others[0])
    np.negative(M22, out=of_others[1])
    np.negative(M12, out=of_swapped[0])
    np.negative(M21, out=of_swapped[1])
    crossed: Array | None = None
    if b.any():
        crossed = M21 * u[1]
        of_step[0] -= M11 * u[1]
        of_others[0] -= M11 * u[1]
        of_swapped[1] -= crossed

    def equations(d: Array) -> Array:
        d = d.reshape(2, n)
        c = near.others(d)
        out = of_swapped * c[::-1]
        c *= of_others
        out += c
        out += of_step * d
        if crossed is not None:
            out[1] -= crossed * d[0]
        return out.reshape(-1)

    return equations


def _blocks(t: Moments, mean: Array, sd: Array) -> tuple[Array, Array, Array, Array]:
    """M = C_s^-1 C_t - I, statistics standardized about `mean` by `sd`: entries 11, 12, 21, 22, each (n,)."""
    sd_t = np.sqrt(t.var)
    # Standardized by the tilted moments, M is ((0, -skew/2), (-skew, excess/2)).
    skew = t.c3 / (t.var * sd_t)
    half_excess = 0.5 * t.c4 / (t.var * t.var) - 1.5
    # From there, b1 and b2 in the marginal's units and about its mean are w (b1 - a b2) and w^2 b2.
    a, w = (t.mean - mean) / sd, sd_t / sd
    M21 = -skew / w
    M11 = a * M21
    M22 = half_excess - M11
    return M11, a * M22 - 0.5 * w * skew, M21, M22


def _kept_positive(old: Array, new: Array) -> Array:
    """`new` where it is at least half of `old`, and else a positive number that falls with it."""
    if np.all(new >= 0.5 * old):
        return new
    return np.where(new >= 0.5 * old, new, 0.25 * old * old / np.maximum(old - new, 0.5 * old))


def krylov(equations: Callable[[Array], Array], right: Array, wanted: float) -> Array:
    """x with |equations(x) - right| <= wanted, or the best after `KRYLOV` iterations: GMRES from zero.

    The basis is orthogonal, so the residual is that of a small least-squares problem, kept triangular by rotations.
    """
    size = _norm(right)
    if size <= wanted:
        return right.copy()
    V = np.empty((KRYLOV + 1, len(right)))
    np.multiply(right, 1.0 / size, out=V[0])
    columns, rhs, rotations = list[list[float]](), [size], list[tuple[float, float]]()
    for k in range(KRYLOV):
        w, basis = equations(V[k]), V[: k + 1]
        h = basis @ w
        w -= h @ basis
        beyond = _norm(w)
        column = h.tolist()
        for j, (c, s) in enumerate(rotations):
            column[j], column[j + 1] = c * column[j] + s * column[j + 1], c * column[j + 1] - s * column[j]
        length = math.hypot(column[k], beyond)
        if not 0.0 < length < math.inf:
            break
        c, s = column[k] / length, beyond / length
        column[k] = length
        rotations.append((c, s))
        columns.append(column)
        rhs[k:] = [c * rhs[k], -s * rhs[k]]
        if abs(rhs[k + 1]) <= wanted or beyond <= 1e-14 * length:
            break
        np.multiply(w, 1.0 / beyond, out=V[k + 1])
    used = len(columns)
    if used == 0:
        return right.copy()
    for j in reversed(range(used)):  # back substitution
        rhs[j] /= columns[j][j]
        for i in range(j):
            rhs[i] -= columns[j][i] * rhs[j]
    return np.asarray(np.array(rhs[:used]) @ V[:used])
