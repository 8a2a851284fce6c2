"""`cavity suggest` and `cavity optimize`: tables that are studies, logs that can be resumed, messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cavity.cli import app
from cavity.cli.optimize import filled, last_number


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(result, words):
    assert result.exit_code == 1
    assert words in result.output.replace("\n", " ")


def cost(temp, ph, catalyst):
    return (temp - 55) ** 2 / 50 + 3 * (ph - 6) ** 2 + 4 * (catalyst != "B") + 10


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = ["run,temp,ph,catalyst,yield,cost"]
    for i in range(14):
        temp, ph, catalyst = rng.uniform(20, 90), round(rng.uniform(4, 9), 1), "ABC"[i % 3]
        y = {3: "failed", 4: ""}.get(i, f"{cost(temp, ph, catalyst):.4f}")
        lines.append(f"r{i},{temp:.2f},{ph},{catalyst},{70 + ph:.1f},{y}")
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


INPUTS = ("--range", "temp=20:90", "--range", "ph=4:9:0.1", "--levels", "catalyst=A,B,C")


def test_suggestions_from_a_table(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "next.csv"
    result = run("suggest", table, "--minimize", "cost", *INPUTS, "-n", 2, "--out", out)
    assert result.exit_code == 0, result.output
    assert "12 experiments done, 1 pending, 1 failed." in result.output
    assert "Columns run, yield are not used" in result.output
    assert "Best so far: row" in result.output
    assert "with probability" in result.output
    chosen = pd.read_csv(out)
    assert list(chosen.columns[:3]) == ["temp", "ph", "catalyst"]
    assert len(chosen) == 2
    assert chosen.temp.between(20, 90).all()
    assert np.allclose((chosen.ph * 10) % 1, 0, atol=1e-6)
    again = run("suggest", table, "--minimize", "cost", *INPUTS, "-n", 2, "--out", out)
    assert again.output == result.output  # the table is the study
    assert pd.read_csv(out).equals(chosen)


def test_suggestions_are_added_to_the_table(table: Path) -> None:
    before = table.read_text()
    result = run("suggest", table, "--maximize", "cost", *INPUTS, "--fixed", "catalyst=A", "--append")
    assert result.exit_code == 0, result.output
    after = table.read_text()
    assert after.startswith(before)
    last = after.strip().splitlines()[-1].split(",")
    assert last[0] == ""
    assert last[3] == "A"
    assert last[-1] == ""
    second = run("suggest", table, "--maximize", "cost", *INPUTS)
    assert "2 pending" in second.output


def test_decimal_commas_are_kept(table: Path) -> None:
    table.write_text(table.read_text().replace(",", ";").replace(".", ","))
    result = run("suggest", table, "--minimize", "cost", *INPUTS, "--append")
    assert result.exit_code == 0, result.output
    assert "." not in table.read_text()


def test_ranges_of_the_table_are_told(table: Path) -> None:
    result = run("suggest", table, "--minimize", "cost")
    assert result.exit_code == 0, result.output
    assert "the range in the table; give --range temp=LOW:HIGH" in result.output
    assert "catalyst: one of A, B, C" in result.output
    assert "run:" not in result.output  # names of rows are no input


def test_limits_on_other_columns_and_constraints_on_inputs(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "next.csv"
    options = ("--constraint", "yield > 75", "--constraint", "temp + 10 ph <= 120", "--out", out)
    result = run("suggest", table, "--minimize", "cost", *INPUTS, *options)
    assert result.exit_code == 0, result.output
    chosen = pd.read_csv(out)
    assert (chosen.temp + 10 * chosen.ph <= 120 + 1e-6).all()


def test_exploring_and_rows_outside_the_ranges(table: Path) -> None:
    result = run(
        "suggest", table, "--minimize", "cost", "--range", "temp=40:60", "--range", "ph=4:9", "--explore"
    )
    assert result.exit_code == 0, result.output
    assert "outside the ranges: used to learn from, never proposed" in result.output
    assert "least is known here" in result.output


def test_a_doubtful_row_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.random((24, 2))
    y = (X[:, 0] - 0.4) ** 2 + X[:, 1] ** 2
    y[10] -= 8.0
    path = tmp_path / "runs.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(path, index=False)
    result = run("suggest", path, "--minimize", "y", "--range", "a=0:1", "--range", "b=0:1")
    assert result.exit_code == 0, result.output
    assert "Doubtful measurements" in result.output
    assert "row 11 (" in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "give one column to be optimized"),
        (("--minimize", "cost", "--maximize", "cost"), "give one column to be optimized"),
        (("--minimize", "price"), "there is no column 'price'; there are"),
        (("--minimize", "cost", "--range", "temp=90:20"), "the lower one first, got 90 and 20"),
        (("--minimize", "cost", "--range", "temp=20:20"), "two different numbers"),
        (("--minimize", "cost", "--range", "temp"), "--range is given as"),
        (("--minimize", "cost", "--range", "temp=a:b"), "--range is given as"),
        (("--minimize", "cost", "--range", "heat=1:2"), "there is no column 'heat'"),
        (
            ("--minimize", "cost", "--levels", "catalyst=A,B"),
            "row 3: input 'catalyst': 'C' is none of the categories",
        ),
        (("--minimize", "cost", "--levels", "catalyst=A"), "at least two"),
        (("--minimize", "cost", *INPUTS, "--fixed", "speed=3"), "there is no input 'speed'"),
        (("--minimize", "cost", *INPUTS, "--constraint", "speed < 3"), "there is no column 'speed'"),
        (("--minimize", "cost", *INPUTS, "--noise", "loud"), "--noise must be one of"),
        (("--minimize", "cost", *INPUTS, "-n", 0), "--count must be a whole number"),
        (
            ("--minimize", "cost", *INPUTS, "--acquisition", "best"),
            "--acquisition must be one of 'ei', 'nei'",
        ),
    ],
)
def test_what_makes_no_sense_is_one_sentence(table: Path, options, words) -> None:
    refused(run("suggest", table, *options), words)


def test_words_among_numbers_with_three_decimals(table: Path) -> None:
    """A column with a word in it is text to pandas: 8.045 is still what it is."""
    text = table.read_text().splitlines()
    lines = [text[0]] + [
        line.rsplit(",", 1)[0] + "," + (y if y in ("", "failed") else f"{float(y):.3f}")
        for line, y in ((line, line.rsplit(",", 1)[1]) for line in text[1:])
    ]
    table.write_text("\n".join(lines).replace("failed", "failed at step 3") + "\n")
    result = run("suggest", table, "--minimize", "cost", *INPUTS)
    assert result.exit_code == 0, result.output
    assert "12 experiments done, 1 pending, 1 failed." in result.output


def test_infinite_outcomes_have_failed(table: Path) -> None:
    text = table.read_text()
    table.write_text(text.replace(text.strip().rsplit(",", 1)[1], "inf"))
    result = run("suggest", table, "--minimize", "cost", *INPUTS)
    assert result.exit_code == 0, result.output
    assert "11 experiments done, 1 pending, 2 failed." in result.output


def test_an_outcome_that_is_nearly_a_number_is_named(table: Path) -> None:
    text = table.read_text()
    last = text.strip().rsplit(",", 1)[1]
    table.write_text(text.replace(last, "12.5?"))
    refused(run("suggest", table, "--minimize", "cost", *INPUTS), "row 14: the cost '12.5?' is no number")


def test_the_report_of_a_table(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "study.html"
    result = run("suggest", table, "--minimize", "cost", *INPUTS, "--report", page)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "Study of cost" in text
    assert "cavity suggest" in text
    refused(
        run("suggest", table, "--minimize", "cost", *INPUTS, "--report", table), "--report would overwrite"
    )


# --- optimize -----------------------------------------------------------------------------------------------

SPACE = """
lr = {low = 1e-3, high = 1.0, log = true}
depth = {low = 1, high = 4, integer = true}
kind = ["a", "b; rm x"]
"""

PROGRAM = """
import sys, math
lr, depth, kind = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
print("epoch 3 of 3")
if depth == 4:
    sys.exit(2)
print("loss =", (math.log10(lr) + 1.5) ** 2 + abs(depth - 2) + (kind == "a"), "after 17 s")
"""


@pytest.fixture
def program(tmp_path: Path):
    (tmp_path / "space.toml").write_text(SPACE)
    (tmp_path / "train.py").write_text(PROGRAM)

    def call(calls, log="run.jsonl", *options, script="train.py"):
        return run(
            "optimize", "--minimize", "loss", "--space", tmp_path / "space.toml", "--log", tmp_path / log,
            "--calls", calls, *options, "--", sys.executable, "-S", tmp_path / script, "{lr}", "{depth}", "{kind}",
        )  # fmt: skip

    return call


def test_a_program_is_optimized_and_resumed_to_the_same_lines(program, tmp_path: Path) -> None:
    whole = program(8, "whole.jsonl")
    assert whole.exit_code == 0, whole.output
    assert "Best: run" in whole.output
    assert program(5).exit_code == 0
    with open(tmp_path / "run.jsonl", "a") as file:
        file.write('{"ask": 6, "x"')
    resumed = program(8)
    assert "was not complete and was dropped" in resumed.output
    assert "5 runs so far" in resumed.output
    assert (tmp_path / "run.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert len(lines) == 17
    tried = {line["ask"]: line["x"]["depth"] for line in lines if "ask" in line}
    failed = [line["tell"] for line in lines if line.get("status") == "failed"]
    assert failed == [id for id, depth in tried.items() if depth == 4]


def test_the_report_of_a_log(program, tmp_path: Path) -> None:
    log, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    assert program(9, "run.jsonl", "--acquisition", "ucb").exit_code == 0
    log.write_text(log.read_text() + '{"ask": 10, "x"')
    result = run("report", log, "-o", page)
    assert result.exit_code == 0, result.output
    assert "The last line of" in result.output
    assert "Study of outcome" in page.read_text()
    assert log.read_text().endswith('"x"')  # a report changes nothing
    refused(run("report", tmp_path / "space.toml", "-o", page), "is no log of cavity optimize")


def test_a_pending_run_is_done_first(program, tmp_path: Path) -> None:
    assert program(3).exit_code == 0
    path = tmp_path / "run.jsonl"
    path.write_text(
        "\n".join(path.read_text().splitlines()[:-1]) + "\n"
    )  # killed while the third was running
    assert program(3).exit_code == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["tell"] for line in lines if "tell" in line] == [1, 2, 3]


def test_ctrl_c_leaves_a_log_to_go_on_with(program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cavity.cli import optimize as module

    whole = program(6, "whole.jsonl")
    assert whole.exit_code == 0
    before, calls = module._one, iter(range(100))

    def interrupted(*arguments):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return before(*arguments)

    monkeypatch.setattr(module, "_one", interrupted)
    stopped = program(6)
    assert stopped.exit_code == 130
    assert "goes on with the same command" in stopped.output
    assert program(6).exit_code == 0
    assert (tmp_path / "run.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()


def test_bad_programs_and_spaces_are_one_sentence(program, tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text("print('done')")
    refused(program(2, "a.jsonl", script="silent.py"), "no run of the program printed a number")
    space, log = tmp_path / "space.toml", tmp_path / "b.jsonl"
    common = ("optimize", "--minimize", "loss", "--space", space, "--log", log, "--")
    refused(run(*common, "true", "{lr}", "{size}"), "{size} is no input of the space")
    refused(run(*common, "true", "{lr}"), "the program is not told depth, kind")
    refused(run(*common, "/no/such", "{lr}{depth}{kind}"), "cannot be run")
    space.write_text("lr = {low = 1, up = 2}")
    refused(run(*common, "true", "{lr}"), "lr has low, high")
    space.write_text("lr = [")
    refused(run(*common, "true", "{lr}"), "is no TOML file")
    space.write_text("lr = [2.0, 1.0]")
    refused(run(*common, "true", "{lr}"), "lower one first")


def test_the_log_of_another_space_is_refused(program, tmp_path: Path) -> None:
    assert program(2).exit_code == 0
    (tmp_path / "space.toml").write_text(SPACE.replace("1.0", "2.0"))
    refused(program(3), "is the log of another run (lr:")


def test_a_run_that_takes_too_long_has_failed(program, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)")
    refused(
        program(1, "c.jsonl", "--timeout", 0.2, script="slow.py"), "no run of the program printed a number"
    )


def test_numbers_are_found_in_output() -> None:
    assert last_number("loss: 3.5e-2, took 17 s", "loss") == 0.035
    assert last_number("a 1\nb 2.5\n", "loss") == 2.5
    assert last_number("glossary 3 loss none 4", "loss") == 4.0
    assert np.isnan(last_number("loss nan", "loss"))
    assert last_number("nothing", "loss") is None


def test_values_never_become_further_arguments() -> None:
    assert filled(["p", "--k={k}", "{z}"], {"k": "a b; rm x", "z": 1}) == ["p", "--k=a b; rm x", "1"]
