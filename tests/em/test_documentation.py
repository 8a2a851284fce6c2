"""The user page and the docstrings: every example runs."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

from cavity.em import emissions, hmm, mixture

PAGE = Path(__file__).resolve().parents[2] / "docs" / "em.md"


@pytest.mark.parametrize("module", [emissions, hmm, mixture])
def test_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_user_page():
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {})
    assert out.getvalue().startswith("2 [0.67 0.33]\nconverged after")
