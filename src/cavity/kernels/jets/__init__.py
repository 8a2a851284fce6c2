"""Slopes of functions with a given kernel: values and directional derivatives of k in both rows, with pullbacks."""

from cavity.kernels.jets import compositions, leaves, radial  # each registers its rules
from cavity.kernels.jets.base import Jets, NoSlopeError, Pairing, jets_of
from cavity.kernels.jets.numbers import Jet, pull_back

__all__ = [
    "Jet",
    "Jets",
    "NoSlopeError",
    "Pairing",
    "compositions",
    "jets_of",
    "leaves",
    "pull_back",
    "radial",
]
