"""`cavity suggest`: which experiments next, from a table of those done. The table is the study: nothing else is
kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cavity.cli.shared import Debug, check_output, command_line, one_sentence, say

if TYPE_CHECKING:
    from cavity.design import Options, Study, Suggestion
    from cavity.design.space import Input
    from cavity.tables.experiments import Experiments

INTERVAL = 1.6448536269514722
"""Standard deviations of a 90 % interval."""


def suggest(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="Table with a row for each experiment.", show_default=False)],
    minimize: Annotated[str | None, typer.Option(help="Column to make small.", show_default=False)] = None,
    maximize: Annotated[str | None, typer.Option(help="Column to make large.", show_default=False)] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range", help="NAME=LOW:HIGH, NAME=LOW:HIGH:STEP or NAME=LOW:HIGH:log.", show_default=False
        ),
    ] = None,
    levels: Annotated[
        list[str] | None, typer.Option(help="NAME=A,B,C: choices without an order.", show_default=False)
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(help='"a + 2 b <= 10" for inputs, "yield > 80" for another column.', show_default=False),
    ] = None,
    fixed: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: hold an input.", show_default=False)
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Experiments to do at the same time.")] = 1,
    noise: Annotated[str, typer.Option(help="auto, none, gaussian, student-t or mixture.")] = "auto",
    acquisition: Annotated[
        str, typer.Option(help="What to maximize: ei, nei, pi, ucb, thompson, kg, mes, gibbon or pes.")
    ] = "ei",
    confirm: Annotated[
        bool, typer.Option("--confirm/--no-confirm", help="Ask for doubtful measurements again.")
    ] = True,
    explore: Annotated[
        bool, typer.Option("--explore", help="Learn about the whole function; nothing is optimized.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Add the suggestions to the table, with an empty outcome.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the suggestions to a .csv file.", show_default=False),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write an HTML report of the study.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same table and seed give the same suggestions.")] = 0,
    debug: Debug = False,
) -> None:
    """Suggest the next experiments, from a table of those done.

    A row with an empty outcome is pending; one with a word such as "failed" has failed.

    Example: cavity suggest runs.csv --minimize cost --range temp=20:90 --levels catalyst=A,B -n 3
    """
    with one_sentence(debug, n="--count", noise="--noise", acquisition="--acquisition"):
        from cavity.design import Study
        from cavity.design import suggest as suggest_next
        from cavity.tables import read_table
        from cavity.tables.experiments import read_experiments

        outcome, goal = _outcome(minimize, maximize)
        check_output(out, "--out", (data,))
        check_output(report, "--report", (data,))
        inputs = {**_ranges(ranges or []), **_levels(levels or [])}
        table = read_table(data)
        on_inputs, limits = _constraints(
            constraint or [], [str(c) for c in table.frame.columns], list(inputs)
        )
        names = [limit.outcome for limit in limits]
        found = read_experiments(table, outcome, inputs, others=names, constraints=on_inputs)
        for note in found.notes:
            say(note)
        options = _options(
            found, fixed or [], goal=goal, noise=noise, acquisition=acquisition, limits=tuple(limits),
            confirm=confirm, explore=explore,
        )  # fmt: skip
        study = Study(found.history, found.space, options)
        _say_state(study, outcome)
        chosen = suggest_next(found.history, found.space, options, seed, count)
        _say_suggestions(chosen, study, outcome)
        if out is not None:
            _write(out, chosen)
            say(f"Suggestions: {out}")
        if report is not None:
            from cavity.report import study_page

            page = study_page(study, outcome, chosen, command=command_line(context))
            say(f"Report: {page.write(report)}")
        if append:
            _append(data, table.frame, chosen, any("decimal commas" in note for note in table.notes))
            say(f"Added to {data}, with an empty {outcome}.")


def _outcome(minimize: str | None, maximize: str | None) -> tuple[str, str]:
    if (minimize is None) == (maximize is None):
        raise ValueError("give one column to be optimized, by --minimize COLUMN or by --maximize COLUMN")
    return (minimize, "minimize") if minimize is not None else (str(maximize), "maximize")


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name.strip() and sign and value.strip()):
        raise ValueError(f"{option} is given as {example}, got {text!r}")
    return name.strip(), value.strip()


def _ranges(texts: Sequence[str]) -> dict[str, Input]:
    from cavity.design import Real

    found: dict[str, Input] = {}
    for text in texts:
        name, value = _pair(text, "--range", "NAME=LOW:HIGH")
        parts = value.split(":")
        try:
            log = parts[-1] == "log"
            numbers = [float(p) for p in (parts[:-1] if log else parts)]
            if len(numbers) not in (2, 3) or (log and len(numbers) == 3):
                raise ValueError
        except ValueError:
            raise ValueError(
                f"--range is given as NAME=LOW:HIGH, NAME=LOW:HIGH:STEP or NAME=LOW:HIGH:log, got {text!r}"
            ) from None
        try:
            found[name] = Real(
                numbers[0], numbers[1], log=log, step=numbers[2] if len(numbers) == 3 else None
            )
        except ValueError as error:
            raise ValueError(f"--range {text}: {error}") from None
    return found


def _levels(texts: Sequence[str]) -> dict[str, Input]:
    from cavity.design import Categorical

    found: dict[str, Input] = {}
    for text in texts:
        name, value = _pair(text, "--levels", "NAME=A,B,C")
        try:
            found[name] = Categorical(tuple(part.strip() for part in value.split(",")))
        except ValueError as error:
            raise ValueError(f"--levels {text}: {error}") from None
    return found


def _constraints(
    texts: Sequence[str], columns: Sequence[str], inputs: Sequence[str]
) -> tuple[list[str], list[Any]]:
    """Those on inputs, and limits on other columns."""
    from cavity.design import Limit, LinearConstraint

    on_inputs, limits = [], []
    for text in texts:
        try:
            limit = Limit.parse(text)
        except ValueError:
            limit = None
        if limit is not None and limit.outcome in columns and limit.outcome not in inputs:
            limits.append(limit)
            continue
        names = [name for name, _ in LinearConstraint.parse(text).weights]
        strange = [name for name in names if name not in columns]
        if strange:
            raise ValueError(f"--constraint {text!r}: there is no column {strange[0]!r}")
        on_inputs.append(text)
    return on_inputs, limits


def _options(found: Experiments, fixed: Sequence[str], **options: Any) -> Options:
    from cavity.design import Options

    held: dict[str, Any] = {}
    for text in fixed:
        name, value = _pair(text, "--fixed", "NAME=VALUE")
        found.space.require(name)
        held[name] = value
    return Options(fixed=held, **options)


def _number(value: float) -> str:
    return f"{value:.5g}"


def _setting(x: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_number(v) if isinstance(v, float) else v}" for name, v in x.items())


def _say_state(study: Study, outcome: str) -> None:
    from cavity.runtime.sentences import counted

    parts = [counted(len(study.done), "experiment") + " done"]
    parts += [
        f"{len(group)} {word}"
        for group, word in ((study.pending, "pending"), (study.failed, "failed"))
        if group
    ]
    say(", ".join(parts) + ".")
    best = study.recommendation
    if best is not None and best.sd == best.sd:
        low, high = best.mean - INTERVAL * best.sd, best.mean + INTERVAL * best.sd
        say(
            f"Best so far: row {best.trial} ({_setting(best.x)}), {outcome} about {_number(best.mean)} "
            f"({_number(low)} to {_number(high)} with 90 % probability)."
        )
        say(f"It can hardly be better anywhere by more than {_number(study.gap)}.")
    elif best is not None:
        say(f"Best so far: row {best.trial} ({_setting(best.x)}), {outcome} {_number(best.mean)}.")
    say_doubtful(study, "row")


def say_doubtful(study: Study, trial: str) -> None:
    """Name the measurements that are probably wrong, if there are any."""
    rows = ", ".join(f"{row} ({p:.0%})" for row, p in study.doubtful.items())
    if rows:
        say(
            f"Doubtful measurements, with the probability that they are wrong: {trial} {rows}.",
            style="yellow",
        )


def _say_suggestions(chosen: Sequence[Suggestion], study: Study, outcome: str) -> None:
    for number, one in enumerate(chosen, 1):
        say(f"{number}. {_setting(one.x)}", style="bold")
        said = f"   {one.why}"
        if one.mean == one.mean:
            low, high = one.mean - INTERVAL * one.sd, one.mean + INTERVAL * one.sd
            said += f"; expected {outcome} {_number(one.mean)} ({_number(low)} to {_number(high)})"
        if one.improvement == one.improvement:
            said += f", better than the best so far with probability {one.improvement:.0%}"
        say(said + ".")


def _cell(value: Any) -> str:
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def _write(path: Path, chosen: Sequence[Suggestion]) -> None:
    import pandas as pd

    rows = [
        {
            **{name: float(_cell(v)) if isinstance(v, float) else v for name, v in one.x.items()},
            "expected": one.mean,
            "low": one.mean - INTERVAL * one.sd,
            "high": one.mean + INTERVAL * one.sd,
            "improvement": one.improvement,
            "why": one.why,
        }
        for one in chosen
    ]
    pd.DataFrame(rows).to_csv(path, index=False)


def _append(path: Path, frame: Any, chosen: Sequence[Suggestion], commas: bool) -> None:
    """The table with the suggestions as rows whose outcome is empty; the file is replaced as a whole."""
    import csv
    import io

    from cavity.runtime.atomic import replaced

    text = path.read_text(encoding="utf-8-sig")
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=separator, lineterminator="\n")
    for one in chosen:
        cells = [_cell(one.x.get(str(column), "")) for column in frame.columns]
        writer.writerow([cell.replace(".", ",") if commas else cell for cell in cells])
    body = text if text.endswith("\n") else text + "\n"
    with replaced(path) as partial:
        partial.write_text(body + buffer.getvalue(), encoding="utf-8")
