"""Expectation propagation that converges, or says exactly what it did instead."""

from cavity.inference.ep.rule import EP
from cavity.inference.ep.sequential import SequentialEP

__all__ = ["EP", "SequentialEP"]
