"""`GPForecaster`: forecasts of a time series with intervals, components and anomalies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.leave_one_out import Cavities, cavities
from cavity.estimators.outlier_probability import outlier_probability
from cavity.forecasting.components import Moments, components
from cavity.forecasting.members import Member, averaged_members, families
from cavity.forecasting.scales import IDENTITY, LOG
from cavity.forecasting.seasons import searched, shown
from cavity.forecasting.structures import AVERAGED, TRENDS
from cavity.forecasting.time_axis import SECONDS, TimeAxis, as_index
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction, average
from cavity.runtime.checks import is_number
from cavity.runtime.errors import InputError
from cavity.runtime.storing import Storable

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 4
"""Values that a forecast needs."""


class GPForecaster(Storable, BaseEstimator):  # type: ignore[misc]
    """Forecasts of a time series: trend, seasons, short memory and robust noise, averaged over several models.

    Models differ in how the trend goes on (`trend`) and in the scale on which parts add up (`link`). Each is a Gaussian
    Markov process, so that a fit takes time proportional to the number of values. Their hyperparameters have weak
    priors, and their weights are those that forecast best from origins within the data. Noise is Student-t by
    default: a gross error has little influence, and `anomalies` names it.

    Parameters
    ----------
    seasons : "auto" or list of str or float
        "auto" takes those of day, week and year that the data show; times that are numbers are searched for one. Or a
        list of names and of numbers: a number is the length of a cycle, in steps for dates and otherwise in units of
        the times. An empty list means none.
    trend : "auto" or one or several of {"slope", "damped", "level", "reverting", "cycle"}
        How a trend changes: slope and level wander, its slope lasts for a while, its level wanders, it comes back, it
        comes back in waves. "auto" averages over all but the damped one.
    likelihood : str or Likelihood
        "auto" is "student-t", and for counts "negative-binomial" if that predicts better. Or "gaussian", "laplace",
        "mixture", "poisson", ...
    link : {"auto", "identity", "log"}
        Whether parts add up or multiply; "auto" averages over both for positive series.
    horizon : int, optional
        How far ahead models are compared with each other, in steps; by default two cycles of the shortest season, at
        most a fifth of the series.

    Attributes
    ----------
    members_ : list of Member
        The models that are averaged over, with their weights.
    seasons_ : dict of str to float
        Seasons found or asked for, with their length in steps.
    axis_ : TimeAxis
    y_ : Series
        The data, in order of time; missing values are left out.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from cavity import GPForecaster
    >>> months = pd.period_range("2015-01", periods=72, freq="M")
    >>> wave = 10 + 0.1 * np.arange(72) + np.sin(np.arange(72) * np.pi / 6)
    >>> y = pd.Series(wave + 0.1 * np.random.default_rng(0).standard_normal(72), months)
    >>> model = GPForecaster(trend="slope", link="identity").fit(y)
    >>> list(model.seasons_), model.forecast(3)["median"].round(0).tolist()
    (['year'], [17.0, 18.0, 18.0])
    """

    def __init__(
        self,
        seasons: Any = "auto",
        *,
        trend: Any = "auto",
        likelihood: Any = "auto",
        link: str = "auto",
        horizon: int | None = None,
    ) -> None:
        self.seasons = seasons
        self.trend = trend
        self.likelihood = likelihood
        self.link = link
        self.horizon = horizon

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(self, t: Any, y: Any = None) -> Self:
        """Learn from a series.

        Parameters
        ----------
        t : Series with dates, periods or numbers as its index; or times (n,)
        y : array (n,), optional
            Values, if `t` are times. nan is a missing value; several values at one time are all kept.
        """
        trends = self._trends()
        series = as_series(t, y)
        axis = TimeAxis.of(series.index)
        steps = axis.steps(series.index)
        values = series.to_numpy(dtype=float)
        seasons = self._seasons(axis, steps, values)
        horizon = self._compared_ahead(seasons, len(values))
        pairs = families(values, self._checked_link(values), self.likelihood)
        members = averaged_members(trends, pairs, steps, values, list(seasons.items()), horizon)
        self._adopt(axis, series, seasons, members)
        return self

    def _adopt(
        self, axis: TimeAxis, y: pd.Series, seasons: Mapping[str, float], members: list[Member]
    ) -> None:
        self.axis_, self.y_, self.seasons_ = axis, y, dict(seasons)
        self.members_ = sorted(members, key=lambda member: -member.weight)
        self._t = axis.steps(y.index)

    def _trends(self) -> Sequence[str]:
        given = (self.trend,) if isinstance(self.trend, str) else tuple(self.trend)
        if given == ("auto",):
            return AVERAGED
        if not given or any(one not in TRENDS for one in given):
            choices = ", ".join(map(repr, ("auto", *TRENDS)))
            raise InputError(
                f"must be some of {choices}, got {self.trend!r}", parameter="trend", value=self.trend
            )
        return given

    def _checked_link(self, y: Array) -> str:
        if self.link not in ("auto", IDENTITY, LOG):
            raise InputError(
                f"must be 'auto', 'identity' or 'log', got {self.link!r}", parameter="link", value=self.link
            )
        if self.link == LOG and not (y > 0).all():
            raise InputError(
                f"'log' needs positive values, but the smallest is {y.min():g}",
                parameter="link",
                value=self.link,
                remedy="use link='identity', or leave such values out",
            )
        return self.link

    def _compared_ahead(self, seasons: Mapping[str, float], n: int) -> int:
        if self.horizon is None:
            shortest = min(seasons.values(), default=4.0)
            return int(np.clip(round(2 * shortest), 1, max(1, n // 5)))
        if not is_number(self.horizon, Integral) or self.horizon < 1:
            raise InputError(
                f"must be an integer >= 1, got {self.horizon!r}", parameter="horizon", value=self.horizon
            )
        return min(int(self.horizon), max(1, n // 5))

    def _seasons(self, axis: TimeAxis, t: Array, y: Array) -> dict[str, float]:
        """Name and length in steps of each season."""
        if isinstance(self.seasons, str) and self.seasons == "auto":
            if not axis.dated:
                return {f"{period * axis.step:g}": period for period in searched(t, y)}
            known = {name: axis.season(name) for name in SECONDS}
            there = shown(t, y, list(known.values()))
            return {name: period for (name, period), yes in zip(known.items(), there) if yes}
        listed = [self.seasons] if isinstance(self.seasons, str) or is_number(self.seasons) else self.seasons
        found = {}
        for one in listed if isinstance(listed, Iterable) else [listed]:
            name, period = self._season_asked_for(one, axis)
            cycles = (float(np.ptp(t)) + 1.0) / period
            if cycles < 2.0:
                raise InputError(
                    f"has {one!r}, a season of {period:g} steps, of which the series has {cycles:.2g} cycles, and two "
                    "are needed",
                    parameter="seasons",
                    value=one,
                    remedy="leave it out, or give a longer series",
                )
            found[name] = period
        return found

    @staticmethod
    def _season_asked_for(one: Any, axis: TimeAxis) -> tuple[str, float]:
        if isinstance(one, str) and one in SECONDS:
            period = axis.season(one)
            name = one
        elif is_number(one):
            period = float(one) if axis.dated else float(one) / axis.step
            name = f"{one:g}"
        else:
            names = ", ".join(map(repr, SECONDS))
            raise InputError(
                f"must be 'auto' or a list of {names} and numbers, got {one!r}",
                parameter="seasons",
                value=one,
            )
        if not np.isfinite(period) or period < 2.0 - 1e-9:
            raise InputError(
                f"has {one!r}, which times of this kind cannot show: a cycle must have two steps or more",
                parameter="seasons",
                value=one,
            )
        return name, period

    def update(self, t: Any, y: Any = None) -> Self:
        """Take in more values, at the hyperparameters and weights learned before."""
        check_is_fitted(self, "members_")
        import pandas as pd

        new = as_series(t, y, fewest=1)
        new.index = self.axis_.checked(new.index)
        series = pd.concat([self.y_, new]).sort_index(kind="stable")
        steps, values = self.axis_.steps(series.index), series.to_numpy(dtype=float)
        if (values <= 0).any() and any(member.scale.link == LOG for member in self.members_):
            raise InputError(
                "must be positive, as all values before: the model is of their logarithm",
                parameter="y",
                remedy="fit again with them",
            )
        self._adopt(
            self.axis_, series, self.seasons_, [member.given(steps, values) for member in self.members_]
        )
        return self

    # --- forecasts ------------------------------------------------------------------------------------------

    def predict_dist(self, horizon: Any, *, clean: bool = True) -> Prediction:
        """Predictive distribution at each time of `forecast`; with `clean` of values that are no gross errors."""
        return self._prediction(self.axis_.steps(self._times(horizon)), clean)

    def _prediction(self, steps: Array, clean: bool = True) -> Prediction:
        parts = [member.prediction(steps, clean=clean) for member in self.members_]
        if len(parts) == 1:
            return parts[0]
        return average(parts, [member.weight for member in self.members_])

    def forecast(self, horizon: Any, coverage: float = 0.95) -> pd.DataFrame:
        """Median and interval of the values to come.

        Parameters
        ----------
        horizon : int, date, times or steps
            A number of steps, a last date, or all the times wanted, after the last one of the series. Of dates also a
            list of whole numbers of steps: [1, 12] is the first and the twelfth from the last one on.
        coverage : float
            Probability of the interval.

        Returns
        -------
        DataFrame with columns median, lower and upper, one row for each time. Intervals are those of values that are no
        gross errors (see `predict_dist`).
        """
        import pandas as pd

        _check_coverage(coverage)
        times = self._times(horizon)
        prediction = self._prediction(self.axis_.steps(times))
        low, middle, high = prediction.quantile(np.array([0.5 - coverage / 2, 0.5, 0.5 + coverage / 2]))
        return pd.DataFrame({"median": middle, "lower": low, "upper": high}, index=times)

    def predict(self, fh: Any) -> pd.Series:
        """Medians of the values to come, by sktime's name."""
        import pandas as pd

        frame = self.forecast(fh)
        return pd.Series(frame["median"].to_numpy(), index=frame.index, name=self.y_.name)

    def predict_interval(self, fh: Any, coverage: float | Sequence[float] = 0.9) -> pd.DataFrame:
        """Intervals of the values to come; columns are (name, coverage, "lower" or "upper"), as in sktime."""
        import pandas as pd

        levels: Any = [coverage] if is_number(coverage) else coverage
        name = 0 if self.y_.name is None else self.y_.name
        found = {}
        for level in levels:
            _check_coverage(level)
            frame = self.forecast(fh, level)
            found[name, level, "lower"], found[name, level, "upper"] = frame["lower"], frame["upper"]
        return pd.DataFrame(found)

    def _times(self, horizon: Any) -> Any:
        """The times of a forecast."""
        check_is_fitted(self, "members_")
        last = self.y_.index[-1]
        if is_number(horizon, Integral):
            return self._after(last, np.arange(1, int(horizon) + 1), horizon)
        if self.axis_.dated and not isinstance(horizon, str) and np.asarray(horizon).dtype.kind in "iu":
            return self._after(last, np.ravel(horizon), horizon)
        times = self.axis_.checked(horizon)
        early = self.axis_.steps(times) <= self._t[-1]
        if early.any():
            first = times[int(np.argmax(early))]
            raise InputError(
                f"has {first}, which is not after the last time of the series, {last}",
                parameter="horizon",
                value=first,
                remedy="give a number of steps or later times; components() tells about earlier ones",
            )
        one = isinstance(horizon, str) or not hasattr(horizon, "__len__")
        return self.axis_.until(last, times) if one and self.axis_.dated else times

    def _after(self, last: Any, steps: NDArray[np.integer[Any]], given: Any) -> Any:
        """The times so many steps after the last one."""
        if not len(steps) or steps.min() < 1:
            raise InputError(f"must be at least one step, got {given}", parameter="horizon", value=given)
        return self.axis_.after(last, int(steps.max()))[steps - 1]

    # --- what was found -------------------------------------------------------------------------------------

    def components(self, horizon: Any = None, coverage: float = 0.95) -> pd.DataFrame:
        """Trend, slope, seasons and what is left of the function, each with an interval.

        Parameters
        ----------
        horizon : see `forecast`, optional
            Also for times to come.
        coverage : float

        Returns
        -------
        DataFrame with columns (component, "mean" or "lower" or "upper"). If parts add up, the trend is in the units of
        the series, its slope is the change over a step, and seasons are deviations from it. If they multiply (the
        logarithm has more weight), the slope is a relative change, and seasons are factors.
        """
        import pandas as pd

        check_is_fitted(self, "members_")
        _check_coverage(coverage)
        index = self.y_.index.unique()
        if horizon is not None:
            index = index.append(self._times(horizon))
        t, sds = self.axis_.steps(index), float(ndtri(0.5 + coverage / 2))
        link = self._main_link()
        members = [member for member in self.members_ if member.scale.link == link]
        additive = link == IDENTITY
        found: dict[tuple[str, str], Array] = {}
        for name, moments in _averaged(members, t).items():
            middle, width = moments.mean, sds * np.sqrt(moments.var)
            for label, value in (("mean", middle), ("lower", middle - width), ("upper", middle + width)):
                if not additive:
                    value = np.expm1(value) if name == "slope" else np.exp(value)
                found[name, label] = value
        return pd.DataFrame(found, index=index)

    def _main_link(self) -> str:
        weights: dict[str, float] = {}
        for member in self.members_:
            weights[member.scale.link] = weights.get(member.scale.link, 0.0) + member.weight
        return max(weights, key=lambda link: weights[link])

    def anomalies(self, threshold: float | None = None) -> pd.DataFrame:
        """How probable it is that each value is a gross error, given all others.

        Noise that knows no gross errors (counts, normal noise) cannot say; then it is one less the number of values so
        far off that a series of this length would have anyhow.

        Parameters
        ----------
        threshold : float, optional
            Only values whose probability is at least so high, the most probable first.

        Returns
        -------
        DataFrame with columns value, expected (what the other values say) and probability.
        """
        import pandas as pd

        check_is_fitted(self, "members_")
        y = self.y_.to_numpy(dtype=float)
        expected, probability = np.zeros(len(y)), np.zeros(len(y))
        for member in self.members_:
            rows = TrainingRows.of(self._t[:, None], member.scale.to_model(y), None, merge=False)
            center, without = _without_own_value(member, rows)
            expected += member.weight * center
            found = outlier_probability(member.posterior, rows, partial(_known, without))
            if not _tells_errors(member.posterior.model.likelihood):
                found = np.clip(1.0 - len(y) * (1.0 - found), 0.0, 1.0)
            probability += member.weight * found
        frame = pd.DataFrame(
            {"value": y, "expected": expected, "probability": np.clip(probability, 0.0, 1.0)},
            index=self.y_.index,
        )
        if threshold is None:
            return frame
        chosen: pd.DataFrame = frame[frame["probability"] >= threshold]
        return chosen.sort_values("probability", ascending=False, kind="stable")

    def backtest(
        self,
        origins: int | Sequence[Any] = 10,
        horizon: int | None = None,
        coverage: float = 0.95,
        *,
        refit: bool = True,
    ) -> pd.DataFrame:
        """Forecasts from origins within the series, beside what came.

        Parameters
        ----------
        origins : int or times
            How many, evenly spaced over the second half of the series; or the last known time of each.
        horizon : int, optional
            Values after each origin; by default as many as models are compared on.
        coverage : float
        refit : bool
            Whether everything is learned anew from what was known then; otherwise hyperparameters and weights of the
            whole series are used, which is faster and somewhat too good.

        Returns
        -------
        DataFrame with columns origin, ahead (number of the value after the origin), actual, median, lower, upper and
        inside.
        """
        import pandas as pd

        check_is_fitted(self, "members_")
        _check_coverage(coverage)
        n = len(self.y_)
        ahead = self._compared_ahead(self.seasons_, n) if horizon is None else int(horizon)
        found = []
        for cut in self._cuts(origins, ahead):
            known, later = self.y_.iloc[:cut], self.y_.iloc[cut : cut + ahead]
            model = clone(self).fit(known) if refit else self._at(cut)
            frame = model.forecast(later.index, coverage)
            frame.insert(0, "actual", later.to_numpy(dtype=float))
            frame.insert(0, "ahead", np.arange(1, len(later) + 1))
            frame.insert(0, "origin", [known.index[-1]] * len(later))
            found.append(frame)
        table: pd.DataFrame = pd.concat(found)
        table["inside"] = (table["lower"] <= table["actual"]) & (table["actual"] <= table["upper"])
        return table

    def _cuts(self, origins: Any, ahead: int) -> list[int]:
        n = len(self.y_)
        if ahead < 1:
            raise InputError(f"must be at least 1, got {ahead}", parameter="horizon", value=ahead)
        if is_number(origins, Integral) and origins >= 1:
            places = np.linspace(max(n // 2, FEWEST), n - ahead, int(origins)).astype(int)
        elif is_number(origins):
            raise InputError(f"must be at least 1, got {origins!r}", parameter="origins", value=origins)
        else:
            times = self.axis_.steps(self.axis_.checked(origins))
            places = np.searchsorted(self._t, times + 1e-9, side="right")
        usable = sorted({int(cut) for cut in places if FEWEST <= cut < n and self._t[cut] > self._t[cut - 1]})
        if not usable:
            raise InputError(
                f"leaves no forecast: each needs {FEWEST} values before the origin and one after it",
                parameter="origins",
                value=origins,
            )
        return usable

    def _at(self, cut: int) -> GPForecaster:
        """The model that knows the first values only, at the hyperparameters of all."""
        then: GPForecaster = clone(self)
        y = self.y_.iloc[:cut]
        values = y.to_numpy(dtype=float)
        members = [member.given(self._t[:cut], values) for member in self.members_]
        then._adopt(self.axis_, y, self.seasons_, members)
        return then

    def plot(self, horizon: Any = None, **options: Any) -> Any:
        """Draw the series with its forecast; see `cavity.plots.plot_forecast`."""
        from cavity.plots import plot_forecast

        return plot_forecast(self, horizon, **options)


def _tells_errors(likelihood: Likelihood) -> bool:
    """Whether a likelihood has a part for gross errors."""
    return type(likelihood).outlier_probability is not Likelihood.outlier_probability


def _known(cavities_found: Cavities | None) -> Cavities | None:
    return cavities_found


def _check_coverage(coverage: Any) -> None:
    if not is_number(coverage) or not 0 < coverage < 1:
        raise InputError(f"must be between 0 and 1, got {coverage!r}", parameter="coverage", value=coverage)


def _averaged(members: Sequence[Member], t: Array) -> dict[str, Moments]:
    """Components of models with one link, as mean and variance of their mixture, in units of g(y)."""
    total = sum(member.weight for member in members)
    sums: dict[str, list[Array]] = {}
    for member in members:
        weight, unit = member.weight / total, 1.0 if member.counts else member.scale.unit
        for name, moments in components(member, t).items():
            mean, var = unit * moments.mean, unit**2 * moments.var
            if name == "trend" and not member.counts:
                mean = mean + member.scale.center
            first = sums.setdefault(name, [np.zeros(len(t)), np.zeros(len(t))])
            first[0] += weight * mean
            first[1] += weight * (var + mean**2)
    return {name: Moments(m, np.maximum(s - m**2, 0.0)) for name, (m, s) in sums.items()}


def _without_own_value(member: Member, rows: TrainingRows) -> tuple[Array, Any]:
    """What the other values say of each, in the units of the series; and the cavities, if there are sites."""
    if member.posterior.approximation.sites is None:
        loo = member.posterior.model.leave_one_out(rows.X, rows.y)
        return member.scale.from_model(loo.mean), None
    mean, var = cavities(member.posterior, rows)
    if member.counts:
        return np.exp(mean), (mean, var)
    return member.scale.from_model(mean), (mean, var)


def as_series(t: Any, y: Any = None, fewest: int = FEWEST) -> pd.Series:
    """Values with their times, in order, without missing ones.

    Raises
    ------
    InputError
        For times that cannot be read, values that are infinite or no numbers, and too few of them.
    """
    import pandas as pd

    if y is None:
        if isinstance(t, pd.DataFrame):
            raise InputError(
                f"has {t.shape[1]} columns, and a forecaster is of one series",
                parameter="y",
                remedy="give one column, or all of them to cavity.forecasting.fit_many",
            )
        series = t if isinstance(t, pd.Series) else pd.Series(np.asarray(t).ravel())
        times, values, name = series.index, series, series.name
    else:
        times = pd.Index(t) if isinstance(t, pd.Series) else t
        values, name = pd.Series(np.asarray(y).ravel()), getattr(y, "name", None)
    index = as_index(times)
    if len(index) != len(values):
        raise InputError(f"has {len(values)} values for {len(index)} times", parameter="y")
    try:
        numbers = pd.to_numeric(values).to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        raise InputError("must be numbers, with nan for missing values", parameter="y") from None
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise InputError(
            f"has the value {numbers[row]} for {index[row]}",
            parameter="y",
            row=row,
            remedy="use nan for a missing value",
        )
    there = ~np.isnan(numbers)
    if not there.any() or there.sum() < fewest:
        what = "all values are missing" if not there.any() else f"there are {there.sum()} values"
        raise InputError(f"is too short: {what}, and {fewest} or more are needed", parameter="y")
    found = pd.Series(numbers[there], index=index[there], name=name)
    return found.sort_index(kind="stable")
