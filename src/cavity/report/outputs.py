"""The report of a model of several targets: verdict, correlations, predicted against observed, scores, data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.frames.columns import as_numbers
from cavity.report.content import glance, versions
from cavity.report.drawings import NARROW, as_svg
from cavity.report.page import Block, DataTable, Facts, Folded, Gallery, Lines, Page, Picture, Text
from cavity.runtime.errors import Words
from cavity.runtime.sentences import counted
from cavity.tables.formatting import short_text
from cavity.tables.outputs_fit import outputs_verdict, score_rows

if TYPE_CHECKING:
    from cavity.tables import Table
    from cavity.tables.outputs import OutputsModel


def outputs_page(model: OutputsModel, table: Table, *, command: str = "", words: Words = str) -> Page:
    """Everything about a model of several targets, on the rows of a table."""
    report, names = model.report, model.names
    inputs = counted(len(model.coding.columns), "input column")
    page = Page(
        f"Gaussian process model of {', '.join(names)}", f"{len(names)} targets, {inputs}, {report.rows} rows"
    )
    page.add("Verdict", Lines(outputs_verdict(model, words)))
    correlations = [[name, *map(float, row)] for name, row in zip(names, model.estimator.correlations_)]
    page.add(
        "What belongs together", DataTable(["", *names], correlations, "Correlations of the targets, learned")
    )
    page.add("How good it is", *_scores(model), *_pictures(model, table))
    told = [f"{warning.render(words).rstrip('.')}." for warning in report.warnings]
    page.add("Warnings and remedies", *([Text(text, "warning") for text in told] or [Text("None.", "good")]))
    notes = [Text(note.render(words), "warning" if note.warns else "") for note in model.coding.notes]
    targets = {output.name: output.style for output in model.outputs}
    page.add("The data", glance(table.frame, model.coding.columns, targets), *notes)
    page.add("The model", *_model(model))
    page.add("How to repeat it", *versions(command))
    return page


def _scores(model: OutputsModel) -> list[Block]:
    head, rows = score_rows(model)
    held = "whole rows" if model.report.by_row else "single cells, whose rows may have other targets,"
    return [DataTable(head, rows, f"Scores: {held} were held out; lower is better")]


def _pictures(model: OutputsModel, table: Table) -> list[Block]:
    """Predicted against observed, of every target."""
    found = model.predict(table.frame, rows=table.rows)
    pictures = []
    for k, output in enumerate(model.outputs):
        if output.name not in table.frame:
            continue
        y = as_numbers(table.frame[output.name], table.rows, output.style)
        there = ~np.isnan(y)
        mean, sd = (found[f"{output.name} {part}"].to_numpy()[there] for part in ("mean", "sd"))

        def draw(ax: Any, y: Any = y[there], mean: Any = mean, sd: Any = sd, name: str = output.name) -> None:
            ax.errorbar(y, mean, yerr=sd, fmt=".", alpha=0.6, elinewidth=0.6)
            ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
            ax.plot(ends, ends, lw=0.8, color="grey")
            ax.set(xlabel=f"{name}, observed", ylabel="predicted")

        svg = as_svg(draw, f"observed{k}", width=NARROW, height=2.8)
        shown = f"predicted, with one sd, against observed in {int(there.sum())} rows"
        pictures.append(
            Picture(
                svg,
                f"{output.name}: {shown}; those that the model was learned from look better than new ones.",
            )
        )
    return [Gallery(pictures)] if pictures else []


def _model(model: OutputsModel) -> list[Block]:
    estimator, posterior = model.estimator, model.estimator.posterior_
    parts = getattr(posterior, "model", None)
    kernel = posterior.kernel if parts is None else parts.kernel
    noise = [(f"noise of {output.name}", output.noise) for output in model.outputs]
    facts: list[tuple[str, Any]] = [("log evidence", float(estimator.log_evidence_)), *noise]
    formula = Text(f"k = {short_text(kernel)}", "formula")
    return [Facts(facts), Folded("Formula, in the units of the data", [formula])]
