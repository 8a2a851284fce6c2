"""The page on likelihoods runs, prints what it says, and names everything."""

from __future__ import annotations

import re
from pathlib import Path

from cavity import likelihoods as lk

PAGE = (Path(__file__).parents[2] / "docs" / "likelihoods.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def test_code_on_the_page_runs_and_prints_what_it_says(capsys):
    namespace: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, namespace)
        printed = capsys.readouterr().out.splitlines()
        claimed = re.findall(r"^# (\[.*)$", block, re.M)
        if claimed:
            assert printed == claimed
    assert len(BLOCKS) == 3


def test_every_likelihood_is_on_the_page_with_its_properties():
    families = [
        lk.Gaussian(),
        lk.KnownNoise([1.0]),
        lk.StudentT(),
        lk.Laplace(),
        lk.EpsilonInsensitive(),
        lk.MixtureOfGaussians(),
        lk.Probit(),
        lk.Logit(),
        lk.LapseProbit(),
        lk.LeastSquares(),
        lk.Heaviside(),
        lk.Softmax(3),
        lk.OneVsRest(3),
        lk.OrdinalProbit([0.0, 1.0]),
        lk.Poisson(),
        lk.NegativeBinomial(),
        lk.Binomial(2),
        lk.HeteroscedasticGaussian(),
    ]
    for likelihood in families:
        row = re.search(rf"^\| `{type(likelihood).__name__}[(`].*$", PAGE, re.M)
        assert row is not None, likelihood
        cells = [c.strip() for c in row.group().strip("|").split("|")]
        assert cells[3].startswith("yes") == likelihood.log_concave
        assert cells[4].startswith("yes") == likelihood.smooth
        for name in likelihood.params:
            assert f"`{name}`" in cells[2]
