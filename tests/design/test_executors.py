"""Evaluations side by side: threads, processes by loky, a Dask client; asynchronous, and with what may go wrong."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from joblib import Parallel, delayed

from cavity.design import Categorical, Space, Status, minimize

SPACE = Space({"a": (0.0, 10.0), "b": (0.0, 1.0)})


def bowl(x):
    return (x["a"] - 3.0) ** 2 + (x["b"] - 0.2) ** 2


def test_threads_are_kept_busy_and_told_as_they_come():
    """One slow evaluation does not hold up the others: others are asked for and told meanwhile."""
    release, order, lock = threading.Event(), [], threading.Lock()

    def function(x):
        with lock:
            order.append(dict(x))
            first = len(order) == 1
        if first:
            assert release.wait(10)
        elif len(order) == 6:
            release.set()
        return bowl(x)

    with ThreadPoolExecutor(2) as pool:
        result = minimize(function, SPACE, n_calls=8, executor=pool, n_jobs=2)
    assert result.nfev == 8
    assert len({tuple(x.values()) for x in order}) == 8  # pending trials were taken into account
    assert result.history.trials[0].y == bowl(order[0])
    assert all(trial.status is Status.DONE for trial in result.history)


def test_an_error_of_the_program_is_raised_and_the_rest_cancelled():
    started = []

    def function(x):
        started.append(x)
        if len(started) == 3:
            raise RuntimeError("a bug")
        time.sleep(0.01)
        return bowl(x)

    with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError, match="a bug"):
        minimize(function, SPACE, n_calls=50, executor=pool, n_jobs=2)
    assert len(started) < 8


def test_processes_of_loky():
    here = os.getpid()
    result = minimize(lambda x: [x["a"] - here, os.getpid()][0], SPACE, n_calls=3, n_jobs=2)  # sent by value
    assert result.nfev == 3
    assert all(trial.y == trial.x["a"] - here for trial in result.history)
    result = minimize(lambda x: float(os.getpid() == here), SPACE, n_calls=2, n_jobs=2)
    assert result.func_vals.tolist() == [0.0, 0.0]  # evaluated elsewhere
    assert Parallel(n_jobs=2)(delayed(abs)(-k) for k in range(3)) == [
        0,
        1,
        2,
    ]  # joblib has processes of its own


@pytest.mark.slow
def test_a_process_that_dies_is_a_failure_and_is_replaced():
    def function(x):
        if x["b"] > 0.9:
            os._exit(3)
        return (x["a"] - 3.0) ** 2 + (x["b"] - 0.2) ** 2

    result = minimize(function, SPACE, n_calls=8, n_jobs=2, x0={"a": 5.0, "b": 0.95})
    assert result.nfev == 8
    assert result.history.trials[0].status is Status.FAILED
    done = [trial for trial in result.history if trial.status is Status.DONE]
    assert len(done) >= 4
    assert all(trial.y == bowl(trial.x) for trial in done)


CALLS: list[dict[str, float]] = []


def counted(x):
    """Of this module: a worker that is a thread of this process has the same one."""
    CALLS.append(x)
    if x["a"] > 9.0:
        raise ValueError("no convergence")
    return x["a"]


def test_a_dask_client():
    distributed = pytest.importorskip("distributed")
    CALLS.clear()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None, protocol="inproc://"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        space = Space({"a": Categorical((0.0, 5.0, 10.0))})
        result = minimize(counted, space, n_calls=7, executor=client, n_jobs=2)
    assert result.nfev == 7
    assert (
        len(CALLS) == 7
    )  # settings that were tried before are evaluated again: no function is taken for pure
    for trial in result.history:
        assert trial.y == (None if trial.x["a"] > 9.0 else trial.x["a"])
