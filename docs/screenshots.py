"""Makes pictures of the documentation: terminal.png, report.png, demo.png, assess.png.

Usage: python docs/screenshots.py [folder with the results of examples/newcomer.sh]. Needs chromium.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WIDTH = 92


def terminal(folder: Path) -> None:
    """What `cavity fit` prints, in the colors of a terminal."""
    from rich.console import Console
    from typer.testing import CliRunner

    from cavity.cli import app, shared

    class Terminal(Console):
        """Breaks long lines, as a terminal does."""

        def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
            super().print(*objects, **options)

    options: dict[str, Any] = {"file": io.StringIO(), "highlight": False, "markup": False}
    recording = Terminal(record=True, width=WIDTH, force_terminal=True, **options)
    shared.console = lambda *, stderr=False: recording  # type: ignore[assignment]
    command = ["fit", "fields.csv", "--target", "harvest", "--drop", "id", "--restarts", "0"]
    recording.print("$ cavity " + " ".join(command), style="bold")
    os.chdir(folder)
    result = CliRunner().invoke(app, [*command, "--out", "fields.cavity"])
    if result.exit_code:
        raise SystemExit(result.output)
    svg = recording.export_svg(title="cavity fit")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # fonts would come from elsewhere
    width, height = (round(float(v)) for v in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
    page = folder / "terminal.html"
    page.write_text(
        "<meta charset='utf-8'>"
        "<style>body{margin:0} text{font-family:'DejaVu Sans Mono',monospace!important}</style>" + svg,
        encoding="utf-8",
    )
    shoot(page, HERE / "terminal.png", width, height)


def shoot(page: Path, out: Path, width: int, height: int) -> None:
    """A page as a PNG."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("chromium is not installed")
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"]
    subprocess.run(
        [browser, *options, f"--screenshot={out}", page.resolve().as_uri()], check=True, capture_output=True
    )


def assessment() -> None:
    """The picture of guides/trust.md, made by the code on that page."""
    page = (HERE / "guides" / "trust.md").read_text(encoding="utf-8")
    code = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "plot()" in block)
    names: dict[str, Any] = {}
    exec(code, names)
    names["figure"].savefig(HERE / "assess.png")


def main() -> None:
    """All of them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    if not (folder / "report.html").exists():
        subprocess.run(["sh", str(HERE.parent / "examples" / "newcomer.sh"), str(folder)], check=True)
    shoot(folder / "report.html", HERE / "report.png", 1000, 1950)
    terminal(folder.resolve())
    from cavity.demo import run

    shutil.copyfile(run(folder / "demo", max_time=2.0).picture, HERE / "demo.png")
    assessment()


if __name__ == "__main__":
    main()
