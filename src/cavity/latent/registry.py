"""Representations by name."""

from __future__ import annotations

from cavity.latent.base import Representation
from cavity.latent.committee import Committee
from cavity.latent.dense import Dense
from cavity.latent.inducing import Inducing
from cavity.latent.latent_neighbors import LatentNeighbors
from cavity.latent.markov import Markov
from cavity.latent.neighbors import Neighbors

REPRESENTATIONS: dict[str, type[Representation]] = {
    "dense": Dense,
    "inducing": Inducing,
    "markov": Markov,
    "neighbors": Neighbors,
    "latent_neighbors": LatentNeighbors,
    "committee": Committee,
}
"""Name -> class, made without arguments."""


def as_representation(spec: Representation | str) -> Representation:
    """A representation from what a user gave: an object, or one of the names."""
    if isinstance(spec, Representation):
        return spec
    if spec not in REPRESENTATIONS:
        names = ", ".join(map(repr, REPRESENTATIONS))
        raise ValueError(f"representation must be one of {names}, or an object, got {spec!r}")
    return REPRESENTATIONS[spec]()
