"""Integrals of a function under its posterior: Bayesian quadrature (Rasmussen and Williams, 2006, section 9.8).

For a measure p and z(x) = int k(x, t) p(t) dt, zz = int z p, the integral of f is normal with

    mean = int m p + z(X)' weights,    variance = zz - z(X)' R z(X)

In closed form for squared exponentials under normal and uniform measures, for Wiener processes from the start on, and
for their sums, multiples and, of different columns, products; otherwise by Gauss rules, which need few columns. Rows
may also be averages (`Blurred`, `BoxAverages`) or slopes (`WithSlopes`) of the function: measures are over its inputs.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import reduce, singledispatch
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import erf

from cavity.kernels import SE, Blurred, BoxAverages, Constant, Kernel, Scaled, Sum, Wiener, WithSlopes, values
from cavity.latent.posterior_process import PosteriorProcess
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.prediction import GaussianPrediction
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.posterior import Posterior

__all__ = ["BoxMeasure", "NormalMeasure", "integrate"]

NODES = 60
"""Nodes of a Gauss rule in each column."""

MOST_NODES = 200_000
"""Nodes of a product rule."""

UNBELIEVABLE = 1e-9
"""Share of an integral's prior variance below which a posterior variance is rounding, or smoothness taken on trust."""


@dataclass(frozen=True)
class NormalMeasure:
    """A normal density with independent columns.

    Examples
    --------
    >>> from cavity.integrals import NormalMeasure
    >>> NormalMeasure([0.0, 1.0], [1.0, 2.0]).columns
    2
    """

    mean: Any
    sd: Any

    @property
    def columns(self) -> int:
        """Number of input columns."""
        return len(np.atleast_1d(self.mean))

    def pairs(self) -> tuple[Array, Array]:
        """Mean and sd of each column."""
        mean = np.atleast_1d(np.asarray(self.mean, dtype=float))
        sd = np.broadcast_to(np.asarray(self.sd, dtype=float), mean.shape)
        if not (np.isfinite(mean).all() and np.isfinite(sd).all() and (sd > 0).all()):
            raise InputError(
                f"a normal measure needs finite means and positive sds, got {self.mean!r} and {self.sd!r}",
                parameter="measure",
            )
        return mean, sd

    def rule(self) -> list[tuple[Array, Array]]:
        """Nodes and weights of each column."""
        x, w = np.polynomial.hermite_e.hermegauss(NODES)
        return [(m + s * x, w / w.sum()) for m, s in zip(*self.pairs())]


@dataclass(frozen=True)
class BoxMeasure:
    """The uniform density on a box.

    Examples
    --------
    >>> from cavity.integrals import BoxMeasure
    >>> BoxMeasure([0.0], [1.0]).columns
    1
    """

    low: Any
    high: Any

    @property
    def columns(self) -> int:
        """Number of input columns."""
        return len(np.atleast_1d(self.low))

    def pairs(self) -> tuple[Array, Array]:
        """Lower and upper end of each column."""
        low, high = (np.atleast_1d(np.asarray(v, dtype=float)) for v in (self.low, self.high))
        if low.shape != high.shape or not (high > low).all():
            raise InputError(f"a box needs low < high in every column, got {self.low!r} and {self.high!r}")
        return low, high

    def rule(self) -> list[tuple[Array, Array]]:
        """Nodes and weights of each column."""
        x, w = np.polynomial.legendre.leggauss(NODES)
        return [(a + (b - a) * (x + 1) / 2, w / 2) for a, b in zip(*self.pairs())]


Measure = NormalMeasure | BoxMeasure


def _nodes(measure: Measure) -> tuple[Array, Array]:
    """Nodes (q, D) and weights (q,) of a product rule."""
    parts = measure.rule()
    if NODES ** len(parts) > MOST_NODES:
        raise InputError(
            f"integrals of this kernel are by product rules, which need too many nodes in {len(parts)} columns",
            parameter="kernel",
            remedy="use SE",
        )
    grid = np.meshgrid(*[x for x, _ in parts], indexing="ij")
    weights = reduce(np.multiply.outer, [w for _, w in parts])
    return np.column_stack([g.ravel() for g in grid]), np.asarray(weights).ravel()


@singledispatch
def value_rows(kernel: Kernel, T: Array) -> Array:
    """Rows of a kernel that are values of its function at inputs T (q, D)."""
    return T


@value_rows.register
def _(kernel: WithSlopes, T: Array) -> Array:
    return values(T)


@value_rows.register(Blurred)
@value_rows.register(BoxAverages)
def _(kernel: Kernel, T: Array) -> Array:
    return np.hstack([T, np.zeros_like(T)])  # of no width


@value_rows.register
def _(kernel: Scaled, T: Array) -> Array:
    return value_rows(kernel.kernel, T)


@value_rows.register
def _(kernel: Sum, T: Array) -> Array:
    return max((value_rows(term, T) for term in kernel.terms), key=lambda rows: rows.shape[1])


@singledispatch
def kernel_integrals(kernel: Kernel, measure: Measure, X: Array) -> tuple[Array, float]:
    """z at the rows of X, and zz; by Gauss rules unless a kernel knows better."""
    T, w = _nodes(measure)
    rows = value_rows(kernel, T)
    return np.asarray(kernel(X, rows) @ w), float(w @ kernel(rows, rows + 0.0) @ w)


@kernel_integrals.register
def _(kernel: BoxAverages, measure: Measure, X: Array) -> tuple[Array, float]:
    if not isinstance(measure, BoxMeasure):
        return kernel_integrals.dispatch(Kernel)(kernel, measure, X)
    low, high = measure.pairs()
    return _as_average(kernel, np.concatenate([(low + high) / 2.0, high - low]), X)


@kernel_integrals.register
def _(kernel: Blurred, measure: Measure, X: Array) -> tuple[Array, float]:
    plain = Blurred(kernel.lengthscale)  # the integral itself is an average in any case
    if not isinstance(measure, NormalMeasure):
        T, w = _nodes(measure)
        rows = value_rows(kernel, T)
        return np.asarray(plain(X, rows) @ w), float(w @ plain(rows, rows + 0.0) @ w)
    return _as_average(plain, np.concatenate(measure.pairs()), X)


def _as_average(kernel: Kernel, row: Array, X: Array) -> tuple[Array, float]:
    """The integral is a row of the kernel."""
    return np.asarray(kernel(X, row[None])[:, 0]), float(kernel.diag(row[None])[0])


@kernel_integrals.register
def _(kernel: SE, measure: Measure, X: Array) -> tuple[Array, float]:
    if "loadings" in kernel.params:
        return kernel_integrals.dispatch(Kernel)(kernel, measure, X)
    scales = np.broadcast_to(np.asarray(kernel.lengthscale, dtype=float), X.shape[1])
    z, zz = np.ones(len(X)), 1.0
    first, second = measure.pairs()
    for x, one, other, scale in zip(X.T, first, second, scales):
        if isinstance(measure, NormalMeasure):
            total = scale**2 + other**2
            z = z * scale / np.sqrt(total) * np.exp(-0.5 * (x - one) ** 2 / total)
            zz *= scale / np.sqrt(scale**2 + 2.0 * other**2)
            continue
        width, root = other - one, scale * np.sqrt(2.0)
        z = z * scale * np.sqrt(np.pi / 2.0) / width * (erf((other - x) / root) + erf((x - one) / root))
        ratio = width / root
        zz *= np.sqrt(np.pi) * erf(ratio) / ratio - (1.0 - np.exp(-(ratio**2))) / ratio**2
    return np.asarray(z), float(zz)


@kernel_integrals.register
def _(kernel: Wiener, measure: Measure, X: Array) -> tuple[Array, float]:
    if type(kernel) is not Wiener or not isinstance(measure, BoxMeasure):
        return kernel_integrals.dispatch(Kernel)(kernel, measure, X)
    (low,), (high,) = (part - kernel.start for part in measure.pairs())
    if low < 0:
        raise InputError(f"the box must not begin before start={kernel.start}", parameter="measure")
    x, width = X[:, 0] - kernel.start, high - low
    inside = np.clip(x, low, high)
    z = ((inside**2 - low**2) / 2.0 + inside * (high - inside) + np.minimum(x - inside, 0.0) * width) / width
    return np.asarray(z), float(low + width / 3.0)


@kernel_integrals.register
def _(kernel: Constant, measure: Measure, X: Array) -> tuple[Array, float]:
    return np.full(len(X), kernel.variance), float(kernel.variance)


@kernel_integrals.register
def _(kernel: Scaled, measure: Measure, X: Array) -> tuple[Array, float]:
    z, zz = kernel_integrals(kernel.kernel, measure, X)
    return kernel.variance * z, float(kernel.variance * zz)


@kernel_integrals.register
def _(kernel: Sum, measure: Measure, X: Array) -> tuple[Array, float]:
    found = [kernel_integrals(term, measure, X) for term in kernel.terms]
    return np.sum([z for z, _ in found], axis=0), float(sum(zz for _, zz in found))


def integrate(posterior: Posterior, measure: Measure) -> GaussianPrediction:
    """The integral of f under a measure, as a normal distribution of one case.

    Parameters
    ----------
    posterior : Posterior
    measure : NormalMeasure or BoxMeasure

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.integrals import NormalMeasure, integrate
    >>> from cavity.kernels import Matern
    >>> from cavity.likelihoods import Noiseless
    >>> x = np.linspace(-4, 4, 17)[:, None]
    >>> posterior = GP(4.0 * Matern(2.0, nu=2.5), Noiseless()).condition(x, x[:, 0] ** 2)
    >>> found = integrate(posterior, NormalMeasure([0.0], [1.0]))
    >>> bool(abs(found.mean[0] - 1.0) < 2 * found.sd[0] < 0.01)  # of x^2 under N(0, 1), which is one
    True
    """
    process: Any = posterior.function
    if not isinstance(process, PosteriorProcess) or process.weights.ndim > 1:
        raise InputError(
            "integrals are for one target and a dense or inducing representation", parameter="posterior"
        )
    X = process.X
    known = value_rows(process.kernel, np.zeros((1, measure.columns))).shape[1]
    if known != X.shape[1]:
        wide = known // measure.columns
        raise InputError(
            f"has {measure.columns} columns, and the model has {X.shape[1] // wide}",
            parameter="measure",
            value=measure,
        )
    z, zz = kernel_integrals(process.kernel, measure, X)
    mean = float(z @ process.weights)
    minus, plus = process.conditioning.reduce(z[:, None])
    variance = zz - float(np.sum(minus**2)) + (0.0 if plus is None else float(np.sum(plus**2)))
    if process.mean_function is not None:
        T, w = _nodes(measure)
        T = value_rows(process.kernel, T)
        mean += float(w @ process.mean_function(T))
        if process.basis is not None:
            h = w @ cast(Basis, process.mean_function).features(T)
            mean += float(h @ process.basis.shift)
            r = process.basis.precision.half_solve((h - process.basis.projection.T @ z)[:, None])
            variance += float(np.sum(r**2))
    if variance < UNBELIEVABLE * zz:
        warnings.warn(
            f"the variance of the integral is {max(variance, 0.0):.3g}, below {UNBELIEVABLE:g} of what it was before "
            "the data: that is rounding, or smoothness that the kernel takes on trust; a Matern kernel promises less",
            stacklevel=2,
        )
    return GaussianPrediction(np.array([mean]), np.array([max(variance, np.finfo(float).eps * zz)]))
