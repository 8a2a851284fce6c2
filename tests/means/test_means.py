"""Mean functions: values, pullbacks, binding to columns, basis functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from cavity.means.basis import Basis
from cavity.means.basis_features import Harmonics, Monomials, Powers, as_features
from cavity.means.functions import Constant, FunctionMean, Linear, Mean, Polynomial, Sum, Zero, as_mean
from cavity.parameters.param import Param, fixed

X = np.array([[0.5, -1.0], [2.0, 0.25], [-3.0, 1.5], [0.0, 0.0], [1.0, 1.0]])
G = np.array([1.0, -0.5, 2.0, 0.3, -1.2])


def wave(X):
    return np.sin(X[:, 0]) * X[:, 1]


def wave_jacobian(X):
    return np.column_stack([np.cos(X[:, 0]) * X[:, 1], np.sin(X[:, 0])])


def pair(X):
    return np.column_stack([np.exp(X[:, 0]), X[:, 0] * X[:, 1]])


def pair_jacobian(X):
    zero = np.zeros(len(X))
    first = np.column_stack([np.exp(X[:, 0]), zero])
    return np.stack([first, X[:, ::-1]], axis=1)


ALL: list[Mean] = [
    Zero(),
    Constant(3.5),
    Constant(Param(-1.0, fixed=True)),
    Linear(2.0, 0.5),
    Linear(2.0, [0.5, -1.5]),
    Polynomial(3, 1.0, 0.25),
    Polynomial(2, 1.0, [[0.5, -1.0], [2.0, 0.1]]),
    FunctionMean(wave),
    FunctionMean(wave, wave_jacobian),
    Constant(1.0) + Linear(0.0, [1.0, 2.0]) + FunctionMean(wave),
    Basis("constant"),
    Basis("quadratic", prior_mean=0.5, prior_covariance=2.0),
    Basis([Harmonics(2.5, 2, column=1), wave, pair], [1.0, -1.0, 0.5, 0.2, 3.0, 0.1, -2.0], np.eye(7)),
    Basis("linear", [1.0, 2.0, 3.0], [1.0, 1.0, 4.0]) + Constant(2.0) + Linear(0.0, 1.0),
]


# --- values -------------------------------------------------------------------------------------------------


def precision(basis):
    """B^-1 from its root."""
    return basis.prior_root.T @ basis.prior_root


def test_values_in_closed_form():
    x, z = X.T
    assert_array_equal(Zero()(X), np.zeros(5))
    assert_array_equal(Constant(3.5)(X), np.full(5, 3.5))
    assert_allclose(Linear(2.0, [0.5, -1.5])(X), 2 + 0.5 * x - 1.5 * z)
    assert_allclose(Linear(2.0, 0.5)(X), 2 + 0.5 * (x + z))
    assert_allclose(Polynomial(2, 1.0, [[0.5, -1.0], [2.0, 0.1]])(X), 1 + 0.5 * x - z + 2 * x**2 + 0.1 * z**2)
    assert_allclose(FunctionMean(wave)(X), np.sin(x) * z)
    assert_allclose((Constant(1.0) + FunctionMean(wave))(X), 1 + np.sin(x) * z)
    assert_allclose(Basis("linear", [1.0, 2.0, 3.0], 1.0)(X), 1 + 2 * x + 3 * z)
    assert_array_equal(Basis("linear")(X), np.zeros(5))
    assert_allclose(Constant(2.0)([1.0, 2.0, 3.0]), [2.0, 2.0, 2.0])  # a vector is one column


def test_a_polynomial_has_the_golden_value_of_its_expansion():
    """(x - 1)^3 = x^3 - 3 x^2 + 3 x - 1."""
    x = np.linspace(-2, 3, 11)
    assert_allclose(Polynomial(3, -1.0, [[3.0], [-3.0], [1.0]])(x), (x - 1) ** 3, atol=1e-13)


# --- derivatives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ALL, ids=repr)
def test_pull_against_finite_differences(mean):
    pulled = mean.pull(X, G)
    assert pulled.shape == mean.flat.shape
    h = 1e-6
    for i, e in enumerate(np.eye(mean.flat.size)):
        up, down = mean.with_flat(mean.flat + h * e), mean.with_flat(mean.flat - h * e)
        assert_allclose(pulled[i], G @ (up(X) - down(X)) / (2 * h), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("mean", ALL, ids=repr)
def test_pull_inputs_against_finite_differences(mean):
    pulled = mean.pull_inputs(X, G)
    assert pulled.shape == X.shape
    h = 1e-6
    for d in range(2):
        step = h * np.eye(2)[d]
        numeric = G * (mean(X + step) - mean(X - step)) / (2 * h)
        assert_allclose(pulled[:, d], numeric, rtol=1e-6, atol=1e-7)


@given(st.lists(st.floats(-5, 5), min_size=6, max_size=6))
def test_pull_in_theta_follows_flags_and_ties(values):
    """With everything linear in the parameters, mean(theta) = pull . theta exactly, fixed ones aside."""
    mean = Linear(Param(0.0, tie="a"), fixed([0.0, 0.0])) + Constant(Param(0.0, tie="a"))
    rows = np.reshape(values, (3, 2))
    g = np.ones(3)
    at = mean.replace([2.0])
    assert_allclose(at.to_theta(at.pull(rows, g)) @ at.theta, g @ at(rows), atol=1e-12)


def test_numerical_derivatives_are_good_where_x_is_large_or_small():
    def square(X):
        return X[:, 0] ** 2

    rows = np.array([[1e6], [-1e-6], [3.0], [-1e3]])
    assert_allclose(FunctionMean(square).pull_inputs(rows, np.ones(4)), 2 * rows, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "features",
    [
        Powers(0),
        Powers(1),
        Powers(4),
        Monomials(0),
        Monomials(3),
        Harmonics(2.0, 3),
        Harmonics(0.7, 1, column=1),
    ],
    ids=repr,
)
def test_jacobians_of_feature_sets(features):
    J, h = features.jacobian(X), 1e-6
    assert J.shape == (5, features.width(2), 2)
    for d in range(2):
        step = h * np.eye(2)[d]
        assert_allclose(J[:, :, d], (features(X + step) - features(X - step)) / (2 * h), rtol=1e-6, atol=1e-6)


def test_users_jacobian_is_used():
    numeric, exact = FunctionMean(wave), FunctionMean(wave, wave_jacobian)
    assert_allclose(exact.pull_inputs(X, G), G[:, None] * wave_jacobian(X), rtol=1e-15)
    assert_allclose(numeric.pull_inputs(X, G), exact.pull_inputs(X, G), rtol=1e-8, atol=1e-9)


# --- binding ------------------------------------------------------------------------------------------------


def test_bind_gives_every_column_its_own_parameter():
    mean = (Linear(1.0, 0.5) + Polynomial(2)).bind(3)
    assert mean.all_names == (
        "mean.intercept",
        *(f"mean.slopes[{i}]" for i in range(3)),
        "mean_2.intercept",
        *(f"mean_2.coefficients[{d},{c}]" for d in range(2) for c in range(3)),
    )
    rows = np.ones((2, 3))
    assert_allclose(mean(rows), (Linear(1.0, 0.5) + Polynomial(2))(rows))
    kept = Linear(0.0, Param(0.5, fixed=True, tie="s")).bind(2).params["slopes"]
    assert kept.fixed
    assert kept.tie == "s"
    assert Linear(0.0, 1.0).bind(2).bind(2).slopes.shape == (2,)
    assert Constant(2.0).bind(7) == Constant(2.0)
    assert Linear().update(mean__slopes=[1.0, 2.0]).n_dims == 2


@pytest.mark.parametrize(
    "mean",
    [
        Linear(0.0, [1.0, 2.0]),
        Polynomial(1, 0.0, [[1.0, 2.0]]),
        Linear(0.0, [1.0, 2.0]) + Constant(1.0),
        Basis("linear").bind(2),
    ],
)
def test_data_with_another_number_of_columns_are_refused(mean):
    with pytest.raises(ValueError, match="is for 2 input columns, but the data have 3"):
        mean.bind(3)
    for call in (mean, lambda X: mean.pull(X, np.ones(1)), lambda X: mean.pull_inputs(X, np.ones(1))):
        with pytest.raises(ValueError, match="is for 2 input columns, but the data have 3"):
            call(np.ones((1, 3)))


# --- basis functions ----------------------------------------------------------------------------------------


def test_features_of_the_ready_made_sets():
    x, z = X.T
    one = np.ones(5)
    assert_array_equal(Basis("constant").features(X), one[:, None])
    assert_array_equal(Basis("linear").features(X), np.column_stack([one, x, z]))
    assert_allclose(Basis("quadratic").features(X), np.column_stack([one, x, z, x**2, z**2]))
    assert Basis("cubic").bind(2).n_weights == 7
    turn = 2 * np.pi * z / 2.5
    waves = np.column_stack([np.cos(turn), np.cos(2 * turn), np.sin(turn), np.sin(2 * turn)])
    assert_allclose(Basis(Harmonics(2.5, 2, column=1)).features(X), waves, atol=1e-15)
    mixed = Basis(["constant", wave, pair])
    assert_allclose(mixed.features(X), np.column_stack([one, wave(X), pair(X)]))
    assert mixed.bind(2).n_weights == 4


def test_harmonics_are_orthogonal_over_a_period():
    x = np.linspace(0, 3.0, 300, endpoint=False)
    H = Harmonics(3.0, 4)(x[:, None])
    assert_allclose(H.T @ H / 300, 0.5 * np.eye(8), atol=1e-13)


def test_vague_weights_have_zero_precision():
    basis = Basis("linear").bind(2)
    assert basis.vague
    assert basis.prior_root.shape == (0, 3)
    assert_array_equal(basis.prior_mean, np.zeros(3))
    assert basis.flat.size == 0
    with pytest.raises(ValueError, match="no prior covariance"):
        basis.prior_covariance  # noqa: B018


def test_prior_of_the_weights():
    one = Basis("linear", 2.0, 4.0).bind(2)
    assert not one.vague
    assert_array_equal(one.prior_mean, [2.0, 2.0, 2.0])
    assert_allclose(precision(one), np.eye(3) / 4, rtol=1e-14)
    assert_array_equal(one.prior_covariance, 4 * np.eye(3))
    each = Basis("linear", prior_covariance=[1.0, 2.0, 4.0])
    assert_allclose(precision(each), np.diag([1.0, 0.5, 0.25]), rtol=1e-14)
    B = np.array([[2.0, 0.5], [0.5, 1.0]])
    full = Basis(pair, [1.0, -1.0], B)
    assert_allclose(precision(full) @ B, np.eye(2), atol=1e-14)


def test_pull_of_features():
    basis = Basis(["quadratic", Harmonics(2.0), wave, pair]).bind(2)
    rng = np.random.default_rng(1)
    U = rng.standard_normal((5, basis.n_weights))
    pulled, h = basis.pull_features_inputs(X, U), 1e-6
    for d in range(2):
        step = h * np.eye(2)[d]
        numeric = np.sum(U * (basis.features(X + step) - basis.features(X - step)), axis=1) / (2 * h)
        assert_allclose(pulled[:, d], numeric, rtol=1e-6, atol=1e-7)
    with pytest.raises(ValueError, match="cotangent must have shape"):
        basis.pull_features_inputs(X, U[:, :-1])


def test_jacobian_of_several_functions():
    features = as_features(pair)
    exact = type(features)(pair, pair_jacobian)
    assert_allclose(features.jacobian(X), exact.jacobian(X), rtol=1e-8, atol=1e-9)


def test_sums_with_basis_functions_are_gathered_in_one():
    both = Constant(2.0) + Basis("linear") + Linear(1.0, [0.5, 1.0]) + Basis(wave)
    assert isinstance(both, Basis)
    assert both.vague
    assert both.bind(2).prior_root.shape == (0, 4)
    assert_allclose(both(X), 3.0 + X @ [0.5, 1.0])
    assert both.names == ("mean.value", "mean_2.intercept", "mean_2.slopes[0]", "mean_2.slopes[1]")
    assert_allclose(both.pull(X, G), np.append([G.sum(), G.sum()], G @ X))
    first, second = Basis("linear", 1.0, 2.0).bind(2), Basis(wave, [3.0], [[4.0]])
    joined = first + second
    assert_array_equal(joined.prior_mean, [1.0, 1.0, 1.0, 3.0])
    assert_array_equal(joined.prior_covariance, np.diag([2.0, 2.0, 2.0, 4.0]))
    with pytest.raises(ValueError, match="cannot be added"):
        Basis("linear") + second
    with pytest.raises(ValueError, match="number of weights must be known"):
        Basis("linear", 1.0, 2.0) + second


def test_a_vague_basis_can_be_given_a_finite_prior():
    basis = (Basis("linear") + Constant(1.0)).bind(2).with_prior(100.0)
    assert not basis.vague
    assert_allclose(precision(basis), 0.01 * np.eye(3), rtol=1e-14)
    assert basis.offset == Constant(1.0)
    assert Basis("linear").with_prior(2.0, 1.0).bind(1).prior_mean.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ([[]], {}, "at least one function"),
        (["wiggly"], {}, "got 'wiggly'"),
        ([3.0], {}, "must be callable"),
        (["linear", 1.0], {}, "vague weights have no prior mean"),
        (["linear"], {"vague": False}, "needs a prior_covariance"),
        (["linear", None, 1.0], {"vague": True}, "vague weights have no prior"),
        (["linear", np.nan, 1.0], {}, "prior_mean must be a finite"),
        (["linear", [[1.0]], 1.0], {}, "prior_mean must be a finite"),
        (["linear", 0.0, -1.0], {}, "must be positive"),
        (["linear", 0.0, np.inf], {}, "prior_covariance must be"),
        (["linear", 0.0, np.ones((2, 3))], {}, "square matrix"),
        (["linear", 0.0, [[1.0, 0.5], [0.2, 1.0]]], {}, "symmetric"),
        (["linear", 0.0, [[1.0, 2.0], [2.0, 1.0]]], {}, "positive definite"),
    ],
)
def test_wrong_bases_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Basis(*arguments, **options)


def test_priors_of_the_wrong_size_are_refused_when_the_size_is_known():
    with pytest.raises(ValueError, match="prior_mean is for 2 weights, but there are 3 functions"):
        Basis("linear", [1.0, 2.0], 1.0).bind(2)
    with pytest.raises(ValueError, match="prior_covariance is for 2 weights"):
        Basis("linear", 0.0, [1.0, 2.0]).bind(2)
    with pytest.raises(ValueError, match="bind the basis"):
        Basis("linear").prior_root  # noqa: B018


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant([1.0, 2.0]), "Constant: value must be a number"),
        (lambda: Constant(np.nan), "Constant: value must be finite"),
        (lambda: Linear([1.0, 2.0]), "number as intercept"),
        (lambda: Linear(0.0, np.ones((2, 2))), "number or vector as slopes"),
        (lambda: Polynomial(0), "degree >= 1"),
        (lambda: Polynomial(-1), "degree must be an integer >= 0"),
        (lambda: Polynomial(1.5), "degree must be an integer"),
        (lambda: Polynomial(2, 0.0, [1.0, 2.0]), "matrix"),
        (lambda: Polynomial(2, 0.0, np.ones((3, 2))), "matrix"),
        (lambda: FunctionMean(3.0), "function must be callable, got 3.0"),
        (lambda: FunctionMean(wave, 3.0), "jacobian must be callable"),
        (lambda: Sum(), "one or more means"),
        (lambda: Sum(Basis("linear")), "join basis functions"),
        (lambda: Harmonics(0.0), "period must be positive"),
        (lambda: Harmonics(1.0, 0), "order must be"),
        (lambda: Harmonics(1.0, 1, -1), "column must be"),
        (lambda: Basis(Harmonics(1.0, 1, 3)).bind(2), "asks for column 3, but the data have 2"),
        (lambda: Basis(Harmonics(1.0, 1, 3)).features(X), "asks for column 3"),
        (lambda: Constant(1.0)(np.array([[np.nan]])), "not finite"),
        (lambda: Constant(1.0)([["a"]]), "numbers only"),
        (lambda: Constant(1.0).pull(X, np.ones(4)), r"cotangent must have shape \(5,\), got \(4,\)"),
        (lambda: FunctionMean(lambda X: X[:2, 0])(X), "one value or one row each"),
        (lambda: FunctionMean(pair)(X), "one value per row"),
        (lambda: FunctionMean(lambda X: np.log(X[:, 0]))(X), "not finite at row 2"),
        (lambda: FunctionMean(wave, pair_jacobian)(X[:, :1]), "index 1 is out of bounds"),
        (lambda: FunctionMean(wave, lambda X: X[:1]).pull_inputs(X, G), r"shape \(5, 2\)"),
        (lambda: Basis(lambda X: X[:, 5]).bind(2), "failed at a row of 2 ones"),
    ],
)
def test_errors_name_what_is_wrong(make, message):
    with pytest.raises((ValueError, IndexError), match=message):
        make()


# --- text and equality --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ALL, ids=repr)
def test_repr_evaluates_back(mean):
    back = eval(repr(mean))
    assert repr(back) == repr(mean)
    assert_array_equal(back(X), mean(X))


def test_equality_sees_functions_and_priors():
    assert FunctionMean(wave) == FunctionMean(wave)
    assert FunctionMean(wave) != FunctionMean(wave, wave_jacobian)
    assert FunctionMean(lambda X: X[:, 0]) != FunctionMean(lambda X: X[:, 1])
    assert Constant(1.0) + Linear() == Constant(1.0) + Linear()
    assert Constant(1.0) + Linear() != Linear() + Constant(1.0)
    assert Basis("linear") == Basis(Powers(1))
    assert Basis("linear") != Basis("linear", 0.0, 1.0)
    assert Basis("linear") != Basis("linear") + Constant(1.0)
    several = {FunctionMean(wave), FunctionMean(wave), Basis("linear"), Basis(Powers(1)), Zero() + Zero()}
    assert len(several) == 3


def test_addition_takes_numbers_and_refuses_the_rest():
    assert Linear() + 2.0 == Linear() + Constant(2.0)
    assert Param(1.0, fixed=True) + Linear() == Constant(fixed(1.0)) + Linear()
    assert sum([Constant(1.0), Linear()]) == Constant(1.0) + Linear()
    for wrong in ("1", True, None):
        with pytest.raises(TypeError):
            Linear() + wrong


def test_as_mean():
    assert as_mean(None) == as_mean("zero") == Zero()
    assert as_mean("constant") == Constant(0.0)
    assert as_mean("constant").names == ("mean.value",)
    assert as_mean("linear") == Linear()
    assert as_mean(2) == Constant(2.0)
    assert as_mean(fixed(2.0)) == Constant(fixed(2.0))
    assert as_mean(wave) == FunctionMean(wave)
    basis = Basis("linear")
    assert as_mean(basis) is basis
    for wrong in ("quadratic", True, [1.0], Linear):
        with pytest.raises(ValueError, match="mean must be"):
            as_mean(wrong)


def test_update_by_name():
    mean = (Constant(1.0) + Linear(0.0, [1.0, 2.0])).update({"mean.value": 4.0, "mean_2.slopes[1]": 7.0})
    assert_array_equal(mean.flat, [4.0, 0.0, 1.0, 7.0])
