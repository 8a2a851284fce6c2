"""Laplace's method: a Gaussian at the mode of p(f | y), with the curvature there (book sections 3.4 and
5.5.1).

    log q(y) = sum_i w_i log p(y_i | f_i) - 1/2 a' K a - 1/2 log|I + K W|,    f = m + K a,   W = -w d2

at the mode (book eq. 3.32), where a = w d1. The mode moves with the hyperparameters, and W with it. With
Sigma = (K^-1 + W)^-1, R = (K + W^-1)^-1, u_i = dlog q/df_i = 1/2 Sigma_ii w_i d3_i (book eq. 5.23 has the
wrong sign) and v = (I - R K) u,

    d log q / dK     = 1/2 (a a' - R) + 1/2 (v a' + a v')
    d log q / dm     = a + v
    d log q / dtheta = sum_i w_i (dlog p_i + 1/2 Sigma_ii dd2_i + (K v)_i dd1_i) / dtheta

for parameters theta of the likelihood.

As sites: precision W_i, shift W_i f_i + w_i d1_i. Leaving point i out is approximated by taking its site away
from the marginal of f_i.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy.linalg.blas import dsymv

from cavity.inference.base import Approximation, Gradient, InferenceFailedError, Status, UnsupportedPairError
from cavity.inference.laplace.mode_search import CONVERGED, Mode, OneLatent
from cavity.inference.laplace.several import ManyLatents, gradient, without_own_site
from cavity.inference.laplace.tracking import MEMORY, Found, search, tracked
from cavity.latent.conditioned import Conditioned
from cavity.latent.dense import DensePrior
from cavity.latent.inversion import into_matrix_and_variances
from cavity.latent.process import PosteriorProcess
from cavity.latent.several import BlockPosterior, BlockPrior, PerLatent
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood, MultiLatentLikelihood
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction
from cavity.runtime.errors import Setting

Prior = DensePrior | BlockPrior

NEGLIGIBLE = 1e-13
"""Derivatives times prior variance below which a point cannot change the gradient, whatever its variance."""


class Laplace:
    """Laplace's method; needs a likelihood with two continuous derivatives.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.inference import Laplace
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> model = GP(1.0 * SE(1.0), Probit(), inference=Laplace())
    >>> posterior = model.condition([[0.0], [1.0], [2.0]], [1, 1, -1])
    >>> posterior.status.stage, posterior.status.converged
    ('newton', True)
    """

    name = "laplace"

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is smooth."""
        return bool(likelihood.smooth)

    def infer(
        self, prior: Prior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Approximation:
        """Posterior process and log evidence; of the mode that this workspace remembers, if there is one."""
        problem = self._problem(prior, likelihood, y, sample_weight)
        found = self._found(problem)
        mode = found.mode
        sites = _sites(mode) if isinstance(problem, OneLatent) else None
        return Approximation(_process(problem, mode), _log_evidence(mode), _status(found), sites)

    @staticmethod
    def _found(problem: OneLatent | ManyLatents) -> Found:
        if MEMORY in problem.prior.workspace.memory:
            try:
                return tracked(problem)
            except InferenceFailedError:  # its branch cannot be followed to here
                pass
        return search(problem)

    def evidence(
        self, prior: Prior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """Log evidence and its gradient; continues the mode of the last evaluation on this workspace."""
        # With several modes several factors are alive at a time; with one, memory need not be paged in anew.
        memory = "B" if likelihood.log_concave else None
        problem = self._problem(prior, likelihood, y, sample_weight, memory)
        mode = tracked(problem).mode
        if mode.residual > CONVERGED:
            raise InferenceFailedError(
                f"Newton's method stopped {mode.residual:.2g} posterior standard deviations from the mode"
            )
        value = _log_evidence(mode)
        slope, found = _gradient(problem, mode) if isinstance(problem, OneLatent) else gradient(problem, mode)
        # The remaining step, which changes Psi by its square but W in proportion, makes the value that of the mode.
        return value + float(np.vdot(slope, mode.step)), found

    def leave_one_out(
        self, prior: Prior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Prediction:
        """Distribution of each target given the others: the sites of the others, without a new mode."""
        problem = self._problem(prior, likelihood, y, sample_weight)
        mode = search(problem).mode
        if isinstance(problem, OneLatent):
            return likelihood.predictive(*_without_own_site(problem, mode))
        return likelihood.predictive(*without_own_site(problem, mode))

    def leave_one_out_log_prob(
        self, prior: Prior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> tuple[float, Gradient]:
        """Not available with a gradient."""
        raise UnsupportedPairError(
            "leave-one-out learning needs exact inference (Gaussian noise); with Laplace's method use "
            "objective='evidence'"
        )

    def degrees_of_freedom(self, prior: Prior, likelihood: Likelihood, y: Array) -> float:
        """Effective number of parameters, tr(Sigma W): of each row that of its own block."""
        problem = self._problem(prior, likelihood, y, None)
        mode = search(problem).mode
        if isinstance(problem, OneLatent):
            return float(-mode.derivatives.d2 @ mode.curvature.marginal_variances(problem.prior))
        W = problem.W(mode.derivatives, safe=False)
        return float(np.einsum("nij,nji->", W, mode.curvature.training_blocks()))

    def _problem(
        self,
        prior: Prior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None,
        memory: str | None = None,
    ) -> OneLatent | ManyLatents:
        if not self.supports(likelihood):
            raise UnsupportedPairError(
                "Laplace's method needs a likelihood with two continuous derivatives, which "
                f"{type(likelihood).__name__} has not",
                remedy=("use ", Setting("inference", ("ep", "variational"))),
            )
        means = prior.mean_function
        if isinstance(means, Basis) or (
            isinstance(means, PerLatent) and any(isinstance(m, Basis) for m in means)
        ):
            raise UnsupportedPairError(
                "basis functions whose weights are integrated out need exact inference; with Laplace's "
                "method use a mean function with parameters ('constant', 'linear') or add a Linear kernel"
            )
        if isinstance(prior, BlockPrior):
            return ManyLatents(prior, cast(MultiLatentLikelihood, likelihood), y, sample_weight)
        return OneLatent(prior, likelihood, y, sample_weight, memory)


def _process(problem: OneLatent | ManyLatents, mode: Mode) -> Any:
    if isinstance(problem, ManyLatents):
        return BlockPosterior(problem.prior, mode.a, mode.curvature)
    prior = problem.prior
    return PosteriorProcess(prior.kernel, prior.rows, prior.X, prior.mean_function, mode.a, mode.curvature)


# --- evidence -----------------------------------------------------------------------------------------------


def _log_evidence(mode: Mode) -> float:
    return mode.value - 0.5 * float(mode.curvature.log_det)


def _sites(mode: Mode) -> Sites:
    W = -mode.derivatives.d2
    return Sites(W * mode.f + mode.derivatives.d1, W)


def _status(found: Found) -> Status:
    mode = found.mode
    notes = []
    if found.modes > 1:
        notes.append(
            f"{found.modes} modes found from {found.starts} starts; the one of highest density is kept"
        )
    if found.flat:
        notes.append(
            "the mode is nearly flat in one direction: variances there and the evidence are too large"
        )
    if mode.residual > CONVERGED:
        notes.append(
            f"Newton's method stopped {mode.residual:.2g} posterior standard deviations from the mode"
        )
    if mode.curvature.jitter:
        notes.append(f"jitter {mode.curvature.jitter:.3g} was added to the diagonal")
    return Status(
        converged=mode.residual <= CONVERGED,
        stage=found.stage,
        iterations=found.iterations,
        residual=mode.residual,
        jitter=mode.curvature.jitter,
        message="; ".join(notes),
    )


def _gradient(problem: OneLatent, mode: Mode) -> tuple[Array, Gradient]:
    """dlog q/df at the mode, and the gradient in the parameters; overwrites the mode's factorization."""
    prior, likelihood, d, K = problem.prior, problem.likelihood, mode.derivatives, problem.K
    slopes = likelihood.parameter_derivatives(problem.y, mode.f)
    weight = 1.0 if problem.weight is None else problem.weight
    by_log_prob, by_d1, by_d2 = (weight * part for part in slopes)
    needed = (np.abs(d.d3) + np.abs(by_d2).sum(axis=0)) * prior.diagonal > NEGLIGIBLE
    R, variance = into_matrix_and_variances(mode.curvature, prior, needed)
    a, u = mode.a, 0.5 * variance * d.d3
    v = u - dsymv(1.0, R.T, K @ u, lower=0)
    left, right = np.column_stack([0.5 * a + 0.5 * v, 0.5 * a]), np.column_stack([a, v])

    def cotangent(rows: slice, columns: slice) -> Array:
        G = R[rows, columns] * -0.5
        G += left[rows] @ right[columns].T
        return G

    d_likelihood = by_log_prob.sum(axis=1) + 0.5 * by_d2 @ variance + by_d1 @ (K @ v)
    return u, Gradient(prior.pull(cotangent), prior.pull_mean(a + v), d_likelihood)


# --- leave-one-out ------------------------------------------------------------------------------------------


def _without_own_site(problem: OneLatent, mode: Mode) -> tuple[Array, Array]:
    """Mean and variance of each f_i given the sites of the others, shape (n,) each.

    Negative sites elsewhere can leave nothing proper behind; such a point is left out in earnest, with a new
    mode.
    """
    mean, variance = Conditioned(problem.prior, _sites(mode)).without_own_site()
    for i in np.flatnonzero(np.isnan(variance)):
        mean[i], variance[i] = _refit_without(problem, int(i))
    return mean, variance


def _refit_without(problem: OneLatent, i: int) -> tuple[float, float]:
    """Mean and variance of f_i from the mode of the other points alone."""
    prior = problem.prior
    keep = np.arange(prior.n) != i
    others = OneLatent(
        DensePrior(prior.kernel, prior.X[keep], prior.mean_function),
        problem.likelihood.rows(keep),
        problem.y[keep],
        None if problem.weight is None else problem.weight[keep],
    )
    process = _process(others, search(others).mode)
    x = prior.X[i : i + 1]
    return float(process.mean(x)[0]), float(process.variance(x)[0])
