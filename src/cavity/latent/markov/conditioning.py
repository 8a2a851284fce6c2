# mypy: disable-error-code="call-arg"
"""What follows from precisions of sites, of either sign, or from variances of observations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cavity.latent.base import ImproperPosteriorError, Loss, PriorGradient
from cavity.latent.markov.filtered import Filtered, White
from cavity.latent.negative_sites import FewNegativeSites
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.latent.markov.posterior_chain import PosteriorChain
    from cavity.latent.markov.prior import MarkovPrior

IMAGINARY = 1e-40
"""Size of complex steps: far below rounding of the real parts, far above the smallest number."""


class MarkovConditioning(FewNegativeSites):
    """What follows from precisions of sites, or from variances of observations, given in the order of the rows.

    Attributes
    ----------
    noise : array (n,)
        Those precisions or variances, in order of time.
    observed : bool
        Whether they are variances.
    """

    def __init__(self, prior: MarkovPrior, noise: Array, *, observed: bool, jitter: float = 0.0) -> None:
        self.prior: MarkovPrior = prior
        self.noise, self.observed, self.jitter = (
            prior.by_time(np.asarray(noise, dtype=float)),
            observed,
            jitter,
        )
        self._filtered: Filtered | None = None
        if not observed:
            self._require_proper()

    @property
    def filtered(self) -> Filtered:
        """What the covariance filter leaves."""
        if self._filtered is None:
            self._filtered = self.prior.filter(self.noise, self.observed)
        return self._filtered

    def release(self) -> None:
        """Free what the filter leaves."""
        _ = self._log_pivots, self._diagonals
        self._filtered = None

    @property
    def pivots(self) -> Array:
        """1 + tau s or s + v, with s the variance of f given what came before, in order of time."""
        return self.filtered.pivots

    def _require_proper(self) -> None:
        """As many negative pivots must belong to positive sites as to negative ones (inertia)."""
        negative = self.pivots < 0
        balance = np.sum(np.sign(self.noise[negative]))
        if balance == 0.0 and np.isfinite(self.pivots).all() and not np.any(self.pivots == 0):
            return
        worst = int(self.prior.order[np.argmin(np.where(np.isfinite(self.pivots), self.pivots, np.inf))])
        raise ImproperPosteriorError(
            f"the posterior is improper: negative site precisions outweigh the prior (near row {worst}); damp the "
            "update or restrict the sites",
            worst,
        )

    @cached_property
    def _log_pivots(self) -> float:
        logs = np.abs(self.pivots)
        return float(np.sum(np.log(logs, out=logs)))

    @property
    def log_det(self) -> float:  # type: ignore[override]
        """log |I + K T|."""
        if not self.observed:
            return self._log_pivots
        with np.errstate(divide="ignore"):
            return self._log_pivots - float(np.sum(np.log(self.noise)))

    @property
    def noisy_log_det(self) -> float:
        """log |K + diag(variance)|."""
        return self._log_pivots

    @property
    def precision(self) -> Array:  # type: ignore[override]
        """tau in the order of the rows."""
        with np.errstate(divide="ignore"):
            noise = 1.0 / self.noise if self.observed else self.noise
        return self.prior.unsorted(noise, noise)

    def loss(self, weights: Array | None = None) -> Loss:
        """Nats by which an approximate form changes the log evidence of a window of rows, by row."""
        from cavity.latent.markov.window import nats_on_a_window

        return Loss() if self.prior.exact else nats_on_a_window(self, weights)

    # --- marginals ------------------------------------------------------------------------------------------

    @cached_property
    def _diagonals(self) -> tuple[Array, Array]:
        return self._backward(self.filtered)

    def _backward(self, given: Filtered) -> tuple[Array, Array]:
        from cavity.latent.markov.passes import backward

        prior, dtype = self.prior, given.w.dtype
        var, left = np.empty((2, prior.n), dtype)
        if prior.single is not None:
            prior.single.backward(given, var, left)
            return prior.unsorted(var, var), prior.unsorted(left, left)
        N = np.zeros((prior.dim, prior.dim), dtype)
        for stretch in reversed(prior.stretches):
            A, at = prior.transitions(stretch)[0], stretch.steps
            inner = given.w[at], given.s[at], given.c[at], given.q[at], var[at], left[at]
            backward(prior.start, A, stretch.which, N, not np.iscomplexobj(N), *inner)
        return prior.unsorted(var, var), prior.unsorted(left, left)

    @property
    def var(self) -> Array:
        """Marginal variances of f."""
        return self._diagonals[0]

    @property
    def unexplained(self) -> Array:
        """The diagonal of R."""
        return self._diagonals[1]

    # --- products -------------------------------------------------------------------------------------------

    def apply(self, U: Array) -> Array:
        """R U; of sites (I - R K) T U."""
        V = self.prior.sorted(U)
        return self._smooth(V if self.observed else self.noise[:, None] * V, U, self.observed)[0]

    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, Sigma b)."""
        return self._smooth(self.prior.sorted(b), b, False)

    def _smooth(self, columns: Array, like: Array, observed: bool) -> tuple[Array, Array]:
        from cavity.latent.markov.passes import smooth_backward, smooth_forward

        prior, given = self.prior, self.filtered
        alpha, moved = np.empty(columns.shape), np.empty(columns.shape)
        if prior.single is not None:
            prior.single.smooth(given, columns, observed, alpha, moved)
            return prior.unsorted(alpha, like), prior.unsorted(moved, like)
        x = np.zeros((columns.shape[1], prior.dim))
        for stretch in prior.stretches:
            A, at = prior.transitions(stretch)[0], stretch.steps
            inner = given.w[at], given.s[at], given.c[at], given.q[at], columns[at], observed
            smooth_forward(prior.start, A, stretch.which, x, *inner, alpha[at], moved[at])
        x[:] = 0.0
        for stretch in reversed(prior.stretches):
            A, at = prior.transitions(stretch)[0], stretch.steps
            ahead = given.w[at], given.c[at], given.q[at]
            smooth_backward(prior.start, A, stretch.which, x, *ahead, alpha[at], moved[at])
        return prior.unsorted(alpha, like), prior.unsorted(moved, like)

    def _innovations(self, U: Array) -> Array:
        return self.filtered.innovations(self.prior, self.prior.sorted(U))

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """R = V' diag(c) V with V the innovations: those of positive and of negative c."""
        c = self.filtered.c
        v = np.sqrt(np.abs(c))[:, None] * self._innovations(U)
        return (v[c >= 0], v[c < 0]) if np.any(c < 0) else (v, None)

    def half_solve(self, U: Array) -> Array:
        """sqrt(c) V U; for observations, in order of time."""
        return (np.sqrt(self.filtered.c)[:, None] * self._innovations(U)).reshape(U.shape)

    @property
    def half_solve_norm(self) -> float:
        """About the norm of L^-1."""
        return float(np.sqrt(np.max(self.filtered.c)))

    def half_solve_transposed(self, U: Array) -> Array:
        """V' sqrt(c) U."""
        columns = np.sqrt(self.filtered.c)[:, None] * (U if U.ndim == 2 else U[:, None])
        return self.prior.unsorted(self.filtered.innovations_adjoint(self.prior, columns), U)

    # --- draws and white coordinates ------------------------------------------------------------------------

    def _chain(self) -> PosteriorChain | None:
        """The posterior as a Markov process; none if there are exact observations."""
        from cavity.latent.markov.posterior_chain import PosteriorChain

        if self.observed and np.any(self.noise == 0):
            return None
        return PosteriorChain(self.prior, 1.0 / self.noise if self.observed else self.noise)

    def draw(self, size: int, rng: np.random.Generator) -> Array | None:
        """Draws of N(0, Sigma), shape (n, size)."""
        chain = self._chain()
        return None if chain is None else chain.draw(size, rng)

    def white(self) -> White | None:
        """Coordinates in which N(0, Sigma) is white."""
        chain = self._chain()
        return None if chain is None else chain.white()

    # --- derivatives ----------------------------------------------------------------------------------------

    def _along(self, d_precision: Array | float, d_variance: Array | float) -> Filtered:
        """The filter with an imaginary part of the noise: a change of precisions and variances, dtau = -tau^2 dv."""
        order = self.prior.order
        d_precision = np.broadcast_to(d_precision, self.prior.n)[order]
        d_variance = np.broadcast_to(d_variance, self.prior.n)[order]
        own, other = (d_variance, d_precision) if self.observed else (d_precision, d_variance)
        return self.prior.filter(self.noise + 1j * IMAGINARY * (own - self.noise**2 * other), self.observed)

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """(Sigma d_mean, (Sigma o Sigma) d_var): the second is minus the change of var with the precisions."""
        first = np.zeros(self.prior.n) if d_mean is None else self.project(d_mean)[1]
        if d_var is None:
            return first, np.zeros(self.prior.n)
        return first, -self._backward(self._along(d_var, 0.0))[0].imag / IMAGINARY

    def apply_squared(self, g: Array) -> Array:
        """(R o R) g: minus the change of the diagonal of R with the noise variances."""
        return np.asarray(-self._backward(self._along(0.0, g))[1].imag / IMAGINARY)

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """See `Conditioning`: with dtau = d_var and dv = d_unexplained the last two terms are the change of R."""
        from cavity.latent.markov.prior import Pulled

        prior, pulled = self.prior, Pulled(self.prior)
        prior.pull_products(prior.sorted(left), None if right is None else prior.sorted(right), pulled)
        if d_log_det:
            found = prior.pull_correction(self.filtered, pulled, d_log_det)
            if found is not None:
                self._diagonals = prior.unsorted(found[0], found[0]), prior.unsorted(found[1], found[1])
        d_variance, d_rate = pulled.totals()
        if d_var is not None or d_unexplained is not None:
            moved = self._along(
                0.0 if d_var is None else d_var, 0.0 if d_unexplained is None else d_unexplained
            )
            turned = Pulled(prior, complex)
            prior.pull_correction(moved, turned)
            by_variance, by_rate = turned.totals()
            d_variance = d_variance + by_variance.imag / IMAGINARY
            d_rate = d_rate + by_rate.imag / IMAGINARY
        return PriorGradient(prior.to_kernel(d_variance, d_rate))
