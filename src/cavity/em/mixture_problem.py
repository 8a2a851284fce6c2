"""A mixture as a problem for EM.

p(x) = sum_k w_k p_k(x). E-step: r_ik = w_k p_k(x_i) / sum_l w_l p_l(x_i). M-step: w_k = sum_i r_ik / n (plus a
Dirichlet prior), and every component's weighted maximum-likelihood or MAP estimate (Bilmes, TR-97-021, equations 5
to 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.em.components import ROW_BLOCK, Components, Params, responsibilities
from cavity.em.initialization import start_responsibilities
from cavity.em.priors import dirichlet_log_prior
from cavity.em.transforms import simplex_from_free, simplex_size, simplex_to_free
from cavity.numerics.arrays import Array


@dataclass(frozen=True)
class MixtureTheta:
    """Parameters of a mixture: mixing weights (K,) and the components' parameters."""

    weights: Array
    params: Params


class MixtureProblem:
    """A mixture as an EM problem (see `cavity.em.expectation_maximization.EMProblem`).

    Parameters
    ----------
    family : Components bound to the data
    x : (n, D)
    sample_weight : (n,)
    concentration : float
        Dirichlet prior of the mixing weights, >= 1.
    threads : int
        Threads for passes over rows.
    """

    def __init__(
        self, family: Components, x: Array, sample_weight: Array, concentration: float = 1.0, threads: int = 1
    ) -> None:
        self.family = family
        self.x = x
        self.sample_weight = sample_weight
        self.concentration = concentration
        self.threads = threads
        self.n_data = float(sample_weight.sum())
        self.n_parameters = 0  # known from the first start on

    def e_step(self, theta: MixtureTheta) -> tuple[float, Any]:
        """Objective at theta, and counts with the family's statistics."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(theta.weights)
        loglik, counts, stats = self.family.mixture_pass(
            theta.params, log_weights, self.x, self.sample_weight, self.threads
        )
        return loglik + self.log_prior(theta), (counts, stats)

    def m_step(self, statistics: Any, theta: MixtureTheta) -> MixtureTheta:
        """Mixing weights and components from the statistics."""
        counts, stats = statistics
        raised = counts + (self.concentration - 1.0)
        return MixtureTheta(raised / raised.sum(), self.family.maximize(stats, theta.params))

    def log_prior(self, theta: MixtureTheta) -> float:
        """Log prior of weights and components."""
        concentration = np.full(len(theta.weights), self.concentration)
        return dirichlet_log_prior(theta.weights, concentration) + self.family.log_prior(theta.params)

    def q_value(self, statistics: Any, theta: MixtureTheta) -> float:
        """Q(theta, theta of the statistics) plus log prior, up to terms without parameters."""
        counts, stats = statistics
        live = theta.weights > 0
        of_weights = float(counts[live] @ np.log(theta.weights[live]))
        return of_weights + self.family.expected_log_prob(stats, theta.params) + self.log_prior(theta)

    def pack(self, theta: MixtureTheta, like: MixtureTheta) -> Array:
        """Unconstrained vector."""
        weights = simplex_to_free(theta.weights, like.weights)
        return np.concatenate([weights, self.family.pack(theta.params, like.params)])

    def unpack(self, vector: Array, like: MixtureTheta) -> MixtureTheta:
        """Inverse of `pack`."""
        n = simplex_size(like.weights)
        return MixtureTheta(
            simplex_from_free(vector[:n], like.weights), self.family.unpack(vector[n:], like.params)
        )

    def project(self, theta: MixtureTheta) -> MixtureTheta:
        """Component parameters within their bounds."""
        return MixtureTheta(theta.weights, self.family.project(theta.params))

    def natural(self, theta: MixtureTheta) -> dict[str, Array]:
        """Natural parameters by name."""
        return {"weights": theta.weights, **theta.params}

    def counted(self, start: MixtureTheta) -> MixtureTheta:
        """Note the number of free parameters at a start: probabilities that EM drives to zero still count."""
        self.n_parameters = len(start.weights) - 1 + self.family.n_parameters(start.params)
        return start

    def start(self, kind: str, seed: int) -> MixtureTheta:
        """Starting parameters of the given kind."""
        rng = np.random.default_rng(seed)
        resp = start_responsibilities(
            self.x, self.sample_weight, self.family.n_components, rng, kind, robust=self.family.robust
        )
        weights = resp.sum(axis=0)
        return MixtureTheta(weights / weights.sum(), self.family.from_responsibilities(self.x, resp, rng))


def densities_and_responsibilities(
    family: Components, theta: MixtureTheta, x: Array, threads: int
) -> tuple[Array, Array]:
    """Log density (n,) and responsibilities (n, K), in blocks of rows."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(theta.weights)
    logs = np.empty(len(x))
    resp = np.empty((len(x), len(theta.weights)))
    step = ROW_BLOCK * max(1, threads)
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        logs[rows], resp[rows] = responsibilities(
            family.log_prob(theta.params, x[rows], threads) + log_weights
        )
    return logs, resp
