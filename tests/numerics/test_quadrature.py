"""Adaptive log-domain panels on integrals with known values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from cavity.numerics.quadrature import (
    adaptive_rule,
    chunks,
    ladder,
    partial_integrals,
    scatter_logsumexp,
    trapezoid_nodes,
    widen,
)


def test_many_normals_of_all_widths_far_from_the_starting_edges():
    center = np.array([0.0, 3.0, -1e4, 0.3, 1e6])
    sd = np.array([1.0, 1e-6, 1e-2, 1e5, 1.0])

    def log_f(t, i):
        return -0.5 * ((t - center[i]) / sd[i]) ** 2

    edges = np.tile(np.array([-1.0, 0.0, 1.0, 7.0])[:, None], 5)
    low, high = widen(log_f, edges.min(axis=0), edges.max(axis=0))
    rule = adaptive_rule(log_f, np.concatenate([edges, low[None], high[None]]))
    assert rule.resolved.all()
    np.testing.assert_allclose(rule.log_integral(), 0.5 * np.log(2 * np.pi) + np.log(sd), rtol=1e-11)
    w, peak = rule.density()
    np.testing.assert_allclose(rule.sum(w), 1.0, rtol=1e-14)
    assert (np.abs(peak - center) < 2 * sd).all()
    mean = rule.sum(w * (rule.nodes - peak[rule.index]))
    d = rule.nodes - (peak + mean)[rule.index]
    np.testing.assert_allclose(rule.sum(w * d**2), sd**2, rtol=1e-8)
    np.testing.assert_allclose(rule.sum(w * d**4), 3 * sd**4, rtol=1e-8)


def test_kinks_jumps_and_huge_exponents():
    # exp(-|t|/s) 1(t < 1) times exp(-1e6): in logs nothing underflows
    s = np.array([0.3, 1e-5])

    def log_f(t, i):
        return np.where(t < 1, -np.abs(t) / s[i] - 1e6, -np.inf)

    edges = np.tile(np.array([-50.0, 0.0, 50.0])[:, None], 2)
    rule = adaptive_rule(log_f, edges)
    np.testing.assert_allclose(
        rule.log_integral() + 1e6, np.log(s * (2 - np.exp(-1 / s))), rtol=1e-9, atol=2e-10
    )


def test_signed_integrands_and_floors():
    def log_f(t, i):
        with np.errstate(divide="ignore"):
            return np.log(np.abs(t)) - 0.5 * t * t

    edges = np.array([[-9.0], [0.5], [9.0]])
    rule = adaptive_rule(log_f, edges, signs=lambda t, i: np.sign(t))
    values = np.exp(rule.log_weights + rule.log_values) * np.sign(rule.nodes)
    np.testing.assert_allclose(rule.sum(values), 0.0, atol=1e-12)
    np.testing.assert_allclose(rule.sum(values * rule.nodes), np.sqrt(2 * np.pi), rtol=1e-10)
    nothing = adaptive_rule(log_f, edges, floor=np.array([10.0]))
    assert nothing.nodes.shape[1] == 0
    assert np.isneginf(nothing.log_integral()).all()


def test_noise_stops_instead_of_splitting_for_ever():
    rng = np.random.default_rng(0)
    rule = adaptive_rule(lambda t, i: rng.standard_normal(t.shape), np.array([[0.0], [1.0]]))
    assert not rule.resolved.any()
    assert rule.nodes.shape[1] < 2000


def test_scattered_logsumexp():
    out = scatter_logsumexp(np.array([1000.0, 1000.0, -3.0]), np.array([0, 0, 2]), 3)
    np.testing.assert_allclose(out[[0, 2]], [1000 + np.log(2), -3.0])
    assert np.isneginf(out[1])


def test_partial_integrals_are_exact_for_polynomials():
    x, _ = np.polynomial.legendre.leggauss(16)
    values = (x**15 - 2 * x**4 + 1)[:, None] * np.ones(3)
    at = np.array([-1.0, 0.2, 1.0])
    truth = (at**16 - 1) / 16 - 2 * (at**5 + 1) / 5 + at + 1
    np.testing.assert_allclose(partial_integrals(values, at), truth, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("a", [0.5, 3.0])
def test_trapezoid_converges_geometrically(a):
    # the gamma function as an integral over log u
    x, h = trapezoid_nodes(np.array([-80.0 / a]), np.array([np.log(60.0)]), 700)
    np.testing.assert_allclose(np.log(h * np.exp(a * x - np.exp(x)).sum(axis=0)), gammaln(a), rtol=1e-12)


def test_chunks_cover_everything_once():
    pieces = chunks(1000, 300, budget=30000)
    assert [p.stop - p.start for p in pieces] == [100] * 10
    assert np.array_equal(np.concatenate([np.arange(1000)[p] for p in pieces]), np.arange(1000))
    assert chunks(3, 10**9) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    np.testing.assert_array_equal(ladder(np.zeros(1), np.ones(1), np.array([2.0]))[:, 0], [0.0, -2.0, 2.0])


def test_a_peak_too_narrow_for_the_rounds_is_flagged(monkeypatch):
    monkeypatch.setattr("cavity.numerics.quadrature.MAX_ROUNDS", 3)
    rule = adaptive_rule(lambda t, i: -0.5 * (t / 1e-6) ** 2, np.array([[-1.0], [0.3], [1.0]]))
    assert not rule.resolved.any()
    assert np.isfinite(rule.log_integral()).all()
