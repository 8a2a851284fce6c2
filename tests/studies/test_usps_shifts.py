"""The study of shifted digits: maps against shifted arrays, and a quick run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cavity import studies
from cavity.studies import usps_shifts as shifts
from tests.studies.conftest import Drawn


def test_maps_shift_by_a_pixel() -> None:
    image = np.random.default_rng(0).uniform(size=(16, 16))
    flat = image.reshape(1, -1)
    _, left, right, up, down = (np.asarray(flat @ g.T).reshape(16, 16) for g in shifts.shifts())
    assert np.array_equal(left, np.pad(image, ((0, 0), (0, 1)))[:, 1:])
    assert np.array_equal(right, np.pad(image, ((0, 0), (1, 0)))[:, :-1])
    assert np.array_equal(up, np.pad(image, ((0, 1), (0, 0)))[1:])
    assert np.array_equal(down, np.pad(image, ((1, 0), (0, 0)))[:-1])
    across, along = shifts.tangents(flat)
    assert across.reshape(16, 16)[3, 4] == pytest.approx((image[3, 3] - image[3, 5]) / 2)
    assert along.reshape(16, 16)[3, 4] == pytest.approx((image[2, 4] - image[4, 4]) / 2)


@pytest.mark.skipif(not os.environ.get("CAVITY_DATA"), reason="CAVITY_DATA is not set")
def test_a_quick_run(tmp_path: Path, drawn: Drawn) -> None:
    report = studies.run(studies.load("usps-shifts"), quick=True, out=tmp_path)
    frame = report.results.frame.set_index("method")
    assert not frame["error"].any()
    assert drawn(report.pictures)
    # a classifier that knows of shifts changes less under them
    assert frame.loc[shifts.VIRTUAL, "errors of 773"] < frame.loc[shifts.PLAIN, "errors of 773"]
    assert (
        frame["change by a shift, sd"].drop(shifts.PLAIN) < frame.loc[shifts.PLAIN, "change by a shift, sd"]
    ).all()
