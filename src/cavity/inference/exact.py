"""Exact inference for Gaussian noise (book sections 2.2, 2.7, 5.4).

    A = K + diag(noise variance),  r = y - m(X),  alpha = A^-1 r
    log p(y) = -1/2 r' alpha - 1/2 log|A| - n/2 log 2 pi          (book eq. 2.30)
    d log p / dA = 1/2 (alpha alpha' - A^-1)                      (book eq. 5.9)

Explicit basis functions h with weights N(b, B) integrated out replace A^-1 by R = A^-1 - A^-1 H Q^-1 H' A^-1
with Q = B^-1 + H' A^-1 H, and add -1/2 log|Q| + 1/2 log|B^-1|; for vague weights (B^-1 -> 0) the last term
and p/2 log 2 pi are dropped (book eq. 2.45). Several targets share everything but alpha; their log evidences
add up. Q is never formed: with A = L L' and B^-1 = P' P, the triangle of the QR factorization of [P; L^-1 H] is
its Cholesky factor, at the root of its condition number (inputs far from the origin make h nearly dependent), and
V, the lower rows of the orthogonal factor, give R = L^-T (I - V V') L^-1 without a solve.

Leave-one-out: with d the diagonal of R, y_i given the others is normal with mean y_i - alpha_i / d_i and
variance 1 / d_i (book eq. 5.12). Its gradient is one cotangent of A for all parameters, not O(n^3) for each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cavity.inference.base import Approximation, Gradient, Status, UnsupportedPairError
from cavity.latent.dense import DensePrior, ObservedCorrection
from cavity.latent.process import BasisWeights, PosteriorProcess
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.gaussian import GaussianNoise
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, NotPositiveDefiniteError
from cavity.numerics.special import LOG_2PI
from cavity.numerics.tiles import mirror_lower
from cavity.prediction import GaussianPrediction
from cavity.runtime.errors import Setting

CLEAR_OF_ROUNDING = 100.0
"""What tells basis functions apart must exceed their rounding errors by this factor."""


class _Conditioned:
    """One conditioning on data: everything the results below are made of."""

    def __init__(
        self,
        prior: DensePrior,
        likelihood: GaussianNoise,
        y: Array,
        sample_weight: Array | None,
        known: ObservedCorrection | None = None,
    ) -> None:
        self.prior, self.n = prior, prior.n
        self.residual = (y.T - prior.mean).T.reshape(self.n, -1)
        self.targets = self.residual.shape[1]
        self.noise, self.d_noise = likelihood.noise_variances(self.n)
        # A factor to the power w is a Gaussian of variance noise / w, up to a constant accounted for in
        # log_evidence.
        self.sample_weight = np.ones(self.n) if sample_weight is None else sample_weight
        if np.any((self.noise == 0.0) & (self.sample_weight != 1.0)):
            raise ValueError(
                "observations without noise take no sample_weight: they are exact, whatever their weight"
            )
        self.variance = self.noise / self.sample_weight
        self.correction: ObservedCorrection = (
            prior.observe(self.variance) if known is None else prior.observe_more(known, self.variance)
        )
        self.factor = self.correction.factor
        self.log_det = self.factor.log_det
        self.basis: BasisWeights | None = None
        self.basis_root = np.zeros((self.n, 0))
        """W with R = A^-1 - W W', shape (n, p)."""
        mean = prior.mean_function
        self.alpha = (
            self._integrate_basis(mean) if isinstance(mean, Basis) else self.factor.solve(self.residual)
        )

    def _integrate_basis(self, mean: Basis) -> Array:
        """Posterior of the weights of basis functions; returns alpha."""
        L = self.factor
        H = mean.features(self.prior.X)
        whitened = L.half_solve(H)
        Q, V = self._orthogonalize(mean, whitened, np.linalg.norm(H, axis=0))
        residual = L.half_solve(self.residual)
        seen = V.T @ residual
        shift = Q.half_solve_transposed(seen)
        projection = L.half_solve_transposed(whitened)
        self.basis = BasisWeights(mean.prior_mean[:, None] + shift, shift, Q, projection)
        self.basis_root = L.half_solve_transposed(V)
        return L.half_solve_transposed(residual - V @ seen)

    def _orthogonalize(self, mean: Basis, whitened: Array, size: Array) -> tuple[Cholesky, Array]:
        """Factor of Q = P'P + M'M for M = L^-1 H, and V with M = V times its transpose; `size` are norms of
        H's columns."""
        prior = mean.prior_root
        stacked = np.vstack([prior, whitened])
        V, R = np.linalg.qr(stacked)
        own = np.diagonal(R)
        # What is left of a column after the ones before it must exceed rounding: of the factorization, and of
        # the features themselves, which whitening enlarges.
        whitest = np.diagonal(self.factor.lower).min()
        rounding = len(stacked) * np.linalg.norm(stacked, axis=0) + CLEAR_OF_ROUNDING * size / whitest
        if len(own) < len(size) or np.any(np.abs(own) <= np.finfo(float).eps * rounding):
            weights = "a vague prior" if mean.vague else "a prior too wide to tell them apart"
            raise NotPositiveDefiniteError(
                f"the {len(size)} basis functions are linearly dependent on these {self.n} inputs, and their "
                f"weights have {weights}: use fewer basis functions, center the inputs, or give the weights a "
                "smaller prior variance"
            )
        sign = np.where(own < 0, -1.0, 1.0)
        return Cholesky(np.ascontiguousarray(R.T * sign)), V[len(prior) :] * sign

    @property
    def log_evidence(self) -> float:
        quadratic = float(np.vdot(self.residual, self.alpha))
        value = -0.5 * quadratic - 0.5 * self.targets * (self.log_det + self.n * LOG_2PI)
        if self.basis is not None:
            mean: Basis = self.prior.mean_function  # type: ignore[assignment]
            value -= 0.5 * self.targets * self.basis.precision.log_det
            if mean.vague:
                value += 0.5 * self.targets * len(self.basis.mean) * LOG_2PI
            else:
                value += self.targets * float(np.log(np.diagonal(mean.prior_root)).sum())
        w = self.sample_weight
        if np.any(w != 1.0):
            powers = (1.0 - w) * (LOG_2PI + np.log(self.noise)) - np.log(w)
            value += 0.5 * self.targets * float(powers.sum())
        return value

    def process(self) -> PosteriorProcess:
        alpha, basis = self.alpha, self.basis
        if self.targets == 1:
            alpha = alpha[:, 0]
            if basis is not None:
                basis = BasisWeights(basis.mean[:, 0], basis.shift[:, 0], basis.precision, basis.projection)
        prior = self.prior
        return PosteriorProcess(
            prior.kernel, prior.rows, prior.X, prior.mean_function, alpha, self.correction, basis
        )

    def evidence_gradient(self) -> Gradient:
        """Overwrites the factor."""
        F = np.hstack([self.alpha, np.sqrt(self.targets) * self.basis_root])
        inverse = self.factor.into_inverse()

        def cotangent(rows: slice, columns: slice) -> Array:
            """Twice d log evidence / dA: F F' minus A^-1 for each target."""
            return np.asarray(F[rows] @ F[columns].T - self.targets * inverse[rows, columns])

        if F.shape[1] == 1:
            d_kernel = self.prior.pull_outer_minus(np.ascontiguousarray(F[:, 0]), inverse)
        else:
            d_kernel = self.prior.pull(cotangent)
        diagonal = 0.5 * (np.einsum("ij,ij->i", F, F) - self.targets * np.diagonal(inverse))
        d_noise = diagonal / self.sample_weight
        if np.any(self.sample_weight != 1.0):
            d_noise = d_noise + 0.5 * self.targets * (1.0 - self.sample_weight) / self.noise
        return Gradient(
            0.5 * d_kernel,
            self.prior.pull_mean(self.alpha.sum(axis=1)),
            self.d_noise @ d_noise,
        )

    def _inverse(self) -> Array:
        """R, full and symmetric; overwrites the factor."""
        W = self.basis_root
        R = mirror_lower(self.factor.into_inverse())
        if W.shape[1]:
            R -= W @ W.T
        return R

    def leave_one_out(self) -> tuple[Array, Array]:
        """Means (n, T) and variances (n,) of each target given the others."""
        own = self.factor.inverse_diagonal()
        W = self.basis_root
        d = own - np.einsum("ij,ij->i", W, W)
        lost = self._lost(d, own)
        d = np.where(lost, 1.0, d)
        mean = np.where(lost[:, None], 0.0, self.residual - self.alpha / d[:, None])
        return mean, np.where(lost, np.inf, 1.0 / d)

    def _lost(self, d: Array, own: Array) -> NDArray[np.bool_]:
        """Points without which a vague weight is not known at all: there, R has nothing but rounding."""
        return d <= self.n * np.finfo(float).eps * own

    def leave_one_out_log_prob(self) -> tuple[float, Gradient]:
        """Overwrites the factor."""
        W = self.basis_root
        R = self._inverse()
        d = np.diagonal(R).copy()
        lost = self._lost(d, d + np.einsum("ij,ij->i", W, W))
        if lost.any():
            raise NotPositiveDefiniteError(
                f"without row {int(np.flatnonzero(lost)[0])} the vague weights of the basis functions are not "
                "determined, so there is no leave-one-out density: give them a finite prior, or use the evidence"
            )
        d = d[:, None]
        scaled = self.alpha / d
        value = 0.5 * float(np.sum(np.log(d) - self.alpha * scaled - LOG_2PI))
        # L(alpha, d): dL/dalpha = -alpha/d, dL/dd = (1/d + alpha^2/d^2)/2; d alpha = -R dA alpha, dd =
        # -diag(R dA R)
        U = R @ -scaled
        W = R * np.sqrt(0.5 * np.sum(1.0 / d + scaled**2, axis=1))
        G = -(W @ W.T) - 0.5 * (U @ self.alpha.T + self.alpha @ U.T)
        return value, Gradient(
            self.prior.pull(lambda rows, columns: G[rows, columns].copy()),
            self.prior.pull_mean(-U.sum(axis=1)),
            self.d_noise @ np.diagonal(G),
        )


class Exact:
    """Exact inference; needs Gaussian noise.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.inference import Exact
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> model = GP(1.0 * SE(1.0), Gaussian(0.1), inference=Exact())
    >>> posterior = model.condition([[0.0], [1.0]], [0.5, -0.5])
    >>> round(posterior.log_evidence, 3)
    -2.259
    """

    name = "exact"

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is Gaussian in f."""
        return isinstance(likelihood, GaussianNoise)

    def _condition(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None
    ) -> _Conditioned:
        if not isinstance(likelihood, GaussianNoise):
            raise UnsupportedPairError(
                f"exact inference needs Gaussian noise, got {type(likelihood).__name__}",
                remedy=("use ", Setting("inference", ("laplace", "ep", "variational", "mcmc"))),
            )
        return _Conditioned(prior, likelihood, y, sample_weight)

    def infer(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Approximation:
        """Posterior process and log evidence."""
        return self._approximation(self._condition(prior, likelihood, y, sample_weight))

    def extend(
        self,
        earlier: Approximation,
        prior: DensePrior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None = None,
    ) -> Approximation:
        """As `infer`, where the leading rows of the prior are those that `earlier` was conditioned on."""
        correction = earlier.process.correction
        if not (isinstance(correction, ObservedCorrection) and isinstance(likelihood, GaussianNoise)):
            return self.infer(prior, likelihood, y, sample_weight)
        return self._approximation(_Conditioned(prior, likelihood, y, sample_weight, correction))

    @staticmethod
    def _approximation(c: _Conditioned) -> Approximation:
        jitter = c.factor.jitter
        message = f"jitter {jitter:.3g} was added to the diagonal" if jitter else ""
        return Approximation(c.process(), c.log_evidence, Status(jitter=jitter, message=message))

    def evidence(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """Log evidence and its gradient, in the memory of two n x n matrices."""
        c = self._condition(prior, likelihood, y, sample_weight)
        value = c.log_evidence
        return value, c.evidence_gradient()

    def leave_one_out(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> GaussianPrediction:
        """Distribution of each target given all others (without refitting the hyperparameters)."""
        c = self._condition(prior, likelihood, y, sample_weight)
        mean, variance = c.leave_one_out()
        mean = (mean.T + prior.mean).T
        if c.targets == 1:
            mean = mean[:, 0]
        # 1/d is the variance of an observation with this point's own effective noise; report one of weight
        # one.
        variance = variance - c.variance + c.noise
        return GaussianPrediction(
            mean, variance if mean.ndim == 1 else np.repeat(variance[:, None], mean.shape[1], 1)
        )

    def leave_one_out_log_prob(
        self, prior: DensePrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """Sum of leave-one-out log densities and its gradient."""
        if sample_weight is not None and np.any(sample_weight != 1.0):
            raise ValueError(
                "leave-one-out learning takes no sample weights other than 0 and 1; use objective='evidence'"
            )
        return self._condition(prior, likelihood, y, None).leave_one_out_log_prob()

    def degrees_of_freedom(self, prior: DensePrior, likelihood: Likelihood, y: Array) -> float:
        """Effective number of parameters, tr(K A^-1) (book section 2.6), plus the basis functions that were
        fitted."""
        c = self._condition(prior, likelihood, y, None)
        W = c.basis_root
        d = c.factor.inverse_diagonal() - np.einsum("ij,ij->i", W, W)
        return float(c.n - c.variance @ d)
