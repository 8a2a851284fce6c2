"""Anderson acceleration of EP's sweeps: exact on linear maps, the same fixed points, fewer sweeps."""

import numpy as np
import pytest

from cavity.inference.ep.acceleration import DEPTH, NEAR, WORSE, Acceleration
from cavity.inference.ep.parallel import damped
from cavity.inference.ep.rule import EP, certify
from cavity.inference.ep.state import TOLERANCE, EPProblem, any_state, stepped
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.latent.sites import Sites
from cavity.likelihoods import MixtureOfGaussians, Observations, StudentT
from cavity.means.functions import Zero

N = 3
MEAN, VAR = np.array([0.3, -1.0, 2.0]), np.array([0.5, 2.0, 1.0])


class LinearSweeps:
    """x -> x + f(x) with f(x) = A (x - x*), contracting at a given rate."""

    def __init__(self, rate: float, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        q = np.linalg.qr(rng.normal(size=(2 * N, 2 * N)))[0]
        contraction = q @ np.diag(np.linspace(-rate, rate, 2 * N)) @ q.T
        self.A = contraction - np.eye(2 * N)
        self.fixed = rng.normal(size=(2, N))

    def step(self, x):
        return (self.A @ (x - self.fixed).ravel()).reshape(2, N)

    def residual(self, x):
        return 1e-3 * float(np.abs(self.step(x)).max())  # small enough to count as near


def accelerated(sweeps, x, number, acceleration=None):
    acceleration = acceleration or Acceleration()
    acceleration.begin(N)
    for _ in range(number):
        x = x + acceleration.step(x, sweeps.step(x), sweeps.residual(x), MEAN, VAR)
    return x


def test_linear_sweeps_end_after_as_many_steps_as_there_are_unknowns():
    """Like GMRES: 2 n unknowns, one plain step and 2 n with what is known; plain sweeps are far from it."""
    sweeps, start = LinearSweeps(0.9), np.zeros((2, N))
    plain = start
    for _ in range(2 * N + 1):
        plain = plain + sweeps.step(plain)
    assert np.abs(plain - sweeps.fixed).max() > 0.1
    np.testing.assert_allclose(accelerated(sweeps, start, 2 * N + 1), sweeps.fixed, atol=1e-9)


def test_a_map_that_does_not_contract_is_solved_too():
    sweeps = LinearSweeps(1.5)
    found = accelerated(sweeps, sweeps.fixed + 1e-3, 2 * N + 1)
    np.testing.assert_allclose(found, sweeps.fixed, atol=1e-9)


def test_what_is_known_serves_the_next_problem_of_the_same_size():
    """The same linear part with another fixed point: one step, where all directions are known."""
    sweeps, acceleration = LinearSweeps(0.9), Acceleration()
    accelerated(sweeps, np.zeros((2, N)), 2 * N + 1, acceleration)
    sweeps.fixed = sweeps.fixed + 0.05
    before = np.abs(sweeps.fixed - (sweeps.fixed - 0.05)).max()
    near = accelerated(sweeps, sweeps.fixed - 0.05, 1, acceleration)
    assert np.abs(near - sweeps.fixed).max() < 1e-6 * before
    acceleration.begin(N + 1)  # nothing of it fits another number of sites
    step = np.ones((2, N + 1))
    np.testing.assert_array_equal(
        acceleration.step(np.zeros((2, N + 1)), step, 0.1, np.zeros(N + 1), np.ones(N + 1)), step
    )


@pytest.mark.parametrize("residual", [1.01 * NEAR, np.inf, np.nan])
def test_far_from_a_fixed_point_steps_are_those_of_ep(residual):
    sweeps, acceleration = LinearSweeps(0.9), Acceleration()
    x = accelerated(sweeps, np.zeros((2, N)), 3, acceleration)
    step = sweeps.step(x)
    np.testing.assert_array_equal(acceleration.step(x, step, residual, MEAN, VAR), step)
    np.testing.assert_array_equal(acceleration.step(x, step, 0.1, MEAN, VAR), step)  # all is forgotten


def test_a_step_that_made_it_worse_is_not_built_upon():
    sweeps, acceleration = LinearSweeps(0.9), Acceleration()
    acceleration.begin(N)
    x = np.zeros((2, N))
    for _ in range(3):
        x = x + acceleration.step(x, sweeps.step(x), 0.01, MEAN, VAR)
    step = sweeps.step(x)
    assert np.abs(acceleration.step(x, step, 0.01, MEAN, VAR) - step).max() > 0
    np.testing.assert_array_equal(acceleration.step(x, step, 0.0101 * WORSE, MEAN, VAR), step)


def test_memory_is_bounded():
    sweeps, acceleration = LinearSweeps(0.9), Acceleration()
    accelerated(sweeps, np.zeros((2, N)), 3 * DEPTH, acceleration)
    assert len(acceleration._d_sites) == len(acceleration._d_steps) == DEPTH


# --- expectation propagation ---------------------------------------------------------------------------------


def problem_of(likelihood, amplitude=1.0, n=60):
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, (n, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    y[::9] += 2.0 * rng.choice([-1.0, 1.0], len(y[::9]))
    return EPProblem(DensePrior(amplitude * SE(0.7), X, Zero()), Observations(likelihood, y))


def plain_sweeps(problem, start, tolerance=TOLERANCE, most=2000):
    """EP's own iteration, written out: every site from its tilted moments, all at once."""
    state = any_state(problem, start)
    for sweep in range(most):
        if state.residual <= tolerance:
            return state, sweep
        target, at = state.target, np.array([state.sites.shift, state.sites.precision])
        state, _ = stepped(problem, at, np.array([target.shift, target.precision]) - at)
    return None, most


CASES = [StudentT(0.3, 4.0), StudentT(0.5, 2.0), MixtureOfGaussians(0.2, 0.4, outlier_scale=1.5)]


@pytest.mark.parametrize("likelihood", CASES, ids=str)
def test_the_same_fixed_point_in_fewer_sweeps(likelihood):
    problem = problem_of(likelihood)
    slow, many = plain_sweeps(problem, Sites.zero(60), 1e-9)
    fast, _, few = damped(problem, Sites.zero(60), 1e-9)
    assert slow is not None
    assert few < many
    np.testing.assert_allclose(fast.q.mean, slow.q.mean, atol=1e-7)
    np.testing.assert_allclose(fast.q.var, slow.q.var, rtol=1e-6)
    assert fast.log_evidence == pytest.approx(slow.log_evidence, abs=1e-8)
    assert certify(problem, fast.sites, 1e-8) is not None


def test_evaluations_along_a_way_learn_from_each_other():
    """The sweeps of one evaluation help the next; nothing of that is in its value."""
    together, apart = 0, 0
    rule, start = EP(), damped(problem_of(CASES[0]), Sites.zero(60))[0].sites
    known = Acceleration()
    for amplitude in (1.02, 1.04, 1.06):
        problem = problem_of(CASES[0], amplitude)
        alone = rule._fast(problem, start, Acceleration())
        helped = rule._fast(problem_of(CASES[0], amplitude), start, known)
        assert helped.state.log_evidence == pytest.approx(alone.state.log_evidence, abs=1e-8)
        together, apart = together + helped.iterations, apart + alone.iterations
    assert together < apart


def test_many_points_are_reduced_block_by_block(monkeypatch):
    """The same extrapolation as from the whole least-squares problem."""
    from cavity.inference import anderson

    rng = np.random.default_rng(3)
    step, points, steps = (
        rng.standard_normal((2, 50)),
        rng.standard_normal((3, 2, 50)),
        rng.standard_normal((3, 2, 50)),
    )
    mean, var = rng.standard_normal(50), rng.uniform(0.5, 2.0, 50)
    whole = anderson.correction(step, list(points), list(steps), mean, var)
    monkeypatch.setattr(anderson, "BLOCK", 7)
    np.testing.assert_allclose(
        anderson.correction(step, list(points), list(steps), mean, var), whole, rtol=1e-9
    )
