"""A second representation, deliberately naive: explicit matrices and inverses, no cleverness, for tests alone."""

from functools import cached_property

import numpy as np

from cavity.latent.base import (
    Capability,
    Conditioning,
    ImproperPosteriorError,
    LatentPrior,
    PriorGradient,
    Representation,
)
from cavity.latent.posterior_process import PosteriorProcess


class Naive(Representation):
    name = "naive"
    capabilities = frozenset(Capability) - {
        Capability.COVARIANCE,
        Capability.POSTERIOR_WHITENING,
        Capability.SQUARED_CORRECTION,
        Capability.SEVERAL_FUNCTIONS,
    }

    def __init__(self):
        self._set_up({}, ())

    def prior(self, kernel, mean_function, inputs):
        return NaivePrior(kernel, inputs, mean_function)


class NaivePrior(LatentPrior):
    representation = Naive()

    def __init__(self, kernel, inputs, mean_function):
        super().__init__(kernel, inputs, mean_function)
        self.K = kernel(self.X)
        self.jitter = 1e-12 * float(np.mean(np.diag(self.K)))
        self.W = np.linalg.cholesky(self.K + self.jitter * np.eye(self.n))

    @cached_property
    def diagonal(self):
        return np.diag(self.K).copy()

    def condition(self, precision, *, transient=False):
        B = np.eye(self.n) + self.W.T @ (precision[:, None] * self.W)
        if not np.isfinite(B).all() or (smallest := np.linalg.eigvalsh(B)[0]) <= 0:
            raise ImproperPosteriorError("improper")
        R = np.linalg.solve(np.eye(self.n) + precision[:, None] * self.K, np.diag(precision))  # (K + T^-1)^-1
        return NaiveConditioning(self, R, np.linalg.slogdet(B)[1], smallest)

    def observe(self, variance, *, transient=False):
        A = self.K + np.diag(variance)
        log_det = np.linalg.slogdet(A)[1]
        with np.errstate(divide="ignore"):
            found = NaiveConditioning(self, np.linalg.inv(A), log_det - np.log(variance).sum(), 1.0)
        found.noise_log_det, found.L = log_det, np.linalg.cholesky(A + self.jitter * np.eye(self.n))
        return found

    def times(self, U):
        return self.K @ U

    def unwhiten(self, U):
        return (self.mean + (self.W @ U).T).T

    def unwhiten_adjoint(self, G):
        return self.W.T @ G

    def whiten(self, F):
        return np.linalg.solve(self.W, (F.T - self.mean).T)

    white_jitter = property(lambda self: self.jitter)

    def process(self, weights, conditioning, basis=None):
        inputs = self.kernel, self.kernel.prepare(self.X), self.X, self.mean_function
        return PosteriorProcess(*inputs, weights, conditioning, basis)


class NaiveConditioning(Conditioning):
    def __init__(self, prior, R, log_det, smallest):
        self.prior, self.R, self.log_det = prior, R, float(log_det)
        self.Sigma = prior.K - prior.K @ R @ prior.K
        self._smallest = min(1.0, float(smallest))

    noisy_log_det = property(lambda self: self.noise_log_det)
    smallest_curvature = property(lambda self: self._smallest)
    var = property(lambda self: np.diag(self.Sigma))
    unexplained = property(lambda self: np.diag(self.R))

    def apply(self, U):
        return self.R @ U

    def half_solve(self, U):
        return np.linalg.solve(self.L, U)

    def half_solve_transposed(self, U):
        return np.linalg.solve(self.L.T, U)

    def project(self, b):
        return b - self.R @ (self.prior.K @ b), self.Sigma @ b

    def pull_sites(self, d_mean=0.0, d_var=0.0):
        return self.Sigma @ (d_mean + np.zeros(self.prior.n)), self.Sigma**2 @ (
            d_var + np.zeros(self.prior.n)
        )

    def reduce(self, U):
        values, vectors = np.linalg.eigh(0.5 * (self.R + self.R.T))
        roots = np.sqrt(np.abs(values))[:, None] * (vectors.T @ U)
        return roots[values > 0], roots[values < 0]

    def pull_prior(self, left, right, d_log_det, d_var=None, d_unexplained=None):
        G = left @ (left if right is None else right).T + d_log_det * self.R
        if d_var is not None:
            P = np.eye(self.prior.n) - self.prior.K @ self.R
            G = G + P.T @ np.diag(d_var) @ P
        if d_unexplained is not None:
            G = G - self.R @ np.diag(d_unexplained) @ self.R
        rows, kernel = self.prior.kernel.prepare(self.prior.X), self.prior.kernel
        return PriorGradient(kernel._pull(rows, rows, 0.5 * (G + G.T), self.prior.K))
