"""Pages, examples and docstrings of public names import from public places only: `cavity` and what it lists."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import cavity

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"_build", "api", "gallery"}

PUBLIC = {
    "cavity",
    *(f"cavity.{name}" for name in cavity._MODULES if inspect.ismodule(getattr(cavity, name))),
    "cavity.control.mdp",
    "cavity.control.problems",
    "cavity.control.value_iteration",
    "cavity.design.acquisition",
    "cavity.parameters.priors",
    "cavity.sampling.diagnostics",
}
"""Modules that users may import from."""


def imports(code: str) -> list[tuple[str, str]]:
    """(module, name) of every import of cavity in some code; the name is empty for `import module`."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "cavity":
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "cavity"]
    return found


def private(code: str) -> list[str]:
    """Imports of modules that are not public, or of names that a public module does not list."""
    wrong = []
    for module, name in imports(code):
        listed = module in PUBLIC and (not name or name in import_module(module).__all__)
        if not listed and f"{module}.{name}" not in PUBLIC:
            wrong.append(f"from {module} import {name}" if name else f"import {module}")
    return wrong


def code_of(path: Path) -> str:
    """All code of a script, or of the ```python blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return (
        text if path.suffix == ".py" else "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.S | re.M))
    )


def places() -> list[Path]:
    docs = [
        p for p in (ROOT / "docs").rglob("*.md") if p.relative_to(ROOT / "docs").parts[0] not in GENERATED
    ]
    return sorted([ROOT / "README.md", *docs, *(ROOT / "examples").rglob("*.py")])


@pytest.mark.parametrize("path", places(), ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_examples_import_what_is_public(path):
    assert private(code_of(path)) == []


def test_docstrings_of_public_names_import_what_is_public():
    wrong = {}
    for module in sorted(PUBLIC):
        for name in import_module(module).__all__:
            text = inspect.getdoc(getattr(import_module(module), name)) or ""
            examples = re.findall(r"^\s*>>> ((?:from|import) cavity[^(\n]*)$", text, re.M)
            found = [line for example in examples for line in private(example)]
            if found:
                wrong[f"{module}.{name}"] = found
    assert wrong == {}


def test_the_check_finds_what_it_should():
    assert private("from cavity import GP\nfrom cavity.inference import EP\nimport numpy, cavity") == []
    assert private("from cavity.gp import GP") == ["from cavity.gp import GP"]
    assert private("from cavity.kernels import as_inputs") == ["from cavity.kernels import as_inputs"]
    assert private("import cavity.latent.dense") == ["import cavity.latent.dense"]
    assert private("from cavity.sampling import diagnostics") == []
