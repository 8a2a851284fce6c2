"""Any rule for one latent function, applied to each function of a likelihood that factorizes over them.

If p(y | f) = prod_c p(s_c | f_c), the functions are independent a priori and stay so: the log evidence is the sum of
theirs, and so is its gradient in whatever they share, kernel and likelihood. With a shared kernel there is one
covariance matrix; what differs are the sites.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from cavity.inference.base import (
    Approximation,
    Evidence,
    Gradient,
    InferenceRule,
    Status,
    UnsupportedPairError,
    cavities_by_refit,
)
from cavity.latent.base import LatentPrior
from cavity.latent.multi_latent import SeveralPrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.one_vs_rest import OneVsRest
from cavity.prediction import Prediction


class FunctionByFunction(InferenceRule):
    """A rule for one latent function, applied to each of several.

    Parameters
    ----------
    rule : InferenceRule
        For the likelihood of one function.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import OneVsRest
    >>> posterior = GP(1.0 * SE(1.0), OneVsRest(3), inference="ep").condition([[0.0], [1.0], [2.0]], [0, 1, 2])
    >>> posterior.mean([[0.0]]).shape, posterior.status.converged
    ((1, 3), True)
    """

    def __init__(self, rule: InferenceRule) -> None:
        self.rule, self.name = rule, rule.name

    @classmethod
    def if_separable(cls, rule: InferenceRule, likelihood: Likelihood) -> InferenceRule:
        """The rule as it applies to a likelihood: as it is, or to each function that the likelihood keeps apart."""
        separable = isinstance(likelihood, OneVsRest) and not (rule.samples or rule.all_functions)
        return cls(rule) if separable else rule

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the rule supports the likelihood of one function."""
        return isinstance(likelihood, OneVsRest) and self.rule.supports(likelihood.answer)

    def _functions(
        self, prior: SeveralPrior, observations: Observations
    ) -> Iterator[tuple[LatentPrior, Observations]]:
        """Prior and observations of each function."""
        likelihood = cast(OneVsRest, observations.likelihood)
        for c, answers in enumerate(likelihood.answers(observations.y).T):
            yield prior.function(c), observations.under(likelihood.answer, np.ascontiguousarray(answers))

    def infer(
        self, prior: Any, observations: Observations, warm: tuple[Any, ...] | None = None
    ) -> Approximation:
        """Posterior processes, the sum of the log evidences, and what the rule said of each function."""
        found = self._posteriors(prior, observations, warm)
        Q = [cast(Conditioned, part.q) for part in found]
        precision = np.column_stack([q.sites.precision for q in Q])
        conditioning = prior.condition_separately(precision, [q.conditioning for q in Q])
        process = prior.process(np.column_stack([q.weights for q in Q]), conditioning)
        return Approximation(process, sum(part.log_evidence for part in found), _status(found))

    def _posteriors(
        self, prior: Any, observations: Observations, warm: tuple[Any, ...] | None = None
    ) -> list[Approximation]:
        known = (None,) * observations.likelihood.n_latent if warm is None else warm
        parts = self._functions(prior, observations)
        found = [self.rule.infer(*part, memory) for part, memory in zip(parts, known)]
        if any(part.q is None for part in found):
            raise UnsupportedPairError(
                f"inference={self.name!r} gives no sites, which several functions need"
            )
        return found

    def evidence(
        self, prior: Any, observations: Observations, warm: tuple[Any, ...] | None = None
    ) -> Evidence:
        """Sums over the functions; each goes on from its own last solution."""
        known = (None,) * observations.likelihood.n_latent if warm is None else warm
        parts = self._functions(prior, observations)
        # one after the other: each uses the memory of the last
        found = [self.rule.evidence(*part, memory) for part, memory in zip(parts, known)]
        kernels = [part.gradient.kernel for part in found]
        gradient = Gradient(
            np.sum(kernels, axis=0) if prior.shared else np.concatenate(kernels),
            np.concatenate([part.gradient.mean for part in found]),
            np.sum([part.gradient.likelihood for part in found], axis=0),
            np.sum([part.gradient.representation for part in found], axis=0),
        )
        return Evidence(sum(part.value for part in found), gradient, tuple(part.warm for part in found))

    def leave_one_out(self, prior: Any, observations: Observations) -> Prediction:
        """Distribution of each label given the others: from what these say of every function."""
        found = self._posteriors(prior, observations)
        pairs = [
            cavities_by_refit(self.rule, cast(Conditioned, part.q), seen)
            for part, (_, seen) in zip(found, self._functions(prior, observations))
        ]
        return observations.likelihood.predictive(*(np.column_stack(columns) for columns in zip(*pairs)))

    def degrees_of_freedom(self, prior: Any, observations: Observations) -> float:
        """Sum over the functions."""
        return sum(self.rule.degrees_of_freedom(*part) for part in self._functions(prior, observations))


def _status(found: list[Approximation]) -> Status:
    """Of all functions: that of the one furthest from its solution, with all iterations and notes."""
    worst = max((part.status for part in found), key=lambda s: (not s.converged, s.extended, s.residual))
    notes = dict.fromkeys(part.status.message for part in found if part.status.message)
    return replace(
        worst,
        iterations=sum(part.status.iterations for part in found),
        jitter=max(part.status.jitter for part in found),
        message="; ".join(notes),
    )
