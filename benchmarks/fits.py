"""Whole fits with defaults: what a user waits for.

`python -m benchmarks fits [--quick]`. All figures are CPU time on one thread, subjects taking turns in one process.
The unit is our own fit with Gaussian noise from one start (`n_restarts=0`) to the same data, Friedman's function of
eight columns, five of which matter; robust noise has 5 % gross errors among the targets.

- `gaussian_500`, `student_t_500`, `student_t_1000`, `mixture_500`: a fit with defaults, in units;
- `probit_1500`: a classifier by EP with defaults, over its own fit from one start;
- `softmax`: a classifier of ten classes with defaults (digits, 300 rows of 64 columns), over what it took when this was
  first measured, `DIGITS_BEFORE` units of n = 1000; the full run has all 1797 rows too;
- `mcmc_s`: CPU seconds of Student-t noise with `inference="mcmc"` and its default draws, 100 rows; a line above says
  whether its chains pass their checks.

The full run adds more sizes with the exponents of growth, and scikit-learn, GPy and GPyTorch, whose default is one
start, at the same problems; their evidences are brought to the units of y.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import peers, report, timing
from benchmarks.problems import Array, Problem
from cavity import GPClassifier, GPRegressor
from cavity.inference.base import ConvergenceWarning

COLUMNS = 8
OUTLIERS = 0.05
"""Share of targets with a gross error."""

GROSS = 20.0
"""Standard deviation of gross errors; that of the noise is one."""

DIGITS_ROWS = 300
DIGITS_BEFORE = 21.1
"""CPU time of the default classifier of so many digits at b8ee38e, in units of n = 1000: 24.3 s over 1.15 s."""

PEERS_UP_TO = 2000
"""Most rows that other packages are given: they take hours for more."""


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


@dataclass
class Outcome:
    """All that was measured: times by problem, evidences by problem and subject, and what there is to say."""

    series: dict[str, timing.Series] = field(default_factory=dict)
    evidences: dict[str, dict[str, float]] = field(default_factory=dict)
    mcmc_seconds: float | None = None
    notes: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, float | None]:
        """What the last line reports."""
        names = ("gaussian_500", "student_t_500", "student_t_1000", "mixture_500", "probit_1500")
        found = {name: self._ratio(name) for name in names}
        units = self._ratio(f"digits_{DIGITS_ROWS}")
        softmax = None if units is None else units / DIGITS_BEFORE
        return {**found, "softmax": softmax, "mcmc_s": self.mcmc_seconds}

    def _ratio(self, name: str) -> float | None:
        series = self.series.get(name)
        return None if series is None else series.ratio("default", "one start")


# --- problems ---------------------------------------------------------------------------------------------------------


def friedman(n: int, outliers: float = 0.0) -> tuple[Array, Array]:
    """Friedman's function of eight columns, with noise and gross errors."""
    rng = np.random.default_rng(n)
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


class PeerFit:
    """The same of another package, in a warm worker."""

    def __init__(self, worker: peers.Worker, file: str, shift: float) -> None:
        self.worker, self.shift, self.value = worker, shift, np.nan
        self.file = file

    def __call__(self, k: int) -> float:
        self.worker.ask(op="load", file=self.file)
        try:
            answer = self.worker.ask(op="fit")
        except peers.PeerError as error:
            print(error)
            return np.nan
        self.value = answer["value"] + self.shift
        return float(answer["cpu"])


def one_start(X: Array, y: Array) -> Fit:
    """The unit."""
    return Fit(lambda: GPRegressor(n_restarts=0), X, y)


# --- measurements -----------------------------------------------------------------------------------------------------


def measure(plan: Plan) -> Outcome:
    """Everything, with what was found printed as it comes."""
    found, workers = Outcome(), {}
    if plan.with_peers:
        workers, missing = peers.start()
        found.notes += [f"{peers.TITLES[name]} is missing: {why}" for name, why in missing.items()]
    try:
        for noise, sizes in plan.sizes.items():
            for n in sizes:
                with_peers = workers if noise == "gaussian" and n <= PEERS_UP_TO else {}
                _noise(found, noise, n, plan.rounds if n <= 500 else 1, with_peers)
    finally:
        for worker in workers.values():
            worker.close()
    _probit(found, 1500)
    for n in plan.digits:
        _digits(found, n)
    _chains(found)
    return found


def _noise(found: Outcome, noise: str, n: int, rounds: int, workers: Mapping[str, peers.Worker]) -> None:
    X, y = friedman(n, 0.0 if noise == "gaussian" else OUTLIERS)
    default = Fit(lambda: GPRegressor(likelihood=LIKELIHOODS[noise], random_state=0), X, y)
    subjects: dict[str, Any] = {"one start": one_start(X, y), "default": default}
    with tempfile.TemporaryDirectory() as folder:
        problem, shift = for_peers(X, y)
        file = str(peers.save(problem, folder, f"friedman_{n}"))
        others = {peers.TITLES[name]: PeerFit(worker, file, shift) for name, worker in workers.items()}
        _take_turns(found, f"{noise}_{n}", subjects, others, rounds)


def _probit(found: Outcome, n: int) -> None:
    X, y = friedman(n)
    labels = (y > np.median(y)).astype(int)
    one = Fit(lambda: GPClassifier(inference="ep", n_restarts=0), X, labels)
    default = Fit(lambda: GPClassifier(inference="ep", random_state=0), X, labels)
    _take_turns(found, f"probit_{n}", {"one start": one, "default": default}, {}, 1)


def _digits(found: Outcome, n: int) -> None:
    default = Fit(lambda: GPClassifier(random_state=0), *digits(n))
    subjects = {"one start": one_start(*friedman(1000)), "default": default}
    _take_turns(found, f"digits_{n}", subjects, {}, 1)


def _chains(found: Outcome) -> None:
    X, y = friedman(100, OUTLIERS)
    fit = Fit(lambda: GPRegressor(likelihood="student-t", inference="mcmc", random_state=0), X, y)
    found.mcmc_seconds = fit(0)
    notice = fit.fitted.posterior_.notice
    found.notes.append(f"chains: {'certified' if notice is None else notice}")


def _take_turns(
    found: Outcome, name: str, ours: Mapping[str, Any], others: Mapping[str, PeerFit], rounds: int
) -> None:
    """Time subjects in turn; peers once."""
    series = timing.interleave(ours, others, rounds, rounds, warm_up=0, warm_sometimes=False)
    found.series[name] = series
    values = {title: _evidence(subject.fitted) for title, subject in ours.items()}
    found.evidences[name] = values | {title: peer.value for title, peer in others.items()}
    print(_line(found, name), flush=True)


def _evidence(model: Any) -> float:
    """Of all models of an estimator together."""
    return float(sum(member.posterior.log_evidence for member in model.members_))


def _line(found: Outcome, name: str) -> str:
    """Times, ratios and evidences of one problem."""
    series = found.series[name]
    parts = []
    for title, value in found.evidences[name].items():
        ratio = report.ratio(series.ratio(title, "one start"))
        parts.append(f"{title} {report.seconds(series.median(title))} ({ratio}, evidence {value:.2f})")
    return f"{name}: " + ", ".join(parts)


def exponents(found: Outcome) -> list[str]:
    """By how much CPU times grow with n, as a power, between the smallest and the largest size of each noise."""
    lines = []
    for noise in LIKELIHOODS:
        sizes = sorted(int(name.rsplit("_", 1)[1]) for name in found.series if name.startswith(f"{noise}_"))
        for title in ("one start", "default"):
            times = [found.series[f"{noise}_{n}"].median(title) for n in sizes]
            if len(sizes) > 1 and all(times):
                power = np.polyfit(np.log(sizes), np.log(np.array(times, dtype=float)), 1)[0]
                lines.append(f"{noise}, {title}: n^{power:.2f} from {sizes[0]} to {sizes[-1]} rows")
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fits", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under four minutes, without other packages")
    options = parser.parse_args(argv)
    one_start(*friedman(50))(0)  # compiled passes are loaded
    found = measure(QUICK if options.quick else FULL)
    print("\n".join([*exponents(found), *found.notes]))
    print(report.result_line(found.figures()))
    return 0
