"""A Gaussian cut to an interval, an orthant or a polyhedron: probability and moments by expectation propagation.

    p(x) ~ N(x; m, C) prod_i 1(low_i < a_i'x < high_i)

Each constraint is a site on f_i = a_i'x. In coordinates u with x = m + L u, C = L L', the rows of A L are inputs of a
linear kernel, and the constraints are a log-concave likelihood: the EP of the library runs as it is (Cunningham, Hennig
and Lacoste-Julien, 2011). One constraint, or several on independent coordinates, come out exactly. For the rest the
first correction of an expansion around EP's fixed point (Opper, Paquet and Winther, 2013) is added to the log
probability: with the cumulants c_l of the tilted densities and the marginal covariance S of the f_i,

    1/2 sum_{i != j} sum_{l = 3, 4} c_li c_lj / l!  (S_ij / (S_ii S_jj))^l.

On random orthants of up to five dimensions it takes errors of up to 6 % down to below 2 %, and 1 % to 0.1 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.special import log_ndtr

from cavity.bayes.gaussian import Gaussian
from cavity.gp import GP
from cavity.inference.base import Status
from cavity.kernels import Linear
from cavity.latent.prior_times_sites import Conditioned
from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    Power,
    Tilted,
    log_cavity_mass,
    require_cavity,
)
from cavity.numerics.arrays import Array
from cavity.numerics.special import half_line, normal_interval
from cavity.runtime.errors import InputError


class Between(Likelihood):
    """p = 1 if low < f < high, and 0 otherwise; ends of each row, possibly infinite."""

    log_concave = True
    smooth = False

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        self.low, self.high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        self._set_up({})

    def rows(self, index: Any) -> Self:
        """The constraints of some rows."""
        return type(self)(self.low[index], self.high[index])

    def log_prob(self, y: Array, f: Array) -> Array:
        """0 or -inf."""
        return np.where((f > self.low) & (f < self.high), 0.0, -np.inf)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Zero inside."""
        zero = np.zeros_like(f + self.low)
        return Derivatives(self.log_prob(y, f), zero, zero, zero)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """Minus infinity: a normal density always reaches the impossible side."""
        raise ValueError("Between: E[log p] is minus infinity under any normal density; use EP")

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """A normal density cut at one or both ends, whatever the power."""
        require_cavity(self, precision, power)
        s = 1.0 / np.sqrt(precision)
        m = shift / precision
        a, b = (self.low - m) / s, (self.high - m) / s
        found = np.empty((5, len(m)))
        above, below = np.isinf(b), np.isinf(a) & ~np.isinf(b)
        both = ~(above | below)
        if above.any():
            t = half_line(a[above])
            free = np.isinf(a[above])  # no constraint at all
            values = np.stack([log_ndtr(-a[above]), self.low[above] + s[above] * t.mean, t.var, t.c3, t.c4])
            values[:, free] = np.stack(
                [0 * m[above], m[above], np.ones(above.sum()), 0 * m[above], 3.0 + 0 * m[above]]
            )[:, free]
            found[:, above] = values
        if below.any():
            t = half_line(-b[below])
            found[:, below] = np.stack(
                [log_ndtr(b[below]), self.high[below] - s[below] * t.mean, t.var, -t.c3, t.c4]
            )
        if both.any():
            log_p, t = normal_interval(a[both], b[both], (self.high - self.low)[both] / s[both])
            found[:, both] = np.stack([log_p, self.low[both] + s[both] * t.mean, t.var, t.c3, t.c4])
        log_z, mean, var, c3, c4 = found
        mass = log_cavity_mass(shift, precision)
        none = np.zeros((0, len(m)))
        return Tilted(log_z + mass, log_z, mean, var * s**2, none, c3 * s**3, c4 * s**4)


@dataclass(frozen=True)
class Truncated:
    """A truncated Gaussian, as EP sees it.

    Attributes
    ----------
    log_probability : float
        Log probability of the region under the Gaussian that was cut, corrected.
    correction : float
        What was added to EP's own value; large ones say that EP is not to be trusted here.
    gaussian : Gaussian
        With mean and covariance of the truncated distribution.
    status : Status
        Of EP.
    """

    log_probability: float
    correction: float
    gaussian: Gaussian
    status: Status


def truncate(
    gaussian: Gaussian, low: ArrayLike = -np.inf, high: ArrayLike = np.inf, planes: ArrayLike | None = None
) -> Truncated:
    """A Gaussian given that low < x < high, or low < A x < high.

    Parameters
    ----------
    gaussian : Gaussian
        Of d coordinates.
    low, high : numbers or arrays
        Ends, one for each coordinate or plane; infinite where there is none.
    planes : array (k, d), optional
        A; the coordinates themselves by default.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.bayes import Gaussian, truncate
    >>> found = truncate(Gaussian([0.0], [[1.0]]), high=1.0)
    >>> found.gaussian.mean.round(6), round(float(np.exp(found.log_probability)), 6)
    (array([-0.2876]), 0.841345)
    """
    A = np.eye(len(gaussian)) if planes is None else np.atleast_2d(np.asarray(planes, dtype=float))
    if A.shape[1] != len(gaussian):
        raise InputError(
            f"must have {len(gaussian)} columns, got shape {A.shape}", parameter="planes", value=planes
        )
    ends = [np.broadcast_to(np.asarray(end, dtype=float), (len(A),)) for end in (low, high)]
    if np.any(np.isnan(ends)) or not np.all(ends[0] < ends[1]):
        raise InputError(
            f"must be below high everywhere, got {low!r} and {high!r}", parameter="low", value=low
        )
    used = np.isfinite(ends[0]) | np.isfinite(ends[1])
    if not used.any():
        return Truncated(0.0, 0.0, gaussian, Status())
    A, (a, b) = A[used], (end[used] for end in ends)
    at_mean = A @ gaussian.mean
    # rows of unit prior variance, so that no plane is favored by its units
    L = np.linalg.cholesky(gaussian.covariance)
    rows = A @ L
    unit = np.sqrt(np.sum(rows**2, axis=1))
    if not np.all(unit > 0):
        raise InputError(f"has a row of zeros: {int(np.argmin(unit))}", parameter="planes", value=planes)
    rows, a, b = rows / unit[:, None], (a - at_mean) / unit, (b - at_mean) / unit
    _require_inside(rows, a, b)
    constraints = Between(a, b)
    posterior = GP(Linear(1.0, 0.0), constraints, inference="ep").condition(rows, np.zeros(len(rows)))
    sites, q = posterior.approximation.sites, posterior.approximation.q
    assert sites is not None
    assert isinstance(q, Conditioned)
    in_u = np.linalg.inv(np.eye(len(L)) + rows.T @ (sites.precision[:, None] * rows))
    mean = gaussian.mean + L @ (in_u @ (rows.T @ sites.shift))
    correction = _correction(constraints, q, rows @ in_u @ rows.T)
    return Truncated(
        posterior.log_evidence + correction,
        correction,
        Gaussian(mean, L @ in_u @ L.T),
        posterior.approximation.status,
    )


def _require_inside(rows: Array, low: Array, high: Array) -> None:
    """Refuse constraints that leave no volume: a ball inside them, as large as one, is looked for."""
    k, d = rows.shape
    ones, up, down = np.ones((k, 1)), np.isfinite(high), np.isfinite(low)
    found = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.vstack([np.hstack([rows, ones])[up], np.hstack([-rows, ones])[down]]),
        b_ub=np.concatenate([high[up], -low[down]]),
        bounds=[(None, None)] * d + [(None, 1.0)],
    )
    if found.status == 0 and float(found.fun or 0.0) >= -1e-12:
        raise InputError("and high contradict each other: they leave no room for a point", parameter="low")


def _correction(constraints: Between, q: Conditioned, S: Array) -> float:
    """The second-order term of log Z, from the third and fourth cumulants of the tilted densities."""
    mean, var = q.cavities()
    precision = 1.0 / var
    tilted = constraints.tilted(np.zeros(len(S)), mean * precision, precision, order=4)
    assert tilted.c3 is not None
    assert tilted.c4 is not None
    ratio = S / np.outer(np.diag(S), np.diag(S))
    np.fill_diagonal(ratio, 0.0)
    third, fourth = tilted.c3, tilted.c4 - 3.0 * tilted.var**2
    return float(0.5 * (third @ ratio**3 @ third / 6.0 + fourth @ ratio**4 @ fourth / 24.0))
