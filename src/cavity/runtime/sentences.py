"""Pieces of sentences: numbers of things, and lists that stop somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHOWN = 8
"""Names or rows listed in a sentence."""

LONGEST = 60
"""Characters of a name that are shown."""


def counted(n: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{n} {what}" + ("" if n == 1 else "s")


CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that a terminal would obey instead of showing them."""


def printable(text: str) -> str:
    r"""A text with control characters written out.

    >>> printable("\x1b[2Jred")
    '\\x1b[2Jred'
    """
    return CONTROL.sub(lambda found: repr(found.group())[1:-1], text)


def shortened(text: str) -> str:
    """A text that fits into a sentence.

    >>> shortened("short"), len(shortened("long " * 100))
    ('short', 60)
    """
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def listed(names: Iterable[object], quote: bool = True) -> str:
    """Names in a row, in quotes unless told otherwise; of many, the first and how many more.

    >>> listed(["a", "b"]), listed(range(10), quote=False)
    ("'a', 'b'", '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    every = [repr(shortened(str(name))) if quote else shortened(str(name)) for name in names]
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")
