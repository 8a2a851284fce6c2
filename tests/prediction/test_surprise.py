"""How far out a value is: the same from both sides, and a value is not beyond itself."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, poisson

from cavity.likelihoods import OrdinalProbit, Poisson
from cavity.prediction import CategoricalPrediction, GaussianPrediction


def test_of_a_normal_density():
    prediction = GaussianPrediction(np.zeros(3), np.ones(3))
    y = np.array([0.0, 1.96, -3.0])
    np.testing.assert_allclose(prediction.surprise(y), 1 - 2 * norm.sf(np.abs(y)), atol=1e-12)


def test_the_highest_of_ordered_categories_is_no_surprise_if_it_is_likely():
    likely = CategoricalPrediction([[0.1, 0.2, 0.7], [0.1, 0.2, 0.7], [0.0005, 0.9, 0.0995]], [1.0, 2.0, 3.0])
    y = np.array([3.0, 1.0, 1.0])
    np.testing.assert_allclose(likely.surprise(y, discrete=True), [0.0, 0.8, 0.999], atol=1e-12)
    grades = OrdinalProbit([-1.0, 1.0])
    assert grades.outlier_probability(np.array([2.0]), np.array([4.0]), np.array([0.1]))[0] == 0.0
    assert grades.outlier_probability(np.array([0.0]), np.array([4.0]), np.array([0.1]))[0] > 0.999


def test_of_counts():
    y = np.array([0.0, 1.0, 9.0])
    found = Poisson().outlier_probability(y, np.log(np.full(3, 1.5)), np.full(3, 1e-12))
    tails = np.minimum(poisson.cdf(y, 1.5), poisson.sf(y - 1, 1.5))
    np.testing.assert_allclose(found, np.clip(1 - 2 * tails, 0, 1), atol=1e-6)
