"""Receding-horizon planning (Kuss, 2006, section 7.4, Algorithm 7): plan N actions, take the first, plan again.

The risk of a plan has many local minima. If a pole hangs at rest, doing nothing is nearly stationary. So each
decision first screens many sequences by roll-outs of means, all in one batch: random ones, bang-bang ones with few
switches, and the last plan shifted by one step with several last actions. The best few and the shifted plan are then
improved together (`projected_bfgs`), and with moment matching the best of these is improved further under the
expected risk. Angles, bounds and the time between decisions come from the problem.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.dynamics.model import Dynamics
from cavity.control.losses import Loss, SaturatingLoss, tip_distance
from cavity.control.problems import CartPole, Problem, System, Trajectory
from cavity.control.problems.problem import checked_ends
from cavity.control.risk import MomentRisk, StepModel, mean_risk, mean_values
from cavity.numerics.arrays import Array
from cavity.numerics.projected_bfgs import Descent, descend
from cavity.runtime.checks import require_between, require_integer, require_positive
from cavity.runtime.progress import Progress


@dataclass(frozen=True)
class PlannerSettings:
    """How a decision is searched for.

    Attributes
    ----------
    horizon : int
        Number N of actions that are planned.
    discount : float
        gamma: weights gamma^t of the losses to come; above one the end of the horizon weighs more.
    moment_matching : bool
        Whether the best plan is improved under the expected risk, with the variances of the model.
    candidates : int
        Random sequences that are screened.
    starts : int
        Number of the best of them that are improved, beside the shifted last plan.
    evaluations : int
        Of risk and gradient, for all starts together, at most.
    compared : int
        Plans whose expected risk is compared before the best is improved.
    polish : int
        Evaluations of the expected risk and its gradient for the best plan, at most.
    correction : float
        Share, from 0 to 1, of each error of prediction that is taken over into a constant added to all predictions.
        A model that is off by a little where the system should rest holds it a little off its goal; this removes the
        offset, as is usual in predictive control (Pannocchia and Rawlings, 2003). With 0 the model is left as it is.

    Examples
    --------
    >>> from cavity.control import (
    ...     ExactModel, MountainCar, Planner, PlannerSettings, QuadraticLoss, SaturatingLoss, receding_horizon
    ... )
    >>> car = MountainCar(dt=0.3)
    >>> loss = SaturatingLoss(QuadraticLoss.around(car.goal, [1.0, 0.1]), 0.3)
    >>> planner = Planner(ExactModel(car), loss, PlannerSettings(horizon=3, candidates=20))
    >>> planner.settings.horizon
    3
    """

    horizon: int = 5
    discount: float = 1.0
    moment_matching: bool = False
    candidates: int = 300
    starts: int = 3
    evaluations: int = 30
    compared: int = 1
    polish: int = 5
    correction: float = 0.0

    def __post_init__(self) -> None:
        for name in ("horizon", "candidates", "starts", "evaluations", "compared", "polish"):
            require_integer(getattr(self, name), name, 0 if name in ("candidates", "starts") else 1)
        require_positive(self.discount, "discount")
        require_between(self.correction, "correction")


@dataclass(frozen=True)
class Decision:
    """One decision.

    Attributes
    ----------
    action : array (F,)
    plan : array (N, F)
    risk : float
        Cumulated (expected) loss of the plan.
    milliseconds : float
        Time of the decision on the clock, and
    cpu_milliseconds : float
        of this process, which other work on the machine does not lengthen.
    """

    action: Array
    plan: Array
    risk: float
    milliseconds: float
    cpu_milliseconds: float


class Planner:
    """A policy that plans at every step.

    Parameters
    ----------
    model : Dynamics or ExactModel
        Or any object with `forward_mean` and `pull_mean`.
    loss : Loss
    settings : PlannerSettings, optional
    problem : Problem, optional
        For the bounds of actions; by default that of the model.
    action_bounds : array (F, 2), optional
        Bounds, in place of the problem's.
    wrap : bool
        Whether angles of the present state are brought into the problem's region: for models that were given angles
        themselves.
    rng : int or Generator
        Of the random sequences.

    Examples
    --------
    >>> from cavity.control import Dynamics, MountainCar, Transitions
    >>> from cavity.control import QuadraticLoss, SaturatingLoss
    >>> from cavity.control import Planner, PlannerSettings
    >>> car = MountainCar(dt=0.3)
    >>> model = Dynamics.fit(Transitions.draw(car, 50, rng=0), problem=car, rng=0)
    >>> loss = SaturatingLoss(QuadraticLoss.around(car.goal, [1.0, 0.1]), 0.3)
    >>> planner = Planner(model, loss, PlannerSettings(horizon=6))
    >>> planner.decide(car.start).action  # first back up
    array([-4.])
    """

    def __init__(
        self,
        model: StepModel,
        loss: Loss,
        settings: PlannerSettings | None = None,
        *,
        problem: Problem | None = None,
        action_bounds: ArrayLike | None = None,
        wrap: bool = False,
        rng: np.random.Generator | int = 0,
    ) -> None:
        self.model, self.loss = model, loss
        self.settings = PlannerSettings() if settings is None else settings
        self.problem: Problem | None = problem if problem is not None else getattr(model, "problem", None)
        if action_bounds is None and self.problem is None:
            raise ValueError("action_bounds must be given, rows (low, high), if the model has no problem")
        ends = self.problem.action_bounds if action_bounds is None else action_bounds  # type: ignore[union-attr]
        self.low, self.high = checked_ends(ends, "action_bounds", model.action_size)
        self.wrap = wrap
        # a generator gives one seed, so that `reset` starts the same numbers again
        self._seed = int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else rng
        self._risk: MomentRisk | None = None
        if self.settings.moment_matching:
            if not isinstance(model, Dynamics):
                raise ValueError(f"moment_matching needs a Dynamics model, got {type(model).__name__}")
            self._risk = MomentRisk(model, loss, self.settings.discount)
        self.reset()
        # compiled code is loaded here, not within the first decision
        model.forward_mean(np.zeros(model.state_size), 0.5 * (self.low + self.high))

    def reset(self) -> None:
        """Forget the last plan, and start the random numbers again."""
        self.rng = np.random.default_rng(self._seed)
        self.last_plan: Array | None = None
        self.decisions: list[Decision] = []
        self.shift: Array = np.zeros(self.model.state_size)
        self._expected: Array | None = None

    def __call__(self, state: Array) -> Array:
        """The action for a state (D,); decisions are kept in `decisions`."""
        return self.decide(state).action

    def decide(self, state: ArrayLike) -> Decision:
        """Plan from a state (D,), starting also from the last plan shifted by one step."""
        began, began_cpu = time.perf_counter(), time.process_time()
        s = self._checked(state)
        self._learn_offset(s)
        starts = self._starts(s)
        found = self._improve(s, starts)
        order = np.argsort(found.value)
        plan, risk = self._shaped(found.x[order[0]]), float(found.value[order[0]])
        if self._risk is not None:
            plan, risk = self._polish(s, found, order)
        self.last_plan = plan
        if self.settings.correction:
            self._expected = self.model.forward_mean(s, plan[0])[0] + self.shift
        decision = Decision(
            plan[0].copy(),
            plan,
            risk,
            1e3 * (time.perf_counter() - began),
            1e3 * (time.process_time() - began_cpu),
        )
        self.decisions.append(decision)
        return decision

    def _learn_offset(self, s: Array) -> None:
        """Take over a share of what the last prediction missed."""
        if self._expected is not None:
            missed = s - self._expected
            k = list(getattr(self.model, "angles", ()) if self.problem is None else self.problem.angles)
            missed[k] -= 2.0 * np.pi * np.round(missed[k] / (2.0 * np.pi))  # full turns are no error
            self.shift = self.shift + self.settings.correction * missed

    def _checked(self, state: ArrayLike) -> Array:
        s = np.array(state, dtype=float)
        if s.shape != (self.model.state_size,) or not np.isfinite(s).all():
            raise ValueError(f"state must be {self.model.state_size} finite numbers, got {state!r}")
        if self.wrap and self.problem is not None:
            for k in self.problem.angles:
                s[k] = self.problem.state_low[k] + (s[k] - self.problem.state_low[k]) % (2.0 * np.pi)
        return s

    # --- starts ---------------------------------------------------------------------------------------------

    def _starts(self, s: Array) -> Array:
        """Plans to improve, (B, N, F): the last one shifted, and the best of many sequences."""
        cfg = self.settings
        fresh = random_plans(cfg.candidates, cfg.horizon, self.low, self.high, self.rng)
        shifted = self._shifted()
        every = np.concatenate([shifted, fresh])
        values = mean_values(self.model, self.loss, s, every, cfg.discount, self.shift)
        values = np.where(np.isfinite(values), values, np.inf)
        chosen = [int(np.argmin(values[: len(shifted)]))]
        chosen += [len(shifted) + int(k) for k in np.argsort(values[len(shifted) :])[: cfg.starts]]
        return every[chosen]

    def _shifted(self) -> Array:
        """The last plan without its first action; the new last one the same as before, or at ends or middle."""
        N, middle = self.settings.horizon, 0.5 * (self.low + self.high)
        if self.last_plan is None:
            return np.broadcast_to(middle, (1, N, len(middle))).copy()
        ends = [self.last_plan[-1], self.low, middle, self.high]
        return np.stack([np.concatenate([self.last_plan[1:], end[None]]) for end in ends])

    # --- improving ------------------------------------------------------------------------------------------

    def _shaped(self, x: Array) -> Array:
        return x.reshape(*x.shape[:-1], self.settings.horizon, len(self.low))

    def _improve(self, s: Array, starts: Array) -> Descent:
        cfg = self.settings

        def risk(x: Array) -> tuple[Array, Array]:
            value, gradient = mean_risk(self.model, self.loss, s, self._shaped(x), cfg.discount, self.shift)
            return value, gradient.reshape(x.shape)

        low, high = np.tile(self.low, cfg.horizon), np.tile(self.high, cfg.horizon)
        flat = starts.reshape(len(starts), -1)
        return descend(risk, flat, low, high, evaluations=cfg.evaluations)

    def _polish(self, s: Array, found: Descent, order: Any) -> tuple[Array, float]:
        """The best plan under the expected risk, improved from what the means say of the curvature."""
        cfg, moments = self.settings, self._risk
        assert moments is not None
        distinct = _distinct(found.x, order, cfg.compared, 0.02 * float(np.max(self.high - self.low)))
        best = distinct[0]
        if len(distinct) > 1:
            best = min(distinct, key=lambda k: moments(s, self._shaped(found.x[k]), shift=self.shift)[0])

        def risk(x: Array) -> tuple[Array, Array]:
            value, gradient = moments(s, self._shaped(x[0]), shift=self.shift)
            return np.array([value]), gradient.reshape(1, -1)

        low, high = np.tile(self.low, cfg.horizon), np.tile(self.high, cfg.horizon)
        one = slice(best, best + 1)
        done = descend(
            risk, found.x[one], low, high, evaluations=cfg.polish, tolerance=1e-4, hessian=found.hessian[one]
        )
        return self._shaped(done.x[0]), float(done.value[0])


def _distinct(x: Array, order: Any, count: int, apart: float) -> list[int]:
    """The first of `order`, at most `count`, that differ from each other."""
    kept: list[int] = []
    for k in order:
        if all(np.abs(x[k] - x[j]).max() > apart for j in kept):
            kept.append(int(k))
        if len(kept) == count:
            break
    return kept


def random_plans(size: int, horizon: int, low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Action sequences (size, horizon, F): half bang-bang with up to two switches, half uniform."""
    F = len(low)
    uniform = rng.uniform(low, high, (size - size // 2, horizon, F))
    half = size // 2
    switches = np.sort(rng.integers(0, horizon + 1, (half, 2, F)), axis=1)
    steps = np.arange(horizon)[None, :, None]
    inside = (steps >= switches[:, :1]) & (steps < switches[:, 1:])
    up = inside ^ (rng.random((half, 1, F)) < 0.5)
    return np.concatenate([uniform, np.where(up, high, low)])


@dataclass(frozen=True)
class ControlledRun:
    """A system under a planner.

    Attributes
    ----------
    trajectory : Trajectory
    risks : array (T,)
        Cumulated (expected) loss of each plan.
    milliseconds, cpu_milliseconds : array (T,)
        Time of each decision.
    """

    trajectory: Trajectory
    risks: Array
    milliseconds: Array
    cpu_milliseconds: Array


def receding_horizon(
    system: System, planner: Planner, steps: int, start: ArrayLike | None = None, label: str = "planning"
) -> ControlledRun:
    """Let a planner control a system for a number of steps.

    Examples
    --------
    >>> from cavity.control import (
    ...     ExactModel, MountainCar, Planner, PlannerSettings, QuadraticLoss, SaturatingLoss, receding_horizon
    ... )
    >>> car = MountainCar(dt=0.3)
    >>> loss = SaturatingLoss(QuadraticLoss.around(car.goal, [1.0, 0.1]), 0.3)
    >>> planner = Planner(ExactModel(car), loss, PlannerSettings(horizon=3, candidates=20))
    >>> receding_horizon(car, planner, steps=2).trajectory.states.shape
    (3, 2)
    """
    planner.reset()
    with Progress(label, steps) as progress:

        def act(state: Array) -> Array:
            action = planner(state)
            progress.advance()
            return action

        trajectory = system.simulate(act, steps, start)
    made = planner.decisions
    return ControlledRun(
        trajectory,
        np.array([d.risk for d in made]),
        np.array([d.milliseconds for d in made]),
        np.array([d.cpu_milliseconds for d in made]),
    )


# --- settings that were measured ----------------------------------------------------------------------------

CART_POLE = PlannerSettings(horizon=5, evaluations=24, correction=0.1)
"""Cart-pole with means, the loss of `cart_pole_loss`."""

CART_POLE_MOMENTS = replace(CART_POLE, evaluations=30, moment_matching=True)
"""Cart-pole with moment matching."""


def cart_pole_loss(system: CartPole) -> Loss:
    """The loss that goes with them: saturating in the distance of the tip, with a small weight on the cart's speed."""
    return SaturatingLoss(tip_distance(system, speed=0.1), 0.25)
