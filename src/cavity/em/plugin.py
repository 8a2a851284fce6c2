"""Components of the user's own, one object each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.em.components import DEAD, Components, Params, Stats, responsibilities
from cavity.em.transforms import Coordinates
from cavity.numerics.arrays import Array


class Plugin(Components):
    """Any component with a weighted maximum-likelihood step, one object per component.

    Parameters
    ----------
    components : sequence of objects with
        ``log_prob(x) -> (n,)`` and ``fit_weighted(x, w) -> object`` (a new component; for generalized EM it
        only has to raise the weighted log-likelihood), and for the methods that need them ``sample(n, rng) ->
        (n, D)``, ``mean() -> (D,)``, ``n_parameters`` (int).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Mixture, Plugin
    >>> class Uniform:
    ...     n_parameters = 1
    ...     def __init__(self, end):
    ...         self.end = end
    ...     def log_prob(self, x):
    ...         return np.where(x[:, 0] <= self.end, -np.log(self.end), -np.inf)
    ...     def fit_weighted(self, x, w):
    ...         return Uniform(float(x[w > 0, 0].max()))
    >>> model = Mixture(1, Plugin([Uniform(9.0)])).fit(np.array([[1.0], [2.0]]))
    >>> model.params_["components"][0].end
    2.0
    """

    def __init__(self, components: Any) -> None:
        self.components = tuple(components)

    def _resolve(self, x: Array, weights: Array) -> None:
        if len(self.components) != self.n_components:
            raise ValueError(
                f"n_components={self.n_components} but {len(self.components)} component objects were given"
            )

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """The components' own log densities."""
        return np.stack([np.asarray(c.log_prob(x), dtype=float) for c in params["components"]], axis=1)

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Data and responsibilities themselves: nothing is known about sufficient statistics."""
        return {"x": x, "resp": resp}

    def mixture_pass(
        self, params: Params, log_weights: Array, x: Array, weights: Array, threads: int
    ) -> tuple[float, Array, Stats]:
        """E-step on all rows at once."""
        logs, resp = responsibilities(self.log_prob(params, x) + log_weights)
        resp *= weights[:, None]
        return float(weights @ logs), resp.sum(axis=0), {"x": x, "resp": resp}

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """`fit_weighted` of every component that has data."""
        new = np.empty(len(params["components"]), dtype=object)
        for k, component in enumerate(params["components"]):
            w = stats["resp"][:, k]
            new[k] = component.fit_weighted(stats["x"], w) if w.sum() > DEAD else component
        return {"components": new}

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of r log p."""
        return float(np.sum(stats["resp"] * self.log_prob(params, stats["x"])))

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Fit every component to its share."""
        start = np.empty(len(self.components), dtype=object)
        start[:] = self.components
        return self.maximize({"x": x, "resp": resp}, {"components": start})

    def n_parameters(self, params: Params) -> int:
        """Sum of the components' `n_parameters`."""
        return int(sum(c.n_parameters for c in params["components"]))

    def mean(self, params: Params) -> Array:
        """The components' own means."""
        return np.stack([np.atleast_1d(c.mean()) for c in params["components"]])

    def covariance(self, params: Params) -> Array:
        """Not known for plug-in components."""
        raise NotImplementedError("plug-in components do not tell their covariances")

    def order(self, params: Params) -> NDArray[np.intp]:
        """By mean where the components tell it, else as given."""
        if all(hasattr(c, "mean") for c in params["components"]):
            return super().order(params)
        return np.arange(len(params["components"]))

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """The components' own draws, in the order of the labels."""
        out: Array | None = None
        for k, component in enumerate(params["components"]):
            where = np.flatnonzero(labels == k)
            draws = np.asarray(component.sample(len(where), rng), dtype=float).reshape(len(where), -1)
            if out is None:
                out = np.empty((len(labels), draws.shape[1]))
            out[where] = draws
        assert out is not None
        return out

    def coordinates(self) -> dict[str, Coordinates]:
        """Plug-in components have no known coordinates."""
        raise NotImplementedError("acceleration and standard errors need components with known coordinates")
