"""A regression whose kind of model is left open: choose it, learn it from all rows, and look for outliers last.

Student-t noise is tried if rows are far from what the others predict. Leave-one-out densities decide: EP's evidence of
Student-t noise is an estimate, and that of Gaussian noise is not. If it is kept, rows may still be either regular or
wrong, with nothing between: Student-t tails then make 90 % intervals hold 95 %, and a mixture of two normal densities,
which does not, is tried from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cavity.estimators.leave_one_out import cavities, leave_one_out
from cavity.gp import GP
from cavity.learning.choice.inflation import inflated
from cavity.learning.choice.result import Candidate, Choice
from cavity.learning.choice.screening import FAILURES, far_rows, residuals, surprising_distance
from cavity.learning.choice.words import chosen_in_words
from cavity.learning.data_scale import MAD_TO_SD
from cavity.learning.run_choice import Learned
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Gaussian, Likelihood, MixtureOfGaussians, StudentT, WarpedTarget
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import Message, Setting, message_of
from cavity.runtime.interrupts import not_swallowed

CLEAR, LEAST_GAIN = 1.0, 5.0
"""Standard errors, and nats over all rows, by which Student-t noise must make rows more probable given the others."""

LARGE_GAIN = 0.25
"""Nats per row beyond which there is no doubt. Below, squared errors of rows left out must not grow with Student-t
noise: what it takes for outliers may be rows that predict each other."""


TO_COMPARE = 1e-5
"""Part of the objective: a run of the optimizer that begins near its end, and is only to be compared, ends if a step
gains less. Of a thousand nats that leaves a few tenths."""

FAR = 4.0
"""Typical residuals from which a row counts as wrong, to begin with."""


def robust(likelihood: Likelihood, scale: float = 1.0) -> Likelihood | None:
    """The likelihood with Student-t noise in place of Gaussian noise; None if it has other noise."""
    heavy = StudentT(scale, 4.0)
    if isinstance(likelihood, WarpedTarget):
        return WarpedTarget(heavy, likelihood.warp) if isinstance(likelihood.noise, Gaussian) else None
    return heavy if isinstance(likelihood, Gaussian) else None


@dataclass(frozen=True)
class RobustLearning:
    """How models with robust noise are learned from the rows that one with Gaussian noise was learned from.

    Attributes
    ----------
    learn : callable
        Learns a model, in so many seconds.
    inference : str or InferenceRule
    n_restarts : int
    clean : GP or None
        A model with Gaussian noise whose values were learned on rows without the suspicious ones, if there is one. They
        are near those of robust noise: one run from there, to a few digits, is enough to compare.
    """

    learn: Callable[..., Learned]
    inference: Any
    n_restarts: int
    clean: GP | None

    def student_t(self, plain: GP, typical: float, time: Deadline) -> Learned:
        """With Student-t noise; residuals under the plain model are typically so many standard deviations."""
        start = plain if self.clean is None else self.clean
        sd = float(np.sqrt(start.likelihood.noise.flat[0])) * (typical if self.clean is None else 1.0)
        noise = robust(start.likelihood, sd)
        assert noise is not None
        heavy = start.with_likelihood(noise).with_inference(self.inference)
        if self.clean is not None:
            return self.learn(heavy, time.left, n_restarts=0, warm=True, enough=TO_COMPARE)
        if isinstance(noise, WarpedTarget):
            return self.learn(heavy, time.left, n_restarts=0, data_driven=False)
        return self.learn(heavy, time.left, n_restarts=min(self.n_restarts, 1))

    def on_from(self, found: Learned, noise: Likelihood, time: Deadline) -> Learned:
        """From the values of a model that was learned, perhaps with other noise, to the last digit that matters."""
        return self.learn(found.model.with_likelihood(noise), time.left, n_restarts=0, warm=True)

    def finished(self, found: Learned, time: Deadline) -> Learned:
        """What is kept: learned on from where the comparison left it, or without suspicion if it has Gaussian noise."""
        if self.clean is None or time.left == 0.0 or found.stopped is not None:
            return found
        if robust(found.model.likelihood) is None:
            return self.on_from(found, found.model.likelihood, time)
        return self.learn(found.model, time.left, n_restarts=1, data_driven=True)


def with_outliers(
    learned: Learned, rows: TrainingRows, choice: Choice, how: RobustLearning, time: Deadline
) -> tuple[Learned, Choice]:
    """What was learned, or the same with robust noise if some rows are outliers; and the choice with its reason."""
    if learned.stopped is not None:
        return learned, choice
    found, reasons = _compared(learned, rows, choice, how, time)
    if isinstance(found.model.likelihood.noise, MixtureOfGaussians):
        return found, reasons
    return how.finished(found, time), reasons


def _compared(
    learned: Learned, rows: TrainingRows, choice: Choice, how: RobustLearning, time: Deadline
) -> tuple[Learned, Choice]:
    """The noise under which rows are most probable given the others."""
    loo = leave_one_out(learned.posterior, rows)
    y = rows.y if rows.own is None else rows.y[rows.index]
    distance = residuals(loo, y)
    count, sd = int(np.sum(far_rows(distance))), surprising_distance(len(distance))
    if not count:
        why = f"No row is more than {sd:.1f} sd from what the others predict."
        return learned, _because(choice, Message((why,)))
    far = f"{'1 row is' if count == 1 else f'{count} rows are'} more than {sd:.1f} sd from what the others predict"
    if time.left == 0.0:
        late = (f"{far}, but no time was left to try Student-t noise; give more ", Setting("max_time"), ".")
        return learned, _because(choice, Message(late))
    try:
        with not_swallowed():
            heavy = how.student_t(learned.model, float(np.median(distance)) * MAD_TO_SD, time)
    except KeyboardInterrupt:
        return learned, _because(
            choice, Message((f"{far}, but Student-t noise was not tried: interrupted.",))
        )
    except FAILURES as error:
        reason = message_of(error)
        remedy = ("; ", *reason.remedy) if reason.remedy else ()
        parts = (f"{far}, but Student-t noise could not be fitted (", *reason.clause, *remedy, ").")
        return learned, _because(choice, Message(parts))
    found, reasons = _denser(learned, heavy, rows, choice, far)
    return _regular_or_wrong(heavy, rows, reasons, how, time) if found is heavy else (found, reasons)


def _denser(
    plain: Learned, heavy: Learned, rows: TrainingRows, choice: Choice, far: str
) -> tuple[Learned, Choice]:
    """The one under which rows are more probable given the others."""
    y = rows.y if rows.own is None else rows.y[rows.index]
    left = [leave_one_out(one.posterior, rows) for one in (plain, heavy)]
    density = [np.asarray(loo.log_prob(y)) for loo in left]
    gain = density[1] - density[0]
    clear = bool(np.sum(gain) > max(LEAST_GAIN, CLEAR * np.std(gain) * np.sqrt(len(gain))))
    error, missed = (float(np.mean((loo.mean - y) ** 2)) for loo in left)
    better = heavy if clear and (np.mean(gain) > LARGE_GAIN or missed <= error) else plain
    if not clear:
        why = f"{far}, but rows are hardly more probable given the others under Student-t noise."
    elif better is plain:
        why = f"{far}, but others vouch for them: without them predictions are worse."
    else:
        nats = f"{np.mean(gain):.2g} nats"
        why = f"{far}, and under Student-t noise rows are more probable given the others, by {nats} each."
    scores = [float(np.mean(one)) for one in density]
    candidates = (
        *(replace(one, chosen=one.chosen and better is plain) for one in choice.candidates),
        Candidate("student-t, all rows", scores[1], better is heavy),
    )
    found = replace(choice, chosen=chosen_in_words(better.model), candidates=candidates)
    return better, _because(found, Message((why,)))


def mixture(residual: Array) -> MixtureOfGaussians:
    """Noise of regular and wrong rows, of about these residuals."""
    size = np.abs(residual)
    scale = float(np.median(size)) * MAD_TO_SD
    wrong = size > FAR * scale
    wide = float(np.sqrt(np.mean(size[wrong] ** 2))) if wrong.any() else 2.0 * FAR * scale
    share = min(max(float(np.mean(wrong)), 1.0 / len(size)), 0.5)
    return MixtureOfGaussians(share, scale, wide / scale)


def _regular_or_wrong(
    heavy: Learned,
    rows: TrainingRows,
    choice: Choice,
    how: RobustLearning,
    time: Deadline,
) -> tuple[Learned, Choice]:
    """What was learned with Student-t noise, or with a mixture if rows are clearly more probable given the others.

    Not of warped targets: at the ends of a range, where many rows pile up, its evidence is rugged and takes minutes.
    """
    y = rows.y if rows.own is None else rows.y[rows.index]
    residual = y - cavities(heavy.posterior, rows)[0]
    warped = isinstance(heavy.model.likelihood, WarpedTarget)
    if warped or time.left == 0.0 or not np.median(np.abs(residual)) > 0:
        return heavy, choice
    try:
        with not_swallowed():
            found = how.on_from(heavy, mixture(residual), time)
            left = [np.asarray(leave_one_out(one.posterior, rows).log_prob(y)) for one in (heavy, found)]
    except (KeyboardInterrupt, *FAILURES):
        return heavy, choice
    gain = left[1] - left[0]
    better = bool(np.sum(gain) > max(1.0, CLEAR * np.std(gain) * np.sqrt(len(gain))))
    candidates = (
        *(replace(one, chosen=one.chosen and not better) for one in choice.candidates),
        Candidate("mixture, all rows", float(np.mean(left[1])), better),
    )
    if not better:
        return heavy, replace(choice, candidates=candidates)
    noise = found.model.likelihood
    assert isinstance(noise, MixtureOfGaussians)
    why = f"Rows are either regular or, {100 * noise.fraction:.2g} % of them, wrong, with few between."
    chosen = replace(choice, chosen=chosen_in_words(found.model), candidates=candidates)
    return found, _because(chosen, Message((why,)))


def _because(choice: Choice, why: Message) -> Choice:
    return replace(choice, reasons=(*choice.reasons, why))


def with_inflation(learned: Learned, rows: TrainingRows, factor: float) -> Learned:
    """The same with larger variances, if it has Gaussian noise or a mixture."""
    model = inflated(learned.model, factor) if factor != 1.0 else None
    if model is None:
        return learned
    posterior = model.condition(rows.X, rows.y, rows.weight)
    return Learned(replace(learned.search, model=model), posterior)
