"""Planning and policy search: mountain car, cart-pole and pendulum (Kuss, 2006, 7.4; Deisenroth and Rasmussen, 2011).

A seed is an independent set of random transitions or, from scratch, of everything that is random: the first episode,
the starts of episodes, what is drawn from the model, the policies the search begins with. Every method of planning is
also run with the exact dynamics in place of the model, once: that separates what the planner cannot do from what the
model cannot do. Criteria of success are those of the problems: the car within 0.1 of its goal from 4.2 s to 8.1 s,
the pole upright from 5 s to 12 s, the pendulum within 0.2 rad of upright from 3 s to 4 s.

Learning from scratch ends when a policy succeeds from ten test starts, which are the same for all seeds and are never
learned from: the pendulum within 0.2 rad of upright from 3 s to 4 s, the pole within 0.5 rad of upright and the cart
within 1 m from 2.5 s to 4 s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cavity.control.dynamics.model import Dynamics
from cavity.control.dynamics.transitions import Transitions
from cavity.control.losses import Loss, QuadraticLoss, SaturatingLoss, TaylorLoss, tip_distance
from cavity.control.planning import (
    CART_POLE,
    CART_POLE_MOMENTS,
    ControlledRun,
    Planner,
    PlannerSettings,
    cart_pole_loss,
    receding_horizon,
)
from cavity.control.policies import Policy
from cavity.control.policy_search import learn_policy
from cavity.control.problems import CartPole, MountainCar, Pendulum, System, Trajectory, animation
from cavity.control.risk import ExactModel
from cavity.studies.base import Cell, Outcome, Published, Results, Study, Target
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
    """Learning from scratch, one cell for each seed."""
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


SEEDS = 20


@dataclass(frozen=True)
class Method:
    """A way to plan.

    Attributes
    ----------
    loss : str
        "saturating", "quadratic" or "taylor" (the expansion (7.57)).
    transitions : int
        Zero for the exact dynamics.
    printed : bool
        The model as in the thesis: angles themselves, a mean of zero, for the car also next states as targets.
    seeds : int
    """

    settings: PlannerSettings
    loss: str = "saturating"
    transitions: int = 200
    printed: bool = False
    seeds: int = SEEDS


# --- mountain car -------------------------------------------------------------------------------------------

CAR = PlannerSettings(horizon=6, candidates=150, evaluations=20, correction=0.1)
CAR_MOMENTS = replace(CAR, moment_matching=True, compared=3, polish=10)
CAR_STEPS = 27
"""Of 0.3 s: 8.1 s."""

CAR_METHODS = {
    "planning, means": Method(CAR, transitions=50),
    "planning, moment matching": Method(CAR_MOMENTS, transitions=50),
    "planning, means, quadratic, gamma 2": Method(
        replace(CAR, horizon=5, discount=2.0, correction=0.0), "quadratic", transitions=50
    ),
    "planning, as printed": Method(
        replace(CAR_MOMENTS, horizon=5, correction=0.0), "quadratic", transitions=50, printed=True, seeds=10
    ),
    "planning, exact dynamics": Method(replace(CAR, candidates=60), transitions=0, seeds=1),
    "planning, as printed, exact dynamics": Method(
        replace(CAR, horizon=5, candidates=60), "quadratic", transitions=0, seeds=1
    ),
}


def drive(name: str, seed: int) -> Outcome:
    """One method of planning for the mountain car, on one set of transitions."""
    car, method = MountainCar(dt=0.3), CAR_METHODS[name]
    quadratic = QuadraticLoss.around(car.goal, [1.0, 0.1])
    loss: Loss = SaturatingLoss(quadratic, 0.3) if method.loss == "saturating" else quadratic
    # fewer steps of integration do for the planner; the car itself is integrated as finely as ever
    model: Any = ExactModel(MountainCar(dt=0.3, substeps=6))
    if method.transitions:
        seen = Transitions.draw(car, method.transitions, rng=seed)
        printed: dict[str, Any] = {"target": "next", "mean": "zero"} if method.printed else {}
        model = Dynamics.fit(seen, problem=car, rng=seed, **printed)
    run = receding_horizon(car, Planner(model, loss, method.settings, problem=car, rng=seed), CAR_STEPS)
    states = run.trajectory.states
    measures = {
        "success": float(car.holds_goal(states, 4.2, 8.1)),
        "off the goal": float(np.abs(states[-14:, 0] - car.goal[0]).mean()),
    }
    return _outcome(run, measures)


def _outcome(run: ControlledRun, measures: dict[str, float]) -> Outcome:
    """These measures with the time of decisions, and what pictures need."""
    times = {
        "decision, ms": float(np.median(run.milliseconds)),
        "decision, CPU ms": float(np.median(run.cpu_milliseconds)),
    }
    path = run.trajectory
    return Outcome(measures | times, {"states": path.states, "actions": path.actions, "risks": run.risks})


def planning_cells(quick: bool) -> list[Cell]:
    """Planning for the mountain car, to go with the other methods for it."""
    return _cells(CAR_METHODS, drive, quick, 2, tuple(CAR_METHODS)[:2])


def draw_planning(results: Results, folder: Path) -> list[Path]:
    """Figure 7.10 and an animation."""
    labels = ["position, m", "velocity, m/s", "force, N (dashed: bounds)"]

    def mark(axes: list[Any]) -> None:
        axes[0].axhspan(0.5, 0.7, color=COLORS[2], alpha=0.2, linewidth=0, label="goal")
        axes[0].legend(frameon=False, fontsize=8, loc="lower right")
        _lines(axes[2], (-4, 4), "--")

    title = "Mountain car: planning with moment matching, one line for each data set"
    return _draw_paths(results, folder, MountainCar(dt=0.3), labels, mark, title, ("7_10", "mountain_car"))


def _draw_paths(
    results: Results,
    folder: Path,
    system: Any,
    labels: list[str],
    mark: Any,
    title: str,
    names: tuple[str, str],
) -> list[Path]:
    """States, actions and risks of all data sets over time, and an animation of the first."""
    method = "planning, moment matching"
    first = results.arrays(seed=0, method=method)
    if "states" not in first:
        return []
    figure, axes = new_panels(2, (len(labels) + 1) // 2)
    for found in arrays_of(results, method):
        t = system.dt * np.arange(len(found["states"]))
        columns = [*found["states"].T[: system.state_size], found["actions"][:, 0], found["risks"]]
        for axis, values in zip(axes, columns):
            # states move between decisions, actions and plans are held
            held = {"drawstyle": "steps-post"} if len(values) < len(t) else {}
            axis.plot(t[: len(values)], values, color=COLORS[0], alpha=0.5, linewidth=1.0, **held)
    for axis, label in zip(axes, [*labels, "expected cumulated loss"]):
        axis.set(xlabel="seconds", ylabel=label)
    mark(axes)
    figure.suptitle(title, fontsize=10)
    path = Trajectory(first["states"], first["actions"], system.dt)
    film = animation(system, path, folder / f"{names[1]}_planning.gif")
    return [save(figure, folder / f"figure_{names[0]}.png"), film]


def _lines(axis: Any, levels: Any, style: str) -> None:
    for level in levels:
        axis.axhline(level, color="black", linestyle=style, linewidth=0.8)


def _cells(
    methods: dict[str, Method], function: Any, quick: bool, quick_seeds: int, quick_methods: tuple[str, ...]
) -> list[Cell]:
    """Seed by seed, so that a stopped run has whole seeds of all methods."""
    work = [
        (name, seed)
        for seed in range(quick_seeds if quick else SEEDS)
        for name, method in methods.items()
        if seed < method.seeds and (not quick or name in quick_methods)
    ]
    return [Cell({"seed": s, "method": m}, function, {"name": m, "seed": s}) for m, s in work]


# --- cart-pole ----------------------------------------------------------------------------------------------

POLE_STEPS = 60
"""Of 0.2 s: 12 s."""

PRINTED = PlannerSettings(horizon=5, moment_matching=True)

POLE_METHODS = {
    "planning, means": Method(CART_POLE),
    "planning, moment matching": Method(CART_POLE_MOMENTS),
    "planning, means, 100 transitions": Method(CART_POLE, transitions=100),
    "planning, moment matching, 100 transitions": Method(CART_POLE_MOMENTS, transitions=100),
    "planning, as printed": Method(PRINTED, "taylor", printed=True, seeds=10),
    "planning, exact dynamics": Method(replace(CART_POLE, candidates=100), transitions=0, seeds=1),
}


def swing_up(name: str, seed: int) -> Outcome:
    """One method of planning for the cart-pole, on one set of transitions."""
    pole, method = CartPole(), POLE_METHODS[name]
    loss: Loss = cart_pole_loss(pole)
    if method.loss == "taylor":
        loss = TaylorLoss(tip_distance(pole))
    model: Any = ExactModel(CartPole(substeps=5))
    if method.transitions:
        seen = Transitions.draw(pole, method.transitions, rng=seed)
        printed: dict[str, Any] = {"angles": (), "mean": "zero"} if method.printed else {}
        model = Dynamics.fit(seen, problem=pole, rng=seed, **printed)
    planner = Planner(model, loss, method.settings, problem=pole, wrap=method.printed, rng=seed)
    run = receding_horizon(pole, planner, POLE_STEPS)
    states = run.trajectory.states
    tip = pole.tip_distance(states)
    measures = {
        "success": float(pole.holds_goal(states)),
        "success from 7 s": float(pole.holds_goal(states, 7.0)),
        "up since, s": min(pole.up_since(states), 99.0),
        "tip at the end, cm": 100.0 * float(tip[-1]),
        "tip within 1 cm": float(tip[-1] < 0.01),
        "tip from 8 s, cm": 100.0 * float(tip[-21:].mean()),
    }
    return _outcome(run, measures)


def cart_pole_cells(quick: bool) -> list[Cell]:
    """Planning with 200 and 100 transitions, then policy search."""
    out = _cells(POLE_METHODS, swing_up, quick, 1, tuple(POLE_METHODS)[:2])
    return out if quick else out + search_cells("cart-pole", 10)


def draw_cart_pole(results: Results, folder: Path) -> list[Path]:
    """Figure 7.11, learning curves and animations."""
    pole = CartPole()
    units = ("m", "m/s", "rad (upright: dotted)", "rad/s", "N")
    labels = [f"{name}, {unit}" for name, unit in zip((*pole.state_names, "force"), units)]

    def mark(axes: list[Any]) -> None:
        ends = [*zip(pole.state_low, pole.state_high), (-4.0, 4.0)]
        for k in (0, 1, 3, 4):  # the angle has no ends
            _lines(axes[k], ends[k], "--")
        _lines(axes[2], (-np.pi, np.pi), ":")

    title = (
        "Cart-pole: planning with moment matching, one line for each data set "
        "(dashed: region of the data, bounds of the force)"
    )
    paths = _draw_paths(results, folder, pole, labels, mark, title, ("7_11", "cart_pole"))
    return paths + draw_search(results, folder, "cart-pole")


# --- pendulum -----------------------------------------------------------------------------------------------


PENDULUM = PlannerSettings(horizon=12, correction=0.1)


def lift(name: str, seed: int) -> Outcome:
    """Planning for the pendulum with means, from 50 random transitions."""
    pendulum = Pendulum()
    model = Dynamics.fit(Transitions.draw(pendulum, 50, rng=seed), problem=pendulum, rng=seed)
    loss = SaturatingLoss(tip_distance(pendulum, speed=0.1), 0.5)
    run = receding_horizon(pendulum, Planner(model, loss, PENDULUM, rng=seed), 40)
    states = run.trajectory.states
    measures = {
        "success": float(pendulum.holds_goal(states)),
        "off upright at the end": float(pendulum.off_upright(states)[-1]),
    }
    return _outcome(run, measures)


def pendulum_cells(quick: bool) -> list[Cell]:
    """Planning from random transitions, and policy search from scratch."""
    name = "planning, means, 50 transitions"
    work = range(1 if quick else SEEDS)
    out = [Cell({"seed": s, "method": name}, lift, {"name": name, "seed": s}) for s in work]
    return out + search_cells("pendulum", 1 if quick else 10, quick)


def draw_pendulum(results: Results, folder: Path) -> list[Path]:
    """Learning curves and an animation."""
    return draw_search(results, folder, "pendulum")


# --- what the results tell ------------------------------------------------------------------------------------


def remarks(results: Results) -> list[str]:
    """Successes of each method and the seeds that failed."""
    out = []
    for name, group in results.frame.groupby("method", sort=False):
        failed = group.loc[group["success"] == 0, "seed"].astype(int).tolist()
        line = f"{name}: {int(group['success'].sum())} of {len(group)}"
        out.append(line + (f", not with seeds {', '.join(map(str, failed))}" if failed else ""))
    return out


STUDIES = {
    "cart-pole": Study(
        "cart-pole",
        "Cart-pole swing-up: planning with learned dynamics, and a policy learned from scratch",
        "thesis 7.4.2, figure 7.11; Deisenroth and Rasmussen (2011) for policy search",
        cart_pole_cells,
        measures=(
            "success",
            "success from 7 s",
            "up since, s",
            "tip at the end, cm",
            "tip within 1 cm",
            "decision, CPU ms",
            "episodes",
            "seconds of experience",
        ),
        published=(
            Published({"method": "planning, as printed"}, "up since, s", 4.0, "figure 7.11"),
            Published({"method": "policy search"}, "episodes", 11.0, "Deisenroth and Rasmussen (2011)"),
            Published({"method": "policy search"}, "seconds of experience", 22.0),
        ),
        targets=(
            Target({"method": "planning, means"}, "success", ">=", 0.95),
            Target({"method": "planning, moment matching"}, "success", ">=", 0.95),
            Target({"method": "planning, means, 100 transitions"}, "success", ">=", 0.9),
            Target({"method": "planning, moment matching, 100 transitions"}, "success", ">=", 0.9),
            Target({"method": "planning, means"}, "decision, CPU ms", "<=", 50.0),
            Target({"method": "planning, moment matching"}, "decision, CPU ms", "<=", 200.0),
        ),
        draw=draw_cart_pole,
        remarks=remarks,
        quick_note="It plans for one set of transitions and learns nothing from scratch.",
    ),
    "pendulum": Study(
        "pendulum",
        "Pendulum-v1: planning with learned dynamics, and a policy learned from scratch",
        "Gymnasium's Pendulum-v1; Deisenroth and Rasmussen (2011) for policy search",
        pendulum_cells,
        measures=(
            "success",
            "off upright at the end",
            "decision, CPU ms",
            "episodes",
            "seconds of experience",
        ),
        targets=(Target({"method": "policy search"}, "success", ">=", 0.9),),
        draw=draw_pendulum,
        remarks=remarks,
        quick_note="It has one seed, and at most three policy episodes.",
    ),
}
