"""The user pages of the estimators: every example runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "classification.md",
            ["['in' 'out']", "[[0.5 0.5]]", "one_vs_rest True", "versicolor against virginica", "None"],
        ),
        ("robust_regression.md", ["[ 5 20 33 50]", "MixtureOfGaussians(fraction=", "\nep\n", "laplace "]),
    ],
)
def test_user_page(page, expected):
    text = (DOCS / page).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, page, "exec"), {})
    for piece in expected:
        assert piece in out.getvalue()
    if page == "classification.md":
        assert "False" not in out.getvalue()
