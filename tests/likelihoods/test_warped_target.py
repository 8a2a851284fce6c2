"""Warped targets: the Jacobian, exactness, gradients, predictions and every rule, against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import cavity.likelihoods as lk
from cavity import GP, GPRegressor
from cavity.io import dumps, loads
from cavity.kernels import SE
from cavity.prediction import GaussianPrediction, WarpedPrediction

WARPS = {
    "positive": lk.PositiveWarp(0.7, center=2.0),
    "log": lk.PositiveWarp(1e-3, center=2.0),
    "straight": lk.PositiveWarp(20.0, center=2.0),
    "zeros": lk.PositiveWarp(0.05, center=2.0, shift=0.3),
    "share": lk.IntervalWarp(0.0, 15.0),
    "ends": lk.IntervalWarp(0.0, 15.0, squeeze=0.02),
    "clipped": lk.Clipped(0.0),
}
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (12, 1))
Y = 3.0 * np.exp(np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(12))


@pytest.mark.parametrize("name", WARPS)
def test_inverse_and_slope(name):
    warp, y = WARPS[name], np.array([0.02, 0.5, 2.0, 9.0, 14.9])
    np.testing.assert_allclose(warp.inverse(warp.forward(y)), y, rtol=1e-9)
    h = 1e-5 * y
    numeric = (warp.forward(y + h) - warp.forward(y - h)) / (2 * h)
    np.testing.assert_allclose(np.exp(warp.log_slope(y)), numeric, rtol=1e-6)
    for k, (d_z, d_log) in enumerate(zip(*warp.parameter_slopes(y))):
        step = 1e-5 * warp.flat[k]
        up, down = (warp.with_flat(warp.flat + s * np.eye(len(warp.flat))[k]) for s in (step, -step))
        np.testing.assert_allclose(d_z, (up.forward(y) - down.forward(y)) / (2 * step), rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(
            d_log, (up.log_slope(y) - down.log_slope(y)) / (2 * step), rtol=1e-4, atol=1e-8
        )


def test_the_bend_goes_from_a_logarithm_to_a_straight_line():
    y = np.array([0.1, 1.0, 3.0, 30.0])
    np.testing.assert_allclose(lk.PositiveWarp(1e-8, 3.0).forward(y), 3.0 + 3.0 * np.log(y / 3.0), rtol=1e-6)
    large = np.array([1.0, 3.0, 30.0])
    np.testing.assert_allclose(lk.PositiveWarp(100.0, 3.0).forward(large), large, rtol=1e-9)


def test_extremes_stay_in_range_and_finite():
    z = np.array([-1e8, -50.0, 0.0, 50.0, 1e8])
    for name, warp in WARPS.items():
        y = warp.inverse(z)
        assert np.isfinite(y).all(), name
        assert ((y >= warp.lower) & (y <= warp.upper)).all(), name
        assert np.all(np.diff(y) >= 0), name


def test_targets_outside_the_range_are_named():
    with pytest.raises(ValueError, match=r"PositiveWarp is for targets within 0 and inf, got 0 at row 1"):
        lk.WarpedTarget(lk.Gaussian(), lk.PositiveWarp()).check([1.0, 0.0])
    with pytest.raises(ValueError, match="got 101"):
        lk.WarpedTarget(lk.Gaussian(), lk.IntervalWarp(0.0, 100.0)).check([101.0])
    with pytest.raises(ValueError, match="noise around one function"):
        lk.WarpedTarget(lk.Poisson(), lk.PositiveWarp())


@pytest.mark.parametrize("name", WARPS)
@pytest.mark.parametrize("noise", [lk.Gaussian(0.2), lk.StudentT(0.4, 4.0)], ids=["gaussian", "student-t"])
@pytest.mark.parametrize("rule", ["exact", "ep", "laplace", "variational"])
def test_gradients_of_every_rule(name, noise, rule):
    if rule == "exact" and not isinstance(noise, lk.Gaussian):
        return
    model = GP(2.0 * SE(1.3), lk.WarpedTarget(noise, WARPS[name]), "constant", rule).bind(1)
    value, gradient = model.evidence(X, Y)
    assert model.condition(X, Y).log_evidence == pytest.approx(value, abs=1e-5)
    h = 1e-5
    for k, e in enumerate(np.eye(len(gradient))):
        up, down = (model.replace(model.theta + s * e).evidence(X, Y)[0] for s in (h, -h))
        assert gradient[k] == pytest.approx((up - down) / (2 * h), abs=3e-5)


def test_exact_inference_of_a_log_warp_is_that_of_the_logarithm():
    """z = c + c log(y / c): the density of y is that of log y, divided by y."""
    warp = lk.PositiveWarp(1e-9, center=1.0)
    warped = GP(1.5 * SE(1.0), lk.WarpedTarget(lk.Gaussian(0.1), warp)).condition(X, Y)
    plain = GP(1.5 * SE(1.0), lk.Gaussian(0.1)).condition(X, 1.0 + np.log(Y))
    assert warped.log_evidence == pytest.approx(plain.log_evidence - np.sum(np.log(Y)), abs=1e-5)
    new = np.array([[0.5], [9.0]])
    z = plain.predict_y(new)
    truth = stats.lognorm(s=np.sqrt(z.variance), scale=np.exp(z.mean - 1.0))
    prediction = warped.predict_y(new)
    np.testing.assert_allclose(prediction.mean, truth.mean(), rtol=1e-5)
    np.testing.assert_allclose(prediction.variance, truth.var(), rtol=1e-4)
    np.testing.assert_allclose(
        prediction.quantile([0.05, 0.5, 0.95]), truth.ppf([[0.05], [0.5], [0.95]]), rtol=1e-5
    )
    np.testing.assert_allclose(prediction.log_prob([1.0, 2.0]), truth.logpdf([1.0, 2.0]), rtol=1e-5)
    np.testing.assert_allclose(prediction.cdf([1.0, 2.0]), truth.cdf([1.0, 2.0]), rtol=1e-5)
    assert prediction.log_prob([-1.0, 2.0])[0] == -np.inf
    left = warped.model.leave_one_out(X, Y).log_prob(Y) + np.log(Y)
    np.testing.assert_allclose(
        left, plain.model.leave_one_out(X, 1.0 + np.log(Y)).log_prob(1.0 + np.log(Y)), rtol=1e-5
    )


@pytest.mark.parametrize("name", ["positive", "share", "straight"])
def test_densities_integrate_to_one_and_moments_are_theirs(name):
    warp = WARPS[name]
    prediction = WarpedPrediction(GaussianPrediction(np.array([3.0]), np.array([1.3])), warp)
    top = min(warp.upper, 60.0)

    def density(y):
        return float(np.exp(prediction.log_prob([y])[0]))

    mass = integrate.quad(density, 1e-12, top - 1e-12, points=[1.0, 3.0, 8.0], limit=400)[0]
    mean = integrate.quad(lambda y: y * density(y), 1e-12, top - 1e-12, points=[1.0, 3.0, 8.0], limit=400)[0]
    assert mass == pytest.approx(1.0, abs=1e-6)
    assert prediction.mean[0] == pytest.approx(mean, rel=1e-6)
    draws = prediction.sample(200_000, 0)[:, 0]
    assert prediction.mean[0] == pytest.approx(draws.mean(), abs=5 * draws.std() / np.sqrt(len(draws)))
    assert prediction.variance[0] == pytest.approx(draws.var(), rel=0.03)


def test_likelihood_level_derivatives_agree_with_differences():
    """What samplers and annealing ask of the likelihood itself."""
    likelihood = lk.WarpedTarget(lk.StudentT(0.4, 4.0), WARPS["positive"])
    f, h = np.linspace(0.5, 4.0, len(Y)), 1e-5
    found = likelihood.parameter_derivatives(Y, f)
    of_d1 = likelihood.derivatives(Y, f)
    np.testing.assert_allclose(
        of_d1.d1,
        (likelihood.log_prob(Y, f + h) - likelihood.log_prob(Y, f - h)) / (2 * h),
        rtol=1e-6,
        atol=1e-8,
    )
    for k, e in enumerate(np.eye(likelihood.flat.size)):
        up, down = (likelihood.with_flat(likelihood.flat + s * e) for s in (h, -h))
        numeric = (up.log_prob(Y, f) - down.log_prob(Y, f)) / (2 * h)
        np.testing.assert_allclose(found.log_prob[k], numeric, rtol=1e-5, atol=1e-7)
        tilted = (up.tilted(Y, f, np.ones(len(Y))).log_z - down.tilted(Y, f, np.ones(len(Y))).log_z) / (2 * h)
        np.testing.assert_allclose(
            likelihood.tilted(Y, f, np.ones(len(Y))).d_log_z[k], tilted, rtol=1e-5, atol=1e-7
        )


def test_clipped_predictions_put_what_is_beyond_at_the_end():
    prediction = WarpedPrediction(GaussianPrediction(np.array([0.5]), np.array([1.0])), lk.Clipped(0.0))
    assert prediction.quantile(0.05)[0] == 0.0
    assert prediction.cdf([0.0])[0] == pytest.approx(stats.norm.cdf(-0.5))
    # E max(z, 0) of a normal z
    assert prediction.mean[0] == pytest.approx(0.5 * stats.norm.cdf(0.5) + stats.norm.pdf(0.5), rel=1e-2)


def test_estimator_learns_the_bend_and_is_stored():
    rng = np.random.default_rng(1)
    inputs = rng.uniform(-2, 2, (150, 1))
    prices = np.exp(10 + np.sin(inputs[:, 0]) + 0.3 * rng.standard_normal(150))
    model = GPRegressor(likelihood="positive", n_restarts=0, random_state=0).fit(inputs, prices)
    assert model.likelihood_.warp.bend < 0.2  # noise is proportional to the price
    again = loads(dumps(model))
    new = np.array([[-1.0], [0.0], [50.0]])
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    np.testing.assert_allclose(again.predict_dist(new).quantile(0.9), model.predict_dist(new).quantile(0.9))
    more = model.update([[0.0]], [np.exp(10.0)])
    assert more.predict_dist(new).quantile(0.01).min() > 0
    # repeated rows are one row with their weight, and leave-one-out takes one away
    twice = GPRegressor(likelihood="positive", n_restarts=0, random_state=0)
    twice.fit(np.vstack([inputs, inputs[:3]]), np.concatenate([prices, prices[:3]]))
    assert np.isfinite(twice.leave_one_out().log_prob(np.concatenate([prices, prices[:3]]))).all()


def test_samplers_take_warped_targets():
    from cavity.sampling import MCMC

    rule = MCMC(n_draws=40, warmup=40, chains=2, rng=0, warn=False, hyperparameters=False)
    posterior = GP(1.5 * SE(1.0), lk.WarpedTarget(lk.Gaussian(0.1), WARPS["positive"]), inference=rule)
    drawn = posterior.condition(X, Y)
    exact = GP(1.5 * SE(1.0), lk.WarpedTarget(lk.Gaussian(0.1), WARPS["positive"])).condition(X, Y)
    new = np.array([[1.0], [4.0]])
    sd = np.sqrt(exact.variance(new))
    assert np.all(np.abs(drawn.mean(new) - exact.mean(new)) < sd)
    assert np.all(drawn.predict_y(new).quantile(0.05) > 0)


def test_heavy_tails_have_a_median_for_a_mean():
    """Of the exponential of Student-t noise there is no mean."""
    likelihood = lk.WarpedTarget(lk.StudentT(0.3, 1.5), lk.PositiveWarp(1e-3, center=2.0))
    prediction = likelihood.predictive(np.array([2.0, 5.0]), np.array([0.1, 0.1]))
    np.testing.assert_allclose(prediction.mean, likelihood.warp.inverse(np.array([2.0, 5.0])), rtol=1e-8)
    assert np.all(np.isinf(prediction.variance))
