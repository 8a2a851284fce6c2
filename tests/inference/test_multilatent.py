"""Laplace's method with several latent functions: softmax classes, and a normal density with latent log noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from cavity.gp import GP
from cavity.inference.base import UnsupportedPairError
from cavity.inference.laplace import Laplace
from cavity.inference.laplace.several_functions import SeveralLatents, cavities, gradient
from cavity.inference.laplace.tracking import search
from cavity.kernels import SE, Matern
from cavity.latent.dense_multi_latent import BlockConditioning
from cavity.learning import learn
from cavity.likelihoods import Gaussian, HeteroscedasticGaussian, Logit, Observations, Softmax
from cavity.means.basis import Basis
from tests.warm import Evaluations

RNG = np.random.default_rng(2)
N, C = 12, 3
X = RNG.normal(size=(N, 2))
LABELS = np.digitize(X[:, 0] + 0.4 * RNG.normal(size=N), [-0.5, 0.5]).astype(float)
REAL = np.sin(2 * X[:, 0]) + np.exp(0.5 * X[:, 1] - 1) * RNG.normal(size=N)
WEIGHTS = RNG.uniform(0.5, 2.0, N)
SHARED = 2.0 * SE([1.0, 2.0])
OWN = [2.0 * SE(1.0), 0.7 * Matern(1.5, 2.5), 1.2 * SE([0.7, 1.5])]
NEW = RNG.normal(size=(5, 2))


def model(likelihood, kernel, mean=None):
    return GP(kernel, likelihood, mean=mean, inference="laplace").bind(2)


def finite_differences(gp, X, y, weight=None, h=1e-3):
    slopes = []
    for i in range(gp.theta.size):

        def at(k, i=i):
            theta = gp.theta.copy()
            theta[i] += k * h
            return gp.replace(theta).evidence(X, y, weight)[0]

        first, second = (at(k) - at(-k) for k in (1, 2))
        slopes.append((8 * first - second) / (12 * h))
    return np.array(slopes)


# --- softmax ------------------------------------------------------------------------------------------------


def dense_softmax_laplace(K, y, weight):
    """The book's section 3.5 with (C n x C n) matrices and a general-purpose optimizer: (log q, f)."""
    n = len(y)
    hot = np.eye(C)[y.astype(int)]
    L = np.linalg.cholesky(K + 1e-13 * np.eye(C * n))

    def negative(u):
        f = (L @ u).reshape(C, n).T
        log_p = log_softmax(f, axis=1)
        slope = (weight[:, None] * (hot - np.exp(log_p))).T.ravel()
        return -(weight @ (hot * log_p).sum(axis=1)) + 0.5 * u @ u, u - L.T @ slope

    best = minimize(negative, np.zeros(C * n), jac=True, options={"gtol": 1e-10, "maxiter": 10000})
    f = (L @ best.x).reshape(C, n).T
    pi = softmax(f, axis=1)
    W = np.zeros((C, n, C, n))
    i = np.arange(n)
    W[:, i, :, i] = weight[:, None, None] * (pi[:, :, None] * np.eye(C) - pi[:, :, None] * pi[:, None, :])
    sign, log_det = np.linalg.slogdet(np.eye(C * n) + K @ W.reshape(C * n, C * n))
    assert sign == 1
    return -best.fun - 0.5 * log_det, f


@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("kernel", [SHARED, OWN], ids=["shared", "own"])
def test_softmax_is_the_direct_dense_computation(kernel, weight):
    gp = model(Softmax(C), kernel)
    posterior = gp.condition(X, LABELS, weight)
    kernels = kernel if isinstance(kernel, list) else [kernel] * C
    K = np.zeros((C * N, C * N))
    for c, k in enumerate(kernels):
        K[c * N : (c + 1) * N, c * N : (c + 1) * N] = k(X)
    value, f = dense_softmax_laplace(K, LABELS, np.ones(N) if weight is None else weight)
    assert posterior.log_evidence == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(posterior.mean(X), f, atol=1e-6)
    assert posterior.status.converged
    assert posterior.status.stage == "newton"


@pytest.mark.parametrize("kernel", [SHARED, OWN], ids=["shared", "own"])
def test_the_two_ways_to_factorize_agree(kernel):
    gp = model(Softmax(C), kernel)
    answers = []
    for dense in (False, True):
        problem = SeveralLatents(gp.prior(X), Observations(gp.likelihood, LABELS, WEIGHTS), dense)
        mode = search(problem).mode
        left = cavities(Laplace(), problem, mode)
        answers.append((mode.value, mode.curvature.log_det, *left, gradient(problem, mode)[1].flat))
    for fast, slow in zip(*answers):
        np.testing.assert_allclose(fast, slow, rtol=1e-6, atol=1e-7)


def test_two_classes_are_the_logistic_model_of_their_difference():
    # f_1 - f_0 has covariance 2 k, and the sum of both is integrated out exactly
    y = (X[:, 0] > 0.1).astype(float)
    two = model(Softmax(2), SHARED)
    one = model(Logit(), 4.0 * SE([1.0, 2.0]))
    value, slopes = two.evidence(X, y)
    expected, gradient = one.evidence(X, 2 * y - 1)
    assert value == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(slopes, gradient, atol=1e-7)
    a, b = two.condition(X, y), one.condition(X, 2 * y - 1)
    np.testing.assert_allclose(a.mean(NEW)[:, 1] - a.mean(NEW)[:, 0], b.mean(NEW), atol=1e-8)
    blocks = a.process.blocks(NEW)
    difference = blocks[:, 0, 0] + blocks[:, 1, 1] - 2 * blocks[:, 0, 1]
    np.testing.assert_allclose(difference, b.variance(NEW), atol=1e-8)
    p = np.exp(b.predict_y(NEW).log_prob(np.ones(5)))
    np.testing.assert_allclose(a.predict_y(NEW).probabilities[:, 1], p, atol=5e-4)
    np.testing.assert_allclose(
        two.leave_one_out(X, y).probabilities[:, 1],
        np.exp(one.leave_one_out(X, 2 * y - 1).log_prob(np.ones(N))),
        atol=5e-4,
    )


def test_two_points_and_three_classes_against_monte_carlo():
    x, y = np.array([[0.0], [1.0]]), np.array([0.0, 2.0])
    kernel = 2.0 * SE(1.0)
    value = GP(kernel, Softmax(3), inference="laplace").condition(x, y).log_evidence
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(kernel(x))
    f = np.einsum("ij,sjc->sic", root, rng.standard_normal((400_000, 2, 3)))
    p = np.exp(log_softmax(f, axis=2)[:, [0, 1], [0, 2]].sum(axis=1))
    exact, error = np.log(p.mean()), p.std() / p.mean() / np.sqrt(len(p))
    assert error < 0.003
    # The method's own error; without the missing determinant of the printed algorithm it is off by more.
    assert abs(value - exact) < 0.1


@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("likelihood", "y", "kernel", "mean"),
    [
        (Softmax(C), LABELS, SHARED, None),
        (Softmax(C), LABELS, OWN, ["constant", "linear", "zero"]),
        (HeteroscedasticGaussian(0.2), REAL, SHARED, None),
        (HeteroscedasticGaussian(0.2), REAL, [1.5 * SE(1.0), 0.5 * SE(2.0)], ["constant", "linear"]),
    ],
    ids=["shared", "own", "noise-shared", "noise-own"],
)
def test_gradients_are_those_of_the_whole_evidence(likelihood, y, kernel, mean, weight):
    gp = model(likelihood, kernel, mean)
    gp = gp.replace(gp.theta + 0.1)
    _, slopes = gp.evidence(X, y, weight)
    np.testing.assert_allclose(slopes, finite_differences(gp, X, y, weight), rtol=1e-5, atol=1e-6)


def test_warm_starts_do_not_change_the_value():
    gp, workspace = model(Softmax(C), OWN), Evaluations()
    for step in (0.0, 0.2, 1.5, -2.0):
        moved = gp.replace(gp.theta + step)
        warm, slopes = workspace.evidence(moved, X, LABELS)
        cold, expected = moved.evidence(X, LABELS)
        assert warm == pytest.approx(cold, abs=1e-8)
        np.testing.assert_allclose(slopes, expected, atol=1e-6)


@pytest.mark.parametrize("variance", [1e-10, 1e8])
def test_extreme_signal_variance(variance):
    gp = model(Softmax(C), variance * SE(1.0))
    posterior = gp.condition(X, LABELS)
    assert posterior.status.converged
    p = posterior.predict_y(X).probabilities
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.isfinite(gp.evidence(X, LABELS)[1]).all()
    if variance < 1:
        assert posterior.log_evidence == pytest.approx(-N * np.log(3), abs=1e-5)


def test_one_point_and_an_unseen_class():
    posterior = model(Softmax(4), SHARED).condition(X[:1], np.array([1.0]))
    p = posterior.predict_y(X[:1]).probabilities[0]
    assert np.argmax(p) == 1
    np.testing.assert_allclose(p[[0, 2, 3]], p[0], rtol=2e-2)  # by symmetry, to the accuracy of the average


def test_learning_classes():
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (45, 1))
    y = np.digitize(x[:, 0], [-0.7, 0.6]).astype(float)
    gp = GP(1.0 * SE(1.0), Softmax(3), inference="laplace").bind(1)
    learned = learn(gp, x, y, n_restarts=0, warm=True)
    assert learned.converged
    assert learned.value > gp.evidence(x, y)[0] + 1.0
    predicted = np.argmax(learned.model.condition(x, y).predict_y(x).probabilities, axis=1)
    assert np.mean(predicted == y) > 0.95


def test_degrees_of_freedom_are_the_trace_of_the_smoother():
    """tr(Sigma W) with dense matrices of all functions and rows."""
    for likelihood, kernel, y in (
        (Softmax(C), SHARED, LABELS),
        (HeteroscedasticGaussian(0.3), [2.0 * SE(1.0), 0.7 * Matern(1.5, 2.5)], REAL),
    ):
        gp = model(likelihood, kernel)
        posterior = gp.condition(X, y)
        L = likelihood.n_latent
        hessian = likelihood.latent_derivatives(y, posterior.mean(X)).hessian
        W = np.zeros((N, L, N, L))
        W[np.arange(N), :, np.arange(N)] = -hessian
        K = np.zeros((N, L, N, L))
        for c, k in enumerate(kernel if isinstance(kernel, list) else [kernel] * L):
            K[:, c, :, c] = k(X)
        K, W = (A.reshape(N * L, N * L) for A in (K, W))
        truth = np.trace(np.linalg.solve(np.eye(N * L) + K @ W, K @ W))
        assert gp.degrees_of_freedom(X, y) == pytest.approx(truth, rel=1e-7)


def test_joint_predictions_of_several_functions_name_what_to_use():
    posterior = model(Softmax(C), SHARED).condition(X, LABELS)
    with pytest.raises(
        ValueError, match=r"joint=True is for one latent function, Softmax has 3: use covariance"
    ):
        posterior.predict_f(NEW, joint=True)


@pytest.mark.parametrize(("likelihood", "y"), [(Softmax(C), LABELS), (HeteroscedasticGaussian(0.2), REAL)])
def test_leave_one_out_is_close_to_refitting(likelihood, y):
    gp = model(likelihood, SHARED)
    fast = gp.leave_one_out(X, y).log_prob(y)
    slow = np.empty(N)
    for i in range(N):
        keep = np.arange(N) != i
        slow[i] = gp.condition(X[keep], y[keep]).predict_y(X[i : i + 1]).log_prob(y[i : i + 1])[0]
    errors = np.sort(np.abs(fast - slow))
    assert np.median(errors) < 0.05
    assert errors[-2] < 0.5


# --- latent log noise ---------------------------------------------------------------------------------------


def test_heteroscedastic_mode_and_evidence_by_other_means():
    kernels = [1.5 * SE(1.0), 0.5 * SE(2.0)]
    likelihood = HeteroscedasticGaussian(0.2)
    posterior = model(likelihood, kernels).condition(X, REAL)
    roots = [np.linalg.cholesky(k(X) + 1e-12 * np.eye(N)) for k in kernels]

    def negative(u):
        f = np.column_stack([L @ v for L, v in zip(roots, u.reshape(2, N))])
        d = likelihood.latent_derivatives(REAL, f)
        slope = np.concatenate([L.T @ g for L, g in zip(roots, d.gradient.T)])
        return -d.log_prob.sum() + 0.5 * u @ u, u - slope

    rng = np.random.default_rng(0)
    runs = [minimize(negative, rng.normal(size=2 * N), jac=True, options={"gtol": 1e-9}) for _ in range(30)]
    best = min(runs, key=lambda run: run.fun)
    f = np.column_stack([L @ v for L, v in zip(roots, best.x.reshape(2, N))])
    np.testing.assert_allclose(posterior.mean(X), f, atol=1e-4)
    h = 1e-5
    H = np.array(
        [(negative(best.x + h * e)[1] - negative(best.x - h * e)[1]) / (2 * h) for e in np.eye(2 * N)]
    )
    expected = -best.fun - 0.5 * np.linalg.slogdet(H)[1]
    assert posterior.log_evidence == pytest.approx(expected, abs=1e-5)
    assert posterior.status.converged


def test_noise_that_does_not_vary_gives_the_ordinary_model():
    kernels = [1.5 * SE(1.0), 1e-9 * SE(1.0)]
    a = model(HeteroscedasticGaussian(0.2), kernels).condition(X, REAL)
    b = GP(1.5 * SE(1.0), Gaussian(0.2)).condition(X, REAL)
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-6)
    np.testing.assert_allclose(a.mean(NEW)[:, 0], b.mean(NEW), atol=1e-6)
    np.testing.assert_allclose(a.variance(NEW)[:, 0], b.variance(NEW), atol=1e-6)
    np.testing.assert_allclose(a.predict_y(NEW).variance, b.predict_y(NEW).variance, rtol=1e-5)


def test_noise_that_varies_is_found():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 80))[:, None]
    y = np.sin(x[:, 0]) + np.where(x[:, 0] < 5, 0.05, 0.6) * rng.normal(size=80)
    gp = GP([1.0 * SE(1.5), 2.0 * SE(3.0)], HeteroscedasticGaussian(0.1), inference="laplace")
    posterior = gp.condition(x, y)
    assert posterior.status.converged
    sd = np.sqrt(posterior.predict_y(np.array([[2.0], [8.0]])).variance)
    assert sd[0] < 0.15 < 0.4 < sd[1]


def test_a_far_outlier_is_survived():
    y = REAL.copy()
    y[4] = 1e3
    posterior = model(HeteroscedasticGaussian(0.2), [1.5 * SE(1.0), 2.0 * SE(0.3)]).condition(X, y)
    assert posterior.status.converged
    assert np.isfinite(posterior.predict_y(X).log_prob(REAL)).all()


def few_points():
    rng = np.random.default_rng(4)
    x, y = rng.uniform(0, 2, (5, 1)), 2 * rng.normal(size=5)
    gp = GP([2.0 * SE(1.0), 4.0 * SE(1.0)], HeteroscedasticGaussian(0.1), inference="laplace").bind(1)
    return gp, x, y


def test_leaving_out_a_point_whose_removal_is_improper_refits():
    gp, x, y = few_points()
    posterior = gp.condition(x, y)
    S = posterior.process.blocks(x)
    W = -gp.likelihood.latent_derivatives(y, posterior.mean(x)).hessian
    improper = [i for i in range(5) if np.linalg.eigvalsh(np.linalg.inv(S[i]) - W[i])[0] <= 0]
    assert improper
    found = gp.leave_one_out(x, y).log_prob(y)
    for i in improper:
        keep = np.arange(5) != i
        refit = gp.condition(x[keep], y[keep]).predict_y(x[i : i + 1]).log_prob(y[i : i + 1])[0]
        assert found[i] == pytest.approx(refit, abs=1e-8)


def test_the_way_down_from_a_saddle():
    gp, x, y = few_points()
    problem = SeveralLatents(gp.prior(x), Observations(gp.likelihood, y))
    f = np.zeros((5, 2))
    d = problem.derivatives(f)
    da, df = problem.downward(f, d)
    np.testing.assert_allclose(problem.prior.times(da), df, atol=1e-8)
    assert np.vdot(da, df) == pytest.approx(1.0)
    along = np.vdot(da, df) - np.einsum("ni,nij,nj->", df, d.hessian, df)
    assert along < 0  # Psi curves upwards here


def test_smallest_curvature_is_the_smallest_eigenvalue_of_the_whitened_curvature():
    gp, x, y = few_points()
    problem = SeveralLatents(gp.prior(x), Observations(gp.likelihood, y))
    mode = search(problem).mode
    M = BlockConditioning.whitened(problem.prior, -mode.derivatives.hessian)
    smallest = np.linalg.eigvalsh(np.tril(M) + np.tril(M, -1).T)[0]
    assert smallest < 1
    assert problem.smallest_curvature(mode) == pytest.approx(smallest, rel=1e-3)


def test_the_branch_is_followed_while_noise_parameters_change():
    gp = model(HeteroscedasticGaussian(0.2), [1.5 * SE(1.0), 0.5 * SE(2.0)])
    workspace = Evaluations()
    workspace.evidence(gp, X, REAL)
    for step in (0.1, 1.0, -1.0):
        moved = gp.replace(gp.theta + step)
        value, _ = workspace.evidence(moved, X, REAL)
        assert value == pytest.approx(moved.evidence(X, REAL)[0], abs=1e-7)


# --- the model object ---------------------------------------------------------------------------------------


def test_shapes_and_names():
    gp = model(Softmax(C), OWN, ["constant", "zero", "linear"])
    assert gp.names[:2] == ("se.variance", "se.lengthscale")
    assert "se_2.variance" in gp.names
    assert "mean_2.slopes[0]" in gp.names
    np.testing.assert_allclose(gp.replace(gp.theta + 0.3).theta, gp.theta + 0.3)
    posterior = gp.condition(X, LABELS)
    assert posterior.mean(NEW).shape == (5, C)
    assert posterior.variance(NEW).shape == (5, C)
    assert posterior.covariance(NEW).shape == (5, C, 5, C)
    assert posterior.sample(NEW, 7, rng=0).shape == (7, 5, C)
    assert posterior.predict_f(NEW).variance.shape == (5, C)
    assert posterior.predict_y(NEW).probabilities.shape == (5, C)
    assert posterior.basis is None
    assert gp.sample_prior(NEW, 6, rng=0).shape == (6, 5, C)
    more = posterior.update(NEW, np.zeros(5))
    direct = gp.condition(np.vstack([X, NEW]), np.append(LABELS, np.zeros(5)))
    assert more.log_evidence == pytest.approx(direct.log_evidence, abs=1e-9)


def test_predictions_do_not_change_between_calls():
    posterior = model(Softmax(C), SHARED).condition(X, LABELS)
    np.testing.assert_array_equal(
        posterior.predict_y(NEW).probabilities, posterior.predict_y(NEW).probabilities
    )


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="kernel must be one for each of the 3"):
        GP([SHARED, SHARED], Softmax(3))
    with pytest.raises(ValueError, match="one mean for each"):
        GP(SHARED, Softmax(3), mean="constant")
    with pytest.raises(ValueError, match="mean must be one for each"):
        GP(SHARED, Softmax(3), mean=["constant"])
    with pytest.raises(ValueError, match="cavity kernel"):
        GP([SHARED, 1.0, SHARED], Softmax(3))
    assert GP([SHARED], Gaussian()).kernel == SHARED
    with pytest.raises(UnsupportedPairError, match="exact inference"):
        model(Softmax(2), SHARED, [Basis("linear"), "zero"]).condition(X, LABELS.clip(max=1))
