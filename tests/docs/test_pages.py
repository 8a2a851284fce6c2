"""Every ```python block on every page runs, page by page, and prints what its comments promise.

Pages that a test of their own runs (it checks their output more closely) are not run twice.
"""

from __future__ import annotations

import ast
import re
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


@pytest.mark.parametrize("name", OWN)
def test_code_on_the_page_runs(name, monkeypatch, tmp_path, capsys):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    for line, code in PAGES[name]:
        exec(
            compile("\n" * line + code, name, "exec"), namespace
        )  # so that a traceback names the line of the page
        printed = capsys.readouterr().out
        for text in promised(code):
            assert text in printed, f"{name} promises {text}"


def test_nothing_is_forgotten():
    assert len(OWN) >= 8
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
