"""Are the chains long enough? Rank-normalized split R-hat, effective sample sizes, Monte Carlo standard errors.

Vehtari, Gelman, Simpson, Carpenter and Burkner (2021). Draws are arrays (C, T, ...): C chains of T draws of any number
of quantities, which the trailing axes list; results have the shape of the trailing axes. Chains are split into halves,
so that a chain that drifts disagrees with itself. Ranks make everything work for heavy tails; folding about the median
compares spreads.

Effective sample size: with the autocorrelations rho_t of all chains together,

    S = C T / tau,   tau = -1 + 2 sum_k P_k,   P_k = rho_2k + rho_2k+1,

where the sum of pairs ends before the first negative one (Geyer's initial positive sequence) and pairs never increase
(initial monotone sequence); of the pair that ends it, a positive even term counts once. No estimate exceeds
S log10 S of its own number of draws. All quantities are nan if there are fewer than four draws, or if a value is
not finite.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from cavity.numerics.arrays import Array

__all__ = ["autocorrelation", "ess_bulk", "ess_mean", "ess_tail", "mcse_mean", "mcse_sd", "rhat"]

BLOCK = 4_000_000
"""Numbers that are worked on at a time."""

LEAST_DRAWS = 4


def rhat(x: ArrayLike) -> Array:
    """Rank-normalized split R-hat, the larger of that for locations and that for spreads; needs two chains.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((4, 1000, 2))
    >>> x[0, :, 1] += 1.0
    >>> rhat(x) > 1.01
    array([False,  True])
    """

    def one(draws: Array) -> Array:
        if len(draws) < 2:
            return np.full(draws.shape[2], np.nan)
        halves = split_chains(draws)
        center = np.median(halves, axis=(0, 1))
        return np.maximum(_rhat(normal_ranks(halves)), _rhat(normal_ranks(np.abs(halves - center))))

    return _each(one, x)


def ess_bulk(x: ArrayLike) -> Array:
    """Effective number of draws for the location: of the normalized ranks of split chains."""
    return _each(lambda draws: _ess(normal_ranks(split_chains(draws))), x)


def ess_tail(x: ArrayLike) -> Array:
    """The smaller of the effective numbers of draws for the 5 % and the 95 % quantile."""

    def one(draws: Array) -> Array:
        found = []
        for p in (0.05, 0.95):
            q = np.quantile(draws, p, axis=(0, 1))
            found.append(_ess(split_chains((draws <= q).astype(float))))
        return np.minimum(*found)

    return _each(one, x)


def ess_mean(x: ArrayLike) -> Array:
    """Effective number of draws for the mean: of split chains as they are."""
    return _each(lambda draws: _ess(split_chains(draws)), x)


def mcse_mean(x: ArrayLike) -> Array:
    """Monte Carlo standard error of the mean."""
    return _each(lambda draws: np.std(draws, axis=(0, 1), ddof=1) / np.sqrt(_ess(split_chains(draws))), x)


def mcse_sd(x: ArrayLike) -> Array:
    """Monte Carlo standard error of the standard deviation, from that of the mean square (delta method)."""

    def one(draws: Array) -> Array:
        squares = (draws - draws.mean(axis=(0, 1))) ** 2
        variance = squares.mean(axis=(0, 1))
        error = ((squares**2).mean(axis=(0, 1)) - variance**2) / _ess(split_chains(squares))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(variance > 0, np.sqrt(error / np.where(variance > 0, variance, 1.0) / 4.0), 0.0)

    return _each(one, x)


def autocorrelation(x: ArrayLike, lags: int | None = None) -> Array:
    """Autocorrelation of each chain at lags 0, 1, ..., shape (C, lags + 1, ...); all lags by default."""
    draws: Array = np.asarray(x, dtype=float)
    T = draws.shape[1]
    most = T - 1 if lags is None else min(int(lags), T - 1)
    covariance = autocovariance(draws.reshape(len(draws), T, -1))[:, : most + 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        out = covariance / covariance[:, :1]
    return np.asarray(out.reshape(len(draws), most + 1, *draws.shape[2:]))


# --- pieces -------------------------------------------------------------------------------------------------


def split_chains(draws: Array) -> Array:
    """Halves as chains of their own, (2 C, T // 2, M); the middle draw of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def normal_ranks(draws: Array) -> Array:
    """Ranks among all draws of a quantity, as normal quantiles (average ranks for equal draws)."""
    C, T, M = draws.shape
    from scipy.stats import rankdata  # half a second to import

    ranks = rankdata(draws.reshape(C * T, M), axis=0)
    return np.asarray(ndtri((ranks - 0.375) / (C * T + 0.25))).reshape(draws.shape)


def autocovariance(draws: Array) -> Array:
    """Autocovariances of each chain about its own mean at all lags, divided by T, (C, T, M)."""
    from scipy.fft import irfft, next_fast_len, rfft

    T = draws.shape[1]
    size = next_fast_len(2 * T)
    spectrum = rfft(draws - draws.mean(axis=1, keepdims=True), size, axis=1)
    return np.asarray(irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :T] / T)


def _rhat(draws: Array) -> Array:
    """sqrt((B / W + T - 1) / T) from the variance B / T of chain means and the mean W of chain variances."""
    T = draws.shape[1]
    between = T * np.var(draws.mean(axis=1), axis=0, ddof=1)
    within = np.mean(np.var(draws, axis=1, ddof=1), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt((between / within + T - 1) / T))


def _ess(draws: Array) -> Array:
    """Effective sample size of chains (C, T, M) as they are, (M,)."""
    C, T, M = draws.shape
    total = C * T
    covariance = autocovariance(draws).mean(axis=0)
    within = covariance[0] * T / (T - 1)
    overall = covariance[0] + (np.var(draws.mean(axis=1), axis=0, ddof=1) if C > 1 else 0.0)
    constant = np.ptp(draws.reshape(total, M), axis=0) < np.finfo(float).resolution
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1.0 - (within - covariance) / overall
    rho[0] = 1.0
    tau = np.maximum(_correlation_time(rho), 1.0 / np.log10(total))
    return np.where(constant, float(total), total / tau)


def _correlation_time(rho: Array) -> Array:
    """tau from autocorrelations (T, M), by Geyer's initial monotone sequence."""
    T, M = rho.shape
    pairs = 1 + max(0, (T - 3) // 2)  # the first pair, and later ones that end before lag T - 1
    even, odd = rho[0 : 2 * pairs : 2], rho[1 : 2 * pairs : 2]
    P = even + odd
    # The last pair looked at: the first that is not positive, or the last there is.
    stop = np.where((P <= 0).any(axis=0), np.argmax(P <= 0, axis=0), pairs - 1)
    counted = np.arange(pairs)[:, None] < stop
    full = np.where(counted, np.minimum.accumulate(P, axis=0), 0.0).sum(axis=0)
    column = np.arange(M)
    last = np.where((P[stop, column] < 0), np.maximum(even[stop, column], 0.0), even[stop, column])
    return np.asarray(-1.0 + 2.0 * full + last)


def _each(function: Callable[[Array], Array], x: ArrayLike) -> Array:
    """Apply to draws (C, T, M) of the quantities of the trailing axes, a block of them at a time."""
    draws: Array = np.asarray(x, dtype=float)
    if draws.ndim < 2:
        raise ValueError(f"draws must have shape (chains, draws, ...), got {draws.shape}")
    C, T, *rest = draws.shape
    flat = draws.reshape(C, T, -1)
    M = flat.shape[2]
    out = np.full(M, np.nan)
    if LEAST_DRAWS <= T and C > 0 and M > 0:
        usable = np.flatnonzero(np.isfinite(flat).all(axis=(0, 1)))
        size = max(1, BLOCK // (C * T))
        for i in range(0, len(usable), size):
            at = usable[i : i + size]
            out[at] = function(flat[:, :, at])
    return np.asarray(out.reshape(rest)[()])
