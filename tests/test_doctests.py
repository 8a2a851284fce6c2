"""Examples in docstrings print what they say, and every public class and function has one."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
from importlib import import_module
from pathlib import Path

import matplotlib as mpl
import pytest

import cavity

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "cavity").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)

mpl.use("Agg")


def reference() -> tuple[tuple[str, str, tuple[str, ...] | None], ...]:
    """Modules of the reference in the documentation: (module, title, names or None for all public ones)."""
    spec = importlib.util.spec_from_file_location("api_pages", ROOT / "docs" / "_ext" / "api_pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    return pages.SECTIONS


def public() -> list[tuple[str, str]]:
    """(module, name) of what `cavity` offers, what its public modules offer, and what the reference lists."""
    found = [("cavity", name) for name in cavity._MODULES]
    for name in cavity._MODULES:
        module = getattr(cavity, name)
        if inspect.ismodule(module):
            found += [(module.__name__, inner) for inner in module.__all__]
    found += [(module, name) for module, _, names in reference() for name in names or ()]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    from matplotlib import pyplot as plt

    result = doctest.testmod(import_module(name), verbose=False)
    plt.close("all")
    assert result.attempted > 0
    assert result.failed == 0


def test_every_public_class_and_function_has_an_example():
    """But for exceptions and warnings, which are raised by others."""
    names = public()
    assert len(names) > 200
    lacking = []
    for module, name in names:
        thing = getattr(import_module(module), name)
        raised = inspect.isclass(thing) and issubclass(thing, BaseException)
        shown = (inspect.isclass(thing) or inspect.isroutine(thing)) and not raised
        if shown and ">>>" not in (thing.__doc__ or ""):
            lacking.append(f"{module}.{name}")
    assert lacking == []


def test_the_reference_lists_every_public_module():
    offered = {
        getattr(cavity, name).__name__ for name in cavity._MODULES if inspect.ismodule(getattr(cavity, name))
    }
    listed = {module for module, _, _ in reference()}
    assert offered <= listed
