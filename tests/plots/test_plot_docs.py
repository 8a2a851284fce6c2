"""The user page of pictures and the examples in docstrings run and say what they show; the gallery can be drawn."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")

ROOT = Path(__file__).resolve().parents[2]

MODULES = (
    "fit",
    "kernels",
    "measures.calibration",
    "measures.components",
    "measures.evidence",
    "measures.grids",
)


def test_user_page(tmp_path, monkeypatch):
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "plots.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "plots.md", "exec"), {})
    plt.close("all")
    assert out.getvalue().splitlines() == ["A noisy function with gross errors", "['x1', 'x2', 'x3']", "0"]
    assert (tmp_path / "fit.png").stat().st_size > 1000
    import cavity.plots

    for name in re.findall(r"`(plot_\w+)", text):
        assert name in cavity.plots.__all__, name


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    found = doctest.testmod(importlib.import_module(f"cavity.plots.{module}"))
    assert found.attempted > 0
    assert found.failed == 0
