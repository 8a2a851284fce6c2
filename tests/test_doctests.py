"""Examples in docstrings print what they say, and main public names have one."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "cavity").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
    and "plots" not in path.parts  # pictures have a test of their own
)

WITHOUT = {
    "kernels": {"Kernel", "Stationary", "register_function"},
    "likelihoods": {
        # bases and records of results
        *("Likelihood", "BinaryLikelihood", "CountLikelihood", "GaussianNoise", "MultiLatentLikelihood"),
        *("ScaleMixture", "Noiseless", "Derivatives", "ExpectedLogProb", "LatentDerivatives"),
        *("ParameterDerivatives", "Tilted"),
    },
    "priors": {"Density"},
}


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    result = doctest.testmod(import_module(name), verbose=False)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("package", WITHOUT)
def test_public_names_have_an_example(package):
    module = import_module(f"cavity.{package}")
    lacking = {name for name in module.__all__ if ">>>" not in (getattr(module, name).__doc__ or "")}
    assert lacking - {"ard"} == WITHOUT[package]


@pytest.mark.parametrize("name", ["GP", "GPRegressor", "GPClassifier", "Param", "fixed", "assess"])
def test_main_names_have_an_example(name):
    assert ">>>" in getattr(import_module("cavity"), name).__doc__
