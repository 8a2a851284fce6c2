"""What a report says: from a model of a table (and its data) to sections of a page.

The answer comes first: three lines and one picture, what the inputs do, how good it is. What the model is made of comes
last, and is folded away.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.frames.columns import Column, is_missing
from cavity.report import drawings
from cavity.report.drawings import as_svg, both_widths, figure_svg
from cavity.report.effects import MOST_EFFECTS, Effect, Effects
from cavity.report.glossary import GLOSSARY
from cavity.report.kernel_tree import NotInPage
from cavity.report.page import Block, DataTable, Facts, Folded, Gallery, Lines, Page, Picture, Text
from cavity.report.quality import Shown, fit_picture, how_good, observed_picture
from cavity.report.whatif import WhatIf, payload
from cavity.runtime.errors import Words
from cavity.runtime.sentences import counted
from cavity.tables.approximation import approximation_of
from cavity.tables.description import CENTRAL, NO_INFLUENCE, draws_of, hyperparameters, inference_in_words
from cavity.tables.formatting import percent, short_text
from cavity.tables.verdict import effect_in_words, verdict

if TYPE_CHECKING:
    import pandas as pd

    from cavity.assessment import Assessment
    from cavity.frames.numbers import NumberStyle
    from cavity.tables import Table, TableModel
    from cavity.tables.comparing import Comparison
    from cavity.tables.preparation import Preparation


MOST_BARS = 20
"""Inputs whose shares are drawn."""


def model_page(
    model: TableModel,
    table: Table | None = None,
    *,
    comparison: Comparison | None = None,
    assessment: Assessment | None = None,
    command: str = "",
    words: Words = str,
) -> Page:
    """The report of a model of a table.

    Parameters
    ----------
    model : TableModel
    table : Table, optional
        Rows to show: data at a glance, predictions and calibration.
    comparison, assessment : optional
        What `cavity compare` and `cavity assess` found.
    command : str
        How to repeat it.
    words : callable
        What arguments are called in messages; as in Python by default.
    """
    preparation = model.preparation
    inputs = counted(len(preparation.columns), "input column")
    rows = counted(model.report.rows, "row")
    page = Page(
        f"Gaussian process model of {preparation.target}", f"{preparation.task} with {inputs} and {rows}"
    )
    shown = None if table is None else Shown.of(model, table)
    effects = Effects(model) if model.report.relevance else None
    page.add("Verdict", Lines(verdict(model).lines(words)), _main_picture(model, shown, effects))
    page.add("What if", _what_if(model))
    page.add("What matters", *_what_matters(model, effects))
    page.add("How good it is", *how_good(model, shown))
    page.add("Outliers", *_outliers(model, table if shown is not None and shown.learned_from else None))
    page.add("Warnings and remedies", *_warnings(model, words))
    page.add("Comparison of models", *(() if comparison is None else _comparison(comparison, words)))
    page.add("Check of the approximation", *(() if assessment is None else assessment_blocks(assessment)))
    if table is not None:
        columns = glance(table.frame, preparation.columns, {preparation.target: preparation.target_style})
        many = len(columns.rows) > MOST_BARS
        page.add("The data", Folded("Columns", [columns]) if many else columns, *_notes(preparation, words))
    page.add("The model", *_asked(model, command, words), *_model(model))
    page.add("Words", Folded("What the words on this page mean", [Facts(list(GLOSSARY.items()))]))
    page.add("How to repeat it", *versions(command))
    return page


def _what_if(model: TableModel) -> Block:
    """Controls, or why there are none."""
    try:
        return WhatIf(payload(model))
    except NotInPage as reason:
        return Text(
            f"Predictions of this model cannot be computed in a page: {reason}. "
            "Use cavity predict with a table of the inputs in question."
        )


def _main_picture(model: TableModel, shown: Shown | None, effects: Effects | None) -> Block | None:
    """What says most: the fit along one input, predicted against observed, or the effect of an input."""
    if shown is not None and model.preparation.task == "regression":
        return fit_picture(model, shown) if shown.X.shape[1] == 1 else observed_picture(model, shown)
    if effects is None or not effects.columns:
        return None
    found, label = effects.along(effects.columns[0]), effects.label
    limits = _limits([found])
    return both_widths(
        lambda ax: drawings.effect(ax, found, label, limits),
        "main",
        f"{label[:1].upper()}{label[1:]} along {found.column.name}, the input that matters most."
        + (" The band holds the average with a probability of 90 %." if found.low is not None else ""),
    )


def comparison_page(
    preparation: Preparation, comparison: Comparison, command: str, words: Words = str
) -> Page:
    """The report of a comparison alone."""
    page = Page(
        f"Models of {preparation.target}", f"{len(comparison.entries)} models, {comparison.rows} rows"
    )
    page.add("Comparison of models", *_comparison(comparison, words))
    page.add("What was decided about the columns", *_notes(preparation, words))
    page.add("How to repeat it", *versions(command))
    return page


# --- sections -----------------------------------------------------------------------------------------------


def _asked(model: TableModel, command: str, words: Words) -> list[Block]:
    p, choice = model.preparation, model.report.choice
    pairs: list[tuple[str, Any]] = [("target", p.target), ("task", p.task)]
    pairs.append(("inputs", ", ".join(c.name for c in p.columns)))
    if p.ignored:
        pairs.append(("not used", ", ".join(p.ignored)))
    if choice is not None:
        pairs.append(("why this model", choice.render(words)))
    if command:
        pairs.append(("command", command))
    return [Facts(pairs)]


def glance(
    frame: pd.DataFrame, columns: Sequence[Column], targets: Mapping[str, NumberStyle | None]
) -> DataTable:
    """One line per column: kind, missing values, range or most frequent levels; targets with how they are written."""
    import pandas as pd

    rows, dates = [], {column.name: column for column in columns if column.unit}
    styles = {**targets, **{column.name: column.style for column in columns}}
    blank = [float("nan")] * 3
    for name, style in styles.items():
        if name not in frame:
            continue
        values = frame[name]
        read = (
            values
            if style is None
            else values.map(lambda v, s=style: s.number(v) if isinstance(v, str) else v)
        )
        numbers = pd.to_numeric(read, errors="coerce")
        role = "target" if name in targets else "input"
        missing = int(values.isna().sum())
        if name in dates:
            rows.append([name, role, _span(dates[name], values), missing, *blank, ""])
        elif numbers.notna().sum() == values.notna().sum() and numbers.notna().any():
            middle = [float(numbers.min()), float(numbers.median()), float(numbers.max())]
            rows.append([name, role, "number", missing, *middle, ""])
        else:
            counts = values.astype(str).value_counts()
            common = ", ".join(f"{level} ({count})" for level, count in counts.head(3).items())
            rows.append([name, role, f"text, {len(counts)} values", missing, *blank, common])
    head = ("column", "role", "kind", "missing", "smallest", "median", "largest", "most frequent")
    return DataTable(head, rows, f"{len(frame)} rows")


def _span(column: Column, values: pd.Series) -> str:
    """The first and the last of the dates that there are."""
    present = np.flatnonzero(~is_missing(values))
    if not len(present):
        return "dates"
    times = column.encode(values.iloc[present], present + 1)[:, 0]
    first, last = (str(values.iloc[present[k]]) for k in (np.argmin(times), np.argmax(times)))
    return f"dates from {first} to {last}"


def _notes(preparation: Preparation, words: Words) -> list[Block]:
    return [Text(note.render(words), "warning" if note.warns else "") for note in preparation.notes]


def _model(model: TableModel) -> list[Block]:
    first = model.estimator.members_[0]
    kernel, noise = first.kernel, first.likelihood
    found = hyperparameters(model)
    several = any(row.problem for row in found)
    drawn = any(row.interval for row in found)
    ends = ["5 % of draws", "95 % of draws"] if drawn else []
    columns = [*(["model"] if several else []), "what", "value", *ends, "fixed", "meaning", "name in Python"]
    rows = [
        [
            *([r.problem] if several else []),
            r.in_words,
            r.value,
            *((r.interval or (float("nan"), float("nan"))) if drawn else ()),
            r.fixed,
            r.meaning,
            r.name,
        ]
        for r in found
    ]
    formula = f"f ~ GP(mean, k)\nk(x, x') = {short_text(kernel)}\ny given f: {short_text(noise)}"
    values = DataTable(columns, rows, "Hyperparameters, in the units of the data", filterable=len(rows) > 12)
    return [
        Text(_in_words(model)),
        Folded(
            "Formula, values learned, how inference ended",
            [Text(formula, "formula"), values, Facts(_how_it_ended(model))],
        ),
    ]


def _how_it_ended(model: TableModel) -> list[tuple[str, Any]]:
    estimator = model.estimator
    statuses = [member.posterior.status for member in estimator.members_]
    drawn = bool(draws_of(estimator))
    return [
        ("log evidence", "unknown: draws do not tell it" if drawn else float(estimator.log_evidence_)),
        ("inference", ", ".join(dict.fromkeys(map(inference_in_words, statuses)))),
        ("inference converged", all(s.converged for s in statuses)),
        *[
            ("note", message)
            for message in dict.fromkeys(s.message for s in statuses if s.message and not drawn)
        ],
        *[("approximation", str(message)) for message in approximation_of(estimator)],
        ("jitter (added against rounding)", max(float(s.jitter) for s in statuses)),
        ("seconds to learn", model.report.seconds),
    ]


def _in_words(model: TableModel) -> str:
    p = model.preparation
    what = (
        f"the value of {p.target} is an unknown smooth function of the inputs plus noise"
        if p.task == "regression"
        else f"the probability of each class of {p.target} follows an unknown smooth function of the inputs"
    )
    return (
        f"The model: {what}. A covariance function says how similar that function is at two inputs: a short length "
        "scale means that a column matters at small differences, a long one that it hardly matters."
    )


def _value(value: Any) -> Any:
    """Entries of a table that are numbers as numbers, so that they sort as such."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _what_matters(model: TableModel, effects: Effects | None) -> list[Block]:
    """Shares, effect plots of the inputs that matter, pairs that act together."""
    found = model.report.relevance or ()
    if effects is None or not found:
        return []
    target = verdict(model).target
    rows = [
        [one.column, one.share, "no influence" if one.share < NO_INFLUENCE else effect_in_words(target, one)]
        for one in found
    ]
    blocks: list[Block] = []
    if len(found) > 1:
        busy = [one for one in found if one.share >= NO_INFLUENCE][:MOST_BARS] or list(found[:MOST_BARS])
        names, values = [one.column for one in busy], [one.share for one in busy]
        idle = len(found) - len(busy)
        more = f" {counted(idle, 'other input')} with little or no influence." if idle else ""
        blocks.append(
            both_widths(
                lambda ax: drawings.bars(ax, names, values, "share of the variation"),
                "relevance",
                "Share of the variation of predictions that is due to an input, alone or together with others; if "
                f"inputs act together, shares add up to more than one.{more}",
                height=1.0 + 0.28 * len(names),
            )
        )
        columns = effects.columns[:MOST_EFFECTS]
        along = [effects.along(column) for column in columns]
        limits = _limits(along) if along else (0.0, 1.0)
        blocks.append(
            Gallery([_effect_picture(one, effects.label, limits, k) for k, one in enumerate(along)])
        )
        blocks += _pairs(effects)
    table = DataTable(("input", "share", "how predictions depend on it"), rows)
    return [*blocks, Folded("The same as a table", [table])] if blocks else [table]


def _limits(found: Sequence[Effect]) -> tuple[float, float]:
    """One scale for all effects, so that they can be compared."""
    parts = [part for one in found for part in (one.average, one.low, one.high) if part is not None]
    low, high = min(float(p.min()) for p in parts), max(float(p.max()) for p in parts)
    pad = 0.06 * (high - low) or 0.5
    return low - pad, high + pad


def _effect_picture(found: Effect, label: str, limits: tuple[float, float], k: int) -> Picture:
    svg = as_svg(
        lambda ax: drawings.effect(ax, found, label, limits), f"effect{k}", width=drawings.NARROW, height=2.6
    )
    band = (
        " The band holds the average with a probability of 90 %." if found.low is not None and k == 0 else ""
    )
    return Picture(svg, f"{found.column.name}: the average over rows, all other inputs as they are.{band}")


def _pairs(effects: Effects) -> list[Block]:
    pictures = []
    for k, one in enumerate(effects.together()):
        names = [effects.features[d] for d in one.columns]
        svg = as_svg(
            lambda ax, one=one, names=names: drawings.heat_map(ax, one, names, effects.label),  # type: ignore[misc]
            f"pair{k}",
            width=drawings.NARROW,
            height=2.9,
        )
        share = percent(one.share)
        pictures.append(
            Picture(
                svg, f"{names[0]} and {names[1]} act together: {share} of the variation is in neither alone."
            )
        )
    return [Gallery(pictures)] if pictures else []


def _outliers(model: TableModel, learned_from: Table | None) -> list[Block]:
    """The rows listed at the fit; with their inputs if the table they are from is at hand."""
    found, robust = model.report.outliers, model.report.robust
    if found is None:
        return []
    if not found:
        none = "probably an outlier under this noise model" if robust else f"outside {CENTRAL}"
        return [Text(f"No row is {none}.", "good")]
    # other noise than robust one knows no outliers, only tails, and some rows are always in them
    columns = ["row", model.preparation.target, *(["probability"] if robust else [])]
    rows: list[list[Any]] = [[one.row, one.value, *([one.probability] if robust else [])] for one in found]
    if learned_from is not None:
        inputs = [c.name for c in model.preparation.columns][:6]
        place = {int(number): k for k, number in enumerate(learned_from.rows)}
        for row in rows:
            k = place.get(int(row[0]))
            row.extend("" if k is None else _value(learned_from.frame[name].iloc[k]) for name in inputs)
        columns += inputs
    what = "Probable outliers" if robust else f"Rows outside {CENTRAL}"
    where = "" if learned_from is not None else ", rows of the table the model was learned from"
    return [
        Text("Rows that the other rows make improbable; row 1 is the first after the header."),
        DataTable(columns, rows, f"{what}{where}", filterable=True),
    ]


def _comparison(found: Comparison, words: Words) -> list[Block]:
    columns = (
        "noise",
        "inference",
        "kernel",
        "log evidence",
        "leave-one-out",
        "k-fold",
        "behind",
        "se",
        "seconds",
    )
    rows = []
    for e in found.entries:
        note = e.failure.render(words) if e.failure else "" if e.converged else "did not converge"
        model = [e.candidate.likelihood, e.candidate.inference, e.candidate.kernel]
        numbers = [e.log_evidence, e.loo, e.held_out, e.difference, e.standard_error, e.seconds]
        rows.append([*model, *numbers, note])
    caption = f"Best first by {found.yardstick}; densities are means per row, in units of e (nats)"
    told = [Text(found.left_out, "warning")] if found.left_out else []
    return [
        Text(found.recommendation, "good"),
        *told,
        DataTable((*columns, "note"), rows, caption, filterable=True),
    ]


def assessment_blocks(found: Assessment) -> list[Block]:
    """Verdicts, numbers and a picture."""
    from cavity.assessment.verdict import gold_words, label

    frame = found.frame
    shown = (
        "log_evidence",
        "evidence_error",
        "mean_error",
        "sd_error",
        "total_variation",
        "log_loss",
        "k_hat",
    )
    present = [c for c in (*shown, "seconds") if c in frame]
    rows = [[label(str(name)), *(float(row[c]) for c in present)] for name, row in frame.iterrows()]
    blocks: list[Block] = [Text(gold_words(found.gold), "good" if found.certified else "warning")]
    blocks += [Text(sentence) for sentence in found.verdicts.values()]
    columns = ["method", *(c.replace("_", " ") for c in present)]
    blocks.append(DataTable(columns, rows, "Errors against annealed importance sampling and Markov chains"))
    if any(not method.failure for method in found.methods):
        words = "Posterior means, sds and predictive probabilities of each approximation against those of the chains."
        blocks.append(Picture(figure_svg(found.plot, "assessment"), words))
    return blocks


def _warnings(model: TableModel, words: Words) -> list[Block]:
    texts = [f"{warning.render(words).rstrip('.')}." for warning in model.report.warnings]
    if model.report.interrupted:
        texts.append(model.report.interruption)
    return [Text(text, "warning") for text in texts] or [Text("None.", "good")]


def versions(command: str = "") -> list[Block]:
    """The command and the versions of what ran it."""
    import scipy

    import cavity

    pairs: list[tuple[str, Any]] = [("command", command)] if command else []
    pairs += [
        ("cavity", cavity.__version__),
        ("numpy", np.__version__),
        ("scipy", scipy.__version__),
        ("python", platform.python_version()),
    ]
    return [Facts(pairs)]
