"""Regimes in the growth of carbon dioxide: a hidden Markov model of yearly increments at Mauna Loa.

Run with the path of the picture to write:  python examples/regimes_hmm.py regimes.png
The data set `mauna_loa_2026` is found by `cavity.datasets` (set CAVITY_DATA to a folder that holds it).
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from cavity.datasets import load
from cavity.em import HMM

COLORS = ["#56b4e9", "#e69f00", "#d55e00", "#8b1a1a"]


def yearly_increments() -> tuple[np.ndarray, np.ndarray]:
    """Growth of the twelve-month mean from one year to the next (ppm), and the years."""
    data = load("mauna_loa_2026")
    when, level = np.asarray(data.X)[:, 0], np.asarray(data.y)
    years = np.arange(int(np.ceil(when[0])), int(when[-1]))
    means = np.array([level[(when >= year) & (when < year + 1)].mean() for year in years])
    return years[1:], np.diff(means)


def main(path: str) -> None:
    years, growth = yearly_increments()
    model = HMM(range(1, 5), n_init=6, random_state=0, transmat_prior=1.5).fit(growth[:, None])
    gamma = model.predict_proba(growth[:, None])
    ahead = model.predict_next(growth[:, None])
    means, sd = model.means_[:, 0], np.sqrt(model.covars_[:, 0, 0])
    print("BIC by number of states:", {c.n: round(c.bic, 1) for c in model.selection_})
    for k in range(model.n_states_):
        stay = model.transmat_[k, k]
        print(f"  state {k}: {means[k]:.2f} ± {sd[k]:.2f} ppm a year, stays {1 / (1 - stay):.0f} years")
    print(f"next year: {ahead.mean[0, 0]:.2f} ± {np.sqrt(ahead.covariance[0, 0, 0]):.2f} ppm")

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, height_ratios=[2.2, 1])
    smooth = model.smooth(growth[:, None])[:, 0]
    spread = np.sqrt(gamma @ (sd**2 + means**2) - (gamma @ means) ** 2)
    top.fill_between(
        years,
        smooth - spread,
        smooth + spread,
        color="#dddddd",
        label="mean ± standard deviation of the state",
    )
    top.plot(years, smooth, color="#555555", lw=1.5)
    states = model.predict(growth[:, None])
    top.scatter(years, growth, c=[COLORS[s] for s in states], s=26, zorder=3)
    top.errorbar(
        years[-1] + 1,
        ahead.mean[0, 0],
        np.sqrt(ahead.covariance[0, 0, 0]),
        fmt="D",
        color="black",
        ms=5,
        capsize=3,
    )
    top.annotate("forecast", (years[-1] + 1, ahead.mean[0, 0]), xytext=(-46, -56), textcoords="offset points")
    top.set(ylabel="growth (ppm per year)")
    top.set_title(
        "Regimes of carbon dioxide growth at Mauna Loa; colors are the most probable states", fontsize=10
    )
    top.legend(frameon=False, loc="upper left")
    bottom.stackplot(years, gamma.T, colors=COLORS[: model.n_states_])
    bottom.set(ylabel="P(state | all data)", ylim=(0, 1), xlabel="year", xlim=(years[0] - 1, years[-1] + 2))
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "regimes_hmm.png")
