"""Families built from other families: a mixture within each state, and several features at once.

Also the names under which families are known to `Mixture` and `HMM`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.em.components import (
    Bernoulli,
    Categorical,
    Components,
    Exponential,
    Params,
    Poisson,
    Stats,
    _OneRate,
    mixed,
    responsibilities,
)
from cavity.em.covariances import FactorCovariance
from cavity.em.gaussian import Gaussian
from cavity.em.initialization import cluster
from cavity.em.options import is_number, is_whole
from cavity.em.student import StudentT
from cavity.em.transforms import simplex_from_free, simplex_size, simplex_to_free
from cavity.numerics.arrays import Array

SYMMETRY = 1e-8  # relative difference of a covariance and its transpose that counts as rounding


class MixtureEmission(Components):
    """A mixture of M densities for every state: `weights` (K, M) and the inner family's K M components.

    Parameters
    ----------
    n_mix : int
        Densities per state.
    components : Components
        Family of the densities; a tied covariance is shared by all densities of all states.
    concentration : float
        Dirichlet prior of the weights within each state; 1 is none.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import HMM, MixtureEmission, Poisson
    >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0], [20.0]], 50, axis=0))
    >>> HMM(2, MixtureEmission(2, Poisson()), random_state=0, max_iter=20, tol=-1.0).fit(X).weights_.shape
    (2, 2)
    """

    def __init__(
        self, n_mix: int = 2, components: Components | None = None, concentration: float = 1.0
    ) -> None:
        self.n_mix = n_mix
        self.components = components
        self.concentration = concentration

    def letter_names(self) -> dict[str, tuple[str, ...]]:
        """`w` for the weights, and the inner family's letters."""
        inner = self.components if self.components is not None else Gaussian()
        return {"w": ("weights",), **inner.letter_names()}

    def check_data(self, x: Array) -> None:
        """As for the inner family."""
        if self.components is not None:
            self.components.check_data(x)

    def _resolve(self, x: Array, weights: Array) -> None:
        if not (isinstance(self.n_mix, (int, np.integer)) and self.n_mix >= 1):
            raise ValueError(f"n_mix={self.n_mix!r} must be a whole number, at least 1")
        if not (is_number(self.concentration) and self.concentration >= 1):
            raise ValueError(f"concentration={self.concentration!r} must be at least 1 (1 is no prior)")
        family = self.components if self.components is not None else Gaussian()
        self._inner = family.bind(x, weights, self.n_components * self.n_mix)

    def _split(self, params: Params) -> tuple[Array, Params]:
        return params["weights"], {name: v for name, v in params.items() if name != "weights"}

    def _joint(self, params: Params, x: Array, threads: int) -> Array:
        """log c_kl + log p_kl(x), (n, K, M)."""
        weights, inner = self._split(params)
        logs = self._inner.log_prob(inner, x, threads).reshape(len(x), *weights.shape)
        with np.errstate(divide="ignore"):
            return np.asarray(logs + np.log(weights))

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Log densities (n, K)."""
        joint = self._joint(params, x, threads)
        n, k, m = joint.shape
        return responsibilities(joint.reshape(n * k, m))[0].reshape(n, k)

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """gamma_kl = gamma_k c_kl p_kl / p_k, its sums (K, M) and the inner statistics."""
        joint = self._joint(params, x, threads)
        n, k, m = joint.shape
        share = responsibilities(joint.reshape(n * k, m))[1].reshape(n, k, m) * resp[:, :, None]
        _, inner = self._split(params)
        stats = self._inner.accumulate(inner, x, np.ascontiguousarray(share.reshape(n, k * m)), threads)
        return {**stats, "mix_counts": share.sum(axis=0)}

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Weights by expected counts, the rest by the inner family."""
        weights, inner = self._split(params)
        if update is None or "weights" in update:
            counts = np.where(weights > 0, stats["mix_counts"] + self.concentration - 1.0, 0.0)
            total = counts.sum(axis=1, keepdims=True)
            weights = np.where(total > 0, counts / np.where(total > 0, total, 1.0), weights)
        return {"weights": weights, **self._inner.maximize(stats, inner, update)}

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Weights' and inner family's parts of Q."""
        weights, inner = self._split(params)
        live = weights > 0
        of_weights = float(np.sum(stats["mix_counts"][live] * np.log(weights[live])))
        return of_weights + self._inner.expected_log_prob(stats, inner)

    def log_prior(self, params: Params) -> float:
        """Dirichlet and inner prior."""
        weights, inner = self._split(params)
        own = (self.concentration - 1.0) * float(np.sum(np.log(weights[weights > 0])))
        return own + self._inner.log_prior(inner)

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Cluster every state's share of the data."""
        n, k = resp.shape
        m = self.n_mix
        fine = np.zeros((n, k, m))
        owner = np.argmax(resp, axis=1)
        for state in range(k):
            rows = np.flatnonzero(owner == state)
            if len(rows) >= m:
                labels = cluster(x[rows], np.maximum(resp[rows, state], 0.0), m, rng)
                fine[rows, state, labels] = 1.0
        fine = resp[:, :, None] * (0.98 * fine + 0.02 / m)
        inner = self._inner.from_responsibilities(x, fine.reshape(n, k * m), rng)
        return {"weights": np.full((k, m), 1.0 / m), **inner}

    def n_parameters(self, params: Params) -> int:
        """Weights and inner parameters."""
        weights, inner = self._split(params)
        return simplex_size(weights) + self._inner.n_parameters(inner)

    def mean(self, params: Params) -> Array:
        """Mean of each state's mixture."""
        weights, inner = self._split(params)
        means = self._inner.mean(inner).reshape(*weights.shape, -1)
        return np.asarray(np.einsum("km,kmd->kd", weights, means))

    def covariance(self, params: Params) -> Array:
        """Covariance of each state's mixture: within plus between."""
        weights, inner = self._split(params)
        means = self._inner.mean(inner).reshape(*weights.shape, -1)
        d = means.shape[2]
        within = self._inner.covariance(inner).reshape(*weights.shape, d, d)
        dev = means - self.mean(params)[:, None, :]
        between = dev[:, :, :, None] * dev[:, :, None, :]
        pairs = zip(weights, within + between)
        return np.concatenate([mixed(w[None], of_densities) for w, of_densities in pairs])

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Draw the density, then from it."""
        weights, inner = self._split(params)
        cdf = np.cumsum(weights, axis=1)[labels]
        which = np.sum(rng.random(len(labels))[:, None] * cdf[:, -1:] >= cdf, axis=1)
        return self._inner.sample(inner, labels * self.n_mix + which, rng)

    def permute(self, params: Params, order: NDArray[np.intp]) -> Params:
        """States in the given order."""
        weights, inner = self._split(params)
        blocks = (order[:, None] * self.n_mix + np.arange(self.n_mix)).ravel()
        return {"weights": weights[order], **self._inner.permute(inner, blocks)}

    def degenerate(self, params: Params, counts: Array) -> list[int]:
        """States with a degenerate density."""
        weights, inner = self._split(params)
        found = self._inner.degenerate(inner, (counts[:, None] * weights).ravel())
        return sorted({k // self.n_mix for k in found})

    def project(self, params: Params) -> Params:
        """Inner parameters within their bounds."""
        weights, inner = self._split(params)
        return {"weights": weights, **self._inner.project(inner)}

    def pack(self, params: Params, like: Params) -> Array:
        """Log ratios of the weights and inner coordinates."""
        weights, inner = self._split(params)
        like_weights, like_inner = self._split(like)
        return np.concatenate([simplex_to_free(weights, like_weights), self._inner.pack(inner, like_inner)])

    def unpack(self, v: Array, like: Params) -> Params:
        """Inverse of `pack`."""
        weights, inner = self._split(like)
        n = simplex_size(weights)
        return {"weights": simplex_from_free(v[:n], weights), **self._inner.unpack(v[n:], inner)}


class Product(Components):
    """Several features at once: blocks of columns that are independent given the component.

    Parameters
    ----------
    parts : sequence of (family, columns)
        Family (a `Components` or its name) and the column numbers it describes. Parameters of part i are
        named ``<name>@i``.

    Examples
    --------
    >>> from cavity.em import Product
    >>> mixed = Product([("gaussian", [0, 1]), ("poisson", [2])])
    """

    def __init__(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> None:
        self.parts = parts

    def _families(self) -> list[tuple[Components, list[int]]]:
        for part in self.parts:
            pair = isinstance(part, (list, tuple)) and len(part) == 2
            if not (pair and np.ndim(part[1]) == 1 and all(is_whole(c) for c in part[1])):
                raise ValueError(
                    f"the part {part!r} must be a pair of a family and a list of column numbers, such as "
                    "('gaussian', [0, 1]); columns of data frames are numbered from 0, too"
                )
        return [(make_components(family), [int(c) for c in columns]) for family, columns in self.parts]

    def letter_names(self) -> dict[str, tuple[str, ...]]:
        """Union of the parts' letters."""
        out: dict[str, tuple[str, ...]] = {}
        for i, (family, _) in enumerate(self._families()):
            for letter, names in family.letter_names().items():
                out[letter] = out.get(letter, ()) + tuple(f"{name}@{i}" for name in names)
        return out

    def check_data(self, x: Array) -> None:
        """Columns exist, are used once, and suit their families."""
        used = [c for _, columns in self._families() for c in columns]
        if sorted(used) != list(range(x.shape[1])):
            raise ValueError(
                f"the parts use columns {used}, but X has {x.shape[1]}: each must be used exactly once"
            )
        for family, columns in self._families():
            family.check_data(x[:, columns])

    def _resolve(self, x: Array, weights: Array) -> None:
        self._bound = [(f.bind(x[:, c], weights, self.n_components), c) for f, c in self._families()]

    def _part(self, mapping: dict[str, Array], i: int) -> dict[str, Array]:
        suffix = f"@{i}"
        return {name[: -len(suffix)]: v for name, v in mapping.items() if name.endswith(suffix)}

    @staticmethod
    def _name(mapping: dict[str, Array], i: int) -> dict[str, Array]:
        return {f"{name}@{i}": v for name, v in mapping.items()}

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """Sum over the parts."""
        logs = [
            f.log_prob(self._part(params, i), np.ascontiguousarray(x[:, c]), threads)
            for i, (f, c) in enumerate(self._bound)
        ]
        return np.asarray(np.sum(logs, axis=0))

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """The parts' statistics."""
        out: Stats = {}
        for i, (f, c) in enumerate(self._bound):
            part = f.accumulate(self._part(params, i), np.ascontiguousarray(x[:, c]), resp, threads)
            out.update(self._name(part, i))
        return out

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Every part by itself."""
        out: Params = {}
        for i, (f, _) in enumerate(self._bound):
            wanted = None
            if update is not None:
                wanted = frozenset(name[: -len(f"@{i}")] for name in update if name.endswith(f"@{i}"))
            out.update(self._name(f.maximize(self._part(stats, i), self._part(params, i), wanted), i))
        return out

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum over the parts."""
        parts = enumerate(self._bound)
        return sum(f.expected_log_prob(self._part(stats, i), self._part(params, i)) for i, (f, _) in parts)

    def log_prior(self, params: Params) -> float:
        """Sum over the parts."""
        return sum(f.log_prior(self._part(params, i)) for i, (f, _) in enumerate(self._bound))

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Every part by itself."""
        out: Params = {}
        for i, (f, c) in enumerate(self._bound):
            out.update(self._name(f.from_responsibilities(np.ascontiguousarray(x[:, c]), resp, rng), i))
        return out

    def n_parameters(self, params: Params) -> int:
        """Sum over the parts."""
        return sum(f.n_parameters(self._part(params, i)) for i, (f, _) in enumerate(self._bound))

    def mean(self, params: Params) -> Array:
        """Means in the order of the columns of X."""
        out = np.empty((self.n_components, self.n_features))
        for i, (f, c) in enumerate(self._bound):
            out[:, c] = f.mean(self._part(params, i))
        return out

    def covariance(self, params: Params) -> Array:
        """Block-diagonal covariances."""
        out = np.zeros((self.n_components, self.n_features, self.n_features))
        for i, (f, c) in enumerate(self._bound):
            block = f.covariance(self._part(params, i))
            for k in range(self.n_components):
                out[k][np.ix_(c, c)] = block[k]
        return out

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Every part by itself."""
        out = np.empty((len(labels), self.n_features))
        for i, (f, c) in enumerate(self._bound):
            out[:, c] = f.sample(self._part(params, i), labels, rng)
        return out

    def permute(self, params: Params, order: NDArray[np.intp]) -> Params:
        """Every part by itself."""
        out: Params = {}
        for i, (f, _) in enumerate(self._bound):
            out.update(self._name(f.permute(self._part(params, i), order), i))
        return out

    def degenerate(self, params: Params, counts: Array) -> list[int]:
        """Components degenerate in some part."""
        found: set[int] = set()
        for i, (f, _) in enumerate(self._bound):
            found.update(f.degenerate(self._part(params, i), counts))
        return sorted(found)

    def project(self, params: Params) -> Params:
        """Every part within its bounds."""
        out: Params = {}
        for i, (f, _) in enumerate(self._bound):
            out.update(self._name(f.project(self._part(params, i)), i))
        return out

    def pack(self, params: Params, like: Params) -> Array:
        """The parts' coordinates, one after the other."""
        parts = enumerate(self._bound)
        return np.concatenate([f.pack(self._part(params, i), self._part(like, i)) for i, (f, _) in parts])

    def unpack(self, v: Array, like: Params) -> Params:
        """Inverse of `pack`."""
        out: Params = {}
        at = 0
        for i, (f, _) in enumerate(self._bound):
            part = self._part(like, i)
            size = len(f.pack(part, part))
            out.update(self._name(f.unpack(v[at : at + size], part), i))
            at += size
        return out


FAMILIES: dict[str, Any] = {
    "gaussian": Gaussian,
    "student-t": StudentT,
    "poisson": Poisson,
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "exponential": Exponential,
    "gmm": MixtureEmission,
}


def make_components(family: Any) -> Components:
    """A family from a `Components` object, a name, or a list of (family, columns)."""
    if isinstance(family, Components):
        return family
    if isinstance(family, str):
        if family not in FAMILIES:
            raise ValueError(f"{family!r} is not a known family; choose one of {', '.join(FAMILIES)}")
        made: Components = FAMILIES[family]()
        return made
    if isinstance(family, (list, tuple)):
        return Product(family)
    raise ValueError(f"{family!r} is neither a family, a family's name nor a list of (family, columns)")


# -- parameters set by hand ----------------------------------------------------------------------------------
ATTRIBUTES = {
    "means": "means_",
    "covariances": "covars_",
    "emissionprob": "emissionprob_",
    "rates": "lambdas_",
    "weights": "weights_",
    "dofs": "dofs_",
}
"""Attributes of an HMM under which parameters of its emissions are set."""


def attribute(name: str) -> str:
    """How a user sets the parameter of this name."""
    return ATTRIBUTES.get(name, f"params_[{name!r}]")


def parameter_shapes(family: Components) -> dict[str, tuple[int, ...]]:
    """Shapes of the parameters of a family that was bound; nothing for families of one's own."""
    d, k = family.n_features, family.n_components
    if isinstance(family, Gaussian):
        shapes: dict[str, tuple[int, ...]] = {"means": (k, d)}
        if isinstance(family.structure, FactorCovariance):
            shapes |= {"loadings": (k, d, family.n_factors), "noise_variances": (k, d)}
        else:
            covariances = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
            shapes["covariances"] = covariances[family.covariance_type]
        return shapes | ({"dofs": (k,)} if isinstance(family, StudentT) else {})
    if isinstance(family, Categorical):
        return {"emissionprob": (k, int(family.n_symbols or 1))}
    if isinstance(family, MixtureEmission):
        return {"weights": (k, family.n_mix), **parameter_shapes(family._inner)}
    if isinstance(family, Product):
        return {
            f"{name}@{i}": shape
            for i, (part, _) in enumerate(family._bound)
            for name, shape in parameter_shapes(part).items()
        }
    return {family.parameter: (k, d)} if isinstance(family, _OneRate) else {}


def check_parameters(family: Components, params: Params, names: frozenset[str] | None = None) -> None:
    """Refuse parameters (all, or those in `names`) of a wrong shape, or without a density."""
    for name, shape in parameter_shapes(family).items():
        if names is not None and name not in names:
            continue
        if name not in params:
            raise ValueError(f"{attribute(name)} was not set: these emissions need it, of shape {shape}")
        array = params[name]
        if array.shape != shape:
            raise ValueError(f"{attribute(name)} has shape {array.shape}, expected {shape}")
        if not np.all(np.isfinite(array)):
            raise ValueError(
                f"{attribute(name)} must be finite, and contains {array[~np.isfinite(array)][0]}"
            )
        what, _, part = name.partition("@")
        if what == "covariances":
            owner = family._bound[int(part)][0] if isinstance(family, Product) else family
            _check_covariances(array, attribute(name), owner)
        else:
            _check_range(array, what, attribute(name))


def _check_range(array: Array, what: str, name: str) -> None:
    """Signs and sums of parameters other than covariances."""
    if what in ("weights", "emissionprob"):
        if np.any(array < 0) or not np.allclose(array.sum(axis=-1), 1.0):
            raise ValueError(f"{name} must be non-negative, and every row must sum to one")
    elif what in ("rates", "probabilities"):
        highest = 1.0 if what == "probabilities" else np.inf
        outside = (array < 0) | (array > highest)
        if np.any(outside):
            allowed = "between 0 and 1" if what == "probabilities" else "at least 0"
            raise ValueError(f"{name} must be {allowed}, and contains {array[outside][0]:g}")
    elif what in ("scales", "dofs", "noise_variances") and not np.all(array > 0):
        raise ValueError(f"{name} must be positive, and contains {array[~(array > 0)][0]:g}")


def _check_covariances(array: Array, name: str, family: Components) -> None:
    """Variances are positive, matrices symmetric and positive definite."""
    inner = family._inner if isinstance(family, MixtureEmission) else family
    assert isinstance(inner, Gaussian)
    if inner.structure.diagonal:
        if not np.all(array > 0):
            raise ValueError(f"{name} must be positive, and contains {array[~(array > 0)][0]:g}")
        return
    asymmetry = np.abs(array - np.swapaxes(array, -1, -2))
    if np.any(asymmetry > SYMMETRY * np.abs(array).max()):
        raise ValueError(f"{name} must be symmetric matrices")
    try:
        np.linalg.cholesky(array)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{name} must be positive definite matrices") from error


def sized_family(family: Components, params: Params) -> tuple[Components, int]:
    """The family with the alphabets of parameters set by hand, and the number of features they describe."""
    if isinstance(family, Product):
        parts = family._families()
        sized = [(sized_family(f, family._part(params, i))[0], c) for i, (f, c) in enumerate(parts)]
        return Product(sized), sum(len(columns) for _, columns in parts)
    if isinstance(family, MixtureEmission):
        inner = {name: v for name, v in params.items() if name != "weights"}
        component, d = sized_family(family.components or Gaussian(), inner)
        return MixtureEmission(family.n_mix, component, family.concentration), d
    if isinstance(family, Categorical):
        n_symbols = _columns(params, "emissionprob", "states and symbols")
        return Categorical(family.n_symbols or n_symbols, family.concentration), 1
    if isinstance(family, Gaussian):
        return family, _columns(params, "means", "states and features")
    name = family.parameter if isinstance(family, _OneRate) else next(iter(params), "params")
    return family, _columns(params, name, "states and features")


def _columns(params: Params, name: str, axes: str) -> int:
    if name not in params:
        raise ValueError(f"{attribute(name)} was not set: these emissions need it")
    if params[name].ndim != 2:
        raise ValueError(f"{attribute(name)} has shape {params[name].shape}, expected two axes: {axes}")
    return int(params[name].shape[1])


def covariances_given(value: Any, family: Gaussian, state_axes: int) -> Array:
    """Covariances in the shape of their structure, from that shape or from matrices as `covars_` tells them.

    `state_axes` is 1, or 2 for mixtures within states, whose densities follow each other in the result.
    """
    array, kind = np.asarray(value, dtype=float), family.covariance_type
    if kind == "factor":
        raise ValueError(
            "covars_ cannot be set for covariance_type='factor': set params_ with the entries 'means' (K, D), "
            "'loadings' (K, D, n_factors) and 'noise_variances' (K, D)"
        )
    if kind == "tied":
        if array.ndim == 2:
            return array
        matrices = array.reshape(-1, *array.shape[-2:])
        if not np.all(matrices == matrices[:1]):
            raise ValueError("covars_ differ between states, but covariance_type='tied' has one for all")
        return np.asarray(matrices[0])
    if array.ndim >= state_axes:
        array = array.reshape(-1, *array.shape[state_axes:])
    if kind == "full" or array.ndim != 3 or array.shape[1] != array.shape[2]:
        return array
    diagonals = np.diagonal(array, axis1=1, axis2=2)
    if not np.array_equal(array, diagonals[:, :, None] * np.eye(array.shape[1])):
        raise ValueError(f"covars_ have entries off the diagonal, but covariance_type={kind!r} has none")
    if kind == "diag":
        return np.asarray(diagonals)
    if not np.all(diagonals == diagonals[:, :1]):
        raise ValueError(
            "covars_ have several variances, but covariance_type='spherical' has one per density"
        )
    return np.asarray(diagonals[:, 0])


def nonnegative(family: Any) -> bool:
    """Whether a family, or the family of that name, takes non-negative data only."""
    if isinstance(family, str):
        family = FAMILIES.get(family)
    return bool(getattr(family, "nonnegative", False))
