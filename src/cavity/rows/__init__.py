"""Training rows in blocks, wherever they are: in memory, in files, on other machines.

`base` has the protocol and arrays, `parquet` files that are read anew in every pass, `distributed` Dask. All need one
verb, `map_sum`: sums over the rows in an order that the rows alone decide, and values of each row.
"""

from typing import TYPE_CHECKING

from cavity.rows.base import ArrayRows, PartedRows, Pass, RowSource, as_rows

if TYPE_CHECKING:
    from cavity.rows.distributed import DaskRows as DaskRows
    from cavity.rows.parquet import ParquetRows as ParquetRows
    from cavity.rows.parquet import read_parquet as read_parquet

__all__ = [
    "ArrayRows",
    "DaskRows",
    "ParquetRows",
    "PartedRows",
    "Pass",
    "RowSource",
    "as_rows",
    "read_parquet",
]


def __getattr__(name: str) -> object:
    if name in ("ParquetRows", "read_parquet"):
        from cavity.rows import parquet

        return getattr(parquet, name)
    if name == "DaskRows":
        from cavity.rows.distributed import DaskRows

        return DaskRows
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
