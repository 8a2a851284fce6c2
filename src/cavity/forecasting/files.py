"""Forecasters in model files: parameters, the series, and the models that are averaged over."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cavity.forecasting.forecaster import GPForecaster
from cavity.forecasting.members import Member
from cavity.forecasting.scales import IDENTITY, LOG, RATE, Scale
from cavity.forecasting.structures import TRENDS
from cavity.forecasting.time_axis import ELAPSED, MONTHS, NUMBERS, TimeAxis
from cavity.io.records import require, store, typed
from cavity.io.registry import Codec, add
from cavity.numerics.arrays import Array


def _check_axis(axis: TimeAxis) -> None:
    require(axis.unit in (MONTHS, ELAPSED, NUMBERS) and axis.step > 0, "times have a unit and a step")


def _check_scale(scale: Scale) -> None:
    require(scale.link in (IDENTITY, LOG, RATE) and scale.unit > 0, "a scale has a link and a unit")


def _check_member(member: Member) -> None:
    require(member.trend in TRENDS and 0 < member.weight <= 1, "a model has a trend and a weight")
    terms = getattr(member.posterior.model.kernel, "terms", ())
    require(len(member.names) == len(terms), "the terms of a model have names")


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
    check_is_fitted(model, "members_")
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


@typed
def _forecaster(
    parameters: dict[str, Any],
    axis: TimeAxis,
    times: NDArray[Any],
    values: Array,
    name: str | None,
    seasons: dict[str, float],
    members: list[Member],
) -> GPForecaster:
    import pandas as pd

    known = set(GPForecaster().get_params(deep=False))
    require(set(parameters) <= known, "parameters must be those of a forecaster")
    whole = values.ndim == times.ndim == 1 and times.dtype.kind == ("i" if axis.dated else "f")
    require(whole and len(times) == len(values) > 0, "each value has a time")
    require(all(isinstance(key, str) for key in seasons), "seasons have names")
    require(len(members) > 0, "a forecaster has models")
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


store(TimeAxis, _check_axis)
store(Scale, _check_scale)
store(Member, _check_member, name="ForecastMember")
add(Codec("GPForecaster", GPForecaster, _forecaster_fields, _forecaster))
