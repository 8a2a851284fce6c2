"""What is wrong with a table, told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cavity.runtime.errors import InputError, Message, Part


class TableError(InputError):
    """A table that cannot be used; the message says what is wrong with it, and what helps."""


class Problems:
    """Errors of several parts of a table, raised together at the end.

    >>> problems = Problems()
    >>> for name in ("a", "b"):
    ...     with problems.kept():
    ...         raise TableError(f"column {name!r} is odd", remedy="mend it")
    >>> try:
    ...     problems.tell()
    ... except TableError as error:
    ...     print(error)
    the table has 2 problems:
      1. column 'a' is odd; mend it
      2. column 'b' is odd; mend it
    """

    def __init__(self) -> None:
        self.found: list[Message] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep an error of the block for later."""
        try:
            yield
        except TableError as error:
            self.found.append(error.message)

    def of(self, check: Callable[..., object], *arguments: object) -> None:
        """Run a check, and keep its error for later."""
        with self.kept():
            check(*arguments)

    def tell(self) -> None:
        """Raise what was kept: one error as it was, several as a list."""
        if not self.found:
            return
        if len(self.found) == 1:
            raise TableError.of(self.found[0])
        parts: list[Part] = [f"the table has {len(self.found)} problems:"]
        for k, message in enumerate(self.found, start=1):
            remedy: tuple[Part, ...] = ("; ", *message.remedy) if message.remedy else ()
            parts += [f"\n  {k}. ", *message.clause, *remedy]
        raise TableError(parts)
