"""How far EP's log evidence is off, in passing: importance sampling, and if that fails a short annealing.

Draws from EP's Gaussian, weighted for the posterior, cost next to nothing, and the shape of their tail (k-hat) says
whether their average can be believed; then it is right to about a tenth of a nat. A mode that EP has missed they do not
see; so half of the draws are from the Gaussian of Laplace's method, which often stands at another. If they cannot be
believed, and it seems that much is amiss, runs are annealed from EP's Gaussian to the posterior. Their weights spread
if they do not arrive. Averages of weights are far too low if a mode is missed and seldom far too high: an annealing
that finds clearly less than the draws have found is not believed.

For log-concave likelihoods EP's evidence is right to a few hundredths of a nat, and nothing is checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cavity.inference.base import Stage
from cavity.latent.base import Capability
from cavity.posterior import Posterior
from cavity.runtime.errors import Message, Setting
from cavity.runtime.progress import Progress
from cavity.sampling.annealing.ais import annealed_importance_sampling
from cavity.sampling.annealing.certificate import LARGEST_SD
from cavity.sampling.psis import importance_evidence

DRAWS = 2000
RUNS, STEPS = 16, 40
"""Of annealing: on Boston housing and on simulated outliers the log weights of so few steps spread by 0.4 to 0.6."""

NATS = 1.0
"""Error from which models should not be compared by their evidence. If draws suggest one, unreliably, runs are
annealed, unless it is hopeless."""

HOPELESS = 30.0

LARGEST = 1000
"""Rows up to which a check costs little."""

EP_STAGES = (Stage.EP, Stage.EP_NEWTON, Stage.EP_CONTINUATION)


@dataclass(frozen=True)
class EvidenceCheck:
    """What was found.

    Attributes
    ----------
    error : float
        Log evidence of EP less that of the check, in nats.
    standard_error : float
    known : bool
        Whether the check can be believed.
    """

    error: float
    standard_error: float
    known: bool

    @property
    def message(self) -> Message | None:
        """A warning, if models should not be compared by this evidence."""
        remedy = ("compare models by rows left out, or by ", Setting("inference", "mcmc"))
        if not self.known:
            return Message(
                ("EP's log evidence may be off: sampling did not confirm it",),
                remedy=remedy,
            )
        if abs(self.error) <= max(NATS, 2.0 * self.standard_error):
            return None
        side = "high" if self.error > 0 else "low"
        by = f"{abs(self.error):.1f} nats, with a standard error of {max(self.standard_error, 0.05):.1g}"
        return Message((f"EP's log evidence is too {side} by about {by}",), remedy=remedy)


def check_evidence(posterior: Posterior, rng: int = 0) -> EvidenceCheck | None:
    """The error of EP's log evidence; None if the rule is another, or nothing need or can be checked in passing.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import StudentT
    >>> X = np.linspace(0, 3, 12)[:, None]
    >>> y = np.sin(X[:, 0]) + np.where(np.arange(12) == 5, 2.0, 0.0)
    >>> found = check_evidence(GP(1.0 * SE(1.0), StudentT(0.1, 3.0), inference="ep").condition(X, y))
    >>> found.known, abs(found.error) < 0.5, found.message
    (True, True, None)
    """
    model, y = posterior.model, posterior.data.y
    skipped = posterior.status.stage not in EP_STAGES or model.likelihood.log_concave
    dense = Capability.COVARIANCE in model.representation.capabilities
    if skipped or not dense or model.likelihood.n_latent != 1 or len(y) > LARGEST:
        return None
    drawn = importance_evidence(posterior, DRAWS, also=_elsewhere(posterior), rng=rng)
    error = posterior.log_evidence - drawn.log_evidence
    if drawn.certified or abs(error) <= NATS:
        return EvidenceCheck(error, drawn.standard_error, True)
    if not abs(error) <= HOPELESS:
        return EvidenceCheck(error, drawn.standard_error, False)
    with Progress("checking the log evidence", 2 * STEPS) as progress:
        annealed = annealed_importance_sampling(
            model,
            posterior.process.X,
            y,
            runs=RUNS,
            steps=STEPS,
            start="ep",
            sample_weight=posterior.data.weight,
            rng=rng,
            progress=progress,
        )
    error = posterior.log_evidence - annealed.log_evidence
    missed = drawn.log_evidence - annealed.log_evidence > NATS
    known = annealed.sd_log_weights <= LARGEST_SD and bool(np.isfinite(error)) and not missed
    return EvidenceCheck(error, annealed.standard_error, known)


def _elsewhere(posterior: Posterior) -> list[Posterior]:
    """The posterior of Laplace's method, if there is one that is a Gaussian."""
    data, model = posterior.data, posterior.model
    try:
        found = model.with_inference("laplace").condition(posterior.process.X, data.y, data.weight)
    except (ValueError, np.linalg.LinAlgError):
        return []
    return [found] if found.approximation.sites is not None else []
