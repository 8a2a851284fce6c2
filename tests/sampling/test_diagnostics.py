"""Diagnostics of chains against ArviZ, an independent implementation, and against what theory says of AR(1)."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.sampling import diagnostics


@pytest.fixture(scope="module")
def az():
    arviz = pytest.importorskip("arviz")
    from arviz.utils import Numba

    Numba.disable_numba()  # its compiled branch fails with some versions of NumPy
    return arviz


def chains(C, T, rho, seed=0):
    e = np.random.default_rng(seed).standard_normal((C, T))
    x = np.empty((C, T))
    x[:, 0] = e[:, 0] / np.sqrt(1 - rho**2)
    for t in range(1, T):
        x[:, t] = rho * x[:, t - 1] + e[:, t]
    return x


@pytest.mark.parametrize("shape", [(1, 100), (2, 4), (3, 5), (2, 7), (2, 10), (4, 101), (4, 1000)], ids=str)
@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.5, 0.99])
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_arviz(az, shape, rho):
    x = chains(*shape, rho)
    for draws in (x, np.round(x), np.exp(3 * x)):
        expected = {
            "ess_bulk": az.ess(draws),
            "ess_tail": az.ess(draws, method="tail"),
            "ess_mean": az.ess(draws, method="mean"),
            "mcse_mean": az.mcse(draws),
            "mcse_sd": az.mcse(draws, method="sd"),
        }
        if shape[0] > 1:
            expected["rhat"] = az.rhat(draws)
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(diagnostics, name)(draws), value, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.95])
def test_effective_sample_size_of_an_ar1_process(rho):
    """S = C T (1 - rho) / (1 + rho), and the autocorrelation is rho^t."""
    x = chains(4, 20000, rho)
    expected = 80000 * (1 - rho) / (1 + rho)
    assert abs(diagnostics.ess_mean(x) / expected - 1) < 0.12
    found = diagnostics.autocorrelation(x, 10).mean(axis=0)
    np.testing.assert_allclose(found, rho ** np.arange(11), atol=0.05)


def test_trailing_axes_are_quantities(monkeypatch):
    x = np.stack([chains(3, 60, rho) for rho in (0.0, 0.3, 0.6, 0.9)], axis=-1).reshape(3, 60, 2, 2)
    for name in ("rhat", "ess_bulk", "ess_tail", "ess_mean", "mcse_mean", "mcse_sd"):
        function = getattr(diagnostics, name)
        whole = function(x)
        assert whole.shape == (2, 2)
        one_by_one = [[function(x[:, :, i, j]) for j in range(2)] for i in range(2)]
        np.testing.assert_allclose(whole, one_by_one, rtol=1e-12)
        monkeypatch.setattr(diagnostics, "BLOCK", 1)  # one quantity at a time
        np.testing.assert_allclose(function(x), whole, rtol=1e-12)
        monkeypatch.undo()
    assert diagnostics.autocorrelation(x).shape == x.shape


def test_chains_that_disagree_are_noticed():
    x = chains(4, 500, 0.0)
    assert diagnostics.rhat(x) < 1.01
    shifted, wider, drifting = x.copy(), x.copy(), x + np.linspace(0, 2, 500)
    shifted[0] += 0.5
    wider[0] *= 3.0
    for bad in (shifted, wider, drifting):
        assert diagnostics.rhat(bad) > 1.01


def test_without_enough_draws_or_with_nan_there_is_no_answer():
    x = chains(2, 50, 0.0)
    x[0, 3] = np.nan
    both = np.stack([x, chains(2, 50, 0.0, 1)], axis=-1)
    for name in ("rhat", "ess_bulk", "ess_tail", "mcse_mean", "mcse_sd"):
        assert np.isnan(getattr(diagnostics, name)(np.zeros((2, 3))))
        found = getattr(diagnostics, name)(both)
        assert np.isnan(found[0])
        assert np.isfinite(found[1])
    assert np.isnan(diagnostics.rhat(np.zeros((1, 10))))
    assert diagnostics.ess_bulk(np.ones((2, 10))) == 20
    assert diagnostics.mcse_sd(np.ones((2, 10))) == 0
    with pytest.raises(ValueError, match="draws must have shape"):
        diagnostics.rhat(np.zeros(4))
