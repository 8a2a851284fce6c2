"""The studies that take seconds, run whole; divergences against brute-force integration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

from cavity import studies
from cavity.studies import kl_directions as kl
from tests.studies.conftest import Drawn


def normal(x: float, m: float, s: float) -> float:
    return float(np.exp(-0.5 * ((x - m) / s) ** 2) / (s * np.sqrt(2 * np.pi)))


def density(x: float) -> float:
    return 0.5 * normal(x, -2.0, 0.5) + 0.5 * normal(x, 2.0, 0.7)


@pytest.mark.parametrize(("m", "s"), [(0.0, 2.0), (1.9, 0.6), (-1.0, 1.0)])
def test_divergences_against_adaptive_integration(m: float, s: float) -> None:
    def forward(x: float) -> float:
        return density(x) * np.log(density(x) / normal(x, m, s))

    def backward(x: float) -> float:
        return normal(x, m, s) * np.log(normal(x, m, s) / density(x))

    assert float(kl.kl_p_q(m, s)) == pytest.approx(
        quad(forward, -7, 8, points=[-2, 2], limit=400)[0], rel=1e-6
    )
    low, high = m - 9 * s, m + 9 * s
    assert float(kl.kl_q_p(m, s)) == pytest.approx(quad(backward, low, high, limit=400)[0], rel=1e-5)


def test_each_direction_has_its_minima(tmp_path: Path) -> None:
    report = studies.run(studies.load("kl-directions"), out=tmp_path)
    found = report.results.frame.iloc[0]
    # KL(p||q) is least at the moments of p: 0 and 0.5 (0.25 + 4) + 0.5 (0.49 + 4).
    assert found["sd of KL(p||q)"] == pytest.approx(np.sqrt(4.37))
    for side, mode in (("left", -2.0), ("right", 2.0)):
        m, s = found[f"{side} mean of KL(q||p)"], found[f"{side} sd of KL(q||p)"]
        assert m == pytest.approx(mode, abs=0.05)
        for dm, ds in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
            assert kl.kl_q_p(m + dm, s + ds) > found[f"{side} KL(q||p)"]


@pytest.mark.parametrize("name", ["sample-paths", "mean-functions", "sinc-evidence"])
def test_basics_finish_and_draw(name: str, tmp_path: Path, drawn: Drawn) -> None:
    report = studies.run(studies.load(name), quick=True, out=tmp_path)
    assert not report.results.frame["error"].any()
    assert drawn(report.pictures)
    frame = report.results.frame.set_index("method")
    if name == "mean-functions":
        assert abs(frame.loc["zero", "mean far away"]) < 1e-6
        assert frame.loc["constant", "mean far away"] == pytest.approx(10, abs=1.5)
    if name == "sinc-evidence":
        assert frame.loc["estimated", "log evidence"] > frame.loc["arbitrary", "log evidence"] + np.log(100)


def test_step_has_the_order_of_the_book(tmp_path: Path) -> None:
    report = studies.run(studies.load("step-misspecification"), quick=True, out=tmp_path)
    value = report.table[report.table["measure"] == "log evidence"].set_index("method")["ours"]
    assert value["one SE"] < value["two SEs"] < value["neural network"]
