"""Digits that may be shifted by a pixel: four ways to tell a classifier (book section 9.10).

USPS threes against fives, some of the training cases of the book's repartition, all 773 test cases; probit by EP with
an isotropic squared exponential whose parameters are learned. A digit shifted by one pixel to the left, right, up or
down is the same digit. That can be said by *virtual rows* (each training case five times, shifted), by *tangents* (f
does not change along the two directions of a shift: observed slopes of zero with noise), or by an *orbit kernel* (the
average over the shifts of both arguments, normalized).

Pixels are moved to 0 .. 2, so that the background is zero and a shift is a linear map.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import log_ndtr

from cavity.datasets import load
from cavity.gp import GP
from cavity.kernels import SE, Invariant, Kernel, Normalized, WithSlopes, slopes, values
from cavity.likelihoods import Gaussian, Probit, Switch
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.pictures import new_panels, save

SIDE = 16
PLAIN, VIRTUAL, TANGENTS, ORBIT = "as they are", "virtual rows", "tangents", "orbit kernel"
METHODS = (PLAIN, VIRTUAL, TANGENTS, ORBIT)
START = 6.0, 9.0
"""Length scale and variance from which learning starts."""

TANGENT_NOISE = (0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Standard deviations of the noise of slopes that are tried, in units of the slopes' own."""


@cache
def shifts() -> Array:
    """The maps: none, left, right, up, down, (5, 256, 256); what is shifted out is lost, background comes in."""
    index = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    found = [np.eye(SIDE * SIDE)]
    for to, source in (
        (index[:, :-1], index[:, 1:]),
        (index[:, 1:], index[:, :-1]),
        (index[:-1], index[1:]),
        (index[1:], index[:-1]),
    ):
        g = np.zeros((SIDE * SIDE, SIDE * SIDE))
        g[to.ravel(), source.ravel()] = 1.0
        found.append(g)
    return np.stack(found)


def tangents(X: Array) -> tuple[Array, Array]:
    """Directions of a horizontal and of a vertical shift at each digit: half the difference of the two neighbors."""
    _, left, right, up, down = shifts()
    return 0.5 * X @ (right - left).T, 0.5 * X @ (down - up).T


def digits(n: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Some training cases, and all test cases; labels -1 and 1."""
    data = load("usps_3v5")
    assert data.X_test is not None
    assert data.y_test is not None
    chosen = np.random.default_rng(seed).permutation(len(data.y))[:n]
    high = np.max(data.y)
    sign = [np.where(np.asarray(y) == high, 1.0, -1.0) for y in (data.y, data.y_test)]
    return data.X[chosen] + 1.0, sign[0][chosen], data.X_test + 1.0, sign[1]


def classify(method: str, n: int, seed: int) -> Outcome:
    """One way on one subset."""
    X, y, X_test, truth = digits(n, seed)
    if method == TANGENTS:
        posterior, found = _with_tangents(X, y, seed)
    else:
        length, variance = START
        kernel: Kernel = variance * SE(length)
        if method == ORBIT:
            kernel = variance * Normalized(Invariant(SE(length), shifts()))
        elif method == VIRTUAL:
            X, y = np.vstack([X @ g.T for g in shifts()]), np.tile(y, len(shifts()))
        posterior = GP(kernel, Probit(), "zero", "ep").learn(X, y, n_restarts=0, rng=seed).posterior
        found = {"log evidence": float(posterior.log_evidence)}
    f = posterior.predict_f(_new(X_test, method))
    score = f.mean / np.sqrt(1.0 + f.variance)
    moved = np.stack([posterior.mean(_new(X_test @ g.T, method)) for g in shifts()[1:]])
    measures = {
        "errors of 773": float(np.sum(truth * score <= 0)),
        "information, bits": 1.0 + float(np.mean(log_ndtr(truth * score))) / float(np.log(2)),
        **found,
        "change by a shift, sd": float(np.mean(np.abs(moved - f.mean)) / np.std(f.mean)),
        "length scale": float(posterior.model.kernel.get("se.lengthscale")),
    }
    return Outcome(measures, {"score": truth * score})


def _with_tangents(X: Array, y: Array, seed: int) -> tuple[Posterior, dict[str, float]]:
    """Slopes of zero beside labels: kernel learned from the labels, noise of slopes by log p(labels given slopes).

    The evidence of labels and slopes together is no objective: slopes that are all exactly zero are likeliest under a
    function that is zero everywhere.
    """
    length, variance = START
    learned = GP(variance * SE(length), Probit(), "zero", "ep").learn(X, y, n_restarts=0, rng=seed)
    level = np.vstack([slopes(X, u, 1.0) for u in tangents(X)])
    rows, targets = np.vstack([values(X, 0.0), level]), np.concatenate([y, np.zeros(len(level))])
    best, gain, chosen = None, -np.inf, np.nan
    kernel = WithSlopes(learned.model.kernel)
    typical = float(np.sqrt(np.mean(kernel.diag(level))))
    for share in TANGENT_NOISE:
        variance = (share * typical) ** 2
        noise = Switch({0.0: Probit(), 1.0: Gaussian(variance)}, by=-1)
        together = GP(kernel, noise, "zero", "ep").condition(rows, targets)
        alone = GP(kernel, Gaussian(variance), "zero", "exact").condition(level, targets[len(y) :])
        if together.log_evidence - alone.log_evidence > gain:
            best, gain, chosen = together, together.log_evidence - alone.log_evidence, share
    assert best is not None
    return best, {"log evidence": float(gain), "slope noise": chosen}


def _new(X: Array, method: str) -> Array:
    return values(X, 0.0) if method == TANGENTS else X


def cells(quick: bool) -> list[Cell]:
    """Three subsets of 200 cases; the quick version has one of 60."""
    n, seeds = (60, 1) if quick else (200, 3)
    return [
        Cell({"method": method, "seed": seed}, classify, {"method": method, "n": n, "seed": seed})
        for seed in range(seeds)
        for method in METHODS
    ]


def draw(results: Results, folder: Path) -> list[Path]:
    """A digit with its shifts and tangents, and how sure each way is of the test cases."""
    X = digits(1, 0)[0]
    shown = [*(X @ g.T for g in shifts()), *tangents(X)]
    titles = ("a digit", "left", "right", "up", "down", "tangent: across", "tangent: down")
    figure, axes = new_panels(2, 4, height=4.6)
    for axis, image, title in zip(axes, shown, titles):
        wide = float(np.abs(image).max())
        signed = title.startswith("tangent")
        axis.imshow(
            image.reshape(SIDE, SIDE),
            cmap="RdBu_r" if signed else "gray_r",
            vmin=-wide if signed else 0,
            vmax=wide,
        )
        axis.set_title(title, fontsize=9)
        axis.set_axis_off()
    last = axes[-1]
    for method in METHODS:
        stored = results.arrays(method=method, seed=0)
        if stored:
            p = np.exp(log_ndtr(np.sort(stored["score"])))
            last.plot(np.arange(1, len(p) + 1), p, label=method, linewidth=1.5)
    last.set(xlim=(1, 120), xlabel="test case, least sure first", ylabel="p(true class)")
    last.legend(frameon=False, fontsize=7)
    return [save(figure, folder / "shifts.png")]


STUDY = Study(
    "usps-shifts",
    "Threes against fives that may be shifted by a pixel",
    "book section 9.10 (no numbers in print)",
    cells,
    measures=(
        "errors of 773",
        "information, bits",
        "log evidence",
        "change by a shift, sd",
        "length scale",
        "slope noise",
    ),
    by=("method",),
    draw=draw,
    quick_note="One subset of 60 cases.",
    remarks=lambda results: [
        "The log evidence of virtual rows is that of five times as many labels, and compares with none; that of "
        "tangents is the log probability of the labels given the slopes."
    ],
)
