"""Vectorized adaptive quadrature of many one-dimensional integrals at once, in the log domain.

Each of n integrals is covered by panels with Gauss-Legendre nodes. All panels of all integrals are kept in
flat arrays, so a round of refinement is a few array operations however many integrals there are. A panel is
*resolved* when the last Legendre coefficients of its values are small compared with the largest value in it
(then the quadrature error, which is quadratically smaller, is negligible) and the expansion reproduces the
values at both ends, so that no peak hides between a node and an end. It is *dropped* when nothing in it,
ends included, can matter.

Because integrands are compared through their logarithms, a peak is found by walking uphill: the panel next
to it holds the largest value seen so far and is split until it is resolved. A unimodal integrand is found
from any start; further peaks must lie near one of the starting edges.

Notation: integral i of F_i(t) = s exp(g), sign s and log magnitude g, over t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array

Index = NDArray[np.intp]
LogFunction = Callable[[Array, Index], Array]
"""log |F| at nodes t of shape (q, M), where column j belongs to integral index[j]."""

NODES = 16
"""Gauss-Legendre nodes of a panel."""

TAIL = 3
"""Number of last Legendre coefficients that must be small."""

RESOLVED = 1e-5
"""Size of these coefficients, relative to the largest value: the integral's error is about its square."""

DROP = 100.0
"""Nats below the total at which a panel is dropped; generous, because fourth moments weight far panels."""

ACCEPT = float(np.log(1e-13))
"""Log fraction of the total below which a panel is taken as it is (next to a kink or a jump)."""

MAX_ROUNDS = 100

MAX_PANELS = 400
"""Open panels of one integral at which refinement stops: only noise needs more."""

_X, _W = np.polynomial.legendre.leggauss(NODES)
_LOG_W = np.log(_W)
GAUSS_WEIGHTS = _W
"""Gauss-Legendre weights of a panel on [-1, 1]."""

_P = np.polynomial.legendre.legvander(_X, NODES - 1)
# Discrete Legendre transform: coefficient k is (2k+1)/2 sum_j w_j P_k(x_j) F(x_j).
_TRANSFORM = ((2 * np.arange(NODES) + 1) / 2)[:, None] * (_P * _W[:, None]).T
_TAIL_ROWS = np.ascontiguousarray(_TRANSFORM[-TAIL:])
_ENDS = np.polynomial.legendre.legvander(np.array([-1.0, 1.0]), NODES - 1) @ _TRANSFORM


def scatter_logsumexp(values: Array, index: Index, n: int) -> Array:
    """log sum exp of the values that share an index, shape (n,); -inf where there are none."""
    top = np.full(n, -np.inf)
    np.maximum.at(top, index, values)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return safe + np.log(np.bincount(index, weights=np.exp(values - safe[index]), minlength=n))


@dataclass(frozen=True)
class PanelRule:
    """Nodes and log weights of n integrals: integral i is the sum over columns with index i.

    Attributes
    ----------
    nodes : array (q, M)
    log_weights : array (q, M)
        Log of the quadrature weights.
    index : int array (M,)
    log_values : array (q, M)
        log |F| at the nodes.
    n : int
        Number of integrals.
    resolved : bool array (n,)
        False where the rounds ran out; the result is then an estimate.
    """

    nodes: Array
    log_weights: Array
    index: Index
    log_values: Array
    n: int
    resolved: NDArray[np.bool_]

    def log_integral(self) -> Array:
        """log of the integral of exp(g), shape (n,)."""
        terms = self.log_weights + self.log_values
        top = terms.max(axis=0)
        with np.errstate(invalid="ignore"):
            column = np.where(top > -np.inf, top + np.log(np.exp(terms - top).sum(axis=0)), -np.inf)
        return scatter_logsumexp(column, self.index, self.n)

    def density(self) -> tuple[Array, Array]:
        """Weights (q, M) of the normalized density exp(g) / integral, and each integral's largest node (n,).

        Normalized by their own sum, so that they add up to one however large g is; moments should be taken
        relative to the largest node, which lies where the mass is.
        """
        terms = self.log_weights + self.log_values
        row = terms.argmax(axis=0)
        best = terms[row, np.arange(terms.shape[1])]
        order = np.argsort(best, kind="stable")
        top, peak = np.full(self.n, -np.inf), np.zeros(self.n)
        top[self.index[order]] = best[order]  # the last write, the largest, stays
        peak[self.index[order]] = self.nodes[row[order], order]
        w = np.exp(terms - top[self.index])
        return w / self.sum(w)[self.index], peak

    def sum(self, values: Array) -> Array:
        """Sum of node values (..., q, M) over the nodes of each integral: shape (..., n)."""
        columns = values.sum(axis=-2)
        flat = columns.reshape(-1, columns.shape[-1])
        out = np.empty((len(flat), self.n))
        for sums, row in zip(out, flat):
            sums[:] = np.bincount(self.index, weights=row, minlength=self.n)
        return out.reshape(*columns.shape[:-1], self.n)


def adaptive_rule(
    log_function: LogFunction,
    edges: Array,
    signs: Callable[[Array, Index], Array] | None = None,
    floor: Array | None = None,
    drop: float = DROP,
) -> PanelRule:
    """Panels that resolve every integrand.

    Parameters
    ----------
    log_function : callable
        log |F(t)| for nodes (q, M) and the integral each column belongs to; -inf is allowed, nan is not.
    edges : array (K, n)
        Starting panel edges of each integral, in any order; repeated edges are allowed.
    signs : callable, optional
        Sign of F where it is not positive; same arguments.
    floor : array (n,), optional
        Log size below which a panel's content does not matter (rounding noise of the integrand, say).
    drop : float
        Nats below the total at which a panel is dropped.
    """
    edges = np.sort(edges, axis=0)
    n = edges.shape[1]
    a, b = edges[:-1].ravel(), edges[1:].ravel()
    index: Index = np.tile(np.arange(n), len(edges) - 1)
    keep = b > a
    a, b, index = a[keep], b[keep], index[keep]
    done: list[tuple[Array, Array, Index, Array]] = []
    settled: list[tuple[Array, Index]] = []
    resolved = np.ones(n, dtype=bool)
    for _ in range(MAX_ROUNDS):
        half = 0.5 * (b - a)
        t = (0.5 * (a + b)) + half * np.concatenate([_X, [-1.0, 1.0]])[:, None]
        g = log_function(t, index)
        top = g.max(axis=0)
        inside = g[:NODES]
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = np.where(top > -np.inf, np.exp(g - top), 0.0)
            if signs is not None:
                scaled = scaled * signs(t, index)
            size = np.log(np.abs(scaled[:NODES] * _W[:, None]).sum(axis=0) * half) + np.where(
                top > -np.inf, top, 0.0
            )
            bound = top + np.log(2 * half)
        totals = np.concatenate([size] + [s for s, _ in settled])
        owners = np.concatenate([index] + [i for _, i in settled])
        total = scatter_logsumexp(totals, owners, n)[index]
        limit = total - drop if floor is None else np.maximum(total - drop, floor[index])
        matters = bound > limit
        # No smoother than the rounding of g itself, which is relative to its size.
        tolerance = np.maximum(
            RESOLVED, np.where(np.isfinite(top), np.minimum(1e-14 * np.abs(top), 1e-2), 0.0)
        )
        smooth = np.abs(_TAIL_ROWS @ scaled[:NODES]).max(axis=0) <= tolerance
        smooth &= np.abs(_ENDS @ scaled[:NODES] - scaled[NODES:]).max(axis=0) <= 1e2 * tolerance
        # A panel no wider than rounding cannot be split any more.
        small = (bound < total + ACCEPT) | (half <= 4e-16 * np.maximum(np.abs(a), np.abs(b)))
        crowded = np.bincount(index, minlength=n) > MAX_PANELS
        resolved &= ~crowded
        final = matters & (smooth | small | crowded[index])
        split = matters & ~final
        if final.any():
            done.append(
                (t[:NODES, final], _LOG_W[:, None] + np.log(half[final]), index[final], inside[:, final])
            )
            settled.append((size[final], index[final]))
        if not split.any():
            break
        middle = 0.5 * (a + b)[split]
        a, b, index = (
            np.concatenate([a[split], middle]),
            np.concatenate([middle, b[split]]),
            np.concatenate([index[split]] * 2),
        )
    else:
        resolved[index] = False
        half = 0.5 * (b - a)
        t = 0.5 * (a + b) + half * _X[:, None]
        done.append((t, _LOG_W[:, None] + np.log(half), index, log_function(t, index)))
    if not done:
        done = [
            (np.zeros((NODES, 0)), np.zeros((NODES, 0)), np.zeros(0, dtype=np.intp), np.zeros((NODES, 0)))
        ]
    nodes, log_weights, owner, values = (np.concatenate(pieces, axis=-1) for pieces in zip(*done))
    return PanelRule(nodes, log_weights, owner, values, n, resolved)


def partial_integrals(values: Array, x: Array) -> Array:
    """Integral from -1 to x of the polynomial through node values (q, M), one x in [-1, 1] per column.

    Legendre polynomials integrate to (P_{k+1} - P_{k-1}) / (2k + 1).
    """
    c = _TRANSFORM @ values
    P = np.polynomial.legendre.legvander(x, NODES).T  # (NODES + 1, M)
    total: Array = c[0] * (x + 1)
    for k in range(1, NODES):
        total += c[k] * (P[k + 1] - P[k - 1]) / (2 * k + 1)
    return total


def ladder(center: Array, width: Array, steps: Array) -> Array:
    """Edges center and center +- width * steps, shape (2 k + 1, n)."""
    offsets = width * steps[:, None]
    return np.concatenate([center[None], center - offsets, center + offsets])


def widen(
    log_function: LogFunction, low: Array, high: Array, factor: float = 8.0, drop: float = DROP
) -> tuple[Array, Array]:
    """Move the outer edges outwards until log F there has fallen `drop` nats below the largest value seen.

    Without that, mass beyond the first guess of the range would be lost silently.
    """
    n = len(low)
    everyone = np.arange(n)
    best = np.maximum(log_function(low[None], everyone)[0], log_function(high[None], everyone)[0])
    best = np.maximum(best, log_function(0.5 * (low + high)[None], everyone)[0])
    for _ in range(40):
        g_low, g_high = log_function(low[None], everyone)[0], log_function(high[None], everyone)[0]
        best = np.maximum(best, np.maximum(g_low, g_high))
        span = high - low
        open_low, open_high = g_low > best - drop, g_high > best - drop
        if not (open_low.any() or open_high.any()):
            break
        low = np.where(open_low, low - factor * span, low)
        high = np.where(open_high, high + factor * span, high)
    return low, high


def trapezoid_nodes(low: Array, high: Array, count: int) -> tuple[Array, Array]:
    """Equidistant nodes (count, n) on [low, high] and their spacing (n,).

    For integrands that are analytic in a strip and vanish at both ends the plain trapezoid rule converges
    geometrically in the number of nodes.
    """
    h = (high - low) / (count - 1)
    return low + h * np.arange(count)[:, None], h


def chunks(n: int, width: int, budget: int = 1 << 18) -> list[slice]:
    """Slices of n columns such that a block of `width` rows stays within `budget` numbers (cache, not
    memory)."""
    size = max(1, budget // max(width, 1))
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
