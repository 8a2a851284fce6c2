"""The report of a study: the best so far and what can still be gained, the next experiments, what the inputs do.

Partial dependence averages over the box, not over the trials, which gather where outcomes are good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from cavity.design.space import Categorical
from cavity.design.surrogate import lengths_of
from cavity.frames.columns import Column
from cavity.measures.relevance import partial_dependence
from cavity.plots.design import draw_convergence, draw_optimum, draw_slice, log_scale, places_of_optimum
from cavity.report import drawings
from cavity.report.content import versions
from cavity.report.drawings import GREY, as_svg, both_widths
from cavity.report.effects import LEVEL, PLACES, ROWS, Effect
from cavity.report.page import Block, DataTable, Facts, Folded, Gallery, Lines, Page, Picture, Text
from cavity.runtime.sentences import counted
from cavity.tables.formatting import percent, plain

if TYPE_CHECKING:
    from cavity.design import Study, Suggestion
    from cavity.design.space import Input

MOST_INPUTS = 12
"""Inputs with pictures of their own: the ones along which the function varies most."""

WIDTH, HEIGHT = 3.6, 2.8
"""Inches of a small picture."""


def study_page(
    study: Study, outcome: str, suggestions: Sequence[Suggestion] = (), *, command: str = ""
) -> Page:
    """The report of a study.

    Parameters
    ----------
    outcome : str
        What the outcome is called.
    suggestions : sequence of Suggestion
        The next experiments, if they were asked for.
    command : str
        How to repeat it.
    """
    parts = [f"{study.options.goal} {outcome}", counted(study.space.n, "input")]
    parts.append(f"{counted(len(study.done), 'trial')} done")
    parts += [
        f"{len(group)} {word}"
        for group, word in ((study.pending, "pending"), (study.failed, "failed"))
        if group
    ]
    page = Page(f"Study of {outcome}", ", ".join(parts))
    modeled = study.best is not None
    page.add(
        "Best so far", Lines(_verdict(study, outcome)), _convergence(study, outcome) if modeled else None
    )
    page.add("Next experiments", _suggestions(suggestions, outcome) if suggestions else None)
    if modeled:
        inputs = _important(study)
        page.add("Around the best", *_slices(study, outcome, inputs))
        page.add("What the inputs do", *_effects(study, outcome, inputs))
        page.add("Where the optimum may be", *_optimum(study, inputs))
    page.add("Trials", _trials(study, outcome))
    if modeled:
        page.add("The model", Folded("Length scales and noise", [_model(study)]))
    page.add("How to repeat it", *versions(command))
    return page


def _setting(x: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {plain(v) if isinstance(v, float) else v}" for name, v in x.items())


def _verdict(study: Study, outcome: str) -> list[tuple[str, str]]:
    best = study.recommendation
    if best is None:
        return [("Nothing yet", "No trial has an outcome, or none meets the limits.")]
    lines = []
    if np.isnan(best.sd):
        lines.append(("Best", f"Trial {best.trial}: {_setting(best.x)}; {outcome} {plain(best.mean)}."))
        lines.append(("Beware", "Outcomes are too few or all equal: there is no model yet."))
        return lines
    half = float(ndtri(0.95)) * best.sd
    lines.append(
        (
            "Best",
            f"Trial {best.trial}: {_setting(best.x)}; {outcome} about {plain(best.mean)} "
            f"({plain(best.mean - half)} to {plain(best.mean + half)} with 90 % probability).",
        )
    )
    gap = f"It can hardly be better anywhere by more than {plain(study.gap)}"
    lines.append(("What is left", f"{gap}{': time to stop.' if study.settled else '.'}"))
    doubts = [f"trial {id} ({percent(p)})" for id, p in study.doubtful.items()]
    if doubts:
        lines.append(("Beware", f"Probably wrong measurements: {', '.join(doubts)}."))
    elif study.best != study.recommended and study.best is not None:
        alone = study.done[study.best].id
        lines.append(
            (
                "Beware",
                f"Trial {alone} looks better, but stands alone and may be wrong: repeat it before you trust it.",
            )
        )
    return lines


def _convergence(study: Study, outcome: str) -> Picture:
    def draw(axis: Any) -> None:
        draw_convergence(axis, study, GREY)
        axis.set_ylabel(drawings.short_name(outcome, 40), parse_math=False)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.legend(
            frameon=False,
            fontsize=8,
            loc="lower left",
            bbox_to_anchor=(-0.1, 1),
            ncols=2,
            borderpad=0,
            columnspacing=1,
        )

    words = "Outcomes of the trials in their order, the best so far, and how good it may be anywhere."
    return both_widths(draw, "convergence", words)


def _suggestions(chosen: Sequence[Suggestion], outcome: str) -> DataTable:
    names = list(chosen[0].x)
    rows = [
        [k, *one.x.values(), one.mean, one.sd, one.improvement, one.why] for k, one in enumerate(chosen, 1)
    ]
    head = ["", *names, f"expected {outcome}", "sd", "probability to be better", "why"]
    return DataTable(head, rows, "To be done at the same time; pending trials are taken into account")


def _important(study: Study) -> list[int]:
    """Inputs in the order of the space, the ones with the longest length scales left out if there are many."""
    lengths = lengths_of(study.fit, study.space)
    return sorted(np.argsort(lengths, kind="stable")[:MOST_INPUTS].tolist())


def _left_out(study: Study, inputs: Sequence[int]) -> list[Block]:
    rest = study.space.n - len(inputs)
    return [Text(f"{counted(rest, 'input')} that matter least are not shown.")] if rest else []


def _along(study: Study, i: int) -> str:
    return f"Along {study.space.names[i]}."


def _small(draw: Callable[[Any], Any], salt: str, words: str) -> Picture:
    return Picture(as_svg(draw, salt, width=WIDTH, height=HEIGHT), words)


def _slices(study: Study, outcome: str, inputs: Sequence[int]) -> list[Block]:
    short = drawings.short_name(outcome, 24)
    pictures = [
        _small(partial(draw_slice, study=study, i=i, ink=GREY, outcome=short), f"slice-{i}", _along(study, i))
        for i in inputs
    ]
    words = (
        "What the model expects along each input through the best trial (star), two standard deviations around it, "
        "and below it where an improvement is expected, relative to the most along that line."
    )
    pending = " Dashed lines: pending trials." if study.pending else ""
    return [Text(words + pending), Gallery(pictures), *_left_out(study, inputs)]


def _effects(study: Study, outcome: str, inputs: Sequence[int]) -> list[Block]:
    found = [effect_of(study, outcome, i) for i in inputs]
    ends = [end for one in found for end in (one.low, one.high) if end is not None]
    low, high = min(float(e.min()) for e in ends), max(float(e.max()) for e in ends)
    room = 0.05 * (high - low)
    pictures = []
    for i, one in zip(inputs, found):
        kind = study.space.inputs[study.space.names[i]]

        def draw(axis: Any, one: Effect = one, kind: Input = kind) -> None:
            drawings.effect(axis, one, f"average {outcome}", (low - room, high + room))
            if getattr(kind, "log", False):
                log_scale(axis)

        pictures.append(_small(draw, f"effect-{i}", f"Average {outcome} along {one.column.name}."))
    words = (
        f"The average of {outcome} over the whole box as one input takes a value; the band holds it with a "
        "probability of 90 %. Marks: values that were tried."
    )
    return [Text(words), Gallery(pictures)]


def effect_of(study: Study, outcome: str, i: int) -> Effect:
    """Partial dependence along input i, averaged over the box, in the units of the outcome."""
    space, name = study.space, study.space.names[i]
    one, grid = space.inputs[name], space.grids[i]
    u = np.linspace(0.0, 1.0, PLACES) if grid is None else grid[:: max(1, len(grid) // PLACES)]
    box = space.sobol(ROWS, np.random.default_rng(0))
    found = partial_dependence(study.fit.posterior.process, box, i, u)
    mean, sd = np.array([study.in_units(float(m), float(s)) for m, s in zip(found.mean, found.sd)]).T
    half = float(ndtri(0.5 + LEVEL / 2)) * sd
    tried = [trial.x[name] for trial in study.done]
    if isinstance(one, Categorical):
        column = Column(name, tuple(map(str, one.choices)))
        places, rows = np.arange(float(len(one.choices))), np.zeros(0)
    else:
        column = Column(name)
        places, rows = np.array([float(one.from_unit(float(v))) for v in u]), np.array(tried, dtype=float)
    return Effect(column, places, mean[:, None], mean - half, mean + half, (outcome,), rows)


def _optimum(study: Study, inputs: Sequence[int]) -> list[Block]:
    places = places_of_optimum(study)
    pictures = [
        _small(partial(draw_optimum, study=study, places=places, i=i), f"optimum-{i}", _along(study, i))
        for i in inputs
    ]
    return [
        Text(f"Places of the best values of {len(places)} functions drawn from the posterior."),
        Gallery(pictures),
    ]


def _trials(study: Study, outcome: str) -> DataTable:
    names = list(study.space.names)
    blank = [float("nan")] * 3
    told: dict[int, list[float]] = {}
    if study.best is not None:
        mean, sd = study.fit.at_data
        for k, trial in enumerate(study.done):
            told[trial.id] = [
                *study.in_units(float(mean[k]), float(sd[k])), float(study.fit.outlier_probability[k])
            ]  # fmt: skip
    rows = [
        [
            trial.id,
            *(trial.x[name] for name in names),
            float("nan") if trial.y is None else trial.y,
            str(trial.status),
            *told.get(trial.id, blank),
        ]
        for trial in study.history
    ]
    head = ["trial", *names, outcome, "status", "model's mean", "sd", "probability that it is wrong"]
    return DataTable(head, rows, "All trials", filterable=True)


def _model(study: Study) -> Facts:
    fit, space = study.fit, study.space
    lengths = lengths_of(fit, space)
    pairs: list[tuple[str, Any]] = [
        (f"length scale of {name}, in sides of the box", float(lengths[i]))
        for i, name in enumerate(space.names)
        if not space.categorical[i]
    ]
    pairs += [
        (
            "noise",
            {
                "none": "none",
                "gaussian": "normal",
                "student-t": "Student's t, for gross errors",
                "mixture": "normal, with gross errors",
            }[fit.noise],
        ),
        ("standard deviation of the noise", fit.noise_sd),
        ("acquisition", study.options.acquisition),
    ]
    return Facts(pairs)
