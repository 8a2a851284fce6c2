"""`GPClassifier`: probabilities, decisions, several classes, weights, company of other tools."""

from __future__ import annotations

import doctest
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_ndtr, ndtr
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cavity import GP, GPClassifier
from cavity.datasets import make_clusters_1d
from cavity.estimators import classifier, decisions, multiclass
from cavity.inference.base import ConvergenceWarning, Status
from cavity.kernels import SE, Linear, ard
from cavity.learning import signal_prior
from cavity.learning.large_data import same_shares
from cavity.likelihoods import LapseProbit, Probit
from cavity.means.functions import Constant
from cavity.parameters.param import Param, fixed
from cavity.parameters.priors import LogNormal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
CODES = (X[:, 0] + X[:, 1] ** 2 - 0.7 + 0.3 * RNG.normal(size=60) > 0).astype(int)
LABELS = np.array(["no", "yes"])[CODES]
POINTS = RNG.normal(size=(25, 2))
KERNEL = 4.0 * SE(1.0)
AS_GIVEN = {"objective": None, "signal_prior": None}
IRIS_X, IRIS_Y = load_iris(return_X_y=True)
IRIS_NAMES = np.array(["setosa", "versicolor", "virginica"])[IRIS_Y]


@pytest.fixture(scope="module")
def fitted() -> GPClassifier:
    return GPClassifier("1.0 * SE(1.0)", n_restarts=0, random_state=0).fit(X, LABELS)


@pytest.fixture(scope="module")
def three() -> dict[str, GPClassifier]:
    kernel = 20.0 * SE(2.0)
    names = ("softmax", "one_vs_rest", "one_vs_one")
    return {
        n: GPClassifier(kernel, multi_class=n, **AS_GIVEN).fit(IRIS_X[::2], IRIS_NAMES[::2]) for n in names
    }


# --- two classes --------------------------------------------------------------------------------------------


def test_docstring():
    assert doctest.testmod(classifier).failed == 0


def test_default_fit(fitted):
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.multi_class_ == "binary"
    assert fitted.score(X, LABELS) > 0.9
    assert set(fitted.predict(POINTS)) == {"no", "yes"}
    assert fitted.posterior_.status.converged
    assert fitted.runs_[0].converged
    assert fitted.log_evidence_ < 0


def test_probabilities_agree_with_scikit_learn():
    """Logistic Laplace with the same kernel; scikit-learn approximates the logistic average by error functions."""
    ours = GPClassifier(KERNEL, likelihood="logit", inference="laplace", **AS_GIVEN).fit(X, LABELS)
    peer = GaussianProcessClassifier(ConstantKernel(4.0) * RBF(1.0), optimizer=None).fit(X, LABELS)
    np.testing.assert_allclose(ours.predict_proba(POINTS), peer.predict_proba(POINTS), atol=1e-3)
    assert ours.log_evidence_ == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-4)


def test_probabilities_are_averaged_over_the_posterior():
    """Monte Carlo over the latent function; the value at the mean is something else."""
    for name, link in (("probit", ndtr), ("logit", expit)):
        model = GPClassifier(KERNEL, likelihood=name, **AS_GIVEN).fit(X, LABELS)
        latent = model.predict_latent(POINTS)
        f = latent.mean + latent.sd * np.random.default_rng(1).standard_normal((40000, len(POINTS)))
        p = model.predict_proba(POINTS)[:, 1]
        error = 4 * link(f).std(axis=0) / np.sqrt(len(f))
        assert np.all(np.abs(link(f).mean(axis=0) - p) < error + 1e-4)
        assert np.max(np.abs(link(latent.mean) - p)) > 0.03


def test_the_model_is_the_probit_gp():
    model = GPClassifier(KERNEL, **AS_GIVEN).fit(X, LABELS)
    truth = GP(KERNEL, Probit(), inference="ep").condition(X, np.where(CODES > 0, 1.0, -1.0))
    assert model.log_evidence_ == pytest.approx(truth.log_evidence, abs=1e-9)
    latent = model.predict_latent(POINTS)
    np.testing.assert_allclose(latent.mean, truth.mean(POINTS), atol=1e-8)
    np.testing.assert_allclose(latent.variance, truth.variance(POINTS), atol=1e-8)
    np.testing.assert_allclose(
        model.predict_proba(POINTS)[:, 1], ndtr(latent.mean / np.sqrt(1 + latent.variance))
    )


def test_ep_is_more_confident_than_laplace_on_three_clusters():
    """Book section 3.7.2: at x = -6 the band of two standard deviations holds zero for Laplace, not for EP."""
    data = make_clusters_1d(rng=0)
    low = {}
    for rule in ("ep", "laplace"):
        model = GPClassifier(49.0 * SE(2.6), inference=rule, **AS_GIVEN).fit(data.X, data.y)
        latent = model.predict_latent([[-6.0]])
        low[rule] = float(latent.mean[0] - 2 * latent.sd[0])
        assert model.predict([[-6.0]])[0] == 1
    assert low["laplace"] < 0 < low["ep"]


def test_far_away_probabilities_are_those_of_the_prior(fitted):
    np.testing.assert_allclose(fitted.predict_proba([[1e6, -1e6]]), [[0.5, 0.5]], atol=1e-12)
    rare = np.where(np.arange(60) < 12, "a", "b")
    model = GPClassifier("1.0 * SE(1.0)", mean="constant", n_restarts=0).fit(X, rare)
    assert model.predict_proba([[1e6, -1e6]])[0, 1] == pytest.approx(0.8, abs=0.07)


def test_decision_function_orders_cases_as_probabilities_do(fitted, three):
    score = fitted.decision_function(POINTS)
    assert score.shape == (25,)
    np.testing.assert_array_equal(score > 0, fitted.predict(POINTS) == "yes")
    np.testing.assert_array_equal(np.argsort(score), np.argsort(fitted.predict_proba(POINTS)[:, 1]))
    for model in three.values():
        winner = model.classes_[np.argmax(model.decision_function(IRIS_X), axis=1)]
        np.testing.assert_array_equal(winner, model.predict(IRIS_X))


def test_log_probabilities_keep_small_ones():
    model = GPClassifier(KERNEL, mean=Constant(fixed(20.0)), **AS_GIVEN).fit(X, LABELS)
    log_p = model.predict_log_proba([[1e6, 0.0]])[0]
    np.testing.assert_allclose(log_p, [log_ndtr(-20 / np.sqrt(5)), log_ndtr(20 / np.sqrt(5))], rtol=1e-9)
    assert log_p[0] < -40


def test_wrong_labels_are_found_by_the_lapse_rate():
    x = np.linspace(-3, 3, 60)[:, None]
    labels = (x[:, 0] > 0).astype(int)
    labels[[5, 50]] = 1 - labels[[5, 50]]
    model = GPClassifier("1.0 * SE(1.0)", likelihood="lapse-probit", n_restarts=0, random_state=0).fit(
        x, labels
    )
    np.testing.assert_array_equal(model.predict(x), x[:, 0] > 0)


# --- the default prior --------------------------------------------------------------------------------------


def test_the_signal_does_not_run_away_where_classes_separate():
    """Without a prior the evidence has no maximum; with it the signal stays where labels can tell."""
    x = np.linspace(-3, 3, 30)[:, None]
    labels = x[:, 0] > 0
    options = {"n_restarts": 0, "random_state": 0}
    weak = GPClassifier("1.0 * SE(1.0)", **options).fit(x, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        none = GPClassifier("1.0 * SE(1.0)", signal_prior=None, **options).fit(x, labels)
    assert 5.0 < np.sqrt(weak.kernel_.get("se.variance")) < 60.0
    assert none.kernel_.get("se.variance") > 100 * weak.kernel_.get("se.variance")


def test_log_evidence_leaves_the_prior_out(fitted):
    value, gradient = fitted.model_.evidence(X, np.where(CODES > 0, 1.0, -1.0))
    prior, d_prior = fitted.model_.log_prior()
    assert fitted.log_evidence_ == pytest.approx(value, abs=1e-6)
    assert fitted.runs_[0].value == pytest.approx(value + prior, abs=1e-6)
    np.testing.assert_allclose(gradient + d_prior, 0.0, atol=1e-3)


def test_the_prior_is_flat_up_to_large_signals_and_falls_beyond():
    prior = signal_prior.weak_prior()
    at = {s: float(prior.log_density(np.array(s**2))) for s in (1e-6, 5.0, 20.0, 60.0, 240.0)}
    assert at[1e-6] - at[5.0] < 0.01
    assert at[1e-6] - at[20.0] == pytest.approx(np.log(2.0))
    assert at[1e-6] - at[60.0] == pytest.approx(4.4, abs=0.05)
    assert at[1e-6] - at[240.0] == pytest.approx(10.0, abs=0.1)


def test_labels_that_do_not_depend_on_the_inputs_leave_no_signal():
    labels = np.random.default_rng(5).random(60) < 0.7
    model = GPClassifier("1.0 * SE(1.0)", mean="constant", n_restarts=0).fit(X, labels)
    assert model.kernel_.get("se.variance") < 0.5
    np.testing.assert_allclose(model.predict_proba(POINTS)[:, 1], np.mean(labels), atol=0.15)


@pytest.mark.parametrize(
    "kernel", ["1.0 * Linear()", "1.0 * SE(ard) + 1.0 * Linear()", "1.0 * Polynomial(2)"]
)
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_of_the_inputs_do_not_matter(kernel, unit):
    """The weak prior is about the size of the latent function, whatever the kernel's own variance."""
    plain, other = (GPClassifier(kernel, n_restarts=0).fit(u * X, LABELS) for u in (1.0, unit))
    assert other.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-3)
    np.testing.assert_allclose(other.predict_proba(unit * POINTS), plain.predict_proba(POINTS), atol=1e-3)


def test_softmax_on_inputs_of_very_different_sizes():
    """Rounding once hid the curvature of Newton's method, and a log probability of 1e33 won."""
    wine, label = load_wine(return_X_y=True)
    wine, label = wine[::2], label[::2]
    model = GPClassifier("1.0 * Linear(ard)", multi_class="softmax", n_restarts=1, random_state=0).fit(
        wine, label
    )
    assert all(run.value <= 0 for run in model.runs_)
    assert model.log_evidence_ < 0
    assert model.score(wine, label) > 0.95  # linear discriminants tell these classes apart


def test_the_prior_of_the_user_is_respected():
    own = LogNormal(0.0, 1.0)
    kernel = Param(2.0, prior=own) * SE(1.0) + Param(3.0, fixed=True) * SE(2.0) + 2.0 * Linear(0.5)
    out = signal_prior.with_signal_prior(kernel.bind(2), X)
    priors = [p.prior for p in out._paths().values()]
    assert priors[0] is own
    assert priors[2] is None  # fixed
    linear = [p for name, p in out._paths().items() if name.startswith("linear")]
    unit = float(np.mean(Linear(0.5).bind(2).diag(X)))
    assert linear[0].prior == signal_prior.weak_prior(unit)
    tied = Param(2.0, tie="s") * SE(1.0) + Param(2.0, tie="s") * SE(3.0)
    assert len(signal_prior.with_signal_prior(tied.bind(2), X).layout._priors) == 1
    model = GPClassifier(KERNEL, signal_prior=own, objective=None).fit(X, LABELS)
    assert model.kernel_._paths()["se.variance"].prior is own


# --- decisions ----------------------------------------------------------------------------------------------


def test_reject_option_follows_chows_rule(fitted):
    p = fitted.predict_proba(POINTS)
    out = fitted.predict(POINTS, reject=0.2)
    assert out.dtype == object
    for label, row in zip(out, p):
        assert label == (None if row.max() < 0.8 else fitted.classes_[row.argmax()])
    assert None in out
    assert "unsure" in fitted.predict(POINTS, reject=0.2, reject_label="unsure")
    codes = GPClassifier(KERNEL, **AS_GIVEN).fit(X, CODES)
    marked = codes.predict(POINTS, reject=0.2, reject_label=-1)
    assert marked.dtype.kind == "i"
    assert set(marked) == {-1, 0, 1}
    np.testing.assert_array_equal(fitted.predict(POINTS, reject=0.5), fitted.predict(POINTS))


def test_a_loss_matrix_moves_the_boundary(fitted):
    """Missing a "yes" costs 9, a false alarm 1: decide "yes" where 9 p > 1 - p, that is p > 0.1."""
    loss = [[0.0, 1.0], [9.0, 0.0]]
    p = fitted.predict_proba(POINTS)[:, 1]
    np.testing.assert_array_equal(fitted.predict(POINTS, loss=loss) == "yes", p > 0.1)
    expected = np.minimum(9 * p, 1 - p)
    declined = fitted.predict(POINTS, loss=loss, reject=0.3) == None  # noqa: E711
    np.testing.assert_array_equal(declined, expected > 0.3)
    assert declined.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": np.eye(3)}, r"loss must have shape \(2, 2\)"),
        ({"loss": [[0, np.inf], [1, 0]]}, "finite"),
        ({"reject": "often"}, "reject must be the loss"),
        ({"reject": True}, "reject must be the loss"),
    ],
)
def test_bad_decisions_are_refused(fitted, options, message):
    with pytest.raises(ValueError, match=message):
        fitted.predict(POINTS, **options)


def test_error_reject_curve_by_hand():
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
    curve = decisions.error_reject_curve(p, np.array([0, 1, 1, 1]))
    np.testing.assert_allclose(curve.threshold, [0.6, 0.7, 0.8, 0.9])
    np.testing.assert_allclose(curve.rejected, [0.0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(curve.error, [0.25, 0.0, 0.0, 0.0])


def test_error_reject_curve_of_a_model(fitted):
    curve = fitted.error_reject_curve(X, LABELS)
    assert curve.error[0] == pytest.approx(1 - fitted.score(X, LABELS))
    assert np.all(np.diff(curve.rejected) > 0)
    assert np.all(fitted.error_reject_curve(X, np.full(60, "maybe")).error == 1.0)
    with pytest.raises(ValueError, match="y must have shape"):
        fitted.error_reject_curve(X, LABELS[:3])


# --- more classes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "one_vs_rest", "one_vs_one"])
def test_iris(three, name):
    model = three[name]
    p = model.predict_proba(IRIS_X[1::2])
    assert p.shape == (75, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert p.min() >= 0
    assert model.score(IRIS_X[1::2], IRIS_NAMES[1::2]) > 0.93
    truth = p[np.arange(75), IRIS_Y[1::2]]
    assert -np.mean(np.log(truth)) < 0.35  # guessing: 1.1
    np.testing.assert_allclose(model.predict_proba(np.full((1, 4), 1e5)), 1 / 3, atol=2e-3)
    assert model.multi_class_ == name


@pytest.mark.parametrize("name", ["posterior", "model", "kernel", "mean", "likelihood", "runs"])
def test_attributes_of_one_model_exist_where_there_is_one(three, name):
    (only,) = three["one_vs_rest"].members_
    assert getattr(three["one_vs_rest"], name + "_") is getattr(only, name)
    with pytest.raises(
        AttributeError, match=rf"made of 3 models.* \[member.{name} for member in model.members_\]"
    ):
        getattr(three["one_vs_one"], name + "_")
    assert not hasattr(three["one_vs_one"], name + "_")
    with pytest.raises(AttributeError, match=f"no {name}_ yet: call fit first"):
        getattr(GPClassifier(), name + "_")


@pytest.mark.parametrize("name", ["softmax", "one_vs_rest", "one_vs_one"])
def test_the_distribution_of_labels_is_that_of_places_in_classes(three, name):
    model, at = three[name], IRIS_X[::30]
    prediction = model.predict_dist(at)
    np.testing.assert_array_equal(prediction.probabilities, model.predict_proba(at))
    codes = np.searchsorted(model.classes_, model.predict(at))
    most = np.log(model.predict_proba(at).max(axis=1))
    np.testing.assert_allclose(prediction.log_prob(codes), most, atol=1e-12)


def test_what_each_model_tells_apart(three):
    assert three["softmax"].problems_ == three["one_vs_rest"].problems_ == ("",)
    assert three["one_vs_one"].problems_[2] == "versicolor against virginica"
    assert [m.name for m in three["one_vs_one"].members_] == list(three["one_vs_one"].problems_)
    assert three["softmax"].predict_latent(IRIS_X[:5]).mean.shape == (5, 3)
    latent = three["one_vs_one"].predict_latent(IRIS_X[:5])
    np.testing.assert_allclose(latent.mean[:, 2], three["one_vs_one"].members_[2].posterior.mean(IRIS_X[:5]))
    assert latent.variance.shape == (5, 3)
    total = sum(member.posterior.log_evidence for member in three["one_vs_one"].members_)
    assert three["one_vs_one"].log_evidence_ == pytest.approx(total)


@pytest.mark.parametrize("rule", ["ep", "laplace", "variational"])
def test_one_against_the_rest_is_a_model_of_two_classes_for_each(rule):
    """The functions of all classes are those of separate models with the same kernel."""
    given, some = {"inference": rule, **AS_GIVEN}, slice(None, None, 3)
    model = GPClassifier(20.0 * SE(2.0), **given).fit(IRIS_X[some], IRIS_NAMES[some])
    latent, total = model.predict_latent(IRIS_X[::5]), 0.0
    log_odds = np.empty(latent.mean.shape)
    for c, label in enumerate(model.classes_):
        alone = GPClassifier(20.0 * SE(2.0), **given).fit(IRIS_X[some], IRIS_NAMES[some] == label)
        one = alone.predict_latent(IRIS_X[::5])
        np.testing.assert_allclose(latent.mean[:, c], one.mean, atol=1e-6)
        np.testing.assert_allclose(latent.variance[:, c], one.variance, atol=1e-6)
        log_odds[:, c] = alone.decision_function(IRIS_X[::5])
        total += alone.log_evidence_
    assert model.log_evidence_ == pytest.approx(total, abs=1e-6)
    p = np.exp(2 / 3 * log_odds)
    np.testing.assert_allclose(model.predict_proba(IRIS_X[::5]), p / p.sum(axis=1, keepdims=True), atol=1e-6)


def test_probabilities_of_all_classes_are_far_better_than_those_of_laplaces_method():
    """Log loss on the other half of the data: that of the softmax is more than twice as large."""
    loss = {}
    for name in ("auto", "softmax"):
        model = GPClassifier("1.0 * SE(1.0)", multi_class=name, n_restarts=0, random_state=0)
        p = model.fit(IRIS_X[::2], IRIS_Y[::2]).predict_proba(IRIS_X[1::2])
        loss[name] = -np.mean(np.log(p[np.arange(75), IRIS_Y[1::2]]))
    assert loss["auto"] < 0.5 * loss["softmax"]


def test_pairs_are_coupled_as_they_should():
    """Probabilities that are consistent come back exactly; others minimize the stated distance."""
    p = np.random.default_rng(0).dirichlet(np.ones(4), 6)
    r = p[:, :, None] / (p[:, :, None] + p[:, None, :])
    np.testing.assert_allclose(multiclass.couple(r), p, atol=1e-10)
    r = np.random.default_rng(1).uniform(0.05, 0.95, (1, 3, 3))
    r[0] = np.triu(r[0], 1) + np.tril(1 - r[0].T, -1)
    found = multiclass.couple(r)[0]

    def distance(q):
        return sum((r[0, d, c] * q[c] - r[0, c, d] * q[d]) ** 2 for c in range(3) for d in range(3) if c != d)

    for step in (np.array([1, -1, 0]), np.array([0, 1, -1])):
        assert distance(found) < min(distance(found + 1e-4 * step), distance(found - 1e-4 * step))
    sure = np.array([[[0.5, 1.0, 1.0], [0.0, 0.5, 1.0], [0.0, 0.0, 0.5]]])
    np.testing.assert_allclose(multiclass.couple(sure), [[1.0, 0.0, 0.0]], atol=1e-9)


def test_auto_uses_what_was_asked_for():
    options = {"objective": None, "kernel": 20.0 * SE(2.0)}
    some = slice(None, None, 6)
    auto = GPClassifier(**options).fit(IRIS_X[some], IRIS_Y[some])
    assert auto.multi_class_ == "one_vs_rest"
    assert auto.model_.inference.name == "ep"
    softmax = GPClassifier(multi_class="softmax", **options).fit(IRIS_X[some], IRIS_Y[some])
    assert softmax.model_.inference.name == "laplace"
    lapse = GPClassifier(likelihood="lapse-probit", **options).fit(IRIS_X[some], IRIS_Y[some])
    assert lapse.likelihood_.answer == LapseProbit()
    means = GPClassifier(mean="constant", **options).fit(IRIS_X[some], IRIS_Y[some])
    assert means.mean_.flat.size == 3


def test_many_columns_share_a_length_scale_if_their_ranges_allow_it():
    wide = np.random.default_rng(0).normal(size=(30, 21))
    wide[:, 3] = 0.0  # a constant column has no range
    labels = wide[:, 0] > 0
    assert classifier.default_kernel(wide) == 1.0 * SE(1.0)
    assert classifier.default_kernel(wide[:, :20]) == 1.0 * SE(ard)
    assert classifier.default_kernel(wide * np.where(np.arange(21) == 5, 1e3, 1.0)) == 1.0 * SE(ard)
    assert classifier.default_kernel(np.ones((3, 21))) == 1.0 * SE(ard)
    model = GPClassifier(n_restarts=0, random_state=0).fit(wide, labels)
    assert np.ndim(model.kernel_.get("se.lengthscale")) == 0


def test_processes_do_not_change_the_result():
    some = slice(None, None, 5)
    one, two = (
        GPClassifier(
            "1.0 * SE(1.0)", multi_class="one_vs_one", n_restarts=0, random_state=0, n_jobs=jobs
        ).fit(IRIS_X[some], IRIS_NAMES[some])
        for jobs in (None, 2)
    )
    np.testing.assert_allclose(one.predict_proba(IRIS_X), two.predict_proba(IRIS_X), atol=1e-6)


# --- weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_a_weight_is_a_number_of_copies(inference):
    weight = np.random.default_rng(3).integers(0, 4, 60)
    copies = np.repeat(np.arange(60), weight)
    options = {"inference": inference, **AS_GIVEN}
    weighted = GPClassifier(KERNEL, **options).fit(X, LABELS, sample_weight=weight)
    repeated = GPClassifier(KERNEL, **options).fit(X[copies], LABELS[copies])
    np.testing.assert_allclose(weighted.predict_proba(POINTS), repeated.predict_proba(POINTS), atol=1e-7)
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, abs=1e-6)


def test_rows_of_weight_zero_are_not_there():
    labels = np.array(["no", "yes", "never"])[np.where(np.arange(60) == 7, 2, CODES)]
    weight = np.where(np.arange(60) == 7, 0.0, 1.0)
    model = GPClassifier(KERNEL, **AS_GIVEN).fit(X, labels, sample_weight=weight)
    assert model.classes_.tolist() == ["no", "yes"]
    left = np.arange(60) != 7
    other = GPClassifier(KERNEL, **AS_GIVEN).fit(X[left], labels[left])
    np.testing.assert_allclose(model.predict_proba(POINTS), other.predict_proba(POINTS), atol=1e-7)


def test_class_weight():
    rare = np.flatnonzero((CODES == 0) | (np.arange(60) % 5 == 0))
    data, labels = X[rare], LABELS[rare]
    plain = GPClassifier(KERNEL, **AS_GIVEN).fit(data, labels)
    heavy = GPClassifier(KERNEL, class_weight={"yes": 20.0}, **AS_GIVEN).fit(data, labels)
    assert np.mean(heavy.predict_proba(POINTS)[:, 1] - plain.predict_proba(POINTS)[:, 1]) > 0.1
    by_row = GPClassifier(KERNEL, **AS_GIVEN).fit(
        data, labels, sample_weight=np.where(labels == "yes", 20.0, 1.0)
    )
    np.testing.assert_allclose(heavy.predict_proba(POINTS), by_row.predict_proba(POINTS), atol=1e-10)
    balanced = GPClassifier(KERNEL, class_weight="balanced", **AS_GIVEN).fit(data, labels)
    share = np.mean(labels == "yes")
    weight = np.where(labels == "yes", 0.5 / share, 0.5 / (1 - share))
    same = GPClassifier(KERNEL, **AS_GIVEN).fit(data, labels, sample_weight=weight)
    np.testing.assert_allclose(balanced.predict_proba(POINTS), same.predict_proba(POINTS), atol=1e-10)


def test_a_subset_keeps_the_shares_of_classes():
    kept = CODES[same_shares(CODES, 20, np.random.default_rng(0))]
    assert len(kept) <= 20
    assert np.mean(kept) == pytest.approx(np.mean(CODES), abs=0.06)
    codes = np.repeat([0, 1, 2], [100, 1, 1])
    assert len(set(codes[same_shares(codes, 3, np.random.default_rng(0))])) == 3
    with pytest.raises(ValueError, match="learn_rows must be at least the number of classes, 3"):
        same_shares(codes, 2, np.random.default_rng(0))


def test_hyperparameters_are_learned_from_some_rows_and_all_are_conditioned_on():
    model = GPClassifier(learn_rows=20, n_restarts=0, random_state=0).fit(X, LABELS)
    assert len(model.posterior_.data.y) == len(X)
    same = GPClassifier(model.kernel_, objective=None).fit(X, LABELS)
    np.testing.assert_allclose(model.predict_proba(POINTS), same.predict_proba(POINTS), atol=1e-6)


# --- options, warnings, company -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "best"}, "objective must be"),
        ({"multi_class": "ovr"}, "multi_class must be one of 'auto', 'one_vs_rest'"),
        ({"signal_prior": "strong"}, "signal_prior must be 'weak'"),
        ({"n_restarts": -1}, "n_restarts must be an integer >= 0"),
        ({"learn_rows": 1}, "learn_rows must be an integer >= 2"),
        ({"likelihood": "gaussian"}, "likelihood must be one of labels"),
        ({"likelihood": "poisson"}, "counts"),
        ({"likelihood": "sigmoid"}, "likelihood must be a Likelihood or one of"),
        ({"class_weight": "equal"}, "class_weight must be 'balanced'"),
        ({"class_weight": {"maybe": 1.0}}, "'maybe', which is not a class"),
        ({"class_weight": {"yes": -1.0}}, "positive numbers"),
        ({"class_weight": {"yes": None}}, "positive numbers"),
        ({"signal_prior": 3}, "signal_prior must be 'weak', a prior or None, got 3"),
        ({"inference": "exact"}, "Gaussian"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GPClassifier(KERNEL, **options).fit(X, LABELS)


def test_bad_data_are_refused():
    with pytest.raises(ValueError, match="at least two classes, got one class: \\['a'\\]"):
        GPClassifier().fit(X, np.full(60, "a"))
    with pytest.raises(ValueError, match="at least two classes"):
        GPClassifier().fit(X, LABELS, sample_weight=CODES)
    with pytest.raises(ValueError, match="Unknown label type"):
        GPClassifier().fit(X, X[:, 0])
    with pytest.raises(NotFittedError):
        GPClassifier().predict(X)


def test_a_warning_names_the_problem_and_the_remedy(monkeypatch):
    some = slice(None, None, 5)
    real = multiclass.learn_any_size

    def stopped(*arguments, **options):
        learned = real(*arguments, **options)
        status = Status(False, "variational", message="EP found no fixed point")
        monkeypatch.setattr(type(learned.posterior), "status", status, raising=False)
        return learned

    monkeypatch.setattr(multiclass, "learn_any_size", stopped)
    model = GPClassifier(KERNEL, multi_class="one_vs_one", **AS_GIVEN)
    with pytest.warns(
        ConvergenceWarning, match=r"setosa against versicolor: EP did not converge \(stage 'variational'\)"
    ) as all_:
        model.fit(IRIS_X[some], IRIS_NAMES[some])
    assert len(all_) == 3
    assert all_[0].filename == __file__


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPClassifier("1.0 * SE(1.0)", n_restarts=0, random_state=0).fit(X, LABELS)


def test_time_limit():
    model = GPClassifier(max_time=0.0, n_restarts=3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time was reached"):
        model.fit(X, LABELS)
    assert model.predict(POINTS).shape == (25,)
    assert GPClassifier(max_time=6.0)._time_for_one(3, 2) == pytest.approx(4.0)


def test_warm_start_goes_on_from_the_last_fit(fitted):
    again = clone(fitted).set_params(warm_start=True)
    again.fit(X, LABELS)
    end = again.runs_[0].theta
    again.fit(X, LABELS)
    np.testing.assert_allclose(again.runs_[0].start, end, atol=1e-8)
    assert again.runs_[0].evaluations < 6
    again.fit(X, CODES)  # other classes: another model
    assert np.max(np.abs(again.runs_[0].start - end)) > 0.1


def test_clone_pickle_and_parameters(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(POINTS), fitted.predict_proba(POINTS))
    model = GPClassifier(2.0 * SE(1.0)).set_params(kernel__se__lengthscale=3.0)
    assert clone(model).kernel.get("se.lengthscale") == 3.0


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = GPClassifier("1.0 * SE(1.0).on('a')", objective=None).fit(frame, pd.Series(LABELS))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    moved = frame.assign(b=0.0)
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(moved))


def test_grid_search_and_pipeline():
    pipe = make_pipeline(StandardScaler(), GPClassifier(objective=None))
    grid = {"gpclassifier__kernel": [4.0 * SE(0.01), 4.0 * SE(1.0)]}
    search = GridSearchCV(pipe, grid, cv=3, scoring="neg_log_loss").fit(X, LABELS)
    assert search.best_params_["gpclassifier__kernel"] == 4.0 * SE(1.0)
    p = cross_val_predict(search.best_estimator_, X, LABELS, cv=3, method="predict_proba")
    assert np.mean((p[:, 1] > 0.5) == (CODES == 1)) > 0.8


def test_one_ctrl_c_ends_the_learning_of_all_models(monkeypatch):
    """The models that were not reached keep the values from which learning would have started."""
    some = slice(None, None, 5)
    evidence, calls = GP.evidence_of, []

    def interrupted(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return evidence(self, *arguments, **options)

    monkeypatch.setattr(GP, "evidence_of", interrupted)
    model = GPClassifier(multi_class="one_vs_one", n_restarts=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"against versicolor: .* \(interrupted\)") as all_:
        model.fit(IRIS_X[some], IRIS_NAMES[some])
    assert len(all_) == 3
    assert len(calls) == 12  # one evaluation for each of the others
    assert model.predict_proba(IRIS_X[some]).shape == (30, 3)
