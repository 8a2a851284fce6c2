"""PAC-Bayes bounds: a limit on the error of a classifier on new cases that holds with probability 1 - delta,
whatever made them.

For a prior p over functions that does not depend on the data and any q (McAllester, 1999; Seeger, 2002; Maurer,
2004; Rasmussen and Williams, 2006, section 7.4), with R^ the share of errors of the Gibbs classifier, which draws
a function of q for each case:

    McAllester    R <= R^ + sqrt((KL + log(1/delta) + log n + 2) / (2n - 1))
    Seeger        KL_Ber(R^ || R) <= (KL + log((n + 1) / delta)) / n
    Maurer        KL_Ber(R^ || R) <= (KL + log(2 sqrt(n) / delta)) / n

**The prior must not have seen the data.** Hyperparameters that maximize the evidence of the same rows void the
theorem. So `pac_bayes` asks how many settings they were chosen from: 1 if they were fixed before, K if they are
the best of K that were fixed before, which costs log K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, xlogy

from cavity.latent.prior_times_sites import Conditioned
from cavity.runtime.checks import require_inside, require_integer, require_one_of
from cavity.runtime.errors import InputError

BOUNDS = ("seeger", "mcallester", "maurer")


@dataclass(frozen=True)
class RiskBound:
    """A bound on the error of the Gibbs classifier; that of the averaged classifier is below twice as much.

    Attributes
    ----------
    bound : float
    training_error : float
        Of the Gibbs classifier.
    divergence : float
        KL(q || p), in nats.
    delta : float
    """

    bound: float
    training_error: float
    divergence: float
    delta: float


def gibbs_bound(
    training_error: float, divergence: float, n: int, delta: float, kind: str = "seeger"
) -> float:
    """The bound from its ingredients.

    Examples
    --------
    >>> from cavity.theory import gibbs_bound
    >>> [round(gibbs_bound(0.05, 10.0, 200, 0.05, kind), 6) for kind in ("seeger", "mcallester", "maurer")]
    [0.197379, 0.275527, 0.186667]
    """
    require_inside(delta, "delta")
    if not 0 <= training_error <= 1:
        raise InputError(
            f"must lie between 0 and 1, got {training_error!r}",
            parameter="training_error",
            value=training_error,
        )
    if not divergence >= 0:
        raise InputError(
            f"must not be negative, got {divergence!r}", parameter="divergence", value=divergence
        )
    if not n >= 1:
        raise InputError(f"must be at least 1, got {n!r}", parameter="n", value=n)
    if kind == "mcallester":
        slack = (divergence - np.log(delta) + np.log(n) + 2.0) / (2.0 * n - 1.0)
        return float(min(training_error + np.sqrt(slack), 1.0))
    require_one_of(kind, "kind", BOUNDS)
    constant = np.log(n + 1.0) if kind == "seeger" else np.log(2.0 * np.sqrt(n))
    limit = (divergence + constant - np.log(delta)) / n

    def excess(r: float) -> float:
        q = training_error
        return float(xlogy(q, q / r) + xlogy(1 - q, (1 - q) / (1 - r)) - limit)

    top = 1.0 - 1e-15
    if excess(top) < 0:
        return 1.0
    return float(brentq(excess, max(training_error, 1e-300), top, xtol=1e-14))


def pac_bayes(posterior: Any, delta: float = 0.01, *, chosen_from: int, kind: str = "seeger") -> RiskBound:
    """A bound for a Gaussian process classifier of two classes.

    Parameters
    ----------
    posterior : Posterior
        Of a model with a binary likelihood, by EP, Laplace's method or the variational rule: what `GP.condition` gives.
    delta : float
        The bound may fail with this probability.
    chosen_from : int
        Number of settings of the hyperparameters, fixed before the data were seen, of which these are one. There is no
        number for hyperparameters that were learned from the same rows: learn them from other rows, and say 1.
    kind : {"seeger", "mcallester", "maurer"}

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> from cavity.theory import pac_bayes
    >>> posterior = GP(4.0 * SE(1.0), Probit()).condition([[-2.0], [-1.0], [0.5], [1.0], [2.5]], [-1, -1, 1, -1, 1])
    >>> found = pac_bayes(posterior, 0.05, chosen_from=1)
    >>> round(found.divergence, 6), round(found.training_error, 6)
    (1.534096, 0.27423)
    """
    approximation = getattr(posterior, "approximation", None)
    if approximation is None or posterior.learned:
        raise InputError(
            "must be what GP.condition gives: the hyperparameters of this one were learned from the rows that the "
            "bound would be computed from, which voids it",
            parameter="posterior",
            value=posterior,
            remedy="learn them from one half of the rows and condition on the other, learned.model.condition(X, y), or "
            "choose them from a grid that was fixed before and give its size as chosen_from",
        )
    require_integer(chosen_from, "chosen_from", 1)
    q, y = approximation.q, np.asarray(posterior.data.y, dtype=float)
    if not isinstance(q, Conditioned) or approximation.sites is None or set(np.unique(y)) - {-1.0, 1.0}:
        raise InputError(
            "must be of a model of two classes, with sites", parameter="posterior", value=posterior
        )
    error = float(np.mean(ndtr(-y * q.mean / np.sqrt(q.var))))
    divergence = float(q.kl)
    bound = gibbs_bound(error, divergence + float(np.log(chosen_from)), len(y), delta, kind)
    return RiskBound(bound, error, divergence, delta)
