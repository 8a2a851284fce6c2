"""Numbers as people write them are read in the one way that makes sense, or refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cavity.frames.columns import as_numbers
from cavity.frames.errors import TableError
from cavity.frames.numbers import NumberStyle, style_of


def read(*texts):
    style = style_of("column 'x'", texts)
    return None if style is None else [style.number(text) for text in texts]


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["$1,000", "$2,500"], [1000, 2500]),
        (["$1,000.50", "-$3", "$ 12"], [1000.5, -3, 12]),
        (["($1,000)", "$20"], [-1000, 20]),
        (["£5", "7"], [5, 7]),
        (["1.234,50 €", "12 €"], [1234.5, 12]),
        (["1.234 €", "950 €"], [1234, 950]),
        (["12 %", "3.5%", "-1 %"], [12, 3.5, -1]),
        (["12,5 %", "3 %"], [12.5, 3]),
        (["1,234", "950"], [1234, 950]),
        (["1,234", "1,234,567"], [1234, 1234567]),
        (["1,234", "0.5"], [1234, 0.5]),
        (["1,5", "12,25"], [1.5, 12.25]),
        (["1.234.567", "12"], [1234567, 12]),
        (["1 234", "12"], [1234, 12]),
        (["1\u202f234,5", "1\u00a0000"], [1234.5, 1000]),
        (["1'234.5", "1’000"], [1234.5, 1000]),
        (["−5 €", "+3 €"], [-5, 3]),
        ([",5", "1,25"], [0.5, 1.25]),
        (["9.955", "10.123"], [9.955, 10.123]),  # as programs write them
        (["-1.234", "950"], [-1.234, 950]),
    ],
)
def test_numbers_that_have_one_meaning(texts, numbers):
    assert read(*texts) == numbers
    # the meaning does not depend on the order in which they come
    assert read(*texts[::-1]) == numbers[::-1]


@pytest.mark.parametrize(
    "texts",
    [["a", "1"], ["12 kg"], ["1,23,4"], ["1 23"], ["1,2.3,4"], ["01.02.2023"], ["1.2.3"], ["%"], ["$"], []],
)
def test_what_is_no_number(texts):
    assert read(*texts) is None


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["1,234", "5,678"], "'1,234', which may be 1234 or 1.234; write them with a decimal point"),
        (["1,234", "12"], "may be 1234 or 1.234"),
        (["$1.234", "$5.678"], "'1.234', which may be 1234 or 1.234"),
        (["$5", "€5"], "has numbers with [$] and €; use one unit"),
        (["5 %", "$5"], "has numbers with [$] and %"),
        (["5 %", "0.05"], "with and without a per cent sign, such as '0.05'; write all of them in one way"),
    ],
)
def test_numbers_that_may_mean_two_things(texts, message):
    with pytest.raises(TableError, match=f"^column 'x' .*{message}"):
        read(*texts)


def test_new_values_are_read_as_those_of_the_fit():
    values = pd.Series(["1.234,5", None, "7", 2.5], name="x")
    numbers = as_numbers(values, np.arange(1, 5), NumberStyle(","))
    np.testing.assert_array_equal(numbers, [1234.5, np.nan, 7, 2.5])
    with pytest.raises(TableError, match=r"column 'x' has '0\.12' in row 1, which is not a finite number"):
        as_numbers(pd.Series(["0.12"], name="x"), np.arange(1, 2), NumberStyle(".", percent=True))
