"""Text of the benchmarks: times, ratios, one table, and the line that ends a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def seconds(value: float | None) -> str:
    """A time in a unit that suits it; a dash where there is none."""
    if value is None:
        return "-"
    for unit, size, digits in (("us", 1e-6, 0), ("ms", 1e-3, 1)):
        if value < 1000 * size:
            return f"{value / size:.{digits}f} {unit}"
    return f"{value:.2f} s"


def ratio(value: float | None, *, at_least: bool = False) -> str:
    """A ratio with two digits after the point; with >= where only a bound is known."""
    if value is None:
        return "-"
    return f"{'>=' if at_least else ''}{value:.2f}x"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *map(line, rows)])


def result_line(figures: Mapping[str, float | str | None]) -> str:
    """`RESULT name=value ...`: numbers with three digits after the point, words (missing) as they are."""
    parts = []
    for name, value in figures.items():
        text = value if isinstance(value, str) else "missing" if value is None else f"{value:.3f}"
        parts.append(f"{name}={text}")
    return " ".join(["RESULT", *parts])
