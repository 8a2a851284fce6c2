"""Approximate inference: EP and Laplace's method against other packages and against the floor.

`python -m benchmarks approx [--quick]`. Three measurements, each with subjects taking turns:

- one EP log evidence with its gradient, Ionosphere (200 rows, standardized; ln l = 1.5, ln s = 2, probit), from zero
  sites, against GPy's EP at the same log evidence;
- a fit of Laplace's method (logit, same kernel, same start, no priors) on Ionosphere and on USPS 3 against 5, until the
  optimizer ends, against scikit-learn's; ours must reach an evidence at least as good;
- one EP log evidence with its gradient on USPS 3 against 5 (767 rows; ln l = 2.6, ln s = 4.1), from zero sites (cold)
  and from the sites of neighboring hyperparameters (warm), in units of the floor: LAPACK's Cholesky factorization and
  inverse of a matrix of that size.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import peers, report, timing
from benchmarks.ours import Floor
from benchmarks.problems import Array, Problem, moved
from cavity.gp import GP
from cavity.kernels import SE
from cavity.learning import learn
from cavity.likelihoods import Logit, Probit

IONOSPHERE_ROWS = 200
SAME_EVIDENCE = 1e-3
"""Nats by which log evidences of two EPs, or of two fits, may differ and count as equal."""

SAME_GRADIENT = 1e-2
"""Relative difference allowed between gradients; GPy's own criterion of convergence leaves some."""

NEIGHBOR = 0.05
"""Distance in log hyperparameters from which a warm start comes: a usual step of an optimizer."""


SETTLE = 0.5
"""Seconds of rest after a turn of a peer, whose threads spin on for a while and would disturb ours alone."""


IN_A_ROW = 5
"""Evaluations of ours in a turn beside GPy, of which the median counts: a single one of a few milliseconds would mostly
tell how a process wakes up, and an optimizer makes them in a row."""


@dataclass(frozen=True)
class Plan:
    """How often things are repeated, and seconds after which no further round is begun."""

    ionosphere: tuple[int, int, float]
    usps: tuple[int, float]
    fits: int


QUICK = Plan((24, 2, 12.0), (5, 8.0), 1)
FULL = Plan((60, 12, 30.0), (15, 40.0), 3)


@dataclass
class Outcome:
    """All that was measured."""

    ep: timing.Series = field(default_factory=timing.Series)
    floor: timing.Series = field(default_factory=timing.Series)
    fits: dict[str, timing.Series] = field(default_factory=dict)
    evidences: dict[str, dict[str, float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, float | str | None]:
        """What the last line reports."""
        fits = [series.ratio("sklearn", "cavity", bracket=True) for series in self.fits.values()]
        known = [f for f in fits if f is not None]
        return {
            "ep_vs_gpy": self.ep.ratio("gpy", "cavity", bracket=True),
            "laplace_vs_sklearn": min(known) if known else None,
            "ep_floor_767": self.floor.ratio("cold", "floor"),
        }


# --- problems ---------------------------------------------------------------------------------------------------------


def ionosphere() -> Problem:
    """A random training set, standardized; theta: ln l, ln s^2."""
    from cavity import datasets

    data = datasets.load("ionosphere")
    rows = np.random.default_rng(0).permutation(len(data.y))[:IONOSPHERE_ROWS]
    X = np.asarray(data.X, dtype=float)[rows]
    sd = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1.0)  # one column is constant
    y = np.where(np.asarray(data.y)[rows] == "g", 1.0, -1.0)
    return Problem(X, y, np.array([1.5, 4.0]))


def usps() -> Problem:
    """The training set of threes and fives; theta: ln l, ln s^2."""
    from cavity import datasets

    data = datasets.load("usps_3v5")
    return Problem(np.asarray(data.X, dtype=float), np.asarray(data.y, dtype=float), np.array([2.6, 8.2]))


STARTS = {"ionosphere": np.array([1.5, 0.0]), "usps": np.array([2.5, 0.0])}
"""Where the fits start: ln l, ln s^2."""


# --- what is measured of this package ---------------------------------------------------------------------------------


class EPEvidence:
    """EP log evidence and gradient at ln l and ln s^2, cold or warm."""

    def __init__(self, problem: Problem, *, warm: bool = False, repeats: int = 1) -> None:
        self.problem, self.warm, self.repeats = problem, warm, repeats
        length, variance = np.exp(problem.theta)
        self.model = GP(variance * SE(length), Probit(), inference="ep").bind(problem.X.shape[1])
        _, self.data = self.model.training(problem.X, problem.y)
        self.known: Any = None

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        model = self.model.replace(theta[::-1])
        value, gradient, self.known = model.evidence_of(self.data, self.known)
        return value, gradient[::-1]

    def __call__(self, k: int) -> float:
        """The median over repeats, each from the same start."""
        theta, taken = moved(self.problem.theta, k), []
        for _ in range(self.repeats):
            self.known = None
            if self.warm:
                self.value_and_gradient(theta + NEIGHBOR * np.array([1.0, -1.0]))
            start = time.perf_counter()
            self.value_and_gradient(theta)
            taken.append(time.perf_counter() - start)
        return statistics.median(taken)


class LaplaceFit:
    """A fit of Laplace's method by evidence maximization from one start."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.value = problem, -np.inf

    def __call__(self, k: int) -> float:
        length, variance = np.exp(self.problem.theta)
        model = GP(variance * SE(length), Logit(), inference="laplace")
        X, y = self.problem.X, self.problem.y
        start = time.perf_counter()
        learned = learn(model.bind(X.shape[1]), X, y, n_restarts=0, warm=True, progress=False)
        took = time.perf_counter() - start
        self.value = learned.value
        return took


# --- the run ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def worker(name: str, problem: Problem, folder: str, outcome: Outcome) -> Iterator[peers.Worker | None]:
    """A peer with the problem loaded; None, and a word on it, where it is not there."""
    python = peers.interpreter()
    if not python.is_file():
        reason = f"no environment at {python} (make bench builds it, {peers.PEERS_VARIABLE} names another)"
        outcome.missing[name] = reason
        yield None
        return
    with peers.Worker(name, python) as peer:
        try:
            peer.ask(op="load", file=str(peers.save(problem, folder, name)))
        except peers.PeerError as error:
            outcome.missing[name] = str(error)
            yield None
            return
        yield peer


def measure_ep(plan: Plan, problem: Problem, folder: str, outcome: Outcome) -> None:
    """Ionosphere: ours against GPy."""
    ours = EPEvidence(problem, repeats=IN_A_ROW)
    rounds, every, budget = plan.ionosphere
    with worker("gpy_ep", problem, folder, outcome) as gpy:
        sometimes = {}
        if gpy is not None:
            answer = gpy.ask(op="evidence", theta=problem.theta.tolist())
            value, gradient = ours.value_and_gradient(problem.theta)
            outcome.evidences["EP, ionosphere"] = {"cavity": value, "gpy": answer["value"]}
            if abs(value - answer["value"]) > SAME_EVIDENCE:
                outcome.disagreements.append(f"GPy's EP evidence is {answer['value']:.6f}, ours {value:.6f}")
            gap = float(np.max(np.abs(np.array(answer["gradient"]) - gradient)))
            if gap > SAME_GRADIENT * (1 + np.max(np.abs(gradient))):
                outcome.disagreements.append(f"gradients of EP's evidence differ by up to {gap:.2g}")

            def timed(k: int) -> float:
                return float(gpy.ask(op="evidence", theta=moved(problem.theta, k).tolist())["seconds"])

            sometimes["gpy"] = timed
        outcome.ep = timing.interleave(
            {"cavity": ours}, sometimes, rounds, every, budget=budget, settle=SETTLE
        )


def measure_fits(plan: Plan, name: str, problem: Problem, folder: str, outcome: Outcome) -> None:
    """A fit of Laplace's method: ours against scikit-learn's."""
    start = Problem(problem.X, problem.y, STARTS[name])
    ours = LaplaceFit(start)
    with worker("sklearn_laplace", start, folder, outcome) as peer:
        theirs = {}
        values = outcome.evidences.setdefault(f"Laplace fit, {name}", {})
        if peer is not None:

            def timed(k: int) -> float:
                answer = peer.ask(op="fit")
                values["sklearn"] = answer["value"]
                return float(answer["seconds"])

            theirs["sklearn"] = timed
        series = timing.interleave(
            {"cavity": ours}, theirs, 3 * plan.fits, 3, warm_up=1, warm_sometimes=False, settle=SETTLE
        )
    values["cavity"] = ours.value
    outcome.fits[name] = series
    if "sklearn" in values and ours.value < values["sklearn"] - SAME_EVIDENCE:
        outcome.disagreements.append(
            f"Laplace fit, {name}: ours ended at {ours.value:.4f}, scikit-learn's at {values['sklearn']:.4f}"
        )


def measure_floor(plan: Plan, problem: Problem, outcome: Outcome) -> None:
    """USPS: cold and warm EP in units of a factorization with inverse."""
    cold, warm = EPEvidence(problem), EPEvidence(problem, warm=True)
    outcome.evidences["EP, usps"] = {"cavity": cold.value_and_gradient(problem.theta)[0]}
    floor = Floor(Problem(problem.X, problem.y, np.append(problem.theta, 0.0)))
    rounds, budget = plan.usps
    subjects = {"floor": floor, "cold": cold, "warm": warm}
    outcome.floor = timing.interleave(subjects, {}, rounds, 1, budget=budget, warm_up=1)


def run(plan: Plan) -> Outcome:
    """Measure everything."""
    outcome, small, large = Outcome(), ionosphere(), usps()
    with tempfile.TemporaryDirectory() as folder:
        measure_ep(plan, small, folder, outcome)
        measure_floor(plan, large, outcome)
        measure_fits(plan, "ionosphere", small, folder, outcome)
        measure_fits(plan, "usps", large, folder, outcome)
    return outcome


def text_of(outcome: Outcome) -> str:
    """The tables."""
    rows = []

    def add(title: str, series: timing.Series, name: str, base: str, other: str | None) -> None:
        value = outcome.evidences.get(title, {}).get("cavity" if name in ("cold", "warm") else name)
        evidence = "-" if value is None else f"{value:.4f}"
        rows.append([f"{title}: {other or name}", report.seconds(series.median(name)), evidence])
        rows[-1].append(report.ratio(series.ratio(name, base, bracket=name in ("gpy", "sklearn"))))

    add("EP, ionosphere", outcome.ep, "cavity", "cavity", "ours, cold")
    add("EP, ionosphere", outcome.ep, "gpy", "cavity", "GPy")
    for name, series in outcome.fits.items():
        add(f"Laplace fit, {name}", series, "cavity", "cavity", "ours")
        add(f"Laplace fit, {name}", series, "sklearn", "cavity", "scikit-learn")
    add("EP, usps", outcome.floor, "floor", "floor", "LAPACK")
    add("EP, usps", outcome.floor, "cold", "floor", "ours, cold")
    add("EP, usps", outcome.floor, "warm", "floor", "ours, warm")
    return report.table(["", "median", "log evidence", "ratio"], rows)


def main(argv: list[str] | None = None) -> int:
    from cavity.datasets import DatasetNotFoundError

    parser = argparse.ArgumentParser(prog="python -m benchmarks approx", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, under a minute")
    options = parser.parse_args(argv)
    try:
        outcome = run(QUICK if options.quick else FULL)
    except DatasetNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    print(text_of(outcome))
    for name, reason in outcome.missing.items():
        print(f"{name} is missing: {reason}")
    for line in outcome.disagreements:
        print(line)
    print(report.result_line(outcome.figures()))
    return int(bool(outcome.disagreements))
