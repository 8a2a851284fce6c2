"""Evaluations of the evidence one after the other, as an optimizer makes them."""

from __future__ import annotations

from typing import Any

from cavity.likelihoods import Observations


class Evaluations:
    """What an inference rule knows of the last evaluation, handed to the next."""

    def __init__(self, warm: Any = None) -> None:
        self.warm = warm

    def evidence(self, model, X, y, sample_weight=None):
        """Value and gradient, from where the last evaluation ended."""
        model, data = model.training(X, y, sample_weight)
        value, gradient, self.warm = model.evidence_of(data, self.warm)
        return value, gradient

    def of_rule(self, rule, prior, likelihood, y, sample_weight=None):
        """The same for a rule and a prior."""
        value, gradient, self.warm = rule.evidence(
            prior, Observations(likelihood, y, sample_weight), self.warm
        )
        return value, gradient
