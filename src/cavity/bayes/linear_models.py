"""Bayesian linear and logistic regression: the posterior of the weights, in closed form and by Laplace's method.

    y = b + x'w + noise,   w ~ N(0, weight_sd^2 I),   b ~ N(0, intercept_sd^2)

and for two classes p(y = 1) = link(b + x'w). They are Gaussian processes with the linear kernel (Rasmussen and
Williams, 2006, sections 2.1 and 3.2), written in the d weights instead of the n function values. Scales that are
not given maximize the evidence.

Notation: Z the inputs with a column of ones before them; s the prior variances of all weights; S the posterior
covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog, minimize
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.bayes.conjugate import ImproperPriorError
from cavity.bayes.gaussian import Gaussian
from cavity.estimators.binary import BinaryClassifierMixin, two_classes
from cavity.likelihoods import Logit, Probit
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize
from cavity.numerics.special import LOG_2PI
from cavity.prediction import GaussianPrediction
from cavity.runtime.checks import is_number
from cavity.runtime.errors import InputError

RANGE = 1e8
"""How far a learned scale may go from its start, either way."""


class _LinearModel(BaseEstimator):  # type: ignore[misc]
    """What both share: inputs with an intercept, prior variances, the posterior of the weights."""

    weights_: Gaussian

    def __init__(self, weight_sd: float | None, intercept_sd: float | None) -> None:
        self.weight_sd, self.intercept_sd = weight_sd, intercept_sd

    def _checked_scale(self, name: str, infinite: bool = False) -> float | None:
        value = getattr(self, name)
        if value is None:
            return None
        if not is_number(value) or not value > 0 or (np.isinf(value) and not infinite):
            raise InputError(
                f"must be a positive number or None, got {value!r}",
                parameter=name,
                value=value,
                remedy="None learns it; a flat prior has no evidence, a large finite number says as little",
            )
        return float(value)

    @staticmethod
    def _best_scales(
        given: list[float | None],
        start: Array,
        evidence: Callable[[Array], tuple[float, Array, Gaussian]],
        furthest: float,
    ) -> Array:
        """Scales as given, and where none is, of greatest evidence, at most `furthest` times the start.

        `evidence` of scales comes with its gradient in their logs.
        """
        scales = np.array([s if g is None else g for g, s in zip(given, start)])
        free = np.array([g is None for g in given])

        def negative(log_free: Array) -> tuple[float, Array]:
            trial = np.log(scales)
            trial[free] = log_free
            value, gradient, _ = evidence(np.exp(trial))
            return -value, -gradient[free]

        if free.any():
            at = np.log(scales[free])
            bounds = [(v - np.log(RANGE), v + np.log(furthest)) for v in at]
            scales[free] = np.exp(minimize(negative, at, jac=True, method="L-BFGS-B", bounds=bounds).x)
        return scales

    @staticmethod
    def _with_ones(X: Array) -> Array:
        return np.column_stack([np.ones(len(X)), X])

    def _inputs(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "weights_")
        return self._with_ones(cast(Array, validate_data(self, X, reset=False, dtype=np.float64)))

    @property
    def coef_(self) -> Array:
        """Posterior means of the weights."""
        means = self.weights_.mean[1:]
        return means[None] if isinstance(self, ClassifierMixin) else means

    @property
    def intercept_(self) -> Any:
        """Posterior mean of the intercept."""
        mean = self.weights_.mean[0]
        return np.array([mean]) if isinstance(self, ClassifierMixin) else float(mean)

    def _latent(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of b + x'w."""
        Z = self._inputs(X)
        return Z @ self.weights_.mean, np.einsum("ij,jk,ik->i", Z, self.weights_.covariance, Z)

    def predict_latent(self, X: ArrayLike) -> GaussianPrediction:
        """The distribution of b + x'w at each row."""
        return GaussianPrediction(*self._latent(X))


def _spread(a: Array) -> float:
    """A typical size of numbers: their sd, or their size, or one."""
    for value in (float(np.std(a)), float(np.sqrt(np.mean(a**2)))):
        if value > 0:
            return value
    return 1.0


def _reduced(Z: Array, y: Array) -> tuple[Array, Array, float]:
    """As many rows as columns with the same least squares, and the squares that no weights explain."""
    if len(Z) <= Z.shape[1]:
        return Z, y, 0.0
    Q, R = np.linalg.qr(Z)
    seen = Q.T @ y
    rest = y - Q @ seen
    rest -= Q @ (Q.T @ rest)  # once more, against rounding of a large level
    return R, seen, float(rest @ rest)


def _log_det_and_inverse(H: Array) -> tuple[float, Array, Cholesky]:
    factor = factorize(lambda: H.copy())
    return factor.log_det, factor.solve(np.eye(len(H))), factor


class BayesianLinearRegression(RegressorMixin, _LinearModel):  # type: ignore[misc]
    """Linear regression with the posterior of its weights.

    Parameters
    ----------
    weight_sd, intercept_sd : float or None
        Prior sd of the weights (one for all: scale the columns first if they have different units) and of the
        intercept; None maximizes the evidence.
    noise_sd : float or None
        Likewise.

    Attributes
    ----------
    weights_ : Gaussian
        Posterior of (intercept, weights).
    coef_, intercept_ : posterior means
    weight_sd_, intercept_sd_, noise_sd_ : float
    log_evidence_ : float
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.bayes import BayesianLinearRegression
    >>> model = BayesianLinearRegression(2.0, 2.0, 0.5).fit(np.arange(4)[:, None], [1, 3, 2, 5])
    >>> model.weights_.mean.round(4), round(model.log_evidence_, 4)
    (array([1.0738, 1.1063]), -10.9008)
    """

    def __init__(
        self, weight_sd: float | None = None, intercept_sd: float | None = None, noise_sd: float | None = None
    ) -> None:
        super().__init__(weight_sd, intercept_sd)
        self.noise_sd = noise_sd

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the scales that were not given, and condition on the data."""
        given = [self._checked_scale(name) for name in ("weight_sd", "intercept_sd", "noise_sd")]
        checked, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(targets, dtype=float)
        Z, scale = self._with_ones(np.asarray(checked)), _spread(y)
        slope = scale / _spread(Z[:, 1:])
        level = max(abs(float(np.mean(y))), scale, slope * float(np.abs(Z[:, 1:].mean(axis=0)).max()))
        start = np.array([slope, level, 0.5 * scale])
        evidence = partial(self._evidence, *_reduced(Z, y), len(y))
        scales = self._best_scales(given, start, evidence, RANGE)
        self.log_evidence_, _, self.weights_ = evidence(scales)
        self.weight_sd_, self.intercept_sd_, self.noise_sd_ = map(float, scales)
        return self

    @staticmethod
    def _evidence(Z: Array, y: Array, left: float, n: int, scales: Array) -> tuple[float, Array, Gaussian]:
        """Log evidence, its gradient in the logs of (weight, intercept, noise) sd, and the posterior of the weights.

        `Z`, `y` and `left` are what `_reduced` made of n rows.
        """
        d, noise = Z.shape[1], scales[2] ** 2
        s = np.concatenate([[scales[1] ** 2], np.full(d - 1, scales[0] ** 2)])
        root = np.sqrt(s)  # in units of the prior sd, H = I + R Z'Z R / noise
        scaled = Z * (root / scales[2])
        log_det, inverse, factor = _log_det_and_inverse(np.eye(d) + scaled.T @ scaled)
        m = root * factor.solve(scaled.T @ y / scales[2])
        e = y - Z @ m
        residual = float(e @ e) + left
        fit = residual / noise + float(np.sum(m * m / s))
        value = -0.5 * (n * (LOG_2PI + np.log(noise)) + log_det + fit)
        shares = np.diag(inverse) + m * m / s - 1.0  # in each prior variance: (S_jj + m_j^2) / s_j - 1
        explained = d - float(np.trace(inverse))  # tr(S Z'Z) / noise
        gradient = np.array([shares[1:].sum(), shares[0], residual / noise + explained - n])
        S = root[:, None] * inverse * root
        return float(value), gradient, Gaussian(m, 0.5 * (S + S.T))

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Means of new targets, and their sd on request."""
        mean, var = self._latent(X)
        return (mean, np.sqrt(var + self.noise_sd_**2)) if return_std else mean

    def predict_dist(self, X: ArrayLike) -> GaussianPrediction:
        """The distribution of a new target at each row."""
        mean, var = self._latent(X)
        return GaussianPrediction(mean, var + self.noise_sd_**2)


LINKS = {"logit": Logit, "probit": Probit}


class BayesianLogisticRegression(BinaryClassifierMixin, _LinearModel):
    """Logistic (or probit) regression of two classes with a Gaussian for the weights, by Laplace's method.

    Probabilities are averaged over the weights: less certain than those of the best weights alone ("moderated").

    Parameters
    ----------
    weight_sd, intercept_sd : float or None
        Prior sd of the weights and of the intercept; None maximizes the (Laplace) evidence; inf is a flat prior,
        which labels that a plane separates do not allow.
    link : {"logit", "probit"}

    Attributes
    ----------
    weights_ : Gaussian
        Of (intercept, weights).
    coef_, intercept_ : most probable values
    log_evidence_ : float
        By Laplace's method; refused for flat priors.
    classes_ : array (2,)
    weight_sd_, intercept_sd_ : float
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.bayes import BayesianLogisticRegression
    >>> x, y = np.array([-2, -1, -0.5, 0.5, 1, 2])[:, None], [0, 0, 1, 0, 1, 1]
    >>> model = BayesianLogisticRegression(2.0, 2.0).fit(x, y)
    >>> model.coef_.round(4), round(model.log_evidence_, 4)
    (array([[1.0927]]), -4.646)
    """

    def __init__(
        self, weight_sd: float | None = None, intercept_sd: float | None = None, link: str = "logit"
    ) -> None:
        super().__init__(weight_sd, intercept_sd)
        self.link = link

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the scales that were not given, and find mode and curvature."""
        given = [self._checked_scale(name, infinite=True) for name in ("weight_sd", "intercept_sd")]
        if self.link not in LINKS:
            raise InputError(
                f"must be one of {', '.join(LINKS)}, got {self.link!r}", parameter="link", value=self.link
            )
        checked, labels = validate_data(self, X, y, dtype=np.float64)
        self.classes_, sign = two_classes(labels, "use GPClassifier for more")
        Z = self._with_ones(np.asarray(checked))
        slope = 1.0 / _spread(Z[:, 1:])
        start = np.array([slope, max(1.0, slope * float(np.abs(Z[:, 1:].mean(axis=0)).max()))])
        flat = [scale == np.inf for scale in given]
        if any(flat):
            self._require_overlap(Z[:, np.repeat(flat[::-1], [1, Z.shape[1] - 1])], Z, sign)
        evidence = partial(self._laplace, Z, sign)
        scales = self._best_scales(given, start, evidence, 1e3)
        self._log_evidence, _, self.weights_ = evidence(scales)
        self.weight_sd_, self.intercept_sd_ = map(float, scales)
        return self

    @property
    def log_evidence_(self) -> float:
        """Log evidence by Laplace's method."""
        check_is_fitted(self, "weights_")
        if np.isinf(self.weight_sd_) or np.isinf(self.intercept_sd_):
            raise ImproperPriorError("a flat prior of the weights", "an evidence")
        return self._log_evidence

    @staticmethod
    def _require_overlap(flat: Array, Z: Array, sign: Array) -> None:
        """Refuse labels for which the likelihood grows without bound along a direction with a flat prior."""
        margins = sign[:, None] * flat
        found = linprog(
            -margins.sum(axis=0),
            A_ub=np.vstack([-margins, margins]),
            b_ub=np.concatenate([np.zeros(len(Z)), np.ones(len(Z))]),
            bounds=(None, None),
        )
        if found.status == 0 and float(found.fun or 0.0) < -1e-8:
            raise InputError(
                "is flat, and a plane separates the classes: the likelihood grows for ever as the weights do",
                parameter="weight_sd",
                value=np.inf,
                remedy="give the weights a finite prior sd, such as weight_sd=2.5 for standardized columns",
            )
        if np.linalg.matrix_rank(flat) < flat.shape[1]:
            raise InputError(
                "is flat, and columns of X depend on each other: their weights cannot be told apart",
                parameter="weight_sd",
                value=np.inf,
                remedy="drop columns, or give a finite prior sd",
            )

    def _laplace(self, Z: Array, sign: Array, scales: Array) -> tuple[float, Array, Gaussian]:
        """Laplace's log evidence, its gradient in the logs of (weight, intercept) sd, and the Gaussian of the weights.

        Constants of flat priors are left out: sd inf counts as a prior density of one.
        """
        likelihood, d = LINKS[self.link](), Z.shape[1]
        with np.errstate(divide="ignore"):
            precision = np.concatenate([[scales[1] ** -2.0], np.full(d - 1, scales[0] ** -2.0)])

        def log_joint(w: Array) -> float:
            return float(np.sum(likelihood.log_prob(sign, Z @ w)) - 0.5 * np.sum(precision * w * w))

        w, value = np.zeros(d), log_joint(np.zeros(d))
        for _ in range(200):  # Newton's method on a concave function, with halved steps
            p = likelihood.derivatives(sign, Z @ w)
            H = Z.T @ (-p.d2[:, None] * Z) + np.diag(precision)
            gradient = Z.T @ p.d1 - precision * w
            step = _log_det_and_inverse(H)[2].solve(gradient)
            decrement = float(gradient @ step)
            size = 1.0
            while (trial := log_joint(w + size * step)) < value - 1e-12 * abs(value) and size > 1e-10:
                size *= 0.5
            w, value = w + size * step, trial
            if decrement < 1e-18 * max(1.0, abs(value)):
                break
        p = likelihood.derivatives(sign, Z @ w)
        H = Z.T @ (-p.d2[:, None] * Z) + np.diag(precision)
        log_det, S, _ = _log_det_and_inverse(H)
        proper = precision > 0
        log_prior = 0.5 * float(np.sum(np.log(precision[proper])) - (d - proper.sum()) * -LOG_2PI)
        evidence = value + log_prior - 0.5 * log_det
        # w moves with a prior variance: H dw = precision w of the group; and with w the curvature of every row
        by_row = np.einsum("ij,jk,ik->i", Z, S, Z) * p.d3
        first = np.arange(d) == 0
        gradient = np.empty(2)
        for k, group in enumerate((~first, first)):
            pull = np.where(group, precision * w, 0.0)
            explicit = np.sum(pull * w) - np.sum(np.where(group & proper, 1.0 - np.diag(S) * precision, 0.0))
            gradient[k] = explicit + by_row @ (Z @ (S @ pull))
        return evidence, gradient, Gaussian(w, 0.5 * (S + S.T))

    def decision_function(self, X: ArrayLike) -> Array:
        """b + x'w at the most probable weights."""
        return self._latent(X)[0]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class, averaged over the weights."""
        mean, var = self._latent(X)
        p = np.exp(LINKS[self.link]().predictive(mean, var).log_prob(np.ones(len(mean))))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: ArrayLike) -> Array:
        """The more probable class."""
        check_is_fitted(self, "weights_")
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])
