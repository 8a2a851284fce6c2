"""Inducing inputs: equal to dense where they should be, every rule, every likelihood, gradients, choice, files."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, fixed
from cavity.inference import EP, Laplace, Variational
from cavity.inference.base import UnsupportedPairError
from cavity.inference.variational.elbo import lower_bound
from cavity.io import dumps, loads
from cavity.kernels import SE, Categorical, Kernel, Linear, Matern, Standardized, White, ard
from cavity.kernels.input_scales import input_scales
from cavity.latent.base import Inputs
from cavity.latent.dense import Dense
from cavity.latent.inducing import Inducing, conditioning
from cavity.latent.inducing import prior as prior_module
from cavity.latent.inducing.choice import choose
from cavity.latent.sites import Sites
from cavity.likelihoods import (
    Gaussian,
    KnownNoise,
    MixtureOfGaussians,
    Noiseless,
    Observations,
    Poisson,
    Probit,
    StudentT,
)
from cavity.likelihoods import Laplace as LaplaceNoise
from cavity.means import Constant
from cavity.means.basis import Basis
from cavity.numerics.cholesky import NotPositiveDefiniteError
from cavity.rows import base as row_blocks
from tests.latent.explicit import Explicit

KINDS = ("vfe", "tight", "fitc", "dtc", "sor", 0.5)
RNG = np.random.default_rng(0)
N = 60
X = RNG.uniform(-3, 3, (N, 2))
F = np.sin(X[:, 0]) + 0.5 * np.cos(2 * X[:, 1])
Y = F + 0.2 * RNG.standard_normal(N)
OUTLYING = np.where(np.arange(N) % 15 == 4, Y + 4.0, Y)
LABELS = np.where(F > 0, 1.0, -1.0)
COUNTS = RNG.poisson(np.exp(F)).astype(float)
KERNEL = 1.2 * SE([1.0, 1.5])
Z = X[::4] + 0.05
NEW = RNG.uniform(-3, 3, (7, 2))
PROBLEMS = {
    "probit": (Probit(), LABELS),
    "student": (StudentT(0.2, 4.0), OUTLYING),
    "mixture": (MixtureOfGaussians(0.2, 0.1, 10.0), OUTLYING),
    "laplace": (LaplaceNoise(0.3), OUTLYING),
    "poisson": (Poisson(), COUNTS),
}


class Held(Kernel):
    """A kernel that knows nothing but its values at the training rows, by their numbers."""

    def __init__(self, matrix):
        self.matrix = matrix
        self._set_up({})

    def _prepare(self, X, ids):
        return (ids,)

    def _block(self, a, b):
        return self.matrix[np.ix_(a[0], b[0])]

    def _diag(self, a):
        return self.matrix[a[0], a[0]]

    def _pull(self, a, b, G, K):
        return np.zeros(0)

    def _pull_inputs(self, a, b, G, K):
        raise NotImplementedError

    def _pull_diag(self, a, g):
        return np.zeros(0)

    def _pull_diag_inputs(self, a, g):
        raise NotImplementedError


def numerical(f, x, h=1e-5):
    out = np.empty(len(x))
    for i in range(len(x)):
        e = h * (np.arange(len(x)) == i)
        out[i] = (f(x + e) - f(x - e)) / (2 * h)
    return out


# --- equal to dense -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
def test_with_all_rows_inducing_it_is_the_process_itself(kind):
    dense = GP(KERNEL, Gaussian(0.04), Constant(0.3))
    sparse = GP(KERNEL, Gaussian(0.04), Constant(0.3), representation=Inducing(kind=kind, inputs=X))
    (value, gradient), (found, slope) = dense.evidence(X, Y), sparse.evidence(X, Y)
    assert found == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(slope, gradient, rtol=1e-6, atol=1e-6)
    exact, posterior = dense.condition(X, Y), sparse.condition(X, Y)
    np.testing.assert_allclose(posterior.mean(NEW), exact.mean(NEW), atol=1e-6)
    if kind != "sor":
        np.testing.assert_allclose(posterior.variance(NEW), exact.variance(NEW), rtol=1e-6)
        np.testing.assert_allclose(posterior.variance_gradient(NEW), exact.variance_gradient(NEW), atol=1e-5)
    left_out, truth = sparse.leave_one_out(X, Y), dense.leave_one_out(X, Y)
    np.testing.assert_allclose(left_out.mean, truth.mean, atol=1e-6)
    np.testing.assert_allclose(left_out.variance, truth.variance, rtol=1e-6)


@pytest.mark.parametrize("kind", ["fitc", "dtc"])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("rule", [EP(), Laplace(), Variational()], ids=lambda rule: rule.name)
def test_rules_find_what_they_find_on_the_same_matrix_held_densely(kind, problem, rule):
    likelihood, y = PROBLEMS[problem]
    if not rule.supports(likelihood) or (rule.name, problem) == ("variational", "mixture"):
        return  # the latter takes seconds and does what Student-t noise does
    K = Explicit(KERNEL, Z, share=1.0 if kind == "fitc" else 0.0).K(X)
    sparse = rule.infer(
        Inducing(kind=kind, inputs=Z).prior(KERNEL, None, Inputs(X)), Observations(likelihood, y)
    )
    dense = rule.infer(Dense().prior(Held(K), None, Inputs(X)), Observations(likelihood, y))
    assert sparse.status.stage == dense.status.stage
    assert sparse.log_evidence == pytest.approx(dense.log_evidence, abs=1e-6)
    q, p = sparse.q, dense.q
    again = Inducing(kind=kind, inputs=Z).prior(KERNEL, None, Inputs(X)).given(p.sites)
    if problem in ("student", "mixture"):
        assert p.sites.precision.min() < 0
    assert again.log_normalizer == pytest.approx(p.log_normalizer, abs=1e-8)
    np.testing.assert_allclose(again.mean, p.mean, atol=1e-8)
    np.testing.assert_allclose(again.var, p.var, rtol=1e-8)
    np.testing.assert_allclose(q.mean, p.mean, atol=1e-5)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("rule", [EP(), Laplace(), Variational()], ids=lambda rule: rule.name)
def test_gradients_of_rules_in_kernel_and_inducing_inputs(problem, rule):
    likelihood, y = PROBLEMS[problem]
    if not rule.supports(likelihood) or (rule.name, problem) == ("variational", "mixture"):
        return  # the latter takes seconds and does what Student-t noise does
    model, data = GP(
        KERNEL, likelihood, inference=rule, representation=Inducing(kind="fitc", inputs=Z[:6], learn=True)
    ).training(X, y)
    theta = model.theta
    direction = np.random.default_rng(1).standard_normal((3, len(theta)))
    direction[0, 3 + likelihood.theta.size :] = 0.0  # kernel and likelihood alone, then with all inputs
    value, gradient, warm = model.evidence_of(data)
    assert np.isfinite(value)
    assert gradient.shape == theta.shape

    def along(t, u):
        return model.replace(theta + t * u).evidence_of(data, warm)[0]

    for u in direction:
        slope = (along(1e-4, u) - along(-1e-4, u)) / 2e-4
        assert gradient @ u == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "likelihood", [Gaussian(0.1), KnownNoise(np.linspace(0.05, 0.4, N))], ids=["same", "own"]
)
def test_gradients_of_the_evidence_of_gaussian_noise(kind, likelihood):
    kernel = KERNEL + 0.3 * Linear(1.0) + White(0.02)
    representation = Inducing(kind=kind, inputs=Z[:5], learn=True)
    model, data = GP(kernel, likelihood, Constant(0.2), representation=representation).training(X, Y)
    _, gradient, _ = model.evidence_of(data)
    slope = numerical(lambda theta: model.replace(theta).evidence_of(data)[0], model.theta)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["vfe", "tight", 0.5, "dtc"])
def test_ill_conditioned_inducing_inputs_and_little_noise_keep_the_gradient(kind):
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (200, 1))
    y = np.sin(3 * x[:, 0]) + 0.03 * rng.standard_normal(200)
    kernel, noise = 2.0 * SE(0.5), Gaussian(1e-3)
    exact = GP(kernel, noise).evidence(x, y)
    found = GP(kernel, noise, representation=Inducing(60, kind)).evidence(x, y)
    assert found[0] == pytest.approx(exact[0], abs=1e-4)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_rows_and_what_is_kept_change_nothing(kind, monkeypatch):
    tau = np.where(np.arange(N) % 7 == 0, -0.1, 2.0)

    def everything():
        model, data = GP(KERNEL, Gaussian(0.1), representation=Inducing(kind=kind, inputs=Z)).training(X, Y)
        q = model.prior(data.inputs).given(Sites(tau * Y, tau))
        value, gradient, _ = model.evidence_of(data)
        return np.concatenate([[value], gradient, q.mean, q.var, q.pull(1.0, q.mean, q.var).prior.kernel])

    whole = everything()
    monkeypatch.setattr(row_blocks, "BLOCK", 7)
    np.testing.assert_allclose(everything(), whole, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(prior_module, "KEPT_DOUBLES", 0)
    np.testing.assert_allclose(everything(), whole, rtol=1e-9, atol=1e-9)


# --- bounds -------------------------------------------------------------------------------------------------


def test_bounds_are_in_order():
    exact = GP(KERNEL, Gaussian(0.04)).condition(X, Y).log_evidence
    vfe, tight = (
        GP(KERNEL, Gaussian(0.04), representation=Inducing(kind=kind, inputs=Z)).condition(X, Y).log_evidence
        for kind in ("vfe", "tight")
    )
    assert vfe < tight < exact


def test_power_ep_runs_from_the_bound_to_fitc():
    values = [
        GP(KERNEL, Gaussian(0.04), representation=Inducing(kind=kind, inputs=Z)).evidence(X, Y)[0]
        for kind in ("vfe", 0, 1e-9, 1, "fitc")
    ]
    assert values[0] == values[1] == pytest.approx(values[2], abs=1e-5)
    assert values[3] == values[4]


@pytest.mark.parametrize("kind", ["vfe", "tight"])
@pytest.mark.parametrize("problem", ["probit", "student"])
def test_variational_inference_on_a_bound_is_a_bound_on_the_dense_one(kind, problem):
    """With sites it is the optimum of sparse variational inference: E_q[log p] - KL(q(u) || p(u)), q(f|u) = p(f|u)."""
    likelihood, y = PROBLEMS[problem]
    model = GP(KERNEL, likelihood, inference="variational", representation=Inducing(kind=kind, inputs=Z))
    posterior = model.condition(X, y)
    dense = GP(KERNEL, likelihood, inference="variational").condition(X, y)
    assert posterior.log_evidence < dense.log_evidence
    if kind == "vfe":
        # the same bound from its definition, with q(u) read off the posterior process
        m, S = posterior.mean(Z), posterior.covariance(Z)
        K = KERNEL(Z)
        A = np.linalg.solve(K, KERNEL(Z, X))
        mean = A.T @ m
        var = KERNEL.diag(X) + np.einsum("ij,ij->j", A, (S - K) @ A)
        kl = 0.5 * (
            np.trace(np.linalg.solve(K, S))
            + m @ np.linalg.solve(K, m)
            - len(Z)
            + np.linalg.slogdet(K)[1]
            - np.linalg.slogdet(S)[1]
        )
        bound = likelihood.expected_log_prob(y, mean, var).value.sum() - kl
        assert posterior.log_evidence == pytest.approx(bound, abs=1e-5)
        assert lower_bound(posterior.approximation, Observations(likelihood, y)) == pytest.approx(
            bound, abs=1e-5
        )


def test_ep_with_gaussian_noise_is_the_bound_itself():
    for kind in ("vfe", "fitc"):
        representation = Inducing(kind=kind, inputs=X[::2])
        exact = GP(KERNEL, Gaussian(0.5), representation=representation).condition(X, Y)
        ep = GP(KERNEL, Gaussian(0.5), inference="ep", representation=representation).condition(X, Y)
        assert ep.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
        np.testing.assert_allclose(ep.mean(NEW), exact.mean(NEW), atol=1e-6)


def test_the_certified_interval_contains_the_exact_evidence():
    """200 random problems: sizes, inputs, length scales, noise, inducing inputs, kernels, weights, several targets."""
    rng = np.random.default_rng(10)
    gaps = []
    for k in range(200):
        n = int(np.exp(rng.uniform(0, np.log(150)))) if k % 100 else 1200
        D, m = int(rng.integers(1, 5)), int(rng.integers(1, 40))
        x = rng.standard_normal((n, D)) if k % 3 else rng.integers(0, 3, (n, D)).astype(float)
        length = np.exp(rng.uniform(-1.5, 1.5, D))
        kernel = np.exp(rng.normal()) * (SE(length) if k % 2 else Matern(length, nu=1.5))
        noise = float(10.0 ** rng.uniform(-4, 1))
        y = rng.standard_normal((n, 1 + k % 2)) * np.exp(rng.normal()) + np.sin(2 * x[:, :1])
        weight = np.exp(rng.standard_normal(n)) if k % 5 == 0 else None
        mean = Constant(0.5)
        sparse = GP(kernel, Gaussian(noise), mean, representation=Inducing(m, seed=k)).condition(x, y, weight)
        interval = sparse.certify()
        exact = GP(kernel, Gaussian(noise), mean).condition(x, y, weight).log_evidence
        assert interval.lower <= exact <= interval.upper
        assert sparse.log_evidence <= exact + 1e-6 * (1.0 + abs(exact))
        gaps.append(interval.gap)
    assert np.median(gaps) < 0.1


@pytest.mark.parametrize(
    ("kind", "of_determinant"), [("vfe", lambda x: x.sum()), ("tight", lambda x: np.log1p(x).sum())]
)
def test_the_gap_of_a_fit_is_its_formula_and_a_bound(kind, of_determinant):
    """1/2 sum of d / s (or of its logarithm, if the bound is the tight one) + 1/2 v'(K - Q) v, by explicit matrices."""
    noise = 0.04
    posterior = GP(KERNEL, Gaussian(noise), representation=Inducing(kind=kind, inputs=Z)).condition(X, Y)
    status = posterior.with_loss().status
    assert status.gap_kind == "certified"
    K, K_u = KERNEL(X), KERNEL(X, Z)
    E = K - K_u @ np.linalg.solve(KERNEL(Z), K_u.T)
    v = np.linalg.solve(K - E + noise * np.eye(N), Y)
    gap = 0.5 * of_determinant(np.diag(E) / noise) + 0.5 * v @ E @ v
    assert N * status.approximation_gap == pytest.approx(gap, rel=1e-6)
    lost = GP(KERNEL, Gaussian(noise)).condition(X, Y).log_evidence - posterior.log_evidence
    assert 0 < lost <= gap


def test_a_certificate_narrows_with_more_inducing_inputs_and_says_what_it_needs():
    def fitted(m):
        return GP(KERNEL, Gaussian(0.04), representation=Inducing(m)).condition(X, Y)

    few, many = fitted(5).certify(), fitted(40).certify()
    assert many.gap < 0.5 * few.gap
    assert few.rows == N
    assert few.products > many.products
    hasty = fitted(5).certify(max_time=0.0)
    assert hasty.products == 0
    assert hasty.lower <= few.lower < few.upper <= hasty.upper
    dense = GP(KERNEL, Gaussian(0.04)).condition(X, Y)
    assert dense.certify().gap == 0.0
    with pytest.raises(UnsupportedPairError, match="needs Gaussian noise"):
        GP(KERNEL, Probit(), representation=Inducing(5)).condition(X, LABELS).certify()


def test_the_flattest_directions_alone_are_those_of_all(monkeypatch):
    tau = np.where(np.arange(N) % 3 == 0, -0.35, 2.0)
    prior = Inducing(kind="fitc", inputs=Z).prior(KERNEL, None, Inputs(X))
    every = prior.condition(tau)
    monkeypatch.setattr(conditioning, "MOST_NEGATIVE", 5)
    monkeypatch.setattr(conditioning, "FLATTEST", 4)
    some = prior.condition(tau)
    assert some.smallest_curvature == pytest.approx(every.smallest_curvature, rel=1e-8)
    limit = float(np.sort(every._curvatures[0])[2]) + 1e-6
    mine, other = some.flat_directions(limit), every.flat_directions(limit)
    assert len(mine.share) == 3
    for a, b in zip(mine, other):
        np.testing.assert_allclose(np.sort(np.abs(a)), np.sort(np.abs(b)), atol=1e-6)


# --- posteriors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_a_row_out_is_to_fit_without_it(kind):
    model = GP(KERNEL, Gaussian(0.1), Constant(0.3), representation=Inducing(kind=kind, inputs=Z))
    left_out = model.leave_one_out(X, Y)
    for i in (0, 17, 42):
        keep = np.arange(N) != i
        other = model.condition(X[keep], Y[keep]).predict_y(X[i : i + 1])
        assert left_out.mean[i] == pytest.approx(other.mean[0], abs=1e-6)
        assert left_out.variance[i] == pytest.approx(other.variance[0], rel=1e-6)


def test_draws_at_new_inputs_have_the_moments_of_predictions():
    posterior = GP(KERNEL, Gaussian(0.1), representation=Inducing(kind="tight", inputs=Z)).condition(X, Y)
    draws, size = posterior.sample(NEW, 20_000, rng=3), 20_000
    cov = posterior.covariance(NEW)
    assert np.abs((draws.mean(axis=0) - posterior.mean(NEW)) / np.sqrt(np.diag(cov) / size)).max() < 4.5
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=6.0 * np.diag(cov).max() / np.sqrt(size))


def test_weight_functions_say_how_predictions_follow_targets():
    model = GP(KERNEL, Gaussian(0.1), representation=Inducing(kind="fitc", inputs=Z))
    h = model.condition(X, Y).process.weight_functions(NEW)
    np.testing.assert_allclose(h.T @ Y, model.condition(X, Y).mean(NEW), atol=1e-9)


def test_basis_functions_are_integrated_out():
    def fitted(representation):
        return GP(KERNEL, Gaussian(0.1), Basis("linear"), representation=representation).condition(X, Y)

    dense, sparse = fitted("dense"), fitted(Inducing(kind="fitc", inputs=X))
    assert sparse.log_evidence == pytest.approx(dense.log_evidence, abs=1e-6)
    np.testing.assert_allclose(sparse.basis.mean, dense.basis.mean, rtol=1e-5)
    np.testing.assert_allclose(sparse.mean(NEW), dense.mean(NEW), atol=1e-6)
    np.testing.assert_allclose(sparse.variance(NEW), dense.variance(NEW), rtol=1e-5)


def test_outliers_are_found():
    posterior = GP(KERNEL, StudentT(0.2, 4.0), representation=Inducing(15)).condition(X, OUTLYING)
    mean, var = posterior.approximation.q.cavities()
    z = np.abs(OUTLYING - mean) / np.sqrt(var)
    assert set(np.argsort(-z)[:4]) == set(np.flatnonzero(np.arange(N) % 15 == 4))


def test_several_targets_and_updates():
    both = np.column_stack([Y, -Y])
    model = GP(KERNEL, Gaussian(0.1), representation=Inducing(kind="vfe", inputs=Z))
    posterior = model.condition(X, both)
    one = model.condition(X, Y)
    np.testing.assert_allclose(posterior.mean(NEW), np.column_stack([one.mean(NEW), -one.mean(NEW)]))
    assert posterior.log_evidence == pytest.approx(2 * one.log_evidence, rel=1e-10)
    some = model.condition(X[:40], Y[:40]).update(X[40:], Y[40:])
    assert some.log_evidence == pytest.approx(one.log_evidence, rel=1e-10)


@pytest.mark.parametrize("kind", ["auto", 0.25])
@pytest.mark.parametrize("learn", [False, True])
def test_model_files(kind, learn):
    for likelihood, y in ((Gaussian(0.1), Y), (Probit(), LABELS)):
        model = GP(KERNEL, likelihood, representation=Inducing(12, kind, learn=learn))
        assert loads(dumps(model)).representation == model.representation
        posterior = model.condition(X, y)
        again = loads(dumps(posterior))
        np.testing.assert_array_equal(
            again.model.representation.inputs, posterior.model.representation.inputs
        )
        assert again.model.representation.learn == learn
        np.testing.assert_array_equal(again.mean(NEW), posterior.mean(NEW))
        np.testing.assert_allclose(again.variance(NEW), posterior.variance(NEW), rtol=1e-12)


# --- choice -------------------------------------------------------------------------------------------------


def test_the_choice_is_repeatable_and_follows_the_length_scales():
    rng = np.random.default_rng(4)
    rows = rng.uniform(0, 1, (3000, 2))
    kernel = SE([0.1, 100.0])
    first, again, other = (choose(kernel, rows, 30, np.random.default_rng(s)) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.shape == (30, 2)
    gaps = np.diff(np.sort(first[:, 0]))
    assert gaps.max() < 3.0 / 30  # spread along the column that matters
    np.testing.assert_allclose(input_scales(kernel, rows), [0.1, 100.0])
    np.testing.assert_allclose(
        input_scales(2.0 * SE([3.0, 3.0]), rows * [1.0, 1e4]), 3.0 * rows.std(axis=0) * [1.0, 1e4]
    )
    np.testing.assert_allclose(input_scales(SE(2.0).on([1]) + Linear(), rows)[1], 2.0)


def test_lengths_of_standardized_kernels_are_in_units_of_their_columns():
    rows = np.random.default_rng(8).normal(size=(50, 3))
    units = [1.0, 10.0, 0.5]
    for lengths in ([2.0, 2.0, 2.0], [1.0, 3.0, 4.0]):
        found = input_scales(1.0 * Standardized(SE(lengths), units, [5.0, 0.0, 0.0]), rows)
        np.testing.assert_allclose(found, np.multiply(lengths, units))
    along = (1.0 * Standardized(SE(2.0).on([1]), units)).bind(3) + Standardized(Linear(), units)
    np.testing.assert_allclose(input_scales(along, rows)[1], 20.0)


def test_k_means_leaves_less_variance_than_random_rows():
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((2000, 4)) + [5.0, -40.0, 0.0, 300.0]
    kernel = 1.0 * SE(np.full(4, 2.0))

    def left(Z):
        return Inducing(inputs=Z).prior(kernel, None, Inputs(rows)).residual.mean()

    assert left(choose(kernel, rows, 60, rng)) < 0.8 * left(rows[:60])


def test_kernels_of_categories_choose_among_the_rows():
    rng = np.random.default_rng(6)
    rows = np.column_stack([rng.uniform(0, 5, 300), rng.integers(0, 3, 300)])
    kernel = (SE(1.0).on([0]) * Categorical((0, 1, 2)).on([1])).bind(2)
    assert input_scales(kernel, rows) is None
    Z = choose(kernel, rows, 20, rng)
    assert len(Z) == 20
    assert {tuple(z) for z in Z} <= {tuple(x) for x in rows}
    y = np.sin(rows[:, 0]) + rows[:, 1]
    posterior = GP(kernel, Gaussian(0.01), representation=Inducing(20)).condition(rows, y)
    assert np.isfinite(posterior.log_evidence)


def test_more_inducing_inputs_than_different_rows():
    rows = np.repeat(X[:20], 5, axis=0)
    y = np.tile(Y[:20], 5)
    posterior = GP(KERNEL, Gaussian(0.1), representation=Inducing(50)).condition(rows, y)
    assert posterior.model.representation.inputs.shape == (20, 2)
    exact = GP(KERNEL, Gaussian(0.1)).condition(rows, y)
    assert posterior.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
    one = GP(KERNEL, Gaussian(0.1), representation="inducing").condition(X[:1], Y[:1])
    assert one.log_evidence == pytest.approx(GP(KERNEL, Gaussian(0.1)).condition(X[:1], Y[:1]).log_evidence)


def test_inducing_inputs_that_repeat_each_other_are_survived():
    posterior = GP(KERNEL, Gaussian(0.1), representation=Inducing(inputs=np.vstack([Z, Z]))).condition(X, Y)
    other = GP(KERNEL, Gaussian(0.1), representation=Inducing(inputs=Z)).condition(X, Y)
    assert posterior.log_evidence == pytest.approx(other.log_evidence, abs=1e-4)
    np.testing.assert_allclose(posterior.mean(NEW), other.mean(NEW), atol=1e-4)


def test_white_noise_of_the_kernel_belongs_to_cases():
    """Under FITC it is noise: the same as a Gaussian likelihood of the sum of the two variances."""
    representation = Inducing(kind="fitc", inputs=Z)
    noisy = GP(KERNEL + White(0.06), Gaussian(0.04), representation=representation).condition(X, Y)
    plain = GP(KERNEL, Gaussian(0.1), representation=representation).condition(X, Y)
    assert noisy.log_evidence == pytest.approx(plain.log_evidence, abs=1e-7)
    np.testing.assert_allclose(noisy.mean(NEW), plain.mean(NEW), atol=1e-7)


def test_learning_moves_the_inducing_inputs():
    def model(**options):
        return GP(KERNEL.freeze(), Gaussian(fixed(0.04)), representation=Inducing(12, "vfe", **options))

    learned = model(learn=True).learn(X, Y, n_restarts=0, rng=0)
    chosen = model().condition(X, Y)
    assert chosen.log_evidence + 5.0 < learned.posterior.log_evidence
    assert learned.posterior.log_evidence < GP(KERNEL, Gaussian(0.04)).condition(X, Y).log_evidence
    assert len(learned.model.names) == 24
    assert learned.model.names[-1] == "inducing.inputs[11,1]"
    np.testing.assert_array_equal(
        learned.model.representation.inputs, learned.posterior.model.representation.inputs
    )


def test_hyperparameters_are_learned_at_chosen_inputs():
    learned = GP(1.0 * SE(ard), representation=Inducing(30)).learn(X, Y, n_restarts=0, rng=0)
    exact = GP(1.0 * SE(ard)).learn(X, Y, n_restarts=0, rng=0)
    assert learned.model.representation.inputs.shape == (30, 2)
    assert learned.model.names == exact.model.names
    assert exact.posterior.log_evidence - 5.0 < learned.posterior.log_evidence < exact.posterior.log_evidence


# --- refusals -----------------------------------------------------------------------------------------------


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"kind must be 'auto', one of 'fitc'.*got 'nystrom'"):
        Inducing(kind="nystrom")
    with pytest.raises(ValueError, match=r"power of EP between 0 and 1, got 1\.5"):
        Inducing(kind=1.5)
    with pytest.raises(ValueError, match="m must be a number of inducing inputs >= 1, got 0"):
        Inducing(0)
    with pytest.raises(ValueError, match="inducing inputs have 1 columns, the data 2"):
        GP(KERNEL, representation=Inducing(inputs=[[0.0]])).condition(X, Y)
    with pytest.raises(ValueError, match="inputs has a value that is not finite"):
        Inducing(inputs=[[np.nan]])
    with pytest.raises(UnsupportedPairError, match="kind 'fitc'"):
        GP(KERNEL, representation=Inducing(kind="vfe", inputs=Z)).leave_one_out_log_prob(X, Y)


@pytest.mark.parametrize("kind", ["vfe", "fitc"])
def test_observations_without_noise_are_refused(kind):
    inputs = X if kind == "fitc" else Z
    with pytest.raises(NotPositiveDefiniteError, match="give the noise a variance"):
        GP(Matern(1.0), Noiseless(), representation=Inducing(kind=kind, inputs=inputs)).condition(X, Y)
