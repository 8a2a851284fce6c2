"""Gaussian scale mixtures: p(y|f) = sum or integral over w of c(w) exp(-w (y-f)^2/2).

One routine gives the tilted moments of any of them from nodes (w_j, log c_j): given the node, the tilted
density is normal with precision p_j = w_j + tau and mean nu/p_j around y, where nu and tau are the cavity's
natural parameters centered at y. The log weight of a node is log c_j - log(p_j)/2 + nu^2/(2 p_j); for a
proper cavity, normalized and with d the distance of its mean from y, the exponent is -d^2 tau w_j/(2 p_j),
which subtracts nothing.

Variational EM and Gibbs samplers use the precision w as a latent variable; `ScaleMixture` is what they ask
for.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from cavity.likelihoods.base import Likelihood, log_cavity_mass
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI, Moments, mix_moments

WIDE = 3.0
"""An observation whose own noise sd exceeds this many scales of the noise model is called an outlier."""


class ScaleMixture(Likelihood):
    """A likelihood that is normal given a latent precision w.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Laplace, ScaleMixture, StudentT
    >>> [isinstance(noise, ScaleMixture) for noise in (StudentT(0.1, 4.0), Laplace(0.1))]
    [True, True]
    """

    @abstractmethod
    def scale_mixture(self) -> tuple[Array, Array]:
        """Nodes w (J,) and log c (J,) with p(y|f) = sum_j c_j exp(-w_j e^2/2), e = y - f."""

    @abstractmethod
    def expected_precision(self, squared_residual: Array) -> Array:
        """E[w | e] as a function of e^2: weights of iterated least squares and of variational EM (with
        E[e^2])."""

    @abstractmethod
    def sample_precision(self, residual: Array, rng: np.random.Generator) -> Array:
        """One draw of w given each residual e = y - f, for Gibbs sampling."""

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """Posterior probability that the observation's own noise is wide: sd above `WIDE` times the scale.

        Given f ~ N(mean, var) from everything else, the precision w of the observation has the node weights of the
        tilted density as its posterior; the node at the threshold counts in part.
        """
        w, log_c = self.scale_mixture()
        proper = np.maximum(var, np.finfo(float).tiny)
        nodes = tilted_from_nodes(y, mean / proper, 1.0 / proper, w[:, None], log_c[:, None])
        below = -2.0 * np.log(WIDE * float(self.scale)) - np.log(w)
        counted = np.clip(below / np.abs(np.gradient(np.log(w))) + 0.5, 0.0, 1.0)
        return np.asarray(np.clip(counted @ nodes.responsibilities, 0.0, 1.0))


class NodeMoments(NamedTuple):
    """Tilted quantities from nodes: responsibilities (J, n), moments of f - y, and the precisions p_j (J,
    n)."""

    log_z: Array
    log_z_normalized: Array
    responsibilities: Array
    precisions: Array
    node_means: Array
    moments: Moments


def tilted_from_nodes(y: Array, shift: Array, precision: Array, w: Array, log_c: Array) -> NodeMoments:
    """Log integral and moments of sum_j c_j exp(-w_j (y-f)^2/2) exp(shift f - precision f^2/2).

    `w` and `log_c` have shape (J, n) or (J, 1). Moments are those of f - y.
    """
    proper = precision > 0
    centered = shift - precision * y
    p = w + precision
    tau = np.where(proper, precision, 1.0)
    gap = centered / tau
    exponent = np.where(proper, -0.5 * (w / p) * (gap * (tau * gap)), 0.5 * centered * (centered / p))
    terms = log_c - 0.5 * np.log(p) + exponent
    top = terms.max(axis=0)
    r = np.exp(terms - top)
    mass = r.sum(axis=0)
    r /= mass
    log_sum = top + np.log(mass)
    normalized = np.where(proper, log_sum + 0.5 * np.log(tau), np.nan)
    direct = log_sum + 0.5 * LOG_2PI + (shift - 0.5 * precision * y) * y
    log_z = np.where(proper, normalized + log_cavity_mass(shift, precision), direct)
    means, v = centered / p, 1 / p
    zero = np.zeros_like(v)
    return NodeMoments(log_z, normalized, r, p, means, mix_moments(r, Moments(means, v, zero, 3 * v * v)))
