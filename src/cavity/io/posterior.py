"""Models and posteriors in model files.

A posterior is stored as its model, the data, the sites, the weights of its mean, and what inference said about itself.
Cholesky factors are computed again on loading, which keeps files small: for n rows a file holds O(n) numbers, not
O(n^2). Means are repeated to the bit on the same machine, variances to rounding errors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from cavity.gp import GP
from cavity.inference.base import Approximation, Status, TrainingData
from cavity.inference.exact import Exact
from cavity.inference.registry import adapted
from cavity.io.errors import ModelFileError
from cavity.io.records import is_array, is_float, require, store, typed
from cavity.io.registry import Codec, add
from cavity.kernels.base import Kernel
from cavity.latent.base import Representation
from cavity.latent.inducing import Inducing
from cavity.latent.inducing.conditioning import AtInducingInputs
from cavity.latent.inducing.refinement import RefinedProcess
from cavity.latent.multi_latent import SeveralConditioning, SeveralPrior
from cavity.latent.posterior_process import PosteriorProcess
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods import GaussianNoise, Likelihood, OneVsRest
from cavity.means.functions import Mean
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky
from cavity.numerics.threads import threads_for
from cavity.parameters.per_latent import PerLatent
from cavity.posterior import Posterior

GAP_KINDS = ("exact", "certified", "sampled", "window", "none")

LARGE = 2000
"""Rows from which the memory that is needed is compared to what is free."""


# --- models -------------------------------------------------------------------------------------------------


def _gp_fields(model: GP) -> dict[str, Any]:
    return {
        "kernel": model.kernel,
        "likelihood": model.likelihood,
        "mean": model.mean,
        "inference": model.inference,
        "representation": model.representation,
        "columns": model._columns,
        "names": model._names,
        "note": model._note,
    }


@typed
def _gp(
    kernel: Kernel | PerLatent,
    likelihood: Likelihood,
    mean: Mean | PerLatent,
    inference: Any,
    representation: Representation,
    columns: int | None,
    note: str,
    names: tuple[str, ...] | None = None,
) -> GP:
    require(columns != 0, "columns must be a count")
    require(names is None or len(names) == columns, "names must be one for each column")
    require(not isinstance(inference, str | None), "inference must be a rule")
    model = GP(
        list(kernel) if isinstance(kernel, PerLatent) else kernel,  # type: ignore[arg-type]
        likelihood,
        list(mean) if isinstance(mean, PerLatent) else mean,  # type: ignore[arg-type]
        inference,
        representation,
    )
    model._columns, model._names, model._note = columns, names, note
    return model


add(Codec("GP", GP, _gp_fields, _gp))


# --- posteriors ---------------------------------------------------------------------------------------------


def _posterior_fields(posterior: Posterior) -> dict[str, Any]:
    approximation, process, solution = posterior.approximation, posterior.process, None
    if isinstance(process, RefinedProcess):
        solution, process = process.solution, process.rough
    conditioning = getattr(process, "conditioning", None)
    weights = getattr(process, "weights", None)
    if conditioning is None or weights is None:
        raise ModelFileError(f"a posterior of the kind {type(process).__name__} cannot be stored")
    exact = isinstance(posterior.model.likelihood.noise, GaussianNoise) and isinstance(
        posterior.model.inference, Exact
    )
    return {
        "model": posterior.model,
        "X": posterior.data.X,
        "y": posterior.data.y,
        "sample_weight": posterior.data.weight,
        "sites": None if exact else approximation.sites,
        "log_evidence": approximation.log_evidence,
        "status": approximation.status,
        "curvature": getattr(conditioning, "curvature", None),
        "weights": weights,
        "factor": None if posterior.complete else np.tril(conditioning.B.lower),
        "solution": solution,
    }


def _approximation(
    model: GP,
    data: TrainingData,
    sites: Sites | None,
    curvature: Array | None,
    weights: Array,
    log_evidence: float,
    status: Status,
) -> Approximation:
    """What inference returned, computed from what is stored."""
    with threads_for(len(data.X)):
        prior = model.prior(data.inputs)
        if curvature is not None:
            found = _several(model.likelihood, prior, curvature)
            return Approximation(prior.process(weights, found), log_evidence, status)
        if sites is None:
            require(
                isinstance(model.likelihood.noise, GaussianNoise),
                "a posterior without sites needs Gaussian noise",
            )
            rule = model.inference if isinstance(model.inference, Exact) else Exact()
            exact = adapted(rule, model.likelihood).infer(prior, data.under(model.likelihood))
            process: Any = exact.process
            q, scale = exact.q, exact.scale
        else:
            q, scale = Conditioned(prior, sites), None
            process = q.process()
        require(process.weights.shape == weights.shape, "weights must be one for each row")
        process.weights = weights
        return Approximation(process, log_evidence, status, q, scale)


def _several(likelihood: Likelihood, prior: SeveralPrior, curvature: Array) -> SeveralConditioning:
    """What a curvature makes of several latent functions: of blocks, of a softmax, or of each function alone."""
    if curvature.ndim == 3:
        return prior.condition(curvature)
    if isinstance(likelihood, OneVsRest):
        return prior.condition_separately(curvature)
    return prior.condition_softmax(curvature)


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
    factor: Any = None,
    solution: Any = None,
) -> Posterior:
    check_data(model, X, y, sample_weight)
    model = model._bound(X)
    if factor is not None:
        return _from_inducing_inputs(model, X, y, sample_weight, log_evidence, status, weights, factor)
    _check_approximation(model, X, sites, curvature, weights)
    require(is_float(log_evidence), "log_evidence must be a number")
    require(isinstance(status, Status), "status must be a status")
    if model.representation.covariance_limit is None:
        require_room(len(X) * (model.likelihood.n_latent if curvature is not None else 1))
    data = TrainingData(X, y, sample_weight, model.representation.prepare(X))
    approximation = _approximation(model, data, sites, curvature, weights, float(log_evidence), status)
    if solution is not None:
        fits = is_array(solution) and solution.shape == y.shape and bool(np.isfinite(solution).all())
        require(isinstance(model.representation, Inducing) and fits, "a solution must be that of each row")
        exact = RefinedProcess(
            model.prior(data.inputs), cast(PosteriorProcess, approximation.process), solution, 0
        )
        approximation = replace(approximation, process=exact)
    data.inputs.release()
    posterior = Posterior(model, approximation, data)
    at_first = X[:1]
    require(
        bool(np.isfinite(posterior.mean(at_first)).all() and np.isfinite(posterior.variance(at_first)).all()),
        "its predictions are not finite",
    )
    return posterior


def _from_inducing_inputs(
    model: GP,
    X: Array,
    y: Array,
    sample_weight: Array | None,
    log_evidence: Any,
    status: Any,
    weights: Any,
    factor: Any,
) -> Posterior:
    """A posterior whose training rows were not kept: X and y are some of them."""
    representation = model.representation
    require(isinstance(representation, Inducing), "rows can be left out if there are inducing inputs only")
    assert isinstance(representation, Inducing)
    require(is_float(log_evidence) and isinstance(status, Status), "an evidence and a status must be known")
    data = TrainingData(X, y, sample_weight, representation.prepare(X))
    prior = representation.prior(model.kernel, model.mean, data.inputs)
    square = is_array(factor, 2) and factor.shape == (prior.m, prior.m)
    require(
        square and bool((np.diagonal(factor) > 0).all()), "the factor must be that of the inducing inputs"
    )
    right = is_array(weights) and len(weights) == prior.m and bool(np.isfinite(weights).all())
    require(right, "weights must be those of the inducing inputs")
    degenerate = not (representation.observation_kind().predicts_prior)
    at = AtInducingInputs(prior.root, Cholesky(np.ascontiguousarray(factor)), degenerate)
    process = PosteriorProcess(model.kernel, prior.inducing_rows, prior.Z, model.mean, weights, at)
    return Posterior(model, Approximation(process, float(log_evidence), status), data, complete=False)


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


def _check_approximation(model: GP, X: Array, sites: Any, curvature: Any, weights: Any) -> None:
    n, L = len(X), model.likelihood.n_latent
    require(sites is None or (isinstance(sites, Sites) and len(sites) == n), "sites must be one for each row")
    require(is_array(weights) and bool(np.isfinite(weights).all()), "weights must be finite numbers")
    if curvature is not None:
        fits = is_array(curvature) and curvature.shape in ((n, L), (n, L, L))
        require(L > 1 and fits, "curvature must be that of each row")
        require(weights.shape == (n, L), "weights must be those of each row")
    else:
        require(L == 1, "sites are for one latent function")


add(Codec("Posterior", Posterior, _posterior_fields, _posterior))


# --- statuses and checks ------------------------------------------------------------------------------------


def _check_status(status: Status) -> None:
    require(status.gap_kind in GAP_KINDS, "a status says what is lost")


store(Status, _check_status)


def require_room(n: int) -> None:
    """Refuse a file whose matrices would not fit into memory, before they are allocated."""
    if n <= LARGE:
        return
    from cavity.numerics.memory import require_memory

    try:
        require_memory(n, "evidence")
    except MemoryError as error:
        raise ModelFileError(f"its {n} rows need more memory than is free ({error})") from None
