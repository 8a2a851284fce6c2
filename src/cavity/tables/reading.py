"""Reading tables from files: CSV, TSV, text with blanks, also compressed by gzip, and Parquet; whole or in blocks.

Text files are read as text and converted column by column later (`cavity.tables.preparation`), so that what a column
means never depends on which part of the file is being looked at. Rows are numbered from 1, the first row after the
header.

Text is in UTF-8; or in UTF-16, as spreadsheets write "Unicode text"; or, if it is neither, in Windows-1252, of which
Latin-1 is a part. Any bytes are text in the last, so that the user is told.
"""

from __future__ import annotations

import codecs
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

from cavity.frames.columns import is_missing
from cavity.frames.errors import TableError
from cavity.runtime.sentences import CONTROL, counted, listed

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

OTHER_ENCODINGS = {
    "cp1252": "The file is not in UTF-8 and was read as Windows-1252 (Latin-1); if letters look odd, save it in UTF-8."
}
"""What is said of encodings that are a guess."""

LONGEST_HEADER = 10_000_000
"""Characters of a first line; one without end would fill the memory."""

UNNAMED = "\0unnamed"
"""Name of a first column that has none, until it is left out."""

DECIMAL_COMMA, POINT = r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*", r"\s*[+-]?[\d.]*\d\.\d+(?:,\d+)?\s*"
"""Numbers with a decimal comma, and numbers with a point, which beside these may be one of thousands."""

THOUSANDS = r"\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+\s*"
"""Numbers whose points may stand between thousands; no date is one."""


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

    def with_target(self, target: str) -> Table:
        """The rows whose target is known, with a note on the others; itself if all are, or none is."""
        if target not in self.frame:
            return self
        known = ~is_missing(self.frame[target])
        if known.all() or not known.any():
            return self
        gone = self.rows[~known]
        which = listed([str(row) for row in gone], quote=False)
        told = (
            f"{counted(len(gone), 'row')} without a value of {target!r} "
            f"{'was' if len(gone) == 1 else 'were'} left out ({which})."
        )
        frame = self.frame[known].reset_index(drop=True)
        return Table(frame, self.rows[known], self.total - len(gone), (*self.notes, told))


def read_table(path: str | Path, max_rows: int | None = None, seed: int = 0) -> Table:
    """A whole table, or a random subset of its rows that is drawn while the file is read in blocks.

    Parameters
    ----------
    path : path of a .csv, .tsv, .txt or .parquet file; the first three may be compressed, as in .csv.gz
        Several Parquet files of one table by a pattern, such as "data/*.parquet", or by their folder.
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
    if is_parquet(path):
        return _parquet_blocks(path, rows)
    if not file.exists():
        raise TableError(f"there is no file {path}")
    if file.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    if not file.is_file():
        raise TableError(
            f"{path} is a device or a pipe, and a table is read more than once", remedy="store it in a file"
        )
    suffixes = [s.lower() for s in file.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    kind = (suffixes[:-1] if zipped else suffixes)[-1:] or [""]
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
        encoding = _encoding(file, zipped)
        names, separator, layout = _header(file, separator, zipped, encoding)
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
            encoding=encoding,
            on_bad_lines="error",
            **layout,
        )
        marks: Marks = (set(), set(), set())
        told = [OTHER_ENCODINGS[encoding]] if encoding in OTHER_ENCODINGS else []
        with reader:
            while (block := _next_block(reader)) is not None:
                if len(block):
                    understood = _understood(block.reset_index(drop=True), file, separator, marks, as_written)
                    understood.attrs["notes"] = (*told, *understood.attrs["notes"])
                    yield understood
    except UnicodeDecodeError:
        raise TableError(
            f"{file} is not text in one encoding; save it again in UTF-8",
        ) from None
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


def _encoding(file: Path, zipped: bool) -> str:
    """The encoding of a text file, by its first bytes, else UTF-8 if all of it is that, else Windows-1252."""
    with gzip.open(file, "rb") if zipped else file.open("rb") as data:
        head = data.read(4096)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        for place, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
            if len(head) > 1 and not any(head[place::2]) and all(head[1 - place :: 2]):
                return encoding
        decode = codecs.getincrementaldecoder("utf-8")().decode
        try:
            while head:
                decode(head)
                head = data.read(1 << 20)
            decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8-sig"


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


def _header(file: Path, separator: str, zipped: bool, encoding: str) -> tuple[list[str], str, dict[str, Any]]:
    """Column names, each of them once, the separator, and what pandas must be told of blank lines.

    A comma may turn out to be a semicolon, a tab or a bar, blanks also to be a comma.
    """
    options: dict[str, Any] = {"encoding": encoding, "newline": ""}
    with gzip.open(file, "rt", **options) if zipped else file.open(**options) as lines:
        pieces = iter(lambda: lines.readline(LONGEST_HEADER), "")
        before, first = next(((k, line) for k, line in enumerate(pieces) if line.strip()), (0, ""))
        if len(first) == LONGEST_HEADER:
            raise TableError(f"{file} is no table: its first line has more than {LONGEST_HEADER} characters")
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
        if CONTROL.search(name.replace(UNNAMED, "")):
            raise TableError(f"{file}: the name of column {name!r} has control characters; rename it")
        if names.count(name) > 1:
            raise TableError(f"{file}: two columns are called {name!r}; rename one of them")


# --- Parquet ------------------------------------------------------------------------------------------------


def is_parquet(path: str | Path) -> bool:
    """Whether a path is of Parquet files: by its ending, or because it is a folder that has some."""
    file = Path(path)
    if file.is_dir():
        return any(f.suffix.lower() in PARQUET for f in file.iterdir())
    return file.suffix.lower() in PARQUET


def _parquet_blocks(path: str | Path, rows: int) -> Iterator[pd.DataFrame]:
    """Blocks of one file or of several, with the columns of the first."""
    from cavity.rows.parquet import RowsError, frames_of, parquet_files, pieces_of

    try:
        files = parquet_files(path)
        pieces, names = pieces_of(files)
        _check_names(names, Path(files[0]))
        for _, frame in frames_of(pieces, names):
            for start in range(0, len(frame), rows):
                yield frame.iloc[start : start + rows].reset_index(drop=True)
    except RowsError as error:
        raise TableError.of(error.message) from None
