"""Thin-plate splines against published figures, SciPy's interpolator and the cubic smoothing spline."""

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator, make_smoothing_spline

from cavity import GP
from cavity.kernels import ThinPlate, parse
from cavity.kernels.thin_plate import green_constant
from cavity.likelihoods import Gaussian, StudentT
from cavity.means import Basis, Monomials

X = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.25], [0.2, 0.7]])
Y = np.array([0, 1, -1, 0.5, 0.8, -0.3])
NEW = np.array([[0.3, 0.4], [0.9, 0.9], [2, -1]])


@pytest.mark.parametrize(
    ("order", "dims", "theta"),
    [
        (1, 1, -1 / 2),
        (2, 1, 1 / 12),
        (3, 1, -1 / 240),
        (2, 2, 1 / (8 * np.pi)),
        (3, 2, -1 / (128 * np.pi)),
        (2, 3, -1 / (8 * np.pi)),
    ],
)
def test_constants_of_green(order, dims, theta):
    assert green_constant(order, dims) == pytest.approx(theta, rel=1e-14)


@pytest.mark.parametrize("nodes", [None, [[3.0, 1.0], [-2.0, 0.5], [0.3, 7.0]]])
def test_published_figures_whatever_the_nodes(nodes):
    kernel = ThinPlate.over(X) if nodes is None else ThinPlate(nodes)
    posterior = GP(4.0 * kernel, Gaussian(0.04), mean=Basis("linear")).condition(X, Y)
    assert posterior.log_evidence == pytest.approx(-1.4671891023, abs=1e-9)
    assert posterior.mean(NEW) == pytest.approx([0.2179877993, 0.4619436542, 2.7491508786], abs=1e-9)
    assert posterior.variance(NEW) == pytest.approx([0.0331013831, 0.0394721823, 1.9219715242], abs=1e-9)
    scipy = RBFInterpolator(X, Y, smoothing=0.01 * 8 * np.pi, kernel="thin_plate_spline")(NEW)
    assert posterior.mean(NEW) == pytest.approx(scipy, abs=1e-10)


def test_degrees_of_freedom():
    model = GP(4.0 * ThinPlate.over(X), Gaussian(0.04), mean=Basis("linear"))
    assert model.degrees_of_freedom(X, Y) == pytest.approx(4.7277063696, abs=1e-8)


def test_one_column_is_the_cubic_smoothing_spline():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 3, 12))
    y = np.sin(x) + 0.1 * rng.standard_normal(12)
    posterior = GP(2.0 * ThinPlate.over(x), Gaussian(0.02), mean=Basis("linear")).condition(x, y)
    inside = np.linspace(x[0], x[-1], 20)
    assert posterior.mean(inside) == pytest.approx(make_smoothing_spline(x, y, lam=0.01)(inside), abs=1e-9)


def test_three_columns_against_scipy():
    rng = np.random.default_rng(1)
    x, y = rng.uniform(size=(30, 3)), rng.standard_normal(30)
    posterior = GP(1.0 * ThinPlate.over(x), Gaussian(0.05), mean=Basis("linear")).condition(x, y)
    # in three columns SciPy's "linear" kernel is -r, whose factor is 8 pi times that of the Green's function
    scipy = RBFInterpolator(x, y, smoothing=0.05 * 8 * np.pi, kernel="linear", degree=1)
    new = rng.uniform(size=(5, 3))
    assert posterior.mean(new) == pytest.approx(scipy(new), abs=1e-9)


@pytest.mark.parametrize("dims", [2, 3, 4])
def test_third_order_leaves_all_quadratics_free(dims):
    rng = np.random.default_rng(dims)
    x, y, new = rng.uniform(size=(50, dims)), rng.standard_normal(50), rng.uniform(size=(5, dims))
    found = []
    for kernel in (ThinPlate.over(x, 3), ThinPlate.over(3.0 * x - 1.0, 3)):
        posterior = GP(1.0 * kernel, Gaussian(0.01), mean=Basis(Monomials(2))).condition(x, y)
        found.append([*posterior.mean(new), *posterior.variance(new), posterior.log_evidence])
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    if dims == 3:  # SciPy's cubic kernel is r^3
        scipy = RBFInterpolator(x, y, smoothing=0.01 / green_constant(3, 3), kernel="cubic", degree=2)
        assert found[0][:5] == pytest.approx(scipy(new), abs=1e-8)


@pytest.mark.parametrize(("order", "dims"), [(1, 1), (3, 1), (3, 2), (2, 3)])
def test_it_is_positive_definite(order, dims):
    x = np.random.default_rng(0).standard_normal((40, dims))
    values = np.linalg.eigvalsh(ThinPlate.over(x, order)(x))
    assert values[0] > -1e-10 * values[-1]


def test_robust_noise_survives_gross_errors():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(80, 2))
    f = np.sin(3 * x[:, 0]) + x[:, 1] ** 2
    y = f + 0.05 * rng.standard_normal(80)
    y[::20] += 4.0
    model = GP(20.0 * ThinPlate.over(x), StudentT(0.05, 3.0), mean=Basis("linear"))
    robust = model.condition(x, y).mean(x)
    lam = 0.05**2 / 20.0
    plain = RBFInterpolator(x, y, smoothing=8 * np.pi * lam, kernel="thin_plate_spline")(x)
    assert np.sqrt(np.mean((robust - f) ** 2)) < 0.5 * np.sqrt(np.mean((plain - f) ** 2))


def test_text_form_and_errors():
    kernel = ThinPlate.over(X)
    assert repr(parse(repr(kernel))) == repr(kernel)
    for bad, words in (
        (lambda: ThinPlate([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), "on a line"),
        (lambda: ThinPlate([[0.0, 0.0], [1.0, 1.0]]), "needs as many nodes"),
        (lambda: ThinPlate(np.eye(4), 2), "use order=3"),
    ):
        with pytest.raises(ValueError, match=words):
            bad()
