"""Decisions: the action with the least expected loss, and how a rule for decisions does over many data sets.

Posterior expected loss  E[L(theta, a) | data];  its minimum over actions is Bayes' action. Squared loss asks for
the mean, absolute loss for the median, a loss of one outside a small width for the mode. Frequentist risk is
E[L(theta, rule(data)) | theta], Bayes risk its average over a prior. (Kuss, 2006, section 2.2.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from cavity.numerics.arrays import Array
from cavity.prediction.base import Prediction
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.bayes.distributions import Distribution

Loss = Callable[[Array, float], Array]
"""L(theta, action) for an array of values and one action."""

PANELS, NODES = 24, 24
"""Gauss-Legendre panels on either side of an action, finer towards it and towards the tail, and nodes in each."""

LOSSES = ("squared", "absolute", "zero-one")


class Action(NamedTuple):
    """What to do, and what it costs on average."""

    action: float
    expected_loss: float


def expectation(one: Distribution, function: Callable[[Array], Array], kink: float | None = None) -> float:
    """E[function(theta)] under one distribution; `kink` is a place where the function is not smooth.

    A sum over whole numbers, or Gauss-Legendre in u = F(theta), where the function is split at the kink and panels
    shrink towards the tails, in which theta grows without bound.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.bayes import expectation, normal
    >>> round(expectation(normal(0.0, 1.0), np.abs, kink=0.0), 6)  # sqrt(2 / pi)
    0.797885
    """
    if one.discrete:
        low, high = one.quantile(1e-15), one.quantile(1.0 - 1e-15)
        x = np.arange(float(low), float(high) + 1.0)
        return float(np.exp(one.log_prob(x)) @ function(x))
    middle = 0.5 if kink is None else float(np.clip(one.cdf(kink), 0.0, 1.0))
    x, weights = np.polynomial.legendre.leggauss(NODES)
    total = 0.0
    for left in (True, False):
        mass = middle if left else 1.0 - middle
        if mass <= 0.0:
            continue
        edges = np.concatenate([[0.0], mass * 0.5 ** np.arange(2 * PANELS, -1, -1.0)])
        half = 0.5 * np.diff(edges)
        tail = (edges[:-1] + half)[:, None] + half[:, None] * x  # probability left in the tail
        theta = one.quantile(tail) if left else _upper_quantile(one, tail)
        total += float(np.sum(half[:, None] * weights * function(np.asarray(theta))))
    return total


def _upper_quantile(one: Distribution, tail: Array) -> Array:
    """Values with so much probability above; by the survival function if SciPy has its inverse."""
    frozen = getattr(one, "_frozen", None)
    return np.asarray(one.quantile(1.0 - tail) if frozen is None else frozen.isf(tail))


def best_action(one: Distribution, loss: str | Loss = "squared", width: float = 0.0) -> Action:
    """The action with the least expected loss.

    Parameters
    ----------
    one : Distribution
        What is known.
    loss : {"squared", "absolute", "zero-one"} or callable
        `loss(theta, action)` for an array theta. "zero-one" costs one if theta is not within `width` of the
        action; with width 0 it is the limit, the mode.
    width : float

    Examples
    --------
    >>> from cavity.bayes import Beta, best_action
    >>> best_action(Beta(10, 6)).action, round(best_action(Beta(10, 6), "absolute").expected_loss, 7)
    (0.625, 0.0948485)
    >>> dear = lambda theta, a: np.where(theta > a, 9.0 * (theta - a), a - theta)  # too low costs nine times as much
    >>> round(best_action(Beta(10, 6), dear).action, 4), round(float(Beta(10, 6).quantile(0.9)), 4)
    (0.7744, 0.7744)
    """
    if loss == "squared":
        if not np.isfinite(one.variance):
            raise InputError(
                "is infinite on average whatever the action: the distribution has no variance",
                parameter="loss",
                value=loss,
                remedy="use loss='absolute'",
            )
        return Action(float(one.mean), float(one.variance))
    if loss == "absolute":
        median = float(one.median)
        return Action(median, expectation(one, lambda theta: np.abs(theta - median), median))
    if loss == "zero-one":
        return _relaxed_zero_one(one, width)
    if not callable(loss):
        raise InputError(
            f"must be one of {', '.join(LOSSES)} or a function, got {loss!r}", parameter="loss", value=loss
        )

    def cost(a: float) -> float:
        return expectation(one, lambda theta: np.asarray(loss(theta, a), dtype=float), a)

    low, high = float(one.quantile(1e-6)), float(one.quantile(1.0 - 1e-6))
    grid = np.linspace(low, high, 41)
    k = int(np.argmin([cost(a) for a in grid]))
    found = minimize_scalar(
        cost,
        bounds=(grid[max(k - 1, 0)], grid[min(k + 1, 40)]),
        method="bounded",
        options={"xatol": 1e-10 * (high - low)},
    )
    return Action(float(found.x), float(found.fun))


def best_hypothesis(probabilities: ArrayLike, loss: ArrayLike | None = None) -> Action:
    """Which of finitely many hypotheses to act on: the index of the action with the least expected loss.

    Parameters
    ----------
    probabilities : array (K,)
        Of the hypotheses, given the data.
    loss : array (K, A), optional
        Of each of A actions if a hypothesis is true; one for every other hypothesis by default, which chooses the most
        probable. A column of equal losses is the price of putting the decision off.

    Examples
    --------
    >>> from cavity.bayes import best_hypothesis
    >>> best_hypothesis([0.9, 0.1])
    Action(action=0, expected_loss=0.1)
    >>> best_hypothesis([0.9, 0.1], [[0, 1], [50, 0]])  # to miss the second costs fifty times as much
    Action(action=1, expected_loss=0.9)
    """
    p: Array = np.asarray(probabilities, dtype=float)
    if p.ndim != 1 or not len(p) or not np.all(p >= 0) or abs(p.sum() - 1.0) > 1e-8:
        raise InputError(
            f"must be numbers from 0 on that add up to one, got {probabilities!r}",
            parameter="probabilities",
            value=probabilities,
        )
    losses: Array = 1.0 - np.eye(len(p)) if loss is None else np.asarray(loss, dtype=float)
    if losses.ndim != 2 or len(losses) != len(p) or not np.isfinite(losses).all():
        raise InputError(
            f"must be finite numbers of shape ({len(p)}, actions), got {loss!r}", parameter="loss", value=loss
        )
    expected = p @ losses
    best = int(np.argmin(expected))
    return Action(best, float(expected[best]))


GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


def best_actions(prediction: Prediction, loss: Callable[[Array, Array], Array]) -> Array:
    """The action with the least expected loss for each row of a prediction, such as `model.predict_dist(X)`.

    Expected losses are sums over quantiles, so that actions are right to about a thousandth of a row's spread.

    Parameters
    ----------
    prediction : Prediction
        Of numbers, one for each of n rows.
    loss : callable
        `loss(y, action)` for arrays y (L, n) and action (n,), element by element.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.bayes import best_actions
    >>> from cavity.prediction import GaussianPrediction
    >>> demand = GaussianPrediction(np.array([10.0, 20.0]), np.array([4.0, 9.0]))
    >>> short = lambda y, a: np.where(y > a, 9.0 * (y - a), a - y)  # running out costs nine times as much
    >>> best_actions(demand, short).round(1), demand.quantile(0.9).round(1)
    (array([12.6, 23.8]), array([12.6, 23.8]))
    """
    x, weights = np.polynomial.legendre.leggauss(NODES)
    edges = np.concatenate([[0.0], 0.5 * 0.5 ** np.arange(PANELS, -1, -1.0)])
    half = 0.5 * np.diff(edges)
    tail = ((edges[:-1] + half)[:, None] + half[:, None] * x).ravel()
    w = np.tile((half[:, None] * weights).ravel(), 2)
    y = np.asarray(prediction.quantile(np.concatenate([tail, 1.0 - tail])), dtype=float)

    def cost(action: Array) -> Array:
        return np.asarray(w @ np.asarray(loss(y, action), dtype=float))

    grid = np.asarray(prediction.quantile(np.linspace(0.001, 0.999, 61)))
    costs = np.stack([cost(a) for a in grid])
    best = np.argmin(costs, axis=0)
    rows = np.arange(y.shape[1])
    low, high = grid[np.maximum(best - 1, 0), rows], grid[np.minimum(best + 1, len(grid) - 1), rows]
    for _ in range(60):  # golden section, all rows at once
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        lower = cost(left) < cost(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    return np.asarray(0.5 * (low + high))


def _relaxed_zero_one(one: Distribution, width: float) -> Action:
    if width < 0:
        raise InputError(f"must be >= 0, got {width!r}", parameter="width", value=width)
    mode = float(one.mode)
    if width == 0.0 or one.discrete:
        held = float(np.exp(one.log_prob(mode))) if one.discrete else 0.0
        return Action(mode, 1.0 - held)
    low, high = float(one.quantile(1e-12)), float(one.quantile(1.0 - 1e-12))
    grid = np.unique(np.concatenate([np.linspace(low, high, 801), [mode]]))

    def missed(a: float) -> float:
        return 1.0 - float(one.probability(a - width, a + width))

    k = int(np.argmax(one.probability(grid - width, grid + width)))
    a, b = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]

    def slope(
        t: float,
    ) -> float:  # of the probability held: p(t + w) - p(t - w), zero at the best place inside
        return float(np.exp(one.log_prob(t + width)) - np.exp(one.log_prob(t - width)))

    if slope(a) > 0 > slope(b):
        from scipy.optimize import brentq

        best = float(brentq(slope, a, b, xtol=1e-15, rtol=1e-14))
    else:
        best = float(grid[k])
    return Action(best, missed(best))


def risk(
    rule: Callable[[Any], float], model: Callable[[float], Distribution], theta: float, loss: Loss
) -> float:
    """Frequentist risk: expected loss of a rule over the data that `model(theta)` makes.

    Examples
    --------
    >>> from cavity.bayes import binomial, risk
    >>> squared = lambda theta, a: (theta - a) ** 2
    >>> round(risk(lambda x: x / 50, lambda theta: binomial(50, theta), 0.3, squared), 6)  # theta (1 - theta) / n
    0.0042
    """
    return expectation(
        model(theta),
        lambda data: np.array([float(loss(np.asarray(theta), rule(x))) for x in np.ravel(data)]).reshape(
            np.shape(data)
        ),
    )


def bayes_risk(
    rule: Callable[[Any], float], model: Callable[[float], Distribution], prior: Distribution, loss: Loss
) -> float:
    """Risk of a rule averaged over a prior.

    Examples
    --------
    >>> from cavity.bayes import Beta, bayes_risk, binomial
    >>> squared = lambda theta, a: (theta - a) ** 2
    >>> round(bayes_risk(lambda x: x / 5, lambda theta: binomial(5, theta), Beta(1, 1), squared), 6)  # 1 / (6 n)
    0.033333
    """
    return expectation(
        prior,
        lambda theta: np.array([risk(rule, model, float(t), loss) for t in np.ravel(theta)]).reshape(
            np.shape(theta)
        ),
    )


def dominates(risk_of_one: ArrayLike, risk_of_other: ArrayLike) -> bool:
    """Whether a rule is nowhere worse than another and somewhere better, on a grid of parameters.

    Examples
    --------
    >>> from cavity.bayes import dominates
    >>> dominates([1.0, 1.0], [1.0, 2.0]), dominates([1.0, 2.0], [2.0, 1.0])
    (True, False)
    """
    one, other = np.asarray(risk_of_one, dtype=float), np.asarray(risk_of_other, dtype=float)
    return bool(np.all(one <= other) and np.any(one < other))
