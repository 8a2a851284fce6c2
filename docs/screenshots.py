"""Makes pictures of the documentation: terminal.png, report.png, report_phone.png, demo.png, assess.png.

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


def shoot(page: Path, out: Path, width: int, height: int, scheme: str = "light") -> None:
    """A page as a PNG."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise SystemExit("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        shown: Any = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
        tab = browser.new_context(**shown).new_page()
        tab.goto(page.resolve().as_uri())
        tab.screenshot(path=out)
        browser.close()


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
    shoot(folder / "report.html", HERE / "report_phone.png", 390, 1700, "dark")
    terminal(folder.resolve())
    from cavity.demo import run

    shutil.copyfile(run(folder / "demo", max_time=2.0).picture, HERE / "demo.png")
    assessment()


if __name__ == "__main__":
    main()
