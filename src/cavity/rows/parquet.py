"""Rows of Parquet files, read in every pass and held a part at a time.

Several files of one table (`data/*.parquet`) are taken in the order of their names. Parts are row groups, cut if they
have more than `PART_ROWS` rows. All files are checked before the first pass: they must be readable and have the same
columns. A value that is missing or not finite is named with its file, row and column.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.numerics.arrays import Array
from cavity.rows.base import PartedRows
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

PART_ROWS = 65_536
"""Most rows of a part: 4 MB of 8 columns."""

ENDINGS = (".parquet", ".pq")


class RowsError(InputError):
    """Rows of a file that cannot be used; the message names the file."""


@dataclass(frozen=True)
class Part:
    """Consecutive rows of one row group.

    Attributes
    ----------
    file : str
    group : int
        Row group of the file.
    start, stop : int
        Rows in the group.
    first : int
        Number of the first row in the file, from 1.
    """

    file: str
    group: int
    start: int
    stop: int
    first: int

    def __len__(self) -> int:
        return self.stop - self.start


Decoder = Callable[["pd.DataFrame", Part], Array]
"""Inputs (n, D) from the columns of a part."""


@dataclass(frozen=True)
class Numbers:
    """Columns that are numbers, as they are."""

    columns: tuple[str, ...]

    def __call__(self, frame: pd.DataFrame, part: Part) -> Array:
        """Inputs (n, D), all finite."""
        out = np.empty((len(frame), len(self.columns)))
        for k, name in enumerate(self.columns):
            try:
                out[:, k] = frame[name].to_numpy(dtype=float, na_value=np.nan)
            except (TypeError, ValueError):
                raise RowsError(
                    f"column {name!r} of {part.file} does not hold numbers ({frame[name].dtype})",
                    remedy="encode it as numbers, or leave it out",
                ) from None
        require_finite(out, self.columns, part)
        return out


def require_finite(X: Array, columns: Sequence[str], part: Part) -> None:
    """Refuse values that are missing or infinite, by file, row and column."""
    if np.isfinite(X).all():
        return
    row, column = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
    what = "missing" if np.isnan(X[row, column]) else "infinite"
    raise RowsError(
        f"the value of {columns[column]!r} is {what} in row {part.first + row} of {part.file}",
        remedy="complete the row, or leave it out",
    )


class ParquetRows(PartedRows):
    """Inputs from Parquet files.

    Parameters
    ----------
    paths : str, path or sequence of these
        Files, a folder of files, or a pattern such as "data/*.parquet".
    columns : sequence of str, optional
        Columns of the inputs, in their order; all by default.
    decode : callable, optional
        Makes inputs of the columns of a part; by default they are numbers.

    Attributes
    ----------
    pieces : tuple of Part
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        columns: Sequence[str] | None = None,
        decode: Decoder | None = None,
        width: int | None = None,
    ) -> None:
        files = parquet_files(paths)
        self.pieces, names = pieces_of(files)
        self.columns = tuple(names if columns is None else columns)
        for name in self.columns:
            if name not in names:
                raise RowsError(f"there is no column {name!r} in {files[0]}; there are {_listed(names)}")
        self.decode = Numbers(self.columns) if decode is None else decode
        super().__init__([len(p) for p in self.pieces], len(self.columns) if width is None else width)

    def parts(self) -> Iterator[Array]:
        """Inputs of each part, read one after the other."""
        for part, frame in frames_of(self.pieces, self.columns):
            yield self.decode(frame, part)

    def values(self, column: str) -> Any:
        """One column of all rows, as it is in the files."""
        return np.concatenate([frame[column].to_numpy() for _, frame in frames_of(self.pieces, [column])])


def read_parquet(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], target: str
) -> tuple[ParquetRows, Array]:
    """Inputs, all columns but the target, in files, and the target (n,) in memory.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> folder = tempfile.TemporaryDirectory()
    >>> pd.DataFrame({"area": [50.0, 80.0], "price": [1.0, 2.0]}).to_parquet(f"{folder.name}/a.parquet")
    >>> rows, y = read_parquet(f"{folder.name}/*.parquet", "price")
    >>> rows.shape, y
    ((2, 1), array([1., 2.]))
    """
    files = parquet_files(paths)
    pieces, names = pieces_of(files)
    if target not in names:
        raise RowsError(f"there is no column {target!r} in {files[0]}; there are {_listed(names)}")
    decode = Numbers((target,))
    y = np.concatenate([decode(frame, part)[:, 0] for part, frame in frames_of(pieces, [target])])
    return ParquetRows(files, [name for name in names if name != target]), y


# --- files --------------------------------------------------------------------------------------------------


def parquet_files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Files of a pattern, of a folder or as given, in the order of their names."""
    if not isinstance(paths, str | os.PathLike):
        return [file for path in paths for file in parquet_files(path)]
    name = os.fspath(paths)
    if os.path.isdir(name):
        found = sorted(str(f) for f in Path(name).iterdir() if f.suffix.lower() in ENDINGS)
        if not found:
            raise RowsError(f"there is no Parquet file in the folder {name}")
        return found
    found = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
    if not found:
        raise RowsError(f"there is no file {name}")
    return found


def pieces_of(files: Sequence[str]) -> tuple[tuple[Part, ...], list[str]]:
    """Parts of all files and the names of their columns, which must be the same; files without rows have no part."""
    pieces: list[Part] = []
    names: list[str] = []
    for file in files:
        with _opened(file) as source:
            found = _names(source)
            if not names:
                names = found
            elif set(found) != set(names):
                lacks = _listed([n for n in names if n not in found])
                more = _listed([n for n in found if n not in names])
                raise RowsError(
                    f"{file} has other columns than {files[0]}: it lacks {lacks or 'none'} and has {more or 'none'} "
                    "beyond these",
                    remedy="give files of one table",
                )
            first = 1
            for group in range(source.metadata.num_row_groups):
                rows = source.metadata.row_group(group).num_rows
                cuts = [*range(0, rows, PART_ROWS), rows]
                pieces += [Part(file, group, a, b, first + a) for a, b in pairwise(cuts)]
                first += rows
    if not pieces:
        raise RowsError(f"there are no rows in {_listed(files)}")
    return tuple(pieces), names


def frames_of(pieces: Sequence[Part], columns: Sequence[str]) -> Iterator[tuple[Part, pd.DataFrame]]:
    """Columns of each part, which are in the order of the files."""
    import pandas as pd

    k = 0
    while k < len(pieces):
        file, group = pieces[k].file, pieces[k].group
        with _opened(file) as source:
            batches = source.iter_batches(batch_size=PART_ROWS, row_groups=[group], columns=list(columns))
            held = pd.DataFrame()
            while k < len(pieces) and (pieces[k].file, pieces[k].group) == (file, group):
                part = pieces[k]
                while len(held) < len(part):
                    more = next(batches).to_pandas(ignore_metadata=True)
                    held = more if held.empty else pd.concat([held, more], ignore_index=True)
                yield part, held.iloc[: len(part)]
                held = held.iloc[len(part) :].reset_index(drop=True)
                k += 1


def read_part(part: Part, columns: Sequence[str], decode: Decoder) -> Array:
    """Inputs of one part, by itself."""
    with _opened(part.file) as source:
        frame = source.read_row_group(part.group, columns=list(columns)).slice(part.start, len(part))
        return decode(frame.to_pandas(ignore_metadata=True), part)


def _opened(file: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise RowsError(
            f"reading {file} needs the package pyarrow", remedy="install it with pip install 'cavity[data]'"
        ) from None
    try:
        return parquet.ParquetFile(file)
    except FileNotFoundError:
        raise RowsError(f"there is no file {file}") from None
    except (pyarrow.ArrowException, OSError) as error:
        why = " ".join(str(error).split())[:200]
        raise RowsError(f"{file} is not a readable Parquet file ({why})") from None


def _names(source: Any) -> list[str]:
    """Columns without the row labels that pandas writes."""
    return [str(n) for n in source.schema_arrow.names if not str(n).startswith("__index_level_")]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
