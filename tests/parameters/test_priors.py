"""Prior densities: normalisation, gradients, samples, extremes, constructors from intervals."""

from __future__ import annotations

import pickle
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad

from cavity.parameters.param import LOG, UNIT, Param, Parametrized
from cavity.parameters.priors import (
    Beta,
    Gamma,
    HalfCauchy,
    HalfNormal,
    HalfStudentT,
    Horseshoe,
    InverseGamma,
    LogNormal,
    Normal,
    SmoothedBox,
    Uniform,
    by_kind,
)


class FoldedT:
    """|t| with 4 degrees of freedom and scale 1/2; scipy has none."""

    @staticmethod
    def cdf(x):
        return 2 * stats.t.cdf(np.asarray(x) / 0.5, 4.0) - 1

    @staticmethod
    def logpdf(x):
        return np.log(2 / 0.5) + stats.t.logpdf(np.asarray(x) / 0.5, 4.0)


PEERS = [
    (Normal(1.5, 0.3), stats.norm(1.5, 0.3)),
    (Uniform(-2.0, 3.0), stats.uniform(-2.0, 5.0)),
    (LogNormal(0.5, 1.2), stats.lognorm(1.2, scale=np.exp(0.5))),
    (LogNormal.between(0.1, 10.0), stats.lognorm(np.log(10) / stats.norm.ppf(0.95))),
    (Gamma(0.5, 3.0), stats.gamma(0.5, scale=1 / 3)),
    (Gamma(4.0, 0.1), stats.gamma(4.0, scale=10.0)),
    (InverseGamma(2.5, 0.7), stats.invgamma(2.5, scale=0.7)),
    (HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    (HalfStudentT(4.0, 0.5), FoldedT),
    (HalfCauchy(3.0), stats.halfcauchy(scale=3.0)),
    (Beta(0.5, 2.0), stats.beta(0.5, 2.0)),
    (Beta(5.0, 1.0), stats.beta(5.0, 1.0)),
]
OTHERS = [SmoothedBox(1.0, 4.0, 0.5), Horseshoe(0.3), Horseshoe(0.3, inverse=False)]
ALL = [prior for prior, _ in PEERS] + OTHERS


def inner_points(prior):
    """Values spread over the support."""
    low, high = prior.support
    if np.isfinite(high):
        return low + (high - low) * np.array([1e-6, 0.1, 0.4, 0.9, 1 - 1e-6])
    if np.isfinite(low):
        return np.array([1e-8, 1e-3, 0.2, 1.0, 2.7, 30.0, 1e4])
    return np.array([-30.0, -1.0, 0.3, 1.0, 2.0, 4.2, 50.0])


# --- densities ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prior", "peer"), PEERS, ids=[repr(p) for p, _ in PEERS])
def test_log_density_agrees_with_scipy(prior, peer):
    x = inner_points(prior)
    assert_allclose(prior.log_density(x), peer.logpdf(x), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_density_integrates_to_one(prior):
    low, high = prior.support
    if low == 0.0 and np.isinf(high):  # in log x, which resolves poles at zero and heavy tails
        total = sum(
            quad(lambda u: np.exp(prior.log_density(np.exp(u)) + u), a, b, epsabs=1e-13, limit=200)[0]
            for a, b in [(-80, -5), (-5, 0), (0, 5), (5, 80)]
        )
    elif np.isfinite(low):
        total = quad(lambda x: np.exp(prior.log_density(x)), low, high, epsabs=1e-12, limit=200)[0]
    else:
        cuts = [-20, 0, 1, 2, 4, 20]
        total = sum(quad(lambda x: np.exp(prior.log_density(x)), a, b)[0] for a, b in pairwise(cuts))
    assert_allclose(total, 1.0, rtol=2e-8)


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_gradient_against_finite_differences(prior):
    for x in inner_points(prior)[1:-1]:
        h = 1e-6 * max(abs(x), 1e-3)
        numeric = (prior.log_density(x + h) - prior.log_density(x - h)) / (2 * h)
        assert_allclose(prior.gradient(x), numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_outside_the_support_there_is_nothing(prior):
    low, high = prior.support
    for x in [low - 1.0, low, high, high + 1.0]:
        if np.isfinite(x):
            assert prior.log_density(x) == -np.inf
            assert prior.gradient(x) == 0.0
    assert np.isnan(prior.log_density(np.nan))


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_shapes_are_kept(prior):
    x = np.resize(inner_points(prior), (2, 3))
    assert prior.log_density(x).shape == prior.gradient(x).shape == (2, 3)
    assert_array_equal(prior.log_density(x)[1], prior.log_density(x[1]))
    assert np.ndim(prior.log_density(float(x[0, 1]))) == 0
    assert prior.log_density(np.zeros(0)).shape == (0,)
    assert prior.sample(np.random.default_rng(0), (4, 2)).shape == (4, 2)
    assert np.shape(prior.sample(np.random.default_rng(0), ())) == ()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_extremes_neither_overflow_nor_become_nan(prior):
    low, high = prior.support
    sizes = 10.0 ** np.array([-300.0, -150.0, -20.0, 20.0, 150.0, 300.0])
    x = np.concatenate([sizes, -sizes, [low + 1e-300, np.nextafter(high, low)]])
    x = x[np.isfinite(x)]
    log_density, gradient = prior.log_density(x), prior.gradient(x)
    assert not np.isnan(log_density).any()
    assert not np.isnan(gradient).any()
    assert not (log_density == np.inf).any()


def test_smoothed_box_is_flat_inside_and_gaussian_outside():
    box = SmoothedBox(1.0, 4.0, 0.5)
    inside = box.log_density(np.array([1.0, 2.0, 4.0]))
    assert_allclose(inside, -np.log(3.0 + 0.5 * np.sqrt(2 * np.pi)))
    assert_allclose(box.log_density([0.5, 5.0]) - inside[0], [-0.5, -2.0])


def test_half_student_t_tends_to_the_half_normal():
    x = np.array([0.1, 1.0, 3.0])
    assert_allclose(HalfStudentT(1e12, 2.0).log_density(x), HalfNormal(2.0).log_density(x), rtol=1e-9)
    assert_allclose(HalfStudentT(1.0, 2.0).log_density(x), HalfCauchy(2.0).log_density(x), rtol=1e-14)


# --- the horseshoe ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [1e-160, 1e-30, 1e-9, 1e-3, 0.3, 1.0, 2.9, 3.1, 10.0, 1e3, 1e40, 1e170])
def test_horseshoe_against_high_precision(r):
    scale = 0.3
    with mpmath.workdps(50):
        q = mpmath.mpf(r) ** 2 / (2 * mpmath.mpf(scale) ** 2)
        if q < 1e6:
            scaled, slope = mpmath.exp(q) * mpmath.e1(q), None
            slope = q - 1 / scaled
        else:
            series = sum((-1) ** k * mpmath.factorial(k) / q**k for k in range(12))
            scaled = series / q
            slope = q - 1 / scaled
        exact = mpmath.log(mpmath.sqrt(2 / mpmath.pi**3) / mpmath.mpf(scale) * scaled)
        value, gradient = float(exact), float(2 * slope / mpmath.mpf(r)) if q < 1e30 else -2 / r
    prior = Horseshoe(scale, inverse=False)
    assert_allclose(prior.log_density(r), value, rtol=1e-13, atol=1e-13)
    assert_allclose(prior.gradient(r), gradient, rtol=1e-12)


@pytest.mark.parametrize("r", [0.05, 0.4, 2.0, 9.0])
def test_horseshoe_is_a_scale_mixture_of_normals(r):
    """Integrate out the half-Cauchy local scale numerically."""

    def integrand(lam):
        return 2 * stats.norm.pdf(r, scale=0.7 * lam) * stats.halfcauchy.pdf(lam)

    mixture = quad(integrand, 0, 1, limit=200)[0] + quad(integrand, 1, np.inf, limit=200)[0]
    assert_allclose(np.exp(Horseshoe(0.7, inverse=False).log_density(r)), mixture, rtol=1e-8)


def test_horseshoe_over_length_scales_is_the_change_of_variables():
    length = np.array([1e-3, 0.2, 1.0, 40.0])
    over_relevance = Horseshoe(0.3, inverse=False).log_density(1 / length)
    assert_allclose(Horseshoe(0.3).log_density(length), over_relevance - 2 * np.log(length), rtol=1e-13)
    # what its documentation says about modes: none over l, one over log l
    grid = np.geomspace(1e-3, 1e3, 20001)
    assert np.all(np.diff(Horseshoe(1.0).log_density(grid)) < 0)
    over_log = Horseshoe(1.0).log_density(grid) + np.log(grid)
    assert abs(grid[np.argmax(over_log)] - 1.4) < 0.05
    assert np.sum(np.diff(np.sign(np.diff(over_log))) != 0) == 1


# --- samples ------------------------------------------------------------------------------------------------


def box_cdf(x):
    total = 3.0 + 0.5 * np.sqrt(2 * np.pi)
    tail = 0.5 * np.sqrt(2 * np.pi)
    left = tail * stats.norm.cdf(np.minimum(x - 1.0, 0.0) / 0.5)
    right = tail * (stats.norm.cdf(np.maximum(x - 4.0, 0.0) / 0.5) - 0.5)
    return (left + np.clip(x - 1.0, 0.0, 3.0) + right) / total


def horseshoe_cdf(x):
    """Over r, by quadrature in log r."""
    prior = Horseshoe(0.3, inverse=False)
    u = np.linspace(-40, 25, 20001)
    density = np.exp(prior.log_density(np.exp(u)) + u)
    total = np.concatenate([[0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(u))])
    return np.interp(np.log(x), u, total)


@pytest.mark.parametrize(
    ("prior", "cdf"),
    [
        *[(prior, peer.cdf) for prior, peer in PEERS],
        (OTHERS[0], box_cdf),
        (OTHERS[1], lambda x: 1 - horseshoe_cdf(1 / x)),
        (OTHERS[2], horseshoe_cdf),
    ],
    ids=[repr(p) for p in ALL],
)
def test_samples_have_the_distribution(prior, cdf):
    draws = prior.sample(np.random.default_rng(7), (20_000,))
    assert stats.kstest(draws, cdf).pvalue > 1e-3


# --- constructors from what people know ---------------------------------------------------------------------


@given(
    low=st.floats(1e-6, 1e3),
    ratio=st.floats(1.01, 1e6),
    mass=st.floats(0.5, 0.999),
)
def test_between_puts_the_mass_between_with_equal_tails(low, ratio, mass):
    high, tail = low * ratio, 0.5 * (1 - mass)
    ln, ga, ig = (cls.between(low, high, mass) for cls in (LogNormal, Gamma, InverseGamma))
    for peer in (
        stats.lognorm(ln.sigma, scale=np.exp(ln.mu)),
        stats.gamma(ga.shape, scale=1 / ga.rate),
        stats.invgamma(ig.shape, scale=ig.scale),
    ):
        assert_allclose(peer.cdf(low), tail, rtol=1e-6, atol=1e-9)
        assert_allclose(peer.sf(high), tail, rtol=1e-6, atol=1e-9)


def test_normal_between():
    normal = Normal.between(-1.0, 3.0, mass=0.8)
    assert_allclose(stats.norm.cdf([-1.0, 3.0], normal.mean, normal.sd), [0.1, 0.9])


def test_between_copes_with_very_narrow_and_very_wide_intervals():
    narrow = Gamma.between(1.0, 1.0 + 1e-4)
    assert_allclose(stats.gamma.cdf(1.0, narrow.shape, scale=1 / narrow.rate), 0.05, rtol=1e-4)
    wide = InverseGamma.between(1e-8, 1e8)
    assert_allclose(stats.invgamma.cdf([1e-8, 1e8], wide.shape, scale=wide.scale), [0.05, 0.95], rtol=1e-6)


def test_below():
    assert_allclose(stats.halfnorm.cdf(3.0, scale=HalfNormal.below(3.0).scale), 0.95)
    assert_allclose(stats.halfcauchy.cdf(3.0, scale=HalfCauchy.below(3.0, 0.5).scale), 0.5)
    half_t = HalfStudentT.below(3.0, mass=0.9, dof=7.0)
    assert_allclose(2 * stats.t.cdf(3.0 / half_t.scale, 7.0) - 1, 0.9)


# --- values and errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_priors_are_values(prior):
    assert eval(repr(prior)) == prior
    assert hash(eval(repr(prior))) == hash(prior)
    assert pickle.loads(pickle.dumps(prior)) == prior
    with pytest.raises(AttributeError):
        prior.scale = 3.0
    assert Normal(1, 2) == Normal(1.0, 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normal(0.0, 0.0), "Normal: sd must be positive and finite, got 0.0"),
        (lambda: Normal(np.nan, 1.0), "Normal: mean must be finite"),
        (lambda: Normal("a", 1.0), "Normal: mean must be finite, got 'a'"),
        (lambda: Normal(True, 1.0), "Normal: mean must be finite, got True"),
        (lambda: Normal([0.0, 1.0], 1.0), "Normal: mean must be finite"),
        (lambda: LogNormal(0.0, -1.0), "LogNormal: sigma"),
        (lambda: Gamma(0.0, 1.0), "Gamma: shape"),
        (lambda: Gamma(1.0, np.inf), "Gamma: rate"),
        (lambda: InverseGamma(1.0, -2.0), "InverseGamma: scale"),
        (lambda: HalfStudentT(0.0, 1.0), "HalfStudentT: dof"),
        (lambda: HalfNormal(-1.0), "HalfNormal: scale"),
        (lambda: HalfCauchy(0.0), "HalfCauchy: scale"),
        (lambda: Beta(1.0, 0.0), "Beta: b"),
        (lambda: Horseshoe(0.0), "Horseshoe: scale"),
        (lambda: Horseshoe(1.0, inverse="yes"), "inverse must be True or False"),
        (lambda: Uniform(1.0, 1.0), "low < high, got low=1.0"),
        (lambda: SmoothedBox(2.0, 1.0, 0.1), "low < high"),
        (lambda: SmoothedBox(1.0, 2.0, 0.0), "SmoothedBox: sd"),
        (
            lambda: LogNormal.between(0.0, 1.0),
            "LogNormal.between: the interval must be finite with 0 < low < high",
        ),
        (lambda: Gamma.between(2.0, 1.0), "Gamma.between"),
        (lambda: Gamma.between(1e-300, 1e300), "no gamma density has that mass between 1e-300 and 1e"),
        (lambda: InverseGamma.between(1.0, np.inf), "InverseGamma.between"),
        (lambda: Normal.between(1.0, 1.0), "Normal.between"),
        (lambda: LogNormal.between(1.0, 2.0, mass=1.0), "mass must lie strictly between 0 and 1, got 1.0"),
        (lambda: HalfNormal.below(1.0, mass=0.0), "mass must lie strictly between 0 and 1"),
        (lambda: HalfNormal.below(-1.0), "HalfNormal: scale must be positive"),
    ],
)
def test_wrong_parameters_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- with parameters ----------------------------------------------------------------------------------------


class Part(Parametrized):
    _transforms = {"width": LOG, "share": UNIT}  # noqa: RUF012

    def __init__(self, width, share):
        self._set_up({"width": width, "share": share})


@pytest.mark.parametrize("jacobian", [False, True])
@pytest.mark.parametrize("prior", [p for p in ALL if p.support == (0.0, np.inf)], ids=repr)
def test_log_prior_of_a_vector_parameter(prior, jacobian):
    part = Part(Param([0.5, 2.0, 7.0], prior=prior), Param(0.3, prior=Beta(2.0, 3.0)))
    value, gradient = part.log_prior(jacobian=jacobian)
    expected = prior.log_density([0.5, 2.0, 7.0]).sum() + Beta(2.0, 3.0).log_density(0.3)
    if jacobian:
        expected += np.log([0.5, 2.0, 7.0, 0.21]).sum()
    assert_allclose(value, expected, rtol=1e-13)
    h = 1e-6
    for i, e in enumerate(np.eye(4)):
        up, down = (part.replace(part.theta + s * h * e).log_prior(jacobian=jacobian)[0] for s in (1, -1))
        assert_allclose(gradient[i], (up - down) / (2 * h), rtol=1e-6, atol=1e-7)


def test_a_start_outside_the_support_is_refused():
    with pytest.raises(ValueError, match=r"Part: width = 20.0 has no density under its prior Uniform"):
        Part(Param(20.0, prior=Uniform(0.1, 10.0)), 0.5)


@pytest.mark.parametrize("inside", [True, False])
def test_priors_of_one_kind_are_evaluated_together(inside):
    """Elements of a vector with a prior each: as each prior says for itself, also outside the support."""
    shared, other = LogNormal(0.0, 2.0), HalfNormal(1.0)
    priors = [LogNormal(0.5, 1.0), None, shared, Normal(1.0, 2.0), other, Normal(-1.0, 0.5), shared]
    x = np.array([0.7, 3.0, 2.0, -0.3, 0.2, 4.0, 1.5 if inside else -1.0])
    groups = by_kind(priors)
    assert [at for _, at in groups] == [[0, 2, 6], [3, 5], [4]]
    assert groups[2][0] is other
    for prior, at in groups:
        each = [priors[i] for i in at]
        assert_array_equal(prior.log_density(x[at]), [float(p.log_density(v)) for p, v in zip(each, x[at])])
        assert_array_equal(prior.gradient(x[at]), [float(p.gradient(v)) for p, v in zip(each, x[at])])
