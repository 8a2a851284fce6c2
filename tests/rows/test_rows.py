"""Rows in blocks: the same model from arrays, memory maps, Parquet files and Dask, whatever the number of workers."""

from __future__ import annotations

import os
import pickle
import signal

import numpy as np
import pandas as pd
import pytest

from cavity import GP, Inducing
from cavity.kernels import SE
from cavity.likelihoods import Gaussian, Probit, StudentT
from cavity.rows import ArrayRows, DaskRows, ParquetRows, Pass, read_parquet
from cavity.rows import base as row_blocks
from cavity.rows.distributed import connect, rows_of_frame
from cavity.rows.parquet import RowsError

N, NAMES = 1100, ["a", "b", "c"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * 0.3 + 0.2 * rng.standard_normal(N)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    X, y = data
    at = tmp_path_factory.mktemp("parts")
    frame = pd.DataFrame(X, columns=NAMES).assign(target=y)
    for k, (start, stop) in enumerate([(0, 500), (500, 500), (500, N)]):  # the second has no rows
        frame.iloc[start:stop].to_parquet(at / f"{k}.parquet", row_group_size=170)
    return at


def model(likelihood, **options):
    return GP(
        1.3 * SE([1.0, 1.5, 2.0]), likelihood, mean="linear", representation=Inducing(25, **options)
    ).bind(3)


CASES = [
    ("tight", Gaussian(0.04), {"kind": "tight", "learn": True}),
    ("vfe", Gaussian(0.04), {"kind": "vfe", "learn": True}),
    ("fitc", Gaussian(0.04), {"kind": "fitc"}),
    ("ep", Probit(), {}),
    ("negative sites", StudentT(3.0, 0.1), {}),
]


@pytest.mark.parametrize(("likelihood", "options"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_files_and_memory_maps_give_what_arrays_give(data, folder, tmp_path, likelihood, options):
    X, y = data
    y = np.where(y > 0, 1.0, -1.0) if isinstance(likelihood, Probit) else y
    np.save(tmp_path / "X.npy", X.astype(np.float64))
    rows = ParquetRows(folder, NAMES)
    gp = model(likelihood, **options)
    value, gradient = gp.evidence(X, y)
    for source in (rows, ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"))):
        same, same_gradient = gp.evidence(source, y)
        assert same == pytest.approx(value, abs=1e-8 * N)
        np.testing.assert_allclose(same_gradient, gradient, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())
    whole, parts = gp.condition(X, y), gp.condition(rows, y)
    np.testing.assert_allclose(parts.mean(X[:20]), whole.mean(X[:20]), atol=1e-7)
    np.testing.assert_allclose(parts.variance(X[:20]), whole.variance(X[:20]), rtol=1e-6)


def test_rows_that_are_not_in_memory_have_the_bound_that_is_cheaper(data, folder):
    X, y = data
    rows = ParquetRows(folder, NAMES)
    value, tight, vfe = (
        model(Gaussian(0.04), kind=kind).evidence(where, y)[0]
        for kind, where in (("auto", rows), ("tight", X), ("vfe", X))
    )
    assert value == pytest.approx(vfe, abs=1e-8 * N)
    assert vfe < tight == pytest.approx(model(Gaussian(0.04)).evidence(X, y)[0], rel=1e-12)


def test_parquet_files_are_rows_and_target(data, folder):
    rows, y = read_parquet(str(folder / "*.parquet"), "target")
    assert rows.columns == tuple(NAMES)
    np.testing.assert_array_equal(y, data[1])
    np.testing.assert_array_equal(np.concatenate(list(rows.parts())), data[0])
    some = np.array([0, 3, 499, 500, 1099])
    np.testing.assert_array_equal(rows.take(some), data[0][some])
    np.testing.assert_array_equal(rows.evaluate(lambda X: X.sum(axis=1)), data[0].sum(axis=1))


def test_large_row_groups_are_cut(data, tmp_path, monkeypatch):
    monkeypatch.setattr("cavity.rows.parquet.PART_ROWS", 128)
    pd.DataFrame(data[0], columns=NAMES).to_parquet(tmp_path / "one.parquet")
    rows = ParquetRows(tmp_path / "one.parquet")
    assert set(rows.sizes[:-1]) == {128}
    np.testing.assert_array_equal(np.concatenate(list(rows.parts())), data[0])


class Count(Pass):
    """Sums rows and inputs in blocks."""

    def start(self):
        return np.zeros(1), np.zeros(3)

    def add(self, sums, X, rows, *given):
        assert rows.stop - rows.start == len(X) == len(given[0]) <= row_blocks.BLOCK
        sums[0][...] += len(X)
        sums[1][...] += given[0] @ X
        return (given[0] * 2, np.arange(rows.start, rows.stop))


def test_a_pass_sums_over_all_rows_and_keeps_their_order(data, folder):
    X, y = data
    for source in (ArrayRows(X), ParquetRows(folder, NAMES)):
        (count, total), (twice, number) = source.map_sum(Count(), y)
        assert count[0] == N
        np.testing.assert_allclose(total, y @ X, rtol=1e-12)
        np.testing.assert_array_equal(twice, 2 * y)
        np.testing.assert_array_equal(number, np.arange(N))


def test_what_needs_all_rows_in_memory_names_the_remedy(data, folder):
    rows, y = read_parquet(folder, "target")
    with pytest.raises(ValueError, match="not in memory; use representation='inducing'"):
        GP(1.0 * SE(1.0), Gaussian(0.1)).condition(rows, y)


# --- faults -------------------------------------------------------------------------------------------------


def test_other_columns_are_named(data, tmp_path):
    frame = pd.DataFrame(data[0], columns=NAMES)
    frame.to_parquet(tmp_path / "0.parquet")
    frame.rename(columns={"b": "d"}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(RowsError, match=r"1.parquet has other columns .* lacks 'b' and has 'd'"):
        ParquetRows(tmp_path)


def test_an_empty_part_is_passed_over(data, folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    first = pd.read_parquet(sorted(folder.iterdir())[0])
    first.iloc[:0].to_parquet(tmp_path / "0-empty.parquet")
    rows, y = read_parquet(tmp_path, first.columns[-1])
    whole, target = read_parquet(folder, first.columns[-1])
    np.testing.assert_array_equal(y, target)
    np.testing.assert_array_equal(np.concatenate(list(rows.parts())), np.concatenate(list(whole.parts())))


def test_missing_values_are_named_by_file_and_row(data, tmp_path):
    frame = pd.DataFrame(data[0][:50], columns=NAMES).assign(target=1.0)
    frame.to_parquet(tmp_path / "0.parquet")
    frame.loc[17, "c"] = np.nan
    frame.to_parquet(tmp_path / "1.parquet", row_group_size=10)
    rows, _ = read_parquet(tmp_path, "target")
    with pytest.raises(RowsError, match=r"'c' is missing in row 18 of .*1.parquet; complete the row"):
        rows.map_sum(Count(), np.ones(100))
    frame.loc[3, "target"] = np.inf
    frame.to_parquet(tmp_path / "1.parquet")
    with pytest.raises(RowsError, match=r"'target' is infinite in row 4 of .*1.parquet"):
        read_parquet(tmp_path, "target")


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(RowsError, match="no Parquet file in the folder"):
        ParquetRows(tmp_path)
    with pytest.raises(RowsError, match="there is no file"):
        ParquetRows(str(tmp_path / "*.parquet"))
    (tmp_path / "cut.parquet").write_bytes(b"")
    with pytest.raises(RowsError, match=r"cut.parquet is not a readable Parquet file"):
        ParquetRows(tmp_path)
    pd.DataFrame({"a": np.zeros(0)}).to_parquet(tmp_path / "cut.parquet")
    with pytest.raises(RowsError, match="no rows"):
        ParquetRows(tmp_path)
    pd.DataFrame({"a": ["x", "y"]}).to_parquet(tmp_path / "cut.parquet")
    with pytest.raises(RowsError, match=r"'a' of .* does not hold numbers"):
        list(ParquetRows(tmp_path).parts())
    with pytest.raises(RowsError, match="no column 'b'"):
        read_parquet(tmp_path, "b")


def test_errors_survive_the_way_from_a_worker(tmp_path):
    error = pickle.loads(pickle.dumps(RowsError("is wrong", remedy="mend it")))
    assert str(error) == "is wrong; mend it"


# --- Dask ---------------------------------------------------------------------------------------------------


def cluster(workers, processes=False):
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=processes,
        host="127.0.0.1",
        protocol="tcp://",
        dashboard_address=None,
    )


def test_results_do_not_depend_on_the_number_of_workers(data, folder):
    distributed = pytest.importorskip("distributed")
    rows, y = read_parquet(folder, "target")
    gp = model(Gaussian(0.04), learn=True)
    found = [gp.evidence(rows, y)]
    for workers in (1, 3):
        with cluster(workers) as local, distributed.Client(local) as client:
            found.append(gp.evidence(DaskRows.of_parquet(rows, client), y))
    for value, gradient in found[1:]:
        assert value == found[0][0]
        np.testing.assert_array_equal(gradient, found[0][1])


def test_frames_with_and_without_a_cluster(data, folder):
    dd = pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    frame, gp = dd.read_parquet(str(folder / "*.parquet")), model(Gaussian(0.04))
    rows, y, names = rows_of_frame(frame, "target")
    assert names == NAMES
    here = gp.evidence(rows, y)[0]
    with cluster(1) as local, distributed.Client(local):
        rows, y, _ = rows_of_frame(frame, "target")
        assert isinstance(rows, DaskRows)
        assert gp.evidence(rows, y)[0] == pytest.approx(here, abs=1e-9)
        np.testing.assert_array_equal(rows.take(np.array([2, 700])), data[0][[2, 700]])
        with pytest.raises(RowsError, match="no column 'price'"):
            rows_of_frame(frame, "price")


class Slow(Count):
    """A pass of which the first worker dies."""

    def __init__(self, mark):
        self.mark = mark

    def add(self, sums, X, rows, *given):
        if not os.path.exists(self.mark):
            with open(self.mark, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return super().add(sums, X, rows, *given)


def test_a_worker_that_is_killed_is_survived(data, folder, tmp_path):
    distributed = pytest.importorskip("distributed")
    rows, y = read_parquet(folder, "target")
    with cluster(2, processes=True) as local, distributed.Client(local) as client:
        there = DaskRows.of_parquet(rows, client)
        found = there.map_sum(Slow(str(tmp_path / "killed")), y)
    assert (tmp_path / "killed").exists()
    expected = rows.map_sum(Count(), y)
    for a, b in zip(found[0] + found[1], expected[0] + expected[1]):
        np.testing.assert_array_equal(a, b)


def test_a_scheduler_that_cannot_be_reached(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("cavity.rows.distributed.CONNECT_SECONDS", 0.5)
    with pytest.raises(RowsError, match=r"no scheduler at tcp://127.0.0.1:9"):
        connect("tcp://127.0.0.1:9")
    with pytest.raises(RowsError, match="no scheduler at nowhere"):
        connect("nowhere")
