"""The regression methods that the robust studies compare, by the names of the thesis.

| name | noise | inference |
|---|---|---|
| OLS, SVR | - | least squares; support vector regression with cross-validated settings |
| snMLII, snMCMC | one normal | exact, evidence maximized; hyperparameters sampled |
| mnEP, mnLAP, mnMCMC | two normals | EP, Laplace's method, Gibbs sampling |
| tVar, tEP, tMCMC | Student-t | scale-mixture variational EM, EP (new), sampling |
| lapEP | Laplace | EP |
| RRP | one normal, some points with more | relevance pursuit, a live competitor in an environment of its own |

A name that ends in "+prior", such as lapEP+prior, is the same method with a prior on length scales (`length_prior`):
hyperparameters then maximize evidence times prior. Before that, ",nu=4" stands for Student-t noise whose degrees of
freedom are four and not learned, the usual choice of robust statistics (Lange, Little and Taylor, 1989). ", one start"
is evidence maximization from the solution for Gaussian noise alone, where the plain method takes the best of several
starts: the higher evidence does not always predict better. ", stacked" is the average of the two solutions from there,
with and without the prior on length scales, with weights that predict left-out training rows best. Plain evidence
maximization is always shown beside these.

`fit` returns what all studies need: the predictive distributions of f and y at the test inputs, the log evidence if
there is one, and outlier probabilities if the method has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cavity.estimators import GPRegressor, StackedRegressor
from cavity.gp import GP
from cavity.kernels import SE, Kernel, ard
from cavity.learning.robust_starts import Solution, bulk_scale, carried_over
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import StudentT
from cavity.likelihoods.registry import as_likelihood
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param
from cavity.parameters.priors import LogNormal
from cavity.prediction import GaussianPrediction, Prediction
from cavity.sampling.mcmc import MCMC
from cavity.studies.folds import fitted_quietly
from cavity.studies.summary import cpu_per_fit

GP_METHODS = {
    "snMLII": ("gaussian", "exact"),
    "snMCMC": ("gaussian", "mcmc"),
    "mnEP": ("mixture", "ep"),
    "mnLAP": ("mixture", "laplace"),
    "mnMCMC": ("mixture", "mcmc"),
    "tVar": ("student-t", "scale-mixture-em"),
    "tEP": ("student-t", "ep"),
    "tMCMC": ("student-t", "mcmc"),
    "lapEP": ("laplace", "ep"),
}
CHAINS = {
    "snMCMC": MCMC(n_draws=400, warmup=200, extend_to=51200, progress=False),
    "tMCMC": MCMC(n_draws=400, warmup=200, extend_to=3200, progress=False),
    "mnMCMC": MCMC(n_draws=400, warmup=200, extend_to=25600, progress=False),
}
"""Four chains, as long as their checks ask for, up to a limit: chains divided between modes would never pass."""

DETERMINISTIC = ("snMLII", "tVar", "lapEP", "tEP", "mnEP", "mnLAP")
SAMPLED = ("snMCMC", "tMCMC", "mnMCMC")
ROBUST = ("tVar", "lapEP", "tEP", "mnEP")
COMPETITOR = "RRP"
WORKER = Path(__file__).parents[3] / "benchmarks" / "peer_relevance_pursuit.py"
"""The script that runs it, in a checkout of the sources."""

PRIOR = "+prior"
"""What the names of methods with a prior on length scales end in."""

FOUR = ",nu=4"
"""What stands in the names of methods with four degrees of freedom."""

ONE_START = ", one start"
"""What the names of methods end in that start at the solution for Gaussian noise alone."""

STACKED = ", stacked"
"""What the names of averages of two solutions end in."""

GAUSSIAN_RESTARTS = 3
"""Restarts of the solution for Gaussian noise if that is the one start."""

LOG_LENGTH_SD = 0.5
"""Standard deviation of that prior, on ln l."""


@dataclass(frozen=True)
class Fit:
    """What a method says about the test inputs. `of_f` is None if a method predicts points only."""

    mean: Array
    of_f: Prediction | None = None
    of_y: Prediction | None = None
    log_evidence: float = float("nan")
    outlier_probability: Array | None = None
    extras: dict[str, float] | None = None
    note: str = ""


def fit(method: str, X: Array, y: Array, X_test: Array, *, seed: int, restarts: int = 3) -> Fit:
    """Fit one method and predict at the test inputs."""
    if method == "OLS":
        return Fit(_least_squares(X, y, X_test))
    if method == "SVR":
        return _support_vectors(X, y, X_test, seed)
    if method == COMPETITOR:
        return _relevance_pursuit(X, y, X_test, seed)
    if method.endswith(STACKED):
        return _average(method.removesuffix(STACKED), X, y, X_test, seed)
    return _process(method, X, y, X_test, seed, restarts)


def measures(fitted: Fit, target: Array, *, noisy: bool) -> dict[str, float]:
    """RMSE, MAE and mean negative log predictive density; of y if the test targets are noisy, else of f."""
    error = fitted.mean - target
    out = {"RMSE": float(np.sqrt(np.mean(error**2))), "MAE": float(np.mean(np.abs(error)))}
    if (density := log_density(fitted, target, noisy=noisy)) is not None:
        out["NLP"] = float(-np.mean(density))
    if np.isfinite(fitted.log_evidence):
        out["log evidence"] = fitted.log_evidence
    return out | (fitted.extras or {})


def log_density(fitted: Fit, target: Array, *, noisy: bool) -> Array | None:
    """Of each test target, y if these are noisy and else f; None if a method predicts points only."""
    prediction = fitted.of_y if noisy else fitted.of_f
    return None if prediction is None else np.asarray(prediction.log_prob(target))


def with_prior(methods: Iterable[str]) -> tuple[str, ...]:
    """The names of these methods with a prior on length scales."""
    return tuple(method + PRIOR for method in methods)


def plain(method: str) -> str:
    """The name of the method without prior, with all noise parameters learned, from several starts."""
    return method.removesuffix(STACKED).removesuffix(ONE_START).removesuffix(PRIOR).removesuffix(FOUR)


def length_prior(X: Array) -> LogNormal:
    """Log-normal, with its mode over ln l at l = (sum of the variances of the inputs)^(1/2).

    That is the root of the number of inputs if they are standardized. MAP estimates maximize the density over l, not
    over ln l; with mu raised by sigma^2 the two differ by a constant: ln p(l) = -(ln l - ln m)^2 / (2 sigma^2) + const.
    """
    mode = np.sqrt(np.sum(np.var(X, axis=0)))
    return LogNormal(np.log(mode) + LOG_LENGTH_SD**2, LOG_LENGTH_SD)


def default_kernel(X: Array, prior: LogNormal | None = None) -> Kernel:
    """Squared exponential with a length scale for each input, as in the thesis."""
    start = Param(1.0) if prior is None else Param(np.exp(prior.mu), prior=prior)
    return 1.0 * SE(ard(start)) if X.shape[1] > 1 else 1.0 * SE(start)


def regressor(method: str, X: Array, seed: int, restarts: int = 3) -> GPRegressor:
    """The estimator of a method, for inputs like these."""
    likelihood, inference = GP_METHODS[plain(method)]
    return GPRegressor(
        default_kernel(X, length_prior(X) if PRIOR in method else None),
        likelihood=StudentT(df=Param(4.0, fixed=True)) if FOUR in method else likelihood,
        inference=CHAINS.get(method, inference),
        n_restarts=restarts,
        random_state=seed,
    )


def from_gaussian(method: str, X: Array, y: Array, seed: int) -> GPRegressor:
    """The estimator of a method with one start, the solution for Gaussian noise.

    That is: its kernel and mean, with the noise level of the bulk of its leave-one-out residuals.
    """
    gaussian = regressor("snMLII" + (PRIOR if PRIOR in method else ""), X, seed, GAUSSIAN_RESTARTS)
    if plain(method) == "snMLII":
        return gaussian
    gaussian.fit(X, y)
    residual = float(np.median(np.abs(y - gaussian.leave_one_out().mean)))
    model = regressor(method, X, seed)
    noise = as_likelihood(model.likelihood)
    robust = GP(gaussian.kernel_, noise, gaussian.mean_).bind(X.shape[1])
    rows = TrainingRows(X, y, None, np.arange(len(X)))
    start = robust.replace(
        carried_over(Solution(gaussian.model_, residual), robust, bulk_scale(robust, rows))
    )
    return model.set_params(
        kernel=start.kernel,
        mean=start.mean,
        likelihood=start.likelihood,
        n_restarts=0,
        standardize=False,
    )


def _average(method: str, X: Array, y: Array, X_test: Array, seed: int) -> Fit:
    """Two solutions from that for Gaussian noise, with and without a prior on length scales, stacked."""
    pair = [("plain", method + ONE_START), ("prior", method + PRIOR + ONE_START)]
    model = StackedRegressor([(name, from_gaussian(form, X, y, seed)) for name, form in pair])
    note = fitted_quietly(model, X, y)
    of_f, of_y = model.predict_latent(X_test), model.predict_dist(X_test)
    weights = {f"weight: {name}": float(w) for (name, _), w in zip(pair, model.weights_)}
    stages = ", ".join(member.posterior_.status.label for member in model.estimators_)
    robust = GP_METHODS[method][0] != "gaussian"
    return Fit(
        of_f.mean,
        of_f,
        of_y,
        outlier_probability=model.outlier_probability_ if robust else None,
        extras=weights,
        note=f"{stages}. {note}".strip(),
    )


def _process(method: str, X: Array, y: Array, X_test: Array, seed: int, restarts: int) -> Fit:
    likelihood, inference = GP_METHODS[plain(method)]
    one_start = method.endswith(ONE_START)
    model = from_gaussian(method, X, y, seed) if one_start else regressor(method, X, seed, restarts)
    note = fitted_quietly(model, X, y)
    posterior: Any = model.posterior_
    chains = {}
    if inference == "mcmc":
        table = posterior.diagnostics()
        chains = {
            "worst R-hat": float(table["rhat"].max()),
            "smallest ESS": float(table[["ess_bulk", "ess_tail"]].min(axis=None)),
            "chains converged": float(posterior.status.converged),
            "draws": float(posterior.trace.draws),
        }
    of_f, of_y = model.predict_latent(X_test), model.predict_dist(X_test)
    outliers = model.outlier_probability_ if likelihood != "gaussian" else None
    noise = {
        f"noise: {name}": float(value)
        for name, value in zip(model.likelihood_.all_names, model.likelihood_.flat)
    }
    evidence = float(model.log_evidence_) if inference != "mcmc" else float("nan")
    stage = posterior.status.label
    return Fit(of_f.mean, of_f, of_y, evidence, outliers, noise | chains, f"{stage}. {note}".strip())


def _least_squares(X: Array, y: Array, X_test: Array) -> Array:
    weights = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]
    return np.asarray(np.column_stack([np.ones(len(X_test)), X_test]) @ weights)


def _support_vectors(X: Array, y: Array, X_test: Array, seed: int) -> Fit:
    """Epsilon-insensitive support vector regression; cost, width and tube by 5-fold cross-validation."""
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    grid = {
        "svr__C": [1.0, 10.0, 100.0],
        "svr__gamma": [0.1 / X.shape[1], 0.5 / X.shape[1], 2.0 / X.shape[1]],
        "svr__epsilon": [0.01 * np.std(y), 0.1 * np.std(y), 0.3 * np.std(y)],
    }
    folds = KFold(5, shuffle=True, random_state=seed)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVR()), grid, cv=folds, scoring="neg_mean_absolute_error"
    )
    return Fit(np.asarray(search.fit(X, y).predict(X_test), dtype=float))


def competitor() -> tuple[str, ...]:
    """The competitor's name, if the environment that it needs is known."""
    return (COMPETITOR,) if os.environ.get("CAVITY_PEERS") and WORKER.exists() else ()


def remarks(frame: pd.DataFrame) -> list[str]:
    """What every study of these methods says of its cells: time, the competitor's beside ours, health of chains."""
    out = [cpu_per_fit(frame), _beside_competitor(frame)]
    if "chains converged" in frame:
        for method, group in frame.dropna(subset="chains converged").groupby("method", sort=False):
            rhat, ess, draws = group["worst R-hat"], group["smallest ESS"], group["draws"]
            out.append(
                f"chains of {method}: {int(group['chains converged'].sum())} of {len(group)} fits pass all checks; "
                f"worst R-hat {rhat.max():.3f} (median {rhat.median():.3f}), smallest effective sample size "
                f"{ess.min():.0f} (median {ess.median():.0f}); "
                f"{draws.min():.0f} to {draws.max():.0f} draws of each chain"
            )
    return out


def _beside_competitor(frame: pd.DataFrame) -> str:
    """CPU time of the competitor's fit, without the start of its process, over that of ours on the same cells."""
    cells = [c for c in ("split", "fold", "set") if c in frame]
    theirs = frame[frame["method"] == COMPETITOR].set_index(cells)
    if "seconds of the fit" not in theirs or theirs["seconds of the fit"].isna().all():
        return f"{COMPETITOR} was left out: it needs BoTorch, in an environment that CAVITY_PEERS names"
    ratios = []
    for method in (m for m in ROBUST if m in set(frame["method"])):
        ours = frame[frame["method"] == method].set_index(cells)["cpu_seconds"]
        ratio = (theirs["seconds of the fit"] / ours).dropna()
        if len(ratio):
            ratios.append(f"{method} {ratio.median():.3g}")
    return f"CPU time of a fit of {COMPETITOR} over ours (median over {len(theirs)} cells): " + ", ".join(
        ratios
    )


def _relevance_pursuit(X: Array, y: Array, X_test: Array, seed: int) -> Fit:
    """The competitor, run by the interpreter that `CAVITY_PEERS` names (the project never imports it)."""
    interpreter = os.environ.get("CAVITY_PEERS", "")
    if not interpreter or not WORKER.exists():
        raise RuntimeError(
            "RRP needs the sources of cavity and BoTorch: set CAVITY_PEERS to an interpreter that has it (make bench "
            "makes one)"
        )
    with tempfile.TemporaryDirectory() as folder:
        data, found = Path(folder) / "data.npz", Path(folder) / "found.npz"
        np.savez(data, X=X, y=y, X_test=X_test)
        done = subprocess.run(
            [interpreter, str(WORKER), str(data), str(found), str(seed)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"RRP failed: {done.stderr.strip().splitlines()[-1]}")
        with np.load(found) as stored:
            result: dict[str, Any] = {name: stored[name] for name in stored.files}
    facts = json.loads(done.stdout.strip().splitlines()[-1])
    of_f = GaussianPrediction(result["mean"], result["variance"])
    of_y = GaussianPrediction(result["mean"], result["variance"] + facts["noise variance"])
    extras = {"outliers found": float(facts["support"]), "seconds of the fit": float(facts["seconds"])}
    return Fit(result["mean"], of_f, of_y, extras=extras, note="BoTorch, default settings")
