"""The one exception of model files."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A model file that cannot be read, or a model that cannot be written to one; the message says why."""
