"""Regression basics drawn again: sample paths, the role of the mean function, what the evidence measures.

Thesis figures 3.2, 3.3 and 3.5. None has numbers in print; the pictures are the result, and the measures beside them
say what the text claims (the evidence of estimated values is orders of magnitude above that of arbitrary ones; models
with a zero and with a constant mean differ away from the data).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cavity.datasets import make_sinc
from cavity.estimators import GPRegressor
from cavity.gp import GP
from cavity.kernels import SE, Kernel, Linear, Matern, RationalQuadratic
from cavity.likelihoods import Gaussian
from cavity.numerics.arrays import Array
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.pictures import COLORS, LINES, band, new_panels, save

# --- figure 3.5: covariance functions and sample paths --------------------------------------------------------

TAU = np.linspace(0, 3, 301)
GRID = np.linspace(0, 10, 401)
FAMILIES: dict[str, dict[str, Kernel]] = {
    "Matern": {
        "nu = 1/2": Matern(1.0, nu=0.5),
        "nu = 3/2": Matern(1.0, nu=1.5),
        "nu = 5/2": Matern(1.0, nu=2.5),
    },
    "stationary": {
        "exponential": Matern(1.0, nu=0.5),
        "squared exponential": SE(1.0),
        "rational quadratic": RationalQuadratic(1.0, alpha=0.5),
    },
    "length scale": {"l = 0.3": SE(0.3), "l = 1": SE(1.0), "l = 3": SE(3.0)},
    "linear": {f"path {k}": Linear(1.0) for k in (1, 2, 3)},
}


def sample_paths(seed: int) -> Outcome:
    """Covariances as functions of the distance, and one path of each; one seed for all, so that paths compare."""
    arrays: dict[str, Array] = {}
    roughness = {}
    for family, members in FAMILIES.items():
        for position, (name, kernel) in enumerate(members.items()):
            x = (GRID - 5.0 if family == "linear" else GRID)[:, None]
            path_seed = seed + position if family == "linear" else seed
            arrays[f"{family}/{name}/path"] = GP(kernel).sample_prior(x, rng=path_seed)[0]
            arrays[f"{family}/{name}/k"] = kernel(np.zeros((1, 1)), TAU[:, None])[0]
            path = arrays[f"{family}/{name}/path"]
            if family == "Matern":
                roughness[f"rms increment, {name}"] = float(np.sqrt(np.mean(np.diff(path) ** 2)))
    return Outcome(roughness, arrays)


def draw_paths(results: Results, folder: Path) -> list[Path]:
    """Two columns, covariance and paths, for the families; length scales and linear paths below."""
    stored = results.arrays(method="paths")
    figure, axes = new_panels(3, 2, width=4.6, height=2.4)
    for row, family in enumerate(("Matern", "stationary")):
        for color, line, name in zip(COLORS, LINES, FAMILIES[family]):
            axes[2 * row].plot(TAU, stored[f"{family}/{name}/k"], line, color=color, label=name)
            axes[2 * row + 1].plot(GRID, stored[f"{family}/{name}/path"], line, color=color, linewidth=1)
        axes[2 * row].set(xlabel="distance", ylabel="covariance")
        axes[2 * row].legend(frameon=False, fontsize=8)
        axes[2 * row + 1].set(xlabel="x", ylabel="f(x)")
    for axis, family in zip(axes[4:], ("length scale", "linear")):
        x = GRID - 5.0 if family == "linear" else GRID
        for color, line, name in zip(COLORS, LINES, FAMILIES[family]):
            axis.plot(x, stored[f"{family}/{name}/path"], line, color=color, label=name, linewidth=1)
        axis.set(xlabel="x", ylabel="f(x)", title=f"{family}")
        axis.legend(frameon=False, fontsize=8)
    return [save(figure, folder / "sample_paths.png")]


# --- figure 3.3: the role of the mean function ----------------------------------------------------------------

MEAN_X = np.linspace(-10, 20, 301)


def wave_around_ten(seed: int) -> tuple[Array, Array]:
    """Twenty noisy values of a slow wave around 10, with a stretch of x that has none."""
    rng = np.random.default_rng(seed)
    x = np.sort(np.concatenate([rng.uniform(-5, 3, 12), rng.uniform(8, 14, 8)]))
    return x, 10 + 1.5 * np.sin(0.8 * x) + 0.2 * rng.standard_normal(len(x))


def mean_function(mean: str, seed: int) -> Outcome:
    """One fit, and how far the prediction is from the data's level far away from the data."""
    x, y = wave_around_ten(seed)
    model = GPRegressor(1.0 * SE(1.0), mean=mean, random_state=seed).fit(x[:, None], y)
    f = model.posterior_.predict_f(MEAN_X[:, None])
    far = model.posterior_.predict_f(np.array([[200.0]]))
    return Outcome(
        {"log evidence": model.log_evidence_, "mean far away": far.mean[0], "sd far away": far.sd[0]},
        {"x": x, "y": y, "mean": f.mean, "sd": f.sd},
    )


def draw_means(results: Results, folder: Path) -> list[Path]:
    """One panel for each mean function."""
    figure, axes = new_panels(1, 2, width=4.4, sharey=True)
    for axis, mean in zip(axes, ("zero", "constant")):
        s = results.arrays(method=mean)
        band(axis, MEAN_X, s["mean"], s["sd"])
        axis.plot(MEAN_X, 10 + 1.5 * np.sin(0.8 * MEAN_X), color="0.5", linewidth=1, label="truth")
        axis.plot(MEAN_X, s["mean"], "--", color=COLORS[0], label="posterior mean, two sds")
        axis.plot(s["x"], s["y"], "k.", label="data")
        axis.set(xlabel="x", ylabel="y", title=f"{mean} mean function")
    axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    return [save(figure, folder / "mean_functions.png")]


# --- figure 3.2: what the evidence measures -------------------------------------------------------------------

SINC_X = np.linspace(-10, 10, 201)
ARBITRARY = {"signal variance": 1.0, "length scale": 0.5, "noise variance": 0.25}


def sinc_evidence(method: str, seed: int) -> Outcome:
    """Sinc data under arbitrary values or those that maximize the evidence."""
    data = make_sinc(15, n_outliers=0, noise_sd=0.1, rng=seed)
    kernel = ARBITRARY["signal variance"] * SE(ARBITRARY["length scale"])
    model = GPRegressor(
        kernel,
        mean="zero",
        likelihood=Gaussian(ARBITRARY["noise variance"]),
        objective="evidence" if method == "estimated" else None,
        random_state=seed,
    ).fit(data.X, data.y)
    gp = model.posterior_.model
    order = np.argsort(data.X[:, 0])
    # Two neighbors about one apart stand for the pair of the figure: closer ones are nearly equal under any prior.
    i = int(np.argmin(np.abs(np.diff(data.X[order, 0]) - 1.0)))
    pair = order[[i, i + 1]]
    f = model.posterior_.predict_f(SINC_X[:, None])
    at_pair = model.posterior_.predict_f(data.X[pair], joint=True)
    noise = float(model.posterior_.model.likelihood.flat[0])
    return Outcome(
        {"log evidence": model.log_evidence_},
        {
            "x": data.X[:, 0],
            "y": data.y,
            "mean": f.mean,
            "sd": f.sd,
            "pair": pair,
            "prior cov": gp.kernel(data.X[pair]),
            "post mean": at_pair.mean,
            "post cov": np.asarray(at_pair.covariance),
            "noise": np.array([noise]),
        },
    )


def _ellipses(mean: Array, cov: Array) -> list[Array]:
    """One, two and three standard deviations of a normal density in the plane, as curves (2, 100)."""
    angle = np.linspace(0, 2 * np.pi, 100)
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0))
    return [mean[:, None] + k * root @ np.array([np.cos(angle), np.sin(angle)]) for k in (1, 2, 3)]


def draw_evidence(results: Results, folder: Path) -> list[Path]:
    """Three rows: the fit, prior and likelihood at two inputs, their posterior."""
    figure, axes = new_panels(3, 2, width=4.2, height=2.7)
    for column, method in enumerate(("arbitrary", "estimated")):
        s = results.arrays(method=method)
        value = float(results.frame.set_index("method")["log evidence"][method])
        fit, agreement, posterior = axes[column], axes[2 + column], axes[4 + column]
        band(fit, SINC_X, s["mean"], s["sd"])
        fit.plot(SINC_X, s["mean"], "--", color=COLORS[0], label="mean of f, two sds")
        fit.plot(s["x"], s["y"], "k.", label="data")
        pair = {"markersize": 10, "mfc": "none", "mec": COLORS[1]}
        fit.plot(s["x"][s["pair"]], s["y"][s["pair"]], "o", label="$x_i$ and $x_j$", **pair)
        fit.set(xlabel="x", ylabel="y", title=f"{method} values, log evidence {value:.2f}", ylim=(-1.6, 2.0))
        at = s["y"][s["pair"]]
        for k, curve in enumerate(_ellipses(np.zeros(2), s["prior cov"])):
            agreement.plot(*curve, color=COLORS[0], linewidth=1, label="prior" if k == 0 else None)
        for k, curve in enumerate(_ellipses(at, s["noise"][0] * np.eye(2))):
            agreement.plot(*curve, "--", color=COLORS[1], linewidth=1, label="likelihood" if k == 0 else None)
        for curve in _ellipses(s["post mean"], s["post cov"]):
            posterior.plot(*curve, color=COLORS[2], linewidth=1)
        agreement.legend(frameon=False, fontsize=8, loc="upper left")
        posterior.set_title("posterior", fontsize=9)
        agreement.set_title("contours at one, two and three sds", fontsize=9)
        for axis in (agreement, posterior):
            axis.set(xlabel="$f(x_i)$", ylabel="$f(x_j)$", xlim=(-3.2, 3.2), ylim=(-3.2, 3.2))
    axes[1].legend(frameon=False, fontsize=8, loc="upper right")
    return [save(figure, folder / "sinc_evidence.png")]


def _evidence_remark(results: Results) -> list[str]:
    value = results.frame.set_index("method")["log evidence"]
    gain = (value["estimated"] - value["arbitrary"]) / np.log(10)
    return [
        f"Estimated values make the data 10^{gain:.1f} times as probable as the arbitrary ones (the thesis: "
        '"several orders of magnitude").'
    ]


STUDIES = {
    "sample-paths": Study(
        "sample-paths",
        "Covariance functions and sample paths",
        "thesis figure 3.5 (no numbers in print)",
        lambda quick: [Cell({"method": "paths"}, sample_paths, {"seed": 4})],
        measures=tuple(f"rms increment, {name}" for name in FAMILIES["Matern"]),
        draw=draw_paths,
        remarks=lambda results: ["The smoother the covariance at distance zero, the smaller the increments."],
    ),
    "mean-functions": Study(
        "mean-functions",
        "The role of the mean function",
        "thesis figure 3.3 (no numbers in print; data of the same kind: level about 10)",
        lambda quick: [
            Cell({"method": mean}, mean_function, {"mean": mean, "seed": 3}) for mean in ("zero", "constant")
        ],
        measures=("log evidence", "mean far away", "sd far away"),
        draw=draw_means,
        remarks=lambda results: [
            "Away from data the prediction returns to the prior: to zero, or to the level of the data."
        ],
    ),
    "sinc-evidence": Study(
        "sinc-evidence",
        "What the evidence measures: agreement of prior and likelihood",
        "thesis figure 3.2 (no numbers in print)",
        lambda quick: [
            Cell({"method": m}, sinc_evidence, {"method": m, "seed": 1}) for m in ("arbitrary", "estimated")
        ],
        measures=("log evidence",),
        draw=draw_evidence,
        remarks=_evidence_remark,
    ),
}
