"""What the members of a committee predict together.

With k the prior variance at a new input, mu_p and v_p moments of f - m under member p of P, every rule is

    1 / v = sum_p beta_p / v_p + (1 - sum_p beta_p) / k [unless "poe", "gpoe"],     mu = v sum_p beta_p mu_p / v_p

| rule | beta_p | the prior |
|---|---|---|
| "poe" product of experts | 1 | counted P times |
| "gpoe" generalized | 1 / P | counted once, since the weights add up to one |
| "bcm" Bayesian committee machine | 1 | the surplus is taken away |
| "rbcm" robust | (log k - log v_p) / 2, how much it has learned | the surplus is taken away |

Among several new inputs the same holds with covariance matrices (Rasmussen and Williams 2006, eq. 8.28 to 8.30), and
beta_p of "rbcm" is the mean over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import as_inputs
from cavity.latent.posterior_process import PosteriorProcess
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER, NotPositiveDefiniteError, factorize, try_factorize

if TYPE_CHECKING:
    from cavity.latent.committee.prior import CommitteeConditioning, CommitteePrior

RULES = ("gpoe", "bcm", "rbcm", "poe")


def member_weights(rule: str, variances: Array, prior: Array) -> tuple[Array, bool]:
    """beta (P, m), and whether the prior's surplus is taken away, for variances (P, m) and those of the prior (m,)."""
    if rule == "rbcm":
        return 0.5 * np.maximum(np.log(prior) - np.log(variances), 0.0), True
    share = 1.0 / len(variances) if rule == "gpoe" else 1.0
    return np.full_like(variances, share), rule == "bcm"


class CommitteeProcess:
    """The posterior process anywhere, by a committee.

    Parameters
    ----------
    prior : CommitteePrior
    weights : array (n,) or (n, T)
    conditioning : CommitteeConditioning
    """

    basis = None
    """There are no basis functions with weights integrated out."""

    def __init__(self, prior: CommitteePrior, weights: Array, conditioning: CommitteeConditioning) -> None:
        self.prior, self.weights, self.conditioning = prior, weights, conditioning

    def _members(self) -> list[PosteriorProcess]:
        """The processes of the members, without the mean function."""
        members = []
        for member, part, given in zip(self.prior.members, self.prior.parts, self.conditioning.members):
            process = member.process(self.weights[part], given)
            process.mean_function = None
            members.append(process)
        return members

    def _prior_mean(self, X: Array, like: Array) -> Array:
        mean = self.prior.mean_function
        level = np.zeros(len(X)) if mean is None else mean(X)
        return level if like.ndim == 1 else level[:, None]

    def _own(self, X: Array) -> Array:
        return self.prior.kernel._diag(self.prior.kernel._prepare(X, np.full(len(X), -1)))

    def moments(self, X: Array, rule: str | None = None) -> tuple[Array, Array]:
        """Means of f - m and variances of f, each row alone, by the committee's rule or another one."""
        members, own = self._members(), self._own(X)
        v = np.array([member.variance(X) for member in members])
        beta, corrected = member_weights(rule or self.prior.representation.rule, v, own)
        precision = np.sum(beta / v, axis=0)
        if corrected:
            precision += (1.0 - beta.sum(axis=0)) / own
        # "bcm" may leave next to nothing of a precision, and rounding then a negative one
        precision = np.maximum(precision, 1.0 / own)
        total = sum(((b / u) * member.mean(X).T).T for b, u, member in zip(beta, v, members))
        return (np.asarray(total).T / precision).T, 1.0 / precision

    def mean(self, X: ArrayLike) -> Array:
        """Shape (m,), or (m, T) for several targets."""
        new = as_inputs(X)
        moved = self.moments(new)[0]
        return np.asarray(self._prior_mean(new, moved) + moved)

    def variance(self, X: ArrayLike) -> Array:
        """Shape (m,)."""
        return self.moments(as_inputs(X))[1]

    def together(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and covariance (m, m) of f at several inputs at once: members then share what they know of each.

        One jitter for all matrices: no member is then less certain than the prior, and what is taken away of the
        precisions leaves a proper one.
        """
        new = as_inputs(X)
        members, kernel = self._members(), self.prior.kernel
        rows = kernel._prepare(new, np.arange(len(new)))
        K = kernel._block(rows, rows)
        v = np.array([member.variance(new) for member in members])
        beta, corrected = member_weights(self.prior.representation.rule, v, self._own(new))
        share = beta.mean(axis=1)
        parts = [(b, member.covariance(new), member.mean(new)) for b, member in zip(share, members)]
        if corrected:
            parts.append((1.0 - share.sum(), K, np.zeros_like(parts[0][2])))
        for jitter in JITTER_LADDER:
            found = _combined(parts, jitter * float(np.mean(np.diagonal(K))))
            if found is not None:
                return self._prior_mean(new, found[0]) + found[0], found[1]
        raise NotPositiveDefiniteError(
            f"the precisions of {len(members)} members at {len(new)} inputs leave no proper density together: predict "
            "fewer inputs at once, or use another rule"
        )

    def covariance(self, X: ArrayLike) -> Array:
        """Shape (m, m)."""
        cov = self.together(X)[1]
        return np.asarray(0.5 * (cov + cov.T))

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws, shape (size, m) or, for several targets, (size, m, T)."""
        rng = np.random.default_rng(rng)
        mean, cov = self.together(X)
        targets = 1 if mean.ndim == 1 else mean.shape[1]
        noise = factorize(cov.copy).multiply(rng.standard_normal((len(cov), size * targets)))
        draws = noise.reshape(len(cov), size, targets).transpose(1, 0, 2)
        return np.asarray(mean + draws[:, :, 0] if mean.ndim == 1 else mean + draws)


def _combined(parts: Sequence[tuple[float, Array, Array]], jitter: float) -> tuple[Array, Array] | None:
    """Mean and covariance of the product of normal densities with powers, means and covariances as given; None if a
    matrix is not positive definite."""
    precision, total = np.zeros_like(parts[0][1]), np.zeros_like(parts[0][2])
    identity = np.eye(len(precision))
    for power, cov, mean in parts:
        factor = try_factorize(cov + jitter * identity)
        if factor is None:
            return None
        precision += power * factor.solve(identity)
        total = total + power * factor.solve(mean)
    factor = try_factorize(0.5 * (precision + precision.T))
    return None if factor is None else (factor.solve(total), factor.solve(identity))
