"""Inducing inputs as a part of the model."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel, as_inputs
from cavity.latent.base import Capability, Inputs, Representation
from cavity.latent.inducing.choice import choose
from cavity.latent.inducing.kinds import KINDS, Kind, as_kind
from cavity.latent.inducing.prior import InducingPrior
from cavity.latent.inducing.several_functions import InducingFunctions
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, Param, Transform
from cavity.rows.base import RowSource
from cavity.runtime.checks import is_number

if TYPE_CHECKING:
    from cavity.means.functions import Mean


class Inducing(Representation):
    """The process at m inducing inputs stands for that at all training rows: O(n m^2) time, O(m^2) memory.

    Parameters
    ----------
    m : int
        Number of inducing inputs; fewer if there are not so many different rows.
    kind : {"auto", "vfe", "tight", "fitc", "dtc", "sor"} or float
        What is assumed of f given its values at the inducing inputs (`cavity.latent.inducing.kinds`): a number is the
        power of power EP between "vfe" (0) and "fitc" (1). "auto" takes the tight bound for observations with Gaussian
        noise ("vfe" of rows on disk or on a cluster, whose gradient takes 5 products of n m^2 where the tight bound
        takes 8; predictions are the same), and "fitc" for the sites of other inference rules.
    inputs : array (m, D), optional
        The inducing inputs; else they are chosen when the training rows are known: by k-means in inputs scaled by the
        kernel, or among the rows if the kernel takes other inputs than numbers (categories, say).
    learn : bool
        Whether the inducing inputs are learned with all other parameters.
    seed : int
        Of the choice.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, Inducing
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.linspace(0, 10, 2000)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(2000)
    >>> exact = GP(1.0 * SE(1.0), Gaussian(0.01)).condition(X, y)
    >>> sparse = GP(1.0 * SE(1.0), Gaussian(0.01), representation=Inducing(m=40)).condition(X, y)
    >>> bool(exact.log_evidence - 0.1 < sparse.log_evidence < exact.log_evidence)
    True
    >>> sparse.mean([[1.5]]).round(2), sparse.model.representation.inputs.shape
    (array([0.99]), (40, 1))
    """

    name: ClassVar[str] = "inducing"
    approximates: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.PERMUTATION,
            Capability.WHITENING,
            Capability.POSTERIOR_WHITENING,
            Capability.SITES,
            Capability.NEGATIVE_SITES,
            Capability.SEVERAL_FUNCTIONS,
        }
    )
    _transforms: ClassVar[dict[str, Transform]] = {"inputs": IDENTITY}

    def __init__(
        self,
        m: int = 500,
        kind: str | float = "auto",
        *,
        inputs: ArrayLike | Param | None = None,
        learn: bool = False,
        seed: int = 0,
    ) -> None:
        if not is_number(m, Integral) or m < 1:
            raise ValueError(f"m must be a number of inducing inputs >= 1, got {m!r}")
        if kind != "auto":
            as_kind(kind)
        self.m, self.kind, self.seed = int(m), kind, seed
        self._inputs: Array | None = None
        self._learn = bool(learn)
        values: dict[str, Any] = {}
        if inputs is not None:
            given = inputs.value if isinstance(inputs, Param) else inputs
            Z = as_inputs(given, "inputs").copy()
            self.m = len(Z)
            if self._learn:
                values = {"inputs": inputs if isinstance(inputs, Param) else Z}
            else:
                self._inputs = Z
        self._set_up(values)

    @property
    def inputs(self) -> Array | None:
        """The inducing inputs (m, D), if they have been chosen."""
        return np.asarray(self._params["inputs"].value) if "inputs" in self._params else self._inputs

    @property
    def learn(self) -> bool:
        """Whether the inducing inputs are learned."""
        return self._learn

    def observation_kind(self, in_memory: bool = True) -> Kind:
        """What is assumed if observations have Gaussian noise, for rows that are in memory or elsewhere."""
        if self.kind == "auto":
            return KINDS["tight" if in_memory else "vfe"]
        return as_kind(self.kind)

    @property
    def site_kind(self) -> Kind:
        """What is assumed if a rule chooses sites."""
        return KINDS["fitc"] if self.kind == "auto" else as_kind(self.kind)

    def __repr__(self) -> str:
        known = "" if self.inputs is None else f", inputs={self.inputs.tolist()!r}"
        return f"Inducing(m={self.m}, kind={self.kind!r}{known}, learn={self.learn}, seed={self.seed})"

    def with_inputs(self, Z: ArrayLike) -> Inducing:
        """The same with these inducing inputs (m, D)."""
        return Inducing(self.m, self.kind, inputs=Z, learn=self.learn, seed=self.seed)

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Made definite for data with these columns."""
        if self.inputs is not None and self.inputs.shape[1] != n_features:
            raise ValueError(
                f"the inducing inputs have {self.inputs.shape[1]} columns, the data {n_features}: give inputs of "
                "these, or let them be chosen (inputs=None)"
            )
        return self

    @property
    def definite(self) -> bool:
        """Whether the inducing inputs have been chosen."""
        return self.inputs is not None

    def for_rows(self, kernel: Kernel, X: Array | RowSource) -> Inducing:
        """With inducing inputs chosen for these rows, unless they have been."""
        if self.definite:
            return self
        return self.with_inputs(choose(kernel, X, self.m, np.random.default_rng(self.seed)))

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> InducingPrior:
        """The process at the inputs."""
        settled = self.for_rows(kernel, inputs.source)
        Z = settled.inputs
        assert Z is not None
        return InducingPrior(settled, Z, kernel, inputs, mean_function)

    def several(self, kernel: Any, mean_functions: Any, inputs: Inputs, n_latent: int) -> InducingFunctions:
        """Several independent processes at the inputs."""
        return InducingFunctions(self, kernel, inputs, n_latent, mean_functions)
