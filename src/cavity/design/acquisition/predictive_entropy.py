"""Predictive entropy search (Hernandez-Lobato et al., 2014): nats about the place of the minimum.

    PES(x) = log(v(x) + noise) / 2 - mean over x* of log(v(x | x*) + noise) / 2,

with places x* drawn from the posterior (minima of Thompson draws). That the minimum is at x* is put as constraints:

1. the slope at x* is zero: exact conditioning. Along an input at an end of its range, the slope points out of the box;
2. second derivatives at x* along the inputs are positive (those across two inputs are left free), and
3. f(x*) is below the incumbent: one Gaussian cut to a region, by expectation propagation (`cavity.bayes.truncate`);
4. f(x) > f(x*) at the point in question: the two are jointly Gaussian, and one cut is exact (`above_minimum`).

For u = (f, l df, l^2 d2f) at x*, in units of the length scales l, a squared exponential k with t = (x - x*) / l has
cov(f(x), u) = k(x, x*) (1, t, t^2 - 1), so that 1 to 3 change the process by a Gaussian of 2 D + 1 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve

from cavity.bayes import Gaussian, truncate
from cavity.design.acquisition.entropy import _ratio
from cavity.design.acquisition.thompson import radial_parts
from cavity.latent.moments import Moments
from cavity.means import Constant, Zero
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky
from cavity.runtime.errors import InputError

Pull = Callable[[Array], Array]
"""Of derivatives to gradients in the points (m, D)."""

JITTER = 1e-8
"""Share of the prior variance that keeps covariances at x* regular, where the data nearly determine them."""

EDGE = 1e-6
"""Distance from an end of its range at which an input lies at that end."""


@dataclass(frozen=True, eq=False)
class GivenMinimum:
    """The process if its minimum were at a place.

    With c(x) the covariances of f(x) with u, given the data: mean m + c a, variance v - c B c, and c d is the
    covariance with f(x*).

    Attributes
    ----------
    moments : Moments
    place : array (D,)
    lengths : array (D,)
    a, d : arrays (2 D + 1,)
    B : array (2 D + 1, 2 D + 1)
    mean, variance : float
        Of f(x*).
    """

    moments: Moments
    place: Array
    lengths: Array
    a: Array
    d: Array
    B: Array
    mean: float
    variance: float

    def without_the_last(self, X: Array) -> tuple[Array, Array]:
        """Means (m,) and variances (m,) of f at X under the first three constraints."""
        mean, variance = self.moments(X)
        c, _ = _covariances(self.moments, self.place, self.lengths, X)
        return self._changed(mean[:, 0], variance, c)[:2]

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Means (m,) and variances (m,) of f at X under all four constraints."""
        mean, variance = self.moments(X)
        c, _ = _covariances(self.moments, self.place, self.lengths, X)
        above = _above(*self._changed(mean[:, 0], variance, c), self.mean, self.variance)
        return above.mean, above.variance

    def _changed(self, mean: Array, variance: Array, c: Array) -> tuple[Array, Array, Array]:
        left = variance - np.einsum("ij,jk,ik->i", c, self.B, c)
        return mean + c @ self.a, np.maximum(left, np.finfo(float).eps * variance), c @ self.d

    def variance_with_pull(self, X: Array) -> tuple[Array, Pull]:
        """Variances (m,), and the pullback of their derivatives (m,) to the points (m, D)."""
        mean, variance, pull_moments = self.moments.with_pull(X)
        c, pull_covariances = _covariances(self.moments, self.place, self.lengths, X)
        above = _above(*self._changed(mean[:, 0], variance, c), self.mean, self.variance)

        def pull(by: Array) -> Array:
            by_mean, by_variance, by_cross = (by * slope for slope in above.slopes)
            to_c = by_mean[:, None] * self.a - 2.0 * by_variance[:, None] * (c @ self.B)
            to_c = to_c + by_cross[:, None] * self.d
            return pull_moments(by_mean[:, None], by_variance) + pull_covariances(to_c)

        return above.variance, pull


@dataclass(frozen=True, eq=False)
class _Above:
    mean: Array
    variance: Array
    slopes: tuple[Array, Array, Array]


def _above(m: Array, v: Array, cross: Array, least: float, variance: float) -> _Above:
    """f(x) given f(x) > f(x*), as `above_minimum`; slopes are those of the variance in m, v and cross."""
    apart = v - cross
    total = np.maximum(v - 2.0 * cross + variance, 1e-12 * (v + variance))
    s = np.sqrt(total)
    alpha = (m - least) / s
    r = _ratio(alpha)
    u = r * (r + alpha)
    du = -r * (alpha + r) * (2.0 * r + alpha) + r
    share = apart / total
    by_alpha = -share * apart * du
    by_total = u * share**2 - 0.5 * by_alpha * alpha / total
    slopes = (by_alpha / s, 1.0 - 2.0 * u * share + by_total, 2.0 * u * share - 2.0 * by_total)
    return _Above(m + r * apart / s, v - u * share * apart, slopes)


def _features(X: Array, place: Array, lengths: Array) -> Array:
    """1, t, t^2 - 1 for each row, (m, 2 D + 1)."""
    t = (X - place) / lengths
    return np.hstack([np.ones((len(X), 1)), t, t * t - 1.0])


def _covariances(moments: Moments, place: Array, lengths: Array, X: Array) -> tuple[Array, Pull]:
    """Of f(x) with u at the place, given the data: (m, 2 D + 1), and their pullback to X."""
    kernel, D = moments.kernel, len(place)
    a, star = moments._prepared(X), moments._prepared(place[None])
    K, k = kernel._block(a, moments.rows), kernel._block(a, star)
    features = _features(X, place, lengths)
    at_data = kernel._block(moments.rows, star) * _features(moments.Z, place, lengths)
    gain = moments.R @ at_data

    def pull(G: Array) -> Array:
        through_k = np.einsum("ij,ij->i", G, features)[:, None]
        out = kernel._pull_inputs(a, star, through_k, k)[0]
        t = (X - place) / lengths
        out = out + k * (G[:, 1 : D + 1] + 2.0 * t * G[:, D + 1 :]) / lengths
        return np.asarray(out + kernel._pull_inputs(a, moments.rows, -G @ gain.T, K)[0])

    return k * features - K @ gain, pull


def given_minimum(
    moments: Moments, place: Array, best: float, low: Array | float = 0.0, high: Array | float = 1.0
) -> GivenMinimum:
    """The process given that its minimum over the box from low to high lies at a place (D,), below the incumbent.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.design import moments_of
    >>> from cavity.design.acquisition import given_minimum
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> moments = moments_of(GP(1.0 * SE(0.3), Gaussian(1e-6)).condition([[0.1], [0.9]], [0.5, 0.2]).process)
    >>> given = given_minimum(moments, np.array([0.6]), 0.2)
    >>> mean, variance = given(np.array([[0.55]]))
    >>> bool(variance[0] < moments(np.array([[0.55]]))[1][0])
    True
    """
    size, lengths = _size_and_lengths(moments)
    place = np.asarray(place, dtype=float)
    D = len(place)
    lengths = np.broadcast_to(lengths, (D,))
    star = moments._prepared(place[None])
    at_data = moments.kernel._block(moments.rows, star) * _features(moments.Z, place, lengths)
    mean = at_data.T @ moments.weights[:, 0]
    mean[0] = moments(place[None])[0][0, 0]
    cov = _prior_at_one_place(size, D) - at_data.T @ moments.R @ at_data
    cov = 0.5 * (cov + cov.T) + JITTER * size * np.eye(2 * D + 1)
    slopes, curvatures = np.arange(1, D + 1), np.arange(D + 1, 2 * D + 1)
    at_low, at_high = place <= low + EDGE, place >= high - EDGE
    flat = slopes[~(at_low | at_high)]
    rest = np.setdiff1d(np.arange(2 * D + 1), flat)
    # 1: the slope is zero, exactly
    gain = np.zeros((len(rest), 0))
    w = Gaussian(mean[rest], cov[np.ix_(rest, rest)])
    if len(flat):
        lower = Cholesky.of(cov[np.ix_(flat, flat)]).lower
        gain = cho_solve((lower, True), cov[np.ix_(flat, rest)]).T
        left = w.covariance - gain @ cov[np.ix_(flat, rest)]
        w = Gaussian(w.mean - gain @ mean[flat], 0.5 * (left + left.T))
    # 2 and 3: curvatures, slopes at the ends of the box, the incumbent
    below, above = np.full(2 * D + 1, -np.inf), np.full(2 * D + 1, np.inf)
    above[0] = best
    below[curvatures[~(at_low | at_high)]] = 0.0
    below[slopes[at_low]], above[slopes[at_high]] = 0.0, 0.0
    cut = truncate(w, below[rest], above[rest]).gaussian
    moved = np.zeros(2 * D + 1)
    spread = np.zeros((2 * D + 1, 2 * D + 1))
    moved[rest], spread[np.ix_(rest, rest)] = cut.mean, cut.covariance
    lower = Cholesky.of(cov).lower
    back = cho_solve((lower, True), spread)
    inverse = cho_solve((lower, True), np.eye(2 * D + 1))
    B = inverse - cho_solve((lower, True), back.T).T
    a = cho_solve((lower, True), moved - mean)
    return GivenMinimum(
        moments, place, lengths, a, back[:, 0], 0.5 * (B + B.T), float(moved[0]), float(spread[0, 0])
    )


def _size_and_lengths(moments: Moments) -> tuple[float, Array]:
    if moments.mean_function is None or isinstance(moments.mean_function, Constant | Zero):
        try:
            size, lengths, nu = radial_parts(moments.kernel)
            if nu is None:
                return size, lengths
        except InputError:
            pass
    raise InputError(
        "predictive entropy search is for numbers, with a squared exponential process of constant mean; "
        "max-value entropy search ('mes') is for all"
    )


def _prior_at_one_place(size: float, D: int) -> Array:
    """Covariance of (f, l df, l^2 d2f) of a squared exponential process of variance `size`."""
    out = np.eye(2 * D + 1)
    out[D + 1 :, D + 1 :] = 1.0 + 2.0 * np.eye(D)
    out[0, D + 1 :] = out[D + 1 :, 0] = -1.0
    return size * out


@dataclass(frozen=True, eq=False)
class PredictiveEntropy:
    """Nats about the place of the minimum that an observation with this noise variance brings, as an acquisition.

    Attributes
    ----------
    moments : Moments
    given : sequence of GivenMinimum
        One for each drawn place.
    noise : float
    """

    moments: Moments
    given: Sequence[GivenMinimum]
    noise: float

    def __call__(self, X: Array) -> Array:
        """Values (m,)."""
        after = np.mean([np.log(one(X)[1] + self.noise) for one in self.given], axis=0)
        return np.asarray(0.5 * np.log(self.moments(X)[1] + self.noise) - 0.5 * after)

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, D)."""
        mean, variance, pull = self.moments.with_pull(X)
        value = 0.5 * np.log(variance + self.noise)
        gradient = pull(np.zeros_like(mean), 0.5 / (variance + self.noise))
        for one in self.given:
            left, pull_left = one.variance_with_pull(X)
            value = value - 0.5 * np.log(left + self.noise) / len(self.given)
            gradient = gradient + pull_left(-0.5 / (left + self.noise) / len(self.given))
        return value, gradient
