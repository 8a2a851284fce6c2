"""Variational EM for noise that is normal given a latent precision (thesis section 5.4.1 and Algorithm 2).

For p(y|f) = integral c(w) exp(-w (y-f)^2/2) dw take q(f) q(w_1) ... q(w_n). Given q(f), the best q(w_i) is
c(w) times exp(-w S_i / 2), S_i = E[(y_i - f_i)^2] = (y_i - m_i)^2 + v_i, and its normalizer is the density
itself at the squared residual S_i. So q(w) need not be kept, and the bound V of the thesis (eq. 5.39 to 5.43)
is

    V = sum_i l(S_i) - KL(q(f) || p(f)),    l(S) = log p(y|f) as a function of S = (y-f)^2.

Given the w, q(f) has sites of precision E[w_i] = -2 l'(S_i) and shift E[w_i] y_i. Alternating is EM and never
lowers V; it is also a step of natural-gradient ascent on V, which `natural_gradient` extrapolates.

For Student-t noise with alpha = df/2, beta = df scale^2 / 2 this is the thesis' algorithm; the
hyperparameters are learned from the gradient of V at the optimal q instead of by an M-step. Nothing in it is
special to Student-t: a mixture of Gaussians works in the same way, and so does Laplace noise, for which the
thesis finds the rule impossible because E[w] is infinite under the prior; under q(w) it is finite, 1 / (scale
sqrt(S)).

l is convex in S, so V is below the bound of the full Gaussian approximation. Its maxima are many when
outliers are: several starts are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from cavity.inference.base import Stage, UnsupportedPairError
from cavity.inference.variational.base import BoundRule, weighted
from cavity.inference.variational.natural_gradient import Local, LocalBound, maximize_bound
from cavity.latent.base import LatentPrior
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.numerics.arrays import Array
from cavity.runtime.errors import Setting

ANNEALING_STAGES = 5
"""Noise levels, from the spread of the targets down, at which the annealed start is moved along."""

ANNEALING_TOLERANCE = 1e-2
"""Residual at which a stage of annealing ends: it only has to stay near the path."""


class ScaleMixtureEM(BoundRule):
    """Variational EM with factorized latent noise precisions: Student-t, mixture of Gaussians, Laplace.

    The site precisions of the result are the expected noise precisions: small ones mark outliers. The bound
    grows looser with heavier tails, so do not choose degrees of freedom by it.

    Parameters
    ----------
    tolerance : float
        Largest distance from stationarity, in units of the posterior, of a converged solution.
    max_evaluations : int
        Evaluations of the bound after which one climb gives up.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.inference import ScaleMixtureEM
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import StudentT
    >>> model = GP(1.0 * SE(1.0), StudentT(0.3, 4.0), inference=ScaleMixtureEM())
    >>> posterior = model.condition([[0.0], [0.1], [0.2]], [0.5, 0.4, 9.0])
    >>> (posterior.approximation.sites.precision > 0.5).tolist()  # the last one is an outlier
    [True, True, False]
    """

    name = "scale-mixture-em"
    stage = Stage.SCALE_MIXTURE_EM

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the noise is a scale mixture of normals."""
        return isinstance(likelihood, ScaleMixture)

    def _refusal(self, likelihood: Likelihood) -> UnsupportedPairError:
        return UnsupportedPairError(
            "scale-mixture EM needs noise that is a scale mixture of normals (StudentT, MixtureOfGaussians, "
            f"Laplace), got {type(likelihood).__name__}",
            remedy=("use ", Setting("inference", ("variational", "ep", "laplace"))),
        )

    def _local(self, likelihood: Likelihood, y: Array) -> LocalBound:
        return squared_residual_bound(cast(ScaleMixture, likelihood), y)

    def _starts(self, prior: LatentPrior, observations: Observations) -> Iterator[Sites]:
        yield from starts(prior, observations)


def squared_residual_bound(likelihood: ScaleMixture, y: Array, widen: float = 1.0) -> LocalBound:
    """l(S_i) with S_i = (y_i - m_i)^2 + v_i, for noise widened by a factor (parameter derivatives at one)."""

    def local(mean: Array, var: Array) -> Local:
        error = y - mean
        S = (error**2 + var) / widen**2
        f = y - np.sqrt(S)
        precision = likelihood.expected_precision(S) / widen**2
        d_flat = likelihood.parameter_derivatives(y, f).log_prob
        return Local(likelihood.log_prob(y, f) - np.log(widen), precision * error, -0.5 * precision, d_flat)

    return local


def starts(prior: LatentPrior, observations: Observations) -> Iterator[Sites]:
    """No sites; and, unless the bound has one maximum, every point regular; and the noise annealed.

    From no sites, everything may look like an outlier for good; with every point regular, an outlier may keep
    its neighbors out. Annealing lets the noise shrink from the spread of the targets to what it is.
    """
    likelihood, y = cast(ScaleMixture, observations.likelihood), observations.y
    yield Sites.zero(prior.n)
    if likelihood.log_concave:
        return
    regular = float(likelihood.expected_precision(np.zeros(1))[0])
    precision = observations.weights * float(likelihood.expected_precision(np.array([1.0 / regular]))[0])
    yield Sites(precision * y, precision)
    spread = np.sqrt(regular * np.mean((y - prior.mean) ** 2))
    if spread > 1.0:
        yield _annealed(prior, observations, float(spread))


def _annealed(prior: LatentPrior, observations: Observations, spread: float) -> Sites:
    """Sites after following the maximum of V while the noise shrinks from `spread` times its size."""
    sites: Sites | None = None
    noise = cast(ScaleMixture, observations.likelihood)
    for widen in np.geomspace(spread, 1.0, ANNEALING_STAGES + 1)[:-1]:
        local = weighted(squared_residual_bound(noise, observations.y, float(widen)), observations)
        sites = maximize_bound(prior, local, sites, ANNEALING_TOLERANCE).iterate.sites
    return cast(Sites, sites)
