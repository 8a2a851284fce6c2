"""The wheel holds all that is needed: installed into an empty environment, it runs the demonstration."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints, run without this source tree on the path."""
    environment = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("cavity-*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {f"cavity/{p.relative_to(ROOT / 'src/cavity')}" for p in (ROOT / "src/cavity").rglob("*.py")}
    assert sources <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"cavity"}


@pytest.mark.slow
def test_the_wheel_runs_the_demonstration_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    folder = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    constraints = ROOT / "constraints.txt"
    run(
        folder / "python", "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel, cwd=tmp_path
    )
    place = run(folder / "python", "-c", "import cavity; print(cavity.__file__)", cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(tmp_path)
    printed = run(folder / "cavity", "demo", "--out", "demo", "--max-time", "1", cwd=tmp_path)
    assert "Student-t noise" in printed
    assert {path.suffix for path in (tmp_path / "demo").iterdir()} == {".png", ".html"}
