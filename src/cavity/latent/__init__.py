"""Representations of the Gaussian process at the training inputs: sites in, marginals out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.latent.committee import Committee as Committee
    from cavity.latent.dense import Dense as Dense
    from cavity.latent.inducing import Inducing as Inducing
    from cavity.latent.latent_neighbors import LatentNeighbors as LatentNeighbors
    from cavity.latent.markov import Markov as Markov
    from cavity.latent.neighbors import Neighbors as Neighbors

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
