"""A noise model known only through log_prob gets every answer, by quadrature and differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammaln

from cavity import likelihoods as lk
from cavity.likelihoods.quadrature_prediction import QuadraturePrediction
from tests.likelihoods import likelihood_reference as ref


class Cauchy(lk.Likelihood):
    def __init__(self, scale=1.0):
        self._set_up({"scale": scale})

    def log_prob(self, y, f):
        return -np.log(np.pi * self.scale) - np.log1p(((y - f) / self.scale) ** 2)


class Cap(lk.Likelihood):
    """Uniform noise: a jump, and impossible values."""

    smooth = False

    def __init__(self):
        self._set_up({})

    def log_prob(self, y, f):
        return np.where(np.abs(y - f) < 1, -np.log(2.0), -np.inf)

    def break_points(self, y):
        return np.stack([y - 1, y + 1])


class Coin(lk.Likelihood):
    discrete = True
    values = np.array([0.0, 1.0])

    def __init__(self):
        self._set_up({})

    def log_prob(self, y, f):
        return np.where(y > 0, -np.logaddexp(0, -f), -np.logaddexp(0, f))


class PositiveY(lk.Likelihood):
    """Gamma noise around exp(f): y is never near a negative f."""

    shape = 2.0

    def __init__(self):
        self._set_up({})

    def log_prob(self, y, f):
        k = self.shape
        size = np.where(y > 0, y, 1.0)
        with np.errstate(over="ignore"):
            inside = (k - 1) * np.log(size) - k * size * np.exp(-f) - k * f + k * np.log(k) - gammaln(k)
        return np.where(y > 0, inside, -np.inf)


class NaivePositiveY(PositiveY):
    def log_prob(self, y, f):
        with np.errstate(invalid="ignore"):
            return np.log(y) - y * np.exp(-f) - 2 * f


class Slit(lk.Likelihood):
    def __init__(self):
        self._set_up({})

    def log_prob(self, y, f):
        return np.where(np.abs(y - 1000.1) < 1e-3, 0.0 * f, -np.inf)


OWN, BUILT_IN = Cauchy(0.7), lk.StudentT(0.7, 1.0)
rng = np.random.default_rng(0)
Y = rng.standard_normal(40)
V = 10 ** rng.uniform(-4, 4, 40)
M = Y + rng.standard_t(2, 40) * np.sqrt(V + 0.5)


def test_derivatives_match_the_closed_form():
    own, built_in = OWN.derivatives(Y, M), BUILT_IN.derivatives(Y, M)
    size = 1 / (0.7**2 + (Y - M) ** 2)
    for k, (a, b) in enumerate(zip(own, built_in)):
        assert (np.abs(a - b) <= 1e-7 * (np.abs(b) + size ** (k / 2)) + 1e-11).all()


def test_parameter_derivatives_match_the_closed_form():
    own, built_in = OWN.parameter_derivatives(Y, M), BUILT_IN.parameter_derivatives(Y, M)
    for a, b in zip(own, built_in):
        np.testing.assert_allclose(a[0], b[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_tilted_moments_match_the_closed_form(power):
    own = OWN.tilted(Y, M / V, 1 / V, power, order=4)
    built_in = BUILT_IN.tilted(Y, M / V, 1 / V, power, order=4)
    for name in ("log_z", "log_z_normalized", "var", "c4"):
        np.testing.assert_allclose(getattr(own, name), getattr(built_in, name), rtol=1e-9)
    assert (np.abs(own.mean - built_in.mean) < 1e-9 * np.sqrt(own.var) + 1e-13 * np.abs(M)).all()
    np.testing.assert_allclose(own.d_log_z[0], built_in.d_log_z[0], rtol=1e-8, atol=1e-10)


def test_expected_log_prob_matches_the_closed_form():
    own, built_in = OWN.expected_log_prob(Y, M, V), BUILT_IN.expected_log_prob(Y, M, V)
    np.testing.assert_allclose(own.value, built_in.value, rtol=1e-9)
    np.testing.assert_allclose(own.d_mean, built_in.d_mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(own.d_var, built_in.d_var, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(own.d_flat[0], built_in.d_flat[0], rtol=1e-7, atol=1e-9)


def test_prediction_matches_the_closed_form():
    mean, var = np.array([0.5, -2.0]), np.array([0.3, 0.0])
    own, built_in = OWN.predictive(mean, var), BUILT_IN.predictive(mean, var)
    assert len(own) == 2
    y = np.array([1.0, -7.0])
    np.testing.assert_allclose(own.log_prob(y), built_in.log_prob(y), rtol=1e-9)
    np.testing.assert_allclose(own.cdf(y), built_in.cdf(y), rtol=1e-6)
    np.testing.assert_allclose(own.quantile([0.1, 0.6]), built_in.quantile([0.1, 0.6]), rtol=1e-6)
    assert np.isinf(own.variance).all()
    draws = own.sample(200, 1)
    assert (np.abs((draws < built_in.quantile(0.3)).mean(axis=0) - 0.3) < 0.15).all()
    assert own.sample(1, 0).shape == (1, 2)
    assert OWN.sample(np.array([[0.0, 1.0]]), np.random.default_rng(0)).shape == (1, 2)


def test_a_finite_variance_is_found_by_quadrature():
    p = QuadraturePrediction(lk.StudentT(0.7, 4.0), np.array([1.0, 2.0]), np.array([0.5, 0.0]))
    np.testing.assert_allclose(p.mean, [1.0, 2.0], rtol=1e-9)
    np.testing.assert_allclose(p.variance, [1.48, 0.98], rtol=1e-5)


def test_predictions_of_a_positive_y_whose_logarithm_is_modeled():
    f = np.array([-20.0, -3.0, -1.0, 0.5, 5.0])
    truth = stats.gamma(2.0, scale=np.exp(f) / 2.0)
    own = PositiveY().predictive(f, np.zeros(5))
    np.testing.assert_allclose(own.mean, truth.mean(), rtol=1e-9)
    np.testing.assert_allclose(own.variance, truth.var(), rtol=1e-9)
    np.testing.assert_allclose(own.cdf(np.exp(f)), truth.cdf(np.exp(f)), rtol=1e-9)
    for level in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(own.quantile(level), truth.ppf(level), rtol=1e-6)
    draws = PositiveY().sample(np.repeat(f, 2000), np.random.default_rng(0)).reshape(5, 2000)
    for row, scale in zip(draws, np.exp(f) / 2.0):
        assert stats.kstest(row, stats.gamma(2.0, scale=scale).cdf).pvalue > 1e-3
    # a little uncertainty about f: E y = exp(f + v / 2)
    np.testing.assert_allclose(PositiveY().predictive(f, np.full(5, 1e-4)).mean, np.exp(f + 5e-5), rtol=1e-8)


def test_predictions_say_where_log_prob_is_of_no_use():
    with pytest.raises(ValueError, match=r"NaivePositiveY: log_prob is nan at y = -0.2.*; let it be -inf"):
        NaivePositiveY().predictive(np.array([0.5]), np.zeros(1)).mean  # noqa: B018
    with pytest.raises(ValueError, match=r"Slit: no value of y .* for f = 0.5, .* write `predictive`"):
        Slit().predictive(np.array([0.5]), np.zeros(1)).quantile(0.5)


def test_jumps_and_impossible_values():
    y, m, v = np.array([0.0, 0.0, 0.0]), np.array([0.2, 5.0, -40.0]), np.array([0.5, 1.0, 0.04])
    t = Cap().tilted_normalized(y, m, v, order=4)
    for i in range(3):
        truth = ref.tilted_reference(
            lambda f: np.where(np.abs(f) < 1, -np.log(2.0), -np.inf), m[i], v[i], [-1.0, 1.0]
        )
        np.testing.assert_allclose(t.log_z[i], truth.log_z, rtol=1e-6)
        np.testing.assert_allclose(t.mean[i], truth.mean, atol=1e-6 * np.sqrt(truth.var))
        np.testing.assert_allclose([t.var[i], t.c4[i]], [truth.var, truth.c4], rtol=1e-6)


def test_far_outliers_give_two_separate_modes():
    # cavity and noise both narrow and 50 apart: mass at both places, which a single ladder would miss
    y, m, v = np.array([50.0]), np.array([0.0]), np.array([25.0])
    t = Cauchy(1e-3).tilted_normalized(y, m, v, order=4)
    truth = ref.tilted_reference(ref.student_t(1e-3, 1.0)(50.0), 0.0, 25.0, [50.0])
    np.testing.assert_allclose([t.log_z[0], t.var[0], t.c4[0]], [truth.log_z, truth.var, truth.c4], rtol=1e-8)


def test_discrete_values_and_errors():
    p = Coin().predictive([0.3, -1.0], [1.0, 0.0])
    logit = lk.Logit().predictive([0.3, -1.0], [1.0, 0.0])
    np.testing.assert_allclose(p.probabilities, logit.probabilities, rtol=1e-9)

    class NoValues(Coin):
        values = None

    with pytest.raises(ValueError, match="give it an attribute `values`"):
        NoValues().predictive([0.0], [1.0])

    class Broken(Cauchy):
        def log_prob(self, y, f):
            return np.sqrt(-1 - f * f)

    with pytest.raises(ValueError, match="returned nan"), np.errstate(invalid="ignore"):
        Broken().tilted_normalized([0.0], [0.0], [1.0])
    with pytest.raises(ValueError, match="var must be positive"):
        OWN.expected_log_prob(Y[:1], M[:1], np.zeros(1))
    with pytest.raises(ValueError, match="cavity_var must be positive"):
        OWN.tilted_normalized(Y[:1], M[:1], np.zeros(1))


finite = st.floats(-1e6, 1e6)
scales = st.floats(-8, 8)


@settings(max_examples=150, deadline=None)
@given(
    y=finite, gap=st.floats(-1e4, 1e4), log_var=scales, log_scale=st.floats(-4, 4), power=st.floats(0.05, 1.0)
)
def test_no_extreme_gives_nan_overflow_or_negative_variance(y, gap, log_var, log_scale, power):
    s, v = 10.0**log_scale, 10.0**log_var
    mean = y + gap * np.sqrt(v + s * s)
    for likelihood in (
        lk.StudentT(s, 0.5 + abs(gap) % 10),
        lk.Laplace(s),
        lk.EpsilonInsensitive(s, 2 * s),
        lk.MixtureOfGaussians(0.05, s),
        Cauchy(s),
    ):
        t = likelihood.tilted(np.array([y]), np.array([mean / v]), np.array([1 / v]), power, order=4)
        values = [t.log_z[0], t.log_z_normalized[0], t.mean[0], t.var[0], t.c3[0], t.c4[0], *t.d_log_z[:, 0]]
        assert np.isfinite(values).all()
        assert t.var[0] > 0
        assert t.c4[0] >= t.var[0] ** 2 * (1 - 1e-9)


@settings(max_examples=100, deadline=None)
@given(
    label=st.sampled_from([-1.0, 1.0]), gap=st.floats(-1e4, 1e4), log_var=scales, power=st.floats(0.05, 1.0)
)
def test_no_extreme_breaks_a_classifier(label, gap, log_var, power):
    v = 10.0**log_var
    mean = gap * np.sqrt(v + 1)
    for likelihood in (lk.Probit(), lk.LapseProbit(0.01), lk.Logit(), lk.OrdinalProbit([-0.5, 0.5])):
        t = likelihood.tilted(
            np.array(
                [
                    (label + 1) / 2
                    if likelihood.n_latent == 1 and isinstance(likelihood, lk.OrdinalProbit)
                    else label
                ]
            ),
            np.array([mean / v]),
            np.array([1 / v]),
            power,
            order=4,
        )
        assert np.isfinite([t.log_z[0], t.mean[0], t.var[0], t.c3[0], t.c4[0]]).all()
        # a log-concave factor never widens the cavity
        assert t.var[0] > 0
        assert t.var[0] <= v * (1 + 1e-9) or not likelihood.log_concave
