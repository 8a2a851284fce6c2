"""Finished cells on disk: each is written whole, at once, and read back only if it belongs to the same protocol.

A cell is a JSON file with its record and, where it has arrays, an `.npz` file written before it; the JSON file is what
makes a cell count. Both are put in place by renaming, so that a killed run leaves no half of a cell. Files that were
damaged or removed since are noticed, and their cells are run again.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from cavity.studies.base import Cell


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
            partial = self.folder / f"{cell.slug}.npz.part"
            with partial.open("wb") as file:
                np.savez_compressed(file, **arrays)
            os.replace(partial, self.folder / f"{cell.slug}.npz")
        else:
            (self.folder / f"{cell.slug}.npz").unlink(
                missing_ok=True
            )  # of an earlier run, with other settings
        partial = self.folder / f"{cell.slug}.json.part"
        partial.write_text(json.dumps(full, indent=1), encoding="utf-8")
        os.replace(partial, self.folder / f"{cell.slug}.json")
        return full


def _text(arguments: Mapping[str, Any]) -> str:
    """The arguments as text, to recognize a cell whose settings have changed."""
    return json.dumps(arguments, sort_keys=True, default=repr)
