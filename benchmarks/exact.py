"""Exact regression: evidence with gradient and a whole fit from a cold start, against the floor and others.

`python -m benchmarks exact [--quick]`. Evidence and gradient: squared exponential covariance with eight
length scales, signal and noise variance. Fit: Boston housing, time from the start of the process until the
optimizer's evidence is within half a nat of the best that anyone found, from the same start. Ratios are
medians over interleaved repetitions.

In a quick run no peer is waited for that is far behind: its evaluation of the largest problem ends when it has taken
four times our time, its fit once it comes within half a nat of our optimum or has taken 1.5 times our time. Its ratio
is then a lower bound, shown as >=. In a full run everyone converges and the best of all is the reference.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import peers, problems, report, timing

SIZES = (200, 1000, 3000)
CLOSE = 0.5
"""Nats below the best evidence that count as equal."""

AGREEMENT = 1e-6
"""Relative difference allowed between packages that compute the same evidence."""

SETTLE = 0.2
"""Seconds after the peers' turns in which their threads stop spinning, which would disturb ours alone."""

LONGEST_FIT = 300.0
"""Seconds after which any peer's fit is stopped."""

MEMORY_ROWS = 5000


@dataclass(frozen=True)
class Plan:
    """How often things are repeated."""

    rounds: Mapping[int, tuple[int, int, float]]
    """By size: rounds, how many rounds apart the peers take part, seconds after which no round is begun."""
    own_fits: int
    peer_fits: int
    fit_limit: float
    """Multiples of our own time after which a peer's fit is stopped."""
    patience: float
    """Multiples of our own time after which a peer's evaluation of the largest problem is stopped."""
    memory: bool


QUICK = Plan({200: (60, 20, 2.0), 1000: (20, 20, 3.0), 3000: (3, 3, 6.0)}, 1, 1, 1.5, 4.0, False)
FULL = Plan({200: (400, 20, 60.0), 1000: (100, 10, 60.0), 3000: (21, 7, 120.0)}, 5, 3, np.inf, np.inf, True)


@dataclass
class Outcome:
    """All that was measured."""

    series: dict[int, timing.Series] = field(default_factory=dict)
    stopped: set[tuple[int, str]] = field(default_factory=set)
    """(size, peer) where the peer was not waited for: its time is a lower bound."""
    fits: dict[str, list[peers.Trace]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)
    memory: float | None = None

    @property
    def target(self) -> float:
        """Evidence to reach in the fits."""
        return max(trace.best for traces in self.fits.values() for trace in traces) - CLOSE

    def fit_seconds(self, name: str) -> tuple[float | None, bool]:
        """Median time to the target, and whether it was reached (else the time spent: a lower bound)."""
        traces = self.fits.get(name, [])
        if not traces:
            return None, False
        reached = [trace.reach(self.target) for trace in traces]
        if all(time_taken is not None for time_taken in reached):
            return statistics.median(t for t in reached if t is not None), True
        return statistics.median(trace.times[-1] for trace in traces), False

    def fit_ratio(self, name: str) -> tuple[float | None, bool]:
        """Peer's time over ours, and whether it is exact; None where we did not reach the target."""
        own, reached = self.fit_seconds("cavity")
        theirs, exact = self.fit_seconds(name)
        if own is None or theirs is None or not reached:
            return None, False
        return theirs / own, exact

    def figures(self) -> dict[str, float | str | None]:
        """What the last line of a run says."""
        found: dict[str, float | str | None] = {
            f"floor_{n}": self.series[n].ratio("cavity", "floor")
            for n in SIZES
            if n >= 1000 and n in self.series
        }
        for name in peers.NAMES:
            ratios = [series.ratio(name, "cavity", bracket=True) for series in self.series.values()]
            ratios.append(self.fit_ratio(name)[0])
            known = [value for value in ratios if value is not None]
            if name in self.missing or not known:
                found[name] = "missing"
            else:
                found[name] = "unreached" if ratios[-1] is None else min(known)
        return found


# --- measuring ---


def measure_evidence(
    n: int, plan: Plan, workers: Mapping[str, peers.Worker], outcome: Outcome, folder: str
) -> None:
    """Times of evidence and gradient at one size; checks the first answers of the peers against ours."""
    from benchmarks.ours import Evidence, Floor

    problem = problems.synthetic(n)
    file = peers.save(problem, folder, f"synthetic_{n}")
    ours = Evidence(problem)
    first: dict[str, tuple[int, dict[str, object]]] = {}

    def timed(worker: peers.Worker, k: int) -> float:
        worker.send(op="evidence", theta=problems.moved(problem.theta, k).tolist())
        if n == max(SIZES) and np.isfinite(plan.patience):
            limit = plan.patience * max(ours.seconds)
            if not worker.answers_within(limit):
                outcome.stopped.add((n, worker.name))
                return limit
        answer = worker.answer()
        first.setdefault(worker.name, (k, answer))
        return float(answer["seconds"])

    peers.ask_all(workers, op="load", file=str(file))
    rounds, every, budget = plan.rounds[n]
    outcome.series[n] = timing.interleave(
        {"floor": Floor(problem), "cavity": ours},
        {name: partial(timed, worker) for name, worker in workers.items()},
        rounds,
        every,
        budget=budget,
        # Later problems are not the first for a worker, and too dear to be run for nothing.
        warm_up=2 if n < max(SIZES) else 1,
        warm_sometimes=n == min(SIZES),
        settle=SETTLE,
    )
    for name, (k, answer) in first.items():
        value, gradient = ours.answers[k]
        outcome.disagreements += disagreements(f"{name}, n = {n}", value, gradient, answer)


def disagreements(what: str, value: float, gradient: np.ndarray, answer: Mapping[str, object]) -> list[str]:
    """Sentences on where a peer's evidence (or gradient, where it has one to show) differs from ours."""
    found = []
    theirs = float(answer["value"])  # type: ignore[arg-type]
    if abs(theirs - value) > AGREEMENT * abs(value):
        found.append(f"{what}: evidence {theirs!r}, ours {value!r}")
    if answer["gradient"] is not None:
        gap = np.max(np.abs(np.asarray(answer["gradient"]) - gradient))
        if gap > AGREEMENT * np.max(np.abs(gradient)):
            found.append(f"{what}: gradients differ by up to {gap:.3g}")
    return found


def measure_fits(
    problem: problems.Problem, plan: Plan, names: list[str], outcome: Outcome, folder: str
) -> None:
    """Cold fits, each in a process of its own."""
    file = peers.save(problem, folder, "boston")
    outcome.fits["cavity"] = [peers.cold_fit("cavity", file) for _ in range(plan.own_fits)]
    ours = max(trace.best for trace in outcome.fits["cavity"])
    stop_at = ours - CLOSE if plan is QUICK else None
    taken, _ = outcome.fit_seconds("cavity")
    limit = min(plan.fit_limit * (taken or np.inf), LONGEST_FIT)
    for name in names:
        outcome.fits[name] = [
            peers.cold_fit(name, file, stop_at=stop_at, limit=limit) for _ in range(plan.peer_fits)
        ]
        start, theirs = outcome.fits["cavity"][0].values[0], outcome.fits[name][0].values[0]
        if np.isfinite(theirs) and abs(start - theirs) > AGREEMENT * abs(start):
            outcome.disagreements.append(f"{name}, Boston: evidence at the start {theirs!r}, ours {start!r}")


def measure_memory(n: int) -> float:
    """Peak memory of one evaluation in units of n^2 doubles, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.peak_memory", str(n)]
    here = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=here, env=peers.environment(), check=True
    )
    return float(done.stdout.split()[-1])


def run(plan: Plan, boston: problems.Problem) -> Outcome:
    """Everything, in one go."""
    outcome = Outcome()
    workers, outcome.missing = peers.start()
    with tempfile.TemporaryDirectory() as folder:
        try:
            for n in SIZES:
                measure_evidence(n, plan, workers, outcome, folder)
        finally:
            for worker in workers.values():
                worker.close()
        measure_fits(boston, plan, list(workers), outcome, folder)
    if plan.memory:
        outcome.memory = measure_memory(MEMORY_ROWS)
    return outcome


# --- showing ---


def text_of(outcome: Outcome) -> str:
    """The table."""
    sizes = list(outcome.series)
    header = ["evidence + gradient, D = 8", *(f"n = {n}" for n in sizes), "Boston fit, cold"]
    own, _ = outcome.fit_seconds("cavity")
    rows = [
        ["floor (potrf + potri)", *(report.seconds(outcome.series[n].median("floor")) for n in sizes), "-"],
        ["cavity", *(report.seconds(outcome.series[n].median("cavity")) for n in sizes), report.seconds(own)],
        ["  cavity / floor", *(report.ratio(outcome.series[n].ratio("cavity", "floor")) for n in sizes), "-"],
    ]
    for name in peers.NAMES:
        title = peers.TITLES[name]
        if name in outcome.missing:
            rows.append([title, *("missing" for _ in sizes), "missing"])
            continue
        late = {n: (n, name) in outcome.stopped for n in sizes}
        spent, exact = outcome.fit_seconds(name)
        bound = "" if exact else ">="
        rows.append(
            [
                title,
                *((">=" if late[n] else "") + report.seconds(outcome.series[n].median(name)) for n in sizes),
                bound + report.seconds(spent),
            ]
        )
        factor, exact = outcome.fit_ratio(name)
        rows.append(
            [
                f"  {title} / cavity",
                *(
                    report.ratio(outcome.series[n].ratio(name, "cavity", bracket=True), at_least=late[n])
                    for n in sizes
                ),
                report.ratio(factor, at_least=not exact),
            ]
        )
    return report.table(header, rows)


def notes_of(outcome: Outcome) -> list[str]:
    """What the table does not say."""
    best = {name: max(trace.best for trace in traces) for name, traces in outcome.fits.items()}
    found = [f"fit to evidence {outcome.target:.2f}; best of each: "]
    found[0] += ", ".join(
        f"{name} {value:.2f}" if np.isfinite(value) else f"{name} none in its time"
        for name, value in best.items()
    )
    if not outcome.fit_seconds("cavity")[1]:
        found.append("cavity did NOT reach that evidence: no ratio for the fit")
    if outcome.memory is not None:
        found.append(f"peak memory at n = {MEMORY_ROWS}: {outcome.memory:.2f} n^2 doubles")
    found += [f"{peers.TITLES[name]} is missing: {why}" for name, why in outcome.missing.items()]
    found += [f"DISAGREEMENT {what}" for what in outcome.disagreements]
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; 0 if all packages agree, 1 if not, 2 if data are missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks exact", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: under 40 s")
    quick = parser.parse_args(argv).quick
    began = time.perf_counter()
    try:
        boston = problems.boston()
    except FileNotFoundError as error:
        print(f"the benchmark needs data that are not there: {error}", file=sys.stderr)
        return 2
    outcome = run(QUICK if quick else FULL, boston)
    threads = peers.environment()["OMP_NUM_THREADS"]
    print(text_of(outcome))
    print("\n".join(notes_of(outcome)))
    print(f"{threads} threads, {'quick' if quick else 'full'} run, {time.perf_counter() - began:.0f} s")
    print(report.result_line(outcome.figures()))
    return 1 if outcome.disagreements else 0
