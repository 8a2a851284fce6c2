"""What a report says about a model and a table, which may be another one than the model was learned from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cavity.report import drawings, model_page
from cavity.tables import Table, TableModel, prepare
from cavity.tables.fit import fit_table
from cavity.tables.training import Options

WRONG = 7
"""Number of the row with a gross error, from 1."""


def houses(seed: int = 0, n: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size, age = rng.uniform(40, 160, n).round(3), rng.uniform(0, 50, n).round(3)
    price = 2 * size - age + 2 * rng.standard_normal(n)
    price[WRONG - 1] += 500.0
    return pd.DataFrame({"size": size, "age": age, "price": price})


def as_table(frame: pd.DataFrame) -> Table:
    return Table(frame.reset_index(drop=True), np.arange(1, len(frame) + 1), len(frame))


def fitted(frame: pd.DataFrame, **options: object) -> TableModel:
    table = as_table(frame)
    preparation, X, y = prepare(table, "price")
    chosen = Options(kernel="1.0*SE(50.0)", test_size=0.0, n_restarts=0, **options)  # type: ignore[arg-type]
    return fit_table(preparation, X, y, table, chosen)


@pytest.fixture(scope="module")
def robust() -> TableModel:
    return fitted(houses(), likelihood="student-t", inference="laplace")


def shown(model: TableModel, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    """The page, and the names of the vertical axes of its pictures, whose letters are paths."""
    axes: list[str] = []
    label = drawings._label
    monkeypatch.setattr(drawings, "_label", lambda axis, x, y: (axes.append(y), label(axis, x, y)))
    return str(model_page(model, as_table(frame)).html()), axes


def test_outliers_have_their_inputs_where_the_table_is_the_one_learned_from(robust, monkeypatch):
    assert robust.report.outliers[0].row == WRONG
    html, axes = shown(robust, houses(), monkeypatch)
    assert "Probable outliers</caption>" in html
    assert f"{houses()['size'][WRONG - 1]:.4g}" in html.split("Probable outliers")[1].split("</table>")[0]
    assert "predicted from the other rows" in axes
    assert "each row from the others" in html


@pytest.mark.parametrize("kind", ["other rows", "other inputs, same target"])
def test_outliers_of_another_table_are_not_dressed_with_its_inputs(robust, monkeypatch, kind):
    other = houses(seed=1)
    if kind != "other rows":
        other = houses().assign(size=houses()["size"].to_numpy()[::-1])
    html, axes = shown(robust, other, monkeypatch)
    listed = html.split("Probable outliers, rows of the table the model was learned from")
    assert len(listed) == 2
    rows = listed[1].split("</table>")[0]
    assert "size" not in rows
    assert "age" not in rows
    assert "predicted" in axes
    assert "predicted from the other rows" not in axes
    assert "rows of this file" in html


def test_gaussian_noise_knows_no_outliers_only_rows_outside_its_intervals(monkeypatch):
    model = fitted(houses(), likelihood="gaussian")
    assert model.report.outliers[0].row == WRONG
    html, _ = shown(model, houses(), monkeypatch)
    section = html.split('<section id="outliers">')[1].split("</section>")[0]
    assert "Rows outside the central 99.9 % of predictions</caption>" in section
    assert "robable outlier" not in section
    assert "probability" not in section
    none = TableModel(model.preparation, model.estimator, replace(model.report, outliers=()))
    assert "No row is outside the central 99.9 % of predictions." in shown(none, houses(), monkeypatch)[0]


def test_the_page_of_words_has_those_of_reports():
    from pathlib import Path

    from cavity.report.glossary import GLOSSARY

    page = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| ")][1:] == [
        f"| {word} | {meaning} |" for word, meaning in GLOSSARY.items()
    ]


def test_what_a_single_input_does_is_not_folded_away(monkeypatch):
    one = houses().drop(columns="age")
    html, _ = shown(fitted(one, likelihood="student-t", inference="laplace"), one, monkeypatch)
    section = html.split('<section id="what-matters">')[1].split("</section>")[0]
    assert "price rises with size" in section
    assert "<details" not in section
