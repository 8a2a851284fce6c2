"""What every representation should answer, by explicit matrices: the truth of the contract test."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Explicit:
    """N(m, K) at rows X with sites of precisions tau; of approximations by inducing inputs also what a bound adds.

    `share`, `weight` and `curve` are those of `cavity.latent.inducing.kinds`, written out here once more: log_det has
    the excess weight / curve sum log(1 + curve tau d), the variances weight d / (1 + curve tau d).
    """

    kernel: object
    Z: np.ndarray | None = None
    share: float = 1.0
    weight: float = 0.0
    curve: float = 0.0
    predicts_prior: bool = True
    parts: object = None
    """Of n rows, those that are independent of each other."""

    def projected(self, A, B):
        """Covariance of rows A and B through the inducing inputs."""
        if self.Z is None:
            return self.kernel(A, B)
        return self.kernel(A, self.Z) @ np.linalg.solve(self.kernel(self.Z), self.kernel(self.Z, B))

    def left_over(self, X):
        """d."""
        return self.kernel.diag(X) - np.diag(self.projected(X, X))

    def K(self, X):
        if self.parts is not None:
            K = np.zeros((len(X), len(X)))
            for part in self.parts(len(X)):
                K[np.ix_(part, part)] = self.kernel(X[part])
            return K
        if self.Z is None:
            return self.kernel(X)
        return self.projected(X, X) + self.share * np.diag(self.left_over(X))

    def sigma(self, X, tau):
        K = self.K(X)
        found = np.linalg.solve(np.eye(len(X)) + K * tau, K)
        return 0.5 * (found + found.T)

    def R(self, X, tau):
        return np.diag(tau) - tau[:, None] * self.sigma(X, tau) * tau

    def spread(self, X, tau):
        d = self.left_over(X)
        return self.weight * d / (1.0 + self.curve * tau * d)

    def excess(self, X, tau):
        if self.weight == 0.0:
            return 0.0
        x = tau * self.left_over(X)
        return self.weight * (np.sum(x) if self.curve == 0 else np.sum(np.log1p(self.curve * x)) / self.curve)

    def log_det(self, X, tau):
        sign, value = np.linalg.slogdet(np.eye(len(X)) + self.K(X) * tau)
        assert sign > 0
        return value + self.excess(X, tau)

    def apart(self, X):
        """Variance of predictions at X that K lacks."""
        return (self.prior_covariance(X) - self.K(X)).diagonal()

    def prior_covariance(self, X):
        return self.kernel(X) if self.predicts_prior else self.projected(X, X)

    def prediction(self, X, new, tau, alpha):
        """Mean and covariance of f at new rows, without the prior mean."""
        cross = self.projected(X, new)
        return cross.T @ alpha, self.prior_covariance(new) - cross.T @ self.R(X, tau) @ cross
