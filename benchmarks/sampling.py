"""Effective samples per second of the latent values of a probit model, against BlackJAX; evidence by annealing.

`python -m benchmarks sampling [--quick]`. One posterior: n = 200, squared exponential covariance, hyperparameters
fixed, as many chains for everyone, double precision, one thread where OMP_NUM_THREADS=1. Everyone is judged by the
smallest bulk effective sample size over the 200 latent values, computed by the same code, per second of wall
time (run it on a quiet machine) of

- sampling: after compilation, setting up and warm-up (the shortest of a few identical runs);
- everything: with compilation, setting up and warm-up (imports are counted for nobody).

BlackJAX: NUTS with window adaptation and elliptical slice sampling, both on the whitened problem, compiled. The
ratios are ours over the better of the two. `ais_nats` is the error of annealed importance sampling where the evidence
is known, with Gaussian noise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers, report
from cavity.likelihoods.observations import Observations

N, CHAINS, SEED = 200, 8, 0
REPEATS = 3
DRAWS = {"hmc": 500, "elliptical": 500, "blackjax nuts": 200, "blackjax elliptical": 500}
WARMUP = {"hmc": 200, "elliptical": 0, "blackjax nuts": 200, "blackjax elliptical": 0}
LONGER = 5
"""A full run draws this many times as much."""


@dataclass(frozen=True)
class Row:
    """What one sampler did."""

    ess: float
    sampling: float
    total: float
    compiling: float = 0.0
    warming: float = 0.0

    @property
    def rate(self) -> float:
        """Effective samples per second of sampling."""
        return self.ess / self.sampling

    @property
    def overall(self) -> float:
        """Effective samples per second of everything."""
        return self.ess / self.total


def problem() -> tuple[Any, np.ndarray]:
    """Prior and labels."""
    from cavity.kernels import SE
    from cavity.latent.dense import DensePrior

    rng = np.random.default_rng(SEED)
    prior = DensePrior(9.0 * SE(1.0), rng.uniform(-3.0, 3.0, (N, 2)))
    f = prior.unwhiten(rng.standard_normal(N))
    return prior, np.where(rng.random(N) < 0.5 * (1.0 + np.tanh(f)), 1.0, -1.0)


def ours(method: str, draws: int, repeats: int = REPEATS) -> Row:
    """One of our samplers; the times are those of the fastest repetition."""
    from cavity.likelihoods import Probit
    from cavity.sampling.diagnostics import ess_bulk
    from cavity.sampling.elliptical_slice import elliptical_slice_sampling
    from cavity.sampling.hmc import hamiltonian
    from cavity.sampling.latent_target import LatentTarget

    prior, y = problem()
    warmup, rows = WARMUP[method], []
    for _ in range(repeats):
        began = time.perf_counter()
        marks = [began]

        def watch(done: int, total: int, marks: list[float] = marks) -> None:
            if done == warmup:
                marks.append(time.perf_counter())

        rng = np.random.default_rng(SEED)
        if method == "hmc":
            target = LatentTarget(prior, Observations(Probit(), y), metric="ep")
            start = target.center + rng.standard_normal((CHAINS, N))
            trace = hamiltonian(target, start, n_draws=draws, warmup=warmup, rng=rng, progress=watch)
        else:
            target = LatentTarget(prior, Observations(Probit(), y))
            start = 0.1 * rng.standard_normal((CHAINS, N))
            marks.append(time.perf_counter())
            trace = elliptical_slice_sampling(
                lambda U, t=target: t.log_likelihood(t.latent(U)),
                start,
                n_draws=draws,
                rng=rng,
                progress=watch,
            )
        ended = time.perf_counter()
        ess = float(ess_bulk(trace.map(target.latent).positions).min())
        rows.append(Row(ess, ended - marks[-1], ended - began, 0.0, marks[-1] - began))
    return min(rows, key=lambda row: row.sampling)


def theirs(method: str, draws: int, repeats: int = REPEATS) -> Row | str:
    """BlackJAX in its own process, or why not."""
    from cavity.sampling.diagnostics import ess_bulk

    python = peers.interpreter()
    if not python.is_file():
        return f"no environment at {python} (make bench builds it, {peers.PEERS_VARIABLE} names another)"
    prior, y = problem()
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "problem.npz", Path(folder) / "draws.npz"
        np.savez(file, L=np.tril(prior.factor.lower), y=y)
        counts = (draws, WARMUP[method], CHAINS, SEED, repeats)
        command = [str(python), str(Path(__file__).with_name("sampling_worker.py")), str(file), str(out)]
        command += [method.split()[1], *map(str, counts)]
        done = subprocess.run(command, capture_output=True, text=True, env=peers.environment(), check=False)
        if done.returncode != 0:
            return f"{method} failed: {done.stderr[-300:]}"
        took = json.loads(done.stdout.splitlines()[-1])
        f = np.load(out)["f"]
    total = took["compile"] + took["warmup"] + took["sampling"]
    ess = float(ess_bulk(f).min())
    return Row(ess, took["sampling"], total, took["compile"], took["warmup"])


def ais_error() -> float | None:
    """|AIS - exact| in nats, Gaussian noise, n = 60."""
    from cavity import GP
    from cavity.kernels import SE
    from cavity.likelihoods import Gaussian
    from cavity.sampling.annealing.ais import annealed_importance_sampling

    rng = np.random.default_rng(SEED)
    X = rng.uniform(-3.0, 3.0, (60, 2))
    model = GP(2.0 * SE(1.0), Gaussian(0.1))
    y = model.sample_prior(X, rng=rng)[0] + np.sqrt(0.1) * rng.standard_normal(60)
    exact = model.evidence(X, y)[0]
    found = annealed_importance_sampling(
        model, X, y, runs=16, steps=1000, start="prior", rng=SEED, progress=False
    )
    return abs(float(found.log_evidence) - exact)


def figures(rows: dict[str, Row | str], nats: float | None) -> dict[str, float | str | None]:
    """What the last line of a run says."""
    own = rows["hmc"]
    peer = [row for name, row in rows.items() if name.startswith("blackjax") and isinstance(row, Row)]
    if not peer or not isinstance(own, Row):
        return {"ess_per_s_vs_peer": "missing", "with_compile": "missing", "ais_nats": nats}
    return {
        "ess_per_s_vs_peer": own.rate / max(row.rate for row in peer),
        "with_compile": own.overall / max(row.overall for row in peer),
        "ais_nats": nats,
    }


def show(rows: dict[str, Row | str]) -> str:
    """The table."""
    header = ("", "min ESS", "sampling", "ESS/s", "compile", "set up, warm-up", "total", "ESS/s of total")
    lines = []
    for name, row in rows.items():
        if isinstance(row, str):
            lines.append((name, *("-",) * 7))
            continue
        lines.append(
            (name, f"{row.ess:.0f}", report.seconds(row.sampling), f"{row.rate:.0f}",
             report.seconds(row.compiling) if row.compiling else "-", report.seconds(row.warming),
             report.seconds(row.total), f"{row.overall:.0f}")
        )  # fmt: skip
    return report.table(header, lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sampling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="in less than 50 seconds on a quiet machine")
    quick = parser.parse_args(argv).quick
    factor = 1 if quick else LONGER
    rows: dict[str, Row | str] = {}
    for name, count in DRAWS.items():
        measure = theirs if name.startswith("blackjax") else ours
        rows[name] = measure(name, factor * count)
    print(f"probit, n = {N}, {CHAINS} chains; smallest bulk ESS over the latent values")
    print(show(rows))
    for name, row in rows.items():
        if isinstance(row, str):
            print(f"{name}: {row}")
    print(report.result_line(figures(rows, ais_error())))
    return 0
