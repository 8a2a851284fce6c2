"""Exact inference: a peer, the book's identities, brute-force refits, and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import make_smoothing_spline
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from cavity.gp import GP
from cavity.inference.base import UnsupportedPairError
from cavity.inference.exact import Exact
from cavity.kernels import (
    SE,
    IntegratedWiener,
    Linear,
    Matern,
    Periodic,
    RationalQuadratic,
    White,
    Wiener,
)
from cavity.likelihoods import Gaussian, KnownNoise, Laplace
from cavity.means.basis import Basis
from cavity.means.functions import Constant, FunctionMean, Polynomial, Zero
from cavity.means.functions import Linear as LinearMean
from cavity.numerics.cholesky import NotPositiveDefiniteError
from cavity.parameters.param import Param, fixed

RNG = np.random.default_rng(0)
N = 25
X1 = np.sort(RNG.uniform(0, 5, (N, 1)), axis=0)
X2 = RNG.uniform(-2, 2, (N, 2))
Y = np.sin(X1[:, 0]) + 0.3 * RNG.standard_normal(N)
TEST1 = np.linspace(-1, 6, 11)[:, None]
TEST2 = RNG.uniform(-3, 3, (11, 2))


# --- scikit-learn: evidence, gradient, mean and covariance to 1e-8 ------------------------------------------

PEERS = {
    "se": (1.4 * SE(0.9), sk.ConstantKernel(1.4) * sk.RBF(0.9), X1),
    "se-ard": (1.4 * SE([0.9, 2.0]), sk.ConstantKernel(1.4) * sk.RBF([0.9, 2.0]), X2),
    "matern-1/2": (0.7 * Matern(1.2, nu=0.5), sk.ConstantKernel(0.7) * sk.Matern(1.2, nu=0.5), X1),
    "matern-3/2": (
        0.7 * Matern([1.2, 0.4], nu=1.5),
        sk.ConstantKernel(0.7) * sk.Matern([1.2, 0.4], nu=1.5),
        X2,
    ),
    "matern-5/2": (0.7 * Matern(1.2, nu=2.5), sk.ConstantKernel(0.7) * sk.Matern(1.2, nu=2.5), X2),
    "rational quadratic": (
        0.7 * RationalQuadratic(1.2, alpha=0.6),
        sk.ConstantKernel(0.7) * sk.RationalQuadratic(1.2, alpha=0.6),
        X1,
    ),
    "periodic": (
        0.7 * Periodic(SE(1.2), period=2.1),
        sk.ConstantKernel(0.7) * sk.ExpSineSquared(1.2, periodicity=2.1),
        X1,
    ),
    "sum and product": (
        1.4 * SE(0.9) + 0.5 * SE(3.0) * Periodic(SE(1.0), period=1.5) + 0.3 * Matern(0.5, nu=1.5),
        sk.ConstantKernel(1.4) * sk.RBF(0.9)
        + sk.ConstantKernel(0.5) * sk.RBF(3.0) * sk.ExpSineSquared(1.0, 1.5)
        + sk.ConstantKernel(0.3) * sk.Matern(0.5, nu=1.5),
        X1,
    ),
}


def same_order(ours: GP, theirs) -> list[int]:
    """Positions in our theta of the peer's hyperparameters, matched by value."""
    left = list(range(len(ours.theta)))
    order = []
    for value in theirs.kernel_.theta:
        best = min(left, key=lambda i: abs(ours.theta[i] - value))
        assert ours.theta[best] == pytest.approx(value, abs=1e-12)
        left.remove(best)
        order.append(best)
    return order


@pytest.mark.parametrize("name", PEERS)
def test_scikit_learn_agrees(name):
    kernel, peer, X = PEERS[name]
    noise = 0.13
    model = GP(kernel, Gaussian(noise))
    theirs = GaussianProcessRegressor(peer + sk.WhiteKernel(noise), alpha=0.0, optimizer=None).fit(X, Y)
    value, gradient = model.evidence(X, Y)
    expected, expected_gradient = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    assert value == pytest.approx(expected, abs=1e-8)
    order = same_order(model, theirs)
    np.testing.assert_allclose(gradient[order], expected_gradient, rtol=1e-8, atol=1e-8)
    posterior = model.condition(X, Y)
    assert posterior.log_evidence == pytest.approx(expected, abs=1e-8)
    points = TEST1 if X.shape[1] == 1 else TEST2
    mean, cov = theirs.predict(points, return_cov=True)
    np.testing.assert_allclose(posterior.mean(points), mean, atol=1e-8)
    np.testing.assert_allclose(posterior.covariance(points) + noise * np.eye(len(points)), cov, atol=1e-8)
    np.testing.assert_allclose(posterior.variance(points) + noise, np.diag(cov), atol=1e-8)
    prediction = posterior.predict_y(points)
    np.testing.assert_allclose(prediction.variance, np.diag(cov), atol=1e-8)


# --- the book's formulas ------------------------------------------------------------------------------------


def test_evidence_is_the_normal_density_of_the_data():
    model = GP(1.4 * SE(0.9), Gaussian(0.2), mean=Constant(0.3))
    truth = multivariate_normal(np.full(N, 0.3), 1.4 * SE(0.9)(X1) + 0.2 * np.eye(N)).logpdf(Y)
    assert model.evidence(X1, Y)[0] == pytest.approx(truth, rel=1e-12)


def test_weight_space_and_function_space_agree():
    """Bayesian linear regression (book eq. 2.9) is the process with a linear kernel (2.11, 2.12)."""
    s, bias, var = 0.4, 1.5, np.array([0.7, 2.0])
    P = np.column_stack([np.ones(N), X2])
    Sp = np.diag([bias, *var])
    A = P.T @ P / s + np.linalg.inv(Sp)
    T = np.column_stack([np.ones(len(TEST2)), TEST2])
    posterior = GP(Linear(var, bias=bias), Gaussian(s)).condition(X2, Y)
    np.testing.assert_allclose(posterior.mean(TEST2), T @ np.linalg.solve(A, P.T @ Y) / s, atol=1e-10)
    np.testing.assert_allclose(posterior.covariance(TEST2), T @ np.linalg.solve(A, T.T), atol=1e-10)


def basis_cases():
    rng = np.random.default_rng(5)
    M = rng.standard_normal((3, 3))
    return {
        "one variance": (Basis("linear", 0.3, 2.0), 0.3 * np.ones(3), 2.0 * np.eye(3)),
        "variances": (
            Basis("linear", [1.0, 0.0, -1.0], [1.0, 2.0, 3.0]),
            [1.0, 0.0, -1.0],
            np.diag([1.0, 2, 3]),
        ),
        "matrix": (Basis("linear", 0.0, M @ M.T + np.eye(3)), np.zeros(3), M @ M.T + np.eye(3)),
    }


@pytest.mark.parametrize("name", basis_cases())
def test_integrated_weights_are_a_degenerate_kernel(name):
    """Equation 2.40 (a kernel h'Bh) and 2.41 (weights integrated out) are the same process."""
    basis, b, B = basis_cases()[name]
    kernel, s = 1.2 * SE(0.8), 0.15
    H, T = np.column_stack([np.ones(N), X2]), np.column_stack([np.ones(len(TEST2)), TEST2])
    A = kernel(X2) + H @ B @ H.T + s * np.eye(N)
    posterior = GP(kernel, Gaussian(s), mean=basis).condition(X2, Y)
    assert posterior.log_evidence == pytest.approx(multivariate_normal(H @ b, A).logpdf(Y), abs=1e-10)
    cross = kernel(X2, TEST2) + H @ B @ T.T
    mean = T @ b + cross.T @ np.linalg.solve(A, Y - H @ b)
    cov = kernel(TEST2) + T @ B @ T.T - cross.T @ np.linalg.solve(A, cross)
    np.testing.assert_allclose(posterior.mean(TEST2), mean, atol=1e-10)
    np.testing.assert_allclose(posterior.covariance(TEST2), cov, atol=1e-10)
    np.testing.assert_allclose(posterior.variance(TEST2), np.diag(cov), atol=1e-10)
    weights = posterior.basis
    precision = np.linalg.inv(B) + H.T @ np.linalg.solve(kernel(X2) + s * np.eye(N), H)
    np.testing.assert_allclose(weights.covariance, np.linalg.inv(precision), atol=1e-11)
    np.testing.assert_allclose(weights.sd**2, np.diag(np.linalg.inv(precision)), atol=1e-11)
    gls = np.linalg.solve(
        precision, np.linalg.solve(B, b) + H.T @ np.linalg.solve(kernel(X2) + s * np.eye(N), Y)
    )
    np.testing.assert_allclose(weights.mean, gls, atol=1e-10)


def test_vague_weights_are_the_limit_of_wide_ones():
    kernel, s, v = 1.2 * SE(0.8), 0.15, 1e6
    vague = GP(kernel, Gaussian(s), mean=Basis("linear")).condition(X2, Y)
    wide = GP(kernel, Gaussian(s), mean=Basis("linear", prior_covariance=v)).condition(X2, Y)
    np.testing.assert_allclose(vague.mean(TEST2), wide.mean(TEST2), atol=1e-5)
    np.testing.assert_allclose(vague.covariance(TEST2), wide.covariance(TEST2), atol=1e-5)
    # eq. 2.45 leaves out -log|B|/2 - (m/2) log 2 pi
    constant = 0.5 * 3 * np.log(v) + 1.5 * np.log(2 * np.pi)
    assert vague.log_evidence == pytest.approx(wide.log_evidence + constant, abs=1e-4)


def test_vague_evidence_is_the_density_of_the_contrasts():
    """Equation 2.45 plus log|H'H|/2 is the density of the data projected away from the basis functions."""
    kernel, s = 1.2 * SE(0.8), 0.15
    H = np.column_stack([np.ones(N), X2])
    Q, _ = np.linalg.qr(H, mode="complete")
    contrasts = Q[:, 3:]
    A = kernel(X2) + s * np.eye(N)
    density = multivariate_normal(np.zeros(N - 3), contrasts.T @ A @ contrasts).logpdf(contrasts.T @ Y)
    value, _ = GP(kernel, Gaussian(s), mean=Basis("linear")).evidence(X2, Y)
    assert value + 0.5 * np.linalg.slogdet(H.T @ H)[1] == pytest.approx(density, abs=1e-10)


def test_basis_functions_beside_a_mean_function():
    """The offset is subtracted, the weights are fitted to the rest."""
    kernel, s = 1.2 * SE(0.8), 0.15
    offset = FunctionMean(lambda Z: np.sin(3 * Z[:, 0]))
    both = GP(kernel, Gaussian(s), mean=Basis("linear") + offset).condition(X2, Y)
    plain = GP(kernel, Gaussian(s), mean=Basis("linear")).condition(X2, Y - np.sin(3 * X2[:, 0]))
    np.testing.assert_allclose(both.mean(TEST2), plain.mean(TEST2) + np.sin(3 * TEST2[:, 0]), atol=1e-10)
    assert both.log_evidence == pytest.approx(plain.log_evidence, abs=1e-10)


@pytest.mark.parametrize(
    ("functions", "shift", "tolerance"), [("linear", 1e8, 1e-6), ("quadratic", 1e4, 1e-6)]
)
def test_vague_basis_functions_far_from_the_origin(functions, shift, tolerance):
    """The span of polynomials does not depend on the origin, and vague weights know no more than the span."""
    x = np.round(np.linspace(0.0, 4.0, 40) * 2**10) / 2**10  # exact after the shift
    y = 2.0 * x + np.sin(3.0 * x)
    model = GP(1.0 * SE(1.0), Gaussian(0.01), Basis(functions))
    here, far = model.condition(x, y), model.condition(x + shift, y)
    points = np.array([-1.0, 0.5, 2.25, 5.0])
    np.testing.assert_allclose(far.mean(points + shift), here.mean(points), atol=tolerance)
    np.testing.assert_allclose(far.variance(points + shift), here.variance(points), rtol=tolerance)
    assert model.evidence(x + shift, y)[1] == pytest.approx(model.evidence(x, y)[1], rel=1e-4)


def test_a_finite_prior_of_weights_far_from_the_origin():
    """The weights' covariance is part of that of the data: checked against it in 50 digits."""
    import mpmath

    x, y, variance, noise = np.array([0.0, 0.5, 1.25, 3.0, 4.0]) + 2.0**27, np.arange(5.0), 100.0, 0.01
    posterior = GP(1.0 * SE(1.0), Gaussian(noise), Basis("linear", prior_covariance=variance)).condition(x, y)
    with mpmath.workdps(50):
        t, values = [mpmath.mpf(float(v)) for v in x], mpmath.matrix(y.tolist())
        A = mpmath.matrix(5)
        for i in range(5):
            for j in range(5):
                A[i, j] = mpmath.exp(-((t[i] - t[j]) ** 2) / 2) + variance * (1 + t[i] * t[j])
            A[i, i] += mpmath.mpf(noise)
        alpha = mpmath.lu_solve(A, values)
        quadratic = (values.T * alpha)[0]
        truth = -(quadratic + mpmath.log(mpmath.det(A)) + 5 * mpmath.log(2 * mpmath.pi)) / 2
        s = t[2] + mpmath.mpf("0.25")
        cross = mpmath.matrix([mpmath.exp(-((s - v) ** 2) / 2) + variance * (1 + s * v) for v in t])
        mean = (cross.T * alpha)[0]
        var = 1 + variance * (1 + s * s) - (cross.T * mpmath.lu_solve(A, cross))[0]
    assert posterior.log_evidence == pytest.approx(float(truth), abs=1e-6)
    assert posterior.mean([[x[2] + 0.25]])[0] == pytest.approx(float(mean), abs=1e-6)
    assert posterior.variance([[x[2] + 0.25]])[0] == pytest.approx(float(var), rel=1e-6)


def test_basis_functions_that_rounding_has_blurred_are_refused():
    x = np.linspace(0.0, 4.0, 40) + 1e8
    with pytest.raises(NotPositiveDefiniteError, match="3 basis functions are linearly dependent"):
        GP(1.0 * SE(1.0), Gaussian(0.01), Basis("quadratic")).condition(x, np.sin(x))


def test_dependent_basis_functions_with_vague_weights_are_refused():
    with pytest.raises(NotPositiveDefiniteError, match=r"3 basis functions are linearly dependent .* vague"):
        GP(SE(1.0), Gaussian(0.1), mean=Basis(["linear", "constant"])).condition(X1, Y)


@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
def test_cubic_smoothing_spline(lam):
    """Integrated Wiener process plus a vague line: book section 6.3.1."""
    spline = make_smoothing_spline(X1[:, 0], Y, lam=lam)
    posterior = GP(Param(1.0 / lam) * IntegratedWiener(), Gaussian(1.0), mean=Basis("linear")).condition(
        X1, Y
    )
    inside = np.linspace(X1[0, 0], X1[-1, 0], 50)[:, None]
    np.testing.assert_allclose(posterior.mean(inside), spline(inside[:, 0]), atol=1e-7)
    np.testing.assert_allclose(posterior.mean_gradient(inside)[:, 0], spline(inside[:, 0], 1), atol=1e-6)


def test_ornstein_uhlenbeck_predictions_use_the_two_neighbors():
    """Book exercise 4.5.1."""
    posterior = GP(Matern(0.7, nu=0.5), Gaussian(1e-12)).condition(X1, Y)
    x = np.array([[0.5 * (X1[10, 0] + X1[11, 0])]])
    h = posterior.process.weight_functions(x)[:, 0]
    assert np.all(np.abs(h[[10, 11]]) > 0.1)
    assert np.max(np.abs(np.delete(h, [10, 11]))) < 1e-9


def test_brownian_bridge():
    """A Wiener process known to vanish at 1 has covariance min(s, t) - s t (book exercise 2.9.3)."""
    t = np.linspace(0.05, 0.95, 12)[:, None]
    posterior = GP(Wiener(), Gaussian(1e-13)).condition([[1.0]], [0.0])
    np.testing.assert_allclose(posterior.covariance(t), np.minimum(t, t.T) - t * t.T, atol=1e-12)
    np.testing.assert_allclose(posterior.mean(t), 0.0, atol=1e-12)


def test_variance_cannot_grow_with_data():
    """Book exercise 2.9.4."""
    model = GP(1.2 * SE(0.8), Gaussian(0.1))
    previous = np.full(len(TEST1), 1.2)
    for n in range(1, N, 4):
        now = model.condition(X1[:n], Y[:n]).variance(TEST1)
        assert np.all(now <= previous + 1e-12)
        previous = now


def test_closed_form_scale():
    """With k = scale * (c + s I) the best scale is y' (c + s I)^-1 y / n (book exercise 5.6.1)."""
    base = SE(0.9)(X1) + 0.2 * np.eye(N)
    best = Y @ np.linalg.solve(base, Y) / N
    model = GP(Param(best, tie="scale") * SE(fixed(0.9)), Gaussian(0.2 * best))
    _, gradient = model.evidence(X1, Y)
    assert gradient.sum() == pytest.approx(0.0, abs=1e-10)  # log scale of both at once


def test_degrees_of_freedom_from_eigenvalues():
    eigenvalues = np.linalg.eigvalsh(1.2 * SE(0.8)(X1))
    expected = np.sum(eigenvalues / (eigenvalues + 0.3))
    model = GP(1.2 * SE(0.8), Gaussian(0.3))
    assert model.degrees_of_freedom(X1, Y) == pytest.approx(expected, rel=1e-10)


def test_degrees_of_freedom_are_the_trace_of_the_smoother_matrix():
    model = GP(1.2 * SE(0.8), Gaussian(0.3), mean=Basis("linear"))
    smoother = model.condition(X1, Y).process.weight_functions(X1)
    assert model.degrees_of_freedom(X1, Y) == pytest.approx(np.trace(smoother), rel=1e-10)
    nothing_but_the_line = GP(1e-12 * SE(0.8), Gaussian(0.3), mean=Basis("linear"))
    assert nothing_but_the_line.degrees_of_freedom(X1, Y) == pytest.approx(2.0, abs=1e-8)


@pytest.mark.parametrize("mean", [Zero(), Basis("linear"), Basis("linear", 0.5, 2.0)], ids=repr)
def test_weight_functions_are_the_derivative_of_the_prediction(mean):
    model = GP(1.2 * SE(0.8), Gaussian(0.3), mean=mean)
    h = model.condition(X1, Y).process.weight_functions(TEST1)
    base = model.condition(X1, Y).mean(TEST1)
    for i in (0, 7, 24):
        bumped = Y.copy()
        bumped[i] += 1.0  # the prediction is linear in the targets
        np.testing.assert_allclose(model.condition(X1, bumped).mean(TEST1) - base, h[i], atol=1e-11)


def test_equivalent_kernel_of_the_ornstein_uhlenbeck_process():
    """401 points on (-1/2, 1/2), alpha = 5, noise 0.5: center weight 0.11094 (reference value)."""
    n = 401
    grid = (np.arange(n) + 0.5)[:, None] / n - 0.5
    posterior = GP(Matern(0.2, nu=0.5), Gaussian(0.5)).condition(grid, np.zeros(n))
    center = posterior.process.weight_functions(np.zeros((1, 1)))[n // 2, 0]
    assert center == pytest.approx(0.11094, abs=2e-4)


# --- several targets, weights, known noise ------------------------------------------------------------------


@pytest.mark.parametrize("mean", [None, "constant", Basis("linear"), Basis("linear", 0.2, 1.5)], ids=repr)
def test_several_targets_are_independent_processes(mean):
    Y3 = np.column_stack([Y, np.cos(X1[:, 0]), RNG.standard_normal(N)])
    model = GP(1.2 * SE(0.8), Gaussian(0.1), mean=mean)
    joint = model.condition(X1, Y3)
    value, gradient = model.evidence(X1, Y3)
    singles = [model.condition(X1, Y3[:, t]) for t in range(3)]
    alone = [model.evidence(X1, Y3[:, t]) for t in range(3)]
    assert value == pytest.approx(sum(v for v, _ in alone), rel=1e-12)
    assert joint.log_evidence == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(gradient, sum(g for _, g in alone), rtol=1e-9, atol=1e-9)
    for t, single in enumerate(singles):
        np.testing.assert_allclose(joint.mean(TEST1)[:, t], single.mean(TEST1), atol=1e-12)
        np.testing.assert_allclose(joint.variance(TEST1), single.variance(TEST1), atol=1e-12)
        np.testing.assert_allclose(
            joint.mean_gradient(TEST1)[:, :, t], single.mean_gradient(TEST1), atol=1e-10
        )
    loo, one = model.leave_one_out(X1, Y3), model.leave_one_out(X1, Y3[:, 1])
    np.testing.assert_allclose(loo.mean[:, 1], one.mean, atol=1e-10)
    np.testing.assert_allclose(loo.variance[:, 1], one.variance, atol=1e-10)
    value, gradient = model.leave_one_out_log_prob(X1, Y3)
    alone = [model.leave_one_out_log_prob(X1, Y3[:, t]) for t in range(3)]
    assert value == pytest.approx(sum(v for v, _ in alone), rel=1e-11)
    np.testing.assert_allclose(gradient, sum(g for _, g in alone), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("mean", ["constant", Basis("linear"), Basis("linear", 0.2, 1.5)], ids=repr)
def test_integer_weights_are_repeated_rows(mean):
    w = np.arange(N) % 3 + 1
    repeated = np.repeat(np.arange(N), w)
    model = GP(1.2 * SE(0.8), Gaussian(0.1), mean=mean)
    value, gradient = model.evidence(X1, Y, w.astype(float))
    expected, expected_gradient = model.evidence(X1[repeated], Y[repeated])
    assert value == pytest.approx(expected, abs=1e-8)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-7, atol=1e-7)
    a, b = model.condition(X1, Y, w.astype(float)), model.condition(X1[repeated], Y[repeated])
    np.testing.assert_allclose(a.mean(TEST1), b.mean(TEST1), atol=1e-9)
    np.testing.assert_allclose(a.covariance(TEST1), b.covariance(TEST1), atol=1e-9)


def test_known_variances_enter_the_diagonal():
    s = np.exp(RNG.standard_normal(N))
    for likelihood, extra in ((KnownNoise(s), 0.0), (KnownNoise(s, variance=0.3), 0.3)):
        truth = multivariate_normal(np.zeros(N), 1.2 * SE(0.8)(X1) + np.diag(s + extra)).logpdf(Y)
        assert GP(1.2 * SE(0.8), likelihood).evidence(X1, Y)[0] == pytest.approx(truth, rel=1e-12)


def test_white_noise_in_the_kernel_is_noise_of_the_cases():
    inside = GP(1.2 * SE(0.8) + White(0.2), Gaussian(0.1)).condition(X1, Y)
    outside = GP(1.2 * SE(0.8), Gaussian(0.3)).condition(X1, Y)
    assert inside.log_evidence == pytest.approx(outside.log_evidence, rel=1e-12)
    np.testing.assert_allclose(inside.mean(TEST1), outside.mean(TEST1), atol=1e-12)
    np.testing.assert_allclose(inside.variance(TEST1), outside.variance(TEST1) + 0.2, atol=1e-12)


# --- gradients ----------------------------------------------------------------------------------------------

MEANS = {
    "zero": Zero(),
    "constant": Constant(0.3),
    "linear": LinearMean(0.2, 0.1),
    "polynomial": Polynomial(2, 0.1, 0.05),
    "function": FunctionMean(lambda Z: np.sin(Z[:, 0])),
    "vague basis": Basis("linear"),
    "finite basis": Basis("linear", 0.4, 1.7),
    "basis and mean": Basis("linear") + LinearMean(0.2, 0.1) + FunctionMean(lambda Z: np.cos(Z[:, 0])),
    "finite basis and mean": Basis("quadratic", 0.1, 0.7) + Constant(0.2),
}
NOISES = {
    "gaussian": Gaussian(0.2),
    "known": KnownNoise(0.1 + 0.2 * (np.arange(N) % 3)),
    "known and learned": KnownNoise(0.1 * (np.arange(N) % 3), variance=0.2),
}
KERNEL = 1.3 * SE([0.7, 1.6]) + 0.4 * RationalQuadratic(1.1, alpha=0.8)


def numerical(f, theta) -> np.ndarray:
    """Central differences of fourth order."""
    out = np.empty(len(theta))
    for i in range(len(theta)):
        e = np.zeros(len(theta))
        e[i] = 1e-3
        out[i] = (8 * (f(theta + e) - f(theta - e)) - (f(theta + 2 * e) - f(theta - 2 * e))) / 12e-3
    return out


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_evidence_gradient(mean, noise, weighted):
    w = 0.5 + (np.arange(N) % 4) if weighted else None
    model = GP(KERNEL, NOISES[noise], mean=MEANS[mean]).bind(2)
    _, gradient = model.evidence(X2, Y, w)
    expected = numerical(lambda t: model.replace(t).evidence(X2, Y, w)[0], model.theta)
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mean", MEANS)
def test_leave_one_out_gradient(mean, noise):
    model = GP(KERNEL, NOISES[noise], mean=MEANS[mean]).bind(2)
    value, gradient = model.leave_one_out_log_prob(X2, Y)
    expected = numerical(lambda t: model.replace(t).leave_one_out_log_prob(X2, Y)[0], model.theta)
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-7)
    assert value == pytest.approx(float(model.leave_one_out(X2, Y).log_prob(Y).sum()), rel=1e-10)


# --- leave-one-out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["zero", "finite basis", "vague basis", "basis and mean", "linear"])
@pytest.mark.parametrize("noise", ["gaussian", "known and learned"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_leave_one_out_is_a_refit_without_the_point(mean, noise, weighted):
    w = 0.5 + (np.arange(N) % 4) if weighted else None
    model = GP(KERNEL, NOISES[noise], mean=MEANS[mean]).bind(2)
    loo = model.leave_one_out(X2, Y, w)
    for i in (0, 11, N - 1):
        rest = np.delete(np.arange(N), i)
        without = GP(KERNEL, NOISES[noise].rows(rest), mean=MEANS[mean])
        posterior = without.condition(X2[rest], Y[rest], None if w is None else w[rest])
        assert loo.mean[i] == pytest.approx(posterior.mean(X2[[i]])[0], abs=1e-9)
        s = NOISES[noise].noise_variances(N)[0][i]
        assert loo.variance[i] == pytest.approx(posterior.variance(X2[[i]])[0] + s, abs=1e-9)


def test_leaving_out_the_only_point_that_knows_a_vague_weight():
    loo = GP(SE(1.0), Gaussian(0.1), mean=Basis("constant")).leave_one_out([[0.0]], [3.0])
    assert loo.variance[0] == np.inf
    assert np.isfinite(loo.mean[0])


@pytest.mark.parametrize("n", [1, 2])
def test_leave_one_out_learning_needs_weights_that_are_known_without_each_point(n):
    model = GP(SE(1.0), Gaussian(0.1), mean=Basis("constant" if n == 1 else "linear"))
    with pytest.raises(NotPositiveDefiniteError, match="without row 0 the vague weights"):
        model.leave_one_out_log_prob(X1[:n], Y[:n])


def test_leave_one_out_learning_refuses_weights():
    with pytest.raises(ValueError, match="sample weights"):
        GP(SE(1.0)).leave_one_out_log_prob(X1, Y, np.full(N, 2.0))
    GP(SE(1.0)).leave_one_out_log_prob(X1, Y, np.ones(N))


# --- declared limits ----------------------------------------------------------------------------------------


def test_other_noise_is_refused_with_alternatives():
    with pytest.raises(UnsupportedPairError, match=r"exact inference needs Gaussian noise, got Laplace.*ep"):
        GP(SE(1.0), Laplace(1.0), inference=Exact()).condition(X1, Y)
    assert not Exact().supports(Laplace(1.0))
    assert Exact().supports(Gaussian(1.0))


def test_jitter_is_reported():
    doubled = np.vstack([X1, X1])
    posterior = GP(SE(1.0), Gaussian(1e-30)).condition(doubled, np.concatenate([Y, Y]))
    assert 0 < posterior.status.jitter <= 1e-6
    assert "jitter" in posterior.status.message
    assert GP(SE(1.0), Gaussian(0.1)).condition(X1, Y).status.jitter == 0.0
