"""A second search, beyond the reach of the best row, once little is left to be gained near it.

Expected improvement weighs a sure last digit in the basin that was found against a small chance in one that was not,
and a process with one set of length scales, learned mostly from the first basin, makes that chance too small: nearly
all experiments of a run polish one minimum. So two searches take turns. The first goes down where it is. Once it
promises next to nothing, or did not get better for a while, and most of the box is still unknown, the second one has
its turn: it knows only the rows beyond the reach of the best one, those with next to no correlation with it, learns a
model from them alone, and looks for improvement on the best of them, beyond that reach. If it overtakes, the two change
places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cavity.design.acquisition.improvement import log_expected_improvement
from cavity.design.acquisition.pointwise import OfMoments, fantasies, log_ei
from cavity.design.policies import GREED, Where
from cavity.latent.moments import Moments
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.design.suggestion import Study

LITTLE = float(np.log(5e-5))
"""Log improvement, in standard deviations of the outcomes, that is not worth an experiment while the rest of the box is
unknown."""

PATIENCE = 4
"""Trials without improvement after which a search is at its end, and that it has in any case: so many, or as many as
there are inputs."""

REACH = 0.03
"""Correlation with the best row from which a point is within its reach."""

FEWEST = 3
"""Rows that a second search begins with, at least."""


@dataclass(frozen=True, eq=False)
class Beyond:
    """An acquisition where the correlation with a point (1, D) is below `REACH`, and -inf elsewhere."""

    acquisition: OfMoments
    moments: Moments
    center: Array

    def __call__(self, X: Array) -> Array:
        """Values (m,)."""
        return np.where(within_reach(self.moments, self.center, X), -np.inf, self.acquisition(X))

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, D)."""
        value, gradient = self.acquisition.with_gradient(X)
        near = within_reach(self.moments, self.center, X)
        return np.where(near, -np.inf, value), np.where(near[:, None], 0.0, gradient)


def within_reach(moments: Moments, center: Array, X: Array) -> NDArray[np.bool_]:
    """Which points (m, D) are correlated with the center (1, D) a priori, shape (m,)."""
    kernel, a, b = moments.kernel, moments._prepared(X), moments._prepared(center)
    return np.asarray(kernel._block(a, b)[:, 0] ** 2 > REACH**2 * kernel._diag(a) * kernel._diag(b))


def log_gain(study: Study, points: Array, best: float) -> Array:
    """Log expected improvement at points (k, D) on a mean, in the model's units."""
    mean, variance = study.fit.moments(points)
    return log_expected_improvement(mean[:, 0], variance, best).value


def at_its_end(study: Study, gain: float) -> bool:
    """Whether the search near the best row is: it promises next to nothing, or found nothing better lately."""
    assert study.best is not None
    patience = max(PATIENCE, study.space.n)
    before = len(study.y) - patience
    stalled = before >= study.options.initial(study.space) + patience and study.best < before
    return stalled or gain < LITTLE


def second_search(study: Study, seed: int, where: Where) -> Array | None:
    """Points (k, D) beyond the reach of the best row, the best first.

    None if there is nothing to search from, or next to nothing to be gained on the best row out there.
    """
    assert study.best is not None
    center, reach = study.X[study.best : study.best + 1], study.fit.moments
    others = ~within_reach(reach, center, study.X)
    other = study.of_rows(others)
    if np.sum(others) < FEWEST or other.best is None:
        return None
    best = float(other.fit.at_data[0][other.best])
    moments, bests, waiting = other.fit.moments, best, study.waiting
    found = log_ei(
        *(fantasies(moments, waiting, best, seed) if len(waiting) else (moments, bests)), greed=GREED
    )
    score = replace(found, extra=study.extra)
    points, values = where.maximized(Beyond(score, reach, center), other.centers())
    points = points[np.isfinite(values)]
    return points if len(points) and log_gain(other, points[:1], best)[0] > LITTLE else None
