"""Spans of time in words."""

from __future__ import annotations


def in_words(seconds: float) -> str:
    """A time, roughly.

    >>> in_words(0.2), in_words(33.0), in_words(88.0), in_words(5000.0), in_words(30000.0), in_words(1e6)
    ('1 second', '33 seconds', '90 seconds', '83 minutes', '8 hours', '12 days')
    """
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.95 * size:
            return f"{seconds / size:.0f} {name}"
    whole = max(round(seconds), 1) if seconds < 60 else round(seconds, -1)
    return "1 second" if whole == 1 else f"{whole:.0f} seconds"
