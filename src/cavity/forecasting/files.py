"""Forecasters in model files: parameters, the series, and the models that are averaged over."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.forecasting.forecaster import GPForecaster
from cavity.forecasting.members import Member
from cavity.forecasting.scales import IDENTITY, LOG, RATE, Scale
from cavity.forecasting.structures import TRENDS
from cavity.forecasting.time_axis import ELAPSED, MONTHS, NUMBERS, TimeAxis
from cavity.io.posterior import is_array, is_float, require
from cavity.io.registry import Codec, add
from cavity.posterior import Posterior


def _fields(*names: str) -> Any:
    return lambda value: {name: getattr(value, name) for name in names}


def _axis(unit: Any, first: Any, step: Any, freq: Any, zone: Any, periods: Any) -> TimeAxis:
    require(unit in (MONTHS, ELAPSED, NUMBERS), "times have a unit")
    require(is_float(first) and is_float(step) and step > 0, "times have a first one and a step")
    require(
        isinstance(freq, str) and isinstance(zone, str) and isinstance(periods, bool),
        "dates have a frequency",
    )
    return TimeAxis(unit, first, step, freq, zone, periods)


def _scale(link: Any, center: Any, unit: Any) -> Scale:
    require(link in (IDENTITY, LOG, RATE), "a scale has a link")
    require(is_float(center) and is_float(unit) and unit > 0, "a scale has a center and a unit")
    return Scale(link, center, unit)


def _member(trend: Any, scale: Any, names: Any, posterior: Any, weight: Any) -> Member:
    require(trend in TRENDS and isinstance(scale, Scale), "a model has a trend and a scale")
    require(isinstance(posterior, Posterior) and is_float(weight) and 0 < weight <= 1, "a model has a weight")
    named = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
    terms = getattr(posterior.model.kernel, "terms", ())
    require(named and len(names) == len(terms), "the terms of a model have names")
    return Member(trend, scale, names, posterior, weight)


def _times(index: Any) -> Any:
    """An index as numbers: periods by their ordinal, dates by microseconds in universal time."""
    import pandas as pd

    if isinstance(index, pd.PeriodIndex):
        return np.asarray(index.asi8)
    if isinstance(index, pd.DatetimeIndex):
        naive = index if index.tz is None else index.tz_convert("UTC").tz_localize(None)
        return naive.to_numpy().astype("datetime64[us]").astype(np.int64)
    return np.asarray(index, dtype=float)


def _index(axis: TimeAxis, times: Any) -> Any:
    import pandas as pd

    if axis.periods:
        make: Any = pd.PeriodIndex  # whose stubs do not know this method
        return make.from_ordinals(times, freq=axis.freq)
    if axis.dated:
        dates = pd.DatetimeIndex(times.astype("datetime64[us]"))
        return dates.tz_localize("UTC").tz_convert(axis.zone) if axis.zone else dates
    return pd.Index(times)


def _forecaster_fields(model: GPForecaster) -> dict[str, Any]:
    name = model.y_.name
    return {
        "parameters": model.get_params(deep=False),
        "axis": model.axis_,
        "times": _times(model.y_.index),
        "values": model.y_.to_numpy(dtype=float),
        "name": name if name is None else str(name),
        "seasons": dict(model.seasons_),
        "members": list(model.members_),
    }


def _forecaster(
    parameters: Any, axis: Any, times: Any, values: Any, name: Any, seasons: Any, members: Any
) -> GPForecaster:
    import pandas as pd

    known = set(GPForecaster().get_params(deep=False))
    require(
        isinstance(parameters, dict) and set(parameters) <= known, "parameters must be those of a forecaster"
    )
    require(isinstance(axis, TimeAxis) and is_array(values, 1), "a series has times and values")
    whole = (
        isinstance(times, np.ndarray) and times.ndim == 1 and times.dtype.kind in ("i" if axis.dated else "f")
    )
    require(whole and len(times) == len(values) > 0, "each value has a time")
    require(name is None or isinstance(name, str), "the name of a series is text")
    named = isinstance(seasons, dict) and all(
        isinstance(key, str) and is_float(v) for key, v in seasons.items()
    )
    require(named, "seasons have names and lengths")
    require(isinstance(members, list) and len(members) > 0, "a forecaster has models")
    require(all(isinstance(m, Member) for m in members), "models must be models")
    require(abs(sum(m.weight for m in members) - 1.0) < 1e-9, "weights must add up to one")
    try:
        series = pd.Series(values, _index(axis, times), name=name)
    except (ValueError, TypeError, OverflowError):
        require(False, "times must be dates")
    model = GPForecaster(**parameters)
    same = all(np.array_equal(m.posterior.data.X[:, 0], axis.steps(series.index)) for m in members)
    require(same, "models must have the times of the series")
    model._adopt(axis, series, seasons, members)
    return model


add(Codec("TimeAxis", TimeAxis, _fields("unit", "first", "step", "freq", "zone", "periods"), _axis))
add(Codec("Scale", Scale, _fields("link", "center", "unit"), _scale))
add(Codec("ForecastMember", Member, _fields("trend", "scale", "names", "posterior", "weight"), _member))
add(Codec("GPForecaster", GPForecaster, _forecaster_fields, _forecaster))
