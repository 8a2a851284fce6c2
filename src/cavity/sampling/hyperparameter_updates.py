"""Hyperparameters and latent values in turn: updates of theta given f that do not hold f still.

With f fixed, theta is all but determined by it, and a chain hardly moves. Two ways out (Murray and Adams 2010), each
changing f along with theta:

- whitened: u = L_theta^-1 (f - m) is held, f follows as m + L_theta u. Right where data are weak and f is near its
  prior.
- surrogate data: pseudo-observations g ~ N(f, S) are drawn first; f given g is N(m_g, R) with R = (K^-1 + S^-1)^-1,
  and eta = L_R^-1 (f - m_g) is held. Right where data are strong: with S of about the precision of the data, f stays
  near them whatever theta. The target for theta is then

      log p(y | f(theta)) + log N(g | m, K + S) + log prior(theta).

Both use slice sampling along each coordinate in turn (Neal 2003), which adapts to the width of the density by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.latent.dense import DensePrior
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize
from cavity.numerics.special import LOG_2PI
from cavity.sampling.default_priors import with_proper_priors
from cavity.sampling.elliptical_slice import elliptical_update
from cavity.sampling.trace import ProgressLike, Recorder, Trace, check_counts

UPDATES = ("whitened", "surrogate")
MOST_STEPS = 50
"""Steps out of a slice in either direction, and shrinkings back, at most."""


def slice_coordinates(
    log_density: Callable[[Array], tuple[float, Any]],
    x: Array,
    value: float,
    extra: Any,
    rng: np.random.Generator,
    width: float = 1.0,
) -> tuple[Array, float, Any]:
    """One slice-sampling update of each coordinate, in random order.

    Parameters
    ----------
    log_density : callable
        x (p,) -> (value, extra): `extra` is whatever belongs to the point, handed back for the point chosen.
    """
    x = x.copy()
    for i in rng.permutation(len(x)):
        level = value + np.log(rng.random())
        start = x[i]
        low = start - width * rng.random()
        high = low + width

        def at(v: float, i: int = i) -> tuple[float, Any]:
            y = x.copy()
            y[i] = v
            return log_density(y)

        # Stepping out with a limited number of steps, shared at random between both sides (Neal 2003, figure 3).
        left = int(rng.integers(MOST_STEPS))
        right = MOST_STEPS - 1 - left
        while left > 0 and at(low)[0] > level:
            low, left = low - width, left - 1
        while right > 0 and at(high)[0] > level:
            high, right = high + width, right - 1
        for _ in range(4 * MOST_STEPS):
            v = low + (high - low) * rng.random()
            found, other = at(v)
            if found > level:
                x[i], value, extra = v, found, other
                break
            low, high = (v, high) if v < start else (low, v)
    return x, value, extra


class LatentAndHyper:
    """The joint posterior of f and theta as the updates below see it.

    Parameters
    ----------
    model : GP
        One latent function; parameters without a prior get a weak proper one.
    X, y : arrays (n, D), (n,)
    surrogate_variance : float or array (n,), optional
        S; by default the inverse of the likelihood's curvature at the data, -1 / (d^2 log p / df^2), where y tells f,
        averaged over a plausible range of f otherwise.
    """

    def __init__(
        self,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        surrogate_variance: ArrayLike | None = None,
    ) -> None:
        model, self.X, self.y, self.weight = model._given(X, y, sample_weight)
        if model.likelihood.n_latent != 1:
            raise ValueError(f"{type(model.likelihood).__name__} has several latent functions: use HMC")
        self.model = with_proper_priors(model, self.X, self.y, self.weight)
        self.n, self.names = len(self.X), tuple(self.model.names)
        self._bounds = np.array(self.model.theta_bounds).reshape(-1, 2)
        given = self._default_variance() if surrogate_variance is None else surrogate_variance
        self.S: Array = np.broadcast_to(np.asarray(given, dtype=float), (self.n,)).copy()
        if not (np.isfinite(self.S) & (self.S > 0)).all():
            raise ValueError("surrogate_variance must be positive and finite")

    def _default_variance(self) -> Array:
        prior = self.model.prior(self.X)
        nodes = np.linspace(-1.0, 1.0, 5)[:, None] * np.sqrt(prior.diagonal) + prior.mean
        y = np.broadcast_to(self.y, nodes.shape)
        with np.errstate(all="ignore"):
            curvature = np.nanmean(-self.model.likelihood.derivatives(y, nodes).d2, axis=0)
        usable = np.isfinite(curvature) & (curvature > 0)
        return np.where(usable, 1.0 / np.where(usable, curvature, 1.0), prior.diagonal)

    def log_likelihood(self, model: Any, F: Array) -> Array:
        """sum_i w_i log p(y_i | f_i) for latent values (..., n)."""
        with np.errstate(all="ignore"):
            terms = model.likelihood.log_prob(self.y, F)
            total = terms.sum(axis=-1) if self.weight is None else terms @ self.weight
        return np.where(np.isnan(total), -np.inf, total)

    def at(self, theta: Array) -> tuple[Any, DensePrior, float] | None:
        """Model, prior and log prior density at theta, or None where there is no density."""
        if not (np.all(theta >= self._bounds[:, 0]) and np.all(theta <= self._bounds[:, 1])):
            return None
        try:
            with np.errstate(all="ignore"):
                model = self.model.replace(theta)
                value = float(model.log_prior(jacobian=True)[0])
                prior = model.prior(self.X)
                _ = prior.factor
        except (ValueError, np.linalg.LinAlgError):
            return None
        return (model, prior, value) if np.isfinite(value) else None

    # --- the two updates ------------------------------------------------------------------------------------

    def whitened(self, theta: Array, f: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """New (theta, f) with u = L^-1 (f - m) held."""
        here = self.at(theta)
        assert here is not None
        u = here[1].factor.half_solve(f - here[1].mean)

        def density(t: Array) -> tuple[float, Any]:
            there = self.at(t)
            if there is None:
                return -np.inf, None
            moved = there[1].unwhiten(u)
            return float(self.log_likelihood(there[0], moved)) + there[2], moved

        value, start = density(theta)
        theta, _, f = slice_coordinates(density, theta, value, start, rng)
        return theta, f

    def surrogate(self, theta: Array, f: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """New (theta, f) with surrogate data g and eta = L_R^-1 (f - m_g) held."""
        g = f + np.sqrt(self.S) * rng.standard_normal(self.n)
        here = self.at(theta)
        assert here is not None
        mean, root, _ = self._given_surrogate(here[1], g)
        eta = root.half_solve(f - mean)

        def density(t: Array) -> tuple[float, Any]:
            there = self.at(t)
            if there is None:
                return -np.inf, None
            try:
                mean, root, log_g = self._given_surrogate(there[1], g)
            except np.linalg.LinAlgError:
                return -np.inf, None
            moved = mean + root.multiply(eta[:, None])[:, 0]
            return float(self.log_likelihood(there[0], moved)) + log_g + there[2], moved

        value, start = density(theta)
        theta, _, f = slice_coordinates(density, theta, value, start, rng)
        return theta, f

    def _given_surrogate(self, prior: DensePrior, g: Array) -> tuple[Array, Cholesky, float]:
        """Mean and factor of the covariance of f given g, and log N(g | m, K + S)."""
        A = Cholesky.of(prior.covariance + np.diag(self.S))
        residual = g - prior.mean
        alpha = A.solve(residual)
        mean = g - self.S * alpha  # m + K (K + S)^-1 (g - m)
        half = A.half_solve(np.diag(self.S))
        R = np.diag(self.S) - half.T @ half  # S - S (K + S)^-1 S
        log_g = -0.5 * (float(residual @ alpha) + A.log_det + self.n * LOG_2PI)
        return mean, factorize(R.copy), log_g


def latent_and_hyper(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    update: str = "surrogate",
    draws: int = 1000,
    warmup: int = 200,
    chains: int = 2,
    rng: np.random.Generator | int | None = None,
    sample_weight: ArrayLike | None = None,
    surrogate_variance: ArrayLike | None = None,
    latent_updates: int = 5,
    progress: ProgressLike = None,
) -> Trace:
    """Draws of hyperparameters and latent values, by elliptical slices for f and `update` for theta in turn.

    Parameters
    ----------
    update : {"surrogate", "whitened"}
    latent_updates : int
        Elliptical slice updates of f between updates of theta.

    Returns
    -------
    Trace
        Positions (C, T, p + n): theta, then f.
    """
    if update not in UPDATES:
        raise ValueError(f"update must be one of {UPDATES}, got {update!r}")
    check_counts(draws, warmup)
    rng = np.random.default_rng(rng)
    joint = LatentAndHyper(model, X, y, sample_weight, surrogate_variance)
    p, n = len(joint.names), joint.n
    states = [_first(joint, rng) for _ in range(chains)]
    names = (*joint.names, *(f"f[{i}]" for i in range(n)))
    recorder = Recorder("sampling", chains, p + n, draws, warmup, progress)
    with recorder:
        for t in recorder:
            rows, values = np.empty((chains, p + n)), np.empty(chains)
            for c, (theta, f) in enumerate(states):
                theta, f = getattr(joint, update)(theta, f, rng)
                f, values[c] = _update_latent(joint, theta, f, latent_updates, rng)
                states[c] = theta, f
                rows[c, :p], rows[c, p:] = theta, f
            if t >= warmup:
                recorder.add(rows, values)
    return recorder.trace(names=names)


def _first(joint: LatentAndHyper, rng: np.random.Generator) -> tuple[Array, Array]:
    """Theta near the model's own values, f at the prior mean moved a little."""
    for theta in _candidates(joint, rng):
        here = joint.at(theta)
        if here is not None:
            f = here[1].unwhiten(0.1 * rng.standard_normal(joint.n))
            if np.isfinite(joint.log_likelihood(here[0], f)):
                return theta, f
    raise ValueError("no start with positive density was found near the model's values: give better ones")


def _candidates(joint: LatentAndHyper, rng: np.random.Generator) -> Iterator[Array]:
    for spread in (0.2,) * 10 + (0.0,):
        yield joint.model.theta + spread * rng.standard_normal(len(joint.names))


def _update_latent(
    joint: LatentAndHyper, theta: Array, f: Array, count: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Elliptical slice updates of f at fixed theta; also the log density of (f, theta)."""
    here = joint.at(theta)
    assert here is not None
    model, prior, log_prior = here
    u = prior.factor.half_solve(f - prior.mean)[None]
    value = joint.log_likelihood(model, f[None])

    def log_likelihood(U: Array) -> Array:
        return joint.log_likelihood(model, prior.unwhiten(np.ascontiguousarray(U.T)).T)

    for _ in range(count):
        u, value, _ = elliptical_update(log_likelihood, u, value, rng)
    density = float(value[0]) + log_prior - 0.5 * float(u[0] @ u[0]) - 0.5 * prior.factor.log_det
    return prior.unwhiten(u[0]), density - 0.5 * joint.n * LOG_2PI
