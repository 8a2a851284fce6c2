"""Tilted moments against dense quadrature over the whole range of cavities: no overflow, no cancellation."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import likelihoods as lk
from tests.likelihoods import likelihood_reference as ref

EPS = np.finfo(float).eps
CLOSED, QUADRATURE = 1e-8, 1e-6
VARIANCES = 10.0 ** np.arange(-8.0, 9.0, 2.0)
RESIDUALS = np.array([0.0, 0.3, -2.0, 9.0, -40.0, 1e3, -1e4, 1e4])


def noise_grid(y, width):
    """Cavities at all distances from y, in units of the predictive sd."""
    v, r = (a.ravel() for a in np.meshgrid(VARIANCES, RESIDUALS))
    return np.full(v.size, y), y + r * np.sqrt(v + width**2), v


def center_grid(labels, centers, widths):
    """The same around a center per label."""
    pieces = [noise_grid(c, w) for c, w in zip(centers, widths)]
    y = np.concatenate([np.full(len(p[0]), label) for label, p in zip(labels, pieces)])
    return y, np.concatenate([p[1] for p in pieces]), np.concatenate([p[2] for p in pieces])


BINARY = center_grid([1.0, -1.0], [0.0, 0.0], [1.0, 1.0])
STEP = center_grid([1.0, -1.0], [0.0, 0.0], [0.0, 0.0])
COUNTS = center_grid([0.0, 3.0, 200.0], np.log([0.5, 3.5, 200.5]), [0.0, 0.0, 0.0])
SUCCESSES = center_grid([0.0, 4.0, 20.0], [-3.7, -1.3, 3.7], [1.0, 0.5, 1.0])
CATEGORIES = center_grid([0.0, 1.0, 3.0], [-1.0, -0.4, 2.0], [1.0, 1.0, 1.0])
THRESHOLDS = np.array([-1.0, 0.2, 2.0])


def at_y(y):
    return [y]


def at_zero(y):
    return [0.0]


def at_count(y):
    return [np.log(y + 0.5)]


NOISE = noise_grid(0.4, 0.7)
# name: likelihood, (y, cavity mean, cavity variance), reference, its centers, accuracy at power 1 and 0.5
CASES = {
    "gaussian": (lk.Gaussian(0.3), NOISE, ref.gaussian(0.3), at_y, CLOSED, CLOSED),
    "student-t 3": (lk.StudentT(0.7, 3.0), NOISE, ref.student_t(0.7, 3.0), at_y, QUADRATURE, QUADRATURE),
    "student-t 1": (lk.StudentT(0.05, 1.0), NOISE, ref.student_t(0.05, 1.0), at_y, QUADRATURE, QUADRATURE),
    "student-t 60": (lk.StudentT(2.0, 60.0), NOISE, ref.student_t(2.0, 60.0), at_y, QUADRATURE, QUADRATURE),
    "laplace": (lk.Laplace(0.5), NOISE, ref.laplace(0.5), at_y, CLOSED, CLOSED),
    "epsilon": (
        lk.EpsilonInsensitive(0.2, 0.7),
        NOISE,
        ref.epsilon_insensitive(0.2, 0.7),
        lambda y: [y - 0.7, y + 0.7],
        CLOSED,
        CLOSED,
    ),
    "two gaussians": (
        lk.MixtureOfGaussians(0.1, 0.3, outlier_scale=3.0),
        NOISE,
        ref.mixture([ref.gaussian(0.09), ref.gaussian(9.0)], [0.9, 0.1]),
        at_y,
        CLOSED,
        QUADRATURE,
    ),
    "three gaussians": (
        lk.Mixture([lk.Gaussian(0.1), lk.Gaussian(2.0), lk.Gaussian(50.0)], [0.7, 0.2, 0.1]),
        NOISE,
        ref.mixture([ref.gaussian(0.1), ref.gaussian(2.0), ref.gaussian(50.0)], [0.7, 0.2, 0.1]),
        at_y,
        CLOSED,
        QUADRATURE,
    ),
    "t and laplace": (
        lk.Mixture([lk.StudentT(0.5, 3.0), lk.Laplace(2.0)], [0.7, 0.3]),
        NOISE,
        ref.mixture([ref.student_t(0.5, 3.0), ref.laplace(2.0)], [0.7, 0.3]),
        at_y,
        QUADRATURE,
        QUADRATURE,
    ),
    "probit": (lk.Probit(), BINARY, ref.probit, at_zero, CLOSED, QUADRATURE),
    "lapse": (lk.LapseProbit(0.05), BINARY, ref.lapse(0.05), at_zero, CLOSED, QUADRATURE),
    "heaviside": (lk.Heaviside(), STEP, ref.heaviside, at_zero, CLOSED, CLOSED),
    "logit": (lk.Logit(), BINARY, ref.logit, at_zero, QUADRATURE, QUADRATURE),
    "poisson": (lk.Poisson(), COUNTS, ref.poisson, at_count, QUADRATURE, QUADRATURE),
    "negative binomial": (
        lk.NegativeBinomial(2.5),
        COUNTS,
        ref.negative_binomial(2.5),
        at_count,
        QUADRATURE,
        QUADRATURE,
    ),
    "binomial": (
        lk.Binomial(20),
        SUCCESSES,
        ref.binomial(20),
        lambda y: [np.log((y + 0.5) / (20.5 - y))],
        QUADRATURE,
        QUADRATURE,
    ),
    "ordinal": (
        lk.OrdinalProbit(THRESHOLDS),
        CATEGORIES,
        ref.ordinal(THRESHOLDS),
        lambda y: [-0.4],
        CLOSED,
        QUADRATURE,
    ),
}


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("name", CASES)
def test_moments_agree_with_dense_quadrature_on_the_whole_grid(name, power):
    likelihood, (y, m, v), log_p, centers, closed, otherwise = CASES[name]
    tolerance = closed if power == 1.0 else otherwise
    t = likelihood.tilted(y, m / v, 1 / v, power, order=4)
    truth = [
        ref.tilted_reference(log_p(yi), (mi / vi) / (1 / vi), vi, centers(yi), power)
        for yi, mi, vi in zip(y, m, v)
    ]
    log_z, mean, var, c3, c4 = np.array([list(vars(x).values()) for x in truth]).T
    assert np.isfinite(t.log_z).all()
    assert (t.var > 0).all()
    assert (t.c4 >= t.var**2 * (1 - 1e-12)).all()
    np.testing.assert_array_less(np.abs(t.log_z_normalized - log_z), tolerance * (1 + np.abs(log_z)))
    # The cavity mean itself is known only to rounding.
    rounding = 4 * EPS * (np.abs(m) + np.abs(y))
    np.testing.assert_array_less(np.abs(t.mean - mean), tolerance * np.sqrt(var) + rounding)
    np.testing.assert_allclose(t.var, var, rtol=tolerance)
    np.testing.assert_array_less(np.abs(t.c3 - c3), tolerance * c4**0.75)
    np.testing.assert_allclose(t.c4, c4, rtol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_second_order_gives_the_same_without_higher_moments(name):
    likelihood, (y, m, v), *_ = CASES[name]
    a, b = likelihood.tilted(y, m / v, 1 / v, 1.0), likelihood.tilted(y, m / v, 1 / v, 1.0, order=4)
    np.testing.assert_array_equal(a.mean, b.mean)
    np.testing.assert_array_equal(a.var, b.var)


@pytest.mark.parametrize("power", [1.0, 0.7])
@pytest.mark.parametrize("name", ["probit", "logit"])
def test_moments_alone_are_those_of_the_tilted_density(name, power):
    likelihood, (y, mean, var) = CASES[name][:2]
    full = likelihood.tilted(y, mean / var, 1.0 / var, power, 4)
    alone = likelihood.tilted_moments(y, mean / var, 1.0 / var, power)
    for one, other in zip(alone, (full.mean, full.var, full.c3, full.c4)):
        np.testing.assert_array_equal(one, other)


def test_improper_cavities_down_to_the_limit():
    # against quadrature of the unnormalized integrand, which exists although the cavity is no density
    mix = lk.MixtureOfGaussians(0.2, 0.5, outlier_scale=2.0)
    three = lk.Mixture([lk.Gaussian(0.25), lk.Gaussian(4.0)], [0.8, 0.2])
    single = lk.Gaussian(4.0)
    y = np.array([0.3, -1.0, 2.0, 0.3])
    shift, tau = np.array([0.4, -0.2, 0.1, 0.0]), np.array([-0.2, -0.1, 0.0, -0.249])
    f, w = ref.panels(np.linspace(-400, 400, 4001))
    for likelihood in (mix, three, single):
        t = likelihood.tilted(y, shift, tau, order=4)
        for i in range(4):
            g = likelihood.log_prob(y[i : i + 1], f[:, None])[:, 0] + shift[i] * f - 0.5 * tau[i] * f * f
            top = g.max()
            p = w * np.exp(g - top)
            z = p.sum()
            p /= z
            m = p @ f
            np.testing.assert_allclose(t.log_z[i], np.log(z) + top, rtol=1e-10)
            np.testing.assert_allclose(t.mean[i], m, rtol=1e-9, atol=1e-12)
            moments = [p @ (f - m) ** k for k in (2, 3, 4)]
            np.testing.assert_allclose([t.var[i], t.c4[i]], moments[::2], rtol=1e-8)
            np.testing.assert_allclose(t.c3[i], moments[1], atol=1e-8 * moments[2] ** 0.75)
        assert np.isnan(t.log_z_normalized[tau <= 0]).all()


@pytest.mark.parametrize("name", CASES)
def test_cavities_beyond_the_limit_are_refused_by_name(name):
    likelihood, (y, *_), *_ = CASES[name]
    limit = np.min(likelihood.min_cavity_precision)
    with pytest.raises(ValueError, match="cavity_precision must exceed"):
        likelihood.tilted(y[:2], np.zeros(2), np.array([1.0, limit - 1e-9]))


def test_laplace_at_cavity_to_scale_ratios_of_a_billion():
    # limits in closed form: a flat cavity leaves the noise density, a narrow one the cavity
    y = np.array([0.7])
    for s in (1e-9, 1.0, 1e9):
        flat = lk.Laplace(s).tilted_normalized(y, y + 0.1 * s, (1e9 * s) ** 2, order=4)
        np.testing.assert_allclose([flat.var[0], flat.c4[0]], [2 * s**2, 24 * s**4], rtol=1e-8)
        narrow = lk.Laplace(s).tilted_normalized(y, y + 3 * s, (1e-9 * s) ** 2, order=4)
        np.testing.assert_allclose([narrow.var[0], narrow.c4[0]], [1e-18 * s**2, 3e-36 * s**4], rtol=1e-8)
        np.testing.assert_allclose(narrow.log_z, -3 - np.log(2 * s), rtol=1e-8)


@pytest.mark.parametrize(
    ("m", "v", "s", "nu"), [(3.0, 0.5, 0.7, 3.0), (-40.0, 1e-2, 0.05, 1.0), (1e3, 1e4, 1.0, 2.5)]
)
def test_the_reference_agrees_with_mpmath(m, v, s, nu):
    mp = pytest.importorskip("mpmath")
    mp.mp.dps = 30

    def density(f):
        t = 1 + (mp.mpf("0.4") - f) ** 2 / (nu * mp.mpf(s) ** 2)
        return mp.exp(-(nu + 1) / mp.mpf(2) * mp.log(t) - (f - m) ** 2 / (2 * mp.mpf(v)))

    truth = ref.tilted_reference(ref.student_t(s, nu)(0.4), m, v, [0.4])
    spots = {0.4 + k * s for k in (-300, -30, -5, -1, 0, 1, 5, 30, 300)}
    spots = sorted(spots | {m + k * np.sqrt(v) for k in (-14, -8, -3, 0, 3, 8, 14)})
    z = mp.quad(density, spots)
    mean = mp.quad(lambda f: f * density(f), spots) / z
    var = mp.quad(lambda f: (f - mean) ** 2 * density(f), spots) / z
    c4 = mp.quad(lambda f: (f - mean) ** 4 * density(f), spots) / z
    assert abs(truth.mean - mean) < 1e-10 * mp.sqrt(var)
    assert abs(truth.var / var - 1) < 1e-10
    assert abs(truth.c4 / c4 - 1) < 1e-9


@pytest.mark.parametrize("name", [k for k in CASES if CASES[k][0].flat.size])
@pytest.mark.parametrize("power", [1.0, 0.6])
def test_gradient_of_log_z_in_the_parameters(name, power):
    likelihood, (y, m, v), *_ = CASES[name]
    keep = (v > 1e-3) & (v < 1e3) & (np.abs(m - y) < 60 * np.sqrt(v + 1))
    y, m, v = y[keep], m[keep], v[keep]
    t = likelihood.tilted(y, m / v, 1 / v, power)
    for i, x in enumerate(likelihood.flat):
        h = 1e-4 * abs(x)
        ends = []
        for step in (1, -1, 2, -2):
            flat = likelihood.flat.copy()
            flat[i] += step * h
            ends.append(likelihood.with_flat(flat).tilted(y, m / v, 1 / v, power).log_z_normalized)
        numeric = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)
        # differences of log Z lose its own rounding, divided by the step
        noise = 1e-14 * (1 + np.abs(t.log_z_normalized).max()) / h
        np.testing.assert_allclose(t.d_log_z[i], numeric, rtol=1e-6, atol=noise + 1e-9 / abs(x))


def test_powers_may_differ_between_points():
    for likelihood in (
        lk.StudentT(0.5, 3.0),
        lk.Laplace(0.5),
        lk.Gaussian(0.2),
        lk.MixtureOfGaussians(0.1, 0.5),
    ):
        y, m, v = np.array([0.1, 2.0, -3.0]), np.zeros(3), np.array([1.0, 0.3, 4.0])
        powers = np.array([1.0, 0.5, 2.0])
        together = likelihood.tilted(y, m / v, 1 / v, powers, order=4)
        for i in range(3):
            one = likelihood.tilted(y[i : i + 1], m[i : i + 1], 1 / v[i : i + 1], powers[i], order=4)
            for name in ("log_z", "mean", "var", "c3", "c4"):
                got, alone = getattr(together, name)[i], getattr(one, name)[0]
                np.testing.assert_allclose(got, alone, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(together.d_log_z[:, i], one.d_log_z[:, 0], rtol=1e-8)
