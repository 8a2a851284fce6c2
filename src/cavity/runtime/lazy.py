"""Names and modules that are loaded on first use, so that importing a package and starting a command is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
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


class _Deferred(ModuleType):
    """Stands in for a module until something of it is asked for.

    `importlib.util.LazyLoader` does not serve here: until Python 3.12 a second import statement loads its modules.
    """

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def defer(*modules: str) -> None:
    """Let modules be loaded when something of them is first used, not when they are imported.

    For packages that others import and seldom use: scikit-learn's base classes import `scipy.stats` and pandas, which
    takes longer than a small prediction.
    """
    for name in modules:
        if name not in sys.modules and find_spec(name) is not None:
            sys.modules[name] = _Deferred(name)
