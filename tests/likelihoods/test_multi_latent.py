"""Several latent values per observation: softmax, one against the rest, normal noise with its own latent level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr, softmax

from cavity import likelihoods as lk

rng = np.random.default_rng(3)


def numeric_gradient(function, f, h=1e-5):
    """d function / d f for function (n, L) -> (n, ...): shape (n, L, ...)."""
    out = []
    for k in range(f.shape[1]):
        step = np.zeros_like(f)
        step[:, k] = h
        out.append((function(f + step) - function(f - step)) / (2 * h))
    return np.stack(out, axis=1)


CASES = [
    (lk.Softmax(4), rng.integers(0, 4, 6).astype(float), 2 * rng.standard_normal((6, 4))),
    (lk.HeteroscedasticGaussian(0.4), rng.standard_normal(6), rng.standard_normal((6, 2))),
    (lk.OneVsRest(4), rng.integers(0, 4, 6).astype(float), 2 * rng.standard_normal((6, 4))),
    (lk.OneVsRest(3, lk.LapseProbit(0.4)), rng.integers(0, 3, 6).astype(float), rng.standard_normal((6, 3))),
]


@pytest.mark.parametrize(("likelihood", "y", "f"), CASES)
def test_gradient_hessian_and_third_derivatives(likelihood, y, f):
    d = likelihood.latent_derivatives(y, f)
    np.testing.assert_allclose(
        d.gradient, numeric_gradient(lambda x: likelihood.log_prob(y, x), f), atol=1e-8
    )
    numeric = numeric_gradient(lambda x: likelihood.latent_derivatives(y, x).gradient, f)
    np.testing.assert_allclose(d.hessian, numeric, atol=1e-7)
    S = rng.standard_normal((6, f.shape[1], f.shape[1]))
    S = S + S.transpose(0, 2, 1)
    trace = lambda x: -np.einsum("nij,nij->n", S, likelihood.latent_derivatives(y, x).hessian)  # noqa: E731
    np.testing.assert_allclose(likelihood.curvature_gradient(y, f, S), numeric_gradient(trace, f), atol=1e-6)
    assert likelihood.log_prob(y, np.stack([f, f])).shape == (2, 6)


@pytest.mark.parametrize("case", [1, 3])
def test_parameter_derivatives(case):
    likelihood, y, f = CASES[case]
    p = likelihood.latent_parameter_derivatives(y, f)
    h = 1e-6
    up, down = (likelihood.with_flat([0.4 + s * h]).latent_derivatives(y, f) for s in (1, -1))
    for got, a, b in zip(p, up, down):
        np.testing.assert_allclose(got[0], (a - b) / (2 * h), atol=1e-6)
    none = lk.Softmax(4).latent_parameter_derivatives(CASES[0][1], CASES[0][2])
    assert [a.shape for a in none] == [(0, 6), (0, 6, 4), (0, 6, 4, 4)]


@pytest.mark.parametrize("power", [1.0, 0.4])
@pytest.mark.parametrize("full", [False, True])
def test_tilted_moments_of_the_two_latent_model_against_a_grid(power, full):
    likelihood = lk.HeteroscedasticGaussian(0.4)
    y, shift = np.array([0.3, -4.0, 2.0]), rng.standard_normal((3, 2))
    A = rng.standard_normal((3, 2, 2))
    P = A @ A.transpose(0, 2, 1) + np.eye(2) if full else rng.uniform(0.5, 3.0, (3, 2))
    t = likelihood.tilted(y, shift, P, power)
    x = np.linspace(-12, 12, 961)
    f = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    for i in range(3):
        Q = P[i] if full else np.diag(P[i])
        g = power * likelihood.log_prob(y[i], f) + f @ shift[i] - 0.5 * np.einsum("abi,ij,abj->ab", f, Q, f)
        w = np.exp(g - g.max())
        z = w.sum()
        np.testing.assert_allclose(t.log_z[i], np.log(z) + g.max() + 2 * np.log(x[1] - x[0]), rtol=1e-9)
        w /= z
        mean = np.einsum("ab,abi->i", w, f)
        np.testing.assert_allclose(t.mean[i], mean, atol=1e-9)
        cov = np.einsum("ab,abi,abj->ij", w, f - mean, f - mean)
        np.testing.assert_allclose(t.var[i], cov, atol=1e-9)
        slope = (
            power
            * np.einsum("ab,ab->", w, 0.5 * ((y[i] - f[..., 0]) ** 2 * np.exp(-f[..., 1]) / 0.4 - 1))
            / 0.4
        )
        np.testing.assert_allclose(t.d_log_z[0, i], slope, rtol=1e-8)
    constant = np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(P if full else P[:, :, None] * np.eye(2))[1]
    m = np.linalg.solve(P, shift[:, :, None])[:, :, 0] if full else shift / P
    np.testing.assert_allclose(
        t.log_z_normalized, t.log_z - constant - 0.5 * (m * shift).sum(axis=1), rtol=1e-10
    )


def test_tilted_moments_of_the_two_latent_model_at_extremes():
    likelihood = lk.HeteroscedasticGaussian(1.0)
    gap, v, vg = (a.ravel() for a in np.meshgrid([0.0, 1.0, 1e4], [1e-8, 1.0, 1e8], [1e-4, 1.0, 25.0]))
    y = gap * np.sqrt(v + 1)
    t = likelihood.tilted(y, np.zeros((len(y), 2)), np.stack([1 / v, 1 / vg], axis=1))
    assert np.isfinite(t.log_z).all()
    assert np.isfinite(t.mean).all()
    assert (t.var[:, 0, 0] > 0).all()
    assert (np.linalg.det(t.var) > 0).all()


def test_improper_or_higher_order_requests_are_refused():
    likelihood = lk.HeteroscedasticGaussian()
    with pytest.raises(ValueError, match="positive definite"):
        likelihood.tilted(np.zeros(1), np.zeros((1, 2)), np.array([[1.0, -1.0]]))
    with pytest.raises(ValueError, match="only order 2"):
        likelihood.tilted(np.zeros(1), np.zeros((1, 2)), np.ones((1, 2)), order=4)


@pytest.mark.parametrize("full", [False, True])
def test_expected_log_density_of_the_two_latent_model(full):
    likelihood = lk.HeteroscedasticGaussian(0.4)
    y, mean = np.array([0.3, -2.0]), rng.standard_normal((2, 2))
    A = rng.standard_normal((2, 2, 2))
    cov = A @ A.transpose(0, 2, 1) * 0.3 + 0.1 * np.eye(2)
    var = cov if full else cov[:, [0, 1], [0, 1]]
    e = likelihood.expected_log_prob(y, mean, var)
    x, w = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.outer(w, w).ravel() / (2 * np.pi)
    for i in range(2):
        root = np.linalg.cholesky(cov[i]) if full else np.diag(np.sqrt(var[i]))
        f = mean[i] + grid @ root.T
        np.testing.assert_allclose(e.value[i], weight @ likelihood.log_prob(y[i], f), rtol=1e-9)
    value = lambda m, v: likelihood.expected_log_prob(y, m, v).value  # noqa: E731
    np.testing.assert_allclose(e.d_mean, numeric_gradient(lambda m: value(m, var), mean), atol=1e-7)
    if full:
        for i, j in ((0, 0), (0, 1), (1, 1)):
            step = np.zeros((2, 2))
            step[i, j] = step[j, i] = 1e-6
            numeric = (value(mean, var + step) - value(mean, var - step)) / 2e-6
            np.testing.assert_allclose(np.einsum("ij,nij->n", step / 1e-6, e.d_var), numeric, atol=1e-7)
    else:
        np.testing.assert_allclose(e.d_var, numeric_gradient(lambda v: value(mean, v), var), atol=1e-7)
    up, down = (likelihood.with_flat([0.4 + s]).expected_log_prob(y, mean, var).value for s in (1e-6, -1e-6))
    np.testing.assert_allclose(e.d_flat[0], (up - down) / 2e-6, atol=1e-7)


def test_predictive_of_the_two_latent_model():
    likelihood = lk.HeteroscedasticGaussian(0.4)
    cov = np.array([[[0.5, 0.2], [0.2, 0.6]], [[0.1, 0.0], [0.0, 0.0]]])
    mean = np.array([[1.0, 0.3], [0.0, -1.0]])
    p = likelihood.predictive(mean, cov)
    draws = likelihood.sample(
        mean
        + np.einsum(
            "nij,snj->sni", np.linalg.cholesky(cov + 1e-14 * np.eye(2)), rng.standard_normal((200000, 2, 2))
        ),
        rng,
    )
    np.testing.assert_allclose(p.mean, mean[:, 0], atol=1e-12)
    np.testing.assert_allclose(p.variance, draws.var(axis=0), rtol=0.03)
    for q in (0.05, 0.5, 0.95):
        assert (np.abs((draws < p.quantile(q)).mean(axis=0) - q) < 4.5 * np.sqrt(q * (1 - q) / 200000)).all()
    independent = likelihood.predictive(mean, cov[:, [0, 1], [0, 1]])
    assert independent.variance[1] == pytest.approx(p.variance[1])


def softmax_truth(mean, var, count=61):
    """Tensor Gauss-Hermite for three independent latent values: E[softmax], E[log sum exp], E[p(1-p)]."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    grid = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = np.einsum("i,j,k->ijk", w, w, w).ravel() / (2 * np.pi) ** 1.5
    f = mean + np.sqrt(var) * grid
    p = softmax(f, axis=1)
    top = f.max(axis=1)
    log_sum = top + np.log(np.exp(f - top[:, None]).sum(axis=1))
    return weight @ p, weight @ log_sum, weight @ (p * (1 - p))


def test_softmax_averages_against_tensor_quadrature():
    likelihood = lk.Softmax(3)
    mean = np.array([[0.0, 1.0, -2.0], [3.0, 2.5, 0.0], [0.0, 0.0, 0.0]])
    var = np.array([[0.5, 1.0, 0.2], [2.0, 0.01, 1.0], [3.0, 3.0, 3.0]])
    y = np.array([0.0, 2.0, 1.0])
    p, e = likelihood.predictive(mean, var), likelihood.expected_log_prob(y, mean, var)
    for i in range(3):
        probability, log_sum, spread = softmax_truth(mean[i], var[i])
        tolerance = 1e-9 if var[i].max() <= 1 else 1e-6  # the tensor rule itself converges slowly for wide f
        np.testing.assert_allclose(p.probabilities[i], probability, rtol=tolerance)
        np.testing.assert_allclose(e.value[i], mean[i, int(y[i])] - log_sum, rtol=tolerance)
        np.testing.assert_allclose(-2 * e.d_var[i], spread, rtol=10 * tolerance)
        np.testing.assert_allclose(e.d_mean[i], np.eye(3)[int(y[i])] - probability, rtol=10 * tolerance)


def test_softmax_averages_for_wide_and_certain_latent_values():
    likelihood = lk.Softmax(3)
    # symmetric: a third each, whatever the width; and no spread at all: the softmax itself
    for v in (1e-6, 1.0, 400.0):
        p = likelihood.predictive(np.zeros((1, 3)), np.full((1, 3), v))
        np.testing.assert_allclose(p.probabilities, 1 / 3, rtol=1e-10)
    mean = np.array([[0.0, 3.0, -40.0]])
    np.testing.assert_allclose(
        likelihood.predictive(mean, np.zeros((1, 3))).probabilities, softmax(mean), rtol=1e-9
    )
    # two classes are the logit of the difference
    two = lk.Softmax(2).predictive(np.array([[1.0, 0.2]]), np.array([[9.0, 2.0]]))
    binary = lk.Logit().predictive([0.8], [11.0])
    np.testing.assert_allclose(two.probabilities[0, 0], binary.probabilities[0, 1], rtol=1e-9)


def test_correlated_softmax_and_draws():
    likelihood = lk.Softmax(3)
    mean = np.array([[0.0, 1.0, -1.0], [2.0, 0.0, 0.0]])
    A = rng.standard_normal((2, 3, 3))
    cov = A @ A.transpose(0, 2, 1)
    p = likelihood.predictive(mean, cov)
    f = mean + np.einsum("nij,snj->sni", np.linalg.cholesky(cov), rng.standard_normal((200000, 2, 3)))
    np.testing.assert_allclose(p.probabilities, likelihood.probabilities(f).mean(axis=0), atol=4e-3)
    diagonal = np.stack([np.diag(np.diag(c)) for c in cov])
    exact = likelihood.predictive(mean, np.stack([np.diag(c) for c in cov])).probabilities
    np.testing.assert_allclose(likelihood.predictive(mean, diagonal).probabilities, exact, atol=5e-4)
    draws = likelihood.sample(np.broadcast_to(mean[0], (40000, 3)), rng)
    share = np.bincount(draws.astype(int), minlength=3) / 40000
    np.testing.assert_allclose(share, softmax(mean[0]), atol=0.012)


# --- one against the rest -----------------------------------------------------------------------------------


def test_classes_by_answers_against_enumeration_and_draws():
    """Draws of f and of C answers, of which those with one "yes" count; the power is for labels that answers share."""
    likelihood = lk.OneVsRest(3)
    mean, var = np.array([0.3, -0.5, -1.0]), np.array([0.5, 2.0, 0.1])
    f = mean + np.sqrt(var) * rng.standard_normal((400000, 3))
    yes = f + rng.standard_normal(f.shape) > 0
    kept = yes[yes.sum(axis=1) == 1]
    share = kept.mean(axis=0) ** (2 / 3)
    p = likelihood.predictive(mean[None], var[None])
    np.testing.assert_allclose(p.probabilities[0], share / share.sum(), atol=4e-3)
    np.testing.assert_allclose(p.probabilities, np.exp([p.log_prob(c)[0] for c in range(3)])[None])
    np.testing.assert_array_equal(
        likelihood.predictive(mean[None], np.diag(var)[None]).probabilities, p.probabilities
    )
    draws = likelihood.sample(np.broadcast_to(mean, (40000, 3)), rng)
    sure = likelihood.predictive(mean[None], np.zeros((1, 3))).probabilities[0]
    np.testing.assert_allclose(np.bincount(draws.astype(int)) / 40000, sure, atol=0.012)


def test_small_probabilities_of_classes_keep_their_digits():
    p = lk.OneVsRest(3).predictive(np.array([[40.0, -40.0, -39.0]]), np.zeros((1, 3)))
    expected = 2 / 3 * (log_ndtr(-40.0) - log_ndtr(40.0))
    np.testing.assert_allclose(p.log_prob(1.0) - p.log_prob(0.0), 2 * expected, rtol=1e-12)
    assert p.log_prob(2.0)[0] > p.log_prob(1.0)[0] > -np.inf


def test_expected_log_probability_of_answers():
    likelihood, y = lk.OneVsRest(3), np.array([2.0])
    mean, var = np.array([[0.3, -0.5, 1.0]]), np.array([[0.5, 2.0, 0.1]])
    f = mean + np.sqrt(var) * rng.standard_normal((200000, 1, 3))
    draws = likelihood.log_prob(y, f)
    e = likelihood.expected_log_prob(y, mean, var)
    assert e.value[0] == pytest.approx(draws.mean(), abs=4 * draws.std() / np.sqrt(len(draws)))
    at = lambda m, v: likelihood.expected_log_prob(y, m, v).value  # noqa: E731
    np.testing.assert_allclose(e.d_mean, numeric_gradient(lambda m: at(m, var), mean), atol=1e-7)
    np.testing.assert_allclose(e.d_var, numeric_gradient(lambda v: at(mean, v), var), atol=1e-6)
