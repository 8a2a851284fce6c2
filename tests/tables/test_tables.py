"""Tables in: reading files, what columns mean, messages for everything that can be wrong, models that remember."""

from __future__ import annotations

import builtins
import gzip
import warnings

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity import GPClassifier, GPRegressor
from cavity.cli.words import in_options
from cavity.io import ModelFileError, dumps, loads
from cavity.io.archive import pack, unpack
from cavity.kernels import SE, parse
from cavity.learning.choice import Candidate, Choice
from cavity.likelihoods import Gaussian
from cavity.runtime.errors import InPython, Message, Setting
from cavity.tables import TableError, TableModel, prepare, read_blocks, read_table
from cavity.tables.fit_report import Baseline, FitReport, Outlier, RegressionScores, Relevance
from cavity.tables.reading import Table


def frame(n=12) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": rng.uniform(50, 150, n),
            "color": np.array(["red", "green", "blue"])[np.arange(n) % 3],
            "garden": np.where(np.arange(n) % 2, "yes", "no"),
            "price": rng.uniform(100, 300, n),
        }
    )


def table(data: pd.DataFrame, texts: bool = True) -> Table:
    """As read from a text file, or as it is."""
    given = data.copy()
    if texts:
        for name in given:
            given[name] = [None if pd.isna(v) else str(v) for v in given[name]]
    return Table(given, np.arange(1, len(data) + 1), len(data))


def write(path, data: pd.DataFrame):
    if path.suffix == ".parquet":
        data.to_parquet(path)
    else:
        data.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


def test_values_that_are_missing_only_at_prediction_are_told():
    preparation, _, _ = prepare(table(frame()), "price")
    new = frame(4)
    new.loc[[1, 2], "color"] = None
    new.loc[1, "size"] = np.nan  # numbers have their median
    found = preparation.inputs(new)
    assert found["size"][1] == np.median(frame()["size"])
    assert found[["color=blue", "color=green", "color=red"]].iloc[1].tolist() == [0.0, 0.0, 0.0]
    fitted = "and none was when the model was fitted: predictions there"
    assert [sentence for news in preparation.news(new) for sentence in news.sentences] == [
        f"1 value of column 'size' is missing, {fitted} take its median",
        f"2 values of column 'color' are missing, {fitted} are for none of its levels",
    ]
    assert not any(news.sentences for news in preparation.news(frame()))


def test_remedies_can_be_typed():
    data = frame().assign(**{"it's": np.arange(12)})
    notes = [note.render(in_options) for note in prepare(table(data), "price")[0].notes]
    assert any("""leave it out with --drop 'it'"'"'s'.""" in note for note in notes)
    assert any(
        """leave it out with drop=["it's"].""" in str(note) for note in prepare(table(data), "price")[0].notes
    )
    days = frame().assign(**{"day of sale": pd.date_range("2020", periods=12).strftime("%d/%m/%Y")})
    with pytest.raises(TableError, match=r"leave the column out with drop=\['day of sale'\]") as found:
        prepare(table(days), "price")
    assert found.value.message.render(in_options).endswith("--drop 'day of sale'")


@pytest.mark.parametrize("first", [True, False])
def test_columns_called_like_a_level_of_another_are_named(first):
    data = frame()
    data.insert(0 if first else 3, "color=red", np.arange(12) ** 2)
    message = (
        "column 'color=red' and a level of column 'color' would both become .* rename the column 'color=red'"
    )
    with pytest.raises(TableError, match=message):
        prepare(table(data), "price")
    assert prepare(table(data), "price", categories="kernel")[0].features[0] in ("color=red", "size")


# --- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.gz", "a.parquet", "A.CSV"])
def test_every_format_gives_the_same_inputs(name, tmp_path):
    data = frame()
    read = read_table(write(tmp_path / name, data))
    assert read.total == 12
    assert read.rows.tolist() == list(range(1, 13))
    preparation, X, y = prepare(read, "price")
    assert preparation.features == ["size", "color=blue", "color=green", "color=red", "garden"]
    assert X["size"].tolist() == data["size"].tolist()  # to the last bit
    assert y.tolist() == data["price"].tolist()
    assert X["color=red"].tolist() == [1.0, 0.0, 0.0] * 4
    assert X["garden"].tolist() == [0.0, 1.0] * 6


def test_blocks_add_up_to_the_whole(tmp_path):
    for name in ("a.csv", "a.parquet"):
        path = write(tmp_path / name, frame(25))
        blocks = list(read_blocks(path, 10))
        assert [len(b) for b in blocks] == [10, 10, 5]
        assert pd.concat(blocks, ignore_index=True).equals(read_table(path).frame)


def test_a_subset_of_rows_is_fair_and_keeps_row_numbers(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", pd.DataFrame({"x": np.arange(400), "y": np.arange(400) * 2}))
    monkeypatch.setattr("cavity.tables.reading.BLOCK_ROWS", 50)
    counts = np.zeros(400)
    for seed in range(200):
        part = read_table(path, max_rows=40, seed=seed)
        assert (part.total, len(part.frame)) == (400, 40)
        assert part.frame["x"].astype(int).tolist() == (part.rows - 1).tolist()
        counts[part.rows - 1] += 1
    assert read_table(path, max_rows=40, seed=3).rows.tolist() == read_table(path, 40, 3).rows.tolist()
    # 200 draws of a tenth: each row 20 times, with a variance of 18; the sum of squares is chi-squared
    statistic = np.sum((counts - 20.0) ** 2) / 18.0
    assert abs(statistic - 400) < 4 * np.sqrt(2 * 400)
    assert abs(counts[:50].mean() - counts[-50:].mean()) < 4 * np.sqrt(18 / 50 * 2)


def test_semicolons_blanks_and_byte_order_marks(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("\ufeffx; y\n1.5; a\n2.5; b\n".encode())
    assert read_table(path).frame.to_dict("list") == {"x": ["1.5", "2.5"], "y": ["a", "b"]}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x\n1.0\n\n2.0\n3.0\n", ["1.0", None, "2.0", "3.0"]),
        ("\n \nx\n\n1.0\n  \n2.0\n\n \n\n", [None, "1.0", None, "2.0"]),
        ("\ufeffx\r\n1.0\r\n\r\n2.0\r\n\r\n", ["1.0", None, "2.0"]),
        ('"x\n\ny"\n1.0\n\n2.0', ["1.0", None, "2.0"]),
        ('x\n1.0\nNA\n""\n\n', ["1.0", None, None]),
        ("x\n1.0\n2.0\n", ["1.0", "2.0"]),
    ],
)
@pytest.mark.parametrize("block", [1, 2, 20])
def test_blank_lines_of_one_column_are_empty_cells_within_the_data_only(text, values, block, tmp_path):
    (tmp_path / "a.csv").write_bytes(text.encode())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.csv", "a.csv.gz"):
        read = pd.concat(read_blocks(tmp_path / name, block))
        assert [None if pd.isna(v) else v for v in read.iloc[:, 0]] == values


def test_blank_lines_of_one_column_are_refused_or_filled_in_at_prediction(tmp_path):
    data = pd.DataFrame({"x": [1.0, 2.0, 3.0, 5.0], "y": [0.0, 1.0, 0.5, 2.0]})
    (tmp_path / "a.csv").write_text("x\n1.0\n\n2.0\n3.0\n\n")
    for impute in ("none", "median"):
        preparation, X, y = prepare(table(data), "y", impute=impute)
        model = TableModel(
            preparation, GPRegressor(SE(1.0), objective=None).fit(X, y), FitReport(len(X), len(X))
        )
        if impute == "none":
            with pytest.raises(TableError, match=r"values are missing in 1 column: x \(1\)"):
                list(model.predict_file(tmp_path / "a.csv"))
        else:
            assert len(pd.concat(model.predict_file(tmp_path / "a.csv"))) == 4


@pytest.mark.parametrize(
    ("header", "row", "names"),
    [
        ('"size", "age", "price"', "1, 2, 3", ["size", "age", "price"]),
        ('"size, m2";"age";"price"', "1;2;3", ["size, m2", "age", "price"]),
        ("size, m2;age;price", "1;2;3", ["size, m2", "age", "price"]),
        ('"a;b;c",d', "1,2", ["a;b;c", "d"]),
        ("a;b,c", "1,2", ["a;b", "c"]),
        ("p(a|b),p(c|d)", "1,2", ["p(a|b)", "p(c|d)"]),
        ('"a, b"|c', "1|2", ["a, b", "c"]),
        ('"a, b"', "1", ["a, b"]),
    ],
)
def test_separators_are_counted_outside_quotes_and_names_lose_them(header, row, names, tmp_path):
    (tmp_path / "a.csv").write_text(f"{header}\n{row}\n")
    read = read_table(tmp_path / "a.csv").frame
    assert read.columns.tolist() == names
    assert read.iloc[0].tolist() == ["1", "2", "3"][: len(names)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", b"x", "no kind of table that can be read; its name must end in one of .csv"),
        ("a", b"x", "no kind of table"),
        ("a.parquet.gz", b"x", "no kind of table"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\n\n", "is empty"),
        ("a.csv", b"x,y\n", "has a header but no rows"),
        ("a.csv", b"x,x\n1,2\n", "two columns are called 'x'"),
        ("a.csv", b"x,,z\n1,2,3\n", "column 2 has no name"),
        (
            "a.csv",
            b"x,y\n1,2\n1,2,3\n",
            "not a regular table: line 3 has 3 cells, the lines before it have 2; the names",
        ),
        ("a.csv", b"x,y\n\x81\x8d,2\n", "not text in one encoding; save it again in UTF-8"),
        ("a.csv", b"\x00\x01,\x02\n", "not a text file"),
        ("a.csv.gz", b"x,y\n1,2\n", "not compressed by gzip"),
        ("a.csv.gz", gzip.compress(b"x,y\n" + b"1,2\n" * 5000, mtime=0)[:40], "damaged"),
        ("a.parquet", b"not parquet", "not a readable Parquet file"),
    ],
)
def test_files_that_are_not_tables(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_no_file_a_folder_and_no_rows(tmp_path):
    with pytest.raises(TableError, match=r"there is no file .*none\.csv"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(TableError, match="max_rows must be at least 1"):
        read_table(write(tmp_path / "a.csv", frame()), 0)


def test_parquet_keeps_columns_that_were_row_labels_in_pandas(tmp_path):
    data, path = frame(), tmp_path / "a.parquet"
    data.set_index("size").to_parquet(path)
    read = read_table(path).frame
    assert sorted(read.columns) == sorted(data.columns)
    assert read["size"].tolist() == data["size"].tolist()
    data.set_index(["color", "garden"]).to_parquet(path)
    assert sorted(read_table(path).frame.columns) == sorted(data.columns)
    data[data["garden"] == "yes"].to_parquet(path)  # row labels without a name are no column
    assert read_table(path).frame.columns.tolist() == data.columns.tolist()


def test_parquet_names_that_were_numbers_are_text(tmp_path):
    pd.DataFrame(np.arange(12.0).reshape(4, 3) ** 2).to_parquet(tmp_path / "a.parquet")
    preparation, X, y = prepare(read_table(tmp_path / "a.parquet"), "2")
    assert preparation.features == ["0", "1"]
    assert X["1"].tolist() == [1.0, 16.0, 49.0, 100.0]
    assert y.tolist() == [4.0, 25.0, 64.0, 121.0]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", frame())
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        TableError, match=r"needs the package pyarrow; install it with pip install 'cavity\[data\]'"
    ):
        read_table(path)


# --- what the target means ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "asked", "task", "note"),
    [
        (
            np.linspace(0, 1, 12),
            None,
            "regression",
            "Regression (the target is numeric): 'y' has 12 different val",
        ),
        (np.arange(12) % 4, None, "regression", "If these are classes, ask for --task classification."),
        (
            np.arange(12) % 4,
            "classification",
            "classification",
            "Classification (as asked): 'y' has 4 classes, 0, 1",
        ),
        (
            np.arange(12) % 2,
            None,
            "classification",
            "the target has two different whole numbers): 'y' has 2 class",
        ),
        (np.arange(12) % 2, "regression", "regression", "Regression (as asked)"),
        (np.arange(12) % 2 + 0.5, None, "regression", "the target is numeric"),
        (
            ["a", "b", "c"] * 4,
            None,
            "classification",
            "the target is text): 'y' has 3 classes, 'a', 'b', 'c'.",
        ),
        (["yes", "no"] * 6, None, "classification", "'no', 'yes'"),
        ([True, False] * 6, None, "classification", "'False', 'True'"),
        (["yes", "no"] * 6, "regression", "regression", "true or false, taken as 1 and 0"),
    ],
)
@pytest.mark.parametrize("texts", [True, False])
def test_regression_or_classification(values, asked, task, note, texts):
    data = pd.DataFrame({"x": np.linspace(0, 1, 12), "y": values})
    preparation, _, y = prepare(table(data, texts), "y", task=asked)
    assert preparation.task == task
    assert note in preparation.notes[0].render(in_options)
    assert y.dtype.kind == ("f" if task == "regression" else "i" if preparation.numeric_labels else "O")


@pytest.mark.parametrize(
    ("values", "asked", "message"),
    [
        ([1.0] * 12, None, "the same in all rows, 1: there is nothing to learn"),
        ([1.0] * 12, "classification", "one value only, 1"),
        (["a"] * 12, None, "one class only, 'a'"),
        ([*range(11), None], None, r"the target 'y' is missing in 1 row \(12\); leave these rows out"),
        ([*range(11), "?"], None, r"column 'y' has '\?' in row 12, which is not a finite number"),
        ([*range(11), "inf"], None, "'inf' in row 12"),
        (["a", "b"] * 6, "regression", "column 'y' has 'a' in row 1, which is not a finite number"),
        ([f"2020-01-{i + 1:02d}" for i in range(12)], None, "holds dates"),
    ],
)
def test_targets_that_cannot_be_predicted(values, asked, message):
    data = pd.DataFrame({"x": np.linspace(0, 1, 12), "y": values})
    with pytest.raises(TableError, match=message):
        prepare(table(data), "y", task=asked)


def test_targets_with_too_many_values_are_not_classes():
    data = pd.DataFrame({"x": np.arange(60), "y": [f"name {i}" for i in range(60)], "z": np.arange(60) + 0.5})
    with pytest.raises(TableError, match="60 different texts in 60 rows, which are not classes"):
        prepare(table(data), "y")
    with pytest.raises(TableError, match="60 different numbers, which are not classes"):
        prepare(table(data.drop(columns="y")), "z", task="classification")


# --- what inputs mean ---------------------------------------------------------------------------------------


def inputs(values, **options):
    data = pd.DataFrame({"x": np.sin(np.arange(len(values))), "c": values, "y": np.arange(len(values)) / 3})
    return prepare(table(data), "y", **options)


def test_constant_empty_and_dropped_columns():
    preparation, X, _ = inputs([7.0] * 12)
    assert list(X) == ["x"]
    assert "Column 'c' is constant (7) and was left out." in map(str, preparation.notes)
    assert "Column 'c' is constant ('a') and was left out." in map(str, inputs(["a"] * 12)[0].notes)
    assert "Column 'c' is empty and was left out." in map(str, inputs([None] * 12)[0].notes)
    dropped = inputs(np.arange(12) * 1.5, drop=["c"])[0]
    assert dropped.ignored == ("c",)
    assert "Left out as asked: 'c'." in map(str, dropped.notes)
    with pytest.raises(TableError, match="no input columns are left"):
        inputs(np.arange(12), drop=["c", "x"])


def test_identifiers_are_warned_of():
    (warning,) = [note for note in inputs(np.arange(100, 112))[0].notes if note.warns]
    assert str(warning).startswith("Warning: column 'c' looks like an identifier")
    assert not any(note.warns for note in inputs(np.arange(12) ** 2)[0].notes)
    data = pd.DataFrame({"case_id": np.arange(12) ** 2, "x": np.arange(12) / 7, "y": np.arange(12) / 3})
    preparation, X, _ = prepare(table(data), "y")
    assert list(X) == ["x"]
    assert preparation.ignored == ("case_id",)
    (warning,) = [str(note) for note in preparation.notes if note.warns]
    assert warning == "Warning: column 'case_id' counts or names rows and was left out; rename it to use it."
    assert list(prepare(table(data.drop(columns="x")), "y")[1]) == ["case_id"]  # rather than nothing


def test_free_text_is_left_out():
    preparation, X, _ = inputs([f"free text {i}" for i in range(30)])
    assert list(X) == ["x"]
    (warning,) = [str(note) for note in preparation.notes if note.warns]
    assert warning.startswith(
        "Warning: column 'c' is text with 30 different values, such as 'free text 0', and"
    )
    with pytest.raises(
        TableError, match=r"no input columns are left: .*column 'c' is text with 30 different"
    ):
        inputs([f"free text {i}" for i in range(30)], drop=["x"])


def test_all_problems_are_told_at_once():
    data = frame().assign(
        day=pd.date_range("2020", periods=12).strftime("%d/%m/%Y"),
        odd=[*range(11), "n/k"],
        far=np.arange(12) * 1e300,
    )
    data.loc[3, "price"] = np.nan
    data.loc[4, "size"] = np.nan
    with pytest.raises(TableError) as found:
        prepare(table(data), "price", impute="none")
    lines = str(found.value).splitlines()
    assert lines[0] == "the table has 5 problems:"
    for line, text in zip(
        lines[1:],
        (
            "  1. the target 'price' is missing in 1 row (4)",
            "  2. column 'day' has dates such as '01/01/2020', of which nobody can tell whether the day",
            "  3. column 'odd' holds numbers, except 'n/k' in row 12",
            "  4. column 'far' has values of up to",
            "  5. values are missing in 1 column: size (1); use impute='median'",
        ),
        strict=True,
    ):
        assert line.startswith(text), line
    assert "--impute median" in found.value.message.render(in_options)
    new = frame().assign(size=[*["10"] * 11, "big"], garden=[*["yes"] * 11, "maybe"])
    preparation, _, _ = prepare(table(frame()), "price")
    with pytest.raises(
        TableError, match=r"(?s)has 2 problems:.*'size' has 'big' in row 12.*'garden' has 'maybe'"
    ):
        preparation.inputs(new)


def test_categories_are_stated():
    preparation, X, _ = inputs(["b", "a"] * 6)
    assert "Column 'c' is text with 2 levels, 'a', 'b': 1 0/1 column (one-hot)." in map(
        str, preparation.notes
    )
    assert X["c=b"].tolist() == [1.0, 0.0] * 6
    assert preparation.kernel is None
    coded, X, _ = inputs(["b", "a", "d"] * 4, categories="kernel")
    assert X["c"].tolist() == [1.0, 0.0, 2.0] * 4
    assert "codes for the categorical kernel" in str(coded.notes[-1])
    assert coded.kernel == "1.0 * SE(ard).on([0]) * Categorical(3).on([1])"
    parse(coded.kernel).bind(2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [f"{i + 1}/3/2021 10:00" for i in range(12)],
            "dates such as '1/3/2021 10:00', of which nobody.*; write.*drop=\\['c'\\]",
        ),
        ([*range(11), "n/k"], "column 'c' holds numbers, except 'n/k' in row 12"),
        ([*range(11), "1e999"], "'1e999' in row 12, which is not a finite number"),
    ],
)
def test_columns_that_cannot_be_used(values, message):
    with pytest.raises(TableError, match=message):
        inputs(values)


def test_spans_of_time_and_dates_as_targets_are_refused():
    day = pd.date_range("2020", periods=12)
    data = pd.DataFrame({"t": day, "y": np.arange(12) / 3, "x": np.arange(12) / 7})
    with pytest.raises(TableError, match=r"column 't' holds spans of time.* write them as numbers"):
        prepare(table(data.assign(t=day - day[0]), texts=False), "y")
    with pytest.raises(TableError, match="target 't' holds dates"):
        prepare(table(data, texts=False), "t")


def test_missing_values_are_counted_or_filled_in():
    data = frame()
    data.loc[[1, 4], "size"] = np.nan
    data.loc[[2], "color"] = None
    with pytest.raises(
        TableError, match=r"missing in 2 columns: size \(2\), color \(1\); use impute='median'"
    ):
        prepare(table(data), "price", impute="none")
    preparation, X, _ = prepare(table(data), "price")
    assert X["size is missing"].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0] + [0.0] * 7
    median = np.nanmedian(data["size"])
    assert X["size"][[1, 4]].tolist() == [median, median]
    assert X["color=(missing)"].tolist() == [0.0, 0.0, 1.0] + [0.0] * 9
    assert any("2 missing values filled in by the median" in str(n) for n in preparation.notes)
    assert any("1 missing value became a level of its own, (missing)" in str(n) for n in preparation.notes)
    new = frame(3).drop(columns="price")
    new.loc[0, "size"] = np.nan
    new.loc[1, "color"] = np.nan
    filled = preparation.inputs(new)
    assert filled["size"][0] == median  # of the data of the fit
    assert filled["color=(missing)"].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"target": "prize"},
            "no column 'prize' .the target.; did you mean 'price'. the columns are 'size', 'col",
        ),
        ({"target": "price", "drop": ["colour"]}, "no column 'colour' .to drop.; did you mean 'color'"),
        ({"target": "price", "drop": ["price"]}, "is the target and cannot be dropped"),
        ({"target": "price", "task": "ranking"}, "task must be one of regression, classification"),
        ({"target": "price", "impute": "mean"}, "impute must be 'median' or 'none'"),
        ({"target": "price", "categories": "hash"}, "categories must be one of one-hot, kernel"),
    ],
)
def test_options_that_are_wrong(options, message):
    with pytest.raises(TableError, match=message):
        prepare(table(frame()), **options)


# --- new tables ---------------------------------------------------------------------------------------------


def test_columns_are_matched_by_name_in_any_order():
    preparation, X, _ = prepare(table(frame()), "price")
    shuffled = frame()[["garden", "price", "color", "size"]]
    assert preparation.inputs(shuffled).equals(X)
    assert preparation.inputs(shuffled.drop(columns="price")).equals(X)
    assert preparation.unknown(shuffled.assign(extra=1)) == ["extra"]


def test_new_tables_that_do_not_fit():
    preparation, _, _ = prepare(table(frame()), "price")
    new = frame().rename(columns={"size": "sizes", "garden": "yard"})
    message = (
        r"lacks 2 columns: 'size', 'garden'; unknown col.* \('sizes' may be 'size'; 'yard' may be 'garden'\)"
    )
    with pytest.raises(TableError, match=message):
        preparation.inputs(new)
    new = frame()
    new.loc[3, "color"] = "mauve"
    assert preparation.inputs(new).iloc[3, 1:4].tolist() == [0.0, 0.0, 0.0]
    (told,) = [sentence for news in preparation.news(new) for sentence in news.sentences]
    assert told.startswith(
        "column 'color' has 'mauve' in 1 row, which did not occur when the model was fitted"
    )
    coded, _, _ = prepare(table(frame()), "price", categories="kernel")
    with pytest.raises(TableError, match=r"'color' has 'mauve' in row 4, .* the levels are 'blue', 'gr"):
        coded.inputs(new)
    new = frame()
    new["size"] = [*["10"] * 11, "big"]
    with pytest.raises(TableError, match="'size' has 'big' in row 112, which is not a finite number"):
        preparation.inputs(new, np.arange(101, 113))
    new = frame()
    new.loc[3, "size"] = np.nan
    strict, _, _ = prepare(table(frame()), "price", impute="none")
    with pytest.raises(TableError, match=r"missing in 1 column: size \(1\); the model was fitted without"):
        strict.inputs(new)
    with pytest.raises(TableError, match="no column 'price', the target"):
        preparation.targets(frame().drop(columns="price"))


# --- models -------------------------------------------------------------------------------------------------


def regression_model() -> TableModel:
    preparation, X, y = prepare(table(frame()), "price", impute="median")
    model = GPRegressor(1e4 * SE(50.0), likelihood=Gaussian(500.0), objective=None, mean=None).fit(X, y)
    return TableModel(preparation, model, whole_report())


def whole_report() -> FitReport:
    """Something of everything."""
    slow = Message(
        ("learning was slow",), remedy=("give more ", Setting("max_time"), InPython(", or seconds"))
    )
    return FitReport(
        rows=12,
        rows_in_file=40,
        held_out_rows=2,
        choice=Choice(
            Message(("Gaussian noise, because ", Setting("inference", ("exact", "ep")), " has no other.")),
            (Message(("No row is far.",)),),
            (Candidate("gaussian", -1.5, True),),
            Message(("Another is asked for by ", Setting("likelihood"), ".")),
        ),
        baselines=(Baseline("guessing", 1.0, 2.0, 0.1), Baseline("gradient boosting", 0.5, None, 0.1, 0.25)),
        warnings=(slow, Message(("must be a count",), parameter="y", row=3, number=4)),
        seconds=0.5,
        robust=True,
        scores=RegressionScores(1.5, 3.0, 2.0, 4.0, ((0.9, 0.8),), 1.0, 2.5, 9.0),
        relevance=(Relevance("size", 0.9, 0.01, "levels", "<b>", "a"),),
        outliers=(Outlier(8, 31.5, 0.99),),
        interrupted=True,
        undone=("nothing was drawn",),
    )


def test_a_model_file_alone_predicts(tmp_path):
    model = regression_model()
    model.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    assert again.preparation == model.preparation
    assert again.report == model.report
    path = write(tmp_path / "new.csv", frame(9)[["color", "garden", "size"]].assign(note="x"))
    heard: list[str] = []
    whole = again.predict(read_table(path).frame)
    blocks = list(again.predict_file(path, block_rows=4, heard=heard.append))
    assert [len(b) for b in blocks] == [4, 4, 1]
    np.testing.assert_allclose(pd.concat(blocks, ignore_index=True), whole, rtol=1e-12)
    assert heard == ["Ignored, because the data of the fit did not have them: 'note'."]
    X = model.preparation.inputs(frame(9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # named columns in, no complaint about names
        mean, sd = model.estimator.predict(X, return_std=True)
    assert whole["mean"].tolist() == mean.tolist()
    assert whole["sd"].tolist() == sd.tolist()
    narrow = again.predict(frame(9), interval=0.5)
    assert (narrow["lower"] > whole["lower"]).all()
    np.testing.assert_allclose(whole["upper"] - mean, 1.6448536269514722 * sd, rtol=1e-9)
    with pytest.raises(TableError, match="interval must be between 0 and 1"):
        again.predict(frame(9), interval=90)
    (tmp_path / "none.csv").write_text("size,color,garden\n")
    with pytest.raises(TableError, match="has a header but no rows"):
        list(again.predict_file(tmp_path / "none.csv"))


def test_class_probabilities(tmp_path):
    data = frame().assign(price=np.where(np.arange(12) % 3, 1, 0))
    for texts, labels in ((False, ["0", "1"]), (True, ["cheap", "dear"])):
        data["price"] = np.where(np.arange(12) % 3, labels[1], labels[0])
        preparation, X, y = prepare(table(data), "price")
        model = TableModel(preparation, GPClassifier(SE(30.0), objective=None).fit(X, y), FitReport(12, 12))
        result = loads(dumps(model)).predict(frame(4))
        assert list(result) == ["price", f"p({labels[0]})", f"p({labels[1]})"]
        np.testing.assert_allclose(result.iloc[:, 1:].sum(axis=1), 1.0)
        assert set(result["price"]) <= set(labels)
        assert preparation.numeric_labels == (not texts)


def _first(model, name):
    """Fields of the first entry of a part of the report in a file."""
    return model["report"]["with"][name]["tuple"][0]["with"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.update(estimator=None), "needs a GPRegressor"),
        (lambda f: f.update(report=3), "report of TableModel must be FitReport"),
        (lambda f: f.update(preparation=3), "preparation of TableModel must be Preparation"),
        (lambda f: f["report"]["with"].update(colour="red"), "colour"),
        (lambda f: f["report"]["with"].update(rows="many"), "rows of FitReport must be a count"),
        (lambda f: f["report"]["with"].update(held_out_rows=-1), "held_out_rows of FitReport"),
        (lambda f: f["report"]["with"].update(seconds="long"), "seconds of FitReport must be a number"),
        (lambda f: f["report"]["with"].update(outliers=[1]), "outliers of FitReport"),
        (lambda f: f["report"]["with"].update(relevance={"dict": []}), "relevance of FitReport"),
        (lambda f: f["report"]["with"].update(scores=1.0), "scores of FitReport"),
        (lambda f: f["report"]["with"].update(choice="gaussian"), "choice of FitReport must be Choice"),
        (lambda f: f["report"]["with"].update(baselines={"tuple": [1]}), "baselines of FitReport"),
        (
            lambda f: f["report"]["with"]["choice"]["with"].update(chosen="x"),
            "chosen of Choice must be Message",
        ),
        (lambda f: f["report"]["with"].update(warnings={"tuple": ["slow"]}), "warnings of FitReport"),
        (lambda f: f["report"]["with"].update(robust="yes"), "robust of FitReport must be true or false"),
        (
            lambda f: f["report"]["with"]["scores"]["with"].update(rmse="small"),
            "rmse of RegressionScores must be a number",
        ),
        (
            lambda f: f["report"]["with"]["scores"]["with"].update(coverage={"tuple": [0.9]}),
            "coverage of RegressionScores",
        ),
        (lambda f: _first(f, "outliers").update(row=-1), "row of Outlier must be a count"),
        (lambda f: _first(f, "relevance").update(column=3), "column of Relevance must be a text"),
        (lambda f: _first(f, "warnings").update(problem="slow"), "problem of Message"),
        (lambda f: _first(f, "warnings").update(row=-1), "row of Message"),
        (lambda f: f["preparation"]["with"]["notes"]["tuple"][0]["with"].update(level="loud"), "'loud'"),
        (lambda f: f["preparation"]["with"].update(task="ranking"), "has a task and columns"),
        (
            lambda f: f["preparation"]["with"].update(columns=[]),
            "columns of Preparation must be a tuple of Column",
        ),
        (lambda f: f["preparation"]["with"].update(notes=3), "notes of Preparation must be a tuple of Note"),
        (
            lambda f: f["preparation"]["with"]["columns"]["tuple"].pop(),
            "columns of the table and of the model",
        ),
        (
            lambda f: f["preparation"]["with"]["columns"]["tuple"][0]["with"].update(name=3),
            "name of Column must be a text",
        ),
        (
            lambda f: f["preparation"]["with"]["columns"]["tuple"][1]["with"].update(levels=3),
            "levels of Column must be a tuple",
        ),
        (
            lambda f: f["preparation"]["with"]["columns"]["tuple"][0]["with"].update(fill="x"),
            "suit the column",
        ),
    ],
)
def test_files_with_a_wrong_preparation(change, message):
    document, arrays = unpack(dumps(regression_model()))
    change(document["model"]["with"])
    with pytest.raises(ModelFileError, match=message):
        loads(pack(document, [arrays[i] for i in range(len(arrays))]))


def test_standardized_scores():
    """Definitions of Rasmussen and Williams (2006), section 2.5, by hand."""
    from types import SimpleNamespace

    from cavity.prediction import GaussianPrediction
    from cavity.tables.scores import regression_scores

    rng = np.random.default_rng(0)
    y_train, y = rng.normal(1.0, 2.0, 50), rng.normal(1.0, 2.0, 20)
    mean, variance = y + rng.standard_normal(20), np.full(20, 1.5)
    model = SimpleNamespace(predict_dist=lambda X: GaussianPrediction(mean, variance))
    scores = regression_scores(model, None, y, y_train)
    assert scores.smse == pytest.approx(np.mean((mean - y) ** 2) / np.var(y))
    loss = 0.5 * (np.log(2 * np.pi * 1.5) + (mean - y) ** 2 / 1.5)
    trivial = 0.5 * (np.log(2 * np.pi * y_train.var()) + (y - y_train.mean()) ** 2 / y_train.var())
    assert scores.msll == pytest.approx(np.mean(loss - trivial))
