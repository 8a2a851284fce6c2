"""What the kernels around one other kernel share: they are that kernel, but for what they change."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.input_functions import InputFunction, as_function
from cavity.numerics.arrays import Array
from cavity.parameters.param import Parametrized


class Wrapper(Kernel):
    """A kernel around one other kernel, and the same kernel in all that a subclass does not change.

    `_named` says whether names of parameters tell of it: `2.0 * SE(1.0)` has `se.variance` and `se.lengthscale`.
    """

    _named = True

    def __init__(self, kernel: Kernel) -> None:
        self._set_up({}, (kernel,))

    def _set_up(self, values: Mapping[str, Any], parts: Sequence[Parametrized] = ()) -> None:
        if not isinstance(parts[0], Kernel):
            raise ValueError(f"{type(self).__name__} takes a kernel, got {parts[0]!r}")
        super()._set_up(values, parts)

    @property
    def kernel(self) -> Kernel:
        """The kernel inside."""
        return cast(Kernel, self._parts[0])

    @property
    def label(self) -> str:
        """That of the kernel inside, unless this one is named."""
        return super().label if self._named else self.kernel.label

    def _arguments(self) -> list[str]:
        return [repr(self.kernel), *super()._arguments()]

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        return self.kernel._prepare(X, ids)

    def _block(self, a: Rows, b: Rows) -> Array:
        return self.kernel._block(a, b)

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return self.kernel._pull(a, b, G, K)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return self.kernel._pull_inputs(a, b, G, K)

    def _diag(self, a: Rows) -> Array:
        return self.kernel._diag(a)

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag(a, g)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag_inputs(a, g)


class OfInputs(Wrapper):
    """A kernel on a function of the inputs: prepared rows are those of the kernel inside, and what `_back` needs."""

    @abstractmethod
    def _back(self, a: Rows, d: Array) -> Array:
        """From a cotangent of what the kernel inside sees to one of the inputs, (n, D)."""

    @property
    def _homogeneous(self) -> bool:  # type: ignore[override]
        return self.kernel._homogeneous

    def _block(self, a: Rows, b: Rows) -> Array:
        return self.kernel._block(a[0], b[0])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return self.kernel._pull(a[0], b[0], G, K)

    def _pull_and_sum(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, float]:
        return self.kernel._pull_and_sum(a[0], b[0], G, K)

    def _pull_lower(
        self, a: Rows, b: Rows, tile: tuple[slice, slice], u: Array, A: Array, K: Array
    ) -> tuple[Array, float] | None:
        return self.kernel._pull_lower(a[0], b[0], tile, u, A, K)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        dA, dB = self.kernel._pull_inputs(a[0], b[0], G, K)
        return self._back(a, dA), self._back(b, dB)

    def _diag(self, a: Rows) -> Array:
        return self.kernel._diag(a[0])

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag(a[0], g)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return self._back(a, self.kernel._pull_diag_inputs(a[0], g))


class FunctionWrapper(Wrapper):
    """A kernel around another one and a function of the inputs."""

    _widenable = False

    def __init__(
        self, kernel: Kernel, function: str | InputFunction, jacobian: InputFunction | None = None
    ) -> None:
        super().__init__(kernel)
        self.function = as_function(function, jacobian, type(self).__name__)

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), repr(self.function)]

    def __eq__(self, other: object) -> bool:
        same = type(self) is type(other) and self.function == cast(Any, other).function
        return same and self.kernel == cast(Any, other).kernel

    __hash__ = Kernel.__hash__
