"""`Dynamics`: a Gaussian process for each state variable, learned from transitions, and roll-outs of them.

Notation: z = (s, a) is state and action together (D + F columns), x = g(z) the input of the Gaussian processes: the
columns of z that are no angles in order, then sine and cosine of each angle; f(x) their D outputs. The next state is

    s' = K s + f(x),

with K = 1 for columns whose difference is predicted and 0 for those predicted themselves. For z ~ N(m, S), with mean
m_f, covariance V and gain q of f, Cov(z, x) = C, and P = (K; 0) of shape (D + F, D) (Deisenroth and Rasmussen, 2011;
Kuss' (2006) (7.23)-(7.31) are the case K = 0 with fixed actions):

    E s' = P'm + m_f,   Cov s' = P'S P + V + P'C q + (P'C q)',   Cov(z, s') = S P + C q.

The step from C to C q takes x for Gaussian: exact without angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.dynamics.fit import LEAST_NOISE, fit_models
from cavity.control.dynamics.rollouts import Rollout, forecast_errors, moment_rollout, sampled_rollouts
from cavity.control.dynamics.transitions import Transitions, model_inputs
from cavity.control.problems import Problem, Trajectory
from cavity.control.uncertain_inputs.gaussian_moments import GaussianMoments, MomentCache
from cavity.control.uncertain_inputs.output_moments import OutputMoments, checked_gaussian
from cavity.control.uncertain_inputs.posterior_means import MeanCache
from cavity.control.uncertain_inputs.trigonometric_moments import TrigonometricCache, angle_map
from cavity.estimators import GPRegressor
from cavity.kernels import Kernel
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.runtime.checks import require_integer
from cavity.runtime.storing import Storable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class StepCache:
    """What `Dynamics.pull` needs of a forward pass."""

    S: Array
    C: Array
    gain: Array
    q: Array
    total: Array
    moments: MomentCache | list[MomentCache]
    angles: TrigonometricCache | None


@dataclass(frozen=True)
class MeanStepCache:
    """What `Dynamics.pull_mean` needs of a forward pass."""

    z: Array
    means: MeanCache


class Dynamics(Storable):
    """Learned dynamics of a system.

    Make one with `Dynamics.fit`; the constructor puts fitted models together.

    Parameters
    ----------
    models : sequence of GPRegressor
        One fitted to each state variable, on inputs as `inputs` makes them.
    transitions : Transitions
    angles : sequence of int
        Columns of the state that enter as sine and cosine.
    difference : array (D,) of bool
        Whether a column's difference is predicted, or its next value.
    noise : bool
        Whether predictions are of observed next states, with the learned noise, or of the function.

    Examples
    --------
    >>> from cavity.control import Dynamics, MountainCar, Transitions
    >>> car = MountainCar()
    >>> model = Dynamics.fit(Transitions.draw(car, 30, rng=0), problem=car, rng=0)
    >>> model.step([-0.5, 0.0], [4.0]).round(1)  # the truth is (-0.43, 0.69)
    array([-0.4,  0.7])
    >>> path = model.rollout(([-0.5, 0.0], [0.01**2, 0.01**2]), [[-4.0], [4.0], [4.0]])
    >>> path.means.shape, path.covariances.shape
    ((4, 2), (4, 2, 2))
    """

    def __init__(
        self,
        models: Sequence[GPRegressor],
        transitions: Transitions,
        angles: Sequence[int] = (),
        difference: ArrayLike | None = None,
        noise: bool = False,
        problem: Problem | None = None,
    ) -> None:
        self.models, self.transitions = list(models), transitions
        self.state_size = int(transitions.states.shape[1])
        self.action_size = int(transitions.actions.shape[1])
        if len(self.models) != self.state_size:
            raise ValueError(
                f"models must be one for each of {self.state_size} states, got {len(self.models)}"
            )
        self.angles = tuple(int(k) for k in angles)
        self.difference = (
            np.ones(self.state_size, bool) if difference is None else np.asarray(difference, bool)
        )
        self.noise, self.problem = noise, problem
        self._angle_map = angle_map(self.state_size + self.action_size, self.angles) if self.angles else None
        self._P = np.zeros((self.state_size + self.action_size, self.state_size))
        self._P[: self.state_size] = np.diag(self.difference.astype(float))

    def __repr__(self) -> str:
        kinds = ["difference" if d else "next" for d in self.difference]
        return f"Dynamics({len(self.transitions)} transitions, targets {kinds}, angles {list(self.angles)})"

    # --- learning -------------------------------------------------------------------------------------------

    @classmethod
    def fit(
        cls,
        transitions: Transitions,
        *,
        problem: Problem | None = None,
        angles: Sequence[int] | None = None,
        target: str = "difference",
        kernel: Kernel | str | Sequence[Kernel | str] | None = None,
        mean: Any = "linear",
        likelihood: Any = "gaussian",
        inference: Any = "auto",
        noise: bool = False,
        least_noise: float = LEAST_NOISE,
        n_restarts: int = 1,
        rng: Any = None,
        n_jobs: int | None = None,
        max_time: float | None = None,
    ) -> Dynamics:
        """Learn the dynamics by evidence maximization, one Gaussian process for each state variable.

        Ctrl-C ends it without a model; to bound its time, and keep what was learned, use `max_time`.

        Parameters
        ----------
        transitions : Transitions
        problem : Problem, optional
            Its angles are used, and its names in the report.
        angles : sequence of int, optional
            Columns of the state to enter as sine and cosine; by default those of the problem. `()` feeds angles
            themselves, as Kuss (2006) does.
        target : {"difference", "next"}
            What is predicted: s' - s, or s' itself. Differences of angles are always predicted as such.
        kernel : Kernel or str, or one for each state, optional
            By default a squared exponential with a length scale for each input.
        mean : Mean or {"zero", "constant", "linear"}
            Prior mean function. A linear one is worth many transitions here: systems are smooth over dt. Where
            transitions cannot tell its slopes (an action that never changes), a constant takes its place, with a
            warning: predictions for other actions are then uncertain, as they should be.
        likelihood : Likelihood or str, or one for each state
            Noise model; for transitions with outliers "student-t", "laplace" or "mixture".
        noise : bool
            Whether roll-outs include the noise at every step (it is then of the system, not of its measurement).
        least_noise : float
            Least noise sd that is learned with the default kernel and noise model, in units of what the mean function
            leaves of the targets. On many transitions without noise, larger values make learning much quicker.
        n_restarts, rng, n_jobs, max_time
            As for `GPRegressor`, for each state variable.
        """
        chosen, difference, models = fit_models(
            transitions,
            problem,
            angles,
            target,
            kernel,
            mean,
            likelihood,
            least_noise,
            rng,
            inference=inference,
            n_restarts=n_restarts,
            n_jobs=n_jobs,
            max_time=max_time,
        )
        return cls(models, transitions, chosen, difference, noise, problem)

    def given(self, transitions: Transitions) -> Dynamics:
        """The same hyperparameters with other transitions: quick, if those that came in bring little new."""
        X = model_inputs(transitions.states, transitions.actions, self.angles)
        Y = np.where(self.difference, transitions.differences, transitions.next_states)
        models = [
            GPRegressor(
                m.kernel_, mean=m.mean_, likelihood=m.likelihood_, inference=m.inference, objective=None
            ).fit(X, Y[:, k])
            for k, m in enumerate(self.models)
        ]
        return Dynamics(models, transitions, self.angles, self.difference, self.noise, self.problem)

    @property
    def posteriors(self) -> list[Posterior]:
        """The posterior of each output."""
        return [model.posterior_ for model in self.models]

    @cached_property
    def moments(self) -> GaussianMoments:
        """Moments of the outputs f at an uncertain input x."""
        return GaussianMoments.of(self.posteriors, noise=self.noise)

    def inputs(self, states: ArrayLike, actions: ArrayLike) -> Array:
        """x = g(s, a), shape (..., number of inputs): other columns in order, then sine and cosine of angles."""
        return model_inputs(*self._batch(states, actions), self.angles)

    def _batch(self, states: ArrayLike, actions: ArrayLike) -> tuple[Array, Array]:
        s, a = np.asarray(states, dtype=float), np.asarray(actions, dtype=float)
        if s.ndim == 0 or s.shape[-1] != self.state_size or a.ndim == 0 or a.shape[-1] != self.action_size:
            raise ValueError(
                f"states and actions must have shapes (..., {self.state_size}) and (..., {self.action_size}), "
                f"got {s.shape} and {a.shape}"
            )
        lead = np.broadcast_shapes(s.shape[:-1], a.shape[:-1])
        return np.broadcast_to(s, lead + s.shape[-1:]), np.broadcast_to(a, lead + a.shape[-1:])

    # --- one step at points ---------------------------------------------------------------------------------

    def step(self, states: ArrayLike, actions: ArrayLike) -> Array:
        """Mean of the next states, shape (..., D), for states (..., D) and actions (..., F)."""
        return self.forward_mean(states, actions)[0]

    def predict(self, states: ArrayLike, actions: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the next states (with the noise, if `noise`), each of shape (..., D)."""
        s, a = self._batch(states, actions)
        x = model_inputs(s, a, self.angles).reshape(-1, self._n_inputs)
        mean = np.stack([posterior.mean(x) for posterior in self.posteriors], axis=-1).reshape(s.shape)
        variance = np.stack(
            [(p.predict_y(x).variance if self.noise else p.variance(x)) for p in self.posteriors], axis=-1
        ).reshape(s.shape)
        return self.difference * s + mean, variance

    @property
    def _n_inputs(self) -> int:
        return self.state_size + self.action_size + len(self.angles)

    def forward_mean(self, states: ArrayLike, actions: ArrayLike) -> tuple[Array, MeanStepCache]:
        """`step`, with what `pull_mean` needs. Kernels without closed-form moments raise an error."""
        s, a = self._batch(states, actions)
        z = np.concatenate([s, a], axis=-1).reshape(-1, s.shape[-1] + a.shape[-1])
        x = z if self._angle_map is None else self._angle_map(z)
        f, cache = self.moments.mean_only.forward(x)
        return self.difference * s + f.reshape(s.shape), MeanStepCache(z, cache)

    def pull_mean(self, cache: MeanStepCache, d_next: Array) -> tuple[Array, Array]:
        """Adjoints of next states (..., D) pulled back to states (..., D) and actions (..., F)."""
        given = np.asarray(d_next, dtype=float)
        flat = given.reshape(-1, self.state_size)
        d_x = self.moments.mean_only.pull(cache.means, flat)
        d_z = d_x
        if self._angle_map is not None:
            d_z = np.einsum("bp,bpd->bd", d_x, self._angle_map.jacobian(cache.z))
        d_s = d_z[:, : self.state_size] + self.difference * flat
        d_a = d_z[:, self.state_size :]
        return d_s.reshape(given.shape), d_a.reshape(given.shape[:-1] + (self.action_size,))

    # --- one step of a distribution -------------------------------------------------------------------------

    def forward(self, m: ArrayLike, S: ArrayLike, check: bool = True) -> tuple[OutputMoments, StepCache]:
        """Moments of s' for (s, a) ~ N(m, S), one distribution or a batch on a leading axis.

        Parameters
        ----------
        m : array (D + F,) or (B, D + F)
            Mean of state and action together.
        S : array (D + F, D + F) or (B, D + F, D + F)
            Their covariance; zero rows for an action that is a fixed number.
        check : bool
            Whether m and S are checked.

        Returns
        -------
        result : OutputMoments
            Of s', with gain and cross referring to z = (s, a).
        cache : for `pull`
        """
        if check:
            m, S = checked_gaussian(m, S, self.state_size + self.action_size)
        else:
            m, S = np.asarray(m, dtype=float), np.asarray(S, dtype=float)
        angles: TrigonometricCache | None = None
        if self._angle_map is None:
            f, cache = self.moments.forward(m, S, check=False)
            C, gain = S, np.broadcast_to(np.eye(m.shape[-1]), S.shape)
        else:
            x, angles = self._angle_map.forward(m, S, check=False)
            f, cache = self.moments.forward(x.mean, x.covariance, check=False)
            C, gain = x.cross, x.gain
        P, Cq = self._P, C @ f.gain
        carried = P.T @ Cq
        cov = P.T @ S @ P + f.covariance + carried + np.swapaxes(carried, -1, -2)
        total = P + gain @ f.gain
        result = OutputMoments(m @ P + f.mean, 0.5 * (cov + np.swapaxes(cov, -1, -2)), total, S @ P + Cq)
        return result, StepCache(S, C, gain, f.gain, total, cache, angles)

    def pull(
        self,
        cache: StepCache,
        d_mean: ArrayLike | None = None,
        d_cov: ArrayLike | None = None,
        d_cross: ArrayLike | None = None,
    ) -> tuple[Array, Array]:
        """Adjoints of mean, covariance and cross-covariance of s' pulled back to m and S (the latter symmetric)."""
        P, S, q = self._P, cache.S, cache.q
        lead, D = S.shape[:-2], self.state_size
        mb = np.zeros((*lead, D)) if d_mean is None else np.asarray(d_mean, dtype=float)
        Vb = np.zeros((*lead, D, D)) if d_cov is None else np.asarray(d_cov, dtype=float)
        Vb = 0.5 * (Vb + np.swapaxes(Vb, -1, -2))
        d_m, d_S = mb @ P.T, P @ Vb @ P.T
        X_bar = 2.0 * (P @ Vb)  # of Cov(z, f) = C q
        if d_cross is not None:
            cross_bar = np.asarray(d_cross, dtype=float)
            X_bar = X_bar + cross_bar
            d_S = d_S + cross_bar @ P.T
        q_bar, C_bar = np.swapaxes(cache.C, -1, -2) @ X_bar, X_bar @ np.swapaxes(q, -1, -2)
        m_x, S_x = self.moments.pull(cache.moments, d_mean=mb, d_cov=Vb, d_gain=q_bar)
        if self._angle_map is None or cache.angles is None:
            d_m, d_S = d_m + m_x, d_S + S_x + C_bar
        else:
            m_z, S_z = self._angle_map.pull(cache.angles, d_mean=m_x, d_cov=S_x, d_cross=C_bar)
            d_m, d_S = d_m + m_z, d_S + S_z
        return d_m, 0.5 * (d_S + np.swapaxes(d_S, -1, -2))

    # --- roll-outs ------------------------------------------------------------------------------------------

    def rollout(
        self, state: Any, control: Any, horizon: int | None = None, *, mean_only: bool = False
    ) -> Rollout:
        """Gaussian distributions of the states to come, by moment matching.

        Parameters
        ----------
        state : array (D,) or (mean (D,), covariance (D, D) or variances (D,))
            Where it starts: a state, or a Gaussian distribution.
        control : array (T, F) or policy
            Actions, or a policy. One that has a method `forward(mean, cov)` as `GaussianMoments` and
            `TrigonometricMap` have gives the moments of its action itself; any other callable, from states (n, D)
            to actions (n, F), is evaluated at 2 D points (third-degree spherical cubature).
        horizon : int, optional
            Number of steps; by default that of the actions.
        mean_only : bool
            Leave out all variances: roll out the means.
        """
        return moment_rollout(self, self._distribution(state), control, horizon, mean_only)

    def sample_rollouts(
        self,
        state: Any,
        control: Any,
        horizon: int | None = None,
        *,
        size: int = 200,
        rng: np.random.Generator | int | None = None,
        consistent: bool = True,
    ) -> Rollout:
        """Monte Carlo roll-outs, each under a function of its own drawn from the posterior.

        A roll-out that comes back to where it was meets the same function there: at each step the function is
        drawn conditionally on its values at all earlier steps of the same roll-out. Nothing is approximated but by
        the number of roll-outs. Moment matching, by contrast, takes the function at each step for independent of
        that at earlier ones, and states for Gaussian; `consistent=False` makes only the first of these
        approximations, and so tells them apart.

        Parameters
        ----------
        state, control, horizon
            As for `rollout`; policies are called with states (size, D).
        size : int
            Number of roll-outs, at least 2.
        consistent : bool
            Whether a roll-out keeps its function, or draws it anew at each step.
        """
        size, rng = require_integer(size, "size", 2), np.random.default_rng(rng)
        return sampled_rollouts(self, self._distribution(state), control, horizon, size, rng, consistent)

    def _distribution(self, state: Any) -> tuple[Array, Array]:
        """Mean and covariance of where a roll-out starts."""
        if isinstance(state, tuple) and len(state) == 2 and np.ndim(state[0]) == 1:
            return checked_gaussian(state[0], state[1], self.state_size)
        mean = np.asarray(state, dtype=float)
        return checked_gaussian(mean, np.zeros(mean.shape), self.state_size)

    # --- how good it is -------------------------------------------------------------------------------------

    def report(
        self,
        test: Transitions | None = None,
        trajectories: Trajectory | Sequence[Trajectory] | None = None,
        horizons: Sequence[int] = (2, 5, 10),
    ) -> pd.DataFrame:
        """Errors of one and of several steps for each state variable.

        Parameters
        ----------
        test : Transitions, optional
            Transitions that were not learned from.
        trajectories : Trajectory or several, optional
            With states (T + 1, D) or (T + 1, n, D): roll-outs of the means over windows of each length in
            `horizons` are compared with them.
        horizons : sequence of int

        Returns
        -------
        DataFrame, one row for each state variable, with columns
            "change": root mean square of s' - s in the training data, to compare errors with;
            "leave-one-out": root mean square error of each training row given the others;
            "noise": learned noise sd; "log evidence";
            "one step": root mean square error on `test`, "z": root mean square of errors over predicted sds
            (1 is ideal); "h steps": root mean square error after h steps.
        """
        return forecast_errors(self, test, trajectories, horizons)
