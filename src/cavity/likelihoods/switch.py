"""Rows with different likelihoods: which one is told by a column of the inputs.

A second output with heavy tails, counts beside measurements, signs of slopes beside values: each row asks the
likelihood of its group, for every question of the contract. The groups are read off the inputs whenever a model meets
rows (`for_inputs`), at the fit and at predictions, so that nobody gives labels twice. If all of them are Gaussian, so
is the switch, and inference is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    ParameterDerivatives,
    Power,
    Tilted,
    as_targets,
)
from cavity.likelihoods.gaussian import GaussianNoise, KnownNoise
from cavity.numerics.arrays import Array
from cavity.numerics.special import Moments
from cavity.prediction import Prediction
from cavity.prediction.by_group import GroupedPrediction
from cavity.runtime.errors import InputError

Rows = NDArray[np.intp]


class Switch(Likelihood):
    """The likelihood of each row, chosen by a column of the inputs.

    Parameters
    ----------
    likelihoods : dict
        Value of the column to likelihood, of one latent value each. Groups with the same object share its kind, but
        have parameters of their own.
    by : int
        The column of X that holds these values; -1 is the last, where `kernels.values` and `slopes` have the kind.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE, Categorical
    >>> from cavity.likelihoods import Gaussian, StudentT, Switch
    >>> X = np.array([[0, 0.0], [0, 1.0], [1, 0.0], [1, 1.0]])  # an output, and where it was seen
    >>> noise = Switch({0: Gaussian(0.1), 1: StudentT(0.1, 4.0)}, by=0)
    >>> posterior = GP(Categorical(2, 0.9).on(0) * SE(1.0).on(1), noise).condition(X, [0.1, 0.9, 0.0, 30.0])
    >>> posterior.mean([[0, 1.0]]).round(1)  # the error in the second output does no harm
    array([0.8])
    """

    def __new__(cls, likelihoods: Any = None, by: int = 0) -> Self:
        """A Gaussian switch if all likelihoods are."""
        given = list(likelihoods.values()) if isinstance(likelihoods, Mapping) else []
        if cls is Switch and given and all(isinstance(one, GaussianNoise) for one in given):
            return cast(Self, object.__new__(GaussianSwitch))
        return object.__new__(cls)

    def __init__(self, likelihoods: Mapping[Any, Likelihood], by: int = 0) -> None:
        if not isinstance(likelihoods, Mapping) or not likelihoods:
            raise InputError(
                f"must be a dict from values of the column to likelihoods, got {likelihoods!r}",
                parameter="likelihoods",
            )
        for key, one in likelihoods.items():
            if not isinstance(one, Likelihood) or one.n_latent != 1 or isinstance(one, KnownNoise | Switch):
                raise InputError(
                    f"group {key!r} needs a likelihood of one latent value that belongs to no single rows, got {one!r}",
                    parameter="likelihoods",
                )
        self.keys = tuple(float(key) for key in likelihoods)
        self.by = int(by)
        self._index: tuple[Rows, ...] | None = None
        self._set_up({}, tuple(likelihoods.values()))

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:
        """One for each group."""
        return cast("tuple[Likelihood, ...]", self._parts)

    def _arguments(self) -> list[str]:
        listed = ", ".join(f"{key:g}: {one!r}" for key, one in zip(self.keys, self.likelihoods))
        return [f"{{{listed}}}", f"by={self.by}"]

    def __repr__(self) -> str:
        return f"Switch({', '.join(self._arguments())})"

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and (self.keys, self.by) == (
            cast(Switch, other).keys,
            cast(Switch, other).by,
        )

    __hash__ = Likelihood.__hash__

    # --- which row is in which group ------------------------------------------------------------------------

    def for_inputs(self, X: Any) -> Self:
        """The likelihood of the rows of X (n, D)."""
        if not isinstance(X, np.ndarray):
            raise InputError("Switch needs rows in memory", parameter="likelihood")
        if not -X.shape[1] <= self.by < X.shape[1]:
            raise InputError(
                f"Switch reads column {self.by} of the inputs, which have {X.shape[1]}",
                parameter="by",
                value=self.by,
            )
        column = X[:, self.by]
        index = tuple(np.flatnonzero(column == key) for key in self.keys)
        if sum(map(len, index)) < len(X):
            row = int(np.argmin(np.isin(column, self.keys)))
            known = ", ".join(f"{key:g}" for key in self.keys)
            raise InputError(
                f"column {self.by} of the inputs is {column[row]:g}, which has no likelihood; there are {known}",
                parameter="X",
                value=float(column[row]),
                row=row,
                remedy="give it one in Switch({...})",
            )
        return self._with_index(index)

    def _with_index(self, index: tuple[Rows, ...]) -> Self:
        new = self._rebuild(self._params, self._parts)
        new._index = index
        return new

    @property
    def _n(self) -> int:
        return sum(map(len, self._known))

    @property
    def _known(self) -> tuple[Rows, ...]:
        if self._index is None:
            raise InputError(
                "Switch does not know yet which row is in which group: use for_inputs(X)",
                parameter="likelihood",
            )
        return self._index

    def _groups(self) -> list[tuple[int, Likelihood, Rows]]:
        """Number, likelihood and rows of the groups that have some."""
        return [
            (i, one, rows) for i, (one, rows) in enumerate(zip(self.likelihoods, self._known)) if len(rows)
        ]

    def _slices(self) -> list[slice]:
        ends = np.cumsum([0, *(one.flat.size for one in self.likelihoods)])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def rows(self, index: Any) -> Self:
        """The likelihood of some of the rows."""
        if self._index is None:
            return self
        group = np.empty(self._n, dtype=np.intp)
        for i, rows in enumerate(self._known):
            group[rows] = i
        chosen = group[index]
        return self._with_index(tuple(np.flatnonzero(chosen == i) for i in range(len(self.keys))))

    def of_new(self, X: Array, noise_variance: ArrayLike | None = None) -> Self:
        """The likelihood of new rows."""
        super().of_new(X, noise_variance)
        return self.for_inputs(X)

    def and_new(self, X: Array, noise_variance: ArrayLike | None = None) -> Self:
        """The likelihood of the present rows followed by new ones."""
        new, n = self.of_new(X, noise_variance), self._n
        return self._with_index(tuple(np.concatenate([a, b + n]) for a, b in zip(self._known, new._known)))

    # --- declarations ---------------------------------------------------------------------------------------

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        """Whether all are."""
        return all(one.log_concave for one in self.likelihoods)

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether all are."""
        return all(one.smooth for one in self.likelihoods)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether all are."""
        return all(one.discrete for one in self.likelihoods)

    @property
    def finest_width(self) -> float | None:  # type: ignore[override]
        """The finest of them."""
        known = [one.finest_width for one in self.likelihoods if one.finest_width is not None]
        return min(known) if known else None

    def _scattered(self, answer: Callable[[Likelihood, Rows], Any], shape: tuple[int, ...] = ()) -> Array:
        """Answers of the groups, rows along the last axis."""
        out = np.empty((*shape, self._n))
        for _, one, rows in self._groups():
            out[..., rows] = answer(one, rows)
        return out

    @property
    def min_cavity_precision(self) -> float | Array:
        """By row; before rows are known the smallest."""
        if self._index is None:
            return max(float(np.max(one.min_cavity_precision)) for one in self.likelihoods)
        return self._scattered(lambda one, rows: one.min_cavity_precision)

    def check(self, y: ArrayLike) -> Array:
        """Numbers; by group if the rows are known."""
        targets = as_targets(y, type(self).__name__)
        if targets.ndim != 1:
            raise InputError(f"Switch takes one target, got an array of shape {targets.shape}", parameter="y")
        if self._index is not None and len(targets) == self._n:
            targets = targets.copy()
            for _, one, rows in self._groups():
                targets[rows] = one.check(targets[rows])
        return targets

    # --- the four questions ---------------------------------------------------------------------------------

    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(y|f) by group."""
        y, shape = np.asarray(y), np.broadcast_shapes(np.shape(y), np.shape(f))
        f = np.broadcast_to(f, shape)
        return self._scattered(lambda one, rows: one.log_prob(y[..., rows], f[..., rows]), shape[:-1])

    def _fields(self, kind: Any, shape: tuple[int, ...], answer: Callable[[Likelihood, Rows], Any]) -> Any:
        """A tuple of arrays, rows along the last axis."""
        out = [np.empty((*shape, self._n)) for _ in kind._fields]
        for _, one, rows in self._groups():
            for whole, part in zip(out, answer(one, rows)):
                whole[..., rows] = part
        return kind(*out)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """By group."""
        y, shape = np.asarray(y), np.shape(f)[:-1]
        return cast(
            Derivatives,
            self._fields(Derivatives, shape, lambda one, rows: one.derivatives(y[..., rows], f[..., rows])),
        )

    def slope(self, y: Array, f: Array) -> Array:
        """By group."""
        y = np.asarray(y)
        return self._scattered(lambda one, rows: one.slope(y[..., rows], f[..., rows]), np.shape(f)[:-1])

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """By group."""
        y, places = np.asarray(y), self._slices()
        out = [np.zeros((self.flat.size, *np.shape(f))) for _ in range(3)]
        for i, one, rows in self._groups():
            for whole, part in zip(out, one.parameter_derivatives(y[..., rows], f[..., rows])):
                whole[places[i]][..., rows] = part
        return ParameterDerivatives(*out)

    def parameter_slopes(self, y: Array, f: Array) -> Array:
        """By group."""
        y, out, places = np.asarray(y), np.zeros((self.flat.size, *np.shape(f))), self._slices()
        for i, one, rows in self._groups():
            out[places[i]][..., rows] = one.parameter_slopes(y[..., rows], f[..., rows])
        return out

    def break_points(self, y: Array) -> Array:
        """By group; fewer are repeated."""
        found = [(rows, one.break_points(y[rows])) for _, one, rows in self._groups()]
        out = np.empty((max(len(p) for _, p in found), self._n))
        for rows, points in found:
            out[:, rows] = (
                np.resize(points, (len(out), len(rows))) if len(points) == 1 else _filled(points, len(out))
            )
        return out

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """By group."""
        parts = []
        for i, one, rows in self._groups():
            own = power if np.ndim(power) == 0 else np.asarray(power)[rows]
            parts.append((i, rows, one.tilted(y[rows], shift[rows], precision[rows], own, order)))
        columns = {
            name: np.empty(self._n) for name in ("log_z", "log_z_normalized", "mean", "var", "c3", "c4")
        }
        slopes, places = np.zeros((self.flat.size, self._n)), self._slices()
        for i, rows, part in parts:
            for name, whole in columns.items():
                value = getattr(part, name)
                whole[rows] = 0.0 if value is None else value
            slopes[places[i]][:, rows] = part.d_log_z
        higher = (columns["c3"], columns["c4"]) if order > 2 else (None, None)
        return Tilted(
            columns["log_z"], columns["log_z_normalized"], columns["mean"], columns["var"], slopes, *higher
        )

    def tilted_nodes(self, power: Power = 1.0) -> float | Array:
        """By group."""
        if self._index is None:
            return float(np.mean([np.mean(one.tilted_nodes(power)) for one in self.likelihoods]))
        powers = np.broadcast_to(power, self._n)
        return self._scattered(lambda one, rows: one.tilted_nodes(powers[rows]))

    def tilted_moments(self, y: Array, shift: Array, precision: Array, power: Power = 1.0) -> Moments:
        """By group."""
        powers = power if np.ndim(power) == 0 else np.asarray(power)

        def one_group(one: Likelihood, rows: Rows) -> Moments:
            own = powers if np.ndim(powers) == 0 else cast(Array, powers)[rows]
            return one.tilted_moments(y[rows], shift[rows], precision[rows], own)

        return cast(Moments, self._fields(Moments, (), one_group))

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """By group."""
        value, d_mean, d_var = (np.empty(self._n) for _ in range(3))
        slopes, places = np.zeros((self.flat.size, self._n)), self._slices()
        for i, one, rows in self._groups():
            found = one.expected_log_prob(y[rows], mean[rows], var[rows])
            for whole, part in zip((value, d_mean, d_var), found[:3]):
                whole[rows] = part
            slopes[places[i]][:, rows] = found.d_flat
        return ExpectedLogProb(value, d_mean, d_var, slopes)

    def _predicted(self, name: str, mean: ArrayLike, var: ArrayLike) -> Prediction:
        m, v = np.asarray(mean, dtype=float), np.asarray(var, dtype=float)
        return GroupedPrediction(
            [(rows, getattr(one, name)(m[rows], v[rows])) for _, one, rows in self._groups()]
        )

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """Each row by its own likelihood."""
        return self._predicted("predictive", mean, var)

    def clean_predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """Each row by its own likelihood, if all know what an outlier is."""
        return self._predicted("clean_predictive", mean, var)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """One draw of y for each latent value."""
        f = np.asarray(f, dtype=float)
        return self._scattered(lambda one, rows: one.sample(f[..., rows], rng), f.shape[:-1])

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """By group."""
        return self._scattered(lambda one, rows: one.outlier_probability(y[rows], mean[rows], var[rows]))


def _filled(points: Array, count: int) -> Array:
    """Break points with the last one repeated."""
    return np.concatenate([points, np.repeat(points[-1:], count - len(points), axis=0)])


class GaussianSwitch(Switch, GaussianNoise):  # type: ignore[misc]
    """A switch between Gaussian noise of different variances, for which inference is exact.

    Examples
    --------
    >>> from cavity.likelihoods import Gaussian, Switch
    >>> type(Switch({0: Gaussian(0.1), 1: Gaussian(2.0)}, by=0)).__name__
    'GaussianSwitch'
    """

    log_concave: bool = True

    def noise_variances(self, n: int) -> tuple[Array, Array]:
        """Those of the groups."""
        if n != self._n:
            raise ValueError(f"Switch knows the groups of {self._n} rows, but {n} are asked for")
        variances, slopes, places = np.empty(n), np.zeros((self.flat.size, n)), self._slices()
        for i, one, rows in self._groups():
            variances[rows], found = cast(GaussianNoise, one).noise_variances(len(rows))
            slopes[places[i]][:, rows] = found
        return variances, slopes

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> Any:
        """Normal, with the noise of each row's group."""
        return GaussianNoise.predictive(self, mean, var)
