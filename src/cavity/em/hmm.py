"""Hidden Markov models: `HMM`, with the names that hmmlearn's users know.

The model (Bilmes, TR-97-021, section 4): states q_t follow a Markov chain with start probabilities pi and
transition matrix a, observations are drawn from the emission density of the current state; the first
observation belongs to the first state. Baum-Welch with several sequences sums numerators and denominators
over sequences, transitions up to T - 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from cavity.em.baum_welch import HMMProblem, HMMTheta, emission_logs, topology_mask
from cavity.em.components import Components, Params
from cavity.em.emission_parameters import EmissionParameters
from cavity.em.estimator import EMEstimator
from cavity.em.expectation_maximization import EMResult, Restarts
from cavity.em.families import make_components, nonnegative
from cavity.em.filtering import Forecast, OnlineFilter, forecast
from cavity.em.forward_backward import filtered, forward_backward
from cavity.em.gaussian import Gaussian
from cavity.em.given_parameters import attribute, check_parameters, sized_family
from cavity.em.mixture_emission import MixtureEmission
from cavity.em.parallel import resolve_threads
from cavity.em.priors import NormalInverseWishart, check_concentration
from cavity.em.selection import (
    Candidate,
    best_size,
    candidate_of,
    candidates,
    criteria,
    entropy_of,
    parameters_counted,
)
from cavity.em.sequences import is_sequence_list, joined, refuse_lengths_as_y, sequence_starts
from cavity.em.standard_errors import StandardErrors, standard_errors
from cavity.em.student_t import StudentT
from cavity.em.viterbi import most_probable_paths
from cavity.numerics.arrays import Array
from cavity.runtime.storing import Storable

CHAIN = {"s": "startprob_", "t": "transmat_"}
"""Attributes of the probabilities of the chain, by their letters in `params` and `init_params`."""

FEW_VISITS = 1e-6
"""Expected visits below which a state counts as dead."""


@dataclass(eq=False, repr=False)
class HMM(Storable, EmissionParameters, EMEstimator):
    """Hidden Markov model fitted by Baum-Welch (EM).

    Parameters
    ----------
    n_states : int, "bic" | "icl" | "aic", or an iterable of ints
        Number of states, or how to choose it.
    emissions : str, Components, or list of (family, columns)
        "gaussian", "student-t", "gmm", "poisson", "categorical", "bernoulli", "exponential"; a family object
        with its settings; a list for several kinds of features at once.
    covariance_type, n_mix, reg_covar, prior :
        Settings of emissions given by name: covariance structure, densities per state for "gmm", guard
        against collapse, normal-inverse-Wishart prior. Ignored when `emissions` is an object with its own
        settings.
    startprob_prior, transmat_prior : float or array
        Dirichlet concentrations, >= 1; 1 is none.
    topology : {"ergodic", "left-right", "linear", "cyclic"} or bool array (K, K)
        Allowed transitions; the others are zero and stay zero.
    params, init_params : str
        What is estimated, and what is initialized from the data: any of `s` start probabilities, `t`
        transitions, `e` all emission parameters, or single ones: `m` means, `c` covariances, `d` degrees of
        freedom, `w` weights within states, `l` rates. What is left out of `init_params` must have been set
        (``model.means_ = ...``); what was set and is not left out is overwritten, with a warning.
    algorithm : {"viterbi", "map"}
        Default of `decode` and `predict`.
    criterion, init, n_init, max_iter, tol, accelerate, ordering, allow_nan, n_jobs, random_state, progress :
        As for `cavity.em.Mixture`. States are ordered by mean only if the order carries no meaning: ergodic
        topology and all starts made from data. Threads work over sequences and over rows.

    Attributes
    ----------
    startprob_ : (K,)
    transmat_ : (K, K)
    means_, covars_, emissionprob_, lambdas_, weights_, dofs_ : emission parameters, where the family has them
    converged_, status_, n_iter_, history_, log_likelihood_, runs_, selection_, degenerate_ : how the fit went
    failed_sizes_ : numbers of states left out of `selection_` because every start collapsed, and why

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import HMM
    >>> rng = np.random.default_rng(0)
    >>> states = np.repeat([0, 1, 0, 1], 100)
    >>> X = rng.normal(4.0 * states, 1.0)[:, None]
    >>> model = HMM(2, random_state=0).fit(X)
    >>> int(np.sum(model.predict(X) == states))
    400
    """

    method: ClassVar[str] = "Baum-Welch"
    n_states: Any = 1
    emissions: Any = "gaussian"
    _: KW_ONLY
    covariance_type: str = "full"
    n_mix: int = 2
    reg_covar: float = 1e-6
    prior: NormalInverseWishart | None = None
    startprob_prior: ArrayLike = 1.0
    transmat_prior: ArrayLike = 1.0
    topology: Any = "ergodic"
    params: str = "ste"
    init_params: str = "ste"
    algorithm: str = "viterbi"

    def _family(self) -> Components:
        if self.emissions == "gaussian":
            return Gaussian(self.covariance_type, reg_covar=self.reg_covar, prior=self.prior)
        if self.emissions == "student-t":
            return StudentT(self.covariance_type, reg_covar=self.reg_covar, prior=self.prior)
        if self.emissions == "gmm":
            inner = Gaussian(self.covariance_type, reg_covar=self.reg_covar, prior=self.prior)
            return MixtureEmission(self.n_mix, inner)
        return make_components(self.emissions)

    # -- data ------------------------------------------------------------------------------------------------
    def _sequences(self, X: Any, lengths: Any, reset: bool) -> tuple[Array, NDArray[np.int64]]:
        """One array (T, D) and the first row of every sequence, from X with `lengths` or a list of arrays."""
        if is_sequence_list(X):
            if lengths is not None:
                raise ValueError("lengths must be None when X is a list of sequences")
            lengths = [len(x) for x in X]
            if min(lengths) == 0:
                raise ValueError(f"sequence {lengths.index(0)} is empty: remove it")
            X = joined(X)
        x = self._check_rows(X, reset)
        return x, sequence_starts(lengths, len(x))

    # -- fitting ---------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any = None, lengths: ArrayLike | None = None) -> Self:
        """Fit by Baum-Welch.

        Parameters
        ----------
        X : (T, D), or a list of such arrays or data frames
            Observations; several sequences follow each other and are told apart by `lengths`.
        y : ignored
        lengths : (S,) ints or None
            Lengths of the sequences; None is one sequence.
        """
        refuse_lengths_as_y(y, X)
        x, starts = self._sequences(X, lengths, reset=True)
        sizes, criterion = candidates(self.n_states, self.criterion, len(x), "n_states")
        kinds_and_seeds = self._starts()
        if self.ordering not in ("means", None):
            raise ValueError(f"ordering={self.ordering!r} is not known; choose 'means' or None")
        if self.algorithm not in ("viterbi", "map"):
            raise ValueError(f"algorithm={self.algorithm!r} is not known; choose 'viterbi' or 'map'")
        family = self._family()
        family.check_data(x)
        update = self._letters(family, self.params, "params")
        from_data = self._letters(family, self.init_params, "init_params")
        self._warn_of_overwriting(family, from_data)
        given = {name: getattr(self, name, None) for name in ("startprob_", "transmat_", "params_")}

        def fit_size(size: int) -> tuple[Candidate, tuple[HMMProblem, Restarts[HMMTheta]]]:
            problem = self._problem(family, x, starts, size, update)

            def make(kind: str, seed: int) -> HMMTheta:
                return problem.with_given(problem.start(kind, seed, from_data), from_data, given)

            restarts = self._run(problem, kinds_and_seeds, make)
            return self._candidate(problem, restarts.best), (problem, restarts)

        best, self.selection_, self.failed_sizes_ = best_size(sizes, fit_size, criterion, "n_states")
        ergodic = isinstance(self.topology, str) and self.topology == "ergodic"
        self._store(*best, ordered=self.ordering is not None and ergodic and {"s", "t", "e"} <= from_data)
        return self

    def _letters(self, family: Components, letters: str, argument: str) -> frozenset[str]:
        """Names of parameters behind letters; start and transition probabilities are "s" and "t"."""
        known = family.letter_names()
        if not isinstance(letters, str):
            raise ValueError(
                f"{argument}={letters!r} must be a text of letters from s, t, e, {', '.join(known)}"
            )
        names: set[str] = set()
        for letter in letters:
            if letter in "st":
                names.add(letter)
            elif letter == "e":
                names.update(n for group in known.values() for n in group)
                names.add("e")
            elif letter in known:
                names.update(known[letter])
            else:
                raise ValueError(
                    f"{argument}={letters!r}: {letter!r} is not a parameter here; known are s, t, e, "
                    + ", ".join(known)
                )
        return frozenset(names)

    def _set_by_hand(self) -> set[str]:
        """Names of parameters that were set since the last fit; start and transition probabilities are "s" and "t"."""
        found, old = self._values(), self.__dict__.get("_estimates", {})
        return {name for name, value in found.items() if value is not old.get(name)}

    def _remember_estimates(self) -> None:
        """Take the present values for those of a fit, which another fit may replace."""
        self._estimates = self._values()

    def _values(self) -> dict[str, Any]:
        """Parameters by name, as far as there are any."""
        own = self.__dict__
        chain = {letter: own[name] for letter, name in CHAIN.items() if name in own}
        return {**chain, **own.get("params_", {})}

    def _warn_of_overwriting(self, family: Components, from_data: frozenset[str]) -> None:
        """Say which values set by hand a fit is about to replace, and how to keep them."""
        lost = self._set_by_hand() & from_data
        if not lost:
            return
        letters = {**{letter: (letter,) for letter in CHAIN}, **family.letter_names()}
        rest = "".join(
            letter
            for letter, names in letters.items()
            if from_data.issuperset(names) and not lost & set(names)
        )
        named = ", ".join(sorted(CHAIN.get(name) or attribute(name) for name in lost))
        warnings.warn(
            f"values set by hand are overwritten: {named} start from the data, because "
            f"init_params={self.init_params!r} names them; to start from the values set, use init_params={rest!r}",
            UserWarning,
            stacklevel=3,
        )

    def _problem(
        self, family: Components, x: Array, starts: NDArray[np.int64], size: int, update: frozenset[str]
    ) -> HMMProblem:
        bound = family.bind(x, np.ones(len(x)), size)
        return HMMProblem(
            bound,
            x,
            starts,
            topology_mask(self.topology, size),
            check_concentration(self.startprob_prior, "startprob_prior", (size,)),
            check_concentration(self.transmat_prior, "transmat_prior", (size, size)),
            update,
            resolve_threads(self.n_jobs),
            left_to_right=isinstance(self.topology, str) and self.topology in ("left-right", "linear"),
        )

    def _candidate(self, problem: HMMProblem, run: EMResult[HMMTheta]) -> Candidate:
        entropy = np.nan  # needs a pass over the data: only if candidates are compared
        if not isinstance(self.n_states, (int, np.integer)):
            entropy = entropy_of(problem.posterior(run.theta).gamma)
        held = bool(_degenerate(problem.family, run.theta.params, _visits(run)))
        return candidate_of(problem, run, len(run.theta.startprob), entropy, held)

    def _store(self, problem: HMMProblem, restarts: Restarts[HMMTheta], ordered: bool) -> None:
        run, family = restarts.best, problem.family
        theta = run.theta
        visits = _visits(run)
        if ordered:
            order = family.order(theta.params)
            theta = HMMTheta(
                theta.startprob[order],
                theta.transmat[np.ix_(order, order)],
                family.permute(theta.params, order),
            )
            visits = visits[order]
        self.startprob_, self.transmat_, self.params_ = theta.startprob, theta.transmat, theta.params
        self._remember_estimates()
        self.n_states_ = len(theta.startprob)
        degenerate = _degenerate(family, theta.params, visits)
        self._keep(
            problem,
            restarts,
            degenerate,
            f"states {degenerate} are (almost) never visited or rest on the guard reg_covar or "
            "the prior; their parameters are not estimates; use fewer states, a stronger prior or other "
            "starts",
        )

    # -- use -------------------------------------------------------------------------------------------------
    def _ready(self) -> None:
        """A fitted model, or one whose parameters were all set by hand."""
        parts = ("startprob_", "transmat_", "params_")
        if "converged_" not in self.__dict__ and all(name in self.__dict__ for name in parts):
            self._adopt()
        check_is_fitted(self, "family_")
        self.startprob_ = np.asarray(self.startprob_, dtype=float)
        self.transmat_ = np.asarray(self.transmat_, dtype=float)
        HMMProblem.check_probabilities(self.startprob_, self.transmat_, self.n_states_)
        check_parameters(self.family_, self.params_)

    def _adopt(self) -> None:
        """Make a model set by hand usable without a fit."""
        self.params_ = {name: np.asarray(value, dtype=float) for name, value in self.params_.items()}
        family, n_features = sized_family(self._family(), self.params_)
        self.n_states_ = int(np.size(self.startprob_))
        # Two distinct rows are enough to bind a family whose parameters are already known.
        rows = np.vstack([np.zeros(n_features), np.ones(n_features)])
        self.family_ = family.bind(rows, np.ones(2), self.n_states_)
        self.n_features_in_ = n_features

    def _model(
        self, X: Any, lengths: Any
    ) -> tuple[Array, NDArray[np.int64], Callable[[int, int], Array], int]:
        self._ready()
        x, starts = self._sequences(X, lengths, reset=False)
        self.family_.check_data(x)
        threads = resolve_threads(self.n_jobs)
        return x, starts, emission_logs(self.family_, self.params_, x, threads), threads

    def score(self, X: Any, y: Any = None, lengths: ArrayLike | None = None) -> float:
        """Log-likelihood of all sequences."""
        refuse_lengths_as_y(y, X)
        _, starts, logs, threads = self._model(X, lengths)
        loglik, _ = filtered(self.startprob_, self.transmat_, logs, starts, threads)
        return float(loglik.sum())

    def score_samples(self, X: Any, lengths: ArrayLike | None = None) -> tuple[float, Array]:
        """Log-likelihood and posterior state probabilities (T, K)."""
        _, starts, logs, threads = self._model(X, lengths)
        posterior = forward_backward(self.startprob_, self.transmat_, logs, starts, threads)
        _require_possible(posterior.loglik)
        return float(posterior.loglik.sum()), posterior.gamma

    def predict_proba(self, X: Any, lengths: ArrayLike | None = None) -> Array:
        """Smoothed state probabilities P(state at t | all observations), (T, K)."""
        return self.score_samples(X, lengths)[1]

    def filter_proba(self, X: Any, lengths: ArrayLike | None = None) -> Array:
        """Filtered state probabilities P(state at t | observations up to t), (T, K)."""
        _, starts, logs, threads = self._model(X, lengths)
        loglik, alpha = filtered(self.startprob_, self.transmat_, logs, starts, threads)
        _require_possible(loglik)
        return alpha

    def smooth(self, X: Any, lengths: ArrayLike | None = None) -> Array:
        """Observations replaced by the posterior mean of their state's mean, (T, D)."""
        return np.asarray(self.predict_proba(X, lengths) @ self.family_.mean(self.params_))

    def decode(
        self, X: Any, lengths: ArrayLike | None = None, algorithm: str | None = None
    ) -> tuple[float, NDArray[np.intp]]:
        """State sequence and its log probability.

        "viterbi" gives the most probable path and its joint log probability with the observations, "map" the
        most probable state at each time and the sum of their posterior probabilities.
        """
        algorithm = self.algorithm if algorithm is None else algorithm
        if algorithm == "map":
            gamma = self.predict_proba(X, lengths)
            return float(gamma.max(axis=1).sum()), np.argmax(gamma, axis=1)
        if algorithm != "viterbi":
            raise ValueError(f"algorithm={algorithm!r} is not known; choose 'viterbi' or 'map'")
        _, starts, logs, threads = self._model(X, lengths)
        best, path = most_probable_paths(self.startprob_, self.transmat_, logs, starts, threads)
        _require_possible(best)
        return float(best.sum()), path

    def predict(self, X: Any, lengths: ArrayLike | None = None) -> NDArray[np.intp]:
        """State sequence (T,), by `algorithm`."""
        return self.decode(X, lengths)[1]

    def predict_next(self, X: Any, lengths: ArrayLike | None = None) -> Forecast:
        """Distribution of the observation that follows each sequence."""
        _, starts, logs, threads = self._model(X, lengths)
        loglik, alpha = filtered(self.startprob_, self.transmat_, logs, starts, threads)
        _require_possible(loglik)
        return forecast(self.family_, self.params_, alpha[starts[1:] - 1] @ self.transmat_)

    def online(self) -> OnlineFilter:
        """A filter that takes one observation at a time."""
        self._ready()
        return OnlineFilter(self.startprob_, self.transmat_, self.family_, self.params_, self.allow_nan)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, NDArray[np.intp]]:
        """One sequence of observations (T, D) and its states (T,)."""
        self._ready()
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1")
        rng = self._generator(random_state)
        states = np.empty(n_samples, dtype=np.intp)
        from cavity.em import compiled_recursions

        compiled_recursions.sample_chain(
            rng.random(n_samples), np.cumsum(self.startprob_), np.cumsum(self.transmat_, axis=1), states
        )
        return self.family_.sample(self.params_, states, rng), states

    @property
    def n_parameters_(self) -> int:
        """Number of free parameters; structural zeros (of the topology, or set by hand) do not count.

        Probabilities that a fit drove to zero are estimates, and do count.
        """
        self._ready()
        counted = parameters_counted(getattr(self, "selection_", ()), self.n_states_)
        if counted is not None:
            return counted
        return HMMProblem.count(self.startprob_, self.transmat_) + self.family_.n_parameters(self.params_)

    def _criteria(self, X: Any, lengths: Any) -> dict[str, float]:
        loglik, gamma = self.score_samples(X, lengths)
        return criteria(loglik, self.n_parameters_, len(gamma), entropy_of(gamma))

    def bic(self, X: Any, lengths: ArrayLike | None = None) -> float:
        """Bayesian information criterion; smaller is better."""
        return self._criteria(X, lengths)["bic"]

    def aic(self, X: Any, lengths: ArrayLike | None = None) -> float:
        """Akaike information criterion; smaller is better."""
        return self._criteria(X, lengths)["aic"]

    def standard_errors(self, X: Any, lengths: ArrayLike | None = None) -> StandardErrors:
        """Standard errors of all parameters from the observed information on the training data."""
        self._ready()
        x, starts = self._sequences(X, lengths, reset=False)
        family, _ = sized_family(self._family(), self.params_)  # data need not show every symbol
        problem = self._problem(family, x, starts, self.n_states_, frozenset("ste"))
        return standard_errors(problem, HMMTheta(self.startprob_, self.transmat_, self.params_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = nonnegative(self.emissions)
        return tags


def _require_possible(loglik: Array) -> None:
    """Refuse sequences (log probabilities (S,)) that the model cannot have produced."""
    impossible = np.flatnonzero(~np.isfinite(loglik))
    if len(impossible):
        raise ValueError(
            f"sequence {int(impossible[0])} has zero probability under the model: it has no posterior; remove "
            "it, or set no probability to zero that the data need"
        )


def _visits(run: EMResult[HMMTheta]) -> Array:
    """Expected visits of every state, (K,); a visit is a start or an arrival."""
    initial, transitions, _ = run.statistics
    return np.asarray(initial + transitions.sum(axis=0))


def _degenerate(family: Components, params: Params, visits: Array) -> list[int]:
    """States that are (almost) never visited, or whose emissions rest on a guard or prior."""
    dead = {int(k) for k in np.flatnonzero(visits < FEW_VISITS)}
    return sorted(dead | set(family.degenerate(params, visits)))
