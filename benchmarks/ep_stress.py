"""How often EP converges on hard robust-regression problems, re-checked by independent means.

`python -m benchmarks ep_stress --seed S --count N` runs the problems of seeds S to S + N - 1 (see `ep_problems`),
each with a cap on its CPU time (one thread, so that a busy machine does not lengthen it), and counts where each ended:
certified EP with proper cavities, certified EP with extended cavities (mixtures only), power EP, the variational
solution, failure. What the library calls converged is believed only if `ep_check` agrees; otherwise it is a false
claim. `plain` is the share that undamped parallel EP solves by itself: the measure of how hard the set is.

`--at-optimum` asks the same at hyperparameters that maximize the variational bound; `--along` counts the certified
evaluations of EP's log evidence while that is maximized from the usual start.

The last line gives rates in per cent: mixture (proper or extended), student_t (proper), plain; and counts of false
claims and of results that are not finite.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks import ep_check, ep_problems, report
from benchmarks.ep_problems import StressProblem
from cavity.gp import GP
from cavity.inference.ep import EP

CAP = 10.0
"""Seconds for each problem."""

SEARCH = 8.0
"""Of these, seconds that EP may search; the rest is for what it does instead."""

TOLERANCE = 1e-6
ROUNDING = 1e-7
"""Mismatch of moments of a fixed point, and what two computations of it may differ by."""

ENUMERATED = 12
"""Points up to which all assignments to mixture components are enumerated."""

PLAIN_SWEEPS = 200
KINDS = ("proper", "extended", "power ep", "variational", "false", "nan", "late", "failed")
FAMILIES = ("mixture", "student_t")


@dataclass(frozen=True)
class Ending:
    """How one problem ended."""

    seed: int
    family: str
    kind: str
    stage: str
    seconds: float
    residual: float = np.nan
    """As recomputed."""
    plain: bool | None = None
    error: float = np.nan
    """Log evidence minus the exact one, where that can be enumerated."""
    message: str = ""


def model_of(problem: StressProblem, **options: Any) -> GP:
    """The problem's model with EP."""
    inference = EP(effort=SEARCH, **options)
    return GP(problem.kernel, problem.likelihood, inference=inference).bind(problem.X.shape[1])


def run_one(problem: StressProblem, *, plain: bool = True, cap: float = CAP) -> Ending:
    """Infer, and check what was claimed."""
    start = time.process_time()
    try:
        posterior = model_of(problem).condition(problem.X, problem.y)
    except Exception as error:  # any exception is a finding here
        took = time.process_time() - start
        return Ending(
            problem.seed, problem.family, "failed", "", took, message=f"{type(error).__name__}: {error}"
        )
    took = time.process_time() - start
    status, sites = posterior.status, posterior.approximation.sites
    kind, checked = classify(problem, posterior, took, cap)
    error = np.nan
    if problem.family == "mixture" and len(problem.y) <= ENUMERATED and kind in ("proper", "extended"):
        error = posterior.log_evidence - ep_check.exact_log_evidence(problem)
    solved = plain_ep(problem) if plain else None
    assert sites is not None
    return Ending(
        problem.seed, problem.family, kind, status.label, took, checked, solved, error, status.message
    )


def classify(problem: StressProblem, posterior: Any, took: float, cap: float) -> tuple[str, float]:
    """Where a result belongs, and its mismatch of moments as recomputed."""
    status, sites = posterior.status, posterior.approximation.sites
    mean, var = posterior.mean(problem.X), posterior.variance(problem.X)
    numbers = [[posterior.log_evidence], mean, var, sites.shift, sites.precision]
    if not all(np.isfinite(part).all() for part in numbers) or np.any(var <= 0):
        return "nan", np.nan
    if took > cap:
        return "late", np.nan
    for other in ("variational", "power ep"):
        if status.stage.startswith(other):
            return other, np.nan
    if not status.converged:
        return "failed", np.nan
    found = ep_check.opinion(problem, sites.shift, sites.precision)
    agrees = abs(found.log_evidence - posterior.log_evidence) <= 1e-5 * (1.0 + abs(found.log_evidence))
    if not (found.residual <= TOLERANCE + ROUNDING and agrees):
        return "false", found.residual
    extended = found.smallest_cavity <= 0
    if extended != status.extended or (extended and problem.family != "mixture"):
        return "false", found.residual
    return "extended" if extended else "proper", found.residual


def plain_ep(problem: StressProblem) -> bool:
    """Whether undamped parallel EP reaches a fixed point with proper cavities within 200 sweeps.

    Steps are halved only where the posterior would be improper; sites without a proper cavity wait.
    """
    y, K = problem.y, ep_check.covariance(problem)
    L = np.linalg.cholesky(K)
    n = len(y)
    shift, precision = np.zeros(n), np.zeros(n)
    d_shift, d_precision, step = np.zeros(n), np.zeros(n), 0.0
    for _ in range(PLAIN_SWEEPS):
        step = 1.0
        while True:
            new_shift, new_precision = shift + step * d_shift, precision + step * d_precision
            V = _root(L, new_precision)
            if V is not None:
                break
            step *= 0.5
            if step < 1e-10:
                return False
        shift, precision = new_shift, new_precision
        var, mean = np.einsum("ij,ij->j", V, V), V.T @ (V @ shift)
        cavity_precision, cavity_shift = 1.0 / var - precision, mean / var - shift
        proper = cavity_precision > 0
        t = problem.likelihood.tilted(
            y, np.where(proper, cavity_shift, 0.0), np.where(proper, cavity_precision, 1.0)
        )
        if proper.all():
            worst = max(np.max(np.abs(t.mean - mean) / np.sqrt(var)), np.max(np.abs(t.var / var - 1.0)))
            if worst <= TOLERANCE:
                return True
        d_shift = np.where(proper, t.mean / t.var - cavity_shift - shift, 0.0)
        d_precision = np.where(proper, 1.0 / t.var - cavity_precision - precision, 0.0)
    return False


def _root(L: np.ndarray, precision: np.ndarray) -> np.ndarray | None:
    """V with Sigma = V'V, or None where the posterior is improper."""
    from scipy.linalg import solve_triangular

    if not np.isfinite(precision).all():
        return None
    try:
        C = np.linalg.cholesky(np.eye(len(L)) + L.T @ (precision[:, None] * L))
    except np.linalg.LinAlgError:
        return None
    return np.asarray(solve_triangular(C, L.T, lower=True))


# --- where users are --------------------------------------------------------------------------------------------------


def at_optimum(problem: StressProblem, max_time: float = 60.0) -> StressProblem:
    """The problem with hyperparameters that maximize the variational bound, from the ones it has."""
    from cavity.learning import learn

    model = GP(problem.kernel, problem.likelihood, inference="variational").bind(problem.X.shape[1])
    learned = learn(model, problem.X, problem.y, n_restarts=0, warm=True, max_time=max_time, progress=False)
    return with_model(problem, learned.model)


def with_model(problem: StressProblem, model: GP) -> StressProblem:
    """The problem with another model's hyperparameters, also in the settings that the check reads."""
    noise: Any = model.likelihood
    settings = problem.settings | {
        "variance": float(model.get("se.variance")),
        "length": float(model.get("se.lengthscale")),
        "noise": float(noise.scale),
        "jitter": ep_problems.JITTER * problem.settings["variance"],
    }
    if problem.family == "mixture":
        settings |= {"fraction": float(noise.fraction), "wide": float(noise.outlier_scale)}
    else:
        settings |= {"df": float(noise.df)}
    return replace(problem, kernel=model.kernel, likelihood=model.likelihood, settings=settings)


@dataclass(frozen=True)
class Journey:
    """One maximization of EP's log evidence."""

    seed: int
    family: str
    evaluations: int
    failures: int
    seconds: float
    gain: float
    message: str


def journey(problem: StressProblem, max_time: float = 60.0) -> Journey:
    """Maximize from the start that is read off the data alone."""
    from cavity.learning.multistart import SearchOptions, multistart
    from cavity.learning.training_rows import TrainingRows

    began = time.process_time()
    try:
        learned = multistart(
            model_of(problem),
            TrainingRows.of(problem.X, problem.y, None, merge=False),
            SearchOptions(n_restarts=0, progress=False),
            rng=np.random.default_rng(0),
            max_time=max_time,
        )
    except np.linalg.LinAlgError as error:  # not even the start could be evaluated
        took = time.process_time() - began
        return Journey(problem.seed, problem.family, 1, 1, took, 0.0, str(error))
    took = time.process_time() - began
    runs = learned.runs  # a second one where a branch of fixed points ended
    counts = sum(run.evaluations for run in runs), sum(run.failures for run in runs)
    message = "; ".join(run.message for run in runs)
    return Journey(problem.seed, problem.family, *counts, took, learned.value, message)


# --- the command ------------------------------------------------------------------------------------------------------


def _stress(seed: int) -> Ending:
    return run_one(ep_problems.make(seed))


def _optimum(seed: int) -> Ending:
    return run_one(at_optimum(ep_problems.make(seed)), plain=False)


def _along(seed: int) -> Journey:
    return journey(ep_problems.make(seed))


def _each(work: Callable[[int], Any], seeds: Sequence[int], jobs: int | None) -> Iterator[Any]:
    if jobs in (None, 1):
        yield from map(work, seeds)
        return
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=jobs, return_as="generator")(delayed(work)(seed) for seed in seeds)


def rate(part: int, whole: int) -> float | None:
    """Per cent, or None of nothing."""
    return 100.0 * part / whole if whole else None


def _percent(part: int, whole: int) -> str:
    value = rate(part, whole)
    return "-" if value is None else f"{part} ({value:.1f} %)"


def table_of(endings: Sequence[Ending]) -> str:
    """Where the problems of each family ended."""
    rows = []
    for kind in KINDS:
        counts = []
        for family in FAMILIES:
            group = [e for e in endings if e.family == family]
            counts.append(_percent(sum(e.kind == kind for e in group), len(group)))
        rows.append([kind, *counts])
    for title, pick in (("median seconds", np.median), ("longest", np.max)):
        times = [[e.seconds for e in endings if e.family == family] for family in FAMILIES]
        rows.append([title, *(report.seconds(float(pick(t))) if t else "-" for t in times)])
    return report.table(["", *FAMILIES], rows)


def notes_of(endings: Sequence[Ending]) -> list[str]:
    """Residuals, stages, errors in the evidence, and problems to look at."""
    certified = [e for e in endings if e.kind in ("proper", "extended")]
    notes = []
    if certified:
        notes.append(
            f"worst residual of a certified point, recomputed: {max(e.residual for e in certified):.1e}"
        )
    for stage in sorted({e.stage for e in certified}):
        group = [e for e in certified if e.stage == stage]
        errors = np.array([e.error for e in group if np.isfinite(e.error)])
        text = f"found by {stage}: {len(group)}"
        if errors.size:
            sizes = np.abs(errors)
            text += (
                f"; error in log evidence against enumeration of {errors.size}: median {np.median(sizes):.3f}, "
                f"largest {errors[np.argmax(sizes)]:+.3f}"
            )
        notes.append(text)
    for kind in ("false", "nan", "late", "failed"):
        seeds = [e.seed for e in endings if e.kind == kind]
        if seeds:
            notes.append(f"{kind}: seeds {', '.join(map(str, seeds))}")
            notes += sorted({e.message for e in endings if e.kind == "failed" == kind})
    return notes


def figures_of(endings: Sequence[Ending]) -> dict[str, float | str | None]:
    """What the last line reports."""
    mixture, student = ([e for e in endings if e.family == family] for family in FAMILIES)
    plain = [e.plain for e in endings if e.plain is not None]
    return {
        "mixture": rate(sum(e.kind in ("proper", "extended") for e in mixture), len(mixture)),
        "student_t": rate(sum(e.kind == "proper" for e in student), len(student)),
        "false": str(sum(e.kind == "false" for e in endings)),
        "nan": str(sum(e.kind in ("nan", "failed") for e in endings)),
        "plain": rate(sum(plain), len(plain)) if plain else "not-run",
    }


def _report_journeys(journeys: Sequence[Journey]) -> dict[str, float | str | None]:
    rows = []
    for family in FAMILIES:
        group = [j for j in journeys if j.family == family]
        total, failed = sum(j.evaluations for j in group), sum(j.failures for j in group)
        rows.append([family, str(len(group)), str(total), _percent(total - failed, total)])
        rows[-1].append(f"{sum(j.seconds for j in group):.0f} s")
    print(report.table(["EP optimizations", "runs", "evaluations", "certified", "time"], rows))
    worst = sorted((j for j in journeys if j.failures), key=lambda j: -j.failures)[:10]
    for j in worst:
        print(f"seed {j.seed} ({j.family}): {j.failures} of {j.evaluations} failed; {j.message}")
    total, failed = sum(j.evaluations for j in journeys), sum(j.failures for j in journeys)
    return {"along": rate(total - failed, total), "runs": str(len(journeys))}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ep_stress", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--count", type=int, default=None, help="number of problems (default 50; quick 20)")
    parser.add_argument("--quick", action="store_true", help="fewer problems")
    parser.add_argument("--jobs", type=int, default=None, help="processes (default: this one)")
    parser.add_argument("--verbose", action="store_true", help="a line for each problem")
    parser.add_argument("--at-optimum", action="store_true", help="at optima of the variational bound")
    parser.add_argument("--along", action="store_true", help="evaluations along EP optimizations")
    options = parser.parse_args(argv)
    count = options.count or (20 if options.quick else 50)
    seeds = range(options.seed, options.seed + count)
    work = _along if options.along else _optimum if options.at_optimum else _stress
    results = []
    for result in _each(work, seeds, options.jobs):
        results.append(result)
        if options.verbose:
            print(result, flush=True)
    if options.along:
        print(report.result_line(_report_journeys(results)))
        return 0
    print(table_of(results))
    for note in notes_of(results):
        print(note)
    figures = figures_of(results)
    print(report.result_line(figures))
    return int(figures["false"] != "0" or figures["nan"] != "0")
