"""Latent values, each conditioned on its nearest neighbors: any likelihood in few dimensions, sites of either sign.

    p(f) ~ prod_i N(f_i | b_i'f_c(i), v_i),  a sparse precision matrix Q = B' V^-1 B;  Sigma = (Q + T)^-1

`precision` puts the cliques of a graph (`latent.neighbors`) into Q and its cotangents back to them; sparse matrices are
factorized in `numerics.multifrontal`; `prior`, `conditioning` and `process` are the latent protocol.
"""

from cavity.latent.latent_neighbors.representation import LatentNeighbors

__all__ = ["LatentNeighbors"]
