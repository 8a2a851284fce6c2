"""Theory as functions, against golden values, closed forms, quadrature and Monte Carlo with error bars."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.interpolate import make_smoothing_spline
from scipy.optimize import minimize_scalar
from sklearn.decomposition import KernelPCA

from cavity import GP, GPClassifier, GPRegressor, Param, fixed
from cavity.kernels import (
    SE,
    Constant,
    GammaExponential,
    IntegratedWiener,
    Kernel,
    Linear,
    Matern,
    NeuralNetwork,
    Normalized,
    Periodic,
    PiecewisePolynomial,
    RationalQuadratic,
    ThinPlate,
    White,
    Wiener,
)
from cavity.likelihoods import Gaussian, KnownNoise, Probit, StudentT
from cavity.means import Basis
from cavity.parameters.priors import LogNormal
from cavity.runtime.errors import InputError
from cavity.theory import (
    alignment,
    derivatives,
    equivalent_kernel,
    generalized_cross_validation,
    gibbs_bound,
    information_criteria,
    integrated_evidence,
    lower_bound,
    mismatched_error,
    nystrom,
    ornstein_uhlenbeck,
    ornstein_uhlenbeck_design,
    pac_bayes,
    se_gaussian,
    simulated,
    sollich,
    spectral_density,
    step_approximation,
    symmetric_divergence,
    upcrossings,
)

ROWS = [1, 2, 5, 10, 20, 50, 100]


@pytest.mark.parametrize(
    "kernel",
    [
        SE(0.7),
        Matern(0.7, 2.5),
        Matern(1.3, 0.9),
        RationalQuadratic(0.8, 1.7),
        2.0 * SE(0.5) + Matern(1.0, 1.5),
    ],
)
def test_the_kernel_is_the_transform_of_its_density(kernel):
    def density(s):
        return float(spectral_density(kernel, s))

    for tau in (0.0, 0.4, 1.1):
        wave = {"weight": "cos", "wvar": 2 * np.pi * tau} if tau else {}
        near = quad(density, 0, 3, limit=200, **wave)[0]
        far = quad(density, 3, np.inf, **wave)[0]
        assert 2 * (near + far) == pytest.approx(float(kernel([[0.0]], [[tau]])[0, 0]), abs=1e-7)


@pytest.mark.parametrize("kernel", [SE(0.7), Matern(0.7, 1.5), RationalQuadratic(0.8, 2.2)])
def test_three_dimensions(kernel):
    found = quad(lambda s: 4 * np.pi * s**2 * float(spectral_density(kernel, s, 3)), 0, np.inf, limit=400)[0]
    assert found == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("kernel", [Constant(1.0), White(1.0), Periodic(SE(1.0), 1.0), SE([1.0, 2.0])])
def test_no_spectral_density(kernel):
    with pytest.raises(InputError, match=r"spectral density|one length scale"):
        spectral_density(kernel, 0.1)


def test_smoothness_and_crossings():
    assert [derivatives(Matern(1.0, nu)) for nu in (0.5, 1.0, 1.5, 2.0, 2.5)] == [0, 0, 1, 1, 2]
    assert upcrossings(3.0 * SE(0.5), 1.0) == pytest.approx(np.exp(-1 / 6) / np.pi)
    assert upcrossings(Matern(1.0, 0.5)) == np.inf
    kernel = 2.0 * Matern(0.7, 1.5) + SE(1.5)
    rng = np.random.default_rng(0)
    x = np.linspace(0, 40, 1601)[:, None]
    draws = GP(kernel).sample_prior(x, size=60, rng=rng) - 0.5
    counts = np.sum((draws[:, :-1] < 0) & (draws[:, 1:] > 0), axis=1) / 40
    assert abs(counts.mean() - upcrossings(kernel, 0.5)) < 4 * counts.std() / np.sqrt(60)


@pytest.mark.parametrize(
    ("kernel", "count"),
    [
        (SE(1.0) * Matern(2.0, 1.5), 1),
        (Matern(2.0, 2.5).on(0) ** 2, 2),
        (GammaExponential(1.0, 1.5), 0),
        (PiecewisePolynomial(3.0, 0), 0),
        (PiecewisePolynomial(3.0, 1), 1),
        (Periodic(Matern(1.0, 0.5), 2.0), 0),
        (Normalized(NeuralNetwork()), np.inf),
        (Wiener(-1.0) + Linear(), 0),
        (IntegratedWiener(-1.0, order=2), 2),
    ],
)
def test_smoothness_of_kernels(kernel: Kernel, count: float) -> None:
    """Differences of the process have a variance that is quadratic in the step if and only if it has a derivative."""
    assert derivatives(kernel) == count
    x = np.array([[0.3], [0.3 + 1e-2], [0.3 + 1e-4]])
    K = kernel.bind(1)(x)
    rough, fine = (K[0, 0] + K[i, i] - 2 * K[0, i] for i in (1, 2))
    assert (np.log(rough / fine) / np.log(1e2) > 1.9) == (count >= 1)


@pytest.mark.parametrize(
    ("n", "center", "at_tenth"),
    [
        (10, 11.1444843657, -1.0404597215),
        (50, 14.4921181774, -2.0453946272),
        (250, 17.1754003853, -1.6672474644),
    ],
)
def test_equivalent_kernel_of_the_squared_exponential(n, center, at_tenth):
    kernel = SE(np.sqrt(0.004))
    found = equivalent_kernel(kernel, 0.1, n, [0.0, 0.1])
    assert found == pytest.approx([center, at_tenth], abs=1e-8)


def test_equivalent_kernels_in_closed_form_and_by_weights():
    v, alpha = 0.5 / 402, 5.0
    beta = np.sqrt(alpha**2 + 2 * alpha / v)
    r = np.array([0.0, 0.01, 0.05])
    found = equivalent_kernel(Matern(1 / alpha, 0.5), 0.5, 402.0, r)
    assert found == pytest.approx(alpha / (v * beta) * np.exp(-beta * r), rel=1e-6)
    x = np.linspace(-0.5, 0.5, 401)
    weights = np.linalg.solve(np.exp(-5 * np.abs(x[:, None] - x)) + 0.5 * np.eye(401), np.exp(-5 * np.abs(x)))
    assert weights[200] == pytest.approx(found[0] / 402, rel=0.01)
    assert step_approximation(SE(np.sqrt(0.004)), 0.1, 250.0, [0.0]) == pytest.approx([17.41], abs=0.005)
    with pytest.raises(InputError, match="squared exponential"):
        step_approximation(Matern(1.0), 0.1, 250.0, [0.0])
    with pytest.raises(InputError, match="must be positive"):
        equivalent_kernel(SE(1.0), 0.0, 1.0, [0.0])


def test_equivalent_kernel_of_the_smoothing_spline():
    """Silverman's closed form (1984), and what SciPy's spline does to an impulse."""
    n, variance, noise = 201, 3.0, 0.002
    x, u = np.linspace(0.0, 1.0, n), (variance * (n - 1) / noise) ** 0.25
    r = x[100:130] - x[100]
    found = equivalent_kernel(variance * IntegratedWiener(), noise, n - 1.0, r)
    angle = u * r / np.sqrt(2)
    np.testing.assert_allclose(
        found, 0.5 * u * np.exp(-angle) * np.sin(angle + np.pi / 4), rtol=1e-6, atol=1e-7 * u
    )
    impulse = make_smoothing_spline(x, np.eye(n)[100], lam=noise / variance)(x)
    np.testing.assert_allclose(impulse[100:130], found / (n - 1), atol=2e-3 * impulse[100])
    walk = equivalent_kernel(0.5 * Wiener() + 0.5 * Wiener(), 0.25, 4.0, [0.3])
    np.testing.assert_allclose(walk, 2.0 * np.exp(-4.0 * 0.3), rtol=1e-6)


def test_without_noise_as_many_functions_as_rows_are_known():
    values = np.array([0.1, 0.5, 0.25])
    np.testing.assert_allclose(lower_bound(values, 0.0, [0, 1, 3, 9]), [0.85, 0.35, 0.0, 0.0], atol=1e-15)
    rows = np.random.default_rng(0).standard_normal((4, 1)) * 0.5  # Gaussian inputs, exact observations
    places = np.random.default_rng(1).standard_normal((20_000, 1)) * 0.5
    K, k = SE(0.4)(rows) + 1e-10 * np.eye(4), SE(0.4)(rows, places)
    error = 1.0 - np.einsum("ij,ij->j", k, np.linalg.solve(K, k))
    assert lower_bound(se_gaussian(0.4, 0.5, 40).values, 0.0, [4])[0] < error.mean()


def test_eigenfunctions_of_the_squared_exponential():
    exact = se_gaussian(6**-0.5, 0.5, 6)
    assert exact.values[:4] == pytest.approx([0.5485838, 0.2476396, 0.1117885, 0.0504632], abs=6e-8)
    x, w = np.polynomial.hermite_e.hermegauss(60)
    X, w = 0.5 * x[:, None], w / w.sum()
    phi = exact(X)
    assert phi.T @ (w[:, None] * phi) == pytest.approx(np.eye(6), abs=1e-10)
    numeric = nystrom(SE(6**-0.5), X, w, 6)
    assert numeric.values == pytest.approx(exact.values, abs=1e-10)
    new = np.array([[0.3], [-0.8]])
    assert np.abs(numeric(new)) == pytest.approx(np.abs(exact(new)), rel=1e-6)
    many = se_gaussian(6**-0.5, 0.5, 80)
    assert many(new) @ (many.values[:, None] * many(new).T) == pytest.approx(SE(6**-0.5)(new), abs=1e-9)


def test_learning_curves():
    values = se_gaussian(6**-0.5, 0.5, 80).values
    bound = [0.2782175446, 0.1792270348, 0.0938658990, 0.0555002848, 0.0320703718, 0.0151232590, 0.0084316147]
    curve = [0.7010703619, 0.4901273093, 0.2038527183, 0.0905714943, 0.0425656140, 0.0172659936, 0.0090780196]
    assert lower_bound(values, 0.1, ROWS) == pytest.approx(bound, abs=1e-9)
    assert sollich(values, 0.1, ROWS) == pytest.approx(curve, abs=1e-9)
    found = simulated(
        SE(6**-0.5), 0.1, lambda size, rng: 0.5 * rng.standard_normal((size, 1)), [2, 10, 50], rng=1
    )
    for mean, error, reference, its_error in zip(
        found.error, found.standard_error, (0.4546, 0.1076, 0.0225), (0.0057, 0.0020, 0.0003)
    ):
        assert abs(mean - reference) < 4 * np.hypot(error, its_error)
    assert np.all(found.error > lower_bound(values, 0.1, [2, 10, 50]))


def test_the_error_of_a_wrong_model_by_monte_carlo():
    rng = np.random.default_rng(0)
    X, new = rng.uniform(0, 3, (6, 1)), np.array([[1.0], [2.5]])
    both = np.vstack([X, new])
    truth, model = 1.5 * Matern(0.8, 1.5), SE(1.2)
    expected = mismatched_error(model, 0.3, truth, 0.1, X, new)
    L = np.linalg.cholesky(truth(both) + 1e-12 * np.eye(8))
    f = rng.standard_normal((40_000, 8)) @ L.T
    y = f[:, :6] + np.sqrt(0.1) * rng.standard_normal((40_000, 6))
    predicted = y @ np.linalg.solve(model(X) + 0.3 * np.eye(6), model(X, new))
    squares = (predicted - f[:, 6:]) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - expected) < 4 * squares.std(axis=0) / 200)
    assert mismatched_error(model, 0.3, truth, 0.1, np.zeros((0, 1)), new) == pytest.approx([1.5, 1.5])


def test_the_exact_curve_of_ornstein_and_uhlenbeck():
    golden = [0.432332, 0.288480, 0.138630, 0.071485, 0.035341, 0.013768, 0.006787]
    assert ornstein_uhlenbeck(1.0, ROWS) == pytest.approx(golden, abs=6e-7)
    for rate, n in (
        (1e-6, 10),
        (1.0, 3),
        (1e4, 40),
        (30.0, 2000),
    ):  # against random designs, also at extremes
        rng = np.random.default_rng(n)
        draws = [ornstein_uhlenbeck_design(rate, rng.uniform(size=n)) for _ in range(400)]
        error = np.std(draws) / 20
        assert abs(ornstein_uhlenbeck(rate, [n])[0] - np.mean(draws)) < 4 * error
    assert 1e8 * ornstein_uhlenbeck(1.0, [10**8])[0] == pytest.approx(
        2 / 3, rel=1e-6
    )  # gaps of mean square 2 / n^2
    assert ornstein_uhlenbeck_design(1.0, []) == ornstein_uhlenbeck(1.0, [0])[0] == 1.0
    x = np.array([0.1, 0.35, 0.8])
    grid = np.linspace(0, 1, 4001)[:, None]
    posterior = GP(Matern(0.5, 0.5), Gaussian(1e-10)).condition(x[:, None], np.zeros(3))
    assert ornstein_uhlenbeck_design(2.0, x) == pytest.approx(
        np.trapezoid(posterior.variance(grid), dx=1 / 4000), abs=1e-5
    )
    regular = (np.arange(100) + 0.5) / 100
    assert 100 * ornstein_uhlenbeck_design(1.0, regular) == pytest.approx(0.33498, abs=6e-6)


@pytest.mark.parametrize(("n", "bounded"), [(10, 0.62171), (40, 0.62482), (160, 0.62499)])
def test_equivalent_and_other_processes(n, bounded):
    x = np.linspace(0, 1, n)[:, None]
    assert symmetric_divergence(Matern(1.0, 0.5), 0.5 * Matern(0.5, 0.5), x) == pytest.approx(
        bounded, abs=6e-6
    )
    grows = symmetric_divergence(Matern(1.0, 0.5), Matern(0.5, 0.5), x)
    assert grows == pytest.approx({10: 1.9, 40: 9.4, 160: 39.4}[n], abs=0.06)


def test_divergence_of_processes_with_different_means():
    """At one input, two normal densities of variances 2 and 1/2 whose means are 3 apart."""
    found = symmetric_divergence(2.0 * Matern(1.0, 0.5), 0.5 * Matern(1.0, 0.5), [[0.0]], [3.0])
    assert found == pytest.approx(0.5 * (4.0 + 0.25) - 1.0 + 0.5 * 9.0 * (0.5 + 2.0), rel=1e-12)


def test_alignment():
    y = np.array([-1.0, 1.0, 1.0])
    X = np.array([[-1.0], [1.0], [2.0]])
    assert alignment(Linear(1.0, 0.0), X, y) == pytest.approx(16 / (3 * 6))
    assert alignment(Linear(1.0, 0.0), y[:, None], y) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kind", "golden"), [("seeger", 0.1973789232), ("mcallester", 0.2755266720), ("maurer", 0.1866670643)]
)
def test_bounds_from_their_ingredients(kind, golden):
    assert gibbs_bound(0.05, 10.0, 200, 0.05, kind) == pytest.approx(golden, abs=1e-9)


def test_pac_bayes_of_five_points():
    posterior = GP(4.0 * SE(1.0), Probit()).condition(
        [[-2.0], [-1.0], [0.5], [1.0], [2.5]], [-1, -1, 1, -1, 1]
    )
    found = pac_bayes(posterior, 0.05, chosen_from=1)
    assert found.divergence == pytest.approx(1.5340959082, abs=1e-6)
    assert found.training_error == pytest.approx(0.2742297173, abs=1e-6)
    assert pac_bayes(posterior, 0.05, chosen_from=100).bound > found.bound
    with pytest.raises(InputError, match="chosen_from"):
        pac_bayes(posterior, chosen_from=0)
    with pytest.raises(InputError, match="strictly between"):
        pac_bayes(posterior, 1.5, chosen_from=1)


def test_hyperparameters_learned_from_the_same_rows_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 1))
    fitted = GPClassifier(n_restarts=0).fit(X, X[:, 0] > 0)
    y = np.where(X[:, 0] > 0, 1, -1)
    learned = GP(1.0 * SE(1.0), Probit()).learn(X[:15], y[:15], n_restarts=0)
    for same in (fitted, fitted.posterior_, learned.posterior):
        with pytest.raises(InputError, match="learned from the rows"):
            pac_bayes(same, chosen_from=1)
    other = learned.model.condition(X[15:], y[15:])  # rows that learning has not seen
    assert 0 < pac_bayes(other, chosen_from=1).bound < 1


def test_pac_bayes_holds():
    rng = np.random.default_rng(0)
    failures = 0
    for _ in range(40):
        X = rng.uniform(-2, 2, (1040, 1))
        y = np.where(rng.uniform(size=1040) < 0.1, -1, 1) * np.sign(np.sin(2 * X[:, 0]))
        posterior = GP(4.0 * SE(0.7), Probit()).condition(X[:40], y[:40])
        found = pac_bayes(posterior, 0.01, chosen_from=1)
        f = posterior.predict_f(X[40:])
        gibbs = float(
            np.mean(f.cdf(np.zeros(1000)) * (y[40:] > 0) + f.survival(np.zeros(1000)) * (y[40:] < 0))
        )
        failures += gibbs > found.bound
    assert failures == 0


def test_information_criteria():
    rng = np.random.default_rng(0)
    X = np.linspace(0, 5, 30)[:, None]
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(30)
    model = GP(1.0 * SE(1.0), Gaussian(0.04))
    found = information_criteria(model.condition(X, y))
    K = np.exp(-0.5 * (X - X.T) ** 2)
    smoother = K @ np.linalg.inv(K + 0.04 * np.eye(30))
    residual = y - smoother @ y
    log_likelihood = -15 * np.log(2 * np.pi * 0.04) - residual @ residual / 0.08
    assert found.degrees_of_freedom == pytest.approx(np.trace(smoother), rel=1e-8)
    assert found.degrees_of_freedom == pytest.approx(model.degrees_of_freedom(X, y), rel=1e-8)
    assert found.aic == pytest.approx(-2 * log_likelihood + 2 * np.trace(smoother), rel=1e-8)
    assert found.bic == pytest.approx(-2 * log_likelihood + np.log(30) * np.trace(smoother), rel=1e-8)
    with pytest.raises(InputError, match="Gaussian noise"):
        information_criteria(GP(1.0 * SE(1.0), StudentT(0.1, 4.0)).condition(X[:5], y[:5]))


def test_how_many_rows_halve_the_error():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (1200, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(1200)
    model = GPRegressor(1.0 * SE(1.0), likelihood=Gaussian(0.09), mean="zero", objective=None).fit(
        X[:120], y[:120]
    )
    curve = model.learning_curve()
    assert np.all(np.diff(curve.rms_error) < 0)
    assert 0.7 < curve.off_by < 1.4
    more = int(curve.rows_for(0.5))
    assert 240 < more < 1200
    grid = np.linspace(0.2, 9.8, 200)[:, None]

    def error(n):
        process = GP(1.0 * SE(1.0), Gaussian(0.09)).condition(X[:n], y[:n])
        return np.sqrt(process.variance(grid).mean())

    assert error(more) / error(108) == pytest.approx(0.5, abs=0.08)
    assert curve.rms_error_of_y == pytest.approx(np.sqrt(curve.rms_error**2 + 0.09))
    with pytest.raises(InputError, match="needs Gaussian noise"):
        GPRegressor(likelihood="student-t", objective=None).fit(X[:10], y[:10]).learning_curve()
    with pytest.raises(InputError, match="strictly between"):
        curve.rows_for(2.0)


SPLINE_X = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.25], [0.2, 0.7]])
SPLINE_Y = np.array([0, 1, -1, 0.5, 0.8, -0.3])


@pytest.mark.parametrize(
    ("ratio", "golden"), [(0.001, 0.1230826609), (0.01, 0.1423939906), (0.1, 0.1605729007)]
)
def test_generalized_cross_validation_of_a_thin_plate(ratio, golden):
    model = GP(4.0 * ThinPlate.over(SPLINE_X), Gaussian(4.0 * ratio), mean=Basis("linear"))
    assert generalized_cross_validation(model.condition(SPLINE_X, SPLINE_Y)) == pytest.approx(
        golden, abs=1e-9
    )


def test_learning_by_generalized_cross_validation():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 3, 40))[:, None]
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.standard_normal(40)
    model = GPRegressor(
        1.0 * ThinPlate.over(x),
        likelihood=Gaussian(0.1),
        mean=Basis("linear"),
        objective="gcv",
        random_state=0,
    ).fit(x, y)
    found = generalized_cross_validation(model.posterior_)
    plain = lambda ratio: GP(1.0 * ThinPlate.over(x), Gaussian(ratio), mean=Basis("linear"))  # noqa: E731
    best = minimize_scalar(
        lambda t: generalized_cross_validation(plain(np.exp(t)).condition(x, y)),
        bounds=(-12, 3),
        method="bounded",
    )
    assert found == pytest.approx(best.fun, rel=1e-6)
    residual = y - model.predict(x)  # the noise variance is Wahba's estimate
    dof = information_criteria(model.posterior_).degrees_of_freedom
    assert model.likelihood_.variance == pytest.approx(residual @ residual / (40 - dof), rel=1e-3)


@pytest.mark.parametrize("mean", [Basis("linear"), "zero"])
def test_its_gradient(mean):
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0, 3, (15, 2)), rng.standard_normal((15, 2))
    model = GP(1.3 * SE([0.8, 1.1]), Gaussian(0.2), **({} if mean == "zero" else {"mean": mean}))
    bound, data = model.training(x, y)
    _, gradient = bound.leave_one_out_log_prob_of(data, averaged=True)
    h = 1e-5
    for i, e in enumerate(np.eye(len(bound.theta))):
        ends = [
            bound.replace(bound.theta + s * h * e).leave_one_out_log_prob_of(data, averaged=True)[0]
            for s in (1, -1)
        ]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=1e-8)


def test_generalized_cross_validation_needs_one_noise_level():
    x, y = np.arange(5.0)[:, None], np.array([0.0, 1.0, 0.5, 0.2, 0.9])
    with pytest.raises(ValueError, match="one noise variance"):
        GP(1.0 * SE(1.0), KnownNoise([0.1, 0.2, 0.1, 0.1, 0.3])).learn(x, y, objective="gcv")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: gibbs_bound(1.2, 0.0, 10, 0.01), "training_error must lie between"),
        (lambda: gibbs_bound(0.2, -1.0, 10, 0.01), "divergence must not be negative"),
        (lambda: gibbs_bound(0.2, 1.0, 0, 0.01), "n must be at least 1"),
        (lambda: symmetric_divergence(SE(1.0), SE(2.0), [[0.0], [0.0]]), "singular"),
        (lambda: alignment(SE(1.0), [[0.0], [1.0]], [0.0, 0.0]), "not all zero"),
    ],
)
def test_bad_input_is_named(bad, words):
    with pytest.raises(InputError, match=words):
        bad()


def test_the_evidence_with_a_length_scale_integrated_over():
    rng = np.random.default_rng(0)
    X = np.linspace(0, 6, 40)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    prior = LogNormal(0.0, 1.0)
    model = GP(fixed(1.0) * SE(Param(1.5, prior=prior)), Gaussian(fixed(0.01)))
    found = integrated_evidence(model, X, y, most_draws=4096)

    def joint(length):
        at = GP(fixed(1.0) * SE(length), Gaussian(fixed(0.01))).evidence(X, y)[0]
        return np.exp(at - found.log_integral) * stats.lognorm(1.0).pdf(length)

    exact = found.log_integral + np.log(quad(joint, 0.3, 6.0, limit=200, points=[1.0, 1.5, 2.0])[0])
    assert found.log_integral == pytest.approx(exact, abs=0.1)  # the density is skewed
    assert found.log_integral_by_weights == pytest.approx(exact, abs=0.01)
    assert found.reliable


def test_centered_eigenvalues_are_those_of_kernel_principal_components():
    X = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 1.0]])
    components = KernelPCA(kernel="precomputed").fit(SE(1.0)(X))
    golden = [1.1177070323, 0.6321205588, 0.3697264192, 0.1389612281]
    assert components.eigenvalues_[:4] == pytest.approx(golden, abs=1e-9)


@pytest.mark.parametrize(("order", "value"), [(1, 1.0), (2, 5 / 6), (3, 0.2583333333), (4, 0.0414682540)])
def test_spline_kernels_of_any_order(order, value):
    """int (x - u)_+^(m-1) (x' - u)_+^(m-1) / (m-1)!^2 at 1 and 2: Wiener processes, integrated m - 1 times."""
    kernel = Wiener() if order == 1 else IntegratedWiener(order=order - 1)
    assert kernel([[1.0]], [[2.0]])[0, 0] == pytest.approx(value, abs=1e-9)
