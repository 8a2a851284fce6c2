"""Families by the names under which `Mixture` and `HMM` know them."""

from __future__ import annotations

from typing import Any

from cavity.em.bernoulli import Bernoulli
from cavity.em.categorical import Categorical
from cavity.em.components import Components
from cavity.em.exponential import Exponential
from cavity.em.gaussian import Gaussian
from cavity.em.mixture_emission import MixtureEmission
from cavity.em.poisson import Poisson
from cavity.em.student_t import StudentT

FAMILIES: dict[str, Any] = {
    "gaussian": Gaussian,
    "student-t": StudentT,
    "poisson": Poisson,
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "exponential": Exponential,
    "gmm": MixtureEmission,
}


def make_components(family: Any) -> Components:
    """A family from a `Components` object, a name, or a list of (family, columns)."""
    if isinstance(family, Components):
        return family
    if isinstance(family, str):
        if family not in FAMILIES:
            raise ValueError(f"{family!r} is not a known family; choose one of {', '.join(FAMILIES)}")
        made: Components = FAMILIES[family]()
        return made
    if isinstance(family, (list, tuple)):
        from cavity.em.product import Product  # which makes its parts by name, too

        return Product(family)
    raise ValueError(f"{family!r} is neither a family, a family's name nor a list of (family, columns)")


def nonnegative(family: Any) -> bool:
    """Whether a family, or the family of that name, takes non-negative data only."""
    if isinstance(family, str):
        family = FAMILIES.get(family)
    return bool(getattr(family, "nonnegative", False))
