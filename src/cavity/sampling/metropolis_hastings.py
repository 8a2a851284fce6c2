"""Random-walk Metropolis-Hastings, for small problems and for teaching.

A normal step from the present point, accepted with probability min(1, p(new) / p(old)). Warm-up scales the step of
each coordinate by the spread of the draws so far and its overall size towards an acceptance rate (0.44 in one
dimension, 0.234 in many; Roberts, Gelman and Gilks 1997), then freezes both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cavity.runtime.progress import ProgressLike
from cavity.sampling.adaptation import Scales, windows
from cavity.sampling.targets import Target
from cavity.sampling.trace import Recorder, Trace, as_chains, check_counts


def metropolis(
    target: Target,
    start: ArrayLike,
    *,
    n_draws: int = 1000,
    warmup: int = 500,
    rng: np.random.Generator | int | None = None,
    step: ArrayLike | None = None,
    target_acceptance: float | None = None,
    progress: ProgressLike = None,
) -> Trace:
    """Random-walk Metropolis-Hastings with several chains.

    Parameters
    ----------
    target : Target
        Only its log density is used.
    start : array (C, d)
    n_draws, warmup : int
    step : float or array (d,), optional
        Standard deviation of a step to begin with; 2.4 / sqrt(d) by default.
    target_acceptance : float, optional

    Returns
    -------
    Trace

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.sampling import FunctionTarget
    >>> target = FunctionTarget(lambda U: (-0.5 * np.sum(U**2, axis=1), -U), dim=1)
    >>> trace = metropolis(target, np.zeros((4, 1)), n_draws=3000, rng=0, progress=False)
    >>> bool(abs(trace.pooled.std() - 1) < 0.1)
    True
    """
    rng = np.random.default_rng(rng)
    check_counts(n_draws, warmup)
    position = as_chains(start, target.dim)
    C, d = position.shape
    goal = target_acceptance or 0.234 + (0.44 - 0.234) / d
    scales = Scales(d)
    log_size = 0.0
    if step is None:
        log_size = float(np.log(2.4 / np.sqrt(d)))
    else:
        scales.scale = np.broadcast_to(np.asarray(step, dtype=float), (d,)).copy()
    value = target.log_density(position)
    if not np.isfinite(value).all():
        bad = int(np.flatnonzero(~np.isfinite(value))[0])
        raise ValueError(f"start of chain {bad} has no density: begin where the log density is finite")
    first, ends = windows(warmup)
    recorder = Recorder("sampling", C, d, n_draws, warmup, progress)
    with recorder:
        for t in recorder:
            proposal = position + np.exp(log_size) * scales.scale * rng.standard_normal((C, d))
            found = target.log_density(proposal)
            gain = found - value
            accepted = np.log(rng.random(C)) < gain
            position = np.where(accepted[:, None], proposal, position)
            value = np.where(accepted, found, value)
            rate = np.exp(np.minimum(gain, 0.0))
            if t >= warmup:
                recorder.add(position, value, rate)
                continue
            log_size += (float(rate.mean()) - goal) / np.sqrt(t + 1.0)
            if t >= first:
                scales.add(position)
            if t + 1 in ends:
                before = scales.scale
                scales.learn()
                log_size += float(np.mean(np.log(before / scales.scale)))
                scales.clear()
    return recorder.trace(np.exp(log_size) * scales.scale, target.names, C * (1 + recorder.count + warmup))
