"""Finite decision processes: exact solutions against linear programming, learners against exact solutions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from cavity.control.mdp import (
    MDP,
    DirichletModel,
    Rate,
    dyna,
    evaluate,
    from_gymnasium,
    greedy,
    grid_world,
    linear_program,
    policy_iteration,
    q_learning,
    q_values,
    random_walk,
    sarsa,
    td,
    value_iteration,
)

GRID = ["...G", ".#.X", "S..."]


def random_mdp(seed=0, S=6, A=3, gamma=0.9, ending=0.0):
    rng = np.random.default_rng(seed)
    T = (1 - ending) * rng.dirichlet(np.ones(S), size=(S, A))
    return MDP(T, rng.standard_normal((S, A, S)), gamma, end_rewards=rng.standard_normal((S, A)))


def toy(name, **options):
    gymnasium = pytest.importorskip("gymnasium")
    try:
        return gymnasium.make(name, **options)
    except gymnasium.error.Error:
        pytest.skip(f"this Gymnasium has no {name}")


# --- exact solutions ----------------------------------------------------------------------------------------


def test_values_of_a_policy_against_long_simulation_by_matrix_powers():
    """v = sum_t gamma^t T^t r, summed up to where nothing is left."""
    mdp = random_mdp(ending=0.1)
    rng = np.random.default_rng(1)
    policy = rng.dirichlet(np.ones(3), size=6)
    T = np.einsum("sa,sak->sk", policy, mdp.transitions)
    r = np.einsum("sa,sak,sak->s", policy, mdp.transitions, mdp.rewards)
    r += np.einsum("sa,sa,sa->s", policy, mdp.end, mdp.end_rewards)
    total, term = np.zeros(6), r
    for _ in range(400):
        total, term = total + term, mdp.gamma * T @ term
    v = evaluate(mdp, policy)
    np.testing.assert_allclose(v, total, rtol=1e-12)
    np.testing.assert_allclose((policy * q_values(mdp, v)).sum(axis=1), v)  # (7.8)


def best_of_all_policies(mdp):
    """Values of the best deterministic policies, by trying every one under which episodes end."""
    best = np.full(mdp.states, -np.inf)
    for actions in itertools.product(range(mdp.actions), repeat=mdp.states):
        try:
            best = np.maximum(best, evaluate(mdp, np.array(actions)))
        except ValueError:  # one that goes round in circles
            continue
    return best


def detours(seed):
    """Five states without a discount: free moves between them, and ways out of two of them with different rewards."""
    rng = np.random.default_rng(seed)
    T, R = np.zeros((5, 3, 5)), np.zeros((5, 3))
    for s, a in itertools.product(range(5), range(3)):
        T[s, a, rng.integers(5)] += 0.5
        T[s, a, rng.integers(5)] += 0.5
    T[3, 1] = T[4, 2] = 0.0
    R[3, 1], R[4, 2] = 0.7, 1.0
    return MDP(T, R, gamma=1.0)


@pytest.mark.parametrize("seed", range(6))
def test_without_a_discount_policies_end_and_earn_their_values(seed):
    """Moves in circles cost nothing here: each of them looks as good as the way out that it puts off for ever."""
    mdp = detours(seed)
    best = best_of_all_policies(mdp)
    for solution in (value_iteration(mdp), policy_iteration(mdp)):
        np.testing.assert_allclose(solution.values, best, atol=1e-8)
        np.testing.assert_allclose(evaluate(mdp, solution.policy), best, atol=1e-8)


@pytest.mark.parametrize("mdp", [random_walk(5), grid_world(GRID, slip=0.2, step_reward=0.0, gamma=1.0)])
def test_policies_of_value_iteration_earn_what_it_promises(mdp):
    solution = value_iteration(mdp)
    np.testing.assert_allclose(evaluate(mdp, solution.policy), solution.values, atol=1e-8)


def test_all_ways_equally_good_is_no_reason_to_stay():
    """Two states, each with a free move to the other and an exit worth one."""
    mdp = MDP([[[0, 1], [0, 0]], [[1, 0], [0, 0]]], [[0, 1], [0, 1]], gamma=1.0)
    np.testing.assert_array_equal(policy_iteration(mdp).policy, [1, 1])


@pytest.mark.parametrize("unit", [1e-14, 1e-9, 1e9])
def test_solutions_do_not_depend_on_the_unit_of_rewards(unit):
    mdp = random_mdp(ending=0.1)
    scaled = MDP(mdp.transitions, unit * mdp.rewards, mdp.gamma, end_rewards=unit * mdp.end_rewards)
    known = best_of_all_policies(mdp)
    np.testing.assert_allclose(linear_program(scaled), unit * known, rtol=1e-8)
    for solution in (policy_iteration(scaled), value_iteration(scaled)):
        assert solution.converged
        np.testing.assert_allclose(solution.values, unit * known, rtol=1e-8)
        np.testing.assert_allclose(evaluate(mdp, solution.policy), known, rtol=1e-10)


def test_random_walk_has_the_published_values():
    walk = random_walk(5)
    np.testing.assert_allclose(evaluate(walk, walk.uniform_policy()), np.arange(1, 6) / 6)


@pytest.mark.parametrize(
    "mdp",
    [
        random_mdp(0),
        random_mdp(1, 12, 4, 0.99, 0.05),
        grid_world(GRID, slip=0.2),
        grid_world(GRID, gamma=1.0),
    ],
)
def test_all_exact_solutions_agree_with_the_linear_program(mdp):
    S, A = mdp.states, mdp.actions
    # written out here once more: min sum v, v(s) >= E r + gamma T v
    rows = [mdp.gamma * mdp.transitions[s, a] - np.eye(S)[s] for s in range(S) for a in range(A)]
    right = [-mdp.expected_rewards[s, a] for s in range(S) for a in range(A)]
    optimal = linprog(np.ones(S), rows, right, bounds=(None, None)).x
    np.testing.assert_allclose(linear_program(mdp), optimal, atol=1e-8)
    by_policies, by_values = policy_iteration(mdp), value_iteration(mdp)
    assert by_policies.converged
    assert by_values.converged
    np.testing.assert_allclose(by_policies.values, optimal, atol=1e-8)
    np.testing.assert_allclose(by_values.values, optimal, atol=1e-8)
    np.testing.assert_allclose(q_values(mdp, by_policies.values).max(axis=1), by_policies.values, atol=1e-10)
    np.testing.assert_allclose(evaluate(mdp, by_values.policy), optimal, atol=1e-8)
    again = policy_iteration(mdp, by_policies.policy)
    np.testing.assert_array_equal(again.policy, by_policies.policy)
    assert by_policies.iterations < 15


def test_no_deterministic_policy_is_better():
    """Enumeration of all policies of a small process."""
    mdp = random_mdp(3, S=4, A=2)
    best = policy_iteration(mdp).values
    every = [evaluate(mdp, np.array(p)) for p in np.ndindex(2, 2, 2, 2)]
    np.testing.assert_allclose(np.max(every, axis=0), best, atol=1e-12)


def test_value_iteration_keeps_its_bound():
    mdp = random_mdp(0)
    exact = policy_iteration(mdp).values
    rough = value_iteration(mdp, tolerance=1e-2)
    assert np.abs(rough.values - exact).max() <= rough.error <= 1e-2
    stopped = value_iteration(mdp, max_iterations=3)
    assert not stopped.converged
    assert stopped.iterations == 3
    assert np.abs(stopped.values - exact).max() <= stopped.error
    few = policy_iteration(mdp, np.zeros(6, dtype=int), max_iterations=1)
    assert not few.converged
    warm = value_iteration(mdp, exact)
    assert warm.iterations == 1


def test_greedy_takes_the_first_of_equals():
    np.testing.assert_array_equal(greedy([[1.0, 1.0 + 1e-14, 0.0], [0.0, 2.0, 1.0]]), [0, 1])


# --- worlds -------------------------------------------------------------------------------------------------


def test_grid_world_by_hand():
    world = grid_world([".G"], slip=0.2, step_reward=-0.1, goal_reward=2.0, gamma=0.9)
    assert world.states == 1
    # right: 0.8 into the goal, the sides (up, down) stay; left: stays; up and down: 0.1 into the goal
    np.testing.assert_allclose(world.end, [[0.0, 0.1, 0.8, 0.1]])
    np.testing.assert_allclose(world.expected_rewards, [[-0.1, 0.9 * -0.1 + 0.2, 1.6 - 0.02, 0.11]])
    v = policy_iteration(world).values[0]
    assert v == pytest.approx(1.58 / (1 - 0.9 * 0.2))


def test_grid_world_without_slip_counts_steps():
    world = grid_world(["S..G"], step_reward=-1.0, goal_reward=0.0, gamma=1.0)
    np.testing.assert_allclose(policy_iteration(world).values, [-2.0, -1.0, 0.0])
    np.testing.assert_array_equal(world.start, [1.0, 0.0, 0.0])


def test_frozen_lake():
    """The best chance to cross the slippery lake, known to be 0.8235 without discount, and the linear program."""
    env = toy("FrozenLake-v1", is_slippery=True)
    mdp = from_gymnasium(env, gamma=1.0)
    best = value_iteration(mdp, tolerance=1e-13)
    assert best.values[0] == pytest.approx(14 / 17, abs=1e-6)
    discounted = from_gymnasium(env, gamma=0.99)
    solved = policy_iteration(discounted)
    np.testing.assert_allclose(solved.values, linear_program(discounted), atol=1e-8)
    assert solved.values[0] == pytest.approx(0.5420, abs=1e-4)
    assert discounted.start[0] == 1.0


def test_cliff_walking():
    """Thirteen steps along the edge of the cliff."""
    mdp = from_gymnasium(toy("CliffWalking-v1"), gamma=1.0)
    best = value_iteration(mdp)
    assert best.values[36] == pytest.approx(-13.0)
    solved = policy_iteration(mdp)
    np.testing.assert_allclose(solved.values, best.values, atol=1e-9)
    # the goal is where episodes end; from all other states the linear program has the same values
    discounted = from_gymnasium(toy("CliffWalking-v1"), gamma=0.9)
    np.testing.assert_allclose(policy_iteration(discounted).values, linear_program(discounted), atol=1e-7)


# --- learning -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trace", "traces"), [(0.0, "replacing"), (0.7, "replacing"), (0.7, "accumulating"), (1.0, "replacing")]
)
def test_td_finds_the_values_of_the_random_walk(trace, traces):
    walk = random_walk(5)
    rate = Rate(0.7, scale=0.5, offset=10)
    found = td(walk, walk.uniform_policy(), 4000, trace=trace, traces=traces, rate=rate, agents=100, rng=0)
    truth = np.arange(1, 6) / 6
    assert found.steps == 4000
    assert found.episodes > 0
    assert (np.abs(found.mean - truth) < 4 * found.standard_error).all()
    assert (found.standard_error < 0.01).all()
    early = td(walk, walk.uniform_policy(), 100, trace=trace, traces=traces, rate=rate, agents=100, rng=0)
    assert np.abs(early.tables - truth).mean() > 2 * np.abs(found.tables - truth).mean()


def test_one_step_of_td_by_hand():
    chain = MDP([[[0.0, 1.0]], [[0.0, 0.0]]], [[2.0], [3.0]], gamma=0.5, start=[1.0, 0.0])
    # s0 -> s1 (reward 2) -> end (reward 3), rate 0.5: after two steps V = (1, 1.5); traces send 0.5 * 0.8 of the
    # second error back to the first state
    plain = td(chain, np.zeros(2, dtype=int), 2, rate=0.5, rng=0)
    np.testing.assert_allclose(plain.tables, [[1.0, 1.5]])
    np.testing.assert_allclose(plain.reward, 2.5)
    assert plain.episodes == 1
    assert np.isinf(plain.standard_error).all()
    traced = td(chain, np.zeros(2, dtype=int), 2, trace=0.8, rate=0.5, rng=0)
    np.testing.assert_allclose(traced.tables, [[1.0 + 0.5 * 3.0 * 0.4, 1.5]])
    third = td(chain, np.zeros(2, dtype=int), 3, trace=0.8, rate=0.5, rng=0)  # traces ended with the episode
    np.testing.assert_allclose(third.tables[0, 1], 1.5)
    np.testing.assert_allclose(third.tables[0, 0], 1.6 + 0.5 * (2 + 0.5 * 1.5 - 1.6))


@pytest.mark.parametrize("trace", [0.0, 0.6])
def test_sarsa_evaluates_a_fixed_policy(trace):
    mdp = random_mdp(4, S=3, A=2, gamma=0.7, ending=0.1)
    policy = np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])
    truth = q_values(mdp, evaluate(mdp, policy))
    found = sarsa(
        mdp, 6000, policy=policy, trace=trace, rate=Rate(0.9, scale=0.5, offset=10), agents=100, rng=0
    )
    assert (np.abs(found.mean - truth) < 4 * found.standard_error).all()
    assert (found.standard_error < 0.02).all()


def soft_optimum(mdp, epsilon):
    """Values of the best epsilon-greedy policy: the fixed point of evaluation and soft improvement."""
    q = mdp.expected_rewards
    for _ in range(50):
        soft = (1 - epsilon) * np.eye(mdp.actions)[greedy(q)] + epsilon / mdp.actions
        q = q_values(mdp, evaluate(mdp, soft))
    return q


def test_sarsa_finds_the_best_exploring_policy():
    """Not the optimal values: those of the policy that keeps exploring, which Q-learning does not learn."""
    mdp = grid_world(["..G", "S.X"], step_reward=-0.1, gamma=0.9)
    truth, optimal = soft_optimum(mdp, 0.3), policy_iteration(mdp).q
    found = sarsa(mdp, 6000, epsilon=0.3, rate=Rate(0.8, offset=5), agents=50, rng=0)
    assert np.abs(found.mean - truth).max() < 0.03
    assert np.abs(truth - optimal).max() > 0.2
    np.testing.assert_array_equal(found.policy, greedy(truth))


@pytest.mark.parametrize("trace", [0.0, 0.7])
def test_q_learning_finds_optimal_values(trace):
    """Always exploring (epsilon = 1), it learns of the optimal policy, within Monte Carlo error."""
    mdp = grid_world(["..G", "..X"], slip=0.2, step_reward=-0.1, gamma=0.9)
    exact = policy_iteration(mdp)
    found = q_learning(mdp, 4000, epsilon=1.0, trace=trace, rate=Rate(0.8), agents=60, rng=0)
    assert (np.abs(found.mean - exact.q) < 4 * found.standard_error).all()
    assert (found.standard_error < 0.01).all()
    np.testing.assert_allclose(evaluate(mdp, found.policy), exact.values, atol=1e-9)
    followed = q_values(mdp, evaluate(mdp, mdp.uniform_policy()))
    assert np.abs(followed - exact.q).max() > 0.5  # what it would have learned about the policy it followed


def test_q_learning_on_the_frozen_lake():
    """Where three outcomes are equally likely, values are still too high, but the policy is already the best one."""
    lake = from_gymnasium(toy("FrozenLake-v1", is_slippery=True), gamma=0.95)
    anywhere = MDP(lake.transitions, lake.rewards, lake.gamma, lake.end_rewards)
    exact = policy_iteration(lake)
    found = q_learning(anywhere, 3000, epsilon=1.0, rate=Rate(0.65, offset=10), agents=40, rng=0)
    np.testing.assert_allclose(evaluate(lake, found.policy)[0], exact.values[0], rtol=1e-6)


def test_epsilon_and_rate_may_change_over_time():
    mdp = grid_world(["..G", "S.X"], step_reward=-0.1, gamma=0.9)
    found = sarsa(mdp, 4000, epsilon=lambda t: 1.0 / (1 + t / 200), rate=lambda n: n**-0.6, agents=20, rng=0)
    np.testing.assert_allclose(evaluate(mdp, found.policy), policy_iteration(mdp).values, atol=1e-3)


def test_seeds_make_runs_repeatable():
    mdp = grid_world(GRID, slip=0.1)
    one, same, other = (q_learning(mdp, 200, agents=3, rng=seed).tables for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


# --- models -------------------------------------------------------------------------------------------------


def test_dirichlet_model_counts_and_samples():
    model = DirichletModel(2, 2, prior=0.5, prior_reward=7.0)
    model.update([0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1.0, 3.0, 5.0, 9.0], [False, False, True, False])
    alpha = np.array([0.5, 2.5, 1.5])
    np.testing.assert_allclose(model.mean()[0, 1], alpha / 4.5)
    np.testing.assert_allclose(model.rewards()[0, 1], [7.0, 2.0, 5.0])
    mean, variance = alpha / 4.5, alpha * (4.5 - alpha) / (4.5**2 * 5.5)
    np.testing.assert_allclose(model.variance()[0, 1], variance)
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(2000):
        world = model.sample(0.9, rng)
        draws.append(np.append(world.transitions[0, 1], world.end[0, 1]))
    assert (np.abs(np.mean(draws, axis=0) - mean) < 4 * np.sqrt(variance / 2000)).all()
    assert (np.abs(np.var(draws, axis=0) / variance - 1) < 0.2).all()
    expected = model.expected(0.9)
    np.testing.assert_allclose(expected.end[0, 1], 1.5 / 4.5)
    np.testing.assert_allclose(expected.end_rewards[0, 1], 5.0)


def test_dyna_reaches_the_goal_more_often_than_q_learning():
    """A model spares most of the real steps to a good policy (Sutton and Barto, 1998, section 9.2)."""
    mdp = grid_world(["....#G", ".##.#.", "S.....", "...#.."], step_reward=0.0, gamma=0.95)
    assert policy_iteration(mdp).values @ mdp.start == pytest.approx(0.95**6)  # seven steps
    seeds = range(6)
    planned = [dyna(mdp, 600, planning=30, rate=0.5, rng=seed)[0].episodes for seed in seeds]
    direct = [q_learning(mdp, 600, rate=0.5, rng=seed).episodes for seed in seeds]
    assert sum(planned) > 3 * sum(direct)


def test_dyna_learns_model_and_values():
    mdp = grid_world(["..G", "S.X"], slip=0.2, step_reward=-0.1, gamma=0.9)
    learned, model = dyna(mdp, 3000, planning=10, epsilon=0.5, rng=0)
    assert learned.steps == 3000
    assert model.counts.sum() == 3000
    truth = np.concatenate([mdp.transitions, mdp.end[:, :, None]], axis=2)
    tried = model.counts.sum(axis=2) > 300
    assert np.abs((model.mean() - truth)[tried]).max() < 0.1
    np.testing.assert_allclose(evaluate(mdp, learned.policy), policy_iteration(mdp).values, atol=0.02)
    solved = policy_iteration(model.expected(0.9))
    assert np.abs(solved.values - policy_iteration(mdp).values).max() < 0.1
    alone, _ = dyna(mdp, 50, planning=0, rng=0)
    assert alone.visits.sum() == 50


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 0.5]], [[1.0]]), r"transitions must have shape \(S, A, S\), got \(1, 2\)"),
        (([[[1.5]]], [[1.0]]), "sum to at most one, got .* for state 0 and action 0"),
        (([[[-0.5]]], [[1.0]]), "must be probabilities"),
        (([[[np.nan]]], [[1.0]]), "must be probabilities"),
        (
            ([[[1.0]]], [[1.0, 2.0]]),
            r"rewards must be finite and of shape \(1, 1, 1\) or \(1, 1\), got \(1, 2\)",
        ),
        (([[[1.0]]], [[np.inf]]), "rewards must be finite"),
        (([[[1.0]]], [[1.0]], 1.1), "gamma must be between 0 and 1, got 1.1"),
        (([[[1.0]]], [[1.0]], 0.9, [1.0]), "end_rewards must be"),
        (([[[1.0]]], [[1.0]], 0.9, None, [0.5]), "start must be 1 probabilities"),
        (([[[1.0]]], [[1.0]], 0.9, None, [np.nan]), "start must be 1 probabilities"),
    ],
)
def test_wrong_tables_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MDP(*arguments)


def test_wrong_policies_and_options_are_refused():
    mdp = random_mdp()
    with pytest.raises(ValueError, match="actions from 0 to 2"):
        evaluate(mdp, np.full(6, 3))
    with pytest.raises(ValueError, match=r"probabilities of shape \(6, 3\)"):
        evaluate(mdp, np.ones(6))
    with pytest.raises(ValueError, match="sum to one in each state"):
        evaluate(mdp, np.ones((6, 3)))
    with pytest.raises(ValueError, match=r"values must have shape \(6,\)"):
        value_iteration(mdp, np.zeros(3))
    with pytest.raises(ValueError, match="max_iterations"):
        value_iteration(mdp, max_iterations=0)
    with pytest.raises(ValueError, match="trace must be between 0 and 1, got 2"):
        td(mdp, mdp.uniform_policy(), 10, trace=2)
    with pytest.raises(ValueError, match="traces must be one of"):
        td(mdp, mdp.uniform_policy(), 10, traces="fancy")
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        sarsa(mdp, 0)
    with pytest.raises(ValueError, match="agents must be an integer >= 1"):
        sarsa(mdp, 1, agents=0)
    with pytest.raises(ValueError, match="epsilon must be between 0 and 1, got -1"):
        q_learning(mdp, 10, epsilon=-1)
    with pytest.raises(ValueError, match="a rate needs"):
        q_learning(mdp, 10, rate=1.5)
    with pytest.raises(ValueError, match="planning must be an integer >= 0"):
        dyna(mdp, 10, planning=-1)
    with pytest.raises(ValueError, match="prior must be a positive"):
        DirichletModel(2, 2, prior=0.0)
    with pytest.raises(ValueError, match="name no actions"):
        _ = td(mdp, mdp.uniform_policy(), 10).policy
    with pytest.raises(ValueError, match="no table P"):
        from_gymnasium(object())
    for rows in ([], ["..", "."], ["?"], ["##"]):
        with pytest.raises(ValueError, match="rows must"):
            grid_world(rows)
    with pytest.raises(ValueError, match="slip must be"):
        grid_world(["."], slip=2)


def test_undiscounted_processes_must_end():
    circle = MDP([[[1.0]]], [[1.0]], gamma=1.0)
    with pytest.raises(ValueError, match=r"every episode must end.*first: 0"):
        evaluate(circle, [[1.0]])
    with pytest.raises(ValueError, match="no solution"):
        linear_program(circle)
    # one of two actions ends: both may be evaluated only where they end
    way_out = MDP([[[1.0], [0.0]]], [[-1.0, -1.0]], gamma=1.0)
    np.testing.assert_allclose(evaluate(way_out, np.array([1])), [-1.0])
    np.testing.assert_allclose(evaluate(way_out, [[0.5, 0.5]]), [-2.0])
    with pytest.raises(ValueError, match="never ends"):
        evaluate(way_out, np.array([0]))


def test_interrupted_learning_keeps_what_it_has():
    mdp = grid_world(GRID)

    def stop(visits):
        if visits.max() > 20:
            raise KeyboardInterrupt
        return np.full(visits.shape, 0.5)

    found = q_learning(mdp, 100_000, rate=stop, rng=0)
    assert 20 < found.steps < 5000
    assert np.isfinite(found.tables).all()
