"""The model object: parts put together, data checked, posteriors updated, draws."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cavity import load
from cavity.gp import GP
from cavity.inference.base import InferenceRule
from cavity.inference.exact import Exact
from cavity.kernels import SE, Matern, White, ard
from cavity.likelihoods import Gaussian, KnownNoise, Noiseless, as_likelihood
from cavity.means.basis import Basis
from cavity.means.functions import Constant
from cavity.parameters.param import Param, fixed
from cavity.prediction import GaussianPrediction
from cavity.runtime.errors import InputError
from cavity.sampling.mcmc import MCMC
from tests.warm import Evaluations

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (20, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(20)
POINTS = RNG.uniform(-2, 2, (7, 2))
MODEL = GP(1.2 * SE([0.8, 1.5]), Gaussian(0.05), mean="constant")


# --- the value ----------------------------------------------------------------------------------------------


def test_theta_lists_kernel_mean_and_likelihood():
    model = GP(1.2 * SE(ard), Gaussian(0.05), mean="linear").bind(2)
    assert model.names == (
        "se.variance",
        "se.lengthscale[0]",
        "se.lengthscale[1]",
        "mean.intercept",
        "mean.slopes[0]",
        "mean.slopes[1]",
        "gaussian.variance",
    )
    moved = model.replace(model.theta + 0.1)
    np.testing.assert_allclose(moved.theta, model.theta + 0.1)
    assert isinstance(moved, GP)


def test_repr_reads_like_the_model():
    assert repr(MODEL) == (
        "GP(1.2 * SE(lengthscale=[0.8, 1.5]), Gaussian(variance=0.05), mean=Constant(value=0.0))"
    )


def test_defaults():
    model = GP(SE(1.0))
    assert model.likelihood == Gaussian(1.0)
    assert repr(model.mean) == "Zero()"
    assert model.inference.name == "exact"


def test_a_kernel_must_be_a_kernel():
    with pytest.raises(ValueError, match=r"kernel must be a cavity kernel, .* got 'SE'"):
        GP("SE")


def test_models_can_be_pickled():
    posterior = MODEL.condition(X, Y)
    copy = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(copy.mean(POINTS), posterior.mean(POINTS))
    np.testing.assert_array_equal(copy.variance(POINTS), posterior.variance(POINTS))


# --- data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (X, Y[:-1], "X and y must have as many rows as each other, got 20 and 19"),
        (X[:0], Y[:0], "X is empty"),
        (np.where(X > 1.9, np.nan, X), Y, r"X has a value that is not finite \(nan\) at row \d+, column \d"),
        (
            X,
            np.where(Y.max() == Y, np.inf, Y),
            r"Gaussian: y has a value that is not finite \(inf\) at row \d+",
        ),
        ([["a", "b"]], [1.0], "X must hold real numbers only; encode text columns first"),
        (X, ["a"] * 20, "y must hold numbers"),
        (np.zeros((2, 2, 2)), [1.0, 2.0], r"X must be a matrix .* got an array of shape \(2, 2, 2\)"),
        (np.zeros((3, 0)), np.zeros(3), "at least one column"),
        (X[:, :1], Y, "SE is made for 2 input columns, but the data have 1"),
    ],
)
@pytest.mark.parametrize("method", ["evidence", "condition", "leave_one_out", "leave_one_out_log_prob"])
def test_bad_data_are_refused_by_name_and_value(method, X, y, words):
    with pytest.raises(ValueError, match=words):
        getattr(MODEL, method)(X, y)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(3), "sample_weight must be 20 positive numbers"),
        (np.r_[0.0, np.ones(19)], "leave out rows of weight zero.* got .*0.0"),
        (np.r_[np.nan, np.ones(19)], "got .*nan"),
        (np.r_[-1.0, np.ones(19)], "got .*-1.0"),
    ],
)
def test_bad_weights_are_refused(weight, words):
    with pytest.raises(ValueError, match=words):
        MODEL.evidence(X, Y, weight)


def test_a_vector_is_one_column():
    model = GP(SE(1.0), Gaussian(0.1))
    assert model.evidence(X[:, 0], Y)[0] == model.evidence(X[:, :1], Y)[0]


def test_frames_bring_their_column_names():
    frame = pd.DataFrame(X, columns=["time", "depth"])
    named = GP(SE(0.8).on("depth") + SE(1.5).on("time"), Gaussian(0.1))
    indexed = GP(SE(0.8).on(1) + SE(1.5).on(0), Gaussian(0.1))
    assert named.evidence(frame, Y)[0] == indexed.evidence(X, Y)[0]
    np.testing.assert_allclose(named.condition(frame, Y).mean(frame), indexed.condition(X, Y).mean(X))
    assert named.sample_prior(frame, rng=0).shape == (1, 20)
    with pytest.raises(ValueError, match=r"unknown column 'size' .* the columns are \['time', 'depth'\]"):
        GP(SE(1.0).on("size")).evidence(frame, Y)
    with pytest.raises(ValueError, match="no column names; use indices"):
        named.evidence(X, Y)


@pytest.mark.parametrize("rule", ["exact", MCMC(4, 4, 2, rng=0, hyperparameters=False, progress=False)])
def test_frames_with_other_columns_than_before_are_refused(rule, tmp_path):
    frame = pd.DataFrame(X, columns=["time", "depth"])
    turned = frame[["depth", "time"]]
    posterior = GP(SE(0.8).on("depth"), Gaussian(0.1), inference=rule).condition(frame, Y)
    posterior.save(tmp_path / "named.cavity")
    words = r"columns of X are \['depth', 'time'\], but .* were \['time', 'depth'\]: give these"
    for known in (posterior, load(tmp_path / "named.cavity")):
        for ask in (
            known.mean,
            known.variance,
            known.covariance,
            known.sample,
            known.predict_f,
            known.predict_y,
        ):
            with pytest.raises(ValueError, match=words):
                ask(turned)
        with pytest.raises(ValueError, match=words):
            known.update(turned, Y)
        for same in (frame, X, pd.DataFrame(X), pl.from_pandas(frame)):
            np.testing.assert_array_equal(known.mean(same), posterior.mean(X))
    with pytest.raises(ValueError, match=words):
        posterior.model.evidence(turned, Y)


def test_prior_draws_know_columns_by_name():
    frame = pd.DataFrame(X, columns=["time", "depth"])
    named, indexed = (GP(SE(0.8).on(column)).sample_prior(frame, 2, rng=0) for column in ("depth", 1))
    np.testing.assert_array_equal(named, indexed)


def test_evaluations_on_shared_memory_give_the_same():
    space = Evaluations()
    for _ in range(2):
        value, gradient = space.evidence(MODEL, X, Y)
        again, same = MODEL.evidence(X, Y)
        assert value == again
        np.testing.assert_array_equal(gradient, same)


# --- predictions --------------------------------------------------------------------------------------------


def test_predictions_of_function_and_observations():
    posterior = MODEL.condition(X, Y)
    f, y, joint = (
        posterior.predict_f(POINTS),
        posterior.predict_y(POINTS),
        posterior.predict_f(POINTS, joint=True),
    )
    assert isinstance(y, GaussianPrediction)
    np.testing.assert_allclose(y.variance, f.variance + 0.05)
    np.testing.assert_allclose(joint.covariance, posterior.covariance(POINTS))
    np.testing.assert_allclose(joint.variance, f.variance, rtol=1e-9)
    low, high = y.interval(0.95)
    np.testing.assert_allclose(high - low, 2 * 1.959963984540054 * y.sd)
    assert posterior.sample(POINTS, 3, rng=0).shape == (3, 7)


def test_predictions_of_several_targets():
    posterior = MODEL.condition(X, np.column_stack([Y, -Y]))
    y = posterior.predict_y(POINTS)
    assert y.mean.shape == y.variance.shape == (7, 2)
    np.testing.assert_allclose(
        posterior.predict_f(POINTS, joint=True).covariance, posterior.covariance(POINTS)
    )


def test_basis_weights_are_reported():
    posterior = GP(SE(1.0), Gaussian(0.05), mean=Basis("linear")).condition(X, Y)
    assert posterior.basis.mean.shape == posterior.basis.sd.shape == (3,)
    assert MODEL.condition(X, Y).basis is None
    two = GP(SE(1.0), Gaussian(0.05), mean=Basis("linear")).condition(X, np.column_stack([Y, 2 * Y]))
    np.testing.assert_allclose(two.basis.mean[:, 1], 2 * posterior.basis.mean)


# --- more data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["zero", "linear", Basis("linear"), Basis("linear", 0.2, 1.0)], ids=repr)
@pytest.mark.parametrize("kernel", [1.2 * SE(ard), 0.5 * Matern(1.0) + White(0.2)], ids=repr)
@pytest.mark.parametrize("m", [1, 8])
def test_update_equals_conditioning_on_everything(mean, kernel, m):
    model = GP(kernel, Gaussian(0.05), mean=mean)
    updated = model.condition(X[:-m], Y[:-m]).update(X[-m:], Y[-m:])
    whole = model.condition(X, Y)
    assert updated.log_evidence == pytest.approx(whole.log_evidence, rel=1e-11)
    np.testing.assert_allclose(updated.mean(POINTS), whole.mean(POINTS), atol=1e-10)
    np.testing.assert_allclose(updated.covariance(POINTS), whole.covariance(POINTS), atol=1e-10)


def test_updates_one_after_the_other_with_weights_and_targets():
    T = np.column_stack([Y, Y**2])
    w = np.linspace(0.5, 2.0, 10)
    updated = MODEL.condition(X[:10], T[:10], w).update(X[10:13], T[10:13]).update(X[13:], T[13:])
    whole = MODEL.condition(X, T, np.r_[w, np.ones(10)])
    assert updated.log_evidence == pytest.approx(whole.log_evidence, rel=1e-11)
    np.testing.assert_allclose(updated.mean(POINTS), whole.mean(POINTS), atol=1e-10)


@pytest.mark.parametrize("inference", ["exact", "laplace", "ep"])
def test_a_posterior_has_data_of_its_own(inference):
    """Arrays that a caller fills again, as a buffer of measurements, change nothing."""
    data, targets, weight = X.copy(), Y.copy(), np.full(len(X), 1.5)
    posterior = GP(MODEL.kernel, MODEL.likelihood, "constant", inference).condition(data, targets, weight)
    before = posterior.update(POINTS, np.zeros(7)).mean(POINTS)
    for array in (data, targets, weight):
        array[:] = 9.0
    np.testing.assert_array_equal(posterior.update(POINTS, np.zeros(7)).mean(POINTS), before)


def test_update_refuses_other_shapes():
    posterior = MODEL.condition(X, Y)
    with pytest.raises(ValueError, match="must have the columns of the data before"):
        posterior.update(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="must have the columns of the data before"):
        posterior.update(X[:, :1], Y)
    with pytest.raises(ValueError, match="not finite"):
        posterior.update(X[:1], [np.nan])
    known = GP(SE(1.0), KnownNoise(np.ones(20))).condition(X, Y)
    with pytest.raises(ValueError, match="KnownNoise holds the noise variances of the 20 observations"):
        known.update(X[:1], Y[:1])
    with pytest.raises(ValueError, match="one entry for each of the 2 new observations, got shape"):
        known.update(X[:2], Y[:2], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="noise_variance is for KnownNoise; Gaussian says itself"):
        posterior.update(X[:1], Y[:1], 0.1)


@pytest.mark.parametrize("inference", ["exact", "ep"])
def test_update_takes_the_noise_of_new_observations(inference):
    s = np.linspace(0.05, 0.4, len(X))
    first = GP(SE(1.0), KnownNoise(s[:15], variance=0.1), inference=inference).condition(X[:15], Y[:15])
    updated = first.update(X[15:18], Y[15:18], s[15:18]).update(X[18:], Y[18:], s[18:])
    whole = GP(SE(1.0), KnownNoise(s, variance=0.1), inference=inference).condition(X, Y)
    assert updated.log_evidence == pytest.approx(whole.log_evidence, rel=1e-9)
    np.testing.assert_allclose(updated.mean(POINTS), whole.mean(POINTS), atol=1e-9)
    assert updated.model.likelihood == whole.model.likelihood
    equal = first.update(X[15:], Y[15:], 0.3)
    assert equal.model.likelihood == KnownNoise([*s[:15], *[0.3] * 5], variance=0.1)


def test_known_noise_says_nothing_about_new_observations():
    posterior = GP(SE(1.0), KnownNoise(np.full(20, 0.5), variance=0.25)).condition(X, Y)
    with pytest.raises(ValueError, match="give those of the new ones as noise_variance"):
        posterior.predict_y(X)  # as many rows as were learned from: still others
    f = posterior.predict_f(POINTS)
    s = np.linspace(0.1, 0.2, len(f.mean))
    np.testing.assert_allclose(posterior.predict_y(POINTS, s).variance, f.variance + s + 0.25, rtol=1e-12)
    np.testing.assert_allclose(posterior.predict_y(POINTS, 0.0).variance, f.variance + 0.25, rtol=1e-12)


def test_update_where_the_rule_cannot_extend():
    class Plain(InferenceRule):
        name = "plain"

        def supports(self, likelihood):
            return True

        def infer(self, *args):
            return Exact().infer(*args)

        def evidence(self, *args):
            return Exact().evidence(*args)

        def leave_one_out(self, *args):
            return Exact().leave_one_out(*args)

        def degrees_of_freedom(self, *args):
            return Exact().degrees_of_freedom(*args)

    model = GP(SE(1.0), Gaussian(0.05), inference=Plain())
    updated = model.condition(X[:15], Y[:15]).update(X[15:], Y[15:])
    assert updated.log_evidence == pytest.approx(model.condition(X, Y).log_evidence)


# --- draws before seeing data -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "level", "extra"),
    [
        (Constant(3.0), np.full(7, 3.0), np.zeros((7, 7))),
        (
            Basis("linear", [1.0, 0.0, 2.0], [0.5, 1.0, 2.0]),
            1.0 + 2.0 * POINTS[:, 1],
            np.column_stack([np.ones(7), POINTS])
            @ np.diag([0.5, 1.0, 2.0])
            @ np.column_stack([np.ones(7), POINTS]).T,
        ),
    ],
    ids=["constant", "finite weights"],
)
def test_prior_draws_have_the_prior_moments(mean, level, extra):
    size = 20_000
    draws = GP(1.2 * SE(0.8), mean=mean).sample_prior(POINTS, size, rng=0)
    assert draws.shape == (size, 7)
    cov = 1.2 * SE(0.8)(POINTS) + extra
    assert np.max(np.abs(draws.mean(axis=0) - level) / np.sqrt(np.diag(cov) / size)) < 4.5
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / size)
    centered = draws - level
    assert np.max(np.abs(centered.T @ centered / size - cov) / error) < 5.0


def test_vague_weights_have_no_prior_draws():
    with pytest.raises(ValueError, match="vague weights have no prior draws"):
        GP(SE(1.0), mean=Basis("linear")).sample_prior(POINTS)


# --- observations without noise -----------------------------------------------------------------------------


def test_noiseless_observations_are_interpolated():
    x = np.linspace(0, 3, 6)[:, None]
    y = np.sin(x[:, 0])
    posterior = GP(SE(1.0), as_likelihood("noiseless")).condition(x, y)
    np.testing.assert_allclose(posterior.mean(x), y, atol=1e-9)
    assert np.all(posterior.variance(x) < 1e-9)
    K = SE(1.0)(x)
    truth = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 6 * np.log(2 * np.pi))
    assert posterior.log_evidence == pytest.approx(truth, rel=1e-9)
    np.testing.assert_allclose(posterior.predict_y(POINTS[:, :1]).variance, posterior.variance(POINTS[:, :1]))


def test_noiseless_gradient():
    x = np.linspace(0, 3, 6)[:, None]
    model = GP(1.3 * SE(0.5), Noiseless())
    _, gradient = model.evidence(x, np.sin(x[:, 0]))
    h = 1e-5
    for i in range(2):
        e = h * np.eye(2)[i]
        up, down = (model.replace(model.theta + s * e).evidence(x, np.sin(x[:, 0]))[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-6)


def test_noiseless_points_that_nearly_coincide_take_reported_jitter():
    x = np.array([[0.0], [1e-9], [1.0]])
    posterior = GP(SE(1.0), Noiseless()).condition(x, [0.0, 0.0, 1.0])
    assert posterior.status.jitter > 0
    assert "jitter" in posterior.status.message


def test_noiseless_refuses_what_it_cannot_mean():
    with pytest.raises(ValueError, match="observations without noise take no sample_weight"):
        GP(SE(1.0), Noiseless()).evidence([[0.0], [1.0]], [0.0, 1.0], [1.0, 2.0])
    for method in ("derivatives", "tilted", "expected_log_prob", "parameter_derivatives"):
        with pytest.raises(ValueError, match="use inference='exact'"):
            getattr(Noiseless(), method)(np.zeros(1), np.zeros(1), np.ones(1))
    np.testing.assert_array_equal(
        Noiseless().log_prob(np.array([1.0, 2.0]), np.array([1.0, 1.0])), [np.inf, -np.inf]
    )
    assert Noiseless().min_cavity_precision == -np.inf
    np.testing.assert_array_equal(
        Noiseless().sample(np.arange(3.0), np.random.default_rng(0)), np.arange(3.0)
    )


def test_targets_without_noise_that_contradict_each_other_are_refused():
    X, y = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0]]), np.array([1.0, 2.0, 3.0])
    with pytest.raises(
        InputError, match=r"y differs between rows 0 and 2, 1\.0 and 3\.0, .*or use Gaussian noise"
    ):
        GP(1.3 * SE(0.5), Noiseless()).condition(X, y)
    same = GP(1.3 * SE(0.5), Noiseless()).condition(X, [1.0, 2.0, 1.0])
    np.testing.assert_allclose(same.mean(X), [1.0, 2.0, 1.0], atol=1e-5)
    noisy = GP(1.3 * SE(0.5) + 0.1 * White(), Noiseless()).condition(X, y)  # noise that the kernel has
    assert 1.0 < noisy.mean(X[:1])[0] < 3.0


def test_fixed_noise_is_not_learned():
    model = GP(1.0 * SE(fixed(1.0)), Gaussian(Param(0.1, fixed=True)))
    assert model.names == ("se.variance",)
    assert model.evidence(X, Y)[1].shape == (1,)
