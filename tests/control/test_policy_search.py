"""Systems drawn from a model, losses over roll-outs of them, and policies learned from scratch."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from cavity import GP, kernels, likelihoods, means
from cavity.control import Dynamics, ExactModel, NotAnalyticError, Pendulum, Transitions, policy_search
from cavity.control.dynamics.sampled_functions import DrawnDynamics, DrawnFunctions
from cavity.control.losses import QuadraticLoss, SaturatingLoss, tip_distance
from cavity.control.policies import LinearPolicy, RBFPolicy
from cavity.control.policy_search import learn_policy, search
from cavity.control.problems import Problem, System
from cavity.control.risk import ParticleRisk
from cavity.learning.objective import Objective

STEP = 1e-6


@pytest.fixture(scope="module")
def pendulum_model():
    system = Pendulum()
    return Dynamics.fit(Transitions.draw(system, 40, rng=0, noise=[0.05, 0.4]), problem=system, rng=0)


# --- functions drawn from a posterior -----------------------------------------------------------------------


def models():
    """A model for each part that a draw has to get right."""
    X = np.random.default_rng(0).uniform(-2, 2, (12, 2))
    noise = likelihoods.Gaussian(0.05)
    se = 0.8 * kernels.SE([0.9, 1.3])
    return {
        "bumps": GP(se, noise),
        "two terms": GP(se + 0.3 * kernels.SE(0.5), noise),
        "fixed line": GP(se, noise, mean=means.Linear(0.3, [0.5, -0.2])),
        "linear kernel": GP(se + 0.4 * kernels.Linear(), noise),
        "vague line": GP(se, noise, mean=means.Basis("linear")),
        "line with a prior": GP(se, noise, mean=means.Basis("linear", prior_covariance=0.5)),
        "white part": GP(se + kernels.White(0.04), noise),
    }, X


@pytest.mark.parametrize("name", models()[0])
def test_draws_have_the_moments_of_the_posterior(name):
    """Means and covariances at three points, over many draws, are those of the posterior process."""
    every, X = models()
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1]
    posterior = every[name].condition(X, y)
    at = np.array([[0.1, 0.2], [1.5, -1.0], [2.5, 2.0]])
    size = 4_000
    draws = DrawnFunctions([posterior], size, 10, rng=1)
    f = np.column_stack([draws.forward(np.tile(x, (size, 1)))[0][:, 0] for x in at])
    mean, cov = posterior.process.mean(at), posterior.process.covariance(at)
    if name == "white part":
        cov = cov - 0.04 * np.eye(3)
    assert np.all(np.abs(f.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(cov) / size))
    d = f - mean
    products = d[:, :, None] * d[:, None, :]
    error = products.std(axis=0) / np.sqrt(size)
    assert np.all(np.abs(products.mean(axis=0) - cov) < 4 * error)


def test_a_draw_is_one_function():
    """Rows that are asked for again give the same, and the rows are functions of their own."""
    every, X = models()
    draws = DrawnFunctions([every["bumps"].condition(X, X[:, 0])], 5, 50, rng=0)
    x = np.tile([2.0, -2.0], (5, 1))
    once, again = draws.forward(x)[0], draws.forward(x)[0]
    np.testing.assert_array_equal(once, again)
    assert len(np.unique(once)) == 5


@pytest.mark.parametrize("name", models()[0])
def test_derivatives_of_drawn_functions(name):
    every, X = models()
    posteriors = [every[name].condition(X, X[:, 0]), every["bumps"].condition(X, X[:, 1] ** 2)]
    draws = DrawnFunctions(posteriors, 4, 30, rng=0)
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((4, 2)), rng.standard_normal((4, 2))
    d_x = draws.pull(draws.forward(x)[1], w)
    for b, i in np.ndindex(x.shape):
        E = np.zeros(x.shape)
        E[b, i] = STEP
        difference = np.sum(w * (draws.forward(x + E)[0] - draws.forward(x - E)[0])) / (2 * STEP)
        assert d_x[b, i] == pytest.approx(difference, abs=1e-7)


def test_robust_models_can_be_drawn_from_unless_sites_are_negative():
    X = np.linspace(-2, 2, 15)[:, None]
    y = np.sin(X[:, 0])
    laplace = GP(1.0 * kernels.SE(0.8), likelihoods.Laplace(0.1)).condition(X, y)
    draws = DrawnFunctions([laplace], 4000, 10, rng=0)
    f = draws.forward(np.full((4000, 1), 0.3))[0][:, 0]
    mean, variance = laplace.process.mean([[0.3]])[0], laplace.process.variance([[0.3]])[0]
    assert abs(f.mean() - mean) < 4 * np.sqrt(variance / 4000)
    square = (f - mean) ** 2
    assert abs(square.mean() - variance) < 4 * square.std() / np.sqrt(4000)
    y[7] += 8.0  # an outlier far outside: its site is negative
    student = GP(1.0 * kernels.SE(0.8), likelihoods.StudentT(scale=0.1, df=3.0)).condition(X, y)
    with pytest.raises(NotAnalyticError, match="positive precision"):
        DrawnFunctions([student], 2, 5)


def test_drawn_systems_are_near_the_model_where_it_is_sure(pendulum_model):
    system, model = Pendulum(), pendulum_model
    rng = np.random.default_rng(0)
    states, actions = system.draw_states(300, rng), system.draw_actions(300, rng)
    mean, variance = model.predict(states, actions)
    after, _ = DrawnDynamics(model, 300, rng=1).forward_mean(states, actions)
    z = (after - mean) / np.sqrt(variance)
    # 300 standard normal numbers for each state: their mean, and their mean square
    assert np.all(np.abs(z.mean(axis=0)) < 4 / np.sqrt(300))
    assert np.all(np.abs(np.mean(z**2, axis=0) - 1.0) < 4 * np.sqrt(2 / 300))


# --- losses over roll-outs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rbf", "linear"])
@pytest.mark.parametrize("model", ["drawn", "means", "exact"])
def test_gradient_of_the_loss_over_particles(pendulum_model, model, kind):
    system = Pendulum()
    loss = SaturatingLoss(tip_distance(system, speed=0.1), 0.8)
    made = {
        "drawn": DrawnDynamics(pendulum_model, 6, rng=0),
        "means": pendulum_model,
        "exact": ExactModel(system),
    }
    starts = system.start + 0.3 * np.random.default_rng(0).standard_normal((6, 2))
    policy = (
        RBFPolicy.start(system, 5, rng=0, size=0.8) if kind == "rbf" else LinearPolicy.start(system, rng=0)
    )
    risk = ParticleRisk(made[model], loss, starts, 8)
    value, gradient = risk(policy)
    assert value == pytest.approx(risk.value(policy), rel=1e-12)
    step = 1e-5
    for k in range(0, len(gradient), 2):
        e = step * np.eye(len(gradient))[k]
        up = risk.value(policy.with_parameters(policy.theta + e))
        down = risk.value(policy.with_parameters(policy.theta - e))
        # derivatives of the exact system are differences themselves
        assert gradient[k] == pytest.approx((up - down) / (2 * step), abs=1e-8)


def test_loss_over_exact_particles_is_that_of_the_simulation():
    system = Pendulum()
    loss = tip_distance(system)
    policy = RBFPolicy.start(system, 5, rng=0, size=1.0)
    starts = system.start + 0.3 * np.random.default_rng(0).standard_normal((6, 2))
    truth = loss(system.simulate(policy, 12, starts).states[1:]).mean()
    assert ParticleRisk(ExactModel(system), loss, starts, 12).value(policy) == pytest.approx(truth, rel=1e-12)


def test_particles_agree_with_consistent_function_draws(pendulum_model):
    """The same expectation by conditioning step by step, which has no waves."""
    system = Pendulum()
    loss = SaturatingLoss(tip_distance(system), 1.0)
    policy = RBFPolicy.start(system, 10, rng=2, size=1.0)
    size, start = 400, np.array([1.0, 0.0])
    risk = ParticleRisk(DrawnDynamics(pendulum_model, size, rng=0), loss, np.tile(start, (size, 1)), 8)
    found = loss(risk._paths(policy, None)[1:]).mean(axis=0)
    path = pendulum_model.sample_rollouts(start, policy, 8, size=size, rng=1)
    truth = loss(path.particles[1:]).mean(axis=0)
    error = np.sqrt((found.var() + truth.var()) / size)
    assert abs(found.mean() - truth.mean()) < 4 * error
    assert found.std() == pytest.approx(truth.std(), rel=0.2)


# --- learning -----------------------------------------------------------------------------------------------


class Slider(System):
    """A mass that is pushed along a line: learned in one or two episodes."""

    def __init__(self):
        super().__init__(
            "slider",
            ["x", "v"],
            ["force"],
            [[-1, 1], [-1, 1]],
            [[-2, 2]],
            start=[-0.5, 0.0],
            goal=[0.0, 0.0],
            dt=0.2,
        )
        self.substeps = 1

    def derivative(self, states, actions):
        return np.stack([states[..., 1], actions[..., 0] - 0.2 * states[..., 1]], axis=-1)


def slider_loss(system):
    return SaturatingLoss(QuadraticLoss.around(system.goal, [1.0, 0.1]), 0.3)


def stays(policy):
    system = Slider()
    end = system.simulate(policy, 30, system.start).states[-5:]
    return float(np.abs(end[:, 0]).max() < 0.1)


@pytest.mark.parametrize("moment_matching", [False, True])
def test_learns_a_simple_system_from_scratch(moment_matching):
    system = Slider()
    found = learn_policy(
        system,
        slider_loss(system),
        steps=20,
        episodes=3,
        policy=LinearPolicy.start(system, rng=0),
        iterations=30,
        particles=10,
        moment_matching=moment_matching,
        test=stays,
        stop=1.0,
        rng=0,
    )
    assert found.episodes[-1].successes == 1.0
    assert found.episodes[-1].loss < found.episodes[0].loss
    assert np.isnan(found.episodes[0].predicted)
    assert len(found.transitions) == 20 * len(found.episodes)


def test_learns_from_random_policies():
    system = Slider()
    effort = {"centers": 8, "iterations": 20, "particles": 10, "candidates": 30}
    found = learn_policy(
        system, slider_loss(system), steps=20, episodes=4, test=stays, stop=1.0, rng=1, **effort
    )
    assert isinstance(found.policy, RBFPolicy)
    assert found.policy.n == 8
    assert found.episodes[-1].successes == 1.0


def test_a_seed_gives_the_same_again():
    system = Slider()
    settings = {"steps": 6, "episodes": 1, "centers": 3, "iterations": 2, "particles": 4, "candidates": 3}
    one, two = (learn_policy(system, slider_loss(system), rng=3, **settings) for _ in range(2))
    np.testing.assert_array_equal(one.policy.theta, two.policy.theta)
    other = learn_policy(system, slider_loss(system), rng=4, **settings)
    assert np.any(one.policy.theta != other.policy.theta)


def test_random_policies_are_searched_on_short_roll_outs(monkeypatch):
    seen = []
    plain = policy_search.search

    def spied(risk, policies, *rest):
        seen.append((risk.horizon, len(policies)))
        return plain(risk, policies, *rest)

    monkeypatch.setattr(policy_search, "search", spied)
    system = Slider()
    settings = {"steps": 6, "centers": 3, "iterations": 1, "particles": 3, "candidates": 7}
    learn_policy(system, slider_loss(system), episodes=2, first_horizon=3, **settings)
    # the best five of seven over three steps, then the best of these and the present policy over all
    assert seen == [(3, 5), (6, 1), (3, 5), (6, 1), (6, 1)]


def test_hyperparameters_are_learned_again_only_with_many_more_transitions(monkeypatch):
    sizes = []
    plain = Dynamics.fit
    monkeypatch.setattr(Dynamics, "fit", lambda seen, **rest: sizes.append(len(seen)) or plain(seen, **rest))
    system = Slider()
    settings = {"steps": 6, "centers": 3, "iterations": 1, "particles": 3, "candidates": 2}
    found = learn_policy(system, slider_loss(system), episodes=5, **settings)
    assert sizes == [6, 12, 18, 30]  # not 24
    assert len(found.model.transitions) == 30


def test_a_model_given_more_transitions(pendulum_model):
    """Hyperparameters stay, and the posterior is that of all transitions."""
    more = Transitions.draw(Pendulum(), 60, rng=5)
    known = pendulum_model.given(more)
    assert len(known.transitions) == 60
    for old, new in zip(pendulum_model.models, known.models):
        np.testing.assert_array_equal(old.kernel_.flat, new.kernel_.flat)
        direct = GP(old.kernel_, old.likelihood_, mean=old.mean_)
        X, k = known.inputs(more.states, more.actions), known.models.index(new)
        truth = direct.condition(X, more.differences[:, k]).mean(X[:5])
        np.testing.assert_allclose(new.posterior_.mean(X[:5]), truth, rtol=1e-9)


def test_noise_is_recorded_but_not_lived():
    system = Slider()
    effort = {"centers": 4, "iterations": 2, "particles": 5, "candidates": 5}
    found = learn_policy(
        system, slider_loss(system), steps=8, episodes=1, noise=0.01, horizon=4, rng=0, **effort
    )
    lived, seen = found.episodes[0].transitions, found.transitions[:8]
    assert np.all(seen.states != lived.states)
    # a state is measured once: the end of a transition is the start of the next
    np.testing.assert_array_equal(seen.next_states[:-1], seen.states[1:])
    np.testing.assert_array_equal(system.step(lived.states, lived.actions), lived.next_states)


def test_interruption_keeps_the_last_policy():
    system = Slider()
    tried = []

    def test(policy):
        tried.append(policy)
        if len(tried) == 2:
            raise KeyboardInterrupt
        return 0.0

    settings = {"steps": 6, "centers": 3, "iterations": 2, "particles": 4, "candidates": 3}
    found = learn_policy(system, slider_loss(system), episodes=5, test=test, **settings)
    assert found.policy is tried[-1]
    assert len(found.transitions) == 18
    assert len(found.episodes) == 2  # the episode whose test was interrupted is not complete

    class Stubborn(Slider):
        def simulate(self, *args, **kwargs):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_policy(Stubborn(), slider_loss(system), episodes=1, **settings)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.filterwarnings("ignore:learning was stopped early")
def test_an_interrupt_while_a_model_is_learned_ends_the_search(monkeypatch):
    fit, evaluate, models, evaluations = Dynamics.fit.__func__, Objective.__call__, [], []

    def fitted(cls, *args, **kwargs):
        models.append(None)
        evaluations.clear()
        return fit(cls, *args, **kwargs)

    def evaluated(self, theta):
        evaluations.append(theta)
        if len(models) == 2 and len(evaluations) == 3:
            signal.raise_signal(signal.SIGINT)
        return evaluate(self, theta)

    monkeypatch.setattr(Dynamics, "fit", classmethod(fitted))
    monkeypatch.setattr(Objective, "__call__", evaluated)
    system = Slider()
    settings = {"steps": 8, "centers": 3, "iterations": 2, "particles": 4, "candidates": 3}
    found = learn_policy(system, slider_loss(system), episodes=5, **settings)
    assert len(models) == 2
    assert len(found.episodes) == 2


def test_learns_in_an_environment():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Pendulum-v1")
    problem = Pendulum(frames=2)
    loss = SaturatingLoss(tip_distance(problem), 0.5)
    settings = {"steps": 8, "episodes": 1, "centers": 4, "iterations": 2, "particles": 4, "candidates": 4}
    found = learn_policy(problem, loss, env=env, hold=2, start_sd=[1.8, 0.6], rng=0, **settings)
    lived = found.episodes[1].transitions
    np.testing.assert_allclose(
        problem.step(lived.states, lived.actions), lived.next_states, atol=1e-5
    )  # single precision there
    np.testing.assert_allclose(lived.actions, found.policy(lived.states), atol=1e-6)


def test_a_search_improves_on_its_starts(pendulum_model):
    system = Pendulum()
    loss = SaturatingLoss(tip_distance(system), 1.0)
    starts = system.start + 0.05 * np.random.default_rng(0).standard_normal((4, 2))
    risk = ParticleRisk(DrawnDynamics(pendulum_model, 4, rng=0), loss, starts, 10)
    policies = [RBFPolicy.start(system, 5, rng=k, size=1.0) for k in range(3)]
    found, value = search(risk, policies, 5)
    assert value == pytest.approx(risk.value(found), rel=1e-10)
    assert value < min(risk.value(policy) for policy in policies)
    alone, alone_value = search(risk, policies[:1], 5)
    assert alone_value == pytest.approx(risk.value(alone), rel=1e-10)
    assert alone_value < risk.value(policies[0])


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_a_search_does_not_depend_on_the_unit_of_the_loss(unit):
    """A loss in other units has the same best policy; powers of two change no digit."""
    system = Slider()
    starts = system.start + 0.1 * np.random.default_rng(0).standard_normal((4, 2))
    policy = LinearPolicy.start(system, rng=0)

    def searched(weights):
        loss = QuadraticLoss.around(system.goal, weights)
        return search(ParticleRisk(ExactModel(system), loss, starts, 15), [policy], 30)

    weights = np.array([1.0, 0.25])
    (found, value), (other, scaled) = searched(weights), searched(unit * weights)
    assert value < 0.7 * ParticleRisk(
        ExactModel(system), QuadraticLoss.around(system.goal, weights), starts, 15
    ).value(policy)
    assert scaled == unit * value
    np.testing.assert_array_equal(other.theta, found.theta)


def test_a_search_comes_back_from_a_loss_that_is_not_finite():
    """In units in which ordinary losses are large, too."""
    system = Slider()
    policy = LinearPolicy.start(system, rng=0)

    def risk(policy):
        r2 = float(np.sum((policy.theta - 0.2) ** 2))
        return (1e9 * (1 + r2), 2e9 * (policy.theta - 0.2)) if r2 < 0.21 else (np.nan, policy.theta)

    start = policy.with_parameters(np.array([0.2, 0.2, 0.65]))  # the first step is of length one
    value = search(risk, [start], 30)[1]
    assert value == pytest.approx(1e9)


def test_refusals(pendulum_model):
    system = Slider()
    loss = slider_loss(system)
    good = {"steps": 3, "episodes": 1}
    for name, value in [
        ("episodes", 0),
        ("steps", 1),
        ("particles", 0),
        ("candidates", 0),
        ("centers", 1.5),
        ("iterations", 0),
        ("start_sd", -1.0),
        ("horizon", 0),
        ("first_horizon", 0),
    ]:
        with pytest.raises(ValueError, match=f"{name} must be"):
            learn_policy(system, loss, **(good | {name: value}))
    with pytest.raises(ValueError, match="least_noise must be"):
        Dynamics.fit(pendulum_model.transitions, problem=Pendulum(), least_noise=0.0)
    nowhere = Problem("p", ["a"], ["u"], [[-1, 1]], [[-1, 1]], start=[0.0], goal=[0.0], dt=0.1)
    with pytest.raises(ValueError, match="env must be given"):
        learn_policy(nowhere, loss, **good)
    with pytest.raises(ValueError, match="policies must hold"):
        search(lambda policy: (0.0, policy.theta), [])
    with pytest.raises(ValueError, match="horizon"):
        ParticleRisk(pendulum_model, loss, np.zeros((2, 2)), 0)
    with pytest.raises(ValueError, match="starts must be"):
        ParticleRisk(pendulum_model, loss, np.zeros((2, 3)), 4)
    with pytest.raises(ValueError, match="size must be"):
        DrawnDynamics(pendulum_model, 0)
    with pytest.raises(ValueError, match="waves must be"):
        DrawnDynamics(pendulum_model, 2, waves=0)
    with pytest.raises(ValueError, match="each of 3 drawn systems"):
        DrawnDynamics(pendulum_model, 3).forward_mean(np.zeros((2, 2)), [0.0])
