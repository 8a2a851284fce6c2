"""Commands start quickly: what they do not need is not loaded."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from cavity import GPRegressor
from cavity.kernels import SE
from cavity.runtime.lazy import defer
from cavity.tables import Table, TableModel, prepare
from cavity.tables.fit_report import FitReport

PROGRAM = """
import sys
from cavity.cli import main
try:
    main()
except SystemExit as end:
    asked = ("scipy.stats._stats_py", "pandas.core.frame", "numba", "matplotlib", "scipy.optimize", "numpy.f2py.rules")
    print(end.code, *(name for name in asked if name in sys.modules), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    frame = pd.DataFrame({"x": np.arange(6.0) ** 2, "y": np.sin(np.arange(6.0))})
    preparation, X, y = prepare(Table(frame, np.arange(1, 7), 6), "y")
    made = TableModel(preparation, GPRegressor(SE(1.0), objective=None).fit(X, y), FitReport(6, 6))
    made.save(folder / "m.cavity")
    frame.to_csv(folder / "t.csv", index=False)
    return folder


def loaded(folder, *words):
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    code, *modules = found.stderr.split()
    assert code == "0", found.stderr
    return modules


def test_info_loads_neither_pandas_nor_statistics(model):
    assert loaded(model, "info", "m.cavity") == []


def test_predict_loads_pandas_alone(model):
    assert loaded(model, "predict", "m.cavity", "t.csv") == ["pandas.core.frame"]


def test_deferred_modules_are_loaded_when_something_of_them_is_used(tmp_path, monkeypatch):
    (tmp_path / "late_module.py").write_text("import sys\nsys.late_module_was_run = True\nvalue = 3\n")
    (tmp_path / "late_package").mkdir()
    (tmp_path / "late_package" / "__init__.py").write_text("")
    (tmp_path / "late_package" / "inner.py").write_text("value = 4\n")
    monkeypatch.syspath_prepend(tmp_path)
    defer("late_module", "late_package", "no_such_module")
    import late_module

    again = __import__("late_module")
    assert not hasattr(sys, "late_module_was_run")
    assert late_module.value == again.value == 3
    assert sys.late_module_was_run
    from late_module import value
    from late_package import inner

    assert (value, inner.value) == (3, 4)
    import late_package.inner as same

    assert same is inner
    with pytest.raises(AttributeError):
        _ = late_module.other
    with pytest.raises(ModuleNotFoundError):
        import no_such_module  # noqa: F401
    del sys.late_module_was_run
