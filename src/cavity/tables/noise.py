"""Which noise a regression has, if that is left open: decided once, with all rows.

Gaussian noise is learned first, from one start. If rows are then far from what the others predict, Student-t noise is
learned too, and the higher log evidence decides. The other starts of Gaussian noise are run only if they may matter: if
no row is far, or if the evidences are close. Chains do not tell the evidence, so the noise they are run under is chosen
by optimization as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import GPRegressor
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import Message, Part, Setting, message_of
from cavity.runtime.interrupts import not_swallowed
from cavity.tables.training import FAILURES, Fitted, Say, Training, fitted

SURPRISING = 4.0
"""Standard deviations of a leave-one-out residual beyond which noise is not Gaussian: one in 16000 rows."""

MEDIAN_OF_NORMAL = 0.6745
"""Median of the absolute value of a standard normal variable."""

CLOSE = 10.0
"""Nats of log evidence by which Student-t noise must be ahead of one start of Gaussian noise to spare its others."""

ROBUST = "student-t"


def with_chosen_noise(training: Training, time: Deadline, say: Say) -> Fitted:
    """A regression with Gaussian or Student-t noise, learned by optimization, and why it has that noise."""
    rule = training.options.inference
    if rule not in ("auto", "exact", "mcmc"):
        found = fitted(training.estimator(ROBUST), training.X, training.y, time)
        why = ("Student-t noise, because Gaussian noise needs no ", Setting("inference", rule), ".")
        return replace(found, choice=Message(why))
    if rule == "exact":
        why = ("Gaussian noise, because ", Setting("inference", "exact"), " has no other.")
        exact = fitted(training.estimator("gaussian", "exact"), training.X, training.y, time)
        return replace(exact, choice=Message(why))
    estimator = training.estimator("gaussian", "auto")
    restarts = estimator.n_restarts
    gaussian = fitted(estimator.set_params(n_restarts=0), training.X, training.y, time)
    if gaussian.interrupted:
        return replace(gaussian, undone=("Student-t noise was not tried",))
    count = int(np.sum(far_rows(residuals(gaussian.model))))
    if not count:
        gaussian = _other_starts(gaussian, restarts, training, time)
        count = int(np.sum(far_rows(residuals(gaussian.model))))
        restarts = 0
    if gaussian.interrupted or not count:
        none = f"Gaussian noise: no row is more than {SURPRISING:g} sd from what the others predict."
        return replace(gaussian, choice=Message((none,)))
    if time.left == 0.0:
        return _kept(
            gaussian, count, "no time was left to try Student-t noise; give more ", Setting("max_time")
        )
    say(f"Trying Student-t noise: {_far(count)} ...")
    try:
        with not_swallowed():
            robust = fitted(training.estimator(ROBUST, "auto"), training.X, training.y, time)
    except KeyboardInterrupt:
        return replace(gaussian, interrupted=True, undone=("Student-t noise was not tried",))
    except FAILURES as error:
        reason = message_of(error)
        remedy = ("; ", *reason.remedy) if reason.remedy else ()
        return _kept(gaussian, count, "Student-t noise could not be fitted (", *reason.clause, *remedy, ")")
    if not robust.interrupted and robust.model.log_evidence_ < gaussian.model.log_evidence_ + CLOSE:
        gaussian = _other_starts(gaussian, restarts, training, time)
    return _higher_evidence(gaussian, robust, count)


def _other_starts(gaussian: Fitted, restarts: int, training: Training, time: Deadline) -> Fitted:
    """The same after further runs of the optimizer; as it is if there are none, or no time for them."""
    if not restarts or time.left == 0.0:
        return gaussian
    again = gaussian.model.set_params(n_restarts=restarts, warm_start=True)
    try:
        return fitted(again, training.X, training.y, time)
    finally:
        again.set_params(warm_start=False)


def _higher_evidence(gaussian: Fitted, robust: Fitted, count: int) -> Fitted:
    """Gaussian or Student-t noise by log evidence; `count` rows are outlying under Gaussian noise."""
    gain = robust.model.log_evidence_ - gaussian.model.log_evidence_
    better, name = (robust, "Student-t noise") if gain > 0 else (gaussian, "Gaussian noise")
    why = (
        f"{name}: {_far(count)}, and the log evidence of Student-t noise is {'higher' if gain > 0 else 'lower'} by "
        f"{abs(gain):.1f}."
    )
    return replace(better, choice=Message((why,)))


def _kept(gaussian: Fitted, count: int, *why: Part) -> Fitted:
    return replace(gaussian, choice=Message((f"Gaussian noise: {_far(count)}, but ", *why, ".")))


def _far(count: int) -> str:
    rows = "1 row is" if count == 1 else f"{count} rows are"
    return f"{rows} more than {SURPRISING:g} sd from what the others predict"


def residuals(model: GPRegressor) -> Array:
    """Distances (n,) of the rows learned from to what the others predict, in sd."""
    loo, rows = model.leave_one_out(), model.rows_
    return np.asarray(np.abs(rows.y[rows.index] - loo.mean) / np.sqrt(loo.variance))


def far_rows(residuals: Array) -> NDArray[np.bool_]:
    """Which residuals of rows that were not learned from, in sd, are surprising.

    Several outliers inflate the noise that was learned, and hide each other. Their sd is therefore also measured by
    the median of the residuals, which half of the rows would have to be wrong to move.
    """
    spread = min(float(np.median(residuals)) / MEDIAN_OF_NORMAL, 1.0)
    return np.asarray(residuals > SURPRISING * spread)
