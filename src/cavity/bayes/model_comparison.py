"""Which of several models: posterior probabilities from evidences. Bayes' rule for finitely many cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError


@dataclass(frozen=True)
class Comparison:
    """Models by their evidence.

    Attributes
    ----------
    names : tuple of str
        Best first.
    log_evidence, probability : arrays, in that order
        The latter adds up to one.
    """

    names: tuple[str, ...]
    log_evidence: Array
    probability: Array

    def log_bayes_factor(self, one: str, other: str) -> float:
        """Log of the ratio of two evidences."""
        i, j = self.names.index(one), self.names.index(other)
        return float(self.log_evidence[i] - self.log_evidence[j])

    @property
    def weights(self) -> dict[str, float]:
        """Posterior probability of each model, by name: the weights of its predictions in an average."""
        return dict(zip(self.names, map(float, self.probability)))


def compare_models(log_evidence: Mapping[str, float], prior: Mapping[str, float] | None = None) -> Comparison:
    """Posterior probabilities of models from their log evidences.

    Parameters
    ----------
    log_evidence : mapping of str to float
        Of the same data, every constant included.
    prior : mapping of str to float, optional
        Probabilities before the data; equal by default.

    Examples
    --------
    >>> from cavity.bayes import compare_models
    >>> compare_models({"fair": -5.1234, "any": -5.3033}).names
    ('fair', 'any')
    """
    if not log_evidence:
        raise InputError("is empty: there is nothing to compare", parameter="log_evidence")
    names = tuple(log_evidence)
    values = np.array([float(log_evidence[name]) for name in names])
    for name, value in zip(names, values):
        if not (np.isfinite(value) or value == -np.inf):
            raise InputError(
                f"of {name!r} is {float(value)!r}: a model whose prior is improper has none",
                parameter="log_evidence",
                value=value,
                remedy="use a proper prior, or compare by left-out densities",
            )
    weight = np.ones(len(names)) if prior is None else np.array([float(prior[name]) for name in names])
    posterior = bayes_rule(weight / weight.sum(), log_likelihood=values)
    order = np.argsort(-values, kind="stable")
    return Comparison(tuple(names[i] for i in order), values[order], posterior[order])


def bayes_rule(
    prior: ArrayLike, likelihood: ArrayLike | None = None, *, log_likelihood: ArrayLike | None = None
) -> Array:
    """Posterior probabilities of finitely many cases.

    Parameters
    ----------
    prior : array (k,)
        Probabilities before the data, adding up to one.
    likelihood, log_likelihood : array (k,)
        Probability of the data in each case, or its logarithm.

    Examples
    --------
    >>> from cavity.bayes import bayes_rule
    >>> bayes_rule([0.01, 0.99], [0.9, 0.05]).round(3)  # a rare disease, and a test that is often right
    array([0.154, 0.846])
    """
    p: Array = np.asarray(prior, dtype=float)
    if p.ndim != 1 or np.any(p < 0) or not np.isclose(p.sum(), 1.0):
        raise InputError(
            f"must be probabilities that add up to one, got {prior!r}", parameter="prior", value=prior
        )
    if (likelihood is None) == (log_likelihood is None):
        raise InputError("give either likelihood or log_likelihood", parameter="likelihood")
    with np.errstate(divide="ignore"):
        log_l = (
            np.log(np.asarray(likelihood, dtype=float))
            if log_likelihood is None
            else np.asarray(log_likelihood)
        )
        joint = np.log(p) + log_l
    total = logsumexp(joint)
    if total == -np.inf:
        raise InputError(
            "is zero in every case that is possible: these data contradict the prior", parameter="likelihood"
        )
    return np.asarray(np.exp(joint - total))
