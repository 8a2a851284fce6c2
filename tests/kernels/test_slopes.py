"""Slopes of every kernel, one-sided and two-sided, against differences; pullbacks; refusals by name."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP
from cavity.kernels import (
    SE,
    Categorical,
    Kernel,
    Matern,
    Periodic,
    RationalQuadratic,
    White,
    Wiener,
    WithSlopes,
    slopes,
    values,
)
from cavity.kernels.jets import NoSlopeError
from cavity.likelihoods import KnownNoise
from tests.kernels.kernel_cases import CASES, Case

MORE = {
    "Matern-2": Case(Matern(1.3, nu=2.0)),
    "Matern-3.3": Case(Matern([1.0, 2.0, 1.5], nu=3.3)),
    "Matern-1.2": Case(Matern(1.4, nu=1.2)),
    "Matern-50": Case(Matern(1.4, nu=50.0)),
}


def has_slopes(case: Case) -> bool:
    """Whether its functions have slopes in all columns, as it says itself."""
    X = np.abs(case.draw(2)) + 0.1 if case.inputs == "positive" else case.draw(2)
    try:
        WithSlopes(case.kernel.bind(case.columns))(slopes(X, np.ones(case.columns)))
    except NoSlopeError:
        return False
    return True


SMOOTH = {name: case for name, case in CASES.items() if has_slopes(case)} | MORE
STEP = 1e-3


def rule(f: object, step: float) -> np.ndarray:
    """A derivative of order six from values at multiples of a step."""
    return (45 * (f(step) - f(-step)) - 9 * (f(2 * step) - f(-2 * step)) + (f(3 * step) - f(-3 * step))) / (
        60 * step
    )


def rows_of(case: Case, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, Z = case.draw(6, seed), case.draw(5, seed + 1)
    X[:, :] += 1.0 if case.inputs == "positive" else 0.0
    U, V = rng.standard_normal(X.shape), rng.standard_normal(Z.shape)
    return X, Z, U, V


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_are_derivatives(name: str) -> None:
    case = SMOOTH[name]
    kernel = case.kernel.bind(case.columns)
    X, Z, U, V = rows_of(case)
    wide = WithSlopes(kernel)
    np.testing.assert_allclose(wide(values(X), values(Z)), kernel(X, Z), rtol=1e-12, atol=1e-13)
    size = max(1.0, np.abs(wide(slopes(X, U), slopes(Z, V))).max())
    left = rule(lambda h: kernel(X + h * U, Z), STEP)
    np.testing.assert_allclose(wide(slopes(X, U), values(Z)), left, rtol=1e-6, atol=1e-8 * size)
    right = rule(lambda h: kernel(X, Z + h * V), STEP)
    np.testing.assert_allclose(wide(values(X), slopes(Z, V)), right, rtol=1e-6, atol=1e-8 * size)
    both = rule(lambda h: wide(slopes(X, U), values(Z + h * V)), STEP)
    np.testing.assert_allclose(wide(slopes(X, U), slopes(Z, V)), both, rtol=1e-6, atol=1e-7 * size)


def mixed(case: Case, seed: int = 3) -> np.ndarray:
    """Values, slopes and sums of both."""
    X, Z, U, V = rows_of(case, seed)
    both = values(Z)
    both[:, case.columns + 1 : -1] = V
    both[:, case.columns] = 0.7
    return np.vstack([values(X[:3]), slopes(X[3:], U[3:]), both])


@pytest.mark.parametrize("name", SMOOTH)
def test_matrix_is_a_covariance(name: str) -> None:
    case = SMOOTH[name]
    wide = WithSlopes(case.kernel.bind(case.columns))
    R = mixed(case)
    K = wide(R)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12 * np.abs(K).max())
    np.testing.assert_allclose(wide.diag(R), np.diag(K), rtol=1e-11, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()


@pytest.mark.parametrize("name", SMOOTH)
def test_pullbacks_are_derivatives(name: str) -> None:
    case = SMOOTH[name]
    wide = WithSlopes(case.kernel.bind(case.columns))
    R, S = mixed(case), mixed(case, seed=11)[::-1]
    G = np.random.default_rng(0).standard_normal((len(R), len(S)))
    g = G[:, 0]
    pulled = wide.forward(R, S)[1](G)
    alone = wide.to_theta(wide._pull_diag(wide.prepare(R), g))
    for i in range(len(wide.theta)):

        def at(h: float, i: int = i) -> Kernel:
            theta = wide.theta.copy()
            theta[i] += h
            return wide.replace(theta)

        expected = rule(lambda h: np.sum(G * at(h)(R, S)), 1e-3)
        np.testing.assert_allclose(pulled[i], expected, rtol=1e-5, atol=1e-6)
        expected = rule(lambda h: np.sum(g * at(h).diag(R)), 1e-3)
        np.testing.assert_allclose(alone[i], expected, rtol=1e-5, atol=1e-6)


NO_INPUTS = ("Warped", "Rescaled", "Gibbs-function")


@pytest.mark.parametrize("name", [n for n in SMOOTH if not n.startswith(NO_INPUTS)])
def test_input_pullbacks_are_derivatives(name: str) -> None:
    case = SMOOTH[name]
    wide = WithSlopes(case.kernel.bind(case.columns))
    R, S = mixed(case), mixed(case, seed=11)[::-1]
    rng = np.random.default_rng(0)
    G, g, along = (
        rng.standard_normal((len(R), len(S))),
        rng.standard_normal(len(R)),
        rng.standard_normal(R.shape),
    )
    across = rng.standard_normal(S.shape)
    _, dR, dS = wide.forward(R, S)[1](G, inputs=True)
    expected = rule(
        lambda h: np.sum(G * wide(R + h * along, S + h * across)), 1e-4
    )  # kinks of the roughest are 2e-3 away
    np.testing.assert_allclose(np.sum(dR * along) + np.sum(dS * across), expected, rtol=1e-5, atol=1e-6)
    expected = rule(lambda h: np.sum(g * wide.diag(R + h * along)), 1e-4)
    np.testing.assert_allclose(
        np.sum(wide._pull_diag_inputs(wide.prepare(R), g) * along), expected, rtol=1e-5, atol=1e-6
    )


def test_most_kernels_have_slopes() -> None:
    """So that a kernel that begins to refuse is noticed."""
    rough = {name.split("-")[0] for name in CASES} - {name.split("-")[0] for name in SMOOTH}
    assert {"Matern12", "White", "Wiener", "Categorical", "GammaExponential", "WithSlopes"} <= rough
    for name in ("SE", "Matern32", "Matern52", "RationalQuadratic", "PiecewisePolynomial1", "Linear", "Polynomial",
                 "NeuralNetwork", "Cosine", "SpectralMixture", "Periodic", "Gibbs", "IntegratedWiener", "Seasonal",
                 "DampedOscillator", "Product", "Power", "On", "Standardized", "Warped", "Rescaled", "Normalized",
                 "Additive", "Constant"):  # fmt: skip
        assert name not in rough


# --- who refuses, and why -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (Matern(1.0, nu=0.5), "no slope for nu <= 1"),
        (2.0 * SE(1.0) + White(0.1), "White.*independent from point to point"),
        (Wiener(), "nowhere differentiable"),
        (Periodic(Matern(1.0, nu=0.5)), "no slope for nu <= 1"),
    ],
)
def test_rough_kernels_refuse_slopes_by_name(kernel: Kernel, reason: str) -> None:
    wide = WithSlopes(kernel)
    assert wide(values([[1.0], [2.0]])).shape == (2, 2)  # values are fine
    with pytest.raises(NoSlopeError, match=reason):
        wide(slopes([[1.0], [2.0]]))


def test_rough_kernels_allow_slopes_in_other_columns() -> None:
    kernel = WithSlopes((Categorical(2, 0.5).on(0) * SE(1.0).on([1])).bind(2))
    X = np.array([[0.0, 0.3], [1.0, 0.5]])
    found = kernel(slopes(X, 1), values(X))
    expected = rule(lambda h: kernel.kernel(X + [0.0, h], X), STEP)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    with pytest.raises(NoSlopeError, match="levels have no direction"):
        kernel(slopes(X, 0))


def test_directions_of_a_wrong_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 finite numbers"):
        slopes(np.zeros((3, 2)), [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="a column of X, 0 to 1"):
        slopes(np.zeros((3, 2)), 2)
    with pytest.raises(ValueError, match="2 D \\+ 2 columns"):
        WithSlopes(SE(1.0))(np.zeros((3, 3)))


# --- golden values: an independent computation, one input, unit variance and length -------------------------

X4 = np.array([[-2.0], [-0.5], [0.7], [2.0]])
F4, S4 = [0.5, -0.4, 0.3, -0.2], [-1.0, 0.2, 0.8, -0.6]
GOLDEN = {
    "SE": (SE(1.0), (-0.2364429, 0.4198629), (5.889587e-5, 2.062756e-4), -6.7400437668),
    "Matern52": (Matern(1.0, nu=2.5), (-0.2176031, 0.3451492), (0.0372512792, 0.0566431173), -8.5619758951),
    "Matern32": (Matern(1.0, nu=1.5), (-0.1820656, 0.2568388), (0.1382349877, 0.1796879638), -9.9177790701),
    "RQ": (RationalQuadratic(1.0, 0.7), (-0.2275879, 0.3677615), (0.0124775258, 0.0218506450), -7.6631310728),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_of_regression_with_slopes(name: str) -> None:
    kernel, mean, var, evidence = GOLDEN[name]
    R, y = np.vstack([values(X4), slopes(X4)]), np.array(F4 + S4)
    wide = WithSlopes(kernel)
    exact = GP(wide, KnownNoise(np.full(8, 1e-14))).condition(R, y)
    at = values([[0.0], [1.3]])
    np.testing.assert_allclose(exact.mean(at), mean, atol=1e-7)
    np.testing.assert_allclose(exact.variance(at), var, rtol=1e-5)
    noise = KnownNoise(np.repeat([0.01, 0.1], 4))
    assert abs(GP(wide, noise).condition(R, y).log_evidence - evidence) < 1e-8


def test_tangents_make_a_function_invariant() -> None:
    """f(1, 0) is known, and that it does not change along the circle: the variance at angle 0.4 falls."""
    at = np.array([[np.cos(0.4), np.sin(0.4)]])
    kernel, x = WithSlopes(SE(1.0)), np.array([[1.0, 0.0]])
    without = GP(kernel, KnownNoise([1e-14])).condition(values(x), [0.0]).variance(values(at))
    rows = np.vstack([values(x), slopes(x, [0.0, 1.0])])
    known = GP(kernel, KnownNoise([1e-14, 1e-14])).condition(rows, [0.0, 0.0]).variance(values(at))
    np.testing.assert_allclose([without[0], known[0]], [0.1460460522, 0.0165468008], atol=1e-9)
