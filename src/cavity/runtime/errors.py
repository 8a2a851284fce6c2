"""Errors and warnings that carry fields, and are put into words at the edge.

A `Message` says what is wrong, of which argument and which row, and what helps. Its text is a sequence of parts: plain
words, and a `Setting` for every argument that it names. `str` gives the words of Python, `inference='ep'`; a front such
as the command line gives `told` its own words for a setting, `--inference ep`. Nobody reads a sentence to find out what
it is about.

>>> error = InputError("must be positive, got -1", parameter="learn_rows", value=-1)
>>> str(error), error.parameter, error.value
('learn_rows must be positive, got -1', 'learn_rows', -1)
>>> error.message.render(lambda part: f"--{part.parameter}" if isinstance(part, Setting) else "")
'--learn_rows must be positive, got -1'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Setting:
    """An argument that a message names, with the value that is meant, if there is one.

    Attributes
    ----------
    parameter : str
        Name of the argument in Python.
    value : object, optional
        A value to give it; a tuple lists several, any of which would do.
    code : str
        What Python users write, if that is not `parameter=value`.
    """

    parameter: str
    value: Any = None
    code: str = ""

    @property
    def values(self) -> tuple[Any, ...]:
        """The values that would do, none or more."""
        if self.value is None:
            return ()
        return self.value if isinstance(self.value, tuple) else (self.value,)

    def __str__(self) -> str:
        if self.code or self.value is None:
            return self.code or self.parameter
        return f"{self.parameter}={either([repr(value) for value in self.values])}"


@dataclass(frozen=True)
class InPython:
    """Words for users of Python alone."""

    text: str

    def __str__(self) -> str:
        return self.text


Part = str | Setting | InPython
Text = str | Sequence[Part]
"""Words, with the arguments they name as settings."""

Words = Callable[[Setting | InPython], str]
"""What a front says for a setting, and for words that are for Python alone; `str` is Python's own."""


def either(options: Sequence[str]) -> str:
    """Several options in words.

    >>> either(["a", "b", "c"])
    'a, b or c'
    """
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def as_parts(text: Text) -> tuple[Part, ...]:
    """Text as parts."""
    return (text,) if isinstance(text, str) else tuple(text)


def render(parts: Sequence[Part], words: Words = str) -> str:
    """Parts as a sentence."""
    return "".join(part if isinstance(part, str) else words(part) for part in parts)


@dataclass(frozen=True)
class Message:
    """What an error or a warning says.

    Attributes
    ----------
    problem : tuple of parts
        What is wrong. It follows the name of the argument, if there is one.
    parameter : str
        Name of the argument that is wrong; empty if it is none.
    row : int or None
        Row of the data that is wrong, counted from 0.
    number : int or None
        The number of that row where a user finds it, such as in a file; counted from 1.
    remedy : tuple of parts
        What helps; empty if nothing can be said.
    """

    problem: tuple[Part, ...]
    parameter: str = ""
    row: int | None = None
    number: int | None = None
    remedy: tuple[Part, ...] = ()

    def render(self, words: Words = str) -> str:
        """In the words of a front; in those of Python by default."""
        remedy = render(self.remedy, words)
        return render(self.clause, words) + (f"; {remedy}" if remedy else "")

    @property
    def clause(self) -> tuple[Part, ...]:
        """Without the remedy, as a part of another message."""
        name: tuple[Part, ...] = (Setting(self.parameter), " ") if self.parameter else ()
        return (*name, *self.problem, self._place)

    @property
    def _place(self) -> str:
        if self.number is not None:
            return f" in row {self.number}"
        return "" if self.row is None else f" at row {self.row}"

    def __str__(self) -> str:
        return self.render()

    def about(self, name: str) -> Message:
        """The same about a part of the work that has a name."""
        return replace(self, problem=(f"{name}: ", *self.problem))

    def numbered(self, rows: Sequence[int] | NDArray[np.intp]) -> Message:
        """The same with the number that each row of the data has for the user."""
        return self if self.row is None else replace(self, number=int(rows[self.row]))


class Described(Exception):
    """An exception or a warning with a `message`; its text is that of Python.

    Parameters
    ----------
    problem, remedy : str or sequence of parts
    parameter : str
    value : object
        The value that was given for it.
    row : int, optional
    """

    message: Message
    value: Any

    def __init__(
        self,
        problem: Text,
        *,
        parameter: str = "",
        value: Any = None,
        row: int | None = None,
        remedy: Text = (),
    ) -> None:
        self.message = Message(as_parts(problem), parameter, row, None, as_parts(remedy))
        self.value = value
        super().__init__(str(self.message))

    @classmethod
    def of(cls, message: Message) -> Self:
        """One that says this."""
        made = cls(str(message))
        made.message = message
        return made

    @property
    def parameter(self) -> str:
        """Name of the argument that is wrong."""
        return self.message.parameter

    @property
    def row(self) -> int | None:
        """Row of the data that is wrong."""
        return self.message.row


class InputError(Described, ValueError):
    """An argument or a row of data that cannot be used."""


class NoDrawsInTimeError(Described, TimeoutError):
    """Sampling had no time to draw anything."""


def message_of(error: BaseException | str) -> Message:
    """What an exception or a warning says, with whatever fields it has."""
    if isinstance(error, Described):
        return error.message
    lines = str(error).splitlines() if isinstance(error, BaseException) else [error]
    return Message((lines[0] if lines else type(error).__name__,))
