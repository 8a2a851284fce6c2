"""Pictures of a system in a state, as arrays of pixels, and animations of trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.control.problems.cart_pole import CartPole
from cavity.control.problems.mountain_car import MountainCar
from cavity.control.problems.pendulum import Pendulum
from cavity.control.problems.problem import System, Trajectory
from cavity.numerics.arrays import Array
from cavity.runtime.progress import Progress

Pixels = NDArray[np.uint8]

INK, GROUND, BODY, ROD, TARGET, PUSH = "#222222", "#c9c4b8", "#3465a4", "#b4553a", "#3f9b4f", "#d39000"
"""Colors of outlines, track, cart, pole, goal and force."""

DPI = 100


def picture(
    system: System, state: ArrayLike, action: ArrayLike | None = None, title: str = "", width: int = 480
) -> Pixels:
    """The system in a state, with the force at work as an arrow.

    Parameters
    ----------
    system : MountainCar, CartPole or Pendulum
    state : array (D,)
    action : array (F,), optional
    title : str
        A line above the picture, for instance the time.
    width : int
        Pixels; the height is two thirds of it.

    Returns
    -------
    array (height, width, 3) of uint8
    """
    return _Canvas(system, width).frame(np.asarray(state, dtype=float), action, title)


def animation(
    system: System,
    trajectory: Trajectory,
    path: str | Path,
    *,
    speed: float = 1.0,
    frames_per_second: float = 20.0,
    width: int = 480,
) -> Path:
    """Write a trajectory of one system as an animated GIF that repeats for ever.

    Between the steps of the trajectory the system is simulated under the held action, so that the motion is smooth
    however long the steps are; a step that this does not reproduce (a disturbed system) is drawn by interpolation.

    Parameters
    ----------
    system : System
    trajectory : Trajectory
        With states (T + 1, D).
    path : str or Path
        Where to write it; must end in .gif.
    speed : float
        Seconds of the system in one second of the film.
    frames_per_second : float
    width : int
        Pixels.
    """
    from PIL import Image

    target = Path(path)
    if target.suffix.lower() != ".gif":
        raise ValueError(f"path must end in .gif, got {str(path)!r}")
    if trajectory.states.ndim != 2:
        raise ValueError(f"animate one trajectory with states (T + 1, D), got {trajectory.states.shape}")
    canvas = _Canvas(system, width)
    times, states, actions = in_between(system, trajectory, speed / frames_per_second)
    images = []
    with Progress("drawing", len(times)) as progress:
        for t, s, a in zip(times, states, actions):
            images.append(Image.fromarray(canvas.frame(s, a, f"{t:5.1f} s")).quantize(64))
            progress.advance()
    duration = round(1000.0 / frames_per_second)
    images[0].save(target, save_all=True, append_images=images[1:], duration=duration, loop=0)
    return target


def in_between(system: System, trajectory: Trajectory, interval: float) -> tuple[Array, Array, Array]:
    """Times, states and actions of a trajectory every `interval` seconds."""
    per_step = max(1, round(trajectory.dt / interval))
    fractions = np.arange(1, per_step + 1) / per_step
    times, states, actions = [0.0], [trajectory.states[0]], [_first_action(system, trajectory)]
    for t, action in enumerate(trajectory.actions):
        here, there = trajectory.states[t], trajectory.states[t + 1]
        path = system.path(here, action, fractions)
        # a constant share of what simulation and record differ by: nothing for an undisturbed system
        path = path + fractions[:, None] * (there - path[-1])
        times.extend(trajectory.dt * (t + fractions))
        states.extend(path)
        actions.extend([action] * per_step)
    return np.array(times), np.array(states), np.array(actions)


def _first_action(system: System, trajectory: Trajectory) -> Array:
    return trajectory.actions[0] if len(trajectory.actions) else np.zeros(system.action_size)


class _Canvas:
    """A figure that is used again for each frame: only what moves is drawn anew."""

    def __init__(self, system: System, width: int) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        drawing = next((draw for kind, draw in _DRAWINGS.items() if isinstance(system, kind)), None)
        if drawing is None:
            raise ValueError(
                f"no picture is known for {system!r}: only MountainCar, CartPole and Pendulum have one"
            )
        self.system = system
        self.figure = Figure(figsize=(width / DPI, 2.0 / 3.0 * width / DPI), dpi=DPI)
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self.axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set_axis_off()
        self.axes.set_aspect("equal", adjustable="box")
        self._draw = drawing(self.axes, system)

    def frame(self, state: Array, action: ArrayLike | None, title: str) -> Pixels:
        moving = self._draw(state)
        push = 0.0 if action is None else float(np.atleast_1d(np.asarray(action, dtype=float))[0])
        if push:
            moving.append(_force(self.axes, self.system, state, push))
        if title:
            moving.append(
                self.axes.text(
                    0.02, 0.97, title, transform=self.axes.transAxes, va="top", fontsize=11, color=INK
                )
            )
        self.canvas.draw()
        pixels: Pixels = np.asarray(self.canvas.buffer_rgba(), dtype=np.uint8)[..., :3].copy()
        for artist in moving:
            artist.remove()
        return pixels


def _force(axes: Any, system: System, state: Array, push: float) -> Any:
    """An arrow from the body, as long as the share of the largest force; a bent one for a torque."""
    share = push / float(np.max(np.abs(np.concatenate([system.action_low, system.action_high]))))
    style: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 14,
        "linewidth": 2.5,
        "color": PUSH,
        "zorder": 6,
    }
    if isinstance(system, Pendulum):
        from matplotlib.patches import FancyArrowPatch

        angles = np.pi / 2.0 + np.linspace(-0.5, 0.5, 2) * np.pi * share
        ends = 0.45 * np.column_stack([np.cos(angles), np.sin(angles)])
        bend = f"arc3,rad={0.5 * abs(share) * np.sign(share):.3f}"
        return axes.add_patch(FancyArrowPatch(tuple(ends[0]), tuple(ends[1]), connectionstyle=bend, **style))
    if isinstance(system, MountainCar):
        slope = float(system.slope(state[0]))
        along = np.array([1.0, slope]) / np.hypot(1.0, slope)
        foot = np.array([state[0], float(system.height(state[0]))]) + 0.2 * np.array([-along[1], along[0]])
        reach = 0.5
    else:
        along, foot, reach = np.array([1.0, 0.0]), np.array([state[0], -0.36]), 0.6
    tip = foot + reach * share * along
    return axes.annotate("", xy=tip, xytext=foot, arrowprops=style)


def _mountain_car(axes: Any, system: MountainCar) -> Any:
    from matplotlib.patches import Circle, Polygon

    x = np.linspace(-1.25, 1.25, 400)
    axes.set(xlim=(-1.25, 1.25), ylim=(-0.62, 1.05))
    axes.fill_between(x, system.height(x), -1.0, color=GROUND, zorder=1)
    axes.plot(x, system.height(x), color=INK, linewidth=1.2, zorder=2)
    for end in (-1.0, 1.0):
        axes.plot([end, end], system.height(end) + np.array([0.0, 0.16]), color=INK, linewidth=2, zorder=2)
    goal = system.goal[0]
    mast = system.height(goal) + np.array([0.0, 0.36])
    axes.plot([goal, goal], mast, color=TARGET, linewidth=2, zorder=2)
    flag = [(goal, mast[1]), (goal + 0.14, mast[1] - 0.05), (goal, mast[1] - 0.1)]
    axes.add_patch(Polygon(flag, color=TARGET, zorder=2))

    def draw(state: Array) -> list[Any]:
        slope = float(system.slope(state[0]))
        along = np.array([1.0, slope]) / np.hypot(1.0, slope)
        up = np.array([-along[1], along[0]])
        foot = np.array([state[0], float(system.height(state[0]))])
        outline = [
            (-0.1, 0.04),
            (0.1, 0.04),
            (0.1, 0.09),
            (0.05, 0.09),
            (0.03, 0.14),
            (-0.06, 0.14),
            (-0.1, 0.09),
        ]
        body = [foot + a * along + b * up for a, b in outline]
        wheels = [foot + a * along + 0.035 * up for a in (-0.06, 0.06)]
        return [
            axes.add_patch(Polygon(body, facecolor=BODY, edgecolor=INK, linewidth=1, zorder=4)),
            *(axes.add_patch(Circle(tuple(w), 0.035, facecolor=INK, zorder=5)) for w in wheels),
        ]

    return draw


def _cart_pole(axes: Any, system: CartPole) -> Any:
    from matplotlib.patches import Circle, Rectangle

    reach = 2.0 * system.length
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.0, 1.0))
    axes.plot([-1.5, 1.5], [-0.1, -0.1], color=INK, linewidth=1.2, zorder=1)
    axes.fill_between([-1.5, 1.5], -0.1, -0.14, color=GROUND, zorder=0)
    ticks = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    axes.vlines(ticks, -0.17, -0.14, color=INK, linewidth=1)
    for tick in ticks:
        axes.text(tick, -0.19, f"{tick:g}", ha="center", va="top", fontsize=8, color=INK)
    axes.add_patch(Circle((0.0, reach), 0.05, facecolor="none", edgecolor=TARGET, linewidth=2.5, zorder=2))

    def draw(state: Array) -> list[Any]:
        x, theta = state[0], state[2]
        tip = (x + reach * np.sin(theta), -reach * np.cos(theta))
        return [
            axes.add_patch(Rectangle((x - 0.17, -0.1), 0.34, 0.14, facecolor=BODY, edgecolor=INK, zorder=3)),
            *axes.plot([x, tip[0]], [0, tip[1]], color=ROD, linewidth=6, solid_capstyle="round", zorder=4),
            axes.add_patch(Circle((x, 0.0), 0.025, facecolor=INK, zorder=5)),
            axes.add_patch(Circle(tip, 0.03, facecolor=INK, zorder=5)),
        ]

    return draw


def _pendulum(axes: Any, system: Pendulum) -> Any:
    from matplotlib.patches import Circle

    axes.set(xlim=(-1.95, 1.95), ylim=(-1.3, 1.3))
    axes.add_patch(Circle((0.0, 1.0), 0.07, facecolor="none", edgecolor=TARGET, linewidth=2.5, zorder=2))

    def draw(state: Array) -> list[Any]:
        tip = (-np.sin(state[0]), np.cos(state[0]))
        return [
            *axes.plot([0, tip[0]], [0, tip[1]], color=ROD, linewidth=9, solid_capstyle="round", zorder=3),
            axes.add_patch(Circle((0.0, 0.0), 0.05, facecolor=INK, zorder=4)),
            axes.add_patch(Circle(tip, 0.045, facecolor=INK, zorder=4)),
        ]

    return draw


_DRAWINGS: dict[type[System], Any] = {MountainCar: _mountain_car, CartPole: _cart_pole, Pendulum: _pendulum}
