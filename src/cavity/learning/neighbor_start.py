"""A start whose length scales neighbors tell: of functions with many bumps, few rows or typical distances see nothing.

Starts are tried on some of the rows, and begin at typical distances in the data. Where a function has hundreds of
bumps, both see only noise, and "there is nothing but noise" is an optimum too. What nearest rows have in common tells,
of all rows, and costs microseconds a row if targets are regressed with Gaussian noise by Vecchia's approximation
(`cavity.latent.neighbors`), whatever the likelihood: labels are as good as values for that. The regression begins with
all length scales shorter by 1, 2, 4, ..., down to the distance of neighboring rows. Its length scales are a start if
they make so many bumps that few rows would miss them, and targets more probable by what cannot be chance.
"""

from __future__ import annotations

import numpy as np

from cavity.gp import GP
from cavity.kernels import Kernel
from cavity.kernels.input_scales import input_scales
from cavity.kernels.radial_sum import RadialSum
from cavity.latent.neighbors import Neighbors
from cavity.learning.data_scale import without_far
from cavity.learning.objective import Objective, deadline_in
from cavity.learning.optimizer import maximize
from cavity.learning.race import SAME_PLACE, Start
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Binomial, CountLikelihood, Gaussian, Likelihood
from cavity.numerics.arrays import Array
from cavity.parameters.units import Unit
from cavity.runtime.deadlines import Deadline

LEAST_ROWS, MOST_ROWS = 300, 20_000
"""Rows that are asked: fewer are all seen by the search anyway; more say no more, and take longer."""

CLIQUE = 15
"""Neighbors of a row: enough to tell whether they have anything in common."""

LEAST_HALVINGS = 2
"""Halvings down to the distance of neighboring rows: if they are hardly closer than others, in many columns, they know
no more."""

STEPS = 15
"""Iterations from each length scale."""

CLEAR = 8.0
"""Nats that other length scales must gain. With one more for each column they are not chance."""

BUMP = 2.5
"""Length scales from one bump of a function to the next, about."""

MANY = 15.0
"""Bumps that searches which try starts on a hundred rows or two may miss."""


def neighbor_start(
    model: GP,
    rows: TrainingRows,
    places: Starts,
    limit: Deadline,
) -> Start | None:
    """The data-driven start with length scales that neighbors tell; None if they say nothing new.

    Parameters
    ----------
    model : GP
        Bound to the columns of the rows.
    places : Starts
        What the data say otherwise; `places.first` is what other length scales are compared with.
    """
    n, columns = rows.X.shape
    theta = places.first
    kernel = model.replace(theta).kernel
    if (
        model.inference.name == "exact"
        or n < LEAST_ROWS
        or model.likelihood.n_latent > 1
        or not isinstance(kernel, Kernel)
    ):
        return None
    lengths = _lengths(kernel)[model.layout.lead[model.layout.lead < kernel.flat.size]]
    halvings = int(np.log2(n) / columns)  # neighboring rows are n^(1/D) times as close as distant ones
    if not (lengths.any() and halvings >= LEAST_HALVINGS and RadialSum.of(kernel, columns) is not None):
        return None
    some = slice(None) if n <= MOST_ROWS else np.random.default_rng(0).choice(n, MOST_ROWS, replace=False)
    X, targets = rows.X[some], as_values(model.likelihood, rows.y)[some]
    weight = None if rows.weight is None else rows.weight[some]
    near = Neighbors(CLIQUE, scales=input_scales(kernel, X), follow=False)
    regression = GP(model.kernel, Gaussian(), "zero", "exact", near).bind(columns)
    starts = Starts.of(regression, X, targets, weight)
    goal = Objective(regression, X, targets, sample_weight=weight, deadline=deadline_in(limit.left))
    own = np.concatenate([lengths, np.zeros(len(starts.first) - len(lengths), bool)])
    begin = np.where(own, np.resize(theta, len(own)), starts.first)
    shorter = [begin - own * power * np.log(2.0) for power in range(halvings + 1)]
    runs = [maximize(goal, at, starts.box, starts.scale, "neighbors", STEPS) for at in shorter]
    best = max(runs, key=lambda run: run.value)
    if bumps(model.kernel.replace(best.theta[: len(lengths)]), X) < MANY:
        return None
    fixed = np.where(own[:, None], begin[:, None], starts.box)
    usual = maximize(goal, begin, fixed, starts.scale, "usual", STEPS)
    apart = np.max(np.abs(best.theta - begin)[own] / starts.scale[own])
    if not best.value > usual.value + CLEAR + columns or apart <= SAME_PLACE:
        return None
    found = theta.copy()
    found[: len(lengths)][lengths] = best.theta[own]
    return Start("neighbors", np.clip(found, places.box[:, 0], places.box[:, 1]))


def as_values(likelihood: Likelihood, y: Array) -> Array:
    """Targets (n,) as a regression may take them, around zero: logarithms of counts, outliers brought back."""
    values = np.asarray(likelihood.latent_targets(y), dtype=float)
    if isinstance(likelihood, CountLikelihood) and not isinstance(likelihood, Binomial):
        values = np.log(values + 0.5)
    values = without_far(values)[0]
    return np.asarray(values - values.mean())


def bumps(kernel: Kernel, X: Array) -> float:
    """About how many bumps a function has in the range of the rows."""
    scales = input_scales(kernel, X)
    return 1.0 if scales is None else float(np.prod(np.maximum(np.ptp(X, axis=0) / (BUMP * scales), 1.0)))


def _lengths(kernel: Kernel) -> Array:
    """Which flat values are length scales, on a logarithmic scale."""
    marks = [
        np.full(np.size(param.value), node.units[name] is Unit.LENGTH) for node, name, param in kernel._walk()
    ]
    return np.concatenate(marks) if marks else np.zeros(0, bool)
