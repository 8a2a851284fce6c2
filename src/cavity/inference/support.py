"""What each inference rule and sampler needs of a representation beyond the core of the latent protocol.

Everything else runs on any representation. A covariance matrix of all training rows is given by a dense prior for any
number of rows, by others up to their limit (`Representation.covariance_limit`); with it posteriors can be whitened too.
"""

from __future__ import annotations

from collections.abc import Sequence

from cavity.latent.base import Capability, Representation

NEEDS: dict[str, tuple[Capability, ...]] = {
    "exact": (),
    "exact, leave-one-out learning": (Capability.SQUARED_CORRECTION, Capability.SITES),
    "laplace": (Capability.SITES,),
    "laplace, several latent functions": (Capability.SEVERAL_FUNCTIONS,),
    "every rule, several functions that the likelihood keeps apart": (Capability.SITES,),
    "ep, log-concave likelihoods": (Capability.SITES,),
    "ep, other likelihoods": (Capability.SITES, Capability.NEGATIVE_SITES),
    "ep, its Newton method and continuation (up to 1000 rows)": (Capability.SITES, Capability.COVARIANCE),
    "sequential ep, assumed-density filtering": (Capability.SITES, Capability.COVARIANCE),
    "variational": (Capability.SITES, Capability.NEGATIVE_SITES),
    "scale-mixture em": (Capability.SITES,),
    "leave-one-out of every rule": (),
    "mcmc, Gaussian noise": (),
    "mcmc, Student-t and Laplace noise": (Capability.SITES,),
    "mcmc, indicators of outliers": (Capability.SITES, Capability.COVARIANCE),
    "mcmc, latent values (elliptical, hamiltonian)": (Capability.WHITENING,),
    "mcmc, latent values and hyperparameters together": (
        Capability.WHITENING,
        Capability.WHITE_DERIVATIVES,
        Capability.COVARIANCE,
    ),
    "annealed importance sampling, assess": (Capability.WHITENING, Capability.POSTERIOR_WHITENING),
}
"""Algorithm -> capabilities that it asks for."""

BY_MATRICES = (Capability.COVARIANCE, Capability.POSTERIOR_WHITENING, Capability.SQUARED_CORRECTION)
"""What a covariance matrix gives to representations that lack it."""


def support(algorithm: str, representation: Representation) -> str:
    """In a word or two: "yes", "up to N rows" or "no"."""
    limit = representation.covariance_limit
    missing = [one for one in NEEDS[algorithm] if one not in representation.capabilities]
    if any(one not in BY_MATRICES for one in missing):
        return "no"
    return f"up to {limit} rows" if missing and limit is not None else "yes"


def support_table(representations: Sequence[Representation]) -> str:
    """The table of all pairs, in Markdown."""
    names = [representation.name for representation in representations]
    lines = [f"| algorithm | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for algorithm in NEEDS:
        cells = [support(algorithm, representation) for representation in representations]
        lines.append(f"| {algorithm} | {' | '.join(cells)} |")
    return "\n".join(lines)
