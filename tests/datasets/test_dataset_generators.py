"""Synthetic data sets: they follow their recipe, and a seed fixes them."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import datasets
from cavity.datasets import synthetic

NAMES = datasets.names("synthetic")


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_fixes_the_set_and_another_seed_changes_it(name):
    one, again, other = (datasets.load(name, rng=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.y, again.y)
    assert not np.array_equal(one.X, other.X)
    assert one.name == name
    assert list(one.frame.columns[:-1])[: one.X.shape[1]] == list(one.feature_names)


@pytest.mark.parametrize("name", NAMES)
def test_load_is_the_generator(name):
    np.testing.assert_array_equal(datasets.load(name, rng=5).y, getattr(datasets, f"make_{name}")(rng=5).y)


def test_a_generator_continues_a_stream():
    rng = np.random.default_rng(0)
    assert datasets.make_sinc(rng=rng).y[0] != datasets.make_sinc(rng=rng).y[0]


def test_sinc_has_five_noisy_points_and_the_published_least_squares_error():
    errors = []
    for seed in range(200):
        d = datasets.make_sinc(rng=seed)
        noise = d.y - np.sinc(d.X[:, 0] / np.pi)
        assert d.extra["outlier"].sum() == 5
        assert np.abs(noise[~d.extra["outlier"]]).max() < 0.06
        line = np.polynomial.Polynomial.fit(d.X[:, 0], d.y, 1)
        errors.append(np.sqrt(np.mean((line(d.X_test[:, 0]) - d.y_test) ** 2)))
    # 0.39 in the report, 0.387 over 400 sets in the notes, sd 0.042 per set
    assert np.mean(errors) == pytest.approx(0.387, abs=4 * 0.042 / np.sqrt(200))


def test_friedman_replaces_outputs_by_unrelated_values():
    d = datasets.make_friedman(20_000, n_outliers=5_000, n_test=10, rng=0)
    bad = d.extra["outlier"]
    noise = d.y - synthetic.friedman_function(d.X)
    assert noise[~bad].mean() == pytest.approx(0, abs=4 / np.sqrt(15_000))
    assert noise[~bad].std() == pytest.approx(1, abs=4 / np.sqrt(2 * 15_000))
    assert d.y[bad].mean() == pytest.approx(15, abs=4 * 3 / np.sqrt(5_000))
    assert d.y[bad].std() == pytest.approx(3, abs=4 * 3 / np.sqrt(2 * 5_000))
    assert abs(np.corrcoef(d.y[bad], synthetic.friedman_function(d.X[bad]))[0, 1]) < 4 / np.sqrt(5_000)
    np.testing.assert_array_equal(d.y_test, synthetic.friedman_function(d.X_test))


def test_friedman_function_at_a_point():
    x = np.array([[0.5, 1.0, 0.0, 0.3, 0.2, 9.0]])
    assert synthetic.friedman_function(x)[0] == pytest.approx(10 + 5 + 3 + 1)


def test_two_arcs_are_mirror_images_between_flat_ends():
    d = datasets.make_two_arcs(noise_sd=0.0, rng=0)
    arc, x = d.extra["arc"], d.X[:, 0]
    np.testing.assert_array_equal(d.y[arc == 0], 0.0)
    assert np.abs(x[arc == 0]).min() > np.abs(x[arc != 0]).max()
    assert d.y[arc == 1].min() > 0 > d.y[arc == -1].max()
    assert (arc == 1).sum() == (arc == -1).sum()
    assert len(datasets.make_two_arcs(1, 1, rng=0).y) == 4


def test_step_is_a_step():
    d = datasets.make_step(noise_sd=0.0, rng=1)
    np.testing.assert_array_equal(np.sign(d.X[:, 0]), d.y)
    assert d.y.shape == (64,)


def test_the_process_draw_has_the_covariance_it_claims():
    draws = []
    for seed in range(300):
        d = datasets.make_book_1d(12, rng=seed, noise_sd=0.0)
        x, f = d.X[:, 0], d.extra["f"]
        np.testing.assert_array_equal(f, d.y)
        K = np.exp(-0.5 * np.subtract.outer(x, x) ** 2) + 1e-9 * np.eye(12)
        draws.append(f @ np.linalg.solve(K, f))
    # chi-square with 12 degrees of freedom
    assert np.mean(draws) == pytest.approx(12, abs=4 * np.sqrt(24 / 300))


def test_neal_has_one_outlier_in_twenty():
    d = datasets.make_neal(20_000, rng=0)
    bad = d.extra["outlier"]
    assert bad.mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 20_000))
    noise = d.y - synthetic.neal_function(d.X[:, 0])
    assert noise[bad].std() == pytest.approx(1, abs=4 / np.sqrt(2 * bad.sum()))
    assert noise[~bad].std() == pytest.approx(0.1, abs=0.4 / np.sqrt(2 * 19_000))


def test_clusters_have_the_books_sizes_and_true_probabilities():
    d = datasets.make_clusters_1d(rng=0)
    assert [(d.y == 1).sum(), (d.y == -1).sum()] == [30, 30]
    p, x = d.extra["probability"], d.X[:, 0]
    np.testing.assert_array_equal(p[x < -4] > 0.99, True)
    # by Bayes' rule with scipy's normal densities
    from scipy.stats import norm

    joint = [n * norm.pdf(x, c, 0.8) for c, n in ((-6, 20), (0, 30), (2, 10))]
    np.testing.assert_allclose(p, (joint[0] + joint[2]) / sum(joint), rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.make_sinc(0), "n must be an integer >= 1, got 0"),
        (lambda: datasets.make_sinc(4, n_outliers=5), "n_outliers must lie between 0 and n = 4, got 5"),
        (lambda: datasets.make_friedman(n_features=4), "n_features must be an integer >= 5, got 4"),
        (
            lambda: datasets.make_neal(outlier_probability=2),
            "outlier_probability must be between 0 and 1, got 2",
        ),
    ],
)
def test_impossible_requests_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_data_set_checks_its_shapes():
    with pytest.raises(ValueError, match=r"X has shape \(2, 1\), but there are 3 targets"):
        datasets.Dataset("bad", "regression", np.zeros((2, 1)), np.zeros(3), ("x",), "y", "", "", "")
