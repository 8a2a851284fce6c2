"""The container of a model file: a zip archive of one JSON document and numbered arrays in NumPy's format.

    model.json        the tree of the model, with the format's name and version
    arrays/0.npy ...  arrays, referred to by number

Members are stored without compression: numbers of a fit hardly compress, and a file can then never be larger
in memory than it is on disk. Reading trusts nothing: names, sizes, checksums, array headers (a fixed pattern,
never evaluated) and the JSON (no duplicate keys, no NaN, bounded depth) are checked before anything is built,
and nothing is ever unpacked to disk. Writing is atomic: a new file takes the old one's place in one step.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cavity.io.errors import ModelFileError

DOCUMENT = "model.json"
ARRAY_NAME = re.compile(r"arrays/(0|[1-9][0-9]{0,5})\.npy")

MAX_DEPTH = 200
"""Levels of nesting of the JSON document; a kernel of a hundred nested terms needs fewer."""

HEADER = re.compile(
    rb"\{'descr': '(?P<descr>[<>|][a-zA-Z][0-9]{1,6})', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>|[0-9]{1,15},|[0-9]{1,15}(?:, [0-9]{1,15}){1,7})\), \} *\n"
)
"""What NumPy writes before an array's values."""

KINDS = "bifuU"
"""Kinds of arrays that may be stored: booleans, integers, floating-point numbers, text."""

FIXED_TIME = (1980, 1, 1, 0, 0, 0)
"""Time stamp of all members, so that the same model gives the same bytes."""


# --- writing ------------------------------------------------------------------------------------------------


def pack(document: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> bytes:
    """The bytes of a model file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(document, allow_nan=False, ensure_ascii=True, indent=1)
        _check_depth(text)
        archive.writestr(_member(DOCUMENT), text.encode())
        for number, array in enumerate(arrays):
            archive.writestr(_member(f"arrays/{number}.npy"), _array_bytes(array))
    return buffer.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, FIXED_TIME)


def _array_bytes(array: NDArray[Any]) -> bytes:
    if array.dtype.kind not in KINDS:
        raise ModelFileError(f"arrays of type {array.dtype} cannot be stored")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


# --- reading ------------------------------------------------------------------------------------------------


def unpack(data: bytes) -> tuple[dict[str, Any], dict[int, NDArray[Any]]]:
    """The document and the arrays of a model file.

    Raises
    ------
    ModelFileError
        If anything about the container is not as `pack` makes it.
    """
    members = _members(data)
    if DOCUMENT not in members:
        raise ModelFileError(f"it has no {DOCUMENT}, so it is not a model file of cavity")
    document = _document(members.pop(DOCUMENT))
    arrays = {int(name[len("arrays/") : -len(".npy")]): _array(raw, name) for name, raw in members.items()}
    return document, arrays


def _members(data: bytes) -> dict[str, bytes]:
    """Contents of the archive by name, checked."""
    if not data.startswith(b"PK"):
        raise ModelFileError("it is not a zip archive, so it is not a model file of cavity")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            _check_listing(listed, len(data))
            return {info.filename: archive.read(info) for info in listed}
    except ModelFileError:
        raise
    except (NotImplementedError, RuntimeError) as error:
        raise ModelFileError(f"the archive has features that model files do not use ({error})") from None
    except (zipfile.BadZipFile, EOFError, struct.error, ValueError, IndexError, OSError) as error:
        raise ModelFileError(f"the archive is damaged or cut short ({error})") from None


def _check_listing(listed: list[zipfile.ZipInfo], size: int) -> None:
    names = [info.filename for info in listed]
    if len(set(names)) < len(names):
        raise ModelFileError(f"the archive has two members called {_first_double(names)!r}")
    for info in listed:
        if info.filename != DOCUMENT and not ARRAY_NAME.fullmatch(info.filename):
            raise ModelFileError(
                f"the archive has a member that does not belong in it: {info.filename[:80]!r}"
            )
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ModelFileError(f"member {info.filename!r} is compressed; model files are not")
        if info.flag_bits & 0x1:
            raise ModelFileError(f"member {info.filename!r} is encrypted; model files are not")
    if sum(info.file_size for info in listed) > size:
        raise ModelFileError("the members of the archive overlap, or it is cut short")


def _first_double(names: list[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            break
        seen.add(name)
    return name


def _document(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
        _check_depth(text)
        document = json.loads(
            text, object_pairs_hook=_without_doubles, parse_constant=_no_constant, parse_float=_finite
        )
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:  # JSON and UTF-8 errors are ValueErrors
        raise ModelFileError(f"{DOCUMENT} is not valid JSON ({error})") from None
    if not isinstance(document, dict):
        raise ModelFileError(f"{DOCUMENT} must hold an object, got {type(document).__name__}")
    return document


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the parser recurses; brackets inside strings do not count."""
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text):
        mark = token.group()
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ModelFileError(f"{DOCUMENT} is nested more than {MAX_DEPTH} levels deep")
        elif mark in "]}":
            depth -= 1


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ModelFileError(f"{DOCUMENT} has the key {_first_double([k for k, _ in pairs])!r} twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ModelFileError(f"{DOCUMENT} holds {text}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ModelFileError(f"{DOCUMENT} holds the number {text[:40]}, which is out of range")
    return value


def _array(raw: bytes, name: str) -> NDArray[Any]:
    """An array from the bytes of its file; the header must be exactly what NumPy writes."""
    if raw[:8] != b"\x93NUMPY\x01\x00" or len(raw) < 10:
        raise ModelFileError(f"{name} is not an array in NumPy's format")
    start = 10 + int.from_bytes(raw[8:10], "little")
    header = HEADER.fullmatch(raw[10:start])
    if header is None:
        raise ModelFileError(f"{name} has a header that NumPy does not write")
    dtype = _dtype(header["descr"].decode(), name)
    shape = tuple(int(n) for n in header["shape"].decode().split(",") if n.strip())
    if math.prod(shape) * dtype.itemsize != len(raw) - start:
        raise ModelFileError(f"{name} should hold {shape} numbers, but has {len(raw) - start} bytes")
    values = np.frombuffer(raw, dtype, offset=start) if math.prod(shape) else np.empty(0, dtype)
    order = "F" if header["fortran"] == b"True" else "C"
    array = np.array(values.reshape(shape, order=order), order=order)  # type: ignore[call-overload]
    if dtype.kind == "U" and array.size and int(array.view(f"{dtype.byteorder}u4").max()) > 0x10FFFF:
        raise ModelFileError(f"{name} holds text that is not text")
    return array  # type: ignore[no-any-return]


def _dtype(descr: str, name: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise ModelFileError(f"{name} has an unknown type of numbers, {descr!r}") from None
    if dtype.kind not in KINDS or dtype.itemsize == 0:
        raise ModelFileError(f"{name} has a type that model files do not use, {descr!r}")
    return dtype
