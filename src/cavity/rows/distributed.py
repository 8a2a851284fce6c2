"""Rows of partitions that the workers of `dask.distributed` hold.

A pass is sent to the workers once, and returns the sums of each partition and its vectors. Inputs stay where they are.
Partitions are held by tasks that can be repeated: if a worker dies, another one reads its partitions again and the pass
goes on. Sums are added up in the order of partitions, so that results do not depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.rows.base import Arrays, PartedRows, Pass, RowSource, added, run
from cavity.rows.parquet import Numbers, ParquetRows, Part, RowsError, read_part

if TYPE_CHECKING:
    import pandas as pd

RETRIES = 3
"""How often a pass is begun again after an error on a worker. Of workers that die the scheduler takes care."""

CONNECT_SECONDS = 10.0
"""How long to wait for a scheduler."""


class DaskRows(RowSource):
    """Inputs (n, D) in partitions on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of futures
        Each an array (n_k, D).
    sizes : sequence of int
        n_k.
    columns : int
        D.
    """

    def __init__(self, client: Any, parts: Sequence[Any], sizes: Sequence[int], columns: int) -> None:
        self.client, self.futures, self.sizes = client, list(parts), tuple(sizes)
        self.shape = (sum(self.sizes), columns)

    @classmethod
    def of_parquet(cls, rows: ParquetRows, client: Any) -> DaskRows:
        """Files that the workers read themselves."""
        parts = [
            client.submit(read_part, piece, rows.columns, rows.decode, pure=False) for piece in rows.pieces
        ]
        found = cls(client, parts, rows.sizes, rows.shape[1])
        found._wait()
        return found

    def _wait(self) -> None:
        """Until all partitions were read, so that what is wrong with them is said now."""
        from distributed import wait

        wait(self.futures)
        for future in self.futures:
            if future.status == "error":
                future.result()

    def map_sum(self, task: Pass, *given: Array) -> tuple[Arrays, Arrays]:
        """Partitions wherever they are."""
        from concurrent.futures import CancelledError

        for attempt in range(RETRIES):
            try:
                return added(self._results(task, given), self.sizes)
            except CancelledError:  # every worker that held the pass died
                if attempt == RETRIES - 1:
                    raise
        raise AssertionError

    def _results(self, task: Pass, given: Sequence[Array]) -> Iterator[tuple[Arrays, Arrays]]:
        client = self.client
        sent = client.scatter(task, broadcast=True, hash=False)
        ends = np.cumsum((0, *self.sizes))
        futures = [
            client.submit(
                _on_worker, sent, part, int(a), [v[a:b] for v in given], pure=False, retries=RETRIES
            )
            for part, a, b in zip(self.futures, ends, ends[1:])
        ]
        yield from client.gather(futures)

    def take(self, index: NDArray[np.intp]) -> Array:
        """Some rows, from the partitions that have them."""
        ends = np.cumsum((0, *self.sizes))
        wanted = [
            self.client.submit(_some, part, index[(index >= a) & (index < b)] - a, pure=False)
            for part, a, b in zip(self.futures, ends, ends[1:])
        ]
        return np.concatenate(self.client.gather(wanted))


def _on_worker(task: Pass, X: Array, first: int, given: Sequence[Array]) -> tuple[Arrays, Arrays]:
    return run(task, X, first, given)


def _some(X: Array, index: NDArray[np.intp]) -> Array:
    return X[index]


class DelayedRows(PartedRows):
    """Partitions of a Dask collection, computed one after the other in every pass, without a cluster."""

    def __init__(self, parts: Sequence[Any], sizes: Sequence[int], columns: int) -> None:
        self.delayed = list(parts)
        super().__init__(sizes, columns)

    def parts(self) -> Iterator[Array]:
        """Inputs of each partition."""
        for part in self.delayed:
            yield part.compute()


def is_dask_frame(X: Any) -> bool:
    """Whether something is a data frame of Dask, without loading Dask."""
    return type(X).__module__.startswith(("dask.", "dask_expr.")) and hasattr(X, "to_delayed")


def rows_of_frame(frame: Any, target: str) -> tuple[RowSource, Array, list[str]]:
    """Inputs in partitions, the target (n,) in memory, and the names of the inputs, of a Dask data frame."""
    from dask import delayed

    names = [str(name) for name in frame.columns]
    if target not in names:
        raise RowsError(f"there is no column {target!r} in the data frame; there are {', '.join(names)}")
    columns = [name for name in names if name != target]
    parts = frame.to_delayed()
    inputs = [delayed(_numbers)(part, tuple(columns), k) for k, part in enumerate(parts)]
    targets = [delayed(_numbers)(part, (target,), k) for k, part in enumerate(parts)]
    client = _client()
    if client is None:
        y = [part.compute()[:, 0] for part in targets]
        return (
            _nonempty(DelayedRows(inputs, [len(part) for part in y], len(columns))),
            np.concatenate(y),
            columns,
        )
    futures = client.compute(inputs)
    y = [part[:, 0] for part in client.gather(client.compute(targets))]
    rows = DaskRows(client, futures, [len(part) for part in y], len(columns))
    rows._wait()
    return _nonempty(rows), np.concatenate(y), columns


def _nonempty(rows: Any) -> Any:
    """Without partitions that have no rows."""
    kept = [k for k, size in enumerate(rows.sizes) if size]
    if not kept:
        raise RowsError("the data frame has no rows")
    sizes = [rows.sizes[k] for k in kept]
    if isinstance(rows, DaskRows):
        return DaskRows(rows.client, [rows.futures[k] for k in kept], sizes, rows.shape[1])
    return DelayedRows([rows.delayed[k] for k in kept], sizes, rows.shape[1])


def _numbers(frame: pd.DataFrame, columns: tuple[str, ...], partition: int) -> Array:
    return Numbers(columns)(frame, Part(f"partition {partition}", 0, 0, len(frame), 1))


def _client() -> Any:
    """The client that is running, if there is one."""
    try:
        from distributed import default_client
    except ImportError:
        return None
    try:
        return default_client()
    except ValueError:
        return None


def connect(address: str) -> Any:
    """A client of the scheduler at an address."""
    try:
        from distributed import Client
    except ImportError:
        raise RowsError(
            f"the scheduler {address} needs the package distributed",
            remedy="install it with pip install 'cavity[distributed]'",
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise RowsError(
            f"there is no scheduler at {address} ({why})",
            remedy="start one with dask scheduler, or leave it out",
        ) from None
    if not client.scheduler_info().get("workers"):
        client.close()
        raise RowsError(f"the scheduler at {address} has no workers", remedy="start some with dask worker")
    return client
