"""Carbon dioxide at Mauna Loa (book section 5.4.3): hyperparameters, components, and a forecast that time has judged.

The model is the book's: a long trend, a seasonal cycle that may change its shape over decades, irregularities of a few
years, and noise that remembers a month or two. Nothing is started at the book's values. It learns from the record up to
the end of 2003; what was measured since, to 2026, is held against its forecast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.datasets import load
from cavity.estimators import GPRegressor
from cavity.gp import GP
from cavity.kernels import SE, IntegratedWiener, Kernel, Linear, Matern, Periodic, RationalQuadratic, Seasonal
from cavity.learning import learn
from cavity.likelihoods import Gaussian
from cavity.numerics.arrays import Array
from cavity.parameters.param import fixed
from cavity.studies.base import Cell, Outcome, Published, Results, Study
from cavity.studies.pictures import COLORS, band, new_panels, save

BOOK = {
    "trend: amplitude, ppm": 66.0,
    "trend: length, years": 67.0,
    "season: amplitude, ppm": 2.4,
    "season: decay time, years": 90.0,
    "season: smoothness": 1.3,
    "medium term: amplitude, ppm": 0.66,
    "medium term: length, years": 1.2,
    "medium term: shape": 0.78,
    "correlated noise: amplitude, ppm": 0.18,
    "correlated noise: length, months": 1.6,
    "independent noise: sd, ppm": 0.19,
}
"""Values of the book, in its order theta_1, ..., theta_11."""

BOOK_EVIDENCE = -108.5
COMPONENTS = ("trend", "season", "medium term", "correlated noise")
LEARNED, AT_THE_BOOK, MARKOV = "learned", "at the book's values", "state-space form"
CENTRAL = 1.96


def book_kernel() -> Kernel:
    """The sum of four functions, every value an uninformed 1 but the period of one year."""
    season = SE(1.0) * Periodic(SE(1.0), period=fixed(1.0))
    return 1.0 * SE(1.0) + 1.0 * season + 1.0 * RationalQuadratic(1.0) + 1.0 * SE(1.0)


def at_the_book() -> GP:
    """The model with the book's values."""
    t = np.array(list(BOOK.values()))
    flat = [t[0] ** 2, t[1], t[2] ** 2, t[3], 1.0, t[4], t[5] ** 2, t[6], t[7], t[8] ** 2, t[9] / 12]
    return GP(book_kernel().with_flat(np.array(flat)), Gaussian(t[10] ** 2))


def in_the_books_units(kernel: Any, noise_variance: float) -> Array:
    """theta_1, ..., theta_11: standard deviations instead of variances, the short length in months."""
    trend, season, medium, short = kernel.terms
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
            np.sqrt(noise_variance),
        ]
    )


def markov_model(first: float) -> GP:
    """The same parts as Gaussian Markov processes, from the first time on.

    A line, vague in level and slope, and an integrated Wiener process, whose slope wanders; a season of six harmonics
    that changes; irregularities.
    """
    trend = Linear(fixed(100.0), fixed(1e5))
    season = 6.0 * (Matern(50.0, nu=2.5) * Seasonal(fixed(1.0), 1.3, harmonics=6))
    kernel = trend + 0.01 * IntegratedWiener(first) + season + 0.4 * Matern(1.0, nu=1.5)
    return GP(kernel, Gaussian(0.04), representation="markov").bind(1)


def markov_forecast() -> Outcome:
    """Learn the state-space form from the whole record, and forecast to the end of the data, in O(n)."""
    record, later = load("mauna_loa"), load("mauna_loa_2026")
    start, ppm = float(record.X[0, 0]), np.asarray(record.y, float)
    X, level = record.X - start, ppm.mean()
    posterior = learn(markov_model(-1.0), X, ppm - level, n_restarts=0, data_driven=False).posterior
    since = later.X[:, 0] > record.X[-1, 0]
    new, measured = later.X[since] - start, np.asarray(later.y, float)[since]
    y = posterior.predict_y(new)
    return Outcome(
        {"log evidence": posterior.log_evidence, **_judged(posterior, X[-1, 0], y, measured - level)}
    )


def _judged(posterior: Any, last: float, y: Any, measured: Array) -> dict[str, float]:
    """How the forecast to 2026 did."""
    error, sd = measured - y.mean, np.sqrt(np.asarray(y.variance))
    ahead = posterior.predict_y(np.array([[last + 20.0]]))
    return {
        "width of the central 95 % after 20 years, ppm": 2 * CENTRAL * float(np.sqrt(ahead.variance[0])),
        "forecast: RMSE to 2026, ppm": float(np.sqrt(np.mean(error**2))),
        "forecast: last error, ppm": float(error[-1]),
        "forecast: inside the central 95 %, percent": 100 * float(np.mean(np.abs(error) < CENTRAL * sd)),
    }


def forecast(method: str, restarts: int, rows: int | None = None) -> Outcome:
    """Learn, or take the book's values; then components over the record and the forecast to the end of the data.

    `rows` learns from the last rows of the record alone.
    """
    record, later = load("mauna_loa"), load("mauna_loa_2026")
    first = 0 if rows is None else len(record.y) - rows
    X, ppm = record.X[first:], np.asarray(record.y, float)[first:]
    level = ppm.mean()
    if method == AT_THE_BOOK:
        posterior = at_the_book().condition(X, ppm - level)
    else:
        model = GPRegressor(book_kernel(), mean="zero", n_restarts=restarts, random_state=0)
        posterior = model.fit(X, ppm - level).posterior_
    gp: Any = posterior.model
    values = in_the_books_units(gp.kernel, float(gp.likelihood.flat[0]))
    since = later.X[:, 0] > X[-1, 0]
    new, measured = later.X[since], np.asarray(later.y, float)[since]
    y = posterior.predict_y(new)
    mean, sd = y.mean + level, np.sqrt(np.asarray(y.variance))
    found = {
        "log evidence": posterior.log_evidence,
        **({} if method == AT_THE_BOOK else dict(zip(BOOK, values))),
        **_judged(posterior, X[-1, 0], y, measured - level),
    }
    arrays = {"x": X[:, 0], "y": ppm, "new": new[:, 0], "measured": measured, "mean": mean, "sd": sd}
    grid = np.linspace(X[0, 0], X[-1, 0], 2800)[:, None]
    arrays["grid"] = grid[:, 0]
    for name, part in zip(COMPONENTS, gp.kernel.terms):
        arrays[name] = posterior.process.component_mean(part, grid)
        arrays[f"{name} sd"] = np.sqrt(posterior.process.component_variance(part, grid))
    arrays["residual"] = ppm - level - posterior.mean(X)
    arrays["level"] = np.array([level])
    return Outcome(found, arrays)


def remarks(results: Results) -> list[str]:
    """Forecast against measurements, amplitude of the season, distance of learned values from the book's."""
    frame = results.frame.set_index("method")
    out = []
    for method in frame.index:
        row, s = frame.loc[method], results.arrays(method=str(method))
        out.append(
            f"{method}: forecast to 2026.5, RMSE {row['forecast: RMSE to 2026, ppm']:.1f} ppm, last month "
            f"{row['forecast: last error, ppm']:+.1f} ppm; "
            f"{row['forecast: inside the central 95 %, percent']:.0f} % of months within the central 95 %; width after "
            f"20 years {row['width of the central 95 % after 20 years, ppm']:.1f} ppm (book: about 16)."
        )
        if not s:
            continue
        first, last = s["grid"] < s["grid"][0] + 1, s["grid"] > s["grid"][-1] - 1
        out.append(
            f"{method}: seasonal cycle {np.ptp(s['season'][first]):.1f} ppm peak to peak in the first year and "
            f"{np.ptp(s['season'][last]):.1f} in the last (book: 5.5 and 7)."
        )
    out.append(
        "Components are known less well than their sum: a constant moved from the season to the trend changes nothing, "
        "and the bands (two sds) of both include it."
    )
    if LEARNED in frame.index and not results.quick:
        learned = frame.loc[LEARNED, list(BOOK)].to_dict()
        ratio = {name: float(learned[name]) / value for name, value in BOOK.items()}
        worst = max(ratio, key=lambda name: abs(np.log(ratio[name])))
        out.append(
            f"Learned values are within {100 * abs(np.exp(abs(np.log(ratio[worst]))) - 1):.0f} % of the book's two "
            f"digits (farthest: {worst})."
        )
    return out


def draw(results: Results, folder: Path) -> list[Path]:
    """The forecast, and the components over the record."""
    method = LEARNED if not results.quick else AT_THE_BOOK
    s = results.arrays(method=method)
    return [_forecast_picture(s, folder / "forecast.png"), _components_picture(s, folder / "components.png")]


def _forecast_picture(s: dict[str, NDArray[Any]], path: Path) -> Path:
    figure, (top, bottom) = new_panels(2, 1, width=7.6, height=2.7)
    top.plot(s["x"], s["y"], color="0.3", linewidth=0.7, label="learned from")
    band(top, s["new"], s["mean"], s["sd"], CENTRAL, label="forecast, 95 %")
    top.plot(s["new"], s["measured"], color=COLORS[1], linewidth=0.8, label="measured since")
    top.set(
        xlabel="year",
        ylabel="CO$_2$, ppm",
        title="Carbon dioxide at Mauna Loa, forecast from the end of 2003",
    )
    top.legend(frameon=False, loc="upper left")
    band(bottom, s["new"], np.zeros(len(s["sd"])), s["sd"], CENTRAL)
    bottom.axhline(0.0, color=COLORS[0], linewidth=0.8)
    bottom.plot(s["new"], s["measured"] - s["mean"], color=COLORS[1], linewidth=1)
    bottom.set(xlabel="year", ylabel="measured minus forecast, ppm")
    return save(figure, path)


def _components_picture(s: dict[str, NDArray[Any]], path: Path) -> Path:
    figure, axes = new_panels(3, 2, width=4.4, height=2.2)
    for axis, name in zip(axes, COMPONENTS):
        mean, sd = s[name], s[f"{name} sd"]
        if name == "trend":
            mean = mean + s["level"][0]
        band(axis, s["grid"], mean, sd)
        axis.plot(s["grid"], mean, color=COLORS[0], linewidth=0.8, label="mean, two sds")
        axis.set(title=name, xlabel="year", ylabel="ppm")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    axes[4].plot(s["x"], s["residual"], ".", color="0.3", markersize=2)
    axes[4].set(title="what is left: independent noise", xlabel="year", ylabel="ppm")
    for place, line in zip((0.0, 0.5, 1.0), (":", "--", "-")):
        start = np.floor(s["grid"][0] + 1 + place * (s["grid"][-1] - s["grid"][0] - 3))
        inside = (s["grid"] >= start) & (s["grid"] <= start + 1)
        axes[5].plot(
            12 * (s["grid"][inside] - start), s["season"][inside], line, color="0.2", label=f"{start:.0f}"
        )
    axes[5].set(title="the seasonal cycle has grown", xlabel="month", ylabel="ppm", xlim=(0, 12))
    axes[5].set_xticks(np.arange(12) + 0.5, list("JFMAMJJASOND"))
    axes[5].legend(frameon=False, fontsize=8)
    return save(figure, path)


def cells(quick: bool) -> list[Cell]:
    """The quick version learns from the last ten years; the book's values see the whole record in both."""
    if quick:
        learned = Cell(
            {"method": "learned from 1994 on"}, forecast, {"method": LEARNED, "restarts": 0, "rows": 120}
        )
    else:
        learned = Cell({"method": LEARNED}, forecast, {"method": LEARNED, "restarts": 1})
    book = Cell({"method": AT_THE_BOOK}, forecast, {"method": AT_THE_BOOK, "restarts": 0})
    return [learned, book, Cell({"method": MARKOV}, markov_forecast)]


STUDY = Study(
    "mauna-loa",
    "Carbon dioxide at Mauna Loa: hyperparameters, components, forecast",
    "book section 5.4.3",
    cells,
    measures=(
        "log evidence",
        *BOOK,
        "width of the central 95 % after 20 years, ppm",
        "forecast: RMSE to 2026, ppm",
        "forecast: last error, ppm",
        "forecast: inside the central 95 %, percent",
    ),
    published=tuple(
        Published({"method": m}, name, value)
        for m in (LEARNED, AT_THE_BOOK)
        for name, value in {
            "log evidence": BOOK_EVIDENCE,
            **BOOK,
            "width of the central 95 % after 20 years, ppm": 16.0,
        }.items()
    ),
    draw=draw,
    remarks=remarks,
    quick_note="Learning sees ten years of forty-five; pictures are of the model at the book's values.",
)
