"""`ard`: a stand-in for "one value per input column" until the number of columns is known."""

from __future__ import annotations

from typing import Any


class Ard:
    """Stands for "one value per input column", made definite when the kernel meets data (`Kernel.bind`).

    Use the ready-made `ard`: `SE(ard)`, or `SE(ard(2.0))` to start every length scale at 2; flags and priors
    go inside, `SE(ard(Param(2.0, prior=...)))`. Until it is bound, a kernel acts as if all columns shared
    the value.
    """

    def __init__(self, start: Any = 1.0) -> None:
        self.start = start

    def __call__(self, start: Any) -> Ard:
        """The same stand-in with another starting value."""
        return Ard(start)

    def __repr__(self) -> str:
        return "ard" if isinstance(self.start, float) and self.start == 1.0 else f"ard({self.start!r})"


ard = Ard()
