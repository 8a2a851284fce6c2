"""The check of EP's evidence predicts its true error, found by quadrature over two latent values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from cavity import GP, GPRegressor
from cavity.assessment.evidence_check import EvidenceCheck, check_evidence
from cavity.inference import ConvergenceWarning
from cavity.kernels import SE
from cavity.likelihoods import Poisson, Probit, StudentT

GRID = np.linspace(-7.0, 7.0, 1401)


def true_log_evidence(K, y, likelihood) -> float:
    """By a sum over a fine grid of the two whitened latent values."""
    L = np.linalg.cholesky(K)
    u, v = np.meshgrid(GRID, GRID, indexing="ij")
    f = (L[0, 0] * u, L[1, 0] * u + L[1, 1] * v)
    log = -0.5 * (u**2 + v**2) - np.log(2 * np.pi) + 2 * np.log(GRID[1] - GRID[0])
    for value, place in zip(y, f):
        log = log + likelihood.log_prob(np.full(1, value), place.reshape(-1, 1))[:, 0].reshape(place.shape)
    return float(logsumexp(log))


@pytest.mark.parametrize("apart", [0.3, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("df", [1.0, 3.0])
def test_the_error_is_the_true_one(df, apart):
    """Two close rows that contradict each other: two modes, of which EP is wrong by up to a nat and more."""
    X, y, kernel, noise = (
        np.array([[0.0], [0.3]]),
        np.array([apart, -apart]),
        2.0 * SE(1.0),
        StudentT(0.1, df),
    )
    posterior = GP(kernel, noise, inference="ep").condition(X, y)
    found = check_evidence(posterior)
    assert found is not None
    error = posterior.log_evidence - true_log_evidence(kernel.bind(1)(X), y, noise)
    if found.known:
        assert found.error == pytest.approx(error, abs=0.1 + 3.0 * found.standard_error)
    else:
        assert error > 1.0


def test_nothing_is_checked_without_need():
    X = np.linspace(0, 3, 8)[:, None]
    assert check_evidence(GP(1.0 * SE(1.0), Poisson(), inference="ep").condition(X, np.arange(8.0))) is None
    assert check_evidence(GP(1.0 * SE(1.0), Probit(), inference="ep").condition(X, [1.0, -1] * 4)) is None
    assert check_evidence(GP(1.0 * SE(1.0)).condition(X, np.sin(X[:, 0]))) is None


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (EvidenceCheck(0.4, 0.1, True), None),
        (EvidenceCheck(1.5, 0.9, True), None),  # may be none
        (
            EvidenceCheck(3.2, 0.1, True),
            "EP's log evidence is too high by about 3.2 nats, with a standard error of 0.1",
        ),
        (EvidenceCheck(-3.2, 0.1, True), "too low by about 3.2"),
        (EvidenceCheck(60.0, 1.0, False), "cannot be relied on"),
    ],
)
def test_what_is_said(check, told):
    assert (check.message is None) == (told is None)
    if told is not None:
        assert told in str(check.message)
        assert "compare models by rows left out" in str(check.message)


def test_a_fit_warns(monkeypatch):
    wrong = EvidenceCheck(5.0, 0.1, True)
    monkeypatch.setattr("cavity.assessment.evidence_check.check_evidence", lambda posterior: wrong)
    X = np.linspace(0, 3, 12)[:, None]
    with pytest.warns(ConvergenceWarning, match="EP's log evidence is too high by about 5.0 nats"):
        GPRegressor(likelihood="student-t", n_restarts=0).fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(7 * X[:, 0]))
