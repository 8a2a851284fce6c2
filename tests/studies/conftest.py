"""What pictures of the studies show, seen when they are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Drawn = Callable[[Iterable[Path]], bool]


def _shows_data(axes: Axes) -> bool:
    """Marks at finite places, or numbers written as text."""
    marks = axes.has_data() and np.isfinite(axes.dataLim.get_points()).all()
    return bool(marks or axes.texts)


def _described(axes: Axes) -> bool:
    texts = (axes.get_xlabel(), axes.get_ylabel(), axes.get_title())
    return any(texts) or axes.get_legend() is not None


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Whether each picture was saved with data in every one of its axes, and words at some of them."""
    saved: dict[Path, tuple[bool, bool]] = {}
    savefig = Figure.savefig

    def noted(figure: Figure, path: Any, *arguments: Any, **options: Any) -> None:
        savefig(figure, path, *arguments, **options)
        axes = [a for a in figure.axes if a.get_visible() and a.axison]
        data = bool(axes) and all(_shows_data(a) for a in axes)
        saved[Path(path).resolve()] = (data, any(_described(a) for a in axes))

    monkeypatch.setattr(Figure, "savefig", noted)

    def check(paths: Iterable[Path]) -> bool:
        paths = list(paths)
        return bool(paths) and all(p.exists() and all(saved[Path(p).resolve()]) for p in paths)

    return check
