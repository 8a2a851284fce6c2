"""Parameters, columns and errors: names, ties, fixed flags, binding, immutability, messages."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.kernels import (
    SE,
    Additive,
    Categorical,
    Constant,
    Cosine,
    GammaExponential,
    Gibbs,
    Kernel,
    Linear,
    Matern,
    NeuralNetwork,
    Normalized,
    On,
    Periodic,
    PiecewisePolynomial,
    Polynomial,
    Power,
    Product,
    RationalQuadratic,
    Rescaled,
    Scaled,
    SpectralMixture,
    Sum,
    Warped,
    White,
    Wiener,
    ard,
)
from cavity.parameters.param import Param, fixed

X = np.random.default_rng(0).standard_normal((6, 3))


# --- parameters ---------------------------------------------------------------------------------------------


def test_names_say_where_a_value_lives() -> None:
    k = (2.0 * SE(ard) + 0.5 * Matern(1.0).on([1]) * Periodic(SE(0.3)) + White()).bind(3)
    assert k.names == (
        "se.variance",
        "se.lengthscale[0]",
        "se.lengthscale[1]",
        "se.lengthscale[2]",
        "matern.variance",
        "matern.lengthscale",
        "periodic.period",
        "se_2.lengthscale",
        "white.variance",
    )
    assert "matern.nu" in k.all_names


def test_fixed_parameters_have_no_gradient() -> None:
    free, held = SE(1.3) * Linear(0.5, 0.2), SE(fixed(1.3)) * Linear(0.5, fixed(0.2))
    G = np.ones((6, 6))
    d_free, d_held = free.forward(X)[1](G), held.forward(X)[1](G)
    assert held.names == ("linear.variance",)
    np.testing.assert_allclose(d_held, d_free[1:2])


def test_tied_parameters_are_one() -> None:
    tied = SE(Param(1.3, tie="l")) + Matern(Param(1.3, tie="l"))
    apart = SE(1.3) + Matern(1.3)
    G = np.ones((6, 6))
    assert len(tied.theta) == 1
    np.testing.assert_allclose(tied.forward(X)[1](G), [apart.forward(X)[1](G).sum()])
    moved = tied.replace([np.log(2.0)])
    np.testing.assert_allclose(moved(X), (SE(2.0) + Matern(2.0))(X))


def test_update_by_name() -> None:
    k = (2.0 * SE(1.0) + White(0.1)).update({"se.lengthscale": 3.0}, white__variance=0.5)
    assert k == 2.0 * SE(3.0) + White(0.5)
    assert SE(1.0).update(se__lengthscale=[1.0, 2.0]).n_dims == 2
    assert SE(ard).update(se__lengthscale=[1.0, 2.0]) == SE([1.0, 2.0])
    with pytest.raises(ValueError, match="lengthscale"):
        SE(1.0).update(se__lengthscale=-1.0)
    with pytest.raises(ValueError, match="gamma"):
        GammaExponential(1.0, fixed(2.0)).update(gammaexponential__gamma=2.5)


def test_kernels_do_not_change() -> None:
    k = SE([1.0, 2.0])
    with pytest.raises(AttributeError):
        k.lengthscale = 3.0
    with pytest.raises(ValueError):
        k.lengthscale[0] = 3.0
    with pytest.raises(ValueError):
        SE(ard).bind(2).lengthscale[0] = 3.0
    flat = np.array([3.0, 4.0])
    new = k.with_flat(flat)
    flat[0] = 100.0
    assert new == SE([3.0, 4.0])
    assert k == SE([1.0, 2.0])


def test_sklearn_clone_is_the_kernel_itself() -> None:
    from sklearn.base import clone

    k = SE(1.0) + White()
    assert clone(k) is k


# --- columns ------------------------------------------------------------------------------------------------


def test_ard_before_and_after_binding() -> None:
    k = (
        SE(ard(1.5))
        + Linear(ard)
        + Cosine(ard)
        + Gibbs(ard, slope=ard(0.1))
        + Periodic(SE(ard), period=ard(2.0))
    )
    np.testing.assert_allclose(k.bind(3)(X), k(X), rtol=1e-13)
    G = np.random.default_rng(1).standard_normal((6, 6))
    # until it is bound, one shared value: its derivative is the sum over the columns
    bound = k.bind(3).forward(X)[1](G)
    per_column = bound[: 3 * (len(bound) // 3)]
    assert len(per_column) + 1 == len(bound)  # all but the bias
    assert k.forward(X)[1](G)[0] == pytest.approx(bound[:3].sum())
    assert k.bind(3).bind(3) == k.bind(3)


def test_ard_keeps_flags() -> None:
    bound = SE(ard(Param(2.0, bounds=(0.5, 8.0)))).bind(2)
    assert bound == SE(Param([2.0, 2.0], bounds=(0.5, 8.0)))
    assert SE(ard(fixed(2.0))).bind(2).names == ()
    with pytest.raises(ValueError, match="nu cannot be `ard`"):
        Matern(1.0, nu=ard)


def test_columns_by_name() -> None:
    k = SE([1.0, 2.0]).on(["b", "c"]) + Linear().on("a")
    bound = k.bind(3, ["a", "b", "c"])
    assert bound == SE([1.0, 2.0]).on([1, 2]) + Linear().on([0])
    with pytest.raises(ValueError, match=r"unknown column 'b'.*the columns are"):
        k.bind(2, ["a", "x"])
    with pytest.raises(ValueError, match="no column names; use indices"):
        k.bind(3)
    with pytest.raises(ValueError, match="bind it first"):
        k(X)
    with pytest.raises(ValueError, match="bind it first"):
        Periodic(SE().on("a"))(X)
    assert SE(ard).on("b").bind(3, ["a", "b", "c"]) == SE([1.0]).on([1])
    nested = SE().on("b").on(["c", "b"]).bind(3, ["a", "b", "c"])
    np.testing.assert_allclose(nested(X), SE()(X[:, [1]]))


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (SE([1.0, 2.0]), "SE is made for 2 input columns, but the data have 3"),
        (SE(1.0, loadings=[[1.0], [2.0]]), "SE is made for 2"),
        (SE(1.0) + 2.0 * Linear([1.0, 2.0]), "Linear is made for 2"),
        (Periodic(SE([1.0, 2.0])), r"SE is made for [24]"),
        (Periodic(SE(1.0), period=[1.0, 2.0]), "Periodic is made for 2"),
        (Cosine([1.0, 2.0]), "Cosine is made for 2"),
        (Gibbs([1.0, 2.0]), "Gibbs is made for 2"),
        (SpectralMixture([1.0], [1.0], [1.0]), "SpectralMixture is made for 1 input column,"),
        (Wiener(), "Wiener is made for 1"),
        (Categorical(3), "Categorical is made for 1"),
        (Additive([SE(), SE()]), "Additive is made for 2"),
        (Additive(SE(), order=4), "order 4 is more than the number of columns"),
        (SE().on([0, 5]), "asks for column 5"),
        (SE([1.0, 2.0]).on([0]), "SE is made for 2 input columns, but the data have 1"),
    ],
)
def test_wrong_number_of_columns(kernel: Kernel, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        kernel(X)
    with pytest.raises(ValueError, match=says):
        kernel.bind(3)


def test_additive_columns() -> None:
    k = Additive(SE(ard), order=2)
    assert k.bind(3) == Additive([SE([1.0])] * 3, order=2)
    np.testing.assert_allclose(k.bind(3)(X), k(X), rtol=1e-13)
    assert Additive(SE(1.0), order=2).bind(3) == Additive(SE(1.0), order=2)


def test_warped_columns() -> None:
    k = Warped(SE(ard), lambda X: X[:, :1] + X[:, 1:2])
    assert len(k.bind(3).theta) == 1
    np.testing.assert_allclose(k.bind(3)(X), SE(1.0)(X[:, 0] + X[:, 1]))
    assert len(Warped(SE(ard), lambda X: X[:, 0]).bind(3).theta) == 1


# --- messages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([["a"], ["b"]], "real numbers only"),
        ([[1.0 + 2j]], "real numbers only"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (3.0, r"shape \(\)"),
        (np.zeros((3, 0)), "at least one column"),
        ([[1.0], [np.nan]], r"not finite \(nan\) at row 1, column 0"),
        ([[1.0, np.inf]], r"not finite \(inf\) at row 0, column 1"),
    ],
)
def test_wrong_inputs(inputs: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SE()(inputs)
    with pytest.raises(ValueError, match=r"^Z "):
        SE()([[1.0]], inputs)


def test_wrong_shapes_at_evaluation() -> None:
    with pytest.raises(ValueError, match="Z must have as many columns as X"):
        SE()(X, X[:, :2])
    with pytest.raises(ValueError, match="shape of K"):
        SE().forward(X)[1](np.ones((2, 2)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: SE(0.0), "SE: lengthscale must be positive.*got 0.0"),
        (lambda: SE([[1.0]]), "lengthscale must be a number or a vector"),
        (lambda: SE(1.0, loadings=[1.0]), "loadings must be a matrix"),
        (lambda: SE([1.0, 2.0], loadings=[[1.0]]), "loadings is for 1 input columns, other parameters for 2"),
        (lambda: Matern(nu=-1.0), "Matern: nu must be positive"),
        (lambda: Matern(nu=[1.0]), "nu must be a single number"),
        (lambda: GammaExponential(gamma=2.0), "between 0 and 2"),
        (lambda: GammaExponential(gamma=fixed(2.5)), "between 0 and 2"),
        (lambda: RationalQuadratic(alpha=0), "alpha must be positive"),
        (lambda: RationalQuadratic(alpha=[1.0, 2.0]), "alpha must be a single number"),
        (lambda: PiecewisePolynomial(q=4), "q must be 0, 1, 2 or 3, got 4"),
        (lambda: Linear(bias=-1.0), "Linear: bias must be positive"),
        (lambda: Linear(bias=[1.0]), "bias must be a single number"),
        (lambda: Polynomial(0), "degree must be an integer >= 1, got 0"),
        (lambda: Polynomial(1.5), "degree must be an integer >= 1"),
        (lambda: NeuralNetwork([[1.0]]), "variance must be a number or a vector"),
        (lambda: Cosine(-1), "Cosine: period must be positive"),
        (lambda: SpectralMixture([1.0, 2.0], [1.0], [1.0]), "got shapes"),
        (lambda: Periodic("SE"), "Periodic takes a kernel, got 'SE'"),
        (lambda: Gibbs(1.0, function=np.exp), "either lengthscale and slope, or a function"),
        (lambda: Gibbs(function=3), "function must be callable or a registered name"),
        (lambda: Wiener(start="now"), "start must be a number"),
        (lambda: Wiener(start=np.inf), "start must be finite"),
        (lambda: Categorical(1), "two or more different finite codes"),
        (lambda: Categorical([1, 1]), "two or more different"),
        (lambda: Categorical("ab"), "numeric codes"),
        (lambda: Categorical(4, -0.4), "correlation must be between -0.33"),
        (lambda: Categorical(correlation=-0.1), "correlation must be between 0 and 1"),
        (lambda: Categorical(3, [0.1, 0.2]), "correlation must be a single number"),
        (lambda: Categorical(3, variances=1.0), "give loadings as well"),
        (lambda: Categorical(3, 0.1, loadings=[[1.0]] * 3), "not both"),
        (lambda: Categorical(loadings=[[1.0]] * 3), "needs the levels"),
        (lambda: Categorical(3, loadings=[[1.0]] * 2), "one row for each of the 3 levels"),
        (lambda: Categorical(3, loadings=[[1.0]] * 3, variances=[1.0] * 2), r"one per level \(3\)"),
        (lambda: Categorical().table, "no table without declared levels"),
        (lambda: Constant([1.0]), "variance must be a single number"),
        (lambda: White([1.0]), "variance must be a single number"),
        (lambda: Scaled([1.0], SE()), "single number"),
        (lambda: Scaled(1.0, 2.0), "takes a kernel"),
        (lambda: Sum(SE(), 1.0), "takes one or more kernels"),
        (lambda: Product(), "takes one or more kernels"),
        (lambda: SE() ** 0, "integer >= 1, got 0"),
        (lambda: SE() ** 0.5, "integer >= 1, got 0.5"),
        (lambda: Power(2, 2), "takes a kernel"),
        (lambda: SE().on([]), "different column indices"),
        (lambda: SE().on([-1]), "different column indices"),
        (lambda: SE().on([0, "a"]), "different column indices"),
        (lambda: On(2, [0]), "takes a kernel"),
        (lambda: Additive(SE(), order=0), "order must be an integer >= 1"),
        (lambda: Additive(SE(), order=2, variances=[1.0]), r"one value per order \(2\)"),
        (lambda: Additive([]), "takes a kernel or a list"),
        (lambda: Additive([SE()], order=2), "more than the number of columns"),
        (lambda: Normalized(3), "takes a kernel"),
        (lambda: Warped(SE(), "nothing"), "no function is called 'nothing'; there are"),
    ],
)  # fmt: skip
def test_wrong_parameters_name_themselves(make, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_wrong_sums_are_type_errors() -> None:
    with pytest.raises(TypeError):
        SE() + "a"
    with pytest.raises(TypeError):
        [1.0] * SE()
    with pytest.raises(TypeError):
        True * SE()


def test_errors_at_evaluation_name_the_row() -> None:
    with pytest.raises(ValueError, match=r"before start=0.0, but row 1 is -2.0"):
        Wiener()([[1.0], [-2.0]])
    with pytest.raises(ValueError, match="unknown level 5 at row 1; the levels are 0, 1, 2"):
        Categorical(3)([[0.0], [5.0]])
    with pytest.raises(ValueError, match=r"unknown level 0\.5 at row 0"):
        Categorical()([[0.5]])
    with pytest.raises(ValueError, match=r"variance of .* is 0 at row 1"):
        Normalized(Linear(1.0, bias=0))([[1.0], [0.0]])
    with pytest.raises(ValueError, match="leaves the range of numbers at row 1"):
        Gibbs(1.0, slope=1.0)([[0.0], [1000.0]])
    with pytest.raises(ValueError, match="must be positive"):
        Gibbs(function=lambda X: X)([[1.0], [-1.0]])
    with pytest.raises(ValueError, match="must return 1 or 3 columns"):
        Gibbs(function=lambda X: X[:, :2] ** 2)(X)
    with pytest.raises(ValueError, match="'log' is not finite at row 0"):
        Warped(SE(), "log")([[-1.0]])
    with pytest.raises(ValueError, match="one row each"):
        Warped(SE(), lambda X: X.T)(X)
    with pytest.raises(ValueError, match="one value per row"):
        Rescaled(SE(), lambda X: X)(X)


def test_derivatives_through_a_function_need_its_jacobian() -> None:
    G = np.ones((6, 6))

    def first(X):
        return X[:, :1]

    _, pullback = Warped(SE(), first).forward(X)
    pullback(G)
    with pytest.raises(ValueError, match="need the jacobian of first; give jacobian"):
        pullback(G, inputs=True)
    wrong = Warped(SE(), first, jacobian=lambda X: X)
    with pytest.raises(ValueError, match=r"must have shape \(6, 1, 3\)"):
        wrong.forward(X)[1](G, inputs=True)
    right = Warped(SE(), first, jacobian=lambda X: np.tile([[[1.0, 0.0, 0.0]]], (len(X), 1, 1)))
    dX = right.forward(X)[1](G, inputs=True)[1]
    np.testing.assert_allclose(dX, SE().on(0).forward(X)[1](G, inputs=True)[1], atol=1e-14)
    scalar = Gibbs(
        function=lambda X: 1.0 + X[:, :1] ** 2, jacobian=lambda X: 2 * X[:, None, :] * [[[1.0, 0, 0]]]
    )
    dX = scalar.forward(X)[1](G, inputs=True)[1]
    step = np.zeros_like(X)
    step[2, 0] = 1e-5
    assert dX[2, 0] == pytest.approx((scalar(X + step).sum() - scalar(X - step).sum()) / 2e-5, rel=1e-6)


@pytest.mark.parametrize(
    "inner",
    [
        SE(1.0, loadings=[[1.0]]),
        SpectralMixture(),
        Wiener(),
        Categorical(),
        Additive(SE()),
        Gibbs(),
        Periodic(),
    ],
)
def test_periodic_refuses_what_has_no_meaning_on_a_circle(inner: Kernel) -> None:
    with pytest.raises(ValueError, match="Periodic cannot wrap"):
        Periodic(inner)([[1.0]])


def test_white_noise_is_on_the_case() -> None:
    X = np.array([[1.0], [1.0]])
    np.testing.assert_array_equal(White(0.5)(X), 0.5 * np.eye(2))
    np.testing.assert_array_equal(White(0.5)(X, X), np.zeros((2, 2)))
    np.testing.assert_array_equal((SE() + White(0.5))(X), 1.0 + 0.5 * np.eye(2))
