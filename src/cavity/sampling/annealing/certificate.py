"""When an estimate of the log evidence by annealing may be believed, and what it would take otherwise.

The standard error from the weights cannot exceed 1 however wrong the runs are: one run that dominates hides what the
others say. So an estimate is certified only if

- there are at least `FEWEST_RUNS` runs, the standard deviation of ln w is at most `LARGEST_SD`, and at least half of
  the runs are effective;
- the moves were accepted often enough everywhere on the way;
- the standard error is within the request;
- a second set of runs, of another length and along another schedule, is itself usable and agrees within
  `AGREEMENT` combined standard errors. If the likelihood is not log-concave the posterior may have several modes,
  and the second set must come from another start: from the prior instead of a Gaussian, or the reverse.

What is needed follows from se^2 = c / (T R), which holds once sd(ln w) is about one.
"""

from __future__ import annotations

import numpy as np

from cavity.sampling.annealing.runs import Annealing

FEWEST_RUNS = 8
LARGEST_SD = 1.0
LARGEST_SD_OF_SECOND = 1.5
"""The second set may be half as long, and then has twice the variance."""

LOWEST_ACCEPTANCE = 0.4
AGREEMENT = 3.0
LEAST_ERROR = 1e-6
"""Floor of a standard error in comparisons: rounding of sums of thousands of terms."""


def faults(run: Annealing, target_error: float | None = None, largest_sd: float = LARGEST_SD) -> list[str]:
    """Why one set of runs cannot be believed by itself, each a clause; empty if it can."""
    found = []
    if run.runs < FEWEST_RUNS:
        found.append(f"{run.runs} runs are too few to judge their spread (at least {FEWEST_RUNS})")
    if not np.isfinite(run.log_evidence):
        found.append("no run found a place of positive likelihood")
        return found
    if not run.sd_log_weights <= largest_sd:
        found.append(f"the sd of the log weights is {run.sd_log_weights:.3g}, more than {largest_sd:g}")
    share = 0.5 * (LARGEST_SD / largest_sd) ** 2
    if run.effective_runs < share * run.runs:
        found.append(f"only {run.effective_runs:.1f} of {run.runs} runs are effective")
    if run.lowest_acceptance < LOWEST_ACCEPTANCE:
        found.append(
            f"acceptance falls to {run.lowest_acceptance:.2f} on the way, below {LOWEST_ACCEPTANCE:g}"
        )
    if target_error is not None and run.standard_error > target_error:
        found.append(
            f"the standard error is {run.standard_error:.2g}, more than the {target_error:g} asked for"
        )
    return found


def disagreement(first: Annealing, second: Annealing) -> float:
    """Difference of two estimates in combined standard errors."""
    combined = np.hypot(max(first.standard_error, LEAST_ERROR), max(second.standard_error, LEAST_ERROR))
    difference = abs(first.log_evidence - second.log_evidence)
    return float(difference / combined) if np.isfinite(difference) else np.inf


def verdict(
    run: Annealing, second: Annealing | None, several_modes: bool, target_error: float | None = None
) -> str:
    """Empty if the estimate may be believed, otherwise the reason."""
    found = faults(run, target_error)
    if found:
        return "; ".join(found)
    if second is None:
        return "there is no second set of runs to confirm the first"
    second_faults = faults(second, None, LARGEST_SD_OF_SECOND)
    if second_faults:
        return f"the second set of runs (from {second.start}) confirms nothing: " + "; ".join(second_faults)
    if several_modes and second.start == run.start:
        return (
            f"the posterior may have several modes and both sets of runs start from {run.start}: a mode that both "
            "miss would not show"
        )
    apart = disagreement(run, second)
    if apart > AGREEMENT:
        return (
            f"two sets of runs disagree, {run.log_evidence:.2f} from {run.start} and {second.log_evidence:.2f} from "
            f"{second.start}: {apart:.1f} combined standard errors apart"
        )
    return ""


def steps_needed(run: Annealing, target_error: float | None = None) -> int:
    """Steps for sd(ln w) of 0.8, and for the standard error asked for, by se^2 = c / (T R)."""
    if not np.isfinite(run.difficulty):
        return 4 * run.steps
    wanted = 0.8 * LARGEST_SD
    if target_error is not None:
        wanted = min(wanted, target_error * np.sqrt(run.runs))
    # effective runs below a half go with a skewed spread of ln w: twice as many steps then
    skewed = 2.0 if run.effective_runs < 0.5 * run.runs else 1.0
    return max(4, int(np.ceil(run.difficulty * skewed / wanted**2)))


def seconds_needed(run: Annealing, target_error: float | None = None) -> float:
    """Time of a run of `steps_needed` steps and of a second one half as long."""
    return 1.5 * run.time / max(run.steps, 1) * steps_needed(run, target_error)
