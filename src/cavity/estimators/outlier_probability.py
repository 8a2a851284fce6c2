"""How likely each training row is an outlier, given all other rows.

Under a mixture it is the posterior probability of the outlier component, under Student-t and Laplace noise that the
row's own noise is wide (sd above three times the scale). Under other noise it is the tail-based analogue,
1 - 2 min(P(Y <= y), P(Y >= y)) at the row's target. All are computed from the cavity, the distribution of f without the
row itself, so that a point does not vouch for itself.
"""

from __future__ import annotations

from collections.abc import Callable

from cavity.estimators.leave_one_out import Cavities, by_given_row, of_used_rows
from cavity.learning.training_rows import TrainingRows
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior


def outlier_probability(
    posterior: Posterior, rows: TrainingRows, cavities: Callable[[], Cavities | None]
) -> Array:
    """Of each row as given, shape (n,) or (n, T); nan for rows that were left out of the fit.

    Parameters
    ----------
    posterior : Posterior
    rows : TrainingRows
    cavities : callable
        Gives mean and variance of f at each used row without the row itself; None if the rule has no sites.
    """
    used = rows.index[rows.index >= 0]
    drawn = getattr(posterior, "outlier_probability", None)
    if drawn is not None:
        return by_given_row(drawn[used], rows)
    without = cavities()
    if without is not None:
        likelihood = posterior.model.likelihood.rows(used)
        return by_given_row(likelihood.outlier_probability(rows.y[used], *without), rows)
    loo, y, place = of_used_rows(posterior, rows)
    discrete = posterior.model.likelihood.discrete
    return by_given_row(loo.surprise(y, discrete=discrete)[place], rows)
