"""Sines and cosines of Gaussian variables: closed forms, Monte Carlo, differences, limits."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.control import TrigonometricMap, angle_map, squash_map

NAMES = ("mean", "covariance", "cross", "gain")


def distribution(D, seed=1, size=0.6):
    rng = np.random.default_rng(seed)
    A = size * rng.standard_normal((D, D))
    return rng.standard_normal(D), A @ A.T


MAPS = {
    "one angle": angle_map(3, [1]),
    "two angles": angle_map(3, [2, 0]),
    "linear and sine": TrigonometricMap(np.eye(2), [[0.0, 1.0]], [[0.0], [-4.0j]]),
    "third order": squash_map(3, [0, 2], [2.0, 0.5]),
}


def test_one_angle_is_the_textbook_formula():
    m, v = 0.7, 0.3
    result, _ = angle_map(1, [0]).forward([m], [[v]])
    e = np.exp(-v / 2)
    s, c = e * np.sin(m), e * np.cos(m)
    np.testing.assert_allclose(result.mean, [s, c], rtol=1e-14)
    var_s = 0.5 * (1 - np.exp(-2 * v) * np.cos(2 * m)) - s * s
    var_c = 0.5 * (1 + np.exp(-2 * v) * np.cos(2 * m)) - c * c
    cov = 0.5 * np.exp(-2 * v) * np.sin(2 * m) - s * c
    np.testing.assert_allclose(result.covariance, [[var_s, cov], [cov, var_c]], rtol=1e-12)
    np.testing.assert_allclose(result.cross, [[v * c, -v * s]], rtol=1e-14)


@pytest.mark.parametrize("name", list(MAPS))
def test_moments_agree_with_a_million_samples(name):
    made = MAPS[name]
    m, S = distribution(made.D)
    result, _ = made.forward(m, S)
    x = np.random.default_rng(4).multivariate_normal(m, S, size=1_000_000)
    y = made(x)
    count = len(y)
    d, e = y - y.mean(0), x - m
    pairs = (("covariance", d, d), ("cross", e, d))
    np.testing.assert_array_less(np.abs(result.mean - y.mean(0)), 4 * y.std(0) / np.sqrt(count))
    for key, a, b in pairs:
        value = a.T @ b / count
        error = np.sqrt(((a * a).T @ (b * b) / count - value**2) / count)
        np.testing.assert_array_less(np.abs(getattr(result, key) - value), 4 * error, err_msg=key)


@pytest.mark.parametrize("name", list(MAPS))
def test_the_pull_agrees_with_differences(name):
    made = MAPS[name]
    D, h = made.D, 1e-5
    m, S = distribution(D)
    result, cache = made.forward(m, S)
    rng = np.random.default_rng(5)
    for used in range(len(NAMES)):
        weights = [rng.standard_normal(getattr(result, n).shape) * (k == used) for k, n in enumerate(NAMES)]

        def value(a, B, w=weights):
            r, _ = made.forward(a, B, check=False)
            return sum(np.sum(wk * getattr(r, n)) for n, wk in zip(NAMES, w))

        d_m, d_S = made.pull(cache, *weights)
        for i in range(D):
            step = np.eye(D)[i] * h
            np.testing.assert_allclose(d_m[i], (value(m + step, S) - value(m - step, S)) / (2 * h), atol=1e-8)
            for j in range(D):
                step = np.zeros((D, D))
                step[i, j] += 0.5 * h
                step[j, i] += 0.5 * h
                want = (value(m, S + step) - value(m, S - step)) / (2 * h)
                np.testing.assert_allclose(d_S[i, j], want, atol=1e-8)


def test_a_batch_is_its_members():
    made = MAPS["third order"]
    inputs = [distribution(3, seed=s) for s in range(3)]
    m, S = np.stack([a for a, _ in inputs]), np.stack([b for _, b in inputs])
    result, cache = made.forward(m, S)
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(getattr(result, name).shape) for name in NAMES]
    d_m, d_S = made.pull(cache, *weights)
    for k in range(3):
        one, c = made.forward(m[k], S[k])
        for name in NAMES:
            np.testing.assert_allclose(getattr(result, name)[k], getattr(one, name), rtol=1e-13, atol=1e-15)
        a, B = made.pull(c, *(w[k] for w in weights))
        np.testing.assert_allclose(d_m[k], a, rtol=1e-12)
        np.testing.assert_allclose(d_S[k], B, rtol=1e-12)


def test_small_and_large_variances_keep_their_digits():
    made, m = angle_map(1, [0]), 0.4
    tiny, _ = made.forward([m], [[1e-14]])
    np.testing.assert_allclose(
        np.diagonal(tiny.covariance), 1e-14 * np.array([np.cos(m), np.sin(m)]) ** 2, rtol=1e-9
    )
    none, _ = made.forward([m], [[0.0]])
    np.testing.assert_array_equal(none.covariance, 0.0)
    np.testing.assert_allclose(none.mean, made([m]))
    np.testing.assert_allclose(none.gain.T, made.jacobian([m]))
    huge, cache = made.forward([m], [[1e6]])  # uniform on the circle
    np.testing.assert_allclose(huge.covariance, np.diag([0.5, 0.5]), atol=1e-12)
    assert np.isfinite(
        np.concatenate([a.ravel() for a in made.pull(cache, np.ones(2), np.ones((2, 2)))])
    ).all()


def test_squashed_actions_stay_within_their_bounds():
    u = np.linspace(-6, 6, 4001)
    values = squash_map(1, [0], 3.0)(u[:, None])
    assert np.abs(values).max() <= 3.0 + 1e-12
    assert np.abs(values).max() > 2.999


def test_bad_arguments_are_refused():
    for angles in ([3], [0, 0], [-1]):
        with pytest.raises(ValueError, match="angles must be different indices"):
            angle_map(3, angles)
    with pytest.raises(ValueError, match="actions must be"):
        squash_map(2, [2], 1.0)
    with pytest.raises(ValueError, match="limit must be positive"):
        squash_map(2, [1], 0.0)
    with pytest.raises(ValueError, match="do not fit together"):
        TrigonometricMap(np.eye(2), np.ones((1, 2)), np.ones((1, 1)))
    with pytest.raises(ValueError, match="positive semi-definite"):
        angle_map(1, [0]).forward([0.0], [[-1.0]])
