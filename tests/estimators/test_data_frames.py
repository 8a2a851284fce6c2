"""Estimators of data frames with text, categories, dates and missing values do what `cavity fit` does."""

from __future__ import annotations

import pickle
import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import cavity
from cavity import GPClassifier, GPRegressor, StackedRegressor
from cavity.frames.notes import TableWarning
from cavity.io import ModelFileError, dumps, loads
from cavity.io.archive import pack, unpack
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.tables import Table, prepare

N = 24
RNG = np.random.default_rng(0)
KINDS = np.array([1, 2])[np.arange(N) % 2]


def frame() -> pd.DataFrame:
    made = pd.DataFrame(
        {
            "size": RNG.permutation(np.linspace(50.0, 150.0, N)),
            "city": np.array(["Rome", "Paris", "Oslo"])[np.arange(N) % 3],
            "kind": pd.Categorical(KINDS),
            "new": np.arange(N) % 5 == 0,
            "day": pd.date_range("2024-01-01", periods=N, freq="9D"),
        }
    )
    made.loc[[3, 7], "size"] = np.nan
    made.loc[5, "city"] = None
    return made


FRAME = frame()
Y = np.sin(np.arange(N)) + KINDS + (FRAME["city"] == "Rome")
QUICK = {"kernel": 2.0 * SE(20.0), "likelihood": Gaussian(0.1), "objective": None}


def fitted(X=FRAME, y=Y):
    return GPRegressor(**QUICK).fit(X, y)


def test_columns_become_what_cavity_fit_makes_of_them():
    model = fitted()
    table = Table(FRAME.assign(y=np.asarray(Y)), np.arange(1, N + 1), N)
    preparation, X, y = prepare(table, "y")
    assert model.coding_.features == preparation.features
    assert model.coding_.columns == preparation.columns
    np.testing.assert_array_equal(model.rows_.X, X)
    same = GPRegressor(**QUICK).fit(X, y)
    np.testing.assert_allclose(model.predict(FRAME), same.predict(X), rtol=1e-12)
    assert model.log_evidence_ == pytest.approx(same.log_evidence_, rel=1e-12)
    assert "Column 'size': 2 missing values filled in" in str(model.coding_.notes[0])


def test_coded_values_by_hand():
    X = pd.DataFrame(fitted().rows_.X, columns=fitted().coding_.features)
    assert list(X) == [
        *("size", "size is missing", "city=(missing)", "city=Oslo", "city=Paris", "city=Rome"),
        *("kind=2", "new", "day"),
    ]
    assert X["size is missing"].tolist() == [float(i in (3, 7)) for i in range(N)]
    assert X["size"][3] == np.nanmedian(FRAME["size"])
    assert X["city=Rome"].tolist() == [float(i % 3 == 0) for i in range(N)]
    assert X["kind=2"].tolist() == [float(i % 2) for i in range(N)]
    assert X["day"].tolist() == [9.0 * i for i in range(N)]


def test_columns_are_those_of_the_user():
    model = fitted()
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == list(FRAME)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(FRAME[FRAME.columns[::-1]])
    with pytest.raises(ValueError, match="missing"):
        model.predict(FRAME.drop(columns="city"))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(model.predict(FRAME.to_numpy(dtype=object)), model.predict(FRAME))


def test_polars_gives_the_same():
    plain = FRAME.assign(kind=np.where(KINDS == 1, "a", "b"))
    model, other = fitted(plain), fitted(pl.from_pandas(plain))
    assert other.coding_ == model.coding_
    np.testing.assert_array_equal(other.predict(pl.from_pandas(plain)), model.predict(plain))


def test_new_levels_and_gaps_are_told_and_taken_for_none_of_the_levels():
    model = fitted()
    new = FRAME.iloc[:3].copy()
    new["city"] = ["Bern", "Bern", "Oslo"]
    new["kind"] = pd.Categorical([1, None, 2])
    new.loc[2, "day"] = pd.NaT
    with pytest.warns(TableWarning) as heard:
        found = model.predict(new)
    assert [str(one.message) for one in heard] == [
        "column 'city' has 'Bern' in 2 rows, which did not occur when the model was fitted: predictions there are for "
        "none of its levels",
        "1 value of column 'kind' is missing, and none was when the model was fitted: predictions there are for none "
        "of its levels",
        "1 value of column 'day' is missing, and none was when the model was fitted: predictions there take its median",
    ]
    assert all(one.filename == __file__ for one in heard)
    X = model.rows_.X[:3].copy()
    X[:2, 2:6] = 0.0
    X[1, 6] = 0.5
    X[2] = [*X[2, :2], 0, 1, 0, 0, 1, *X[2, 7:8], np.median(model.rows_.X[:, 8])]
    np.testing.assert_allclose(found, model.posterior_.mean(X))


def test_columns_of_no_use_are_left_out_with_a_warning():
    noted = FRAME.assign(note=[f"seen {i}" for i in range(N)], id=np.arange(N), empty=None)
    with pytest.warns(TableWarning) as heard:
        model = fitted(noted)
    assert [str(one.message).split(" and was left out")[0] for one in heard] == [
        "column 'note' is text with 24 different values, such as 'seen 0',",
        "column 'id' counts or names rows",
    ]
    assert model.coding_.ignored == ("note", "id", "empty")
    assert model.n_features_in_ == 8
    np.testing.assert_array_equal(model.predict(noted), fitted().predict(FRAME))


@pytest.mark.parametrize(
    "X",
    [
        np.arange(8.0).reshape(4, 2) ** 2,
        pd.DataFrame({"a": [1, 2, 3, 4], "id": [True, False, True, True]}),
        pd.DataFrame({"a": pd.array([1, 2, 3, 5], dtype="Int64"), "b": ["1", "2.5", "3", "7"]}),
        pd.DataFrame({"a": [1.0, 2.0, 2.5, 3.0], "constant": 1.0}),
        pl.DataFrame({"a": [1.0, 2.0, 4.0, 3.0], "b": [1, 2, 3, 4]}),
    ],
)
def test_numbers_are_taken_as_they_are(X):
    model = fitted(X, [1.0, 2.0, 3.0, 4.0])
    assert model.coding_ is None
    np.testing.assert_array_equal(model.rows_.X, np.asarray(X, dtype=float))


def test_problems_of_a_frame_are_told_at_once():
    bad = FRAME.assign(when="03/04/2024", odd=[*range(N - 1), "?"])
    with pytest.raises(
        ValueError, match=r"(?s)2 problems.*'when' has dates such as.*'odd' holds numbers, except"
    ):
        fitted(bad)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted(FRAME, Y[:-1])


def test_clones_pickles_and_model_files(tmp_path):
    model = fitted()
    assert not hasattr(clone(model), "coding_")
    expected = model.predict(FRAME, return_std=True)
    model.save(tmp_path / "m.cavity")
    for again in (pickle.loads(pickle.dumps(model)), cavity.load(tmp_path / "m.cavity")):
        np.testing.assert_array_equal(again.predict(FRAME), expected[0])
        np.testing.assert_allclose(again.predict(FRAME, return_std=True)[1], expected[1], rtol=1e-9)
        assert again.coding_ == model.coding_


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda coding: coding["given"]["tuple"].append("more"), "a coding is of the columns given"),
        (lambda coding: coding["columns"]["tuple"].clear(), "a coding has columns"),
        (lambda coding: coding["columns"]["tuple"][0]["with"].update(name="age"), "some of those given"),
        (lambda coding: coding["columns"]["tuple"][0]["with"].update(flag=False), "same data"),
        (lambda coding: coding["columns"]["tuple"][0]["with"].update(fill=None), "have a stand-in"),
        (
            lambda coding: coding["columns"]["tuple"][0]["with"].update(style=3),
            "style of Column must be NumberStyle",
        ),
    ],
)
def test_files_with_a_wrong_coding(change, message):
    document, arrays = unpack(dumps(fitted()))
    change(dict(document["model"]["with"]["columns"]["dict"])["coding_"]["with"])
    with pytest.raises(ModelFileError, match=message):
        loads(pack(document, [arrays[i] for i in range(len(arrays))]))


def test_classifiers_averages_and_more_rows():
    labels = np.where(np.median(Y) < Y, "high", "low")
    classifier = GPClassifier(2.0 * SE(20.0), objective=None).fit(FRAME, labels)
    assert classifier.score(FRAME, labels) > 0.8
    assert loads(dumps(classifier)).predict(FRAME).tolist() == classifier.predict(FRAME).tolist()
    stacked = StackedRegressor([("a", GPRegressor(**QUICK)), ("b", GPRegressor(SE(5.0), objective=None))])
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        stacked.fit(FRAME, Y)
    np.testing.assert_allclose(loads(dumps(stacked)).predict(FRAME), stacked.predict(FRAME))
    model = fitted(FRAME.iloc[:20], Y[:20]).update(FRAME.iloc[20:], Y[20:])
    assert model.rows_.X.shape == (N, 9)


def test_folds_and_pipelines():
    scores = cross_val_score(make_pipeline(GPRegressor(**QUICK)), FRAME, Y, cv=3)
    assert np.isfinite(scores).all()


def test_plots_name_the_inputs_of_the_model():
    mpl.use("Agg")
    labels = np.where(np.median(Y) < Y, "high", "low")
    for model, y in (
        (fitted(), Y),
        (GPClassifier(2.0 * SE(20.0), objective=None).fit(FRAME, labels), labels),
    ):
        axes = model.plot(FRAME, y)
        assert axes is not None
    mpl.pyplot.close("all")


def test_learning_names_length_scales_by_the_coded_columns():
    model = GPRegressor(2.0 * SE(20.0).on(["size", "city=Rome"]), objective=None).fit(FRAME, Y)
    assert model.kernel_ is not None
