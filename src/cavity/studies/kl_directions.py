"""Two directions of the Kullback-Leibler divergence on a bimodal density (thesis figure 5.8).

p is a mixture of N(-2, 0.5^2) and N(2, 0.7^2). The normal q that minimizes KL(p||q) has the moments of p, and that
minimum is the only one: what EP aims at. KL(q||p) has a local minimum at each mode: what variational approximations
aim at. The thesis does not print the weights; equal ones are used here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from cavity.numerics.arrays import Array
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.pictures import new_panels, save

WEIGHTS, MEANS, SDS = np.array([0.5, 0.5]), np.array([-2.0, 2.0]), np.array([0.5, 0.7])
# The trapezoid rule under a normal density: log p bends sharply between the modes, which defeats Gauss-Hermite.
NODES = np.linspace(-9, 9, 801)
NODE_WEIGHTS = np.exp(-0.5 * NODES**2) / np.sum(np.exp(-0.5 * NODES**2))


def log_p(x: Array) -> Array:
    """Log density of the mixture."""
    z = (x[..., None] - MEANS) / SDS
    return np.asarray(logsumexp(np.log(WEIGHTS / SDS) - 0.5 * z * z, axis=-1) - 0.5 * np.log(2 * np.pi))


def moments() -> tuple[float, float]:
    """Mean and variance of p."""
    mean = float(WEIGHTS @ MEANS)
    return mean, float(WEIGHTS @ (SDS**2 + MEANS**2) - mean**2)


def entropy() -> float:
    """Differential entropy of p, by quadrature in each component."""
    x = MEANS[:, None] + SDS[:, None] * NODES
    return float(-WEIGHTS @ (log_p(x) @ NODE_WEIGHTS))


def kl_p_q(mean: Array | float, sd: Array | float) -> Array:
    """KL(p||q): minus the entropy of p, minus E_p[log q], which needs the moments of p only."""
    m, v = moments()
    return np.asarray(-entropy() + 0.5 * np.log(2 * np.pi) + np.log(sd) + 0.5 * (v + (m - mean) ** 2) / sd**2)


def kl_q_p(mean: Array | float, sd: Array | float) -> Array:
    """KL(q||p), by quadrature under q."""
    x = np.asarray(mean)[..., None] + np.asarray(sd)[..., None] * NODES
    return np.asarray(-0.5 * (np.log(2 * np.pi) + 1.0) - np.log(sd) - log_p(x) @ NODE_WEIGHTS)


def _minimum(start: float) -> tuple[float, float, float]:
    def divergence(t: Array) -> float:
        return float(kl_q_p(float(t[0]), float(np.exp(t[1]))))

    found = minimize(divergence, np.array([start, -0.5]), method="BFGS")
    return float(found.x[0]), float(np.exp(found.x[1])), float(found.fun)


def solve() -> Outcome:
    """Minima of both divergences, and their values on a grid."""
    m, v = moments()
    left, right = _minimum(-2.0), _minimum(2.0)
    mean, sd = np.meshgrid(np.linspace(-4, 4, 81), np.linspace(0.3, 3.5, 81))
    return Outcome(
        {
            "mean of KL(p||q)": m,
            "sd of KL(p||q)": np.sqrt(v),
            "KL(p||q)": float(kl_p_q(m, float(np.sqrt(v)))),
            "left mean of KL(q||p)": left[0],
            "left sd of KL(q||p)": left[1],
            "left KL(q||p)": left[2],
            "right mean of KL(q||p)": right[0],
            "right sd of KL(q||p)": right[1],
            "right KL(q||p)": right[2],
        },
        {"mean": mean, "sd": sd, "kl_p_q": kl_p_q(mean, sd), "kl_q_p": kl_q_p(mean, sd)},
    )


def draw(results: Results, folder: Path) -> list[Path]:
    """The three panels of the figure."""
    stored = results.arrays(method="minima")
    found = results.frame.iloc[0]
    figure, (density, forward, backward) = new_panels(1, 3, height=3.4)
    x = np.linspace(-5, 5, 400)
    p_q = (found["mean of KL(p||q)"], found["sd of KL(p||q)"])
    q_p = (found["right mean of KL(q||p)"], found["right sd of KL(q||p)"])
    density.plot(x, np.exp(log_p(x)), color="black", label="p(x)")
    for (m, s), style, name in ((p_q, "--", "least KL(p||q): EP"), (q_p, ":", "least KL(q||p): variational")):
        density.plot(
            x, np.exp(-0.5 * ((x - m) / s) ** 2) / (s * np.sqrt(2 * np.pi)), style, label=name, linewidth=2
        )
    density.set(xlabel="x", ylabel="density", ylim=(0, 0.72))
    density.legend(frameon=False, loc="upper left", fontsize=8)
    panels = ((forward, "kl_p_q", "KL(p||q)", [p_q]), (backward, "kl_q_p", "KL(q||p)", [q_p]))
    left = (found["left mean of KL(q||p)"], found["left sd of KL(q||p)"])
    for axis, name, title, minima in panels:
        levels = np.quantile(stored[name], np.linspace(0.005, 0.75, 16))
        lines = axis.contour(
            stored["mean"], stored["sd"], stored[name], levels=levels, cmap="viridis", linewidths=1
        )
        axis.clabel(lines, levels[1::3], fontsize=7, fmt="%.2g")
        for m, s in [*minima, left] if name == "kl_q_p" else minima:
            axis.plot(m, s, "k*", markersize=9)
        axis.set(xlabel="mean of q", ylabel="sd of q", title=f"{title}, nats")
    return [save(figure, folder / "kl_directions.png")]


STUDY = Study(
    "kl-directions",
    "KL(p||q) against KL(q||p) on a bimodal density",
    "thesis figure 5.8 (no numbers in print; the weights of the mixture are not given, equal ones are used)",
    lambda quick: [Cell({"method": "minima"}, solve)],
    measures=(
        "mean of KL(p||q)",
        "sd of KL(p||q)",
        "KL(p||q)",
        "left mean of KL(q||p)",
        "left sd of KL(q||p)",
        "left KL(q||p)",
        "right mean of KL(q||p)",
        "right sd of KL(q||p)",
        "right KL(q||p)",
    ),
    draw=draw,
    remarks=lambda results: [
        "KL(p||q) has one minimum, the moments of p; KL(q||p) has one at each mode, as in the thesis."
    ],
)
