"""Model files: `model.save(path)` and `cavity.load(path)`.

A file is a zip archive of JSON and NumPy arrays (`archive`); the JSON names registered classes with the arguments
that make them (`registry`, `parts`, `trees`). Loading builds objects of these classes from checked values: it never
unpickles, imports by a name from the file, or runs anything the file brings. The format is described in
docs/model_files.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

import cavity
from cavity.io.archive import pack, unpack
from cavity.io.errors import ModelFileError
from cavity.io.registry import HOMES, codec_of, register
from cavity.io.trees import Reader, Writer, describe
from cavity.runtime.atomic import replaced

__all__ = ["FORMAT", "VERSION", "ModelFileError", "dumps", "header", "load", "loads", "register", "save"]

FORMAT = "cavity model"
VERSION = 1
"""Version of the format; files of later versions are refused, files of earlier ones are always read."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, in one step: whatever happens, the old file or the new one is there.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, GP, Posterior, TableModel; or of `cavity.em` or `cavity.control`
    path : path
        By convention it ends in `.cavity`.

    Raises
    ------
    ModelFileError
        If a part of the model cannot be stored; the message names it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import cavity
    >>> from cavity.kernels import SE
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prior.cavity"
    >>> cavity.io.save(cavity.GP(1.0 * SE(2.0)), path)
    >>> cavity.load(path).kernel
    1.0 * SE(lengthscale=2.0)
    """
    data = dumps(model)
    with replaced(path) as partial:
        partial.write_bytes(data)


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file. Nothing in the file is ever run.

    Factors are computed again: predictions are those of the saved model up to rounding.

    Parameters
    ----------
    path : path

    Raises
    ------
    ModelFileError
        If the file is damaged, not a model file, from a later version, or uses names that are not registered.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import cavity
    >>> model = cavity.GPRegressor(n_restarts=0, random_state=0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.cavity"
    >>> model.save(path)
    >>> bool((cavity.load(path).predict([[1.5]]) == model.predict([[1.5]])).all())
    True
    """
    data = Path(path).read_bytes()
    try:
        return loads(data)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: {error}") from error.__cause__


def dumps(model: Any) -> bytes:
    """The bytes of a model file.

    Examples
    --------
    >>> from cavity import GP, io
    >>> from cavity.kernels import SE
    >>> data = io.dumps(GP(1.0 * SE(2.0)))
    >>> data[:2], io.loads(data) == GP(1.0 * SE(2.0))
    (b'PK', True)
    """
    codec = codec_of(model)
    if codec is None or codec.name not in HOMES:
        raise ModelFileError(f"a {type(model).__name__} cannot be saved; {', '.join(sorted(HOMES))} can")
    writer = Writer()
    tree = writer.tree(model, codec.name)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": {"cavity": cavity.__version__, "numpy": np.__version__, "python": python_version()},
        "model": tree,
    }
    return pack(document, writer.arrays)


def header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says about itself: `version` of the format, and `written_by`, versions of packages.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import cavity
    >>> from cavity.kernels import SE
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prior.cavity"
    >>> cavity.GP(1.0 * SE(2.0)).save(path)
    >>> cavity.io.header(path)["version"]
    1
    """
    document, _ = unpack(Path(path).read_bytes())
    _check_version(document)
    by = document.get("written_by")
    texts = {str(k): str(v) for k, v in by.items()} if isinstance(by, dict) else {}
    return {"version": document["version"], "written_by": texts}


def loads(data: bytes) -> Any:
    """The model in the bytes of a file.

    Examples
    --------
    >>> from cavity import GP, io
    >>> from cavity.kernels import SE
    >>> io.loads(io.dumps(GP(1.0 * SE(2.0)))).kernel
    1.0 * SE(lengthscale=2.0)
    >>> io.loads(b"something else")
    Traceback (most recent call last):
        ...
    cavity.io.errors.ModelFileError: it is not a zip archive, so it is not a model file of cavity
    """
    document, arrays = unpack(data)
    _check_version(document)
    root = document.get("model")
    name = root.get("part") if isinstance(root, dict) else None
    if not isinstance(name, str) or name not in HOMES:
        raise ModelFileError(f"it holds no model; {', '.join(sorted(HOMES))} are models")
    try:
        return Reader(arrays).value(root, name)
    except RecursionError:
        raise ModelFileError("it is nested too deeply") from None
    except ModelFileError as error:
        raise ModelFileError(describe(error)) from error.__cause__


def _check_version(document: dict[str, Any]) -> None:
    if document.get("format") != FORMAT:
        raise ModelFileError("it is not a model file of cavity (the format is missing)")
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ModelFileError(f"its version is not a number: {str(version)[:40]!r}")
    if version > VERSION:
        raise ModelFileError(
            f"it was written by a later version of cavity (format {version}, this one reads up to {VERSION}): "
            "install a newer cavity"
        )
