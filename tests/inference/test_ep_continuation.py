"""EP where plain iterations fail: continuation, branches, extended cavities, lower powers, the variational fallback.

The problems are those of the stress set, and what is claimed is checked from the sites alone by `benchmarks.ep_check`,
which shares no code with the library.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks import ep_check, ep_problems
from cavity import Param
from cavity.gp import GP
from cavity.inference.base import InferenceFailedError, Stage
from cavity.inference.ep import EP, continuation
from cavity.inference.ep import cavity_newton as points
from cavity.inference.ep.acceleration import Acceleration
from cavity.inference.ep.effort_budget import Effort
from cavity.inference.ep.parallel import damped
from cavity.inference.ep.rule import EPWarm, certify
from cavity.inference.ep.state import EPProblem, EPState
from cavity.inference.ep.tracking import KnownFixedPoint, follow
from cavity.inference.variational.rule import Variational
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.latent.sites import Sites
from cavity.likelihoods import MixtureOfGaussians, Observations, Probit, StudentT
from cavity.likelihoods.student_t import _gamma_range, _step
from cavity.means.functions import Constant
from tests.inference.ep_cases import mismatch_and_evidence
from tests.inference.variational_cases import inputs, richardson, targets
from tests.warm import Evaluations

TWO_BRANCHES = 95
"""Seed of a problem (mixture, 32 points) with two proper fixed points, 33 nats apart."""

EXTENDED = 77
"""Seed of a mixture whose fixed point has improper cavities, on every processor tried (48 has another one near by)."""


def stress(seed: int, **options):
    problem = ep_problems.make(seed)
    gp = GP(problem.kernel, problem.likelihood, inference=EP(**options)).bind(problem.X.shape[1])
    return problem, gp


def warm_at(mark: KnownFixedPoint) -> EPWarm:
    """What a run that has found this fixed point knows."""
    return EPWarm(mark, Stage.EP, Acceleration())


def problem_of(problem, gp) -> EPProblem:
    return EPProblem(gp.prior(problem.X), Observations(gp.likelihood, problem.y))


def hold_as_proper_fixed_point(problem, found):
    sites = found.approximation.sites
    checked = ep_check.opinion(problem, sites.shift, sites.precision)
    assert checked.residual < 1.1e-6
    assert checked.smallest_cavity > 0
    assert found.log_evidence == pytest.approx(checked.log_evidence, abs=1e-5)


def nothing_found(monkeypatch):
    """EP without its searches for a fixed point."""
    monkeypatch.setattr(EP, "_solve", lambda self, problem, *_, **__: None)


@pytest.fixture(scope="module")
def branches():
    """The two-branch problem with a landmark on each branch: plain EP's, and that of continuation."""
    problem, gp = stress(TWO_BRANCHES)
    posed = problem_of(problem, gp)
    plain, _, _ = damped(posed, Sites.zero(len(problem.y)))
    sites, _ = continuation.find_fixed_point(posed)
    other = certify(posed, sites, 1e-6)
    return problem, gp, [KnownFixedPoint.of(posed, s.sites, s.log_evidence) for s in (plain, other)]


# --- found where plain EP fails -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [16, 18, 26, 37, 46])
def test_fixed_points_beyond_parallel_ep(seed):
    problem, gp = stress(seed)
    plain, _, _ = damped(problem_of(problem, gp), Sites.zero(len(problem.y)))
    assert plain is None
    found = gp.condition(problem.X, problem.y)
    assert found.status.converged
    assert found.status.stage.startswith("ep by")
    assert found.status.iterations > 0
    hold_as_proper_fixed_point(problem, found)


def test_a_fixed_point_that_sweeps_reach_by_acceleration_alone(monkeypatch):
    problem, gp = stress(8)
    found = gp.condition(problem.X, problem.y)
    assert found.status.stage == "ep"
    hold_as_proper_fixed_point(problem, found)
    monkeypatch.setattr(Acceleration, "step", lambda self, sites, step, residual, mean, var: step)
    plain, _, _ = damped(problem_of(problem, gp), Sites.zero(len(problem.y)))
    assert plain is None


def test_an_extended_fixed_point_says_so_and_is_one():
    problem, gp = stress(EXTENDED)
    found = gp.condition(problem.X, problem.y)
    assert found.status.converged
    assert found.status.extended
    assert "improper" in found.status.message
    sites = found.approximation.sites
    checked = ep_check.opinion(problem, sites.shift, sites.precision)
    assert checked.residual < 1.1e-6
    assert checked.smallest_cavity < 0
    assert found.log_evidence == pytest.approx(checked.log_evidence, abs=1e-5)


def test_gradient_at_an_extended_fixed_point():
    problem, gp = stress(EXTENDED, tolerance=1e-9)
    workspace = Evaluations()
    _, gradient = workspace.evidence(gp, problem.X, problem.y)

    def value(theta):
        return workspace.evidence(gp.replace(theta), problem.X, problem.y)[0]

    np.testing.assert_allclose(gradient, richardson(value, gp.theta, 1e-3), rtol=1e-5, atol=1e-5)


def test_continuation_finds_the_fixed_point_of_an_easy_problem():
    X, y = inputs(12), targets("real", 12)
    posed = EPProblem(DensePrior((1.5 * SE(1.0)).bind(1), X), Observations(StudentT(0.3, 3.0), y))
    plain, _, _ = damped(posed, Sites.zero(12), 1e-9)
    sites, steps = continuation.find_fixed_point(posed)
    assert steps >= 0
    state = certify(posed, sites, 1e-6)
    assert state.log_evidence == pytest.approx(plain.log_evidence, abs=1e-7)
    again = points.newton_from_sites(posed, plain.sites)
    np.testing.assert_allclose(again.precision, plain.sites.precision, rtol=1e-6)


def test_how_far_a_search_goes_depends_on_work_and_not_on_the_clock(monkeypatch):
    X, y = inputs(12), targets("real", 12)
    posed = EPProblem(DensePrior((1.5 * SE(1.0)).bind(1), X), Observations(StudentT(0.3, 3.0), y))
    solved = Effort(20.0)
    _, whole = continuation.find_fixed_point(replace(posed, effort=solved))
    short = [Effort(0.5 * (20.0 - solved.left)) for _ in range(2)]
    found, steps = continuation.find_fixed_point(replace(posed, effort=short[0]))
    assert found is None
    assert 0 < steps < whole
    assert short[0].spent
    slow = points.CavityPoint.jacobian
    monkeypatch.setattr(points.CavityPoint, "jacobian", lambda self: time.sleep(0.01) or slow(self))
    assert continuation.find_fixed_point(replace(posed, effort=short[1])) == (None, steps)
    assert short[1].left == short[0].left


def test_moments_are_charged_by_their_nodes():
    X, y = inputs(12), targets("real", 12)
    prior, spent, counts = DensePrior((1.5 * SE(1.0)).bind(1), X), [], []
    for df, power in ((4.0, 1.0), (0.3, 1.0), (0.3, 0.1)):
        effort, noise = Effort(1.0), StudentT(0.3, df)
        EPProblem(prior, Observations(noise, y), power=power, effort=effort).tilted(np.zeros(12), np.ones(12))
        spent.append(1.0 - effort.left)
        below, upper = _gamma_range(0.5 * power * (df + 1))
        counts.append((below + upper) / _step(0.5 * power * (df + 1)))
    assert spent[0] > 0
    np.testing.assert_allclose(np.array(spent) / spent[0], np.array(counts) / counts[0], rtol=0.15)


def test_the_way_from_wide_noise_may_leave_the_bounds_of_the_noise_scale():
    x = np.linspace(0, 2, 15)[:, None]
    y = np.sin(6 * x[:, 0])
    y[::7] += 4
    found = [
        GP(1.0 * SE(0.5), StudentT(scale, 2.0)).condition(x, y)
        for scale in (Param(0.02, bounds=(1e-3, 1.0)), 0.02)
    ]
    assert found[0].status.converged
    assert found[0].log_evidence == found[1].log_evidence
    assert found[0].model.likelihood.params["scale"].bounds == (1e-3, 1.0)


def test_large_problems_are_left_to_other_stages(monkeypatch):
    monkeypatch.setattr("cavity.inference.ep.state.LARGEST_PROBLEM", 5)
    X, y = inputs(12), targets("real", 12)
    posed = EPProblem(DensePrior((1.5 * SE(1.0)).bind(1), X), Observations(StudentT(0.3, 3.0), y))
    assert continuation.find_fixed_point(posed) == (None, 0)
    assert points.newton_from_sites(posed, Sites.zero(12)) is None


# --- one branch per optimization ----------------------------------------------------------------------------


def test_both_branches_are_fixed_points(branches):
    problem, _, landmarks = branches
    for mark in landmarks:
        checked = ep_check.opinion(problem, mark.sites.shift, mark.sites.precision)
        assert checked.residual < 1.1e-6
        assert checked.smallest_cavity > 0
        assert mark.log_evidence == pytest.approx(checked.log_evidence, abs=1e-5)
    assert landmarks[1].log_evidence > landmarks[0].log_evidence + 10


@pytest.mark.parametrize("which", [0, 1])
def test_evaluations_stay_on_the_branch_they_are_on(branches, which):
    problem, gp, landmarks = branches
    mark = landmarks[which]
    workspace = Evaluations(warm_at(mark))
    value, gradient = workspace.evidence(gp, problem.X, problem.y)
    assert value == pytest.approx(mark.log_evidence, abs=1e-5)
    step = 1e-3 * np.sign(gradient)
    near, _ = workspace.evidence(gp.replace(gp.theta + step), problem.X, problem.y)
    assert near - value == pytest.approx(gradient @ step, rel=0.05)
    # and so does a posterior that is told what the optimization remembers
    posterior = gp.condition(problem.X, problem.y, warm=warm_at(mark))
    assert posterior.log_evidence == pytest.approx(mark.log_evidence, abs=1e-5)


def test_a_step_beyond_the_end_of_a_branch_is_a_failed_evaluation(branches):
    """There is a fixed point, which a cold evaluation finds; but it is not on this branch."""
    problem, gp, landmarks = branches
    index = gp.names.index("mixtureofgaussians.scale")
    theta = gp.theta.copy()
    theta[index] += 2.0
    far = gp.replace(theta)
    cold, _ = far.evidence(problem.X, problem.y)
    assert np.isfinite(cold)
    workspace = Evaluations(warm_at(landmarks[0]))
    with pytest.raises(InferenceFailedError, match="branch does not reach these hyperparameters"):
        workspace.evidence(far, problem.X, problem.y)
    # the failure changes nothing: the next, shorter step is on the branch again
    value, _ = workspace.evidence(gp, problem.X, problem.y)
    assert value == pytest.approx(landmarks[0].log_evidence, abs=1e-5)
    # a posterior is not an evaluation of an objective: it falls back on a search, and says which stage it was
    assert far.condition(problem.X, problem.y, warm=warm_at(landmarks[0])).log_evidence == pytest.approx(
        cold, abs=1e-4
    )


def test_a_long_step_is_walked_in_parts(monkeypatch):
    """With a short-sighted Newton's method, which only finds fixed points of models next to the last one found."""
    X, y = inputs(12), targets("real", 12)
    gp = GP(1.5 * SE(1.0), StudentT(0.3, 3.0), mean=Constant(0.1), inference=EP(tolerance=1e-9)).bind(1)
    here = EPProblem(gp.prior(X), Observations(gp.likelihood, y))
    start = EP(tolerance=1e-9)._solve(here).state
    there = gp.update({"studentt.scale": 0.9, "se.lengthscale": 2.0})
    posed = EPProblem(there.prior(X), Observations(there.likelihood, y))
    real, at, calls = points.newton, [np.log(0.3)], []

    def short_sighted(point, *how, **named):
        place = np.log(point.problem.likelihood.scale)
        calls.append(place)
        if abs(place - at[0]) > 0.2:
            return None
        at[0] = place
        return real(point, *how, **named)

    monkeypatch.setattr(points, "newton", short_sighted)
    landmark = KnownFixedPoint.of(here, start.sites, start.log_evidence)
    way = follow(landmark, posed)
    assert way.part == 1.0
    assert len(calls) > 6
    cold, _ = there.evidence(X, y)
    assert certify(posed, way.sites, 1e-8).log_evidence == pytest.approx(cold, abs=1e-8)
    monkeypatch.setattr(points, "newton", lambda *_, **__: None)
    nowhere = follow(landmark, posed)
    assert nowhere.sites is None
    assert nowhere.part == 0.0


def test_the_end_of_a_branch_is_located(branches):
    """It can be followed up to there and no further."""
    problem, gp, landmarks = branches
    step = np.where(np.array(gp.names) == "mixtureofgaussians.scale", 0.2, 0.0)

    def gone(step):
        there = gp.replace(gp.theta + step)
        return follow(
            landmarks[0], EPProblem(there.prior(problem.X), Observations(there.likelihood, problem.y))
        )

    way = gone(step)
    assert way.sites is None
    assert 0.0 < way.part < 1.0
    assert gone(0.95 * way.part * step).sites is not None
    assert gone((way.part + 0.02) * step).sites is None


def test_a_landmark_knows_the_models_it_belongs_to():
    X, y = inputs(9), targets("real", 9)
    kernel = (1.5 * SE(1.0)).bind(1)
    likelihood = StudentT(0.3, 3.0)
    plain = EPProblem(DensePrior(kernel, X), Observations(likelihood, y))
    shifted = EPProblem(DensePrior(kernel, X, Constant(1.0)), Observations(likelihood, y))
    mark = KnownFixedPoint.of(plain, Sites.zero(9), -1.0)
    assert mark.fits(plain)
    assert not mark.fits(shifted)
    assert not mark.fits(EPProblem(DensePrior(kernel, X), Observations(Probit(), y)))
    assert not mark.fits(EPProblem(DensePrior(kernel, X[:5]), Observations(likelihood, y[:5])))
    other = EPProblem(DensePrior(kernel, X, Constant(3.0)), Observations(StudentT(1.2, 3.0), y))
    half = KnownFixedPoint.of(shifted, Sites.zero(9), -1.0).towards(other, 0.5)
    np.testing.assert_allclose(half.prior.mean, 2.0)
    assert half.likelihood.scale == pytest.approx(0.6)


def test_a_workspace_of_another_model_is_not_used():
    X, y = inputs(9), targets("real", 9)
    gp = GP(1.5 * SE(1.0), StudentT(0.3, 3.0), inference="ep").bind(1)
    workspace = Evaluations()
    workspace.evidence(gp, X, y)
    other = GP(1.5 * SE(1.0), MixtureOfGaussians(0.2, 0.3, 5.0), inference="ep").bind(1)
    value, _ = workspace.evidence(other, X, y)
    assert value == pytest.approx(other.evidence(X, y)[0], abs=1e-6)


def test_no_fixed_point_at_the_start_of_an_optimization_is_an_error(monkeypatch):
    nothing_found(monkeypatch)
    X, y = inputs(9), targets("real", 9)
    with pytest.raises(InferenceFailedError, match="no fixed point at these"):
        GP(1.5 * SE(1.0), StudentT(0.3, 3.0), inference="ep").evidence(X, y)
    with pytest.raises(InferenceFailedError, match="no cavities"):
        GP(1.5 * SE(1.0), StudentT(0.3, 3.0), inference="ep").leave_one_out(X, y)


# --- what is done instead -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("likelihood", "log_p"),
    [
        (StudentT(0.3, 3.0), lambda e: stats.t.logpdf(e, 3.0, scale=0.3)),
        (
            MixtureOfGaussians(0.2, 0.3, outlier_scale=3.0),
            lambda e: np.logaddexp(
                np.log(0.8) + stats.norm.logpdf(e, scale=0.3), np.log(0.2) + stats.norm.logpdf(e, scale=3.0)
            ),
        ),
    ],
)
def test_power_ep_is_the_largest_power_found_and_is_labeled(monkeypatch, likelihood, log_p):
    nothing_found(monkeypatch)
    X, y = inputs(9), targets("real", 9)
    found = GP(1.5 * SE(1.0), likelihood, inference=EP(effort=60.0)).condition(X, y)
    assert found.status.stage == "power ep"
    assert found.status.message == "power 0.9"
    K = (1.5 * SE(1.0))(X)
    worst, log_evidence = mismatch_and_evidence(
        lambda i, f: log_p(y[i] - f), K, found.approximation.sites, y, breaks=lambda i: [y[i]], power=0.9
    )
    assert worst < 1.1e-6
    assert found.log_evidence == pytest.approx(log_evidence, abs=1e-6)


def test_the_variational_solution_is_the_last_resort_and_is_labeled(monkeypatch):
    nothing_found(monkeypatch)
    monkeypatch.setattr(EP, "_lower_power", lambda self, problem, start: None)
    X, y = inputs(9), targets("real", 9)
    found = GP(1.5 * SE(1.0), StudentT(0.3, 3.0), inference="ep").condition(X, y)
    bound = (
        Variational()
        .infer(DensePrior((1.5 * SE(1.0)).bind(1), X), Observations(StudentT(0.3, 3.0), y))
        .log_evidence
    )
    assert not found.status.converged
    assert found.status.stage == "variational"
    assert "its bound is the log evidence" in found.status.message
    assert found.log_evidence == pytest.approx(bound, abs=1e-9)


def test_without_effort_there_is_no_power_but_still_an_answer(monkeypatch):
    nothing_found(monkeypatch)
    X, y = inputs(9), targets("real", 9)
    found = GP(1.5 * SE(1.0), StudentT(0.3, 3.0), inference=EP(effort=0.0)).condition(X, y)
    assert found.status.stage == "variational"
    assert np.isfinite(found.log_evidence)


# --- the energy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_evidence_is_stationary_in_the_sites(power):
    """Minus the energy has zero slope at a fixed point: changing sites by epsilon changes it by epsilon squared."""
    X, y = inputs(9), targets("real", 9)
    posed = EPProblem(DensePrior((1.5 * SE(1.0)).bind(1), X), Observations(StudentT(0.3, 3.0), y), power)
    _, rough, _ = damped(posed, Sites.zero(9), step=power)
    state = EPState(posed, points.newton_from_sites(posed, rough.sites))
    rng = np.random.default_rng(0)
    d_shift, d_precision = rng.standard_normal((2, 9))
    changes = []
    for epsilon in (1e-2, 1e-3):
        sites = Sites(state.sites.shift + epsilon * d_shift, state.sites.precision + epsilon * d_precision)
        changes.append(abs(EPState(posed, sites).log_evidence - state.log_evidence))
    assert changes[1] < 0.02 * changes[0]
