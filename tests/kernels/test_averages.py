"""Averages, integrals and uncertain inputs: golden values and closed forms against quadrature."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP
from cavity.integrals import BoxMeasure, NormalMeasure, integrate, kernel_integrals
from cavity.kernels import SE, Blurred, Invariant, Matern, Wiener
from cavity.likelihoods import Gaussian, KnownNoise, Noiseless

X, S = np.array([0.0, 0.7, 1.5, 2.2]), np.array([0.0, 0.1, 0.3, 0.05])
Y = np.array([0.1, 0.8, 0.6, -0.2])
ROWS = np.column_stack([X, np.sqrt(S)])


def test_golden_values_of_uncertain_inputs() -> None:
    kernel = Blurred(1.0, uncertain=True)
    K = kernel(ROWS)
    np.testing.assert_allclose(
        [K[0, 1], K[0, 2], K[1, 2]], [0.7630876623, 0.3691446348, 0.6724634309], atol=1e-9
    )
    np.testing.assert_allclose(np.diag(K), 1.0)
    assert abs(GP(kernel, Gaussian(0.01)).condition(ROWS, Y).log_evidence + 3.5493537759) < 1e-8


def test_golden_values_of_the_slope_correction() -> None:
    plain = GP(SE(1.0), Gaussian(0.01)).condition(X[:, None], Y)
    slope = plain.mean_gradient(X[:, None])[:, 0]
    np.testing.assert_allclose(slope, [1.0443706703, 0.5812146636, -0.9783467734, -0.9647072810], atol=1e-9)
    noise = KnownNoise(0.01 + slope**2 * S)
    assert abs(GP(SE(1.0), noise).condition(X[:, None], Y).log_evidence + 3.6263174884) < 1e-8


def test_averages_are_averages() -> None:
    nodes, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    kernel, average = SE(0.8), Blurred(0.8)
    one, other = np.array([0.3, 0.5]), np.array([1.1, 0.7])
    expected = w @ kernel((one[0] + one[1] * nodes)[:, None], (other[0] + other[1] * nodes)[:, None]) @ w
    assert abs(average(one[None], other[None])[0, 0] - expected) < 1e-10
    assert abs(average.diag(one[None])[0] - average(one[None])[0, 0]) < 1e-14
    with pytest.raises(ValueError, match="must not be negative"):
        average(np.array([[0.0, -1.0]]))


def test_golden_quadrature_under_a_normal_measure() -> None:
    x = np.arange(-2.0, 3.0)[:, None]
    posterior = GP(SE(1.0), Noiseless()).condition(x, x[:, 0] ** 2)
    found = integrate(posterior, NormalMeasure([0.0], [1.0]))
    assert abs(found.mean[0] - 0.9439080210) < 1e-9
    assert abs(found.variance[0] - 2.42023104e-5) < 1e-11


def test_golden_quadrature_on_a_box() -> None:
    x = np.array([[0.1], [0.4], [0.6], [0.9]])
    z, zz = kernel_integrals(SE(0.3), BoxMeasure([0.0], [1.0]), x)
    np.testing.assert_allclose(z[:2], [0.4731577419, 0.6662908585], atol=1e-9)
    assert abs(zz - 0.5720390512) < 1e-9
    found = integrate(GP(SE(0.3), Noiseless()).condition(x, np.exp(x[:, 0])), BoxMeasure([0.0], [1.0]))
    assert abs(found.mean[0] - 1.7269076096) < 1e-8
    assert abs(found.sd[0] - 0.0146815715) < 1e-9


def test_the_wiener_process_is_the_trapezium_rule() -> None:
    x = np.array([[0.25], [0.5], [0.75], [1.0]])
    z, zz = kernel_integrals(Wiener(), BoxMeasure([0.0], [1.0]), x)
    K = Wiener()(x)
    np.testing.assert_allclose(np.linalg.solve(K, z), [0.25, 0.25, 0.25, 0.125], atol=1e-12)
    assert abs(zz - z @ np.linalg.solve(K, z) - 0.0052083333) < 1e-9


def test_closed_forms_are_quadrature() -> None:
    x = np.array([[0.1, -0.4], [1.0, 0.3]])
    for measure in (NormalMeasure([0.2, -0.1], [0.5, 0.8]), BoxMeasure([-1.0, 0.0], [1.0, 0.7])):
        z, zz = kernel_integrals(1.3 * SE([0.7, 1.1]) + 0.4, measure, x)
        rules = measure.rule()
        T = np.column_stack([g.ravel() for g in np.meshgrid(*[r[0] for r in rules], indexing="ij")])
        w = np.multiply.outer(rules[0][1], rules[1][1]).ravel()
        kernel = 1.3 * SE([0.7, 1.1]) + 0.4
        np.testing.assert_allclose(z, kernel(x, T) @ w, rtol=1e-9)
        assert zz == pytest.approx(w @ (kernel(T) @ w), rel=1e-9)


def test_golden_values_of_an_invariant_kernel() -> None:
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    kernel = Invariant(SE(1.0), [np.linalg.matrix_power(turn, k) for k in range(4)])
    a, b = np.array([[1.0, 0.0]]), np.array([[0.3, 0.8]])
    assert abs(kernel(a, b)[0, 0] - 0.5016352325) < 1e-9
    assert abs(kernel(a)[0, 0] - 0.4677735414) < 1e-9
    posterior = GP(kernel, Gaussian(0.01)).condition(b, [1.0])
    np.testing.assert_allclose(posterior.mean(b @ turn.T), posterior.mean(b))


def test_other_kernels_means_and_a_warning() -> None:
    x = np.linspace(-3, 3, 25)[:, None]
    posterior = GP(2.0 * Matern(1.5, nu=2.5), Gaussian(1e-6), mean="constant").condition(x, np.cos(x[:, 0]))
    found = integrate(posterior, NormalMeasure([0.0], [0.7]))
    assert abs(found.mean[0] - np.exp(-0.245)) < 3 * found.sd[0] + 1e-4
    sure = GP(SE(2.0), Noiseless()).condition(np.linspace(-2, 2, 12)[:, None], np.ones(12))
    with pytest.warns(UserWarning, match="takes on trust"):
        integrate(sure, BoxMeasure([-2.0], [2.0]))
    with pytest.raises(ValueError, match="has 2 columns, and the model has 1"):
        integrate(sure, BoxMeasure([0.0, 0.0], [1.0, 1.0]))
