"""The runner on a study of known numbers: what is stored, what is run again, what the table says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest

from cavity import studies
from cavity.datasets import DatasetNotFoundError
from cavity.studies import Cell, Outcome, Published, Study, Target
from cavity.studies.summary import as_markdown, cpu_per_fit

VALUES = {"a": [1.0, 2.0, 3.0], "b": [10.0, 10.0, 10.0]}


def measure(log: str, method: str, fold: int) -> Outcome:
    with Path(log).open("a") as file:
        file.write(f"{method}{fold}\n")
    if (method, fold) == ("b", 1) and Path(log).with_suffix(".broken").exists():
        raise RuntimeError("no solution here")
    return Outcome({"score": VALUES[method][fold]}, {"row": np.full(2, fold)}, note="fine")


def load_what_is_not_there() -> Outcome:
    raise DatasetNotFoundError("data set 'moon' was not found. Tried:\n  - the sky")


def work(seconds: float) -> Outcome:
    """Keeps a child busy for some seconds of processor time, and waits for it."""
    loop = f"import time\nwhile time.process_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-c", loop], check=True)
    return Outcome({"score": 0.0})


def number_of_process() -> Outcome:
    return Outcome({"process": os.getpid()})


REST = 1.0  # seconds; long beside the processor time of a cell that does nothing, even on a loaded machine


def rest() -> Outcome:
    time.sleep(REST)
    return Outcome({"score": 0.0})


def stop(**_: object) -> Outcome:
    raise KeyboardInterrupt


def keep_what_there_is() -> Outcome:
    """As learning and sampling do, which return what they have when Ctrl-C is pressed."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    return Outcome({"score": 0.0})


def small_study(log: Path, **changes: object) -> Study:
    def cells(quick: bool) -> list[Cell]:
        folds = 1 if quick else 3
        return [
            Cell({"fold": k, "method": m}, measure, {"log": str(log), "method": m, "fold": k})
            for k in range(folds)
            for m in VALUES
        ]

    def draw(results: studies.Results, folder: Path) -> list[Path]:
        (folder / "picture.png").write_bytes(b"")
        return [folder / "picture.png"]

    settings: dict[str, object] = {
        "measures": ("score", "absent"),
        "published": (Published({"method": "a"}, "score", 1.5),),
        "targets": (Target({"method": "a"}, "score", "<=", 1.9), Target({"method": "b"}, "score", ">=", 9)),
        "draw": draw,
        "remarks": lambda results: [f"{len(results.records)} cells"],
        "quick_note": "One fold of three.",
    }
    return Study("small", "A small study", "nowhere", cells, **(settings | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("jobs", [1, 2])
def test_table_and_files(tmp_path: Path, jobs: int) -> None:
    report = studies.run(small_study(tmp_path / "log"), n_jobs=jobs, out=tmp_path)
    assert report.finished
    table = report.table.set_index(["method", "measure"])
    a = table.loc[("a", "score")]
    assert a["ours"] == pytest.approx(2.0)
    assert a["fold noise"] == pytest.approx(1 / np.sqrt(3))
    assert a["difference"] == pytest.approx(0.5)
    assert a["target"] == "<= 1.9: missed"
    assert table.loc[("b", "score"), "target"] == ">= 9: met"
    assert np.isnan(table.loc[("b", "score"), "published"])
    page = (tmp_path / "small" / "summary.md").read_text()
    assert all(text in page for text in ("6 cells", "picture.png", "cavity reproduce small`"))
    assert len((tmp_path / "small" / "results.csv").read_text().splitlines()) == 7
    np.testing.assert_array_equal(report.results.arrays(fold=2, method="b")["row"], [2, 2])
    assert report.results.arrays(fold=9, method="b") == {}


def test_targets_on_the_median(tmp_path: Path) -> None:
    """The mean of 1, 2, 3 with one cell at 9 is decided by that cell; the median is not."""
    bounds = (
        Target({"method": "a"}, "score", "<=", 2.0, "median"),
        Target({"method": "b"}, "score", "<=", 9.5),
    )
    report = studies.run(small_study(tmp_path / "log", targets=bounds), out=tmp_path)
    table = report.table.set_index(["method", "measure"])
    assert table.loc[("a", "score"), "target"] == "median 2 <= 2: met"
    assert table.loc[("b", "score"), "target"] == "<= 9.5: missed"
    assert bounds[0].of(np.array([1.0, 2.0, 99.0])) == 2.0
    assert bounds[1].of(np.array([1.0, 2.0, 99.0])) == 34.0
    assert not bounds[0].met(bounds[0].of(np.array([])))


def test_processor_time_counts_children_and_not_waiting(tmp_path: Path) -> None:
    listed = [Cell({"method": "work"}, work, {"seconds": 0.3}), Cell({"method": "rest"}, rest)]
    report = studies.run(Study("times", "", "", lambda quick: listed), out=tmp_path)
    frame = report.results.frame.set_index("method")
    assert frame.loc["work", "cpu_seconds"] >= 0.29
    assert frame.loc["rest", "cpu_seconds"] < REST / 2 < REST <= frame.loc["rest", "seconds"]
    assert cpu_per_fit(report.results.frame).startswith("CPU seconds per fit: work 0.")
    provenance = json.loads((tmp_path / "times" / "run.json").read_text())
    assert provenance["cpu_seconds_of_all_cells"] == pytest.approx(frame["cpu_seconds"].sum(), abs=0.06)
    assert "CPU seconds of work in all cells" in (tmp_path / "times" / "summary.md").read_text()


def test_finished_cells_are_not_run_again_and_failed_ones_are(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.with_suffix(".broken").touch()
    report = studies.run(small_study(log), out=tmp_path)
    assert len(log.read_text().split()) == 6
    failed = report.table.set_index(["method", "measure"]).loc[("b", "score")]
    assert (failed["cells"], failed["failed"]) == (2, 1)
    assert any("no solution here" in remark for remark in report.remarks)
    log.with_suffix(".broken").unlink()
    report = studies.run(small_study(log), out=tmp_path)
    assert log.read_text().split()[6:] == ["b1"]
    assert not report.results.frame["error"].any()


@pytest.mark.parametrize("jobs", [1, 2])
def test_missing_data_end_the_run_with_their_message(tmp_path: Path, jobs: int) -> None:
    listed = [Cell({"fold": k}, load_what_is_not_there) for k in range(3)]
    study = Study("moon", "", "", lambda quick: listed)
    with pytest.raises(DatasetNotFoundError, match=r"'moon' was not found.*\n.*the sky"):
        studies.run(study, n_jobs=jobs, out=tmp_path)


def test_interrupted_run_keeps_what_is_done_and_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    whole = small_study(log)

    def cells(quick: bool) -> list[Cell]:
        return [
            Cell(c.labels, stop, c.arguments) if c.labels == {"fold": 1, "method": "a"} else c
            for c in whole.cells(quick)
        ]

    report = studies.run(replace(whole, cells=cells), out=tmp_path)
    assert not report.finished
    assert len(report.results.records) == 2
    assert any("again to go on" in remark for remark in report.remarks)
    report = studies.run(whole, out=tmp_path)
    assert report.finished
    assert sorted(log.read_text().split()) == ["a0", "a1", "a2", "b0", "b1", "b2"]


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_that_the_cell_has_caught_stops_the_run(tmp_path: Path, jobs: int) -> None:
    listed = [Cell({"method": "a"}, keep_what_there_is)]
    before = signal.getsignal(signal.SIGINT)
    report = studies.run(Study("half", "", "", lambda quick: listed), n_jobs=jobs, out=tmp_path)
    assert not report.finished
    assert not list((tmp_path / "half" / "cells").iterdir())
    assert signal.getsignal(signal.SIGINT) is before


def learn_twice(log: str) -> Outcome:
    """Two steps that each keep what they have when Ctrl-C is pressed; it comes in the first."""
    for step in ("first", "second"):
        with suppress(KeyboardInterrupt), open(log, "a", encoding="utf-8") as file:
            file.write(step)
            if step == "first":
                signal.raise_signal(signal.SIGINT)
    return Outcome({"score": 0.0})


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_ends_a_cell_of_several_steps_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    listed = [Cell({"method": "a"}, learn_twice, {"log": str(log)})]
    assert not studies.run(Study("steps", "", "", lambda quick: listed), out=tmp_path).finished
    assert log.read_text() == "first"


def test_quick_is_kept_apart_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log"
    report = studies.run(small_study(log), quick=True, out=tmp_path)
    assert report.folder.name == "small-quick"
    assert any("cut-down" in remark and "One fold" in remark for remark in report.remarks)
    assert report.table.set_index("method").loc["a", "target"] == "<= 1.9: not judged"
    assert len(log.read_text().split()) == 2
    studies.run(small_study(log), out=tmp_path)
    assert len(log.read_text().split()) == 8


def test_the_page_names_the_commits_at_which_cells_were_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small_study(tmp_path / "log")
    for commit, only in (("abc", ["a"]), ("def", None), ("ghi", None)):  # ghi: nothing left to run
        monkeypatch.setattr("cavity.studies.runner._commit", lambda commit=commit: commit)
        studies.run(study, out=tmp_path, only=only)
    assert "cells of commit abc, def, " in (tmp_path / "small" / "summary.md").read_text()


def test_a_study_that_is_quick_anyway_is_not_called_cut_down(tmp_path: Path) -> None:
    report = studies.run(small_study(tmp_path / "log", quick_note=""), quick=True, out=tmp_path)
    assert report.remarks[0].startswith("This is the whole study")
    assert report.table.set_index("method").loc["a", "target"] == "<= 1.9: met"


@pytest.mark.parametrize("name", studies.names())
def test_every_study_says_what_its_quick_version_leaves_out(name: str) -> None:
    study = studies.load(name)

    def settings(quick: bool) -> list[tuple[object, object]]:
        return [(dict(cell.labels), dict(cell.arguments)) for cell in study.cells(quick)]

    assert (settings(True) == settings(False)) == (study.quick_note == "")


def test_changed_arguments_and_corrupt_files_are_run_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    studies.run(small_study(log), quick=True, out=tmp_path)
    stored = tmp_path / "small-quick" / "cells"
    (stored / "fold-0__method-a.json").write_text("{")
    record = json.loads((stored / "fold-0__method-b.json").read_text())
    record["arguments"] = "other"
    (stored / "fold-0__method-b.json").write_text(json.dumps(record))
    studies.run(small_study(log), quick=True, out=tmp_path)
    assert log.read_text().split() == ["a0", "b0", "a0", "b0"]


@pytest.mark.parametrize(
    "damage", ["not a table", "no text", "half the arrays", "a changed byte", "no arrays"]
)
def test_damaged_cells_are_run_again(tmp_path: Path, damage: str) -> None:
    log = tmp_path / "log"
    studies.run(small_study(log), quick=True, out=tmp_path)
    record, arrays = (
        tmp_path / "small-quick" / "cells" / f"fold-0__method-a.{kind}" for kind in ("json", "npz")
    )
    stored = arrays.read_bytes()
    if damage == "not a table":
        record.write_text("[]")
    elif damage == "no text":
        record.write_bytes(b"\xff\xfe\x00")
    elif damage == "half the arrays":
        arrays.write_bytes(stored[: len(stored) // 2])
    elif damage == "a changed byte":
        arrays.write_bytes(stored[:60] + bytes([stored[60] ^ 1]) + stored[61:])
    else:
        arrays.unlink()
    report = studies.run(small_study(log), quick=True, out=tmp_path)
    assert log.read_text().split() == ["a0", "b0", "a0"]
    np.testing.assert_array_equal(report.results.arrays(fold=0, method="a")["row"], [0, 0])


def test_a_failed_cell_has_no_arrays_of_an_earlier_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    studies.run(small_study(log), out=tmp_path)
    (tmp_path / "small" / "cells" / "fold-1__method-b.json").unlink()
    log.with_suffix(".broken").touch()
    report = studies.run(small_study(log), out=tmp_path)
    assert report.results.arrays(fold=1, method="b") == {}


def test_cells_of_a_store_that_does_not_name_arrays_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    studies.run(small_study(log), quick=True, out=tmp_path)
    for path in (tmp_path / "small-quick" / "cells").glob("*.json"):
        record = json.loads(path.read_text())
        del record["arrays"]
        path.write_text(json.dumps(record))
    studies.run(small_study(log), quick=True, out=tmp_path)
    assert log.read_text().split() == ["a0", "b0"]


def test_only_some_cells_and_a_report_on_all(tmp_path: Path) -> None:
    log = tmp_path / "log"
    part = studies.run(small_study(log), out=tmp_path, only=["b"])
    assert log.read_text().split() == ["b0", "b1", "b2"]
    assert set(part.table["method"]) == {"b"}
    assert any("3 of its 6 cells have not been run" in remark for remark in part.remarks)
    studies.run(small_study(log), out=tmp_path, only=["a", "1"])  # a label of any name, as text
    assert log.read_text().split()[3:] == ["a0", "a1", "a2"]
    whole = studies.run(small_study(log), out=tmp_path)
    assert whole.remarks == ("6 cells",)
    with pytest.raises(ValueError, match="'c' is a label of no cell; the labels are 0, 1, 2, a, b"):
        studies.run(small_study(log), out=tmp_path, only=["a", "c"])


def test_pictures_that_need_cells_not_run(tmp_path: Path) -> None:
    def draw(results: studies.Results, folder: Path) -> list[Path]:
        raise KeyError("a")

    study = small_study(tmp_path / "log", draw=draw)
    part = studies.run(study, out=tmp_path, only=["b"])
    assert any("because cells are missing" in remark for remark in part.remarks)
    with pytest.raises(KeyError):
        studies.run(study, out=tmp_path)


@pytest.mark.parametrize("jobs", [0, 1.5])
def test_a_number_of_jobs_that_means_nothing(tmp_path: Path, jobs: int) -> None:
    with pytest.raises(ValueError, match=f"jobs must be a number of workers, or -1 .*, got {jobs}"):
        studies.run(small_study(tmp_path / "log"), n_jobs=jobs, out=tmp_path)


def test_cells_run_on_the_backend_that_joblib_is_told_of(tmp_path: Path) -> None:
    """Threads stand for a cluster: that they are used is seen from the process, which is this one."""
    cells = [Cell({"method": k}, number_of_process) for k in range(2)]
    with joblib.parallel_config(backend="threading"):
        report = studies.run(Study("where", "", "", lambda quick: cells), n_jobs=2, out=tmp_path)
    assert set(report.results.frame["process"]) == {os.getpid()}


def test_labels_must_differ(tmp_path: Path) -> None:
    twice = [Cell({"fold": 0}, stop), Cell({"fold": 0}, stop)]
    with pytest.raises(ValueError, match="1 cells have the labels of another"):
        studies.run(Study("twice", "", "", lambda quick: twice), out=tmp_path)


def test_unknown_study_names_the_others() -> None:
    with pytest.raises(ValueError, match="kl-directions"):
        studies.load("nothing")
    for name in studies.names():
        assert studies.load(name).name == name


def test_markdown_escapes_bars() -> None:
    import pandas as pd

    text = as_markdown(pd.DataFrame({"method": ["a|b"], "ours": [1 / 3], "published": [np.nan]}))
    assert text.splitlines()[-1] == "| a\\|b | 0.3333 |  |"


def runs_of(log: Path) -> int:
    return len(log.read_text().splitlines())


def test_a_table_that_was_kept_stands_for_cells(tmp_path: Path) -> None:
    """Where pictures need no arrays, `results.csv` alone is enough to draw the page again, or to go on."""
    log, folder = tmp_path / "log", tmp_path / "small"
    study = small_study(log, needs_arrays=False)
    first = studies.run(study, out=tmp_path, only=["a"])
    page = (folder / "summary.md").read_text()
    shutil.rmtree(folder / "cells")
    again = studies.run(study, out=tmp_path, only=["a"])
    assert runs_of(log) == 3
    assert (folder / "summary.md").read_text() == page
    assert [r["measures"] for r in again.results.records] == [r["measures"] for r in first.results.records]
    shutil.rmtree(folder / "cells")
    assert len(studies.run(study, out=tmp_path).results.records) == 6
    assert runs_of(log) == 6


def test_cells_with_arrays_are_not_taken_from_a_table(tmp_path: Path) -> None:
    log = tmp_path / "log"
    studies.run(small_study(log), out=tmp_path)
    shutil.rmtree(tmp_path / "small" / "cells")
    report = studies.run(small_study(log), out=tmp_path)
    assert runs_of(log) == 12
    assert report.results.arrays(fold=2, method="b")


def test_rows_that_failed_or_have_other_settings_are_run_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    broken = log.with_suffix(".broken")
    broken.touch()
    studies.run(small_study(log, needs_arrays=False), out=tmp_path)
    broken.unlink()
    shutil.rmtree(tmp_path / "small" / "cells")
    studies.run(small_study(log, needs_arrays=False), out=tmp_path)
    assert runs_of(log) == 7  # the one that had failed
    shutil.rmtree(tmp_path / "small" / "cells")
    other = tmp_path / "other"
    studies.run(small_study(other, needs_arrays=False), out=tmp_path)
    assert runs_of(other) == 6
    shutil.rmtree(tmp_path / "small" / "cells")
    table = tmp_path / "small" / "results.csv"
    table.write_text(table.read_text().replace("3.0", "three"))
    studies.run(small_study(other, needs_arrays=False), out=tmp_path)
    assert runs_of(other) == 7  # the one that cannot be read


@pytest.mark.parametrize("text", ["", "fold,method,score\n0,a,1.0\n", "\x00\x01", '"'])
def test_a_table_that_cannot_be_used_is_written_anew(tmp_path: Path, text: str) -> None:
    """Empty, of an earlier version, or no table at all."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "results.csv").write_text(text)
    report = studies.run(small_study(tmp_path / "log", needs_arrays=False), out=tmp_path)
    assert len(report.results.records) == 6
    assert len((folder / "results.csv").read_text().splitlines()) == 7
