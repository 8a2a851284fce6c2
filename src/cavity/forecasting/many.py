"""Many series in one call, each with a forecaster of its own, in parallel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed
from sklearn.base import clone

from cavity.forecasting.forecaster import GPForecaster
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Forecasters:
    """Fitted forecasters by name; answers are those of `GPForecaster`, with the name as first level of the index.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.forecasting import Forecasters, GPForecaster
    >>> model = GPForecaster([], trend="level", link="identity").fit(np.arange(12.0))
    >>> Forecasters({"line": model}).forecast(1)["median"].round(0).tolist()
    [12.0]
    """

    models: dict[Any, GPForecaster]

    def __getitem__(self, name: Any) -> GPForecaster:
        return self.models[name]

    def __len__(self) -> int:
        return len(self.models)

    def _each(self, ask: Callable[[GPForecaster], pd.DataFrame]) -> pd.DataFrame:
        import pandas as pd

        found: pd.DataFrame = pd.concat(
            {name: ask(model) for name, model in self.models.items()}, names=["series"]
        )
        return found

    def forecast(self, horizon: Any, coverage: float = 0.95) -> pd.DataFrame:
        """Median and interval of the values to come."""
        return self._each(lambda model: model.forecast(horizon, coverage))

    def components(self, horizon: Any = None, coverage: float = 0.95) -> pd.DataFrame:
        """Trend, slope and seasons."""
        return self._each(lambda model: model.components(horizon, coverage))

    def anomalies(self, threshold: float | None = None) -> pd.DataFrame:
        """How probable it is that each value is a gross error."""
        return self._each(lambda model: model.anomalies(threshold))


def fit_many(
    frame: pd.DataFrame, forecaster: GPForecaster | None = None, *, n_jobs: int | None = None
) -> Forecasters:
    """Fit every column of a table whose index are the times.

    Parameters
    ----------
    frame : DataFrame
        One series in each column; nan where it has no value, so that series may begin and end at different times.
    forecaster : GPForecaster, optional
        With the parameters that all are to have.
    n_jobs : int, optional
        Worker processes of joblib, -1 for one on each core. The backend that ``joblib.parallel_config`` chooses is
        used, such as a Dask cluster.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from cavity.forecasting import GPForecaster, fit_many
    >>> days = pd.date_range("2024-01-01", periods=30)
    >>> walks = np.random.default_rng(0).standard_normal((30, 2)).cumsum(axis=0)
    >>> models = fit_many(pd.DataFrame(walks, days, ["a", "b"]), GPForecaster([], trend="level", link="identity"))
    >>> models.forecast(2).index.get_level_values("series").tolist()
    ['a', 'a', 'b', 'b']
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame) or not frame.columns.is_unique:
        raise InputError(
            "must be a table with one series in each column, of different names", parameter="frame"
        )
    prototype = GPForecaster() if forecaster is None else forecaster
    fitted = Parallel(n_jobs=n_jobs)(delayed(_fit)(clone(prototype), frame[name]) for name in frame.columns)
    return Forecasters(dict(zip(frame.columns, fitted)))


def _fit(model: GPForecaster, y: pd.Series) -> GPForecaster:
    """Fit one series; an error says which."""
    try:
        return model.fit(y)
    except InputError as error:
        said = error.message
        raise InputError((f"series {y.name!r}: ", *said.clause), remedy=said.remedy, value=y.name) from None
