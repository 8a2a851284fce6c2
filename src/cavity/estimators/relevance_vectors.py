"""Relevance vectors: a sparse sum of bumps at some of the training inputs, with error bars that do not collapse.

    f(x) = sum_j w_j phi_j(x),   phi_j(x) = exp(-|x - x_j|^2 / 2 l^2),   w_j ~ N(0, 1 / alpha_j)

(Tipping, 2001; Rasmussen and Williams, 2006, section 6.6). The evidence is maximized in one alpha_j at a time, whose
best value is closed: with C_-j the covariance without bump j, s = phi' C_-j^-1 phi and q = phi' C_-j^-1 y
it is s^2 / (q^2 - s) if q^2 > s, and infinite, no bump, otherwise (Tipping and Faul, 2003). Few bumps remain.

Far from them a sum of bumps is certain to be zero. So each prediction gets one more bump, at the new input itself,
with the mean prior variance of the others (RVM*, Rasmussen and Quinonero-Candela, 2005). A Gaussian process is
better calibrated; relevance vectors are for predictions from few rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize
from cavity.numerics.special import LOG_2PI
from cavity.prediction import GaussianPrediction
from cavity.runtime.checks import is_number
from cavity.runtime.errors import InputError

MOST_STEPS = 2000
ENOUGH = 1e-9
"""Nats that a further step must promise."""

POLISHING_SWEEPS, MOST_POLISHED = 20, 30
"""Last sweeps over the precisions of up to so many bumps, for their digits; the evidence has all of its own before."""

SMALLEST_NOISE = 1e-8
"""Noise variance in units of the targets' own, below which it is not re-estimated."""


@dataclass(frozen=True)
class Bumps:
    """The posterior of the weights of the active bumps, and what the evidence says of all candidates."""

    active: Array
    alpha: Array
    factor: Cholesky
    scaled: Array
    weights: Array
    log_evidence: float
    s: Array
    q: Array

    @classmethod
    def of(cls, Phi: Array, y: Array, active: Array, alpha: Array, noise: float) -> Bumps:
        """H = I + R Phi'Phi R / noise with R = alpha^-1/2, so that no large precision meets a small one."""
        root = alpha**-0.5
        scaled = Phi[:, active] * root / np.sqrt(noise)
        factor = factorize(lambda: np.eye(len(active)) + scaled.T @ scaled)
        seen = factor.half_solve(scaled.T @ y) / np.sqrt(noise)
        weights = root * factor.solve(scaled.T @ y) / np.sqrt(noise)
        fit = float(y @ y) / noise - float(seen @ seen)
        value = -0.5 * (len(y) * (LOG_2PI + np.log(noise)) + factor.log_det + fit)
        # S = phi' C^-1 phi and Q = phi' C^-1 y of every candidate, C = noise I + Phi alpha^-1 Phi'
        half = factor.half_solve(scaled.T @ Phi)
        S = (np.sum(Phi**2, axis=0) - np.sum(half**2, axis=0)) / noise
        Q = Phi.T @ y / noise - half.T @ seen / np.sqrt(noise)
        s, q = S.copy(), Q.copy()
        own = alpha - S[active]  # what an active bump explains itself is taken away
        s[active], q[active] = alpha * S[active] / own, alpha * Q[active] / own
        return cls(active, alpha, factor, scaled, weights, value, s, q)

    def next_step(self) -> tuple[int, float, float]:
        """The candidate whose alpha is to change, its new value (inf for none), and the nats gained."""
        alpha = np.full(len(self.s), np.inf)
        alpha[self.active] = self.alpha
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            best = np.where(self.q**2 > self.s, self.s**2 / (self.q**2 - self.s), np.inf)
            gain = _log_share(best, self.s, self.q) - _log_share(alpha, self.s, self.q)
        if len(self.active) == 1:  # one bump remains
            gain[self.active] = np.where(np.isinf(best[self.active]), -np.inf, gain[self.active])
        j = int(np.nanargmax(gain))
        return j, float(best[j]), float(gain[j])

    def moments(self, phi: Array, own: Array | None, residual: Array) -> tuple[Array, Array]:
        """Mean and variance of f at new inputs.

        Parameters
        ----------
        phi : array (m, k)
            The active bumps there.
        own : array (n, m) or None
            The bump of each new input at the training inputs, in units of the noise sd; None leaves it out.
        residual : array (n,)
            Of the targets, in the same units.
        """
        half = self.factor.half_solve((phi * self.alpha**-0.5).T)
        mean, var = phi @ self.weights, np.sum(half**2, axis=0)
        if own is None:
            return mean, var
        seen = self.factor.half_solve(self.scaled.T @ own)
        s, q = np.sum(own**2, axis=0) - np.sum(seen**2, axis=0), own.T @ residual
        alpha = 1.0 / np.mean(1.0 / self.alpha)
        left = 1.0 - np.sum(half * seen, axis=0)  # of the bump's height, given the others
        return mean + left * q / (alpha + s), var + left**2 / (alpha + s)


def bumps_at(one: Array, other: Array, length: float) -> Array:
    """Bumps around the rows of the second at those of the first."""
    return np.asarray(np.exp(-0.5 * (cdist(one, other) / length) ** 2))


def best_length(distances: Array, log_evidence: Callable[[float], float]) -> float:
    """The width of greatest evidence, of a grid between the closest rows and the widest, refined."""
    apart = distances[distances > 0]
    if not len(apart):
        return 1.0
    grid = np.linspace(np.log(np.quantile(apart, 0.01)), np.log(apart.max()), 10)

    def loss(log_length: float) -> float:
        return -log_evidence(float(np.exp(log_length)))

    losses = [loss(g) for g in grid]
    k = int(np.argmin(losses))
    bounds = (grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)])
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"maxiter": 15})
    return float(np.exp(found.x if found.fun < losses[k] else grid[k]))


def require_positive(estimator: BaseEstimator, *names: str) -> None:
    """Refuse parameters that are neither None nor a positive number."""
    for name in names:
        value = getattr(estimator, name)
        if value is not None and not (is_number(value) and 0 < value < np.inf):
            raise InputError(f"must be a positive number or None, got {value!r}", parameter=name, value=value)


def _log_share(alpha: Array, s: Array, q: Array) -> Array:
    """What one bump contributes to the log evidence: zero if alpha is infinite."""
    finite = np.isfinite(alpha)
    a = np.where(finite, alpha, 1.0)
    return np.where(finite, 0.5 * (np.log(a) - np.log(a + s) + q**2 / (a + s)), 0.0)


class RelevanceVectorRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by few bumps at training inputs, with honest error bars away from them.

    Parameters
    ----------
    lengthscale : float or None
        Width of a bump, in units of the inputs (scale the columns first); None maximizes the evidence.
    noise_variance : float or None
        None maximizes the evidence.
    collapse : bool
        Whether predictions leave out the bump of their own, so that far from the others they are certain to be zero, as
        those of the original method.

    Attributes
    ----------
    relevance_ : array of int
        Rows whose bumps are active.
    alpha_ : array
        Prior precisions of their weights.
    lengthscale_, noise_variance_, log_evidence_ : float
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import RelevanceVectorRegressor
    >>> x = np.linspace(-4, 4, 60)[:, None]
    >>> y = np.sinc(x[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(60)
    >>> model = RelevanceVectorRegressor().fit(x, y)
    >>> len(model.relevance_) < 20, bool(model.predict([[40.0]], return_std=True)[1][0] > 0.1)
    (True, True)
    """

    def __init__(
        self, lengthscale: float | None = None, noise_variance: float | None = None, *, collapse: bool = False
    ) -> None:
        self.lengthscale, self.noise_variance, self.collapse = lengthscale, noise_variance, collapse

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose bumps, and the width and noise that were not given."""
        require_positive(self, "lengthscale", "noise_variance")
        inputs, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._X, self._y = np.asarray(inputs), np.asarray(targets, dtype=float)
        distances = cdist(self._X, self._X)
        if self.lengthscale is not None:
            length = float(self.lengthscale)
        else:
            length = best_length(distances, lambda width: self._learn(distances, width)[0].log_evidence)
        bumps, noise = self._learn(distances, length)
        bumps = _polished(bumps, np.exp(-0.5 * (distances / length) ** 2), self._y, noise)
        self._bumps, self.lengthscale_, self.noise_variance_ = bumps, length, noise
        self.relevance_, self.alpha_ = np.sort(bumps.active), bumps.alpha[np.argsort(bumps.active)]
        self.log_evidence_ = bumps.log_evidence
        return self

    def _learn(self, distances: Array, length: float) -> tuple[Bumps, float]:
        """Bumps of one width, one at a time; the noise variance is re-estimated as they come."""
        Phi, y = np.exp(-0.5 * (distances / length) ** 2), self._y
        spread = float(np.mean(y**2)) or 1.0
        learn_noise = self.noise_variance is None
        noise = 0.1 * spread if learn_noise else float(cast(float, self.noise_variance))
        norms = np.sum(Phi**2, axis=0)
        first = int(np.argmax((Phi.T @ y) ** 2 / norms))
        signal = (float(Phi[:, first] @ y) ** 2 / norms[first] - noise) / norms[first]
        active, alpha = np.array([first]), np.array([1.0 / signal if signal > 0 else norms[first] / noise])
        bumps = Bumps.of(Phi, y, active, alpha, noise)
        for step in range(MOST_STEPS):
            j, value, gain = bumps.next_step()
            settled = gain < ENOUGH * max(1.0, abs(bumps.log_evidence))
            if not settled:
                active, alpha = changed(bumps.active, bumps.alpha, j, value)
                bumps = Bumps.of(Phi, y, active, alpha, noise)
            if learn_noise and (settled or step % 5 == 4):
                new = self._noise(Phi, bumps, noise, spread)
                if settled and abs(np.log(new / noise)) < 1e-4:
                    break
                noise = new
                bumps = Bumps.of(Phi, y, bumps.active, bumps.alpha, noise)
            elif settled:
                break
        return bumps, noise

    def _noise(self, Phi: Array, bumps: Bumps, noise: float, spread: float) -> float:
        """Squared residuals over the rows that no weight took up."""
        residual = self._y - Phi[:, bumps.active] @ bumps.weights
        kept = bumps.factor.solve(
            np.eye(len(bumps.active))
        )  # alpha_j times the posterior variance of weight j
        left = len(self._y) - float(np.sum(1.0 - np.diag(kept)))
        return max(float(residual @ residual) / max(left, 1e-3), SMALLEST_NOISE * spread)

    def _moments(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of f."""
        check_is_fitted(self, "relevance_")
        new = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        active = self._X[self._bumps.active]
        root = np.sqrt(self.noise_variance_)
        residual = (self._y - bumps_at(self._X, active, self.lengthscale_) @ self._bumps.weights) / root
        phi, own = (bumps_at(new, rows, self.lengthscale_) for rows in (active, self._X))
        return self._bumps.moments(phi, None if self.collapse else own.T / root, residual)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Means of new targets, and their sd on request."""
        mean, var = self._moments(X)
        return (mean, np.sqrt(var + self.noise_variance_)) if return_std else mean

    def predict_latent(self, X: ArrayLike) -> GaussianPrediction:
        """The distribution of f at each row."""
        return GaussianPrediction(*self._moments(X))

    def predict_dist(self, X: ArrayLike) -> GaussianPrediction:
        """The distribution of a new target at each row."""
        mean, var = self._moments(X)
        return GaussianPrediction(mean, var + self.noise_variance_)


def _polished(bumps: Bumps, Phi: Array, y: Array, noise: float) -> Bumps:
    """Each precision at its best in turn until none moves: the evidence is flat there, precisions have fewer digits."""
    if len(bumps.active) > MOST_POLISHED:
        return bumps
    own, alpha = Phi[:, bumps.active], bumps.alpha.copy()
    everyone = cast(Array, np.arange(len(alpha)))
    for _ in range(POLISHING_SWEEPS):
        before = alpha.copy()
        for j in range(len(alpha)):
            found = Bumps.of(own, y, everyone, alpha, noise)
            s, q = float(found.s[j]), float(found.q[j])
            if q**2 > s:
                alpha[j] = s**2 / (q**2 - s)
        if np.max(np.abs(np.log(alpha / before))) < 1e-10:
            break
    polished = Bumps.of(Phi, y, bumps.active, alpha, noise)
    return polished if polished.log_evidence >= bumps.log_evidence else bumps


def changed(active: Array, alpha: Array, j: int, value: float) -> tuple[Array, Array]:
    """Bump j added, changed, or left out."""
    at = np.flatnonzero(active == j)
    if np.isinf(value):
        return np.delete(active, at), np.delete(alpha, at)
    if len(at):
        new = alpha.copy()
        new[at] = value
        return active, new
    return np.append(active, j), np.append(alpha, value)
