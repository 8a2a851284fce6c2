"""Real data and the example scripts: skipped where the data are not at hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cavity.em import HMM, GaussianMixture

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def data(name):
    datasets = pytest.importorskip("cavity.datasets")
    try:
        return datasets.load(name)
    except FileNotFoundError:
        pytest.skip(f"data set {name} not found: set CAVITY_DATA")


def script(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.data
def test_old_faithful():
    """Log-likelihood -1130.264 and BIC 2322.19 of two full components are the values of R's mclust."""
    found = data("faithful")
    x = np.column_stack([found.X, found.y])
    model = GaussianMixture(range(1, 5), n_init=2, random_state=0).fit(x)
    assert model.n_components_ == 2
    assert_allclose(model.log_likelihood_, -1130.264, atol=5e-4)
    assert_allclose(model.bic(x), 2322.192, atol=2e-3)
    assert_allclose(model.means_, [[2.036, 54.479], [4.290, 79.968]], atol=2e-3)
    assert_allclose(model.weights_, [0.3559, 0.6441], atol=2e-4)


@pytest.mark.data
def test_growth_of_carbon_dioxide_has_two_regimes():
    data("mauna_loa_2026")
    years, growth = script("regimes_hmm").yearly_increments()
    model = HMM(range(1, 5), n_init=4, random_state=0, transmat_prior=1.5).fit(growth[:, None])
    assert model.n_states_ == 2
    states = model.predict(growth[:, None])
    assert set(states[years < 1990]) == {0}
    assert set(states[years > 2005]) == {1}


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "needs"), [("old_faithful_mixture", "faithful"), ("regimes_hmm", "mauna_loa_2026")]
)
def test_examples_draw_their_picture(name, needs, tmp_path, capsys):
    data(needs)
    picture = tmp_path / "picture.png"
    script(name).main(str(picture))
    assert picture.stat().st_size > 20_000
    assert capsys.readouterr().out
