"""Observations conditioned on their neighbors: dense if all are, differences otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cavity import GP, GPClassifier, GPRegressor, Neighbors, load
from cavity.inference.base import UnsupportedPairError
from cavity.kernels import SE, Constant, Linear, Matern, Periodic, RationalQuadratic, White
from cavity.kernels.radial_sum import RadialSum
from cavity.latent.base import Capability, CapabilityError, Inputs
from cavity.latent.neighbors.gap import sampled_gap
from cavity.latent.neighbors.search import earlier_neighbors, far_apart_first, nearest, other_neighbors
from cavity.likelihoods import Gaussian, KnownNoise, Noiseless, StudentT
from cavity.means import Basis
from cavity.means import Linear as LinearMean

RNG = np.random.default_rng(0)
N = 23
X = RNG.standard_normal((N, 3))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(N)
NEW = RNG.standard_normal((9, 3))
KERNELS = {
    "se": 1.5 * SE([1.0, 2.0, 3.0]),
    "matern 1/2": 0.7 * Matern(1.3, nu=0.5),
    "matern 3/2": 0.7 * Matern([1.3, 1.0, 2.0], nu=1.5),
    "matern 5/2": Matern(1.3, nu=2.5),
    "rational quadratic": 2.0 * RationalQuadratic([1.0, 2.0, 1.0], alpha=0.8),
    "sum": 1.5 * SE([1.0, 2.0, 3.0]) + 0.4 * (2.0 * Matern(0.7, nu=1.5)).on([2]) + Constant(0.3),
    "not compiled": SE(1.0) * Matern(2.0, nu=1.5) + 0.2 * Linear() + White(0.1),
    "order learned": 1.2 * Matern(1.0, nu=1.7),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
ALL = Neighbors(N - 1, scales=np.ones(3))
FEW = Neighbors(4, scales=np.ones(3))


def explicit(kernel, noise, graph, y) -> float:
    """The definition: a product of conditional normal densities, by explicit matrices."""
    A, total = kernel(X) + np.diag(noise), 0.0
    for i, near in zip(graph.points, graph.neighbors):
        c = near[near >= 0]
        b = np.linalg.solve(A[np.ix_(c, c)], A[c, i])
        total += multivariate_normal(b @ y[c], A[i, i] - b @ A[c, i]).logpdf(y[i])
    return total


# --- evidence -----------------------------------------------------------------------------------------------


@every_kernel
def test_with_all_other_rows_as_neighbors_nothing_is_approximated(kernel):
    dense, near = (GP(kernel, Gaussian(0.1), "constant", representation=r) for r in ("dense", ALL))
    (value, gradient), (other, its_gradient) = dense.evidence(X, Y), near.evidence(X, Y)
    assert other == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(its_gradient, gradient, rtol=1e-7, atol=1e-8)
    a, b = dense.condition(X, Y), near.condition(X, Y)
    np.testing.assert_allclose(b.mean(NEW), a.mean(NEW), atol=1e-8)
    np.testing.assert_allclose(b.variance(NEW), a.variance(NEW), rtol=1e-7)
    np.testing.assert_allclose(b.covariance(NEW), a.covariance(NEW), atol=1e-8)
    loo, its_loo = dense.leave_one_out(X, Y), near.leave_one_out(X, Y)
    np.testing.assert_allclose(its_loo.mean, loo.mean, atol=1e-8)
    np.testing.assert_allclose(its_loo.variance, loo.variance, rtol=1e-8)


@every_kernel
def test_few_neighbors_against_the_definition_and_differences(kernel):
    noise = np.exp(RNG.standard_normal(N) - 2.0)
    model = GP(kernel, KnownNoise(noise), LinearMean(0.3, [0.1, -0.2, 0.4]), representation=FEW)
    value, gradient = model.evidence(X, Y)
    graph = model.prior(X).graph
    assert value == pytest.approx(explicit(kernel, noise, graph, Y - model.mean(X)), rel=1e-10)
    for i, step in enumerate(1e-5 * np.eye(len(model.theta))):
        ends = [model.replace(model.theta + s * step).evidence(X, Y)[0] for s in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-6, abs=2e-6)


def test_derivatives_in_the_noise_and_of_several_targets_with_basis_functions():
    y = np.column_stack([Y, np.cos(X[:, 1])])
    for mean in ("zero", Basis("linear")):
        model = GP(KERNELS["sum"], Gaussian(0.2), mean, representation=FEW)
        gradient = model.evidence(X, y)[1]
        for i, step in enumerate(1e-5 * np.eye(len(model.theta))):
            ends = [model.replace(model.theta + s * step).evidence(X, y)[0] for s in (1, -1)]
            assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-6, abs=2e-6)


@pytest.mark.parametrize("variance", [None, 2.0])
def test_basis_functions_integrated_out(variance):
    y = np.column_stack([Y, np.cos(X[:, 1])])
    mean = Basis("linear") if variance is None else Basis("linear", None, variance * np.eye(4))
    dense, near = (GP(KERNELS["sum"], Gaussian(0.1), mean, representation=r) for r in ("dense", ALL))
    (value, gradient), (other, its_gradient) = dense.evidence(X, y), near.evidence(X, y)
    assert other == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(its_gradient, gradient, rtol=1e-6, atol=1e-7)
    a, b = dense.condition(X, y), near.condition(X, y)
    np.testing.assert_allclose(b.mean(NEW), a.mean(NEW), atol=1e-7)
    np.testing.assert_allclose(b.variance(NEW), a.variance(NEW), rtol=1e-6)
    np.testing.assert_allclose(b.covariance(NEW), a.covariance(NEW), atol=1e-7)
    np.testing.assert_allclose(near.leave_one_out(X, y).mean, dense.leave_one_out(X, y).mean, atol=1e-7)
    np.testing.assert_allclose(
        near.leave_one_out(X, y).variance, dense.leave_one_out(X, y).variance, rtol=1e-6
    )


def test_weights_of_rows_are_powers_of_their_factors():
    weight = np.exp(RNG.standard_normal(N))
    dense, near = (GP(KERNELS["se"], Gaussian(0.1), representation=r) for r in ("dense", ALL))
    (value, gradient), (other, its_gradient) = (m.evidence(X, Y, weight) for m in (dense, near))
    assert other == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(its_gradient, gradient, rtol=1e-7, atol=1e-8)


def test_the_protocol_of_observations():
    """R = B'D^-1 B by products, its inverse, root, diagonal and pullback."""
    prior = FEW.prior(KERNELS["se"], None, Inputs(X))
    given = prior.observe(np.full(N, 0.3))
    R, root = given.apply(np.eye(N)), given.half_solve(np.eye(N))
    np.testing.assert_allclose(root.T @ root, R, atol=1e-12)
    np.testing.assert_allclose(given.half_solve_transposed(np.eye(N)), root.T, atol=1e-12)
    np.testing.assert_allclose(given.unapply(R), np.eye(N), atol=1e-9)
    np.testing.assert_allclose(given.unexplained, np.diag(R), rtol=1e-12)
    assert given.noisy_log_det == pytest.approx(-np.linalg.slogdet(R)[1], rel=1e-10)
    left = RNG.standard_normal((N, 2))
    fixed = np.linalg.solve(R, left)

    def value(theta) -> float:
        other = FEW.prior(KERNELS["se"].replace(theta), None, Inputs(X)).observe(np.full(N, 0.3))
        return float(-np.sum(fixed * other.apply(fixed)) + 0.7 * other.noisy_log_det)

    found = KERNELS["se"].to_theta(given.pull_prior(left, None, 0.7).kernel)
    for i, step in enumerate(1e-6 * np.eye(len(found))):
        theta = KERNELS["se"].theta
        assert found[i] == pytest.approx(
            (value(theta + step) - value(theta - step)) / 2e-6, rel=1e-6, abs=1e-7
        )
    np.testing.assert_allclose(prior.times(np.eye(N)), KERNELS["se"](X), atol=1e-12)


# --- faults and extremes ------------------------------------------------------------------------------------


def test_what_neighbors_cannot_do_is_refused_by_name():
    prior = FEW.prior(KERNELS["se"], None, Inputs(X))
    with pytest.raises(
        CapabilityError, match=r"'neighbors'.*Gaussian noise.*representation='inducing'"
    ) as info:
        prior.condition(np.ones(N))
    assert info.value.capability is Capability.SITES
    with pytest.raises(CapabilityError, match="inducing"):
        GPRegressor(likelihood=StudentT(), representation="neighbors").fit(X, Y)
    with pytest.raises(CapabilityError, match="inducing"):
        GPClassifier(representation="neighbors").fit(X, Y > 0)
    with pytest.raises(ValueError, match=r"kernel that measures distances.*Periodic.*inducing"):
        GP(Periodic(SE(1.0), 1.0), representation="neighbors").evidence(X, Y)
    for wrong in (0, -1, 2.5, "many"):
        with pytest.raises(ValueError, match="k must be an integer >= 1"):
            Neighbors(wrong)
    with pytest.raises(ValueError, match="positive numbers"):
        Neighbors(scales=[1.0, 0.0])
    with pytest.raises(ValueError, match=r"2 scales.*3 columns"):
        GP(SE(1.0), representation=Neighbors(scales=[1.0, 1.0])).evidence(X, Y)


def test_repeated_rows_with_and_without_noise():
    twice, y = np.vstack([X, X[:5]]), np.concatenate([Y, Y[:5] + 0.1])
    near = Neighbors(len(y) - 1, scales=np.ones(3))
    dense, other = (GP(KERNELS["se"], Gaussian(1e-4), representation=r) for r in ("dense", near))
    assert other.evidence(twice, y)[0] == pytest.approx(dense.evidence(twice, y)[0], rel=1e-7)
    exact = GP(KERNELS["matern 3/2"], Noiseless(), representation=Neighbors(10, scales=np.ones(3)))
    status = exact.condition(twice, np.concatenate([Y, Y[:5]])).status
    assert status.jitter > 0.0  # as a dense matrix has
    posterior = exact.condition(X, Y)
    assert posterior.status.jitter == 0.0
    np.testing.assert_allclose(posterior.mean(X), Y, atol=1e-8)
    again = posterior.covariance(np.vstack([NEW, NEW]))  # equal new rows are one value
    np.testing.assert_allclose(again[:9, :9], again[9:, :9], atol=1e-7)


def test_one_and_two_rows():
    for n in (1, 2, 9):
        dense, near = (GP(1.0 * SE(1.0), Gaussian(0.1), representation=r) for r in ("dense", Neighbors(5)))
        a, b = dense.condition(X[:n], Y[:n]), near.condition(X[:n], Y[:n])
        if n < 7:
            assert b.log_evidence == pytest.approx(a.log_evidence)
            np.testing.assert_allclose(b.mean(NEW), a.mean(NEW), atol=1e-10)


def test_a_model_file_repeats_predictions(tmp_path):
    posterior = GP(KERNELS["sum"], Gaussian(0.1), representation=Neighbors(6)).condition(X, Y)
    posterior.save(tmp_path / "near.cavity")
    again = load(tmp_path / "near.cavity")
    np.testing.assert_array_equal(again.mean(NEW), posterior.mean(NEW))
    np.testing.assert_array_equal(again.variance(NEW), posterior.variance(NEW))


# --- search -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 300, 2600])
def test_nearest_rows_against_sorting_all_distances(n):
    rows = np.random.default_rng(n).standard_normal((n, 4))
    d = np.sum((rows[:, None] - rows) ** 2, axis=2) if n <= 300 else None
    k = 5
    found = earlier_neighbors(rows, k)
    for i in {0, 1, 4, n // 2, n - 1} & set(range(n)):
        own = np.sum((rows - rows[i]) ** 2, axis=1) if d is None else d[i]
        np.testing.assert_array_equal(found[i][found[i] >= 0], np.argsort(own[:i])[:k])
        others = other_neighbors(rows, k)[i]
        np.testing.assert_array_equal(others[others >= 0], [j for j in np.argsort(own) if j != i][:k])
    np.testing.assert_array_equal(earlier_neighbors(rows, k, first=n - 2), found[n - 2 :])
    new = rows[:3] + 0.01
    np.testing.assert_array_equal(nearest(new, rows, 1)[:, 0], [0, 1, 2])


def test_the_order_begins_far_apart_and_has_every_row_once():
    rows = np.random.default_rng(0).standard_normal((900, 2))
    order = far_apart_first(rows, np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(order), np.arange(900))
    first, last = rows[order[:20]], rows[order[-20:]]

    def closest(A):
        d = np.sum((A[:, None] - A) ** 2, axis=2) + 1e9 * np.eye(len(A))
        return d.min()

    assert closest(first) > 30 * closest(last)
    same = far_apart_first(np.ones((10, 2)), np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(same), np.arange(10))


def test_kernels_as_sums_of_radial_functions():
    form = RadialSum.of(KERNELS["sum"], 3)
    assert form is not None
    assert form.variance == pytest.approx(KERNELS["sum"].diag(X[:1])[0])
    for other in (
        Linear(),
        SE(1.0) * SE(2.0),
        Matern(1.0, nu=1.7),
        SE(1.0, loadings=np.ones((3, 1))),
        White(),
    ):
        assert RadialSum.of(other, 3) is None


# --- what is lost -------------------------------------------------------------------------------------------


def test_the_sampled_gap_is_part_of_the_divergence_from_the_exact_process():
    rng, n = np.random.default_rng(0), 300
    rows, noise = rng.uniform(0, 4, (n, 3)), np.full(n, 0.01)
    prior = Neighbors(5, scales=np.ones(3)).prior(1.0 * SE(1.5), None, Inputs(rows))
    found = sampled_gap(prior, noise, rng, rows=n)
    exact = np.linalg.slogdet((1.0 * SE(1.5))(rows) + np.diag(noise))[1]
    divergence = 0.5 * (prior.observe(noise).noisy_log_det - exact) / n
    assert 0.6 * divergence < found.nats < divergence + 1e-9
    some = sampled_gap(prior, noise, rng, rows=100)
    assert abs(some.nats - found.nats) < 4.0 * some.error
    told = GP(1.0 * SE(1.5), Gaussian(0.01), representation=prior.representation).condition(rows, rows[:, 0])
    assert told.loss().kind == "sampled"
    assert told.loss().gap == pytest.approx(found.nats, rel=0.3)
    all_rows = Neighbors(n, scales=np.ones(3)).prior(1.0 * SE(1.5), None, Inputs(rows))
    assert abs(sampled_gap(all_rows, noise, rng, rows=20).nats) < 1e-9


def test_neighbors_have_no_certificate():
    posterior = GP(KERNELS["se"], Gaussian(0.1), representation=FEW).condition(X, Y)
    for refused in (posterior.certify, posterior.refine):
        with pytest.raises(UnsupportedPairError, match=r"'neighbors'.*representation='inducing'"):
            refused()
