"""The one-shot knowledge gradient: the notes' values in the limit of many nodes, bounds, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from cavity import GP
from cavity.design import History, Options, Space, Study, suggest
from cavity.design.acquisition import OneShotKnowledge, knowledge_gradient, slice_means
from cavity.kernels import SE
from cavity.latent.moments import moments_of
from cavity.likelihoods import Gaussian
from tests.design import golden

NEW = ~golden.SEEN
KG = np.array(
    [0.0628402616, 0.0789930683, 0, 0.0952021489, 0.1044060372, 0, 0.0939441221, 0.0742221091, 0, 0.028430523,
     0.0151154032]
)  # fmt: skip


def test_means_of_slices():
    z = norm.ppf((np.arange(800_000) + 0.5) / 800_000).reshape(8, -1).mean(axis=1)
    np.testing.assert_allclose(slice_means(8), z, atol=1e-4)
    assert slice_means(7).sum() == pytest.approx(0.0, abs=1e-12)


def test_many_nodes_give_the_values_of_the_notes_and_few_stay_below():
    grid = golden.GRID[NEW]
    values = {}
    for nodes in (4, 8, 4000):
        goal = OneShotKnowledge(golden.state(), slice_means(nodes), golden.BEST)
        values[nodes] = goal.best_of(grid, golden.GRID)[0]
    np.testing.assert_allclose(values[4000], KG[NEW], atol=1e-6)
    assert (values[4] <= values[8] + 1e-12).all()
    assert (values[8] <= KG[NEW]).all()
    assert (values[8] > 0.6 * KG[NEW]).all()  # the least where a tail of Z is all that helps
    assert values[8].max() > 0.95 * KG.max()


def test_gradients_in_the_point_and_in_inner_points():
    rng = np.random.default_rng(0)
    X = rng.random((8, 2))
    moments = moments_of(GP(1.3 * SE([0.4, 0.6]), Gaussian(0.05)).condition(X, np.sin(5 * X[:, 0])).process)
    goal = OneShotKnowledge(moments, slice_means(3), -0.7, 0.05)
    x, inner = rng.random((2, 2)), rng.random((2, 3, 2))
    value, to_outer, to_inner = goal(x, inner)
    for i in range(2):
        step = 1e-6 * np.eye(2)[i]
        by = (goal(x + step, inner)[0] - goal(x - step, inner)[0]) / 2e-6
        np.testing.assert_allclose(to_outer[:, i], by, rtol=1e-6, atol=1e-8)
        for s in range(3):
            up, down = inner.copy(), inner.copy()
            up[:, s] += step
            down[:, s] -= step
            by = (goal(x, up)[0] - goal(x, down)[0]) / 2e-6
            np.testing.assert_allclose(to_inner[:, s, i], by, rtol=1e-6, atol=1e-8)
    # the value with inner points from a set is the best that they can give
    chosen, which = goal.best_of(x, inner[0])
    assert chosen[0] >= value[0]
    np.testing.assert_allclose(goal(x, inner[0][which])[0], chosen, rtol=1e-10)


def test_the_suggested_point_has_nearly_the_largest_knowledge_gradient():
    space = Space({"x": (0.0, 1.0)})
    history = History()
    for x in (0.05, 0.3, 0.45, 0.62, 0.8, 0.97):
        history = history.with_outcome({"x": x}, np.sin(9 * x) + x)
    options = Options(acquisition="kg", noise="none")
    point = suggest(history, space, options)[0].x["x"]
    moments = Study(history, space, options).fit.moments
    grid = np.linspace(0, 1, 201)[:, None]
    exact = knowledge_gradient(moments, grid, grid, 1e-6)
    mine = knowledge_gradient(moments, np.array([[point]]), grid, 1e-6)
    assert mine[0] > 0.97 * exact.max()
