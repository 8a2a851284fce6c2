"""What was decided about a table, in sentences for its user."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cavity.runtime.errors import Described, Part, Words, render


class TableWarning(Described, UserWarning):
    """A data frame was understood in a way that its user should know of."""


class Level(Enum):
    """How much a note matters."""

    INFORMATION = "information"
    WARNING = "warning"


@dataclass(frozen=True)
class Note:
    """A sentence, in parts, and how much it matters."""

    parts: tuple[Part, ...]
    level: Level = Level.INFORMATION

    @property
    def warns(self) -> bool:
        """Whether the user should do something about it."""
        return self.level is Level.WARNING

    def render(self, words: Words = str) -> str:
        """In the words of a front; in those of Python by default."""
        return ("Warning: " if self.warns else "") + render(self.parts, words)

    def __str__(self) -> str:
        return self.render()
