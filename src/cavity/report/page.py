"""One self-contained HTML file: no network, inline pictures, light and dark, readable on a phone.

A page is a list of sections, a section a list of blocks. Blocks are built from plain values and escape them here, in
one place: text from the data is shown, never run. A content security policy forbids the page to load or send anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cavity.runtime.atomic import replaced
from cavity.runtime.checks import is_number
from cavity.tables.formatting import plain

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

NUMBER = ' class="number"'
"""Attribute of cells that hold numbers, and of the heads of columns of numbers."""


class Block(Protocol):
    """Something a section can hold."""

    def html(self) -> str:
        """Markup, with all values escaped."""
        ...


@dataclass(frozen=True)
class Text:
    """A paragraph; `kind` is "", "good", "warning" or "formula"."""

    text: str
    kind: str = ""

    def html(self) -> str:
        """A paragraph, preformatted if it is a formula."""
        tag = "pre" if self.kind == "formula" else "p"
        return f'<{tag} class="{escape(self.kind)}">{escape(self.text)}</{tag}>'


@dataclass(frozen=True)
class Facts:
    """Names and values, one under the other."""

    pairs: Sequence[tuple[str, Any]]

    def html(self) -> str:
        """A description list."""
        rows = "".join(f"<dt>{escape(str(k))}</dt><dd>{escape(as_text(v))}</dd>" for k, v in self.pairs)
        return f"<dl>{rows}</dl>"


@dataclass(frozen=True)
class DataTable:
    """A table that can be sorted by its columns and filtered by text.

    Parameters
    ----------
    columns : sequence of str
    rows : sequence of sequences
        Numbers are shown with four digits and sorted as numbers.
    caption : str
    filterable : bool
        Whether to offer a search field.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    filterable: bool = False

    def html(self) -> str:
        """A table with buttons as column heads."""
        numeric = [
            bool(self.rows) and all(is_number(row[i]) for row in self.rows) for i in range(len(self.columns))
        ]
        head = "".join(
            f'<th scope="col" aria-sort="none"{NUMBER if right else ""}><button type="button">'
            f"{escape(str(c))}</button></th>"
            for c, right in zip(self.columns, numeric)
        )
        body = "".join("<tr>" + "".join(_cell(v) for v in row) + "</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        search = (
            '<input type="search" placeholder="filter rows" aria-label="filter rows">'
            if self.filterable
            else ""
        )
        more = '<p class="more">The table goes on to the right: scroll it.</p>'
        inside = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="table">{search}<div class="scroll" tabindex="0">{inside}</div>{more}</div>'


@dataclass(frozen=True)
class Picture:
    """An inline SVG made by `cavity.report.drawings`, with a description for those who cannot see it.

    `narrow` is the same for narrow screens, on which letters of the other would be too small to read.
    """

    svg: str
    description: str
    narrow: str = ""

    def html(self) -> str:
        """A figure with caption."""
        label = escape(self.description, quote=True)
        drawn = self.svg
        if self.narrow:
            drawn = f'<div class="wide">{self.svg}</div><div class="narrow">{self.narrow}</div>'
        return (
            f'<figure role="img" aria-label="{label}">{drawn}<figcaption>{escape(self.description)}'
            "</figcaption></figure>"
        )


@dataclass(frozen=True)
class Gallery:
    """Small pictures, as many beside each other as there is room for."""

    pictures: Sequence[Picture]

    def html(self) -> str:
        """A grid of figures."""
        return f'<div class="gallery">{"".join(picture.html() for picture in self.pictures)}</div>'


@dataclass(frozen=True)
class Lines:
    """A few sentences that matter most, each after a heading of a word or two."""

    lines: Sequence[tuple[str, str]]

    def html(self) -> str:
        """A list that stands out; names at the beginning of a sentence stay as they are."""
        rows = "".join(
            f"<p><strong>{escape(head)}</strong> <span>{escape(_unbroken(text))}</span></p>"
            for head, text in self.lines
        )
        return f'<div class="verdict">{rows}</div>'


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown on demand."""

    summary: str
    blocks: Sequence[Block]

    def html(self) -> str:
        """Details that open by a click."""
        inner = "".join(block.html() for block in self.blocks)
        return f"<details><summary>{escape(self.summary)}</summary>{inner}</details>"


@dataclass(frozen=True)
class Section:
    """A heading and what is under it."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """Its address within the page."""
        return "".join(c if c.isalnum() else "-" for c in self.title.lower()).strip("-")


@dataclass
class Page:
    """A whole report."""

    title: str
    subtitle: str = ""
    sections: list[Section] = field(default_factory=list)

    def add(self, title: str, *blocks: Block | None) -> None:
        """Append a section, unless all its blocks are None."""
        present = [b for b in blocks if b is not None]
        if present:
            self.sections.append(Section(title, present))

    def html(self) -> str:
        """The page as text."""
        assets = files("cavity.report") / "assets"
        style = (assets / "report.css").read_text(encoding="utf-8")
        names = dict.fromkeys(
            name for s in self.sections for b in s.blocks for name in getattr(b, "scripts", ())
        )
        script = "".join((assets / name).read_text(encoding="utf-8") for name in ("report.js", *names))
        links = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in self.sections)
        body = "".join(
            f'<section id="{s.anchor}"><h2>{escape(s.title)}</h2>{"".join(b.html() for b in s.blocks)}</section>'
            for s in self.sections
        )
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{escape(self.title)}</title><style>{style}</style></head><body>"
            f"<header><h1>{escape(self.title)}</h1><p>{escape(self.subtitle)}</p></header>"
            f'<nav aria-label="contents"><ul>{links}</ul></nav><main>{body}</main>'
            f"<script>{script}</script></body></html>\n"
        )

    def write(self, path: str | Path) -> Path:
        """Put the page in place at once, so that a crash or Ctrl-C leaves the old file and nothing beside it."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as partial:
            partial.write_text(self.html(), encoding="utf-8", newline="")
        return path


def _unbroken(text: str) -> str:
    """Numbers stay with their per cent signs."""
    return text.replace(" %", "\u00a0%")


def as_text(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else plain(float(value))
    return str(value)


def _cell(value: Any) -> str:
    if is_number(value):
        key = "" if np.isnan(float(value)) else repr(float(value))
        return f'<td{NUMBER} data-value="{key}">{escape(as_text(value))}</td>'
    return f"<td>{escape(as_text(value))}</td>"
