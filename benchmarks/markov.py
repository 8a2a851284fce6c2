"""The Markov representation against celerite2 and tinygp, and a million points with Student-t noise.

All take turns on one thread, processor time counts, and every figure is the median over rounds of the ratio within a
round. Peers run in a process of their own in `.venv-peers`; one that is not installed is reported as missing.

    m32_vs_celerite2        log evidence with its gradient, Matern 3/2, 100,000 irregular times: ours over celerite2's
                            (whose Matern 3/2 is an approximation)
    m52_vs_tinygp           the same for Matern 5/2, over tinygp's, compiled
    grad_over_forward       our log evidence with its gradient over that alone, Matern 3/2
    composite_vs_celerite2  54 states (trend, changing season of six harmonics, four lengths, short) over celerite2
                            with 56, few times
    million_student_t       EP on a million irregular times with gross errors, from nothing to a fixed point of residual
                            1e-6, over our own log evidence with its gradient for Gaussian noise
    memory_gb               peak memory of the process that does it
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peak_memory import peak
from benchmarks.peers import environment, interpreter
from benchmarks.timing import interleave
from cavity import GP
from cavity.inference import EP
from cavity.kernels import Matern, Seasonal
from cavity.likelihoods import Gaussian, StudentT

ROWS, FEW, MILLION = 100_000, 2_000, 1_000_000

TARGETS = {
    "m32_vs_celerite2": 0.4,
    "m52_vs_tinygp": 0.06,
    "grad_over_forward": 2.5,
    "composite_vs_celerite2": 0.8,
    "million_student_t": 400.0,
    "memory_gb": 0.5,
}

COMPOSITE = (
    10.0 * Matern(60.0, nu=2.5)
    + 1.0 * Matern(40.0, nu=2.5) * Seasonal(1.0, harmonics=6)
    + 0.5 * Matern(1.0, nu=2.5)
    + 0.3 * Matern(2.0, nu=2.5)
    + 0.2 * Matern(4.0, nu=2.5)
    + 0.1 * Matern(8.0, nu=2.5)
    + 0.1 * Matern(0.3, nu=2.5)
)


def series(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Irregular times, ten per unit, and two waves with noise."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, n / 10, n))
    return t, np.sin(t) + np.sin(0.31 * t) + 0.3 * rng.standard_normal(n)


def with_errors(y: np.ndarray, seed: int = 1) -> np.ndarray:
    """Two percent of gross errors."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(len(y)) < 0.02
    y = y.copy()
    y[wrong] += rng.choice([-1.0, 1.0], wrong.sum()) * rng.uniform(2.0, 10.0, wrong.sum())
    return y


def cpu(run: Callable[[], object]) -> Callable[[int], float]:
    def timed(_: int) -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    return timed


def gradient_of(kernel: Any, t: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    model, rows = GP(kernel, Gaussian(0.09), "zero", representation="markov").training(t[:, None], y)
    return lambda: model.evidence_of(rows)


def value_of(kernel: Any, t: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """The forward half of the same: transitions, filter and innovations."""
    model, rows = GP(kernel, Gaussian(0.09), "zero", representation="markov").training(t[:, None], y)
    return lambda: model.prior(rows.inputs).single.innovations(y, np.full(len(y), 0.09))


class Peers:
    """The worker process; a subject that is missing there is left out."""

    def __init__(self, file: Path) -> None:
        worker = Path(__file__).with_name("markov_worker.py")
        self.process = subprocess.Popen(
            [str(interpreter()), str(worker), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**environment(), **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")},
        )

    def ask(self, name: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return dict(json.loads(answer)) if answer else {"missing": "the worker process ended"}

    def subjects(self) -> dict[str, Callable[[int], float]]:
        found: dict[str, Callable[[int], float]] = {}
        for name in ("celerite32", "tinygp52", "celerite56"):
            answer = self.ask(name)
            if "missing" in answer:
                print(f"{name}: missing ({answer['missing']})")
            else:
                found[name] = lambda _, name=name: float(self.ask(name)["seconds"])
        return found


def million() -> dict[str, float]:
    """One fit of a million points, in a process of its own."""
    kernel = 1.0 * Matern(1.0, nu=1.5)
    warm_t, warm_y = series(2000)
    robust = GP(kernel, StudentT(0.25, 3.0), "zero", EP(), representation="markov")
    robust.condition(warm_t[:, None], with_errors(warm_y))
    gradient_of(kernel, warm_t, warm_y)()
    t, y = series(MILLION)
    y = with_errors(y)
    begin = time.process_time()
    posterior = robust.condition(t[:, None], y)
    seconds, memory = time.process_time() - begin, peak()
    assert posterior.status.converged, posterior.status
    gaussian = cpu(gradient_of(kernel, t, y))
    base = sorted(gaussian(0) for _ in range(3))[1]
    found = {"gaussian": base, "seconds": seconds, "memory_gb": memory / 1e9}
    return found | {"sweeps": posterior.status.iterations, "residual": posterior.status.residual}


def wide(n: int) -> dict[str, float]:
    """Log evidence with its gradient of n irregular times and 57 states, in a process of its own."""
    kernel = COMPOSITE + 0.05 * Matern(0.15, nu=2.5)
    cpu(gradient_of(kernel, *series(FEW)))(0)
    before, seconds = peak(), cpu(gradient_of(kernel, *series(n)))(0)
    return {
        "points": n,
        "states": kernel.state_space().size,
        "seconds": seconds,
        "memory_gb": peak() / 1e9,
        "before_gb": before / 1e9,
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks markov", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--million", action="store_true", help="only the fit of a million points, as JSON")
    parser.add_argument("--wide", type=int, metavar="N", help="only one evaluation of N points and 57 states")
    options = parser.parse_args(argv)
    if options.wide:
        print(json.dumps(wide(options.wide)))
        return 0
    if options.million:
        print(json.dumps(million()))
        return 0
    t, y = series(ROWS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "series.npz"
        np.savez(file, t=t, y=y, few=FEW)
        ours = {
            "m32": gradient_of(1.0 * Matern(1.0, nu=1.5), t, y),
            "m32_value": value_of(1.0 * Matern(1.0, nu=1.5), t, y),
            "m52": gradient_of(1.0 * Matern(1.0, nu=2.5), t, y),
            "composite": gradient_of(COMPOSITE, t[:FEW], y[:FEW]),
        }
        peers = Peers(file)
        timed = {name: cpu(run) for name, run in ours.items()} | peers.subjects()
        found = interleave(timed, {}, 5 if options.quick else 15, 1, warm_up=1)
        peers.process.terminate()
    command = [sys.executable, "-m", "benchmarks", "markov", "--million"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    large = json.loads(output.splitlines()[-1])
    for name in timed:
        rows = FEW if name in ("composite", "celerite56") else ROWS
        print(f"{name:12s} {1e9 * (found.median(name) or np.nan) / rows:10.0f} ns per point")
    print(f"a million points, Student-t: {large}")
    ratios = {
        "m32_vs_celerite2": found.ratio("m32", "celerite32"),
        "m52_vs_tinygp": found.ratio("m52", "tinygp52"),
        "grad_over_forward": found.ratio("m32", "m32_value"),
        "composite_vs_celerite2": found.ratio("composite", "celerite56"),
        "million_student_t": large["seconds"] / large["gaussian"],
        "memory_gb": large["memory_gb"],
    }
    shown = {name: "missing" if value is None else f"{value:.3g}" for name, value in ratios.items()}
    for name, target in TARGETS.items():
        print(f"{name:24s} {shown[name]:>8s}, target {target}")
    print("RESULT " + " ".join(f"{name}={value}" for name, value in shown.items()))
    return 0
