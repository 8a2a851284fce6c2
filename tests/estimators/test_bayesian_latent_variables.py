"""Latent variables with distributions for places: published figures, differences, the bound against its limit."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity.estimators import BayesianGPLVM
from cavity.estimators.bayesian_latent_variables import bound
from cavity.estimators.latent_places import grouped
from cavity.estimators.uncertain_places import ArdSE, Gradient, collapsed, divergence, psi1, psi2

MEANS, SPREADS = np.array([[0.3], [-0.8]]), np.array([[0.2], [0.05]])
INDUCING = np.array([[-1.0], [0.0], [1.5]])
KERNEL = ArdSE(1.3, np.array([0.81]))
Y = np.array([[0.5, -0.2], [-0.4, 0.7]])
pytestmark = pytest.mark.filterwarnings("ignore:the optimizer stopped")


def nothing(m, u):
    return Gradient(np.zeros_like(m), np.zeros_like(m), np.zeros_like(u), np.zeros(m.shape[1]), 0.0, 0.0)


@parametrize_with_checks([BayesianGPLVM(1, n_inducing=5, max_iter=20)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_published_figures():
    first = [[0.5042893442, 1.1134620528, 0.5707279066], [1.2326414409, 0.8696383620, 0.0582409711]]
    second = [1.8679793284, 1.6591459979, 0.2694579177, 2.0727817341, 0.6408762724, 0.4253842952]
    assert psi1(KERNEL, MEANS, SPREADS, INDUCING) == pytest.approx(np.array(first), abs=1e-9)
    assert psi2(KERNEL, MEANS, SPREADS, INDUCING)[np.triu_indices(3)] == pytest.approx(second, abs=1e-9)
    value = collapsed(KERNEL, MEANS, SPREADS, INDUCING, 10.0, Y, nothing(MEANS, INDUCING)).value
    assert value == pytest.approx(-6.9974619203, abs=1e-8)
    assert divergence(MEANS, SPREADS) == pytest.approx(1.7925850930, abs=1e-9)
    certain = collapsed(KERNEL, MEANS, 1e-14 + 0 * SPREADS, INDUCING, 10.0, Y, nothing(MEANS, INDUCING)).value
    assert certain == pytest.approx(-5.4376254843, abs=1e-8)  # Titsias' bound


def test_expected_kernels_by_monte_carlo():
    rng = np.random.default_rng(0)
    kernel = ArdSE(0.8, np.array([0.5, 1.2]))
    m, s, u = rng.standard_normal((3, 2)), rng.uniform(0.1, 0.6, (3, 2)), rng.standard_normal((4, 2))
    draws = m + np.sqrt(s) * rng.standard_normal((40_000, 3, 2))
    K = np.stack([kernel(d, u) for d in draws.reshape(-1, 3, 2)[:8000]])
    error = K.std(axis=0) / np.sqrt(8000)
    assert np.all(np.abs(K.mean(axis=0) - psi1(kernel, m, s, u)) < 4.5 * error)
    products = np.einsum("nij,nik->njk", K, K)
    error = products.std(axis=0) / np.sqrt(8000)
    assert np.all(np.abs(products.mean(axis=0) - psi2(kernel, m, s, u)) < 4.5 * error)


def test_gradients_with_missing_entries():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((7, 3))
    data[2, 1] = np.nan
    groups = grouped(data)
    values = {
        "m": rng.standard_normal((7, 2)),
        "s": rng.uniform(0.05, 0.5, (7, 2)),
        "u": rng.standard_normal((4, 2)),
        "l": np.array([0.9, 1.4]),
        "c": np.array([1.3]),
        "b": np.array([4.0]),
    }

    def at(m, s, u, l, c, b):  # noqa: E741
        return bound(ArdSE(float(c[0]), l), m, s, u, float(b[0]), groups)

    g = at(**values)[1]
    found = {
        "m": g.mean,
        "s": g.spread,
        "u": g.inducing,
        "l": g.squares,
        "c": [g.variance],
        "b": [g.precision],
    }
    h = 1e-6
    for name, value in values.items():
        for i in list(np.ndindex(value.shape))[:6]:
            e = np.zeros_like(value)
            e[i] = h
            ends = [at(**{**values, name: value + sign * e})[0] for sign in (1, -1)]
            assert np.asarray(found[name])[i] == pytest.approx(
                (ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-5
            )


def test_it_finds_how_many_coordinates_are_needed():
    rng = np.random.default_rng(0)
    t = rng.uniform(-2, 2, 80)
    Y = np.column_stack([np.sin(1.5 * t), np.cos(t), t, 0.3 * t**2, np.tanh(2 * t), t**3 / 4])
    Y += 0.05 * rng.standard_normal(Y.shape)
    model = BayesianGPLVM(4, n_inducing=15, random_state=0).fit(Y[:60])
    assert np.sort(model.relevance_)[-2] < 0.1  # one coordinate
    one = int(np.argmax(model.relevance_))
    assert abs(np.corrcoef(model.embedding_[:, one], t[:60])[0, 1]) > 0.97
    others = np.delete(model.variances_, one, axis=1)
    assert others.mean() > 0.5  # nothing is learned of the rest: the prior
    assert model.variances_[:, one].mean() < 0.05
    places, covariance = model.transform(Y[60:], return_cov=True)
    assert abs(np.corrcoef(places[:, one], t[60:])[0, 1]) > 0.97
    assert np.isfinite(covariance).all()
    assert np.sqrt(np.mean((model.inverse_transform(places) - Y[60:]) ** 2)) < 0.15


def test_the_bound_is_below_the_evidence_of_certain_places():
    """With all spreads small it is Titsias' bound, which an exact process at the same places exceeds."""
    rng = np.random.default_rng(1)
    m, data = rng.standard_normal((12, 1)), rng.standard_normal((12, 2))
    kernel = ArdSE(1.0, np.array([1.0]))
    value = collapsed(kernel, m, np.full((12, 1), 1e-12), m[:6], 5.0, data, nothing(m, m[:6])).value
    A = kernel(m, m) + 0.2 * np.eye(12)
    exact = -0.5 * (
        2 * np.linalg.slogdet(A)[1] + np.vdot(data, np.linalg.solve(A, data)) + 24 * np.log(2 * np.pi)
    )
    assert value < exact
    full = collapsed(kernel, m, np.full((12, 1), 1e-12), m, 5.0, data, nothing(m, m)).value
    assert full == pytest.approx(exact, abs=1e-4)
