"""What a study is: data and protocol as a list of cells, measures, published numbers, pictures.

A *cell* is the smallest unit of work, nearly always one fold (or data set) times one method. It knows how to run
itself and is named by its labels, for instance ``{"set": 3, "method": "lapEP"}``. The runner
(`cavity.studies.runner`) runs cells in any order and on any worker, and stores each as it finishes; a study must
therefore put everything a cell needs, its seed included, into the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Label = str | int | float


@dataclass(frozen=True)
class Outcome:
    """What a cell found.

    Attributes
    ----------
    measures : mapping of str to float
        Numbers for the table.
    arrays : mapping of str to array
        What pictures need.
    note : str
        Anything a reader should know of this cell, in a sentence.

    Examples
    --------
    >>> from cavity.studies import Outcome
    >>> Outcome({"error": 0.25}, note="a short run").measures["error"]
    0.25
    """

    measures: Mapping[str, float]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """One unit of work: `function(**arguments)` gives an `Outcome`.

    The function must be importable and the arguments small values, so that a cell can travel to another process.

    Examples
    --------
    >>> from cavity.studies import Cell, Outcome
    >>> cell = Cell({"method": "ep", "seed": 1}, Outcome, {"measures": {"error": 0.25}})
    >>> cell.slug, cell.function(**cell.arguments).measures
    ('method-ep__seed-1', {'error': 0.25})
    """

    labels: Mapping[str, Label]
    function: Callable[..., Outcome]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """A file name made of the labels."""
        text = "__".join(f"{name}-{value}" for name, value in self.labels.items())
        return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)


@dataclass(frozen=True)
class Published:
    """A number in print: for these labels, this measure has this value.

    Examples
    --------
    >>> from cavity.studies import Published
    >>> Published({"method": "ep"}, "error", 0.2, "Table 3").value
    0.2
    """

    labels: Mapping[str, Label]
    measure: str
    value: float
    where: str = ""


@dataclass(frozen=True)
class Target:
    """A bound that a measure, for these labels, should meet: ``sense`` is "<=" or ">=".

    It is about the mean over cells, or with ``statistic="median"`` about the median, for measures whose mean is decided
    by the hardest cell.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.studies import Target
    >>> target = Target({"method": "ep"}, "error", "<=", 0.3, statistic="median")
    >>> target.met(target.of(np.array([0.2, 0.25, 0.9])))
    True
    """

    labels: Mapping[str, Label]
    measure: str
    sense: str
    bound: float
    statistic: str = "mean"

    def of(self, values: NDArray[np.float64]) -> float:
        """The statistic of these values; nan if there are none."""
        if not len(values):
            return float("nan")
        return float(np.median(values) if self.statistic == "median" else np.mean(values))

    def met(self, value: float) -> bool:
        """Whether a value meets the bound."""
        return bool(value <= self.bound if self.sense == "<=" else value >= self.bound)


class Results:
    """All cells of a run that are finished.

    Parameters
    ----------
    records : sequence of dict
        One per cell: `labels`, `measures`, `seconds`, `cpu_seconds`, `note`, `error`.
    folder : Path
        Where arrays and pictures are.
    quick : bool
        Whether this was the cut-down version.

    Examples
    --------
    >>> from pathlib import Path
    >>> from cavity.studies import Results
    >>> record = {"labels": {"method": "ep"}, "measures": {"error": 0.2}}
    >>> record |= {"seconds": 1.0, "note": "", "error": ""}
    >>> len(Results([record], Path(), quick=True).frame)
    1
    """

    def __init__(self, records: Sequence[Mapping[str, Any]], folder: Path, quick: bool) -> None:
        self.records, self.folder, self.quick = list(records), folder, quick

    @property
    def frame(self) -> pd.DataFrame:
        """One row per cell: labels, measures, seconds of the clock and of the CPU, note, error (empty without one)."""
        rows = [
            {
                **r["labels"],
                **r["measures"],
                "seconds": r["seconds"],
                "cpu_seconds": r.get("cpu_seconds", np.nan),
                "note": r["note"],
                "error": r["error"].strip().splitlines()[-1] if r["error"] else "",
            }
            for r in self.records
        ]
        return pd.DataFrame(rows)

    def arrays(self, **labels: Label) -> dict[str, NDArray[Any]]:
        """Stored arrays of the one cell with these labels; empty if it has none or failed."""
        for record in self.records:
            if all(record["labels"].get(name) == value for name, value in labels.items()):
                path = self.folder / "cells" / f"{record['slug']}.npz"
                if not path.exists():
                    return {}
                with np.load(path, allow_pickle=False) as stored:
                    return {name: stored[name] for name in stored.files}
        return {}


def _no_pictures(results: Results, folder: Path) -> list[Path]:
    return []


def _no_remarks(results: Results) -> list[str]:
    return []


@dataclass(frozen=True)
class Study:
    """A reproduced experiment.

    Attributes
    ----------
    name, title, source : str
        What to call it on the command line, what it shows, and where it is published.
    cells : callable
        ``cells(quick)``: the list of cells of the full or of the cut-down version.
    measures : tuple of str
        Columns of the summary, in this order.
    by : tuple of str
        Labels that rows of the summary stand for; all others are averaged over (folds, data sets).
    published : tuple of Published
    targets : tuple of Target
    draw : callable
        ``draw(results, folder)`` writes pictures and returns their paths.
    remarks : callable
        ``remarks(results)``: sentences that only the results can tell.
    quick_note : str
        What the cut-down version leaves out; empty if it is the whole study, because that is quick.
    needs_arrays : bool
        Whether pictures or remarks need arrays of the cells; without them a table of measures is enough to draw them.

    Examples
    --------
    >>> from cavity import studies
    >>> study = studies.load("two-arcs")
    >>> len(study.cells(True)) <= len(study.cells(False))
    True
    """

    name: str
    title: str
    source: str
    cells: Callable[[bool], list[Cell]]
    measures: tuple[str, ...] = ()
    by: tuple[str, ...] = ("method",)
    published: tuple[Published, ...] = ()
    targets: tuple[Target, ...] = ()
    draw: Callable[[Results, Path], list[Path]] = _no_pictures
    remarks: Callable[[Results], list[str]] = _no_remarks
    quick_note: str = ""
    needs_arrays: bool = True
