"""Observations with Gaussian noise, each conditioned on its nearest neighbors: O(n k^3) time, gradients included.

    log p(y) ~ sum_i log N(y_i | b_i'y_c(i), v_i),    c(i): the k nearest of the rows before i

`search` finds an order and neighbors, `graph` holds them; `cliques` are the compiled passes over rows and their
neighbors (`evaluation` puts kernels to them), `sparse_factor` products with the factor that they make; `prior` and
`process` are the latent protocol.
"""

from cavity.latent.neighbors.representation import Neighbors

__all__ = ["Neighbors"]
