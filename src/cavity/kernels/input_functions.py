"""Functions of the inputs that kernels may use by name: warpings, rescalings, length-scale functions.

A function maps inputs (n, D) to (n, E); a jacobian maps them to (n, E, D). Functions given by name can be
written down: a kernel that holds one prints, parses and saves. `register_function` adds a name; a plain
callable works as well, but such a kernel cannot be written to text or file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from cavity.numerics.arrays import Array

InputFunction = Callable[[Array], Array]


@dataclass(frozen=True)
class NamedFunction:
    """A function of the inputs, its jacobian if known, and its name if it is registered."""

    function: InputFunction
    jacobian: InputFunction | None = None
    name: str | None = None

    def __repr__(self) -> str:
        if self.name is not None:
            return repr(self.name)
        return getattr(self.function, "__name__", None) or repr(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.name is not None:  # by name, so that kernels pickle without the function itself
            return as_function, (self.name, None, "pickled kernel")
        return NamedFunction, (self.function, self.jacobian)

    def __call__(self, X: Array, owner: str) -> Array:
        """Values (n, E), checked."""
        with np.errstate(all="ignore"):
            values = np.asarray(self.function(X), dtype=float)
        if values.ndim == 1 and len(values) == len(X):
            values = values[:, None]
        if values.ndim != 2 or len(values) != len(X):
            raise ValueError(
                f"{owner}: {self!r} must map inputs {X.shape} to one row each, got shape {values.shape}"
            )
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            raise ValueError(f"{owner}: {self!r} is not finite at row {row}, x = {X[row].tolist()}")
        return cast(Array, values)

    def slopes(self, X: Array, n_outputs: int, owner: str) -> Array:
        """Jacobian (n, E, D), or a refusal that names the function."""
        if self.jacobian is None:
            raise ValueError(
                f"{owner}: derivatives in the inputs need the jacobian of {self!r}; give jacobian=..., "
                "a function from inputs (n, D) to (n, outputs, D)"
            )
        J = np.asarray(self.jacobian(X), dtype=float)
        if J.shape != (len(X), n_outputs, X.shape[1]):
            wanted = (len(X), n_outputs, X.shape[1])
            raise ValueError(f"{owner}: the jacobian of {self!r} must have shape {wanted}, got {J.shape}")
        return cast(Array, J)

    def width(self, n_features: int) -> int:
        """Number of outputs for inputs with that many columns, found by calling the function."""
        with np.errstate(all="ignore"):
            values = np.asarray(self.function(np.ones((2, n_features))))
        return int(values.shape[1]) if values.ndim == 2 else 1


def _elementwise(name: str, f: InputFunction, slope: InputFunction) -> NamedFunction:
    def jacobian(X: Array) -> Array:
        n, D = X.shape
        J = np.zeros((n, D, D))
        J[:, np.arange(D), np.arange(D)] = slope(X)
        return J

    return NamedFunction(f, jacobian, name)


_REGISTRY: dict[str, NamedFunction] = {
    f.name: f
    for f in (
        _elementwise("identity", lambda X: X, np.ones_like),
        _elementwise("log", np.log, lambda X: 1.0 / X),
        _elementwise("log1p", np.log1p, lambda X: 1.0 / (1.0 + X)),
        _elementwise("exp", np.exp, np.exp),
        _elementwise("sqrt", np.sqrt, lambda X: 0.5 / np.sqrt(X)),
        _elementwise("square", np.square, lambda X: 2.0 * X),
        _elementwise("tanh", np.tanh, lambda X: 1.0 - np.tanh(X) ** 2),
    )
    if f.name is not None
}


def register_function(name: str, function: InputFunction, jacobian: InputFunction | None = None) -> None:
    """Name a function of the inputs, for `Warped`, `Rescaled`, `Gibbs`, `PaciorekSchervish` and kernel texts.

    Parameters
    ----------
    name : str
        A Python identifier that is not taken.
    function : callable, inputs (n, D) to (n, E)
    jacobian : callable, inputs (n, D) to (n, E, D), optional
        Needed only for derivatives in the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import SE, Warped, parse, register_function
    >>> register_function("log_of_inputs", np.log, lambda x: (1.0 / x)[:, :, None] * np.eye(x.shape[1]))
    >>> kernel = Warped(SE(1.0), "log_of_inputs")
    >>> parse(repr(kernel)) == kernel
    True
    """
    if not name.isidentifier():
        raise ValueError(f"the name of a function must be an identifier, got {name!r}")
    if name in _REGISTRY:
        raise ValueError(f"a function called {name!r} is registered already; choose another name")
    _REGISTRY[name] = NamedFunction(function, jacobian, name)


def function_names() -> list[str]:
    """Names that can be used instead of a callable."""
    return sorted(_REGISTRY)


def as_function(given: Any, jacobian: InputFunction | None, owner: str) -> NamedFunction:
    """What a user gave: a registered name, or a callable with or without its jacobian."""
    if isinstance(given, NamedFunction):
        return given
    if isinstance(given, str):
        if given not in _REGISTRY:
            raise ValueError(
                f"{owner}: no function is called {given!r}; there are {', '.join(function_names())}"
            )
        return _REGISTRY[given]
    if not callable(given):
        raise ValueError(f"{owner}: function must be callable or a registered name, got {given!r}")
    return NamedFunction(given, jacobian)
