"""Parameters, transforms and trees of parts: values, names, ties, chain rule, priors."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from cavity.parameters.param import (
    IDENTITY,
    LOG,
    UNIT,
    Log,
    Logit,
    Param,
    Parametrized,
    Transform,
    fixed,
    make_param,
)


class Bump(Parametrized):
    """A part with one positive parameter, and one that counts how often it is worked out."""

    _columnwise = ("width",)

    def __init__(self, width: Any = 1.0) -> None:
        self._set_up({"width": width})

    @cached_property
    def area(self) -> Any:
        return 2.0 * np.sum(self.width)


class Line(Parametrized):
    """A part with parameters of every kind of transform."""

    _transforms: ClassVar[dict[str, Transform]] = {
        "offset": IDENTITY,
        "share": UNIT,
        "angle": Logit(-1.0, 3.0),
    }

    def __init__(self, offset: Any = 0.0, share: Any = 0.25, angle: Any = 2.0, scale: Any = 1.0) -> None:
        self._set_up({"offset": offset, "share": share, "angle": angle, "scale": scale})


class Times(Parametrized):
    """A wrapper that goes by the label of what it wraps."""

    def __init__(self, factor: Any, part: Parametrized) -> None:
        self._set_up({"factor": factor}, (part,))

    @property
    def label(self) -> str:
        return self.parts[0].label


class Both(Parametrized):
    def __init__(self, *parts: Parametrized) -> None:
        self._set_up({}, parts)


@dataclass(frozen=True)
class Bell:
    """log p = -(x - center)^2 / 2 without a constant, to test sums by hand."""

    center: float = 0.0

    def log_density(self, x):
        return -0.5 * (np.asarray(x) - self.center) ** 2

    def gradient(self, x):
        return self.center - np.asarray(x)

    def sample(self, rng, shape):
        return rng.normal(self.center, 1.0, shape)


def numeric_gradient(function, u, step=1e-6):
    """Central differences."""
    return np.array([(function(u + step * e) - function(u - step * e)) / (2 * step) for e in np.eye(len(u))])


# --- transforms ---------------------------------------------------------------------------------------------

ALL = [IDENTITY, LOG, Log(2.0), Log(-5.0), UNIT, Logit(-1.0, 3.0), Logit(1e6, 1e6 + 1.0), Logit(-1e-9, 0.0)]


@pytest.mark.parametrize("transform", ALL, ids=repr)
@given(u=st.floats(-12, 12))
def test_transforms_round_trip_from_the_real_line(transform, u):
    x = transform.to_natural(np.float64(u))
    low, high = transform.support
    assert low < x < high
    # A rounding error in x moves u by eps |x| / slope, those of the logs by eps times their size.
    logs = sum(abs(np.log(abs(x - end))) for end in (low, high) if np.isfinite(end))
    tolerance = 4 * np.finfo(float).eps * (logs + 1 + abs(x) / transform.slope(x))
    assert abs(transform.to_unconstrained(x) - u) <= tolerance


@given(exponent=st.floats(-300, 300))
def test_log_round_trips_over_the_range_of_doubles(exponent):
    x = np.float64(10.0**exponent)
    assert_allclose(LOG.to_natural(LOG.to_unconstrained(x)), x, rtol=1e-13)


@given(exponent=st.floats(-300, -0.4), upper=st.booleans())
def test_logit_round_trips_close_to_its_ends(exponent, upper):
    x = np.float64(10.0**exponent)
    transform = Logit(-1.0, 0.0) if upper else UNIT  # the end at zero is the one that can be resolved
    x = -x if upper else x
    assert_allclose(transform.to_natural(transform.to_unconstrained(x)), x, rtol=1e-12)


@pytest.mark.parametrize("transform", [UNIT, Logit(-1.0, 3.0), Logit(1e6, 1e6 + 1.0), Log(2.0)], ids=repr)
@pytest.mark.parametrize("u", [-1e4, -800.0, -40.0, 40.0, 600.0])
def test_values_never_reach_an_end_where_numbers_are_too_coarse(transform, u):
    x = transform.to_natural(np.float64(u))
    low, high = transform.support
    assert low < x < high
    assert np.isfinite(transform.to_unconstrained(x))
    assert transform.slope(x) > 0


def test_logit_is_the_logistic_function_to_the_last_digits():
    u = np.array([-700.0, -30.0, -1e-8, 0.5, 30.0])
    exact = [float(1 / (1 + mpmath.exp(-mpmath.mpf(float(v))))) for v in u]
    assert_allclose(UNIT.to_natural(u), exact, rtol=1e-14)


@pytest.mark.parametrize("transform", ALL[:6], ids=repr)
@given(u=st.floats(-8, 8))
def test_slopes_against_finite_differences(transform, u):
    h = 1e-5
    x = transform.to_natural(np.float64(u))
    numeric = (transform.to_natural(np.float64(u + h)) - transform.to_natural(np.float64(u - h))) / (2 * h)
    assert_allclose(transform.slope(x), numeric, rtol=1e-4, atol=1e-10 * abs(x))

    def log_slope(v):
        return np.log(transform.slope(transform.to_natural(np.float64(v))))

    numeric = (log_slope(u + 1e-4) - log_slope(u - 1e-4)) / 2e-4
    assert_allclose(transform.log_slope_derivative(x), numeric, atol=1e-6)


def test_transforms_are_values():
    assert Logit(0, 1) == UNIT
    assert hash(Logit(0, 1)) == hash(UNIT)
    assert Log() != Transform()
    assert Log(1.0) != Log(2.0)
    for transform in ALL:
        assert eval(repr(transform)) == transform


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)])
def test_logit_refuses_ends_that_make_no_interval(ends):
    with pytest.raises(ValueError, match="low < high"):
        Logit(*ends)


def test_log_refuses_an_infinite_end():
    with pytest.raises(ValueError, match="finite lower end"):
        Log(-np.inf)


# --- one parameter ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "transform", "message"),
    [
        (0.0, LOG, "SE: lengthscale must be positive and finite, got 0.0"),
        (-1.0, LOG, "positive"),
        ([1.0, -2.0], LOG, "positive"),
        (np.nan, IDENTITY, "finite"),
        (np.inf, LOG, "finite"),
        (1.0, UNIT, "between 0 and 1"),
        (1.5, Log(2.0), "greater than 2"),
        ("wide", LOG, "number or an array of numbers, got 'wide'"),
        (None, LOG, "lengthscale must be"),
        ([], LOG, "at least one element"),
        ([[1.0], [1.0, 2.0]], LOG, "number or an array"),
        (1j, LOG, "number or an array"),
        (Param(1.0, bounds=(2.0, 1.0)), LOG, "bounds of lengthscale must be increasing"),
        (Param(1.0, bounds=(-1.0, 1.0)), LOG, "inside"),
        (Param(1.0, bounds=3.0), LOG, r"pair \(low, high\), got 3.0"),
        (Param(1.0, bounds=(0.1, None)), LOG, "pair"),
        (Param(5.0, bounds=(0.1, 2.0)), LOG, r"lengthscale = 5.0 is outside its bounds \(0.1, 2\)"),
    ],
)
def test_wrong_values_are_refused_by_name(value, transform, message):
    with pytest.raises(ValueError, match=message):
        make_param(value, transform, "lengthscale", "SE")


def test_a_value_impossible_under_its_prior_is_refused():
    class OnlyNegative(Bell):
        def log_density(self, x):
            return np.where(np.asarray(x) < 0, 0.0, -np.inf)

    with pytest.raises(ValueError, match=r"Bump: width = 1.0 has no density under its prior"):
        Bump(Param(1.0, prior=OnlyNegative()))


def test_values_are_copied_and_read_only():
    mine = np.array([1.0, 2.0])
    part = Bump(mine)
    mine[0] = 99.0
    assert_array_equal(part.width, [1.0, 2.0])
    for handed_out in (part.width, part.flat, part.theta):
        with pytest.raises(ValueError, match="read-only"):
            handed_out[0] = 5.0
    moved = np.array([3.0, 4.0])
    other = part.with_flat(moved)
    moved[0] = 99.0
    assert_array_equal(other.width, [3.0, 4.0])


def test_param_repr_evaluates_back():
    param = Param([1.0, 2.5e-7], fixed=True, prior=Bell(1.0), bounds=(1e-9, 3.0), tie="a", transform=Log())
    back = eval(repr(param))
    assert repr(back) == repr(param)
    assert repr(Param(2.0)) == "2.0"
    assert repr(fixed(1)) == "Param(1.0, fixed=True)"
    assert repr(Bump(2.0)) == "Bump(width=2.0)"
    # the part's own default transform is not repeated, a choice of the user's is
    chosen = Bump(Param(0.5, transform=UNIT))
    assert repr(chosen) == "Bump(width=Param(0.5, transform=Logit(0.0, 1.0)))"
    assert eval(repr(chosen)) == chosen


def test_parts_are_immutable_equal_by_value_and_pickle():
    part = Both(Bump(2.0), Line())
    assert part == Both(Bump(2.0), Line())
    assert hash(part.parts[0]) == hash(Bump(2.0))
    assert Bump(2.0) != Bump(3.0)
    assert Bump(2.0) != "Bump(width=2.0)"
    with pytest.raises(AttributeError, match="immutable"):
        part.parts[0].width = 3.0
    with pytest.raises(AttributeError, match="no attribute 'height'"):
        part.height  # noqa: B018
    assert pickle.loads(pickle.dumps(part)).names == part.names
    assert_array_equal(copy.deepcopy(part).theta, part.theta)
    assert part.__sklearn_clone__() is part


# --- flat, theta, replace -----------------------------------------------------------------------------------


def mixed_tree() -> Both:
    """Scalars, an array, every transform, a fixed one and a tie."""
    return Both(
        Times(2.0, Bump(np.array([0.5, 1.5]))),
        Line(offset=-3.0, share=0.25, angle=fixed(2.0), scale=Param(4.0, tie="s")),
        Times(Param(4.0, tie="s"), Bump(7.0)),
    )


def test_flat_lists_everything_and_theta_what_is_free():
    tree = mixed_tree()
    assert_array_equal(tree.flat, [2.0, 0.5, 1.5, -3.0, 0.25, 2.0, 4.0, 4.0, 7.0])
    assert tree.all_names == (
        "bump.factor",
        "bump.width[0]",
        "bump.width[1]",
        "line.offset",
        "line.share",
        "line.angle",
        "line.scale",
        "bump_2.factor",
        "bump_2.width",
    )
    assert tree.names == tuple(n for n in tree.all_names if n not in ("line.angle", "bump_2.factor"))
    expected = [np.log(2), np.log(0.5), np.log(1.5), -3.0, np.log(1 / 3), np.log(4), np.log(7)]
    assert_allclose(tree.theta, expected, rtol=1e-15)
    assert tree.params == {}
    assert list(tree.parts[1].params) == ["offset", "share", "angle", "scale"]


@given(u=st.lists(st.floats(-20, 20), min_size=7, max_size=7))
def test_replace_and_theta_are_inverse(u):
    tree = mixed_tree().replace(u)
    assert_allclose(tree.theta, u, rtol=1e-7, atol=1e-7)
    assert_allclose(tree.replace(tree.theta).flat, tree.flat, rtol=1e-14)
    assert tree.get("line.scale") == tree.get("bump_2.factor") == tree.parts[2].factor
    assert tree.get("line.angle") == 2.0
    assert tree.names == mixed_tree().names
    # parts see the same values as the whole
    assert_array_equal(np.concatenate([part.flat for part in tree.parts]), tree.flat)
    assert_array_equal(tree.parts[0].parts[0].width, tree.flat[1:3])
    assert isinstance(tree.parts[2].parts[0].width, float)


def test_what_was_computed_from_old_values_is_forgotten():
    part = Bump(2.0)
    assert part.area == 4.0
    assert_allclose(part.replace([np.log(5.0)]).area, 10.0, rtol=1e-14)
    assert part.update(bump__width=3.0).area == 6.0
    assert part.with_flat([7.0]).area == 14.0
    assert part.area == 4.0


def test_a_tree_without_free_values():
    tree = Both(Bump(fixed(1.0)))
    assert tree.theta.shape == (0,)
    assert_array_equal(tree.replace([]).flat, [1.0])
    assert tree.to_theta(np.ones(1)).shape == (0,)
    assert tree.log_prior(jacobian=True)[0] == 0.0
    assert tree.theta_bounds == []
    empty = Both()
    assert empty.flat.shape == empty.theta.shape == (0,)
    assert empty.replace([]).names == ()


@pytest.mark.parametrize("theta", [[1.0], 1.0, [[0.0] * 7], [0.0] * 8])
def test_theta_of_the_wrong_length_is_refused(theta):
    with pytest.raises(ValueError, match=r"theta must have 7 entries \(bump.factor, "):
        mixed_tree().replace(theta)


def test_values_that_overflow_vanish_or_leave_their_range_are_refused_by_name():
    tree = mixed_tree()
    for at, u in [(0, 800.0), (0, -800.0), (3, np.inf), (1, np.nan)]:
        theta = tree.theta.copy()
        theta[at] = u
        with pytest.raises(ValueError, match=tree.names[at].replace("[", r"\[")):
            tree.replace(theta)
    flat = tree.flat.copy()
    flat[4] = 1.0
    with pytest.raises(ValueError, match=r"line.share must be between 0 and 1, got 1.0"):
        tree.with_flat(flat)
    with pytest.raises(ValueError, match="expected 9 values"):
        tree.with_flat(flat[:-1])


@given(
    u=st.lists(st.floats(-3, 3), min_size=7, max_size=7),
    weights=st.lists(st.floats(-5, 5), min_size=9, max_size=9),
)
def test_chain_rule_with_ties_and_fixed_values(u, weights):
    """f(flat) = sum w x^2: natural gradient 2 w x, against finite differences in theta."""
    tree, w = mixed_tree(), np.array(weights)

    def f(theta):
        return float(w @ tree.replace(theta).flat ** 2)

    at = tree.replace(u)
    analytic = at.to_theta(2 * w * at.flat)
    assert_allclose(analytic, numeric_gradient(f, np.array(u)), rtol=1e-6, atol=1e-5)


# --- names --------------------------------------------------------------------------------------------------


def test_all_parameters_of_a_part_share_its_number():
    tree = Both(Times(1.0, Bump()), Bump(), Times(1.0, Bump()))
    assert tree.all_names == ("bump.factor", "bump.width", "bump_2.width", "bump_3.factor", "bump_3.width")


def test_names_stay_unique_where_wrappers_are_nested():
    tree = Both(Times(1.0, Times(2.0, Bump())), Bump())
    assert tree.all_names == ("bump.factor", "bump_2.factor", "bump_2.width", "bump_3.width")
    nested = Both(Both(Both(Bump()), Line()), Both(Bump(), Line()))
    assert len(set(nested.all_names)) == nested.flat.size


def test_get_by_name_and_by_element():
    tree = mixed_tree()
    assert tree.get("bump_2.width") == 7.0
    assert_array_equal(tree.get("bump.width"), [0.5, 1.5])
    assert tree.get("bump.width[1]") == 1.5
    for i, name in enumerate(tree.all_names):
        assert tree.get(name) == tree.flat[i]
    with pytest.raises(ValueError, match=r"no parameter is called 'bump.wdth'; there are: bump.factor"):
        tree.get("bump.wdth")
    with pytest.raises(ValueError, match=r"no element 'bump.width\[2\]': bump.width has shape \(2,\)"):
        tree.get("bump.width[2]")
    with pytest.raises(ValueError, match="no element"):
        tree.get("bump.factor[0]")
    with pytest.raises(ValueError, match="there are: none"):
        Both().get("x")


# --- update -------------------------------------------------------------------------------------------------


def test_update_by_name_keyword_and_element():
    tree = mixed_tree()
    new = tree.update({"bump.width": [3.0, 4.0], "line.offset": 5}, bump_2__width=6.0)
    assert_array_equal(new.flat, [2.0, 3.0, 4.0, 5.0, 0.25, 2.0, 4.0, 4.0, 6.0])
    assert_array_equal(tree.flat, mixed_tree().flat)
    assert_array_equal(tree.update({"bump.width[1]": 9.0}).get("bump.width"), [0.5, 9.0])
    assert_array_equal(
        tree.update({"bump.width[1]": 9.0, "bump.width[0]": 8.0}).get("bump.width"), [8.0, 9.0]
    )
    assert_array_equal(tree.update({"bump.width": 3.0}).get("bump.width"), [3.0, 3.0])
    assert new.update({}) == new


def test_update_keeps_flags_unless_given_a_param():
    part = Bump(Param(1.0, fixed=True, prior=Bell(), bounds=(0.5, 9.0)))
    kept = part.update(bump__width=2.0).params["width"]
    assert kept.fixed
    assert kept.prior == Bell()
    assert kept.bounds == (0.5, 9.0)
    freed = part.update(bump__width=Param(2.0)).params["width"]
    assert not freed.fixed
    assert freed.prior is None
    wide = Bump([1.0, 2.0]).update(bump__width=Param(3.0, tie="w"))
    assert wide.names == ("bump.width[0]", "bump.width[1]")
    assert_array_equal(wide.width, [3.0, 3.0])


def test_update_changes_shapes_only_of_values_per_column():
    assert Bump(1.0).update(bump__width=[1.0, 2.0]).flat.size == 2
    with pytest.raises(ValueError, match=r"Line: scale has shape \(\), got a value of shape \(2,\)"):
        Line().update(line__scale=[1.0, 2.0])
    with pytest.raises(ValueError, match="got a value of shape"):
        Bump(1.0).update(bump__width=[[1.0, 2.0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bump.widht": 1.0}, "no parameter is called 'bump.widht'"),
        ({"bump.width": -1.0}, "Bump: width must be positive"),
        ({"bump.width[0]": -1.0}, "Bump: width must be positive"),
        ({"bump.width[0]": [1.0]}, r"bump.width\[0\] is one element of an array and takes a number"),
        ({"line.share": 2.0}, "Line: share must be between 0 and 1"),
        ({"line.scale": 5.0, "bump_2.factor": 6.0}, "tied parameters must have the same value"),
    ],
)
def test_update_refuses_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        mixed_tree().update(change)


def test_freeze_fixes_everything():
    tree = mixed_tree().freeze()
    assert tree.theta.size == 0
    assert_array_equal(tree.flat, mixed_tree().flat)


# --- ties ---------------------------------------------------------------------------------------------------


def tied(**options: Any) -> Both:
    return Both(Bump(Param(2.0, tie="w")), Bump(Param(2.0, tie="w", **options)))


def test_tied_parameters_are_one():
    tree = tied()
    assert tree.names == ("bump.width",)
    assert_allclose(tree.replace([np.log(5.0)]).flat, [5.0, 5.0], rtol=1e-14)
    assert_array_equal(tree.update(bump__width=5.0).flat, [5.0, 5.0])
    assert_allclose(tree.to_theta(np.array([3.0, 10.0])), [26.0])
    assert tree.update(bump_2__width=Param(7.0, tie="w")).get("bump.width") == 7.0
    # a copy that is untied goes its own way
    assert tree.update(bump_2__width=Param(7.0)).names == ("bump.width", "bump_2.width")


def test_one_fixed_copy_fixes_all():
    assert tied(fixed=True).names == ()
    with pytest.raises(ValueError, match="same value"):
        tied(fixed=True).with_flat([2.0, 3.0])


def test_prior_and_bounds_may_be_given_with_any_copy_and_count_once():
    tree = tied(prior=Bell(1.0), bounds=(1.0, 4.0))
    assert tree.log_prior()[0] == -0.5
    assert_allclose(tree.theta_bounds, [(0.0, np.log(4.0))])
    both = Both(Bump(Param(2.0, tie="w", prior=Bell(1.0))), Bump(Param(2.0, tie="w", prior=Bell(1.0))))
    assert both.log_prior()[0] == -0.5


def test_arrays_are_tied_element_by_element():
    tree = Both(Bump(Param([1.0, 2.0], tie="w")), Bump(Param([1.0, 2.0], tie="w")))
    assert tree.names == ("bump.width[0]", "bump.width[1]")
    assert_allclose(tree.replace(np.log([3.0, 4.0])).flat, [3.0, 4.0, 3.0, 4.0])
    assert_allclose(tree.to_theta(np.array([1.0, 10.0, 100.0, 1000.0])), [101.0, 2020.0])
    assert_array_equal(tree.update({"bump.width[1]": 5.0}).flat, [1.0, 5.0, 1.0, 5.0])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Param(1.0, tie="w"), Param(2.0, tie="w"), "bump.width = 1.0 and bump_2.width = 2.0"),
        (Param(1.0, tie="w"), Param([1.0, 1.0], tie="w"), r"different shapes, \(\) and \(2,\)"),
        (Param(0.5, tie="w"), Param(0.5, tie="w", transform=UNIT), "bump.width and bump_2.width are tied"),
        (Param(1.0, tie="w", prior=Bell(1.0)), Param(1.0, tie="w", prior=Bell(2.0)), "different prior"),
        (Param(1.0, tie="w", bounds=(0.0, 2.0)), Param(1.0, tie="w", bounds=(0.0, 3.0)), "different bounds"),
    ],
)
def test_ties_that_contradict_each_other_are_refused_at_once(first, second, message):
    with pytest.raises(ValueError, match=message):
        Both(Bump(first), Bump(second))


# --- bounds and priors --------------------------------------------------------------------------------------


def test_bounds_in_unconstrained_units():
    tree = Both(
        Bump(Param(1.0, bounds=(0.0, 10.0))),
        Line(
            offset=Param(0.0, bounds=(-1.0, 1.0)), share=Param(0.5, bounds=(0.25, 1.0)), angle=2.0, scale=1.0
        ),
    )
    inf = np.inf
    expected = [(-inf, np.log(10)), (-1, 1), (-np.log(3), inf), (-inf, inf), (-inf, inf)]
    assert_allclose(tree.theta_bounds, expected)


@given(exponent=st.floats(-250, 250))
def test_a_value_learned_at_its_bound_can_be_given_back(exponent):
    bound = 10.0**exponent
    part = Bump(Param(0.5 * bound, bounds=(0.0, bound)))
    learned = part.replace([part.theta_bounds[0][1]])
    assert eval(repr(learned)) == learned


def test_param_as_a_flat_vector():
    assert_array_equal(Param([[1.0, 2.0], [3.0, 4.0]]).array, [1.0, 2.0, 3.0, 4.0])


def prior_tree() -> Both:
    """Priors on a scalar, on an array, on a tied pair, and none on some."""
    return Both(
        Times(Param(2.0, prior=Bell(1.0)), Bump(Param([0.5, 1.5], prior=Bell(3.0)))),
        Line(offset=Param(-1.0, prior=Bell()), share=Param(0.25, prior=Bell()), scale=Param(4.0, tie="s")),
        Times(Param(4.0, tie="s", prior=Bell(2.0)), Bump(Param(7.0, fixed=True, prior=Bell()))),
    )


def test_log_prior_is_a_sum_over_free_values():
    value, _ = prior_tree().log_prior()
    assert_allclose(value, -0.5 * (1.0 + 2.5**2 + 1.5**2 + 1.0 + 0.25**2 + 2.0**2), rtol=1e-15)
    with_jacobian, _ = prior_tree().log_prior(jacobian=True)
    # log slopes: x for the log transform, 1, x (1 - x), (x + 1)(3 - x) / 4, and the tied one once
    jacobian = np.log([2.0, 0.5, 1.5, 1.0, 0.25 * 0.75, 3.0 * 1.0 / 4.0, 4.0]).sum()
    assert_allclose(with_jacobian - value, jacobian, rtol=1e-14)


@pytest.mark.parametrize("jacobian", [False, True])
@given(u=st.lists(st.floats(-2, 2), min_size=7, max_size=7))
def test_log_prior_gradient(jacobian, u):
    tree = prior_tree()

    def f(theta):
        return tree.replace(theta).log_prior(jacobian=jacobian)[0]

    _, gradient = tree.replace(u).log_prior(jacobian=jacobian)
    assert_allclose(gradient, numeric_gradient(f, np.array(u)), rtol=1e-5, atol=1e-6)


def test_density_over_theta_integrates_to_one():
    """A log-normal density over x > 0 is a normal one over u = log x, whose integral is known."""

    class Normal01OfLog(Bell):
        def log_density(self, x):
            return -0.5 * np.log(x) ** 2 - np.log(x) - 0.5 * np.log(2 * np.pi)

    part = Bump(Param(1.0, prior=Normal01OfLog()))
    u = np.linspace(-10, 10, 2001)
    density = [np.exp(part.replace([v]).log_prior(jacobian=True)[0]) for v in u]
    assert_allclose(np.sum(density) * (u[1] - u[0]), 1.0, rtol=1e-10)


def test_samples_from_the_prior_stay_in_range_and_bounds():
    rng = np.random.default_rng(0)
    tree = Both(
        Bump(Param(1.0, prior=Bell(), bounds=(0.5, 3.0))), Line(offset=Param(0.0, prior=Bell(5.0))), Bump(2.0)
    )
    draws = np.array([tree.draw_from_priors(rng).flat for _ in range(400)])
    assert draws[:, 0].min() > 0.5 * (1 - 1e-14)
    assert draws[:, 0].max() < 3.0 * (1 + 1e-14)
    assert abs(draws[:, 1].mean() - 5.0) < 5 / np.sqrt(400)
    assert_allclose(draws[:, 2:], np.tile(tree.flat[2:], (400, 1)), rtol=1e-14)
    shared = tied(prior=Bell(2.0)).draw_from_priors(rng)
    assert shared.flat[0] == shared.flat[1] != 2.0


def test_a_prior_that_never_hits_the_range_is_reported():
    part = Bump(Param(1.0, prior=Bell(-50.0)))
    with pytest.raises(ValueError, match=r"1000 draws from Bell\(center=-50.0\) .* bump.width"):
        part.draw_from_priors(np.random.default_rng(0))
