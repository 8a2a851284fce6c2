"""A sentence per approximation: what the numbers mean for someone who has to decide.

An approximation is good enough for model choice if its evidence is within `NATS` of the gold standard, and good enough
for predictions if means and sds are within `MOMENTS` posterior standard deviations, root mean square, and probabilities
within `PROBABILITY` on average. Differences that the gold standard's own error covers do not count against it.
"""

from __future__ import annotations

import numpy as np

from cavity.assessment.comparison import MethodResult
from cavity.assessment.gold import GoldStandard

NATS = 1.0
MOMENTS = 0.2
PROBABILITY = 0.02

LABELS = {"ep": "EP", "laplace": "Laplace", "variational": "Variational", "exact": "Exact"}


def label(name: str) -> str:
    """How a method is written in a sentence."""
    return LABELS.get(name, name)


def duration(seconds: float) -> str:
    """Seconds or minutes, rounded up to what one would type."""
    if seconds < 90:
        return f"{int(np.ceil(seconds / 10) * 10)} s"
    return f"{int(np.ceil(seconds / 60))} min"


def verdict(method: MethodResult, gold: GoldStandard) -> str:
    """One sentence about one method."""
    name = label(method.name)
    if method.failure:
        return f"{name}: {method.failure.rstrip('.')}."
    found = ", ".join([_evidence_words(method, gold), _moment_words(method, gold)])
    if not method.converged:
        return f"{name}: did not converge ({method.stage}); {found}; do not rely on it."
    if not gold.certified:
        return f"{name}: {found}; no verdict, because the gold standard is not certified."
    return f"{name}: {found}; {_advice(method, gold)}."


def _evidence_words(method: MethodResult, gold: GoldStandard) -> str:
    error, noise = method.evidence_error, gold.evidence.standard_error
    if abs(error) <= NATS:
        return f"evidence within {max(abs(error), 0.01):.2g} +/- {noise:.2g} nats"
    side = "too low" if error < 0 else "too high"
    return f"evidence {abs(error):.3g} +/- {noise:.2g} nats {side}"


def _moment_words(method: MethodResult, gold: GoldStandard) -> str:
    return f"posterior means off by {method.mean_error:.2g} sd and sds by {100 * method.sd_error:.0f} % (rms)"


def _advice(method: MethodResult, gold: GoldStandard) -> str:
    noise = 3 * gold.evidence.standard_error
    evidence = abs(method.evidence_error) <= NATS + noise
    sampling = 2 / np.sqrt(gold.chains.ess)
    moments = max(method.mean_error, method.sd_error) <= MOMENTS + sampling
    p = method.predictive.probability_error
    predictions = not p > PROBABILITY + sampling
    if evidence and moments:
        return "use it"
    if moments and predictions:
        return "fine for predictions, not for comparing models by its evidence"
    if evidence:
        return "fine for comparing models, not for its error bars"
    if p <= PROBABILITY + sampling:
        return "its probabilities hold, but neither its evidence nor its latent function does"
    return "do not use it here"


def gold_words(gold: GoldStandard) -> str:
    """What the gold standard is worth."""
    evidence, chains = gold.evidence, gold.chains
    early = "interrupted, with the draws made so far; " if chains.interrupted else ""
    if gold.certified:
        return (
            f"{early}gold standard certified: log evidence {evidence.log_evidence:.2f} +/- "
            f"{evidence.standard_error:.2g} ({evidence.runs} annealing runs), {chains.reason}"
        )
    faults = []
    if not evidence.certified:
        faults.append(f"annealed importance sampling is not certified ({evidence.reason.rstrip('.')})")
    if not chains.believed:
        faults.append(f"the chains are not long enough ({chains.reason})")
    needed = 2 * max(
        0.0 if evidence.certified else evidence.seconds_needed,
        0.0 if chains.believed else chains.seconds_needed,
    )
    longer = f"; about {duration(needed)} would be needed" if np.isfinite(needed) else ""
    return f"{early}gold standard NOT certified: {' and '.join(faults)}{longer}"
