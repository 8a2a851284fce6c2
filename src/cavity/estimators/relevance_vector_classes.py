"""Relevance vectors for two classes: the sparse sum of bumps of `relevance_vectors` under a probit likelihood.

Given the precisions alpha, Laplace's method finds the most probable weights. There the likelihood has slopes g and
curvatures -b, so that the rows are, to second order, targets f + g / b with noise variances 1 / b. These have the
evidence of a regression, in which the best precision of one bump is closed as before (Tipping and Faul, 2003). Then the
mode is found again. Predictions add the bump of the new input itself (RVM*), as in regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.estimators.binary import BinaryClassifierMixin, two_classes
from cavity.estimators.relevance_vectors import Bumps, best_length, bumps_at, changed, require_positive
from cavity.likelihoods.probit import Probit
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import factorize
from cavity.prediction import GaussianPrediction

MOST_STEPS = 500
ENOUGH = 1e-6
"""Nats that a further step must promise."""

PATIENCE = 30
"""Steps without a higher evidence after which the search ends: a step is the best for targets that it then moves."""


@dataclass(frozen=True)
class Mode:
    """The most probable weights, the regression that has the same curvature there, and Laplace's log evidence."""

    bumps: Bumps
    root: Array
    residual: Array
    log_evidence: float

    @classmethod
    def of(cls, Phi: Array, sign: Array, active: Array, alpha: Array, start: Array) -> Mode:
        """Newton's method in v = alpha^1/2 w, whose Hessian I + V'B V is well conditioned; halved steps."""
        likelihood, V = Probit(), Phi[:, active] * alpha**-0.5

        def log_joint(v: Array) -> float:
            return float(np.sum(likelihood.log_prob(sign, V @ v)) - 0.5 * v @ v)

        v, value = start, log_joint(start)
        for _ in range(100):
            at = likelihood.derivatives(sign, V @ v)
            slope = V.T @ at.d1 - v
            step = factorize(lambda: np.eye(len(v)) - (V.T * at.d2) @ V).solve(slope)  # noqa: B023
            size = 1.0
            while (trial := log_joint(v + size * step)) < value - 1e-12 * abs(value) and size > 1e-8:
                size *= 0.5
            v, value = v + size * step, trial
            if float(slope @ step) < 1e-16 * max(1.0, abs(value)):
                break
        f = V @ v
        at = likelihood.derivatives(sign, f)
        root = np.sqrt(np.maximum(-at.d2, np.finfo(float).tiny))  # rows far on their side say nothing
        residual = at.d1 / root
        bumps = Bumps.of(root[:, None] * Phi, root * f + residual, active, alpha, 1.0)
        return cls(bumps, root, residual, value - 0.5 * bumps.factor.log_det)


class RelevanceVectorClassifier(BinaryClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two classes by few bumps at training inputs, with probabilities that return to one half away from them.

    Parameters
    ----------
    lengthscale : float or None
        Width of a bump, in units of the inputs (scale the columns first); None maximizes the evidence.
    collapse : bool
        Whether predictions leave out the bump of their own, as those of the original method: the function is then
        certain to be zero far from the others.

    Attributes
    ----------
    relevance_ : array of int
        Rows whose bumps are active.
    alpha_ : array
        Prior precisions of their weights.
    lengthscale_, log_evidence_ : float
        The evidence by Laplace's method.
    classes_ : array (2,)
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import RelevanceVectorClassifier
    >>> x = np.linspace(-3, 3, 60)[:, None]
    >>> model = RelevanceVectorClassifier().fit(x, np.abs(x[:, 0]) < 1)
    >>> len(model.relevance_) < 10, model.predict([[0.0], [2.0]])
    (True, array([ True, False]))
    """

    def __init__(self, lengthscale: float | None = None, *, collapse: bool = False) -> None:
        self.lengthscale, self.collapse = lengthscale, collapse

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose bumps, and their width if it was not given."""
        require_positive(self, "lengthscale")
        inputs, labels = validate_data(self, X, y, dtype=np.float64)
        more = "sklearn.multiclass.OneVsRestClassifier takes this one for more"
        self.classes_, sign = two_classes(labels, more)
        self._X = np.asarray(inputs)
        distances = cdist(self._X, self._X)

        def learned(length: float) -> Mode:
            return _learned(np.exp(-0.5 * (distances / length) ** 2), sign)

        if self.lengthscale is not None:
            self.lengthscale_ = float(self.lengthscale)
        else:
            self.lengthscale_ = best_length(distances, lambda width: learned(width).log_evidence)
        self._mode = learned(self.lengthscale_)
        order = np.argsort(self._mode.bumps.active)
        self.relevance_, self.alpha_ = self._mode.bumps.active[order], self._mode.bumps.alpha[order]
        self.log_evidence_ = self._mode.log_evidence
        return self

    def predict_latent(self, X: ArrayLike) -> GaussianPrediction:
        """The distribution of f at each row: the second class has probability Phi(f)."""
        check_is_fitted(self, "relevance_")
        new = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        mode = self._mode
        phi = bumps_at(new, self._X[mode.bumps.active], self.lengthscale_)
        own = None if self.collapse else bumps_at(self._X, new, self.lengthscale_) * mode.root[:, None]
        return GaussianPrediction(*mode.bumps.moments(phi, own, mode.residual))

    def decision_function(self, X: ArrayLike) -> Array:
        """Phi^-1 of the probability of the second class."""
        f = self.predict_latent(X)
        return np.asarray(f.mean / np.sqrt(1.0 + f.variance))

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class, averaged over f."""
        f = self.predict_latent(X)
        p = np.exp(Probit().predictive(f.mean, f.variance).log_prob(np.ones(len(f.mean))))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: ArrayLike) -> Array:
        """The more probable class."""
        second = self.decision_function(X) > 0
        return np.asarray(self.classes_[second.astype(int)])


def _learned(Phi: Array, sign: Array) -> Mode:
    """Bumps of one width, one at a time; of all sets of them the one of greatest evidence."""
    first = int(np.argmax((Phi.T @ sign) ** 2 / np.sum(Phi**2, axis=0)))
    mode = best = Mode.of(Phi, sign, cast(Array, np.array([first])), np.ones(1), np.zeros(1))
    stale = 0
    for _ in range(MOST_STEPS):
        j, value, gain = mode.bumps.next_step()
        if gain < ENOUGH or stale > PATIENCE:
            break
        before = dict(zip(mode.bumps.active.tolist(), mode.bumps.weights))
        active, alpha = changed(mode.bumps.active, mode.bumps.alpha, j, value)
        start = np.array([before.get(i, 0.0) for i in active.tolist()]) * alpha**0.5
        mode = Mode.of(Phi, sign, active, alpha, start)
        higher = mode.log_evidence > best.log_evidence
        best, stale = (mode, 0) if higher else (best, stale + 1)
    return best if stale > PATIENCE else mode
