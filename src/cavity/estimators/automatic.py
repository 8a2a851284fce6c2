"""A regression whose kind of model is left open: choose it, learn it from all rows, and look for outliers last.

Student-t noise is tried if rows are far from what the others predict. Leave-one-out densities decide: EP's evidence of
Student-t noise is an estimate, and that of Gaussian noise is not. If it is kept, rows may still be either regular or
wrong, with nothing between: Student-t tails then make 90 % intervals hold 95 %, and a mixture of two normal densities,
which does not, is tried from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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


FAR = 4.0
"""Typical residuals from which a row counts as wrong, to begin with."""


def robust(likelihood: Likelihood, scale: float = 1.0) -> Likelihood | None:
    """The likelihood with Student-t noise in place of Gaussian noise; None if it has other noise."""
    heavy = StudentT(scale, 4.0)
    if isinstance(likelihood, WarpedTarget):
        return WarpedTarget(heavy, likelihood.warp) if isinstance(likelihood.noise, Gaussian) else None
    return heavy if isinstance(likelihood, Gaussian) else None


def with_outliers(
    learned: Learned,
    rows: TrainingRows,
    choice: Choice,
    build: Callable[[Likelihood], GP],
    learn: Callable[[GP, float | None], Learned],
    time: Deadline,
) -> tuple[Learned, Choice]:
    """What was learned, or the same with Student-t noise if some rows are outliers; and the choice with its reason."""
    noise = robust(learned.model.likelihood)
    if noise is None or learned.stopped is not None:
        return learned, choice
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
    typical = float(np.median(distance)) * MAD_TO_SD
    scale = typical * float(np.sqrt(learned.model.likelihood.noise.flat[0]))
    try:
        with not_swallowed():
            heavy = learn(build(robust(learned.model.likelihood, scale) or noise), time.left)
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
    return _regular_or_wrong(heavy, rows, reasons, learn, time) if found is heavy else (found, reasons)


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
    learn: Callable[[GP, float | None], Learned],
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
            found = learn(heavy.model.with_likelihood(mixture(residual)), time.left)
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
