# mypy: disable-error-code="call-arg,no-untyped-call"
"""A prior that is one Matern process of at most three states, by far the most common: passes in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.latent.base import ObservedEvidence, PriorGradient
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI

if TYPE_CHECKING:
    from cavity.latent.markov.filtered import Filtered
    from cavity.latent.markov.prior import MarkovPrior


class Innovations(NamedTuple):
    """What the filter of noisy values leaves, in order of time: `evidence` in `single_matern` has the names."""

    log_density: float
    A: Array
    Q: Array
    noise: Array
    w: Array
    rest: Array
    means: Array
    c: Array
    a: Array


class SingleMatern:
    """Calls of `single_matern` for a prior."""

    def __init__(self, prior: MarkovPrior) -> None:
        self.prior, (block,) = prior, prior.form.blocks
        self.variance, self.rate = block.variance.value, block.factors[0].rate.value
        self.size = block.size

    def _zeros(self, dtype: Any = float) -> tuple[Any, ...]:
        """A packed covariance in the arithmetic of a pass."""
        zero = 0j if np.issubdtype(dtype, np.complexfloating) else 0.0
        return (zero,) * (self.size * (self.size + 1) // 2)

    def _first(self, dtype: Any = float) -> tuple[Any, ...]:
        from cavity.latent.markov.small_matrices import stationary

        kind = complex if np.issubdtype(dtype, np.complexfloating) else float
        return tuple(kind(value) for value in stationary(self._zeros(), self.variance))

    def transitions(self, gaps: Array) -> tuple[Array, Array]:
        """A and Q, each (m, 1, d, d)."""
        from cavity.latent.markov.single_matern import transitions

        A, Q = np.empty((2, len(gaps), 1, self.size, self.size))
        transitions(self._zeros(), self.rate, self.variance, gaps, A, Q)
        return A, Q

    def _shared(self, name: str, *shape: int) -> Array:
        """Memory that the evaluations of a fit share: paging in fresh memory costs as much as a pass."""
        return self.prior.inputs.scratch.get(f"markov {name}", shape)

    @property
    def _steps(self) -> tuple[Array, Any]:
        """Different gaps, and which of them follows each time."""
        (stretch,) = self.prior.stretches
        return stretch.gaps, stretch.which

    def _room(self, dtype: Any) -> tuple[Array, Array]:
        """For the covariances of all states: their first rows, and the rest of their upper triangles."""
        n, d = self.prior.n, self.size
        return np.empty((n, d), dtype), np.empty((n, d * (d - 1) // 2), dtype)

    def filtered(self, noise: Array, observed: bool) -> Filtered:
        """The covariance filter, in the arithmetic of the noise."""
        from cavity.latent.markov.filtered import Filtered
        from cavity.latent.markov.single_matern import forward

        w, rest = self._room(noise.dtype)
        c, q, g = np.empty((3, self.prior.n), noise.dtype)
        forward(
            self._first(noise.dtype),
            self.rate,
            self.variance,
            *self._steps,
            noise,
            observed,
            w,
            rest,
            c,
            q,
            g,
        )
        return Filtered(w, w[:, 0], c, q, g, [rest])

    def backward(self, given: Filtered, var: Array, left: Array) -> None:
        """Fill marginal variances and the diagonal of R."""
        from cavity.latent.markov.single_matern import backward

        backward(self._zeros(given.w.dtype), self.rate, *self._steps, given.w, given.c, given.q, var, left)

    def smooth(self, given: Filtered, columns: Array, observed: bool, alpha: Array, moved: Array) -> None:
        """Fill ((I - R K) b, Sigma b), or R b, of each column."""
        from cavity.latent.markov.single_matern import smooth

        smooth(
            self._zeros(), self.rate, *self._steps, given.w, given.c, given.q, columns, observed, alpha, moved
        )

    def pull_correction(self, given: Filtered) -> tuple[Array, Array]:
        """Derivatives of tr(R K), R held, in variance (1,), rate and shape (2, 1)."""
        from cavity.latent.markov.single_matern import pull_correction

        inner = given.w, given.kept[0], given.c, given.q
        d_variance, d_rate = pull_correction(
            self._zeros(given.w.dtype), self.rate, self.variance, *self._steps, *inner
        )
        return np.array([d_variance]), np.array([[d_rate], [0.0]])

    def pull_products(self, left: Array, right: Array | None) -> tuple[Array, Array]:
        """Derivatives of sum_j left_j' K right_j in variance (1,), rate and shape (2, 1); columns in order of time."""
        from cavity.latent.markov.single_matern import functionals, pull_product

        like, total = self._zeros(), np.zeros(2)
        ahead, other = np.empty((2, self.prior.n, self.size))
        for j in range(left.shape[1]):
            functionals(like, self.rate, *self._steps, np.ascontiguousarray(left[:, j]), ahead)
            if right is not None:
                functionals(like, self.rate, *self._steps, np.ascontiguousarray(right[:, j]), other)
            both = ahead, ahead if right is None else other
            total += pull_product(like, self.rate, self.variance, *self._steps, *both)
        return total[:1], np.array([total[1:], [0.0]])

    def innovations(self, residual: Array, variance: Array) -> Innovations:
        """The filter of residuals with noise of these variances, in shared memory."""
        from cavity.latent.markov.single_matern import evidence, transitions

        prior, n, d, (stretch,) = self.prior, self.prior.n, self.size, self.prior.stretches
        which, gaps = stretch.which, stretch.gaps
        A, Q = self._shared("A", len(gaps), 1, d, d), self._shared("Q", len(gaps), 1, d, d)
        transitions(self._zeros(), self.rate, self.variance, gaps, A, Q)
        y, noise = prior.by_time(residual), prior.by_time(variance)
        w, rest, means = (
            self._shared("w", n, d),
            self._shared("rest", n, d * (d - 1) // 2),
            self._shared("m", n, d),
        )
        c, a = self._shared("c", n), np.empty(n)
        log_det, quadratic = evidence(self._first(), A, Q, which, noise, y, w, rest, means, c, a)
        return Innovations(-0.5 * (log_det + quadratic + n * LOG_2PI), A, Q, noise, w, rest, means, c, a)

    def observed_evidence(self, residual: Array, variance: Array) -> ObservedEvidence:
        """The log density of residuals with its gradient, in one pass forward and one back."""
        from cavity.latent.markov.single_matern import pull_evidence

        prior, (value, A, Q, *found) = self.prior, self.innovations(residual, variance)
        (stretch,) = prior.stretches
        weights, left = found[-1], np.empty(prior.n)  # the pass turns innovations into weights
        d_variance, d_rate = pull_evidence(
            self._zeros(), self.rate, self.variance, stretch.gaps, A, Q, stretch.which, *found, left
        )
        pulled = PriorGradient(prior.to_kernel(np.array([d_variance]), np.array([[d_rate], [0.0]])))
        return ObservedEvidence(value, prior.unsorted(weights, weights), prior.unsorted(left, left), pulled)
