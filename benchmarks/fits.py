"""Whole fits with defaults: what a user waits for.

`python -m benchmarks fits [--quick]`. All figures are CPU time on one thread, subjects taking turns in one process.
The unit is our own fit with Gaussian noise from one start (`n_restarts=0`) to the same data, Friedman's function of
eight columns, five of which matter; robust noise has 5 % gross errors among the targets.

- `gaussian_500`, `student_t_500`, `student_t_1000`, `mixture_500`: a fit with defaults, in units;
- `probit_1500`: a classifier by EP with defaults, over its own fit from one start;
- `softmax`: a classifier of ten classes with defaults (digits, 300 rows of 64 columns), over what it took when this was
  first measured, `DIGITS_BEFORE` units of n = 1000; the full run has all 1797 rows too;
- `cavity_fit`: what `cavity fit` does with a table of 500 rows with gross errors (choice of kernel and noise, plain
  models, scores of rows held out), over a Student-t fit with defaults to the same rows; median over four tables;
- `mcmc_s`: CPU seconds of Student-t noise with `inference="mcmc"` and its default draws, 100 rows; a line above says
  whether its chains pass their checks.

The full run adds more sizes with the exponents of growth, and scikit-learn, GPy and GPyTorch, whose default is one
start, at the same problems; their evidences are brought to the units of y. A peer is stopped at ten times our default
time, or at `--longest` seconds once that is 1.5 times our time: its time is then a lower bound, and its evidence what
it had reached. `vs_peers` is the smallest ratio of a peer's time to our default time. Every result is written to the
file named by `--store` as it comes, and what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import peers, report, timing
from benchmarks.problems import Array, Problem
from cavity import GPClassifier, GPRegressor
from cavity.inference.base import ConvergenceWarning
from cavity.tables import Table, prepare
from cavity.tables.fit import fit_table
from cavity.tables.training import Options

COLUMNS = 8
OUTLIERS = 0.05
"""Share of targets with a gross error."""

GROSS = 20.0
"""Standard deviation of gross errors; that of the noise is one."""

DIGITS_ROWS = 300
DIGITS_BEFORE = 21.1
"""CPU time of the default classifier of so many digits at b8ee38e, in units of n = 1000: 24.3 s over 1.15 s."""

TABLES = (2101, 2102, 2103, 2104)
"""Seeds of tables for `cavity fit`."""

PATIENCE = 10.0
"""Times our default time at which a peer is stopped."""

LONGEST, AT_LEAST = 240.0, 1.5
"""CPU seconds at which a peer is stopped in any case, once it has taken so many times our default time."""

WARM_UP = 50
"""Rows of an uncounted fit of everything."""

STORED = Path(__file__).with_name("fits_results.jsonl")
"""Results of the last full run."""


@dataclass(frozen=True)
class Plan:
    """Rows of each kind of noise and of digits, and rounds for fits that are quick."""

    sizes: Mapping[str, Sequence[int]]
    digits: Sequence[int]
    rounds: int
    with_peers: bool


QUICK = Plan({"gaussian": (500,), "student_t": (500, 1000), "mixture": (500,)}, (DIGITS_ROWS,), 3, False)
FULL = Plan(
    {
        "gaussian": (200, 500, 1000, 2000, 4000),
        "student_t": (200, 500, 1000, 2000),
        "mixture": (200, 500, 1000),
        "laplace": (200, 500, 1000),
    },
    (DIGITS_ROWS, 1797),
    5,
    True,
)

LIKELIHOODS = {
    "gaussian": "gaussian",
    "student_t": "student-t",
    "mixture": "mixture",
    "laplace": "laplace",
}


@dataclass(frozen=True)
class Result:
    """CPU seconds of a subject by round, and the log evidence it ended with; of a peer that was stopped, so far."""

    problem: str
    subject: str
    cpu: list[float]
    evidence: float
    stopped: bool = False
    commit: str = ""


@dataclass
class Outcome:
    """All that was measured, and what there is to say; results are added to `file` as they come."""

    results: list[Result] = field(default_factory=list)
    file: Path | None = None
    commit: str = ""
    mcmc_seconds: float | None = None
    notes: list[str] = field(default_factory=list)

    def add(
        self, problem: str, subject: str, cpu: list[float], evidence: float, stopped: bool = False
    ) -> None:
        """Keep a result."""
        self.results.append(Result(problem, subject, cpu, evidence, stopped, self.commit))
        if self.file is not None:
            with open(self.file, "a") as file:
                file.write(json.dumps(asdict(self.results[-1])) + "\n")

    def of(self, problem: str) -> dict[str, Result]:
        """By subject."""
        return {result.subject: result for result in self.results if result.problem == problem}

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(result.problem for result in self.results))

    def series(self, problem: str) -> timing.Series:
        """Times by round."""
        of = self.of(problem)
        rounds = max((len(result.cpu) for result in of.values()), default=0)
        return timing.Series(
            [{name: r.cpu[k] for name, r in of.items() if k < len(r.cpu)} for k in range(rounds)]
        )

    def figures(self) -> dict[str, float | None]:
        """What the last line reports."""
        names = ("gaussian_500", "student_t_500", "student_t_1000", "mixture_500", "probit_1500")
        found = {name: self._ratio(name) for name in names}
        units = self._ratio(f"digits_{DIGITS_ROWS}")
        softmax = None if units is None else units / DIGITS_BEFORE
        tables = [self.series(f"table_{seed}").ratio("cavity fit", "student-t") for seed in TABLES]
        known_tables = [ratio for ratio in tables if ratio is not None]
        automatic = float(np.median(known_tables)) if known_tables else None
        figures = {**found, "softmax": softmax, "cavity_fit": automatic, "mcmc_s": self.mcmc_seconds}
        against = [
            self.series(result.problem).ratio(result.subject, "default")
            for result in self.results
            if result.subject in peers.TITLES.values()
        ]
        known = [value for value in against if value is not None and np.isfinite(value)]
        return {**figures, "vs_peers": min(known)} if known else figures

    def _ratio(self, name: str) -> float | None:
        return self.series(name).ratio("default", "one start")


# --- problems ---------------------------------------------------------------------------------------------------------


def friedman(n: int, outliers: float = 0.0, seed: int | None = None) -> tuple[Array, Array]:
    """Friedman's function of eight columns, with noise and gross errors."""
    rng = np.random.default_rng(n if seed is None else seed)
    X = rng.random((n, COLUMNS))
    f = (
        10.0 * np.sin(np.pi * X[:, 0] * X[:, 1])
        + 20.0 * (X[:, 2] - 0.5) ** 2
        + 10.0 * X[:, 3]
        + 5.0 * X[:, 4]
    )
    y = f + rng.standard_normal(n)
    wrong = rng.choice(n, int(outliers * n), replace=False)
    y[wrong] += GROSS * rng.standard_normal(len(wrong))
    return X, y


def digits(n: int) -> tuple[Array, Array]:
    """The first pictures of digits, eight by eight, with values from zero to one."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X[:n] / 16.0, y[:n]


def for_peers(X: Array, y: Array) -> tuple[Problem, float]:
    """Standardized data with a usual first guess, and what takes log evidences to the units of y."""
    Z, sd = (X - X.mean(axis=0)) / X.std(axis=0), float(y.std())
    theta = np.log([*np.full(X.shape[1], np.sqrt(X.shape[1])), 1.0, 0.1])
    return Problem(Z, (y - y.mean()) / sd, theta), -len(y) * np.log(sd)


# --- subjects ---------------------------------------------------------------------------------------------------------


class Fit:
    """CPU seconds of a fit; remembers the estimator that it made."""

    def __init__(self, make: Callable[[], Any], X: Array, y: Array) -> None:
        self.make, self.X, self.y = make, X, y
        self.fitted: Any = None

    def __call__(self, k: int) -> float:
        model = self.make()
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(self.X, self.y)
        took = time.process_time() - start
        self.fitted = model
        return took


class TableFit(Fit):
    """CPU seconds of `cavity fit` without its files."""

    def __init__(self, X: Array, y: Array) -> None:
        columns = {f"x{i}": x for i, x in enumerate(X.T)}
        self.table = Table(pd.DataFrame({**columns, "y": y}), np.arange(1, len(y) + 1), len(y))

    def __call__(self, k: int) -> float:
        start = time.process_time()
        preparation, X, y = prepare(self.table, "y")
        self.fitted = fit_table(preparation, X, y, self.table, Options()).estimator
        return time.process_time() - start


def patience(ours: float, longest: float) -> float:
    """CPU seconds that a peer has, if our default fit took so many."""
    return min(PATIENCE * ours, max(longest, AT_LEAST * ours))


def one_start(X: Array, y: Array) -> Fit:
    """The unit."""
    return Fit(lambda: GPRegressor(n_restarts=0), X, y)


# --- measurements -----------------------------------------------------------------------------------------------------


def measure(plan: Plan, found: Outcome, longest: float = LONGEST) -> Outcome:
    """Everything that is not known yet, with what was found printed as it comes."""
    workers: Mapping[str, peers.Worker] = {}
    if plan.with_peers:
        workers, missing = peers.start()
        found.notes += [f"{peers.TITLES[name]} is missing: {why}" for name, why in missing.items()]
    try:
        _peers(Outcome(), WARM_UP, workers)  # what a package loads at its first fit is loaded
        for noise, sizes in plan.sizes.items():
            for n in sizes:
                _noise(found, noise, n, plan.rounds if n <= 500 else 1)
                if noise == "gaussian":
                    _peers(found, n, workers, longest)
    finally:
        for worker in workers.values():
            worker.close()
    _probit(found, 1500)
    for n in plan.digits:
        _digits(found, n)
    for seed in TABLES:
        _table(found, seed)
    _chains(found)
    return found


def _noise(found: Outcome, noise: str, n: int, rounds: int) -> None:
    X, y = friedman(n, 0.0 if noise == "gaussian" else OUTLIERS)
    default = Fit(lambda: GPRegressor(likelihood=LIKELIHOODS[noise], random_state=0), X, y)
    _take_turns(found, f"{noise}_{n}", {"one start": one_start(X, y), "default": default}, rounds)


def _peers(found: Outcome, n: int, workers: Mapping[str, peers.Worker], longest: float = LONGEST) -> None:
    """Other packages on the problem of Gaussian noise, once each."""
    name = f"gaussian_{n}"
    problem, shift = for_peers(*friedman(n))
    limit = patience(found.series(name).median("default") or np.inf, longest)
    with tempfile.TemporaryDirectory() as folder:
        file = str(peers.save(problem, folder, name))
        for peer, worker in workers.items():
            title = peers.TITLES[peer]
            if title in found.of(name):
                continue
            try:
                worker.ask(op="load", file=file)
                answer = worker.ask(op="fit", cpu=limit)
            except peers.PeerError as error:
                found.notes.append(f"{name}: {error}")
                continue
            found.add(name, title, [answer["cpu"]], answer["value"] + shift, answer["stopped"])
            print(_line(found, name), flush=True)


def _probit(found: Outcome, n: int) -> None:
    X, y = friedman(n)
    labels = (y > np.median(y)).astype(int)
    one = Fit(lambda: GPClassifier(inference="ep", n_restarts=0), X, labels)
    default = Fit(lambda: GPClassifier(inference="ep", random_state=0), X, labels)
    _take_turns(found, f"probit_{n}", {"one start": one, "default": default}, 1)


def _digits(found: Outcome, n: int) -> None:
    default = Fit(lambda: GPClassifier(random_state=0), *digits(n))
    subjects = {"one start": one_start(*friedman(1000)), "default": default}
    _take_turns(found, f"digits_{n}", subjects, 1)


def _table(found: Outcome, seed: int) -> None:
    X, y = friedman(500, OUTLIERS, seed)
    robust = Fit(lambda: GPRegressor(likelihood="student-t", random_state=0), X, y)
    _take_turns(found, f"table_{seed}", {"student-t": robust, "cavity fit": TableFit(X, y)}, 1)


def _chains(found: Outcome) -> None:
    X, y = friedman(100, OUTLIERS)
    fit = Fit(lambda: GPRegressor(likelihood="student-t", inference="mcmc", random_state=0), X, y)
    found.mcmc_seconds = fit(0)
    notice = fit.fitted.posterior_.notice
    found.notes.append(f"chains: {'certified' if notice is None else notice}")


def _take_turns(found: Outcome, name: str, subjects: Mapping[str, Fit], rounds: int) -> None:
    """Time subjects in turn, unless they are known."""
    if set(subjects) - set(found.of(name)):
        series = timing.interleave(subjects, {}, rounds, rounds, warm_up=0)
        for title, subject in subjects.items():
            found.add(name, title, series.times(title), _evidence(subject.fitted))
    print(_line(found, name), flush=True)


def _evidence(model: Any) -> float:
    """Of all models of an estimator together."""
    return float(sum(member.posterior.log_evidence for member in model.members_))


def _line(found: Outcome, name: str) -> str:
    """Times, ratios and evidences of one problem."""
    series, parts = found.series(name), []
    for title, result in found.of(name).items():
        ratio = report.ratio(series.ratio(title, "one start"), at_least=result.stopped)
        parts.append(
            f"{title} {report.seconds(series.median(title))} ({ratio}, evidence {result.evidence:.2f})"
        )
    return f"{name}: " + ", ".join(parts)


def against_peers(found: Outcome) -> str:
    """Default fits and those of peers, side by side."""
    titles = [t for t in peers.TITLES.values() if any(r.subject == t for r in found.results)]
    rows = []
    for name in found.problems:
        of, series = found.of(name), found.series(name)
        if not any(title in of for title in titles):
            continue
        row = [name.rsplit("_", 1)[1]]
        row += [report.seconds(series.median(title)) for title in ("one start", "default")]
        for title in titles:
            stopped = title in of and of[title].stopped
            row.append(report.ratio(series.ratio(title, "default"), at_least=stopped))
        best = of["default"].evidence
        row += [f"{of[title].evidence - best:+.2f}" if title in of else "-" for title in titles]
        rows.append(row)
    header = ["rows", "one start", "default", *titles, *(f"evidence of {title}" for title in titles)]
    return report.table(header, rows)


def exponents(found: Outcome) -> list[str]:
    """By how much CPU times grow with n, as a power, over the sizes at which a subject was not stopped."""
    lines = []
    for noise in LIKELIHOODS:
        for title in ("one start", "default", *peers.TITLES.values()):
            points = [
                (int(result.problem.rsplit("_", 1)[1]), float(np.median(result.cpu)))
                for result in found.results
                if result.problem.startswith(f"{noise}_") and result.subject == title and not result.stopped
            ]
            if len(points) > 1:
                sizes, times = np.array(sorted(points)).T
                power = np.polyfit(np.log(sizes), np.log(times), 1)[0]
                lines.append(f"{noise}, {title}: n^{power:.2f} from {sizes[0]:.0f} to {sizes[-1]:.0f} rows")
    return lines


def stored(file: Path) -> list[Result]:
    """Results of earlier runs."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Result(**json.loads(line)) for line in lines if line.strip()]


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=STORED.parent)
    return done.stdout.strip()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fits", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under four minutes, without other packages")
    parser.add_argument(
        "--store", type=Path, help="file for results as they come; what is there is not run again"
    )
    parser.add_argument("--longest", type=float, default=LONGEST, help="CPU seconds of a peer, see above")
    parser.add_argument("--stored", action="store_true", help="run nothing; show the stored run")
    options = parser.parse_args(argv)
    if options.stored:
        found = Outcome(stored(STORED))
    else:
        one_start(*friedman(WARM_UP))(0)  # compiled passes are loaded
        known = stored(options.store) if options.store else []
        begun = Outcome(known, options.store, _commit())
        found = measure(QUICK if options.quick else FULL, begun, options.longest)
    if any(result.subject in peers.TITLES.values() for result in found.results):
        print(against_peers(found))
    print("\n".join([*exponents(found), *found.notes]))
    print(report.result_line(found.figures()))
    return 0
