"""Averages, integrals and uncertain inputs: golden values and closed forms against quadrature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from cavity import GP
from cavity.integrals import BoxMeasure, NormalMeasure, integrate, kernel_integrals
from cavity.kernels import SE, Blurred, BoxAverages, Invariant, Matern, Wiener, WithSlopes, slopes, values
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


def box_nodes(centre: float, width: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of an average over a box, in pieces of half a length scale."""
    x, w = np.polynomial.legendre.leggauss(20)
    pieces = max(1, int(np.ceil(2 * width / scale)))
    edges = np.linspace(centre - width / 2, centre + width / 2, pieces + 1)
    at = [(a + b) / 2 + (b - a) / 2 * x for a, b in pairwise(edges)]
    return np.concatenate(at), np.tile(w / 2 / pieces, pieces)


@pytest.mark.parametrize("width", [0.0, 1e-7, 1e-3, 0.4, 0.479, 0.481, 2.0, 25.0])
@pytest.mark.parametrize("other", [0.0, 1e-4, 0.3, 1.0, 7.0])
def test_box_averages_are_quadrature(width: float, other: float) -> None:
    """From widths far below the length scale, where closed forms lose digits, to far above it."""
    kernel = BoxAverages(0.8)
    for distance in (0.0, 0.3, 2.0, 6.0):
        (x, v), (y, w) = box_nodes(0.0, width, 0.8), box_nodes(distance, other, 0.8)
        expected = v @ SE(0.8)(x[:, None], y[:, None]) @ w
        found = kernel(np.array([[0.0, width]]), np.array([[distance, other]]))[0, 0]
        assert abs(found - expected) < 2e-14
    assert kernel.diag([[1.0, width]])[0] == pytest.approx(
        kernel([[1.0, width]], [[1.0, width]])[0, 0], abs=1e-15
    )


def test_golden_box_averages() -> None:
    """U(0, 1) of the reference: the average of a value with the box, and of the box with itself."""
    kernel = BoxAverages(0.3)
    nodes = np.array([[0.1, 0.0], [0.4, 0.0]])
    box = np.array([[0.5, 1.0]])
    np.testing.assert_allclose(kernel(nodes, box)[:, 0], [0.4731577419, 0.6662908585], atol=1e-9)
    assert abs(kernel.diag(box)[0] - 0.5720390512) < 1e-9


def test_values_and_averages_of_all_widths_in_one_fit() -> None:
    """Hourly means and single readings of a sine are predictions of both, with honest errors."""
    rng = np.random.default_rng(0)
    centre, width = rng.uniform(0, 6, 40), rng.choice([0.0, 0.5, 2.0], 40)
    half = np.maximum(width / 2, 1e-12)
    truth = np.sin(centre) * np.sin(half) / half  # the average of a sine over a box
    rows = np.column_stack([centre, width])
    learned = GP(1.0 * BoxAverages(1.0), Gaussian(1e-3)).learn(
        rows, truth + 0.03 * rng.standard_normal(40), rng=0
    )
    at = np.linspace(0.5, 5.5, 11)
    found = learned.posterior.predict_f(np.column_stack([at, np.zeros(11)]))
    assert np.sqrt(np.mean((found.mean - np.sin(at)) ** 2)) < 0.03
    wide = learned.posterior.predict_f(np.array([[3.0, 4.0]]))
    assert abs(wide.mean[0] - np.sin(3.0) * np.sin(2.0) / 2.0) < 3 * wide.sd[0] < 0.1
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        BoxAverages(1.0)([[0.0, -1.0]])
    with pytest.raises(ValueError, match="an even number of columns"):
        GP(BoxAverages(1.0)).condition([[0.0, 1.0, 2.0]], [0.0])


def test_integrals_from_averages_and_slopes() -> None:
    """A measure over the inputs of the function, whatever the rows observe; against sums of predictions."""
    x = np.linspace(-2, 2, 5)
    y = x**2
    boxes = np.column_stack([x, [0.0, 0.5, 0.0, 1.0, 0.2]])
    models = [
        GP(1.2 * BoxAverages(1.0) + 0.5, Gaussian(0.01)).condition(boxes, y),
        GP(Blurred(1.0), Gaussian(0.01)).condition(boxes, y),
        GP(Blurred(1.0, uncertain=True), Gaussian(0.01)).condition(boxes, y),
    ]
    for posterior in models:
        for measure in (BoxMeasure([-1.0], [2.0]), NormalMeasure([0.3], [0.7])):
            ((t, w),) = measure.rule()
            rows = np.column_stack([t, np.zeros(len(t))])
            found = posterior.integrate(measure)
            assert found.mean[0] == pytest.approx(w @ posterior.mean(rows), abs=1e-9)
            assert found.variance[0] == pytest.approx(w @ posterior.covariance(rows) @ w, rel=1e-6)
    sloped = np.vstack([values(x[:, None]), slopes(x[:, None], 0)])
    posterior = GP(WithSlopes(SE(1.0)), Gaussian(0.01)).condition(sloped, np.concatenate([y, 2 * x]))
    measure = BoxMeasure([-1.0], [2.0])
    ((t, w),) = measure.rule()
    found = posterior.integrate(measure)
    assert found.mean[0] == pytest.approx(w @ posterior.mean(values(t[:, None])), abs=1e-9)
    assert found.variance[0] == pytest.approx(w @ posterior.covariance(values(t[:, None])) @ w, rel=1e-6)
    with pytest.raises(ValueError, match="has 2 columns, and the model has 1"):
        posterior.integrate(BoxMeasure([0.0, 0.0], [1.0, 1.0]))


def test_integrals_say_where_they_are_overconfident() -> None:
    x = np.linspace(-1, 1, 9)
    for kernel, rows in ((SE(2.0), x[:, None]), (BoxAverages(2.0), np.column_stack([x, np.full(9, 0.1)]))):
        posterior = GP(kernel, Gaussian(1e-10)).condition(rows, x**2)
        with pytest.warns(UserWarning, match="smoothness that the kernel takes on trust"):
            posterior.integrate(BoxMeasure([-1.0], [1.0]))


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (NormalMeasure([0.0], [-1.0]), "positive sds"),
        (NormalMeasure([np.nan], [1.0]), "finite means"),
        (BoxMeasure([0.0], [np.nan]), "low < high"),
        (BoxMeasure([1.0], [0.0]), "low < high"),
    ],
)
def test_bad_measures_are_refused(measure: object, message: str) -> None:
    posterior = GP(SE(1.0), Gaussian(0.1)).condition([[0.0]], [1.0])
    with pytest.raises(ValueError, match=message):
        posterior.integrate(measure)
