"""`SamplePosterior`: predictions that average over draws of Markov chains, with diagnostics of the chains.

Every draw is a set of hyperparameters with the Gaussian process it leaves (`conditionals`), so that predictions of f
are mixtures of normals and those of y mixtures of the likelihood's predictions (Kuss 2006, eq. 5.18):

    mean = average of means,    variance = average of variances + variance of means.

Predictions use at most `max_draws` draws, spread evenly over all chains; diagnostics use all of them.

Draws are believed if R-hat is at most 1.01 and both effective sample sizes, of bulk and tails, are at least 100 per
chain, for every hyperparameter and every latent value (Vehtari et al. 2021); of the log density R-hat alone counts.
"""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.inference.base import Approximation, ConvergenceWarning, Stage, Status, TrainingData
from cavity.latent.base import Inputs
from cavity.likelihoods.scale_mixture import WIDE
from cavity.numerics.arrays import Array
from cavity.prediction import (
    CategoricalPrediction,
    GaussianPrediction,
    MixturePrediction,
    Prediction,
    Slices,
    average,
)
from cavity.runtime.errors import InPython, Message, Part, Setting
from cavity.sampling import diagnostics as chains_of
from cavity.sampling.process_given_draw import ProcessGivenDraw, given_latent, given_noise, kept
from cavity.sampling.trace import Trace

WORST_RHAT = 1.01
LEAST_ESS_PER_CHAIN = 100

PRIORS = "give the hyperparameters more informative priors"
SHOWN = InPython("; diagnostics() and plot_trace show which of them mix badly")


@dataclass(frozen=True)
class Draws:
    """What a sampler drew.

    Attributes
    ----------
    model : GP
        Bound to the data, with the priors that were used.
    X, y : arrays (n, D), (n,)
    trace : Trace
        Positions are `theta` (p may be zero).
    weight : array (n,) or None
        Powers of the likelihood factors.
    noise : array (C, T, n) or None
        Noise variances, where f was integrated out given these; None with `white` None: those of the likelihood.
    white : array (C, T, n) or (C, T, n, L), or None
        White latent values u, f = m + L u.
    latent : array of the shape of `white`, or None
        f itself.
    indicators : array of bool (C, T, n) or None
    probability : array (n,) or None
        Posterior probability of each point to be an outlier.
    nugget : float
        What was added to the diagonal of K, relative to its mean, where `white` was drawn.
    """

    model: Any
    X: Array
    y: Array
    trace: Trace
    weight: Array | None = None
    noise: Array | None = None
    white: Array | None = None
    latent: Array | None = None
    indicators: NDArray[np.bool_] | None = None
    probability: Array | None = None
    method: str = ""
    nugget: float = 0.0


class SamplePosterior:
    """A Gaussian process after seeing data, as draws: the interface of `cavity.gp.Posterior`.

    Parameters
    ----------
    draws : Draws
    max_draws : int
        Draws used in predictions, at most.
    warn : bool
        Whether to warn (`ConvergenceWarning`) where the chains are not to be believed.

    Attributes
    ----------
    model : GP
        With the posterior mean of `theta` as its hyperparameters.
    trace : Trace
        Draws of `theta`, unconstrained.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.inference import MCMC
    >>> X = np.linspace(0, 5, 15)[:, None]
    >>> rule = MCMC(n_draws=40, warmup=40, chains=2, rng=0, warn=False, progress=False)
    >>> posterior = GP(1.0 * SE(1.0), inference=rule).condition(X, np.sin(X[:, 0]))
    >>> posterior.predict_y([[2.5]]).interval(0.9)[0].shape
    (1,)
    """

    def __init__(self, draws: Draws, max_draws: int = 256, warn: bool = True) -> None:
        if max_draws < 1:
            raise ValueError(f"max_draws must be an integer >= 1, got {max_draws!r}")
        self.draws, self.trace = draws, draws.trace
        self.max_draws = max_draws
        self.model = draws.model
        if self.trace.dim:
            self.model = draws.model.replace(self.trace.pooled.mean(axis=0))
        if warn and self.problem is not None:
            warnings.warn(ConvergenceWarning.of(self.problem), stacklevel=3)

    def __repr__(self) -> str:
        t = self.trace
        return f"SamplePosterior({t.chains} chains of {t.draws} draws, {self.draws.method})"

    # --- what a posterior is asked --------------------------------------------------------------------------

    @property
    def X(self) -> Array:
        """Training inputs, shape (n, D)."""
        return self.draws.X

    @property
    def data(self) -> TrainingData:
        """The data that were conditioned on."""
        return TrainingData(self.draws.X, self.draws.y, self.draws.weight, Inputs(self.draws.X))

    @property
    def process(self) -> SamplePosterior:
        """The posterior itself: it has the methods of a process."""
        return self

    @property
    def approximation(self) -> Approximation:
        """What the draws say about themselves; there are no sites."""
        return Approximation(self, self.log_evidence, self.status)

    @property
    def log_evidence(self) -> float:
        """Not a number: chains do not tell. Use annealed importance sampling."""
        return float("nan")

    @property
    def basis(self) -> None:
        """Basis functions are part of the kernel here."""
        return None

    @cached_property
    def status(self) -> Status:
        """Whether the chains are to be believed."""
        table = self._table
        total = self.trace.draws + self.trace.warmup
        worst = float(np.nanmax(table["rhat"], initial=1.0))
        message = "" if self.notice is None else str(self.notice)
        return Status(
            self.problem is None, Stage.SAMPLING, total, worst, message=message, detail=self.draws.method
        )

    @property
    def notice(self) -> Message | None:
        """What a user should know about the draws: the `problem`, or that there are fewer than were asked for."""
        if self.problem is not None or self.trace.stopped is None:
            return self.problem
        return Message((*self._stopped, "; the draws made so far are kept"))

    # --- draws for predictions ------------------------------------------------------------------------------

    @cached_property
    def _chosen(self) -> NDArray[np.intp]:
        """Pooled draws that predictions use."""
        total = self.trace.chains * self.trace.draws
        count = min(self.max_draws, total)
        return np.floor((np.arange(count) + 0.5) * total / count).astype(np.intp)

    @cached_property
    def conditionals(self) -> list[ProcessGivenDraw]:
        """The Gaussian processes left by the draws, computed when first needed."""
        d, at = self.draws, self._chosen
        n = len(d.X)
        theta = self.trace.pooled[at]
        keep = kept(n, d.model.likelihood.n_latent)
        if d.white is not None:
            white = d.white.reshape(-1, *d.white.shape[2:])[at]
            if self.trace.dim == 0:
                return [given_latent(d.model, d.X, white, next(keep), d.nugget)]
            return [
                given_latent(d.model.replace(t), d.X, u[None], next(keep), d.nugget)
                for t, u in zip(theta, white)
            ]
        if d.noise is None and self.trace.dim == 0:
            return [self._given_likelihood(d.model, next(keep))]
        if d.noise is None:
            return [self._given_likelihood(d.model.replace(t), next(keep)) for t in theta]
        noise = d.noise.reshape(-1, n)[at]
        models = [d.model.replace(t) for t in theta] if self.trace.dim else [d.model] * len(at)
        return [given_noise(m, d.X, d.y, v, next(keep)) for m, v in zip(models, noise)]

    def _given_likelihood(self, model: Any, keep: bool) -> ProcessGivenDraw:
        d = self.draws
        variance = model.likelihood.noise_variances(len(d.X))[0]
        if d.weight is not None:
            variance = variance / d.weight
        return given_noise(model, d.X, d.y, variance, keep)

    def _inputs(self, X: ArrayLike) -> Array:
        new: Array = self.model.inputs(X)
        if new.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"X has {new.shape[1]} columns, but the model was conditioned on {self.X.shape[1]}"
            )
        return new

    @property
    def _total(self) -> int:
        return sum(c.count for c in self.conditionals)

    # --- moments --------------------------------------------------------------------------------------------

    def mean(self, X: ArrayLike) -> Array:
        """Posterior mean of f, shape (m,) or (m, L)."""
        X = self._inputs(X)
        return np.asarray(sum(c.means(X).sum(axis=0) for c in self.conditionals) / self._total)

    def variance(self, X: ArrayLike) -> Array:
        """Posterior variance of f, shape (m,) or (m, L): within draws plus between them."""
        X = self._inputs(X)
        return self._moments(X)[1]

    def _moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance in one pass; sums of squares are taken around the first draw's mean."""
        origin = self.conditionals[0].means(X)[0]
        first, second, within = np.zeros_like(origin), np.zeros_like(origin), np.zeros_like(origin)
        for c in self.conditionals:
            gap = c.means(X) - origin
            first, second = first + gap.sum(axis=0), second + (gap**2).sum(axis=0)
            within = within + c.count * c.variances(X)
        S = self._total
        between = np.maximum(second / S - (first / S) ** 2, 0.0)  # zero by definition, below it by rounding
        return origin + first / S, np.asarray(within / S + between)

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariance of f among the rows of X, shape (m, m)."""
        X = self._inputs(X)
        self._one_latent("the joint covariance")
        S, mean = self._total, self.mean(X)
        total = np.zeros((len(X), len(X)))
        for c in self.conditionals:
            gap = c.means(X) - mean
            total += c.count * c.processes[0].covariance(X) + gap.T @ gap
        return total / S

    def _one_latent(self, what: str) -> None:
        if self.model.likelihood.n_latent > 1:
            raise ValueError(f"{what} is available for one latent function only")

    def mean_gradient(self, X: ArrayLike) -> Array:
        """d mean / dx, shape (m, D)."""
        X = self._inputs(X)
        self._one_latent("the derivative of the mean")
        return np.asarray(sum(self._slopes(c, X).sum(axis=-1) for c in self.conditionals) / self._total)

    @staticmethod
    def _slopes(c: ProcessGivenDraw, X: Array) -> Array:
        """d mean / dx for each draw, shape (m, D, g)."""
        return np.asarray(c.processes[0].mean_gradient(X)).reshape(*X.shape, c.count)

    def variance_gradient(self, X: ArrayLike) -> Array:
        """d variance / dx, shape (m, D)."""
        X = self._inputs(X)
        self._one_latent("the derivative of the variance")
        S, mean = self._total, self.mean(X)
        total = np.zeros(X.shape)
        for c in self.conditionals:  # the mean's own derivative drops out: deviations from it add up to zero
            gap = c.means(X) - mean
            total += c.count * c.processes[0].variance_gradient(X)
            total += 2.0 * np.einsum("gm,mdg->md", gap, self._slopes(c, X))
        return total / S

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of f at X, shape (size, m) or (size, m, L): a draw of the chains, then from its process."""
        return self._sample(X, size, rng)[0]

    def _sample(self, X: ArrayLike, size: int, rng: Any) -> tuple[Array, list[Any]]:
        """Draws of f, and the likelihood that belongs to each."""
        X = self._inputs(X)
        rng = np.random.default_rng(rng)
        places = [(c, k) for c in self.conditionals for k in range(c.count)]
        chosen = rng.choice(len(places), size, replace=size > len(places))
        out, likelihoods = [], []
        for j in chosen:
            conditional, k = places[j]
            columns = [p.sample(X, 1, rng)[0] for p in conditional.pick(k)]
            out.append(columns[0] if len(columns) == 1 else np.stack(columns, axis=-1))
            likelihoods.append(conditional.model.likelihood)
        return np.array(out), likelihoods

    def sample_y(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of new observations at X, shape (size, m), each with the noise of its own draw."""
        rng = np.random.default_rng(rng)
        f, likelihoods = self._sample(X, size, rng)
        return np.stack([likelihood.sample(one, rng) for likelihood, one in zip(likelihoods, f)])

    # --- predictions ----------------------------------------------------------------------------------------

    def predict_f(self, X: ArrayLike, *, joint: bool = False) -> Prediction:
        """Distribution of f at X, a mixture of normals.

        With `joint` (and for several latent functions) the normal distribution with the same means and covariances.
        """
        X = self._inputs(X)
        if joint:
            cov = self.covariance(X)
            return GaussianPrediction(self.mean(X), np.diagonal(cov).copy(), cov)
        if self.model.likelihood.n_latent > 1:
            return GaussianPrediction(*self._moments(X))
        means, variances = self._all(X)
        return MixturePrediction(np.full(len(means), -np.log(len(means))), means, variances)

    def _all(self, X: Array) -> tuple[Array, Array]:
        """Means and variances of f under every draw, each (S, m) or (S, m, L)."""
        pairs = [(c.means(X), c.variances(X)) for c in self.conditionals]
        return (
            np.concatenate([m for m, _ in pairs]),
            np.concatenate([np.broadcast_to(v, m.shape) for m, v in pairs]),
        )

    def predict_y(self, X: ArrayLike, noise_variance: ArrayLike | None = None) -> Prediction:
        """Distribution of new observations at X, averaged over the draws.

        `noise_variance` (m,) is that of the new observations, for noise whose variances are known.
        """
        X = self._inputs(X)
        likelihood = self.conditionals[0].model.likelihood.of_new(len(X), noise_variance)
        if likelihood.discrete and likelihood.n_latent == 1 and not self._likelihood_varies:
            means, variances = self._all(X)
            whole = likelihood.predictive(means.ravel(), variances.ravel())
            if not isinstance(whole, CategoricalPrediction):
                return Slices(whole, len(means))
        parts = []
        for c in self.conditionals:
            variance = c.variances(X)
            likelihood = c.model.likelihood.of_new(len(X), noise_variance)
            parts += [likelihood.predictive(mean, variance) for mean in c.means(X)]
        return average(parts)

    @property
    def _likelihood_varies(self) -> bool:
        """Whether draws differ in the likelihood, or cases do (known numbers of trials)."""
        likelihood = self.model.likelihood
        return any(not e.fixed for e in likelihood.entries) or likelihood.rows(np.arange(1)) is not likelihood

    def update(self, X: ArrayLike, y: ArrayLike, noise_variance: ArrayLike | None = None) -> SamplePosterior:
        """The posterior given these observations too: the chains are run again, from where they are.

        Under `KnownNoise` their noise variances must be given, a number or an array (m,).
        """
        new_X, new_y = self.model._checked_data(X, y)
        model = self.model.with_likelihood(self.model.likelihood.and_new(len(new_X), noise_variance))
        weight = self.draws.weight
        if weight is not None:
            weight = np.concatenate([weight, np.ones(len(new_X))])
        found: SamplePosterior = model.condition(
            np.vstack([self.X, self._inputs(new_X)]), np.concatenate([self.draws.y, new_y]), weight
        )
        return found

    # --- outliers -------------------------------------------------------------------------------------------

    @property
    def outlier_probability(self) -> Array | None:
        """How likely each training row is an outlier given all data, shape (n,); None where draws do not tell.

        For a mixture the posterior mean of its indicator; for Student-t and Laplace noise the posterior probability
        that its own noise sd is above three times the scale.
        """
        d = self.draws
        if d.probability is not None:
            return d.probability
        if d.noise is None:
            return None
        noise = d.noise.reshape(-1, len(d.X))
        scale: Array = np.array([float(self.model.likelihood.scale)])
        if self.trace.dim:
            scale = np.array([float(d.model.replace(t).likelihood.scale) for t in self.trace.pooled])
        return np.asarray(np.mean(noise > (WIDE * scale[:, None]) ** 2, axis=0))

    # --- diagnostics ----------------------------------------------------------------------------------------

    @cached_property
    def natural(self) -> Array:
        """Draws of the hyperparameters in natural units, shape (C, T, p)."""
        t = self.trace
        layout = self.draws.model.layout
        values = [layout.to_natural(u) for u in t.pooled]
        return np.array(values).reshape(t.chains, t.draws, t.dim)

    def _scalars(self) -> tuple[list[str], Array]:
        """Names and draws (C, T, k) of everything that is diagnosed, latent values last."""
        t = self.trace
        names, columns = list(self.draws.model.names), [self.natural]
        names.append("log_density")
        columns.append(t.log_density[:, :, None])
        d = self.draws
        if d.indicators is not None:
            names.append("outliers")
            columns.append(d.indicators.sum(axis=2, dtype=float)[:, :, None])
        if d.latent is not None:
            flat = d.latent.reshape(t.chains, t.draws, -1)
            names += [f"f[{','.join(map(str, index))}]" for index in np.ndindex(d.latent.shape[2:])]
            columns.append(flat)
        return names, np.concatenate(columns, axis=2)

    @cached_property
    def _table(self) -> dict[str, Any]:
        names, x = self._scalars()
        columns: dict[str, Any] = {
            "name": names,
            "mean": x.mean(axis=(0, 1)),
            "sd": x.std(axis=(0, 1), ddof=1) if x.shape[0] * x.shape[1] > 1 else np.zeros(x.shape[2]),
        }
        measures = ("rhat", "ess_bulk", "ess_tail", "mcse_mean")
        if self.trace.draws < 4:
            return {**columns, **{m: np.full(len(names), np.nan) for m in measures}}
        with np.errstate(all="ignore"):
            return {**columns, **{m: getattr(chains_of, m)(x) for m in measures}}

    def diagnostics(self, latent: bool = False) -> Any:
        """Table of mean, sd, R-hat, effective sample sizes and Monte Carlo standard error.

        Parameters
        ----------
        latent : bool
            Whether to list the latent values at the training inputs too, where they were sampled.

        Returns
        -------
        DataFrame
            One row per hyperparameter in natural units, then the log density (and the number of outliers).
        """
        import pandas as pd

        table = pd.DataFrame(self._table).set_index("name")
        return table if latent else table[~table.index.str.startswith("f[")]

    @cached_property
    def problem(self) -> Message | None:
        """Why the draws should not be believed yet, with the remedy; None if they may."""
        table, t = self._table, self.trace
        constant = np.asarray(table["sd"]) == 0
        least = LEAST_ESS_PER_CHAIN * t.chains
        found = []
        if t.draws < 4:
            found.append(f"only {t.draws} draws per chain were made")
        rhat = np.where(constant, 1.0, np.nan_to_num(table["rhat"], nan=1.0))
        if np.max(rhat, initial=1.0) > WORST_RHAT:
            at = int(np.argmax(rhat))
            found.append(f"R-hat of {table['name'][at]} is {rhat[at]:.3f}, above {WORST_RHAT}")
        ess = np.fmin(table["ess_bulk"], table["ess_tail"])
        ess = np.where(constant | np.isnan(ess) | (np.array(table["name"]) == "log_density"), np.inf, ess)
        if np.min(ess, initial=np.inf) < least:
            at = int(np.argmin(ess))
            found.append(f"the effective sample size of {table['name'][at]} is {ess[at]:.0f}, below {least}")
        diverged = int(np.sum(t.divergences))
        if diverged > 0.01 * t.chains * t.draws:
            found.append(f"{diverged} of {t.chains * t.draws} trajectories diverged")
        if not found:
            return None
        because = () if t.stopped is None else (*self._stopped, ", and ")
        worst = (*because, f"the chains have not converged: {'; '.join(found)}")
        return Message(worst, remedy=(*self._how_to_sample_longer, PRIORS, SHOWN))

    @property
    def _how_to_sample_longer(self) -> tuple[Part, ...]:
        if self.trace.stopped is not None:
            return ("let them run longer, or ",)
        draws = 2 * max(self.trace.draws, 500)
        longer = Setting("draws", draws, f"inference=MCMC(n_draws={draws}, extend_to={4 * draws})")
        return ("sample longer, as in ", longer, InPython(", which goes on until all checks pass"), ", or ")

    @property
    def _stopped(self) -> tuple[Part, ...]:
        """That there are fewer draws than were asked for, and why; nothing if that is not so."""
        t = self.trace
        if t.stopped is None:
            return ()
        return "sampling was stopped early (", *t.stopped.parts, f"), after {t.draws} draws of each chain"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the draws, with their model and data, to a file that `cavity.load` reads."""
        from cavity.io import save

        save(self, path)

    def plot(self, X: ArrayLike | None = None, y: ArrayLike | None = None, **options: Any) -> Any:
        """Traces of the hyperparameters, or the fit where there are none; see `cavity.plots.plot`."""
        from cavity.plots import plot

        return plot(self, X, y, **options)

    # --- other libraries ------------------------------------------------------------------------------------

    def to_arviz(self) -> Any:
        """ArviZ InferenceData: hyperparameters in natural units, `f` where it was sampled, sampler statistics, data.

        Needs the extra `arviz`. Elements of an array parameter are one variable with a dimension of its own.
        """
        try:
            import arviz
        except ImportError:
            raise ImportError("to_arviz needs ArviZ: install cavity with the extra 'arviz'") from None
        d, t = self.draws, self.trace
        posterior: dict[str, Any] = {}
        grouped: dict[str, list[int]] = {}
        for j, name in enumerate(d.model.names):
            grouped.setdefault(re.sub(r"\[[\d,]+\]$", "", name), []).append(j)
        for path, columns in grouped.items():
            values = self.natural[:, :, columns]
            posterior[path] = values if "[" in d.model.names[columns[0]] else values[:, :, 0]
        if d.latent is not None:
            posterior["f"] = d.latent
        if d.indicators is not None:
            posterior["outlier"] = d.indicators.astype(int)
        elif d.noise is not None:
            posterior["noise_variance"] = d.noise
        return arviz.from_dict(
            posterior=posterior,
            sample_stats={"lp": t.log_density},
            observed_data={"y": d.y},
            constant_data={"X": d.X},
        )
