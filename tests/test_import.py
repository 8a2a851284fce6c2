"""`import cavity` is quick and offers every public name; the core does not pull in heavy packages."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import cavity

HEAVY = ["sklearn", "matplotlib", "numba", "pandas", "joblib", "polars", "gymnasium", "rich", "typer"]
SCIPY_HEAVY = ["stats", "signal", "interpolate", "ndimage", "integrate", "io", "cluster", "fft", "odr"]
CORE = ["parameters", "kernels", "means", "likelihoods", "inference", "GP", "Param", "fixed"]


def modules_after(code: str) -> set[str]:
    """Names of all modules loaded after running some code in a fresh interpreter."""
    program = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.fixture(scope="module")
def after_core() -> set[str]:
    return modules_after("import cavity\n" + "\n".join(f"cavity.{name}" for name in CORE))


def test_import_alone_loads_neither_numpy_nor_scipy():
    loaded = modules_after("import cavity")
    assert not {m for m in loaded if m.split(".")[0] in (*HEAVY, "numpy", "scipy")}
    assert {m for m in loaded if m.startswith("cavity")} == {
        "cavity",
        "cavity.runtime",
        "cavity.runtime.lazy",
    }


@pytest.mark.parametrize("package", ["inference", "sampling", "control"])
def test_a_package_of_rules_or_samplers_loads_nothing_before_it_is_used(package):
    loaded = modules_after(f"import cavity.{package}")
    assert not {m for m in loaded if m.split(".")[0] in (*HEAVY, "numpy", "scipy")}


def test_the_core_does_not_load_heavy_packages(after_core):
    assert "cavity.gp" in after_core
    assert not {m for m in after_core if m.split(".")[0] in HEAVY}


def test_the_core_loads_only_the_parts_of_scipy_it_uses(after_core):
    loaded = {m.split(".")[1] for m in after_core if m.startswith("scipy.")}
    assert not loaded & set(SCIPY_HEAVY)


def test_a_fit_with_arrays_needs_neither_pandas_nor_what_draws():
    """scikit-learn imports pandas if it is there; nothing of ours asks for it."""
    absent = (
        "import sys\nfor name in ('pandas', 'matplotlib', 'rich', 'typer'):\n    sys.modules[name] = None\n"
    )
    fit = "import cavity\nmodel = cavity.GPRegressor(n_restarts=0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])\n"
    assert "cavity.posterior" in modules_after(absent + fit + "model.predict([[0.5]])\n")


@pytest.mark.parametrize("name", sorted(cavity._MODULES))
def test_every_public_name_can_be_used(name):
    value = getattr(cavity, name)
    assert name in dir(cavity)
    assert getattr(value, "__name__", name).split(".")[-1] == name
    namespace: dict[str, object] = {}
    exec(f"from cavity import {name}", namespace)
    assert namespace[name] is value


LAZY = [
    cavity,
    *(
        import_module(f"cavity.{name}")
        for name in [
            "bayes",
            "control",
            "design",
            "design.acquisition",
            "em",
            "estimators",
            "inference",
            "kernels",
            "latent",
            "likelihoods",
            "sampling",
            "theory",
        ]
    ),
]


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_no_module_hides_the_public_name_it_is_called_like(package):
    folder = Path(str(package.__file__)).parent
    same = {name for name in package._MODULES if (folder / f"{name}.py").exists() or (folder / name).is_dir()}
    assert {package._MODULES[name] for name in same} <= {f"{package.__name__}.{name}" for name in same}


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_a_star_brings_every_public_name(package):
    namespace: dict[str, object] = {}
    exec(f"from {package.__name__} import *", namespace)
    assert set(package._MODULES) <= set(namespace)


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_no_module_hides_a_public_name(package):
    """A module of the same name would take the place of a function or class as soon as it is imported."""
    folder = Path(package.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} | {
        path.parent.name for path in folder.glob("*/__init__.py")
    }
    hidden = {n for n, m in package._MODULES.items() if m != f"{package.__name__}.{n}"} & modules
    assert hidden == set()


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_names_for_type_checkers_are_there(package):
    for name, module in package._MODULES.items():
        value = getattr(package, name)
        if inspect.ismodule(value):
            assert value.__name__ == module == f"{package.__name__}.{name}"
        else:
            assert value is getattr(import_module(module), name)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'cavity' has no attribute 'GPRegresor'"):
        cavity.GPRegresor  # noqa: B018
    with pytest.raises(ImportError):
        from cavity import nothing_of_the_kind  # noqa: F401
    assert cavity.__version__


def test_fitting_arrays_needs_no_package_for_tables_pictures_or_the_command_line():
    """scikit-learn itself looks for pandas, so that they are made to be missing."""
    code = """
import sys

ABSENT = ("pandas", "matplotlib", "rich", "typer")


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
import numpy as np
from cavity import GPRegressor

x = np.linspace(0, 6, 20)[:, None]
model = GPRegressor(n_restarts=0, random_state=0).fit(x, np.sin(x[:, 0]))
model.predict_dist(x).interval(0.9)
"""
    loaded = modules_after(code)
    assert "cavity.estimators.regressor" in loaded
    assert not {m for m in loaded if m.split(".")[0] in ("pandas", "matplotlib", "rich", "typer")}
