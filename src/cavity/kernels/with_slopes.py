"""Rows that observe slopes, a f(x) + u . grad f(x), as a kernel on wider rows.

Rasmussen and Williams (2006), section 9.4.

A row holds the D inputs x, the weight a of the value, the direction u, and a number of its kind, which is there for the
likelihood (`Switch`) and which the kernel ignores: 2 D + 2 columns. With the jets of the kernel inside, the
covariance of two rows is

    a a' K + a' K_left + a K_right + K_both

so slopes are rows like any other: every inference rule, noise model and sampler takes them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.algebra import Scaled
from cavity.kernels.base import Kernel, Rows, as_inputs
from cavity.kernels.jets.base import Back, Jets, Pairing, jets_of
from cavity.kernels.jets.numbers import Jet, Node, Part, plus, pull_back, times
from cavity.kernels.wrapper import Wrapper
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError


class WithSlopes(Wrapper):
    """A kernel for values and slopes of one function, on rows of `values` and `slopes`.

    Parameters
    ----------
    kernel : Kernel
        Of the function itself, on D columns. It must be differentiable in the columns that have slopes: `SE`,
        `RationalQuadratic`, `Matern` with nu > 1, `Periodic`, `Linear`, sums, products and so on.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE, WithSlopes, slopes, values
    >>> from cavity.likelihoods import Gaussian
    >>> rows = np.vstack([values([[0.0]]), slopes([[0.0]])])
    >>> posterior = GP(WithSlopes(SE(1.0)), Gaussian(1e-6)).condition(rows, [0.0, 1.0])
    >>> posterior.mean(values([[0.1]])).round(4)  # of a function with value 0 and slope 1 at the origin
    array([0.0995])
    """

    _named = _widenable = False

    @cached_property
    def _scale(self) -> tuple[float, Kernel]:
        """The kernel as a variance times another one: all parts of its jets scale alike."""
        inner = self.kernel
        return (inner.variance, inner.kernel) if isinstance(inner, Scaled) else (1.0, inner)

    @cached_property
    def _jets(self) -> Jets:
        import cavity.kernels.jets  # noqa: F401  # the rules register themselves

        return jets_of(self._scale[1])

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The kernel inside is bound to the inputs without weight and direction."""
        self._check_width(n_features)
        dims = n_features // 2 - 1
        names = None if feature_names is None else list(feature_names)[:dims]
        return self._rebuild({}, (self.kernel.bind(dims, names),))

    def _check_width(self, n_features: int) -> None:
        if n_features < 4 or n_features % 2:
            raise InputError(
                f"WithSlopes takes rows of inputs, weight, direction and kind, 2 D + 2 columns; got {n_features}",
                parameter="X",
                remedy="make them by cavity.kernels.values(X) and slopes(X, direction)",
            )
        self.kernel._check_width(n_features // 2 - 1)

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        D = X.shape[1] // 2 - 1
        x, weight, u = (np.ascontiguousarray(part) for part in (X[:, :D], X[:, D], X[:, D + 1 : -1]))
        return self.kernel._prepare(x, ids), self._jets.prepare(x, u, ids), weight, u.any(axis=1), u

    @staticmethod
    def _pairing(a: Rows, b: Rows, paired: bool = False) -> Pairing:
        return Pairing(paired, bool(a[3].any()), bool(b[3].any()))

    @staticmethod
    def _weighted(G: Part, *weights: Array) -> Part:
        """G times weights of rows, shaped for the tile; weights of zero and one cost nothing."""
        for w in weights:
            if G is None or not w.any():
                return None
            if not (w == 1.0).all():
                G = G * w
        return G

    def _joined(self, jet: Jet, a: Rows, b: Rows, pairing: Pairing, shape: tuple[int, ...]) -> Array:
        """a a' K + a' K_left + a K_right + K_both."""
        one, other = pairing.column(a[2]), b[2]
        found = plus(
            self._weighted(jet.value, one, other),
            self._weighted(jet.left, other),
            self._weighted(jet.right, one),
            jet.both,
        )
        return np.zeros(shape) if found is None else self._scale[0] * found

    def _plain(self, a: Rows, b: Rows) -> bool:
        """Whether all rows are values of weight one."""
        return not (a[3].any() or b[3].any()) and bool((a[2] == 1.0).all() and (b[2] == 1.0).all())

    def _block(self, a: Rows, b: Rows) -> Array:
        if self._plain(a, b):
            return self.kernel._block(a[0], b[0])
        pairing = self._pairing(a, b)
        jet = self._jets.node(a[1], b[1], pairing, None, None).jet
        return self._joined(jet, a, b, pairing, (len(a[2]), len(b[2])))

    def _diag(self, a: Rows) -> Array:
        pairing = self._pairing(a, a, paired=True)
        jet = self._jets.node(a[1], a[1], pairing, None, None).jet
        return self._joined(jet, a, a, pairing, (len(a[2]),))

    def _sent_back(
        self, a: Rows, b: Rows, G: Array, pairing: Pairing, flat: Array | None, back: Back | None
    ) -> Node:
        """The cotangent of the covariance through the jets, without the variance in front."""
        node = self._jets.node(a[1], b[1], pairing, flat, back)
        one, other = pairing.column(a[2]), b[2]
        given = Jet(
            self._weighted(G, one, other),
            self._weighted(G, other) if pairing.left else None,
            self._weighted(G, one) if pairing.right else None,
            G if pairing.left and pairing.right else None,
        )
        pull_back(node, given)
        return node

    def _to_flat(self, a: Rows, b: Rows, G: Array, K: Array, pairing: Pairing) -> Array:
        variance, inner = self._scale
        found = np.zeros(inner.flat.size)
        self._sent_back(a, b, G, pairing, found, None)
        if inner is self.kernel:
            return found
        return np.concatenate([[np.vdot(G, K) / variance], variance * found])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        if self._plain(a, b):
            return self.kernel._pull(a[0], b[0], G, K)
        return self._to_flat(a, b, G, K, self._pairing(a, b))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self._to_flat(a, a, g, self._diag(a), self._pairing(a, a, paired=True))

    def _to_rows(self, a: Rows, b: Rows, G: Array, pairing: Pairing) -> tuple[Array, Array]:
        """Cotangents of the rows: inputs, weights and directions of both sides."""
        D = a[4].shape[1]
        # slopes of rows without a direction count too: u = 0 is where they are taken
        pairing = Pairing(pairing.paired, True, True)
        dA, dB = np.zeros((len(a[2]), 2 * D + 2)), np.zeros((len(b[2]), 2 * D + 2))

        def back(dx: Part, du: Part, dx_other: Part, du_other: Part) -> None:
            for whole, moved, turned in ((dA, dx, du), (dB, dx_other, du_other)):
                if moved is not None:
                    whole[:, :D] += moved
                if turned is not None:
                    whole[:, D + 1 : -1] += turned

        G = self._scale[0] * G
        jet = self._sent_back(a, b, G, pairing, None, back).jet
        one, other = pairing.column(a[2]), b[2]
        by_a, by_b = plus(times(jet.value, other), jet.right), plus(times(jet.value, one), jet.left)
        if by_a is not None:
            dA[:, D] += pairing.of_left(G * by_a)
        if by_b is not None:
            dB[:, D] += pairing.of_right(G * by_b)
        return dA, dB

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return self._to_rows(a, b, G, Pairing())

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        one, other = self._to_rows(a, a, g, Pairing(paired=True))
        return one + other


def values(X: ArrayLike, kind: float = 0.0) -> Array:
    """Rows of `WithSlopes` that observe f(x): inputs, weight one, no direction, and a kind for the likelihood.

    Examples
    --------
    >>> from cavity.kernels import values
    >>> values([[0.5, 2.0]])
    array([[0.5, 2. , 1. , 0. , 0. , 0. ]])
    """
    x = as_inputs(X)
    return np.hstack([x, np.ones((len(x), 1)), np.zeros_like(x), np.full((len(x), 1), float(kind))])


def slopes(X: ArrayLike, direction: Any = 0, kind: float = 1.0) -> Array:
    """Rows of `WithSlopes` that observe u . grad f(x): inputs, weight zero, a direction, and a kind for the likelihood.

    Parameters
    ----------
    X : array (n, D)
    direction : int, array (D,) or array (n, D)
        A column in which to go, or u itself, one for all rows or one for each; of any length, in units of the inputs.

    Examples
    --------
    >>> from cavity.kernels import slopes
    >>> slopes([[0.5, 2.0]], 1)
    array([[0.5, 2. , 0. , 0. , 1. , 1. ]])
    """
    x = as_inputs(X)
    n, D = x.shape
    if isinstance(direction, int | np.integer) and not isinstance(direction, bool):
        if not 0 <= direction < D:
            raise InputError(
                f"must be a column of X, 0 to {D - 1}, or {D} numbers, got {direction}",
                parameter="direction",
                value=direction,
            )
        u = np.zeros(D)
        u[direction] = 1.0
    else:
        u = np.asarray(direction, dtype=float)
    if u.shape not in ((D,), (n, D)) or not np.isfinite(u).all():
        raise InputError(
            f"must be a column of X, {D} finite numbers, one for each column, or {n} rows of them; got shape {u.shape}",
            parameter="direction",
            value=direction,
        )
    if not u.any(axis=-1).all():
        raise InputError(
            "must not be zero: there is no slope along it", parameter="direction", value=direction
        )
    return np.hstack([x, np.zeros((n, 1)), np.broadcast_to(u, (n, D)), np.full((n, 1), float(kind))])
