"""Starting values read off the data: sensible for every kind of parameter, in whatever units."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from cavity import kernels, likelihoods, means
from cavity.gp import GP
from cavity.kernels import SE, ard
from cavity.learning.data_scale import dominant_frequencies, without_far
from cavity.learning.starts import DataScale, Starts
from cavity.parameters.param import Param, fixed
from cavity.parameters.priors import LogNormal
from cavity.parameters.units import Unit

RNG = np.random.default_rng(0)
N = 120
X = np.column_stack([np.sort(RNG.uniform(0, 10, N)), RNG.uniform(-300, 300, N)])
Y = 50.0 + 8.0 * np.sin(2 * np.pi * X[:, 0] / 2.5) + RNG.standard_normal(N)
SD = Y.std()


PARTS = [
    SE(1.0, loadings=np.ones((1, 1))),
    kernels.White(),
    kernels.Linear(),
    kernels.Polynomial(),
    kernels.NeuralNetwork(),
    kernels.Gibbs(),
    kernels.SpectralMixture(),
    kernels.Additive(SE(1.0)),
    kernels.Categorical(3, loadings=np.ones((3, 1))),
    likelihoods.EpsilonInsensitive(),
    likelihoods.MixtureOfGaussians(),
    likelihoods.NegativeBinomial(),
    means.Constant(),
    means.Linear(),
    means.Polynomial(),
]


def start(kernel, likelihood=None, mean="constant", X=X, y=Y, **options):
    """The first start as a model."""
    model = GP(kernel, likelihood or likelihoods.Gaussian(), mean=mean).bind(X.shape[1])
    starts = Starts.of(model, X, y, **options)
    assert np.all(starts.box[:, 0] <= starts.first)
    assert np.all(starts.first <= starts.box[:, 1])
    assert np.all(starts.box[:, 0] < starts.box[:, 1])
    assert np.all(starts.spread > 0)
    assert np.all(starts.scale > 0)
    return model.replace(starts.first)


# --- sizes --------------------------------------------------------------------------------------------------


def test_targets_far_from_the_bulk_are_brought_to_its_edge():
    y = np.array([-1.0, 1.0, 0.0, 2.0, -2.0, 1e6])
    bulk, reach = without_far(y)
    np.testing.assert_array_equal(bulk[:5], y[:5])
    assert 10 < bulk[5] < 30
    assert reach == pytest.approx(1e6, rel=1e-5)
    for ordinary in (y[:5], np.array([0.0, 0.0, 0.0, 5.0])):  # most equal: their spread is no measure
        np.testing.assert_array_equal(without_far(ordinary)[0], ordinary)
        assert without_far(ordinary)[1] == 0.0


@pytest.mark.parametrize("noise", [likelihoods.StudentT(), likelihoods.MixtureOfGaussians()], ids=repr)
def test_heavy_tails_start_from_the_bulk_of_the_targets(noise):
    coded = Y.copy()
    coded[7] = 1e7
    kernel = 1.0 * SE()
    first, usual = (start(kernel, noise, y=y) for y in (coded, Y))
    for name in ("se.variance", "mean.value", noise.names[-2 if len(noise.names) == 3 else 0]):
        assert first.get(name) == pytest.approx(usual.get(name), rel=1.5)
    if isinstance(noise, likelihoods.MixtureOfGaussians):
        assert first.likelihood.outlier_scale == pytest.approx(1e7, rel=0.1)
        assert usual.likelihood.inflation == pytest.approx(noise.inflation)
    exponential = start(kernel, likelihoods.Laplace(), y=coded)  # these cannot leave such a target aside
    assert exponential.get("se.variance") == pytest.approx(np.var(coded))


def test_sizes_of_simple_data():
    X = np.array([[0.0, 5.0], [1.0, 5.0], [3.0, 5.0]])
    data = DataScale.of(X, np.array([1.0, 2.0, 6.0]))
    np.testing.assert_allclose(data.distance, [2.0, 5.0])  # gaps 1, 2, 3; a constant column by its value
    np.testing.assert_allclose(data.extent, [3.0, 5.0])
    np.testing.assert_allclose(data.spacing, [1.0, 5.0])
    assert data.f_center == pytest.approx(3.0)
    assert data.f_sd == data.y_sd == pytest.approx(np.std([1.0, 2.0, 6.0]))


def test_weights_count_as_repetitions():
    y, w = np.array([1.0, 2.0, 6.0]), np.array([1.0, 2.0, 3.0])
    weighted = DataScale.of(np.zeros((3, 1)), y, sample_weight=w)
    repeated = DataScale.of(np.zeros((6, 1)), np.repeat(y, [1, 2, 3]))
    assert weighted.y_sd == pytest.approx(repeated.y_sd)
    assert weighted.f_center == pytest.approx(repeated.f_center)


def test_several_targets_share_the_mean_of_their_variances():
    data = DataScale.of(X, np.column_stack([Y, 10 * Y]))
    assert data.y_sd == pytest.approx(SD * np.sqrt((1 + 100) / 2))


@pytest.mark.parametrize("value", [0.0, 5.0, -1e12, 1e-12])
def test_constant_targets_have_a_positive_spread(value):
    data = DataScale.of(np.arange(4.0)[:, None], np.full(4, value))
    assert 0 < data.y_sd < np.inf
    assert data.y_sd <= max(abs(value), 1.0)


# --- frequencies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_dominant_frequency_is_found(scale):
    x = scale * (1000 + X[:, 0])
    y = (
        3 * np.cos(2 * np.pi * x / (2.5 * scale))
        + np.cos(2 * np.pi * x / (0.7 * scale))
        + 1e-2 * (x / scale) ** 2
    )
    found = dominant_frequencies(x, y, 2)
    np.testing.assert_allclose(1 / found, [2.5 * scale, 0.7 * scale], rtol=0.03)


def test_too_few_points_have_no_frequency():
    assert dominant_frequencies(np.arange(4.0), np.arange(4.0), 1).size == 0
    assert dominant_frequencies(np.arange(40.0), np.zeros(40), 1).size == 0


# --- kernels ------------------------------------------------------------------------------------------------


def test_default_kernel():
    k = start(1.0 * SE(ard)).kernel
    assert k.get("se.variance") == pytest.approx(SD**2)
    lengths = k.get("se.lengthscale")
    assert 2 < lengths[0] < 8  # inputs over 10 units
    assert 100 < lengths[1] < 500  # over 600


def test_first_start_ignores_what_the_kernel_came_with():
    assert start(7.0 * SE(1e-3)).kernel == start(1.0 * SE(50.0)).kernel


def test_terms_of_a_sum_start_at_different_lengths():
    k = start(1.0 * SE(1.0) + 1.0 * SE(1.0) + 1.0 * SE(1.0), X=X[:, :1]).kernel
    lengths = [k.get(f"se{i}.lengthscale") for i in ("", "_2", "_3")]
    assert lengths[0] > 2 * lengths[1] > 4 * lengths[2]
    assert k.get("se.variance") == pytest.approx(SD**2 / 3)


def test_products_share_one_variance():
    k = start((2.0 * SE(1.0)) * (3.0 * kernels.Matern(1.0)), X=X[:, :1]).kernel
    assert k.get("se.variance") * k.get("matern.variance") == pytest.approx(SD**2)


def test_columns_chosen_by_on_give_the_lengths():
    k = start(SE(1.0).on(1) + SE(1.0).on(0)).kernel
    assert k.get("se.lengthscale") > 50
    assert k.get("se_2.lengthscale") < 10


@pytest.mark.parametrize("kernel", [kernels.Periodic(SE(1.0), period=1.0), kernels.Cosine(1.0)], ids=repr)
def test_period_from_the_spectrum(kernel):
    assert start(1.0 * kernel, X=X[:, :1]).kernel.get(f"{kernel.label}.period") == pytest.approx(
        2.5, rel=0.05
    )


def test_periods_by_column():
    k = start(kernels.Periodic(SE(1.0), period=ard)).kernel
    periods = k.get("periodic.period")
    assert periods[0] == pytest.approx(2.5, rel=0.05)
    assert 1 < periods[1] <= 600


def test_length_on_the_circle_of_a_periodic_kernel_has_no_units():
    assert start(kernels.Periodic(SE(30.0), period=1.0), X=X[:, :1]).kernel.get("se.lengthscale") == 1.0


def test_spectral_mixture_starts_at_the_peaks():
    x = X[:, :1]
    y = 3 * np.cos(2 * np.pi * x[:, 0] / 2.5) + np.cos(2 * np.pi * x[:, 0] / 0.7)
    k = start(kernels.SpectralMixture([1.0, 1.0], [1.0, 1.0], [0.1, 0.1]), X=x, y=y).kernel
    np.testing.assert_allclose(k.means, [1 / 2.5, 1 / 0.7], rtol=0.05)
    np.testing.assert_allclose(k.weights, np.full(2, y.var() / 2))
    assert np.all((k.scales > 0.01) & (k.scales < 1.0))


def test_spectral_mixture_in_two_columns():
    table = np.ones((3, 2))
    k = start(kernels.SpectralMixture(np.ones(3), table, table)).kernel
    assert k.means.shape == (3, 2)
    assert k.means[0, 0] == pytest.approx(0.4, rel=0.05)
    assert np.all(k.scales[:, 1] < 0.1 * k.scales[:, 0])  # the second column is sixty times as wide


def test_white_noise_starts_as_noise():
    k = start(1.0 * SE(1.0) + kernels.White(1.0)).kernel
    assert k.get("white.variance") == pytest.approx(0.1 * SD**2)


def expected_variance(kernel, X) -> float:
    """Of a function's values at the data."""
    K = kernel(X)
    return float(np.mean(np.diag(K)) - np.mean(K))


@pytest.mark.parametrize(
    "kernel",
    [
        1.0 * kernels.Wiener(),
        1.0 * kernels.IntegratedWiener(),
        1.0 * kernels.Linear(1.0),
        1.0 * kernels.Polynomial(3),
        1.0 * kernels.NeuralNetwork(1.0),
        1.0 * kernels.Gibbs(1.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("shift", [0.0, 2000.0])
def test_non_stationary_kernels_start_at_the_targets_variance(kernel, shift):
    x = X[:, :1] + shift
    k = start(kernel, X=x).kernel
    assert 0.2 * SD**2 < expected_variance(k, x) < 5 * SD**2


@pytest.mark.parametrize(
    "kernel", [kernels.Linear(1.0), kernels.Linear(ard), kernels.Linear(1.0, bias=0)], ids=repr
)
def test_slopes_of_a_linear_kernel_have_units(kernel):
    k = start(kernel).kernel
    variance = np.broadcast_to(k.variance, 2)
    reach = np.sqrt(variance) * X.std(axis=0)
    assert np.prod(reach) == pytest.approx(SD**2 / 2, rel=1e-6)  # both columns together: the targets' spread


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_polynomial_kernel_has_the_targets_variance(degree):
    x = X[:, :1]
    k = start(kernels.Polynomial(degree), X=x).kernel
    assert 0.1 * SD**2 < np.mean(k.diag(x)) < 10 * SD**2


def test_additive_kernel_shares_the_variance_among_orders():
    k = start(kernels.Additive(SE(ard), order=2)).kernel
    assert np.mean(k.diag(X)) == pytest.approx(SD**2)
    assert k.get("se.lengthscale[0]") < 10 < 50 < k.get("se_2.lengthscale[0]")


def test_powers_of_kernels():
    k = start((1.0 * SE(1.0)) ** 2).kernel
    assert np.mean(k.diag(X)) == pytest.approx(SD**2)


def test_warped_inputs_are_measured_after_the_warp():
    k = start(kernels.Warped(SE(1.0), "exp"), X=X[:, :1]).kernel
    assert k.get("se.lengthscale") > 100


def test_loadings_and_slopes_step_in_units_of_the_inputs():
    model = GP(SE(1.0, loadings=np.full((2, 1), 0.01))).bind(2)
    starts = Starts.of(model, X, Y)
    at = [i for i, name in enumerate(model.names) if "loadings" in name]
    np.testing.assert_allclose(starts.scale[at], 1 / X.std(axis=0))
    np.testing.assert_allclose(starts.first[at], 0.01)
    model = GP(kernels.Gibbs(ard, ard)).bind(2)
    starts = Starts.of(model, X, Y)
    np.testing.assert_allclose(starts.scale[2:4], 1 / X.std(axis=0))


def test_categorical_columns_start_without_units():
    codes = RNG.integers(0, 3, (N, 1)).astype(float)
    k = start(1.0 * kernels.Categorical(3, 0.3), X=codes).kernel
    assert k.get("categorical.variance") == pytest.approx(SD**2)


def test_a_part_of_ones_own_says_what_it_measures():
    class Mine(SE):
        _units: ClassVar = {"lengthscale": Unit.GIVEN}

    assert Mine(1.0, loadings=np.ones((1, 1))).units == {
        "lengthscale": Unit.GIVEN,
        "loadings": Unit.INVERSE_LENGTH,  # as the class it is made from says
    }
    assert start(Mine(0.123), X=X[:, :1]).kernel.lengthscale == pytest.approx(0.123)


def test_a_kernel_of_ones_own_starts_at_the_size_of_the_data():
    """Names mean nothing: what is listed counts."""

    class Ramp(kernels.RationalQuadratic):
        _units: ClassVar = {"lengthscale": Unit.GIVEN, "alpha": Unit.LENGTH}

    k = start(Ramp(0.5, alpha=0.123), X=X[:, :1]).kernel
    assert k.lengthscale == pytest.approx(0.5)
    assert k.alpha == pytest.approx(start(SE(1.0), X=X[:, :1]).kernel.lengthscale)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_every_unit_listed_is_that_of_a_parameter(part):
    """A misspelt name would silently be sought around the value given."""
    inherited = {"lengthscale", "variance", "period", "scale"}  # usual names of kernels and likelihoods
    own = {name for cls in type(part).__mro__ for name in cls.__dict__.get("_units", {})} - inherited
    assert own <= set(part.params)


# --- means --------------------------------------------------------------------------------------------------


def test_constant_mean_starts_at_the_targets_mean():
    assert start(SE(1.0)).mean.value == pytest.approx(Y.mean())


@pytest.mark.parametrize("shift", [0.0, 2000.0])
def test_linear_mean_starts_at_least_squares(shift):
    Z = X + shift
    y = 3.0 + 2.0 * Z[:, 0] - 0.1 * Z[:, 1] + 1e-3 * RNG.standard_normal(N)
    model = start(1.0 * SE(1.0), mean="linear", X=Z, y=y)
    np.testing.assert_allclose(model.mean.slopes, [2.0, -0.1], atol=1e-3)
    assert model.kernel.get("se.variance") < 1e-4  # of what the line leaves over


def test_polynomial_mean_starts_at_least_squares():
    x = X[:, :1]
    y = 1.0 - x[:, 0] + 0.5 * x[:, 0] ** 2
    model = start(SE(1.0), mean=means.Polynomial(2), X=x, y=y + 1e-4 * RNG.standard_normal(N))
    np.testing.assert_allclose(model.mean.coefficients[:, 0], [-1.0, 0.5], atol=1e-3)


def test_one_row_and_a_linear_mean():
    model = start(SE(1.0), mean="linear", X=X[:1], y=Y[:1])
    assert model.mean.intercept == pytest.approx(Y[0])
    np.testing.assert_array_equal(model.mean.slopes, 0.0)


def test_a_basis_leaves_the_rest_to_the_kernel():
    y = 100.0 * X[:, 0] + np.sin(X[:, 0])
    k = start(1.0 * SE(1.0), mean=means.Basis("linear"), y=y).kernel
    assert k.get("se.variance") < 1.0


def test_without_a_mean_function_the_level_is_the_kernels():
    k = start(1.0 * SE(1.0), mean="zero").kernel
    assert k.get("se.variance") == pytest.approx(np.mean(Y**2))
    assert start(1.0 * SE(1.0), mean="zero").likelihood.variance == pytest.approx(0.1 * SD**2)
    k = start(1.0 * SE(1.0), mean=lambda Z: np.full(len(Z), 50.0)).kernel
    assert k.get("se.variance") == pytest.approx(np.mean((Y - 50) ** 2))


# --- likelihoods --------------------------------------------------------------------------------------------

NOISE_SD = np.sqrt(0.1) * SD


@pytest.mark.parametrize(
    ("likelihood", "names"),
    [
        (likelihoods.StudentT(1.0), ["scale"]),
        (likelihoods.Laplace(1.0), ["scale"]),
        (likelihoods.EpsilonInsensitive(1.0), ["scale", "epsilon"]),
        (likelihoods.MixtureOfGaussians(), ["scale"]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_noise_scales_start_at_a_third_of_the_spread(likelihood, names):
    model = start(SE(1.0), likelihood)
    for name in names:
        assert getattr(model.likelihood, name) == pytest.approx(NOISE_SD)


def test_noise_variances_start_at_a_tenth():
    assert start(SE(1.0)).likelihood.variance == pytest.approx(0.1 * SD**2)
    known = likelihoods.KnownNoise(np.ones(N), variance=1.0)
    assert start(SE(1.0), known).likelihood.variance == pytest.approx(0.1 * SD**2)


def test_shapes_start_where_given():
    assert start(SE(1.0), likelihoods.StudentT(1.0, df=5.0)).likelihood.df == pytest.approx(5.0)
    mixture = start(SE(1.0), likelihoods.MixtureOfGaussians(0.05, inflation=7.0)).likelihood
    assert mixture.fraction == pytest.approx(0.05)
    assert mixture.inflation == pytest.approx(7.0)


def test_values_of_a_finite_range_keep_off_its_ends():
    model = GP(kernels.GammaExponential(1.0, gamma=1.2), likelihoods.MixtureOfGaussians(0.1)).bind(1)
    low, high = (model.replace(end) for end in Starts.of(model, X[:, :1], Y).box.T)
    for name, end in (("gammaexponential.gamma", 2.0), ("mixtureofgaussians.fraction", 1.0)):
        assert 0.0 < low.get(name) < 1e-3 * end  # next to the ends, so that nothing is excluded
        assert 0.999 * end < high.get(name) < end


def test_components_of_a_noise_mixture_start_apart():
    noise = likelihoods.Mixture([likelihoods.Gaussian(1.0), likelihoods.Gaussian(1.0)], [0.9, 0.1])
    first, second = start(SE(1.0), noise).likelihood.components
    assert second.variance == pytest.approx(10 * first.variance)


def test_counts_start_on_the_log_scale():
    y = RNG.poisson(1000.0, N).astype(float)
    model = start(1.0 * SE(1.0), likelihoods.Poisson(), y=y)
    assert model.mean.value == pytest.approx(np.log(1000), abs=0.05)
    assert model.kernel.get("se.variance") == pytest.approx(1.0)


def test_overdispersion_is_sought_up_to_multiples_of_the_mean_count():
    y = RNG.poisson(1000.0, N).astype(float)
    model = GP(SE(1.0), likelihoods.NegativeBinomial(2.0), mean="constant").bind(2)
    starts = Starts.of(model, X, y)
    assert np.exp(starts.first[-1]) == pytest.approx(2.0)
    assert np.exp(starts.box[-1, 1]) > 1e5


def test_functions_of_their_own_for_level_and_noise():
    kernel = [1.0 * SE(1.0), 1.0 * SE(1.0)]
    model = GP(kernel, likelihoods.HeteroscedasticGaussian(), mean=["constant", "zero"]).bind(2)
    first = model.replace(Starts.of(model, X, Y).first)
    assert first.get("se.variance") == pytest.approx(SD**2)
    assert first.get("se_2.variance") == pytest.approx(1.0)  # of the logarithm of the noise
    assert first.get("mean.value") == pytest.approx(Y.mean())


def test_labels_start_at_even_odds():
    y = np.where(RNG.random(N) < 0.9, 1.0, -1.0)
    model = start(1.0 * SE(1.0), likelihoods.Probit(), y=y)
    assert model.mean.value == 0.0
    assert model.kernel.get("se.variance") == pytest.approx(4.0)


# --- units, bounds, priors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [1e-9, 1e9])
@pytest.mark.parametrize("b", [1e-12, 1e12])
def test_starts_follow_the_units_of_the_data(a, b):
    kernel = 1.0 * SE(ard) + kernels.Linear(1.0) + kernels.Periodic(SE(1.0), period=ard)
    one, other = start(kernel), start(kernel, X=a * X, y=b * Y)
    powers = {"lengthscale": (1, 0), "period": (1, 0), "variance": (0, 2), "bias": (0, 2), "value": (0, 1)}
    for name, u, v in zip(one.all_names, one.flat, other.flat):
        p, q = powers[name.split(".")[1].split("[")[0]]
        if name.startswith("linear.variance"):
            p = -2
        if name.startswith("se_2"):
            p = 0  # on the circle
        assert v == pytest.approx(u * a**p * b**q, rel=1e-6), name


def test_bounds_of_the_user_take_the_place_of_the_box():
    model = GP(
        1.0 * SE(Param(2.0, bounds=(1.0, 3.0))), likelihoods.Gaussian(Param(5e9, bounds=(1e9, np.inf)))
    )
    model = model.bind(1)
    starts = Starts.of(model, X[:, :1], Y)
    np.testing.assert_allclose(np.exp(starts.box[1]), [1.0, 3.0])
    assert np.exp(starts.box[2, 0]) == pytest.approx(1e9)
    assert starts.box[2, 1] > starts.box[2, 0]
    assert np.all(starts.first >= starts.box[:, 0])
    rng = np.random.default_rng(0)
    for _ in range(20):
        draw = starts.draw(rng, widen=5.0)
        assert np.all((draw >= starts.box[:, 0]) & (draw <= starts.box[:, 1]))


def test_the_box_holds_the_values_given():
    model = GP(1e-30 * SE(1e30)).bind(1)
    box = Starts.of(model, X[:, :1], Y).box
    assert np.all((box[:, 0] <= model.theta) & (model.theta <= box[:, 1]))


def test_a_start_that_the_prior_rules_out_gives_way_to_the_value_given():
    tight = LogNormal(np.log(1e-6), 0.1)
    model = start(1.0 * SE(Param(1e-6, prior=tight)), X=X[:, :1])
    assert model.kernel.get("se.lengthscale") == pytest.approx(1e-6)
    loose = LogNormal(np.log(1.0), 2.0)
    model = start(1.0 * SE(Param(1.0, prior=loose)), X=X[:, :1])
    assert model.kernel.get("se.lengthscale") > 1.5


def test_draws_come_from_the_prior_where_there_is_one():
    prior = LogNormal(np.log(1e-3), 0.2)
    model = GP(1.0 * SE(Param(1e-3, prior=prior))).bind(1)
    starts = Starts.of(model, X[:, :1], Y)
    rng = np.random.default_rng(0)
    drawn = np.array([starts.draw(rng)[1] for _ in range(300)])
    assert drawn.mean() == pytest.approx(np.log(1e-3), abs=0.06)
    assert drawn.std() == pytest.approx(0.2, abs=0.04)


def test_fixed_parameters_have_no_start():
    model = GP(1.0 * SE(fixed(3.0))).bind(1)
    assert Starts.of(model, X[:, :1], Y).first.size == 2


def test_blocks_are_the_terms_of_a_sum():
    model = GP(1.0 * SE(fixed(1.0)) + kernels.Periodic(SE(1.0)) + 1.0 * SE(1.0)).bind(1)
    blocks = Starts.of(model, X[:, :1], Y).blocks
    assert [[model.names[i] for i in block] for block in blocks] == [
        ["se.variance"],
        ["periodic.period", "se_2.lengthscale"],
        ["se_3.variance", "se_3.lengthscale"],
    ]
    assert Starts.of(GP(1.0 * SE(1.0)).bind(1), X[:, :1], Y).blocks == ()


def test_parts_on_the_circle_start_where_given_or_at_one():
    kernel = kernels.Periodic(2.0 * kernels.RationalQuadratic(3.0, alpha=0.7), period=1.0)
    k = start(kernel, X=X[:, :1]).kernel
    assert k.get("rationalquadratic.alpha") == pytest.approx(0.7)
    assert k.get("rationalquadratic.lengthscale") == 1.0
    assert k.get("rationalquadratic.variance") == pytest.approx(SD**2)


def test_inputs_that_a_kernel_refuses_are_left_to_learning():
    first = start(1.0 * kernels.Wiener(start=5.0), X=X[:, :1])  # some inputs lie before the start
    assert first.get("wiener.variance") == pytest.approx(SD**2)  # as of a kernel with variance one
    assert first.likelihood.variance == pytest.approx(0.1 * SD**2)
