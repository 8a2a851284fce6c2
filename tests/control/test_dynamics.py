"""Learned dynamics: predictions, moments of a step and their derivatives, roll-outs against Monte Carlo."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from cavity import GPRegressor, kernels, likelihoods
from cavity.control import CartPole, Dynamics, MountainCar, Pendulum, Rollout, Transitions
from cavity.control.dynamics.sampled_functions import FunctionDraws
from cavity.control.problems import Problem, Trajectory
from cavity.control.uncertain_inputs.trigonometric_moments import squash_map
from cavity.learning.objective import Objective


def quick(system, n=40, noise=0.05, seed=0, length=1.5, **options):
    """Dynamics with given hyperparameters: no learning, moderate noise so that derivatives are well conditioned."""
    seen = Transitions.draw(system, n, rng=seed, noise=noise)
    angles = options.pop("angles", system.angles)
    difference = options.pop("difference", np.ones(system.state_size, bool))
    mean = options.pop("mean", "linear")
    plain = Dynamics([None] * system.state_size, seen, angles)
    X = plain.inputs(seen.states, seen.actions)
    Y = np.where(difference, seen.differences, seen.next_states)
    scales = length * X.std(axis=0)
    models = [
        GPRegressor(
            float(np.var(y)) * kernels.SE(scales),
            mean=mean,
            likelihood=likelihoods.Gaussian(max(noise, 0.01) ** 2),
            objective=None,
        ).fit(X, y)
        for y in Y.T
    ]
    return Dynamics(models, seen, angles, difference, problem=system, **options)


@pytest.fixture(scope="module")
def car():
    return quick(MountainCar())


@pytest.fixture(scope="module")
def pole():
    return quick(CartPole(), n=60)


@pytest.fixture(scope="module")
def learned():
    system = MountainCar()
    return Dynamics.fit(Transitions.draw(system, 50, rng=0), problem=system, n_restarts=0, rng=0)


# --- learning -----------------------------------------------------------------------------------------------


def test_learned_mountain_car_is_as_good_as_the_thesis(learned):
    """One-step errors of 0.02 and 0.2 in the thesis, 0.015 and 0.148 in the engineering note."""
    car = MountainCar()
    test = Transitions.draw(car, 1000, rng=100)
    rng = np.random.default_rng(3)
    path = car.simulate(rng.uniform(-1, 1, (6, 5, 1)), start=[[-0.5, 0.0]] * 5)
    table = learned.report(test, path, horizons=(1, 3, 6))
    assert list(table.index) == ["position", "velocity"]
    assert (table["one step"] < [0.015, 0.15]).all()
    error = test.next_states - learned.step(test.states, test.actions)
    np.testing.assert_allclose(table["one step"], np.sqrt(np.mean(error**2, axis=0)))
    assert (table["leave-one-out"] < [0.02, 0.2]).all()
    assert (table["z"] < 2.0).all()
    one = path.states[1:] - learned.step(path.states[:-1], path.actions)
    np.testing.assert_allclose(table["1 steps"], np.sqrt(np.mean(one**2, axis=(0, 1))))
    twice = learned.report(trajectories=[path, path], horizons=(6,))
    np.testing.assert_allclose(twice["6 steps"], table["6 steps"])
    with pytest.raises(ValueError, match="horizons must be between 1 and the 6 steps"):
        learned.report(trajectories=path, horizons=(7,))


def test_noise_and_signal_stay_within_bounds(learned):
    for model in learned.models:
        signal, noise = model.kernel_.flat[0], model.likelihood_.flat[0]
        assert signal / noise <= 30.0**2 / 1e-6 * 1.0001


def test_next_states_as_targets():
    car = MountainCar()
    seen = Transitions.draw(car, 50, rng=0)
    model = Dynamics.fit(seen, target="next", n_restarts=0, rng=0, mean="zero")
    assert not model.difference.any()
    assert "'next', 'next'" in repr(model)
    test = Transitions.draw(car, 500, rng=1)
    error = test.next_states - model.step(test.states, test.actions)
    assert (np.sqrt(np.mean(error**2, axis=0)) < [0.03, 0.3]).all()
    result, _ = model.forward(np.zeros(3), 0.01 * np.eye(3))
    assert list(model.report().index) == ["s0", "s1"]
    assert (np.diag(result.covariance) > 0).all()


def test_angles_are_predicted_as_differences_whatever_the_target():
    pendulum = Pendulum()
    seen = Transitions.draw(pendulum, 40, rng=0)
    model = Dynamics.fit(seen, problem=pendulum, target="next", n_restarts=0, rng=0)
    np.testing.assert_array_equal(model.difference, [True, False])
    turned = model.step([1.0 + 2 * np.pi, 0.5], [0.3]) - model.step([1.0, 0.5], [0.3])
    np.testing.assert_allclose(turned, [2 * np.pi, 0.0], atol=1e-10)
    raw = Dynamics.fit(seen, problem=pendulum, angles=(), n_restarts=0, rng=0)
    assert raw.inputs([1.0, 0.5], [0.3]).tolist() == [1.0, 0.5, 0.3]
    assert raw.difference.all()


def test_outliers_do_not_spoil_a_robust_model():
    car = MountainCar()
    seen = Transitions.draw(car, 60, rng=0, noise=0.01)
    spoiled = seen.next_states.copy()
    spoiled[::8, 1] += 4.0
    given = Transitions(seen.states, seen.actions, spoiled)
    test = Transitions.draw(car, 500, rng=1)
    errors = {}
    for name in ("gaussian", "laplace"):
        model = Dynamics.fit(given, likelihood=["gaussian", name], n_restarts=0, rng=0)
        errors[name] = np.sqrt(np.mean((test.next_states - model.step(test.states, test.actions))[:, 1] ** 2))
        result, _ = model.forward(np.zeros(3), 0.01 * np.eye(3))
        assert np.isfinite(result.covariance).all()
    assert errors["laplace"] < 0.5 * errors["gaussian"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "delta"}, "target must be 'difference' or 'next', got 'delta'"),
        (
            {"problem": CartPole()},
            "transitions have 2 states and 1 actions, but the problem 'cart-pole' has 4 and 1",
        ),
        ({"kernel": ["SE(1.0)"]}, "kernel must be one, or one for each of 2 states, got 1"),
        ({"angles": [5]}, r"angles must be columns of the 2 states, got \(5,\)"),
    ],
)
def test_wrong_options_are_refused(options, message):
    seen = Transitions.draw(MountainCar(), 10, rng=0)
    with pytest.raises(ValueError, match=message):
        Dynamics.fit(seen, n_restarts=0, **options)


def test_wrong_states_are_refused(car):
    with pytest.raises(ValueError, match=r"shapes \(..., 2\) and \(..., 1\), got \(3,\) and \(1,\)"):
        car.step([0, 0, 0], [1])
    with pytest.raises(ValueError, match="mean must have shape"):
        car.rollout([0, 0, 0], [[1]])
    with pytest.raises(ValueError, match="positive semi-definite"):
        car.rollout(([0, 0], [[1.0, 2.0], [2.0, 1.0]]), [[1]])
    with pytest.raises(ValueError, match=r"of shape \(steps, 1\), got \(3,\)"):
        car.rollout([0, 0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="horizon must be at most the number of actions, 1, got 2"):
        car.rollout([0, 0], [[1.0]], 2)
    with pytest.raises(ValueError, match="horizon must be given"):
        car.rollout([0, 0], lambda s: s[..., :1])
    with pytest.raises(ValueError, match="one for each of 2 states"):
        Dynamics(car.models[:1], car.transitions)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.filterwarnings("ignore:learning was stopped early")
def test_an_interrupt_ends_learning_of_all_states(monkeypatch):
    """Learning of one state keeps what it has after Ctrl-C; those after it must not be learned all the same."""
    evaluate, seen = Objective.__call__, []

    def counted(self, theta):
        seen.append(self)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)
        return evaluate(self, theta)

    monkeypatch.setattr(Objective, "__call__", counted)
    with pytest.raises(KeyboardInterrupt):
        Dynamics.fit(Transitions.draw(MountainCar(), 20, rng=0), rng=0)
    assert len(seen) == 3


def pushed(n, action=None, seed=0):
    """A linear system with two states and a force, which is drawn anew in each transition or always the same."""
    rng = np.random.default_rng(seed)
    s = rng.standard_normal((n, 2))
    a = rng.uniform(-1, 1, (n, 1)) if action is None else np.full((n, 1), action)
    after = s @ np.array([[1, -0.1], [0.1, 0.9]]) + a * [0.0, 0.5] + 0.01 * rng.standard_normal((n, 2))
    return Transitions(s, a, after)


@pytest.mark.parametrize("force", [0.0, 2.0])
def test_forces_that_were_never_tried_are_uncertain(force):
    with pytest.warns(UserWarning, match=rf"a0 \(always {force:g}\): the mean function is constant"):
        model = Dynamics.fit(pushed(40, force), n_restarts=0, rng=0)
    known, unknown = np.sqrt(model.predict(np.zeros((2, 2)), [[force], [force + 8.0]])[1][:, 1])
    assert known < 0.1
    assert unknown > 1.0  # the truth is 4 away, and the changes that were seen have an sd of about 0.2
    assert unknown > 20 * known


def test_a_few_transitions_do_not_make_certain():
    """A plane through as many transitions as it has weights leaves nothing over, and says nothing about noise."""
    seen = pushed(4, seed=1)
    with pytest.warns(UserWarning, match="4 transitions cannot tell the 4 weights"):
        model = Dynamics.fit(seen, n_restarts=0, rng=0)
    test = pushed(200, seed=2)
    variance = model.predict(test.states, test.actions)[1]
    assert np.all(np.sqrt(variance.mean(axis=0)) > 0.01 * seen.differences.std(axis=0))


def test_inputs_that_follow_from_others_are_named():
    seen = pushed(40)
    slaved = Transitions(seen.states, 3.0 * seen.states[:, :1] + 1.0, seen.next_states)
    with pytest.warns(UserWarning, match="inputs s0, s1, a0 follow from the others"):
        Dynamics.fit(slaved, n_restarts=0, rng=0)


def test_a_state_that_never_changes():
    rng = np.random.default_rng(0)
    s, a = rng.standard_normal((20, 2)), rng.standard_normal((20, 1))
    after = np.column_stack([s[:, 0] + np.sin(a[:, 0]), s[:, 1]])
    model = Dynamics.fit(Transitions(s, a, after), n_restarts=0, rng=0)
    np.testing.assert_allclose(model.step(s, a)[:, 1], s[:, 1], atol=1e-6)


# --- one step -----------------------------------------------------------------------------------------------


def systems():
    return [
        quick(MountainCar()),
        quick(MountainCar(), difference=[True, False]),
        quick(CartPole(), n=50),
        quick(Pendulum(), n=30, mean="zero", noise=0.1),
    ]


SYSTEMS = systems()


def joint(model, seed=0, size=0.3):
    """A distribution of state and action together."""
    rng = np.random.default_rng(seed)
    D = model.state_size + model.action_size
    A = size * rng.standard_normal((D, D))
    return 0.3 * rng.standard_normal(D), A @ A.T / D


@pytest.mark.parametrize("model", SYSTEMS, ids=repr)
def test_step_and_predict_agree_with_the_posteriors(model):
    rng = np.random.default_rng(0)
    s, a = rng.standard_normal((3, 2, model.state_size)), rng.standard_normal((3, 2, model.action_size))
    mean, variance = model.predict(s, a)
    np.testing.assert_allclose(model.step(s, a), mean, rtol=1e-9, atol=1e-10)
    x = model.inputs(s[1, 1], a[1, 1])[None]
    for k, posterior in enumerate(model.posteriors):
        expected = posterior.mean(x)[0] + (s[1, 1, k] if model.difference[k] else 0.0)
        assert mean[1, 1, k] == pytest.approx(expected)
        assert variance[1, 1, k] == pytest.approx(posterior.variance(x)[0])


@pytest.mark.parametrize("model", SYSTEMS, ids=repr)
def test_certain_inputs_are_points(model):
    m, S = joint(model)
    result, _ = model.forward(m, 0.0 * S)
    mean, variance = model.predict(m[: model.state_size], m[model.state_size :])
    np.testing.assert_allclose(result.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(result.covariance, np.diag(variance), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(result.cross, 0.0)


@pytest.mark.parametrize("model", SYSTEMS[:2], ids=repr)
def test_moments_of_a_step_against_monte_carlo(model):
    """Exact without angles: mean, covariance and cross-covariance within 4 standard errors of 2e5 samples."""
    m, S = joint(model)
    result, _ = model.forward(m, S)
    n, D = 200_000, model.state_size
    rng = np.random.default_rng(1)
    z = rng.multivariate_normal(m, S, n)
    mean, variance = model.predict(z[:, :D], z[:, D:])
    after = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
    assert (np.abs(after.mean(axis=0) - result.mean) < 4 * after.std(axis=0) / np.sqrt(n)).all()
    centered, before = after - result.mean, z - m
    for sample, expected in (
        (centered[:, :, None] * centered[:, None, :], result.covariance),
        (before[:, :, None] * centered[:, None, :], result.cross),
    ):
        error = np.abs(sample.mean(axis=0) - expected)
        assert (error < 4 * sample.std(axis=0) / np.sqrt(n)).all()


def test_moments_of_a_step_with_angles_for_small_variances(pole):
    """With angles the sines and cosines are taken for Gaussian: right to first order in the variance."""
    m, S = joint(pole, size=0.05)
    result, _ = pole.forward(m, S)
    n = 100_000
    rng = np.random.default_rng(1)
    z = rng.multivariate_normal(m, S, n)
    mean, variance = pole.predict(z[:, :4], z[:, 4:])
    after = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
    np.testing.assert_allclose(
        result.mean, after.mean(axis=0), atol=4 * after.std(axis=0).max() / np.sqrt(n) + 1e-4
    )
    np.testing.assert_allclose(np.sqrt(np.diag(result.covariance)), after.std(axis=0), rtol=0.01)
    both = np.cov(np.hstack([z, after]).T)
    size = np.sqrt(np.outer(np.diag(S), np.diag(result.covariance)))
    assert (np.abs(both[:5, 5:] - result.cross) < 0.02 * size).all()


def test_noise_is_added_on_request():
    quiet, loud = quick(MountainCar()), quick(MountainCar(), noise=0.05)
    loud = Dynamics(loud.models, loud.transitions, noise=True)
    m, S = joint(quiet)
    noise = np.array([model.likelihood_.flat[0] for model in quiet.models])
    difference = loud.forward(m, S)[0].covariance - quiet.forward(m, S)[0].covariance
    np.testing.assert_allclose(difference, np.diag(noise), atol=1e-10)
    np.testing.assert_allclose(loud.predict(m[:2], m[2:])[1] - quiet.predict(m[:2], m[2:])[1], noise)


def test_batches_of_distributions_are_rows(pole):
    pairs = [joint(pole, seed) for seed in range(3)]
    m, S = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    together, cache = pole.forward(m, S)
    d_mean, d_cov = np.ones((3, 4)), np.ones((3, 4, 4))
    d_m, d_S = pole.pull(cache, d_mean, d_cov)
    for k in range(3):
        alone, own = pole.forward(m[k], S[k])
        np.testing.assert_allclose(together.covariance[k], alone.covariance)
        np.testing.assert_allclose(together.cross[k], alone.cross)
        one_m, one_S = pole.pull(own, d_mean[k], d_cov[k])
        np.testing.assert_allclose(d_m[k], one_m)
        np.testing.assert_allclose(d_S[k], one_S)


@pytest.mark.parametrize("model", SYSTEMS, ids=repr)
def test_derivatives_of_a_step_against_differences(model):
    rng = np.random.default_rng(2)
    m, S = joint(model)
    D, Z = model.state_size, len(m)
    a, B, C = rng.standard_normal(D), rng.standard_normal((D, D)), rng.standard_normal((Z, D))

    def value(m, S):
        r, _ = model.forward(m, S, check=False)
        return a @ r.mean + np.sum(B * r.covariance) + np.sum(C * r.cross)

    _, cache = model.forward(m, S)
    d_m, d_S = model.pull(cache, a, B, C)
    h = 1e-5
    numeric = [(value(m + e, S) - value(m - e, S)) / (2 * h) for e in h * np.eye(Z)]
    np.testing.assert_allclose(d_m, numeric, rtol=1e-6, atol=1e-7)
    for i in range(Z):
        for j in range(i + 1):
            E = np.zeros((Z, Z))
            E[i, j] = E[j, i] = h
            slope = (value(m, S + E) - value(m, S - E)) / (2 * h)
            analytic = d_S[i, j] if i == j else 2 * d_S[i, j]
            assert analytic == pytest.approx(slope, rel=2e-6, abs=1e-6)


@pytest.mark.parametrize("model", SYSTEMS, ids=repr)
def test_derivatives_of_the_mean_against_differences(model):
    rng = np.random.default_rng(2)
    s, u = rng.standard_normal((4, model.state_size)), rng.standard_normal((4, model.action_size))
    w = rng.standard_normal(s.shape)
    _, cache = model.forward_mean(s, u)
    d_s, d_u = model.pull_mean(cache, w)
    h = 1e-6
    for k in range(model.state_size):
        e = h * np.eye(model.state_size)[k]
        slope = np.sum(w * (model.step(s + e, u) - model.step(s - e, u)), axis=1) / (2 * h)
        np.testing.assert_allclose(d_s[:, k], slope, rtol=1e-6, atol=1e-7)
    slope = np.sum(w * (model.step(s, u + h) - model.step(s, u - h)), axis=1) / (2 * h)
    np.testing.assert_allclose(d_u[:, 0], slope, rtol=1e-6, atol=1e-7)


# --- roll-outs ----------------------------------------------------------------------------------------------


def test_rollout_chains_steps(car):
    actions = np.array([[-2.0], [3.0], [1.0]])
    path = car.rollout(([-0.5, 0.0], [0.01, 0.02]), actions)
    assert isinstance(path, Rollout)
    mean, cov = np.array([-0.5, 0.0]), np.diag([0.01, 0.02])
    for t, a in enumerate(actions):
        S = np.zeros((3, 3))
        S[:2, :2] = cov
        result, _ = car.forward(np.append(mean, a), S)
        np.testing.assert_allclose(path.crosses[t], result.cross[:2])
        mean, cov = result.mean, result.covariance
        np.testing.assert_allclose(path.means[t + 1], mean)
        np.testing.assert_allclose(path.covariances[t + 1], cov)
    np.testing.assert_allclose(path.sds[0] ** 2, [0.01, 0.02])
    np.testing.assert_array_equal(path.actions, actions)
    assert len(car.rollout([0.0, 0.0], actions, 2).means) == 3


def test_mean_only_rollout_is_that_of_step(pole):
    actions = np.array([[1.0], [-1.0]])
    path = pole.rollout(np.zeros(4), actions, mean_only=True)
    np.testing.assert_allclose(path.means[2], pole.step(pole.step(np.zeros(4), [1.0]), [-1.0]))
    assert not path.covariances.any()
    with_policy = pole.rollout(np.zeros(4), lambda s: -s[..., :1], 2, mean_only=True)
    assert with_policy.means.shape == (3, 4)


class LinearPolicy:
    """u = K s + c, with exact moments."""

    def __init__(self, K, c=0.0):
        self.K, self.c = np.atleast_2d(K), c

    def __call__(self, s):
        return s @ self.K.T + self.c

    def forward(self, m, S):
        from cavity.control import OutputMoments

        gain = self.K.T
        return OutputMoments(self(m), self.K @ S @ self.K.T, gain, S @ gain), None


def test_policies_with_and_without_moments_agree_where_cubature_is_exact(car):
    policy = LinearPolicy([-1.0, -0.5], 0.3)
    start = ([-0.5, 0.1], [[0.02, 0.01], [0.01, 0.03]])
    exact = car.rollout(start, policy, 3)
    points = car.rollout(start, lambda s: policy(s), 3)
    np.testing.assert_allclose(points.means, exact.means, rtol=1e-10)
    np.testing.assert_allclose(points.covariances, exact.covariances, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(points.actions, exact.actions)


def test_maps_of_the_package_serve_as_policies():
    """A squashed state as action, with its exact moments, against Monte Carlo over one step."""
    model = quick(_OneState(), n=25, noise=0.1)
    policy = squash_map(1, [0], 2.0)
    start = ([0.4], [[0.09]])
    path = model.rollout(start, policy, 1)
    rng = np.random.default_rng(0)
    s = 0.4 + 0.3 * rng.standard_normal((300_000, 1))
    u = policy(s)
    assert path.actions[0, 0] == pytest.approx(u.mean(), abs=4 * u.std() / np.sqrt(len(u)))
    only = model.rollout(start, policy, 1, mean_only=True)
    np.testing.assert_allclose(only.actions[0], policy(np.array([0.4])))


class _OneState(MountainCar):
    """s' = s + 0.1 (a - s), for a quick model with one state."""

    def __init__(self):
        Problem.__init__(self, "tank", ["s"], ["a"], [[-1, 1]], [[-2, 2]], start=[0], goal=[0], dt=0.1)

    def step(self, states, actions):
        s, a = self._batch(states, actions)
        return s + 0.1 * (a - s)


def test_one_step_of_both_kinds_of_rollout_agree(car):
    """For one step there is no difference between moment matching and drawn functions."""
    start, action = ([-0.4, 0.3], [[0.02, -0.005], [-0.005, 0.05]]), [[2.0]]
    exact = car.rollout(start, action)
    size = 40_000
    drawn = car.sample_rollouts(start, action, size=size, rng=0)
    sd = exact.sds[1]
    assert (np.abs(drawn.means[1] - exact.means[1]) < 4 * sd / np.sqrt(size)).all()
    assert (
        np.abs(drawn.sds[1] / sd - 1) < 4 * 1.2 / np.sqrt(2 * size)
    ).all()  # kurtosis is near that of a Gaussian
    scale = np.sqrt(np.outer(np.diag(exact.covariances[0]), np.diag(exact.covariances[1])))
    assert (np.abs(drawn.crosses[0] - exact.crosses[0]) < 4 * np.sqrt(2) * scale / np.sqrt(size)).all()


def test_six_steps_agree_with_particles_that_share_the_assumption(learned):
    """Functions drawn anew at each step: means within 0.02, standard deviations within 10 % (engineering note)."""
    start = ([-0.5, 0.0], [1e-3, 1e-3])
    actions = np.array([[-4.0], [4.0], [4.0], [4.0], [2.0], [2.0]])
    matched = learned.rollout(start, actions)
    drawn = learned.sample_rollouts(start, actions, size=4000, rng=0, consistent=False)
    assert drawn.particles.shape == (7, 4000, 2)
    np.testing.assert_allclose(matched.means, drawn.means, atol=0.02)
    np.testing.assert_allclose(matched.sds, drawn.sds, rtol=0.1)


def test_consistent_functions_remember_where_they_were():
    """Standing still for n steps adds up the same error n times: an sd of n sd_1, and sqrt(n) sd_1 if drawn anew."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, 30), np.zeros(30), rng.uniform(-1, 1, 30)])
    y = 0.1 * rng.standard_normal(30)
    # the first state is driven by the action alone; the second, a clock of zeros, never moves
    models = [
        GPRegressor(
            height * kernels.SE([1e3, 1e3, 0.5]),
            mean="zero",
            likelihood=likelihoods.Gaussian(0.01),
            objective=None,
        ).fit(X, values)
        for height, values in ((0.2, y), (1e-12, 0 * y))
    ]
    model = Dynamics(models, Transitions(X[:, :2], X[:, 2:], X[:, :2] + np.column_stack([y, 0 * y])))
    actions, size = np.full((5, 1), 2.0), 4000
    one = np.sqrt(model.predict([0.0, 0.0], [2.0])[1][0])
    kept = model.sample_rollouts([0.0, 0.0], actions, size=size, rng=0).sds[-1, 0]
    anew = model.sample_rollouts([0.0, 0.0], actions, size=size, rng=0, consistent=False).sds[-1, 0]
    assert kept == pytest.approx(5 * one, rel=4 / np.sqrt(2 * size))
    assert anew == pytest.approx(np.sqrt(5) * one, rel=4 / np.sqrt(2 * size))
    assert model.rollout([0.0, 0.0], actions).sds[-1, 0] == pytest.approx(np.sqrt(5) * one, rel=1e-3)


def test_drawn_rollouts_of_certain_dynamics_are_deterministic():
    """With dense, nearly noise-free data every function is the same, and both kinds follow the system."""
    tank = _OneState()
    model = Dynamics.fit(Transitions.draw(tank, 40, rng=0), n_restarts=0, rng=0)
    actions = np.array([[1.0], [-1.0], [0.5]])
    drawn = model.sample_rollouts([0.2], actions, size=20, rng=0)
    s = np.array([0.2])
    for t, a in enumerate(actions):
        s = tank.step(s, a)
        np.testing.assert_allclose(drawn.means[t + 1], s, atol=1e-3)
        np.testing.assert_allclose(drawn.sds[t + 1], 0.0, atol=1e-3)


def test_policies_for_single_states_are_refused(car):
    """Indexed as for one state, a policy would give every roll-out the action of the first."""
    seen = Transitions(np.linspace(-1, 1, 20), np.linspace(-2, 2, 20) ** 2, np.linspace(-1, 1, 20))
    line = Dynamics.fit(seen, n_restarts=0, rng=0)

    def for_one(s):
        return np.array([-2.0 * s[0]])

    start = ([0.5], [0.1])
    for roll in (line.rollout, line.sample_rollouts):
        with pytest.raises(
            ValueError, match=r"policy must map states of shape .* row by row, but gave \(1, 1\)"
        ):
            roll(start, for_one, 2)
        roll(start, lambda s: -2.0 * s[..., 0], 2)  # one action: a column or a vector
    rows = line.sample_rollouts(start, lambda s: -2.0 * s, 2, size=5, rng=0)
    vector = line.sample_rollouts(start, lambda s: -2.0 * s[..., 0], 2, size=5, rng=0)
    np.testing.assert_array_equal(rows.particles, vector.particles)


def test_counts_of_rollouts_are_checked(car):
    for wrong in (-3, 2.7):
        with pytest.raises(ValueError, match=f"horizon must be an integer >= 0.*got {wrong}"):
            car.rollout([0.0, 0.0], lambda s: s[..., :1], wrong)
    with pytest.raises(ValueError, match=r"size must be an integer >= 2.*got 1"):
        car.sample_rollouts([0.0, 0.0], [[0.0]], size=1)
    with pytest.raises(ValueError, match="transitions are empty"):
        Dynamics.fit(car.transitions[:0])


def test_policies_in_drawn_rollouts(car):
    policy = LinearPolicy([-1.0, -0.5])
    drawn = car.sample_rollouts(([-0.5, 0.0], [0.01, 0.01]), policy, 2, size=50, rng=0)
    np.testing.assert_allclose(drawn.actions[0], policy(drawn.particles[0]).mean(axis=0))
    loud = Dynamics(car.models, car.transitions, noise=True)
    more = loud.sample_rollouts([-0.5, 0.0], [[0.0]], size=20000, rng=0).sds[1]
    quiet = car.sample_rollouts([-0.5, 0.0], [[0.0]], size=20000, rng=0).sds[1]
    noise = np.array([m.likelihood_.flat[0] for m in car.models])
    np.testing.assert_allclose(more**2 - quiet**2, noise, rtol=0.1)


# --- functions drawn one point at a time --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "mean", "noise"),
    [
        (1.0 * kernels.SE(0.8), "zero", "gaussian"),
        (1.0 * kernels.SE(0.8) + kernels.Linear(0.5), "constant", "gaussian"),
        (1.0 * kernels.Matern(1.0, nu=2.5), "linear", "gaussian"),
        (1.0 * kernels.SE(0.8), "zero", "student-t"),
    ],
)
def test_drawn_functions_have_the_posterior_covariance(kernel, mean, noise):
    """All functions at the same points: mean and covariance are those of the posterior process."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (15, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(15)
    y[3] += 3.0
    noise = likelihoods.Gaussian(0.04) if noise == "gaussian" else noise
    model = GPRegressor(kernel, mean=mean, likelihood=noise, objective=None).fit(X, y)
    process, size = model.posterior_.process, 20_000
    draws = FunctionDraws(process, size, 4)
    points = np.array([[0.1], [0.15], [2.5], [0.1]])
    values = np.column_stack([draws.at(np.tile(p, (size, 1)), rng) for p in points])
    cov = process.covariance(points[:3])
    sd = np.sqrt(np.diag(cov))
    assert (np.abs(values[:, :3].mean(axis=0) - process.mean(points[:3])) < 4 * sd / np.sqrt(size)).all()
    allowed = 4 * np.sqrt((np.outer(sd, sd) ** 2 + cov**2) / size)
    assert (np.abs(np.cov(values[:, :3].T) - cov) < allowed).all()
    np.testing.assert_allclose(values[:, 3], values[:, 0], atol=1e-5)  # the same point, the same value


def test_window_errors_need_trajectories_long_enough(car):
    short = Trajectory(np.zeros((2, 2)), np.zeros((1, 1)), 0.2)
    with pytest.raises(ValueError, match="horizons"):
        car.report(trajectories=[short], horizons=[2])
