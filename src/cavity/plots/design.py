"""Pictures of a study: how it converges, slices through the recommendation, where the optimum may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.design.acquisition import joint_draws, log_expected_improvement
from cavity.design.space import Categorical
from cavity.numerics.arrays import Array
from cavity.plots.style import (
    BAND,
    DATA,
    OUTLIER,
    PALETTE,
    TRUTH,
    axes_or_new,
    label,
    legend,
    panels_or_new,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cavity.design.suggestion import Study

POINTS = 201
"""Along a slice."""

DRAWS, PLACES = 400, 600
"""Joint draws, and points at which they are taken, to see where the optimum may be."""


def _modeled(study: Study) -> None:
    if study.best is None:
        raise ValueError(
            "there is nothing to draw yet: the study has no model, or no setting meets its limits"
        )


def log_scale(axis: Axes) -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(numticks=5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def plot_convergence(study: Study, *, ax: Axes | None = None) -> Axes:
    """Outcomes in the order of the trials, the best so far, and what the model says of the best and of the gap.

    Failed trials are crosses on the axis; doubtful outcomes are diamonds.

    Examples
    --------
    >>> from cavity.design import minimize
    >>> from cavity.plots import plot_convergence
    >>> result = minimize(lambda x: (x[0] - 0.3) ** 2, [(0.0, 1.0)], n_calls=9)
    >>> axes = plot_convergence(result.study)
    """
    _modeled(study)
    axis = axes_or_new(ax, 7.6, 3.6)
    draw_convergence(axis, study)
    legend(axis, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axis


def draw_convergence(axis: Axes, study: Study, ink: str = DATA) -> None:
    """The picture of `plot_convergence` without its legend."""
    number = np.array([trial.id for trial in study.done])
    doubtful = np.array([trial.id in study.doubtful for trial in study.done])
    axis.plot(number[~doubtful], study.y[~doubtful], "o", color=ink, markersize=4, label="outcomes")
    if doubtful.any():
        axis.plot(number[doubtful], study.y[doubtful], "D", color=OUTLIER, markersize=5, label="doubtful")
    sign = study.options.sign
    good = np.where(doubtful, np.inf, sign * study.y)
    best_so_far = sign * np.minimum.accumulate(good)
    axis.step(number, best_so_far, where="post", color=TRUTH, linestyle="--", label="best so far")
    if study.failed:
        places = [trial.id for trial in study.failed]
        bottom = axis.get_xaxis_transform()
        axis.plot(places, np.full(len(places), 0.02), "x", color=OUTLIER, transform=bottom, label="failed")
    best = study.recommendation
    assert best is not None
    axis.axhspan(best.mean - 2 * best.sd, best.mean + 2 * best.sd, color=BAND, alpha=0.25, lw=0)
    axis.axhline(best.mean, color=BAND, label="recommended, ±2 sd")
    axis.axhline(best.mean - sign * study.gap, color=BAND, linestyle=":", label="hardly better than")
    label(axis, "trial", "outcome", "")


def plot_study_slices(study: Study, *, ax: Axes | Iterable[Axes] | None = None) -> list[Axes]:
    """For each input, the posterior along a line through the recommendation, with expected improvement below.

    Other inputs are held at the recommendation. Pending trials are dashed vertical lines.

    Examples
    --------
    >>> from cavity.design import minimize
    >>> from cavity.plots import plot_study_slices
    >>> result = minimize(lambda x: (x[0] - 0.3) ** 2 + x[1], [(0.0, 1.0)] * 2, n_calls=9)
    >>> len(plot_study_slices(result.study))
    2
    """
    _modeled(study)
    panels = panels_or_new(ax, study.space.n, columns=min(3, study.space.n), width=3.6, height=3.0)
    for i, axis in enumerate(panels):
        draw_slice(axis, study, i, outcome="outcome" if i == 0 else "")
    return panels


def draw_slice(axis: Axes, study: Study, i: int, ink: str = TRUTH, outcome: str = "outcome") -> None:
    """The posterior along input i through the recommendation, with expected improvement below."""
    space, fit = study.space, study.fit
    assert study.recommended is not None
    assert study.best is not None
    center, incumbent = study.X[study.recommended], float(fit.at_data[0][study.best])
    name = space.names[i]
    one, grid = space.inputs[name], space.grids[i]
    u = np.linspace(0.0, space.high[i], POINTS) if grid is None else grid
    line = np.repeat(center[None], len(u), axis=0)
    line[:, i] = u
    mean, variance = fit.moments(line)
    told = [study.in_units(float(m), float(s)) for m, s in zip(mean[:, 0], np.sqrt(variance))]
    m, s = np.array(told).T
    improvement = np.exp(log_expected_improvement(mean[:, 0], variance, incumbent).value)
    if isinstance(one, Categorical):
        places: Any = np.arange(len(u))
        axis.errorbar(places, m, 2 * s, fmt="s", color=BAND, capsize=3)
        axis.set_xticks(places, [plain(c, 12) for c in one.choices])
    else:
        places = np.array([one.from_unit(float(v)) for v in u])
        axis.fill_between(places, m - 2 * s, m + 2 * s, color=BAND, alpha=0.22, lw=0)
        axis.plot(places, m, color=BAND)
        if one.log:
            log_scale(axis)
    low, high = axis.get_ylim()
    height = high - low
    axis.set_ylim(low - 0.28 * height, high)
    top = float(improvement.max())
    if top > 0:
        base, bars = low - 0.27 * height, 0.2 * height * improvement / top
        if isinstance(one, Categorical):
            axis.bar(places, bars, bottom=base, width=0.4, color=PALETTE[2], alpha=0.5)
        else:
            axis.fill_between(places, base, base + bars, color=PALETTE[2], alpha=0.5, lw=0)
    best = study.recommendation
    assert best is not None
    for trial in study.pending:
        value = trial.x[name]
        at = one.choices.index(value) if isinstance(one, Categorical) else value
        axis.axvline(at, color=ink, linestyle="--", linewidth=0.8)
    here = one.choices.index(best.x[name]) if isinstance(one, Categorical) else best.x[name]
    axis.plot([here], [best.mean], "*", color=OUTLIER, markersize=11, zorder=5)
    label(axis, plain(name), outcome, "")


def plot_optimum(study: Study, *, rng: int = 0, ax: Axes | Iterable[Axes] | None = None) -> list[Axes]:
    """Where the optimum may be, for each input: places of the optima of functions drawn from the posterior.

    Examples
    --------
    >>> from cavity.design import minimize
    >>> from cavity.plots import plot_optimum
    >>> result = minimize(lambda x: (x[0] - 0.3) ** 2, [(0.0, 1.0)], n_calls=9)
    >>> len(plot_optimum(result.study))
    1
    """
    _modeled(study)
    places = places_of_optimum(study, rng)
    panels = panels_or_new(ax, study.space.n, columns=min(3, study.space.n), width=3.2, height=2.4)
    for i, axis in enumerate(panels):
        draw_optimum(axis, study, places, i, "probability" if i == 0 else "")
    return panels


def places_of_optimum(study: Study, rng: int = 0) -> Array:
    """Points (draws, D) of the cube at which functions drawn from the posterior are best."""
    space, generator = study.space, np.random.default_rng(rng)
    wide = space.sobol(PLACES // 2, generator)
    near = study.centers()[generator.integers(len(study.centers()), size=PLACES // 2)]
    near = space.rounded(near + 0.1 * generator.standard_normal(near.shape) * ~space.categorical)
    points = np.vstack([wide, near, study.X])
    return np.asarray(points[np.argmin(joint_draws(study.fit.moments, points, DRAWS, generator), axis=1)])


def draw_optimum(axis: Axes, study: Study, places: Array, i: int, share: str = "probability") -> None:
    """A histogram of places along input i."""
    name = study.space.names[i]
    one = study.space.inputs[name]
    if isinstance(one, Categorical):
        counts = np.bincount(places[:, i].astype(int), minlength=len(one.choices)) / len(places)
        axis.bar(np.arange(len(counts)), counts, color=BAND, alpha=0.6)
        axis.set_xticks(np.arange(len(counts)), [plain(c, 12) for c in one.choices])
    else:
        edges = np.array([one.from_unit(e) for e in np.linspace(0.0, 1.0, 21)], dtype=float)
        values = np.array([one.from_unit(float(u)) for u in places[:, i]], dtype=float)
        weights = np.full(len(values), 1.0 / len(values))
        axis.hist(values, np.unique(edges).tolist(), weights=weights, color=BAND, alpha=0.6)
        if one.log:
            log_scale(axis)
    label(axis, plain(name), share, "")
