"""Kernels as text: `repr` reads like the formula and evaluates back; `parse` reads it without running it."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cavity.kernels
import cavity.parameters.param
from cavity.kernels import (
    SE,
    Additive,
    Categorical,
    Gibbs,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Product,
    Sum,
    Warped,
    White,
    ard,
    parse,
    register_function,
)
from cavity.parameters.param import IDENTITY, Param, fixed
from tests.kernels.kernel_cases import CASES, Case

NAMESPACE = {
    **{name: getattr(cavity.kernels, name) for name in cavity.kernels.__all__},
    **{
        name: getattr(cavity.parameters.param, name)
        for name in ("Param", "fixed", "Log", "Logit", "Transform")
    },
}

SPECIAL = {
    "unbound": 2.0 * SE(ard)
    + Linear(ard(0.3), bias=0) * Periodic(Matern(ard(Param(2.0, fixed=True))), period=ard),
    "bound": (2.0 * SE(ard) + Linear(ard(0.3)) * Periodic(Matern(ard), period=ard)).bind(3),
    "flags": Param(2.0, fixed=True, tie="v")
    * SE(Param([1.0, 2.0], bounds=(0.1, 10.0)), loadings=[[1.0], [0.5]]),
    "free order": Matern(1.0, nu=Param(1.5)),
    "free order with bounds": Matern(1.0, nu=Param(1.5, bounds=(0.5, 5.0))),
    "fixed order with bounds": Matern(1.0, nu=Param(1.5, fixed=True, bounds=(0.5, 5.0))),
    "transform": SE(Param(1.0, transform=IDENTITY)),
    "infinite bounds": SE(Param(1.0, bounds=(0.5, np.inf))),
    "columns": SE(1.0).on("age") + (SE(2.0) + White()).on(["b", "a c"]) * Linear().on([0, 2]),
    "nested": ((SE(1.0) + Linear()) ** 2).on([0]) ** 3 * (0.5 * SE(0.1)) + 3.0 * (2.0 * (SE(2.0) * White())),
    "single": Sum(SE(1.0)) * Product(Linear()),
    "additive": Additive(SE(ard), order=2),
    "additive bound": Additive(SE(ard), order=2).bind(3),
    "levels": Categorical([3, 1.5, -2]),
    "awkward numbers": SE(0.1 + 0.2) + 1e-300 * SE(1e300),
}
TEXTS = {**{name: case.kernel for name, case in CASES.items()}, **SPECIAL}
EVERY = pytest.mark.parametrize("kernel", TEXTS.values(), ids=TEXTS.keys())


@EVERY
def test_repr_evaluates_back(kernel: Kernel) -> None:
    again = eval(repr(kernel), dict(NAMESPACE))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert repr(again) == repr(kernel)
    np.testing.assert_array_equal(again.flat, kernel.flat)
    assert again.names == kernel.names
    assert [e.fixed for e in again.entries] == [e.fixed for e in kernel.entries]
    assert [e.transform for e in again.entries] == [e.transform for e in kernel.entries]


@EVERY
def test_parse_reads_what_repr_prints(kernel: Kernel) -> None:
    again = parse(repr(kernel))
    assert again == kernel
    np.testing.assert_array_equal(again.flat, kernel.flat)
    assert again.names == kernel.names


@EVERY
def test_kernels_pickle(kernel: Kernel) -> None:
    assert pickle.loads(pickle.dumps(kernel)) == kernel


def test_repr_reads_like_the_formula() -> None:
    k = 2.0 * SE(1.5) + Matern([1.0, 2.0], nu=2.5).on([0, 1]) * White(0.1)
    assert repr(k) == (
        "2.0 * SE(lengthscale=1.5) + Matern(lengthscale=[1.0, 2.0], nu=2.5).on([0, 1]) * White(variance=0.1)"
    )
    assert repr(SE(ard)) == "SE(lengthscale=ard)"
    assert repr(Periodic(SE(ard(2.0)), period=Param(1.0, fixed=True))) == (
        "Periodic(SE(lengthscale=ard(2.0)), period=Param(1.0, fixed=True))"
    )
    assert repr(Warped(SE(), "log")) == "Warped(SE(lengthscale=1.0), 'log')"


def test_text_follows_new_values() -> None:
    k = SE(ard).replace([np.log(3.0)])
    assert eval(repr(k), dict(NAMESPACE)).lengthscale == k.lengthscale
    assert repr(k.bind(2)) == f"SE(lengthscale=[{k.lengthscale!r}, {k.lengthscale!r}])"


def test_short_forms_can_be_parsed() -> None:
    assert parse("1.0*SE(ard) + Linear()") == 1.0 * SE(ard) + Linear()
    assert parse("  SE(2) ") == SE(2.0)
    assert parse("SE(fixed(2)) * 3") == 3.0 * SE(fixed(2.0))
    assert parse("0.5 + SE()") == 0.5 + SE()
    assert parse("(SE()\n + White())\n * 2") == 2.0 * (SE() + White())
    assert parse("Gibbs(1.0, slope=-0.5)") == Gibbs(1.0, slope=-0.5)
    assert parse("Gibbs(1.0, slope=+0.5)") == Gibbs(1.0, slope=0.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("RBF(1.0)", "unknown name 'RBF'; did you mean SE"),
        ("Quartic(1.0)", "unknown name 'Quartic'; The kernels are Additive, "),
        ("se(1.0)", "did you mean SE"),
        ("Matren(1.0)", "did you mean Matern"),
        ("SE", r"SE needs parentheses: SE\(\)"),
        ("SE(1.0) - SE(2.0)", r"combine with \+, \* and \*\* only"),
        ("SE(1.0) ** 0.5", "exponent must be a whole number"),
        ("SE(1.0) ** 1000000", "exponent must be a whole number"),
        ("2 ** SE()", "only a kernel can be raised"),
        ("SE(-1.0)", "SE: lengthscale must be positive.*got -1.0, at position 1"),
        ("2*SE(1) + SE(lenght=2)", "unexpected keyword argument 'lenght', at position 11"),
        ("SE(1.0) *", "the formula ends too early, at position 10"),
        ("SE(1.0", r"never closed|EOF"),
        ("", "position 1"),
        ("2 * 3", "one side of"),
        ("3.0", "is not a kernel"),
        ("[SE()]", "is not a kernel"),
        ("ard", "is not a kernel"),
        ("SE(1.0).bind(2)", r"\.bind is not allowed"),
        ("SE(1.0).__class__", "only kernels, numbers"),
        ("SE.on([0])", "needs parentheses"),
        ("ard.on([0])", "belongs after a kernel"),
        ("__import__('os').system('true')", r"\.system is not allowed"),
        ("(lambda: SE())()", "can be called"),
        ("SE(*[1.0])", "only kernels, numbers"),
        ("SE(**{'lengthscale': 1.0})", r"\*\* arguments"),
        ("SE([x for x in (1, 2)])", "only kernels, numbers"),
        ("SE(1.0) if True else SE(2.0)", "only kernels, numbers"),
        ("SE(b'1')", "only kernels, numbers"),
        ("SE(1j)", "only kernels, numbers"),
        ("SE(-'a')", "sign can stand only before a number"),
        ("'a' * SE()", "is expected beside"),
        ("SE().on([0, 0])", "different column indices"),
        ("Warped(SE(), 'launch')", "no function is called 'launch'"),
        ("Kernel()", "unknown name 'Kernel'"),
        ("Stationary()", "unknown name 'Stationary'"),
        ("Categorical(10**9)", "only a kernel can be raised"),
        ("SE(" * 150 + ")" * 150, "nest|nested"),
        ("Periodic(" * 60 + "SE()" + ")" * 60 + " + " + "-" * 150 + "1.0", "nest"),
        ("(" * 5000 + "SE()" + ")" * 5000, "nested|too many"),
    ],
)
def test_wrong_texts_are_explained(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(text)


def test_the_position_points_at_the_trouble() -> None:
    with pytest.raises(ValueError) as error:
        parse("2.0 * SE(1.0) +\n  Waite(0.1)")
    lines = str(error.value).splitlines()
    column = lines[-1].index("^")
    assert lines[-2][column:].startswith("Waite")


def test_texts_that_are_no_texts() -> None:
    with pytest.raises(ValueError, match="must be a string"):
        parse(SE())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="characters"):
        parse("SE()" + " " * 200_000)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="SEMaternWhi()[]{}.,+*-=_ 0123456789'\"\n:lambd@é", max_size=60))
def test_any_text_gives_a_kernel_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse(text), Kernel)


def test_functions_by_name_and_not() -> None:
    def double(X):
        return 2 * X

    plain = Warped(SE(1.0), double)
    assert repr(plain) == "Warped(SE(lengthscale=1.0), double)"
    assert eval(repr(plain), {**NAMESPACE, "double": double}) == plain
    assert Warped(SE(1.0), lambda X: 2 * X) != Warped(SE(1.0), lambda X: 2 * X)
    assert Gibbs(function=double) == Gibbs(function=double)
    assert Gibbs(function=double) != Gibbs(function=lambda X: X)
    with pytest.raises(ValueError, match="unknown name 'double'"):
        parse(repr(plain))
    register_function(
        "double_for_test", double, lambda X: np.broadcast_to(2 * np.eye(X.shape[1]), (len(X), 2, 2))
    )
    named = Warped(SE(1.0), "double_for_test")
    assert parse(repr(named)) == named
    np.testing.assert_allclose(named([[1.0, 0.0]], [[0.0, 0.5]]), SE(0.5)([[1.0, 0.0]], [[0.0, 0.5]]))
    with pytest.raises(ValueError, match="registered already"):
        register_function("double_for_test", double)
    with pytest.raises(ValueError, match="identifier"):
        register_function("not a name", double)


def test_equality_is_by_value() -> None:
    assert SE(1.0) == SE(1.0)
    assert SE(1.0) != SE(1.0 + 1e-15)
    assert SE(1.0) != Matern(1.0)
    assert SE(1.0) != "SE(lengthscale=1.0)"
    assert Case(SE()).kernel in {SE(): 1}


def test_priors_in_text() -> None:
    priors = pytest.importorskip("cavity.parameters.priors")
    k = 2.0 * SE(Param(1.5, prior=priors.LogNormal(0.0, 1.0)))
    assert parse(repr(k)) == k
    assert eval(repr(k), {**NAMESPACE, **vars(priors)}) == k
