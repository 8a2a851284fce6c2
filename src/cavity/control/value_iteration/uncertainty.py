"""Uncertainty of values: Bellman equations for second moments, which Kuss (2006) suggests in 7.5.

The return is G(s) = r(s') + gamma G(s'). If each next state is drawn anew from p(s' | s, a), the law of total variance
gives for its variance u (Sobel, 1982)

    u_i = Var[r(s') + gamma V(s')] + gamma^2 E u(s'),

linear equations of the form of (7.38) with gamma^2 and another source. That source is exact here: products of bumps
are bumps, so E r^2, E r V and E V^2 = beta'L beta (7.26) have closed forms.

A second kind of uncertainty is not knowing V between the support points. The value function has the posterior variance
k - k'Q_v^-1 k there, and its expectation s^2 - tr(Q_v^-1 L) (7.28) is propagated by the same equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cavity.control.value_iteration.policy_iteration import ValuePolicy, evaluate
from cavity.control.value_iteration.rewards import BumpReward
from cavity.control.value_iteration.value_gp import ValueGP, contract
from cavity.numerics.arrays import Array


@dataclass(frozen=True)
class ValueUncertainty:
    """Variances of values at the support points.

    Attributes
    ----------
    returns : ValueGP
        Variance of the return: how much what is earned differs from time to time, as the model sees it.
    interpolation : ValueGP
        Variance of the value for not knowing the value function between its support points.
    """

    returns: ValueGP
    interpolation: ValueGP


def value_uncertainty(found: ValuePolicy) -> ValueUncertainty:
    """Variances of the values of a policy, from second-moment Bellman equations.

    Parameters
    ----------
    found : ValuePolicy
        Of `policy_iteration` with a `BumpReward`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import MountainCar
    >>> from cavity.control.value_iteration import Support, factors_of, policy_iteration, reward_of
    >>> from cavity.control.value_iteration import value_uncertainty
    >>> car = MountainCar()
    >>> grid = Support.grid([np.linspace(-1, 1, 19), np.linspace(-2, 2, 19)], factors_of(car))
    >>> found = policy_iteration(car, grid, reward_of(car), [[-4, 4]], candidates=5, refine=0, iterations=2)
    >>> bool(abs(value_uncertainty(found).returns.values).max() < 1e-8)  # with exact dynamics nothing is uncertain
    True
    """
    reward, gamma = found.backup.reward, found.backup.gamma
    if not isinstance(reward, BumpReward):
        raise ValueError(
            f"the variance of values needs a BumpReward, whose square has a closed form; got {reward!r}"
        )
    value, mean, variance = found.value, found.mean, found.variance
    first = reward.expected(mean, variance) + gamma * value.expected(mean, variance)
    second = reward.expected_square(mean, variance) + 2.0 * gamma * expected_product(
        value, reward, mean, variance
    )
    square, unknown = expected_square(value, mean, variance)
    source = second + gamma**2 * square - first**2
    # differences of nearly equal numbers: what is below their rounding is zero
    rounding = 1e-12 * np.maximum(second + gamma**2 * square, first**2)
    source = np.where(source < rounding, 0.0, source)
    solved = [
        evaluate(value, mean, variance, s, gamma**2).values
        for s in (source, gamma**2 * np.maximum(unknown, 0.0))
    ]
    return ValueUncertainty(*(value.with_values(u) for u in solved))


def expected_product(value: ValueGP, reward: BumpReward, mean: Array, variance: Array) -> Array:
    """E r(s') V(s'), shape (B,)."""
    support = value.support
    if support.axes is None:
        W = np.full((len(mean), len(support)), value.signal**2)
        for d in range(mean.shape[1]):
            c, which = support.columns[d]
            W *= _with_goal(value, reward, mean, variance, d, c)[:, which.ravel()]
        return np.asarray(W @ value.beta)
    factors = [_with_goal(value, reward, mean, variance, d, c) for d, c in enumerate(support.axes)]
    return contract(value.coefficients, factors)


def _with_goal(value: ValueGP, reward: BumpReward, mean: Array, variance: Array, d: int, c: Array) -> Array:
    """In column d, the expected products of bumps of the value function with that of the reward, (B, n)."""
    goal, width = reward.goal[d : d + 1], float(reward.widths[d])
    f = value.support.factors[d]
    return f.paired(mean[:, d], variance[:, d], c, float(value.lengths[d]), goal, width)[:, :, 0]


def expected_square(value: ValueGP, mean: Array, variance: Array) -> tuple[Array, Array]:
    """E V(s')^2 for the posterior mean, and the expected posterior variance of V(s'), each (B,)."""
    support, s2 = value.support, value.signal**2
    inside = np.ones(len(mean))
    for d, f in enumerate(support.factors):
        if getattr(f, "bounded", False):
            inside *= f.expected(mean[:, d], variance[:, d], np.zeros(1), np.inf)[:, 0]
    square, known = np.empty(len(mean)), np.empty(len(mean))
    axes = support.axes if support.axes is not None else [c for c, _ in support.columns]
    block = max(1, 2_000_000 // max(len(a) ** 2 for a in axes))
    for start in range(0, len(mean), block):
        i = slice(start, start + block)
        pairs = [
            f.paired(mean[i, d], variance[i, d], axes[d], float(w), axes[d], float(w))
            for d, (f, w) in enumerate(zip(support.factors, value.lengths))
        ]
        square[i], known[i] = (_on_grid if support.axes is not None else _at_points)(value, pairs)
    return square, s2 * inside - known


def _on_grid(value: ValueGP, pairs: list[Array]) -> tuple[Array, Array]:
    """beta'L beta and tr(Q_v^-1 L) for L = s^4 L_1 x ... x L_D, where pairs holds the L_d (b, n_d, n_d)."""
    vectors, _, total = value.spectrum
    b = len(pairs[0])
    T = np.broadcast_to(value.coefficients, (b, *value.coefficients.shape))
    for d, L in enumerate(pairs):
        moved = np.moveaxis(T, d + 1, 1)
        T = np.moveaxis((L @ moved.reshape(b, L.shape[1], -1)).reshape(moved.shape), 1, d + 1)
    square = np.sum(T * value.coefficients, axis=tuple(range(1, T.ndim)))
    diagonals = [np.einsum("ik,bij,jk->bk", U, L, U, optimize=True) for U, L in zip(vectors, pairs)]
    return square, value.signal**4 * contract(np.ascontiguousarray(1.0 / total), diagonals)


def _at_points(value: ValueGP, pairs: list[Array]) -> tuple[Array, Array]:
    """The same for any support points, one distribution at a time: O(m^2) each."""
    which = [w.ravel() for _, w in value.support.columns]
    inverse = value.solve(np.eye(len(value.support)))
    square, known = np.empty(len(pairs[0])), np.empty(len(pairs[0]))
    for k in range(len(square)):
        L = np.full(inverse.shape, value.signal**4)
        for own, w in zip(pairs, which):
            L *= own[k][np.ix_(w, w)]
        square[k], known[k] = value.beta @ L @ value.beta, np.sum(inverse * L)
    return square, known
