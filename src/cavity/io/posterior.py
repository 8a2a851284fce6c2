"""Models and posteriors in model files.

A posterior is stored as its model, the data, the sites, and what inference said about itself. What prediction uses
beyond that (covariance matrix, Cholesky factors) is computed again on loading, which keeps files small: for n rows
a file holds O(n) numbers, not O(n^2). The same operations on the same numbers give the same bits on the same
machine with the same number of threads. To be sure of that, `save` computes everything again itself and compares:
arrays that differ in any bit (a factor that was extended by `update`, or that comes from a worker process with
fewer threads) are stored as they are and put in the place of the recomputed ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.gp import GP, Posterior
from cavity.inference.base import Approximation, Status
from cavity.inference.exact import Exact
from cavity.io.errors import ModelFileError
from cavity.io.registry import Codec, add
from cavity.kernels.base import Kernel
from cavity.latent.dense import ObservedCorrection, SiteCorrection
from cavity.latent.process import PosteriorProcess
from cavity.latent.several import BlockPosterior, DenseCorrection, PerLatent, SoftmaxCorrection
from cavity.latent.sites import Sites
from cavity.likelihoods import GaussianNoise, Likelihood
from cavity.means.functions import Mean
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky
from cavity.numerics.threads import threads_for

LARGE = 2000
"""Rows from which the memory that is needed is compared to what is free."""


# --- models -------------------------------------------------------------------------------------------------


def _gp_fields(model: GP) -> dict[str, Any]:
    return {
        "kernel": model.kernel,
        "likelihood": model.likelihood,
        "mean": model.mean,
        "inference": model.inference,
        "columns": model._columns,
        "names": model._names,
        "note": model._note,
    }


def _gp(
    kernel: Any, likelihood: Any, mean: Any, inference: Any, columns: Any, note: Any, names: Any = None
) -> GP:
    require(isinstance(kernel, Kernel | PerLatent), "kernel must be a kernel")
    require(isinstance(likelihood, Likelihood), "likelihood must be a likelihood")
    require(isinstance(mean, Mean | PerLatent), "mean must be a mean function")
    require(isinstance(note, str), "note must be a text")
    require(columns is None or (isinstance(columns, int) and columns >= 1), "columns must be a count")
    known = isinstance(names, tuple) and len(names) == columns and all(isinstance(n, str) for n in names)
    require(names is None or known, "names must be texts, one for each column")
    require(not isinstance(inference, str | None), "inference must be a rule")
    model = GP(
        list(kernel) if isinstance(kernel, PerLatent) else kernel,  # type: ignore[arg-type]
        likelihood,
        list(mean) if isinstance(mean, PerLatent) else mean,  # type: ignore[arg-type]
        inference,
    )
    model._columns, model._names, model._note = columns, names, note
    return model


add(Codec("GP", GP, _gp_fields, _gp))


# --- posteriors ---------------------------------------------------------------------------------------------


def _posterior_fields(posterior: Posterior) -> dict[str, Any]:
    approximation, process = posterior.approximation, posterior.process
    fields: dict[str, Any] = {
        "model": posterior.model,
        "X": process.X,
        "y": posterior._y,
        "sample_weight": posterior._sample_weight,
        "sites": approximation.sites,
        "log_evidence": approximation.log_evidence,
        "status": approximation.status,
        "curvature": _curvature(process),
        "weights": None if _is_exact(process) else process.weights,
    }
    again = _process(**{name: fields[name] for name in PROCESS_FIELDS})
    fields["exactly"] = _differences(process, again)
    return fields


PROCESS_FIELDS = ("model", "X", "y", "sample_weight", "sites", "curvature", "weights")


def _is_exact(process: Any) -> bool:
    return isinstance(process, PosteriorProcess) and isinstance(process.correction, ObservedCorrection)


def _curvature(process: Any) -> Array | None:
    """The curvature of the likelihood at each row, for several latent functions."""
    if not isinstance(process, BlockPosterior):
        known = isinstance(process, PosteriorProcess) and isinstance(
            process.correction, ObservedCorrection | SiteCorrection
        )
        if not known:
            raise ModelFileError(f"a posterior of the kind {type(process).__name__} cannot be stored")
        return None
    correction = process.correction
    return correction.D if isinstance(correction, SoftmaxCorrection) else correction.W  # type: ignore[attr-defined]


def _process(
    model: GP,
    X: Array,
    y: Array,
    sample_weight: Array | None,
    sites: Sites | None,
    curvature: Any,
    weights: Any,
) -> Any:
    """The posterior process, computed from what is stored."""
    with threads_for(len(X)):
        prior = model.prior(X)
        if curvature is not None:
            kind = SoftmaxCorrection if curvature.ndim == 2 else DenseCorrection
            return BlockPosterior(prior, weights, kind(prior, curvature))
        if sites is None:
            require(
                isinstance(model.likelihood, GaussianNoise), "a posterior without sites needs Gaussian noise"
            )
            return Exact().infer(prior, model.likelihood, y, sample_weight).process
        correction = prior.condition(sites)
        return PosteriorProcess(prior.kernel, prior.rows, prior.X, prior.mean_function, weights, correction)


def _posterior(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    sites: Any,
    log_evidence: Any,
    status: Any,
    curvature: Any,
    weights: Any,
    exactly: Any,
) -> Posterior:
    check_data(model, X, y, sample_weight)
    _check_approximation(model, len(X), sites, curvature, weights)
    require(is_float(log_evidence), "log_evidence must be a number")
    require(isinstance(status, Status), "status must be a status")
    require(isinstance(exactly, dict), "exactly must be a table of arrays")
    require_room(len(X) * (model.likelihood.n_latent if curvature is not None else 1))
    process = _process(model, X, y, sample_weight, sites, curvature, weights)
    _restore(process, exactly)
    approximation = Approximation(process, float(log_evidence), status, sites)
    posterior = Posterior(model, approximation, y, sample_weight)
    at_first = process.X[:1]
    require(
        bool(np.isfinite(posterior.mean(at_first)).all() and np.isfinite(posterior.variance(at_first)).all()),
        "its predictions are not finite",
    )
    return posterior


def check_data(model: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Refuse data that are not those of a model."""
    require(isinstance(model, GP), "model must be a GP")
    require(is_array(X, 2) and X.size > 0 and np.isfinite(X).all(), "X must be a matrix of finite numbers")
    require(model._columns == X.shape[1], "X and the model must have the same columns")
    require(is_array(y) and y.ndim in (1, 2) and len(y) == len(X), "y must have as many rows as X")
    model.likelihood.check(y)
    weighted = sample_weight is None or (is_array(sample_weight, 1) and len(sample_weight) == len(X))
    require(weighted, "sample_weight must have as many rows as X")
    require(sample_weight is None or bool((sample_weight > 0).all()), "sample_weight must be positive")


def _check_approximation(model: GP, n: int, sites: Any, curvature: Any, weights: Any) -> None:
    L = model.likelihood.n_latent
    require(sites is None or (isinstance(sites, Sites) and len(sites) == n), "sites must be one for each row")
    if curvature is not None:
        fits = is_array(curvature) and curvature.shape in ((n, L), (n, L, L))
        require(L > 1 and fits, "curvature must be that of each row")
        require(is_array(weights, 2) and weights.shape == (n, L), "weights must be those of each row")
    elif sites is not None:
        require(L == 1, "sites are for one latent function")
        require(is_array(weights, 1) and len(weights) == n, "weights must be one for each row")
    else:
        require(L == 1 and weights is None, "exact inference has no weights of its own")


add(Codec("Posterior", Posterior, _posterior_fields, _posterior))


# --- bit for bit --------------------------------------------------------------------------------------------


def _differences(process: Any, again: Any) -> dict[str, Any]:
    """Arrays of a process that are not, bit for bit, those of its recomputation."""
    theirs = dict(_live(again))
    found: dict[str, Any] = {}
    for name, item in _live(process):
        mine, other = _values(item), _values(theirs[name])
        if mine.tobytes() != other.tobytes():
            found[name] = mine
        if isinstance(item, Cholesky) and item.jitter != theirs[name].jitter:
            found[f"{name} jitter"] = float(item.jitter)
    return found


def _restore(process: Any, exactly: dict[Any, Any]) -> None:
    """Put stored arrays in the place of recomputed ones."""
    left = dict(exactly)
    for name, item in _live(process):
        jitter = left.pop(f"{name} jitter", None)
        if jitter is not None:
            require(
                isinstance(item, Cholesky) and is_float(jitter) and jitter >= 0, "jitter must be a number"
            )
            item.jitter = float(jitter)
        stored = left.pop(name, None)
        if stored is None:
            continue
        require(is_array(stored) and stored.shape == _values(item).shape, f"{name} must fit the model")
        require(bool(np.isfinite(stored).all()), f"{name} must be finite")
        if isinstance(item, Cholesky):
            item.lower[_triangle(len(item.lower))] = stored
            require(bool((np.diagonal(item.lower) > 0).all()), f"{name} must have a positive diagonal")
        else:
            item[...] = stored
    require(not left, f"it has arrays that the model does not: {sorted(map(str, left))[:3]}")


def _live(process: Any) -> Iterator[tuple[str, Any]]:
    """The arrays and factors that prediction reads, by name."""
    yield "weights", process.weights
    correction = process.correction
    if isinstance(process, BlockPosterior):
        if isinstance(correction, SoftmaxCorrection):
            for c, E in enumerate(correction.E):
                yield f"E{c}", E
        else:
            for c, factor in enumerate(correction.factors):
                yield f"factor{c}", factor
        yield "M", correction.M
        return
    yield "factor", correction.factor
    if getattr(correction, "_C", None) is not None:
        yield "C", correction._C
        yield "VN", correction._VN
    if process.basis is not None:
        yield "basis mean", process.basis.mean
        yield "basis shift", process.basis.shift
        yield "basis precision", process.basis.precision
        yield "basis projection", process.basis.projection


def _values(item: Any) -> NDArray[Any]:
    """The numbers of an array, or the lower triangle of a factor, row by row."""
    return item.lower[_triangle(len(item.lower))] if isinstance(item, Cholesky) else item


def _triangle(n: int) -> NDArray[np.bool_]:
    return np.tri(n, dtype=bool)


# --- statuses and checks ------------------------------------------------------------------------------------


def _status_fields(status: Status) -> dict[str, Any]:
    return {name: getattr(status, name) for name in inspect.signature(Status).parameters}


def _status(**fields: Any) -> Status:
    status = replace(Status(), **fields)
    require(
        isinstance(status.converged, bool) and isinstance(status.stage, str), "a status says how it ended"
    )
    require(is_float(status.residual) and is_float(status.jitter), "a status has a residual and a jitter")
    require(isinstance(status.iterations, int) and isinstance(status.message, str), "a status counts")
    return status


add(Codec("Status", Status, _status_fields, _status))


def require(condition: bool, message: str) -> None:
    """Refuse a file for a reason."""
    if not condition:
        raise ModelFileError(message)


def is_array(value: Any, dimensions: int | None = None) -> bool:
    """Whether a value is an array of floating-point numbers."""
    right = isinstance(value, np.ndarray) and value.dtype == np.float64
    return right and (dimensions is None or value.ndim == dimensions)


def is_float(value: Any) -> bool:
    """Whether a value is a number, finite or not."""
    return isinstance(value, float | int) and not isinstance(value, bool)


def require_room(n: int) -> None:
    """Refuse a file whose matrices would not fit into memory, before they are allocated."""
    if n <= LARGE:
        return
    from cavity.numerics.memory import require_memory

    try:
        require_memory(n, "evidence")
    except MemoryError as error:
        raise ModelFileError(f"its {n} rows need more memory than is free ({error})") from None
