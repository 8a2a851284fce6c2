"""Finished cells on disk: each is written whole, at once, and read back only if it belongs to the same protocol.

A cell is a JSON file with its record and, if it has arrays, an `.npz` file written before it; the JSON file is what
makes a cell count. Both are put in place by renaming, so that a killed run leaves no half of a cell. Files that were
damaged or removed since are noticed, and their cells are run again.

The table `results.csv` of a run has all records too, one row each. Where a study needs no arrays, rows of it stand for
cells that are not stored any more: a table that was kept is enough to draw a page again, or to go on from there.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd

from cavity.runtime.atomic import replaced
from cavity.studies.base import Cell

TABLE = "results.csv"
TIMES, TEXTS = ("seconds", "cpu_seconds"), ("note", "error", "commit", "cell", "arguments")
KNOWN = (*TIMES, *TEXTS)
"""Columns of the table that are neither labels nor measures."""


class Store:
    """The folder `cells` of a run.

    Parameters
    ----------
    folder : Path
        Of the run; made if it does not exist.
    protocol : str
        Cells stored under another protocol (other settings, another version of the study) are not used.
    """

    def __init__(self, folder: Path, protocol: str) -> None:
        self.folder, self.protocol = folder / "cells", protocol
        self.folder.mkdir(parents=True, exist_ok=True)

    def find(self, cell: Cell) -> dict[str, Any] | None:
        """The record of a cell that finished without an error, or None."""
        try:
            record = json.loads((self.folder / f"{cell.slug}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        fits = (
            isinstance(record, dict)
            and record.get("protocol") == self.protocol
            and record.get("arguments") == _text(cell.arguments)
            and not record.get("error")
            and self._has_arrays(cell, record.get("arrays"))
        )
        return record if fits else None

    def _has_arrays(self, cell: Cell, names: list[str] | None) -> bool:
        """Whether the arrays of a record can be read; old records do not name them."""
        path, wanted = self.folder / f"{cell.slug}.npz", {f"{name}.npy" for name in names or ()}
        if not wanted and not path.exists():
            return True
        try:
            with ZipFile(path) as stored:
                return stored.testzip() is None and wanted <= set(stored.namelist())
        except (OSError, EOFError, BadZipFile, zlib.error):
            return False

    def put(self, cell: Cell, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Store a finished cell and return its full record."""
        full = {
            **record,
            "labels": dict(cell.labels),
            "slug": cell.slug,
            "arguments": _text(cell.arguments),
            "protocol": self.protocol,
            "arrays": sorted(arrays),
        }
        if arrays:
            with replaced(self.folder / f"{cell.slug}.npz") as partial, partial.open("wb") as file:
                np.savez_compressed(file, **arrays)
        else:
            (self.folder / f"{cell.slug}.npz").unlink(
                missing_ok=True
            )  # of an earlier run, with other settings
        with replaced(self.folder / f"{cell.slug}.json") as partial:
            partial.write_text(json.dumps(full, indent=1), encoding="utf-8")
        return full


class Tabled:
    """Records that the table of an earlier run has.

    Parameters
    ----------
    folder : Path
        Of the run. Without a table there, or with one that cannot be read, there are no records.
    protocol : str
        For the records found.
    """

    def __init__(self, folder: Path, protocol: str) -> None:
        self.protocol = protocol
        self.rows: dict[Any, dict[Any, Any]] = {}
        try:
            frame = pd.read_csv(folder / TABLE, dtype=str, keep_default_na=False)
        except (OSError, ValueError):  # none, or damaged
            return
        if set(KNOWN) <= set(frame.columns):  # else of an earlier version
            self.rows = {row["cell"]: row for row in frame.to_dict("records")}

    def find(self, cell: Cell) -> dict[str, Any] | None:
        """The record of a cell that finished without an error, or None."""
        row = self.rows.get(cell.slug)
        if row is None or row["error"] or row["arguments"] != _text(cell.arguments):
            return None
        try:
            numbers = {n: float(v) for n, v in row.items() if n not in (*TEXTS, *cell.labels) and v}
        except ValueError:  # damaged
            return None
        return {
            **{name: numbers.pop(name, np.nan) for name in TIMES},
            **{name: row[name] for name in TEXTS},
            "measures": numbers,
            "labels": dict(cell.labels),
            "slug": cell.slug,
            "protocol": self.protocol,
            "arrays": [],
        }


def write_table(frame: pd.DataFrame, records: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """The table of a run: one row per cell, with what it takes to recognize the cell again."""
    own = {
        "commit": [r.get("commit", "") for r in records],
        "cell": [r["slug"] for r in records],
        "arguments": [r["arguments"] for r in records],
    }
    with replaced(folder / TABLE) as partial:
        frame.assign(**own).to_csv(partial, index=False)


def _text(arguments: Mapping[str, Any]) -> str:
    """The arguments as text, to recognize a cell whose settings have changed."""
    return json.dumps(arguments, sort_keys=True, default=repr)
