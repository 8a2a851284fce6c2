"""Whole functions drawn from learned dynamics: systems that could be.

`DrawnFunctions` are smooth functions with derivatives. A draw g from the prior, a sum of L waves with random
frequencies w ~ N(0, Lam) (Rahimi and Recht, 2008), is turned into one from the posterior by adding what the data ask
for (Matheron's rule; Wilson and others, 2020):

    f(x) = g(x) + b(x)'[alpha - R (g(X) + e)],      e ~ N(0, Sigma),     R = (K + Sigma)^-1,

b the bumps at the training inputs X, Sigma the noise variances, alpha the weights of the posterior mean. So a draw is
as cheap as a mean: n bumps and L waves at each point, and nothing of size n x n. Parts of the model that are linear
in x have draws of their own weights. Every draw has frequencies of its own, so that means and covariances over draws
are those of the posterior whatever L; only that the values of a draw are jointly Gaussian takes many waves.

`FunctionDraws` are exact for every kernel, and asked for one point at a time: a draw f(x_1), f(x_2), ... at points
that depend on earlier values is made by conditioning on these. With the posterior covariance c(x, x') and the
Cholesky factor L of c among the earlier points (one row is added at each step),

    l = L^-1 c(earlier, x),    v = c(x, x) - l'l,    f(x) = m(x) + l'e + sqrt(v) e_new,

e the standard normal numbers of the earlier steps. R functions go along side by side, each with points of its own; a
step costs O(R (n^2 + t n)) for n training points. With the corrections of `latent.dense`, c(x, x') = k(x, x') - M'M'
+ P'P' + r'r' for vectors M, P, r that belong to each point alone, which are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.dynamics.model import Dynamics
from cavity.control.dynamics.rollouts import root
from cavity.control.uncertain_inputs.decomposition import (
    Decomposition,
    NotAnalyticError,
    _linear_features,
    analytic_outputs,
    decompose,
)
from cavity.control.uncertain_inputs.posterior_means import MeanCache, MeanOnly
from cavity.latent.dense_conditioning import ObservedConditioning, SiteConditioning
from cavity.latent.posterior_process import PosteriorProcess
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.runtime.checks import require_integer


@dataclass(frozen=True)
class DrawCache:
    """What `DrawnFunctions.pull` needs of a forward pass."""

    means: MeanCache
    cosines: Array
    sines: Array


class DrawnFunctions:
    """R draws from the posteriors of E outputs, the r-th evaluated at the r-th of R points.

    Parameters
    ----------
    posteriors : sequence of Posterior
        With the same inputs, and closed-form moments (see `analytic`).
    size : int
        Number R of draws.
    waves : int
        Number L of waves in a draw from the prior, for each term of a kernel.
    rng : int or Generator
    """

    def __init__(
        self, posteriors: Sequence[Posterior], size: int, waves: int, rng: np.random.Generator | int = 0
    ) -> None:
        self.size, waves = require_integer(size, "size", 1), require_integer(waves, "waves", 1)
        rng = np.random.default_rng(rng)
        outputs = [analytic_outputs(p.process)[0] for p in posteriors]
        drawn = [_Draws(p.process, self.size, waves, rng) for p in posteriors]
        self._means = MeanOnly(outputs, [o.alpha + d.weights for o, d in zip(outputs, drawn)])
        self._trend = np.stack([d.trend for d in drawn], axis=-1)  # (R, P + 1, E)
        self._frequencies = np.concatenate([d.frequencies for d in drawn], axis=1)  # (R, K, P)
        counts = [d.frequencies.shape[1] for d in drawn]
        self._of_output = [slice(int(e - c), int(e)) for e, c in zip(np.cumsum(counts), counts)]
        self._along, self._across = np.concatenate([d.amplitudes for d in drawn], axis=2)  # (R, K) each

    def forward(self, x: Array) -> tuple[Array, DrawCache]:
        """Values (R, E) at x (R, P)."""
        f, means = self._means.forward(x)
        phase = (self._frequencies @ x[:, :, None])[:, :, 0]
        cosines, sines = np.cos(phase), np.sin(phase)
        waves = self._along * cosines + self._across * sines
        f = f + np.stack([waves[:, own].sum(axis=1) for own in self._of_output], axis=-1)
        f += self._trend[:, 0] + np.einsum("rp,rpe->re", x, self._trend[:, 1:])
        return f, DrawCache(means, cosines, sines)

    def pull(self, cache: DrawCache, d_f: Array) -> Array:
        """Adjoints of the values (R, E) pulled back to the points (R, P)."""
        d_phase = self._across * cache.cosines - self._along * cache.sines
        for k, own in enumerate(self._of_output):
            d_phase[:, own] *= d_f[:, k : k + 1]
        linear = np.einsum("re,rpe->rp", d_f, self._trend[:, 1:])
        d_x = self._means.pull(cache.means, d_f) + linear
        return np.asarray(d_x + (d_phase[:, None, :] @ self._frequencies)[:, 0])


class DrawnDynamics:
    """R systems drawn from what is known of one; a model for roll-outs, row r of a batch under the r-th system.

    Parameters
    ----------
    model : Dynamics
        Its noise is left out: a draw is of the function.
    size, waves, rng
        As for `DrawnFunctions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control import DrawnDynamics, Dynamics, MountainCar, Transitions
    >>> car = MountainCar()
    >>> model = Dynamics.fit(Transitions.draw(car, 10, rng=0), problem=car, rng=0)
    >>> after, _ = DrawnDynamics(model, size=3).forward_mean(np.tile(car.start, (3, 1)), [4.0])
    >>> after.shape, bool(np.ptp(after[:, 1]) > 0)  # three guesses
    ((3, 2), True)
    """

    def __init__(
        self, model: Dynamics, size: int = 20, waves: int = 50, rng: np.random.Generator | int = 0
    ) -> None:
        self.model, self.problem = model, model.problem
        self.state_size, self.action_size = model.state_size, model.action_size
        self.functions = DrawnFunctions(model.posteriors, size, waves, rng)

    def forward_mean(self, states: ArrayLike, actions: ArrayLike) -> tuple[Array, tuple[Array, DrawCache]]:
        """Next states (R, D) of states (R, D) and actions (R, F), row by row, with what `pull_mean` needs."""
        s, a = self.model._batch(states, actions)
        if s.shape != (self.functions.size, self.state_size):
            raise ValueError(
                f"states must have a row for each of {self.functions.size} drawn systems, got shape {s.shape}"
            )
        z = np.concatenate([s, a], axis=-1)
        x = z if self.model._angle_map is None else self.model._angle_map(z)
        f, cache = self.functions.forward(x)
        return self.model.difference * s + f, (z, cache)

    def pull_mean(self, cache: tuple[Array, DrawCache], d_next: Array) -> tuple[Array, Array]:
        """Adjoints of next states (R, D) pulled back to states (R, D) and actions (R, F)."""
        z, inner = cache
        d_x = self.functions.pull(inner, d_next)
        if self.model._angle_map is not None:
            d_x = np.einsum("rp,rpd->rd", d_x, self.model._angle_map.jacobian(z))
        D = self.state_size
        return d_x[:, :D] + self.model.difference * d_next, d_x[:, D:]


class _Draws:
    """R draws of one output: what is added to weights (R, n) and trend (R, inputs + 1) of the mean, and the waves."""

    def __init__(self, process: PosteriorProcess, R: int, L: int, rng: np.random.Generator) -> None:
        X = process.X
        n, P = X.shape
        parts = decompose(process.kernel, P)
        frequencies = [rng.standard_normal((R, L, P)) @ root(metric).T for _, metric in parts.bumps]
        self.frequencies = np.concatenate([np.zeros((R, 0, P)), *frequencies], axis=1)
        heights = np.repeat([s / L for s, _ in parts.bumps], L)
        self.amplitudes = np.sqrt(heights) * rng.standard_normal((2, R, len(heights)))
        prior = np.empty((R, n))
        for r in range(R):  # one at a time: all phases at once would be R x L x n numbers
            phase = self.frequencies[r] @ X.T
            prior[r] = self.amplitudes[0, r] @ np.cos(phase) + self.amplitudes[1, r] @ np.sin(phase)
        # parts linear in x: of the kernel, and of a mean whose weights were integrated out
        Phi = np.column_stack([np.ones(n), X])
        self.trend = rng.standard_normal((R, P + 1)) @ root(parts.linear).T
        A = np.zeros((0, P + 1))
        if process.basis is not None:
            basis = cast(Basis, process.mean_function)
            A = _linear_features(basis, P)
            if not basis.vague:
                self.trend += rng.standard_normal((R, len(A))) @ root(basis.prior_covariance).T @ A
        prior += self.trend @ Phi.T
        sd = np.sqrt(_noise(process) + parts.white)
        seen = (prior + sd * rng.standard_normal((R, n))).T
        answer = process.conditioning.apply(seen)
        if process.basis is not None:
            shift = process.basis.precision.solve(process.basis.projection.T @ seen)
            answer -= process.basis.projection @ shift
            self.trend -= shift.T @ A
        self.weights = -answer.T
        self.trend -= answer.T @ Phi @ parts.linear


def _noise(process: PosteriorProcess) -> Array:
    """Noise variances of the observations, or of what stands for them in an approximation."""
    found = process.conditioning
    if isinstance(found, ObservedConditioning):
        return np.asarray(found.variance, dtype=float)
    if isinstance(found, SiteConditioning) and np.all(found.precision > 0):
        return np.asarray(1.0 / found.precision)
    raise NotAnalyticError(
        "functions cannot be drawn here from this posterior: some of its sites have no positive precision"
    )


LEAST_VARIANCE = 1e-13
"""Conditional variance, relative to the prior variance, below which a value is known but for rounding."""

PAIRED_ROWS = 32
"""Rows of a tile from which only the diagonal is used, for kernels that are not evaluated in pairs."""


class FunctionDraws:
    """R functions drawn from a posterior process, each evaluated at one point per step.

    Parameters
    ----------
    process : PosteriorProcess
        With one target.
    size : int
        Number R of functions.
    steps : int
        Most points at which they will be asked for; 0 forgets each value at once: a new function at each point.
    """

    def __init__(self, process: PosteriorProcess, size: int, steps: int) -> None:
        self.process = process
        self._points: list[Array] = []
        self._marks: list[tuple[Array, Array]] = []
        self._forgetful = steps == 0
        self._L = np.zeros((size, steps, steps))
        self._e = np.zeros((size, steps))
        self._parts: Decomposition | None
        try:
            self._parts = decompose(process.kernel, process.X.shape[1])
        except NotAnalyticError:
            self._parts = None

    def at(self, x: Array, rng: np.random.Generator) -> Array:
        """Value of each function at its own point, (R,) for x (R, D)."""
        if self._forgetful:
            return np.asarray(
                self.process.mean(x) + np.sqrt(self.process.variance(x)) * rng.standard_normal(len(x))
            )
        t, size = len(self._points), len(x)
        minus, plus = self._mark(x)
        prior = self.process.kernel.diag(x)
        variance = prior - np.einsum("ri,ri->r", minus, minus) + np.einsum("ri,ri->r", plus, plus)
        row = np.zeros((size, t))
        for j, (earlier, (M, P)) in enumerate(zip(self._points, self._marks)):
            c = self._paired(earlier, x) - np.einsum("ri,ri->r", M, minus) + np.einsum("ri,ri->r", P, plus)
            row[:, j] = (c - np.einsum("rk,rk->r", self._L[:, j, :j], row[:, :j])) / self._L[:, j, j]
        variance = np.maximum(variance - np.einsum("rk,rk->r", row, row), LEAST_VARIANCE * prior)
        self._points.append(x)
        self._marks.append((minus, plus))
        self._L[:, t, :t], self._L[:, t, t] = row, np.sqrt(variance)
        self._e[:, t] = rng.standard_normal(size)
        shift = np.einsum("rk,rk->r", self._L[:, t, : t + 1], self._e[:, : t + 1])
        return np.asarray(self.process.mean(x) + shift)

    def _mark(self, x: Array) -> tuple[Array, Array]:
        """What of the posterior covariance belongs to each point: vectors to subtract and to add."""
        process = self.process
        cross = process.kernel._block(process.rows, process._prepare(x))
        minus, plus = process.conditioning.reduce(cross)
        added = [np.zeros((0, len(x))) if plus is None else plus]
        if process.basis is not None:
            added.append(process._basis_root(x, cross))
        return np.ascontiguousarray(minus.T), np.ascontiguousarray(np.concatenate(added).T)

    def _paired(self, a: Array, b: Array) -> Array:
        """k(a_r, b_r) row by row, without the noise of a white part."""
        if self._parts is not None:
            d = b - a
            out = np.zeros(len(a))
            for height, metric in self._parts.bumps:
                out += height * np.exp(-0.5 * np.einsum("ri,ij,rj->r", d, metric, d))
            C = self._parts.linear
            if np.any(C):
                one = np.ones((len(a), 1))
                out += np.einsum("ri,ij,rj->r", np.hstack([one, a]), C, np.hstack([one, b]))
            return out
        kernel = self.process.kernel
        blocks = [slice(k, k + PAIRED_ROWS) for k in range(0, len(a), PAIRED_ROWS)]
        return np.concatenate([np.diagonal(kernel(a[block], b[block])) for block in blocks])
