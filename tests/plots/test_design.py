"""Pictures of studies draw what they say, for every kind of input; without a model they say so."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

from cavity.design import History, Integer, Real, Space, Study
from cavity.plots import plot_convergence, plot_optimum, plot_study_slices

mpl.use("Agg")


@pytest.fixture(scope="module")
def study():
    space = Space(
        {"temp": (20.0, 90.0), "rate": Real(1e-3, 1.0, log=True), "k": Integer(1, 5), "$c_1": ["A", "B"]}
    )
    history = History()
    for i, u in enumerate(space.sobol(20, np.random.default_rng(0))):
        x = space.from_unit(u)
        y = (x["temp"] - 50) ** 2 / 100 + np.log10(x["rate"]) ** 2 + (x["$c_1"] == "A")
        history = history.with_outcome(x, None if i == 4 else y - 300.0 * (i == 9))
    pending = {"temp": 30.0, "rate": 0.1, "k": 2, "$c_1": "B"}
    return Study(history.with_pending(pending), space)


def test_convergence_shows_doubtful_and_failed_trials(study):
    axis = plot_convergence(study)
    lines = {line.get_label(): line for line in axis.get_lines()}
    assert list(lines["doubtful"].get_xdata()) == [10]
    assert list(lines["failed"].get_xdata()) == [5]
    best = study.recommendation
    assert lines["recommended, ±2 sd"].get_ydata()[0] == pytest.approx(best.mean)
    assert lines["hardly better than"].get_ydata()[0] == pytest.approx(best.mean - study.gap)
    assert len(lines["outcomes"].get_xdata()) == 18


def test_slices_go_through_the_recommendation(study):
    axes = plot_study_slices(study)
    assert len(axes) == 4
    assert axes[1].get_xscale() == "log"
    best = study.recommendation
    for axis, name in zip(axes[:3], study.space.names):
        star = next(line for line in axis.get_lines() if line.get_marker() == "*")
        assert star.get_xdata()[0] == pytest.approx(best.x[name])
        assert star.get_ydata()[0] == pytest.approx(best.mean)
        dashed = next(line for line in axis.get_lines() if line.get_linestyle() == "--")
        assert dashed.get_xdata()[0] == pytest.approx(study.pending[0].x[name])
    assert [text.get_text() for text in axes[3].get_xticklabels()] == ["A", "B"]


def test_where_the_optimum_may_be_is_a_distribution(study):
    axes = plot_optimum(study)
    for axis in axes:
        assert sum(patch.get_height() for patch in axis.patches) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("draw", [plot_convergence, plot_study_slices, plot_optimum])
def test_without_a_model_there_is_nothing_to_draw(draw):
    with pytest.raises(ValueError, match="nothing to draw yet"):
        draw(Study(History(), Space({"x": (0.0, 1.0)})))
