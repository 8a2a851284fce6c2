"""Matplotlib figures as inline SVG that reads on a light and on a dark page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

GREY = "#7d858d"
"""Of text, ticks and frames: a contrast of about 4 to both white and near-black."""

STYLE: dict[Any, Any] = {
    "svg.fonttype": "path",  # looks the same everywhere, and no name from the data becomes markup
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a column called $x$ is not mathematics
}


@contextmanager
def report_style(salt: str) -> Iterator[None]:
    """Settings under which figures of a report are made and saved; the salt keeps ids apart and repeatable."""
    from matplotlib import rc_context

    with rc_context({**STYLE, "svg.hashsalt": salt}):
        yield


def as_svg(
    draw: Callable[[Any], Any], salt: str, *, width: float = 7.0, height: float = 3.8, panels: int = 1
) -> str:
    """SVG text of a figure; `draw` gets the axes (a list of them if there are several panels)."""
    from matplotlib.figure import Figure

    def make() -> Figure:
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(1, panels, squeeze=False)[0]
        draw(axes[0] if panels == 1 else list(axes))
        return figure

    return figure_svg(make, salt)


def figure_svg(make: Callable[[], Any], salt: str) -> str:
    """SVG text of a whole figure that `make` returns."""
    with report_style(salt):
        figure, out = make(), io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue(), salt)


def _inline(text: str, salt: str) -> str:
    """The <svg> element alone, its ids made unique within the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)  # each text once more, as a comment
    prefix = "".join(c if c.isalnum() else "-" for c in salt)
    text = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{prefix}-\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
