"""Swing-up of the cart-pole at x = 0 with a value function: the task the thesis tried and could not solve (7.3.4).

300 random transitions of 0.2 s, |F| <= 4, the reward a Gaussian around x = 0 and theta = pi, as there. What is new: the
angle lives on the circle, both in the dynamics (sine and cosine) and in the value function; 13 x 15 x 30 x 19 support
points in place of at most 10 in each column; values projected onto what is possible; and of a few iterations the policy
is kept that earns most in a roll-out of the learned model. Success: upright, |x| < 1, at every step from 5 s to 12 s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cavity.control.dynamics.model import Dynamics
from cavity.control.dynamics.transitions import Transitions
from cavity.control.problems import CartPole, Trajectory, animation
from cavity.control.value_iteration import Angle, BumpReward, LargeGrid, Line, grid_policy_iteration
from cavity.studies.base import Cell, Outcome, Results, Study, Target
from cavity.studies.pictures import COLORS, new_panels, save

LOW, HIGH = (-1.4, -3.6, 0.0, -9.0), (1.4, 3.6, 2.0 * np.pi, 9.0)
SIZES = (13, 15, 30, 19)
TRANSITIONS, STEPS, SEEDS = 300, 60, 10
EXACT, LEARNED = "exact dynamics", "learned dynamics"
KINDS = {EXACT: COLORS[7], LEARNED: COLORS[0], "failed": COLORS[1]}
REWARD = BumpReward(
    [0.0, 0.0, np.pi, 0.0],
    [0.4, np.inf, 0.4, np.inf],
    [Line(LOW[0], HIGH[0]), Line(LOW[1], HIGH[1]), Angle(), Line(LOW[3], HIGH[3])],
)


def swing(method: str, seed: int, iterations: int) -> Outcome:
    """One value function, and 12 s of control with it."""
    pole = CartPole(dt=0.2, force=4.0)
    step: Any = CartPole(dt=0.2, force=4.0, substeps=5).step
    variance = None
    if method != EXACT:
        seen = Transitions.draw(pole, TRANSITIONS, rng=seed)
        dynamics = Dynamics.fit(seen, problem=pole, rng=seed)
        step, variance = dynamics.step, dynamics.report()["leave-one-out"].to_numpy() ** 2
    grid = LargeGrid(LOW, HIGH, SIZES, angles=[2], variance=variance)
    found = grid_policy_iteration(
        step, grid, REWARD, pole.action_bounds, iterations=iterations, start=pole.start
    )
    path = pole.simulate(found, STEPS)
    measures = {
        "success": float(pole.holds_goal(path.states)),
        "up since, s": pole.up_since(path.states),
        "tip error, m": float(pole.tip_distance(path.states[40:]).mean()),
        "farthest x": float(np.abs(path.states[:, 0]).max()),
        "largest value": float(found.values.max()),
        "earned in the model": max(found.earned),
    }
    return Outcome(measures, {"states": path.states, "actions": path.actions})


def cells(quick: bool) -> list[Cell]:
    """Exact dynamics once, then seed by seed."""
    iterations = 3 if quick else 4
    work = [(LEARNED, s) for s in range(1 if quick else SEEDS)]
    if not quick:
        work.insert(0, (EXACT, 0))
    return [
        Cell({"seed": s, "method": m}, swing, {"method": m, "seed": s, "iterations": iterations})
        for m, s in work
    ]


def draw(results: Results, folder: Path) -> list[Path]:
    """Angles, positions and forces over time, and an animation."""
    pole = CartPole(dt=0.2, force=4.0)
    figure, axes = new_panels(1, 3, width=3.4, height=2.7)
    finished = [record for record in results.records if not record["error"]]
    for record in sorted(finished, key=lambda r: r["labels"]["method"] == EXACT):  # drawn last, to be seen
        found = results.arrays(**record["labels"])
        time = pole.dt * np.arange(len(found["states"]))
        kind = record["labels"]["method"] if record["measures"]["success"] == 1 else "failed"
        look = {"color": KINDS[kind], "lw": 0.9, "alpha": 0.8, "label": kind}
        axes[0].plot(time, found["states"][:, 2], **look)
        axes[1].plot(time, found["states"][:, 0], **look)
        axes[2].step(time, np.append(found["actions"][:, 0], np.nan), where="post", **look)
    for turn in (-1, 1):
        axes[0].axhline(turn * np.pi, color="#999999", lw=0.8, ls=":")
    for axis, label in zip(axes, ("angle, rad (upright: dotted)", "position, m", "force, N")):
        axis.set(xlabel="seconds", ylabel=label)
    named = {line.get_label(): line for line in axes[1].lines}
    axes[1].legend(handles=list(named.values()), frameon=False, fontsize=8)
    out = [save(figure, folder / "trajectories.png")]
    first = results.arrays(seed=0, method=LEARNED)
    if "states" in first:
        path = Trajectory(first["states"], first["actions"], pole.dt)
        out.append(animation(pole, path, folder / "cart_pole_value.gif"))
    return out


STUDY = Study(
    "cart-pole-value",
    "Cart-pole: swing-up at x = 0 with a value function",
    "thesis 7.3.4, where it failed",
    cells,
    measures=(
        "success",
        "up since, s",
        "tip error, m",
        "farthest x",
        "largest value",
        "earned in the model",
    ),
    targets=(Target({"method": LEARNED}, "success", ">=", 0.9),),
    draw=draw,
    quick_note="One seed, three iterations.",
)
