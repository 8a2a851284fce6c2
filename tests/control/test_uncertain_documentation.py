"""The user page of uncertain inputs runs, and the benchmark compares the same quantities."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np

from benchmarks import control as benchmark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "uncertain_inputs.md"


def test_user_page():
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {})
    assert out.getvalue() == "exact (2,) (2, 2) (2, 2)\n"


def test_the_textbook_loop_of_the_benchmark_gives_the_same_derivatives():
    problem = benchmark.make_problem(n=30, d=3, e=2)
    for got, want in zip(benchmark.ours(problem)(), benchmark.naive(problem)()):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8 * np.abs(want).max())
