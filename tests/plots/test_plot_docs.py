"""The user page of pictures runs and says what it shows; the gallery can be drawn."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

ROOT = Path(__file__).resolve().parents[2]


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
