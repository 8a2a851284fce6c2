"""What is measured of this package, and the floor: LAPACK's Cholesky factorization and inverse, in place."""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg import lapack

from benchmarks.problems import Array, Problem, moved
from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import Gaussian


class Evidence:
    """Log evidence and gradient as an optimizer calls them: new parameters, the memory of the last call."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        values = np.exp(problem.theta)
        model = GP(values[-2] * SE(values[:-2]), Gaussian(values[-1]))
        self.model = model.bind(problem.X.shape[1])  # as learning does before its first evaluation
        _, self.data = self.model.training(problem.X, problem.y)
        self.answers: dict[int, tuple[float, Array]] = {}
        """What each repetition gave, and"""
        self.seconds: list[float] = []
        """how long it took."""

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """At logarithms of length scales, signal and noise variance, and in the same order."""
        own = np.concatenate([theta[-2:-1], theta[:-2], theta[-1:]])
        model = self.model.replace(own)
        value, gradient, _ = model.evidence_of(self.data)
        return value, np.concatenate([gradient[1:-1], gradient[:1], gradient[-1:]])

    def __call__(self, k: int) -> float:
        theta = moved(self.problem.theta, k)
        start = time.perf_counter()
        answer = self.value_and_gradient(theta)
        took = time.perf_counter() - start
        self.answers[k] = answer
        self.seconds.append(took)
        return took


class Floor:
    """dpotrf and dpotri in place on a Fortran-ordered matrix; restoring the matrix is not timed.

    The upper triangle is used: it is the faster one here.
    """

    def __init__(self, problem: Problem) -> None:
        values = np.exp(problem.theta)
        z = problem.X / values[:-2]
        norms = np.einsum("ij,ij->i", z, z)
        r2 = np.maximum(norms[:, None] + norms - 2.0 * z @ z.T, 0.0)
        K = values[-2] * np.exp(-0.5 * r2) + values[-1] * np.eye(len(z))
        self.matrix = np.asfortranarray(K)
        self.work = np.empty_like(self.matrix, order="F")

    def __call__(self, k: int) -> float:
        np.copyto(self.work, self.matrix)
        start = time.perf_counter()
        factor, info = lapack.dpotrf(self.work, lower=0, clean=0, overwrite_a=1)
        inverse, info_inverse = lapack.dpotri(factor, lower=0, overwrite_c=1)
        took = time.perf_counter() - start
        if info or info_inverse or not np.shares_memory(inverse, self.work):
            raise RuntimeError("the floor must factorize and invert in place")
        return took
