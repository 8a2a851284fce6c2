"""Slopes of kernels of inner products, waves, and others that are no function of a distance."""

from __future__ import annotations

from collections.abc import Callable
from math import comb, factorial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Rows
from cavity.kernels.basis_functions import FeatureKernel
from cavity.kernels.constant import Constant
from cavity.kernels.cosine import TURN, Cosine, phase
from cavity.kernels.damped_oscillator import DampedOscillator
from cavity.kernels.gibbs import Gibbs
from cavity.kernels.inner_product import InnerProduct
from cavity.kernels.jets.base import Back, Jets, Pairing, jets_of
from cavity.kernels.jets.numbers import (
    Jet,
    Node,
    Part,
    add,
    apply,
    constant,
    multiply,
    parameter,
    plus,
    power,
)
from cavity.kernels.linear import Linear
from cavity.kernels.neural_network import NeuralNetwork
from cavity.kernels.polynomial import Polynomial
from cavity.kernels.seasonal import Seasonal
from cavity.kernels.spectral_mixture import SpectralMixture
from cavity.kernels.wiener import IntegratedWiener
from cavity.numerics.arrays import Array


def features_node(
    pairing: Pairing,
    one: tuple[Array, Array],
    other: tuple[Array, Array],
    back: Callable[[Array, Array, Array, Array], None] | None,
) -> Node:
    """phi(x) . phi(x'), from features and their slopes; `back` takes the cotangents of these."""
    (fa, sa), (fb, sb) = one, other
    jet = Jet(
        pairing.dot(fa, fb),
        pairing.dot(sa, fb) if pairing.left else None,
        pairing.dot(fa, sb) if pairing.right else None,
        pairing.dot(sa, sb) if pairing.left and pairing.right else None,
    )

    def sink(G: Jet) -> None:
        if back is None:
            return
        dfa, dsa, dfb, dsb = (np.zeros_like(part) for part in (fa, sa, fb, sb))
        for g, left, right, d_left, d_right in (
            (G.value, fa, fb, dfa, dfb),
            (G.left, sa, fb, dsa, dfb),
            (G.right, fa, sb, dfa, dsb),
            (G.both, sa, sb, dsa, dsb),
        ):
            if g is not None:
                d_left += pairing.towards_left(g, right)
                d_right += pairing.towards_right(g, left)
        back(dfa, dsa, dfb, dsb)

    return Node(jet, sink=sink)


class OfInnerProduct(Jets):
    """Slopes of functions of u(x, x') = bias + sum_d variance_d x_d x'_d."""

    kernel: InnerProduct

    def inner(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The jet of u."""
        k = self.kernel
        weights = np.broadcast_to(np.asarray(k.variance, dtype=float), a[0].shape[1])

        def take(dxa: Array, dua: Array, dxb: Array, dub: Array) -> None:
            # cotangents of x and u on the left, and of x w and u w on the right
            if flat is not None:
                each = np.einsum("ij,ij->j", dxb, b[0]) + np.einsum("ij,ij->j", dub, b[1])
                flat[: np.size(k.variance)] += each if np.ndim(k.variance) else each.sum()
            if back is not None:
                back(dxa, dua, dxb * weights, dub * weights)

        node = features_node(
            pairing,
            (a[0], a[1]),
            (b[0] * weights, b[1] * weights),
            None if flat is None and back is None else take,
        )
        if "bias" not in k._params:
            return node
        return add(node, parameter(k.bias, flat, k.flat.size - 1))

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """Of a linear or polynomial kernel."""
        u = self.inner(a, b, pairing, flat, back)
        if not isinstance(self.kernel, Polynomial):
            return u
        degree, value, found, factor = self.kernel.degree, cast(Array, u.jet.value), [], 1.0
        for m in range(4):
            found.append(factor * value ** max(degree - m, 0))
            factor *= degree - m
        return apply(tuple(found), u)


class OfNeuralNetwork(OfInnerProduct):
    """(2 / pi) asin(2 u / sqrt((1 + 2 q)(1 + 2 q'))), q = u(x, x)."""

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """By the product of three jets."""
        two, one = constant(2.0), constant(1.0)
        ratio = multiply(two, self.inner(a, b, pairing, flat, back))
        for side, rows in (("left", a), ("right", b)):
            q = one_sided(self.inner, rows, side, pairing, flat, back)
            ratio = multiply(ratio, power(add(one, multiply(two, q)), -0.5))
        w = cast(Array, ratio.jet.value)
        rest = 1.0 - w * w
        root = np.sqrt(rest)
        h = (np.arcsin(w), 1.0 / root, w / rest / root, (1.0 + 2.0 * w * w) / rest**2 / root)
        return apply(tuple(2.0 / np.pi * part for part in h), ratio)


def one_sided(
    inner: object, rows: Rows, side: str, pairing: Pairing, flat: Array | None, back: Back | None
) -> Node:
    """q(x) = u(x, x) of the rows on one side, as a jet of that side alone: its slope is the sum of both."""
    of_self = Pairing(paired=True, left=getattr(pairing, side), right=getattr(pairing, side))

    def own(dxa: Part, dua: Part, dxb: Part, dub: Part) -> None:
        assert back is not None
        both = plus(dxa, dxb), plus(dua, dub)
        back(*((*both, None, None) if side == "left" else (None, None, *both)))

    q = inner(rows, rows, of_self, flat, None if back is None else own)  # type: ignore[operator]
    slope = None if q.jet.left is None else q.jet.left + q.jet.right
    shaped = [None if part is None else _placed(part, side, pairing) for part in (q.jet.value, slope)]
    jet = Jet(shaped[0], shaped[1], None) if side == "left" else Jet(shaped[0], None, shaped[1])

    def pull(G: Jet) -> Jet:
        given = G.left if side == "left" else G.right
        value = None if G.value is None else G.value.reshape(-1)
        moved = None if given is None or slope is None else given.reshape(-1)
        return Jet(value, moved, moved)

    return Node(jet, ((q, pull),))


def _placed(part: Array, side: str, pairing: Pairing) -> Array:
    """Numbers of the rows of one side, as a column or a row of the tile."""
    if pairing.paired:
        return part
    return part[:, None] if side == "left" else part[None, :]


class OfWaves(Jets):
    """Slopes of sum_j w_j cos(j (f - f')), f = 2 pi sum_d x_d / period_d."""

    kernel: Cosine | Seasonal

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """The phase, its slope, and both with what they are multiplied by."""
        period = self.kernel.period
        return phase(X, period).sum(axis=1), TURN * (U / period).sum(axis=1), X, U

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """By cosines and sines of the phase."""
        k = self.kernel
        weights, slopes = k.weights if isinstance(k, Seasonal) else (np.ones(1), np.zeros(1))
        harmonics = np.arange(1.0, len(weights) + 1)
        waves = [_waves(rows[0], rows[1], harmonics) for rows in (a, b)]
        scale = np.tile(weights, 2)

        def take(dfa: Array, dsa: Array, dfb: Array, dsb: Array) -> None:
            if flat is not None and isinstance(k, Seasonal):
                each = np.einsum("ij,ij->j", dfb, waves[1][0]) + np.einsum("ij,ij->j", dsb, waves[1][1])
                flat[1] += each.reshape(2, -1).sum(axis=0) @ slopes
            found = []
            for rows, wave, df, ds in ((a, waves[0], dfa, dsa), (b, waves[1], dfb * scale, dsb * scale)):
                dp, ds_phase = _pull_waves(rows[1], wave, harmonics, df, ds)
                if flat is not None:
                    each = -TURN * (dp @ rows[2] + ds_phase @ rows[3]) / np.asarray(k.period) ** 2
                    flat[: np.size(k.period)] += each if np.ndim(k.period) else each.sum()
                rate = np.broadcast_to(TURN / np.asarray(k.period), rows[2].shape[1])
                found += [np.multiply.outer(dp, rate), np.multiply.outer(ds_phase, rate)]
            if back is not None:
                back(*found)

        one, other = waves
        return features_node(pairing, one, (other[0] * scale, other[1] * scale), take)


def _waves(f: Array, slope: Array, harmonics: Array) -> tuple[Array, Array]:
    """Cosines and sines of multiples of a phase, and their slopes."""
    angle = np.multiply.outer(f, harmonics)
    cos, sin = np.cos(angle), np.sin(angle)
    rate = np.multiply.outer(slope, harmonics)
    return np.hstack([cos, sin]), np.hstack([-rate * sin, rate * cos])


def _pull_waves(
    slope: Array, wave: tuple[Array, Array], harmonics: Array, df: Array, ds: Array
) -> tuple[Array, Array]:
    """From cotangents of waves and of their slopes to those of the phase and of its slope."""
    J = len(harmonics)
    cos, sin = wave[0][:, :J], wave[0][:, J:]
    rate = np.multiply.outer(slope, harmonics)
    phase_part = (-df[:, :J] * sin + df[:, J:] * cos) - rate * (ds[:, :J] * cos + ds[:, J:] * sin)
    slope_part = -ds[:, :J] * sin + ds[:, J:] * cos
    return phase_part @ harmonics, slope_part @ harmonics


class OfSpectralMixture(Jets):
    """Each component is a squared exponential times a wave."""

    kernel: SpectralMixture

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The sum over components."""
        means, scales = self.kernel._tables
        Q, D = means.shape
        center = b[0].mean(axis=0)
        xa, xb = a[0] - center, b[0] - center
        total = None
        for q in range(Q):
            log = None  # -(1/2) sum over columns of (2 pi scale d)^2
            for c in range(D):
                d = _difference(
                    xa[:, c], a[1][:, c], xb[:, c], b[1][:, c], pairing, _column_back(back, a, b, c)
                )
                s = parameter(scales[q, c], flat, Q + Q * D + q * D + c)
                z = multiply(multiply(constant(TURN), s), d)
                term = multiply(constant(-0.5), multiply(z, z))
                log = term if log is None else add(log, term)
            assert log is not None
            e = np.exp(cast(Array, log.jet.value))
            envelope = apply((e, e, e, e), log)
            mean = means[q]
            waves = [
                _waves(TURN * (x @ mean), TURN * (u @ mean), np.ones(1)) for x, u in ((xa, a[1]), (xb, b[1]))
            ]

            def take(
                dfa: Array,
                dsa: Array,
                dfb: Array,
                dsb: Array,
                q: int = q,
                mean: Array = mean,
                waves: list[tuple[Array, Array]] = waves,
            ) -> None:
                found = []
                for x, u, wave, df, ds in ((xa, a[1], waves[0], dfa, dsa), (xb, b[1], waves[1], dfb, dsb)):
                    dp, dslope = _pull_waves(TURN * (u @ mean), wave, np.ones(1), df, ds)
                    if flat is not None:
                        flat[Q + q * D : Q + (q + 1) * D] += TURN * (dp @ x + dslope @ u)
                    found += [np.multiply.outer(dp, TURN * mean), np.multiply.outer(dslope, TURN * mean)]
                if back is not None:
                    back(*found)

            wave = features_node(pairing, waves[0], waves[1], take)
            term = multiply(parameter(self.kernel.weights[q], flat, q), multiply(envelope, wave))
            total = term if total is None else add(total, term)
        assert total is not None
        return total


def _difference(xa: Array, ua: Array, xb: Array, ub: Array, pairing: Pairing, back: Back | None) -> Node:
    """x - x' in one column."""
    value = xa - xb if pairing.paired else np.subtract.outer(xa, xb)
    left = np.broadcast_to(pairing.column(ua), value.shape) if pairing.left else None
    right = np.broadcast_to(-ub, value.shape) if pairing.right else None

    def sink(G: Jet) -> None:
        if back is None:
            return
        back(
            None if G.value is None else pairing.of_left(G.value),
            None if G.left is None else pairing.of_left(G.left),
            None if G.value is None else -pairing.of_right(G.value),
            None if G.right is None else -pairing.of_right(G.right),
        )

    return Node(Jet(value, left, right), sink=sink)


def _column_back(back: Back | None, a: Rows, b: Rows, c: int) -> Back | None:
    """`back` for one column."""
    if back is None:
        return None

    def one(*parts: Part) -> None:
        found: list[Part] = []
        for part, rows in zip(parts, (a, a, b, b)):
            whole = None if part is None else np.zeros(rows[0].shape)
            if whole is not None:
                whole[:, c] = part
            found.append(whole)
        back(*found)

    return one


class OfGibbs(Jets):
    """prod_d sqrt(2 l l' / (l^2 + l'^2)) exp(-(x - x')^2 / (l^2 + l'^2)), with length scales l(x)."""

    kernel: Gibbs

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Inputs, directions, length scales and their slopes."""
        k = self.kernel
        _, scales = k._prepare(X, ids)
        if k.function is None:
            slopes = scales * k.slope * U
        else:
            width = k.function(X, "Gibbs").shape[1]
            slopes = np.einsum("ned,nd->ne", k.function.slopes(X, width, "Gibbs"), U)
            slopes = np.broadcast_to(slopes, scales.shape)
        return X, U, scales, np.ascontiguousarray(slopes)

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """Column by column, in the log domain."""
        k, D = self.kernel, a[0].shape[1]
        if back is not None and k.function is not None:
            raise NotImplementedError(
                "slopes of Gibbs with a function cannot be differentiated in the inputs"
            )
        log: Node | None = None
        for c in range(D):
            d = _difference(
                a[0][:, c], a[1][:, c], b[0][:, c], b[1][:, c], pairing, _column_back(back, a, b, c)
            )
            la = self._scale(a, "left", c, pairing, flat, _column_back(back, a, b, c))
            lb = self._scale(b, "right", c, pairing, flat, _column_back(back, a, b, c))
            pair = add(multiply(la, la), multiply(lb, lb))
            spread = multiply(multiply(d, d), power(pair, -1.0))
            terms = [(0.5, _log(la)), (0.5, _log(lb)), (-0.5, _log(pair)), (-1.0, spread)]
            for factor, term in terms:
                part = multiply(constant(factor), term)
                log = part if log is None else add(log, part)
        assert log is not None
        e = np.exp(cast(Array, log.jet.value) + 0.5 * D * np.log(2.0))
        return apply((e, e, e, e), log)

    def _scale(
        self, rows: Rows, side: str, c: int, pairing: Pairing, flat: Array | None, back: Back | None
    ) -> Node:
        """l(x) in one column, as a jet of its side; l = lengthscale exp(slope x) unless it is a function."""
        k = self.kernel
        X, U, scale, slope = (part[:, c] for part in rows)
        there = getattr(pairing, side)
        value, moved = _placed(scale, side, pairing), _placed(slope, side, pairing) if there else None
        jet = Jet(value, moved, None) if side == "left" else Jet(value, None, moved)

        def sink(G: Jet) -> None:
            dl = np.zeros(len(X)) if G.value is None else np.asarray(G.value).reshape(-1)
            given = G.left if side == "left" else G.right
            ds = np.zeros(len(X)) if given is None else np.asarray(given).reshape(-1)
            if k.function is not None:
                return
            rate = float(np.broadcast_to(np.asarray(k.slope), rows[0].shape[1])[c])
            if flat is not None:
                size = np.size(k.lengthscale)
                base = float(np.broadcast_to(np.asarray(k.lengthscale), rows[0].shape[1])[c])
                flat[c if size > 1 else 0] += float(dl @ scale + ds @ slope) / base
                where = size + (c if np.size(k.slope) > 1 else 0)
                flat[where] += float((dl * scale) @ X + (ds * slope) @ X + (ds * scale) @ U)
            if back is not None:
                parts = (dl * scale * rate + ds * slope * rate, ds * scale * rate)
                back(*((*parts, None, None) if side == "left" else (None, None, *parts)))

        return Node(jet, sink=sink)


def _log(s: Node) -> Node:
    v = cast(Array, s.jet.value)
    return apply((np.log(v), 1.0 / v, -1.0 / v**2, 2.0 / v**3), s)


class OfDampedOscillator(Jets):
    """k(x) = c + zeta s with k' = -s: functions have one slope."""

    kernel: DampedOscillator

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """A function of the distance in radians, with its sign."""
        from cavity.numerics.damped_waves import damped_waves_of

        k = self.kernel
        zeta = k._damping
        d = _difference(a[0][:, 0], a[1][:, 0], b[0][:, 0], b[1][:, 0], pairing, _column_back(back, a, b, 0))
        own = None if flat is None else np.zeros(2)  # of the frequency and the damping

        def sink(G: Jet) -> None:
            if flat is not None and G.value is not None:
                flat[0] -= k._frequency / k.period * float(np.sum(G.value))

        x = multiply(Node(Jet(np.asarray(k._frequency)), sink=sink), d)
        signed = cast(Array, x.jet.value)
        sign, size = np.sign(signed), np.abs(signed)
        c, s, dk = damped_waves_of(size, zeta)
        speed = c - zeta * s  # s'
        h = (c + zeta * s, -s * sign, -speed, (2.0 * zeta * speed + s) * sign)
        d_s = zeta * dk - size * s  # ds / d zeta
        d_c = size * (zeta * s - c)
        slopes = (dk, -d_s * sign, -(d_c - s - zeta * d_s))

        def to_quality(G: Jet) -> None:
            if flat is not None and G.value is not None:
                flat[1] -= zeta / k.quality * float(np.sum(G.value))

        return apply(h, x, None if own is None else (Node(Jet(np.asarray(zeta)), sink=to_quality), slopes))


class OfIntegratedWiener(Jets):
    """The slope of a process integrated m times is one integrated m - 1 times."""

    kernel: IntegratedWiener

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Inputs from the start on, and directions."""
        return self.kernel._prepare(X, ids)[0], U[:, 0]

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """Integrals of powers."""
        m, (xa, ua), (xb, ub) = self.kernel.order, a, b
        x, y = pairing.column(xa), xb
        u, w = pairing.column(ua), ub
        k = [[_shared_noise(x, y, m - i, m - j) for j in range(3)] for i in range(3)]
        jet = Jet(
            k[0][0],
            u * k[1][0] if pairing.left else None,
            w * k[0][1] if pairing.right else None,
            u * w * k[1][1] if pairing.left and pairing.right else None,
        )

        def sink(G: Jet) -> None:
            if back is None:
                return
            moved = [np.zeros_like(k[0][0]) for _ in range(4)]  # of x, u, x', u'
            for g, i, j in ((G.value, 0, 0), (G.left, 1, 0), (G.right, 0, 1), (G.both, 1, 1)):
                if g is None:
                    continue
                own = (u if i else 1.0) * (w if j else 1.0) * g
                moved[0] += own * k[i + 1][j]
                moved[2] += own * k[i][j + 1]
                if i:
                    moved[1] += (w if j else 1.0) * g * k[i][j]
                if j:
                    moved[3] += (u if i else 1.0) * g * k[i][j]
            back(
                *(pairing.of_left(part)[:, None] for part in moved[:2]),
                *(pairing.of_right(part)[:, None] for part in moved[2:]),
            )

        return Node(jet, sink=sink)


def _shared_noise(x: Array, y: Array, p: int, q: int) -> Array:
    """int_0^min (x - z)^p (y - z)^q dz / (p! q!); a power of -1 is a delta function at the end."""
    v = np.minimum(x, y)
    if p < 0 and q < 0:
        return np.zeros_like(v)
    if p < 0 or q < 0:
        gap, n = (y - x, q) if p < 0 else (x - y, p)
        return np.where(gap > 0, np.maximum(gap, 0.0) ** n, 0.5 * (gap == 0) * (n == 0)) / factorial(n)
    total = np.zeros_like(v)
    for i in range(p + 1):
        for j in range(q + 1):
            weight = comb(p, i) * comb(q, j) / (i + j + 1) / (factorial(p) * factorial(q))
            total += weight * v ** (i + j + 1) * (x - v) ** (p - i) * (y - v) ** (q - j)
    return total


class OfConstant(Jets):
    """No slope anywhere."""

    kernel: Constant

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """The number of rows."""
        return (np.empty(X.shape, dtype=bool),)

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """The variance."""
        variance = self.kernel.variance
        value = np.full(len(a[0]) if pairing.paired else (len(a[0]), len(b[0])), variance)

        def sink(G: Jet) -> None:
            if flat is not None and G.value is not None:
                flat[0] += float(np.sum(G.value))

        return Node(Jet(value), sink=sink)


class OfFeatures(Jets):
    """Slopes of basis functions."""

    kernel: FeatureKernel

    def prepare(self, X: Array, U: Array, ids: NDArray[np.intp]) -> Rows:
        """Features and their slopes."""
        k = self.kernel
        return k.basis.features(X) @ k._root, k.basis.feature_slopes(X, U) @ k._root

    def node(self, a: Rows, b: Rows, pairing: Pairing, flat: Array | None, back: Back | None) -> Node:
        """Their inner products."""
        if back is not None:
            raise NotImplementedError("slopes of basis functions cannot be differentiated in the inputs")
        return features_node(pairing, (a[0], a[1]), (b[0], b[1]), None)


for _kernel, _rule in (
    (Linear, OfInnerProduct),
    (Polynomial, OfInnerProduct),
    (NeuralNetwork, OfNeuralNetwork),
    (Cosine, OfWaves),
    (Seasonal, OfWaves),
    (SpectralMixture, OfSpectralMixture),
    (Gibbs, OfGibbs),
    (DampedOscillator, OfDampedOscillator),
    (IntegratedWiener, OfIntegratedWiener),
    (Constant, OfConstant),
    (FeatureKernel, OfFeatures),
):
    jets_of.register(_kernel, _rule)
