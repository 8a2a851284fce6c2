"""The models that a forecaster averages over: a trend, seasons that change slowly, a short memory, and noise.

Times are in steps and values in units of `scale`, so that priors mean the same for every series: trends change by about
so much a step as seen here, and never not at all. Without that the evidence is often highest where the trend has no
innovations, and forecasts are a straight line with narrow bands.

    slope       a line, an integrated and a plain Wiener process: slope and level wander
    damped      a gentle line, an integrated Ornstein-Uhlenbeck and a Wiener process: a slope lasts for a while
    level       a gentle line and a Wiener process: the level wanders, slopes do not last
    reverting   a gentle line and a Matern process: the level comes back
    cycle       a level that comes back in waves of about one period
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.forecasting.seasons import cycle, shape
from cavity.kernels import Cosine, IntegratedOU, IntegratedWiener, Kernel, Linear, Matern, Wiener
from cavity.likelihoods import Gaussian, Likelihood, NegativeBinomial, Poisson, StudentT
from cavity.likelihoods.registry import as_likelihood
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param, fixed
from cavity.parameters.priors import Gamma, LogNormal

AVERAGED = ("slope", "level", "reverting", "cycle")
"""Trends that a forecaster averages over unless told otherwise."""

TRENDS = ("slope", "damped", "level", "reverting", "cycle")

VAGUE = 10.0
"""Prior sd of level and slope, in ranges of the data."""

GENTLE = 0.1
"""Least prior sd of the slope of a trend that does not rely on it, in scales a step; the rise of the data if larger."""

LASTS = 6.0
"""Steps over which the slope of a damped trend lasts, more or less."""

HEAVIEST = (2.0, 100.0)
"""Degrees of freedom of the noise: with fewer, sweeps of EP converge badly, and two resist errors of any size."""

FAINTEST = 0.01
"""Smallest share that a wave of a season has of the strongest one."""


AMPLE, STEADY = 4.0, 200.0
"""Prior variance of a season, in that of its shape, and cycles over which it lasts. A cycle changes an amplitude by a
fifth, more or less; the prior is wide toward seasons that do not change. Were the variance that of the shape, a season
that changes would also be one that fades from forecasts. It is not learned: data tell its ratio to the length only."""


def around(value: float, width: float) -> Param:
    """A positive parameter whose prior is log-normal with its mode here; `width` is the sd of the logarithm."""
    return Param(value, prior=LogNormal(float(np.log(value)) + width**2, width))


def season_kernel(period: float, variances: Array) -> Kernel:
    """A season of given shape whose waves wander slowly: over a forecast next to nothing of it is forgotten."""
    variances = np.maximum(variances, FAINTEST * variances.max())
    total = float(variances.sum())
    if not total > 0:
        variances, total = np.ones(len(variances)), 1.0
    wave = [
        fixed(float(v / variances.sum())) * Cosine(fixed(period / j))
        for j, v in enumerate(variances, start=1)
    ]
    sum_of_waves = wave[0]
    for one in wave[1:]:
        sum_of_waves = sum_of_waves + one
    lasts = around(STEADY * period, 2.0)
    return fixed(AMPLE * (total + 0.1)) * (Matern(lasts, nu=0.5) * sum_of_waves)


def trend_kernels(trend: str, t: Array, z: Array) -> list[tuple[str, Kernel]]:
    """Terms of the trend, and of what it leaves."""
    spread, longest = max(float(np.ptp(z)), 1.0), max(float(np.ptp(t)), 1.0)
    start = float(t.min()) - 1.0
    level = fixed((VAGUE * spread) ** 2)
    steep, gentle = fixed((VAGUE * spread / longest) ** 2), fixed(max(GENTLE, abs(_rise(t, z))) ** 2)
    short = ("short", around(0.25, 1.5) * Matern(around(3.0, 0.7), nu=0.5))
    if trend == "slope":
        return [
            ("trend", Linear(steep, level)),
            ("trend", around(0.02**2, 2.0) * IntegratedWiener(start)),
            ("trend", around(0.2**2, 2.0) * Wiener(start)),
            short,
        ]
    line = ("trend", Linear(gentle, level))
    if trend == "level":
        return [line, ("trend", around(0.3**2, 2.0) * Wiener(start)), short]
    if trend == "damped":
        return [
            line,
            ("trend", around(0.15**2, 2.0) * IntegratedOU(around(LASTS, 1.0), start)),
            ("trend", around(0.2**2, 2.0) * Wiener(start)),
            short,
        ]
    if trend == "reverting":
        return [
            line,
            ("trend", around(9.0, 2.0) * Matern(around(max(10.0, longest / 10.0), 1.0), nu=1.5)),
            short,
        ]
    wave = Matern(around(longest / 5.0, 1.0), nu=0.5) * Cosine(around(cycle(t, z), 0.3))
    return [line, ("cycle", around(1.0, 2.0) * wave), ("trend", around(0.1**2, 2.0) * Wiener(start)), short]


def _rise(t: Array, z: Array) -> float:
    """Rise a step from the first tenth of the values to the last one."""
    part = max(1, len(z) // 10)
    run = float(np.median(t[-part:]) - np.median(t[:part]))
    return float(np.median(z[-part:]) - np.median(z[:part])) / run if run > 0 else 0.0


def terms(trend: str, t: Array, z: Array, seasons: Sequence[tuple[str, float]]) -> list[tuple[str, Kernel]]:
    """Names and kernels of the terms of a model."""
    found = trend_kernels(trend, t, z)
    if seasons:
        shapes = shape(t, z, [period for _, period in seasons])
        found += [(name, season_kernel(period, part)) for (name, period), part in zip(seasons, shapes)]
    return found


def noise_model(name: Any) -> Likelihood:
    """Noise in units of the scale, with weak priors; a likelihood that was given stays as it is."""
    if name == "student-t":
        return StudentT(around(0.5, 0.7), Param(4.0, prior=Gamma(2.0, 0.25), bounds=HEAVIEST))
    if name == "gaussian":
        return Gaussian(around(0.25, 2.0))
    return as_likelihood(name)


def is_count(likelihood: Any) -> bool:
    """Whether a likelihood, or the name of one, is for counts."""
    return isinstance(likelihood, Poisson | NegativeBinomial) or likelihood in (
        "poisson",
        "negative-binomial",
    )
