"""`CoregionalizedRegressor`: several outputs that tell about each other, with gaps, each with its own noise.

Learning is in units of each output's standard deviation, which changes no model: tables and noise are then put back
into the units of the data. If all outputs are seen at all rows with normal noise, two small matrices do instead of one
large one (`cavity.inference.Kronecker`), and noise may be correlated across outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.base import NestedParameters
from cavity.estimators.inputs import checked_inputs
from cavity.gp import GP
from cavity.inference.kronecker import Kronecker
from cavity.kernels import SE, Coregionalized, Kernel, Sum, ard
from cavity.kernels import parse as parse_kernel
from cavity.kernels.categorical import Categorical
from cavity.kernels.outputs import as_correlations
from cavity.learning.data_scale import without_far
from cavity.learning.robust_starts import is_robust
from cavity.learning.starts import Starts
from cavity.likelihoods import Gaussian, GaussianNoise, Likelihood, Switch, as_likelihood
from cavity.means import Basis, Mean, Zero
from cavity.means.basis_features import OutputLevels
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param
from cavity.parameters.priors import LogNormal
from cavity.parameters.units import Unit
from cavity.posterior import Posterior
from cavity.prediction import Prediction
from cavity.runtime.checks import generator, require_one_of
from cavity.runtime.errors import InputError
from cavity.runtime.storing import Storable

LEAST_OWN = 0.05
"""Share of an output's variance that is its own where learning starts."""

START_NOISE = 0.1
"""Share of an output's variance that is noise where learning starts."""

NOISE_SPREAD = 1.5
"""Prior standard deviation of the log of that share: factor models with few rows of an output learn no noise at all."""

LEVEL_SD = 10.0
"""Prior standard deviation of an output's level, in its own, where levels are not left to the data alone."""

SAME = 0.99
"""Correlation beyond which outputs start no closer together."""


@dataclass(eq=False, repr=False)
class CoregionalizedRegressor(Storable, RegressorMixin, MultiOutputMixin, NestedParameters):  # type: ignore[misc]
    """Regression of several outputs that are correlated with each other.

    Parameters
    ----------
    kernel : Kernel, str or list of these, optional
        Of the inputs; `SE(ard)` by default. With several, the outputs are sums of functions of each (the linear model
        of coregionalization), with a table of its own for each.
    rank : int
        Number of functions of a kernel that outputs share.
    likelihood : str, Likelihood, or a list or dict of these
        Noise: the same kind for all outputs, or one for each ("gaussian", "student-t", "poisson", ...). Outputs have
        parameters of their own in any case.
    noise : {"independent", "correlated"}
        Whether normal noise is correlated across the outputs of a row; "correlated" needs outputs without gaps.
    mean : {"constant", "zero"}
        A constant for each output, integrated out or of highest likelihood, or none.
    inference : str
        As in `GPRegressor`.
    objective : {"evidence"} or None
        None keeps the kernels as given.
    n_restarts : int
        Runs of the optimizer beside the first.
    random_state : int, Generator or RandomState, optional
    max_time : float, optional
        Seconds for learning.

    Attributes
    ----------
    correlations_ : array (p, p)
        Of the outputs, at one input, as learned; `print(model)` shows them after a fit.
    table_ : array (p, p)
        Their covariances, in units of the data.
    noise_covariance_ : array (p, p)
        Of normal noise without gaps.
    output_names_ : list of str
    posterior_ : Posterior or Kronecker
    log_evidence_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import CoregionalizedRegressor
    >>> x = np.linspace(0, 6, 20)[:, None]
    >>> Y = np.column_stack([np.sin(x[:, 0]), 2 * np.sin(x[:, 0]) + 1])
    >>> Y[5:15, 1] = np.nan  # not seen
    >>> model = CoregionalizedRegressor(random_state=0).fit(x, Y)
    >>> model.predict([[3.0]]).round(1)
    array([[0.1, 1.3]])
    """

    kernel: Any = None
    _: KW_ONLY
    rank: int = 1
    likelihood: Any = "gaussian"
    noise: str = "independent"
    mean: str = "constant"
    inference: Any = "auto"
    objective: str | None = "evidence"
    n_restarts: int = 1
    random_state: Any = None
    max_time: float | None = None

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, Y: ArrayLike) -> Self:
        """Learn from inputs X (n, D) and outputs Y (n, p), NaN where an output was not seen.

        Both may be data frames; outputs are then called by their columns.
        """
        self._check_options()
        x = checked_inputs(self, X, reset=True)
        table, self.output_names_ = _outputs(Y, len(x))
        noise = _noise_models(self.likelihood, self.output_names_)
        seen = ~np.isnan(table)
        for name, one, column, there in zip(self.output_names_, noise, table.T, seen.T):
            if not there.any():
                raise InputError(
                    f"output {name!r} has no observation at all", parameter="Y", remedy="leave it out"
                )
            one.check(column[there])
        units = _Units.of(table, noise)
        kernels = self._kernels(x.shape[1])
        normal = all(type(one) is Gaussian for one in noise)
        if self.noise == "correlated" and not (normal and seen.all()):
            raise InputError(
                "needs normal noise and outputs without gaps",
                parameter="noise",
                value=self.noise,
                remedy="use noise='independent'",
            )
        start = _start_table(units.standardized(table), self.rank)
        if normal and seen.all() and len(kernels) == 1 and self.inference in ("auto", "exact"):
            self._fit_complete(x, table, kernels[0], units, start)
        else:
            self._fit_long(x, table, kernels, noise, units, start)
        return self

    def _check_options(self) -> None:
        for name, allowed in (
            ("noise", ("independent", "correlated")),
            ("mean", ("constant", "zero")),
            ("objective", ("evidence", None)),
        ):
            require_one_of(getattr(self, name), name, allowed)

    def _kernels(self, columns: int) -> list[Kernel]:
        given = self.kernel if isinstance(self.kernel, list | tuple) else [self.kernel]
        found = [SE(ard) if k is None else parse_kernel(k) if isinstance(k, str) else k for k in given]
        if not found or not all(isinstance(k, Kernel) for k in found):
            raise InputError(f"must be a kernel or several, got {self.kernel!r}", parameter="kernel")
        return [k.bind(columns) for k in found]

    def _fit_long(
        self,
        X: Array,
        Y: Array,
        kernels: list[Kernel],
        noise: Sequence[Likelihood],
        units: _Units,
        start: tuple[Array, Array],
    ) -> None:
        """One row for each entry that was seen."""
        p, share = Y.shape[1], 1.0 / len(kernels)
        loadings, own = np.sqrt(share) * start[0], share * start[1]
        terms = [Coregionalized(k, p, self.rank, loadings=loadings, variances=own) for k in kernels]
        kernel = terms[0] if len(terms) == 1 else Sum(*terms)
        exact = all(isinstance(one, GaussianNoise) for one in noise)
        mean: Mean = Zero()
        if self.mean == "constant":  # other rules than the exact one need a level of finite variance
            mean = (
                Basis(OutputLevels(p))
                if exact
                else Basis(OutputLevels(p), np.zeros(p), np.full(p, LEVEL_SD**2))
            )
        rows, y = _long(X, Y), Y.T[~np.isnan(Y.T)]
        code = rows[:, 0].astype(int)
        scaled = (
            (y - units.center[code]) / units.scale[code] if self.mean == "constant" else y / units.scale[code]
        )
        likelihood = Switch(dict(enumerate(noise)), by=0)
        model = GP(kernel, likelihood, mean, self.inference).bind(rows.shape[1])
        if self.objective is not None:
            weak = Switch({o: _with_prior(one) for o, one in enumerate(noise)}, by=0)
            learned = model.with_likelihood(weak).learn(
                rows,
                scaled,
                n_restarts=self.n_restarts,
                rng=generator(self.random_state),
                max_time=self.max_time,
            )
            found = likelihood.with_flat(learned.model.likelihood.flat)
            model, self.runs_ = learned.model.with_likelihood(found), learned.runs
        self.posterior_: Posterior | Kronecker = units.restored(
            model, centered=self.mean == "constant"
        ).condition(rows, y)
        self.log_evidence_ = self.posterior_.log_evidence
        tables = [term.table for term in _terms(self.posterior_.model.kernel)]
        self.table_ = np.sum(tables, axis=0)

    def _fit_complete(
        self, X: Array, Y: Array, kernel: Kernel, units: _Units, start: tuple[Array, Array]
    ) -> None:
        """All outputs seen at all rows: two small matrices."""
        p = Y.shape[1]
        scaled = units.standardized(Y)
        if self.mean == "zero":
            scaled = Y / units.scale
        loadings = np.zeros((p, 1 if self.noise == "correlated" else 0))
        loadings[:] = 0.1
        noise = (
            Categorical(p, loadings=loadings, variances=np.full(p, START_NOISE)) if loadings.size else None
        )
        shared = Coregionalized(kernel, p, self.rank, loadings=start[0], variances=start[1])
        parts = _Complete(shared, noise, np.full(p, START_NOISE), X, scaled, self.mean == "constant")
        if self.objective is not None:
            parts = parts.learned(self.n_restarts, generator(self.random_state))
        found = parts.model
        across = np.multiply.outer(units.scale, units.scale)
        self.noise_covariance_ = found.noise * across
        self.table_ = found.table * across
        self.posterior_ = Kronecker(
            found.kernel, self.table_, self.noise_covariance_, X, Y, self.mean == "constant"
        )
        self.log_evidence_ = self.posterior_.log_evidence

    # --- what was learned -----------------------------------------------------------------------------------

    @property
    def correlations_(self) -> Array:
        """Correlations of the outputs at one input, shape (p, p)."""
        check_is_fitted(self, "table_")
        return as_correlations(self.table_)

    def summary(self) -> str:
        """The learned correlations as a table of text."""
        names = [str(name)[:12] for name in self.output_names_]
        width = max(map(len, names))
        lines = [" " * width + "".join(f" {name:>{max(len(name), 6)}}" for name in names)]
        for name, row in zip(names, self.correlations_):
            lines.append(
                f"{name:<{width}}" + "".join(f" {v:>{max(len(n), 6)}.2f}" for v, n in zip(row, names))
            )
        return "\n".join(lines)

    # --- prediction -----------------------------------------------------------------------------------------

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False, *, noise: bool = True
    ) -> Any:
        """Predictive means (m, p), and on request standard deviations (m, p) or covariances across outputs (m, p, p).

        With `noise` of new observations y, otherwise of the functions f.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True")
        check_is_fitted(self, "posterior_")
        x = checked_inputs(self, X, reset=False)
        if isinstance(self.posterior_, Kronecker):
            mean = self.posterior_.mean(x)
            if not (return_std or return_cov):
                return mean
            cov = self.posterior_.covariance(x) + (self.noise_covariance_ if noise else 0.0)
            return mean, cov if return_cov else np.sqrt(np.einsum("mpp->mp", cov))
        found = [self._predicted(x, o, noise) for o in range(len(self.output_names_))]
        mean = np.column_stack([one.mean for one in found])
        if return_std:
            return mean, np.column_stack([np.sqrt(one.variance) for one in found])
        if not return_cov:
            return mean
        cov = self._joint(x)
        if noise:
            p = len(found)
            cov[:, np.arange(p), np.arange(p)] = np.column_stack([one.variance for one in found])
        return mean, cov

    def predict_dist(self, X: ArrayLike, *, clean: bool = False) -> dict[str, Prediction]:
        """Predictive distribution of new observations, by output.

        With `clean`, of observations that are no outliers; of outputs whose noise knows none, it is the same.
        """
        check_is_fitted(self, "posterior_")
        x = checked_inputs(self, X, reset=False)
        return {name: self._predicted(x, o, True, clean) for o, name in enumerate(self.output_names_)}

    def _predicted(self, x: Array, output: int, noise: bool, clean: bool = False) -> Prediction:
        if isinstance(self.posterior_, Kronecker):
            variance = self.posterior_.covariance(x)[:, output, output]
            own = Gaussian(self.noise_covariance_[output, output]) if noise else None
            mean = self.posterior_.mean(x)[:, output]
            if own is not None:
                return own.predictive(mean, variance)
            from cavity.prediction import GaussianPrediction

            return GaussianPrediction(mean, variance)
        rows = np.column_stack([np.full(len(x), float(output)), x])
        if not noise:
            return self.posterior_.predict_f(rows)
        likelihood = cast(Switch, self.posterior_.model.likelihood).likelihoods[output]
        predictive = likelihood.clean_predictive if clean and is_robust(likelihood) else likelihood.predictive
        return predictive(self.posterior_.mean(rows), self.posterior_.variance(rows))

    def _joint(self, x: Array) -> Array:
        """Covariances of the functions across outputs at each row, a few rows at a time."""
        posterior, p = cast(Posterior, self.posterior_), len(self.output_names_)
        out = np.empty((len(x), p, p))
        step = max(1, 400 // p)
        for i in range(0, len(x), step):
            part = x[i : i + step]
            m = len(part)
            rows = np.vstack([np.column_stack([np.full(m, float(o)), part]) for o in range(p)])
            cov = posterior.covariance(rows).reshape(p, m, p, m)
            out[i : i + m] = np.einsum("ambm->mab", cov)
        return out

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know."""
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = False
        return tags


@dataclass(frozen=True)
class _Units:
    """Level and spread of each output; labels and counts keep theirs."""

    center: Array
    scale: Array

    @classmethod
    def of(cls, Y: Array, noise: Sequence[Likelihood]) -> Self:
        plain = np.array([not one.discrete and one.noise is one for one in noise])
        bulk = [without_far(y[~np.isnan(y)])[0] for y in Y.T]  # gross errors set no units
        scale = np.array([np.std(y) for y in bulk])
        scale = np.where(plain & (scale > 0), scale, 1.0)
        return cls(np.where(plain, [np.mean(y) for y in bulk], 0.0), scale)

    def standardized(self, Y: Array) -> Array:
        return np.asarray((Y - self.center) / self.scale)

    def restored(self, model: GP, *, centered: bool) -> GP:
        """A model of standardized outputs in the units of the data."""
        mean = model.mean
        if centered and isinstance(mean, Basis) and not mean.vague:
            mean = Basis(list(mean.functions), self.center, self.scale**2 * np.diag(mean.prior_covariance))
        terms = [
            replace_table(
                term, self.scale[:, None] * term._table.loadings, self.scale**2 * term._table.variances
            )
            for term in _terms(model.kernel)
        ]
        kernel = terms[0] if len(terms) == 1 else Sum(*terms)
        switch = cast(Switch, model.likelihood)
        noise = [_rescaled(one, s) for one, s in zip(switch.likelihoods, self.scale)]
        new = GP(kernel, Switch(dict(zip(switch.keys, noise)), by=0), mean, model.inference)
        return new.bind(cast(int, model._columns))


def _rescaled(likelihood: Likelihood, scale: float) -> Likelihood:
    """Noise in other units."""
    power = {Unit.NOISE_VARIANCE: 2.0, Unit.NOISE_SD: 1.0}
    factors = [
        np.full(param.array.size, scale ** power.get(likelihood.units[name], 0.0))
        for name, param in likelihood.params.items()
    ]
    return likelihood if not factors else likelihood.with_flat(likelihood.flat * np.concatenate(factors))


def replace_table(kernel: Coregionalized, loadings: Array, variances: Array) -> Coregionalized:
    """The same kernel with another table."""
    return Coregionalized(kernel.kernel, kernel.outputs, loadings=loadings, variances=variances)


def _terms(kernel: Kernel) -> list[Coregionalized]:
    found = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    return [term for term in found if isinstance(term, Coregionalized)]  # and no basis functions


def _outputs(Y: Any, n: int) -> tuple[Array, list[str]]:
    """Outputs as numbers (n, p), and their names."""
    names = [str(name) for name in getattr(Y, "columns", ())]
    try:
        table = np.array(Y, dtype=float)
    except (TypeError, ValueError):
        raise InputError("must hold numbers, NaN where an output was not seen", parameter="Y") from None
    if table.ndim != 2 or table.shape[1] < 2:
        raise InputError(
            f"must have a column for each of two or more outputs, got shape {table.shape}",
            parameter="Y",
            remedy="use GPRegressor for one output",
        )
    if len(table) != n:
        raise InputError(f"must have as many rows as X ({n}), got {len(table)}", parameter="Y")
    if np.isinf(table).any():
        row = int(np.argwhere(np.isinf(table))[0, 0])
        raise InputError("has an infinite value", parameter="Y", row=row, remedy="correct it, or make it NaN")
    return table, names or [str(o) for o in range(table.shape[1])]


def _noise_models(given: Any, names: Sequence[str]) -> list[Likelihood]:
    """One likelihood for each output."""
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(f"says nothing of output {missing[0]!r}", parameter="likelihood", value=given)
        listed = [given[name] for name in names]
    elif isinstance(given, list | tuple):
        listed = list(given)
    else:
        listed = [given] * len(names)
    if len(listed) != len(names):
        raise InputError(
            f"must be one for all or one for each of {len(names)} outputs, got {len(listed)}",
            parameter="likelihood",
        )
    return [as_likelihood(one) for one in listed]


def _with_prior(noise: Likelihood) -> Likelihood:
    """Normal noise of which nothing was said gets a weak prior, in units of its output."""
    if type(noise) is not Gaussian or noise != Gaussian():
        return noise
    return Gaussian(Param(START_NOISE, prior=LogNormal(float(np.log(START_NOISE)), NOISE_SPREAD)))


def _long(X: Array, Y: Array) -> Array:
    """One row for each entry that was seen: output, inputs; output by output."""
    return np.vstack(
        [np.column_stack([np.full(int(s.sum()), float(o)), X[s]]) for o, s in enumerate(~np.isnan(Y).T)]
    )


def _start_table(Z: Array, rank: int) -> tuple[Array, Array]:
    """Loadings and own variances that match the correlations of pairs of outputs, as far as they are seen."""
    p = Z.shape[1]
    C = np.eye(p)
    for a in range(p):
        for b in range(a):
            both = ~np.isnan(Z[:, a] + Z[:, b])
            if both.sum() > 2 and np.ptp(Z[both, a]) > 0 and np.ptp(Z[both, b]) > 0:
                C[a, b] = C[b, a] = np.clip(np.corrcoef(Z[both, a], Z[both, b])[0, 1], -SAME, SAME)
    values, vectors = np.linalg.eigh(C)
    top = np.argsort(values)[::-1][:rank]
    loadings = vectors[:, top] * np.sqrt(np.maximum(values[top], LEAST_OWN))
    own = np.maximum(1.0 - np.sum(loadings**2, axis=1), LEAST_OWN)
    return loadings, own


@dataclass(frozen=True)
class _Complete:
    """A Kronecker model with free parameters: those of the kernel with its table, then of the noise."""

    kernel: Coregionalized
    across: Categorical | None
    variances: Array
    X: Array
    Y: Array
    constants: bool

    @property
    def model(self) -> Kronecker:
        noise = np.diag(self.variances) if self.across is None else self.across.table
        return Kronecker.of(self.kernel, noise, self.X, self.Y, constants=self.constants)

    @property
    def theta(self) -> Array:
        own = np.log(self.variances) if self.across is None else self.across.theta
        return np.concatenate([self.kernel.theta, own])

    def at(self, theta: Array) -> _Complete:
        k = len(self.kernel.theta)
        kernel = self.kernel.replace(theta[:k])
        if self.across is None:
            return replace(self, kernel=kernel, variances=np.exp(theta[k:]))
        return replace(self, kernel=kernel, across=self.across.replace(theta[k:]))

    def evidence(self, theta: Array) -> tuple[float, Array]:
        """Log evidence and its gradient."""
        here = self.at(theta)
        model = here.model
        of_K, of_B, of_noise = model.gradient()
        inner = here.kernel.kernel
        a = inner.prepare(self.X)
        flat = np.concatenate([here.kernel._table._gather(of_B), inner._pull(a, a, of_K, inner._block(a, a))])
        d_kernel = here.kernel.to_theta(flat)
        if here.across is None:
            return model.log_evidence, np.concatenate([d_kernel, np.diag(of_noise) * here.variances])
        return model.log_evidence, np.concatenate(
            [d_kernel, here.across.to_theta(here.across._gather(of_noise))]
        )

    def learned(self, n_restarts: int, rng: np.random.Generator) -> _Complete:
        """At the highest evidence of several runs."""
        from scipy.optimize import minimize  # only to learn: commands that predict start without it

        inner = self.kernel.kernel
        typical = Starts.of(GP(inner).bind(self.X.shape[1]), self.X, self.Y.mean(axis=1))
        size, place = len(inner.theta), len(self.kernel.theta) - len(inner.theta)
        best: tuple[float, Array] | None = None
        for run in range(n_restarts + 1):
            theta = self.theta.copy()
            theta[place : place + size] = (typical.first if run == 0 else typical.draw(rng))[:size]
            if run:
                theta[:place] += 0.3 * rng.standard_normal(place)
            low, high = theta - 12.0, theta + 12.0
            found = minimize(
                self._negative,
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=list(zip(low, high)),
                options={"maxiter": 300},
            )
            if best is None or found.fun < best[0]:
                best = float(found.fun), found.x
        assert best is not None
        return self.at(best[1])

    def _negative(self, theta: Array) -> tuple[float, Array]:
        try:
            value, gradient = self.evidence(theta)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(theta)
        return -value, -gradient
