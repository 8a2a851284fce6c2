"""
A forecast that bad data cannot ruin
====================================

Sales by month, with a trend, a season that is a factor rather than a sum, two typing errors and a missing year. Nothing is
said about any of this. The forecaster averages over models of the trend, with weights by how they forecast values that
were held out.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cavity import GPForecaster
from cavity.plots import plot_forecast, plot_series_components

months = pd.date_range("2015-01-01", periods=96, freq="MS")
t = np.arange(120)
rng = np.random.default_rng(1)
truth = np.exp(4 + 0.01 * t + 0.25 * np.sin(2 * np.pi * t / 12) + 0.1 * np.cos(4 * np.pi * t / 12))
sales = pd.Series(truth[:96] * np.exp(0.04 * rng.standard_normal(96)), months, name="sales")
sales.iloc[[20, 70]] *= [10.0, 0.1]
sales.iloc[40:52] = np.nan

model = GPForecaster(trend=["slope", "level"]).fit(sales)
print(model.anomalies(threshold=0.5).round(2))

# %%
# The fan holds 50, 80 and 95 % of the values to come. The line is what generated the data.

axes = plot_forecast(model, 24)
axes.plot(pd.date_range("2023-01-01", periods=24, freq="MS"), truth[96:], "k--", linewidth=1, label="truth")
axes.set_ylim(0, 400)
axes.legend(frameon=False, fontsize=8)

# %%
# Components: since parts multiply, seasons are factors, and the slope is the relative change over a month.

plot_series_components(model, 24)
plt.show()
