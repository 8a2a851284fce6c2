"""Risk of plans and of policies, with gradients by one pass backwards.

Plans (Kuss, 2006, section 7.4). For actions a_0 .. a_{N-1} from a state s_0, the risk is R = sum_t gamma^t E L(s_t),
t = 1 .. N, over the Gaussian states of a roll-out. Algorithm 8 carries derivatives of every state in every action
forwards; here adjoints of mean and covariance run backwards once (`pull`), which gives the same gradient at the cost
of about one more roll-out. `mean_risk` leaves out all variances and does many sequences at once; `MomentRisk` is by
moment matching, for one.

Policies. `ParticleRisk` is over a bundle of B roll-outs. They start from states of their own, and each is under a
system of its own (`DrawnDynamics`) or all under the same one:

    u_t = policy(s_t),      s_{t+1} = f(s_t, u_t),      J = sum_t sum_b L(s_{t+1,b}) / (T B).

Starts and systems are drawn once, so that J is a smooth function of the parameters (common random numbers; Ng and
Jordan, 2000). Unlike moment matching this does not take states for Gaussian: if a system may swing left or right, a
part of the bundle does either. `PolicyRisk` is J = sum_t E L(s_t) / T by moment matching, as in PILCO (Deisenroth and
Rasmussen, 2011).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.dynamics.model import Dynamics
from cavity.control.losses import Loss
from cavity.control.policies import Policy
from cavity.control.problems import System
from cavity.control.uncertain_inputs.gaussian_moments import GaussianMoments, MomentCache
from cavity.control.uncertain_inputs.output_moments import checked_gaussian
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer


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
    states, _ = _means(model, state, plans, shift)
    return np.asarray(weights(len(states), discount) @ loss(states))


def _means(model: StepModel, state: Array, plans: Array, shift: Array | float) -> tuple[Array, list[Any]]:
    """Predicted states (N, B, D) of plans (B, N, F), and what it takes to differentiate each step."""
    s = np.broadcast_to(state, (len(plans), len(state)))
    states, caches = [], []
    for t in range(plans.shape[1]):
        s, cache = model.forward_mean(s, plans[:, t])
        s = s + shift
        states.append(s)
        caches.append(cache)
    return np.array(states), caches


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
    states, caches = _means(model, state, plans, shift)
    weight = weights(N, discount)
    values, slopes = loss.gradient(states)
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
    >>> from cavity.control.risk import MomentRisk
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


class ParticleRisk:
    """Mean loss of a policy over roll-outs, and its gradient.

    Parameters
    ----------
    model : DrawnDynamics, Dynamics, ExactModel
        Or any other object with `forward_mean` and `pull_mean`.
    loss : Loss
    starts : array (B, D)
        Where the roll-outs start.
    horizon : int
        Steps T.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import (
    ...     DrawnDynamics, Dynamics, Pendulum, RBFPolicy, SaturatingLoss, Transitions, tip_distance
    ... )
    >>> from cavity.control.risk import ParticleRisk
    >>> system = Pendulum()
    >>> model = Dynamics.fit(Transitions.draw(system, 30, rng=0), problem=system, rng=0)
    >>> starts = system.start + 0.05 * np.random.default_rng(0).standard_normal((20, 2))
    >>> risk = ParticleRisk(DrawnDynamics(model, 20), SaturatingLoss(tip_distance(system), 0.5), starts, 10)
    >>> value, gradient = risk(RBFPolicy.start(system, 5, rng=0))
    >>> gradient.shape
    (23,)
    """

    def __init__(self, model: StepModel, loss: Loss, starts: ArrayLike, horizon: int) -> None:
        self.model, self.loss, self.horizon = model, loss, require_integer(horizon, "horizon", 1)
        self.starts = np.array(starts, dtype=float)
        shape, D = self.starts.shape, model.state_size
        if len(shape) != 2 or shape[0] < 1 or shape[1] != D or not np.isfinite(self.starts).all():
            raise ValueError(f"starts must be finite and of shape (B, {D}), got {shape}")

    def value(self, policy: Policy) -> float:
        """The mean loss alone."""
        return float(np.mean(self.loss(self._paths(policy, None)[1:])))

    def __call__(self, policy: Policy) -> tuple[float, Array]:
        """Mean loss over roll-outs and steps, and its derivative in the policy's parameters."""
        caches: list[Any] = []
        states = self._paths(policy, caches)
        values, slopes = self.loss.gradient(states[1:])
        slopes = slopes / values.size
        d_s, gradient = np.zeros(self.starts.shape), np.zeros(len(policy.theta))
        for t in reversed(range(self.horizon)):
            c_u, c_s = caches[t]
            d_s, d_u = self.model.pull_mean(c_s, d_s + slopes[t])
            through, d_theta = policy.pull_at(c_u, d_u)
            d_s = d_s + through
            gradient += d_theta
        return float(values.mean()), gradient

    def _paths(self, policy: Policy, caches: list[Any] | None) -> Array:
        """States (T + 1, B, D)."""
        states = np.empty((self.horizon + 1, *self.starts.shape))
        states[0] = self.starts
        for t in range(self.horizon):
            u, c_u = policy.at(states[t])
            states[t + 1], c_s = self.model.forward_mean(states[t], u)
            if caches is not None:
                caches.append((c_u, c_s))
        return states


class PolicyRisk:
    """Expected long-term loss of a policy by moment matching, per step, and its gradient.

    Parameters
    ----------
    model : Dynamics
    loss : Loss
    mean, cov : array (D,), array (D, D) or (D,)
        Distribution of the state an episode starts in.
    horizon : int
        Steps.
    """

    def __init__(self, model: Dynamics, loss: Loss, mean: ArrayLike, cov: ArrayLike, horizon: int) -> None:
        self.model, self.loss, self.horizon = model, loss, require_integer(horizon, "horizon", 1)
        self.mean, self.cov = checked_gaussian(mean, cov, model.state_size)

    def __call__(self, policy: Policy) -> tuple[float, Array]:
        """Mean loss over the horizon and its derivative in the policy's parameters."""
        D, F, T = self.model.state_size, policy.F, self.horizon
        m, S = self.mean, self.cov
        means, covs, caches = np.empty((T, D)), np.empty((T, D, D)), []
        for t in range(T):
            u, c_u = policy.forward(m, S)
            joint = np.empty((D + F, D + F))
            joint[:D, :D], joint[:D, D:], joint[D:, D:] = S, u.cross, u.covariance
            joint[D:, :D] = u.cross.T
            result, c_s = self.model.forward(np.concatenate([m, u.mean]), joint, check=False)
            caches.append((c_u, c_s, S, u.gain))
            m, S = result.mean, result.covariance
            means[t], covs[t] = m, S
        values, d_means, d_covs = self.loss.expected(means, covs)
        m_bar, S_bar, gradient = np.zeros(D), np.zeros((D, D)), np.zeros(len(policy.theta))
        for t in reversed(range(T)):
            c_u, c_s, S, K = caches[t]
            d_m, d_S = self.model.pull(c_s, m_bar + d_means[t] / T, S_bar + d_covs[t] / T)
            crossed = 2.0 * d_S[:D, D:]  # adjoint of Cov(s, u) = S K
            m_u, S_u, d_theta = policy.pull(c_u, d_m[D:], d_S[D:, D:], S @ crossed)
            gradient += d_theta
            turned = crossed @ K.T
            m_bar, S_bar = d_m[:D] + m_u, d_S[:D, :D] + S_u + 0.5 * (turned + turned.T)
        return float(values.mean()), gradient
