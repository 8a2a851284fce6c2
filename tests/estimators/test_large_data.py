"""Fits of any size: which representation, which rows are learned from, rows in files and on Dask."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity import GPClassifier, GPRegressor, Inducing
from cavity.gp import GP
from cavity.kernels import SE, Matern, Seasonal
from cavity.latent.inducing import certificate
from cavity.learning import large_data
from cavity.learning.large_data import Size, candidates
from cavity.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    Noiseless,
    OneVsRest,
    Probit,
    Softmax,
    StudentT,
)
from cavity.rows import ArrayRows, ParquetRows, read_parquet

N = 600
rng = np.random.default_rng(5)
X = rng.uniform(-3, 3, size=(N, 2))
F = np.sin(X[:, 0]) + 0.5 * np.cos(2 * X[:, 1])
Y = F + 0.1 * rng.standard_normal(N)
FEW = {"n_restarts": 0, "random_state": 0}


@pytest.fixture
def small(monkeypatch):
    """What is for thousands of rows is for hundreds."""
    monkeypatch.setattr(large_data, "DENSE_ROWS", 150)
    monkeypatch.setattr(large_data, "LEARN_ROWS", 250)
    monkeypatch.setattr("cavity.estimators.row_sources.LEARN_ROWS", 250)
    monkeypatch.setattr(large_data, "FIRST_INDUCING", 15)
    monkeypatch.setattr(large_data, "MOST_INDUCING", 60)
    monkeypatch.setattr(large_data, "START_ROWS", 100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = tmp_path_factory.mktemp("parts")
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(target=Y)
    for k in range(3):
        frame.iloc[k * 200 : (k + 1) * 200].to_parquet(at / f"{k}.parquet", row_group_size=80)
    return at


def test_a_line_is_learned_from_all_its_rows(small):
    """Some of them, far apart, would see nothing but noise."""
    t = np.sort(np.random.default_rng(0).uniform(0, 150, 1500))
    y = np.sin(6 * t) + 0.3 * np.random.default_rng(1).standard_normal(1500)
    model = GPRegressor(1.0 * Matern(1.0, nu=1.5), **FEW).fit(t[:, None], y)
    assert model.members_[0].model.representation.name == "markov"
    assert model.members_[0].model.likelihood.variance == pytest.approx(0.09, rel=0.2)


# --- the choice ---------------------------------------------------------------------------------------------


def chosen(model, inputs, objective="evidence", **asked):
    return [r.name for r in candidates(model.bind(inputs.shape[1]), inputs, Size(**asked), objective)]


def test_the_representation_follows_size_kernel_and_noise(folder):
    se, many, line = 1.0 * SE(1.0), np.zeros((3001, 2)), np.zeros((3001, 1))
    gaussian = GP(se, Gaussian())
    assert chosen(gaussian, np.zeros((3000, 2))) == ["dense"]
    assert "inducing" in chosen(gaussian, many)
    assert chosen(GP(1.0 * Matern(1.5), StudentT()), line) == ["markov"]
    short, wide = line[:1200], 1.0 * Matern(9.0) * Seasonal(1.0, harmonics=9) + 1.0 * Matern(2.0)
    assert chosen(GP(1.0 * Matern(1.5), StudentT()), short) == ["markov"]
    assert chosen(GP(1.0 * Matern(1.5), StudentT()), line[:1000]) == ["dense"]
    assert chosen(GP(wide, StudentT()), line[:1100]) == ["dense"]  # 38 states
    assert chosen(GP(1.0 * Matern(1.5), Gaussian()), short, "loo") == ["dense"]
    assert chosen(GP(se, StudentT()), line) == ["inducing"]
    assert chosen(GP(se, Probit()), many) == ["inducing"]
    assert chosen(GP(se, Probit(), inference="mcmc"), many) == ["dense"]
    assert chosen(gaussian, many, objective="loo") == ["dense"]
    assert chosen(gaussian, ParquetRows(folder, ["a", "b"])) == ["inducing"]
    assert chosen(gaussian, many, representation="dense") == ["dense"]
    assert chosen(gaussian, np.zeros((10, 2)), representation="inducing") == ["inducing"]
    assert chosen(gaussian, many, representation=Inducing(7)) == ["inducing"]


def test_the_better_candidate_on_held_out_rows_is_kept(small, monkeypatch):
    poor = lambda model, size: Inducing(2)  # noqa: E731
    good = lambda model, size: Inducing(40)  # noqa: E731
    monkeypatch.setattr(large_data, "TRIAL_ROWS", 200)
    monkeypatch.setattr(large_data, "TRIAL_HELD_OUT", 100)
    for order in ((poor, good), (good, poor)):
        monkeypatch.setattr(large_data, "FOR_GAUSSIAN_NOISE", order)
        model = GPRegressor(**FEW, n_inducing=40, learn_rows=300).fit(X, Y)
        assert model.model_.representation.m == 40
        scores = [score for _, score in model.posterior_.status.trials]
        assert scores[order.index(good)] > scores[order.index(poor)] + 0.5


class Broken(Inducing):
    def for_rows(self, *rows):
        raise np.linalg.LinAlgError("no")


def test_a_candidate_that_cannot_be_fitted_is_passed_over(small, monkeypatch):
    broken = lambda model, size: Broken()  # noqa: E731
    good = lambda model, size: Inducing(30)  # noqa: E731
    monkeypatch.setattr(large_data, "FOR_GAUSSIAN_NOISE", (broken, good))
    model = GPRegressor(**FEW, n_inducing=30).fit(X, Y)
    assert model.model_.representation.m == 30


def test_fits_above_the_limit_are_repeatable_and_learn_from_some_rows(small):
    options = {**FEW, "learn_rows": 200, "n_inducing": 30}
    model, again = GPRegressor(**options).fit(X, Y), GPRegressor(**options).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X[:5]), again.predict(X[:5]))
    assert model.model_.representation.name in ("inducing", "neighbors")
    assert [name for name, _ in model.posterior_.status.trials] == ["inducing", "neighbors"]
    assert len(model.posterior_.data.y) == N
    assert np.sqrt(np.mean((model.predict(X) - F) ** 2)) < 0.04
    exact = GP(model.kernel_, model.likelihood_, model.mean_).condition(X, Y)
    assert model.log_evidence_ == pytest.approx(exact.log_evidence, abs=0.05 * N)


def test_the_number_of_inducing_inputs_is_doubled_while_it_pays(small):
    asked = {**FEW, "representation": "inducing"}
    rough = GPRegressor(**asked, learn_rows=None).fit(X, F + 0.02 * rng.standard_normal(N))
    smooth = GPRegressor(**asked).fit(X, 0.1 * X[:, 0] + 0.1 * rng.standard_normal(N))
    assert rough.model_.representation.m > 15
    assert smooth.model_.representation.m == 15


def test_neighbors_learn_from_more_rows(small, monkeypatch):
    seen = []
    learn = large_data.learn
    monkeypatch.setattr(
        large_data, "learn", lambda model, X, *a, **k: seen.append(len(X)) or learn(model, X, *a, **k)
    )
    GPRegressor(**FEW, representation="neighbors", learn_rows=60).fit(X, Y)
    assert seen == [300]  # from starts of their own: length scales that few rows let go would stay


def test_a_warm_start_keeps_the_representation(small, monkeypatch):
    monkeypatch.setattr(large_data, "FOR_GAUSSIAN_NOISE", large_data.FOR_GAUSSIAN_NOISE[:1])
    model = GPRegressor(**FEW, warm_start=True, n_inducing=20).fit(X, Y)
    inputs = model.model_.representation.inputs
    model.fit(X, Y)
    assert np.abs(model.model_.representation.inputs - inputs).max() < 1.0
    model.fit(X[:100], Y[:100])
    assert model.model_.representation.name == "dense"


@pytest.mark.parametrize("noise", ["student-t", "mixture"])
def test_outliers_among_many_rows(small, noise):
    wild = Y.copy()
    wild[::15] += 6.0
    model = GPRegressor(likelihood=noise, **FEW, n_inducing=30, learn_rows=200).fit(X, wild)
    assert model.model_.representation.name == "inducing"
    assert model.posterior_.status.converged
    assert np.sqrt(np.mean((model.predict(X) - F) ** 2)) < 0.08
    assert model.outlier_probability_[::15].min() > 0.9


def test_classes_of_many_rows(small):
    labels = np.where(F + 0.2 * rng.standard_normal(N) > 0, "up", "down")
    model = GPClassifier(**FEW, n_inducing=40).fit(X, labels)
    assert model.model_.representation.name == "inducing"
    dense = GPClassifier(model.kernel_, objective=None, representation="dense").fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X), dense.predict_proba(X), atol=0.05)


def test_three_classes_of_many_rows(small):
    labels = np.digitize(F, [-0.4, 0.6])
    model = GPClassifier("9.0 * SE(1.5)", objective=None, n_inducing=40).fit(X, labels)
    assert model.model_.representation.name == "inducing"
    assert np.mean(model.predict(X) == labels) > 0.93
    coupled = GPClassifier("9.0 * SE(1.5)", objective=None, n_inducing=40, multi_class="softmax").fit(
        X, labels
    )
    assert coupled.model_.representation.name == "inducing"
    assert np.mean(coupled.predict(X) == labels) > 0.93


def test_noise_that_changes_with_the_inputs_of_many_rows(small):
    spread = np.exp(0.5 * X[:, 0])
    y = 3.0 * F + 0.2 * spread * rng.standard_normal(N)
    model = GPRegressor(likelihood="heteroscedastic", **FEW, n_inducing=40).fit(X, y)
    assert model.model_.representation.name == "inducing"
    low, high = model.predict_dist(X[[np.argmin(spread), np.argmax(spread)]]).variance
    assert high > 9.0 * low


def test_functions_that_the_likelihood_couples_are_for_inducing_inputs():
    line, matern = np.zeros((3001, 1)), 1.0 * Matern(1.0, nu=1.5)
    assert chosen(GP(matern, Softmax(3), inference="laplace"), line) == ["inducing"]
    assert chosen(GP([matern, matern], HeteroscedasticGaussian()), line) == ["inducing"]
    assert chosen(GP(matern, OneVsRest(3), inference="ep"), line) == ["markov"]
    assert chosen(GP([matern] * 3, OneVsRest(3), inference="ep"), line) == ["markov"]
    assert chosen(GP([matern, matern, 1.0 * SE(1.0)], OneVsRest(3), inference="ep"), line) == ["inducing"]


def test_what_inducing_inputs_do_not_give_is_dense(small):
    assert chosen(GP(1.0 * SE(1.0), Noiseless()), X) == ["dense"]
    few = GPRegressor(1.0 * SE(1.0), likelihood="noiseless", objective=None).fit(X[:160], F[:160])
    assert few.model_.representation.name == "dense"


# --- what is lost -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tight", "vfe"])
@pytest.mark.parametrize("m", [8, 25, 60])
def test_the_gap_bounds_the_distance_to_the_exact_evidence(kind, m):
    exact = GP(1.0 * SE(1.0), Gaussian(0.01)).condition(X[:400], Y[:400])
    sparse = GP(1.0 * SE(1.0), Gaussian(0.01), representation=Inducing(m, kind)).condition(X[:400], Y[:400])
    lost = sparse.loss()
    assert lost.kind == "certified"
    assert 0.0 <= exact.log_evidence - sparse.log_evidence <= 400 * lost.gap
    assert exact.loss() == (0.0, "exact", 0.0)


def test_the_gap_of_many_rows_is_sampled(monkeypatch):
    sparse = GP(1.0 * SE(1.0), Gaussian(0.01), representation=Inducing(30)).condition(X, Y)
    whole = sparse.loss()
    monkeypatch.setattr(certificate, "CERTIFIED_ROWS", 500)
    sampled = sparse.loss()
    assert (whole.kind, sampled.kind) == ("certified", "sampled")
    assert sampled.gap == pytest.approx(whole.gap, rel=0.5)


def test_the_status_tells_what_is_lost(small):
    poor = GPRegressor(1.0 * SE(0.5), likelihood=Gaussian(0.01), objective=None, n_inducing=20).fit(X, Y)
    good = GPRegressor(1.0 * SE(2.0), likelihood=Gaussian(0.01), objective=None, n_inducing=60).fit(X, Y)
    assert poor.posterior_.status.approximation_gap > 1.0 > 0.1 > good.posterior_.status.approximation_gap
    assert poor.posterior_.status.lost_information > 0.5 > 0.1 > good.posterior_.status.lost_information
    classes = GPClassifier(4.0 * SE(0.3), objective=None, n_inducing=20).fit(X, F > 0)
    status = classes.posterior_.status
    assert (status.gap_kind, np.isnan(status.approximation_gap)) == ("none", True)
    assert 0.05 < status.lost_information < 1.0
    exact = GPRegressor(**FEW).fit(X[:100], Y[:100]).posterior_.status
    assert (exact.gap_kind, exact.approximation_gap) == ("exact", 0.0)


# --- rows that are not in memory ----------------------------------------------------------------------------


def test_a_fit_to_files(small, folder, tmp_path):
    rows, y = read_parquet(folder, "target")
    model = GPRegressor(**FEW, n_inducing=40, learn_rows=200).fit(rows, y)
    assert model.n_features_in_ == 2
    assert not model.posterior_.complete
    assert len(model.rows_.X) == 250
    held = model.model_.representation
    on_disk = model.model_.with_representation(
        Inducing(held.m, "vfe", inputs=held.inputs)
    )  # the bound of files
    whole = on_disk.condition(X, Y)
    assert model.log_evidence_ == pytest.approx(whole.log_evidence, abs=1e-6)
    np.testing.assert_allclose(model.predict(X[:9]), whole.mean(X[:9]), atol=1e-7)
    model.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    np.testing.assert_array_equal(again.predict(X[:9]), model.predict(X[:9]))
    sd, same = (m.predict(X[:9], return_std=True)[1] for m in (model, again))
    np.testing.assert_allclose(same, sd, rtol=1e-10)
    for what in (model, again):
        with pytest.raises(ValueError, match="training rows of this posterior were not kept"):
            what.leave_one_out()
        with pytest.raises(ValueError, match="were not kept"):
            what.outlier_probability_  # noqa: B018
        with pytest.raises(ValueError, match="were not kept"):
            what.posterior_.certify()
        what.update(X[:20], Y[:20] + 0.1)
        more = model.model_.condition(np.vstack([X, X[:20]]), np.append(Y, Y[:20] + 0.1))
        np.testing.assert_allclose(what.predict(X[:9]), more.mean(X[:9]), atol=1e-6)
        assert not what.posterior_.complete


def test_few_rows_of_files_are_read_whole(folder):
    rows, y = read_parquet(folder / "0.parquet", "target")
    model = GPRegressor(**FEW).fit(rows, y)
    assert model.posterior_.complete
    assert model.model_.representation.name == "dense"


def test_a_fit_to_a_dask_frame(small, folder):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.read_parquet(str(folder / "*.parquet"))
    model = GPRegressor(**FEW, n_inducing=30, learn_rows=200).fit(frame, "target")
    assert model.feature_names_in_.tolist() == ["a", "b"]
    new = pd.DataFrame(X[:5], columns=["a", "b"])
    np.testing.assert_allclose(model.predict(new), F[:5], atol=0.15)
    with pytest.raises(ValueError, match="y must be the name of a column of the data frame"):
        GPRegressor().fit(frame, Y)


def test_targets_of_files_must_be_as_many(folder):
    with pytest.raises(ValueError, match=r"y must be one value for each of the 600 rows, got .* \(3,\)"):
        GPRegressor().fit(ParquetRows(folder, ["a", "b"]), np.zeros(3))


def test_given_values_are_conditioned_on_files(small, folder):
    rows, y = read_parquet(folder, "target")
    model = GPRegressor("1.0 * SE(1.0)", likelihood=Gaussian(0.01), objective=None, n_inducing=30).fit(
        rows, y
    )
    assert np.sqrt(np.mean((model.predict(X) - F) ** 2)) < 0.1


def test_learned_estimators_are_given_all_rows(small):
    labels = np.where(F > 0, "up", "down")
    model = GPClassifier("9.0 * SE(1.5)", objective=None, n_inducing=40, representation="inducing")
    model.fit(X[:140], labels[:140]).condition_on(ArrayRows(X), labels)
    assert np.mean(model.predict(X) == labels) > 0.95
    again = GP(model.kernel_, Probit(), representation=model.model_.representation)
    assert model.log_evidence_ == pytest.approx(
        again.condition(X, np.where(F > 0, 1, -1)).log_evidence, abs=1e-6
    )
    with pytest.raises(ValueError, match="'left', which is not a class"):
        model.condition_on(ArrayRows(X[:2]), ["up", "left"])


# --- strange data -------------------------------------------------------------------------------------------


def test_more_inducing_inputs_than_distinct_rows():
    doubled = np.repeat(X[:40], 10, axis=0)
    model = GPRegressor("1.0 * SE(1.0)", objective=None, representation="inducing", n_inducing=200)
    model.fit(doubled, np.repeat(Y[:40], 10) + 0.1 * rng.standard_normal(400))
    assert model.model_.representation.m == 40
    assert np.isfinite(model.predict(X)).all()


def test_repeated_rows_without_noise_are_refused_with_a_remedy():
    doubled = np.vstack([X[:50], X[:50]])
    model = GPRegressor(
        1.0 * SE(1.0), likelihood="noiseless", objective=None, representation="inducing", n_inducing=20
    )
    with pytest.raises(ValueError, match=r"cannot represent observations without noise .* give the noise"):
        model.fit(doubled, np.r_[Y[:50], Y[:50]])
    with pytest.raises(ValueError, match=r"y differs between rows .* use Gaussian noise"):
        model.fit(doubled, np.r_[Y[:50], Y[:50] + 0.1])
