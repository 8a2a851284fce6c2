"""Coverage of intervals: of whole numbers neither more nor less than they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cavity.likelihoods import Poisson
from cavity.prediction import CategoricalPrediction, GaussianPrediction
from cavity.tables.scores import inside


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("rate", [0.03, 0.7, 4.2])
def test_a_fair_interval_of_counts_holds_its_level_on_average(level, rate):
    counts = np.arange(60)
    p = stats.poisson.pmf(counts, rate)
    prediction = CategoricalPrediction(np.tile(p / p.sum(), (60, 1)), counts)
    lower, upper = prediction.interval(level)
    assert np.sum(p * ((counts >= lower) & (counts <= upper))) > level + 0.005  # what a plain count gives
    assert np.sum(p * inside(prediction, counts.astype(float), level)) == pytest.approx(level, abs=1e-12)


def test_counts_under_a_latent_function_are_counted_alike():
    rng = np.random.default_rng(0)
    f, y = np.log(3.0) * np.ones(5), np.array([0.0, 1, 3, 6, 20])
    fair = inside(Poisson().predictive(f, np.zeros(5)), y, 0.9)
    low, high = stats.poisson.cdf(y - 1, 3.0), stats.poisson.cdf(y, 3.0)
    drawn = rng.uniform(low, high, (100_000, 5))
    np.testing.assert_allclose(fair, np.mean((drawn > 0.05) & (drawn < 0.95), axis=0), atol=0.006)


def test_numbers_on_a_line_are_inside_or_not():
    prediction = GaussianPrediction(np.zeros(4), np.ones(4))
    lower, upper = prediction.interval(0.9)
    y = np.array([lower[0], 0.0, upper[2], 1.1 * upper[3]])
    np.testing.assert_array_equal(inside(prediction, y, 0.9), [1.0, 1.0, 1.0, 0.0])
