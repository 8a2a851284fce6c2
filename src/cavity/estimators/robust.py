"""What regression with noise other than Gaussian needs: starts, a choice among runs, what is left without a row.

Starts. Optima of the evidence depend on where learning starts. The solution for Gaussian noise is a good place:
its kernel values, with the noise level of the bulk of its leave-one-out residuals, which outliers do not move. Where
outliers have bent that solution itself, a model with heavy tails may stay beside it, at the Gaussian limit. Laplace
noise, log-concave and so with one mode only, is a step between. Of the two starts the one is run that leads further
within a few steps. The highest evidence need not predict best: where the solution for Gaussian noise is trusted, it can
be the only start (`from_gaussian`).

Choice among runs. EP's evidence is comparable between fixed points of one kind. Those found by continuation
where plain EP does not converge overestimate it, by up to 6 nats in our measurements, and power EP and the
variational fallback have evidences of their own. So a run that ends where plain EP converges is preferred to
one that does not, unless the latter's evidence is higher by more than `STAGE_MARGIN`.

Without a row. With the site of row i taken away from the posterior marginal N(m, v),

    variance = v / (1 - tau v),    mean = m - variance (nu - tau m),

the cavity: what all other rows say about f_i. A point cannot vouch for itself, so this is what outlier
probabilities and leave-one-out predictions are computed from, under every rule that has sites. Of a row that
stands for several equal ones only the share of one is taken away.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.estimators.rows import TrainingRows
from cavity.gp import GP, Posterior
from cavity.hyper import Array
from cavity.inference.bound_rule import without_own_site
from cavity.latent.conditioned import Conditioned
from cavity.learning import INTERRUPTED, Learned, Objective, Run, learn, maximize
from cavity.likelihoods import Gaussian, GaussianNoise, Laplace
from cavity.likelihoods.base import Likelihood
from cavity.starts import DataScale, Starts
from cavity.starts.guesses import NOISE_SHARE, Reader

STAGE_MARGIN = 10.0
"""Nats by which the evidence of another stage must exceed that of plain EP."""

PLAIN = "ep"

SAME_END = 1e-2
"""Distance of hyperparameters, in log units, below which two runs ended at the same place."""

MAD_TO_SD = 1.0 / 0.6744897501960817
"""Standard deviation of a normal density per median absolute deviation."""

STAGE_SHARE = 0.25
"""Share of the time allowed that the solution of an easier model may take."""

TRIAL_STEPS = 6
"""Iterations after which two starts are compared."""

LEAST_NOISE = 1e-4
"""Smallest noise to start from, in standard deviations of y."""


def is_robust(likelihood: Likelihood) -> bool:
    """Whether y is f plus noise that is not Gaussian."""
    return likelihood.n_latent == 1 and not likelihood.discrete and not isinstance(likelihood, GaussianNoise)


# --- starts -------------------------------------------------------------------------------------------------


def first_stages(model: GP, rows: TrainingRows, *, n_restarts: int, **how: Any) -> list[tuple[str, Array]]:
    """A start of a robust model from the solution of an easier one; none where that cannot be found.

    Easier is Gaussian noise, and for tails heavier than exponential Laplace noise, itself started there; the more
    promising of the two. `how` they are learned: see `_stage_options`.
    """
    options = _stage_options(rows, **how)
    starts: list[tuple[str, Array]] = []
    try:
        found = _gaussian(model, rows, n_restarts=min(n_restarts, 1), **options)
        starts = [("gaussian", carried_over(found, model, rows.X, rows.y, rows.weight))]
        if not model.likelihood.log_concave:
            laplace = GP(model.kernel, Laplace(), model.mean, "ep").bind(rows.X.shape[1])
            also = [("gaussian", carried_over(found, laplace, rows.X, rows.y, rows.weight))]
            found = _solution(laplace, rows, n_restarts=0, also=also, **options)
            starts.append(("laplace", carried_over(found, model, rows.X, rows.y, rows.weight)))
    except np.linalg.LinAlgError:
        pass
    return starts if len(starts) < 2 else [_promising(starts, model, rows)]


def from_gaussian(model: GP, rows: TrainingRows, *, n_restarts: int, **how: Any) -> GP:
    """The robust model at the solution for Gaussian noise, which has all the restarts."""
    found = _gaussian(model, rows, n_restarts=n_restarts, **_stage_options(rows, **how))
    return model.replace(carried_over(found, model, rows.X, rows.y, rows.weight))


def _stage_options(
    rows: TrainingRows,
    *,
    given: Collection[str],
    data_driven: bool,
    rng: np.random.Generator,
    n_jobs: int | None,
    max_time: float | None,
) -> dict[str, Any]:
    """How an easier model is learned."""
    return {
        "sample_weight": rows.weight,
        "given": [part for part in given if part != "likelihood"],
        "data_driven": data_driven,
        "random_state": rng,
        "n_jobs": n_jobs,
        "max_time": None if max_time is None else STAGE_SHARE * max_time,
    }


def _gaussian(model: GP, rows: TrainingRows, **options: Any) -> GP:
    """The same kernel and mean with Gaussian noise, learned."""
    return _solution(GP(model.kernel, Gaussian(), model.mean, "exact").bind(rows.X.shape[1]), rows, **options)


def _promising(starts: list[tuple[str, Array]], model: GP, rows: TrainingRows) -> tuple[str, Array]:
    """Of several starts the one that leads to the highest evidence within a few steps."""
    goal = Objective(model, rows.X, rows.y, sample_weight=rows.weight)
    all_ = Starts.of(model, rows.X, rows.y, rows.weight)
    values = [maximize(goal, theta, all_.box, all_.scale, kind, TRIAL_STEPS).value for kind, theta in starts]
    return starts[int(np.argmax(values))]


def _solution(model: GP, rows: TrainingRows, **options: Any) -> GP:
    learned = learn(model, rows.X, rows.y, **options)
    if learned.stopped == INTERRUPTED:  # the robust model has nothing to keep yet
        raise KeyboardInterrupt
    return learned.model


def carried_over(found: GP, model: GP, X: Array, y: Array, weight: Array | None = None) -> Array:
    """Theta with the values of another model's kernel and mean, and the noise level of the bulk of its residuals."""
    loo = found.leave_one_out(X, y, weight)
    scale = DataScale.of(X, y, None, weight)
    noise = max(MAD_TO_SD * float(np.median(np.abs(y - loo.mean))), LEAST_NOISE * scale.y_sd)
    guesses = Reader(replace(scale, y_sd=noise / np.sqrt(NOISE_SHARE))).part(model.likelihood)
    kernel_and_mean = found.flat[: -found.likelihood.flat.size]
    flat = np.concatenate([kernel_and_mean, [g.center for g in guesses]])
    layout = model.layout
    return layout.to_unconstrained(flat[layout.lead])


# --- choice among runs --------------------------------------------------------------------------------------


def choose(model: GP, learned: Learned, rows: TrainingRows) -> tuple[Learned, Posterior]:
    """The run to keep and its posterior; runs that were looked at say their stage in `message`."""

    def posterior_of(run: Run) -> Posterior:
        return model.replace(run.theta).condition(rows.X, rows.y, rows.weight, run.memory)

    if model.inference.name != "ep" or model.likelihood.log_concave or not learned.runs:
        if learned.winner is not None:
            return learned, posterior_of(learned.winner)
        return learned, learned.model.condition(rows.X, rows.y, rows.weight)
    runs = list(learned.runs)
    order = sorted((i for i, r in enumerate(runs) if np.isfinite(r.value)), key=lambda i: -runs[i].value)
    kept: tuple[int, Posterior] | None = None
    seen: list[Array] = []
    for i in order:
        run = runs[i]
        if kept is not None and run.value < runs[kept[0]].value - STAGE_MARGIN:
            break
        if any(np.max(np.abs(run.theta - other)) < SAME_END for other in seen):
            continue
        seen.append(run.theta)
        posterior = posterior_of(run)
        runs[i] = replace(run, message=f"{run.message}; stage {posterior.status.stage}")
        plain = posterior.status.stage == PLAIN
        if kept is None or plain:
            kept = (i, posterior)
        if plain:
            break
    assert kept is not None  # learning raises where no run is usable
    i, posterior = kept
    return Learned(posterior.model, runs[i].value, tuple(runs), learned.stopped), posterior


# --- without a row ------------------------------------------------------------------------------------------


def cavities(posterior: Posterior, rows: TrainingRows) -> tuple[Array, Array]:
    """Mean and variance of f at each row that was learned from, given the other rows; shape (n_used,) each.

    Needs sites: every rule for one latent function but exact inference has them.
    """
    sites = posterior.approximation.sites
    assert sites is not None
    index = rows.index[rows.index >= 0]
    q = Conditioned(posterior.model.prior(rows.X), sites)
    mean, var = (part[index] for part in without_own_site(q))
    share = _shares(rows)
    some = share < 1.0
    if some.any():
        m, v, at = q.mean[index[some]], q.var[index[some]], index[some]
        tau, nu, s = sites.precision[at], sites.shift[at], share[some]
        left = np.where(1.0 - s * tau * v > 0, 1.0 - s * tau * v, np.nan)
        var[some] = v / left
        mean[some] = m - var[some] * s * (nu - tau * m)
    for j in np.flatnonzero(np.isnan(var)):
        mean[j], var[j] = _refit_without(posterior, rows, int(index[j]), float(share[j]))
    return mean, var


def _shares(rows: TrainingRows) -> Array:
    """Share of each used row in the row of the model that stands for it."""
    used = rows.index >= 0
    if rows.own is None:
        return np.ones(int(used.sum()))
    total = np.ones(len(rows.X)) if rows.weight is None else rows.weight
    share = rows.own[used] / total[rows.index[used]]
    return np.where(share > 1.0 - 1e-12, 1.0, share)


def _refit_without(posterior: Posterior, rows: TrainingRows, i: int, share: float) -> tuple[float, float]:
    """Mean and variance of f_i from the other rows alone, where taking a site away leaves nothing proper."""
    model = posterior.model
    weight = np.ones(len(rows.X)) if rows.weight is None else rows.weight.copy()
    weight[i] *= 1.0 - share
    keep = np.flatnonzero(weight > 0)
    if len(keep) == 0:
        x = rows.X[i : i + 1]
        return float(model.mean(x)[0]), float(model.kernel.diag(x)[0])
    others = model.with_likelihood(model.likelihood.rows(keep))
    left = others.condition(rows.X[keep], rows.y[keep], None if rows.weight is None else weight[keep])
    x = rows.X[i : i + 1]
    return float(left.mean(x)[0]), float(left.variance(x)[0])


def by_given_row(values: Array, rows: TrainingRows) -> Array:
    """Values of used rows in the order of the rows given, nan for rows that were left out."""
    out = np.full((len(rows.index), *values.shape[1:]), np.nan)
    out[rows.index >= 0] = values
    return out
