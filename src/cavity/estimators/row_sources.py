"""What estimators are fitted to that is not in memory: Parquet files and Dask data frames, in blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cavity.gp import GP
from cavity.latent.inducing import Inducing
from cavity.learning.large_data import LEARN_ROWS, MOST_INDUCING
from cavity.learning.training_rows import TrainingRows
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.rows.base import RowSource
from cavity.rows.distributed import is_dask_frame, rows_of_frame
from cavity.runtime.errors import InputError


@dataclass(frozen=True)
class Blocks:
    """Rows in blocks, their targets, and the names of the columns, if they have any."""

    source: RowSource
    y: NDArray[Any]
    names: list[str] | None

    @classmethod
    def of(cls, X: Any, y: Any) -> Blocks | None:
        """Of a row source with targets, or of a Dask data frame with the name of its target; None of anything else."""
        if is_dask_frame(X):
            if not isinstance(y, str):
                raise InputError(
                    f"must be the name of a column of the data frame, got {type(y).__name__}",
                    parameter="y",
                    value=y,
                )
            return cls(*rows_of_frame(X, y))
        if not isinstance(X, RowSource):
            return None
        targets = np.asarray(y)
        if targets.shape != (len(X),):
            problem = (
                f"must be one value for each of the {len(X)} rows, got an array of shape {targets.shape}"
            )
            raise InputError(problem, parameter="y", value=y)
        names = getattr(X, "names", None)
        return cls(X, targets, None if names is None else list(names))

    @property
    def small(self) -> bool:
        """Whether all rows fit into memory with ease."""
        return len(self.y) <= LEARN_ROWS

    def in_memory(self) -> tuple[Any, NDArray[Any]]:
        """All inputs, a data frame if they have names, and targets."""
        return self.named(self.source.take(np.arange(len(self.y)))), self.y

    def named(self, X: Array) -> Any:
        """Inputs with the names of their columns."""
        if self.names is None:
            return X
        import pandas as pd

        return pd.DataFrame(X, columns=self.names)


def sampled_rows(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows that stand for all n where these are looked at: starts, pictures, relevance."""
    return np.arange(n) if n <= LEARN_ROWS else np.sort(rng.choice(n, LEARN_ROWS, replace=False))


def kept_rows(
    posterior: Posterior, X: Array, y: Array, index: NDArray[np.intp], n: int
) -> tuple[Posterior, TrainingRows]:
    """The posterior without its rows, and the few that are kept of n: X and y, whose numbers are `index`."""
    place = np.full(n, -1, dtype=np.intp)
    place[index] = np.arange(len(index))
    return posterior.without_rows(X, y), TrainingRows(X, y, None, place, source=index)


def blockwise(model: GP, X: RowSource) -> GP:
    """The model with a representation that takes rows in blocks."""
    if isinstance(model.representation, Inducing):
        return model
    return model.with_representation(Inducing(MOST_INDUCING)).for_rows(cast(Array, X))
