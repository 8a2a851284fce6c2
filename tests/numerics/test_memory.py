"""Memory: estimated before it is taken, refused with advice, and not held twice."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from cavity import GPRegressor
from cavity.gp import GP
from cavity.kernels import SE, ard
from cavity.likelihoods import Gaussian
from cavity.numerics import memory
from cavity.numerics.memory import TooLargeError, available_memory, require_memory

RNG = np.random.default_rng(0)
N = 700
X = RNG.standard_normal((N, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(N)
MATRIX = 8 * N * N


@pytest.fixture
def little(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)


def peak(work) -> float:
    """Largest memory taken while working, and what is kept, in n x n matrices.

    What a process takes once (modules, the compiler, a tile of scratch memory for each thread) is not counted.
    """
    work()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = work()
        after, top = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return (top - before) / MATRIX, (after - before) / MATRIX


# --- refusal ------------------------------------------------------------------------------------------------


def test_a_fit_that_cannot_fit_is_refused_with_what_helps(little):
    with pytest.raises(
        TooLargeError, match=r"fit of 700 rows needs about .* GiB, .*; use representation='inducing'"
    ):
        GPRegressor().fit(X, Y)
    assert issubclass(TooLargeError, ValueError)
    assert issubclass(TooLargeError, MemoryError)


def test_the_advice_works(little):
    model = GPRegressor(1.0 * SE(1.0), objective=None, representation="inducing", n_inducing=30).fit(X, Y)
    assert len(model.rows_.X) == 700


def test_nothing_is_allocated_before_the_refusal(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e9)
    many = np.zeros((100_000, 1))
    many[:, 0] = np.arange(100_000)
    with pytest.raises(TooLargeError, match="inducing"):
        GPRegressor(representation="dense").fit(many, many[:, 0])


def test_processes_and_leave_one_out_need_more(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 4.0 * MATRIX)
    require_memory(N)
    with pytest.raises(TooLargeError):
        require_memory(N, "loo")
    with pytest.raises(TooLargeError, match="n_jobs=1"):
        require_memory(N, copies=2)


def test_updates_and_joint_predictions_are_checked_too(little, monkeypatch):
    model = GPRegressor(1.0 * SE(1.0), objective=None).fit(X[:100], Y[:100])
    with pytest.raises(TooLargeError, match="fit of 800 rows"):
        model.update(X, Y)
    assert len(model.rows_.X) == 100  # as it was
    with pytest.raises(TooLargeError, match=r"joint prediction at 700 rows .*return_std=True"):
        model.predict(X, return_cov=True)
    with pytest.raises(TooLargeError, match="joint prediction"):
        model.sample_y(X)
    assert model.predict(X, return_std=True)[1].shape == (N,)


# --- what is free -------------------------------------------------------------------------------------------


def test_available_memory_is_a_plausible_number():
    assert 2**20 < available_memory() < 2**50


def test_a_container_may_have_less_than_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    unlimited = available_memory()
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 500000\n")
    assert available_memory() == 2_500_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory() == pytest.approx(unlimited, rel=0.5)


def test_systems_without_the_usual_file(monkeypatch):
    def absent(self):
        raise OSError

    monkeypatch.setattr(memory.Path, "read_text", absent)
    assert available_memory() > 0
    monkeypatch.setattr(memory.os, "sysconf", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert available_memory() == np.inf


# --- what is taken ------------------------------------------------------------------------------------------


def test_evidence_and_gradient_stay_below_the_estimate():
    model = GP(1.0 * SE(ard), Gaussian(0.1)).bind(2)
    top, kept = peak(lambda: model.evidence(X, Y))
    assert top < memory.MATRICES["evidence"]
    assert kept < 0.1


def test_leave_one_out_stays_below_its_estimate():
    model = GP(1.0 * SE(ard), Gaussian(0.1)).bind(2)
    top, _ = peak(lambda: model.leave_one_out_log_prob(X, Y))
    assert top < memory.MATRICES["loo"]


def test_a_posterior_holds_one_matrix():
    model = GP(1.0 * SE(ard), Gaussian(0.1)).bind(2)
    top, kept = peak(lambda: model.condition(X, Y))
    assert top < memory.MATRICES["evidence"]
    assert kept < 1.2


def test_a_fitted_estimator_holds_one_matrix():
    top, kept = peak(lambda: GPRegressor(1.0 * SE(1.0), objective=None).fit(X, Y))
    assert top < memory.MATRICES["evidence"]
    assert kept < 1.2
    top, kept = peak(lambda: GPRegressor(n_restarts=0, max_time=0.0).fit(X, Y))
    assert top < memory.MATRICES["evidence"] + 0.5
    assert kept < 1.3


def test_joint_predictions_stay_below_their_estimate():
    posterior = GP(1.0 * SE(ard), Gaussian(0.1)).condition(X[:50], Y[:50])
    top, _ = peak(lambda: posterior.covariance(X))
    assert top < memory.MATRICES["predict"]
    top, _ = peak(lambda: posterior.sample(X, rng=0))
    assert top < memory.MATRICES["predict"]
