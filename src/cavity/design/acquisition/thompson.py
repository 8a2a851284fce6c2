"""Thompson sampling: draw a function from the posterior and go where it is smallest.

Three ways to draw. Exhaustively, jointly at many points; on demand, value after value given all that were drawn before;
and pathwise (Wilson et al., 2020), as a function that can be evaluated and differentiated anywhere,

    f(x) = m(x) + Phi(x)' w + k(x, X) K^-1 (e - Phi(X) w),    e ~ N(0, Sigma), the posterior covariance at the data,

with random Fourier features Phi of the prior. The usual form has pseudo-noise drawn with the inverse site precisions as
variances, which do not exist if sites are negative, as those of Student-t noise are; drawing at the data needs none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve

from cavity.kernels import SE, Matern, Product
from cavity.kernels.base import Kernel
from cavity.latent.moments import Moments
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, covariance_root
from cavity.runtime.errors import InputError

FEATURES = 1024
"""Random Fourier features of a pathwise draw; the error of the prior's covariance is about their inverse root."""


def joint_draws(moments: Moments, points: Array, size: int, rng: np.random.Generator) -> Array:
    """Draws (size, k) of the function at points (k, D)."""
    mean, covariance = moments.at(points)
    return np.asarray(mean + covariance_root(covariance)(rng.standard_normal((len(points), size))).T)


def probability_of_minimum(moments: Moments, points: Array, size: int, rng: np.random.Generator) -> Array:
    """Share of joint draws that have their minimum at each of the points, (k,)."""
    place = np.argmin(joint_draws(moments, points, size, rng), axis=1)
    return np.asarray(np.bincount(place, minlength=len(points)) / size)


class OnDemandDraw:
    """One draw of the function, value after value: each given all values that were drawn before.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.design.acquisition import OnDemandDraw
    >>> from cavity.kernels import SE
    >>> from cavity.design import moments_of
    >>> from cavity.likelihoods import Gaussian
    >>> posterior = GP(1.0 * SE(1.0), Gaussian(1e-6)).condition([[0.0]], [1.0])
    >>> draw = OnDemandDraw(moments_of(posterior.process), np.random.default_rng(0))
    >>> value = draw(np.array([[0.5]]))
    >>> bool(abs(draw(np.array([[0.5]]))[0] - value[0]) < 1e-3)  # a function, not noise
    True
    """

    def __init__(self, moments: Moments, rng: np.random.Generator) -> None:
        self.moments, self.rng = moments, rng

    def __call__(self, X: Array) -> Array:
        """Values (m,) at points (m, D)."""
        found: list[Array] = []

        def draw(mean: Array, lower: Array) -> Array:
            found.append(mean + lower @ self.rng.standard_normal(len(mean)))
            return found[-1][None]

        self.moments = self.moments.given(np.asarray(X, dtype=float), draw)
        return found[0]


@dataclass(frozen=True, eq=False)
class Path:
    """A function drawn from a posterior, with its gradient.

    Attributes
    ----------
    frequencies : array (F, D)
    phases, weights : arrays (F,)
    correction : array (n,)
        Weights of kernel values to the data.
    """

    moments: Moments
    frequencies: Array
    phases: Array
    weights: Array
    correction: Array

    def __call__(self, X: Array) -> Array:
        """Values (m,) at points (m, D)."""
        cross = self.moments.kernel._block(self.moments._prepared(X), self.moments.rows)
        prior = np.cos(X @ self.frequencies.T + self.phases) @ self.weights
        return np.asarray(self.moments(X)[0][:, 0] + prior + cross @ self.correction)

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, D)."""
        kernel, rows = self.moments.kernel, self.moments.rows
        a = self.moments._prepared(X)
        K = kernel._block(a, rows)
        angle = X @ self.frequencies.T + self.phases
        mean, _, pull = self.moments.with_pull(X)
        slope = pull(np.ones((len(X), mean.shape[1])), np.zeros(len(X)))
        slope = slope + kernel._pull_inputs(a, rows, np.broadcast_to(self.correction, K.shape), K)[0]
        slope = slope - (np.sin(angle) * self.weights) @ self.frequencies
        return mean[:, 0] + np.cos(angle) @ self.weights + K @ self.correction, np.asarray(slope)


def draw_path(moments: Moments, rng: np.random.Generator, features: int = FEATURES) -> Path:
    """A function drawn from the posterior, for squared exponential and Matern kernels."""
    variance, lengths, nu = radial_parts(moments.kernel)
    n, D = moments.Z.shape
    frequencies = rng.standard_normal((features, D)) / lengths
    if nu is not None:
        frequencies *= np.sqrt(2.0 * nu / rng.chisquare(2.0 * nu, (features, 1)))
    phases = rng.uniform(0.0, 2.0 * np.pi, features)
    weights = np.sqrt(2.0 * variance / features) * rng.standard_normal(features)
    prior = np.cos(moments.Z @ frequencies.T + phases) @ weights
    _, covariance = moments.at(moments.Z)
    e = covariance_root(covariance)(rng.standard_normal((n, 1)))[:, 0]
    # jitter acts on the random part alone: the mean has its own weights
    K = moments.kernel._block(moments.rows, moments._prepared(moments.Z))
    lower = Cholesky.of(K + 1e-10 * variance * np.eye(n)).lower
    return Path(moments, frequencies, phases, weights, cho_solve((lower, True), e - prior))


def radial_parts(kernel: Kernel) -> tuple[float, Array, float | None]:
    """Variance, length scales, and the smoothness of a Matern kernel (None: squared exponential)."""
    one = kernel.parts[0] if len(kernel.parts) == 1 else kernel
    if isinstance(kernel, Product) or not isinstance(one, SE | Matern) or "loadings" in one._params:
        raise InputError(
            f"a path is drawn from a squared exponential or Matern process, got {kernel!r}; draw at points instead"
        )
    variance = 1.0 if one is kernel else float(kernel.flat[0])
    return variance, np.asarray(one.lengthscale, dtype=float), one.nu if isinstance(one, Matern) else None
