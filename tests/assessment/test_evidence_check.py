"""The check of EP's evidence predicts its true error, found by quadrature over two latent values."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp

from cavity import GP, GPRegressor
from cavity.assessment.evidence_check import EvidenceCheck, check_evidence
from cavity.inference import ConvergenceWarning
from cavity.kernels import SE
from cavity.likelihoods import MixtureOfGaussians, Poisson, Probit, StudentT
from cavity.runtime.progress import Progress

GRID = np.linspace(-7.0, 7.0, 1401)


def true_log_evidence(K, y, likelihood) -> float:
    """By a sum over a fine grid of the two whitened latent values, each seen by one row or several."""
    L = np.linalg.cholesky(K)
    u, v = np.meshgrid(GRID, GRID, indexing="ij")
    f = (L[0, 0] * u, L[1, 0] * u + L[1, 1] * v)
    log = -0.5 * (u**2 + v**2) - np.log(2 * np.pi) + 2 * np.log(GRID[1] - GRID[0])
    for values, place in zip(y, f):
        for value in np.atleast_1d(values):
            log = log + likelihood.log_prob(np.full(1, value), place.reshape(-1, 1))[:, 0].reshape(
                place.shape
            )
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


@pytest.mark.parametrize(
    ("noise", "variance", "gap", "y"),
    [
        (MixtureOfGaussians(0.1, 0.3, 20.0), 2.0, 0.3, ([-2.547], [4.603, -3.325, 0.453])),
        (MixtureOfGaussians(0.1, 0.1, 20.0), 2.0, 0.3, ([2.207, 0.181, -1.944], [1.808, -0.538, 3.285])),
        (StudentT(0.1, 4.0), 10.0, 0.1, ([13.705, 18.018], [-7.335])),
    ],
    ids=["the other mode is larger", "as large", "annealing stays behind"],
)
def test_a_mode_that_ep_has_missed_is_seen(noise, variance, gap, y):
    """In each case draws from EP's Gaussian alone, or an annealing from it, were wrong by 0.9 nats and more."""
    kernel, places = variance * SE(1.0), np.array([[0.0], [gap]])
    X = np.repeat(places, [len(y[0]), len(y[1])], axis=0)
    posterior = GP(kernel, noise, inference="ep").condition(X, np.concatenate(y))
    error = posterior.log_evidence - true_log_evidence(kernel.bind(1)(places), y, noise)
    found = check_evidence(posterior)
    assert abs(error) > 0.8
    assert not found.known or found.error == pytest.approx(error, abs=0.2 + 3.0 * found.standard_error)


def test_an_annealing_that_finds_less_than_the_draws_is_not_believed(monkeypatch):
    X, y = np.array([[0.0], [0.3]]), np.array([4.0, -4.0])
    posterior = GP(2.0 * SE(1.0), StudentT(0.1, 1.0), inference="ep").condition(X, y)
    module = "cavity.assessment.evidence_check."
    draws = SimpleNamespace(log_evidence=posterior.log_evidence - 3.0, standard_error=0.1, certified=False)
    monkeypatch.setattr(module + "importance_evidence", lambda *args, **options: draws)
    for log_evidence, known in ((-4.5, False), (-3.2, True), (-2.0, True)):
        end = SimpleNamespace(
            log_evidence=posterior.log_evidence + log_evidence, standard_error=0.1, sd_log_weights=0.3
        )
        monkeypatch.setattr(module + "annealed_importance_sampling", lambda *args, end=end, **options: end)
        assert check_evidence(posterior).known is known


def test_an_annealing_is_seen_to_go_on(monkeypatch):
    X, y = np.array([[0.0], [0.3]]), np.array([4.0, -4.0])
    posterior = GP(2.0 * SE(1.0), StudentT(0.1, 1.0), inference="ep").condition(X, y)
    draws = SimpleNamespace(log_evidence=posterior.log_evidence - 3.0, standard_error=0.1, certified=False)
    monkeypatch.setattr(
        "cavity.assessment.evidence_check.importance_evidence", lambda *args, **options: draws
    )
    seen = []
    monkeypatch.setattr(Progress, "advance", lambda self: seen.append((self.label, self.total)))
    check_evidence(posterior)
    assert set(seen) == {("checking the log evidence", len(seen))}


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
        (EvidenceCheck(60.0, 1.0, False), "EP's log evidence may be off: sampling did not confirm it"),
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
