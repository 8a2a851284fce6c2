"""Variational inference: the Gaussian that maximizes a lower bound on the evidence."""

from cavity.inference.variational.rule import Variational
from cavity.inference.variational.scale_mixture_em import ScaleMixtureEM

__all__ = ["ScaleMixtureEM", "Variational"]
