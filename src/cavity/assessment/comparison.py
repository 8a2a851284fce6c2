"""One approximation held against the gold standard: errors in nats, in posterior sds, in probability."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from cavity.assessment.gold import Chains, GoldStandard
from cavity.gp import GP
from cavity.inference.base import InferenceFailedError, UnsupportedPairError
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.prediction import CategoricalPrediction, Prediction
from cavity.prediction.calibration import expected_calibration_error
from cavity.sampling.psis import importance_evidence

BINS = 20
"""Bins of equal probability under the approximation, for total variation."""


@dataclass(frozen=True)
class Predictive:
    """A method's predictions at the test inputs beside those of the chains.

    Attributes
    ----------
    log_loss : float
        Mean of -log p(y_test); nan without test targets.
    calibration_error : float
        Of classes: expected calibration error. Of numbers: how far the share of test targets in the central 90 %
        interval is from 0.9.
    probability_error, largest_probability_error : float
        Mean and largest difference to the chains of the probability of a class, or of the distribution function at the
        test targets (at the chains' median if there are none).

    Examples
    --------
    >>> from cavity.assessment import Predictive
    >>> Predictive(log_loss=0.4, probability_error=0.01).log_loss
    0.4
    """

    log_loss: float = np.nan
    calibration_error: float = np.nan
    probability_error: float = np.nan
    largest_probability_error: float = np.nan
    probability: Array = field(default_factory=lambda: np.zeros(0), repr=False)


@dataclass(frozen=True)
class MethodResult:
    """What one approximation is worth on these data.

    Errors of moments are in posterior standard deviations under the chains: `mean_error` is the root mean square of
    (m - m_gold) / sd_gold, `sd_error` that of sd / sd_gold - 1; the largest are beside them. `total_variation` is the
    median over marginals of the distance to the chains' marginal, of which `total_variation_noise` would be seen even
    for equal distributions, because chains are finite.

    Examples
    --------
    >>> from cavity.assessment import MethodResult
    >>> MethodResult("ep", converged=True, evidence_error=-0.1).evidence_error
    -0.1
    """

    name: str
    failure: str = ""
    converged: bool = False
    stage: str = ""
    log_evidence: float = np.nan
    evidence_error: float = np.nan
    mean_error: float = np.nan
    largest_mean_error: float = np.nan
    sd_error: float = np.nan
    largest_sd_error: float = np.nan
    total_variation: float = np.nan
    largest_total_variation: float = np.nan
    total_variation_noise: float = np.nan
    k_hat: float = np.nan
    seconds: float = np.nan
    predictive: Predictive = field(default_factory=Predictive)
    mean: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    sd: Array = field(default_factory=lambda: np.zeros(0), repr=False)


def compare(
    name: str,
    model: GP,
    X: Array,
    y: Array,
    gold: GoldStandard,
    X_test: Array | None,
    y_test: Array | None,
    reference: Prediction | None,
    rng: np.random.Generator,
) -> MethodResult:
    """Run one approximation and measure it."""
    started = time.perf_counter()
    try:
        posterior = GP(model.kernel, model.likelihood, model.mean, name, model.representation).condition(X, y)
    except UnsupportedPairError as error:
        return MethodResult(name, failure=f"does not apply here: {error}")
    except (InferenceFailedError, np.linalg.LinAlgError) as error:
        return MethodResult(name, failure=f"failed: {error}")
    seconds = time.perf_counter() - started
    mean, sd = posterior.mean(X), np.sqrt(posterior.variance(X))
    F = gold.chains.pooled
    gold_mean, gold_sd = F.mean(axis=0), F.std(axis=0)
    shift, spread = (mean - gold_mean) / gold_sd, sd / gold_sd - 1
    distance, noise = total_variation(gold.chains, mean, sd)
    return MethodResult(
        name,
        converged=posterior.status.converged,
        stage=posterior.status.label,
        log_evidence=posterior.log_evidence,
        evidence_error=posterior.log_evidence - gold.evidence.log_evidence,
        mean_error=float(np.sqrt(np.mean(shift**2))),
        largest_mean_error=float(np.max(np.abs(shift))),
        sd_error=float(np.sqrt(np.mean(spread**2))),
        largest_sd_error=float(np.max(np.abs(spread))),
        total_variation=float(np.median(distance)),
        largest_total_variation=float(np.max(distance)),
        total_variation_noise=noise,
        k_hat=_k_hat(posterior, rng),
        seconds=seconds,
        predictive=_predictive(posterior, X_test, y_test, reference),
        mean=mean,
        sd=sd,
    )


def total_variation(chains: Chains, mean: Array, sd: Array) -> tuple[Array, float]:
    """Distance of each marginal N(mean, sd^2) to that of the chains, (n,), and what finite chains alone would show.

    Over bins of equal probability under the approximation, 1/2 sum_k |p_k - 1/K|. With N effective draws the counts of
    equal distributions have standard error sqrt((1 - 1/K) / (K N)) each.
    """
    level = ndtr((chains.pooled - mean) / sd)
    bins = np.minimum((level * BINS).astype(np.int64), BINS - 1)
    counts = np.stack([np.sum(bins == k, axis=0) for k in range(BINS)])
    distance = 0.5 * np.sum(np.abs(counts / len(level) - 1 / BINS), axis=0)
    draws = min(chains.ess, len(level))
    noise = 0.5 * BINS * np.sqrt(2 / np.pi) * np.sqrt((1 - 1 / BINS) / (BINS * draws))
    return distance, float(noise)


def _k_hat(posterior: Posterior, rng: np.random.Generator) -> float:
    """Shape of the tail of importance weights from the approximation; nan if it has no sites."""
    if posterior.approximation.sites is None:
        return float("nan")
    try:
        return importance_evidence(posterior, 4000, rng=rng).k_hat
    except (ValueError, np.linalg.LinAlgError):
        return float("nan")


def measured(prediction: Prediction, reference: Prediction, y_test: Array | None) -> Predictive:
    """Log loss, calibration, and the difference in probability to a reference."""
    at = _where(reference, y_test)
    ours, theirs = prediction.cdf(at), reference.cdf(at)
    gap = np.abs(ours - theirs)
    loss = calibration = np.nan
    if y_test is not None:
        loss = float(-np.mean(prediction.log_prob(y_test)))
        calibration = _calibration(prediction, y_test)
    return Predictive(loss, calibration, float(gap.mean()), float(gap.max()), np.asarray(ours))


def _where(reference: Prediction, y_test: Array | None) -> Array:
    """Values of y at which distribution functions are compared."""
    if isinstance(reference, CategoricalPrediction):
        return np.full(len(reference), reference.values[0])
    return reference.quantile(0.5) if y_test is None else y_test


def _calibration(prediction: Prediction, y: Array) -> float:
    if isinstance(prediction, CategoricalPrediction) and len(prediction.values) == 2:
        return expected_calibration_error(prediction.probabilities[:, 1], y == prediction.values[1])
    level = prediction.cdf(y)  # in the central 90 % interval exactly if between these levels
    return float(abs(np.mean((level >= 0.05) & (level <= 0.95)) - 0.9))


def _predictive(
    posterior: Posterior, X_test: Array | None, y_test: Array | None, reference: Prediction | None
) -> Predictive:
    if X_test is None or reference is None:
        return Predictive()
    return measured(posterior.predict_y(X_test), reference, y_test)
