"""The reference is written from what packages call public, so that no name is forgotten and none is stale."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

SECTIONS = (
    (
        "cavity",
        "Models",
        (
            "GPRegressor",
            "GPClassifier",
            "StackedRegressor",
            "CoregionalizedRegressor",
            "TextEncoder",
            "GraphEncoder",
            "GP",
            "Posterior",
            "assess",
            "load",
            "Param",
            "fixed",
        ),
    ),
    ("cavity.prediction", "Predictions", ("Prediction", "GaussianPrediction")),
    ("cavity.inference", "Inference rules", None),
    ("cavity.learning", "Learning", None),
    ("cavity.kernels", "Kernels", None),
    ("cavity.likelihoods", "Likelihoods", None),
    ("cavity.means", "Mean and basis functions", None),
    ("cavity.parameters.priors", "Priors", None),
    ("cavity.parameters", "Parameters", None),
    ("cavity.sampling", "Sampling", None),
    ("cavity.sampling.diagnostics", "Diagnostics of chains", None),
    ("cavity.assessment", "Assessment", ("Assessment", "MethodResult", "GoldStandard")),
    ("cavity.bayes", "Bayesian basics", None),
    ("cavity.em", "Mixtures and hidden Markov models", None),
    ("cavity.forecasting", "Forecasts of time series", None),
    ("cavity.design", "Design of experiments and optimization", None),
    ("cavity.design.acquisition", "Acquisition functions", None),
    ("cavity.control", "Uncertain inputs and control", None),
    ("cavity.control.mdp", "Finite decision processes", None),
    ("cavity.theory", "Theory", None),
    ("cavity.integrals", "Integrals", None),
    ("cavity.plots", "Pictures", None),
    ("cavity.io", "Model files", None),
    ("cavity.datasets", "Data", None),
    ("cavity.studies", "Studies", ("names", "load", "run", "Study")),
)
"""Module, title, and names; None takes all that the module calls public."""

HEAD = """Reference
=========

Every public name, from its docstring. Arrays are written with their shapes: n observations, D inputs, m new inputs.

"""


def public(module: str) -> list[str]:
    """Public classes and functions of a module."""
    package = import_module(module)
    names = package.__all__
    values = ((name, getattr(package, name)) for name in sorted(names, key=str.lower))
    return [name for name, value in values if inspect.isclass(value) or inspect.isroutine(value)]


def write(folder: Path) -> None:
    """The page `index.rst`; written only where it changed, so that a second build has nothing to do."""
    text = HEAD
    listed: set[int] = set()  # what has two public places is described once, at the first
    for module, title, names in SECTIONS:
        found = [(name, getattr(import_module(module), name)) for name in names or public(module)]
        new = [name for name, value in found if id(value) not in listed]
        listed |= {id(value) for _, value in found}
        text += f"{title}\n{'-' * len(title)}\n\n.. currentmodule:: {module}\n\n"
        text += ".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n"
        text += "".join(f"   {name}\n" for name in new) + "\n"
    folder.mkdir(exist_ok=True)
    page = folder / "index.rst"
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")
