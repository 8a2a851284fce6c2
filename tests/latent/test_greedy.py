"""Greedy choices against all of them tried by explicit matrices."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from cavity.kernels import SE
from cavity.latent.inducing.greedy import informative_rows, regressor_rows

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (14, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(14)
KERNEL, NOISE = 1.3 * SE([1.0, 1.5]), 0.05


def test_the_informative_vector_machine_takes_the_largest_variance():
    rows = informative_rows(KERNEL, X, 6, NOISE)
    for j in range(1, 6):
        c = rows[:j]
        A = KERNEL(X[c]) + NOISE * np.eye(j)
        var = KERNEL.diag(X) - np.einsum("ij,ij->j", KERNEL(X[c], X), np.linalg.solve(A, KERNEL(X[c], X)))
        var[c] = -1.0
        assert rows[j] == np.argmax(var)


def test_the_subset_of_regressors_takes_the_highest_evidence():
    rows = regressor_rows(KERNEL, X, Y, 5, NOISE, np.random.default_rng(0), working_set=14)

    def evidence(c):
        c = np.asarray(c)
        Q = KERNEL(X, X[c]) @ np.linalg.solve(KERNEL(X[c], X[c]), KERNEL(X[c], X))
        return multivariate_normal(np.zeros(14), Q + NOISE * np.eye(14)).logpdf(Y)

    for j in range(5):
        others = [i for i in range(14) if i not in rows[:j]]
        values = [evidence([*rows[:j], i]) for i in others]
        assert rows[j] == others[int(np.argmax(values))]


def test_rows_that_repeat_are_taken_once_and_no_more_than_there_are():
    twice = np.vstack([X, X])
    rows = regressor_rows(KERNEL, twice, np.tile(Y, 2), 28, NOISE, np.random.default_rng(0))
    assert len(np.unique(twice[rows], axis=0)) == len(rows) <= 14
    assert len(np.unique(informative_rows(KERNEL, X, 99, NOISE))) == 14
