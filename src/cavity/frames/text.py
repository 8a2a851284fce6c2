"""Free text as rows of codes for string kernels: letters, or words where there are several in a text.

A row holds the codes of a text, padded with -1: code points of letters, or places of words among those of the fit. What
new texts bring has an answer: letters never seen before are letters that no text of the fit shares, words never seen
before have one code that none of them has, a text without letters or words is one of its own, and of a text that is
longer than any before the first letters or words count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cavity.kernels.strings import END
from cavity.numerics.arrays import Array
from cavity.runtime.sentences import counted

UNITS = ("letters", "words")

SEVERAL_WORDS = 4
"""Words of half of the texts from which on words are the units."""

LENGTHS = {"letters": 4, "words": 2}
"""Longest substrings that are shared, in units."""

EMPTY = 0.0
"""Code of a text without letters; no text holds this code point."""


@dataclass(frozen=True)
class TextCode:
    """How texts of one column become rows of codes.

    Attributes
    ----------
    unit : {"letters", "words"}
    width : int
        Units of the longest text of the fit.
    known : tuple of str
        Letters or words of the fit, sorted.
    empty : bool
        Whether texts of the fit were empty.
    """

    unit: str
    width: int
    known: tuple[str, ...]
    empty: bool = False

    @classmethod
    def of(cls, texts: Sequence[str]) -> TextCode:
        """For these texts, "" where there is none."""
        unit = "words" if np.median([len(_words(text)) for text in texts]) >= SEVERAL_WORDS else "letters"
        split = [_units(text, unit) for text in texts]
        known = sorted({one for units in split for one in units})
        return cls(unit, max(1, *map(len, split)), tuple(known), any(not units for units in split))

    def encode(self, texts: Iterable[str]) -> Array:
        """Rows of codes (n, width)."""
        place = {word: float(k) for k, word in enumerate(self.known)}
        nothing, unknown = float(len(self.known) + 1), float(len(self.known))
        rows = []
        for text in texts:
            units = _units(text, self.unit)[: self.width]
            if self.unit == "letters":
                codes = [float(ord(letter)) for letter in units] or [EMPTY]
            else:
                codes = [place.get(word, unknown) for word in units] or [nothing]
            rows.append(codes + [END] * (self.width - len(codes)))
        return np.array(rows, dtype=float).reshape(len(rows), self.width)

    def news(self, texts: Sequence[str]) -> TextNews:
        """What is new in texts."""
        split, known = [_units(text, self.unit) for text in texts], set(self.known)
        foreign = [units for units in split if units and not known.intersection(units)]
        return TextNews(
            longer=sum(len(units) > self.width for units in split),
            foreign=len(foreign),
            partly=sum(not known.issuperset(units) for units in split) - len(foreign),
            empty=0 if self.empty else sum(not units for units in split),
        )

    @property
    def kernel(self) -> str:
        """Text of the kernel of these columns, without `.on`."""
        count = min(LENGTHS[self.unit], self.width)
        return f"Substrings([{', '.join(['1.0'] * count)}])"

    @property
    def in_words(self) -> str:
        """What is said at the fit."""
        empty = "; empty ones are a text of their own" if self.empty else ""
        return (
            f"texts of up to {counted(self.width, self.unit[:-1])}, by {self.unit} that they share "
            f"({counted(len(self.known), 'different one')}{empty})"
        )


@dataclass(frozen=True)
class TextNews:
    """In how many new texts there is what no text of the fit had: length, nothing known at all, something, nothing."""

    longer: int = 0
    foreign: int = 0
    partly: int = 0
    empty: int = 0

    def __add__(self, other: TextNews) -> TextNews:
        return TextNews(
            self.longer + other.longer,
            self.foreign + other.foreign,
            self.partly + other.partly,
            self.empty + other.empty,
        )

    def sentences(self, column: str, code: TextCode) -> list[str]:
        """In words."""
        unknown = "predictions there are those of an unknown text"
        told = (
            (
                self.longer,
                ("is", "are"),
                f"longer than any at the fit: the first {code.width} {code.unit} count",
            ),
            (self.foreign, ("shares", "share"), f"no {code.unit} with those of the fit: {unknown}"),
            (
                self.partly,
                ("has", "have"),
                f"{code.unit} that did not occur at the fit, of which nothing is known",
            ),
            (self.empty, ("is", "are"), f"empty, and none was at the fit: {unknown}"),
        )
        return [
            f"{counted(count, 'text')} of column {column!r} {verbs[count > 1]} {what}"
            for count, verbs, what in told
            if count
        ]


NOTHING_NEW = TextNews()


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _units(text: str, unit: str) -> list[str]:
    return list(text.strip()) if unit == "letters" else _words(text)
