"""Expected long-term loss of a policy, with its gradient in the policy's parameters, in two ways.

`ParticleRisk` is over a bundle of B roll-outs. They start from states of their own, and each is under a system of its
own (`DrawnDynamics`) or all under the same one:

    u_t = policy(s_t),      s_{t+1} = f(s_t, u_t),      J = sum_t sum_b L(s_{t+1,b}) / (T B).

Starts and systems are drawn once, so that J is a smooth function of the parameters (common random numbers; Ng and
Jordan, 2000). Its derivative is by one pass backwards, all roll-outs at once. Unlike moment matching this does not
take states for Gaussian: if a system may swing left or right, a part of the bundle does either.

`PolicyRisk` is J = sum_t E L(s_t) / T by moment matching, as in PILCO (Deisenroth and Rasmussen, 2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.action_risk import StepModel
from cavity.control.dynamics.model import Dynamics
from cavity.control.losses import Loss
from cavity.control.policies import Policy
from cavity.control.uncertain_inputs.output_moments import checked_gaussian
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer


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
    >>> from cavity.control.policy_risk import ParticleRisk
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
