"""Which kind of model, if that is left open."""

from cavity.learning.choice.result import Candidate, Choice

__all__ = ["Candidate", "Choice"]
