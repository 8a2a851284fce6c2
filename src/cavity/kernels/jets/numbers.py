"""Numbers with two infinitesimals: a value, its slope in the left row, in the right row, and in both.

A row may ask for a f(x) + u . grad f(x). Covariances of such rows follow from k(x + e u, x' + e' u'), e^2 = e'^2 = 0:

    K + e K_left + e' K_right + e e' K_both

Sums, products and functions of such jets are jets again. Every operation remembers how cotangents go back, so that the
gradient of any kernel's jets in its parameters and inputs is one backward pass (`pull_back`). A part that is zero
everywhere is None, and costs nothing.

Notation: G is the cotangent of a jet, one array for each of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import count
from typing import NamedTuple

import numpy as np

from cavity.numerics.arrays import Array

Part = Array | None


class Jet(NamedTuple):
    """Value and slopes of a function of two rows; a part that is zero everywhere is None."""

    value: Part
    left: Part = None
    right: Part = None
    both: Part = None


def times(*parts: Part) -> Part:
    """The product, zero if one of them is."""
    if any(part is None for part in parts):
        return None
    return reduce(np.multiply, parts)  # type: ignore[arg-type]


def plus(*parts: Part) -> Part:
    """The sum of those that are not zero."""
    there = [part for part in parts if part is not None]
    return reduce(np.add, there) if there else None


def added(one: Jet, other: Jet) -> Jet:
    """The sum of two jets."""
    return Jet(*(plus(a, b) for a, b in zip(one, other)))


_ORDER = count()


class Node:
    """A jet, and how its cotangent goes back to the nodes it was made from, or to a `sink` outside."""

    def __init__(
        self,
        jet: Jet | Callable[[], Jet],
        parents: tuple[tuple[Node, Callable[[Jet], Jet]], ...] = (),
        sink: Callable[[Jet], None] | None = None,
    ) -> None:
        self._jet, self.parents, self.sink = jet, parents, sink
        self.order = next(_ORDER)

    @property
    def jet(self) -> Jet:
        """Its value and slopes, computed when first asked for: a pass back may need none of them."""
        if not isinstance(self._jet, Jet):
            self._jet = self._jet()
        return self._jet

    @property
    def live(self) -> bool:
        """Whether its cotangent goes anywhere."""
        return bool(self.parents) or self.sink is not None


def _living(*parents: tuple[Node, Callable[[Jet], Jet]]) -> tuple[tuple[Node, Callable[[Jet], Jet]], ...]:
    return tuple(one for one in parents if one[0].live)


def pull_back(root: Node, G: Jet) -> None:
    """Send the cotangent of a node back to all sinks it depends on."""
    waiting: dict[int, tuple[Node, Jet]] = {root.order: (root, G)}
    while waiting:
        node, g = waiting.pop(max(waiting))
        if node.sink is not None:
            node.sink(g)
        for parent, pull in node.parents:
            found = pull(g)
            if parent.order in waiting:
                found = added(waiting[parent.order][1], found)
            waiting[parent.order] = (parent, found)


def _as_shape(part: Part, like: Part) -> Part:
    """Summed over the axes along which `like` was broadcast."""
    if part is None or like is None or np.shape(part) == np.shape(like):
        return part
    shape = np.shape(like)
    if len(shape) < np.ndim(part):
        return np.asarray(part.sum())  # a number
    axes = tuple(i for i, size in enumerate(shape) if size == 1 and part.shape[i] != 1)
    return np.asarray(part.sum(axis=axes, keepdims=True))


def _reduced(G: Jet, node: Node) -> Jet:
    """A cotangent for one of a smaller shape."""
    return Jet(*(_as_shape(g, node.jet.value) for g in G))


def constant(value: Array | float) -> Node:
    """A number that does not depend on rows or parameters."""
    return Node(Jet(np.asarray(value, dtype=float)))


def parameter(value: float, flat: Array | None, index: int) -> Node:
    """A parameter, whose derivative is added to flat[index]."""

    def sink(G: Jet) -> None:
        if flat is not None and G.value is not None:
            flat[index] += float(np.sum(G.value))

    return Node(Jet(np.asarray(float(value))), sink=sink)


def add(one: Node, other: Node) -> Node:
    """The sum."""
    return Node(
        added(one.jet, other.jet),
        _living((one, lambda G: _reduced(G, one)), (other, lambda G: _reduced(G, other))),
    )


def multiply(one: Node, other: Node) -> Node:
    """The product: (a b)_both = a_both b + a_left b_right + a_right b_left + a b_both."""
    a, b = one.jet, other.jet
    jet = Jet(
        times(a.value, b.value),
        plus(times(a.left, b.value), times(a.value, b.left)),
        plus(times(a.right, b.value), times(a.value, b.right)),
        plus(times(a.both, b.value), times(a.left, b.right), times(a.right, b.left), times(a.value, b.both)),
    )

    def towards(node: Node, c: Jet) -> Callable[[Jet], Jet]:
        def pull(G: Jet) -> Jet:
            return _reduced(
                Jet(
                    plus(
                        times(G.value, c.value),
                        times(G.left, c.left),
                        times(G.right, c.right),
                        times(G.both, c.both),
                    ),
                    plus(times(G.left, c.value), times(G.both, c.right)),
                    plus(times(G.right, c.value), times(G.both, c.left)),
                    times(G.both, c.value),
                ),
                node,
            )

        return pull

    if one is other:
        return Node(jet, ((one, lambda G: Jet(*(times(np.asarray(2.0), g) for g in towards(one, a)(G)))),))
    return Node(jet, _living((one, towards(one, b)), (other, towards(other, a))))


def apply(
    function: tuple[Array, ...],
    s: Node,
    shape: tuple[Node, tuple[Array, ...]] | None = None,
) -> Node:
    """h(s), from the arrays h, h', h'', h''' at the value of s.

    `shape` is a parameter of h with the derivatives of h, h' and h'' in it. Derivatives that are infinite where s.left
    and s.right vanish must be given as zero there.
    """
    h, h1, h2, h3 = (*function, None, None, None)[:4]
    v = s.jet
    curved = times(v.left, v.right)

    def jet() -> Jet:
        return Jet(h, times(h1, v.left), times(h1, v.right), plus(times(h2, curved), times(h1, v.both)))

    def pull(G: Jet) -> Jet:
        return Jet(
            plus(
                times(G.value, h1),
                times(G.left, h2, v.left),
                times(G.right, h2, v.right),
                times(G.both, plus(times(h3, curved), times(h2, v.both))),
            ),
            plus(times(G.left, h1), times(G.both, h2, v.right)),
            plus(times(G.right, h1), times(G.both, h2, v.left)),
            times(G.both, h1),
        )

    parents: list[tuple[Node, Callable[[Jet], Jet]]] = [(s, pull)]
    if shape is not None:
        node, (d, d1, d2) = shape

        def pull_shape(G: Jet) -> Jet:
            slopes = plus(times(G.left, v.left), times(G.right, v.right), times(G.both, v.both))
            total = plus(times(G.value, d), times(slopes, d1), times(G.both, curved, d2))
            return Jet(None if total is None else np.asarray(np.sum(total)))

        parents.append((node, pull_shape))
    return Node(jet, tuple(parents))


def power(s: Node, exponent: float) -> Node:
    """s^exponent for a positive s."""
    v = s.jet.value
    assert v is not None
    values, factor = [], 1.0
    for k in range(4):
        values.append(factor * v ** (exponent - k))
        factor *= exponent - k
    return apply(tuple(values), s)
