"""Baum-Welch as an EM problem: forward-backward, expected counts, starts, priors and topology."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.em.components import Components, Params, add_stats
from cavity.em.expectation_maximization import DegeneracyError
from cavity.em.forward_backward import StatePosterior, forward_backward
from cavity.em.given_parameters import attribute, check_parameters
from cavity.em.initialization import SMOOTHING, cluster
from cavity.em.priors import dirichlet_log_prior
from cavity.em.transforms import simplex_from_free, simplex_size, simplex_to_free
from cavity.numerics.arrays import Array

Starts = NDArray[np.int64]

# Rows per call of a family's log density and statistics: large enough to share among threads, small enough
# that temporaries stay far below the two T x K arrays of long sequences.
ROWS_PER_CALL = 1 << 18
FEW_ROWS = 64


@dataclass(frozen=True)
class HMMTheta:
    """Parameters of a hidden Markov model."""

    startprob: Array
    transmat: Array
    params: Params


def emission_logs(family: Components, params: Params, x: Array, threads: int) -> Callable[[int, int], Array]:
    """Function giving log emission densities of rows start:stop, computed in calls of bounded size."""

    def rows(start: int, stop: int) -> Array:
        if stop - start <= ROWS_PER_CALL:
            return np.ascontiguousarray(family.log_prob(params, x[start:stop], threads))
        out = np.empty((stop - start, family.n_components))
        for first in range(start, stop, ROWS_PER_CALL):
            last = min(first + ROWS_PER_CALL, stop)
            out[first - start : last - start] = family.log_prob(params, x[first:last], threads)
        return out

    return rows


@dataclass(eq=False, repr=False)
class HMMProblem:
    """A hidden Markov model as an EM problem (see `cavity.em.expectation_maximization.EMProblem`).

    Parameters
    ----------
    family : Components bound to the data
    x : (T, D), starts : (S + 1,)
    mask : (K, K) bool, allowed transitions
    startprob_prior, transmat_prior : Dirichlet concentrations (K,), (K, K)
    update : names of parameters to estimate; "s" and "t" are start and transition probabilities
    threads : int
    left_to_right : bool
        States follow each other in time: starts divide sequences into segments.
    """

    family: Components
    x: Array
    starts: Starts
    mask: NDArray[np.bool_]
    startprob_prior: Array
    transmat_prior: Array
    update: frozenset[str]
    threads: int = 1
    left_to_right: bool = False

    def __post_init__(self) -> None:
        self.n_data = float(len(self.x))
        self.n_parameters = 0  # known from the first start on

    # -- EM --------------------------------------------------------------------------------------------------
    def posterior(self, theta: HMMTheta) -> StatePosterior:
        """Forward-backward at theta."""
        logs = emission_logs(self.family, theta.params, self.x, self.threads)
        return forward_backward(theta.startprob, theta.transmat, logs, self.starts, self.threads)

    def e_step(self, theta: HMMTheta) -> tuple[float, Any]:
        """Objective, and expected starts, transitions and emission statistics."""
        posterior = self.posterior(theta)
        objective = float(posterior.loglik.sum())
        if not np.isfinite(objective):
            return -np.inf, None
        stats: dict[str, Array] = {}
        if self.update - {"s", "t"}:
            for first in range(0, len(self.x), ROWS_PER_CALL):
                rows = slice(first, first + ROWS_PER_CALL)
                add_stats(
                    stats,
                    self.family.accumulate(theta.params, self.x[rows], posterior.gamma[rows], self.threads),
                )
        return objective + self.log_prior(theta), (posterior.initial, posterior.transitions, stats)

    def m_step(self, statistics: Any, theta: HMMTheta) -> HMMTheta:
        """Expected frequencies (MAP) and the family's M-step; rows without visits keep their values."""
        initial, transitions, stats = statistics
        startprob, transmat, params = theta.startprob, theta.transmat, theta.params
        if "s" in self.update:
            startprob = _frequencies(initial[None], self.startprob_prior[None], startprob[None])[0]
        if "t" in self.update:
            transmat = _frequencies(transitions, self.transmat_prior, transmat)
        if stats:
            names = None if "e" in self.update else self.update
            params = self.family.maximize(stats, params, names)
        return HMMTheta(startprob, transmat, params)

    def log_prior(self, theta: HMMTheta) -> float:
        """Dirichlet priors and the family's prior."""
        return (
            dirichlet_log_prior(theta.startprob, self.startprob_prior)
            + dirichlet_log_prior(theta.transmat, self.transmat_prior)
            + self.family.log_prior(theta.params)
        )

    def q_value(self, statistics: Any, theta: HMMTheta) -> float:
        """Q(theta, theta of the statistics) plus log prior, up to terms without parameters."""
        initial, transitions, stats = statistics
        value = self.log_prior(theta)
        for counts, p in ((initial, theta.startprob), (transitions, theta.transmat)):
            live = p > 0
            value += float(np.sum(counts[live] * np.log(p[live])))
        return value + self.family.expected_log_prob(stats, theta.params)

    def pack(self, theta: HMMTheta, like: HMMTheta) -> Array:
        """Unconstrained vector."""
        return np.concatenate(
            [
                simplex_to_free(theta.startprob, like.startprob),
                simplex_to_free(theta.transmat, like.transmat),
                self.family.pack(theta.params, like.params),
            ]
        )

    def unpack(self, vector: Array, like: HMMTheta) -> HMMTheta:
        """Inverse of `pack`."""
        n = simplex_size(like.startprob)
        m = n + simplex_size(like.transmat)
        return HMMTheta(
            simplex_from_free(vector[:n], like.startprob),
            simplex_from_free(vector[n:m], like.transmat),
            self.family.unpack(vector[m:], like.params),
        )

    def project(self, theta: HMMTheta) -> HMMTheta:
        """Emission parameters within their bounds."""
        return HMMTheta(theta.startprob, theta.transmat, self.family.project(theta.params))

    def natural(self, theta: HMMTheta) -> dict[str, Array]:
        """Natural parameters by name."""
        return {"startprob": theta.startprob, "transmat": theta.transmat, **theta.params}

    # -- counts and checks -----------------------------------------------------------------------------------
    @staticmethod
    def count(startprob: Array, transmat: Array) -> int:
        """Free parameters of a chain whose zeros are structural."""
        return simplex_size(startprob) + simplex_size(transmat)

    def counted(self, start: HMMTheta) -> HMMTheta:
        """Note the number of free parameters at a start: its zeros are structural, later ones estimates."""
        chain = self.count(start.startprob, start.transmat)
        self.n_parameters = chain + self.family.n_parameters(start.params)
        return start

    @staticmethod
    def check_probabilities(startprob: Array, transmat: Array, n_states: int) -> None:
        """Shapes, signs and sums of start and transition probabilities."""
        for name, p, shape in (
            ("startprob_", startprob, (n_states,)),
            ("transmat_", transmat, (n_states, n_states)),
        ):
            if np.shape(p) != shape:
                raise ValueError(f"{name} has shape {np.shape(p)}, expected {shape}")
            if np.any(np.asarray(p) < 0) or not np.allclose(np.sum(p, axis=-1), 1.0):
                raise ValueError(f"{name} must be non-negative, and every row must sum to one")

    # -- starts ----------------------------------------------------------------------------------------------
    def start(self, kind: str, seed: int, wanted: frozenset[str] = frozenset("ste")) -> HMMTheta:
        """Starting parameters: clusters (or segments in time) give emissions and transition counts.

        Where nothing is wanted from the data, a few rows are enough to tell names and shapes.
        """
        rng = np.random.default_rng(seed)
        k = self.family.n_components
        if not wanted:
            rows = self.x[:FEW_ROWS]
            resp = np.full((len(rows), k), 1.0 / k)
            try:
                params = self.family.from_responsibilities(rows, resp, rng)
                return HMMTheta(np.full(k, 1.0 / k), self.mask / self.mask.sum(axis=1, keepdims=True), params)
            except DegeneracyError:
                pass  # such as counts that are all zero in these rows: use all data
        n = len(self.x)
        labels = self._segments(kind, rng) if self.left_to_right else self._clusters(kind, rng)
        resp = np.full((n, k), SMOOTHING / k)
        resp[np.arange(n), labels] += 1.0 - SMOOTHING
        counts = np.ones((k, k))
        inside = np.ones(n - 1, dtype=bool)
        inside[self.starts[1:-1] - 1] = False
        np.add.at(counts, (labels[:-1][inside], labels[1:][inside]), 1.0)
        transmat = np.where(self.mask, counts, 0.0)
        startprob = np.zeros(k) if self.left_to_right else np.full(k, 1.0 / k)
        startprob[0] = 1.0 if self.left_to_right else startprob[0]
        params = self.family.from_responsibilities(self.x, resp, rng)
        return HMMTheta(startprob, transmat / transmat.sum(axis=1, keepdims=True), params)

    def _clusters(self, kind: str, rng: np.random.Generator) -> NDArray[np.intp]:
        weights = np.ones(len(self.x))
        return cluster(
            self.x, weights, self.family.n_components, rng, kind == "k-means++", self.family.robust
        )

    def _segments(self, kind: str, rng: np.random.Generator) -> NDArray[np.intp]:
        """Every sequence cut into K stretches of equal ("k-means++") or random length."""
        k = self.family.n_components
        labels = np.empty(len(self.x), dtype=np.intp)
        for first, last in zip(self.starts[:-1], self.starts[1:]):
            share = np.full(k, 1.0 / k) if kind == "k-means++" else rng.dirichlet(np.full(k, 3.0))
            position = (np.arange(last - first) + 0.5) / (last - first)
            labels[first:last] = np.minimum(np.searchsorted(np.cumsum(share), position), k - 1)
        return labels

    def with_given(self, start: HMMTheta, from_data: frozenset[str], given: dict[str, Any]) -> HMMTheta:
        """Replace what is not to be initialized from the data by what the user has set."""
        k = self.family.n_components
        startprob = start.startprob if "s" in from_data else _required(given["startprob_"], "startprob_", "s")
        transmat = start.transmat if "t" in from_data else _required(given["transmat_"], "transmat_", "t")
        self.check_probabilities(startprob, transmat, k)
        params = dict(start.params)
        set_by_user = given["params_"] or {}
        for name in params:
            if name in from_data:
                continue
            params[name] = _required(set_by_user.get(name), attribute(name), "e")
        check_parameters(self.family, params, frozenset(params) - from_data)
        return self.counted(HMMTheta(startprob, np.where(self.mask, transmat, 0.0), params))


def _required(value: Any, name: str, letter: str) -> Array:
    if value is None:
        raise ValueError(
            f"{name} was not set, and init_params does not contain {letter!r}: set it, or add the letter"
        )
    return np.asarray(value, dtype=float)


def _frequencies(counts: Array, concentration: Array, old: Array) -> Array:
    """MAP rows from expected counts: zeros stay zero, rows without counts are kept."""
    raised = np.where(old > 0, counts + concentration - 1.0, 0.0)
    total = raised.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, raised / np.where(total > 0, total, 1.0), old))


def topology_mask(topology: Any, n_states: int) -> NDArray[np.bool_]:
    """Allowed transitions (K, K) from a name or a matrix."""
    i, j = np.indices((n_states, n_states))
    if isinstance(topology, str):
        masks = {
            "ergodic": np.ones((n_states, n_states), dtype=bool),
            "left-right": j >= i,
            "linear": (j == i) | (j == i + 1),
            "cyclic": (j == i) | (j == (i + 1) % n_states),
        }
        if topology not in masks:
            raise ValueError(
                f"topology={topology!r} is not known; choose one of {', '.join(masks)} or give a matrix"
            )
        return np.asarray(masks[topology])
    mask = np.asarray(topology)
    if mask.shape != (n_states, n_states):
        raise ValueError(f"topology has shape {mask.shape}, expected {(n_states, n_states)}")
    mask = mask.astype(bool)
    if not mask.any(axis=1).all():
        k = int(np.flatnonzero(~mask.any(axis=1))[0])
        raise ValueError(
            f"topology allows no transition out of state {k}: allow at least one, such as staying"
        )
    return mask
