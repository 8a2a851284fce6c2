"""Mathematics drawn at build time by matplotlib, as SVG inside the page: no script, no font file, no network.

`html_math_renderer = "mathtext"` selects it. A formula takes the color of the text around it, stands on its base line,
and carries its source as a label for screen readers. A displayed formula may have several lines, separated by `\\\\`.
A formula that matplotlib cannot read is a warning, which ends a build with -W.
"""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
SCALE = 1.12  # letters of a formula look as large as those of the sans-serif text around it
UNITS = 100  # of the drawing in one em
PAD = 0.03  # em around the ink


@cache
def outline(formula: str) -> tuple[str, float, float, float, float]:
    """The formula as the data of an SVG path, and its ink's left, bottom, right and top in em from the base line."""
    from matplotlib import rc_context
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    letters = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}
    with rc_context({"mathtext.fontset": "stix"}):
        path = TextPath((0, 0), f"${formula}$", size=UNITS)
    pieces = []
    for points, code in path.iter_segments(curves=True, simplify=False):
        if code == Path.CLOSEPOLY:
            pieces.append("Z")
        else:
            pieces.append(letters[code] + " ".join(f"{x:.1f} {-y:.1f}" for x, y in points.reshape(-1, 2)))
    box = path.get_extents()
    return "".join(pieces), *(v / UNITS for v in (box.x0, box.y0, box.x1, box.y1))


def picture(formula: str) -> str:
    """The formula as an <svg> element."""
    data, left, bottom, right, top = outline(" ".join(formula.split()))
    left, bottom, right, top = left - PAD, bottom - PAD, right + PAD, top + PAD
    view = " ".join(f"{UNITS * v:.0f}" for v in (left, -top, right - left, top - bottom))
    size = f"width:{SCALE * (right - left):.3f}em;height:{SCALE * (top - bottom):.3f}em"
    label = html.escape(formula, quote=True)
    return (
        f'<svg class="formula" role="img" aria-label="{label}" viewBox="{view}" '
        f'style="{size};vertical-align:{SCALE * bottom:.3f}em"><path d="{data}"/></svg>'
    )


def _render(self: Any, node: Any, lines: list[str]) -> str:
    try:
        return "<br>".join(picture(line) for line in lines if line.strip())
    except ValueError as error:
        LOGGER.warning("this formula cannot be drawn: %s (%s)", node.astext(), error, location=node)
        return html.escape(node.astext())


def visit_inline(self: Any, node: nodes.math) -> None:
    """Mathematics in a line of text."""
    self.body.append(f'<span class="formula">{_render(self, node, [node.astext()])}</span>')
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Mathematics on lines of its own."""
    lines = re.split(r"\\\\", node.astext().replace(r"\frac", r"\dfrac"))
    self.body.append(f'<div class="formula">{_render(self, node, lines)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathtext", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
