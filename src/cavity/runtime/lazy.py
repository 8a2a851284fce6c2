"""Names and modules that are loaded on first use, so that importing a package and starting a command is quick."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def on_first_use(package: str) -> tuple[dict[str, str], Callable[[str], Any], Callable[[], list[str]]]:
    """Where the public names of a package live, its `__getattr__` and its `__dir__`.

    Public are the names that the package imports for type checkers (`if TYPE_CHECKING: from a import b as b`). A name
    that it imports from itself stands for a module.

    Parameters
    ----------
    package : str
        Its `__name__`.

    Examples
    --------
    >>> modules, lookup, names = on_first_use("cavity")
    >>> modules["GP"], lookup("GP") is lookup("kernels")
    ('cavity.gp', False)
    """
    modules = _imports_for_type_checkers(package)

    def lookup(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(modules[name])
        value = module if modules[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return modules, lookup, names


def _imports_for_type_checkers(package: str) -> dict[str, str]:
    """Public name -> module where it lives; the module `package.name` of a name is itself what the name stands for."""
    loader: Any = sys.modules[package].__loader__
    blocks = [node for node in ast.parse(loader.get_source(package)).body if isinstance(node, ast.If)]
    found = {}
    for line in (line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)):
        for name in (alias.name for alias in line.names):
            found[name] = f"{package}.{name}" if line.module == package else str(line.module)
    return found


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

    For programs, which own their process, not for libraries: whoever imports one of these gets a stand-in.
    Scikit-learn's base classes import `scipy.stats` and pandas, which takes longer than a small prediction, and
    SciPy's special functions import all of NumPy with its Fortran compiler.
    """
    for name in modules:
        if name not in sys.modules and _exists(name):
            sys.modules[name] = _Deferred(name)
            package, _, module = name.rpartition(".")
            if package:  # as an import would
                setattr(sys.modules[package], module, sys.modules[name])


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
