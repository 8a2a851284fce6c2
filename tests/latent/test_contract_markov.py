"""The contract of every representation, held by the Markov one: the same tests with one column and a Markov kernel."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from cavity.kernels import Matern
from cavity.latent.markov import Markov
from cavity.means import Linear
from tests.latent import test_contract as contract


@pytest.fixture(autouse=True)
def _one_column(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(contract, "X", rng.standard_normal((contract.N, 1)))
    monkeypatch.setattr(contract, "KERNEL", (1.3 * Matern(0.8, nu=2.5) + 0.3 * Matern(1.0, nu=1.5)).bind(1))
    monkeypatch.setattr(contract, "MEAN", Linear(0.4, [0.3]))


def calls() -> list:
    """Every test of the contract that takes a representation, with each of its other arguments."""
    found = []
    for title, test in inspect.getmembers(contract, inspect.isfunction):
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        if not any(mark.args[0] == "representation" for mark in marks):
            continue
        cases: list[dict] = [{}]
        for mark in marks:
            if mark.args[0] != "representation":
                cases = [{**case, mark.args[0]: value} for case in cases for value in mark.args[1]]
        found += [
            pytest.param(title, case, id=f"{title}-{'-'.join(map(str, case.values()))}") for case in cases
        ]
    return found


@pytest.mark.parametrize(("title", "case"), calls())
def test_the_contract_holds(title, case):
    getattr(contract, title)(Markov(), **case)
