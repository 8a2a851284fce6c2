"""Policies learned from scratch: pendulum and cart-pole (Deisenroth and Rasmussen, 2011).

A seed is of everything that is random: the first episode, the starts of episodes, what is drawn from the model, the
policies the search begins with. Learning ends when a policy succeeds from ten test starts, which are the same for all
seeds and are never learned from: the pendulum within 0.2 rad of upright from 3 s to 4 s, the pole within 0.5 rad of
upright and the cart within 1 m from 2.5 s to 4 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cavity.control.losses import Loss, SaturatingLoss, tip_distance
from cavity.control.policies import Policy
from cavity.control.policy_search import learn_policy
from cavity.control.problems import CartPole, Pendulum, System, Trajectory, animation
from cavity.studies.base import Cell, Outcome, Results
from cavity.studies.pictures import COLORS, new_panels, save


def arrays_of(results: Results, name: str) -> list[dict[str, Any]]:
    """States and the like of each seed of a method."""
    seeds = [r["labels"]["seed"] for r in results.records if r["labels"].get("method") == name]
    found = [results.arrays(seed=seed, method=name) for seed in seeds]
    return [one for one in found if "states" in one]


@dataclass(frozen=True)
class Search:
    """Learning from scratch: the system, the loss and the effort."""

    system: System
    loss: Loss
    steps: int
    episodes: int
    centers: int
    iterations: int
    start_sd: float
    first_horizon: int
    horizon: int


def _search(problem: str, quick: bool) -> Search:
    if problem == "pendulum":
        pendulum = Pendulum()
        loss = SaturatingLoss(tip_distance(pendulum, speed=0.1), 0.5)
        return Search(pendulum, loss, 40, 3 if quick else 8, 20, 50, 0.05, 40, 40)
    pole = CartPole(dt=0.1, force=10.0)
    return Search(pole, SaturatingLoss(tip_distance(pole), 0.25), 30, 14, 40, 60, 0.01, 25, 40)


def _holds(problem: str, system: Any, policy: Policy, sd: float, until: float = 4.0) -> float:
    """Share of ten starts from which a policy succeeds; none of them is learned from."""
    rng = np.random.default_rng(777)
    starts = system.start + sd * rng.standard_normal((10, system.state_size))
    since = 3.0 if problem == "pendulum" else 2.5
    paths = system.simulate(policy, round(until / system.dt), starts).states
    return float(np.mean([system.holds_goal(paths[:, k], since, until) for k in range(10)]))


def learn_from_scratch(problem: str, seed: int, quick: bool) -> Outcome:
    """A policy from nothing: one random episode, then policy episodes until all test starts succeed."""
    task = _search(problem, quick)
    found = learn_policy(
        task.system,
        task.loss,
        steps=task.steps,
        episodes=task.episodes,
        centers=task.centers,
        iterations=task.iterations,
        start_sd=task.start_sd,
        first_horizon=task.first_horizon,
        horizon=task.horizon,
        test=lambda policy: _holds(problem, task.system, policy, task.start_sd),
        stop=1.0,
        rng=seed,
    )
    shares = np.array([e.successes for e in found.episodes[1:]])
    episodes = _episodes(shares)
    measures = {
        "success": float(np.isfinite(episodes)),
        "episodes": episodes,
        "seconds of experience": float(episodes * task.steps * task.system.dt),
        # neither asked for nor learned for: roll-outs are of 4 s
        "holds to 10 s": _holds(problem, task.system, found.policy, task.start_sd, 10.0),
    }
    lived = task.system.simulate(found.policy, task.steps + 10)
    arrays = {
        "shares": shares,
        "losses": np.array([e.loss for e in found.episodes]),
        "predicted": np.array([e.predicted for e in found.episodes]),
        "theta": found.policy.theta,
        "states": lived.states,
        "actions": lived.actions,
    }
    return Outcome(measures, arrays)


def _episodes(shares: Any) -> float:
    """Episodes until all test starts were solved, the random one included; nan if they never were."""
    solved = np.flatnonzero(np.asarray(shares) >= 1.0)
    return float(solved[0] + 2) if len(solved) else float("nan")


def search_cells(problem: str, seeds: int, quick: bool = False) -> list[Cell]:
    """Learning from scratch for so many seeds."""
    return [
        Cell(
            {"seed": s, "method": "policy search"},
            learn_from_scratch,
            {"problem": problem, "seed": s, "quick": quick},
        )
        for s in range(seeds)
    ]


def draw_search(results: Results, folder: Path, problem: str) -> list[Path]:
    """Learning curves, and an animation of the policy that ends nearest to its goal."""
    curves = arrays_of(results, "policy search")
    if not curves:
        return []
    figure, axes = new_panels(1, 3)
    solved = []
    for k, found in enumerate(curves):
        look: Any = {"color": COLORS[k % len(COLORS)], "marker": "o", "markersize": 3, "linewidth": 1.0}
        axes[0].plot(np.arange(1, len(found["losses"]) + 1), found["losses"], **look)
        axes[1].plot(np.arange(2, len(found["shares"]) + 2), found["shares"], **look)
        solved.append(_episodes(found["shares"]))
    last = 1 + max(len(found["losses"]) for found in curves)
    counts = [np.mean(np.array(solved) <= e) for e in range(1, last + 1)]
    axes[2].step(np.arange(1, last + 1), counts, where="post", color="black")
    if problem == "cart-pole":
        axes[2].axvline(11, color="black", linestyle="--", linewidth=0.8, label="published")
        axes[2].legend(frameon=False)
    axes[0].set(xlabel="episode (the first is random)", ylabel="mean loss of the episode", ylim=(0, 1.02))
    axes[1].set(xlabel="episode", ylabel="share of ten test starts solved", ylim=(-0.02, 1.02))
    axes[2].set(xlabel="episode", ylabel="share of seeds that have solved all", ylim=(-0.02, 1.02))
    for axis in axes:
        axis.set_xlim(0.5, last + 0.5)
        axis.xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(f"Learning the {problem} from scratch, one line for each seed")
    out = [save(figure, folder / "learning_curves.png")]
    task = _search(problem, False)
    shown = min(curves, key=lambda found: float(np.mean(task.loss(found["states"][-10:]))))
    path = Trajectory(shown["states"], shown["actions"], task.system.dt)
    return [*out, animation(task.system, path, folder / f"{problem}_policy.gif")]
