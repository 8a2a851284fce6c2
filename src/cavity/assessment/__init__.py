"""`assess`: is an approximation any good on these data? Numbers, a verdict per method, and a picture.

Every method, and the gold standard, sees the same model at the same hyperparameters: annealed importance sampling for
the evidence, long Hamiltonian Monte Carlo for marginals and predictions. If the gold standard itself cannot be
certified in that time, the assessment says so and what time would be needed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.assessment.comparison import MethodResult, Predictive, compare, measured
from cavity.assessment.gold import Chains, GoldStandard, gold_standard, predict
from cavity.assessment.latent_inputs import LatentInputs, latent_inputs, of_known_inputs
from cavity.assessment.result import Assessment
from cavity.gp import GP
from cavity.inference.registry import as_inference
from cavity.likelihoods.binary import BinaryLikelihood
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError, Setting

__all__ = [
    "Assessment",
    "Chains",
    "GoldStandard",
    "LatentInputs",
    "MethodResult",
    "Predictive",
    "assess",
    "latent_inputs",
    "of_known_inputs",
]


def assess(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    inference: str | Sequence[str] = ("laplace", "ep", "variational"),
    max_time: float = 60.0,
    rng: int | np.random.Generator | None = 0,
    progress: Any = None,
) -> Assessment:
    """Check approximations against annealed importance sampling and Markov chains, at fixed hyperparameters.

    Parameters
    ----------
    model : GP or fitted GPRegressor or GPClassifier
        Its kernel, mean and likelihood values are held fixed, the same for all methods. One latent function per
        observation (binary classes, counts, any noise model).
    X, y : arrays (n, D), (n,)
        Training data; labels as the estimator knows them.
    X_test, y_test : arrays, optional
        Where to compare predictions, and targets for log loss and calibration.
    inference : str or sequence of str
        Inference rules to judge.
    max_time : float
        Seconds for the gold standard.
    rng : int or Generator, optional
    progress : optional
        As for the samplers: True, False, a callback.

    Returns
    -------
    Assessment
        Also after Ctrl-C, once chains have drawn anything: the approximations against the draws made so far, with
        `gold.chains.interrupted`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, assess
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> X = np.linspace(-2, 2, 15)[:, None]
    >>> y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    >>> result = assess(GP(4.0 * SE(1.0), Probit()), X, y, inference=["ep"], max_time=5.0)
    >>> result.certified, abs(result["ep"].evidence_error) < 0.1
    (True, True)
    """
    started = time.perf_counter()
    require_seconds(max_time)
    gp, X, y, y_test = _prepared(model, X, y, y_test)
    rules = [inference] if isinstance(inference, str) else inference
    for rule in rules:  # wrong ones before the chains, not after
        as_inference(rule, gp.likelihood)
    X_test = None if X_test is None else gp.inputs(X_test)
    if X_test is not None and X_test.shape[1] != X.shape[1]:
        raise ValueError(f"X_test must have the columns of X, {X.shape[1]}, got {X_test.shape[1]}")
    if X_test is None and y_test is not None:
        raise ValueError("y_test was given without X_test: give the test inputs too")
    if X_test is not None and y_test is not None and len(X_test) != len(y_test):
        raise ValueError(f"X_test and y_test must have as many rows, got {len(X_test)} and {len(y_test)}")
    rng = np.random.default_rng(rng)
    gold = gold_standard(gp, X, y, max_time=max_time, rng=rng, progress=progress)
    reference, own = None, Predictive()
    if X_test is not None:
        reference, _ = predict(gp, X, gold.chains, X_test)
        own = replace(
            measured(reference, reference, y_test), probability_error=0.0, largest_probability_error=0.0
        )
    results = [compare(m, gp, X, y, gold, X_test, y_test, reference, rng) for m in rules]
    return Assessment(tuple(results), gold, own, y, time.perf_counter() - started)


def require_seconds(max_time: float) -> None:
    """Refuse a limit of time that is no positive number of seconds."""
    if not (np.isfinite(max_time) and max_time > 0):
        problem = f"must be a positive number of seconds, got {max_time!r}"
        raise InputError(problem, parameter="max_time", value=max_time)


def _prepared(
    model: Any, X: ArrayLike, y: ArrayLike, y_test: ArrayLike | None
) -> tuple[GP, Array, Array, Array | None]:
    """The model at its hyperparameters, bound to the data, and targets as its likelihood writes them."""
    classes = getattr(model, "classes_", None)
    if not isinstance(model, GP):
        if hasattr(model, "estimators_"):
            raise ValueError(
                f"a {type(model).__name__} is made of several models; assess one of them, as in model.estimators_[0]"
            )
        if not hasattr(model, "model_"):
            raise ValueError(
                f"assess needs a GP or a fitted estimator, got {type(model).__name__}: call fit first"
            )
        model = model.model_
    if not isinstance(model, GP) or model.likelihood.n_latent > 1:
        raise ValueError(
            "assess compares models with one latent function per observation; this one has several "
            "(multi-class): assess one class against the rest"
        )
    if isinstance(model.mean, Basis):
        raise InputError(
            "assess needs a mean function without integrated basis weights",
            remedy=("use ", Setting("mean", ("constant", "zero")), " with a single target"),
        )
    bound, data = model.training(X, _targets(model, classes, y), basis_in_kernel=True)
    X_checked = data.X
    tested = None if y_test is None else bound.likelihood.check(_targets(model, classes, y_test))
    return bound, X_checked, bound.likelihood.check(_targets(model, classes, y)), tested


def _targets(model: GP, classes: Any, y: ArrayLike) -> Array:
    """Labels of an estimator as -1 and +1; everything else as it is."""
    if classes is None or not isinstance(model.likelihood, BinaryLikelihood):
        return np.asarray(y)
    labels = np.asarray(y)
    unknown = set(labels.tolist()) - set(np.asarray(classes).tolist())
    if unknown:
        raise ValueError(
            f"y has labels that the estimator does not know: {sorted(map(str, unknown))}; it knows {list(classes)}"
        )
    return np.where(labels == classes[1], 1.0, -1.0)
