"""`GPRegressor` with noise other than Gaussian: outliers, learning, what is left without a row, warnings, counts."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from cavity import GP, GPRegressor
from cavity.datasets import make_friedman, make_sinc
from cavity.estimators import fit_warnings as reports
from cavity.estimators import leave_one_out as left_out
from cavity.inference.base import ConvergenceWarning, Stage, Status
from cavity.kernels import SE
from cavity.learning import robust_starts as robust
from cavity.learning import run_choice as choice
from cavity.learning.multistart import SearchOptions, SearchResult
from cavity.learning.objective import Objective
from cavity.learning.optimizer import Run, maximize
from cavity.learning.race import Start
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Gaussian, KnownNoise, Laplace, MixtureOfGaussians, StudentT
from cavity.posterior import Posterior
from cavity.runtime.deadlines import Deadline
from cavity.runtime.stop_reason import StopReason

KERNEL = 1.0 * SE(1.2)
ROBUST = (
    ("student-t", "ep"),
    ("student-t", "laplace"),
    ("student-t", "variational"),
    ("student-t", "scale-mixture-em"),
    ("laplace", "ep"),
    ("laplace", "variational"),
    ("mixture", "ep"),
    ("mixture", "laplace"),
    ("mixture", "variational"),
    ("epsilon-insensitive", "ep"),
)


def contaminated(n: int = 50, seed: int = 0, share: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """sin with noise of sd 0.1; some targets are off by 2 to 4."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, n))
    y = np.sin(x) + 0.1 * rng.standard_normal(n)
    bad = np.zeros(n, dtype=bool)
    bad[rng.choice(n, int(share * n), replace=False)] = True
    y[bad] += rng.choice([-1, 1], bad.sum()) * rng.uniform(2, 4, bad.sum())
    return x[:, None], y, bad


X, Y, BAD = contaminated()
X_TEST, Y_TEST, _ = contaminated(200, seed=1)
GRID = np.linspace(0.2, 9.8, 40)[:, None]


@pytest.fixture(scope="module")
def mixture() -> GPRegressor:
    return GPRegressor(KERNEL, likelihood="mixture", n_restarts=0, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def gaussian() -> GPRegressor:
    return GPRegressor(KERNEL, n_restarts=0, random_state=0).fit(X, Y)


# --- fits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("likelihood", "inference"), ROBUST)
def test_robust_noise_beats_gaussian_noise_on_contaminated_data(likelihood, inference, gaussian):
    model = GPRegressor(KERNEL, likelihood=likelihood, inference=inference, n_restarts=0, random_state=0).fit(
        X, Y
    )
    assert model.log_evidence_ > gaussian.log_evidence_ + 5
    held_out = model.predict_dist(X_TEST).log_prob(Y_TEST).mean()
    assert held_out > gaussian.predict_dist(X_TEST).log_prob(Y_TEST).mean() + 0.2
    error = np.sqrt(np.mean((model.predict(GRID) - np.sin(GRID[:, 0])) ** 2))
    assert error < 0.7 * np.sqrt(np.mean((gaussian.predict(GRID) - np.sin(GRID[:, 0])) ** 2))
    assert model.posterior_.status.converged
    loo = model.leave_one_out()
    assert np.isfinite(loo.log_prob(Y)).all()


def test_the_fit_is_the_one_that_learning_found(mixture):
    """The evidence of the posterior is that of the best run, and stationary."""
    assert mixture.log_evidence_ == pytest.approx(max(run.value for run in mixture.runs_), abs=1e-6)
    _, gradient = mixture.model_.evidence(X, Y)
    np.testing.assert_allclose(gradient, 0.0, atol=0.02)
    assert {run.kind for run in mixture.runs_} <= {"data", "gaussian", "laplace"}


def test_sinc_with_five_outliers():
    """Report section 5.1: the mixture finds the function, Gaussian noise does not."""
    data = make_sinc(rng=0)
    robust_fit = GPRegressor(likelihood="mixture", inference="variational", n_restarts=0, random_state=0)
    robust_fit.fit(data.X, data.y)
    plain = GPRegressor(n_restarts=0, random_state=0).fit(data.X, data.y)
    score = {
        name: float(np.mean(model.predict_latent(data.X_test).log_prob(data.y_test)))
        for name, model in (("robust", robust_fit), ("plain", plain))
    }
    assert score["robust"] > 2.0 > score["plain"] + 1.0
    np.testing.assert_array_equal(robust_fit.outlier_probability_ > 0.9, data.extra["outlier"])


def test_predictive_quantiles_are_those_of_the_noise(mixture):
    dist = mixture.predict_dist(GRID)
    np.testing.assert_allclose(dist.cdf(dist.quantile(0.9)), 0.9, atol=1e-9)
    low, high = dist.interval(0.9)
    covered = np.mean((low[0] < Y_TEST) & (high[0] > Y_TEST)) if len(Y_TEST) == len(low) else None
    assert covered is None
    inside = mixture.predict_dist(X_TEST)
    low, high = inside.interval(0.8)
    assert np.mean((low < Y_TEST) & (high > Y_TEST)) == pytest.approx(0.8, abs=0.1)


def test_sd_is_infinite_where_the_noise_has_no_variance():
    model = GPRegressor(KERNEL, likelihood=StudentT(0.1, 1.5), objective=None).fit(X, Y)
    mean, sd = model.predict(GRID, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isinf(sd).all()
    assert np.isfinite(model.predict(GRID, return_std=True, noise=False)[1]).all()


# --- starts and the choice among runs -----------------------------------------------------------------------

ONE_START = SearchOptions(n_restarts=0, given=("kernel",))


def first_stages(model: GP, rows: TrainingRows) -> list[Start]:
    starts = Starts.of(model, rows.X, rows.y, rows.weight)
    return robust.first_stages(model, rows, starts, ONE_START, np.random.default_rng(0), Deadline())


@pytest.mark.parametrize("likelihood", ["student-t", "mixture"])
def test_learning_does_not_depend_on_the_units_of_the_targets(likelihood):
    """Prices in cents: a step of the prior mean is as long as the data are large."""
    model = GPRegressor(likelihood=likelihood, n_restarts=0, random_state=0)
    mean, evidence = model.fit(X, Y).predict(GRID), model.log_evidence_
    unit = 1e7
    large = clone(model).fit(X, unit * Y)
    assert large.log_evidence_ + len(Y) * np.log(unit) == pytest.approx(evidence, abs=1e-4)
    np.testing.assert_allclose(large.predict(GRID) / unit, mean, atol=1e-3)


@pytest.mark.parametrize("likelihood", ["student-t", "mixture"])
def test_a_code_for_a_missing_value_does_not_hide_the_function(likelihood):
    """An outlier a million times as large as everything else costs evidence, and leaves the fit as it is."""
    coded = Y[~BAD]
    coded[20] = 999999.0
    model = GPRegressor(likelihood=likelihood, n_restarts=0, random_state=0).fit(X[~BAD], coded)
    assert model.outlier_probability_[20] > 0.99
    assert np.sqrt(np.mean((model.predict(GRID) - np.sin(GRID[:, 0])) ** 2)) < 0.1
    lowest, highest = model.predict_dist(GRID).interval(0.5)
    assert np.median(highest - lowest) < 0.5


@pytest.mark.parametrize("likelihood", ["laplace", "epsilon-insensitive"])
def test_one_row_is_enough(likelihood):
    model = GPRegressor(likelihood=likelihood, n_restarts=0, random_state=0).fit([[0.0]], [0.0125])
    np.testing.assert_allclose(model.predict([[0.0], [5.0]]), 0.0125)


def test_the_gaussian_solution_is_a_start():
    rows = TrainingRows.of(X, Y, None)
    model = GP(KERNEL, Laplace(), "constant", "ep").bind(1)
    ((kind, theta, _),) = first_stages(model, rows)
    plain = GPRegressor(KERNEL, n_restarts=0, random_state=0).fit(X, Y)
    assert kind == "gaussian"
    np.testing.assert_allclose(np.exp(theta[:2]), plain.kernel_.flat, rtol=1e-6)
    started = model.replace(theta).likelihood
    assert 0.05 < started.scale < 0.6 * np.sqrt(plain.likelihood_.variance)  # outliers do not count


@pytest.mark.parametrize("likelihood", [Laplace(0.2), MixtureOfGaussians(0.1, 0.2)])
def test_the_values_given_are_the_only_start_where_that_is_asked_for(likelihood):
    model = GPRegressor(KERNEL, likelihood=likelihood, standardize=False, n_restarts=0, random_state=0)
    (run,) = model.fit(X, Y).runs_
    np.testing.assert_allclose(np.exp(run.start[:2]), KERNEL.flat, rtol=1e-12)
    assert abs(np.log(model.likelihood_.scale / 0.2)) > 0.05  # it leads away from there
    again = model.set_params(warm_start=True).fit(X, Y).runs_  # the last fit goes before
    np.testing.assert_allclose(again[0].start, run.theta, atol=1e-6)


@pytest.mark.parametrize("better", ["gaussian", "laplace"])
def test_heavy_tails_start_at_the_more_promising_easier_solution(monkeypatch, better):
    rows = TrainingRows.of(X, Y, None)
    model = GP(KERNEL, MixtureOfGaussians(), "constant", "ep").bind(1)
    easier = GPRegressor(KERNEL, likelihood=better, n_restarts=0, random_state=0).fit(X, Y)

    def trials(goal, starts, places, keep, *, steps):
        return sorted((_run(s.kind, 0.0, s.theta) for s in starts), key=lambda run: run.kind != better)

    monkeypatch.setattr(robust, "screen", trials)
    first, second = first_stages(model, rows)
    assert (first.kind, second.kind) in (("gaussian", "laplace"), ("laplace", "gaussian"))
    assert first.kind == better
    np.testing.assert_allclose(np.exp(first.theta[:2]), easier.kernel_.flat, rtol=1e-2)


def test_the_gaussian_solution_remains_where_laplace_noise_fails(monkeypatch):
    rows = TrainingRows.of(X, Y, None)
    model = GP(KERNEL, StudentT(), "constant", "scale-mixture-em").bind(1)
    multistart = robust.multistart

    def failing(model, *args, **options):
        if isinstance(model.likelihood, Laplace):
            raise np.linalg.LinAlgError("no fixed point")
        return multistart(model, *args, **options)

    monkeypatch.setattr(robust, "multistart", failing)
    ((kind, _, _),) = first_stages(model, rows)
    assert kind == "gaussian"


def test_outliers_that_bend_the_gaussian_solution_do_not_keep_the_robust_one_there():
    """Friedman's function, set 4: every start but that from Laplace noise ends at the Gaussian limit, three nats lower.

    Truth: the model with Gaussian noise, without the ten outputs that were replaced.
    """
    d = make_friedman(rng=4)
    clean = ~np.asarray(d.extra["outlier"], dtype=bool)

    def error(model):
        return np.sqrt(np.mean((model.predict(d.X_test[:2000]) - d.y_test[:2000]) ** 2))

    truth = GPRegressor(n_restarts=0, random_state=0).fit(d.X[clean], d.y[clean])
    robust_fit = GPRegressor(
        likelihood="student-t", inference="scale-mixture-em", n_restarts=0, random_state=0
    ).fit(d.X, d.y)
    ends = {run.kind: run.value for run in robust_fit.runs_}
    assert ends["laplace"] > ends["data"] + 2
    assert robust_fit.likelihood_.df < 10
    assert error(robust_fit) < 1.2 * error(truth)


def test_ctrl_c_before_the_robust_model_is_known_passes_through(monkeypatch):
    """While the solution for Gaussian noise is learned there is nothing to keep: going on would ignore the user."""
    stopped = SearchResult(GP(SE(1.0), Gaussian()), 0.0, (), StopReason.INTERRUPTED)
    monkeypatch.setattr(robust, "multistart", lambda *_, **__: stopped)
    with pytest.raises(KeyboardInterrupt):
        GPRegressor(likelihood="student-t").fit(np.arange(5.0)[:, None], np.arange(5.0))


def test_no_gaussian_start_for_counts_or_gaussian_noise():
    assert not robust.is_robust(Gaussian())
    assert not robust.is_robust(KnownNoise(np.ones(3)))
    assert robust.is_robust(Laplace())


def _run(kind: str, value: float, theta: float | np.ndarray) -> Run:
    end = np.atleast_1d(theta)
    return Run(kind, end, end, value, True, 1, 0, "done")


@pytest.mark.parametrize(
    ("values", "stages", "winner"),
    [
        ((5.0, 3.0), ("ep", "ep"), 0),
        ((5.0, 3.0), ("ep by continuation", "ep"), 1),
        ((50.0, 3.0), ("ep by continuation", "ep"), 0),  # by too much to be an overestimate
        ((5.0, 3.0), ("power ep", "ep by continuation"), 0),
    ],
)
def test_runs_are_not_ranked_by_evidence_alone(monkeypatch, values, stages, winner):
    model = GP(1.0 * SE(Kept := 1.0), MixtureOfGaussians(), None, "ep").bind(1)
    model = model._rebuild(
        {},
        (
            model.kernel.update({"se.lengthscale": Kept}),
            model.mean,
            model.likelihood.freeze(),
            model.representation,
        ),
    )
    runs = tuple(
        replace(_run("data", value, 0.0), theta=np.array([0.0, float(i)])) for i, value in enumerate(values)
    )
    by_place = dict(enumerate(stages))
    real = GP.condition

    def staged(self, X, y, w=None, warm=None):
        posterior = real(self, X, y, w)
        status = Status(stage=Stage(by_place[round(float(self.theta[1]))]))
        approximation = replace(posterior.approximation, status=status)
        return Posterior(posterior.model, approximation, posterior.data)

    monkeypatch.setattr(GP, "condition", staged)
    rows = TrainingRows.of(X, Y, None)
    learned = choice.choose(model, SearchResult(model.replace(runs[0].theta), values[0], runs), rows)
    assert learned.value == values[winner]
    assert learned.posterior.model.theta[1] == pytest.approx(winner)
    assert f"stage {stages[winner]}" in learned.winner.message


def test_runs_that_ended_at_one_place_are_all_asked_for_their_stage(monkeypatch):
    """Where one way led there by continuation and another by plain sweeps, a lower end is not preferred."""
    model = GP(1.0 * SE(1.0), MixtureOfGaussians(), None, "ep").bind(1)
    model = model._rebuild({}, (model.kernel, model.mean, model.likelihood.freeze(), model.representation))
    ends = [(5.0, 0.0, "ep by continuation"), (5.0 - 1e-9, 1e-4, "ep"), (3.0, 1.0, "ep")]
    runs = tuple(
        replace(_run("data", value, 0.0), theta=np.array([0.0, place]), warm=Stage(stage))
        for value, place, stage in ends
    )
    real = GP.condition

    def staged(self, X, y, w=None, warm=None):
        posterior = real(self, X, y, w)
        approximation = replace(posterior.approximation, status=Status(stage=warm))
        return Posterior(posterior.model, approximation, posterior.data)

    monkeypatch.setattr(GP, "condition", staged)
    rows = TrainingRows.of(X, Y, None)
    learned = choice.choose(model, SearchResult(model.replace(runs[0].theta), 5.0, runs), rows)
    assert learned.value == 5.0 - 1e-9
    assert learned.posterior.status.stage == "ep"


# --- outliers and leave-one-out -----------------------------------------------------------------------------


def test_outliers_are_found(mixture):
    p = mixture.outlier_probability_
    assert p.shape == (50,)
    assert np.all(p[BAD] > 0.9)
    assert np.mean(p[~BAD] < 0.1) > 0.9
    student = GPRegressor(KERNEL, likelihood="student-t", n_restarts=0, random_state=0).fit(X, Y)
    assert np.all(student.outlier_probability_[BAD] > 0.9)
    assert (
        np.mean(student.outlier_probability_[~BAD] < 0.5) > 0.9
    )  # its tails are heavy: wide noise is common
    laplace = GPRegressor(KERNEL, likelihood="laplace", n_restarts=0, random_state=0).fit(X, Y)
    assert np.min(laplace.outlier_probability_[BAD]) > 2 * np.max(laplace.outlier_probability_[~BAD])


def test_a_point_does_not_vouch_for_itself():
    """A lone point far from all others: the fit goes through it, but the others say nothing about it."""
    x, y = np.append(X, [[30.0]], axis=0), np.append(Y, 5.0)
    noise = MixtureOfGaussians(0.1, 0.1, 20.0)
    model = GPRegressor(9.0 * SE(1.2), likelihood=noise, objective=None).fit(x, y)
    alone = model.outlier_probability_[-1]
    prior = noise.outlier_probability(np.array([5.0]), np.array([model.mean_(x)[-1]]), np.array([9.0]))[0]
    assert alone == pytest.approx(prior, abs=1e-6)


def test_rows_come_back_in_their_order():
    noise = MixtureOfGaussians(0.1, 0.1, 20.0)
    model = GPRegressor(KERNEL, likelihood=noise, objective=None)
    p = clone(model).fit(X, Y).outlier_probability_
    order = np.random.default_rng(0).permutation(50)
    weight = np.ones(50)
    weight[order[:3]] = 0.0
    mixed = clone(model).fit(X[order], Y[order], sample_weight=weight[order])
    q = mixed.outlier_probability_
    assert np.isnan(q[:3]).all()
    np.testing.assert_allclose(q[3:], p[order[3:]], atol=0.2)
    with pytest.raises(ValueError, match="3 were left out"):
        mixed.leave_one_out()


@pytest.mark.parametrize(
    ("noise", "inference"),
    [(StudentT(0.1, 3.0), "ep"), (StudentT(0.1, 3.0), "laplace"), (Laplace(0.1), "variational")],
)
def test_leave_one_out_agrees_with_the_rule(noise, inference):
    model = GPRegressor(KERNEL, likelihood=noise, inference=inference, objective=None).fit(X, Y)
    ours, theirs = model.leave_one_out(), model.model_.leave_one_out(X, Y)
    np.testing.assert_allclose(ours.log_prob(Y), theirs.log_prob(Y), atol=1e-5)


def test_repeated_rows_leave_one_copy():
    """Two equal rows: without one of them the other is still there. Refitting says the same, nearly."""
    x, y = np.append(X, X[:1], axis=0), np.append(Y, Y[0])
    noise = Laplace(0.1)
    model = GPRegressor(KERNEL, mean="zero", likelihood=noise, objective=None).fit(x, y)
    loo = model.leave_one_out()
    assert len(loo) == 51
    others = GP(KERNEL, noise, inference="ep")
    one_left = float(others.condition(X, Y).predict_y(X[:1]).log_prob(Y[:1])[0])
    none_left = float(others.condition(X[1:], Y[1:]).predict_y(X[:1]).log_prob(Y[:1])[0])
    assert abs(loo.log_prob(y)[0] - one_left) < 0.25 * abs(loo.log_prob(y)[0] - none_left)
    assert loo.log_prob(y)[0] == pytest.approx(loo.log_prob(y)[50])


def test_an_improper_cavity_is_a_row_left_out_in_earnest():
    noise = MixtureOfGaussians(0.1, 0.1, 20.0)
    model = GPRegressor(KERNEL, mean="zero", likelihood=noise, objective=None).fit(X, Y)
    model.posterior_.approximation.q.__dict__["left"] = np.where(np.arange(50) == 3, -1e-3, 1.0)
    means, variances = left_out.cavities(model.posterior_, model.rows_)
    mean, var = means[3], variances[3]
    left = np.arange(50) != 3
    truth = GP(KERNEL, noise, inference="ep").condition(X[left], Y[left])
    assert mean == pytest.approx(float(truth.mean(X[3:4])[0]))
    assert var == pytest.approx(float(truth.variance(X[3:4])[0]))
    single = GPRegressor(KERNEL, mean="zero", likelihood=noise, objective=None).fit(X[:1], Y[:1])
    single.posterior_.approximation.q.__dict__["left"] = np.array([-1e-3])
    means, variances = left_out.cavities(single.posterior_, single.rows_)
    assert (float(means[0]), float(variances[0])) == (0.0, 1.0)


def test_outlier_probability_under_gaussian_noise_is_a_tail(gaussian):
    p = gaussian.outlier_probability_
    np.testing.assert_allclose(p, np.abs(1 - 2 * gaussian.leave_one_out().cdf(Y)), atol=1e-12)
    assert np.mean(p[BAD]) > np.mean(p[~BAD])
    weight = np.ones(50)
    weight[4] = 0.0
    some = GPRegressor(KERNEL, objective=None, likelihood=Gaussian(0.1)).fit(X, Y, sample_weight=weight)
    assert np.isnan(some.outlier_probability_[4])
    left = np.arange(50) != 4
    other = GPRegressor(KERNEL, objective=None, likelihood=Gaussian(0.1)).fit(X[left], Y[left])
    np.testing.assert_allclose(some.outlier_probability_[left], other.outlier_probability_, atol=1e-10)
    several = GPRegressor(KERNEL, n_restarts=0).fit(X, np.column_stack([Y, Y]))
    assert several.outlier_probability_.shape == (50, 2)


def test_outlier_probability_needs_a_fit_and_follows_updates(mixture):
    assert not hasattr(GPRegressor(), "outlier_probability_")
    with pytest.raises(NotFittedError):
        _ = GPRegressor().outlier_probability_
    copy = pickle.loads(pickle.dumps(mixture))
    np.testing.assert_array_equal(copy.outlier_probability_, mixture.outlier_probability_)
    copy.update([[5.0], [5.1]], [np.sin(5.0), 9.0])
    p = copy.outlier_probability_
    assert p.shape == (52,)
    assert p[-2] < 0.1 < 0.9 < p[-1]


# --- refusals, warnings, counts -----------------------------------------------------------------------------


def test_several_targets_need_gaussian_noise():
    with pytest.raises(
        ValueError, match=r"several targets at once need Gaussian noise, got likelihood='student-t'"
    ):
        GPRegressor(likelihood="student-t").fit(X, np.column_stack([Y, Y]))
    assert not GPRegressor(likelihood="mixture").__sklearn_tags__().target_tags.multi_output
    assert GPRegressor().__sklearn_tags__().target_tags.multi_output


def _posterior(status: Status) -> Posterior:
    fitted = GP(KERNEL, Gaussian(0.1)).condition(X, Y)
    return Posterior(fitted.model, replace(fitted.approximation, status=status), fitted.data)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            Status(False, Stage.VARIATIONAL, message="no fixed point"),
            r"did not converge \(stage 'variational'\)",
        ),
        (Status(True, Stage.POWER_EP, message="power 0.7"), r"stage 'power ep' \(power 0.7\)"),
        (Status(True, Stage.EXACT, jitter=1.0, message="jitter 1"), "nearly singular: jitter 1"),
        (Status(True, Stage.EP), None),
        (Status(True, Stage.EP_CONTINUATION), None),
    ],
)
def test_warnings_name_the_stage(status, message):
    learned = SearchResult(_posterior(status).model, np.nan, ())
    texts = reports.warnings_of(learned, _posterior(status), X)
    if message is None:
        assert texts == []
    else:
        with pytest.warns(ConvergenceWarning, match=message):
            reports.issue(texts)


def test_warnings_about_learning():
    posterior = _posterior(Status())
    bad = replace(_run("data", 1.0, 0.0), converged=False, message="evaluations next to the best point fail")
    good = _run("random", 0.5, 1.0)
    (found,) = reports.warnings_of(SearchResult(posterior.model, 1.0, (bad, good)), posterior, X)
    text = str(found)
    assert "evaluations next to the best point fail" in text
    assert "warm_start=True" in text
    assert reports.warnings_of(SearchResult(posterior.model, 0.5, (bad, good)), posterior, X) == []
    (found,) = reports.warnings_of(
        SearchResult(posterior.model, 0.5, (good,), StopReason.INTERRUPTED), posterior, X
    )
    assert "interrupted" in str(found)


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPRegressor(KERNEL, likelihood="laplace", n_restarts=0, random_state=0).fit(X, Y)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_counts_predict_the_mean_rate(likelihood):
    rate = np.exp(1.0 + np.sin(X[:, 0]))
    counts = np.random.default_rng(2).poisson(rate)
    model = GPRegressor(KERNEL, likelihood=likelihood, n_restarts=0, random_state=0).fit(X, counts)
    predicted = model.predict(X)
    assert np.mean(np.abs(predicted - rate) / rate) < 0.35
    f = model.predict_latent(X)
    np.testing.assert_allclose(predicted, np.exp(f.mean + 0.5 * f.variance), rtol=1e-6)
    assert model.leave_one_out().log_prob(counts).mean() > -3.0
    assert np.all(model.sample_y(X, 3) >= 0)
    with pytest.raises(ValueError, match="counts"):
        clone(model).fit(X, -counts - 1.0)


# --- learning where some evaluations fail -------------------------------------------------------------------


class Cliff(Objective):
    """-(theta - 2)^2, which cannot be evaluated beyond an edge."""

    edge = 2.5

    def __call__(self, theta):
        self.evaluations += 1
        if theta[0] > self.edge:
            self.failures, self.last_error = self.failures + 1, "beyond the edge"
            return -np.inf, np.zeros(1)
        value = -float((theta[0] - 2.0) ** 2)
        if self.best is None or value > self.best[0]:
            self.best = (value, theta.copy())
        return value, -2.0 * (theta - 2.0)


@pytest.mark.parametrize("edge", [2.001, 2.1, 2.5])
def test_the_line_search_comes_back_from_failures(edge):
    goal = Cliff(GP(KERNEL), X, Y)
    goal.edge = edge
    run = maximize(goal, np.array([-30.0]), np.array([[-100.0, 100.0]]), np.array([5.0]), "data")
    assert run.failures > 0
    assert run.converged
    assert run.theta[0] == pytest.approx(2.0, abs=1e-4)


def test_an_optimum_beyond_the_edge_is_not_convergence():
    goal = Cliff(GP(KERNEL), X, Y)
    goal.edge = 1.0
    run = maximize(goal, np.array([-30.0]), np.array([[-100.0, 100.0]]), np.array([5.0]), "data")
    assert not run.converged
    assert run.theta[0] == pytest.approx(1.0, abs=0.2)
    assert "beyond the edge" in run.message


@pytest.mark.parametrize("likelihood", ["student-t", "laplace", "mixture"])
def test_targets_that_do_not_vary_keep_the_values_given(likelihood):
    """The evidence then has no maximum: it grows as noise vanishes, until EP cannot be evaluated."""
    with pytest.warns(ConvergenceWarning, match="the targets do not vary"):
        model = GPRegressor(likelihood=likelihood, n_restarts=0, random_state=0).fit(X[:20], np.full(20, 3.0))
    mean, sd = model.predict(GRID, return_std=True)
    np.testing.assert_allclose(mean, 3.0, rtol=1e-6)
    assert np.all(sd > 0.5)
    assert model.posterior_.status.converged


def test_a_function_is_found_where_gaussian_and_laplace_noise_see_none():
    """Five of 25 points are so noisy that a constant with heavy-tailed noise is where most starts end."""
    data = make_sinc(rng=6)
    options = {"likelihood": "student-t", "inference": "scale-mixture-em", "n_restarts": 0, "random_state": 6}
    model = GPRegressor(KERNEL, **options).fit(data.X, data.y)
    assert model.runs_[0].kind == "quiet"
    error = model.predict(data.X_test) - data.y_test
    assert np.sqrt(np.mean(error**2)) < 0.1 * np.std(data.y_test)
