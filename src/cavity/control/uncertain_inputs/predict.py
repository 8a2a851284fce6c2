"""Prediction at uncertain inputs: one function for every kind of fitted model.

Exact moments wherever kernel and mean have them (`moments`, `polynomial`); elsewhere points (`fallback`). What was
done is in `result.method`, and `method="exact"` refuses everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.uncertain_inputs.cubature import METHODS, approximate_moments
from cavity.control.uncertain_inputs.decomposition import NotAnalyticError
from cavity.control.uncertain_inputs.gaussian_moments import GaussianMoments
from cavity.control.uncertain_inputs.output_moments import OutputMoments, checked_gaussian
from cavity.control.uncertain_inputs.polynomial_moments import PolynomialMoments


def exact_moments(posteriors: Any, noise: bool = False) -> GaussianMoments | PolynomialMoments:
    """An object with exact `forward` and `pull` for these models.

    Raises
    ------
    NotAnalyticError
        If they have no closed-form moments jointly.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, kernels, likelihoods
    >>> from cavity.control import exact_moments
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> posterior = GP(1.0 * kernels.SE(0.8), likelihoods.Gaussian(0.01)).condition(X, X[:, 0] ** 2)
    >>> result, _ = exact_moments([posterior]).forward(np.array([0.5]), np.array([[0.04]]))
    >>> result.mean.round(1)
    array([0.3])
    """
    try:
        return GaussianMoments.of(posteriors, noise)
    except NotAnalyticError as error:
        try:
            return PolynomialMoments.of(posteriors, noise)
        except NotAnalyticError:
            raise error from None


def predict_gaussian(
    posteriors: Any,
    mean: ArrayLike,
    cov: ArrayLike,
    *,
    noise: bool = False,
    method: str = "auto",
    size: int | None = None,
    rng: np.random.Generator | int | None = 0,
) -> OutputMoments:
    """Mean, covariance and input-output covariance of the outputs for an input x ~ N(mean, cov).

    Parameters
    ----------
    posteriors : Posterior or sequence of Posterior
        Fitted models on the same inputs; their outputs are independent given x. Several targets of one model count as
        several outputs.
    mean : array (D,) or (B, D)
        One input distribution or a batch.
    cov : array (D, D) or (B, D, D)
        Positive semi-definite; (D, D) may serve a whole batch, and (D,) are variances; inputs known
        exactly have variance zero.
    noise : bool
        Whether outputs are new observations rather than the function.
    method : {"auto", "exact", "gauss-hermite", "unscented", "monte-carlo"}
        "auto" is exact for squared exponential, linear and constant kernels, their sums and products of squared
        exponentials, with zero, constant or linear mean, and for polynomial kernels; otherwise a product rule of
        Gauss-Hermite points, or draws if there are too many uncertain inputs. `result.method` says which.
    size : int, optional
        Number of draws of "monte-carlo".
    rng : Generator or int
        For "monte-carlo".

    Returns
    -------
    OutputMoments

    Notes
    -----
    For robust or classification models the Gaussian posterior of the function is what is propagated: its moments are
    exact with `noise=False` if the kernel allows it. With `noise=True`, labels and counts go through the points.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, kernels, likelihoods
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> model = GP(1.0 * kernels.SE(0.8), likelihoods.Gaussian(0.01))
    >>> result = predict_gaussian(model.condition(X, X[:, 0] ** 2), [0.5], [[0.04]])
    >>> result.method, round(float(result.mean[0]), 1)
    ('exact', 0.3)
    """
    listed: Sequence[Any] = list(posteriors) if isinstance(posteriors, list | tuple) else [posteriors]
    if not listed:
        raise ValueError("posteriors is empty: give at least one fitted model")
    if method not in ("auto", "exact", *METHODS):
        raise ValueError(f"method must be 'auto', 'exact' or one of {', '.join(METHODS)}, got {method!r}")
    widths = {p.process.X.shape[1] for p in listed}
    if len(widths) > 1:
        raise ValueError(f"all posteriors must have the same inputs, got {sorted(widths)} columns")
    m, S = checked_gaussian(mean, cov, widths.pop())
    if method in ("auto", "exact"):
        try:
            return exact_moments(listed, noise).forward(m, S, check=False)[0]
        except NotAnalyticError:
            if method == "exact":
                raise
    generator = np.random.default_rng(rng)
    if m.ndim == 1:
        return approximate_moments(listed, m, S, noise, method, size, generator)
    if not len(m):
        raise ValueError("mean is an empty batch, which has no moments")
    made = [approximate_moments(listed, a, B, noise, method, size, generator) for a, B in zip(m, S)]
    names = ("mean", "covariance", "gain", "cross")
    stacked = {name: np.stack([getattr(one, name) for one in made]) for name in names}
    return OutputMoments(**stacked, method=" and ".join(sorted({one.method for one in made})))
