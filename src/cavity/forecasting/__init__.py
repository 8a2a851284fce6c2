"""Forecasts of time series: `GPForecaster` for one, `fit_many` for several."""

from cavity.forecasting.forecaster import GPForecaster
from cavity.forecasting.many import Forecasters, fit_many

__all__ = ["Forecasters", "GPForecaster", "fit_many"]
