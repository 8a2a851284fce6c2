"""What all other rows say about one: cavities, and predictions of each row that was learned from without itself.

With the site of row i taken away from the posterior marginal N(m, v),

    variance = v / (1 - tau v),    mean = m - variance (nu - tau m),

the cavity: what all other rows say about f_i. A point cannot vouch for itself, so this is what outlier probabilities
and leave-one-out predictions are computed from, under every rule that has sites. Of a row that stands for several equal
ones only the share of one is taken away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cavity.inference.base import refit_without
from cavity.latent.prior_times_sites import Conditioned
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import GaussianNoise, WarpedTarget
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.prediction import GaussianPrediction, Prediction, WarpedPrediction

Cavities = tuple[Array, Array]
"""Mean and variance of f at each row that was learned from, given the other rows."""


def cavities(posterior: Posterior, rows: TrainingRows) -> Cavities:
    """Mean and variance of f at each row that was learned from, given the other rows; shape (n_used,) each.

    Needs sites: every rule for one latent function but exact inference has them.
    """
    q = posterior.approximation.q
    assert isinstance(q, Conditioned)
    sites = q.sites
    index = rows.index[rows.index >= 0]
    mean, var = (part[index] for part in q.cavities())
    share = _shares(rows)
    some = share < 1.0
    if some.any():
        m, v, at = q.mean[index[some]], q.var[index[some]], index[some]
        tau, nu, s = sites.precision[at], sites.shift[at], share[some]
        left = np.where(1.0 - s * tau * v > 0, 1.0 - s * tau * v, np.nan)
        var[some] = v / left
        mean[some] = m - var[some] * s * (nu - tau * m)
    for j in np.flatnonzero(np.isnan(var)):
        model = posterior.model
        row, part = int(index[j]), float(share[j])
        seen = Observations(model.likelihood, rows.y, rows.weight)
        mean[j], var[j] = refit_without(model.inference, q.prior, seen, row, part)
    return mean, var


def _shares(rows: TrainingRows) -> Array:
    """Share of each used row in the row of the model that stands for it."""
    used = rows.index >= 0
    if rows.own is None:
        return np.ones(int(used.sum()))
    total = np.ones(len(rows.X)) if rows.weight is None else rows.weight
    share = rows.own[used] / total[rows.index[used]]
    return np.where(share > 1.0 - 1e-12, 1.0, share)


def leave_one_out(posterior: Posterior, rows: TrainingRows, known: Cavities | None = None) -> Prediction:
    """Distribution of the target of each row that was learned from, given all others, at the learned hyperparameters.

    `known` are cavities found before. Without sites and repeats the order is that of the model's rows.
    """
    likelihood = posterior.model.likelihood
    if posterior.approximation.sites is not None:
        used = rows.index[rows.index >= 0]
        return likelihood.rows(used).predictive(*(cavities(posterior, rows) if known is None else known))
    loo = posterior.model.leave_one_out(rows.X, rows.y, rows.weight)
    return loo if rows.own is None else _without_one_copy(likelihood, loo, rows)


class UsedRows(NamedTuple):
    """Leave-one-out predictions, the targets in the same order, and where each row that was used is among them."""

    prediction: Prediction
    y: Array
    place: NDArray[np.intp]


def of_used_rows(posterior: Posterior, rows: TrainingRows) -> UsedRows:
    """Leave-one-out predictions where some rows may have been left out of the fit."""
    some = rows.index >= 0
    used = replace(rows, index=rows.index[some], own=None if rows.own is None else rows.own[some])
    loo = leave_one_out(posterior, used)
    if posterior.approximation.sites is None and rows.own is None:
        return UsedRows(loo, rows.y, used.index)
    return UsedRows(loo, rows.y[used.index], np.arange(len(used.index)))


def _without_one_copy(likelihood: Likelihood, loo: Prediction, rows: TrainingRows) -> Prediction:
    """Where equal rows were merged, leaving out one of them leaves the others."""
    index, own = rows.index, cast(Array, rows.own)
    total = np.ones(len(rows.X)) if rows.weight is None else rows.weight
    left = total[index] - own
    left = np.where(left > 1e-12 * total[index], left, 0.0)
    if isinstance(likelihood, WarpedTarget) and isinstance(loo, WarpedPrediction):
        z = replace(rows, y=likelihood.latent_targets(rows.y))
        return likelihood.in_units_of_targets(_without_one_copy(likelihood.noise, loo.base, z))
    if not isinstance(likelihood, GaussianNoise):
        if not left.any() and np.array_equal(index, np.arange(len(loo))):
            return loo
        raise ValueError(
            f"leave-one-out with repeated rows is not available for {type(likelihood).__name__}; "
            "leave the repeats out, or give each row a weight"
        )
    noise = likelihood.noise_variances(len(rows.X))[0][index]
    mean, variance, y = loo.mean[index], loo.variance[index], rows.y[index]
    if mean.ndim == 2:
        noise, left = noise[:, None], left[:, None]
    f_precision, rest = 1.0 / (variance - noise), left / noise
    precision = f_precision + rest
    known = precision > 0
    precision = np.where(known, precision, 1.0)
    return GaussianPrediction(
        np.where(known, (f_precision * mean + rest * y) / precision, mean),
        np.where(known, 1.0 / precision + noise, np.inf),
    )


def by_given_row(values: Array, rows: TrainingRows) -> Array:
    """Values of used rows in the order of the rows given, nan for rows that were left out."""
    out = np.full((len(rows.index), *values.shape[1:]), np.nan)
    out[rows.index >= 0] = values
    return out
