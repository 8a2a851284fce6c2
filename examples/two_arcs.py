"""Two arcs, one function: how noise models and approximations deal with a posterior of several modes.

The ends of the data lie on a line; between them either arc may be the function and the other one the outliers
(thesis figures 5.3, 5.5, 5.9 and 5.12). EP matches moments: its Gaussian covers both arcs. The variational
approximation minimizes the other divergence: it chooses one arc, and where it started decides which. Laplace noise
is log-concave: there is one mode, between the arcs. Where the noise is small, as in the last two panels, EP, too,
has fixed points on one arc.

Run with the path of the picture to write:  python examples/two_arcs.py two_arcs.png
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from cavity import GP
from cavity.datasets import make_two_arcs
from cavity.inference import BestBound, Sites
from cavity.kernels import SE
from cavity.likelihoods import Gaussian, Laplace, MixtureOfGaussians, StudentT

KERNEL = 1.0 * SE(1.5)
"""Held fixed, as the noise levels are, so that the panels differ in noise model and approximation alone."""

STUDENT, NARROW = StudentT(0.3, 2.0), StudentT(0.2, 2.0)

PANELS = (
    ("Gaussian noise, exact", Gaussian(0.25), "exact", None),
    ("mixture noise, EP", MixtureOfGaussians(0.5, 0.1, outlier_scale=1.0), "ep", None),
    ("Laplace noise, EP", Laplace(0.3), "ep", None),
    ("Student-t noise of scale 0.3, EP", STUDENT, "ep", None),
    ("Student-t of scale 0.2, variational from the upper arc", NARROW, "variational", 1),
    ("Student-t of scale 0.2, variational from the lower arc", NARROW, "variational", -1),
)


def start_on(arc: int, which: np.ndarray, y: np.ndarray) -> BestBound:
    """What a variational rule would remember of a fit that trusts one arc and the ends, and not the other arc."""
    precision = np.where(which == -arc, 1e-3, 10.0)
    return BestBound(-np.inf, Sites(precision * y, precision))


def main(path: str) -> None:
    data = make_two_arcs(rng=0)
    grid = np.linspace(-5.5, 5.5, 300)[:, None]
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), sharex=True, sharey=True)
    for axis, (title, noise, rule, arc) in zip(axes.flat, PANELS):
        warm = None if arc is None else start_on(arc, data.extra["arc"], data.y)
        posterior = GP(KERNEL, noise, inference=rule).condition(data.X, data.y, warm=warm)
        f, status = posterior.predict_f(grid), posterior.status
        print(
            f"{title}: log evidence {posterior.log_evidence:.2f}, {status.stage}, converged: {status.converged}"
        )
        axis.fill_between(grid[:, 0], f.mean - 2 * f.sd, f.mean + 2 * f.sd, color="#0072b2", alpha=0.2, lw=0)
        axis.plot(grid[:, 0], f.mean, color="#0072b2")
        axis.scatter(data.X[:, 0], data.y, s=16, color="black", zorder=3)
        axis.set_title(f"{title}\nlog evidence {posterior.log_evidence:.1f} ({status.stage})", fontsize=10)
    axes[0, 0].set_ylim(-2, 2)
    figure.suptitle("Function and two standard deviations")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "two_arcs.png")
