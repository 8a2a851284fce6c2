"""`cavity optimize`: run a program again and again with better settings; a log that can be resumed at any moment."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cavity.cli.shared import INTERRUPTED, Debug, one_sentence, say

if TYPE_CHECKING:
    from cavity.design import Optimizer, Space, Trial

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b", re.IGNORECASE)
"""A number as programs print it."""

KEPT_OUTPUT = 1_000_000
"""Characters at the end of a program's output in which its number is looked for."""


def optimize(
    command: Annotated[
        list[str],
        typer.Argument(help="After --: the program, with {name} for each input.", show_default=False),
    ],
    space: Annotated[
        Path, typer.Option(help="TOML file: name = [low, high], or a table of its own.", show_default=False)
    ],
    log: Annotated[Path, typer.Option(help="File of the run; resumed if it exists.", show_default=False)],
    minimize: Annotated[str | None, typer.Option(help="Name of what is printed.", show_default=False)] = None,
    maximize: Annotated[
        str | None, typer.Option(help="The same, to be made large.", show_default=False)
    ] = None,
    calls: Annotated[int, typer.Option(help="Runs of the program, in all.")] = 50,
    noise: Annotated[str, typer.Option(help="auto, none, gaussian, student-t or mixture.")] = "auto",
    acquisition: Annotated[
        str, typer.Option(help="What to maximize: ei, nei, pi, ucb, thompson, kg, mes, gibbon or pes.")
    ] = "ei",
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a run has failed.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="For the initial design.")] = 0,
    debug: Debug = False,
) -> None:
    """Optimize what a program prints: its last number, or the last one after the name.

    A run that ends with an error, prints no number or takes too long has failed. Ctrl-C leaves a log to go on with.

    Example: cavity optimize --minimize loss --space space.toml --log run.jsonl -- python train.py --lr {lr}
    """
    with one_sentence(debug, noise="--noise", acquisition="--acquisition"):
        from cavity.cli.suggest import _outcome
        from cavity.design import Optimizer, Status
        from cavity.runtime.sentences import counted

        name, goal = _outcome(minimize, maximize)
        if calls < 1:
            raise ValueError(f"--calls must be at least 1, got {calls}")
        inputs = read_space(space)
        _check_command(command, inputs)
        optimizer = Optimizer.open(log, inputs, goal, seed=seed, noise=noise, acquisition=acquisition)
        if optimizer.dropped_line:
            say(f"The last line of {log} was not complete and was dropped.", style="yellow")
        if len(optimizer.history):
            say(f"Resumed {log}: {counted(len(optimizer.history), 'run')} so far.")
        try:
            _run(optimizer, command, name, calls, timeout)
        except KeyboardInterrupt:
            _say_best(optimizer, name)
            say(f"Interrupted; {log} goes on with the same command.", stderr=True)
            raise typer.Exit(INTERRUPTED) from None
        if not optimizer.history.of(Status.DONE):
            tried = " ".join(filled(command, optimizer.history.trials[-1].x))
            raise ValueError(f"no run of the program printed a number; try it by hand: {tried}")
        _say_best(optimizer, name)


def read_space(path: Path) -> Space:
    """A space from a TOML file: `lr = {low = 1e-4, high = 1.0, log = true}`, `depth = {low = 1, high = 9, integer =
    true}`,
    `kind = ["a", "b"]`, `temp = [20.0, 90.0]`, and `constraints = ["a + b <= 1"]`."""
    import tomllib

    from cavity.design import Integer, Real, Space

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None
    constraints = content.pop("constraints", [])
    inputs: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            fields = dict(value)
            kind: Any = Integer if fields.pop("integer", False) else Real
            try:
                inputs[name] = kind(**fields)
            except TypeError:
                raise ValueError(
                    f"{path}: {name} has low, high, and log, step or integer, got {', '.join(value)}"
                ) from None
            except ValueError as error:
                raise ValueError(f"{path}: {name}: {error}") from None
        elif isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value):
            inputs[name] = (float(value[0]), float(value[1]))
        else:
            inputs[name] = value
    return Space(inputs, constraints)


def _check_command(command: list[str], space: Space) -> None:
    named = set(re.findall(r"\{(\w+)\}", " ".join(command)))
    strange = sorted(named - set(space.names))
    if strange:
        raise ValueError(
            f"{{{strange[0]}}} is no input of the space; the inputs are {', '.join(space.names)}"
        )
    unused = [name for name in space.names if name not in named]
    if unused:
        raise ValueError(
            f"the program is not told {', '.join(unused)}: write {{{unused[0]}}} where it should stand"
        )


def filled(command: list[str], x: Mapping[str, Any]) -> list[str]:
    """The command with the values of a setting; each argument stays one argument, whatever the values are."""
    return [re.sub(r"\{(\w+)\}", lambda m: str(x.get(m[1], m[0])), part) for part in command]


def last_number(output: str, name: str) -> float | None:
    """The last number after the name if that is printed, else the last number."""
    tail = output[-KEPT_OUTPUT:]
    named = [m.end() for m in re.finditer(rf"\b{re.escape(name)}\b\s*[:=]?\s*", tail)]
    for start in reversed(named):
        match = NUMBER.match(tail, start)
        if match is not None:
            return float(match[0])
    numbers = NUMBER.findall(tail)
    return float(numbers[-1]) if numbers else None


def _run(optimizer: Optimizer, command: list[str], name: str, calls: int, timeout: float | None) -> None:
    from cavity.design import Status

    waiting = list(optimizer.history.of(Status.PENDING))  # of a run that was interrupted
    while waiting or len(optimizer.history) < calls:
        trial: Trial = waiting.pop(0) if waiting else optimizer.ask()
        y, why = _one(filled(command, trial.x), name, timeout)
        optimizer.tell(trial, y)
        setting = ", ".join(
            f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in trial.x.items()
        )
        said = f"{name} {y:.6g}" if y is not None else f"failed: {why}"
        say(f"{trial.id:4d}  {setting}  {said}")


def _one(command: list[str], name: str, timeout: float | None) -> tuple[float | None, str]:
    """What one run printed, or None and why it failed."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, errors="replace", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"took more than {timeout:g} seconds"
    except OSError as error:
        raise ValueError(f"the program {command[0]!r} cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        return None, f"exit code {done.returncode}"
    y = last_number(done.stdout, name)
    if y is None or y != y or abs(y) == float("inf"):
        return None, "it printed no number" if y is None else f"it printed {y}"
    return y, ""


def _say_best(optimizer: Optimizer, name: str) -> None:
    from cavity.cli.suggest import say_doubtful

    study = optimizer.study
    best = study.recommendation
    if best is None:
        return
    setting = ", ".join(f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in best.x.items())
    spread = f" (standard deviation {best.sd:.2g})" if best.sd == best.sd else ""
    say(f"Best: run {best.trial}, {setting}; {name} about {best.mean:.6g}{spread}.", style="bold")
    say_doubtful(study, "run")
