"""Functions to be minimized, their optima, and what spoils their observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

Array = NDArray[np.float64]

_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])


def branin(x: Array) -> float:
    a, b = x
    return float(
        (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2
        + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a)
        + 10
    )


def hartmann6(x: Array) -> float:
    return float(-np.sum(_ALPHA * np.exp(-np.sum(_A * (x - _P) ** 2, axis=1))))


def ackley(x: Array) -> float:
    return float(
        -20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20 + np.e
    )


def levy(x: Array) -> float:
    w = 1 + (x - 1) / 4
    return float(
        np.sin(np.pi * w[0]) ** 2
        + np.sum((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2))
        + (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2)
    )


def _friedman(n: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f + rng.standard_normal(n)


_TRAIN, _HELD_OUT = _friedman(120, 1), _friedman(200, 2)
_GROUPS = np.array([0, 0, 1, 2, 3, 4, 4, 4, 4, 4])


def tuning(x: Array) -> float:
    """Log error on held-out rows of kernel ridge regression of Friedman's function, of ten inputs of which five matter.

    Tuned are log10 length scales (one for the first two inputs, one for each of the next three, one for the other five)
    and the log10 ridge.
    """
    scale = 10.0 ** x[:5][_GROUPS]

    def kernel(A: Array, B: Array) -> Array:
        d = (A[:, None] - B[None]) / scale
        return np.asarray(np.exp(-0.5 * np.sum(d * d, axis=2)))

    (X, y), (T, t) = _TRAIN, _HELD_OUT
    center = y.mean()
    weights = np.linalg.solve(kernel(X, X) + 10.0 ** x[5] * np.eye(len(X)), y - center)
    return float(0.5 * np.log(np.mean((t - center - kernel(T, X) @ weights) ** 2)))


@dataclass(frozen=True)
class Problem:
    """A function on a box, how many evaluations there are, and what is seen of it."""

    name: str
    function: Callable[[Array], float]
    bounds: tuple[tuple[float, float], ...]
    optimum: float
    initial: int
    calls: int
    noise_sd: float = 0.0
    outliers: float = 0.0

    @property
    def dims(self) -> int:
        return len(self.bounds)

    def design(self, seed: int) -> Array:
        """The same first points for every method, in the unit cube."""
        m = int(np.ceil(np.log2(self.initial)))
        return np.asarray(qmc.Sobol(self.dims, scramble=True, seed=seed).random_base2(m)[: self.initial])

    def at(self, u: Array) -> float:
        low, high = np.array(self.bounds).T
        return self.function(low + np.asarray(u) * (high - low))

    def observer(self, seed: int) -> Callable[[Array], float]:
        """What is seen at a point of the cube: the k-th observation has the same error for every method."""
        rng = np.random.default_rng([seed, 77])
        noise = self.noise_sd * rng.standard_normal(self.calls)
        hit = rng.random(self.calls) < self.outliers
        gross = np.where(hit, rng.choice([-1.0, 1.0], self.calls) * rng.uniform(1.5, 5.0, self.calls), 0.0)
        count = iter(range(self.calls))

        def observe(u: Array) -> float:
            k = next(count)
            return self.at(u) + noise[k] + gross[k]

        return observe


PROBLEMS = {
    p.name: p
    for p in (
        Problem("branin", branin, ((-5.0, 10.0), (0.0, 15.0)), 0.39788735772973816, 5, 35),
        Problem("hartmann6", hartmann6, ((0.0, 1.0),) * 6, -3.322368011415515, 10, 60),
        Problem("ackley10", ackley, ((-13.1, 32.8),) * 10, 0.0, 10, 200),
        Problem("levy10", levy, ((-10.0, 10.0),) * 10, 0.0, 10, 200),
        Problem("tuning", tuning, ((-1.0, 1.5),) * 5 + ((-6.0, 1.0),), 0.15008512248306, 10, 60),
        Problem("hartmann6_noisy", hartmann6, ((0.0, 1.0),) * 6, -3.322368011415515, 10, 60, 0.1),
        Problem("hartmann6_outliers", hartmann6, ((0.0, 1.0),) * 6, -3.322368011415515, 10, 60, 0.02, 0.1),
    )
}
