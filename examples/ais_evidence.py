"""How good is an approximate log evidence? Ask annealed importance sampling, and see when it refuses to answer.

Run `python examples/ais_evidence.py [--budget SECONDS]`. Boston (400 rows, Gaussian noise) has an exact evidence to
compare with; Ionosphere (200 rows, probit) is easy at ln s = 2 and hard at ln s = 4; the last part are settings that
are too weak for the task, which must be refused.
"""

from __future__ import annotations

import argparse

import numpy as np

from cavity import GP, datasets
from cavity.kernels import SE
from cavity.likelihoods import Gaussian, Probit
from cavity.sampling import AISResult, annealed_importance_sampling, importance_evidence

BOSTON_LENGTHS = [8.17, 1e4, 4.48, 22.4, 1.523, 2.403, 3.028, 1.087, 3.353, 0.5985, 9.43, 1.821, 1.031]
"""Length scales that maximize the evidence of these 400 rows, standardized."""


def standardized(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and standard deviation 1, constant ones aside."""
    sd = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1.0)


def boston() -> tuple[GP, np.ndarray, np.ndarray]:
    """Gaussian noise, hyperparameters of maximal evidence."""
    data = datasets.load("boston")
    rows = np.random.default_rng(0).permutation(len(data.y))[:400]
    X, y = np.asarray(data.X, dtype=float)[rows], np.asarray(data.y, dtype=float)[rows]
    return GP(1.07 * SE(BOSTON_LENGTHS), Gaussian(0.02156)), standardized(X), standardized(y)


def ionosphere(log_signal: float) -> tuple[GP, np.ndarray, np.ndarray]:
    """Probit, isotropic kernel of length scale exp(1.5)."""
    data = datasets.load("ionosphere")
    rows = np.random.default_rng(0).permutation(len(data.y))[:200]
    X = standardized(np.asarray(data.X, dtype=float)[rows])
    y = np.where(np.asarray(data.y)[rows] == "g", 1.0, -1.0)
    return GP(np.exp(2 * log_signal) * SE(np.exp(1.5)), Probit(), inference="ep"), X, y


def show(title: str, result: AISResult, known: float, what: str) -> None:
    """One result in a paragraph."""
    print(f"\n{title}\n  {what} {known:.3f}; {result.time:.1f} s\n  {result}", flush=True)


def main() -> None:
    """All parts in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each of the serious runs")
    budget = parser.parse_args().budget

    model, X, y = boston()
    exact = model.condition(X, y).log_evidence
    found = annealed_importance_sampling(
        model, X, y, start="prior", runs=24, target_error=0.3, max_time=budget, rng=0
    )
    show("Boston 400, Gaussian noise, from the prior", found, exact, "exact")
    found = annealed_importance_sampling(model, X, y, start="prior", moves="elliptical", steps=500, rng=0)
    show("The same with elliptical slice moves: refused", found, exact, "exact")

    for log_signal in (2.0, 4.0):
        model, X, y = ionosphere(log_signal)
        posterior = model.condition(X, y)
        ep = posterior.log_evidence
        found = annealed_importance_sampling(model, X, y, target_error=0.1, max_time=budget, rng=0)
        show(f"Ionosphere 200, probit, ln s = {log_signal:g}", found, ep, "EP")
        weak = importance_evidence(posterior, rng=0)
        print(
            f"  importance sampling from EP: {weak.log_evidence:.2f}, certified {weak.certified}: {weak.reason}"
        )

    found = annealed_importance_sampling(model, X, y, start="prior", metric="sites", steps=200, rng=0)
    show("ln s = 4 from the prior, moves scaled by EP, 200 temperatures: refused", found, ep, "EP")
    found = annealed_importance_sampling(model, X, y, steps=40, rng=0)
    show("ln s = 4, 40 temperatures: refused", found, ep, "EP")


if __name__ == "__main__":
    main()
