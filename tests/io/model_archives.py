"""Model files taken apart, changed at random and put together again."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.io.archive import ARRAY_NAME


def archive(members: dict[str, bytes] | list[tuple[str, bytes]], how: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file of these members."""
    buffer = io.BytesIO()
    pairs = members.items() if isinstance(members, dict) else members
    with zipfile.ZipFile(buffer, "w", how) as file:
        for name, data in pairs:
            file.writestr(zipfile.ZipInfo(name), data, how)
    return buffer.getvalue()


def contents(data: bytes) -> dict[str, bytes]:
    """The members of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def places(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """(container, key) of every place in a document."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, inner in list(items):
        found.append((tree, key))
        places(inner, found)
    return found


def mutated(data: bytes, rng: np.random.Generator, scraps: Sequence[Any], arrays: float) -> bytes:
    """A whole archive with one or two places of its document changed, and with probability `arrays` an array."""
    members = contents(data)
    document = json.loads(members["model.json"])
    found = places(document["model"], [])
    for _ in range(int(rng.integers(1, 3))):
        container, key = found[int(rng.integers(len(found)))]
        kind = rng.integers(4)
        if kind == 0 and isinstance(container, dict):
            container.pop(key, None)
        elif kind == 1:
            other, name = found[int(rng.integers(len(found)))]
            container[key] = json.loads(json.dumps(other.get(name) if isinstance(other, dict) else None))
        else:
            container[key] = scraps[int(rng.integers(len(scraps)))]
    members["model.json"] = json.dumps(document).encode()
    names = [name for name in members if ARRAY_NAME.fullmatch(name)]
    if names and rng.random() < arrays:
        name = names[int(rng.integers(len(names)))]
        raw = bytearray(members[name])
        for i in rng.integers(len(raw), size=2):
            raw[i] = rng.integers(256)
        members[name] = bytes(raw)
    return archive(members)
