"""`Dataset`: inputs, targets, the split of the source if it has one, and what one must know to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set.

    Attributes
    ----------
    name : str
    task : {"regression", "classification"}
    X : array (n, D)
        Inputs; the training part if the source has a split.
    y : array (n,)
        Targets: numbers for regression, labels (numbers or text) for classification.
    feature_names : tuple of D names
    target_name : str
    X_test, y_test : arrays (m, D), (m,), optional
        The source's own test part. Synthetic regression sets have noise-free targets there.
    description, license, citation, home : str
    extra : mapping
        What else is known: which targets a generator made outliers, columns of a file that are not inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.datasets import Dataset
    >>> X, y = np.zeros((3, 1)), np.arange(3.0)
    >>> fields = Dataset("fields", "regression", X, y, ("rain",), "harvest", "Harvests.", "CC0", "")
    >>> fields.X.shape, fields.feature_names
    ((3, 1), ('rain',))
    """

    name: str
    task: str
    X: Array
    y: NDArray[Any]
    feature_names: tuple[str, ...]
    target_name: str
    description: str
    license: str
    citation: str
    home: str = ""
    X_test: Array | None = None
    y_test: NDArray[Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.X.shape != (len(self.y), len(self.feature_names)):
            raise ValueError(
                f"data set {self.name!r}: X has shape {self.X.shape}, but there are "
                f"{len(self.y)} targets and {len(self.feature_names)} feature names"
            )

    @property
    def frame(self) -> pd.DataFrame:
        """Inputs and target as one table, with a column `split` (train, test) if the source has one."""
        import pandas as pd

        def table(X: Array, y: NDArray[Any]) -> pd.DataFrame:
            columns = pd.DataFrame(X, columns=list(self.feature_names))
            columns[self.target_name] = y
            return columns

        train = table(self.X, self.y)
        if self.X_test is None or self.y_test is None:
            return train
        test = table(self.X_test, self.y_test)
        train["split"], test["split"] = "train", "test"
        return pd.concat([train, test], ignore_index=True)

    @property
    def size(self) -> str:
        """The shape in words, such as '506 x 13'."""
        text = f"{len(self.X)} x {self.X.shape[1]}"
        return text if self.X_test is None else f"{text} train, {len(self.X_test)} test"

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.task}, {self.size}, target {self.target_name!r}; "
            f"license: {self.license}; cite: {self.citation})"
        )

    def describe(self) -> str:
        """A paragraph: what it is, license, citation, origin."""
        shown = ", ".join(self.feature_names[:8]) + (", ..." if len(self.feature_names) > 8 else "")
        lines = [
            f"{self.name}: {self.description}",
            f"  task      {self.task}, {self.size}",
            f"  inputs    {shown}",
            f"  target    {self.target_name}",
            f"  license   {self.license}",
            f"  citation  {self.citation}",
        ]
        if self.home:
            lines.append(f"  origin    {self.home}")
        return "\n".join(lines)
