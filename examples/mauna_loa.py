"""Carbon dioxide at Mauna Loa: learn eleven hyperparameters from scratch, forecast twenty years, look back.

Run `CAVITY_DATA=folder python examples/mauna_loa.py [picture.png]`. The model is that of Rasmussen and Williams
(2006, section 5.4.3): a long trend, a seasonal cycle that may change its shape over decades, irregularities of a
few years, and noise that remembers a month or two. It sees the record up to the end of 2003; the picture holds
its forecast against what was measured since. Nothing is started at the book's values.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from cavity import GPRegressor, datasets, fixed
from cavity.kernels import SE, Kernel, Periodic, RationalQuadratic

BOOK = {
    "trend: amplitude [ppm]": 66.0,
    "trend: length [years]": 67.0,
    "season: amplitude [ppm]": 2.4,
    "season: decay time [years]": 90.0,
    "season: smoothness": 1.3,
    "medium term: amplitude [ppm]": 0.66,
    "medium term: length [years]": 1.2,
    "medium term: shape": 0.78,
    "correlated noise: amplitude [ppm]": 0.18,
    "correlated noise: length [months]": 1.6,
    "independent noise: sd [ppm]": 0.19,
}
"""Values of the book, in its order theta_1, ..., theta_11."""

BOOK_EVIDENCE = -108.5
HORIZON = 2024.0

RECORD, LATER, FORECAST = "#444444", "#D55E00", "#0072B2"  # distinguishable also without color vision


def book_kernel() -> Kernel:
    """The sum of four functions, every value an uninformed 1 but the period of one year."""
    season = SE(1.0) * Periodic(SE(1.0), period=fixed(1.0))
    return 1.0 * SE(1.0) + 1.0 * season + 1.0 * RationalQuadratic(1.0) + 1.0 * SE(1.0)


def learn(years: np.ndarray, ppm: np.ndarray, n_restarts: int = 1, seed: int = 0) -> GPRegressor:
    """The model learned from the data alone (their mean removed beforehand, as in the book)."""
    model = GPRegressor(book_kernel(), mean="zero", n_restarts=n_restarts, random_state=seed)
    return model.fit(years, ppm - ppm.mean())


def in_the_books_units(model: GPRegressor) -> np.ndarray:
    """theta_1, ..., theta_11: standard deviations instead of variances, the short length in months."""
    trend, season, medium, short = model.kernel_.terms
    decay, cycle = season.kernel.terms
    return np.array(
        [
            np.sqrt(trend.variance),
            trend.kernel.lengthscale,
            np.sqrt(season.variance),
            decay.lengthscale,
            cycle.kernel.lengthscale,
            np.sqrt(medium.variance),
            medium.kernel.lengthscale,
            medium.kernel.alpha,
            np.sqrt(short.variance),
            12 * short.kernel.lengthscale,
            np.sqrt(model.likelihood_.variance),
        ]
    )


def table(model: GPRegressor) -> str:
    """Learned values beside those of the book."""
    lines = [f"{'':36}{'learned':>10}{'book':>10}"]
    for (name, book), value in zip(BOOK.items(), in_the_books_units(model)):
        lines.append(f"{name:36}{value:10.3g}{book:10.3g}")
    lines.append(f"{'log evidence [nats]':36}{model.log_evidence_:10.2f}{BOOK_EVIDENCE:10.1f}")
    return "\n".join(lines)


def draw(model: GPRegressor, years: np.ndarray, ppm: np.ndarray, later: Any, path: str) -> None:
    """The forecast against the record, the difference of the two, and the seasonal cycle of three years."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    level, end = ppm.mean(), years[-1, 0]
    since = later.X[:, 0] > end
    seen_x, seen_y = later.X[since, 0], later.y[since]

    figure = plt.figure(figsize=(11, 8), constrained_layout=True)
    top, left, right = figure.subplot_mosaic([["record", "record"], ["error", "season"]]).values()

    grid = np.arange(end, HORIZON, 1 / 24)[:, None]
    mean, sd = model.predict(grid, return_std=True)
    band = {"color": FORECAST, "alpha": 0.25, "linewidth": 0}
    top.plot(years, ppm, color=RECORD, linewidth=0.8, label="monthly means learned from, 1958 to 2003")
    top.fill_between(
        grid[:, 0], level + mean - 1.96 * sd, level + mean + 1.96 * sd, label="forecast, central 95 %", **band
    )
    top.plot(grid, level + mean, color=FORECAST, linewidth=0.8, label="forecast, mean")
    top.plot(seen_x, seen_y, color=LATER, linewidth=0.8, label="monthly means measured since")
    top.axvline(end, color=RECORD, linewidth=0.6, linestyle=":")
    top.set(xlabel="year", ylabel="CO$_2$ [ppm]", xlim=(1957, 2027.5))
    top.set_title("Carbon dioxide at Mauna Loa and a forecast made at the end of 2003", loc="left")
    top.legend(loc="upper left", frameon=False)

    inside = seen_x <= HORIZON
    mean, sd = model.predict(seen_x[inside, None], return_std=True)
    left.fill_between(seen_x[inside], -1.96 * sd, 1.96 * sd, **band)
    left.axhline(0.0, color=FORECAST, linewidth=0.8)
    left.plot(seen_x[inside], seen_y[inside] - level - mean, color=LATER, linewidth=1.0)
    left.set(xlabel="year", ylabel="measured minus forecast [ppm]", xlim=(end, HORIZON))
    left.set_xticks(np.arange(2005, HORIZON, 5))
    left.set_title("The rise was faster than the past foretold", loc="left")

    season = model.kernel_.terms[1]
    months = np.linspace(0.0, 1.0, 145)
    for year, style in ((1960, ":"), (1980, "--"), (2000, "-")):
        cycle = model.posterior_.process.component_mean(season, (year + months)[:, None])
        right.plot(12 * months, cycle, color=RECORD, linestyle=style, label=str(year))
    right.set(xlabel="month", ylabel="seasonal part [ppm]", xlim=(0, 12))
    right.set_xticks(np.arange(12) + 0.5, list("JFMAMJJASOND"))
    right.tick_params(axis="x", length=0)
    right.set_title("The seasonal cycle has grown", loc="left")
    right.legend(frameon=False)

    for axes in (top, left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main(path: str = "mauna_loa.png") -> None:
    record, later = datasets.load("mauna_loa"), datasets.load("mauna_loa_2026")
    model = learn(record.X, record.y)
    print(table(model))
    width = 2 * 1.96 * model.predict([[record.X[-1, 0] + 20]], return_std=True)[1][0]
    print(f"The central 95 % of the forecast 20 years ahead is {width:.1f} ppm wide (book: 16 ppm).")
    values = ", ".join(f"{run.value:.1f} ({run.kind})" for run in model.runs_)
    print(f"Log evidence at the end of each run: {values}.")
    draw(model, record.X, record.y, later, path)
    print(f"Picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
