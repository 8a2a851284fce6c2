"""A history as a file of lines to which lines are added, so that a run can be stopped at any moment and resumed.

The first line says what the run is about, each further one is an ask or a tell, in JSON:

    {"format": "cavity-design", "version": 1, "space": {...}, "goal": "minimize", "seed": 0, "options": {...}}
    {"ask": 7, "x": {"lr": 0.01}, "why": "..."}
    {"tell": 7, "status": "done", "y": 3.1}

A line is written by one call and synced. A last line that was cut off is dropped; a later tell of the same trial
corrects an earlier one, and both stay in the file. Reading builds plain values from checked ones, and runs nothing.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cavity.design.feasibility import Limit
from cavity.design.history import History, Status, Trial
from cavity.design.space import Categorical, Input, Integer, LinearConstraint, Real, Space
from cavity.design.suggestion import Options
from cavity.runtime.errors import InputError

FORMAT, VERSION = "cavity-design", 1

LONGEST_LINE = 1_000_000
LARGEST_FILE = 1_000_000_000
MOST_INPUTS = 10_000
"""Beyond these a file is none of ours."""

KINDS: dict[str, type] = {"real": Real, "integer": Integer, "categorical": Categorical}


@dataclass
class RunLog:
    """A run in a file.

    Attributes
    ----------
    path : Path
    space, options, seed
        What the first line says.
    history : History
        As it was when the file was opened.
    dropped : bool
        Whether a last line that was cut off was dropped.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cavity.design import Optimizer, read_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     optimizer = Optimizer.open(Path(folder) / "run.jsonl", {"x": (0.0, 1.0)})
    ...     optimizer.tell(optimizer.ask(), 3.0)
    ...     log = read_log(Path(folder) / "run.jsonl")
    >>> len(log.history), log.space.names, log.dropped
    (1, ('x',), False)
    """

    path: Path
    space: Space
    options: Options
    seed: int
    history: History = field(default_factory=History)
    dropped: bool = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], space: Space | None, options: Options, seed: int) -> RunLog:
        """A file resumed, or made anew if there is none."""
        place = Path(path)
        if place.exists() and place.stat().st_size:
            log = read_log(place)
            if space is not None:
                log.require_same(space, options)
            if log.dropped:
                _drop_torn_line(place)
            return log
        if space is None:
            raise InputError(f"there is no run in {place}, and no space to begin one with")
        log = cls(place, space, options, seed)
        log._add(log._head())
        return log

    def _head(self) -> dict[str, Any]:
        options = {
            "noise": self.options.noise,
            "acquisition": self.options.acquisition,
            "n_initial": self.options.n_initial,
            "limits": [str(limit) for limit in self.options.limits],
            "confirm": self.options.confirm,
            "explore": self.options.explore,
            "fixed": dict(self.options.fixed),
        }
        return {
            "format": FORMAT,
            "version": VERSION,
            "space": space_to_plain(self.space),
            "goal": self.options.goal,
            "seed": self.seed,
            "options": options,
        }

    def require_same(self, space: Space, options: Options) -> None:
        """Refuse to go on with another space or goal."""
        different = [
            f"{name}: {self.space.inputs.get(name)} in the file, {space.inputs.get(name)} now"
            for name in dict.fromkeys([*self.space.names, *space.names])
            if self.space.inputs.get(name) != space.inputs.get(name)
        ]
        if self.space.names != space.names and not different:
            different.append("the order of the inputs")
        if self.space.constraints != space.constraints:
            different.append("the constraints")
        if self.options.goal != options.goal:
            different.append(f"goal: {self.options.goal} in the file, {options.goal} now")
        if different:
            raise InputError(
                f"{self.path} is the log of another run ({'; '.join(different)}): use its space, or another file"
            )

    def asked(self, trial: Trial) -> None:
        """Add a trial."""
        self._add({"ask": trial.id, "x": trial.x, "why": trial.why})

    def write_outcome(self, trial: Trial) -> None:
        """Add its outcome."""
        line: dict[str, Any] = {"tell": trial.id, "status": str(trial.status), "y": trial.y}
        if trial.noise_sd is not None:
            line["noise_sd"] = trial.noise_sd
        if trial.outcomes:
            line["outcomes"] = dict(trial.outcomes)
        self._add(line)

    def _add(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, allow_nan=False, default=_plain) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise InputError(f"a log holds numbers and text, got {value!r}")


def _drop_torn_line(path: Path) -> None:
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    with open(path, "r+b") as file:
        file.truncate(end)


def is_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file says of itself that it is the log of a run."""
    with open(path, "rb") as file:
        return f'"{FORMAT}"'.encode() in file.readline(LONGEST_LINE)


def read_log(path: str | os.PathLike[str]) -> RunLog:
    """The run in a file, without changing it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cavity.design import Optimizer, read_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.jsonl"
    ...     optimizer = Optimizer.open(path, {"x": (0.0, 1.0)})
    ...     optimizer.tell(optimizer.ask(), 3.0)
    ...     read_log(path).history[1].y
    3.0
    """
    place = Path(path)
    if place.stat().st_size > LARGEST_FILE:
        raise InputError(f"{place} is too large to be a log of a run")
    content = place.read_bytes()
    whole, _, rest = content.rpartition(b"\n")
    lines = [line for line in whole.split(b"\n") if line.strip()]
    if not lines:
        raise InputError(f"{place} is no log of a run: its first line is not complete")
    parsed = [_parse(place, number, line) for number, line in enumerate(lines, 1)]
    head = parsed[0]
    if head.get("format") != FORMAT:
        raise InputError(f"{place} is no log of a run: its first line does not say so")
    if head.get("version") != VERSION:
        raise InputError(f"{place} has version {head.get('version')!r}, this program reads {VERSION}")
    try:
        log = _from_head(place, head)
        log.dropped = bool(rest.strip())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{place}, line 1: {error}") from None
    for number, line in enumerate(parsed[1:], 2):
        try:
            log.history = _apply(log, line)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{place}, line {number}: {error}") from None
    return log


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise InputError(f"{path}, line {number}: too long")

    def refuse(text: str) -> float:
        raise ValueError(f"{text} is not a number that a log may hold")

    try:
        value = json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}, line {number} is not JSON ({error}): remove the line, or mend it"
        ) from None
    if not isinstance(value, dict):
        raise InputError(f"{path}, line {number} is no entry of a log")
    return value


def _from_head(path: Path, head: Mapping[str, Any]) -> RunLog:
    space = space_from_plain(head["space"])
    given = head.get("options", {})
    options = Options(
        goal=head["goal"],
        noise=given.get("noise", "auto"),
        acquisition=given.get("acquisition", "ei"),
        n_initial=given.get("n_initial"),
        limits=tuple(Limit.parse(text) for text in given.get("limits", [])),
        confirm=bool(given.get("confirm", True)),
        explore=bool(given.get("explore", False)),
        fixed=dict(given.get("fixed", {})),
    )
    seed = head["seed"]
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise InputError(f"the seed must be a whole number, got {seed!r}")
    return RunLog(path, space, options, seed)


def _apply(log: RunLog, line: Mapping[str, Any]) -> History:
    """The history with one more line."""
    if "ask" in line:
        id, x = _id(line["ask"]), dict(line["x"])
        log.space.to_unit(x)
        if any(trial.id == id for trial in log.history):
            raise InputError(f"trial {id} was asked for twice")
        return log.history.with_pending(
            {name: x[name] for name in log.space.names}, str(line.get("why", "")), id
        )
    if "tell" in line:
        status = Status(line["status"])
        y = line.get("y")
        if status is Status.DONE and not (isinstance(y, int | float) and math.isfinite(y)):
            raise InputError(f"an outcome is a number, got {y!r}")
        return log.history.completed(
            _id(line["tell"]),
            y,
            noise_sd=line.get("noise_sd"),
            outcomes=line.get("outcomes"),
            failed=status is Status.FAILED,
        )
    raise InputError("an entry is an ask or a tell")


def _id(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"a trial has a number from 1 on, got {value!r}")
    return value


def space_to_plain(space: Space) -> dict[str, Any]:
    """A space as plain values."""
    kinds = {kind: name for name, kind in KINDS.items()}
    inputs = [{"name": name, "kind": kinds[type(one)], **asdict(one)} for name, one in space.inputs.items()]
    constraints = [{"weights": [list(w) for w in c.weights], "limit": c.limit} for c in space.constraints]
    return {"inputs": inputs, "constraints": constraints}


def space_from_plain(plain: Mapping[str, Any]) -> Space:
    """The space that `space_to_plain` told of."""
    inputs: dict[str, Input] = {}
    if len(plain["inputs"]) > MOST_INPUTS:
        raise InputError(f"a space of more than {MOST_INPUTS} inputs")
    for entry in plain["inputs"]:
        fields = {key: value for key, value in entry.items() if key not in ("name", "kind")}
        if entry.get("kind") not in KINDS:
            raise InputError(f"an input is {', '.join(KINDS)}, got {entry.get('kind')!r}")
        inputs[str(entry["name"])] = KINDS[entry["kind"]](**fields)
    constraints = [
        LinearConstraint(tuple((str(name), float(w)) for name, w in c["weights"]), float(c["limit"]))
        for c in plain.get("constraints", [])
    ]
    return Space(inputs, constraints)
