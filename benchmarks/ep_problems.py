"""Random robust-regression problems that are hard for expectation propagation.

One problem per seed: short to far too long length scales, noise down to a hundredth of the signal, up to 40 % outliers,
two-Gaussian mixture or Student-t noise. The recipe is fixed so that results of different methods can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.kernels import SE, Kernel, White
from cavity.likelihoods import MixtureOfGaussians, StudentT
from cavity.likelihoods.base import Likelihood
from cavity.parameters.param import fixed

JITTER = 1e-8


@dataclass(frozen=True)
class StressProblem:
    """A data set with a model for it."""

    seed: int
    family: str
    X: np.ndarray
    y: np.ndarray
    kernel: Kernel
    likelihood: Likelihood
    settings: dict[str, Any]


def _uniform10(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10 ** rng.uniform(low, high))


def make(seed: int) -> StressProblem:
    """The problem of a seed."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 61))
    D = 1 if rng.random() < 0.85 else 3
    X = rng.uniform(-10, 10, (n, D))
    true_length = float(np.exp(rng.uniform(0, np.log(4)))) * (3 if D == 3 else 1)
    if rng.random() < 0.7:
        K = SE(true_length)(X)
        f = np.linalg.cholesky(K + JITTER * np.eye(n)) @ rng.standard_normal(n)
    else:
        r = np.linalg.norm(X, axis=1)
        f = np.sinc(r / np.pi)
    length = true_length * _uniform10(rng, -0.7, 0.9)
    variance = _uniform10(rng, -1, 1)
    s = _uniform10(rng, -2, np.log10(0.5))
    outlier = rng.random(n) < rng.uniform(0, 0.4)
    y = f + s * rng.standard_normal(n)
    settings: dict[str, Any] = {"n": n, "D": D, "length": length, "variance": variance, "noise": s}
    likelihood: Likelihood
    if rng.random() < 0.5:
        family = "mixture"
        fraction, wide = rng.uniform(0.05, 0.4), s * _uniform10(rng, np.log10(5), 2)
        spread = wide if rng.random() < 0.5 else _uniform10(rng, np.log10(0.5), np.log10(5))
        likelihood = MixtureOfGaussians(fraction=fraction, scale=s, outlier_scale=wide)
        settings |= {"fraction": fraction, "wide": wide}
    else:
        family = "student_t"
        df = float(rng.integers(1, 6)) if rng.random() < 0.5 else rng.uniform(1, 5)
        spread = _uniform10(rng, np.log10(0.5), np.log10(5))
        likelihood = StudentT(scale=s, df=df)
        settings |= {"df": df}
    y = np.where(outlier, f + spread * rng.standard_normal(n), y)
    kernel = variance * SE(length) + White(fixed(JITTER * variance))
    return StressProblem(seed, family, X, y, kernel, likelihood, settings)
