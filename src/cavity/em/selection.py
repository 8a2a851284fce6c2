"""Choosing the number of components or states: AIC, BIC, ICL.

With loglik the maximized log-likelihood, p the number of free parameters and n the (weighted) number of
observations, BIC = p log n - 2 loglik, AIC = 2 p - 2 loglik, ICL = BIC + 2 x entropy of the responsibilities
(Biernacki et al., 2000): ICL also asks that components be separated. Smaller is better for all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cavity.em.expectation_maximization import DegeneracyError

Fitted = TypeVar("Fitted")

CRITERIA = ("bic", "icl", "aic")
DEFAULT_MAX = 10


@dataclass(frozen=True)
class Candidate:
    """One fitted candidate: its size, criteria and convergence, and whether a part of it rests on a guard or
    prior rather than on data.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import GaussianMixture
    >>> X = np.random.default_rng(0).normal([[-4.0]] * 50 + [[4.0]] * 50)
    >>> model = GaussianMixture(range(1, 4), "diag", random_state=0).fit(X)
    >>> [candidate.n for candidate in model.selection_], min(model.selection_, key=lambda c: c.bic).n
    ([1, 2, 3], 2)
    """

    n: int
    log_likelihood: float
    n_parameters: int
    bic: float
    icl: float
    aic: float
    converged: bool
    degenerate: bool = False


def candidates(value: Any, criterion: str, n_samples: int, name: str) -> tuple[list[int], str]:
    """Sizes to try and the criterion, from an int, "bic" | "icl" | "aic", or an iterable of ints."""
    if isinstance(value, str):
        if value not in CRITERIA:
            raise ValueError(
                f"{name}={value!r} is not known: give a number, a range, or one of {', '.join(CRITERIA)}"
            )
        return list(range(1, min(DEFAULT_MAX, n_samples) + 1)), value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        sizes = [int(value)]
    elif isinstance(value, Iterable):
        given = list(value)
        if not all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in given):
            raise ValueError(f"{name}={given!r} must be whole numbers: a list or a range of sizes to try")
        sizes = [int(v) for v in given]
    else:
        raise ValueError(
            f"{name}={value!r} must be a positive integer, a range or one of {', '.join(CRITERIA)}"
        )
    if criterion not in CRITERIA:
        raise ValueError(f"criterion={criterion!r} is not known; choose one of {', '.join(CRITERIA)}")
    if not sizes or min(sizes) < 1:
        raise ValueError(f"{name}={value!r} must be at least 1")
    if max(sizes) > n_samples:
        raise ValueError(
            f"{name}={max(sizes)} exceeds the number of observations: n_samples={n_samples}; use fewer"
        )
    return sizes, criterion


def best_size(
    sizes: Sequence[int], fit: Callable[[int], tuple[Candidate, Fitted]], criterion: str, name: str
) -> tuple[Fitted, list[Candidate], list[str]]:
    """Fit every size: the best fit by the criterion, all candidates, and why other sizes failed.

    A size that collapses is skipped, and a degenerate candidate loses to any that is not.
    """
    table: list[Candidate] = []
    failures: list[str] = []
    best: tuple[tuple[bool, float], Fitted] | None = None
    for size in sizes:
        try:
            entry, fitted = fit(size)
        except DegeneracyError as error:
            failures.append(f"{name}={size}: {error}")
            continue
        table.append(entry)
        rank = (entry.degenerate, float(getattr(entry, criterion)))
        if best is None or rank < best[0]:
            best = (rank, fitted)
    if best is None:
        raise DegeneracyError(failures[0])
    return best[1], table, failures


def criteria(loglik: float, n_parameters: int, n_data: float, entropy: float) -> dict[str, float]:
    """The three criteria."""
    bic = n_parameters * float(np.log(n_data)) - 2.0 * loglik
    return {"bic": bic, "icl": bic + 2.0 * entropy, "aic": 2.0 * n_parameters - 2.0 * loglik}


def candidate_of(problem: Any, run: Any, size: int, entropy: float, degenerate: bool) -> Candidate:
    """The criteria of a run that ended at a fit of this size."""
    loglik = run.objective - problem.log_prior(run.theta)
    values = criteria(loglik, problem.n_parameters, problem.n_data, entropy)
    return Candidate(
        size, loglik, problem.n_parameters, converged=run.converged, degenerate=degenerate, **values
    )


def parameters_counted(table: Sequence[Candidate], size: int) -> int | None:
    """Number of free parameters that a fit counted for this size; None without a fit."""
    return next((int(entry.n_parameters) for entry in table if entry.n == size), None)


def entropy_of(resp: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """-sum r log r over rows and components."""
    safe = np.where(resp > 0, resp, 1.0)
    rows = -np.sum(resp * np.log(safe), axis=1)
    return float(rows.sum() if weights is None else weights @ rows)
