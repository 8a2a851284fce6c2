"""From a table to an `OutputsModel`: noise of each target, learning, scores of cells held out, the verdict in words.

Each target also has a model of its own, learned without the cells held out. It says which kind of noise the target has,
if that is left open, and whether knowing the other targets was worth it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import CoregionalizedRegressor, GPRegressor
from cavity.frames.coding import Coding
from cavity.frames.errors import TableError
from cavity.learning.choice.kinds import likelihood_for
from cavity.learning.robust_starts import is_robust
from cavity.likelihoods import BinaryLikelihood, Likelihood
from cavity.likelihoods.registry import BY_NAME
from cavity.posterior import Posterior
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import Message, Setting, Words
from cavity.runtime.sentences import counted
from cavity.tables.baselines import baselines, for_plain_models
from cavity.tables.fit import memory_estimate
from cavity.tables.fit_report import Baseline, FitReport, RegressionScores
from cavity.tables.formatting import percent, plain
from cavity.tables.outputs import Output, OutputsModel, OutputsReport
from cavity.tables.scores import scores_of
from cavity.tables.training import Options, Say, fitted
from cavity.tables.verdict import beware, how_good, quality, unfair_intervals

if TYPE_CHECKING:
    import pandas as pd

APART = "a model of its own"
"""Name of the model of a single output, among the plain ones."""

SHARE_OF_APART, SHARE_OF_ALL = 1 / 3, 1 / 2
"""Of the time that is given: for models of single outputs; of what is left then, for the model of all cells."""

CLOSE = 0.3
"""Correlation from which outputs are said to go together."""

NAMED = 3
"""Pairs named in a sentence."""


def fit_outputs(
    coding: Coding,
    outputs: Sequence[Output],
    X: pd.DataFrame,
    Y: pd.DataFrame,
    options: Options,
    rank: int = 1,
    say: Say = lambda _: None,
) -> OutputsModel:
    """Learn a model of several targets.

    Parameters
    ----------
    coding, outputs, X, Y : as `prepare_outputs` gives them
    options : Options
        Of these kernel, likelihood (one for all, or as in "price=student-t,visits=poisson"), inference, mean,
        test_size, n_restarts, seed, max_time.
    rank : int
        Number of functions that outputs share.
    say : callable
        Told, in sentences, what is being done.
    """
    options.check()
    if options.samples:
        raise TableError(
            "is not for several targets", parameter="inference", value="mcmc", remedy="use another"
        )
    wanted = noise_names(options.likelihood, [output.name for output in outputs])
    values = Y.to_numpy(dtype=float)
    _check(wanted, values)
    by_row = not np.isnan(values).any()
    _check_size(values, by_row and set(wanted.values()) <= {"auto", "gaussian"})
    test = _held_out(values, by_row, options.test_size, np.random.default_rng(options.seed))
    train, limit, started = np.where(test, np.nan, values), Deadline(options.max_time), time.monotonic()
    kernel = coding.kernel if options.kernel is None else options.kernel
    part = limit.part(SHARE_OF_APART / len(outputs))
    alone = {
        name: _alone(X, y, name, wanted[name], kernel, options, part, say)
        for name, y in zip(wanted, train.T)
        if test.any() or wanted[name] == "auto"
    }
    chosen = [
        replace(o, noise=_kind(alone[o.name].likelihood_) if wanted[o.name] == "auto" else wanted[o.name])
        for o in outputs
    ]
    estimator = CoregionalizedRegressor(
        kernel,
        rank=rank,
        likelihood=[likelihood_for(o.noise, y[~np.isnan(y)]) for o, y in zip(chosen, values.T)],
        mean="constant" if options.mean is None else options.mean,
        inference=options.inference,
        n_restarts=1 if options.n_restarts is None else options.n_restarts,
        random_state=options.seed,
    )
    say(f"Learning {len(chosen)} targets from {counted(int((~np.isnan(values)).sum()), 'cell')} ...")
    share = SHARE_OF_ALL if test.any() else 1.0
    found = fitted(estimator, X, Y, Deadline(limit.part(share)))
    seconds = time.monotonic() - started
    each = [
        FitReport(
            int((~np.isnan(y)).sum()), len(Y), robust=is_robust(likelihood_for(o.noise, y[~np.isnan(y)]))
        )
        for o, y in zip(chosen, values.T)
    ]
    if test.any() and not found.interrupted:
        say(f"Learning without the {counted(int(test.sum()), 'cell')} held out, for the scores ...")
        each = _scored(each, coding, estimator, X, Y, test, by_row, alone, limit)
    warnings = (*found.warnings, *_unfinished(found.model))
    report = OutputsReport(len(Y), by_row, tuple(each), warnings, seconds, found.interrupted)
    return OutputsModel(coding, tuple(chosen), found.model, report)


def noise_names(text: str, names: Sequence[str]) -> dict[str, str]:
    """The kind of noise of each target, from one name for all or from "a=student-t,b=poisson"; others are open.

    >>> noise_names("price=student-t", ["price", "visits"])
    {'price': 'student-t', 'visits': 'auto'}
    """
    if "=" not in text:
        return dict.fromkeys(names, text)
    found = dict.fromkeys(names, "auto")
    for part in text.split(","):
        name, _, kind = part.rpartition("=")
        if name.strip() not in found:
            raise TableError(
                f"names {name.strip()!r}, which is no target; write it as {names[0]}=student-t,{names[-1]}=gaussian",
                parameter="likelihood",
                value=text,
            )
        found[name.strip()] = kind.strip()
    return found


def _check(wanted: Mapping[str, str], values: NDArray[np.float64]) -> None:
    """Refuse noise that a target cannot have, before anything is learned."""
    for (name, kind), y in zip(wanted.items(), values.T):
        if kind == "auto":
            continue
        noise = likelihood_for(kind, y[~np.isnan(y)])
        if isinstance(noise, BinaryLikelihood) or noise.n_latent > 1 or noise.noise is not noise:
            known = ("gaussian", "student-t", "laplace", "mixture", "poisson", "negative-binomial")
            raise TableError(
                f"{kind} is not for one of several targets ({name!r})",
                remedy=("use ", Setting("likelihood", known)),
            )
        noise.check(y[~np.isnan(y)])


def _check_size(values: NDArray[np.float64], small: bool) -> None:
    """Refuse what cannot be held in memory."""
    size = len(values) if small else int((~np.isnan(values)).sum())
    needed, free = memory_estimate(size)
    if needed > free:
        raise TableError(
            f"several targets with {size} cells need about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are "
            "free; take fewer rows, or fit each target by itself"
        )


def _held_out(
    values: NDArray[np.float64], by_row: bool, share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Cells for the scores: whole rows of a table without gaps, else some of each target; one at least is kept."""
    test = np.zeros(values.shape, dtype=bool)
    if share == 0.0:
        return test
    if by_row:
        rows = rng.choice(len(values), min(round(share * len(values)), len(values) - 2), replace=False)
        test[rows] = True
    for o, y in enumerate(values.T if not by_row else ()):
        seen = np.flatnonzero(~np.isnan(y))
        test[rng.choice(seen, min(round(share * len(seen)), len(seen) - 2), replace=False), o] = True
    if not test.any():
        raise TableError(
            (Setting("test_size", share), f" of {len(values)} rows is less than one row"),
            remedy="use a larger share, or 0",
        )
    return test


def _alone(
    X: pd.DataFrame,
    y: NDArray[np.float64],
    name: str,
    noise: str,
    kernel: Any,
    options: Options,
    seconds: float | None,
    say: Say,
) -> Any:
    """A model of one target."""
    say(f"Learning {name!r} by itself ...")
    there = ~np.isnan(y)
    chosen = "auto" if kernel is None and noise == "auto" else kernel
    model = GPRegressor(chosen, likelihood=noise, n_restarts=1, random_state=options.seed)
    return fitted(model, X.loc[there], y[there], Deadline(seconds)).model


def _kind(noise: Likelihood) -> str:
    """The kind of noise in a model of several outputs; normal if that has no other kind that suits."""
    name = next((name for name, kind in BY_NAME.items() if type(noise) is kind), "gaussian")
    return name if noise.n_latent == 1 and noise.noise is noise else "gaussian"


def _scored(
    each: list[FitReport],
    coding: Coding,
    estimator: CoregionalizedRegressor,
    X: pd.DataFrame,
    Y: pd.DataFrame,
    test: NDArray[np.bool_],
    by_row: bool,
    alone: Mapping[str, Any],
    limit: Deadline,
) -> list[FitReport]:
    """The reports with scores, beside plain models and beside a model of each target alone."""
    from sklearn.base import clone

    rows = np.flatnonzero(~test.any(axis=1)) if by_row else np.arange(len(Y))
    found = fitted(clone(estimator), X.iloc[rows], Y.mask(test).iloc[rows], Deadline(limit.left)).model
    out, plain_inputs = [], for_plain_models(coding, X)
    for o, report in enumerate(each):
        y, new = Y.to_numpy(dtype=float)[:, o], test[:, o]
        known = ~np.isnan(y) & ~new
        name = str(Y.columns[o])
        prediction = found.predict_dist(X.loc[new])[name]
        apart = scores_of(alone[name].predict_dist(X.loc[new]), y[new], y[known])
        rivals = baselines("regression", plain_inputs, y, np.flatnonzero(known), np.flatnonzero(new))
        own = Baseline(APART, apart.rmse, apart.nlp, 0.0, apart.median_error)
        out.append(
            replace(
                report,
                scores=scores_of(prediction, y[new], y[known]),
                baselines=(*rivals, own),
                held_out_rows=int(new.sum()),
            )
        )
    return out


def _unfinished(model: CoregionalizedRegressor) -> list[Message]:
    posterior = model.posterior_
    if not isinstance(posterior, Posterior) or posterior.status.converged:
        return []
    told = posterior.status.message or "it stopped early"
    return [
        Message((f"inference has not converged ({told})",), remedy=("try another ", Setting("inference")))
    ]


def score_rows(model: OutputsModel) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Head and rows of a table: noise, cells, scores of each target beside those of a model of its own."""
    head = ("target", "noise", "cells", "RMSE", "apart", "MSLL", "apart", "in 90 %")
    rows: list[tuple[Any, ...]] = []
    for output, one in zip(model.outputs, model.report.each):
        scores = one.scores
        if not isinstance(scores, RegressionScores):
            rows.append((output.name, output.noise, one.rows, *[float("nan")] * 4, ""))
            continue
        apart = next(rival for rival in one.baselines if rival.name == APART)
        loss = float("nan") if apart.nlp is None else apart.nlp - scores.guess_nlp
        inside = percent(dict(scores.coverage)[0.9])
        rows.append(
            (output.name, output.noise, one.rows, scores.rmse, apart.error, scores.msll, loss, inside)
        )
    return head, rows


# --- the verdict --------------------------------------------------------------------------------------------


def outputs_verdict(model: OutputsModel, words: Words = str) -> list[tuple[str, str]]:
    """Pairs of a heading and a sentence: how good each target is, what belongs together, what to beware of."""
    report = model.report
    lines = [(f"How good, {name}", how_good(quality(one))) for name, one in zip(model.names, report.each)]
    lines.append(("Together", _together(model)))
    cautions = list(report.warnings)
    for name, one in zip(model.names, report.each):
        cautions += [
            Message((f"{name}: ", *caution.clause), remedy=caution.remedy)
            for caution in unfair_intervals(one)
        ]
    lines.append(("Beware", beware(cautions, words)))
    return lines


def _together(model: OutputsModel) -> str:
    """Which targets go together, and whether that was of use."""
    C, names = model.estimator.correlations_, model.names
    pairs = sorted(
        ((C[a, b], names[a], names[b]) for a in range(len(C)) for b in range(a)), key=lambda one: -abs(one[0])
    )
    close = [f"{b} and {a} ({c:+.2f})" for c, a, b in pairs if abs(c) >= CLOSE][:NAMED]
    said = f"correlated are {', '.join(close)}" if close else "no two targets are much correlated"
    gains = {
        name: rival.nlp - one.scores.nlp
        for name, one in zip(names, model.report.each)
        if one.scores is not None
        for rival in one.baselines
        if rival.name == APART and rival.nlp is not None
    }
    if not gains:
        return f"{said}; whether that helps is unknown, because nothing was held out."
    gain = float(np.mean(list(gains.values())))
    margin = max(0.05, float(np.mean([one.held_out_rows for one in model.report.each])) ** -0.5)
    figure = f"{plain(abs(gain), 2)} nats a cell"
    if gain > margin:
        best = max(gains, key=lambda name: gains[name])
        return f"{said}; held-out cells are predicted better than by models apart ({figure}), most of all {best}."
    if gain < -margin:
        return f"{said}; models apart predict held-out cells better ({figure}): fit each target by itself."
    return f"{said}; models apart predict held-out cells about as well."
