"""The pictures of `cavity.plots` on one page: docs/plots.png.

python examples/plot_gallery.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from cavity import GPClassifier, GPRegressor, plots
from cavity.datasets import make_neal


def housing(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Rents that depend on area and age, on distance and noise together, and not on the number of the house."""
    X = pd.DataFrame(
        {
            "area [m2]": rng.uniform(20, 120, n),
            "age [years]": rng.uniform(0, 100, n),
            "distance [km]": rng.uniform(0, 15, n),
            "number": rng.integers(1, 200, n).astype(float),
        }
    )
    area, age, distance = (X.iloc[:, d].to_numpy() for d in range(3))
    y = 250 + 9 * area - 3.5 * age + 0.035 * age**2 + 300 * np.exp(-0.25 * distance) * area / 70
    return X, y + 25 * rng.standard_normal(n)


def main(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    figure = plt.figure(figsize=(15, 19), layout="constrained")
    cells = figure.add_gridspec(5, 3)

    def cell(row: int, column: int | slice) -> plt.Axes:
        return figure.add_subplot(cells[row, column])

    data = make_neal(60, rng=0)
    robust = GPRegressor(likelihood="student-t", random_state=0).fit(data.X, data.y)
    plots.plot_fit(robust, of="both", title="plot_fit", ax=cell(0, 0))

    X = rng.standard_normal((150, 2))
    labels = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.standard_normal(150) > 0.7, "blue", "red")
    classifier = GPClassifier(random_state=0).fit(X, labels)
    plots.plot_contours(classifier, reject=0.2, title="plot_contours", ax=cell(0, 1))
    X_new = rng.standard_normal((600, 2))
    new = np.where(X_new[:, 0] ** 2 + X_new[:, 1] + 0.5 * rng.standard_normal(600) > 0.7, "blue", "red")
    plots.plot_calibration(classifier, X_new, new, title="plot_calibration (classes)", ax=cell(0, 2))

    rooms, rent = housing(120, rng)
    regressor = GPRegressor(random_state=0).fit(rooms, rent)
    plots.plot_slices(regressor, columns=[0, 1, 2], ylabel="rent", ax=cell(1, slice(0, 3)))
    plots.plot_relevance(regressor, title="plot_relevance", ax=cell(2, 0))
    plots.plot_contours(
        regressor, columns=("area [m2]", "distance [km]"), title="plot_contours (numbers)", ax=cell(2, 1)
    )
    more, more_rent = housing(300, rng)
    plots.plot_calibration(regressor, more, more_rent, title="plot_calibration", ax=cell(2, 2))

    own = np.random.default_rng(2)  # few data, which two explanations fit: much noise, or a fast function
    x = np.sort(own.uniform(0, 10, 9))[:, None]
    y = np.sin(1.3 * x[:, 0]) + 0.5 * own.standard_normal(9)
    few = GPRegressor("1.0 * SE(1.0)", mean="zero", n_restarts=7, random_state=1).fit(x, y)
    plots.plot_runs(few, title="plot_runs", ax=cell(3, 0))
    pair = ("se.lengthscale", "gaussian.variance")
    plots.plot_hyperparameters(few, pair=pair, title="plot_hyperparameters", ax=cell(3, 1))
    plots.plot_residuals(regressor, ax=cell(3, 2))

    t = np.linspace(0, 10, 80)[:, None]
    season = np.sin(2 * np.pi * t[:, 0] / 1.5) + 0.06 * (t[:, 0] - 3) ** 2 + 0.15 * rng.standard_normal(80)
    seasonal = GPRegressor(
        "1.0 * SE(3.0) + 1.0 * Periodic(SE(1.0), period=1.5)", mean="zero", random_state=0
    ).fit(t, season)
    plots.plot_components(seasonal, ax=cell(4, slice(0, 2)))
    plots.plot_kernel("1.0 * Matern(1.0, nu=1.5)", ax=cell(4, 2))

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "plots.png"
    figure.savefig(path, dpi=75)
    plt.close(figure)
    return path


if __name__ == "__main__":
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")))
