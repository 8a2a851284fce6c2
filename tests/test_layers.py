"""Each module imports only from its own layer or from those below it in the table of docs/architecture.md."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import cavity

PACKAGE = Path(cavity.__file__).parent

# From the foundation upwards: a layer may import from itself and from every one before it.
LAYERS = {
    "numerics": ["numerics", "runtime", "rows"],
    "parts": ["parameters", "kernels", "means", "likelihoods", "prediction"],
    "latent": ["latent"],
    "inference": ["inference", "sampling"],
    "model": ["gp", "posterior", "integrals", "learning", "assessment", "frames", "io"],
    "front": ["estimators"],
    "applications": ["bayes", "control", "design", "em", "forecasting", "theory"],
    "outside": ["measures", "plots", "demo", "datasets", "studies", "report", "tables", "cli", "__main__"],
}
RANK = {module: rank for rank, modules in enumerate(LAYERS.values()) for module in modules}

# (importing file, module of a later layer it may import even so): lazy convenience methods, with reasons.
ALLOWED: set[tuple[str, str]] = {
    ("estimators/base.py", "plots"),  # model.plot()
    ("forecasting/forecaster.py", "plots"),  # model.plot()
    ("posterior.py", "plots"),  # posterior.plot()
    ("sampling/posterior.py", "plots"),  # posterior.plot()
    ("runtime/storing.py", "io"),  # model.save(), posterior.save()
    ("estimators/fitted_regressor.py", "theory"),  # model.learning_curve()
    ("posterior.py", "control"),  # posterior.predict_gaussian: uncertain inputs
    ("sampling/default_priors.py", "learning"),  # weak priors are centered on what starts the optimizer
}


def layer_of(module: str) -> str:
    return list(LAYERS)[RANK[module]]


@cache
def imports(source: str) -> list[ast.AST]:
    """All imports of a source, those inside functions and classes too; it looks at statements alone."""
    found: list[ast.AST] = [ast.parse(source)]
    for node in found:
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            found += getattr(node, part, [])
    return [node for node in found if isinstance(node, ast.Import | ast.ImportFrom)]


def imported_modules(source: str, package: str) -> list[tuple[str, int]]:
    """(top-level module of cavity, line) of every import in a file, lazy and type-only ones included."""
    found = []
    for node in imports(source):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "cavity" else [base]
        for name in names:
            if name.startswith("cavity."):
                found.append((name.split(".")[1], node.lineno))
    return found


def problems_in(source: str, path: str) -> list[str]:
    """Imports of one file that the layers do not allow; `path` is relative to the package."""
    parts = Path(path).with_suffix("").parts
    top = parts[0]
    if top not in RANK:
        known = "; ".join(f"{layer}: {', '.join(modules)}" for layer, modules in LAYERS.items())
        return [f"{path}: '{top}' is in no layer. Add it to LAYERS in this test and to the table ({known})"]
    package = ".".join(["cavity", *parts[:-1]])
    found = []
    for target, line in imported_modules(source, package):
        if target.startswith("__") or (path, target) in ALLOWED:
            continue
        if target not in RANK:
            found.append(f"{path}:{line} imports cavity.{target}, which is in no layer")
        elif RANK[target] > RANK[top]:
            found.append(
                f"{path}:{line} is in layer '{layer_of(top)}' and must not import cavity.{target} "
                f"of the later layer '{layer_of(target)}'"
            )
    return found


def files() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE) != Path("__init__.py"))


def test_imports_respect_the_layers():
    found = files()
    assert len(found) > 200
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in found}
    problems = [problem for path, source in sources.items() for problem in problems_in(source, path)]
    assert not problems, "\n".join(problems)


PROTOCOL = {"base", "integrated_basis", "negative_sites", "prior_times_sites", "multi_latent", "sites"}
"""Modules of `latent` that inference rules and samplers may know: the protocol and what is said in it alone."""


def representations_named(source: str) -> list[str]:
    """Modules of particular representations that a source imports."""
    found = []
    for node in imports(source):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "cavity.latent":
            names = [f"cavity.latent.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        parts = [name.split(".") for name in names]
        found += [p[2] for p in parts if p[:2] == ["cavity", "latent"] and p[2:] and p[2] not in PROTOCOL]
    return found


def test_rules_and_samplers_know_no_particular_representation():
    paths = [p for folder in ("inference", "sampling") for p in (PACKAGE / folder).rglob("*.py")]
    assert len(paths) > 40
    found = {p.relative_to(PACKAGE).as_posix(): representations_named(p.read_text("utf-8")) for p in paths}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("from cavity.latent.dense import DensePrior", ["dense"]),
        ("def f():\n    from cavity.latent import dense_multi_latent", ["dense_multi_latent"]),
        ("import cavity.latent.posterior_process", ["posterior_process"]),
        ("from cavity.latent.base import LatentPrior\nfrom cavity.latent.sites import Sites", []),
    ],
)
def test_the_check_of_representations_finds_what_it_should(source, named):
    assert representations_named(source) == named


def test_exceptions_are_still_needed():
    for path, target in ALLOWED:
        source = (PACKAGE / path).read_text(encoding="utf-8")
        package = ".".join(["cavity", *Path(path).parts[:-1]])
        assert target in {name for name, _ in imported_modules(source, package)}, (path, target)


# --- the check itself ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "source", "wrong"),
    [
        ("numerics/cholesky.py", "import numpy as np\nfrom scipy import linalg", None),
        ("numerics/cholesky.py", "from cavity.kernels import SE", "later layer 'parts'"),
        (
            "kernels/base.py",
            "from cavity.parameters import Param\nfrom .columns import ard\nfrom ..numerics import x",
            None,
        ),
        ("kernels/base.py", "from ..gp import GP", "must not import cavity.gp"),
        (
            "kernels/base.py",
            "def f():\n    from cavity.latent.dense import DensePrior",
            ":2 is in layer 'parts'",
        ),
        ("kernels/base.py", "from cavity import gp", "must not import cavity.gp"),
        ("kernels/base.py", "import cavity.gp", "must not import cavity.gp"),
        ("kernels/base.py", "from .. import gp", "must not import cavity.gp"),
        ("kernels/base.py", "from cavity import __version__", None),
        ("gp.py", "if TYPE_CHECKING:\n    from cavity.estimators import GPRegressor", "later layer 'front'"),
        ("em/parallel.py", "from cavity.parameters.param import Log\nfrom . import checks", None),
        ("cli.py", "from cavity.control import x\nfrom cavity.plots import y", None),
        ("cli.py", "from cavity.elsewhere import y", "cavity.elsewhere, which is in no layer"),
        ("gadgets/thing.py", "", "'gadgets' is in no layer. Add it to LAYERS"),
    ],
)
def test_the_check_finds_what_it_should(path, source, wrong):
    problems = problems_in(source, path)
    if wrong is None:
        assert problems == []
    else:
        assert len(problems) == 1
        assert wrong in problems[0]
