"""The benchmark of several classes: its rival against draws and differences, its tables and its last line."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import classes, multinomial_probit

X = np.random.default_rng(0).normal(size=(4, 2))
Y = np.array([0, 1, 2, 1])


def kernel(theta):
    return np.exp(theta[0] - 0.5 * multinomial_probit.squares(X, X) * np.exp(-2 * theta[1]))


def test_the_multinomial_probit_against_draws(monkeypatch):
    """The probability of the labels is the share of draws of f + e from the prior whose largest values they are."""
    monkeypatch.setattr(multinomial_probit, "TOLERANCE", 1e-9)
    K = kernel([1.0, 0.2])
    found = multinomial_probit.solve(K, Y, 3)
    rng = np.random.default_rng(1)
    f = np.linalg.cholesky(K) @ rng.standard_normal((200000, 4, 3))
    hit = np.all(np.argmax(f + rng.standard_normal(f.shape), axis=2) == Y, axis=1)
    error = np.sqrt((1 - hit.mean()) / hit.sum())
    assert found.log_evidence == pytest.approx(np.log(hit.mean()), abs=4 * error + 0.02)


def test_the_gradient_of_the_multinomial_probit(monkeypatch):
    monkeypatch.setattr(multinomial_probit, "TOLERANCE", 1e-10)
    theta, h = np.array([1.0, 0.2]), 1e-4
    G, K = multinomial_probit.solve(kernel(theta), Y, 3).cotangent, kernel(theta)
    pulled = [np.sum(G * K), np.sum(G * K * multinomial_probit.squares(X, X)) * np.exp(-2 * theta[1])]
    for slope, step in zip(pulled, h * np.eye(2)):
        up, down = (multinomial_probit.solve(kernel(theta + s * step), Y, 3).log_evidence for s in (1, -1))
        assert slope == pytest.approx((up - down) / (2 * h), abs=1e-5)


def test_all_methods_give_probabilities_of_the_same_rows():
    found = classes.measure(classes.Problem(classes.PROBLEMS["iris"].rows, 30, (1, 1)), 0)
    assert list(found) == list(classes.METHODS)
    for loss, error, seconds in found.values():
        assert 0.0 < loss < 1.0
        assert error < 0.2
        assert seconds > 0.0


@pytest.mark.parametrize(("others", "code"), [(1.0, 0), (0.9, 1)])
def test_a_run_ends_with_the_result_line(monkeypatch, capsys, others, code):
    row = dict.fromkeys(classes.METHODS, (others, 0.1, 1.0)) | {"default": (1.0, 0.1, 1.0)}
    monkeypatch.setattr(classes, "measure", lambda problem, seed: row)
    assert classes.main(["--quick"]) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"RESULT iris={1 / others:.3f} wine=")
