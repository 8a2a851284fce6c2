"""Reading tables from files: CSV, TSV, text with blanks, also compressed by gzip, and Parquet; whole or in blocks.

Text files are read as text and converted column by column later (`cavity.tables.preparation`), so that what a column
means never depends on which part of the file is being looked at. Rows are numbered from 1, the first row after the
header.
"""

from __future__ import annotations

import csv
import gzip
import re
import warnings
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.runtime.errors import InputError
from cavity.tables.formatting import counted

if TYPE_CHECKING:
    import pandas as pd

BLOCK_ROWS = 20_000
"""Rows read at a time."""

BLANKS = r"\s+"
"""Any number of blanks, as pandas is told of them."""

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": BLANKS, ".dat": BLANKS}
OTHERS = (";", "\t", "|")
"""What may stand in the place of a comma in a .csv file, and with commas in that of blanks in a .txt or .dat file."""

MISSING = (
    *("", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""Cells of text files that hold no value."""

PARQUET = (".parquet", ".pq")

ROW_LABELS = re.compile(r"__index_level_\d+__")
"""What pandas calls a column of row labels that have no name."""

UNNAMED = "\0unnamed"
"""Name of a first column that has none, until it is left out."""

DECIMAL_COMMA, POINT = r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*", r"\s*[+-]?[\d.]*\d\.\d+(?:,\d+)?\s*"
"""Numbers with a decimal comma, and numbers with a point, which beside these may be one of thousands."""

THOUSANDS = r"\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+\s*"
"""Numbers whose points may stand between thousands; no date is one."""


class TableError(InputError):
    """A table that cannot be used; the message is one sentence with the remedy."""


@dataclass(frozen=True)
class Table:
    """Rows of a file.

    Attributes
    ----------
    frame : DataFrame
        Columns of text (from CSV and TSV) or of typed values (from Parquet).
    rows : array of int
        Number of each row in the file, from 1.
    total : int
        Rows in the file, of which these may be a random part.
    notes : tuple of str
        What was decided about the file, in sentences.
    """

    frame: pd.DataFrame
    rows: NDArray[np.intp]
    total: int
    notes: tuple[str, ...] = ()


def read_table(path: str | Path, max_rows: int | None = None, seed: int = 0) -> Table:
    """A whole table, or a random subset of its rows that is drawn while the file is read in blocks.

    Parameters
    ----------
    path : path of a .csv, .tsv, .txt or .parquet file; the first three may be compressed, as in .csv.gz
    max_rows : int, optional
        Keep at most so many rows, all with the same probability; the file may be larger than memory.
    seed : int
        For the choice of rows.
    """
    import pandas as pd

    if max_rows is not None and max_rows < 1:
        raise TableError(f"must be at least 1, got {max_rows}", parameter="max_rows", value=max_rows)
    rng = np.random.default_rng(seed)
    kept: list[Any] = []
    keys: list[NDArray[np.float64]] = []
    numbers: list[NDArray[np.intp]] = []
    total = 0
    notes: dict[str, None] = {}
    for block in read_blocks(path):
        notes |= dict.fromkeys(block.attrs.pop("notes", ()))
        kept.append(block)
        keys.append(rng.random(len(block)))
        numbers.append(np.arange(total + 1, total + 1 + len(block)))
        total += len(block)
        if max_rows is not None and sum(map(len, kept)) > max_rows + BLOCK_ROWS:
            kept, keys, numbers = _smallest(kept, keys, numbers, max_rows)
    if total == 0:
        raise TableError(f"{path} has a header but no rows")
    if max_rows is not None and total > max_rows:
        kept, keys, numbers = _smallest(kept, keys, numbers, max_rows)
    return Table(pd.concat(kept, ignore_index=True), np.concatenate(numbers), total, tuple(notes))


def _smallest(frames: list[Any], keys: list[Any], numbers: list[Any], count: int) -> tuple[list[Any], ...]:
    """The rows with the smallest random keys: a fair sample of all rows so far, in the order of the file."""
    import pandas as pd

    key = np.concatenate(keys)
    chosen = np.sort(np.argpartition(key, count - 1)[:count]) if len(key) > count else np.arange(len(key))
    frame = pd.concat(frames, ignore_index=True).iloc[chosen]
    return [frame.reset_index(drop=True)], [key[chosen]], [np.concatenate(numbers)[chosen]]


def read_blocks(
    path: str | Path, rows: int = BLOCK_ROWS, as_written: Collection[str] = ()
) -> Iterator[pd.DataFrame]:
    """A table in blocks of rows; in a text file, cells of some columns `as_written`: "NA" there is no missing value."""
    file = Path(path)
    if not file.exists():
        raise TableError(f"there is no file {path}")
    if file.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    suffixes = [s.lower() for s in file.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    kind = (suffixes[:-1] if zipped else suffixes)[-1:] or [""]
    if kind[0] in PARQUET and not zipped:
        return _parquet_blocks(file, rows)
    if kind[0] in SEPARATORS:
        return _text_blocks(file, SEPARATORS[kind[0]], zipped, rows, as_written)
    known = ", ".join([*SEPARATORS, *PARQUET])
    raise TableError(
        f"{path} is no kind of table that can be read; its name must end in one of {known}, text also in .gz"
    )


# --- text ---------------------------------------------------------------------------------------------------


def _text_blocks(
    file: Path, separator: str, zipped: bool, rows: int, as_written: Collection[str]
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    try:
        names, separator, layout = _header(file, separator, zipped)
        reader = pd.read_csv(
            file,
            sep=separator,
            header=0,
            names=names,
            index_col=False,
            dtype=str,
            keep_default_na=False,
            na_values={name: list(MISSING) for name in names if name not in as_written},
            chunksize=rows,
            compression="gzip" if zipped else None,
            skipinitialspace=True,
            encoding="utf-8-sig",
            on_bad_lines="error",
            **layout,
        )
        marks: Marks = (set(), set(), set())
        with reader:
            while (block := _next_block(reader)) is not None:
                if len(block):
                    yield _understood(block.reset_index(drop=True), file, separator, marks, as_written)
    except UnicodeDecodeError:
        raise TableError(f"{file} is not text in UTF-8; save it again in that encoding") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"{file} is damaged or not compressed by gzip ({error})") from None
    except pd.errors.ParserWarning:
        raise TableError(
            f"{file} is not a regular table: its rows have more cells than its header has names"
        ) from None
    except pd.errors.ParserError as error:
        reason = " ".join(str(error).replace("Error tokenizing data. C error:", "").split())
        raise TableError(f"{file} is not a regular table{_uneven(reason)}") from None
    except csv.Error as error:
        raise TableError(f"{file} is not a regular table ({error})") from None


def _uneven(reason: str) -> str:
    """What pandas says of a table whose rows differ in length, with the remedy."""
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason)
    if found is None:
        return f" ({reason})"
    before, line, cells = found.groups()
    return (
        f": line {line} has {counted(int(cells), 'cell')}, the lines before it have {before}; the names of the columns "
        "must come first, and a cell that holds the sign between cells must be in quotes"
    )


Marks = tuple[set[str], set[str], set[str]]
"""Columns in which there are decimal commas, points, and points that may stand between thousands."""


def _next_block(reader: Any) -> pd.DataFrame | None:
    """The next block, or None; cells without a name are an error, where pandas would only warn and drop them."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return next(reader, None)


def _understood(
    block: pd.DataFrame, file: Path, separator: str, marks: Marks, as_written: Collection[str]
) -> pd.DataFrame:
    """A block without a first column that has no name, and with points in the place of decimal commas."""
    notes = []
    if UNNAMED in block:
        block = block.drop(columns=UNNAMED)
        notes.append("The first column has no name and was left out; give it one to use it.")
    if separator in (";", BLANKS):
        for name in (name for name in block.columns if name not in as_written):
            found = [_matches(block[name], kind) for kind in (DECIMAL_COMMA, POINT, THOUSANDS)]
            for mark, cells in zip(marks, found):
                mark.update([name] if cells.any() else [])
            commas = found[0]
            if commas.any():
                block.loc[commas, name] = block.loc[commas, name].str.replace(",", ".", regex=False)
        _refuse_two_ways(marks, file)
        if marks[0]:
            notes.append("Numbers with decimal commas were read as such.")
    block.attrs["notes"] = tuple(notes)
    return block


def _matches(cells: pd.Series, pattern: str) -> pd.Series:
    return cells.str.fullmatch(pattern).fillna(False).astype(bool)


def _refuse_two_ways(marks: Marks, file: Path) -> None:
    """Refuse points beside decimal commas, in one column or, where they may be of thousands, in another."""
    commas, points, thousands = marks
    both = sorted(commas & points)
    if both:
        raise TableError(
            f"{file}: column {both[0]!r} has numbers with decimal commas and numbers with points; write all of "
            "them with a decimal point"
        )
    if commas and thousands:
        raise TableError(
            f"{file}: column {min(commas)!r} has decimal commas, so that the points in column {min(thousands)!r} may "
            "be decimal points or stand between thousands; write all numbers with a decimal point and nothing between "
            "thousands"
        )


def _header(file: Path, separator: str, zipped: bool) -> tuple[list[str], str, dict[str, Any]]:
    """Column names, each of them once, the separator, and what pandas must be told of blank lines.

    A comma may turn out to be a semicolon, a tab or a bar, blanks also to be a comma.
    """
    options: dict[str, Any] = {"encoding": "utf-8-sig", "newline": ""}
    with gzip.open(file, "rt", **options) if zipped else file.open(**options) as lines:
        before, first = next(((k, line) for k, line in enumerate(lines) if line.strip()), (0, ""))
        if not first:
            raise TableError(f"{file} is empty")
        if "\0" in first:
            raise TableError(f"{file} is not a text file")
        if separator in (",", BLANKS):
            separator = _separator(first, separator)
        # a name in quotes may go on in the next line
        rest = (line if line.strip() else "\n" for line in lines)
        if separator == BLANKS:
            first = first.strip() + "\n"
        sign = " " if separator == BLANKS else separator
        records = csv.reader(chain([first], rest), delimiter=sign, skipinitialspace=True)
        names = [name.strip() for name in next(records)]
        layout: dict[str, Any] = {}
        if len(names) == 1:  # a blank line is an empty cell then, unless nothing follows it
            rows = max((k for k, record in enumerate(records, start=1) if record), default=0)
            layout = {"skip_blank_lines": False, "skiprows": before, "nrows": rows}
    if len(names) > 1 and not names[0]:
        names[0] = UNNAMED  # row numbers, as some programs write them
    _check_names(names, file)
    return names, separator, layout


def _separator(header: str, usual: str) -> str:
    """What stands between the names: the usual, unless there are (more of) other signs outside quotes.

    Bars are in names, such as p(a|b), and separate them only where there is no comma.
    """
    plain = re.sub(r'"[^"]*"?', "", header)
    signs = [",", *(sign for sign in OTHERS if sign != "|" or "," not in plain)]
    found = max(signs, key=plain.count)
    return found if found in plain else usual


def _check_names(names: list[str], file: Path) -> None:
    if any(not name for name in names):
        raise TableError(f"{file}: column {names.index('') + 1} has no name in the header; give it one")
    for name in names:
        if names.count(name) > 1:
            raise TableError(f"{file}: two columns are called {name!r}; rename one of them")


# --- Parquet ------------------------------------------------------------------------------------------------


def _parquet_blocks(file: Path, rows: int) -> Iterator[pd.DataFrame]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise TableError(
            f"reading {file} needs the package pyarrow: install it with pip install 'cavity[data]'"
        ) from None
    try:
        with parquet.ParquetFile(file) as source:
            names = [name for name in source.schema_arrow.names if not ROW_LABELS.fullmatch(name)]
            _check_names(names, file)
            for batch in source.iter_batches(batch_size=rows):
                # columns as they are in the file: what pandas noted of its index would take some away
                yield batch.to_pandas(ignore_metadata=True)[names]
    except (pyarrow.ArrowInvalid, pyarrow.ArrowException, OSError) as error:
        raise TableError(
            f"{file} is not a readable Parquet file ({' '.join(str(error).split())[:200]})"
        ) from None
