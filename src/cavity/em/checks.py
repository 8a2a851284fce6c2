"""What an option may be: numbers and whole numbers, told from texts, None and truth values."""

from __future__ import annotations

import math
from typing import Any

from cavity.runtime import checks


def is_number(value: Any) -> bool:
    """A real number other than NaN; truth values are none."""
    return checks.is_number(value) and not math.isnan(value)


def is_whole(value: Any) -> bool:
    """A whole number, such as 3, np.int64(3) or 3.0."""
    return is_number(value) and math.isfinite(value) and int(value) == value
