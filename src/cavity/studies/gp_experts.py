"""Mixtures of Gaussian process experts on the motorcycle data (book section 9.6; Rasmussen and Ghahramani, 2002).

Each point belongs to one expert, a Gaussian process with a mean, length scale, signal and noise variance of its own.
Points near each other tend to share an expert: with n points, the others' experts c and a concentration a,

    p(c_i = j | c) = (n - 1) / (n - 1 + a) sum_{m: c_m = j} g(x_i, x_m) / sum_m g(x_i, x_m),     new: a / (n - 1 + a),

g a Gaussian of some width: a Dirichlet process whose counts are local. A Gibbs sweep draws the expert of each point,
with one new expert from the prior at stake (Neal, 2000, algorithm 8), then moves parameters by Metropolis' rule.
Density forecasts of left-out points are averaged over sweeps, and set beside those of one process with Gaussian,
Student-t and input-dependent noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from cavity.datasets import load
from cavity.estimators import GPRegressor
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.folds import fitted_quietly
from cavity.studies.pictures import COLORS, new_panels, save

FOLDS = 10
LOSS, ERROR = "NLP", "RMSE"
ONE_PROCESS = {
    "Gaussian noise": "gaussian",
    "Student-t noise": "student-t",
    "noise by input": "heteroscedastic",
}
EXPERTS = "experts"
GRID, LEVELS = np.linspace(-0.02, 1.02, 161), np.linspace(-3.5, 3.0, 131)
"""Inputs and targets of pictures, scaled."""

Labels = NDArray[np.intp]


@dataclass(frozen=True)
class Expert:
    """mean + GP(0, signal exp(-r^2 / 2 length^2)) + N(0, noise)."""

    mean: float = 0.0
    length: float = 1.0
    signal: float = 1.0
    noise: float = 0.05

    def covariance(self, x: Array, z: Array) -> Array:
        """Of the function at inputs (n,) and (m,)."""
        return np.asarray(self.signal * np.exp(-0.5 * ((x[:, None] - z) / self.length) ** 2))

    def predict(self, x: Array, y: Array, at: Array) -> tuple[Array, Array]:
        """Mean and variance of new targets, given the expert's own points."""
        if not len(x):
            return np.full(len(at), self.mean), np.full(len(at), self.signal + self.noise)
        A = self.covariance(x, x) + self.noise * np.eye(len(x))
        k = self.covariance(x, at)
        solved = np.linalg.solve(A, np.column_stack([y - self.mean, k]))
        variance = self.signal + self.noise - np.einsum("ij,ij->j", k, solved[:, 1:])
        return self.mean + k.T @ solved[:, 0], np.maximum(variance, 1e-10)

    def log_evidence(self, x: Array, y: Array) -> float:
        """Of the expert's own points."""
        if not len(x):
            return 0.0
        L = np.linalg.cholesky(self.covariance(x, x) + self.noise * np.eye(len(x)))
        z = np.linalg.solve(L, y - self.mean)
        return float(-0.5 * z @ z - np.log(np.diag(L)).sum() - 0.5 * len(x) * LOG_2PI)


def log_normal(y: Array | float, mean: Array, variance: Array) -> Array:
    """Log density of N(mean, variance)."""
    return np.asarray(-0.5 * (LOG_2PI + np.log(variance) + (y - mean) ** 2 / variance))


def enumerated(x: Array, y: Array, experts: list[Expert]) -> tuple[float, Array, Labels]:
    """Log evidence, P(point i belongs to expert j) (n, experts) and the most probable labels; all labels equally
    probable before."""
    all_labels = np.array(list(product(range(len(experts)), repeat=len(x))))
    logs = np.array(
        [sum(e.log_evidence(x[c == j], y[c == j]) for j, e in enumerate(experts)) for c in all_labels]
    )
    logs -= len(x) * np.log(len(experts))
    total = float(logsumexp(logs))
    p = np.exp(logs - total)
    shares = np.stack([p @ (all_labels == j) for j in range(len(experts))], axis=1)
    return total, shares, all_labels[np.argmax(p)]


def gating(at: float, x: Array, labels: Labels, count: int, width: float, concentration: float) -> Array:
    """Probability of each of `count` experts, and of a new one, for a point at `at` given those of others."""
    near = np.exp(-0.5 * ((at - x) / width) ** 2)
    shares = np.bincount(labels, near, minlength=count) / near.sum()
    old = len(x) / (len(x) + concentration)
    return np.append(old * shares, 1.0 - old)


@dataclass
class Sampler:
    """Gibbs sweeps over experts of points and parameters, for inputs of about unit range and standardized targets."""

    x: Array
    y: Array
    rng: np.random.Generator
    width: float = 0.1
    concentration: float = 1.0

    def __post_init__(self) -> None:
        self.labels: Labels = np.zeros(len(self.x), dtype=np.intp)
        self.experts = [self.drawn()]

    def drawn(self) -> Expert:
        """From the prior: log-normal scales."""
        mean, length, signal, noise = self.rng.standard_normal(4)
        return Expert(
            0.7 * mean, 0.15 * np.exp(0.7 * length), 0.5 * np.exp(signal), 0.05 * np.exp(1.2 * noise)
        )

    @staticmethod
    def log_prior(e: Expert) -> float:
        """Of the logarithms of the scales, up to a constant."""
        z = (
            e.mean / 0.7,
            np.log(e.length / 0.15) / 0.7,
            np.log(e.signal / 0.5),
            np.log(e.noise / 0.05) / 1.2,
        )
        return -0.5 * float(np.sum(np.square(z)))

    def sweep(self) -> None:
        """Experts of all points in random order, then parameters."""
        for i in self.rng.permutation(len(self.x)):
            self._reassign(int(i))
        self._drop_empty()
        for j, expert in enumerate(self.experts):
            own = self.labels == j
            self.experts[j] = self._moved(expert, self.x[own], self.y[own])
        self._move_gate()

    def _reassign(self, i: int) -> None:
        others = np.arange(len(self.x)) != i
        x, y, labels = self.x[others], self.y[others], self.labels[others]
        candidates = [*self.experts, self.drawn()]
        prior = gating(float(self.x[i]), x, labels, len(self.experts), self.width, self.concentration)
        with np.errstate(divide="ignore"):
            logs = np.log(prior)
        for j in np.flatnonzero(prior > 1e-12):
            own = labels == j
            mean, variance = candidates[j].predict(x[own], y[own], self.x[i : i + 1])
            logs[j] += log_normal(float(self.y[i]), mean, variance)[0]
        p = np.exp(logs - logsumexp(logs))
        choice = int(self.rng.choice(len(p), p=p / p.sum()))
        if choice == len(self.experts):
            self.experts.append(candidates[-1])
        self.labels[i] = choice

    def _drop_empty(self) -> None:
        kept = np.unique(self.labels)
        self.experts = [self.experts[j] for j in kept]
        self.labels = np.searchsorted(kept, self.labels)

    def _moved(self, e: Expert, x: Array, y: Array, steps: int = 4) -> Expert:
        value = e.log_evidence(x, y) + self.log_prior(e)
        for _ in range(steps):
            step = 0.25 * self.rng.standard_normal(4)
            trial = replace(
                e,
                mean=e.mean + step[0],
                length=e.length * np.exp(step[1]),
                signal=e.signal * np.exp(step[2]),
                noise=e.noise * np.exp(step[3]),
            )
            new = trial.log_evidence(x, y) + self.log_prior(trial)
            if np.log(self.rng.uniform()) < new - value:
                e, value = trial, new
        return e

    def _log_gate(self, width: float) -> float:
        """Pseudo-likelihood of the labels, as in the source: each given the others; width is log-normal."""
        near = np.exp(-0.5 * ((self.x[:, None] - self.x) / width) ** 2)
        np.fill_diagonal(near, 0.0)
        same = np.sum(near * (self.labels[:, None] == self.labels), axis=1)
        n = len(self.x) - 1
        alone = np.bincount(self.labels)[self.labels] == 1
        shares = same / np.maximum(near.sum(axis=1), 1e-300) * n / (n + self.concentration)
        shares = np.where(alone, self.concentration / (n + self.concentration), np.maximum(shares, 1e-300))
        return float(np.sum(np.log(shares)) - 0.5 * (np.log(width / 0.1) / 0.7) ** 2)

    def _move_gate(self) -> None:
        trial = self.width * np.exp(0.3 * self.rng.standard_normal())
        if np.log(self.rng.uniform()) < self._log_gate(trial) - self._log_gate(self.width):
            self.width = float(trial)

    def log_density(self, at: Array, y: Array) -> Array:
        """Log predictive density of targets (m, ...) at inputs (m,), for the present experts."""
        gates = np.stack(
            [gating(t, self.x, self.labels, len(self.experts), self.width, self.concentration) for t in at]
        )
        logs = []
        for j, e in enumerate([*self.experts, self.drawn()]):
            own = self.labels == j
            mean, variance = e.predict(self.x[own], self.y[own], at)
            shape = (len(at),) + (1,) * (np.ndim(y) - 1)
            with np.errstate(divide="ignore"):
                weight = np.log(gates[:, j]).reshape(shape)
            logs.append(weight + log_normal(y, mean.reshape(shape), variance.reshape(shape)))
        return np.asarray(logsumexp(logs, axis=0))


def _standardized() -> tuple[Array, Array, float, float]:
    data = load("motorcycle")
    x = data.X[:, 0]
    y = data.y
    return (x - x.min()) / np.ptp(x), (y - y.mean()) / y.std(), float(y.std()), float(y.mean())


def fit_fold(method: str, fold: int, sweeps: int) -> Outcome:
    """One method on one fold; densities in units of the data."""
    x, y, unit, _ = _standardized()
    parts = np.random.default_rng(0).permutation(len(x)) % FOLDS
    train, test = parts != fold, parts == fold
    # what a picture needs of the first fold: densities at all levels on a grid
    at = GRID if fold == 0 else np.zeros(0)
    one = _experts if method == EXPERTS else _one_process
    log_p, mean, picture, found = one(
        method, x[train], y[train], x[test], y[test], at, seed=fold, sweeps=sweeps
    )
    measures = {
        LOSS: -float(np.mean(log_p)) + float(np.log(unit)),
        ERROR: unit * float(np.sqrt(np.mean((mean - y[test]) ** 2))),
        **found,
    }
    return Outcome(measures, {"log_p": picture} if fold == 0 else {})


def _one_process(
    method: str, x: Array, y: Array, x_test: Array, y_test: Array, at: Array, *, seed: int, sweeps: int
) -> tuple[Array, Array, Array, dict[str, float]]:
    model = GPRegressor(likelihood=ONE_PROCESS[method], random_state=seed)
    fitted_quietly(model, x[:, None], y)
    prediction = model.predict_dist(x_test[:, None])
    picture = np.zeros((0, len(LEVELS)))
    if len(at):
        spread = model.predict_dist(np.repeat(at, len(LEVELS))[:, None])
        picture = spread.log_prob(np.tile(LEVELS, len(at))).reshape(len(at), -1)
    return prediction.log_prob(y_test), prediction.mean, picture, {}


def _experts(
    method: str, x: Array, y: Array, x_test: Array, y_test: Array, at: Array, *, seed: int, sweeps: int
) -> tuple[Array, Array, Array, dict[str, float]]:
    sampler = Sampler(x, y, np.random.default_rng(seed))
    inputs = np.concatenate([x_test, at])
    targets = np.column_stack([np.tile(LEVELS, (len(inputs), 1)), np.append(y_test, np.zeros(len(at)))])
    logs, counts = [], []
    for k in range(sweeps):
        sampler.sweep()
        if k >= sweeps // 3:
            logs.append(sampler.log_density(inputs, targets))
            counts.append(len(sampler.experts))
    average = logsumexp(logs, axis=0) - np.log(len(logs))
    n = len(x_test)
    density = np.exp(average[:n, :-1])
    return (
        average[:n, -1],
        density @ LEVELS / density.sum(axis=1),
        average[n:, :-1],
        {"experts": float(np.mean(counts))},
    )


def draw(results: Results, folder: Path) -> list[Path]:
    """Predictive densities of the first fold."""
    x, y, unit, middle = _standardized()
    figure, axes = new_panels(1, 4, width=3.4, height=3.1, sharey=True)
    for axis, method in zip(axes, (*ONE_PROCESS, EXPERTS)):
        s = results.arrays(method=method, fold=0)
        axis.pcolormesh(
            GRID, middle + unit * LEVELS, np.exp(s["log_p"]).T, cmap="Blues", vmax=2.0, shading="nearest"
        )
        axis.plot(x, middle + unit * y, ".", color=COLORS[1], markersize=3)
        axis.set(xlabel="time, scaled", title=method)
    axes[0].set_ylabel("acceleration, g")
    return [save(figure, folder / "experts.png")]


def remarks(results: Results) -> list[str]:
    """Paired differences of the log loss."""
    wide = results.frame.pivot(index="fold", columns="method", values=LOSS)
    out = []
    for method in ONE_PROCESS:
        gain = wide[method] - wide[EXPERTS]
        error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
        out.append(
            f"Experts tell {gain.mean():+.3f} nats a point more than {method} (standard error {error:.3f})."
        )
    return out


STUDY = Study(
    "gp-experts",
    "Motorcycle crashes: a mixture of Gaussian process experts beside one process",
    "book section 9.6",
    lambda quick: [
        Cell({"fold": k, "method": m}, fit_fold, {"method": m, "fold": k, "sweeps": 40 if quick else 100})
        for k in range(2 if quick else FOLDS)
        for m in (*ONE_PROCESS, EXPERTS)
    ],
    measures=(LOSS, ERROR, "experts"),
    draw=draw,
    remarks=remarks,
    quick_note="Two folds of ten, 40 sweeps of 100.",
)
