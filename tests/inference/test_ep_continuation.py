"""Continuation of EP fixed points: exact derivatives, and problems that plain EP does not solve."""

import time

import numpy as np
import pytest

from cavity.hyper import fixed
from cavity.inference.ep.continuation import NoiseFamily, TemperFamily, families, find_fixed_point
from cavity.inference.ep.parallel import damped, state_or_none
from cavity.inference.ep.points import Point, newton, newton_from_sites
from cavity.inference.ep.state import Problem
from cavity.kernels import SE, White
from cavity.latent.dense import DensePrior
from cavity.likelihoods import Logit, MixtureOfGaussians, StudentT
from cavity.sites import Sites

STEP = 1e-6


def sinc_problem(likelihood, length=1.5, seed=0, n=22):
    """Sharp noise, a length scale that is too long, and a quarter of gross errors: plain EP fails here."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-10, 10, n))
    y = np.sinc(x / np.pi) + 0.02 * rng.standard_normal(n)
    wrong = rng.choice(n, n // 4, replace=False)
    y[wrong] += 2.0 * rng.standard_normal(len(wrong))
    kernel = 1.0 * SE(length) + White(fixed(1e-8))
    return Problem(DensePrior(kernel, x[:, None]), likelihood, y)


LIKELIHOODS = [
    StudentT(0.02, 1.5),
    StudentT(0.03, 4.0),
    MixtureOfGaussians(0.2, 0.02, outlier_scale=1.0),
]


def some_point(problem):
    state, best, _ = damped(problem, Sites.zero(problem.prior.n))
    found = state or best or state_or_none(problem, Sites.zero(problem.prior.n))
    return Point.of_state(found)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@pytest.mark.parametrize("power", [1.0, 0.7])
def test_the_jacobian_is_the_derivative_of_the_equations(likelihood, power):
    problem = sinc_problem(likelihood)
    problem = Problem(problem.prior, likelihood, problem.y, 1.0, power)
    state = state_or_none(problem, Sites.zero(problem.prior.n))
    point = Point.of_state(state)
    J, n = point.jacobian(), len(point.rho)
    rng = np.random.default_rng(1)
    for _ in range(6):
        d = rng.standard_normal(2 * n)
        a, b = point.moved(STEP * d), point.moved(-STEP * d)
        numeric = (_equations(a, point) - _equations(b, point)) / (2 * STEP)
        np.testing.assert_allclose(J @ d, numeric, rtol=2e-4, atol=2e-5 * np.abs(J @ d).max())


def _equations(point, reference):
    """The mismatch of moments in the units of another point."""
    t, sd = reference.tilted, reference.sd
    second_q = point.q.var + (point.q.mean - t.mean) ** 2
    second_t = point.tilted.var + (point.tilted.mean - t.mean) ** 2
    return np.concatenate([(point.q.mean - point.tilted.mean) / sd, -0.5 * (second_q - second_t) / sd**2])


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@pytest.mark.parametrize("family", [NoiseFamily, TemperFamily])
def test_the_derivative_along_the_homotopy(likelihood, family):
    problem = sinc_problem(likelihood)
    way, lam = family(problem), 1.3
    at = way.at(lam)
    point = Point.of_state(state_or_none(at, Sites.zero(problem.prior.n)))
    up, down = (Point(way.at(lam + h), point.shift, point.rho) for h in (1e-5, -1e-5))
    numeric = (_equations(up, point) - _equations(down, point)) / 2e-5
    got = way.derivative(point, lam)
    np.testing.assert_allclose(got, numeric, rtol=1e-3, atol=1e-4 * np.abs(numeric).max())


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_a_fixed_point_is_found_where_plain_ep_fails(likelihood):
    failed_plainly = 0
    for seed in range(2):
        problem = sinc_problem(likelihood, seed=seed)
        plain, _, _ = damped(problem, Sites.zero(problem.prior.n))
        failed_plainly += plain is None
        sites, _ = find_fixed_point(problem, time.monotonic() + 20)
        assert sites is not None
        state = state_or_none(problem, sites)
        assert state.residual < 1e-6
        assert np.isfinite(state.log_evidence)
    assert failed_plainly > 0  # else these problems show nothing


def test_newton_returns_to_a_fixed_point_that_was_disturbed():
    problem = sinc_problem(StudentT(0.02, 1.5))
    sites, _ = find_fixed_point(problem, time.monotonic() + 20)
    rng = np.random.default_rng(0)
    off = Sites(sites.shift * (1 + 1e-3 * rng.standard_normal(len(sites))), sites.precision)
    again = newton_from_sites(problem, off)
    np.testing.assert_allclose(again.precision, sites.precision, rtol=1e-6, atol=1e-6)
    assert newton(Point.of_state(state_or_none(problem, sites))).residual < 1e-9


def test_log_concave_likelihoods_are_tempered_and_a_passed_deadline_ends_the_search():
    problem = Problem(
        DensePrior(1.0 * SE(1.0), np.zeros((3, 1)) + np.arange(3)[:, None]), Logit(), np.ones(3)
    )
    assert [f.name for f in families(problem)] == ["temper"]
    assert find_fixed_point(problem, time.monotonic() - 1.0) == (None, 0)
