"""Slopes of kernels made of kernels: jets are closed under the algebra."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.additive import Additive
from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.base import Kernel, Rows
from cavity.kernels.cosine import TURN, phase
from cavity.kernels.jets.base import Back, Jets, Pairing, jets_of
from cavity.kernels.jets.leaves import _placed, one_sided
from cavity.kernels.jets.numbers import Jet, Node, Part, add, apply, constant, multiply, parameter, power
from cavity.kernels.outputs import Coregionalized
from cavity.kernels.periodic import Periodic
from cavity.kernels.rescaling import Normalized, Rescaled
from cavity.kernels.standardized import Standardized
from cavity.kernels.warping import Warped
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError


def _slices(flat: Array | None, kernels: tuple[Kernel, ...], start: int = 0) -> list[Array | None]:
    """Views of a gradient, one for each kernel."""
    found: list[Array | None] = []
    for kernel in kernels:
        found.append(None if flat is None else flat[start : start + kernel.flat.size])
        start += kernel.flat.size
    return found


class OfTerms(Jets):
    """Sums and products."""

    kernel: Sum | Product

    def __init__(self, kernel: Sum | Product) -> None:
        super().__init__(kernel)
        self.terms = [jets_of(term) for term in kernel.terms]
        self.combine = add if isinstance(kernel, Sum) else multiply

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Rows of each term."""
        return tuple(term.prepare(X, U, ids) for term in self.terms)

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """Terms added up or multiplied."""
        parts = _slices(flat, self.kernel.terms)
        nodes = [t.node(ta, tb, pairing, part, back) for t, ta, tb, part in zip(self.terms, a, b, parts)]
        return reduce(self.combine, nodes)


class OfOutputs(Jets):
    """The table of outputs times slopes in the inputs."""

    kernel: Coregionalized

    def __init__(self, kernel: Coregionalized) -> None:
        super().__init__(kernel)
        self.table, self.inner = jets_of(kernel._table), jets_of(kernel.kernel)

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Outputs and inputs."""
        x, u = (np.ascontiguousarray(part[:, 1:]) for part in (X, U))
        return self.table.prepare(X[:, :1], U[:, :1], ids), self.inner.prepare(x, u, ids)

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The product."""

        def through(*parts: Part) -> None:
            assert back is not None
            back(*(None if d is None else np.hstack([np.zeros((len(d), 1)), d]) for d in parts))

        table, inner = _slices(flat, (self.kernel._table, self.kernel.kernel))
        return multiply(
            self.table.node(a[0], b[0], pairing, table, None),
            self.inner.node(a[1], b[1], pairing, inner, None if back is None else through),
        )


class Inside(Jets):
    """What kernels around one other kernel share."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.inner = jets_of(cast(Kernel, kernel.parts[0]))

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Rows of the kernel inside."""
        return self.inner.prepare(X, U, ids)


class OfScaled(Inside):
    """A variance times a kernel."""

    kernel: Scaled

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """All parts are scaled."""
        (own,) = _slices(flat, (self.kernel.kernel,), 1)
        inner = self.inner.node(a, b, pairing, own, back)
        return multiply(parameter(self.kernel.variance, flat, 0), inner)


class OfPower(Inside):
    """An integer power of a kernel."""

    kernel: Power

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The chain rule."""
        inner = self.inner.node(a, b, pairing, flat, back)
        k, p = cast(Array, inner.jet.value), self.kernel.exponent
        values, factor = [], 1.0
        for m in range(4):
            values.append(factor * k ** max(p - m, 0))
            factor *= p - m
        return apply(tuple(values), inner)


class OfLinearMap(Inside):
    """Kernels on some of the columns, or on standardized columns."""

    kernel: On | Standardized

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Inputs and directions as the kernel inside sees them."""
        k = self.kernel
        if isinstance(k, On):
            if isinstance(k.dims[0], str):
                k._prepare(X, ids)  # says that names must be bound
            x, u = (np.ascontiguousarray(part[:, k.dims]) for part in (X, U))
        else:
            x, u = k.standardize(X), U / np.array(k.scale)
        return self.inner.prepare(x, u, ids), np.empty(X.shape, dtype=bool)

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The kernel inside."""

        def through(*parts: Part) -> None:
            assert back is not None
            rows = (a, a, b, b)
            back(*(None if d is None else self.kernel._back(r, d) for r, d in zip(rows, parts)))

        return self.inner.node(a[0], b[0], pairing, flat, None if back is None else through)


def _no_second_derivatives(*parts: Part) -> None:
    raise InputError(
        "slopes of a function of the inputs cannot be differentiated in them: its second derivatives are not known"
    )


class OfWarped(Inside):
    """The direction of u(x) is its jacobian times the direction of x."""

    kernel: Warped

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Warped inputs and directions."""
        function = self.kernel.function
        x = function(X, "Warped")
        u = (
            np.einsum("ned,nd->ne", function.slopes(X, x.shape[1], "Warped"), U)
            if U.any()
            else np.zeros_like(x)
        )
        return self.inner.prepare(x, u, ids)

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The kernel inside."""
        return self.inner.node(a, b, pairing, flat, None if back is None else _no_second_derivatives)


class OfPeriodic(Jets):
    """The kernel inside, on the circle."""

    kernel: Periodic

    def __init__(self, kernel: Periodic) -> None:
        super().__init__(kernel)
        self.wide, self.source = kernel._wide
        self.inner = jets_of(self.wide)

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Points of the circle, directions along it, and what they came from."""
        f, slope = phase(X, self.kernel.period), TURN * U / self.kernel.period
        circle, along = (np.empty((len(X), 2 * X.shape[1])) for _ in range(2))
        circle[:, 0::2], circle[:, 1::2] = np.cos(f), np.sin(f)
        along[:, 0::2], along[:, 1::2] = -np.sin(f) * slope, np.cos(f) * slope
        return self.inner.prepare(circle, along, ids), circle, slope, X, U

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The wide kernel; the period and the inputs through the phase."""
        k = self.kernel
        own = None if flat is None else np.zeros(self.wide.flat.size)
        period = np.asarray(k.period)

        def through(*parts: Part) -> None:
            found: list[Part] = []
            for rows, dc, ds in ((a, parts[0], parts[1]), (b, parts[2], parts[3])):
                if dc is None and ds is None:
                    found += [None, None]
                    continue
                _, circle, slope, X, U = rows
                cos, sin = circle[:, 0::2], circle[:, 1::2]
                dc = np.zeros_like(circle) if dc is None else dc
                ds = np.zeros_like(circle) if ds is None else ds
                df = dc[:, 1::2] * cos - dc[:, 0::2] * sin - slope * (ds[:, 0::2] * cos + ds[:, 1::2] * sin)
                dslope = ds[:, 1::2] * cos - ds[:, 0::2] * sin
                if flat is not None:
                    each = (
                        -TURN * (np.einsum("ij,ij->j", df, X) + np.einsum("ij,ij->j", dslope, U)) / period**2
                    )
                    flat[: period.size] += each if period.ndim else each.sum()
                found += [df * (TURN / period), dslope * (TURN / period)]
            if back is not None:
                back(*found)

        inner = self.inner.node(a[0], b[0], pairing, own, None if flat is None and back is None else through)
        if flat is None:
            return inner

        def sink(G: Jet) -> None:
            """After the pass through the wide kernel, its gradient is shared out."""
            assert own is not None
            flat[period.size :] += np.bincount(self.source, own, minlength=k.kernel.flat.size)
            own[:] = 0.0

        # a node made before all others is visited last
        collect = Node(Jet(None), sink=sink)
        collect.order = -collect.order
        return Node(inner.jet, ((inner, lambda G: G), (collect, lambda G: Jet(None))))


class OfRescaled(Inside):
    """s(x) k(x, x') s(x')."""

    kernel: Rescaled

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Rows of the kernel inside, and the amplitude with its slope."""
        function = self.kernel.function
        s = function(X, "Rescaled")[:, 0]
        slope = np.zeros(len(X))
        if U.any():
            slope = np.einsum("nd,nd->n", function.slopes(X, 1, "Rescaled")[:, 0], U)
        return self.inner.prepare(X, U, ids), s, slope

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The product of three jets."""
        through = None if back is None else _no_second_derivatives
        node = self.inner.node(a[0], b[0], pairing, flat, through)
        for side, rows in (("left", a), ("right", b)):
            value = _placed(rows[1], side, pairing)
            slope = _placed(rows[2], side, pairing) if getattr(pairing, side) else None
            jet = Jet(value, slope, None) if side == "left" else Jet(value, None, slope)
            node = multiply(node, Node(jet))
        return node


class OfNormalized(Inside):
    """k(x, x') / sqrt(k(x, x) k(x', x'))."""

    kernel: Normalized

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The product of three jets."""
        node = self.inner.node(a, b, pairing, flat, back)
        for side, rows in (("left", a), ("right", b)):
            node = multiply(node, power(one_sided(self.inner.node, rows, side, pairing, flat, back), -0.5))
        return node


class OfAdditive(Jets):
    """Elementary symmetric polynomials of the jets of the columns."""

    kernel: Additive

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Rows of each column."""
        k = self.kernel
        k._prepare(X[:1], ids[:1])
        return tuple(
            jets_of(k._kernel(d)).prepare(
                np.ascontiguousarray(X[:, [d]]), np.ascontiguousarray(U[:, [d]]), ids
            )
            for d in range(X.shape[1])
        )

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """E_q += z_d E_{q - 1}, a column at a time."""
        k, D = self.kernel, len(a)
        order, start = k.order, np.size(k.variances)
        table: list[Node | None] = [constant(1.0), *[None] * order]
        for d in range(D):
            kernel = k._kernel(d)
            own = None if flat is None else flat[start : start + kernel.flat.size]
            if not k._shared:
                start += kernel.flat.size
            z = jets_of(kernel).node(a[d], b[d], pairing, own, _of_column(back, d, D))
            for q in range(min(order, d + 1), 0, -1):
                last, before = table[q], cast(Node, table[q - 1])
                more = z if q == 1 else multiply(z, before)
                table[q] = more if last is None else add(last, more)
        terms = [
            multiply(parameter(v, flat, i), cast(Node, table[i + 1]))
            for i, v in enumerate(np.ravel(k.variances))
        ]
        return reduce(add, terms)


def _of_column(back: Back | None, d: int, D: int) -> Back | None:
    """`back` for a kernel of one column."""
    if back is None:
        return None

    def through(*parts: Part) -> None:
        found: list[Part] = []
        for part in parts:
            whole = None if part is None else np.zeros((len(part), D))
            if whole is not None and part is not None:
                whole[:, d] = part[:, 0]
            found.append(whole)
        back(*found)

    return through


_RULES: tuple[tuple[type[Kernel], Callable[..., Jets]], ...] = (
    (Sum, OfTerms),
    (Product, OfTerms),
    (Coregionalized, OfOutputs),
    (Scaled, OfScaled),
    (Power, OfPower),
    (On, OfLinearMap),
    (Standardized, OfLinearMap),
    (Warped, OfWarped),
    (Periodic, OfPeriodic),
    (Rescaled, OfRescaled),
    (Normalized, OfNormalized),
    (Additive, OfAdditive),
)
for _kernel, _rule in _RULES:
    jets_of.register(_kernel, _rule)
