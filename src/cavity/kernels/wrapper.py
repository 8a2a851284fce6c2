"""What the kernels around one other kernel share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.input_functions import InputFunction, as_function
from cavity.numerics.arrays import Array


class Wrapper(Kernel):
    """A kernel around one other kernel."""

    @property
    def kernel(self) -> Kernel:
        """The kernel inside."""
        return cast(Kernel, self._parts[0])

    def _require_kernel(self, kernel: Any) -> None:
        if not isinstance(kernel, Kernel):
            raise ValueError(f"{type(self).__name__} takes a kernel, got {kernel!r}")


class OfInputs(Wrapper):
    """A kernel on a function of the inputs: prepared rows are those of the kernel inside, and what `_back` needs."""

    @abstractmethod
    def _back(self, a: Rows, d: Array) -> Array:
        """From a cotangent of what the kernel inside sees to one of the inputs, (n, D)."""

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
        self._require_kernel(kernel)
        self.function = as_function(function, jacobian, type(self).__name__)
        self._set_up({}, (kernel,))

    def _arguments(self) -> list[str]:
        return [repr(self.kernel), repr(self.function)]

    def __eq__(self, other: object) -> bool:
        same = type(self) is type(other) and self.function == cast(Any, other).function
        return same and self.kernel == cast(Any, other).kernel

    __hash__ = Kernel.__hash__
