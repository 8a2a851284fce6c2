# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Terms of a sum, and their changes over time, given the data: functionals g'x of the state, in O(n).

Given the data the state is a Markov process again (`posterior_chain`), x_{k+1} = A x_k + G e, with covariances S that
are sums of positive terms, S_{k+1} = A S_k A' + G G': nothing cancels, however vague the prior is. The covariance of
g'x_a with a later state is S_a g, moved by A from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cavity.latent.markov import passes
from cavity.latent.markov.passes import compiled
from cavity.latent.markov.posterior_chain import PosteriorChain
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.latent.markov.process import MarkovProcess


class PartMoments(NamedTuple):
    """Means and variances (G, m) of functionals at m times, and (G, k) of their changes between k pairs of them."""

    mean: Array
    var: Array
    change: Array
    change_var: Array


@compiled
def _means(start, A, Q, which, x, ahead, after, picks, out):
    """cov(g'x_k, f) alpha, into out (n, G); x (1, d) = cov(x_k, alpha'f) as of `passes.times`."""
    new, last = np.empty_like(x[0]), len(which) - 1
    for k in range(len(which)):
        for e in range(len(picks)):
            out[k, e] = passes.dot(picks[e], x[0])
        if which[k] >= 0:
            follows = after[0] if k == last else ahead[k + 1, 0]
            passes.move_covariances(start, A[which[k]], Q[which[k]], follows, x[0], new)


@compiled
def _variances(A, G, first, picks, begins, ends, var, cov):
    """Variances (n, E) of functionals at each time, and covariances (k, E) of them between pairs of times."""
    n, d = A.shape[:2]
    S, half, new, Y = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty((len(begins), len(picks), d))
    for i in range(d):
        for j in range(d):
            S[i, j] = passes.dot(first[i], first[j])
    closed, opened = 0, 0
    for k in range(n):
        while closed < opened and ends[closed] == k:
            for e in range(len(picks)):
                cov[closed, e] = passes.dot(picks[e], Y[closed, e])
            closed += 1
        for e in range(len(picks)):
            for i in range(d):
                new[i] = passes.dot(S[i], picks[e])
            var[k, e] = passes.dot(picks[e], new)
            later = opened
            while later < len(begins) and begins[later] == k:
                passes.copy(new, Y[later, e])
                later += 1
        while opened < len(begins) and begins[opened] == k:
            opened += 1
        if k + 1 < n:
            passes.product(A[k], S, half)
            for i in range(d):
                for j in range(d):
                    S[i, j] = passes.dot(half[i], A[k, j]) + passes.dot(G[k, i], G[k, j])
            for i in range(closed, opened):
                for e in range(len(picks)):
                    for j in range(d):
                        new[j] = passes.dot(A[k, j], Y[i, e])
                    passes.copy(new, Y[i, e])


def part_moments(
    process: MarkovProcess, picks: Array, times: Array, begin: NDArray[np.intp], end: NDArray[np.intp]
) -> PartMoments:
    """Of functionals g'x, picks (G, d), at times (m,), each once and in order, and between pairs of them.

    Pairs are numbers of times, (k,) each, neither of them falling; observations must not be exact.
    """
    known = process.conditioning
    joined = process.prior.at_times(np.concatenate([process.prior.t, times])[:, None])
    precision = np.zeros(joined.n)
    precision[: process.prior.n] = 1.0 / known.noise if known.observed else known.noise
    weights = np.zeros((joined.n, 1))
    weights[: process.prior.n, 0] = process.prior.by_time(process.weights)
    place = np.empty(joined.n, dtype=np.intp)
    place[joined.order] = np.arange(joined.n)
    new = place[process.prior.n :]
    begins, ends = new[begin], new[end]

    ahead = joined._functionals(joined.sorted(weights))
    x, mean = joined._first_covariances(ahead), np.empty((joined.n, len(picks)))
    for stretch in joined.stretches:
        at = stretch.steps
        inner = stretch.which, x, ahead[at], ahead[at.stop], picks, mean[at]
        _means(joined.start, *joined.transitions(stretch), *inner)

    chain = PosteriorChain(joined, joined.by_time(precision))
    var, cov = np.empty(mean.shape), np.empty((len(begins), len(picks)))
    _variances(*chain.matrices, chain.picks(picks), begins, ends, var, cov)
    change_var = var[begins] + var[ends] - 2.0 * cov
    return PartMoments(mean[new].T, var[new].T, (mean[ends] - mean[begins]).T, change_var.T)
