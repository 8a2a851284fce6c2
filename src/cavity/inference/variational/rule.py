"""The full Gaussian variational approximation: the q(f) = N(m, Sigma) that minimizes KL(q || p(f | y)).

Equivalently it maximizes the lower bound (thesis eq. 6.13)

    L = sum_i w_i E_q[log p(y_i | f_i)] - KL(q || p) <= log p(y),

which is the log evidence reported. At a maximum q is the prior times n Gaussian sites (Opper and Archambeau
2009); `natural_gradient` finds them. All that is asked of a likelihood is the
expectation of log p under a normal density with its derivatives, in closed form or by quadrature; kinks
in log p do no harm, because the expectation has none. Where log p is not concave, site precisions may be
negative and the bound may have several maxima: the best of several starts is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from cavity.inference.base import Stage, UnsupportedPairError
from cavity.inference.variational.base import BoundRule
from cavity.inference.variational.natural_gradient import Local, LocalBound
from cavity.inference.variational.scale_mixture_em import ScaleMixtureEM
from cavity.latent.base import LatentPrior
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.probit import Heaviside
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.numerics.arrays import Array
from cavity.runtime.errors import Setting

EM_TOLERANCE = 1e-2
"""Residual at which variational EM has done enough as a start."""


class Variational(BoundRule):
    """The Gaussian closest to the posterior in KL(q || p), for any likelihood with one latent value.

    Parameters
    ----------
    tolerance : float
        Largest distance from stationarity, in units of the posterior, of a converged solution.
    max_evaluations : int
        Evaluations of the bound after which one climb gives up.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.inference import Variational
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> model = GP(1.0 * SE(1.0), Probit(), inference=Variational())
    >>> posterior = model.condition([[0.0], [1.0], [2.0]], [1, 1, -1])
    >>> posterior.status.stage.value, posterior.status.converged
    ('variational', True)
    """

    name = "variational"
    stage = Stage.VARIATIONAL

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether E[log p] exists and there is one latent value per observation."""
        return likelihood.n_latent == 1 and not isinstance(likelihood, Heaviside)

    def _refusal(self, likelihood: Likelihood) -> UnsupportedPairError:
        if isinstance(likelihood, Heaviside):
            return UnsupportedPairError(
                "variational inference needs a finite E[log p], which is minus infinity for Heaviside",
                remedy=("use ", Setting("inference", "ep"), ", or a Probit likelihood"),
            )
        return UnsupportedPairError(
            f"variational inference handles one latent value per observation, {type(likelihood).__name__} "
            f"has {likelihood.n_latent}",
            remedy=("use ", Setting("inference", "laplace")),
        )

    def _local(self, likelihood: Likelihood, y: Array) -> LocalBound:
        return lambda mean, var: Local(*likelihood.expected_log_prob(y, mean, var))

    def _starts(self, prior: LatentPrior, observations: Observations) -> Iterator[Sites]:
        """No sites; and, for outlier-prone noise, where variational EM ends: its bound is much cheaper."""
        yield Sites.zero(prior.n)
        likelihood = observations.likelihood
        if isinstance(likelihood, ScaleMixture) and not likelihood.log_concave:
            em = ScaleMixtureEM(EM_TOLERANCE, self.max_evaluations)
            yield em._search(prior, observations).iterate.sites
