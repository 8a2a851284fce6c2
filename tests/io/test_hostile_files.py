"""Damaged, hostile and foreign files: one kind of error, a clear sentence, nothing run, nothing half-made."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import cavity
from cavity import GP, GPClassifier, GPRegressor
from cavity.inference.exact import Exact
from cavity.io import ModelFileError, dumps, load, loads, register, registry, save
from cavity.io.archive import pack, unpack
from cavity.kernels import SE, Gibbs, Power, Warped
from cavity.likelihoods import Gaussian, Likelihood, Softmax
from cavity.means.basis import Basis
from cavity.means.functions import FunctionMean
from cavity.parameters.param import Param
from tests.io.model_archives import archive, contents, mutated

X = np.random.default_rng(0).uniform(-2, 2, (18, 2))
Y = np.sin(X[:, 0])


def regressor() -> GPRegressor:
    return GPRegressor(SE([1.0, 2.0]), objective=None, likelihood=Gaussian(0.1)).fit(X, Y)


GOOD = dumps(regressor())


def with_document(change) -> bytes:
    """A good file with a changed document, whole as an archive."""
    members = contents(GOOD)
    document = json.loads(members["model.json"])
    document = change(document) or document
    members["model.json"] = json.dumps(document).encode()
    return archive(members)


def with_text(old: str, new: str) -> bytes:
    members = contents(GOOD)
    assert old.encode() in members["model.json"]
    members["model.json"] = members["model.json"].replace(old.encode(), new.encode(), 1)
    return archive(members)


def array_file(header: str, values: bytes = b"\0" * 8, version: bytes = b"\x01\x00") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + values


def with_array(raw: bytes) -> bytes:
    return archive({**contents(GOOD), "arrays/0.npy": raw})


def fails(data: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message) as caught:
        loads(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


# --- the container ------------------------------------------------------------------------------------------


def test_the_good_file_is_good():
    assert np.array_equal(loads(GOOD).predict(X), regressor().predict(X))
    assert np.array_equal(loads(archive(contents(GOOD))).predict(X), regressor().predict(X))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a zip archive"),
        (b"hello", "not a zip archive"),
        (pickle.dumps({"a": 1}), "not a zip archive"),
        (b"PK", "damaged or cut short"),
        (GOOD[:-1], "damaged or cut short"),
        (GOOD[: len(GOOD) // 2], "damaged or cut short"),
        (archive({}), "no model.json"),
        (archive({"arrays/0.npy": b""}), "no model.json"),
        (archive(contents(GOOD), zipfile.ZIP_DEFLATED), "is compressed"),
        (archive({**contents(GOOD), "../../etc/passwd": b"x"}), "does not belong in it: '../../etc/passwd'"),
        (archive({**contents(GOOD), "/abs.npy": b"x"}), "does not belong in it: '/abs.npy'"),
        (archive({**contents(GOOD), "arrays/../0.npy": b"x"}), "does not belong"),
        (archive({**contents(GOOD), "arrays/01.npy": b"x"}), "does not belong"),
        (archive({**contents(GOOD), "evil.pkl": b"x"}), "does not belong"),
        (archive({**contents(GOOD), "arrays/": b""}), "does not belong"),
        (archive([*contents(GOOD).items(), ("model.json", b"{}")]), "two members called 'model.json'"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_containers_that_are_not_model_files(data, message):
    fails(data, message)


def test_a_bomb_cannot_be_stored():
    """A compressed gigabyte of zeros is refused by its listing, before a byte of it is unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("arrays/0.npy", "w") as member:
            for _ in range(64):
                member.write(b"\0" * 2**20)
        file.writestr("model.json", b"{}")
    assert len(buffer.getvalue()) < 2**18
    fails(buffer.getvalue(), "is compressed")


def test_sizes_that_lie_and_members_that_overlap():
    name = b"arrays/0.npy"
    data = bytearray(GOOD)
    at = data.rindex(name) - 46  # its entry in the central directory
    for position in (at + 20, at + 24):
        data[position : position + 4] = (2**31).to_bytes(4, "little")
    fails(bytes(data), "overlap|damaged")
    encrypted = bytearray(GOOD)
    encrypted[at + 8] |= 1
    fails(bytes(encrypted), "encrypted")


# --- arrays -------------------------------------------------------------------------------------------------

F8 = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is not an array"),
        (b"\x93NUMPY", "is not an array"),
        (array_file(F8, version=b"\x02\x00"), "is not an array"),
        (array_file(F8.replace("(1,)", "(1000000000000,)")), "should hold"),
        (array_file(F8.replace("(1,)", "(99999999, 99999999, 99999999)")), "should hold"),
        (array_file(F8.replace("(1,)", "(0, 99999999999)"), b""), "cannot be made|matrix"),
        (array_file(F8.replace("(1,)", "(-1,)")), "header"),
        (array_file(F8, b"\0" * 7), "should hold"),
        (array_file(F8.replace("<f8", "|O"), b"\x80\x04N."), "header|do not use"),
        (array_file(F8.replace("<f8", "|O8"), b"\x80\x04N."), "do not use|unknown type"),
        (array_file(F8.replace("<f8", "|V8")), "do not use"),
        (array_file(F8.replace("<f8", "<M8")), "do not use"),
        (array_file(F8.replace("<f8", "<c8")), "do not use"),
        (array_file(F8.replace("<f8", "<q9")), "unknown type"),
        (array_file(F8.replace("<f8", "<U0"), b""), "do not use|should hold"),
        (array_file(F8.replace("<f8", "<U2"), b"\xff" * 8), "not text"),
        (array_file("{'descr': __import__('os').system('true'), 'shape': (1,)}"), "header"),
        (array_file("{" * 5000), "header"),
        (array_file(F8 + " junk"), "header"),
        (array_file(F8.replace("<f8", "<f4"), b"\0" * 4), "cannot be made|must be"),
    ],
)
def test_arrays_that_are_not_what_was_stored(raw, message):
    fails(with_array(raw), message)


def test_no_array_with_python_objects_is_ever_unpickled():
    class Evil:
        def __reduce__(self):
            return (os.system, ("touch /tmp/cavity-was-here",))

    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil()], dtype=object), allow_pickle=True)
    fails(with_array(buffer.getvalue()), "header|do not use|unknown")
    assert not Path("/tmp/cavity-was-here").exists()


# --- the document -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", "must hold an object"),
        (b"null", "must hold an object"),
        (b"{}", "format is missing"),
        (b'{"a": NaN}', "NaN, which is not JSON"),
        (b'{"a": -Infinity}', "Infinity, which is not JSON"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": 1, "a": 2}', "the key 'a' twice"),
        (b'{"a": ' + b"[" * 100_000, "nested more than"),
        (b'{"a": ' + b'{"b":' * 100_000, "nested more than"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not valid JSON"),
        (b'{"format": "cavity model"}', "version is not a number"),
        (b'{"format": "cavity model", "version": true}', "version is not a number"),
        (b'{"format": "cavity model", "version": "1"}', "version is not a number"),
        (b'{"format": "cavity model", "version": 0}', "version is not a number"),
        (b'{"format": "cavity model", "version": 2}', "later version of cavity .format 2.*install a newer"),
        (b'{"format": "cavity model", "version": 1}', "holds no model"),
        (b'{"format": "cavity model", "version": 1, "model": 3}', "holds no model"),
        (
            b'{"format": "cavity model", "version": 1, "model": {"part": "os.system", "with": {}}}',
            "holds no model",
        ),
        (
            b'{"format": "cavity model", "version": 1, "model": {"part": "kernels.SE", "with": {}}}',
            "holds no mod",
        ),
        (b'{"format": "cavity model", "version": 1, "model": {"part": "GP", "with": {}}}', "cannot be made"),
        (
            b'{"format": "cavity model", "version": 1, "model": {"part": "GP"}}',
            "not a value that model files",
        ),
    ],
)
def test_documents_that_describe_no_model(text, message):
    fails(archive({"model.json": text}), message)


def posterior_of(document):
    return document["model"]["with"]["member"]["with"]["posterior"]["with"]


def set_in(path: str, value):
    def change(document):
        *most, last = path.split("/")
        node = document["model"]["with"]
        for key in most:
            node = node[key]
        assert last in node
        node[last] = value

    return with_document(change)


POSTERIOR = "member/with/posterior/with"
MODEL = f"{POSTERIOR}/model/with"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            f"{MODEL}/kernel",
            {"part": "os.system", "with": {"command": "true"}},
            "'os.system', which is not known",
        ),
        (f"{MODEL}/kernel", {"part": "builtins.eval", "with": {}}, "not known"),
        (f"{MODEL}/kernel", {"part": "GPRegressor", "with": {}}, "cannot be made"),
        (f"{MODEL}/kernel", {"part": ["SE"], "with": {}}, "does not say what it is"),
        (f"{MODEL}/kernel", {"function": "system"}, "'system', which is not registered"),
        (f"{MODEL}/kernel", {"__reduce__": []}, "not a value"),
        (f"{MODEL}/kernel", None, "kernel must be Kernel or PerLatent"),
        (f"{MODEL}/kernel", {"part": "likelihoods.Gaussian", "with": {}}, "kernel must be Kernel"),
        (f"{MODEL}/kernel/with", {"lengthscale": "long"}, "cannot be made"),
        (f"{MODEL}/kernel/with", {"nonsense": 1.0}, "cannot be made.*nonsense"),
        (f"{MODEL}/kernel/with", {"*": 3}, "must be a list"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", -1.0, "must be positive"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", {"number": "nan"}, "must be positive"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", {"number": "one"}, "is not a number"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", {"values": [[1.0], [2.0, 3.0]]}, "not an array"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", {"values": ["1.0"]}, "not an array of numbers"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", {"values": [1.0, 2.0, 3.0]}, "3 input columns"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", {"array": 99}, "does not have"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", {"array": True}, "does not have"),
        (f"{MODEL}/kernel/with/lengthscale/with/value", {"tuple": 3}, "must be a list"),
        (f"{MODEL}/kernel/with/lengthscale/with", {"value": 1.0, "prior": "flat"}, "prior must be Density"),
        (f"{MODEL}/kernel/with/lengthscale/with", {"value": 1.0, "tie": 3}, "tie must be a text"),
        (f"{MODEL}/kernel/with/lengthscale/with", {"value": 1.0, "transform": 3}, "transform must be"),
        (f"{MODEL}/kernel/with/lengthscale/with", {"value": 1.0, "bounds": 3}, "bounds"),
        (f"{MODEL}/likelihood", 1, "likelihood must be"),
        (f"{MODEL}/likelihood", {"part": "likelihoods.Softmax", "with": {"n_classes": 10**12}}, "10000"),
        (
            f"{MODEL}/likelihood",
            {"part": "likelihoods.Softmax", "with": {"n_classes": 9000}},
            "Softmax|latent",
        ),
        (f"{MODEL}/mean", 1, "mean must be"),
        (f"{MODEL}/inference", "exact", "inference must be a rule"),
        (f"{MODEL}/inference", {"dict": []}, "inference must be"),
        (f"{MODEL}/columns", -3, "columns must be"),
        (f"{MODEL}/columns", 3, "same columns"),
        (f"{MODEL}/note", 3, "note must be"),
        (f"{POSTERIOR}/X", {"values": [[1.0, 2.0]]}, "as many rows"),
        (f"{POSTERIOR}/y", None, "as many rows"),
        (f"{POSTERIOR}/sample_weight", {"values": [1.0]}, "sample_weight"),
        (f"{POSTERIOR}/weights", {"values": [1.0]}, "weights must be one for each row"),
        (f"{POSTERIOR}/curvature", {"values": [1.0]}, "curvature"),
        (f"{POSTERIOR}/sites", 3, "sites must be"),
        (f"{POSTERIOR}/log_evidence", "high", "log_evidence must be"),
        (f"{POSTERIOR}/status", None, "status must be"),
        (f"{POSTERIOR}/status/with/converged", "yes", "converged of Status must be true or false"),
        (f"{POSTERIOR}/status/with", {"colour": "red"}, "cannot be made"),
        ("member", None, "member must be Member"),
        ("member/with/posterior", None, "posterior of Member must be Posterior or SamplePosterior"),
        ("member/with/rows", None, "rows of Member must be TrainingRows"),
        ("member/with/rows/with/index", {"values": [1.0]}, "index of TrainingRows must be an array"),
        ("member/with/search/with/runs", {"tuple": [1]}, "runs"),
        ("member/with/search/with/runs", [], "runs"),
        ("without_own_row", {"tuple": [1, 2]}, "without a row"),
        ("model_key", 3, "model_key must be a tuple"),
        ("columns", {"dict": []}, "number of columns"),
        (f"{POSTERIOR}/y", {"array": 0}, "weights must be one for each row"),
        ("columns", {"dict": [["n_features_in_", 5]]}, "same data"),
        ("columns", {"dict": [["n_features_in_", 2], ["feature_names_in_", {"objects": ["a"]}]]}, "texts"),
        ("columns", {"dict": [["n_features_in_", 2], ["predict", 1]]}, "columns must be known"),
        ("parameters", {"dict": [["__class__", 1]]}, "are no parameters"),
        ("parameters", 3, "must be a table"),
    ],
)
def test_documents_with_a_wrong_place(path, value, message):
    fails(set_in(path, value), message)


def test_classifiers_with_a_wrong_place():
    good = dumps(GPClassifier(SE(1.0), objective=None).fit(X, Y > 0))
    document, arrays = unpack(good)
    stored = [arrays[i] for i in range(len(arrays))]
    fields = document["model"]["with"]
    for name, value, message in [
        ("strategy", "guess", "is no strategy"),
        ("strategy", "softmax", "members|latent|not for"),
        ("classes", {"objects": ["one"]}, "two or more"),
        ("members", [], "has 1 members"),
        ("members", [3], "members must be a list of Member"),
    ]:
        changed = {**document, "model": {"part": "GPClassifier", "with": {**fields, name: value}}}
        fails(pack(changed, stored), message)


def test_errors_name_the_file_and_are_value_errors(tmp_path):
    path = tmp_path / "bad.cavity"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"bad\.cavity cannot be loaded: it is not a zip archive"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.cavity")


def test_a_file_that_needs_more_memory_than_there_is(monkeypatch):
    from cavity.io import posterior
    from cavity.numerics import memory

    monkeypatch.setattr(posterior, "LARGE", 5)
    assert loads(GOOD) is not None
    monkeypatch.setattr(memory, "available_memory", lambda: 100.0)
    fails(GOOD, "18 rows need more memory than is free")


# --- a few thousand mutations -------------------------------------------------------------------------------


def survives(data: bytes) -> bool:
    """Loading gives a model that predicts, or a ModelFileError, and nothing else."""
    try:
        model = loads(data)
    except ModelFileError:
        return False
    assert model.predict(X[:2]).shape == (2,)
    return True


def test_mutated_bytes():
    rng = np.random.default_rng(1)
    loaded = 0
    for _ in range(3000):
        data = bytearray(GOOD)
        kind, at = rng.integers(5), int(rng.integers(len(data)))
        if kind == 0:
            for i in rng.integers(len(data), size=rng.integers(1, 4)):
                data[i] = rng.integers(256)
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            del data[at : at + int(rng.integers(1, 60))]
        elif kind == 3:
            data[at:at] = rng.bytes(int(rng.integers(1, 30)))
        else:
            other = int(rng.integers(len(data)))
            data[at : at + 40] = data[other : other + 40]
        loaded += survives(bytes(data))
    assert loaded < 300  # time stamps and the like may change; numbers are under a checksum


SCRAPS = [
    None, True, 0, -1, 10**30, 0.5, -2.5, "", "ep", [], {}, {"array": 0}, {"array": 1}, {"number": "inf"},
    {"values": [1.0]}, {"values": []}, {"tuple": []}, {"dict": []}, {"objects": ["a"]}, {"function": "f"},
    {"part": "kernels.SE", "with": {}}, {"part": "Param", "with": {"value": 3.0}}, {"part": "GP", "with": {}},
    {"part": "likelihoods.StudentT", "with": {}}, {"part": "means.Zero", "with": {}}, "kernels.SE",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mutated_documents_and_arrays_in_whole_archives():
    rng = np.random.default_rng(2)
    outcomes = [survives(mutated(GOOD, rng, SCRAPS, 0.2)) for _ in range(1500)]
    assert 10 < sum(outcomes) < 1200  # some changes are harmless, most are not


# --- what cannot be stored, unless it is registered ---------------------------------------------------------


def own_trend(x):
    return x[:, 0] ** 2


class OwnKernel(SE):
    """A kernel of one's own."""


class OwnNoise(Likelihood):
    """A likelihood of one's own."""

    def __init__(self, scale=1.0):
        self._set_up({"scale": scale})

    def log_prob(self, y, f):
        return -np.log(2 * self.scale) - np.abs(y - f) / self.scale


@pytest.fixture
def _fresh(monkeypatch):
    for table in ("_by_name", "_by_kind", "_functions"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GP(SE(1.0) + OwnKernel(2.0)), r"GP.kernel.\*\[1\] is a OwnKernel.*cavity.io.register\(OwnKernel\)"),
        (GP(SE(1.0), OwnNoise()), "GP.likelihood is a OwnNoise"),
        (
            GP(SE(1.0), mean=FunctionMean(own_trend)),
            "GP.mean.function is the function own_trend.*holds no code",
        ),
        (GP(SE(1.0), mean=Basis([own_trend])), r"GP.mean.functions\[0\].function is the function own_trend"),
        (GP(Warped(SE(1.0), np.cosh)), "function cosh"),
        (GP(Gibbs(function=lambda x: x**2 + 1)), "function <lambda>"),
        (
            GP(SE(1.0), inference=type("Rule", (Exact,), {})()),
            "is a Rule",
        ),
    ],
)
def test_what_cannot_be_stored_is_named(model, message):
    with pytest.raises(ModelFileError, match=message):
        dumps(model)


def test_estimators_name_the_parameter_and_only_models_are_saved(tmp_path):
    model = regressor().set_params(random_state=np.random.default_rng(0))
    with pytest.raises(
        ModelFileError, match=r"GPRegressor.parameters\['random_state'\] is a random number gen"
    ):
        model.save(tmp_path / "m.cavity")
    assert list(tmp_path.iterdir()) == []
    for thing in (SE(1.0), 3, [regressor()]):
        with pytest.raises(
            ModelFileError, match="cannot be saved; CoregionalizedRegressor, Dynamics, GP, GPClassifier"
        ):
            save(thing, tmp_path / "m.cavity")
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        GPRegressor().save(tmp_path / "m.cavity")
    kernel = SE(1.0)
    for _ in range(120):
        kernel = Power(kernel, 1)
    with pytest.raises(ModelFileError, match="nested more than"):
        dumps(GP(kernel))


@pytest.mark.usefixtures("_fresh")
def test_registered_classes_and_functions_are_stored_by_name():
    assert register(OwnKernel) is OwnKernel
    register(OwnNoise, "my_noise")
    register(own_trend, "trend")
    register(np.cosh, "cosh")
    register(own_trend, "trend")  # again is fine
    model = GP(
        OwnKernel(2.0) + Warped(SE(Param(1.0, fixed=True)), np.cosh), OwnNoise(0.3), own_trend, "laplace"
    )
    stored = dumps(model)
    again = loads(stored)
    assert isinstance(again.kernel.terms[0], OwnKernel)
    assert again.likelihood.scale == 0.3
    assert again.kernel(X).tobytes() == model.kernel(X).tobytes()
    assert np.array_equal(again.mean(X), own_trend(X))
    basis = loads(dumps(GP(SE(1.0), mean=Basis([own_trend]))))
    assert np.array_equal(basis.mean.features(X)[:, 0], own_trend(X))
    del registry._by_name["OwnKernel"]
    fails(stored, "uses 'OwnKernel', which is not known here: register it with cavity.io.register")
    register(OwnKernel)
    del registry._functions["cosh"]
    fails(
        stored, r"function 'cosh', which is not registered here; call cavity.io.register\(function, 'cosh'\)"
    )


@pytest.mark.usefixtures("_fresh")
def test_registration_is_checked():
    with pytest.raises(ValueError, match="name must be an identifier, got 'a b'"):
        register(own_trend, "a b")
    with pytest.raises(ValueError, match="name must be an identifier, got '<lambda>'"):
        register(lambda x: x)
    with pytest.raises(ValueError, match="only classes and functions"):
        register(3, "three")
    with pytest.raises(ValueError, match="is registered already"):
        register(own_trend, "GPRegressor")
    register(OwnKernel, "thing")
    with pytest.raises(ValueError, match="'thing' is registered already"):
        register(OwnNoise, "thing")
    with pytest.raises(ValueError, match="arguments are for classes"):
        register(own_trend, arguments=dict)
    register(OwnNoise, "with_arguments", arguments=lambda noise: {"scale": 2 * noise.scale})
    assert loads(dumps(GP(SE(1.0), OwnNoise(1.5), inference="laplace"))).likelihood.scale == 3.0


# --- writing ------------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "model.cavity"
    regressor().save(path)
    old = path.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    for broken in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, full)
            with pytest.raises(OSError, match="no space"):
                GPRegressor(SE(3.0), objective=None).fit(X, Y).save(path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["model.cavity"]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.cavity"
    path.write_bytes(GOOD)
    program = (
        "import os\n"
        "from cavity.runtime.atomic import replaced\n"
        "os.replace = lambda *a: os._exit(9)\n"
        f"with replaced({str(path)!r}) as partial:\n"
        "    partial.write_bytes(b'half a fi')\n"
    )
    result = subprocess.run([sys.executable, "-c", program], check=False)
    assert result.returncode == 9
    assert path.read_bytes() == GOOD
    assert np.array_equal(cavity.load(path).predict(X), regressor().predict(X))


def test_permissions_and_links_are_kept(tmp_path):
    real, link = tmp_path / "real.cavity", tmp_path / "link.cavity"
    regressor().save(real)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~umask
    real.chmod(0o640)
    link.symlink_to(real)
    GPRegressor(SE(3.0), objective=None).fit(X, Y).save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert cavity.load(real).kernel_.lengthscale == 3.0
    assert re.fullmatch(r"(link|real)\.cavity", next(tmp_path.iterdir()).name)


def test_softmax_models_with_many_classes_need_their_weights():
    posterior = GP(SE(1.0), Softmax(3), inference="laplace").condition(X, np.arange(18) % 3.0)
    document, arrays = unpack(dumps(posterior))
    document["model"]["with"]["weights"] = {"values": [1.0]}
    fails(pack(document, [arrays[i] for i in range(len(arrays))]), "weights must be those of each row")
