"""The real data sets, where their files are present (CAVITY_DATA): known facts about each."""

from __future__ import annotations

import os

import numpy as np
import pytest

from cavity import datasets

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("CAVITY_DATA"), reason="CAVITY_DATA is not set"),
]


def load(name: str) -> datasets.Dataset:
    try:
        return datasets.load(name)
    except datasets.DatasetNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", datasets.names("real"))
def test_every_set_is_complete_and_says_what_to_cite(name):
    found = load(name)
    assert np.isfinite(found.X).all()
    assert np.ptp(found.X, axis=0).max() > 0
    if found.task == "regression":
        assert np.isfinite(found.y).all()
        assert np.std(found.y) > 0
    else:
        assert 2 <= len(np.unique(found.y)) <= 10
    for part in (found.license, found.citation):
        assert part
        assert part in repr(found)
        assert part in found.describe()
    assert found.home in found.describe()


def test_boston_has_the_capped_prices():
    found = load("boston")
    assert found.X.shape == (506, 13)
    assert found.y.max() == 50
    assert np.sum(found.y == 50) == 16
    assert found.frame.columns[-1] == "medv"


def test_class_sizes_are_the_published_ones():
    for name, counts in {
        "ionosphere": {"b": 126, "g": 225},
        "wisconsin": {2: 444, 4: 239},
        "pima": {0: 500, 1: 268},
        "sonar": {"M": 111, "R": 97},
        "crabs": {"F": 100, "M": 100},
    }.items():
        labels, sizes = np.unique(load(name).y, return_counts=True)
        assert dict(zip(labels.tolist(), sizes.tolist())) == counts


def test_splits_of_the_sources():
    ripley = load("pima_ripley")
    assert (len(ripley.y), len(ripley.y_test)) == (200, 332)
    assert list(ripley.frame["split"]).count("test") == 332
    neal = load("neal_outliers")
    assert (len(neal.y), len(neal.y_test)) == (100, 1000)
    residual = neal.y_test - datasets.synthetic.neal_function(neal.X_test[:, 0])
    assert np.median(np.abs(residual)) / 0.6745 == pytest.approx(0.1, rel=0.15)


def test_months_become_decimal_years():
    found = load("airline")
    np.testing.assert_allclose(np.diff(found.X[:, 0]), 1 / 12, atol=1e-9)
    assert found.X[0, 0] == 1949
    assert found.y[0] == 112


def test_the_two_records_of_mauna_loa_agree_on_their_common_months():
    old, new = load("mauna_loa"), load("mauna_loa_2026")
    # The older file leaves out the months without a measurement.
    nearest = np.abs(np.subtract.outer(old.X[:, 0], new.X[:, 0])).argmin(axis=1)
    np.testing.assert_allclose(old.X[:, 0], new.X[nearest, 0], atol=0.02)
    assert np.abs(old.y - new.y[nearest]).max() < 1.0


def test_crabs_keeps_the_running_number_out_of_the_inputs():
    found = load("crabs")
    assert "index" not in found.feature_names
    assert found.extra["index"].max() == 50
    assert set(found.X[:, 0]) == {0.0, 1.0}
