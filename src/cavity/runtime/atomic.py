"""Files that appear in one step: until then, and after a crash, the old one is there."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".tmp"
"""Of temporary files."""


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file in the same folder, to be written in the block; it takes the place of `path` at its end.

    A symbolic link stays, and what it points to is replaced. The file keeps its permissions. If the block fails, the
    temporary file is removed and nothing is replaced. An error of the system, such as a full disk, names `path`.

    Raises
    ------
    OSError
        Also if `path` is a device or a pipe, which a file must not replace.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "table.csv"
    ...     with replaced(target) as partial:
    ...         _ = partial.write_text("1,2")
    ...     target.read_text()
    '1,2'
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file, which could be replaced", os.fspath(path))
    with _named(path):
        yield from _replacing(target)


@contextlib.contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the system without a file name, or with that of the temporary file, name the file that was meant."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename is not None and not str(error.filename).endswith(SUFFIX)):
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error


def _replacing(target: Path) -> Iterator[Path]:
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=SUFFIX, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, if the system lets folders be synchronized."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
