"""Averages along inputs, their shapes, and pairs that act together."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.measures.effects import Shape, average_along, interaction, turning
from cavity.measures.relevance import partial_dependence


def test_averages_are_those_of_a_loop():
    X = np.random.default_rng(0).normal(size=(7, 3))
    values = np.array([[0.1, 2.0], [-1.0, 0.5]])

    def mean(Z):
        return Z[:, 0] * Z[:, 1] + np.sin(Z[:, 2])

    found = average_along(mean, X, [0, 2], values)
    for value, average in zip(values, found):
        rows = [mean(np.array([[value[0], x[1], value[1]]]))[0] for x in X]
        assert average == pytest.approx(np.mean(rows))


@pytest.mark.parametrize(
    ("function", "shape", "place"),
    [
        (lambda x: x + 0.02 * np.sin(20 * x), Shape.RISES, None),
        (lambda x: np.exp(-3 * x), Shape.FALLS, None),
        (lambda x: -((x - 0.3) ** 2), Shape.PEAK, 0.3),
        (lambda x: np.abs(x - 0.6), Shape.DIP, 0.6),
        (lambda x: np.cos(15 * x), Shape.VARIES, None),
        (lambda x: 5.0 + 0.0 * x, Shape.FLAT, None),
    ],
)
def test_shapes(function, shape, place):
    grid = np.linspace(0, 1, 41)
    found = turning(grid, function(grid))
    assert found.shape is shape
    if place is not None:
        assert (found.highest if shape is Shape.PEAK else found.lowest) == pytest.approx(place, abs=0.02)


def test_interaction_of_a_product_and_of_a_sum():
    X = np.random.default_rng(1).uniform(-1, 1, (400, 3))
    product = interaction(lambda Z: Z[:, 0] * Z[:, 1], X, (0, 1))
    assert product.share == pytest.approx(1.0, abs=0.25)  # the grid is not the data, and has the same spread
    np.testing.assert_allclose(product.average, np.multiply.outer(*product.grids), atol=1e-12)
    assert interaction(lambda Z: Z[:, 0] + np.sin(Z[:, 1]), X, (0, 1)).share == pytest.approx(0.0, abs=1e-20)
    assert interaction(lambda Z: Z[:, 0] * Z[:, 1], X, (0, 2)).share < 0.01


def test_columns_of_one_input_move_together():
    class Process:
        def mean(self, X):
            return X @ [1.0, 10.0, 100.0]

        def covariance(self, X):
            return np.full((len(X), len(X)), 4.0)

    X = np.zeros((5, 3))
    found = partial_dependence(Process(), X, [1, 2], np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert found.mean.tolist() == [10.0, 100.0]
    assert found.sd.tolist() == [2.0, 2.0]
