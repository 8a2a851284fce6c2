"""Component families: densities against SciPy, M-steps against weighted maxima, coordinates, sampling."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize

from cavity.em import (
    Bernoulli,
    Categorical,
    DegeneracyError,
    Exponential,
    Gaussian,
    Mixture,
    MixtureEmission,
    Plugin,
    Poisson,
    Product,
    StudentT,
    gradient_m_step,
)
from cavity.em.families import make_components

RNG = np.random.default_rng(0)
N = 60
COUNTS = RNG.poisson([2.0, 5.0], size=(N, 2)).astype(float)
TIMES = RNG.exponential([2.0, 5.0], size=(N, 2))
BITS = (RNG.random((N, 3)) < 0.4).astype(float)
SYMBOLS = RNG.integers(0, 4, size=(N, 1)).astype(float)
REALS = RNG.normal(size=(N, 2))
MIXED = np.column_stack([REALS, COUNTS[:, :1]])
RESP = RNG.dirichlet(np.ones(2), size=N)

CASES = {
    "poisson": (Poisson(), COUNTS),
    "exponential": (Exponential(), TIMES),
    "bernoulli": (Bernoulli(), BITS),
    "categorical": (Categorical(), SYMBOLS),
    "categorical-prior": (Categorical(concentration=2.0), SYMBOLS),
    "gaussian-full": (Gaussian(), REALS),
    "gaussian-tied": (Gaussian("tied"), REALS),
    "gaussian-diag": (Gaussian("diag"), REALS),
    "gaussian-spherical": (Gaussian("spherical"), REALS),
    "student-t": (StudentT(), REALS),
    "student-t-shared": (StudentT("diag", dof="shared"), REALS),
    "student-t-fixed": (StudentT("tied", dof=4.0), REALS),
    "gmm": (MixtureEmission(2, concentration=1.5), REALS),
    "product": (Product([("gaussian", [0, 1]), ("poisson", [2])]), MIXED),
}


def fitted(name):
    family, x = CASES[name]
    family.check_data(x)
    family = family.bind(x, np.ones(N), 2)
    return family, x, family.from_responsibilities(x, RESP, np.random.default_rng(1))


@pytest.mark.parametrize("name", CASES)
def test_coordinates_go_back_and_forth(name):
    family, _, params = fitted(name)
    v = family.pack(params, params)
    back = family.unpack(v, params)
    for key, value in params.items():
        assert_allclose(back[key], value, rtol=1e-9, atol=1e-12)
    assert v.ndim == 1
    projected = family.project(back)
    assert set(projected) == set(params)


@pytest.mark.parametrize("name", CASES)
def test_m_step_is_the_maximum_of_q(name):
    """No nearby parameters have a larger Q plus log prior (what a weighted M-step promises)."""
    family, x, params = fitted(name)
    stats_ = family.accumulate(params, x, RESP)
    new = family.maximize(stats_, params)

    def objective(p):
        return family.expected_log_prob(stats_, p) + family.log_prior(p)

    best = objective(new)
    assert best >= objective(params) - 1e-10
    v = family.pack(new, new)
    rng = np.random.default_rng(2)
    for _ in range(50):
        candidate = family.project(family.unpack(v + 1e-3 * rng.normal(size=len(v)), new))
        assert objective(candidate) <= best + 1e-9


@pytest.mark.parametrize("name", CASES)
def test_parameters_can_be_kept(name):
    family, x, params = fitted(name)
    stats_ = family.accumulate(params, x, RESP)
    kept = family.maximize(stats_, params, frozenset())
    for key, value in params.items():
        assert_allclose(kept[key], value, rtol=0, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_permutation_moves_densities(name):
    family, x, params = fitted(name)
    order = np.array([1, 0])
    swapped = family.permute(params, order)
    assert_allclose(family.log_prob(swapped, x), family.log_prob(params, x)[:, order], rtol=1e-12)
    assert_allclose(family.mean(swapped), family.mean(params)[order], rtol=1e-12)
    assert sorted(family.order(params)) == [0, 1]


@pytest.mark.parametrize("name", CASES)
def test_samples_have_the_families_moments(name):
    family, _, params = fitted(name)
    if "dofs" in params:
        params = {**params, "dofs": np.full(2, 8.0)}
    draws = family.sample(params, np.repeat([0, 1], 40_000), np.random.default_rng(0)).reshape(2, 40_000, -1)
    cov = family.covariance(params)
    for k in range(2):
        sd = np.sqrt(np.diagonal(cov[k]))
        assert_allclose(draws[k].mean(axis=0), family.mean(params)[k], atol=5 * sd.max() / 200)
        assert_allclose(np.atleast_2d(np.cov(draws[k].T)), cov[k], atol=0.12 * np.max(cov[k]))
    if family.nonnegative:
        assert draws.min() >= 0


@pytest.mark.parametrize("name", CASES)
def test_missing_entries_drop_out(name):
    """A row without any observation says nothing, and other rows are not touched."""
    family, x, params = fitted(name)
    holes = x.copy()
    holes[0] = np.nan
    logs = family.log_prob(params, holes)
    assert_allclose(logs[0], 0.0, atol=1e-12)
    assert_allclose(logs[1:], family.log_prob(params, x)[1:], rtol=1e-9)
    with_hole = family.maximize(family.accumulate(params, holes, RESP), params)
    assert all(np.all(np.isfinite(v)) for v in with_hole.values())
    assert family.n_parameters(params) > 0
    assert family.degenerate(params, RESP.sum(axis=0)) == []


def test_densities_are_scipys():
    family, x, params = fitted("poisson")
    assert_allclose(family.log_prob(params, x)[:, 1], stats.poisson(params["rates"][1]).logpmf(x).sum(axis=1))
    family, x, params = fitted("exponential")
    expected = stats.expon(scale=params["scales"][1]).logpdf(x).sum(axis=1)
    assert_allclose(family.log_prob(params, x)[:, 1], expected)
    family, x, params = fitted("bernoulli")
    expected = stats.bernoulli(params["probabilities"][0]).logpmf(x.astype(int)).sum(axis=1)
    assert_allclose(family.log_prob(params, x)[:, 0], expected)
    family, x, params = fitted("categorical")
    assert_allclose(family.log_prob(params, x)[:, 0], np.log(params["emissionprob"][0][x[:, 0].astype(int)]))
    family, x, params = fitted("product")
    gauss = stats.multivariate_normal(params["means@0"][0], params["covariances@0"][0]).logpdf(x[:, :2])
    expected = gauss + stats.poisson(params["rates@1"][0]).logpmf(x[:, 2:]).sum(axis=1)
    assert_allclose(family.log_prob(params, x)[:, 0], expected)
    family, x, params = fitted("gmm")
    parts = [
        w * stats.multivariate_normal(params["means"][m], params["covariances"][m]).pdf(x)
        for m, w in enumerate(params["weights"][0])
    ]
    assert_allclose(family.log_prob(params, x)[:, 0], np.log(np.sum(parts, axis=0)))


def test_dead_components_keep_their_parameters():
    for name in (
        "poisson",
        "categorical",
        "gaussian-full",
        "gaussian-diag",
        "gaussian-tied",
        "student-t",
        "gmm",
    ):
        family, x, params = fitted(name)
        resp = np.column_stack([np.ones(N), np.zeros(N)])
        new = family.maximize(family.accumulate(params, x, resp), params)
        for value in new.values():
            assert np.all(np.isfinite(value))
        if name.startswith("gaussian") and name != "gaussian-tied":
            assert_allclose(new["means"][1], params["means"][1])
        assert 1 in family.degenerate(new, np.array([float(N), 0.0])) or name == "gaussian-tied"


def test_edges_of_the_parameter_space_are_errors_without_pseudo_counts():
    zeros = np.zeros((10, 1))
    with pytest.raises(DegeneracyError, match="pseudo_count"):
        Mixture(1, Poisson(pseudo_count=0.0)).fit(zeros)
    assert Mixture(1, Poisson()).fit(zeros).means_[0, 0] > 0
    with pytest.raises(DegeneracyError, match="pseudo_count"):
        Mixture(1, Bernoulli(pseudo_count=0.0)).fit(np.ones((10, 1)))
    with pytest.raises(ValueError, match="pseudo_count"):
        Mixture(1, Poisson(pseudo_count=-1.0)).fit(np.ones((10, 1)))


def test_mixture_of_poissons_is_the_direct_maximum():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.poisson(2, 300), rng.poisson(9, 200)])[:, None].astype(float)
    model = Mixture(2, Poisson(pseudo_count=0.0), random_state=0, tol=1e-13, max_iter=5000).fit(x)

    def negative(v):
        w = 1 / (1 + np.exp(-v[0]))
        logs = [
            np.log(w) + stats.poisson(np.exp(v[1])).logpmf(x),
            np.log1p(-w) + stats.poisson(np.exp(v[2])).logpmf(x),
        ]
        return -np.logaddexp(*logs).sum()

    best = minimize(negative, [0.4, np.log(2), np.log(9)], tol=1e-12)
    assert_allclose(model.log_likelihood_, -best.fun, rtol=1e-9)
    assert_allclose(model.means_.ravel(), np.exp(best.x[1:]), rtol=1e-4)


@pytest.mark.parametrize("components", ["exponential", "bernoulli", "categorical"])
def test_mixtures_of_other_families_are_monotone(components):
    x = {"exponential": TIMES, "bernoulli": BITS, "categorical": SYMBOLS}[components]
    model = Mixture(2, components, random_state=0, n_init=2, accelerate=True).fit(x)
    assert np.min(np.diff(model.history_)) > -1e-10
    assert model.predict(x).shape == (N,)
    assert np.isfinite(model.bic(x))


def test_mixture_of_mixed_features():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 200)
    x = np.column_stack([rng.normal(3 * labels, 1), rng.poisson(2 + 6 * labels)])
    model = Mixture(2, [("gaussian", [0]), ("poisson", [1])], random_state=0).fit(x)
    assert np.mean(model.predict(x) == labels) > 0.95
    assert_allclose(model.means_, [[0, 2], [3, 8]], atol=0.6)


class Gumbel:
    """A component known only through its density and a gradient step: generalized EM."""

    n_parameters = 2

    def __init__(self, location, log_scale):
        self.v = np.array([location, log_scale])

    def _log_prob(self, v, x):
        z = (x[:, 0] - v[0]) / np.exp(v[1])
        return -z - np.exp(-z) - v[1]

    def log_prob(self, x):
        return self._log_prob(self.v, x)

    def fit_weighted(self, x, w):
        def gradient(v):
            scale = np.exp(v[1])
            z = (x[:, 0] - v[0]) / scale
            return np.array([w @ (1 - np.exp(-z)) / scale, w @ (z - z * np.exp(-z) - 1)]) / w.sum()

        v = gradient_m_step(lambda v: w @ self._log_prob(v, x) / w.sum(), gradient, self.v, steps=3)
        return Gumbel(*v)

    def sample(self, n, rng):
        return rng.gumbel(self.v[0], np.exp(self.v[1]), size=(n, 1))

    def mean(self):
        return np.array([self.v[0] + np.euler_gamma * np.exp(self.v[1])])


def test_plugin_components_with_a_gradient_step():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.gumbel(0, 1, 400), rng.gumbel(10, 2, 300)])[:, None]
    model = Mixture(2, Plugin([Gumbel(0.0, 0.0), Gumbel(5.0, 0.0)]), random_state=0, tol=1e-9).fit(x)
    assert model.converged_
    assert_allclose([c.v[0] for c in model.params_["components"]], [0, 10], atol=0.5)
    assert_allclose(np.exp([c.v[1] for c in model.params_["components"]]), [1, 2], rtol=0.2)
    assert np.min(np.diff(model.history_)) > -1e-10
    assert model.sample(5, random_state=0)[0].shape == (5, 1)
    assert model.n_parameters_ == 5
    family = model.family_
    assert family.expected_log_prob({"x": x, "resp": np.ones((700, 2))}, model.params_) < 0
    for call in (
        lambda: family.pack(model.params_, model.params_),
        lambda: family.unpack(np.zeros(2), model.params_),
        lambda: family.covariance(model.params_),
    ):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(ValueError, match="component objects"):
        Mixture(3, Plugin([Gumbel(0.0, 0.0)])).fit(x)


def test_plugin_components_without_a_mean_keep_their_order():
    class Flat:
        n_parameters = 0

        def log_prob(self, x):
            return np.zeros(len(x))

        def fit_weighted(self, x, w):
            return self

    model = Mixture(2, Plugin([Flat(), Flat()])).fit(np.zeros((5, 1)))
    assert model.converged_
    stats_ = model.family_.accumulate(model.params_, np.zeros((5, 1)), np.ones((5, 2)))
    assert set(stats_) == {"x", "resp"}


BAD = [
    ("poisson", [[-1.0]], r"Negative values in data: X\[0, 0\] is -1"),
    ("poisson", [[1.0], [0.5]], r"whole numbers: X\[1, 0\] is 0.5"),
    ("exponential", [[-0.5]], "Negative"),
    ("bernoulli", [[2.0]], "zeros and ones"),
    ("categorical", [[0.0, 1.0]], "one column"),
    ("categorical", [[-1.0]], "Negative"),
    (Categorical(3), [[3.0]], "n_symbols=3"),
    ([("gaussian", [0])], [[0.0, 1.0]], "exactly once"),
]


@pytest.mark.parametrize(("family", "x", "message"), BAD)
def test_unsuitable_data_are_refused(family, x, message):
    with pytest.raises(ValueError, match=message):
        make_components(family).check_data(np.array(x))


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (Categorical(concentration=0.5), "concentration"),
        (MixtureEmission(0), "n_mix"),
        (MixtureEmission(2, concentration=0.5), "concentration"),
    ],
)
def test_unsuitable_settings_are_refused(family, message):
    with pytest.raises(ValueError, match=message):
        family.bind(SYMBOLS, np.ones(N), 2)


def test_unknown_symbols_are_named():
    family, _, params = fitted("categorical")
    with pytest.raises(ValueError, match="symbol 7"):
        family.log_prob(params, np.array([[7.0]]))


@pytest.mark.parametrize("unit", [1e-8, 1e-4, 1.0, 1e6])
def test_exponential_components_move_with_the_units_of_time(unit):
    x = np.random.default_rng(0).exponential(3.0, size=(50, 1))
    one = Mixture(1, "exponential").fit(x * unit)
    assert_allclose(one.params_["scales"], [[np.mean(x * unit)]], rtol=1e-12)
    mixed = np.concatenate([x, 100.0 * x])
    two = Mixture(2, "exponential", random_state=0, tol=1e-10)
    expected = two.fit(mixed).params_["scales"]
    assert_allclose(two.fit(mixed * unit).params_["scales"], expected * unit, rtol=1e-6)


def test_exponential_components_of_zeros_alone_have_a_density():
    assert np.all(Mixture(1, "exponential").fit(np.zeros((5, 1))).params_["scales"] > 0)


def test_rates_and_probabilities_on_the_edge_have_scipys_densities():
    x = np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 0.0], [np.nan, 3.0]])
    rates = np.array([[0.0, 3.0], [2.0, 0.0]])
    with np.errstate(all="raise"):
        found = Poisson().bind(np.ones((2, 2)), np.ones(2), 2).log_prob({"rates": rates}, x)
    expected = [
        [sum(stats.poisson.logpmf(v, m) for v, m in zip(row, rate) if v == v) for rate in rates] for row in x
    ]
    assert_allclose(found, expected)

    bits = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [np.nan, 0.0]])
    p = np.array([[0.0, 1.0], [0.3, 0.0], [1.0, 0.6]])
    with np.errstate(all="raise"):
        found = Bernoulli().bind(np.eye(2), np.ones(2), 3).log_prob({"probabilities": p}, bits)
    expected = [
        [sum(stats.bernoulli.logpmf(v, m) for v, m in zip(row, q) if v == v) for q in p] for row in bits
    ]
    assert_allclose(found, expected)


def test_symbols_never_seen_are_parameters():
    symbols = np.tile([[0], [1]], (20, 1))
    model = Mixture(2, Categorical(n_symbols=3), random_state=0).fit(symbols)
    assert np.all(model.params_["emissionprob"][:, 2] == 0)
    assert model.n_parameters_ == model.selection_[0].n_parameters == 1 + 2 * 2
