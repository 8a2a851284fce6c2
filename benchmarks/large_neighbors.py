"""Neighbors and inducing inputs against their floor and against peers, for `benchmarks.large`.

neighbors            evidence with gradient over kernel and Cholesky factorization of the same cliques (40,035 rows)
sgpr_vs_gpytorch     GPyTorch's collapsed bound with gradient, single precision, over ours in double precision
vecchia_vs_gpboost   GPBoost's Vecchia fit over ours, same rows, neighbors and kernel; stopped at eleven times our time,
                     which is then a lower bound
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.peers import environment, interpreter
from cavity import GP, Inducing, Neighbors
from cavity.kernels import SE
from cavity.likelihoods import Gaussian

NEIGHBORS = 40
"""Of the evidence; that of the default."""

VECCHIA_ROWS, VECCHIA_NEIGHBORS = 10_000, 20
"""Of the fits."""

PATIENCE = 11.0
"""Times our own time after which a peer is stopped."""

PEER_START = 20.0
"""CPU seconds that a peer may take to load."""

WORKER = Path(__file__).with_name("large_peer_worker.py")


def neighbor_subjects(X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], object]]:
    """The floor, kernel values and Cholesky factors of all cliques, and the evaluation."""
    kernel = 1.0 * SE(np.full(X.shape[1], 6.0))
    model = GP(kernel, Gaussian(0.03), representation=Neighbors(NEIGHBORS)).bind(X.shape[1])
    model, rows = model.training(X, y)
    prior = model.prior(rows.inputs)
    cliques, graph, noise, nothing = prior.cliques, prior.graph, np.full(len(X), 0.03), np.empty((len(X), 0))
    return {
        "neighbor_floor": lambda: cliques.conditionals(graph.points, graph.neighbors, noise, nothing),
        "neighbors": lambda: model.evidence_of(rows),
    }


def bound_500(X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """Our bound with 500 inducing inputs, gradient included."""
    kernel = 1.0 * SE(np.full(X.shape[1], 6.0))
    representation = Inducing(500, "vfe", learn=True).for_rows(kernel, X)
    model, rows = GP(kernel, Gaussian(0.03), representation=representation).training(X, y)
    return lambda: model.evidence_of(rows)


def vecchia_fit(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """CPU seconds of our fit, and its log evidence."""
    model = GP(1.0 * SE(np.ones(X.shape[1])), Gaussian(0.1), representation=Neighbors(VECCHIA_NEIGHBORS))
    model.learn(X[:300], y[:300], n_restarts=0, rng=0)  # what is compiled is loaded
    begin = time.process_time()
    found = model.learn(X, y, n_restarts=0, rng=0)
    return time.process_time() - begin, found.posterior.log_evidence


def peer(kind: str, X: np.ndarray, y: np.ndarray, *numbers: int, limit: float = math.inf) -> dict | None:
    """What the peer says; None if it is not installed, {"stopped": seconds} if it took too long."""

    def limited() -> None:
        if limit < math.inf:
            seconds = math.ceil(limit + PEER_START)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    if not interpreter().exists():
        return None
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, X=X, y=y)
        file.flush()
        command = [str(interpreter()), str(WORKER), kind, file.name, *map(str, numbers)]
        done = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=limited, check=False, env=environment()
        )
    if done.returncode < 0:
        return {"stopped": limit}
    if done.returncode:
        print(f"{kind}: {done.stderr.strip().splitlines()[-1] if done.stderr else 'failed'}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def against_peers(X: np.ndarray, y: np.ndarray, own_bound: float) -> dict[str, float]:
    """Ratios to GPyTorch and GPBoost; nan if one is missing. `own_bound` is the CPU time of our bound."""
    ratios = {"sgpr_vs_gpytorch": math.nan, "vecchia_vs_gpboost": math.nan}
    found = peer("sgpr", X, y, 500, 2)
    if found:
        theirs = float(np.median(found["seconds"]))
        ratios["sgpr_vs_gpytorch"] = theirs / own_bound
        print(
            f"GPyTorch SGPR, m = 500, single precision: {theirs:.2f} s an evaluation; ours {own_bound:.2f} s"
        )
    some = np.random.default_rng(0).choice(len(X), VECCHIA_ROWS, replace=False)
    took, value = vecchia_fit(X[some], y[some])
    print(
        f"Vecchia fit, {VECCHIA_ROWS} rows, {VECCHIA_NEIGHBORS} neighbors: {took:.1f} s, log evidence {value:.0f}"
    )
    found = peer("gpboost", X[some], y[some], VECCHIA_NEIGHBORS, limit=PATIENCE * took)
    if found and "stopped" in found:
        ratios["vecchia_vs_gpboost"] = PATIENCE
        print(f"GPBoost: stopped after {found['stopped']:.0f} s, a lower bound")
    elif found:
        ratios["vecchia_vs_gpboost"] = found["seconds"] / took
        print(f"GPBoost: {found['seconds']:.1f} s, log likelihood {found['value']:.0f}")
    return ratios
