"""From the files of a real data set to a `Dataset`."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from cavity.datasets.dataset import Dataset
from cavity.datasets.locate import locate
from cavity.datasets.registry import Source
from cavity.datasets.tables import Table, not_a_number, read_csv
from cavity.numerics.arrays import Array

Part = tuple[Array, NDArray[Any]]


def load_source(source: Source) -> Dataset:
    """Find, read and check a real data set."""
    parts: list[Part] = []
    extra: dict[str, NDArray[Any]] = {}
    for found, name in zip(locate(source), source.files):
        if isinstance(found, Path) and found.suffix == ".npz":
            parts += _from_npz(source, found)
            continue
        if isinstance(found, Path):
            table, origin = read_csv(found), str(found)
        else:
            table, origin = found, f"the package's table for {name}"
        parts.append(_from_table(source, table, origin))
        extra = {key: table[key] for key in table if key not in (*source.features, source.target)}
    rows = tuple(len(y) for _, y in parts)
    if rows != source.rows:
        raise ValueError(f"data set {source.name!r} should have {source.rows} rows, the files have {rows}")
    if source.n_train is not None:
        (X, y), n = parts[0], source.n_train
        parts = [(X[:n], y[:n]), (X[n:], y[n:])]
    X, y = parts[0]
    X_test, y_test = parts[1] if len(parts) > 1 else (None, None)
    return Dataset(
        source.name,
        source.task,
        X,
        y,
        source.features,
        source.target,
        source.description,
        source.license,
        source.citation,
        source.home,
        X_test,
        y_test,
        MappingProxyType(extra),
    )


def _from_npz(source: Source, path: Path) -> list[Part]:
    if not is_zipfile(path):
        raise ValueError(f"{path} is no .npz file, or was cut off")
    try:
        return _parts(source, path)
    except (BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _parts(source: Source, path: Path) -> list[Part]:
    with np.load(path) as arrays:
        missing = {"X_train", "y_train", "X_test", "y_test"} - set(arrays)
        if missing:
            raise ValueError(f"{path} has no array {', '.join(sorted(missing))}, it has {', '.join(arrays)}")
        return [
            (np.asarray(arrays[f"X_{part}"], dtype=float), _target(source, arrays[f"y_{part}"]))
            for part in ("train", "test")
        ]


def _from_table(source: Source, table: Table, origin: str) -> Part:
    missing = [name for name in (*source.features, source.target) if name not in table]
    if missing:
        raise ValueError(f"{origin} has no column {', '.join(missing)}, it has {', '.join(table)}")
    columns = [table[name] for name in source.features]
    columns = [source.convert[n](c) if n in source.convert else c for n, c in zip(source.features, columns)]
    for name, column in zip(source.features, columns):
        if column.dtype.kind not in "fiu":
            raise ValueError(f"{origin}: column {name} should hold numbers, it has {not_a_number(column)!r}")
    X = np.column_stack([column.astype(float) for column in columns])
    return X, _target(source, table[source.target])


def _target(source: Source, column: NDArray[Any]) -> NDArray[Any]:
    """Floating-point numbers for regression; labels as int64 or text for classification."""
    if source.task == "regression":
        return column.astype(float)
    return column.astype(np.int64) if column.dtype.kind in "iu" else column.astype(str)
