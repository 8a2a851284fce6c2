"""Run a study: cells in parallel, stored as they finish, resumed where a run was stopped, then table and pictures."""

from __future__ import annotations

import json
import os
import subprocess
import time
import traceback
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

import cavity
from cavity.datasets import DatasetNotFoundError
from cavity.runtime.errors import InputError
from cavity.runtime.interrupts import not_swallowed
from cavity.runtime.progress import Progress, quiet
from cavity.studies.base import Cell, Results, Study
from cavity.studies.store import Store, Tabled, write_table
from cavity.studies.summary import as_markdown, summarize


@dataclass(frozen=True)
class Report:
    """What a run leaves: the cells, the summary, pictures, remarks, and where they are.

    Examples
    --------
    >>> import tempfile
    >>> from cavity import studies
    >>> nothing = studies.Study("nothing", "A study without cells", "", cells=lambda quick: [])
    >>> report = studies.run(nothing, quick=True, out=tempfile.mkdtemp(), progress=False)
    >>> report.folder.name, len(report.table)
    ('nothing-quick', 0)
    """

    study: Study
    results: Results
    table: pd.DataFrame
    pictures: tuple[Path, ...]
    remarks: tuple[str, ...]
    folder: Path
    finished: bool


def run(
    study: Study,
    *,
    quick: bool = False,
    n_jobs: int = 1,
    out: str | Path = "cavity-studies",
    only: Collection[str] | None = None,
    progress: bool | None = None,
) -> Report:
    """Run what is left of a study and write table and pictures.

    Parameters
    ----------
    study : Study
    quick : bool
        The cut-down version, under three minutes.
    n_jobs : int
        Worker processes, -1 for one on each core. Other than with 1, cells are run by joblib: the backend chosen by
        ``joblib.parallel_config`` is used, be it threads or a Dask cluster.
    out : path
        Results go to ``out/NAME`` or ``out/NAME-quick``. Cells found there are not run again, nor, if the study
        needs no arrays, those that a ``results.csv`` there has.
    only : collection of str, optional
        Run no other cells than those with one of these among their labels, usually names of methods. The report is
        about all cells found, as it always is.
    progress : bool, optional
        By default on terminals.

    Returns
    -------
    Report
        With ``finished=False`` if the run was interrupted; what was finished is stored.

    Raises
    ------
    DatasetNotFoundError
        Where data of a cell are not found. Cells that fail in other ways are part of the report.

    Examples
    --------
    >>> import tempfile
    >>> from cavity import studies
    >>> nothing = studies.Study("nothing", "A study without cells", "", cells=lambda quick: [])
    >>> report = studies.run(nothing, quick=True, out=tempfile.mkdtemp(), progress=False)
    >>> report.finished
    True
    """
    if not isinstance(n_jobs, int) or n_jobs == 0:
        problem = f"must be a number of workers, or -1 for one on each core, got {n_jobs!r}"
        raise InputError(problem, parameter="n_jobs", value=n_jobs)
    folder = Path(out) / (study.name + ("-quick" if quick else ""))
    protocol = f"{study.name} {'quick' if quick else 'full'}"
    store, tabled = Store(folder, protocol), None if study.needs_arrays else Tabled(folder, protocol)
    cells = study.cells(quick)
    repeated = len(cells) - len({cell.slug for cell in cells})
    if repeated:
        raise ValueError(f"study {study.name!r}: {repeated} cells have the labels of another cell")
    records = {
        cell.slug: found
        for cell in cells
        if (found := store.find(cell) or (tabled and tabled.find(cell)) or None)
    }
    chosen = cells if only is None else _with_labels(cells, only)
    todo = [cell for cell in chosen if cell.slug not in records]
    started, finished, commit = time.monotonic(), True, _commit()
    with Progress(study.name, len(chosen), progress, done=len(chosen) - len(todo)) as shown:
        shown.refresh(at_once=bool(todo))
        try:
            for position, record, arrays in _work(todo, n_jobs):
                cell = todo[position]
                records[cell.slug] = store.put(cell, {**record, "commit": commit}, arrays)
                shown.advance(" ".join(map(str, cell.labels.values())))
        except KeyboardInterrupt:
            finished = False
    results = Results([records[c.slug] for c in cells if c.slug in records], folder, quick)
    left = len(cells) - len(records)
    return _report(study, results, folder, finished, left, n_jobs, time.monotonic() - started)


def _with_labels(cells: list[Cell], only: Collection[str]) -> list[Cell]:
    """The cells that have one of these among their labels; each must be a label of some cell."""
    known = {str(value) for cell in cells for value in cell.labels.values()}
    if unknown := sorted(set(only) - known):
        raise ValueError(f"{unknown[0]!r} is a label of no cell; the labels are {', '.join(sorted(known))}")
    return [cell for cell in cells if not set(only).isdisjoint(map(str, cell.labels.values()))]


def _work(cells: list[Cell], jobs: int) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Position, record and arrays of each cell, in the order in which they finish."""
    from joblib import Parallel, delayed

    if jobs == 1:
        yield from ((i, *_run_cell(cell)) for i, cell in enumerate(cells))
        return
    tasks = (delayed(_placed)(i, cell) for i, cell in enumerate(cells))
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)


def _placed(position: int, cell: Cell) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """In a worker: one BLAS thread each, because the cells are what runs in parallel."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        return position, *_run_cell(cell)


def _run_cell(cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    started, work = time.perf_counter(), _cpu_seconds()
    record: dict[str, Any] = {"measures": {}, "note": "", "error": ""}
    arrays: dict[str, Any] = {}
    with not_swallowed(), quiet():
        try:
            outcome = cell.function(**cell.arguments)
        except DatasetNotFoundError:  # no other cell on these data would do better
            raise
        except Exception:  # a method that fails on one fold is a result, not the end of the study
            record["error"] = traceback.format_exc()
        else:
            record["measures"] = {name: float(value) for name, value in outcome.measures.items()}
            record["note"], arrays = outcome.note, dict(outcome.arrays)
    record["seconds"] = time.perf_counter() - started
    record["cpu_seconds"] = _cpu_seconds() - work
    return record, arrays


def _cpu_seconds() -> float:
    """Processor time of this process and of those it started and waited for; other work does not lengthen it."""
    return sum(os.times()[:4])


def _report(
    study: Study, results: Results, folder: Path, finished: bool, left: int, jobs: int, seconds: float
) -> Report:
    table = summarize(study, results)
    remarks: list[str] = []
    if results.quick and study.quick_note:
        remarks.append(
            f"This is the cut-down version, not the study. {study.quick_note} Run it without --quick for the figures."
        )
    elif results.quick:
        remarks.append("This is the whole study: it is quick, so that --quick leaves nothing out.")
    if finished and left:
        remarks.append(
            f"Not the whole study: {left} of its {left + len(results.records)} cells have not been run."
        )
    failed = [r for r in results.records if r["error"]]
    remarks += [f"failed: {r['slug']}: {r['error'].strip().splitlines()[-1]}" for r in failed]
    pictures: list[Path] = []
    if finished:
        try:
            remarks += study.remarks(results)
            pictures = study.draw(results, folder)
        except (KeyError, IndexError, ValueError) as error:
            if not failed and not left:
                raise
            why = "cells failed" if failed else "cells are missing"
            remarks.append(f"pictures not drawn, because {why} ({error!r})")
    else:
        remarks.append("Interrupted: run the same command again to go on from here.")
    write_table(results.frame, results.records, folder)
    table.to_csv(folder / "summary.csv", index=False)
    provenance = _provenance(results, jobs, seconds)
    (folder / "run.json").write_text(json.dumps(provenance, indent=1), encoding="utf-8")
    (folder / "summary.md").write_text(
        _page(study, results, table, remarks, pictures, provenance), encoding="utf-8"
    )
    return Report(study, results, table, tuple(pictures), tuple(remarks), folder, finished)


def _provenance(results: Results, jobs: int, seconds: float) -> dict[str, Any]:
    return {
        "version": cavity.__version__,
        "commit": ", ".join(dict.fromkeys(r["commit"] for r in results.records if r.get("commit"))),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "jobs": jobs,
        "seconds_of_this_call": round(seconds, 1),
        "seconds_of_all_cells": round(sum(r["seconds"] for r in results.records), 1),
        "cpu_seconds_of_all_cells": round(
            sum(r.get("cpu_seconds", r["seconds"]) for r in results.records), 1
        ),
    }


def _commit() -> str:
    """Commit of the checkout that runs, or "" for an installed package."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(cavity.__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


def _page(
    study: Study,
    results: Results,
    table: pd.DataFrame,
    remarks: list[str],
    pictures: list[Path],
    provenance: dict[str, Any],
) -> str:
    option = " --quick" if results.quick else ""
    lines = [f"# {study.title}", "", f"Source: {study.source}.", ""]
    lines += [as_markdown(table), ""] if len(table) else []
    lines += [f"- {remark}" for remark in remarks] + [""]
    lines += [f"![{path.stem}]({path.relative_to(results.folder).as_posix()})\n" for path in pictures]
    commits = f", cells of commit {provenance['commit']}" if provenance["commit"] else ""
    lines.append(
        f"Made by `cavity reproduce {study.name}{option}` with cavity {provenance['version']}{commits}, "
        f"{provenance['date']}, {provenance['cores']} cores; "
        f"{provenance['cpu_seconds_of_all_cells']:.0f} CPU seconds of work in all cells."
    )
    return "\n".join(lines) + "\n"
