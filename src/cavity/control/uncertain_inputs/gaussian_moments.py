"""Exact moments of Gaussian processes at a Gaussian input, forward and in reverse.

`GaussianMoments` is made once from fitted models, then used many times: `forward(m, S)` gives mean, covariance and
gain of all E outputs, `pull` carries adjoints of these back to m and S. All local derivatives of the n x n work are
collected in the forward pass (they are sums over the same exponentials), so that the reverse pass costs next to
nothing and nothing of size n x n is kept. See `gaussian_bumps` for the integrals and
`decomposition` for the models.

With a(x), b(x) means of two outputs given x, each a sum of bumps plus a trend c + w'x, Stein's lemma gives

    Cov(a, b) = Cov(bumps_a, bumps_b) + w_b'S q_a + w_a'S q_b + w_a'S w_b,      q = E[gradient of the bumps],

so that trends need no integrals of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.uncertain_inputs.decomposition import AnalyticOutput, analytic_outputs, noise_variances
from cavity.control.uncertain_inputs.gaussian_bumps import Bumps, Group, Pair, PairSums, Singles, folded
from cavity.control.uncertain_inputs.output_moments import ExactMoments, OutputMoments
from cavity.control.uncertain_inputs.posterior_means import MeanOnly
from cavity.latent.posterior_process import PosteriorProcess
from cavity.numerics.arrays import Array

CHECKED = 3
"""Training inputs at which the rounding errors of variances are looked at."""

NEGLIGIBLE = 1e-3
"""Error of a standard deviation, relative to the spread of the means, that is too small to matter."""


@dataclass(frozen=True)
class MomentCache:
    """What `GaussianMoments.pull` needs of one forward pass."""

    mu: Array
    S: Array
    gain: Array
    bump_mean: Array
    bump_gain: Array
    singles: Singles | None
    pairs: PairSums | None


class GaussianMoments(ExactMoments[MomentCache]):
    """Mean, covariance and gain of E outputs at x ~ N(m, S), exact, with derivatives.

    Parameters
    ----------
    outputs : sequence of AnalyticOutput
        See `of` for making them from fitted models.
    noise : array (E,), optional
        Noise variances, added to the diagonal of the covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, kernels, likelihoods
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> model = GP(1.0 * kernels.SE(0.8), likelihoods.Gaussian(0.01))
    >>> moments = GaussianMoments.of([model.condition(X, np.sin(X[:, 0]))])
    >>> result, cache = moments.forward([0.3], [[0.04]])
    >>> result.mean.shape, result.covariance.shape, result.gain.shape
    ((1,), (1, 1), (1, 1))
    >>> d_m, d_S = moments.pull(cache, d_mean=np.ones(1))
    """

    def __init__(self, outputs: Sequence[AnalyticOutput], noise: ArrayLike | None = None) -> None:
        self.outputs = list(outputs)
        if not self.outputs:
            raise ValueError("GaussianMoments needs at least one output")
        self.D, self.E = self.outputs[0].D, len(self.outputs)
        if any(o.D != self.D for o in self.outputs):
            raise ValueError(
                f"all outputs must have the same inputs, got {[o.D for o in self.outputs]} columns"
            )
        self.noise = np.zeros(self.E) if noise is None else np.asarray(noise, dtype=float)
        if self.noise.shape != (self.E,) or not np.all(self.noise >= 0):
            raise ValueError(f"noise must be {self.E} variances >= 0, one per output, got {noise!r}")
        trend = np.stack([o.trend for o in self.outputs])
        self.constant, self.slope = trend[:, 0], np.ascontiguousarray(trend[:, 1:].T)
        self.prior = np.array([o.constant + o.quadratic[0, 0] for o in self.outputs])
        self.prior_slope = np.stack([2.0 * o.quadratic[0, 1:] for o in self.outputs])
        self.prior_curve = np.stack([o.quadratic[1:, 1:] for o in self.outputs])
        self._plain = not (self.prior_slope.any() or self.prior_curve.any())
        self._set_up_bumps()
        self.mean_only = MeanOnly(self.outputs)

    @classmethod
    def of(cls, posteriors: Any, noise: bool = False) -> GaussianMoments:
        """From fitted models: one `cavity.gp.Posterior` or several (targets of one count as outputs).

        Raises
        ------
        NotAnalyticError
            If a kernel or mean has no closed-form moments.
        """
        listed = list(posteriors) if isinstance(posteriors, list | tuple) else [posteriors]
        outputs: list[AnalyticOutput] = []
        variances = []
        for posterior in listed:
            made = analytic_outputs(posterior.process)
            _warn_of_rounding(made[0], posterior.process, len(outputs))
            outputs += made
            variances += [noise_variances(posterior) if noise else 0.0] * len(made)
        return cls(outputs, np.array(variances))

    # --- setting up -----------------------------------------------------------------------------------------

    def _set_up_bumps(self) -> None:
        """Groups, their weights, and the list of pairs with the outputs they belong to."""
        groups: list[Group] = []
        weights: list[Array] = []
        owners: list[list[int]] = []
        where: list[slice] = []
        start = 0
        for o in self.outputs:
            columns = o.alpha[:, None] if o.coupling is None else np.column_stack([o.alpha, o.coupling])
            mine = []
            for height, metric in o.bumps:
                mine.append(len(groups))
                groups.append(Group(o.X, metric, height))
                weights.append(columns)
                where.append(slice(start, start + columns.shape[1]))
                start += columns.shape[1]
            owners.append(mine)
        self.owners, self.columns = owners, where
        pairs, first, second, factor = [], [], [], []
        for a, o in enumerate(self.outputs):
            if owners[a]:
                W = np.multiply.outer(o.alpha, o.alpha) - o.reduction
                folded_W = folded(W)
            for i, g in enumerate(owners[a]):
                for h in owners[a][: i + 1]:
                    pairs.append(Pair(g, h, matrix=folded_W if g == h else W))
                    first.append(a)
                    second.append(a)
                    factor.append(1.0 if g == h else 2.0)
                for b in range(a):
                    for h in owners[b]:
                        pairs.append(Pair(g, h, left=o.alpha, right=self.outputs[b].alpha))
                        first.append(a)
                        second.append(b)
                        factor.append(1.0)
        self.bumps = Bumps(groups, weights, pairs) if groups else None
        self._first, self._second = np.array(first, dtype=int), np.array(second, dtype=int)
        self._factor = np.array(factor)

    def _forward(self, mu: Array, S: Array) -> tuple[OutputMoments, MomentCache]:
        D, E = self.D, self.E
        bump_mean, bump_gain, V = np.zeros(E), np.zeros((D, E)), np.zeros((E, E))
        singles = pairs = None
        if self.bumps is not None:
            offsets = self.bumps.offsets(mu)
            singles = self.bumps.singles(S, offsets)
            pairs = self.bumps.pair_sums(S, offsets)
            np.add.at(V, (self._first, self._second), self._factor * pairs.value)
            V = V + np.tril(V, -1).T
            for a, groups in enumerate(self.owners):
                for g in groups:
                    bump_mean[a] += singles.mean[self.columns[g].start]
                    bump_gain[:, a] += singles.gain[self.columns[g].start]
                    V[a, a] -= self._coupling(singles, g, mu, S)
        V -= np.multiply.outer(bump_mean, bump_mean)
        V.reshape(-1)[:: E + 1] += self.prior + self.noise
        if not self._plain:
            curve = self.prior_curve
            V.reshape(-1)[:: E + 1] += (
                self.prior_slope @ mu + (curve @ mu) @ mu + np.einsum("eij,ij->e", curve, S)
            )
        moved = S @ self.slope
        trend = moved.T @ bump_gain
        V += trend + trend.T + self.slope.T @ moved
        gain = bump_gain + self.slope
        result = OutputMoments(bump_mean + self.constant + mu @ self.slope, V, gain, S @ gain)
        return result, MomentCache(mu, S, gain, bump_mean, bump_gain, singles, pairs)

    def _coupling(self, singles: Singles, g: int, mu: Array, S: Array) -> float:
        """E[b' U phi] = m_0 + sum_d (mu_d m_d + S_d q_d) over the columns of U."""
        own = slice(self.columns[g].start + 1, self.columns[g].stop)
        if own.start == own.stop:
            return 0.0
        m, q = singles.mean[own], singles.gain[own]
        return float(m[0] + mu @ m[1:] + np.sum(S * q[1:]))

    def _pull(
        self,
        c: MomentCache,
        d_mean: Array | None,
        d_cov: Array | None,
        d_cross: Array | None,
        d_gain: Array | None,
    ) -> tuple[Array, Array]:
        D, E, S, mu = self.D, self.E, c.S, c.mu
        mb = np.zeros(E) if d_mean is None else d_mean.copy()
        qb = np.zeros((D, E)) if d_gain is None else d_gain.copy()
        d_mu, d_S = self.slope @ mb, np.zeros((D, D))
        if d_cross is not None:
            qb += S @ d_cross
            d_S += d_cross @ c.gain.T
        v = np.zeros(E)
        if d_cov is not None:
            Vb = 0.5 * (d_cov + d_cov.T)
            v = np.diagonal(Vb)
            mb -= 2.0 * (Vb @ c.bump_mean)
            SW = S @ self.slope @ Vb
            qb += 2.0 * SW
            d_S += self.slope @ Vb @ (2.0 * c.bump_gain + self.slope).T
            if not self._plain:
                d_mu += v @ self.prior_slope + 2.0 * v @ (self.prior_curve @ mu)
                d_S += np.einsum("e,eij->ij", v, self.prior_curve)
            if c.pairs is not None:
                weight = self._factor * Vb[self._first, self._second]
                weight[self._first != self._second] *= 2.0
                d_mu += weight @ c.pairs.d_mean
                d_S += np.tensordot(weight, c.pairs.d_cov, 1)
        if c.singles is not None and self.bumps is not None:
            m_bar, q_bar = self._spread(c, mb, qb, v, d_mu, d_S)
            moved, turned = self.bumps.pull_singles(c.singles, m_bar, q_bar)
            d_mu += moved
            d_S += turned
        return d_mu, 0.5 * (d_S + d_S.T)

    def _spread(
        self, c: MomentCache, mb: Array, qb: Array, v: Array, d_mu: Array, d_S: Array
    ) -> tuple[Array, Array]:
        """Adjoints of all single sums from those of the outputs; couplings also add to d_mu and d_S."""
        singles = c.singles
        assert singles is not None
        m_bar, q_bar = np.zeros_like(singles.mean), np.zeros_like(singles.gain)
        for a, groups in enumerate(self.owners):
            for g in groups:
                k = self.columns[g]
                m_bar[k.start], q_bar[k.start] = mb[a], qb[:, a]
                if k.stop > k.start + 1:
                    own, linear = slice(k.start + 1, k.stop), slice(k.start + 2, k.stop)
                    m_bar[own] = -v[a] * np.append(1.0, c.mu)
                    q_bar[linear] = -v[a] * c.S
                    d_mu -= v[a] * singles.mean[linear]
                    d_S -= v[a] * singles.gain[linear]
        return m_bar, q_bar


# --- what rounding leaves -----------------------------------------------------------------------------------


def _warn_of_rounding(output: AnalyticOutput, process: PosteriorProcess, number: int) -> None:
    """Warn if variances are differences of numbers so large that rounding errors are all that is left of them.

    At points that are known, a posterior has its variances from triangular solves, which lose half as many digits as
    the sums over an inverse that an uncertain input takes. So the two are compared at some training inputs.
    """
    rows = np.unique(np.linspace(0, len(process.X) - 1, CHECKED).astype(int))
    known, alone = np.atleast_1d(process.variance(process.X[rows])), GaussianMoments([output])
    still = np.zeros((output.D, output.D))
    summed = np.array([alone.forward(x, still, check=False)[0].covariance[0, 0] for x in process.X[rows]])
    worst = int(np.argmax(np.abs(summed - known)))
    error, scale = abs(summed[worst] - known[worst]), float(np.std(process.mean(process.X), axis=0).max())
    if error > known[worst] and np.sqrt(error) > NEGLIGIBLE * scale:
        warnings.warn(
            f"variances of output {number} at uncertain inputs are lost in rounding: at a training input there comes "
            f"out {summed[worst]:.3g} in place of {known[worst]:.3g}. Noise is too small beside the signal: use more "
            "of it, or bound the signal (least_noise of Dynamics.fit does both)",
            stacklevel=3,
        )
