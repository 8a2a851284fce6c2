"""Every ```python block on every page runs, page by page, and prints what its comments promise.

Pages that a test of their own runs (it checks their output more closely) are not run twice.
"""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = {"_build", "api", "gallery", "studies"}

RUN_ELSEWHERE = {
    "docs/kernels.md": "kernels/test_kernel_docs.py",
    "docs/likelihoods.md": "likelihoods/test_likelihood_docs.py",
    "docs/em.md": "em/test_documentation.py",
    "docs/uncertain_inputs.md": "control/test_uncertain_documentation.py",
    "docs/classification.md": "estimators/test_estimator_docs.py",
    "docs/robust_regression.md": "estimators/test_estimator_docs.py",
    "docs/plots.md": "plots/test_plot_docs.py",
    "docs/model_files.md": "io/test_model_files_page.py",
}


def pages() -> list[Path]:
    """README and all pages that people write; results of studies are written by programs."""
    docs = ROOT / "docs"
    written = [p for p in sorted(docs.rglob("*.md")) if p.relative_to(docs).parts[0] not in BUILT]
    return [ROOT / "README.md", *written, docs / "studies" / "index.md"]


def blocks(page: Path) -> list[tuple[int, str]]:
    """Blocks of Python code of a page, each with the line it begins at."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)
    return [(text[: m.start(1)].count("\n"), m.group(1)) for m in found]


PAGES = {str(page.relative_to(ROOT)): blocks(page) for page in pages()}
OWN = [name for name, found in PAGES.items() if found and name not in RUN_ELSEWHERE]


def promised(code: str) -> list[str]:
    """What comments behind print statements say is printed: one line, without an explanation behind a colon."""
    ends = {
        node.end_lineno
        for node in ast.parse(code).body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "print"
    }
    comments = (re.search(r"\)\s+# (True|False|\[[^\]]*\])$", line) for line in code.splitlines())
    return [m[1] for i, m in enumerate(comments, 1) if m and i in ends]


def outputs(name: str) -> list[str]:
    """What the README says its code prints, behind the code."""
    page = (ROOT / name).read_text(encoding="utf-8") if name == "README.md" else ""
    return re.findall(r"^```\n(90 % between.*?)^```", page, re.S | re.M)


def words(text: str) -> str:
    """Without numbers, which depend on the machine in their last digits, and without spacing."""
    return " ".join(re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "0", text).split())


@pytest.mark.parametrize("name", OWN)
def test_code_on_the_page_runs(name, monkeypatch, tmp_path, capsys):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    warnings.simplefilter("error", UserWarning)  # what readers try first ends without a warning
    warnings.simplefilter("error", RuntimeWarning)
    for line, code in PAGES[name]:
        exec(
            compile("\n" * line + code, name, "exec"), namespace
        )  # so that a traceback names the line of the page
        printed = capsys.readouterr().out
        for text in promised(code):
            assert text in printed, f"{name} promises {text}"
        for shown in outputs(name):
            assert words(shown) in words(printed)


@pytest.mark.filterwarnings("ignore")
def test_commands_on_the_first_page_print_what_it_shows(monkeypatch, tmp_path):
    """In the folder where the page's code wrote the tables; with one run of the optimizer, to be quick."""
    from typer.testing import CliRunner

    from cavity.cli import app

    monkeypatch.chdir(tmp_path)
    code = next(code for _, code in PAGES["docs/start.md"] if "houses.csv" in code)
    exec(compile(code, "docs/start.md", "exec"), {})
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```console\n(\$ cavity fit.*?)^```", page, re.S | re.M)
    commands = re.split(r"^\$ cavity ", block, flags=re.M)[1:]
    assert len(commands) == 2
    for text in commands:
        command, _, shown = text.partition("\n")
        quick = ["--restarts", "0"] if command.startswith("fit") else []
        result = CliRunner().invoke(app, [*command.split(), *quick], env={"COLUMNS": "80"})
        assert result.exit_code == 0, result.output
        for piece in shown.split("...\n"):
            for line in piece.splitlines():
                assert words(line) in words(result.stdout), line


def test_commands_of_the_studies_run(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from cavity.cli import app

    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "studies" / "index.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ cavity (.*)$", page, re.M)
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output
    assert (tmp_path / "results" / "sample-paths" / "summary.md").exists()


def test_nothing_is_forgotten():
    assert len(OWN) >= 8
    assert len(outputs("README.md")) == 1
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (ROOT / "tests" / test).read_text(encoding="utf-8")
        assert PAGES[page]


def test_blocks_say_what_they_are():
    """A fence without a language would be neither run nor known to be text (README shows output that way)."""
    for name in PAGES:
        if name != "README.md":
            text = (ROOT / name).read_text(encoding="utf-8")
            fences = re.findall(r"^(?:```|:::)(.*)$", text, re.M)
            for opening in fences[::2]:
                assert opening in ("python", "console", "text", "{toctree}"), f"{name}: ```{opening}"


def test_the_promises_of_comments_are_read():
    assert promised("x = 1\nprint(x == 1)   # True\nprint(x)  # some number\n") == ["True"]


def test_links_between_pages_lead_somewhere():
    for name in PAGES:
        page = ROOT / name
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            generated = target.startswith(("http", "../gallery", "gallery/", "api/"))
            assert generated or (page.parent / target).exists(), f"{name}: {target}"
        for picture in re.findall(r"images/sphx_glr_(plot_\w+)_00\d\.png", page.read_text(encoding="utf-8")):
            assert (ROOT / "examples" / "gallery" / f"{picture}.py").exists(), f"{name}: {picture}"
