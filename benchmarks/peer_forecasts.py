"""Worker for competitors of the forecaster: ETS, SARIMA and Prophet, in an environment of their own.

    python peer_forecasts.py asked.json found.json

`asked` has a `task`. "series" writes the public series that statsmodels and pmdarima ship, by name. "forecast" fits
`method` to each of the training parts and writes mean, 95 % interval and CPU seconds of each. Every method is run as
its own users run it: components of ETS and orders of SARIMA are chosen automatically (statsforecast), Prophet has its
defaults. The module does not import cavity.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

COVERAGE = 95


def series() -> dict[str, list[float]]:
    """Values on a regular grid, None where they are missing."""
    import pmdarima.datasets as pm  # type: ignore[import-not-found]
    import statsmodels.api as sm  # type: ignore[import-not-found]

    macro = sm.datasets.macrodata.load_pandas().data
    elnino = sm.datasets.elnino.load_pandas().data.drop(columns="YEAR").to_numpy().ravel()
    found = {
        "elnino": elnino,
        "nile": sm.datasets.nile.load_pandas().data["volume"],
        "sunspots": sm.datasets.sunspots.load_pandas().data["SUNACTIVITY"],
        "realgdp": macro["realgdp"],
        "unemp": macro["unemp"],
        "ausbeer": pm.load_ausbeer(),
        "austres": pm.load_austres(),
        "lynx": pm.load_lynx(),
        "wineind": pm.load_wineind(),
        "woolyrnq": pm.load_woolyrnq(),
    }
    return {
        name: [None if np.isnan(v) else float(v) for v in np.asarray(values, dtype=float)]
        for name, values in found.items()
    }


def _statsforecast(model: Any, y: Any, horizon: int) -> tuple[Any, Any, Any]:
    found = model.forecast(y=y, h=horizon, level=[COVERAGE])
    return found["mean"], found[f"lo-{COVERAGE}"], found[f"hi-{COVERAGE}"]


def ets(y: Any, asked: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Exponential smoothing; error, trend, damping and season are chosen by AICc."""
    from statsforecast.models import AutoETS  # type: ignore[import-not-found]

    return _statsforecast(AutoETS(season_length=asked["season"]), y, asked["horizon"])


def sarima(y: Any, asked: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Seasonal ARIMA; orders are chosen step by step by AICc."""
    from statsforecast.models import AutoARIMA

    return _statsforecast(AutoARIMA(season_length=asked["season"]), y, asked["horizon"])


def prophet(y: Any, asked: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Prophet with its defaults and a 95 % interval."""
    import pandas as pd
    from prophet import Prophet  # type: ignore[import-not-found]

    dates = pd.date_range(asked["start"], periods=len(y) + asked["horizon"], freq=asked["freq"])
    np.random.seed(0)  # noqa: NPY002 - Prophet draws its intervals from the global generator
    model = Prophet(interval_width=COVERAGE / 100).fit(pd.DataFrame({"ds": dates[: len(y)], "y": y}))
    found = model.predict(pd.DataFrame({"ds": dates[len(y) :]}))
    return found["yhat"], found["yhat_lower"], found["yhat_upper"]


METHODS: dict[str, Callable[[Any, dict[str, Any]], tuple[Any, Any, Any]]] = {
    "ETS": ets,
    "SARIMA": sarima,
    "Prophet": prophet,
}


def forecasts(asked: dict[str, Any]) -> dict[str, list[Any]]:
    """Mean, lower, upper and seconds for each training part."""
    found: dict[str, list[Any]] = {"mean": [], "lower": [], "upper": [], "seconds": []}
    for train in asked["trains"]:
        y = np.array(train, dtype=float)
        known = np.flatnonzero(~np.isnan(y))
        if asked["method"] != "Prophet":  # these need every value; Prophet does not
            y = np.interp(np.arange(len(y)), known, y[known])
        started = time.process_time()
        answer = METHODS[asked["method"]](y, asked)
        found["seconds"].append(time.process_time() - started)
        for name, values in zip(("mean", "lower", "upper"), answer):
            found[name].append(np.asarray(values, dtype=float).tolist())
    return found


def main(asked_file: str, found_file: str) -> None:
    """Read, do, write."""
    warnings.simplefilter("ignore")
    for name in ("prophet", "cmdstanpy"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with open(asked_file) as file:
        asked = json.load(file)
    found = series() if asked["task"] == "series" else forecasts(asked)
    with open(found_file, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
