"""Tables in: files of rows and columns, what their columns mean, and models that remember both.

`read_table` and `read_blocks` read CSV, TSV and Parquet; `Preparation` says how a table becomes inputs X and targets
y; `TableModel` holds a preparation and a fitted estimator, so that a model file alone can predict for a new table;
`OutputsModel` is the same of several targets.
"""

from cavity.frames.errors import TableError
from cavity.tables.model import TableModel
from cavity.tables.outputs import OutputsModel
from cavity.tables.preparation import Preparation, prepare
from cavity.tables.reading import Table, read_blocks, read_table

__all__ = [
    "OutputsModel",
    "Preparation",
    "Table",
    "TableError",
    "TableModel",
    "prepare",
    "read_blocks",
    "read_table",
]
