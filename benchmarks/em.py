"""Mixtures and hidden Markov models against scikit-learn and hmmlearn: seconds per EM step.

Both peers are imported in this process (they are development dependencies), so all see the same data, starting
values and machine. Everybody may use two threads: cavity through `n_jobs`, hmmlearn in its NumPy parts (its
recursions use one); scikit-learn is timed with one and with two, as its small products are often faster with
one, and the faster counts. Time per step is the difference of a long and a short fit divided by the difference
of their steps, so that validation and set-up cancel; runs alternate and the best of each is kept. Compilation
is timed by itself, in a fresh process with an empty cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable

import numpy as np

THREADS = 2


def seconds(fit: Callable[[int], object], steps: int) -> np.ndarray:
    """Wall-clock and processor seconds (all threads) of a fit."""
    begin = np.array([time.perf_counter(), time.process_time()])
    fit(steps)
    return np.array([time.perf_counter(), time.process_time()]) - begin


def best_of(fits: dict[str, tuple[Callable[[int], object], int, int]], repeats: int) -> dict[str, np.ndarray]:
    """Wall and processor seconds per EM step: smallest long run minus smallest short run (other work adds)."""
    best = {name: np.full((2, 2), np.inf) for name in fits}
    for _ in range(repeats):
        for name, (fit, *counts) in fits.items():
            best[name] = np.minimum(best[name], [seconds(fit, steps) for steps in counts])
    return {name: (best[name][1] - best[name][0]) / (long - short) for name, (_, short, long) in fits.items()}


def fastest(times: dict[str, np.ndarray]) -> float:
    """Wall seconds of the fastest peer."""
    return min(float(t[0]) for name, t in times.items() if name != "cavity")


def mixture_fits(
    n: int = 100_000, d: int = 10, k: int = 10
) -> dict[str, tuple[Callable[[int], object], int, int]]:
    from sklearn.mixture import GaussianMixture as Peer
    from threadpoolctl import threadpool_limits

    from cavity.em import GaussianMixture

    rng = np.random.default_rng(0)
    centers = 2.0 * rng.normal(size=(k, d))
    x = centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))
    start = {"weights_init": np.full(k, 1 / k), "means_init": centers + 0.3 * rng.normal(size=(k, d))}
    eye = np.tile(np.eye(d), (k, 1, 1))

    def peer(threads: int) -> Callable[[int], object]:
        def fit(steps: int) -> object:
            model = Peer(
                k, tol=0.0, max_iter=steps, precisions_init=eye, init_params="random_from_data", **start
            )
            with threadpool_limits(threads):
                return model.fit(x)

        return fit

    def ours(steps: int) -> object:
        return GaussianMixture(
            k,
            tol=-1.0,
            max_iter=steps,
            covariances_init=eye,
            n_jobs=THREADS,
            **start,
        ).fit(x)

    return {
        "scikit-learn, 1 thread": (peer(1), 1, 4),
        "scikit-learn, 2 threads": (peer(THREADS), 1, 4),
        "cavity": (ours, 1, 16),
    }


def chain_fits(n: int = 100_000, k: int = 8) -> dict[str, tuple[Callable[[int], object], int, int]]:
    from hmmlearn.hmm import GaussianHMM

    from cavity.em import HMM

    rng = np.random.default_rng(0)
    stay = np.full((k, k), 0.02)
    np.fill_diagonal(stay, 1 - 0.02 * (k - 1))
    means = 3.0 * rng.normal(size=(k, 2))
    start = {
        "startprob_": np.full(k, 1 / k),
        "transmat_": stay,
        "means_": means,
        "covars_": np.tile(np.eye(2), (k, 1, 1)),
    }
    true = HMM(k)
    for name, value in start.items():
        setattr(true, name, value)
    x, _ = true.sample(n, random_state=0)

    def peer(implementation: str) -> Callable[[int], object]:
        def fit(steps: int) -> object:
            model = GaussianHMM(
                k, "full", n_iter=steps, tol=-np.inf, implementation=implementation, init_params=""
            )
            for name, value in start.items():
                setattr(model, name, value)
            return model.fit(x)

        return fit

    def ours(steps: int) -> object:
        model = HMM(k, max_iter=steps, tol=-1.0, init_params="", n_jobs=THREADS)
        for name, value in start.items():
            setattr(model, name, value)
        return model.fit(x)

    return {
        "hmmlearn scaling": (peer("scaling"), 1, 4),
        "hmmlearn log": (peer("log"), 1, 2),
        "cavity": (ours, 1, 21),
    }


FIRST_FIT = """
import time, numpy as np
from cavity.em import HMM, GaussianMixture
x = np.random.default_rng(0).normal(size=(60_000, 2))
x[30_000:] += 5
for name, model in (("mixture", GaussianMixture(2, max_iter=1, tol=-1)), ("hmm", HMM(2, max_iter=1, tol=-1))):
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        model.fit(x)
        times.append(time.perf_counter() - begin)
    print(name, times[0] - times[1])
"""


def compile_seconds() -> dict[str, float]:
    """First fit minus second fit, in a new process whose compilation cache is empty."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        output = subprocess.run(
            [sys.executable, "-c", FIRST_FIT], env=environment, capture_output=True, text=True, check=True
        ).stdout
    return {line.split()[0]: float(line.split()[1]) for line in output.splitlines()}


LONG_SEQUENCE = """
import resource, sys, time, numpy as np
from cavity.em import HMM
n = int(float(sys.argv[1]))
rng = np.random.default_rng(0)
means = np.array([-6.0, -2.0, 2.0, 6.0])
states = np.cumsum(rng.random(n) < 0.01) % 4
x = rng.normal(means[states], 1.0)[:, None]
del states
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = HMM(4, max_iter=1, tol=-1.0, init_params="", n_jobs=2)
model.startprob_, model.transmat_ = np.full(4, 0.25), np.full((4, 4), 0.01) + 0.96 * np.eye(4)
model.means_, model.covars_ = means[:, None] + 0.5, np.ones((4, 1, 1))
begin = time.perf_counter()
model.fit(x)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, time.perf_counter() - begin)
"""


def long_sequence(n: float) -> tuple[float, float]:
    """Peak GiB of a process that makes n steps and fits 4 states, and seconds of the fit."""
    out = subprocess.run(
        [sys.executable, "-c", LONG_SEQUENCE, str(n)], capture_output=True, text=True, check=True
    )
    gib, taken = (float(v) for v in out.stdout.split())
    return gib, taken


def table(rows: list[tuple[str, str, str, str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks em")
    parser.add_argument("--quick", action="store_true", help="fewer repeats; under 50 s")
    quick = parser.parse_args(argv).quick
    warnings.simplefilter("ignore")
    repeats = 3 if quick else 10
    compiled = compile_seconds()
    mixture = best_of(mixture_fits(), repeats)
    chain = best_of(chain_fits(), repeats)
    gib, taken = long_sequence(1e7)
    gmm_ratio = fastest(mixture) / mixture["cavity"][0]
    hmm_ratio = fastest(chain) / chain["cavity"][0]
    rows = [("case", "library", "wall per EM step", "processor, all threads")]
    for case, times in (("mixture n=1e5 D=10 K=10 full", mixture), ("HMM T=1e5, 8 states, 2-D full", chain)):
        rows += [(case, name, f"{1e3 * t[0]:8.1f} ms", f"{1e3 * t[1]:8.1f} ms") for name, t in times.items()]
    rows += [("compilation, once per machine", name, f"{s:8.1f} s", "") for name, s in compiled.items()]
    rows += [
        ("HMM T=1e7, 4 states, 1 step", "cavity", f"{taken:8.1f} s", f"peak {gib:.2f} GiB of the process")
    ]
    table(rows)
    print(f"RESULT gmm_vs_sklearn={gmm_ratio:.1f} hmm_vs_hmmlearn={hmm_ratio:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
