"""Public names of a package that are loaded on first use, so that importing the package is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package : str
        Its `__name__`.
    modules : mapping
        Public name -> module where it lives. The module `package.name` of a name is itself what the name stands for.

    Examples
    --------
    >>> lookup, names = on_first_use("cavity", {"kernels": "cavity.kernels", "SE": "cavity.kernels"})
    >>> lookup("SE") is lookup("kernels").SE
    True
    """

    def lookup(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(modules[name])
        value = module if modules[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return lookup, names
