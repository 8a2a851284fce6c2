"""Elliptical slice sampling (Murray, Adams and MacKay 2010), several chains at once.

For a target N(u | 0, I) times a likelihood: draw another point of the prior, and on the ellipse through both look for
a point above a random level of the likelihood,

    u(a) = u cos a + nu sin a,   log p(u(a)) > log p(u) + log(uniform),

with a bracket of angles that shrinks towards a = 0, the present point, until one is found. There is nothing to tune.
Chains whose point has been found wait for the others: each round evaluates the likelihood of those that are left, in
one call.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer
from cavity.runtime.progress import ProgressLike
from cavity.sampling.trace import Recorder, Trace, Until, as_chains, check_counts

MOST_ROUNDS = 200
"""Shrinkings of the bracket before a chain stays where it is; by then it is as narrow as rounding."""


def elliptical_update(
    log_likelihood: Callable[[Array], Array],
    position: Array,
    value: Array,
    rng: np.random.Generator,
    scale: Array | float = 1.0,
) -> tuple[Array, Array, int]:
    """One update of every chain.

    Parameters
    ----------
    log_likelihood : callable
        Positions (k, d) -> (k,), for any number k of them.
    position, value : arrays (C, d), (C,)
        Present positions of the chains, and the log likelihood there.
    scale : array (d,) or float
        Prior standard deviations.

    Returns
    -------
    position, value, evaluations
    """
    C = len(position)
    other = rng.standard_normal(position.shape) * scale
    level = value + np.log(rng.random(C))
    angle = 2.0 * np.pi * rng.random(C)
    low, high = angle - 2.0 * np.pi, angle.copy()
    new, new_value = position.copy(), value.copy()
    left = np.arange(C)
    evaluations = 0
    for _ in range(MOST_ROUNDS):
        a = angle[left]
        proposal = position[left] * np.cos(a)[:, None] + other[left] * np.sin(a)[:, None]
        found = log_likelihood(proposal)
        evaluations += len(left)
        good = found > level[left]
        done = left[good]
        new[done], new_value[done] = proposal[good], found[good]
        left = left[~good]
        if left.size == 0:
            break
        negative = angle[left] < 0
        low[left] = np.where(negative, angle[left], low[left])
        high[left] = np.where(negative, high[left], angle[left])
        angle[left] = low[left] + (high[left] - low[left]) * rng.random(left.size)
    return new, new_value, evaluations


def elliptical_slice_sampling(
    log_likelihood: Callable[[Array], Array],
    start: ArrayLike,
    *,
    n_draws: int = 1000,
    warmup: int = 0,
    rng: np.random.Generator | int | None = None,
    scale: ArrayLike = 1.0,
    thin: int = 1,
    progress: ProgressLike = None,
    until: Until[Trace] | None = None,
) -> Trace:
    """Elliptical slice sampling of u ~ N(0, diag(scale^2)) given a likelihood.

    Parameters
    ----------
    log_likelihood : callable
        Positions (k, d) -> (k,); for a `LatentTarget` t it is `lambda U: t.log_likelihood(t.latent(U))`, with
        `scale=np.sqrt(t.prior_variance)`.
    start : array (C, d)
    n_draws, warmup : int
        Draws kept, and those before them.
    thin : int
        Updates per draw.

    Returns
    -------
    Trace
        `log_density` is that of prior times likelihood, up to the prior's constant.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.sampling import elliptical_slice_sampling
    >>> log_likelihood = lambda U: -0.5 * np.sum((U - 1) ** 2, axis=1)
    >>> trace = elliptical_slice_sampling(log_likelihood, np.zeros((4, 2)), n_draws=2000, rng=0, progress=False)
    >>> bool(np.all(abs(trace.pooled.mean(axis=0) - 0.5) < 0.1))
    True
    """
    rng = np.random.default_rng(rng)
    check_counts(n_draws, warmup)
    require_integer(thin, "thin", 1)
    position = as_chains(start)
    sd: Array = np.broadcast_to(np.asarray(scale, dtype=float), position.shape[1:])
    value = np.asarray(log_likelihood(position), dtype=float)
    if not np.isfinite(value).all():
        bad = int(np.flatnonzero(~np.isfinite(value))[0])
        raise ValueError(
            f"start of chain {bad} has likelihood zero: begin where the log likelihood is finite"
        )
    evaluations = len(position)
    recorder = Recorder("sampling", len(position), len(sd), n_draws, warmup, progress, until)
    with recorder:
        for t in recorder:
            for _ in range(thin):
                position, value, count = elliptical_update(log_likelihood, position, value, rng, sd)
                evaluations += count
            if t >= warmup:
                log_prior = -0.5 * ((position / sd) ** 2).sum(axis=1)
                recorder.add(position, value + log_prior)
    return recorder.trace(evaluations=evaluations)
