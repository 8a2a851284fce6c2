"""What was chosen for a user who left the kind of model open, why, and how to have another."""

from __future__ import annotations

from dataclasses import dataclass

from cavity.runtime.errors import Message, Words

NOTHING = Message(())
"""No sentence."""


@dataclass(frozen=True)
class Candidate:
    """A model that was tried.

    Attributes
    ----------
    name : str
        In words: "log-normal noise", "isotropic kernel".
    log_density : float
        Mean log density of rows given others, in nats and in units of the target; nan if it could not be fitted.
    chosen : bool
    """

    name: str
    log_density: float
    chosen: bool = False


@dataclass(frozen=True)
class Choice:
    """A choice and its reasons, each a whole sentence.

    Attributes
    ----------
    chosen : Message
        What was chosen.
    reasons : tuple of Message
        What was seen in the data, and what was tried.
    candidates : tuple of Candidate
        The models that were tried, best first.
    override : Message
        How to have another.
    """

    chosen: Message
    reasons: tuple[Message, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    override: Message = NOTHING

    def render(self, words: Words = str) -> str:
        """All sentences, in the words of a front; in those of Python by default."""
        sentences = (self.chosen, *self.reasons, self.override)
        return " ".join(text for text in (sentence.render(words) for sentence in sentences) if text)

    def __str__(self) -> str:
        return self.render()
