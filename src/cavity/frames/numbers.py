"""Numbers as people write them: $1,000, 12 %, 1.234,50 €, 1 234, (250).

A column of plain numbers, as programs write them, has decimal points. Any other column of text has one decimal sign, a
point or a comma. The other one, blanks and apostrophes may stand between thousands. Every value is read both ways; if
only one way makes sense of all of them, or both agree, that is how they were meant. Otherwise a column is read with
commas between thousands if its values are money, which has no three decimals, or if some value of three digits has no
sign at all; otherwise nobody can tell, and it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cavity.frames.errors import TableError

CURRENCIES = "$€£¥₹"
BLANKS = " \u00a0\u2009\u202f"
WRITTEN = re.compile(
    rf"(?P<open>\()?[{BLANKS}]*(?P<minus>[-+−])?[{BLANKS}]*(?P<before>[{CURRENCIES}])?[{BLANKS}]*(?P<second>[-+−])?"
    rf"(?P<body>\d[\d.,'’{BLANKS}]*|[.,]\d+)(?P<after>[{CURRENCIES}%])?[{BLANKS}]*(?P<close>\))?"
)
"""A number with whatever stands around it; brackets say that it is negative."""


def _reading(decimal: str) -> re.Pattern[str]:
    """How digits are written with this decimal sign, the same sign between all thousands."""
    sign = re.escape(decimal)
    between = {".": ",", ",": "."}[decimal] + "' "
    return re.compile(rf"(\d{{1,3}}([{between}])\d{{3}}(?:\2\d{{3}})*|\d*)(?:{sign}(\d*))?")


READINGS = {sign: _reading(sign) for sign in ".,"}

PLAIN = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)")
"""What Python and most programs write."""

THREE_DECIMALS = re.compile(r"[^.,]*[.,]\d{3}")
"""What is a thousand to some and a fraction to others."""


@dataclass(frozen=True)
class NumberStyle:
    """How the numbers of a column are written.

    Attributes
    ----------
    decimal : {".", ","}
    percent : bool
        Whether a per cent sign follows each of them; they stay per cent.
    """

    decimal: str = "."
    percent: bool = False

    def number(self, text: str) -> float:
        """The number a text stands for; nan if it is none."""
        found = WRITTEN.fullmatch(text.strip())
        if found is None or (found["after"] == "%") != self.percent:
            return float("nan")
        value = _value(_body(found), self.decimal)
        return float("nan") if value is None else -value if _negative(found) else value


def style_of(what: str, texts: Iterable[str]) -> NumberStyle | None:
    """How all texts of a column are written; None if some are no numbers.

    Raises
    ------
    TableError
        If they are numbers that nobody can be sure of.
    """
    found = [WRITTEN.fullmatch(text.strip()) for text in texts]
    known = [match for match in found if match is not None]
    if not known or len(known) < len(found):
        return None
    if all(PLAIN.fullmatch(match.group().strip()) for match in known):
        return NumberStyle()
    percent = _one_sign(what, known)
    bodies = [_body(match) for match in known]
    ways = {sign: [_value(body, sign) for body in bodies] for sign in READINGS}
    possible = [sign for sign, values in ways.items() if None not in values]
    if not possible:
        return None
    if len(possible) == 1 or ways["."] == ways[","]:
        return NumberStyle(possible[0], percent)
    return NumberStyle(_likely(what, known, bodies), percent)


def _one_sign(what: str, known: Sequence[re.Match[str]]) -> bool:
    """Whether all are per cent; a column of several currencies, or partly per cent, is refused."""
    signs = {match["before"] or match["after"] for match in known} - {None}
    if len(signs) > 1:
        raise TableError(
            f"{what} has numbers with {' and '.join(sorted(map(str, signs)))}", remedy="use one unit"
        )
    share = sum(match["after"] == "%" for match in known)
    if 0 < share < len(known):
        plain = next(match for match in known if match["after"] != "%")
        raise TableError(
            f"{what} has numbers with and without a per cent sign, such as {plain.group().strip()!r}",
            remedy="write all of them in one way",
        )
    return bool(share)


def _likely(what: str, known: Sequence[re.Match[str]], bodies: Sequence[str]) -> str:
    """The decimal sign of numbers that can be read in two ways, if one is far more likely."""
    marked = [body for body in bodies if THREE_DECIMALS.fullmatch(body)]
    mark = next(sign for sign in ".," if any(sign in body for body in marked))
    other = {".": ",", ",": "."}[mark]
    money = mark == "," and any(match["before"] or match["after"] for match in known)
    hundreds = any(len(body) == 3 and body.isdigit() for body in bodies)
    if money or hundreds:
        return other
    example = marked[0]
    raise TableError(
        f"{what} has numbers such as {example!r}, which may be {_value(example, other):.12g} or "
        f"{_value(example, mark):.12g}",
        remedy="write them with a decimal point, and with nothing between thousands",
    )


def _body(found: re.Match[str]) -> str:
    """The digits, with one kind of blank and of apostrophe."""
    body = re.sub(f"[{BLANKS}]", " ", found["body"]).replace("’", "'")
    return body.strip()


def _negative(found: re.Match[str]) -> bool:
    bracketed = found["open"] is not None and found["close"] is not None
    return bracketed or any(found[name] in ("-", "−") for name in ("minus", "second"))


def _value(body: str, decimal: str) -> float | None:
    found = READINGS[decimal].fullmatch(body)
    if found is None:
        return None
    whole = re.sub(r"\D", "", found[1])
    return float(f"{whole or 0}.{found[3] or 0}") if whole or found[3] else None
