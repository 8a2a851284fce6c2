"""The three lines: how good, what matters, what to beware of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cavity.cli.words import in_options
from cavity.runtime.errors import Message, Setting
from cavity.tables import Table, TableModel, prepare
from cavity.tables.fit import fit_table
from cavity.tables.fit_report import (
    Baseline,
    ClassificationScores,
    Outlier,
    RegressionScores,
    Relevance,
)
from cavity.tables.training import Options
from cavity.tables.verdict import Standing, verdict


def fitted(frame: pd.DataFrame, target: str, **options: object) -> TableModel:
    table = Table(frame, np.arange(1, len(frame) + 1), len(frame))
    preparation, X, y = prepare(table, target)
    return fit_table(preparation, X, y, table, Options(n_restarts=0, **options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def houses() -> TableModel:
    rng = np.random.default_rng(0)
    n = 80
    rooms, age, floor = rng.uniform(1, 8, n), rng.uniform(0, 60, n), rng.integers(0, 4, n).astype(float)
    kind = rng.choice(["flat", "house", "villa"], n)
    comfort = 80 * np.exp(-((age - 30) ** 2) / 400)
    price = 40 * rooms + comfort + 25 * (kind == "villa") + 2 * rng.standard_normal(n)
    frame = pd.DataFrame({"rooms": rooms, "age": age, "floor": floor, "kind": kind, "price": price})
    return fitted(frame, "price", likelihood="gaussian")


def with_report(model: TableModel, **fields: object) -> TableModel:
    return TableModel(model.preparation, model.estimator, replace(model.report, **fields))  # type: ignore[arg-type]


def lines(model: TableModel) -> dict[str, str]:
    return dict(verdict(model).lines(in_options))


def test_what_matters_names_inputs_with_their_direction(houses):
    told = lines(houses)["What matters"]
    assert told.startswith("price rises with rooms (")
    assert "of the variation)" in told
    assert "price is highest near age " in told
    assert "price is highest for kind villa" in told
    assert told.endswith("floor has next to no influence.")
    peak = next(one for one in houses.report.relevance if one.column == "age")
    assert abs(float(peak.highest) - 30) <= 4


def scored(
    houses: TableModel,
    mine: float,
    plain: float,
    rows: int = 400,
    density: float | None = 1.0,
    **report: object,
) -> TableModel:
    scores = RegressionScores(mine, 10.0, 1.0, 3.0, ((0.9, 0.9),), mine, 8.0, 100.0)
    baselines = (
        Baseline("guessing", 10.0, 3.0, 0.0, 8.0),
        Baseline("linear regression", plain, density, 0.0, plain),
    )
    fields = {"scores": scores, "baselines": baselines, "held_out_rows": rows, **report}
    return with_report(houses, **fields)


@pytest.mark.parametrize(
    ("mine", "plain", "rows", "standing", "said"),
    [
        (
            2.0,
            4.0,
            400,
            Standing.BETTER,
            "typically off by 2 on 400 held-out rows, guessing by 10; better than linear",
        ),
        (4.0, 4.05, 400, Standing.LEVEL, "linear regression (4.05) is about as good, and is simpler"),
        (
            5.0,
            4.0,
            400,
            Standing.WORSE,
            "linear regression (4) is better: a Gaussian process was not worth it",
        ),
        (5.0, 4.5, 9, Standing.LEVEL, "9 held-out rows (few: a rough figure)"),  # so few cannot tell
        (
            9.9,
            4.0,
            400,
            Standing.WORSE,
            "linear regression (4) is better: a Gaussian process was not worth it",
        ),
        (9.9, 9.8, 400, Standing.GUESSING, "no closer than guessing, but its intervals are better"),
    ],
)
def test_how_good_says_whether_it_was_worth_it(houses, mine, plain, rows, standing, said):
    model = scored(houses, mine, plain, rows)
    quality = verdict(model).quality
    assert quality is not None
    assert quality.standing is standing
    assert quality.worth_it == (standing is Standing.BETTER)
    assert said in lines(model)["How good"]


@pytest.mark.parametrize(
    ("density", "said"),
    [
        (1.05, "(4.05) is about as good, and is simpler"),
        (1.5, "(4.05) is about as close, but its intervals are worse"),
        (None, "(4.05) is about as close, but has no intervals"),
    ],
)
def test_a_model_that_is_as_close_may_have_worse_intervals_or_none(houses, density, said):
    assert said in lines(scored(houses, 4.0, 4.05, density=density))["How good"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [(400, "these inputs say next to nothing about the target."), (9, "so few rows tell nothing else.")],
)
def test_what_no_row_confirms_does_not_matter(houses, rows, said):
    scores = RegressionScores(9.9, 10.0, 2.99, 3.0, ((0.9, 0.9),), 7.0, 8.0, 100.0)
    told = lines(scored(houses, 9.9, 9.8, rows, scores=scores))
    assert told["How good"].endswith(f"no better than guessing: {said}")
    assert told["What matters"] == "nothing that rows held out confirm."


def test_outliers_among_the_held_out_rows_do_not_decide_what_robust_noise_is_worth(houses):
    told = lines(scored(houses, 1.5, 3.0, robust=True))["How good"]
    assert told.startswith("half of 400 held-out rows are within 1.5 of the prediction (guessing: 8)")


def test_without_rows_held_out_nothing_is_claimed(houses):
    assert lines(with_report(houses, scores=None, baselines=()))["How good"].startswith("unknown")


def test_outliers_and_warnings_come_with_a_remedy(houses):
    slow = Message(("the optimizer was stopped",), remedy=("give more ", Setting("max_time")))
    found = (Outlier(11, 900.0, 1.0), Outlier(4, 1.0, 0.9))
    model = scored(houses, 2.0, 4.0, warnings=(slow,), outliers=found, robust=True)
    told = lines(model)["Beware"]
    assert told == (
        "The optimizer was stopped; give more --max-time. 2 rows are probably wrong (4, 11); check them."
    )
    many = with_report(model, warnings=(slow, slow, slow))
    assert lines(many)["Beware"].endswith("2 more warnings above.")


@pytest.mark.parametrize(
    ("probabilities", "said"),
    [
        ((1.0, 0.95, 0.6), "2 rows are probably wrong (1, 2); check them"),
        ((1.0, 0.6, 0.6), "Row 1 is probably wrong; check it"),
        ((0.7, 0.6), "2 rows may be wrong (1, 2); check them"),
        ((0.7,), "Row 1 may be wrong; check it"),
    ],
)
def test_rows_of_which_the_noise_is_sure_are_named_alone(houses, probabilities, said):
    found = tuple(Outlier(k, 1.0, p) for k, p in enumerate(probabilities, start=1))
    told = lines(scored(houses, 2.0, 4.0, outliers=found, robust=True))["Beware"]
    assert told.startswith(said)


@pytest.mark.parametrize(
    ("learned", "said"),
    [
        (80, "2 rows are far from their predictions (3, 7); check them"),
        (
            8000,
            "Row 7 is far from its prediction; check it",
        ),  # eight rows are as far out as the other by chance
    ],
)
def test_rows_in_the_tails_of_usual_noise_are_named_if_chance_does_not_explain_them(houses, learned, said):
    tails = (Outlier(7, 900.0, 0.9999999), Outlier(3, 90.0, 0.9995))
    model = with_report(scored(houses, 2.0, 4.0, outliers=tails), rows=learned, rows_in_file=learned)
    assert lines(model)["Beware"].startswith(said)


@pytest.mark.parametrize(("share", "word"), [(0.7, "narrow"), (1.0, "wide"), (0.9, ""), (0.87, "")])
def test_intervals_that_are_not_what_they_say(houses, share, word):
    model = scored(houses, 2.0, 4.0, outliers=())
    fair = replace(model.report.scores, coverage=((0.5, 0.1), (0.9, share), (0.95, 1.0)))
    told = lines(with_report(model, scores=fair))["Beware"]
    assert ("they are too " in told) == bool(word)
    assert word in told


def test_where_the_data_end_is_said_if_nothing_else_is(houses):
    assert lines(scored(houses, 2.0, 4.0, outliers=()))["Beware"].startswith(
        "There are no rows outside rooms 1."
    )


def test_two_classes_have_a_direction_and_judge_probabilities():
    rng = np.random.default_rng(1)
    x = rng.normal(size=60)
    frame = pd.DataFrame({"dose": x, "cured": np.where(x + 0.3 * rng.normal(size=60) > 0, "yes", "no")})
    model = fitted(frame, "cured")
    assert lines(model)["What matters"].startswith("P(cured = yes) rises with dose (100 % of the variation)")
    assert "wrong about" in lines(model)["How good"]
    sure = ClassificationScores(0.3, 0.5, 0.5, 0.7, 0.3, 0.2, ((5, 5), (1, 9)), ((0.99, 140, 200),))
    cautious = replace(sure, reliability=((0.6, 190, 200),))
    assert "too sure of themselves" in lines(with_report(model, scores=sure))["Beware"]
    assert "too cautious" in lines(with_report(model, scores=cautious))["Beware"]
    fair = replace(sure, reliability=((0.7, 138, 200),))
    assert "probabilities" not in lines(with_report(model, scores=fair))["Beware"]
    better = (Baseline("guessing", 0.5, 0.7, 0.0), Baseline("logistic regression", 0.3, 0.2, 0.0))
    told = lines(with_report(model, scores=sure, baselines=better, held_out_rows=400))["How good"]
    assert (
        "logistic regression (30.0 %) gives better probabilities: a Gaussian process was not worth it" in told
    )


def test_many_inputs_are_counted(houses):
    idle = [Relevance(f"x{k}", 0.0, 0.0) for k in range(40)]
    busy = [Relevance(name, 0.2, 0.0, "falls") for name in ("rooms", "age", "floor", "kind")]
    told = lines(with_report(houses, relevance=(*busy, *idle)))["What matters"]
    assert told == (
        "price falls with rooms (20 % of the variation); price falls with age (20 %); price falls with floor (20 %); "
        "1 other input matters less; 40 inputs have next to no influence."
    )


def test_several_classes_have_a_direction_too():
    rng = np.random.default_rng(2)
    long, other = rng.uniform(0, 3, 60), rng.normal(size=60)
    names = np.array(["small", "middle", "large"])
    frame = pd.DataFrame({"long": long, "other": other, "kind": names[np.minimum(long.astype(int), 2)]})
    told = lines(fitted(frame, "kind", test_size=0.0))["What matters"]
    assert told.startswith("high long speaks for large, low for small (")


def test_a_model_of_a_few_rows_says_so(houses):
    told = lines(with_report(houses, rows=7, rows_in_file=7, outliers=()))["Beware"]
    assert told.startswith("It was learned from 7 rows, from which little can be known; give more rows.")


def test_numbers_that_may_be_ratings_or_classes_are_told_as_what_they_were_taken_for():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 3, 45)
    stars = np.clip(np.floor(x + 0.4 * rng.normal(size=45)), 0, 2)
    frame = pd.DataFrame({"x": x, "stars": stars})
    said = "Values of stars were taken as ratings, in order; if they are numbers of classes, use --task classification."
    assert said in lines(fitted(frame, "stars", test_size=0.0))["Beware"]
    asked = fitted(frame, "stars", test_size=0.0, likelihood="ordinal")
    assert "ratings" not in lines(asked)["Beware"]
