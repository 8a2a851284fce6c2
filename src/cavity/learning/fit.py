"""Learning from start to end: first stages, the search over starts, the choice of the run, the posterior.

`learn` is what `GP.learn` and the estimators call. The optimizer runs from several starts
(`cavity.learning.multistart`); a representation that depends on length scales is learned in rounds
(`cavity.learning.rounds`). With robust noise some of these are the solutions of easier models, and if there are
many rows some of them tell the starts apart (`cavity.learning.robust_search`). Among the ends of the runs the one to
keep is chosen by evidence and by the stage at which inference converged (`cavity.learning.run_choice`). A rule that
samples then draws its chains, which begin where the runs ended.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from numbers import Integral
from typing import Any, cast

import numpy as np

from cavity.gp import GP
from cavity.learning.multistart import PARTS, SearchOptions, SearchResult, multistart
from cavity.learning.neighbor_start import neighbor_start
from cavity.learning.objective import OBJECTIVES
from cavity.learning.robust_search import robust_search
from cavity.learning.robust_starts import is_robust
from cavity.learning.rounds import learn_in_rounds
from cavity.learning.run_choice import Learned, choose
from cavity.learning.starts import Starts
from cavity.learning.stretch_search import stretch_search, wants_stretches
from cavity.learning.training_rows import TrainingRows
from cavity.numerics.arrays import Array
from cavity.numerics.time_estimate import require_time
from cavity.runtime.checks import is_number
from cavity.runtime.deadlines import Deadline

APPROXIMATE_ENOUGH = 1e-5
"""A run of an approximate representation ends if a step gains less than this part of the objective: hundreds of
inducing inputs can be moved for ever, and what that gains is far less than what the representation loses."""

NEARBY = 1e-7
"""The same of robust noise from values that were learned before: of a thousand nats a ten-thousandth. The ten times
smaller part with which a search ends took up to three times the evaluations, for a hundredth of a nat in all."""

LEARNING_SHARE = 0.25
"""Share of the time allowed that learning may take if chains follow."""


def learn(
    model: GP,
    X: Array,
    y: Array,
    sample_weight: Array | None = None,
    *,
    objective: str | None = "evidence",
    n_restarts: int = 3,
    given: Collection[str] = PARTS,
    data_driven: bool = True,
    warm: bool = False,
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    max_time: float | None = None,
    enough: float | None = None,
    progress: bool | None = None,
    warn: bool = True,
) -> Learned:
    """Learn the free parameters of a model, and condition it on the data.

    Parameters
    ----------
    model : GP
        Bound to the columns of X.
    X, y : arrays (n, D), (n,) or (n, T)
    sample_weight : array (n,), optional
        Positive powers of the likelihood factors.
    objective : {"evidence", "loo", "gcv"} or None
        What is maximized, plus the log prior of parameters that have one. None keeps all values.
    n_restarts : int
        Runs beside the first one.
    given : collection of str
        Parts of the model, of "kernel", "mean" and "likelihood", whose own values are worth a run because a user chose
        them; the others start from the data.
    data_driven : bool
        Whether the first start is read off the data; otherwise it is the model's own values, and without restarts there
        is no other.
    warm : bool
        Whether the model's values were learned before: the first start is there, and no easier model is learned.
    max_time : float, optional
        Seconds after which the best so far is returned. If chains follow, learning has a quarter of them.
    enough : float, optional
        Part of the objective: runs end if a step gains less.
    warn : bool
        Whether chains that are too short warn.

    Returns
    -------
    Learned
        Also after Ctrl-C or when time is up: the best of what was reached.

    Raises
    ------
    TooLongError
        If it would take more than a day, and no `max_time` was given.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.learning import learn
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> found = learn(GP(1.0 * SE(1.0), Gaussian(0.1)).bind(1), X, y, n_restarts=1, rng=0)
    >>> 1.0 < found.model.kernel.get("se.lengthscale") < 3.0
    True
    """
    _check(objective, n_restarts, max_time)
    rng, time = np.random.default_rng(rng), Deadline(max_time)
    expected = float("nan")
    if objective is not None and model.representation.name == "dense":
        expected = require_time(len(X), model.inference.name, n_restarts, max_time)
    if model.inference.samples:
        rule = cast(Any, model.inference).for_fit(rng, learns=objective is not None, warn=warn)
        model = model.with_inference(rule)
    if not model.representation.definite:
        guess = data_driven and not warm and objective is not None
        typical = model.replace(Starts.of(model, X, y, sample_weight).first) if guess else model
        model = model.for_rows(X, typical.kernel)
    rows = TrainingRows(X, y, sample_weight, np.arange(len(X)))
    if objective is None:
        return choose(model, SearchResult(model, np.nan, ()), rows, time.left)
    limit = Deadline(time.part(LEARNING_SHARE) if model.inference.samples else time.left)
    how = SearchOptions(n_restarts, given, data_driven and not warm, n_jobs, progress, expected=expected)
    if enough is not None:
        how = replace(how, enough=enough)
    elif warm and is_robust(
        model.likelihood
    ):  # near an optimum already: the last digits cost most evaluations
        how = replace(how, enough=NEARBY)
    elif model.representation.approximates:
        how = replace(how, enough=APPROXIMATE_ENOUGH)
    places = Starts.of(model, X, y, sample_weight)
    one_start = n_restarts == 0 and not how.data_driven
    robust, search = is_robust(model.likelihood), not (warm or one_start) and model.theta.size > 0
    near = None
    if (
        search
        and objective == "evidence"
        and not (model.representation.linear_cost or model.inference.samples)
    ):
        near = neighbor_start(model, rows, places, limit)
    also = [] if near is None else [near]
    if model.representation.follows and model.theta.size > 0:
        found = learn_in_rounds(
            model, rows, places, how, objective=objective, also=also, rng=rng, limit=limit
        )
        return choose(found.model, found, rows, time.left)
    warped = model.likelihood.noise is not model.likelihood
    if search and not warped and wants_stretches(model, X) and not model.inference.samples:
        found = stretch_search(model, rows, how, robust=robust, objective=objective, rng=rng, limit=limit)
    elif robust and search and not warped:
        found = robust_search(model, rows, places, how, objective=objective, also=also, rng=rng, limit=limit)
    else:
        found = multistart(
            model, rows, how, objective=objective, also=also, starts=places, rng=rng, max_time=limit.left
        )
    return choose(model, found, rows, time.left)


def _check(objective: str | None, n_restarts: int, max_time: float | None) -> None:
    """Refuse options that would otherwise show up as an error in the middle of something else."""
    if objective is not None and objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(map(repr, OBJECTIVES))}, got {objective!r}")
    if not is_number(n_restarts, Integral) or n_restarts < 0:
        raise ValueError(f"n_restarts must be an integer >= 0, got {n_restarts!r}")
    if max_time is not None and not max_time >= 0:
        raise ValueError(f"max_time must be a number of seconds >= 0, got {max_time!r}")
