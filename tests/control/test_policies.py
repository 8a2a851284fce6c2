"""Policies: moments against Monte Carlo, all derivatives against central differences."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.control import Dynamics, Pendulum, Transitions
from cavity.control.losses import SaturatingLoss, tip_distance
from cavity.control.policies import LinearPolicy, RBFPolicy
from cavity.control.policy_search import search
from cavity.control.problems import Problem
from cavity.control.risk import PolicyRisk

STEP = 1e-6


def two_actions():
    return Problem(
        "p",
        ["a", "b", "c"],
        ["u", "v"],
        [[-1, 1], [-3, 3], [-2, 2]],
        [[-2, 2], [0, 3]],
        angles=[1],
        start=np.zeros(3),
        goal=np.zeros(3),
        dt=0.1,
    )


def policies():
    big = RBFPolicy.start(two_actions(), 6, rng=1, size=0.8)
    linear = LinearPolicy.start(two_actions(), rng=2)
    return {"rbf": big, "linear": linear.with_parameters(4.0 * linear.theta)}


def distribution(D, seed, size=0.3):
    rng = np.random.default_rng(seed)
    root = size * rng.standard_normal((D, D))
    return 0.5 * rng.standard_normal(D), root @ root.T


@pytest.mark.parametrize("name", policies())
def test_inner_moments_against_monte_carlo(name):
    """Mean, covariance and gain of the unsquashed function at Gaussian features are exact."""
    policy = policies()[name]
    m, S = distribution(policy.P, 0)
    p, V, q, _ = policy._forward(m, S)
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(m, S, 400_000)
    values = policy._at(x)[0]
    n = len(x)
    assert np.all(np.abs(values.mean(axis=0) - p) < 4 * values.std(axis=0) / np.sqrt(n))
    d = values - values.mean(axis=0)
    products = d[:, :, None] * d[:, None, :]
    assert np.all(np.abs(products.mean(axis=0) - V) < 4 * products.std(axis=0) / np.sqrt(n))
    crosses = (x - m)[:, :, None] * d[:, None, :]
    assert np.all(np.abs(crosses.mean(axis=0) - S @ q) < 4.5 * crosses.std(axis=0) / np.sqrt(n))


@pytest.mark.parametrize("name", policies())
def test_a_known_state_gives_the_policy_itself(name):
    policy = policies()[name]
    states = distribution(3, 1)[0] + np.random.default_rng(0).standard_normal((5, 3))
    for s in states:
        result, _ = policy.forward(s, np.zeros((3, 3)))
        np.testing.assert_allclose(result.mean, policy(s), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(result.covariance, 0.0, atol=1e-12)
        for i in range(3):
            e = STEP * np.eye(3)[i]
            slope = (policy(s + e) - policy(s - e)) / (2 * STEP)
            np.testing.assert_allclose(result.gain[i], slope, atol=1e-7)
    low, high = policy.bounds.T
    actions = policy(10.0 * states)
    assert np.all((actions >= low) & (actions <= high))


@pytest.mark.parametrize("name", policies())
def test_all_derivatives(name):
    policy = policies()[name]
    m, S = distribution(3, 4)
    rng = np.random.default_rng(0)
    a, B, C = rng.standard_normal(2), rng.standard_normal((2, 2)), rng.standard_normal((3, 2))

    def scalar(policy, m, S):
        r, _ = policy.forward(m, S)
        return a @ r.mean + np.sum(B * r.covariance) + np.sum(C * r.gain)

    d_m, d_S, d_theta = policy.pull(policy.forward(m, S)[1], a, B, C)
    for i in range(3):
        e = STEP * np.eye(3)[i]
        difference = (scalar(policy, m + e, S) - scalar(policy, m - e, S)) / (2 * STEP)
        assert d_m[i] == pytest.approx(difference, abs=2e-7)
        for j in range(3):
            E = np.zeros((3, 3))
            E[i, j] += 0.5 * STEP
            E[j, i] += 0.5 * STEP
            difference = (scalar(policy, m, S + E) - scalar(policy, m, S - E)) / (2 * STEP)
            assert d_S[i, j] == pytest.approx(difference, abs=2e-7)
    for k in range(len(d_theta)):
        e = STEP * np.eye(len(d_theta))[k]
        up, down = policy.with_parameters(policy.theta + e), policy.with_parameters(policy.theta - e)
        difference = (scalar(up, m, S) - scalar(down, m, S)) / (2 * STEP)
        assert d_theta[k] == pytest.approx(difference, abs=2e-7)


@pytest.mark.parametrize("name", policies())
def test_derivatives_at_known_states(name):
    policy = policies()[name]
    rng = np.random.default_rng(3)
    states, w = rng.standard_normal((4, 3)), rng.standard_normal((4, 2))
    actions, cache = policy.at(states)
    np.testing.assert_allclose(actions, policy(states), rtol=1e-13)
    d_states, d_theta = policy.pull_at(cache, w)
    for b, i in np.ndindex(states.shape):
        E = np.zeros(states.shape)
        E[b, i] = STEP
        difference = np.sum(w * (policy(states + E) - policy(states - E))) / (2 * STEP)
        assert d_states[b, i] == pytest.approx(difference, abs=2e-8)
    for k in range(len(d_theta)):
        e = STEP * np.eye(len(d_theta))[k]
        up, down = policy.with_parameters(policy.theta + e), policy.with_parameters(policy.theta - e)
        difference = np.sum(w * (up(states) - down(states))) / (2 * STEP)
        assert d_theta[k] == pytest.approx(difference, abs=2e-8)


@pytest.fixture(scope="module")
def pendulum_model():
    system = Pendulum()
    return Dynamics.fit(Transitions.draw(system, 40, rng=0, noise=[0.05, 0.4]), problem=system, rng=0)


@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_gradient_of_the_long_term_loss(pendulum_model, kind):
    system = Pendulum()
    loss = SaturatingLoss(tip_distance(system), 0.8)
    policy = (
        RBFPolicy.start(system, 5, rng=0, size=0.5) if kind == "rbf" else LinearPolicy.start(system, rng=0)
    )
    risk = PolicyRisk(pendulum_model, loss, system.start, [0.01, 0.01], 6)
    value, gradient = risk(policy)
    path = pendulum_model.rollout((system.start, [0.01, 0.01]), policy, 6)
    assert value == pytest.approx(loss.expected(path.means[1:], path.covariances[1:])[0].mean(), rel=1e-9)
    step = 1e-5
    for k in range(0, len(gradient), 3):
        e = step * np.eye(len(gradient))[k]
        up = risk(policy.with_parameters(policy.theta + e))[0]
        down = risk(policy.with_parameters(policy.theta - e))[0]
        assert gradient[k] == pytest.approx((up - down) / (2 * step), abs=1e-7)


def test_improvement_never_returns_a_worse_policy(pendulum_model):
    system = Pendulum()
    risk = PolicyRisk(pendulum_model, tip_distance(system), system.start, [0.01, 0.01], 5)
    policy = RBFPolicy.start(system, 5, rng=0)
    better, value = search(risk, [policy], iterations=5)
    assert value < risk(policy)[0]
    assert risk(better)[0] == pytest.approx(value, rel=1e-10)


def test_refusals(pendulum_model):
    with pytest.raises(ValueError, match="action_bounds"):
        LinearPolicy(2, [[1.0, -1.0]], (), np.zeros(3))
    with pytest.raises(ValueError, match=r"the policy is for states of shape \(..., 2\), got \(3,\)"):
        RBFPolicy.start(Pendulum(), 3, rng=0)(np.zeros(3))
    with pytest.raises(ValueError, match=r"theta must have F \(P \+ 1\) numbers, P = 3, F = 1"):
        LinearPolicy(2, [[-1, 1]], [0], np.zeros(3))
    with pytest.raises(ValueError, match="theta must have"):
        RBFPolicy(4, [[-1.0, 1.0]], (2,), np.zeros(7))
    with pytest.raises(ValueError, match="horizon"):
        PolicyRisk(pendulum_model, tip_distance(Pendulum()), np.zeros(2), np.zeros(2), 0)
