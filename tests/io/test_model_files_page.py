"""The code on the page about model files runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from cavity.io import registry

PAGE = Path(__file__).parents[2] / "docs" / "model_files.md"


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for table in ("_by_name", "_by_kind", "_functions"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    exec("\n".join(blocks), {"__name__": "page"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["own.cavity", "sine.cavity"]
