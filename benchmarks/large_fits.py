"""Whole fits to many rows: what they predict, and the processor seconds they take on one thread.

python -m benchmarks large_fits auto [SET]      `representation="auto"` beside each representation, on held-out rows
python -m benchmarks large_fits binary          the sign of a torque of SARCOS, 40,035 rows, against 2000 rows
python -m benchmarks large_fits usps            ten digits, 7291 rows, two strategies, against 600 rows
python -m benchmarks large_fits million         a million rows of 8 columns from Parquet: one evaluation, its memory
python -m benchmarks large_fits million_fit [N] `cavity fit` and `cavity predict` of the same: time and memory
python -m benchmarks large_fits cluster [N]     the same on two workers of Dask, one of which is killed on the way
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from benchmarks.large_dask import write
from cavity import GP, GPClassifier, GPRegressor, datasets
from cavity.kernels import SE, Matern
from cavity.latent.inducing import Inducing
from cavity.likelihoods import Gaussian
from cavity.numerics.compiled import load_compiled

Rows = tuple[np.ndarray, np.ndarray]

HELD_OUT = 1000
"""Rows that representations are judged by."""


def seconds(run: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    found = run()
    return found, time.process_time() - begin


# --- the automatic choice -----------------------------------------------------------------------------------


def sarcos() -> Rows:
    data = datasets.load("sarcos")
    some = np.random.default_rng(0).choice(len(data.X), 6000, replace=False)
    return data.X[some], data.y[some]


def friedman() -> Rows:
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(6000, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f + rng.standard_normal(len(X))


def circuit() -> Rows:
    """Friedman's second function: the impedance of a circuit."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(6000, 4)) * [100, 520 * np.pi, 1, 10] + [0, 40 * np.pi, 0, 1]
    f = np.hypot(X[:, 0], X[:, 1] * X[:, 2] - 1 / (X[:, 1] * X[:, 3]))
    return X, f + 125.0 * rng.standard_normal(len(X))


def rough_map() -> Rows:
    """A draw of a Matern process in the plane."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 10, size=(5000, 2))
    K = Matern(0.7, nu=1.5).bind(2)(X) + 1e-9 * np.eye(len(X))
    return X, np.linalg.cholesky(K) @ rng.standard_normal(len(X)) + 0.1 * rng.standard_normal(len(X))


def smooth() -> Rows:
    rng = np.random.default_rng(4)
    X = rng.uniform(-2, 2, size=(6000, 8))
    f = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * X[:, 2] ** 2
    return X, f + 0.1 * rng.standard_normal(len(X))


def weak() -> Rows:
    """Mostly noise."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(6000, 5))
    return X, np.tanh(X[:, 0] + X[:, 1] * X[:, 2]) + 2.0 * rng.standard_normal(len(X))


SETS = {f.__name__: f for f in (sarcos, friedman, circuit, rough_map, smooth, weak)}

MOST_SECONDS = 300.0
"""Of learning with one representation; the best until then counts."""

NEAR = 0.02
"""Nats a row that the automatic choice may lose."""


def auto(names: list[str]) -> int:
    """Log density a held-out row of the automatic choice, and of each representation; how many are near the best."""
    near = 0
    for name in names or list(SETS):
        X, y = SETS[name]()
        new, rest = slice(0, HELD_OUT), slice(HELD_OUT, None)
        found: dict[str, float] = {}
        for representation in ("auto", "inducing", "neighbors"):
            made = GPRegressor(representation=representation, random_state=0, max_time=MOST_SECONDS)
            model, took = seconds(partial(made.fit, X[rest], y[rest]))
            found[representation] = float(np.mean(model.predict_dist(X[new]).log_prob(y[new])))
            kept = model.model_.representation
            size = f", m = {kept.m}" if isinstance(kept, Inducing) else ""
            print(f"{name:10s} {representation:10s} {found[representation]:8.4f} nats a row, {took:6.1f} s")
            print(f"           {kept.name}{size}, trials {model.posterior_.status.trials}", flush=True)
        lost = max(found.values()) - found["auto"]
        print(f"RESULT {name} lost={lost:.4f} {'near' if lost <= NEAR else 'far'}", flush=True)
        near += lost <= NEAR
    return near


# --- classes ------------------------------------------------------------------------------------------------


def judged(name: str, make: Callable[[], GPClassifier], X: Any, y: Any, new: Any, labels: Any) -> None:
    """Error and information, in bits beyond the shares of the classes."""
    model, took = seconds(lambda: make().fit(X, y))
    p, predicting = seconds(lambda: model.predict_proba(new))
    column = np.searchsorted(model.classes_, labels)
    shares = np.array([np.mean(y == c) for c in model.classes_])
    bits = np.mean(np.log2(p[np.arange(len(new)), column]) - np.log2(shares[column]))
    wrong = np.mean(model.classes_[np.argmax(p, axis=1)] != labels)
    held = getattr(model.model_, "representation", None)
    lost = model.posterior_.status.lost_information
    size = f", m = {held.m}, lost information {lost:.2g}" if isinstance(held, Inducing) else ""
    print(
        f"{name}: {len(X)} rows, error {wrong:.4f}, information {bits:.4f} bits, fit {took:.0f} s, "
        f"predict {predicting:.1f} s{size}",
        flush=True,
    )


def binary(_: list[str]) -> None:
    """The sign of the first torque of SARCOS."""
    data = datasets.load("sarcos")
    middle, spread, level = data.X.mean(axis=0), data.X.std(axis=0), np.median(data.y)
    X, y = (data.X - middle) / spread, (data.y > level).astype(int)
    new, labels = (data.X_test - middle) / spread, (data.y_test > level).astype(int)
    some = np.random.default_rng(0).choice(len(X), 2000, replace=False)
    judged("dense", lambda: GPClassifier(random_state=0, n_restarts=0), X[some], y[some], new, labels)
    judged("inducing", lambda: GPClassifier(random_state=0, n_restarts=0), X, y, new, labels)


def usps(strategies: list[str]) -> None:
    """Ten digits."""
    data = datasets.load("usps_10class")
    X, y, new, labels = data.X, data.y, data.X_test, data.y_test
    some = np.random.default_rng(0).choice(len(X), 600, replace=False)
    kernel = 9.0 * SE(8.0)
    for strategy in strategies or ["one_vs_rest", "softmax"]:
        make = {"multi_class": strategy, "random_state": 0, "n_restarts": 0}
        judged(f"{strategy}, dense", lambda: GPClassifier(kernel, **make), X[some], y[some], new, labels)  # noqa: B023
        sparse = {**make, "representation": "inducing", "n_inducing": 200, "learn_rows": 2000}
        judged(f"{strategy}, inducing", lambda: GPClassifier(kernel, **sparse), X, y, new, labels)  # noqa: B023


# --- a million rows -----------------------------------------------------------------------------------------


def million(_: list[str]) -> None:
    """One evaluation with its gradient from Parquet files, in floors, and the memory it takes."""
    from benchmarks.large import floor
    from cavity.rows import read_parquet

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), 1_000_000, 20)
        rows, y = read_parquet(folder, "y")
        model = GP(1.0 * SE(np.full(8, 1.5)), Gaussian(0.01), representation=Inducing(500, learn=True))
        bound, data = model.training(rows, y)
        least = floor(1_000_000, 500)
        before = seconds(least)[1]
        value, took = seconds(lambda: bound.evidence_of(data)[0])
        after = seconds(least)[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"log evidence {value:.1f}, {took:.1f} s, floors of {before:.2f} and {after:.2f} s, peak {peak:.2f} GB"
    )
    print(f"RESULT million floors={2 * took / (before + after):.2f} peak_gb={peak:.2f}")


def command(*words: str) -> tuple[float, float]:
    """Processor seconds and peak gigabytes of `cavity WORDS`."""
    before = os.times()
    subprocess.run([sys.executable, "-m", "cavity", *words], check=True)
    after = os.times()
    took = after.children_user + after.children_system - before.children_user - before.children_system
    return took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def fitted(folder: Path, n: int, *more: str) -> tuple[float, float]:
    """Time and memory of a fit; the model predicts all rows again, in a stream."""
    model, out = folder / "model.cavity", folder / "predicted.csv"
    took, peak = command("fit", f"{folder}/*.parquet", "--target", "y", "--out", str(model), *more)
    predicting, memory = command("predict", str(model), f"{folder}/*.parquet", "-o", str(out))
    lines = sum(1 for _ in out.open()) - 1
    print(
        f"fit {took:.0f} s, peak {peak:.2f} GB; {lines} of {n} rows predicted in {predicting:.0f} s, {memory:.2f} GB"
    )
    return took, peak


def million_fit(sizes: list[str]) -> None:
    """`cavity fit` and `cavity predict` from Parquet files."""
    n = int(sizes[0]) if sizes else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n, 20)
        took, peak = fitted(Path(folder), n)
    print(f"RESULT million_fit rows={n} minutes={took / 60:.2f} peak_gb={peak:.2f}")


def cluster(sizes: list[str]) -> None:
    """The same with the rows on two workers, one of which is killed."""
    from distributed import Client, LocalCluster

    n = int(sizes[0]) if sizes else 200_000
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as workers,
        Client(workers) as client,
    ):
        write(Path(folder), n, 20)
        killed: list[int] = []

        def kill() -> None:
            """A worker that has had work for some seconds."""
            while True:
                time.sleep(0.5)
                used = client.run(time.process_time)
                busiest = max(used, key=lambda name: used[name])
                if used[busiest] > BUSY:
                    killed.append(client.run(os.getpid, workers=[busiest])[busiest])
                    os.kill(killed[0], signal.SIGKILL)
                    return

        Thread(target=kill, daemon=True).start()
        took, peak = fitted(Path(folder), n, "--scheduler", workers.scheduler_address)
        print(
            f"RESULT cluster rows={n} client_minutes={took / 60:.2f} killed={len(killed)} peak_gb={peak:.2f}"
        )


BUSY = 8.0
"""Processor seconds of a worker after which it is killed."""


def main(argv: list[str] | None = None) -> int:
    parts = {
        "auto": auto,
        "binary": binary,
        "usps": usps,
        "million": million,
        "million_fit": million_fit,
        "cluster": cluster,
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks large_fits", description=__doc__)
    parser.add_argument("part", choices=list(parts), nargs="?", default="million")
    parser.add_argument(
        "sets", nargs="*", help="data sets of `auto`, strategies of `usps`, or a number of rows"
    )
    parser.add_argument("--quick", action="store_true", help="nothing is shorter")
    options = parser.parse_args(argv)
    load_compiled()
    parts[options.part](options.sets)
    return 0
