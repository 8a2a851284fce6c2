"""Likelihoods by name, as estimators and the command line take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.epsilon_insensitive import EpsilonInsensitive
from cavity.likelihoods.gaussian import Gaussian, Noiseless
from cavity.likelihoods.heteroscedastic import HeteroscedasticGaussian
from cavity.likelihoods.laplace import Laplace
from cavity.likelihoods.least_squares import LeastSquares
from cavity.likelihoods.logit import Logit
from cavity.likelihoods.mixture_of_gaussians import MixtureOfGaussians
from cavity.likelihoods.negative_binomial import NegativeBinomial
from cavity.likelihoods.poisson import Poisson
from cavity.likelihoods.probit import LapseProbit, Probit
from cavity.likelihoods.student_t import StudentT
from cavity.runtime.errors import InputError

BY_NAME: dict[str, Callable[[], Likelihood]] = {
    "gaussian": Gaussian,
    "noiseless": Noiseless,
    "student-t": StudentT,
    "laplace": Laplace,
    "mixture": MixtureOfGaussians,
    "epsilon-insensitive": EpsilonInsensitive,
    "probit": Probit,
    "logit": Logit,
    "lapse-probit": LapseProbit,
    "least-squares": LeastSquares,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "heteroscedastic": HeteroscedasticGaussian,
}
"""Names of the noise models that need no further arguments."""


def as_likelihood(spec: Any) -> Likelihood:
    """A likelihood from its name or from itself.

    Examples
    --------
    >>> from cavity.likelihoods import as_likelihood
    >>> as_likelihood("student-t")
    StudentT(scale=1.0, df=4.0)
    """
    if isinstance(spec, Likelihood):
        return spec
    if isinstance(spec, str) and spec in BY_NAME:
        return BY_NAME[spec]()
    names = ", ".join(map(repr, BY_NAME))
    raise InputError(
        f"must be a Likelihood or one of {names}, got {spec!r}", parameter="likelihood", value=spec
    )
