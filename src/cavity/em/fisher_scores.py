"""Fisher and TOP scores: how a probabilistic model would change to explain a sequence or row, as features for kernels.

The Fisher score of x is the gradient of log p(x | theta) in the parameters (Jaakkola and Haussler 1999; Rasmussen and
Williams 2006, section 4.4.2). By Fisher's identity it is the expected gradient given the hidden labels: for
probabilities, in logit coordinates, expected counts less row totals times the probabilities; for the densities of
components the gradient of their logarithm, weighted by the responsibilities. With F the second moment of the scores the
Fisher kernel is score' F^-1 score'. F is singular (rows of logits have a free constant, short sequences reach few
directions), so that its pseudo-inverse is taken.

TOP features of two classes, a model for each, are the log odds and their gradient (Tsuda et al. 2002): the scores of
the one model and minus those of the other. The log odds themselves belong to them; the book's (4.46) leaves them out.

`FisherScores(model)` and `TOPScores(model)` are transformers: in a pipeline before `GPClassifier(Linear())`, or any
kernel.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from cavity.em.baum_welch import emission_logs
from cavity.em.categorical import Categorical
from cavity.em.components import Components, Params
from cavity.em.forward_backward import forward_backward
from cavity.em.hmm import HMM
from cavity.em.mixture_base import MixtureBase
from cavity.em.standard_errors import GRADIENT_STEP, _coordinate_scales, _differences
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_one_of
from cavity.runtime.errors import InputError

NOT_SEEN = 1e-10
"""Share of the largest eigenvalue of F below which a direction counts as never taken."""


def _density_scores(family: Components, params: Params, x: Array, resp: Array) -> Array:
    """Gradient of sum_k r_k log p_k(x) for each row, (n, P)."""
    if isinstance(family, Categorical):  # full logits: counts less totals times probabilities
        p = params["emissionprob"]
        seen = ~np.isnan(x[:, 0])
        hot = np.zeros((len(x), p.shape[1]))
        hot[np.flatnonzero(seen), x[seen, 0].astype(int)] = 1.0
        out = resp[:, :, None] * (hot[:, None, :] - p) * seen[:, None, None]
        return np.asarray(out.reshape(len(x), -1))

    def weighted(v: Array) -> Array:
        return np.asarray(np.sum(resp * family.log_prob(family.unpack(v, params), x), axis=1))

    at = family.pack(params, params)
    scales = _coordinate_scales(
        lambda v: float(np.mean(weighted(v))), at
    )  # over which one row loses half a nat
    return _differences(
        weighted, at, np.diag(np.where(np.isnan(scales), 1.0, scales)), GRADIENT_STEP
    ).T / np.where(np.isnan(scales), 1.0, scales)


def _sequences(X: Any) -> list[Array]:
    """Sequences of a list, or of rows of symbols that are padded with -1."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        if X.ndim != 2:
            raise InputError(f"must be rows of symbols padded with -1, got shape {X.shape}", parameter="X")
        lengths = np.sum(X >= 0, axis=1)
        found = [row[:n, None].astype(float) for row, n in zip(X, lengths)]
    else:
        arrays = [np.asarray(one, dtype=float) for one in X]
        found = [one[:, None] if one.ndim == 1 else one for one in arrays]
    for i, one in enumerate(found):
        if not len(one):
            raise InputError("is empty: a sequence has one observation at least", parameter="X", row=i)
    return found


def _scores(model: Any, X: Any) -> tuple[Array, Array, Array]:
    """Scores (n, P), log likelihoods (n,) and lengths (n,) of rows or sequences."""
    if isinstance(model, HMM):
        return _hmm_scores(model, _sequences(X))
    check_is_fitted(model)
    x = model._check_rows(X, reset=False)
    logs, resp = model._predict_rows(x)
    of_weights = resp - model.weights_
    return (
        np.hstack([of_weights, _density_scores(model.family_, model.params_, x, resp)]),
        logs,
        np.ones(len(x)),
    )


def _hmm_scores(model: HMM, sequences: list[Array]) -> tuple[Array, Array, Array]:
    x, starts, *_ = model._model(sequences, None)
    p, A = model.startprob_, model.transmat_
    gamma, logliks = np.empty((len(x), len(p))), np.empty(len(sequences))
    chain = np.empty((len(sequences), len(p) + A.size))
    for i, (start, stop) in enumerate(pairwise(starts.tolist())):
        own = emission_logs(model.family_, model.params_, x[start:stop], 1)
        found = forward_backward(p, A, own, np.array([0, stop - start]))
        if not np.isfinite(found.loglik[0]):
            raise InputError("has probability zero under the model", parameter="X", row=i)
        gamma[start:stop], logliks[i] = found.gamma, found.loglik[0]
        moves = found.transitions
        chain[i] = np.concatenate([found.initial - p, (moves - moves.sum(axis=1, keepdims=True) * A).ravel()])
    seen = np.add.reduceat(_density_scores(model.family_, model.params_, x, gamma), starts[:-1], axis=0)
    return np.hstack([chain, seen]), logliks, np.diff(starts).astype(float)


class _Scores(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    def _check_model(self) -> None:
        if not isinstance(self.model, HMM | MixtureBase):
            raise InputError("must be a mixture or HMM of cavity.em", parameter="model", value=self.model)

    def __sklearn_tags__(self) -> Any:
        """Sequences may come as lists."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = not isinstance(self.model, HMM)
        return tags


class FisherScores(_Scores):
    """Gradients of the log likelihood of a mixture or hidden Markov model, as features.

    Parameters
    ----------
    model : HMM or mixture of `cavity.em`
    prefit : bool
        Whether the model is fitted already, or has parameters set by hand; otherwise a copy is fitted.
    information : {"empirical", "identity"}
        Whether scores are whitened by their second moment F over the rows of the fit, so that their inner products are
        the Fisher kernel.
    by_length : bool
        Whether scores of a sequence of T observations, which grow with it, are divided by sqrt(T).

    Attributes
    ----------
    model_ : the model
    rank_ : int
        Directions in which scores of the fit vary: the number of features if they are whitened.
    n_features_out_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import FisherScores, GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> FisherScores(GaussianMixture(2, random_state=0)).fit_transform(X).shape  # 12 parameters
    (50, 11)
    """

    def __init__(
        self, model: Any, *, prefit: bool = False, information: str = "empirical", by_length: bool = True
    ) -> None:
        self.model, self.prefit, self.information, self.by_length = model, prefit, information, by_length

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model, if it is not, and find F; weights count rows in F alone."""
        self._check_model()
        require_one_of(self.information, "information", ("empirical", "identity"))
        data = _sequences(X) if isinstance(self.model, HMM) else X
        self.model_ = self.model if self.prefit else clone(self.model).fit(data)
        scores = self._raw(X)
        weight = np.ones(len(scores)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        values, axes = np.linalg.eigh((scores.T * weight) @ scores / weight.sum())
        kept = values > NOT_SEEN * max(float(values[-1]), np.finfo(float).tiny)
        self.rank_ = int(kept.sum())
        self._root = axes[:, kept] / np.sqrt(values[kept]) if self.information == "empirical" else None
        self.n_features_out_ = scores.shape[1] if self._root is None else self.rank_
        return self

    def _raw(self, X: Any) -> Array:
        scores, _, lengths = _scores(self.model_, X)
        return scores / np.sqrt(lengths)[:, None] if self.by_length else scores

    def transform(self, X: Any) -> Array:
        """Scores, (n, n_features_out_)."""
        check_is_fitted(self, "rank_")
        scores = self._raw(X)
        return scores if self._root is None else np.asarray(scores @ self._root)


class TOPScores(_Scores):
    """The log odds of two classes, each with a model of its own, and their gradient in all parameters.

    Parameters
    ----------
    model : HMM or mixture of `cavity.em`
        A copy is fitted to each class.
    by_length : bool
        As for `FisherScores`; of the gradients.

    Attributes
    ----------
    models_ : list
        Of the two classes, in the order of `classes_`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import GaussianMixture, TOPScores
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 1)), np.arange(60) % 2
    >>> X[y == 1] += 3
    >>> found = TOPScores(GaussianMixture(1)).fit(X, y).transform(X)
    >>> bool(np.mean((found[:, 0] > 0) == y) > 0.9)
    True
    """

    def __init__(self, model: Any, *, by_length: bool = True) -> None:
        self.model, self.by_length = model, by_length

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit a model to each class."""
        self._check_model()
        labels = np.asarray(y)
        self.classes_ = np.unique(labels)
        if len(self.classes_) != 2:
            raise InputError(f"must have two classes, got {len(self.classes_)}", parameter="y")
        data = _sequences(X) if isinstance(self.model, HMM) else np.asarray(X)
        self.models_ = []
        for c in self.classes_:
            rows = np.flatnonzero(labels == c)
            own = [data[i] for i in rows] if isinstance(data, list) else data[rows]
            self.models_.append(clone(self.model).fit(own))
        shares = [float(np.mean(labels == c)) for c in self.classes_]
        self.log_prior_odds_ = float(np.log(shares[1] / shares[0]))
        return self

    def transform(self, X: Any) -> Array:
        """Log odds of the second class, then gradients, (n, 1 + P)."""
        check_is_fitted(self, "models_")
        (first, log_first, lengths), (second, log_second, _) = (_scores(model, X) for model in self.models_)
        gradient = np.hstack([second, -first])
        if self.by_length:
            gradient /= np.sqrt(lengths)[:, None]
        return np.column_stack([self.log_prior_odds_ + log_second - log_first, gradient])
