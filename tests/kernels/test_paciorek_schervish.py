"""The kernel of Paciorek and Schervish: eq. 4.34 with determinants, special cases, extremes, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.kernels import (
    SE,
    GammaExponential,
    Gibbs,
    Matern,
    PaciorekSchervish,
    PiecewisePolynomial,
    RationalQuadratic,
    ard,
    parse,
)
from cavity.parameters import fixed

RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((7, 3)), RNG.standard_normal((5, 3))


def test_golden_value() -> None:
    """Length scales 1 and 2, one apart: sqrt(4/5) exp(-sqrt(2/5))."""
    kernel = PaciorekSchervish(Matern(1.0, nu=0.5), function=lambda x: 1.0 + x)
    assert kernel([[0.0]], [[1.0]])[0, 0] == pytest.approx(np.sqrt(0.8) * np.exp(-np.sqrt(0.4)), rel=1e-14)


@pytest.mark.parametrize(
    "kernel",
    [Matern([0.8, 1.5, 2.0], nu=2.5), RationalQuadratic(0.9, fixed(0.7)), GammaExponential(1.2, fixed(1.3))],
    ids=repr,
)
def test_formula_with_determinants(kernel) -> None:
    """2^(D/2) |S|^(1/4) |S'|^(1/4) |S + S'|^(-1/2) k(sqrt Q), Q = d' ((S + S') / 2)^-1 d."""
    found = PaciorekSchervish(kernel, function=lambda x: np.exp(np.sin(x[:, ::-1])))(X, Z)
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            S, T = (np.diag((kernel.lengthscale * np.exp(np.sin(p[::-1]))) ** 2) for p in (x, z))
            Q = (x - z) @ np.linalg.solve((S + T) / 2, x - z)
            first = np.atleast_1d(kernel.lengthscale)[0]
            at = np.array([[np.sqrt(Q) * first, 0.0, 0.0]])
            factor = 2**1.5 * (np.linalg.det(S) * np.linalg.det(T)) ** 0.25 / np.sqrt(np.linalg.det(S + T))
            assert found[i, j] == pytest.approx(factor * kernel(at, np.zeros((1, 3)))[0, 0], rel=1e-12)


def test_special_cases() -> None:
    scale, slope = [0.5, 1.0, 2.0], [0.3, -0.2, 0.1]
    np.testing.assert_allclose(
        PaciorekSchervish(SE(scale), slope)(X, Z), Gibbs(scale, slope)(X, Z), rtol=1e-12
    )
    np.testing.assert_allclose(PaciorekSchervish(Matern(scale))(X, Z), Matern(scale)(X, Z), rtol=1e-12)


@pytest.mark.parametrize("factor", [1e-100, 1e-8, 1e8, 1e100])
def test_the_unit_of_the_inputs_does_not_matter(factor: float) -> None:
    kernel = PaciorekSchervish(Matern(1.0, nu=2.5), function=lambda x: np.exp(np.sin(x[:, :1])))
    scaled = PaciorekSchervish(
        Matern(1.0, nu=2.5), function=lambda x: factor * np.exp(np.sin(x[:, :1] / factor))
    )
    np.testing.assert_allclose(scaled(X * factor), kernel(X), rtol=1e-10)
    whole = PaciorekSchervish(Matern(factor, nu=2.5), slope=0.3 / factor)
    np.testing.assert_allclose(
        whole(X * factor), PaciorekSchervish(Matern(1.0, nu=2.5), slope=0.3)(X), rtol=1e-10
    )


@pytest.mark.parametrize("kernel", [Matern(1.0, nu=0.5), SE(1.0)], ids=repr)
def test_abrupt_changes_keep_it_positive_definite(kernel) -> None:
    x = np.repeat(np.linspace(-1, 1, 30), 2)[:, None]
    K = PaciorekSchervish(kernel, function=lambda x: np.where(x < 0, 1e-3, 1e3))(x)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    np.testing.assert_allclose(np.diag(K), np.ones(60), rtol=1e-15)


def test_far_inputs_are_independent() -> None:
    K = PaciorekSchervish(Matern(1.0), function=lambda x: np.ones_like(x))([[0.0], [1e300], [-1.7e308]])
    np.testing.assert_allclose(K, np.eye(3), atol=1e-70)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PaciorekSchervish(PiecewisePolynomial(1.0)), "kernels in any number of dimensions"),
        (lambda: PaciorekSchervish(2.0), "takes one of SE, Matern"),
        (lambda: PaciorekSchervish(RationalQuadratic(1.0)), r"alpha of .* write alpha=fixed\(value\)"),
        (lambda: PaciorekSchervish(SE(1.0, loadings=[[1.0]])), "length scales only"),
        (lambda: PaciorekSchervish(SE(1.0), 0.1, function="exp"), "either a slope or a function"),
        (lambda: PaciorekSchervish(SE(1.0), function=lambda x: x)([[-1.0]]), "must be positive"),
        (lambda: PaciorekSchervish(SE(1.0), 1.0)([[1000.0]]), "leaves the range of numbers at row 0"),
        (lambda: PaciorekSchervish(SE([1.0, 2.0]))([[1.0]]), "made for 2 input columns"),
    ],
)
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_text_and_columns() -> None:
    kernel = PaciorekSchervish(Matern(ard, nu=2.5), slope=ard)
    assert parse(repr(kernel)) == kernel
    assert kernel.bind(3).flat.size == 3 + 3 + 1
    named = PaciorekSchervish(Matern(1.0), function="exp")
    assert parse(repr(named)) == named
