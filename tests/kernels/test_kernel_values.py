"""Values against truth from outside: closed forms, quadrature, multiprecision, Monte Carlo, scikit-learn."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from cavity.kernels import (
    SE,
    Additive,
    Categorical,
    Cosine,
    DampedOscillator,
    GammaExponential,
    Gibbs,
    IntegratedWiener,
    Linear,
    Matern,
    NeuralNetwork,
    Normalized,
    Periodic,
    PiecewisePolynomial,
    Polynomial,
    RationalQuadratic,
    Rescaled,
    Seasonal,
    SpectralMixture,
    Warped,
    White,
    Wiener,
)
from cavity.kernels.bessel import log_matern, log_matern_slope, order_derivative
from cavity.parameters.param import Param, fixed

RNG = np.random.default_rng(20)
X3, Z3 = RNG.standard_normal((9, 3)), RNG.standard_normal((6, 3))
x1, z1 = RNG.uniform(0, 2, 8)[:, None], RNG.uniform(0, 2, 7)[:, None]


def distance(X: np.ndarray, Z: np.ndarray, M: np.ndarray | None = None) -> np.ndarray:
    d = X[:, None, :] - Z[None, :, :]
    M = np.eye(X.shape[1]) if M is None else M
    return np.sqrt(np.einsum("ijc,cd,ijd->ij", d, M, d))


# --- scikit-learn -------------------------------------------------------------------------------------------


def sklearn_pairs():
    from sklearn.gaussian_process import kernels as sk

    scales = [0.7, 1.5, 2.2]
    return {
        "SE": (SE(scales), sk.RBF(scales)),
        "Matern12": (Matern(scales, nu=0.5), sk.Matern(scales, nu=0.5)),
        "Matern32": (Matern(scales, nu=1.5), sk.Matern(scales, nu=1.5)),
        "Matern52": (Matern(1.4, nu=2.5), sk.Matern(1.4, nu=2.5)),
        "Matern any": (Matern(scales, nu=1.9), sk.Matern(scales, nu=1.9)),
        "RQ": (RationalQuadratic(1.3, 0.8), sk.RationalQuadratic(1.3, 0.8)),
        "Linear": (Linear(1.0, bias=2.25), sk.DotProduct(1.5)),
        "Polynomial": (Polynomial(3, 1.0, bias=2.25), sk.DotProduct(1.5) ** 3),
        "Constant": (SE(1.0) + 0.3, sk.RBF(1.0) + sk.ConstantKernel(0.3)),
        "Sum": (2.0 * SE(1.0) * Linear(1.0, 1.0), 2.0 * sk.RBF(1.0) * sk.DotProduct(1.0)),
    }


@pytest.mark.parametrize("name", sklearn_pairs())
def test_agrees_with_scikit_learn(name: str) -> None:
    ours, theirs = sklearn_pairs()[name]
    np.testing.assert_allclose(ours(X3), theirs(X3), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours(X3, Z3), theirs(X3, Z3), rtol=1e-12, atol=1e-14)


def test_periodic_agrees_with_scikit_learn() -> None:
    from sklearn.gaussian_process.kernels import ExpSineSquared

    np.testing.assert_allclose(Periodic(SE(1.3), 0.7)(x1, z1), ExpSineSquared(1.3, 0.7)(x1, z1), rtol=1e-12)


def test_white_noise_agrees_with_scikit_learn() -> None:
    from sklearn.gaussian_process.kernels import WhiteKernel

    X = np.vstack([X3, X3[:2]])
    np.testing.assert_array_equal(White(0.3)(X), WhiteKernel(0.3)(X))
    np.testing.assert_array_equal(White(0.3)(X, X.copy()), WhiteKernel(0.3)(X, X.copy()))


# --- stationary ---------------------------------------------------------------------------------------------


def test_factor_analysis_metric() -> None:
    loadings, scales = RNG.standard_normal((3, 2)), np.array([0.8, 1.5, 2.0])
    M = np.diag(scales**-2.0) + loadings @ loadings.T
    r = distance(X3, Z3, M)
    np.testing.assert_allclose(SE(scales, loadings=loadings)(X3, Z3), np.exp(-(r**2) / 2), rtol=1e-12)
    np.testing.assert_allclose(Matern(scales, nu=0.5, loadings=loadings)(X3, Z3), np.exp(-r), rtol=1e-12)


def exact_log_matern(nu: float, t: float) -> float:
    with mpmath.workdps(40):
        nu_, t_ = mpmath.mpf(nu), mpmath.mpf(t)
        return float(mpmath.log(2 ** (1 - nu_) / mpmath.gamma(nu_) * t_**nu_ * mpmath.besselk(nu_, t_)))


ORDERS = [0.05, 0.3, 0.5, 1.0, 1.3, 2.0, 3.7, 12.0, 39.9, 40.0, 57.3, 300.0]


@pytest.mark.parametrize("nu", ORDERS)
def test_matern_function_against_multiprecision(nu: float) -> None:
    t = np.array([1e-9, 1e-4, 0.03, 0.7, 2.0, 9.0, 40.0, 300.0])
    truth = np.array([exact_log_matern(nu, v) for v in t])
    np.testing.assert_allclose(log_matern(nu, t), truth, rtol=2e-13, atol=1e-13)
    assert log_matern(nu, np.zeros(1))[0] == 0.0


@pytest.mark.parametrize("nu", [0.2, 0.7, 1.0, 1.6, 5.0, 41.5, 80.0])
def test_matern_slope_against_multiprecision(nu: float) -> None:
    for t in (1e-3, 0.4, 3.0, 25.0):
        with mpmath.workdps(40):
            nu_ = mpmath.mpf(nu)

            def value(r2, nu_=nu_):
                s = mpmath.sqrt(2 * nu_ * r2)
                return 2 ** (1 - nu_) / mpmath.gamma(nu_) * s**nu_ * mpmath.besselk(nu_, s)

            truth = float(-mpmath.diff(value, mpmath.mpf(t) ** 2 / (2 * nu_)))
        np.testing.assert_allclose(np.exp(log_matern_slope(nu, np.array([t])))[0], truth, rtol=1e-11)


@pytest.mark.parametrize("nu", [0.3, 1.0, 1.5, 6.0, 38.0, 70.0])
def test_matern_order_derivative_against_multiprecision(nu: float) -> None:
    for r in (0.01, 0.5, 2.0, 6.0):
        with mpmath.workdps(40):

            def value(order, r=r):
                t = mpmath.sqrt(2 * order) * r
                return mpmath.log(
                    2 ** (1 - order) / mpmath.gamma(order) * t**order * mpmath.besselk(order, t)
                )

            truth = float(mpmath.diff(value, mpmath.mpf(nu)))
        np.testing.assert_allclose(order_derivative(nu, np.array([r]))[0], truth, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.48, 3.0, 39.0, 41.0])
@pytest.mark.parametrize("far", [1e8, 2e9, 1e18, 1e80])
def test_matern_of_any_order_forgets_what_is_far_away(nu: float, far: float) -> None:
    """As in nanoseconds; numerical libraries give up on Bessel functions of such arguments."""
    K, pullback = Matern(1.0, nu=Param(nu)).forward([[0.0], [far]])
    np.testing.assert_array_equal(K, np.eye(2))
    d_theta, d_inputs, _ = pullback(np.ones((2, 2)), inputs=True)
    assert not d_theta.any()
    assert not d_inputs.any()


def test_general_order_meets_the_closed_forms() -> None:
    for nu in (0.5, 1.5, 2.5):
        near = Matern(1.2, nu=nu * (1 + 1e-13))
        np.testing.assert_allclose(near(X3, Z3), Matern(1.2, nu=nu)(X3, Z3), rtol=1e-11)


def test_matern_of_large_order_is_the_squared_exponential() -> None:
    truth = SE(1.2)(X3)
    errors = [np.abs(Matern(1.2, nu=nu)(X3) - truth).max() for nu in (1e3, 1e5, 1e9)]
    assert errors[0] < 1e-3
    assert errors[1] < 1e-5
    assert errors[2] < 1e-9


def test_rational_quadratic_of_large_alpha_is_the_squared_exponential() -> None:
    truth = SE(1.2)(X3)
    assert np.abs(RationalQuadratic(1.2, 1e8)(X3) - truth).max() < 1e-7
    np.testing.assert_allclose(RationalQuadratic(1.2, 1e300)(X3), truth, rtol=1e-13)


def test_rational_quadratic_derivative_keeps_its_digits_at_large_alpha() -> None:
    alpha, x = 1e6, np.array([[0.3]])
    k = RationalQuadratic(1.0, alpha)
    _, pullback = k.forward(x, np.zeros((1, 1)))
    with mpmath.workdps(40):
        t = mpmath.mpf(0.3) ** 2
        truth = float(
            mpmath.diff(lambda u: (1 + t / (2 * mpmath.exp(u))) ** (-mpmath.exp(u)), mpmath.log(alpha))
        )
    np.testing.assert_allclose(pullback(np.ones((1, 1)))[1], truth, rtol=1e-10)


def test_gamma_exponential_spans_exponential_to_squared_exponential() -> None:
    r = distance(X3, Z3)
    np.testing.assert_allclose(GammaExponential(1.0, 1.0)(X3, Z3), np.exp(-r), rtol=1e-13)
    np.testing.assert_allclose(GammaExponential(1.0, 0.4)(X3, Z3), np.exp(-(r**0.4)), rtol=1e-13)
    np.testing.assert_allclose(GammaExponential(1.0, fixed(2.0))(X3, Z3), np.exp(-(r**2)), rtol=1e-12)


@pytest.mark.parametrize("q", range(4))
@pytest.mark.parametrize("D", [1, 2, 3, 5])
def test_piecewise_polynomial_formula_and_support(q: int, D: int) -> None:
    X, Z = RNG.uniform(0, 1, (9, D)), RNG.uniform(0, 1, (9, D))
    r = distance(X, Z) / 0.8
    j = D // 2 + q + 1
    polynomial = [
        1 + 0 * r,
        (j + 1) * r + 1,
        ((j**2 + 4 * j + 3) * r**2 + (3 * j + 6) * r + 3) / 3,
        ((j**3 + 9 * j**2 + 23 * j + 15) * r**3 + (6 * j**2 + 36 * j + 45) * r**2 + (15 * j + 45) * r + 15)
        / 15,
    ][q]
    truth = np.maximum(1 - r, 0) ** (j + q) * polynomial
    K = PiecewisePolynomial(0.8, q)(X, Z)
    np.testing.assert_allclose(K, truth, rtol=1e-11, atol=1e-15)
    assert (K[r >= 1] == 0).all()


def test_one_norm_matern_would_not_be_positive_definite_but_ours_is() -> None:
    grid = np.array(list(itertools.product(np.linspace(0, 3, 7), repeat=2)))
    t = np.sqrt(3) * np.abs(grid[:, None] - grid[None]).sum(axis=2)
    assert np.linalg.eigvalsh((1 + t) * np.exp(-t))[0] < -1e-3
    assert np.linalg.eigvalsh(Matern(1.0, nu=1.5)(grid))[0] > 0


# --- frequencies --------------------------------------------------------------------------------------------


def test_periodic_formula_and_far_from_the_origin() -> None:
    scale, p = 1.3, 0.37
    d = x1 - z1.T
    np.testing.assert_allclose(
        Periodic(SE(scale), p)(x1, z1), np.exp(-2 * np.sin(np.pi * d / p) ** 2 / scale**2), rtol=1e-12
    )
    year = 2.0**11  # an exact number of periods away: not one digit may be lost
    x = np.arange(8)[:, None] / 16
    np.testing.assert_array_equal(Periodic(SE(scale), 1.0)(x), Periodic(SE(scale), 1.0)(x + year))


def test_periodic_with_a_length_scale_per_column() -> None:
    scales, periods = np.array([0.9, 1.4, 2.0]), np.array([1.7, 2.2, 3.1])
    sines = np.sin(np.pi * (X3[:, None] - Z3[None]) / periods) ** 2 / scales**2
    np.testing.assert_allclose(
        Periodic(SE(scales), periods)(X3, Z3), np.exp(-2 * sines.sum(axis=2)), rtol=1e-12
    )


def test_cosine_and_spectral_mixture_formulas() -> None:
    tau = X3[:, None] - Z3[None]
    periods = np.array([1.1, 2.0, 0.7])
    np.testing.assert_allclose(
        Cosine(periods)(X3, Z3), np.cos(2 * np.pi * (tau / periods).sum(axis=2)), atol=1e-13
    )
    w, m, s = np.array([0.4, 1.2]), RNG.standard_normal((2, 3)), RNG.uniform(0.05, 0.3, (2, 3))
    truth = sum(
        w[q] * np.exp(-2 * np.pi**2 * ((tau * s[q]) ** 2).sum(axis=2)) * np.cos(2 * np.pi * tau @ m[q])
        for q in range(2)
    )
    np.testing.assert_allclose(SpectralMixture(w, m, s)(X3, Z3), truth, atol=1e-13)


def test_spectral_mixture_at_frequency_zero_is_a_squared_exponential() -> None:
    k = SpectralMixture([1.7], [0.0], [0.2])
    np.testing.assert_allclose(k(x1, z1), 1.7 * SE(1 / (2 * np.pi * 0.2))(x1, z1), rtol=1e-12)


# --- not stationary -----------------------------------------------------------------------------------------


def test_neural_network_against_the_expectation_over_random_units() -> None:
    """E[erf(u.x) erf(u.x')] over Gaussian weights u, by product quadrature (book eq. 4.28)."""
    from scipy.special import erf

    variance, bias = 0.8, 0.5
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    u0, u1 = np.meshgrid(np.sqrt(bias) * nodes, np.sqrt(variance) * nodes)
    w = np.outer(weights, weights) / (2 * np.pi)
    x, z = np.array([[0.3], [-1.2]]), np.array([[0.9], [2.0]])
    truth = [[np.sum(w * erf(u0 + u1 * a) * erf(u0 + u1 * b)) for b in z[:, 0]] for a in x[:, 0]]
    np.testing.assert_allclose(NeuralNetwork(variance, bias)(x, z), truth, atol=1e-8)


def test_neural_network_next_to_the_end_of_the_arcsine() -> None:
    x, z = np.array([[3.0]]), np.array([[3.0 + 1e-7]])
    with mpmath.workdps(50):
        a, b, v = mpmath.mpf(3.0), mpmath.mpf(float(z[0, 0])), mpmath.mpf(1e6)
        u = [1 + v * p * q for p, q in ((a, b), (a, a), (b, b))]
        truth = float(2 / mpmath.pi * mpmath.asin(2 * u[0] / mpmath.sqrt((1 + 2 * u[1]) * (1 + 2 * u[2]))))
    # the condition of the problem: round-off of 1e-16 relative to m / (2 u) = 3e-4
    assert abs(NeuralNetwork(1e6, 1.0)(x, z)[0, 0] - truth) < 1e-12


def test_gibbs_formula_and_constant_length_scale() -> None:
    np.testing.assert_allclose(Gibbs([0.5, 1.0, 2.0])(X3, Z3), SE([0.5, 1.0, 2.0])(X3, Z3), rtol=1e-12)
    scale, slope = np.array([0.5, 1.0, 2.0]), np.array([0.3, -0.5, 0.1])
    truth = np.ones((9, 6))
    for i, j in np.ndindex(9, 6):
        for d in range(3):
            a, b = (scale[d] * np.exp(slope[d] * v[d]) for v in (X3[i], Z3[j]))
            s = a**2 + b**2
            truth[i, j] *= np.sqrt(2 * a * b / s) * np.exp(-((X3[i, d] - Z3[j, d]) ** 2) / s)
    np.testing.assert_allclose(Gibbs(scale, slope)(X3, Z3), truth, rtol=1e-12)


def test_wiener_and_spline_against_their_integrals() -> None:
    """k(x, x') is the integral of (x - u)_+^m (x' - u)_+^m / m!^2, m = 0 and 1 (book section 6.3.1)."""
    for kernel, m in ((Wiener(), 0), (IntegratedWiener(), 1)):
        K = kernel(x1, z1)
        for i, j in np.ndindex(K.shape):
            a, b = x1[i, 0], z1[j, 0]
            truth = integrate.quad(lambda u, a=a, b=b, m=m: ((a - u) * (b - u)) ** m, 0, min(a, b))[0]
            assert K[i, j] == pytest.approx(truth, rel=1e-12)
    np.testing.assert_allclose(
        IntegratedWiener(start=5.0)(x1 + 5, z1 + 5), IntegratedWiener()(x1, z1), rtol=1e-12
    )


def test_spline_kernel_reproduces_the_smoothing_spline() -> None:
    """With a vague linear mean, the mean is the cubic smoothing spline with penalty noise / variance."""
    from scipy.interpolate import make_smoothing_spline

    x = np.linspace(0.05, 0.95, 12)
    y = np.sin(6 * x) + 0.1 * np.random.default_rng(0).standard_normal(12)
    noise, variance = 0.01, 50.0
    K = (variance * IntegratedWiener())(x) + noise * np.eye(12)
    H = np.vstack([np.ones(12), x])
    solve = np.linalg.solve
    beta = solve(H @ solve(K, H.T), H @ solve(K, y))
    grid = np.linspace(0.1, 0.9, 9)
    cross = (variance * IntegratedWiener())(grid, x)
    mean = beta[0] + beta[1] * grid + cross @ solve(K, y - H.T @ beta)
    spline = make_smoothing_spline(x, y, lam=noise / variance)
    np.testing.assert_allclose(mean, spline(grid), atol=1e-9)


def test_categorical_tables() -> None:
    codes = np.array([0, 2, 1, 2.0])
    np.testing.assert_array_equal(
        Categorical(3, -0.4)(codes),
        np.where(codes[:, None] == codes, 1.0, -0.4),
    )
    W, v = RNG.standard_normal((3, 2)), np.array([0.1, 0.2, 0.3])
    B = W @ W.T + np.diag(v)
    i = codes.astype(int)
    np.testing.assert_allclose(Categorical(3, loadings=W, variances=v)(codes), B[np.ix_(i, i)], rtol=1e-13)
    named = Categorical([7, 3, 40], loadings=W, variances=v)
    np.testing.assert_allclose(named([7, 40, 3, 40]), B[np.ix_(i, i)], rtol=1e-13)
    np.testing.assert_allclose(named.table, B, rtol=1e-13)
    np.testing.assert_allclose(np.linalg.eigvalsh(Categorical(4, -1 / 3 + 1e-9).table)[0], 0, atol=1e-8)


# --- algebra ------------------------------------------------------------------------------------------------


def test_composition_is_dense_arithmetic() -> None:
    a, b, c = SE(1.1), Matern([1.0, 2.0, 0.5], nu=2.5), Linear(0.4, 0.3)
    A, B, C = a(X3, Z3), b(X3, Z3), c(X3, Z3)
    np.testing.assert_allclose((a + 2.0 * b * c)(X3, Z3), A + 2 * B * C, rtol=1e-13)
    np.testing.assert_allclose(((a + c) ** 3 * b)(X3, Z3), (A + C) ** 3 * B, rtol=1e-12)
    np.testing.assert_allclose((0.5 + a * 3)(X3, Z3), 0.5 + 3 * A, rtol=1e-13)
    np.testing.assert_allclose(b.on([2, 0, 1])(X3, Z3), b(X3[:, [2, 0, 1]], Z3[:, [2, 0, 1]]), rtol=1e-13)
    np.testing.assert_allclose((np.float64(2) * a)(X3), 2 * a(X3), rtol=1e-15)


def test_warping_rescaling_and_normalizing_are_dense_arithmetic() -> None:
    X, Z = np.abs(X3) + 0.1, np.abs(Z3) + 0.1
    np.testing.assert_allclose(Warped(SE(0.5), "log")(X, Z), SE(0.5)(np.log(X), np.log(Z)), rtol=1e-13)
    scale = Rescaled(SE(0.5), lambda X: X[:, 0] - 0.2)
    np.testing.assert_allclose(
        scale(X, Z), np.outer(X[:, 0] - 0.2, Z[:, 0] - 0.2) * SE(0.5)(X, Z), rtol=1e-13
    )
    k = Linear(0.4, 0.3) + SE(1.0)
    truth = k(X, Z) / np.sqrt(np.outer(k.diag(X), k.diag(Z)))
    np.testing.assert_allclose(Normalized(k)(X, Z), truth, rtol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_additive_is_the_sum_over_all_sets_of_columns(order: int) -> None:
    X, Z = RNG.standard_normal((6, 4)), RNG.standard_normal((5, 4))
    kernels = [SE(0.7), 1.5 * Matern(1.2), Linear(0.5, 0.1), Periodic(SE(1.0), 2.0)]
    variances = np.array([0.5, 1.5, 0.3, 2.0])[:order]
    each = [k(X[:, [d]], Z[:, [d]]) for d, k in enumerate(kernels)]
    truth = np.zeros((6, 5))
    for q in range(1, order + 1):
        for chosen in itertools.combinations(range(4), q):
            truth += variances[q - 1] * np.prod([each[d] for d in chosen], axis=0)
    np.testing.assert_allclose(Additive(kernels, order, variances)(X, Z), truth, rtol=1e-12)


# --- accuracy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("D", [1, 2, 3, 8])
@pytest.mark.parametrize(
    "kernel", [SE, lambda s: Matern(s, nu=0.5), lambda s: Matern(s, nu=1.5), RationalQuadratic]
)
def test_years_with_a_length_scale_of_weeks(D: int, kernel) -> None:
    """Inputs of size 1e3 and a length scale of 0.1: computed from exact differences as if near the origin."""
    near = np.random.default_rng(0).integers(0, 512, (40, D)) / 512.0
    near[7] = near[3]
    far = near + 2048.0  # exactly representable, so that distances are the same
    np.testing.assert_allclose(kernel(0.1)(far), kernel(0.1)(near), rtol=2e-11, atol=1e-14)
    G = np.random.default_rng(1).standard_normal((40, 40))
    d_far, d_near = (kernel(0.1).forward(x)[1](G) for x in (far, near))
    np.testing.assert_allclose(d_far, d_near, rtol=1e-10, atol=1e-11)


def test_one_far_point_does_not_blur_the_others() -> None:
    X = np.random.default_rng(0).standard_normal((50, 4))
    truth = SE(1.0)(X)
    X = np.vstack([X, [[1e6] * 4]])
    np.testing.assert_allclose(SE(1.0)(X)[:50, :50], truth, rtol=1e-9, atol=1e-12)


def test_near_duplicates_of_a_rough_kernel() -> None:
    """exp(-r) at r = 1e-9: the kink needs the root of a distance that cancellation would have swallowed."""
    X = np.random.default_rng(0).standard_normal((30, 5)) * 10
    Z = X + 1e-9
    K = Matern(1.0, nu=0.5)(X, Z)
    r = np.linalg.norm(X - Z, axis=1)
    np.testing.assert_allclose(1 - np.diag(K), r, rtol=1e-6)
    G = np.eye(30)
    _, pullback = Matern(1.0, nu=0.5).forward(X, Z)
    d_theta, dX, _ = pullback(G, inputs=True)
    np.testing.assert_allclose(d_theta, [r.sum()], rtol=1e-6)
    np.testing.assert_allclose(dX, (Z - X) / r[:, None], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize(
    "kernel",
    [SE, Matern, lambda s: Matern(s, nu=Param(0.8)), lambda s: GammaExponential(s, 1.3), RationalQuadratic,
     PiecewisePolynomial, Gibbs, Cosine, lambda s: Linear(s**-2.0), lambda s: NeuralNetwork(s**-2.0)],
)  # fmt: skip
def test_tiny_and_huge_units(kernel, scale: float) -> None:
    """Inputs and length scales in other units: the same matrix and the same derivatives."""
    X = np.vstack([X3, X3[:2]])
    K, pullback = kernel(1.0).forward(X)
    other, pullback_other = kernel(scale).forward(scale * X)
    np.testing.assert_allclose(other, K, rtol=1e-9, atol=1e-13)
    G = np.random.default_rng(0).standard_normal(K.shape)
    ours, truth = pullback_other(G), pullback(G)
    keep = (
        slice(0, 1) if isinstance(kernel(1.0), Gibbs) else slice(None)
    )  # a slope is not relative to the units
    np.testing.assert_allclose(ours[keep], truth[keep], rtol=1e-7)


def test_huge_and_tiny_ratios_stay_finite() -> None:
    for kernel in (SE, Matern, lambda s: Matern(s, nu=0.7), lambda s: Matern(s, nu=60.0), RationalQuadratic,
                   lambda s: GammaExponential(s, 0.4), PiecewisePolynomial, Gibbs):  # fmt: skip
        for scale in (1e-12, 1e12):
            K, pullback = kernel(scale).forward(X3)
            d_theta, dX, _ = pullback(np.ones_like(K), inputs=True)
            assert np.isfinite(K).all()
            assert np.isfinite(d_theta).all()
            assert np.isfinite(dX).all()
            assert ((K >= 0) & (K <= 1 + 1e-15)).all()


# --- random shapes ------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 30), m=st.integers(1, 30), D=st.integers(1, 6), seed=st.integers(0, 10**6),
    log_scale=st.floats(-3, 3), shift=st.floats(-1e3, 1e3),
)  # fmt: skip
def test_any_shape_and_scale(n: int, m: int, D: int, seed: int, log_scale: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((n, D)) + shift, rng.standard_normal((m, D)) + shift
    scale = np.exp(log_scale) * rng.uniform(0.5, 2, D)
    r = distance(X, Z, np.diag(scale**-2.0))
    for kernel, truth in (
        (SE(scale), np.exp(-(r**2) / 2)),
        (Matern(scale, nu=1.5), (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)),
        (RationalQuadratic(scale, 0.5), (1 + r**2) ** -0.5),
    ):
        np.testing.assert_allclose(kernel(X, Z), truth, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(kernel(X), kernel(X).T)


# --- time series --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengthscale", [0.4, 1.0, 3.0])
def test_a_season_of_many_harmonics_is_a_periodic_kernel_without_its_mean(lengthscale):
    whole = Periodic(SE(lengthscale), period=1.7)
    mean = integrate.quad(lambda x: whole([[0.0]], [[x]])[0, 0], 0.0, 1.7, epsabs=1e-13)[0] / 1.7
    expected = (whole(x1, z1) - mean) / (1.0 - mean)
    np.testing.assert_allclose(Seasonal(1.7, lengthscale, harmonics=25)(x1, z1), expected, atol=1e-12)


@pytest.mark.parametrize("quality", [0.3, 0.4999, 0.7, 6.0])
def test_a_damped_oscillator_has_the_spectrum_of_its_equation(quality):
    """S(w) proportional to 1 / ((w^2 - w0^2)^2 + (w0 w / q)^2); the Fourier integral is real and even."""
    kernel, w0 = DampedOscillator(4.0, quality), np.pi / 2

    def density(w):
        return 1.0 / ((w * w - w0 * w0) ** 2 + (w0 * w / quality) ** 2)

    def transform(lag):
        if lag == 0.0:
            return integrate.quad(density, 0, np.inf, epsabs=1e-13, limit=500)[0]
        return integrate.quad(density, 0, np.inf, weight="cos", wvar=lag, limit=500, limlst=500)[0]

    lags = np.array([0.01, 0.7, 2.0, 5.3])
    found = kernel([[0.0]], lags[:, None])[0]
    np.testing.assert_allclose(found, [transform(lag) / transform(0.0) for lag in lags], atol=1e-7)


def test_a_critically_damped_oscillator_is_a_matern_process():
    period = 2.0 * np.pi / np.sqrt(3.0)
    expected = Matern(1.0, nu=1.5)(x1, z1)
    for quality in (0.5, 0.5 * (1 + 1e-9), 0.5 * (1 - 1e-9)):
        np.testing.assert_allclose(DampedOscillator(period, quality)(x1, z1), expected, atol=1e-8)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_an_integrated_wiener_process_is_an_integral_of_responses(order):
    def covariance(x, y):
        response = lambda z: ((x - z) * (y - z)) ** order / float(mpmath.factorial(order)) ** 2  # noqa: E731
        return integrate.quad(response, 0.0, min(x, y))[0]

    expected = [[covariance(x, y) for y in z1[:, 0]] for x in x1[:, 0]]
    np.testing.assert_allclose(IntegratedWiener(order=order)(x1, z1), expected, rtol=1e-10)
