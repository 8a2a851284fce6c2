"""A run in a file: resumed to the bit, torn and hostile lines, another run's file."""

from __future__ import annotations

import json

import pytest

from cavity.design import Limit, Optimizer, Space, read_log
from cavity.runtime.errors import InputError

SPACE = {"lr": (1e-4, 1.0), "depth": [1, 2, 3]}


def value(x):
    return (x["lr"] - 0.3) ** 2 + x["depth"]


def run(path, count, **options):
    optimizer = Optimizer.open(path, SPACE, seed=4, **options)
    for _ in range(count):
        trial = optimizer.ask()
        optimizer.tell(trial, value(trial.x))
    return optimizer


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    whole = run(tmp_path / "whole.jsonl", 9)
    for _ in range(3):
        parts = run(tmp_path / "parts.jsonl", 3)
    assert parts.history == whole.history
    assert (tmp_path / "parts.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    assert Optimizer.open(tmp_path / "parts.jsonl").recommendation == whole.recommendation


def test_a_torn_last_line_is_dropped(tmp_path):
    path = tmp_path / "run.jsonl"
    run(path, 6)
    before = path.read_bytes()
    path.write_bytes(before + b'{"ask": 7, "x": {"lr"')
    log = read_log(path)
    assert log.dropped
    assert len(log.history) == 6
    again = Optimizer.open(path)
    assert path.read_bytes() == before
    again.tell(again.ask(), 2.0)
    assert len(read_log(path).history) == 7


def test_pending_trials_failures_and_corrections_are_kept(tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = run(path, 5, limits=(Limit.parse("size < 3"),))
    trial = optimizer.ask()
    optimizer.tell(1, None)
    optimizer.tell(2, 4.5, noise_sd=0.1, outcomes={"size": 2.0})
    optimizer.tell({"lr": 0.5, "depth": 2}, 1.0)
    log = read_log(path)
    assert log.history == optimizer.history
    assert [str(t.status) for t in log.history][:2] == ["failed", "done"]
    assert log.history[trial.id].status == "pending"
    assert log.options.limits == (Limit("size", 3.0),)


def test_the_log_of_another_run_is_refused_with_the_differences(tmp_path):
    path = tmp_path / "run.jsonl"
    run(path, 2)
    with pytest.raises(InputError, match=r"another run \(lr: Real.*1\.0.* in the file, Real.*2\.0"):
        Optimizer.open(path, {**SPACE, "lr": (1e-4, 2.0)})
    with pytest.raises(InputError, match="goal: minimize in the file, maximize now"):
        Optimizer.open(path, SPACE, goal="maximize")
    with pytest.raises(InputError, match="no run in"):
        Optimizer.open(tmp_path / "none.jsonl")


HEAD = {
    "format": "cavity-design",
    "version": 1,
    "space": {"inputs": [{"name": "a", "kind": "real", "low": 0.0, "high": 1.0}], "constraints": []},
    "goal": "minimize",
    "seed": 0,
    "options": {},
}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([b"not json"], "line 1 is not JSON"),
        ([b"[1, 2]"], "line 1 is no entry"),
        ([b'{"format": "other"}'], "no log of a run"),
        ([json.dumps({**HEAD, "version": 9}).encode()], "version 9"),
        (
            [json.dumps({**HEAD, "space": {"inputs": [{"name": "a", "kind": "os.system"}]}}).encode()],
            "line 1: .*an input is",
        ),
        (
            [json.dumps({**HEAD, "space": {"inputs": [{"name": "a", "kind": "real", "evil": 1}]}}).encode()],
            "line 1",
        ),
        ([json.dumps({**HEAD, "seed": "x"}).encode()], "seed must be a whole number"),
        ([json.dumps(HEAD).encode(), b'{"ask": -1, "x": {"a": 0.5}}'], "line 2: a trial has a number"),
        ([json.dumps(HEAD).encode(), b'{"ask": 1, "x": {"b": 0.5}}'], "line 2: .*no value for a"),
        (
            [json.dumps(HEAD).encode(), b'{"tell": 1, "status": "done", "y": 1.0}'],
            "line 2: there is no trial 1",
        ),
        ([json.dumps(HEAD).encode(), b'{"ask": 1, "x": {"a": NaN}}'], "line 2 is not JSON"),
        (
            [json.dumps(HEAD).encode(), b'{"ask": 1, "x": {"a": 0.5}}', b'{"tell": 1, "status": "gone"}'],
            "line 3",
        ),
        (
            [
                json.dumps(HEAD).encode(),
                b'{"ask": 1, "x": {"a": 0.5}}',
                b'{"tell": 1, "status": "done", "y": "9"}',
            ],
            "line 3",
        ),
        ([json.dumps(HEAD).encode(), b"[" * 100_000], "line 2 is not JSON"),
        ([json.dumps(HEAD).encode(), b'{"hello": 1}'], "an entry is an ask or a tell"),
        (
            [json.dumps(HEAD).encode(), b'{"ask": 1, "x": {"a": 0.5}}', b'{"ask": 1, "x": {"a": 0.6}}'],
            "asked for twice",
        ),
    ],
)
def test_hostile_files_are_refused_with_the_line(tmp_path, lines, words):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(InputError, match=words):
        read_log(path)


def test_a_file_without_a_whole_line_is_refused(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"format": ')
    with pytest.raises(InputError, match="first line is not complete"):
        read_log(path)


def test_spaces_are_stored_as_they_are(tmp_path):
    from cavity.design.log import space_from_plain, space_to_plain

    space = Space({"a": (0.0, 1.0, 0.1), "k": [3, "x"], "b": (0.0, 2.0)}, ["a + b <= 2"])
    assert space_from_plain(json.loads(json.dumps(space_to_plain(space)))) == space
