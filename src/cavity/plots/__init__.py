"""Pictures of models, their predictions and how they were learned. Matplotlib is imported when one is drawn.

Every function takes `ax=None` and returns the axes it drew on; small multiples take one, which they divide, or as many
as they need, and return a list. Colors can be told apart by color-blind people, and nothing is told by color alone.
The mathematics behind the pictures is in `cavity.measures`, without matplotlib.
"""

from cavity.plots.auto import plot, plot_traces
from cavity.plots.calibration import plot_calibration, plot_residuals
from cavity.plots.components import plot_components
from cavity.plots.contours import plot_contours
from cavity.plots.design import plot_convergence, plot_optimum, plot_study_slices
from cavity.plots.evidence import plot_hyperparameters, plot_runs
from cavity.plots.fit import plot_fit
from cavity.plots.forecast import plot_forecast, plot_series_components
from cavity.plots.kernels import plot_kernel
from cavity.plots.relevance import plot_relevance, relevance_of
from cavity.plots.slices import plot_partial_dependence, plot_slices
from cavity.plots.style import BAND, DATA, OUTLIER, PALETTE, TRUTH, new_figure
from cavity.plots.traces import plot_autocorrelation, plot_trace

__all__ = [
    "BAND",
    "DATA",
    "OUTLIER",
    "PALETTE",
    "TRUTH",
    "new_figure",
    "plot",
    "plot_autocorrelation",
    "plot_calibration",
    "plot_components",
    "plot_contours",
    "plot_convergence",
    "plot_fit",
    "plot_forecast",
    "plot_hyperparameters",
    "plot_kernel",
    "plot_optimum",
    "plot_partial_dependence",
    "plot_relevance",
    "plot_residuals",
    "plot_runs",
    "plot_series_components",
    "plot_slices",
    "plot_study_slices",
    "plot_trace",
    "plot_traces",
    "relevance_of",
]
