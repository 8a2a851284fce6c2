# mypy: disable-error-code="untyped-decorator"
"""Compiled loops over cliques: into a sparse matrix, and back."""

from __future__ import annotations

from typing import Any

from cavity.numerics.scalar import jit


@jit
def add_cliques(pairs: Any, weights: Any, v: Any, out: Any) -> None:
    """out += w w' / v of each clique, w = (-b, 1)."""
    n, k = weights.shape
    for p in range(n):
        at, scale = 0, 1.0 / v[p]
        for i in range(k + 1):
            wi = scale * (1.0 if i == k else -weights[p, i])
            for j in range(i + 1):
                out[pairs[p, at]] += wi * (1.0 if j == k else -weights[p, j])
                at += 1


@jit
def clique_products(pairs: Any, weights: Any, P: Any, out: Any) -> None:
    """P w of each clique."""
    n, k = weights.shape
    for p in range(n):
        at = 0
        for i in range(k + 1):
            out[p, i] = 0.0
        for i in range(k + 1):
            wi = 1.0 if i == k else -weights[p, i]
            for j in range(i + 1):
                entry = P[pairs[p, at]]
                out[p, i] += entry * (1.0 if j == k else -weights[p, j])
                if j < i:
                    out[p, j] += entry * wi
                at += 1
