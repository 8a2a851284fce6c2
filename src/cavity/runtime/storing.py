"""What can be written to a model file."""

from __future__ import annotations

import os


class Storable:
    """Something that `cavity.load` reads again from a file; the module of `cavity.io.registry.HOMES` says how."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it, with all that it needs, to a file that `cavity.load` reads; predictions stay the same.

        Raises
        ------
        ModelFileError
            If it holds a function or a class of one's own that was not registered (`cavity.io.register`).
        """
        from cavity.io import save

        save(self, path)
