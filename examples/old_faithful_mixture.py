"""Old Faithful: how many kinds of eruption? A Gaussian mixture chosen by BIC, drawn with its uncertainty.

Run with the path of the picture to write:  python examples/old_faithful_mixture.py faithful.png
The data set `faithful` is found by `cavity.datasets` (set CAVITY_DATA to a folder that holds faithful.csv).
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from cavity.datasets import load
from cavity.em import GaussianMixture

COLORS = ["#0072b2", "#d55e00"]


def ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float) -> np.ndarray:
    """Points at Mahalanobis distance `radius`, (2, 100)."""
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return mean[:, None] + radius * np.linalg.cholesky(covariance) @ circle


def main(path: str) -> None:
    data = load("faithful")
    x = np.column_stack([data.X, data.y])
    model = GaussianMixture("bic", n_init=3, accelerate=True, random_state=0).fit(x)
    errors = model.standard_errors(x).errors["means"]
    print(f"{model.n_components_} components, {model.status_}")
    for k in range(model.n_components_):
        mean, error = model.means_[k], errors[k]
        print(
            f"  {model.weights_[k]:.3f}: {mean[0]:.3f} ± {error[0]:.3f} min of eruption, "
            f"{mean[1]:.1f} ± {error[1]:.1f} min of waiting"
        )

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), width_ratios=[1.7, 1])
    first = model.predict_proba(x)[:, 0]
    mix = first[:, None] * matplotlib.colors.to_rgb(COLORS[0])
    mix = mix + (1 - first)[:, None] * np.array(matplotlib.colors.to_rgb(COLORS[1]))
    left.scatter(x[:, 0], x[:, 1], c=mix, s=14, linewidths=0)
    for k, color in enumerate(COLORS[: model.n_components_]):
        for radius, style in ((1.0, "-"), (2.0, "--")):
            left.plot(*ellipse(model.means_[k], model.covariances_[k], radius), style, color=color, lw=1.4)
        left.errorbar(
            *model.means_[k], xerr=errors[k, 0], yerr=errors[k, 1], color="black", capsize=3, lw=1.2
        )
    left.set(xlabel="eruption (minutes)", ylabel="waiting for the next (minutes)")
    left.set_title("Two kinds of eruption (1 and 2 standard deviations)", fontsize=10)

    sizes = [c.n for c in model.selection_]
    right.plot(sizes, [c.bic for c in model.selection_], "o-", color="#333333", label="BIC")
    right.plot(sizes, [c.icl for c in model.selection_], "s:", color="#999999", label="ICL")
    right.axvline(model.n_components_, color=COLORS[0], lw=1, zorder=0)
    right.set(xlabel="components", ylabel="criterion (smaller is better)")
    right.set_title("Choosing the number", fontsize=10)
    right.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "old_faithful_mixture.png")
