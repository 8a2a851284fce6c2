"""Several small minimizations within bounds at once, in lock step.

Planners and acquisition functions are minimized from several starts, with few variables each, and an evaluation of one
costs nearly as much as one of all. So each start has a quasi-Newton method of its own (projected BFGS; Bertsekas,
1982): the direction solves H p = -g in the variables that are not held by a bound, the trial point is clip(x + t p),
and t is halved until it decreases the function enough. All starts that are not done, whatever they do next, share each
evaluation, and the number of these is bounded: a decision takes a known time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array

ENOUGH = 1e-4
"""Share of the predicted decrease that must be reached (Armijo)."""

ROUNDING = 1e-15
"""Relative increase that is no reason to shorten a step: near a minimum, values are not known any better."""

FIRST_MOVE = 0.25
"""The largest first step, in units of the distance between the bounds: nothing is known yet of the curvature."""

AT_ZERO = 1e-3
"""Share of the largest value that counts beside a value when gradients are compared with it: it may be zero."""

SHORTEST = 1e-10
"""A start whose steps were shortened to this share has come as far as rounding lets it."""

REGULAR = 1e-13
"""Share of the largest curvature that is added to all."""

DAMPED = 0.2
"""Least curvature along a step, relative to the present approximation (Powell's damping keeps H positive definite)."""


@dataclass(frozen=True)
class Descent:
    """Where it ended.

    Attributes
    ----------
    x : array (B, d)
    value : array (B,)
    hessian : array (B, d, d)
        Approximations in units of the distances between the bounds, to go on with.
    evaluations : int
        Of the function, each for all starts at once.
    """

    x: Array
    value: Array
    hessian: Array
    evaluations: int


def descend(
    function: Callable[[Array], tuple[Array, Array]],
    x: Array,
    low: Array,
    high: Array,
    *,
    evaluations: int = 40,
    tolerance: float = 1e-6,
    hessian: Array | None = None,
    retire: bool = False,
) -> Descent:
    """Minimize a function from B starts x (B, d) within bounds low, high (d,).

    Parameters
    ----------
    function : callable
        Maps (B, d) to values (B,) and gradients (B, d), row by row.
    evaluations : int
        Largest number of evaluations.
    tolerance : float
        A start is done if its projected gradient, times the distance between the bounds, is below this share of its
        value (plus one thousandth of the largest value of all starts so far).
    hessian : array (B, d, d), optional
        From an earlier descent.
    retire : bool
        Whether the function is the same for every row, so that starts that are done need not be among its arguments.
    """
    width = high - low
    x = np.clip(x, low, high)
    f, slope = function(x)
    f, g = f.copy(), slope * width
    B, d = x.shape
    fresh = np.full(B, hessian is None)
    H = np.zeros((B, d, d)) if hessian is None else hessian.copy()
    if hessian is None:
        steepest = np.abs(g).max(axis=1)
        H += np.where(steepest > 0, steepest / FIRST_MOVE, 1.0)[:, None, None] * np.eye(d)
    t, used = np.ones(B), 1
    largest = np.abs(f[np.isfinite(f)]).max(initial=0.0)
    going = np.arange(B)
    while used < evaluations:
        held = ((x[going] <= low) & (g[going] > 0)) | ((x[going] >= high) & (g[going] < 0))
        open_slope = np.where(held, 0.0, g[going])
        steep = np.abs(open_slope).max(axis=1) > tolerance * (np.abs(f[going]) + AT_ZERO * largest)
        going, held, open_slope = going[steep], held[steep], open_slope[steep]
        if not going.size:
            break
        x_now, f_now, g_now, H_now = x[going], f[going], g[going], H[going]
        move: Array = t[going, None] * width * _direction(H_now, open_slope, held)
        trial: Array = np.clip(x_now + move, low, high)
        s = (trial - x_now) / width
        if retire:
            f_new, g_new = function(trial)
        else:
            everywhere = x.copy()
            everywhere[going] = trial
            f_new, g_new = (part[going] for part in function(everywhere))
        used, g_new = used + 1, g_new * width
        largest = np.abs(f_new[np.isfinite(f_new)]).max(initial=largest)
        change = np.sum(g_now * s, axis=1)
        good = f_new <= f_now + ENOUGH * change + ROUNDING * np.abs(f_now)
        better = going[good]
        H[better] = _updated(H_now[good], s[good], g_new[good] - g_now[good], fresh[better])
        fresh[better] = False
        # the minimum of the parabola through f, its slope and f_new, within [t / 10, t / 2]
        bend = np.maximum(f_new - f_now - change, np.maximum(np.abs(change), 1e-300))
        shorter = np.where(np.isfinite(f_new), np.clip(-0.5 * change / bend, 0.1, 0.5), 0.1)
        t[going] = np.where(good, 1.0, t[going] * shorter)
        x[better], g[better], f[better] = trial[good], g_new[good], f_new[good]
        going = going[t[going] > SHORTEST]
    return Descent(x, f, H, used)


def _direction(H: Array, g: Array, held: NDArray[np.bool_]) -> Array:
    """-H^-1 g in the variables that are free."""
    free = ~held
    both = free[:, :, None] & free[:, None, :]
    masked = np.where(both, H, 0.0)
    # curvatures may differ by more than floating-point numbers resolve: a share of the largest keeps H regular
    largest = np.einsum("bii->bi", masked).max(axis=1)
    ridge = np.where(held, 1.0, (REGULAR * np.maximum(largest, np.finfo(float).tiny))[:, None])
    masked += ridge[:, :, None] * np.eye(H.shape[1])
    return np.asarray(-np.linalg.solve(masked, g[:, :, None])[:, :, 0])


def _updated(H: Array, s: Array, y: Array, fresh: NDArray[np.bool_]) -> Array:
    """BFGS with Powell's damping; a fresh approximation first takes the scale of the curvature along s."""
    ss = np.sum(s * s, axis=1)
    moved = ss > 0
    sy = np.sum(s * y, axis=1)
    scale = np.where(fresh & (sy > 0), sy / np.where(moved, ss, 1.0), 0.0)
    H = np.where((scale > 0)[:, None, None], scale[:, None, None] * np.eye(H.shape[1]), H)
    Hs = (H @ s[:, :, None])[:, :, 0]
    sHs = np.sum(s * Hs, axis=1)
    safe = np.where(sHs > 0, sHs, 1.0)
    short = sy < DAMPED * sHs
    share = np.where(short, (1.0 - DAMPED) * sHs / np.where(short, sHs - sy, 1.0), 1.0)
    y = share[:, None] * y + (1.0 - share)[:, None] * Hs
    sy = np.sum(s * y, axis=1)
    ok = moved & (sHs > 0) & (sy > 0)
    sy = np.where(ok, sy, 1.0)
    new = (
        H
        - Hs[:, :, None] * Hs[:, None, :] / safe[:, None, None]
        + y[:, :, None] * y[:, None, :] / sy[:, None, None]
    )
    return np.where(ok[:, None, None], new, H)
