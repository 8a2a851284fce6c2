"""Why work ended before it was done."""

from __future__ import annotations

from enum import Enum

from cavity.runtime.errors import Part, Setting, render


class StopReason(Enum):
    """Why learning, sampling or a comparison ended early; work that came to its end has None instead.

    The value is the name in model files, the text is what Python users read.
    """

    INTERRUPTED = "interrupted"
    OUT_OF_TIME = "out of time"

    @property
    def parts(self) -> tuple[Part, ...]:
        """As a clause of a message."""
        return ("interrupted",) if self is StopReason.INTERRUPTED else (Setting("max_time"), " was reached")

    def __str__(self) -> str:
        return render(self.parts)

    @classmethod
    def of(cls, name: str | None) -> StopReason | None:
        """The member of this name in a model file; None for work that came to its end."""
        return None if name is None else cls(name)
