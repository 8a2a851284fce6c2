"""Two arcs between flat ends (thesis figures 5.3 to 5.12): a posterior of several modes, and what methods make of it.

Either arc may be the function and the other one the outliers. Under mixture and Student-t noise the posterior therefore
has a mode on each arc: Markov chains visit both, EP covers both by one broad Gaussian, the variational approximation
settles on one, and where it started decides which. Laplace noise is log-concave and has one mode, between the arcs.
Kernel and noise are held fixed, so that panels differ in noise model and method alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.datasets import make_two_arcs
from cavity.gp import GP
from cavity.inference.variational.base import BestBound
from cavity.kernels import SE
from cavity.latent.sites import Sites
from cavity.likelihoods import Laplace, Likelihood, MixtureOfGaussians, StudentT
from cavity.numerics.arrays import Array
from cavity.sampling.outlier_conditionals import noise_variances
from cavity.sampling.outlier_gibbs import gibbs
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.pictures import COLORS, band, new_panels, save

GRID = np.linspace(-5.5, 5.5, 221)
CENTER = int(np.argmin(np.abs(GRID)))
SHOWN = 30

MIXTURE = MixtureOfGaussians(0.5, 0.1, outlier_scale=1.0)
NOISE: dict[str, Likelihood] = {"mixture": MIXTURE, "Laplace": Laplace(0.3), "Student-t": StudentT(0.2, 2.0)}
CASES: dict[str, tuple[str, str, int | None]] = {
    "mixture, EP": ("mixture", "ep", None),
    "Laplace noise, EP": ("Laplace", "ep", None),
    "Student-t, variational, from above": ("Student-t", "variational", 1),
    "Student-t, variational, from below": ("Student-t", "variational", -1),
}
SAMPLED = "mixture, MCMC"


def model_with(noise: Likelihood, rule: str = "exact") -> GP:
    """The kernel of all panels with some noise."""
    return GP(1.0 * SE(1.5), noise, inference=rule)


def start_on(arc: int, which: NDArray[Any], y: Array) -> BestBound:
    """What a variational rule would remember of a fit that trusts one arc and the ends, and not the other arc."""
    precision = np.where(which == -arc, 1e-3, 10.0)
    return BestBound(-np.inf, Sites(precision * y, precision))


def approximate(method: str, seed: int) -> Outcome:
    """One noise model and approximation."""
    noise, rule, arc = CASES[method]
    data = make_two_arcs(rng=seed)
    warm = None if arc is None else start_on(arc, data.extra["arc"], data.y)
    posterior = model_with(NOISE[noise], rule).condition(data.X, data.y, warm=warm)
    f = posterior.predict_f(GRID[:, None])
    found = {
        "log evidence": posterior.log_evidence,
        "mean at 0": f.mean[CENTER],
        "sd at 0": f.sd[CENTER],
        "converged": float(posterior.status.converged),
    }
    arrays = {"x": data.X[:, 0], "y": data.y, "mean": f.mean, "sd": f.sd}
    return Outcome(found, arrays, posterior.status.label)


def sampled(seed: int, draws: int) -> Outcome:
    """Indicators by Gibbs sampling, then functions given indicators; hyperparameters as in the other panels."""
    data = make_two_arcs(rng=seed)
    y = np.asarray(data.y, dtype=float)
    rng = np.random.default_rng(seed)
    model = model_with(MIXTURE)
    drawn = gibbs(
        model,
        data.X,
        y,
        n_draws=draws,
        warmup=draws // 4,
        chains=8,
        rng=rng,
        hyperparameters=False,
        progress=False,
    )
    assert drawn.indicators is not None
    indicators = drawn.indicators.reshape(-1, len(y))
    few = indicators[np.linspace(0, len(indicators) - 1, SHOWN).astype(int)]
    paths = np.array([rng.multivariate_normal(*given(model, data.X, y, c, GRID), method="eigh") for c in few])
    middle = _at_zero(model, data.X, y, indicators, rng)
    by_chain = drawn.indicators[:, :, data.extra["arc"] == 1].mean(axis=(1, 2))
    found = {
        "mean at 0": middle.mean(),
        "sd at 0": middle.std(),
        "share above 1/2 at 0": np.mean(middle > 0.5),
        "share below -1/2 at 0": np.mean(middle < -0.5),
    }
    note = "share of outliers on the upper arc by chain: " + ", ".join(f"{v:.2f}" for v in by_chain)
    return Outcome(found, {"x": data.X[:, 0], "y": y, "paths": paths, "at 0": middle}, note)


def given(model: GP, X: Array, y: Array, indicators: NDArray[np.bool_], at: Array) -> tuple[Array, Array]:
    """Mean and covariance of f given which points are outliers: Gaussian noise of known variances."""
    noisy = model.kernel(X) + np.diag(noise_variances(MIXTURE, indicators))
    cross = model.kernel(X, at[:, None])
    solved = np.linalg.solve(noisy, np.column_stack([y, cross]))
    covariance = model.kernel(at[:, None]) - cross.T @ solved[:, 1:]
    return cross.T @ solved[:, 0], covariance


def _at_zero(model: GP, X: Array, y: Array, indicators: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """A draw of f(0) for each draw of the indicators."""
    kinds, which = np.unique(indicators, axis=0, return_inverse=True)
    moments = [given(model, X, y, c, np.zeros(1)) for c in kinds]
    mean, variance = np.array([m[0] for m, _ in moments]), np.array([v[0, 0] for _, v in moments])
    which = which.ravel()
    return np.asarray(mean[which] + np.sqrt(variance[which]) * rng.standard_normal(len(which)))


def cells(quick: bool) -> list[Cell]:
    """All approximations and the chains."""
    out = [Cell({"method": m}, approximate, {"method": m, "seed": 0}) for m in CASES]
    return [Cell({"method": SAMPLED}, sampled, {"seed": 0, "draws": 500 if quick else 5000}), *out]


def remarks(results: Results) -> list[str]:
    """What the figures of the thesis claim, in numbers."""
    frame = results.frame.set_index("method")
    mcmc, ep = frame.loc[SAMPLED], frame.loc["mixture, EP"]
    up, down = (frame.loc[f"Student-t, variational, from {side}"] for side in ("above", "below"))
    laplace = frame.loc["Laplace noise, EP"]
    return [
        f"MCMC is on either arc at x = 0: {100 * mcmc['share above 1/2 at 0']:.0f} % of functions above 1/2 and "
        f"{100 * mcmc['share below -1/2 at 0']:.0f} % below -1/2; indicators change one at a time, so chains change "
        f"arcs rarely ({mcmc['note']}).",
        f"EP covers both arcs: mean {ep['mean at 0']:+.2f} and sd {ep['sd at 0']:.2f} at x = 0, where samples have "
        f"{mcmc['mean at 0']:+.2f} and {mcmc['sd at 0']:.2f}.",
        f"The variational approximation stays where it started: {up['mean at 0']:+.2f} (sd {up['sd at 0']:.2f}) from "
        f"above, {down['mean at 0']:+.2f} (sd {down['sd at 0']:.2f}) from below.",
        f"Laplace noise has one mode, between the arcs: mean {laplace['mean at 0']:+.2f}, sd {laplace['sd at 0']:.2f}.",
    ]


def draw(results: Results, folder: Path) -> list[Path]:
    """Sampled functions, their histogram at x = 0, and one panel for each approximation."""
    figure, axes = new_panels(2, 3, width=3.7, height=2.8)
    stored = results.arrays(method=SAMPLED)
    axes[0].plot(GRID, stored["paths"].T, color=COLORS[0], linewidth=0.5, alpha=0.6)
    axes[0].set(title=f"{SAMPLED}: {len(stored['paths'])} functions")
    ep = results.arrays(method="mixture, EP")
    bins = np.linspace(-2, 2, 41)
    axes[1].hist(stored["at 0"], bins=bins, density=True, color=COLORS[0], alpha=0.6, label="samples")
    mean, sd = ep["mean"][CENTER], ep["sd"][CENTER]
    fine = np.linspace(-2, 2, 200)
    normal = np.exp(-0.5 * ((fine - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    axes[1].plot(fine, normal, "--", color=COLORS[1], label="EP")
    axes[1].set(title="mixture noise: f(0)", xlabel="f(0)", ylabel="density")
    axes[1].legend(frameon=False, fontsize=8)
    for axis, method in zip(axes[2:], CASES):
        s = results.arrays(method=method)
        band(axis, GRID, s["mean"], s["sd"])
        axis.plot(GRID, s["mean"], color=COLORS[0], label="mean of f, two sds")
        axis.set(title=method)
    axes[2].legend(frameon=False, fontsize=8, loc="lower center")
    for axis in (axes[0], *axes[2:]):
        axis.plot(stored["x"], stored["y"], "k.", markersize=4)
        axis.set(xlabel="x", ylabel="y", ylim=(-2, 2))
    return [save(figure, folder / "two_arcs.png")]


STUDY = Study(
    "two-arcs",
    "Two arcs: a posterior of several modes",
    "thesis figures 5.3, 5.5, 5.9 and 5.12 (no numbers in print; points after their description)",
    cells,
    measures=(
        "log evidence",
        "mean at 0",
        "sd at 0",
        "share above 1/2 at 0",
        "share below -1/2 at 0",
        "converged",
    ),
    draw=draw,
    remarks=remarks,
    quick_note="Short chains.",
)
