"""Tables as people really have them: each is understood, or refused in one clear sentence."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from cavity.cli import app
from cavity.cli.words import OPTIONS, in_options, words_of
from cavity.runtime.errors import InputError, InPython, Message, Setting
from cavity.tables import TableError, read_table
from cavity.tables.reading import read_blocks

RNG = np.random.default_rng(0)
N = 12
X = RNG.uniform(0, 10, N).round(2)
Y = (np.sin(X) + 0.1 * RNG.standard_normal(N)).round(3)
PLAIN = pd.DataFrame({"x": X, "y": Y})


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})


def fit(path, *options):
    quick = ("--restarts", "0", "--test-size", "0")
    return run("fit", path, "--target", "y", *quick, "-o", path.with_suffix(".cavity"), *options)


def with_comma(value) -> str:
    return str(value).replace(".", ",")


def table(first, columns=("x", "y"), separator=",") -> str:
    """A table with a first column of texts."""
    return "\n".join([separator.join(columns), *(f"{a}{separator}{b}" for a, b in zip(first, Y))]) + "\n"


SWAPPED = str.maketrans(",.", ".,")
DAYS = pd.date_range("2020-01-01", periods=N)
NUMBERS = "Regression (the target is numeric)"
UNDERSTOOD = {
    "semicolons": (PLAIN.to_csv(index=False, sep=";"), NUMBERS),
    "tabs in a file called csv": (PLAIN.to_csv(index=False, sep="\t"), NUMBERS),
    "bars": (PLAIN.to_csv(index=False, sep="|"), NUMBERS),
    "decimal commas": (
        PLAIN.to_csv(index=False, sep=";", decimal=","),
        "Numbers with decimal commas were read as such.",
    ),
    "a column of row numbers": (PLAIN.to_csv(), "The first column has no name and was left out"),
    "a byte order mark": ("\ufeff" + PLAIN.to_csv(index=False), NUMBERS),
    "blanks and empty lines": (PLAIN.to_csv(index=False).replace(",", " , ").replace("\n", "\n\n"), NUMBERS),
    "a name of two lines": (PLAIN.to_csv(index=False).replace("x,", '"a\nb",', 1), NUMBERS),
    "days": (table(DAYS.strftime("%Y-%m-%d")), "Column 'x' holds dates: days since 2020-01-01."),
    "months of years": (
        table(pd.date_range("1999-11", periods=N, freq="3MS").strftime("%Y-%m")),
        "Column 'x' holds dates: years with their fraction.",
    ),
    "dates with points": (
        table(DAYS.strftime("%d.%m.%Y")),
        "dates (day, month, year): days since 2020-01-01",
    ),
    "times of a day": (table(f"2020/1/5 {i + 6}:30" for i in range(N)), "days since 2020-01-05"),
    "truth values as inputs": (PLAIN.assign(flag=X > 5).to_csv(index=False), NUMBERS),
    "truth values as target": (PLAIN.assign(y=X > 5).to_csv(index=False), "2 classes, 'False', 'True'"),
    "three classes of text": (
        PLAIN.assign(y=np.array(["low", "mid", "high"])[np.digitize(X, [4, 7])]).to_csv(index=False),
        "3 classes, 'high', 'low', 'mid'",
    ),
    "text alone": (
        pd.DataFrame({"a": list("uvw") * 4, "b": list("pq") * 6, "y": Y}).to_csv(index=False),
        "Column 'a' is text with 3 levels, 'u', 'v', 'w': 3 0/1 columns (one-hot).",
    ),
    "decimal commas in quotes": (table(f'"{with_comma(v)}"' for v in X), "were read as"),
    "thousands": (
        table(f'"{1000 * v:,.0f}"' for v in X),
        f"numbers such as '{1000 * X[0]:,.0f}' were read as",
    ),
    "per cent": (table(f"{5 * (i % 3)} %" for i in range(N)), "numbers such as '10 %' were read as 10."),
    "a currency": (
        PLAIN.assign(y=[f'"${1000 + 9 * i:,}"' for i in range(N)]).to_csv(index=False, quoting=3, sep=";"),
        "The target 'y': numbers such as '$1,000' were read as 1000.",
    ),
    "euros": (table(f'"{v:,.2f} €"'.translate(SWAPPED) for v in 1000 * X), "were read as"),
    "a column with gaps": (
        PLAIN.assign(x=PLAIN.x.where(X > 2)).to_csv(index=False),
        "filled in by the median",
    ),
    "free text": (
        PLAIN.assign(note=[f"seen {i}" for i in range(N)]).to_csv(index=False),
        "column 'note' is text with 12 different values, such as 'seen 0', and was left out",
    ),
    "an identifier": (
        PLAIN.assign(id=range(N)).to_csv(index=False),
        "column 'id' counts or names rows and was left",
    ),
    "a code for missing values": (PLAIN.assign(z=-999).to_csv(index=False), "Column 'z' is constant (-999)"),
    "rows that repeat": (pd.concat([PLAIN.iloc[:4]] * 3).to_csv(index=False), NUMBERS),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", UNDERSTOOD)
def test_tables_that_are_understood(name, tmp_path, monkeypatch):
    monkeypatch.setattr("cavity.frames.coding.MAX_LEVELS", 8)
    text, said = UNDERSTOOD[name]
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    result = fit(path)
    assert result.exit_code == 0, result.output
    assert said in result.stdout
    predicted = run("predict", path.with_suffix(".cavity"), path)
    assert predicted.exit_code == 0, predicted.output
    assert len(predicted.stdout.split()) == N + 1


WIDE = PLAIN.assign(x=X, z=X**2)[["x", "z", "y"]]
BLANK = {
    "one blank": WIDE.to_csv(index=False, sep=" "),
    "columns in line": WIDE.to_string(index=False) + "\n",
    "names in quotes": WIDE.rename(columns={"z": "z squared"}).to_csv(index=False, sep=" "),
    "decimal commas": WIDE.to_csv(index=False, sep=" ", decimal=","),
    "commas": WIDE.to_csv(index=False),
    "tabs": WIDE.to_csv(index=False, sep="\t"),
    "semicolons": WIDE.to_csv(index=False, sep=";", decimal=","),
}


@pytest.mark.parametrize("name", BLANK)
@pytest.mark.parametrize("ending", ["txt", "DAT"])
def test_cells_in_text_files_may_be_separated_by_blanks(name, ending, tmp_path):
    path = tmp_path / f"t.{ending}"
    path.write_text(BLANK[name], encoding="utf-8")
    found = read_table(path).frame
    assert [c.split()[0] for c in found.columns] == ["x", "z", "y"]
    np.testing.assert_allclose(found.to_numpy(dtype=float), WIDE.to_numpy(), rtol=1e-4)


def test_a_text_file_of_one_column_is_a_table(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("x\n1\n2\n3\n", encoding="utf-8")
    assert read_table(path).frame["x"].tolist() == ["1", "2", "3"]


def test_rows_without_a_target_are_left_out_with_a_note(tmp_path):
    path = tmp_path / "t.csv"
    PLAIN.assign(y=PLAIN.y.where(~PLAIN.index.isin([1, 5]))).to_csv(path, index=False)
    read = read_table(path).with_target("y")
    assert read.notes == ("2 rows without a value of 'y' were left out (2, 6).",)
    assert read.rows.tolist() == [1, 3, 4, 5, *range(7, N + 1)]
    assert read.total == len(read.frame) == N - 2
    np.testing.assert_array_equal(read.frame.x.astype(float), np.delete(X, [1, 5]))
    other = read_table(path)
    assert other.with_target("x") is other


REFUSED = {
    "one row": ("x,y\n1,2\n", "the table has 1 row; a model needs at least 3"),
    "two rows": ("x,y\n1,2\n2,3\n", "the table has 2 rows; a model needs at least 3"),
    "no rows": ("x,y\n", "has a header but no rows"),
    "nothing": ("", "is empty"),
    "a constant target": (PLAIN.assign(y=3).to_csv(index=False), "the target 'y' is the same in all rows, 3"),
    "one class": (PLAIN.assign(y="a").to_csv(index=False), "has one class only, 'a': there is nothing to tell"),
    "a target without values": (PLAIN.assign(y="").to_csv(index=False), "'y' is missing in"),
    "days that may be months": (
        table(DAYS.strftime("%d/%m/%Y")),
        "such as '01/01/2020', of which nobody can tell whether the day or the month comes first",
    ),
    "a word among dates": (
        table([*DAYS.strftime("%Y-%m-%d"), "soon"][1:]).replace("soon", "2020-13-01"),
        "column 'x' has '2020-13-01' in row 12, which is not a date such as 2024-03-05",
    ),
    "thousands or decimals": (table(f'"{i + 1},{i + 123}"' for i in range(N)), "which may be 1123 or 1.123; write"),
    "thousands or decimals of a target": (
        PLAIN.assign(y=[f"{i + 1}.{i + 123} €" for i in range(N)]).to_csv(index=False),
        "the target 'y' has numbers such as '1.123', which may be 1123 or 1.123; write them",
    ),
    "two currencies": (table(f"{'$€'[i % 2]}{i}" for i in range(N)), "column 'x' has numbers with $ and €; use one"),
    "per cent here and there": (table(f"{i}{'%' * (i % 2)}" for i in range(N)), "with and without a per cent sign"),
    "commas and points": (
        table([*map(with_comma, X[1:]), "1.234"], separator=";"),
        "column 'x' has numbers with decimal commas and numbers with points",
    ),
    "thousands beside decimal commas": (
        "x;sold;y\n4,83;2;940\n5,2;3;1.000\n6,1;4;1.100\n",
        "column 'x' has decimal commas, so that the points in column 'y' may be decimal points or stand between thou",
    ),
    "huge numbers": (PLAIN.assign(x=X * 1e300).to_csv(index=False), "column 'x' has values of up to"),
    "a huge target": (PLAIN.assign(y=Y * 1e300).to_csv(index=False), "the target 'y' has values of up to"),
    "a tiny target": (PLAIN.assign(y=Y * 1e-200).to_csv(index=False), "give it in other units"),
    "infinity": (table(["inf", *X[1:]]), "column 'x' has 'inf' in row 1, which is not a finite number"),
    "a name twice": (PLAIN.to_csv(index=False, header=["y", "y"]), "two columns are called 'y'"),
    "a column without a name": ("x,,y\n1,2,3\n2,3,4\n", "column 2 has no name in the header; give it one"),
    "no header": (PLAIN.to_csv(index=False, header=False), "the first row must hold names, and here it holds num"),
    "capitals": (PLAIN.rename(columns={"y": "Y"}).to_csv(index=False), "did you mean 'Y'?"),
    "no inputs": (PLAIN[["y"]].to_csv(index=False), "no input columns are left"),
    "nothing but free text": (table(f"L{i}" for i in range(N)), "'x' is text with 12 different values, such as 'L0'"),
    "labels that are no classes": (PLAIN.assign(y=[f"t{i}" for i in range(N)]).to_csv(index=False), "not classes"),
    "blanks between cells": (PLAIN.to_csv(index=False, sep=" "), "where it is blanks, call the file .txt"),
    "a remark of one word before the header": ("# today\n\n" + PLAIN.to_csv(index=False), "names of the columns must"),
    "rows of different lengths": ("x,y\n1,2\n3,4,5\n6,7\n", "is not a regular table"),
    "a quote without end": ('x,y\n"1,2\n3,4\n', "is not a regular table"),
    "a remark before the header": ("# made today\n" + PLAIN.to_csv(index=False), "more cells than its header"),
    "rows longer than the header": ("x,y\n1,2,3\n4,5,6\n7,8,9\n", "more cells than its header has names"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr("cavity.frames.coding.MAX_LEVELS", 8)
    monkeypatch.setattr("cavity.tables.preparation.MAX_LEVELS", 8)
    text, message = REFUSED[name]
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    result = fit(path)
    assert result.exit_code == 1, result.output
    sentence = result.stderr.replace("\n", " ")
    assert message in sentence, sentence
    assert "Traceback" not in result.output
    assert not path.with_suffix(".cavity").exists()


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("zipped", [False, True])
def test_other_encodings_are_read(encoding, zipped, tmp_path):
    path = tmp_path / ("t.csv.gz" if zipped else "t.csv")
    words = ["größe", "naïve", "Ærø"] * 4
    content = PLAIN.assign(größe=words).to_csv(index=False).encode(encoding)
    path.write_bytes(gzip.compress(content) if zipped else content)
    read = read_table(path)
    assert list(read.frame) == ["x", "y", "größe"]
    assert read.frame["größe"].tolist() == words
    assert [note[:42] for note in read.notes] == ["The file is not in UTF-8 and was read as W"] * (
        encoding in GUESSED
    )


GUESSED = ("latin-1", "cp1252")


def test_unicode_text_of_spreadsheets_is_read(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes(PLAIN.to_csv(index=False, sep="\t", lineterminator="\r\n").encode("utf-16"))
    np.testing.assert_allclose(read_table(path).frame.to_numpy(dtype=float), PLAIN.to_numpy())


def test_decimal_commas_are_numbers_and_the_same_in_every_block(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(PLAIN.to_csv(index=False, sep=";", decimal=","))
    np.testing.assert_array_equal(read_table(path).frame.astype(float), PLAIN)
    # a comma in one block and a point in another are still two ways to write numbers
    path.write_text("x;y\n1,5;2\n2,5;3\n1.234;4\n")
    with pytest.raises(TableError, match="decimal commas and numbers with points"):
        list(read_blocks(path, rows=2))
    # numbers below one have no thousands, and neither have dates
    path.write_text("x;y;z\n1,5;0.125;01.02.2023\n2,5;0.25;28.02.2023\n")
    assert read_table(path).frame.x.tolist() == ["1.5", "2.5"]
    # text with commas stays what it is
    path.write_text("x;y\na,b;2\nc,d;3\n")
    assert read_table(path).frame.x.tolist() == ["a,b", "c,d"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--likelihood", "probit"],
            "probit noise is for classes, and 'y' is a number; use another --likelihood, or --task classification",
        ),
        (["--likelihood", "poisson"], f"must hold non-negative integers (counts), got {Y[0]:g} in row 1"),
        (["--likelihood", "student-t", "--inference", "exact"], "use --inference laplace"),
        (["--restarts", "-1"], "--restarts must be an integer >= 0"),
        (["--max-time", "-1"], "--max-time must be a number of seconds >= 0"),
        (["--mean", "cubic"], "--mean must be 'zero', 'constant', 'linear'"),
        (["--kernel", "SE([1.0, 2.0, 3.0])"], "SE is made for 3 input columns, but the data have 1"),
    ],
)
def test_options_that_do_not_suit_the_table(options, message, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(PLAIN.to_csv(index=False))
    result = fit(path, *options)
    assert result.exit_code == 1, result.output
    assert message in result.stderr.replace("\n", " "), result.stderr


def test_a_class_of_one_row_cannot_be_held_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(PLAIN.assign(y=["a"] * (N - 1) + ["b"]).to_csv(index=False))
    result = run("compare", path, "--target", "y", "--folds", "3")
    assert result.exit_code == 1
    assert "the class 'b' has one row only, which cannot be held out and learned from" in result.stderr


def test_messages_name_options_of_the_command_line():
    message = Message(
        ("learning was stopped early (", Setting("max_time"), " was reached)"),
        remedy=(InPython("see runs_, and "), "fit again with more ", Setting("n_restarts")),
    )
    assert message.render(in_options) == (
        "learning was stopped early (--max-time was reached); fit again with more --restarts"
    )
    assert str(message).endswith("(max_time was reached); see runs_, and fit again with more n_restarts")
    error = InputError("must be at least 1, got 0", parameter="learn_rows", value=0)
    assert error.message.render(in_options) == "--learn-rows must be at least 1, got 0"
    assert in_options(Setting("drop", "day of sale")) == "--drop 'day of sale'"
    assert in_options(Setting("objective", "loo")) == "objective='loo'"


def test_a_command_may_have_its_own_name_for_an_argument():
    error = InputError("must be a rule, got 'x'", parameter="inference", value="x")
    assert error.message.render(words_of(inference="--method")) == "--method must be a rule, got 'x'"


def test_every_argument_has_an_option_that_exists():
    commands = typer.main.get_command(app).commands.values()
    known = {option for command in commands for parameter in command.params for option in parameter.opts}
    assert set(OPTIONS.values()) <= known
