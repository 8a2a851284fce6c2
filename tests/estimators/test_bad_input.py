"""Bad input ends in a ValueError that names the argument and the value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cavity import GPRegressor
from cavity.kernels import SE
from cavity.likelihoods import KnownNoise
from cavity.means.basis import Basis

X = np.linspace(0, 1, 12).reshape(6, 2)
Y = np.arange(6.0)
WAVE_X = np.linspace(0, 5, 30)[:, None]
WAVE_Y = np.sin(WAVE_X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)


def spoiled(value, row: int = 2) -> np.ndarray:
    out = X.copy()
    out[row, 1] = value
    return out


@pytest.fixture(scope="module")
def fitted() -> GPRegressor:
    return GPRegressor(objective=None).fit(X, Y)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (spoiled(np.nan), Y, "Input X contains NaN"),
        (spoiled(np.inf), Y, "Input X contains infinity"),
        (X, np.where(Y == 3, np.nan, Y), "Input y contains NaN"),
        (X, np.where(Y == 3, -np.inf, Y), "Input y contains infinity"),
        (X, Y[:-1], r"inconsistent numbers of samples: \[6, 5\]"),
        (X[:0], Y[:0], r"Found array with 0 sample"),
        (np.zeros((6, 0)), Y, r"0 feature\(s\)"),
        (X[:, 0], Y, "Expected 2D array, got 1D array"),
        (np.zeros((2, 3, 4)), Y[:2], "dim 3"),
        (X, None, "requires y to be passed"),
        (X.astype(complex), Y, "Complex data not supported"),
    ],
)
def test_shapes_and_values(X, y, words):
    with pytest.raises(ValueError, match=words):
        GPRegressor().fit(X, y)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (
            np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")[:, None],
            "X holds dates or durations",
        ),
        ([["a", 1.0], ["b", 2.0]], "X holds text, for instance 'a'"),
        (np.array([["1", "x"], ["2", "y"]]), "X holds text, for instance .*'x'"),
        (np.array([[1, "x"], [2, "y"]], dtype=object), "X holds text, for instance 'x'"),
    ],
)
def test_text_and_dates_in_arrays_are_named(X, words):
    with pytest.raises(ValueError, match=words):
        GPRegressor().fit(X, [1.0, 2.0])


def test_text_at_prediction_names_the_column_of_a_model_of_numbers():
    model = GPRegressor(objective=None).fit(pd.DataFrame({"size": [1.0, 2.0], "age": [3.0, 5.0]}), [1.0, 2.0])
    with pytest.raises(ValueError, match="column 'age' of X holds text, for instance 'old'"):
        model.predict(pd.DataFrame({"size": [1.0], "age": ["old"]}))
    with pytest.raises(
        ValueError, match=r"Input X contains NaN .*row 0, column 1.* has no stand-in: complete the rows"
    ):
        model.predict(pd.DataFrame({"size": [1.0], "age": [np.nan]}))


def test_missing_values_of_arrays_and_targets_have_a_remedy():
    with pytest.raises(ValueError, match=r"Input X contains NaN .*row 2, column 1.*; give X as a data frame"):
        GPRegressor().fit(spoiled(np.nan), Y)
    with pytest.raises(
        ValueError, match=r"Input y contains NaN .*row 3, .*; leave out rows whose target is missing"
    ):
        GPRegressor().fit(X, np.where(Y == 3, np.nan, Y))


def test_text_in_targets_and_at_prediction(fitted):
    with pytest.raises(ValueError, match=r"y holds text, for instance .*'low'"):
        GPRegressor().fit(X, ["low"] * 6)
    with pytest.raises(ValueError, match="X holds text"):
        fitted.predict([["a", "b"]])


def test_numbers_written_as_text_are_numbers():
    assert GPRegressor(objective=None).fit([["1", "2"], ["3", "4"]], [1.0, 2.0]).n_features_in_ == 2


def test_prediction_inputs(fitted):
    with pytest.raises(ValueError, match="X has 3 features, but GPRegressor is expecting 2"):
        fitted.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        fitted.predict(spoiled(np.nan))
    with pytest.raises(ValueError, match="0 sample"):
        fitted.predict(np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(5), "sample_weight.shape"),
        (-np.ones(6), "Negative values in data passed to `sample_weight`"),
        (np.full(6, np.nan), "Input sample_weight contains NaN"),
        (np.zeros(6), "Sample weights must contain at least one non-zero number"),
    ],
)
def test_weights(weight, words):
    with pytest.raises(ValueError, match=words):
        GPRegressor().fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "luck"}, "objective must be 'evidence', 'loo', 'gcv' or None, got 'luck'"),
        ({"n_restarts": -1}, "n_restarts must be an integer >= 0, got -1"),
        ({"n_restarts": None}, "n_restarts must be an integer >= 0, got None"),
        ({"n_restarts": True}, "n_restarts must be an integer >= 0, got True"),
        ({"learn_rows": 0}, "learn_rows must be an integer >= 1 or None, got 0"),
        ({"max_time": -1.0}, "max_time must be a number of seconds >= 0 or None, got -1.0"),
        ({"max_time": "5"}, "max_time must be a number of seconds >= 0 or None, got '5'"),
        ({"max_time": np.nan}, "max_time must be a number of seconds >= 0 or None, got nan"),
        ({"n_jobs": 0}, "n_jobs must be a number of workers, .* got 0"),
        ({"n_jobs": "2"}, "n_jobs must be a number of workers, .* got '2'"),
        ({"random_state": "a"}, "random_state must be an integer .* got 'a'"),
        ({"random_state": -1}, "random_state must be an integer >= 0, .* got -1"),
        ({"kernel": "1.0 * Magic(2.0)"}, "Magic"),
        ({"kernel": 3.0}, "kernel must be a cavity kernel, .* got 3.0"),
        ({"mean": "wavy"}, "mean must be .* got 'wavy'"),
        ({"likelihood": "loud"}, "likelihood must be .* got 'loud'"),
        ({"inference": "guess"}, "inference must be .* got 'guess'"),
        ({"kernel": SE([1.0, 2.0, 3.0])}, "SE is made for 3 input columns, but the data have 2"),
        ({"kernel": SE(1.0).on("size")}, "unknown column 'size'"),
        ({"kernel": SE(1.0).on(5)}, r"asks for column 5 \(from 0\), but the data have 2"),
        ({"likelihood": KnownNoise(np.ones(4))}, "KnownNoise has variances for 4 observations, but 6"),
    ],
)
def test_options(options, words):
    with pytest.raises(ValueError, match=words):
        GPRegressor(**options).fit(X, Y)


def test_too_many_vague_basis_functions_are_explained():
    with pytest.raises(
        np.linalg.LinAlgError, match="basis functions are linearly dependent on these 1 inputs"
    ):
        GPRegressor(mean=Basis("linear"), objective=None).fit([[1.0, 2.0]], [3.0])


def test_a_hopeless_fit_says_why():
    """Without noise, targets that contradict each other, and a kernel that is no covariance."""

    class Negative(SE):
        def _block(self, a, b):
            return -super()._block(a, b)

    with pytest.raises(np.linalg.LinAlgError, match=r"could not be evaluated at any start: .*Likely reasons"):
        GPRegressor(Negative(1.0), likelihood="noiseless", n_restarts=1).fit(X, Y)


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
@pytest.mark.parametrize("unit", [1e160, 1e-160])
def test_targets_in_units_whose_squares_overflow_are_refused(likelihood, unit):
    with pytest.raises(ValueError, match=r"the largest target is \d.*e[+-]1.* give y in other units"):
        GPRegressor(likelihood=likelihood).fit(X, Y * unit)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
@pytest.mark.parametrize("unit", [1e50, 1e-50])
def test_units_of_targets_do_not_matter(likelihood, unit):
    options = {"likelihood": likelihood, "n_restarts": 0, "random_state": 0}
    plain, other = (GPRegressor(**options).fit(WAVE_X, u * WAVE_Y) for u in (1.0, unit))
    size = np.max(np.abs(WAVE_Y))  # at a zero of the wave a relative error says nothing
    np.testing.assert_allclose(other.predict(WAVE_X) / unit, plain.predict(WAVE_X), rtol=0, atol=1e-3 * size)
    assert other.log_evidence_ + 30 * np.log(unit) == pytest.approx(plain.log_evidence_, abs=1e-3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e160, 1e-160])
def test_units_of_inputs_do_not_matter(unit):
    plain, other = (GPRegressor(n_restarts=0).fit(u * WAVE_X, WAVE_Y) for u in (1.0, unit))
    np.testing.assert_allclose(other.predict(unit * WAVE_X), plain.predict(WAVE_X), rtol=1e-4)
