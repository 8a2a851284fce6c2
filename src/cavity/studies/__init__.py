"""The experiments of the source documents, run again and set beside the published numbers.

`names()` lists them, `load(name)` gives a `Study`, `run(study, quick=True)` runs one; on the command line
``cavity reproduce NAME [--quick] [--jobs N] [--out DIR]``.
"""

from __future__ import annotations

from importlib import import_module

from cavity.studies.base import Cell, Outcome, Published, Results, Study, Target
from cavity.studies.runner import Report, run

__all__ = ["Cell", "Outcome", "Published", "Report", "Results", "Study", "Target", "load", "names", "run"]

_MODULES: dict[str, str] = {
    "usps-10class": "usps_10class",
    "hmc-ais": "hmc_ais",
    "mauna-loa": "mauna_loa",
    "outlier-indicators": "outlier_indicators",
    "two-arcs": "two_arcs",
    "neal": "neal",
    "synthetic-classification": "synthetic_classification",
    "classification-table": "classification_table",
    "boston": "boston",
    "boston-five-splits": "boston",
    "cart-pole": "control_planning",
    "cart-pole-value": "cart_pole_value",
    "forecasts": "forecasts",
    "friedman": "robust_synthetic",
    "gp-experts": "gp_experts",
    "ionosphere": "evidence_grids",
    "sinc": "robust_synthetic",
    "kl-directions": "kl_directions",
    "mean-functions": "regression_basics",
    "mountain-car": "mountain_car",
    "pendulum": "control_planning",
    "sample-paths": "regression_basics",
    "sarcos": "sarcos",
    "sinc-evidence": "regression_basics",
    "step-misspecification": "step_misspecification",
    "usps": "evidence_grids",
    "usps-shifts": "usps_shifts",
}
"""Study -> module of this package, which has it as `STUDY`, or several in a table `STUDIES`."""


def names() -> list[str]:
    """Names of all studies.

    Examples
    --------
    >>> from cavity import studies
    >>> "two-arcs" in studies.names()
    True
    """
    return sorted(_MODULES)


def load(name: str) -> Study:
    """A study by its name.

    Examples
    --------
    >>> from cavity import studies
    >>> studies.load("two-arcs").name
    'two-arcs'
    """
    if name not in _MODULES:
        raise ValueError(f"there is no study {name!r}; choose one of: {', '.join(names())}")
    module = import_module(f"cavity.studies.{_MODULES[name]}")
    study: Study = module.STUDY if hasattr(module, "STUDY") else module.STUDIES[name]
    return study
