"""A full disk, and places for no file: said by name, before learning if that can be known, and nothing is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import cavity
from cavity.cli import app
from cavity.runtime.atomic import replaced

X = np.random.default_rng(0).uniform(0, 5, 12).round(2)
TABLE = pd.DataFrame({"x": X, "y": np.sin(X).round(3)})


@pytest.fixture
def data(tmp_path):
    for name in ("full", "spare", "home", "here"):
        (tmp_path / name).mkdir()
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


@pytest.fixture
def full(data, monkeypatch):
    """Folders in which every write fails as on a full disk, others as usual."""
    folders = {"full"}

    def refusing(real):
        def write(self, content, *arguments, **options):
            if self.parent.name in folders:
                raise OSError(
                    errno.ENOSPC, os.strerror(errno.ENOSPC)
                )  # as a write to an open file does, without a name
            return real(self, content, *arguments, **options)

        return write

    monkeypatch.setattr(Path, "write_bytes", refusing(Path.write_bytes))
    monkeypatch.setattr(Path, "write_text", refusing(Path.write_text))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(data / "spare"))
    monkeypatch.setattr(Path, "home", lambda: data / "home")
    monkeypatch.chdir(data / "here")
    return folders


def fit(data, out, *more, **options):
    arguments = ["fit", data / "t.csv", "--target", "y", "--restarts", "0", "--test-size", "0", "--out", out]
    arguments += ["--likelihood", "gaussian", *more]
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"}, **options)


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_finds_no_room_is_written_elsewhere(data, full):
    (data / "spare" / "m.cavity").write_text("someone else's")
    result = fit(data, data / "full" / "m.cavity")
    assert result.exit_code == 1
    lines = result.stderr.replace("\n", " ")
    assert f"Error: {data / 'full' / 'm.cavity'}: No space left on device" in lines
    assert f"It was written to {data / 'spare' / 'm-1.cavity'} instead." in lines
    assert f"Model: {data / 'spare' / 'm-1.cavity'}" in result.stdout
    last = f"could not be written, see above; it is in {data / 'spare' / 'm-1.cavity'}."
    assert lines.rstrip().endswith(last)
    assert cavity.load(data / "spare" / "m-1.cavity").report.rows == 12
    assert (data / "spare" / "m.cavity").read_text() == "someone else's"
    assert not list((data / "full").iterdir())


@pytest.mark.filterwarnings("ignore")
def test_a_report_that_finds_no_room_does_not_take_the_verdict_with_it(data, full):
    result = fit(data, data / "here" / "m.cavity", "--report", data / "full" / "r.html")
    assert result.exit_code == 1
    assert f"Report: {data / 'spare' / 'r.html'}" in result.stdout
    assert "How good: " in result.stdout
    assert result.stderr.rstrip().endswith(f"it is in {data / 'spare' / 'r.html'}.")
    assert "<html" in (data / "spare" / "r.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")
def test_without_any_room_and_nobody_to_ask_it_is_an_error(data, full):
    full |= {"spare", "home", "here"}
    result = fit(data, data / "full" / "m.cavity")
    assert result.exit_code == 1
    assert "could not be written, nor any other place; make room, and run it again" in result.stderr.replace(
        "\n", " "
    )


@pytest.mark.filterwarnings("ignore")
def test_at_a_terminal_the_model_waits_for_a_place(data, full, monkeypatch):
    full |= {"spare", "home", "here"}
    answers = iter(["", "again", "elsewhere"])

    def ask(text, default, err):
        assert "Nothing is lost yet" in text
        answer = next(answers)
        if answer == "elsewhere":
            (data / "roomy").mkdir()
            return str(data / "roomy" / "m.cavity")
        return default

    monkeypatch.setattr("cavity.cli.safe_saving.typer.prompt", ask)
    monkeypatch.setattr(
        "cavity.cli.safe_saving.sys", type("", (), {"stdin": type("", (), {"isatty": lambda: True})})
    )
    result = fit(data, data / "full" / "m.cavity")
    assert cavity.load(data / "roomy" / "m.cavity").report.rows == 12
    assert result.stderr.count("No space left on device") == 3
    assert result.exit_code == 1  # it is not where it was asked for


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            "/proc/x.cavity",
            "the folder /proc cannot be written to, so that --out cannot write /proc/x.cavity",
        ),
        ("/dev/null", "/dev/null is a device or a pipe; give --out the name of a file"),
        ("pipe", "is a device or a pipe"),
    ],
)
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="of Linux")
def test_places_for_no_file_are_found_before_learning(data, out, message, monkeypatch):
    monkeypatch.chdir(data)
    os.mkfifo("pipe")
    result = fit(data, out)
    assert result.exit_code == 1
    assert message in result.stderr.replace("\n", " ")
    assert "Learning" not in result.stderr
    assert Path("/dev/null").is_char_device()


def test_errors_of_the_system_name_the_file_that_was_meant(tmp_path):
    with pytest.raises(OSError, match="No space left") as found, replaced(tmp_path / "a.csv"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert found.value.filename == str(tmp_path / "a.csv")
    with pytest.raises(PermissionError) as found, replaced(tmp_path / "a.csv") as partial:
        raise PermissionError(errno.EACCES, "Permission denied", str(partial))
    assert found.value.filename == str(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError) as found, replaced(tmp_path / "a.csv"):
        Path(tmp_path / "other").read_text()  # another file keeps its name
    assert found.value.filename == str(tmp_path / "other")
    with pytest.raises(FileNotFoundError) as found, replaced(tmp_path / "none" / "a.csv"):
        pass
    assert "none" in found.value.filename
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_the_screen_is_said_in_words(data):
    assert fit(data, data / "m.cavity").exit_code == 0
    command = [sys.executable, "-m", "cavity", "predict", data / "m.cavity", data / "t.csv"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.strip() == "Error: the output: No space left on device"


def test_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"), replaced(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()
