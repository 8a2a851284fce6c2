"""The gallery page and its script run as they stand."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import matplotlib.image
import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8"), re.S)


def test_code_on_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from cavity.kernels import input_functions

    monkeypatch.setattr(input_functions, "_REGISTRY", dict(input_functions._REGISTRY))
    assert len(BLOCKS) >= 6
    namespace: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, namespace)


def test_every_kernel_is_on_the_page() -> None:
    import cavity.kernels

    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    spelled = {"On": ".on(", "Sum": "k1 + k2", "Product": "k1 * k2", "Scaled": "2.0 * k", "Power": "k ** 3"}
    for name in cavity.kernels.__all__:
        if name not in ("Kernel", "Stationary"):
            assert spelled.get(name, name) in page, name


@pytest.mark.slow
def test_gallery_script_draws_a_picture(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "examples" / "kernel_gallery.py"))
    script["main"](str(tmp_path / "gallery.png"))
    picture = matplotlib.image.imread(tmp_path / "gallery.png")
    assert min(picture.shape[:2]) > 800
    assert picture.std() > 0.05
