"""Cumulated risk of action sequences, and its gradient in reverse mode (Kuss, 2006, section 7.4).

For actions a_0 .. a_{N-1} from a state s_0, the risk is R = sum_t gamma^t E L(s_t), t = 1 .. N, over the Gaussian
states of a roll-out. Algorithm 8 carries derivatives of every state in every action forwards; here adjoints of mean
and covariance run backwards once (`pull`), which gives the same gradient at the cost of about one more roll-out.

`mean_risk` leaves out all variances and does many sequences at once; `expected_risk` is by moment matching, for one.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.dynamics.model import Dynamics
from cavity.control.losses import Loss
from cavity.control.problems import System
from cavity.control.uncertain_inputs.gaussian_moments import GaussianMoments, MomentCache
from cavity.numerics.arrays import Array


class StepModel(Protocol):
    """What planning with means needs of a model."""

    state_size: int
    action_size: int

    def forward_mean(self, states: ArrayLike, actions: ArrayLike) -> tuple[Array, Any]:
        """Next states (..., D), and what `pull_mean` needs."""
        ...

    def pull_mean(self, cache: Any, d_next: Array) -> tuple[Array, Array]:
        """Adjoints of next states pulled back to states and actions."""
        ...


class ExactModel:
    """The system itself in place of a learned model: what the planner could do at best.

    Derivatives are by central differences of the Runge-Kutta step.

    Examples
    --------
    >>> from cavity.control import ExactModel, MountainCar
    >>> car = MountainCar()
    >>> after, _ = ExactModel(car).forward_mean([[-0.5, 0.0]], [[4.0]])
    >>> bool((after == car.step([[-0.5, 0.0]], [[4.0]])).all())
    True
    """

    def __init__(self, system: System) -> None:
        self.system, self.problem = system, system
        self.state_size, self.action_size = system.state_size, system.action_size

    def forward_mean(self, states: ArrayLike, actions: ArrayLike) -> tuple[Array, tuple[Array, Array]]:
        """Next states (..., D), and the states and actions they come from."""
        s, a = np.asarray(states, dtype=float), np.asarray(actions, dtype=float)
        return self.system.step(s, a), (s, a)

    def pull_mean(self, cache: tuple[Array, Array], d_next: Array) -> tuple[Array, Array]:
        """Adjoints of next states (..., D) pulled back to states (..., D) and actions (..., F)."""
        in_state, in_action = self.system.jacobian(*cache)
        row = np.asarray(d_next, dtype=float)[..., None, :]
        return (row @ in_state)[..., 0, :], (row @ in_action)[..., 0, :]


def mean_values(
    model: StepModel,
    loss: Loss,
    state: Array,
    plans: Array,
    discount: float = 1.0,
    shift: Array | float = 0.0,
) -> Array:
    """Risk of plans (B, N, F) without variances, shape (B,); `shift` (D,) is added to every predicted state."""
    B, N, _ = plans.shape
    s = np.broadcast_to(state, (B, len(state)))
    states = []
    for t in range(N):
        s = model.forward_mean(s, plans[:, t])[0] + shift
        states.append(s)
    return np.asarray(weights(N, discount) @ loss(np.array(states)))


def mean_risk(
    model: StepModel,
    loss: Loss,
    state: Array,
    plans: Array,
    discount: float = 1.0,
    shift: Array | float = 0.0,
) -> tuple[Array, Array]:
    """Risk of plans (B, N, F) without variances, shape (B,), and its gradient (B, N, F); `shift` as above."""
    B, N, _ = plans.shape
    s = np.broadcast_to(state, (B, len(state)))
    states, caches = [], []
    for t in range(N):
        s, cache = model.forward_mean(s, plans[:, t])
        s = s + shift
        states.append(s)
        caches.append(cache)
    weight = weights(N, discount)
    values, slopes = loss.gradient(np.array(states))
    d_plans, d_s = np.empty(plans.shape), np.zeros((B, len(state)))
    for t in reversed(range(N)):
        d_s, d_plans[:, t] = model.pull_mean(caches[t], d_s + weight[t] * slopes[t])
    return weight @ values, d_plans


def weights(N: int, discount: float) -> Array:
    """gamma^t for t = 1 .. N, times gamma^-1 so that the first is one."""
    return np.asarray(float(discount) ** np.arange(N), dtype=np.float64)


class MomentRisk:
    """Risk of one plan by moment matching, with its gradient.

    Parameters
    ----------
    model : Dynamics
    loss : Loss
    discount : float
        gamma; above one the end of the horizon weighs more.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import Dynamics, MountainCar, Transitions
    >>> from cavity.control import QuadraticLoss
    >>> from cavity.control.action_risk import MomentRisk
    >>> car = MountainCar(dt=0.3)
    >>> model = Dynamics.fit(Transitions.draw(car, 30, rng=0), problem=car, rng=0)
    >>> risk = MomentRisk(model, QuadraticLoss.around(car.goal, [1.0, 0.1]))
    >>> value, gradient = risk(car.start, np.zeros((5, 1)))
    >>> gradient.shape
    (5, 1)
    """

    def __init__(self, model: Dynamics, loss: Loss, discount: float = 1.0) -> None:
        self.model, self.loss, self.discount = model, loss, discount
        self._first = KnownStep(model)

    def __call__(
        self, state: Array, plan: Array, cov: Array | None = None, shift: Array | float = 0.0
    ) -> tuple[float, Array]:
        """Value and gradient (N, F) for a plan (N, F) from a known state, or from N(state, cov).

        `shift` (D,) is added to the mean of every predicted state.
        """
        model, D, N = self.model, self.model.state_size, len(plan)
        means, covs, caches = np.empty((N, D)), np.empty((N, D, D)), []
        m, S = state, cov
        for t in range(N):
            if S is None:
                m, S, cache = self._first.forward(m, plan[t])
            else:
                joint = np.zeros((D + len(plan[t]),) * 2)
                joint[:D, :D] = S
                result, cache = model.forward(np.concatenate([m, plan[t]]), joint, check=False)
                m, S = result.mean, result.covariance
            m = m + shift
            means[t], covs[t] = m, S
            caches.append(cache)
        weight = weights(N, self.discount)
        values, d_means, d_covs = self.loss.expected(means, covs)
        gradient, m_bar, S_bar = np.empty(plan.shape), np.zeros(D), np.zeros((D, D))
        for t in reversed(range(N)):
            m_bar, S_bar = m_bar + weight[t] * d_means[t], S_bar + weight[t] * d_covs[t]
            if t == 0 and cov is None:
                gradient[0] = self._first.pull(caches[0], m_bar, S_bar)[D:]
                break
            d_m, d_S = model.pull(caches[t], m_bar, S_bar)
            gradient[t] = d_m[D:]
            m_bar, S_bar = d_m[:D], d_S[:D, :D]
        return float(weight @ values), gradient


class KnownStep:
    """One step from a state that is known: outputs are then independent, and only their variances have to be found."""

    def __init__(self, model: Dynamics) -> None:
        self.model = model
        self.outputs = [
            GaussianMoments([output], model.moments.noise[k : k + 1])
            for k, output in enumerate(model.moments.outputs)
        ]

    def forward(self, state: Array, action: Array) -> tuple[Array, Array, Any]:
        """Mean (D,) and covariance (D, D) of the next state."""
        x = self.model.inputs(state, action)
        zero = np.zeros((len(x), len(x)))
        made = [output.forward(x, zero, check=False) for output in self.outputs]
        mean = np.array([r.mean[0] for r, _ in made])
        variance = np.array([r.covariance[0, 0] for r, _ in made])
        z = np.concatenate([state, action])
        return self.model.difference * state + mean, np.diag(variance), (z, [c for _, c in made])

    def pull(self, cache: tuple[Array, list[MomentCache]], d_mean: Array, d_cov: Array) -> Array:
        """Adjoints of mean and covariance pulled back to state and action, (D + F,)."""
        z, caches = cache
        model = self.model
        d_x = sum(
            output.pull(c, d_mean=d_mean[k : k + 1], d_cov=d_cov[k : k + 1, k : k + 1])[0]
            for k, (output, c) in enumerate(zip(self.outputs, caches))
        )
        d_z = np.asarray(d_x if model._angle_map is None else d_x @ model._angle_map.jacobian(z))
        d_z[: model.state_size] += model.difference * d_mean
        return d_z
