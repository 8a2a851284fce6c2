"""What the kernels around one other kernel share."""

from __future__ import annotations

from typing import Any, cast

from cavity.kernels.base import Kernel
from cavity.kernels.input_functions import InputFunction, as_function


class Wrapper(Kernel):
    """A kernel around one other kernel."""

    @property
    def kernel(self) -> Kernel:
        """The kernel inside."""
        return cast(Kernel, self._parts[0])

    def _require_kernel(self, kernel: Any) -> None:
        if not isinstance(kernel, Kernel):
            raise ValueError(f"{type(self).__name__} takes a kernel, got {kernel!r}")


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
