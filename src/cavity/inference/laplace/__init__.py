"""Laplace's method: a Gaussian at the mode of the posterior."""

from cavity.inference.laplace.rule import Laplace

__all__ = ["Laplace"]
