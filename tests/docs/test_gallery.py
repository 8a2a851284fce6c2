"""The scripts of the gallery run and draw. The build of the documentation runs them too."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib
import pytest

SCRIPTS = sorted((Path(__file__).resolve().parents[2] / "examples" / "gallery").glob("plot_*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_draws(script, monkeypatch, tmp_path):
    matplotlib.use("Agg", force=True)
    from matplotlib import pyplot as plt

    plt.close("all")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    figures = [plt.figure(k) for k in plt.get_fignums()]
    assert figures
    for figure in figures:
        assert any(axes.has_data() for axes in figure.axes)
    plt.close("all")
