"""Fits of any size: which representation, how many inducing inputs, which rows hyperparameters are learned from.

Up to `DENSE_ROWS` rows a process is held by matrices. A Markov process is as exact, if there is one input and the
kernel has such a form; it is taken from `MARKOV_ROWS` rows on. Above, with Gaussian noise the candidates are learned
from the same few thousand rows and the one with the higher log density on other rows is kept; other noise, and rows
that are not in memory, are for inducing inputs. Everything depends on the data, the model and a fixed seed alone.

Hyperparameters are learned from at most `learn_rows` rows, and the process is then conditioned on all; of a Markov
process from all rows, since some of the rows along a line see nothing but noise. The number of inducing inputs is
doubled while that pays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cavity.gp import GP
from cavity.inference.exact import Exact
from cavity.inference.function_by_function import FunctionByFunction
from cavity.kernels.base import Kernel
from cavity.latent.base import Representation
from cavity.latent.dense import Dense
from cavity.latent.inducing import Inducing
from cavity.latent.latent_neighbors import LatentNeighbors
from cavity.latent.markov.representation import Markov, has_exact_markov_form
from cavity.latent.neighbors import Neighbors
from cavity.learning.fit import learn
from cavity.learning.minibatches import condition
from cavity.learning.multistart import SearchResult
from cavity.learning.neighbor_start import bumps, neighbor_start
from cavity.learning.run_choice import Learned
from cavity.learning.starts import Starts
from cavity.learning.stochastic import learn_in_batches
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods.binary import BinaryLikelihood
from cavity.likelihoods.gaussian import GaussianNoise, Noiseless
from cavity.numerics.arrays import Array
from cavity.parameters.per_latent import PerLatent
from cavity.posterior import Posterior
from cavity.rows.base import RowSource, as_rows
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import InputError
from cavity.runtime.interrupts import Postponed
from cavity.runtime.stop_reason import StopReason

DENSE_ROWS = 3000
"""Rows up to which a process is held exactly."""

MARKOV_ROWS, ROWS_PER_STATE = 1000, 30
"""Rows, at all and for each state, above which a Markov process along a line is faster than matrices."""

LEARN_ROWS = 10_000
"""Rows that hyperparameters are learned from, unless a user says otherwise."""

NEIGHBORS_LEARN_FROM = 5
"""Times as many rows that neighbors learn from: a row costs them little, and the more rows the nearer they are."""

TRIAL_ROWS, TRIAL_HELD_OUT = 4000, 1000
"""Rows that candidates are learned from, and rows that they are scored on."""

HELD_OUT_SHARE = 5
"""One in so many rows is held out, if there are few."""

FIRST_INDUCING, MOST_INDUCING = 250, 1000
"""Inducing inputs to begin with, and the most that are tried, if their number is left open."""

PAYS = 0.01
"""Nats a row that twice as many inducing inputs must gain."""

LEAST_PER_INDUCING = 4
"""Rows for each inducing input, at least."""

START_ROWS, START_SHARE = 1000, 0.25
"""Rows from which an exactly held process is learned first, and the share of the time for it."""

TRIAL_SHARE = 0.2
"""Share of the time for each candidate."""

SEED = 0
"""Of rows that are drawn for trials."""


@dataclass(frozen=True)
class Size:
    """What a user asked of a fit that may be large.

    Attributes
    ----------
    representation : Representation or str
        "auto", "inducing", another name or an object.
    n_inducing : int or "auto"
    learn_rows : int or None
        None for all; neighbors learn from five times as many.
    """

    representation: Any = "auto"
    n_inducing: Any = "auto"
    learn_rows: int | None = LEARN_ROWS

    def inducing(self, model: GP) -> Inducing:
        """For a model: learned with a bound, which can only gain by moving them; FITC priors of other rules overfit."""
        m = FIRST_INDUCING if self.n_inducing == "auto" else self.n_inducing
        return Inducing(m, learn=isinstance(model.inference, Exact))


Candidate = Callable[[GP, Size], Representation]

FOR_GAUSSIAN_NOISE: tuple[Candidate, ...] = (
    lambda model, size: size.inducing(model),
    lambda model, size: Neighbors(),
)
"""Representations of many rows with Gaussian noise; the better one on held-out rows is kept."""

NEIGHBOR_ROWS = 200_000
"""Rows up to which neighbors are found in a time that anybody waits for."""


LATENT_NEIGHBOR_ROWS, LATENT_NEIGHBOR_COLUMNS = 50_000, 2
"""Rows and columns up to which the sparse factor of latent neighbors is cheap."""

PER_BUMP = 4
"""Inducing inputs that follow a bump, at least."""


def candidates(model: GP, X: Array | RowSource, size: Size, objective: str | None) -> list[Representation]:
    """What may hold the process at these rows; more than one if a trial is to tell."""
    asked = size.representation
    if not isinstance(asked, str):
        return [asked]
    if asked != "auto":
        return [size.inducing(model)] if asked == "inducing" else [model.representation]
    in_memory, dense_only = as_rows(X).in_memory, _dense_only(model, objective)
    if in_memory and not dense_only and len(X) > MARKOV_ROWS and _suits_markov(model, X):
        return [Markov()]
    if in_memory and (len(X) <= DENSE_ROWS or dense_only):
        return [Dense()]
    one_level = isinstance(model.likelihood, GaussianNoise) and isinstance(model.inference, Exact)
    if in_memory and one_level and len(X) <= NEIGHBOR_ROWS:
        return [candidate(model, size) for candidate in FOR_GAUSSIAN_NOISE]
    return [size.inducing(model)]


def with_many_bumps(model: GP, X: Array | RowSource, size: Size) -> list[Representation]:
    """Latent neighbors, if the process at learned values has more bumps than inducing inputs can follow."""
    asked = isinstance(size.representation, str) and size.representation == "auto"
    source = as_rows(X)
    if not (
        asked
        and source.in_memory
        and len(X) <= LATENT_NEIGHBOR_ROWS
        and X.shape[1] <= LATENT_NEIGHBOR_COLUMNS
    ):
        return []
    if isinstance(model.inference, Exact) or model.likelihood.n_latent > 1:
        return []
    many = PER_BUMP * bumps(model.kernel, source.array) > FIRST_INDUCING
    return [LatentNeighbors()] if many else []


def _suits_markov(model: GP, X: Array | RowSource) -> bool:
    """Whether the process has an exact state-space form, of fewer states than make matrices cheaper."""
    coupled = model.likelihood.n_latent > 1 and not isinstance(model.rule, FunctionByFunction)
    if coupled:
        return False
    kernels = list(model.kernel) if isinstance(model.kernel, PerLatent) else [model.kernel]
    first = as_rows(X).take(np.arange(1))
    if not all(has_exact_markov_form(cast(Kernel, kernel), first) for kernel in kernels):
        return False
    states = max(cast(Kernel, kernel).state_space().size for kernel in kernels)
    return len(X) > ROWS_PER_STATE * states


def is_dense(model: GP, X: Array | RowSource, size: Size, objective: str | None) -> bool:
    """Whether the process will be held by a covariance matrix."""
    return all(r.covariance_limit is None for r in candidates(model, X, size, objective))


def _by_responses(representation: Representation) -> bool:
    """Whether observations are neighbors, not latent values: rows then cost little."""
    return isinstance(representation, Neighbors) and not isinstance(representation, LatentNeighbors)


def _dense_only(model: GP, objective: str | None) -> bool:
    """Whether the model asks what inducing inputs do not give."""
    exact = isinstance(model.likelihood, Noiseless)
    return exact or model.inference.samples or objective in ("loo", "gcv")


def learn_any_size(
    model: GP,
    X: Array | RowSource,
    y: Array,
    weight: Array | None = None,
    *,
    size: Size,
    objective: str | None,
    rng: np.random.Generator,
    max_time: float | None = None,
    warm: bool = False,
    **options: Any,
) -> Learned:
    """As `learn`, with a representation that suits the rows, learned from some of them and conditioned on all.

    The model of a `warm` start comes with its representation, which is kept if it is still the one that suits.
    """
    time = Deadline(max_time)
    found = candidates(model, X, size, objective)
    if objective is None and not as_rows(X).in_memory:
        posterior = condition(model.with_representation(found[0]), X, y, weight)
        return Learned(SearchResult(posterior.model, np.nan, ()), with_status(posterior, ()))
    if size.learn_rows is None and not as_rows(X).in_memory:
        return from_batches(model.with_representation(found[0]), X, y, weight, rng, time, options)
    along_a_line = found[0].linear_cost and (size.learn_rows is None or size.learn_rows >= LEARN_ROWS)
    all_rows = objective is None or model.inference.samples or along_a_line
    index = None if all_rows else rows_to_learn_from(model, y, size.learn_rows, rng)
    some = Part.of(model, X, y, weight, index)
    trials: tuple[tuple[str, float], ...] = ()
    if warm and any(isinstance(model.representation, type(r)) for r in found):
        found = [model.representation]
    given, exact = dict(options, objective=objective), -np.inf
    asked, alone = (model, warm, dict(given)), all(isinstance(r, Neighbors) for r in found)
    if objective is not None and not warm and not alone and _starts_dense(model, found):
        (model, exact), warm = started(model, some, rng, time, given), True
        found = found + with_many_bumps(model, X, size)
        given |= {"data_driven": False, "n_restarts": 0}
    start, kept = model, found[0]
    if len(found) > 1 and objective is not None:
        kept, trials = tried(start, some, found, time, given)
    if _by_responses(kept):  # length scales that few rows let go would stay where they are
        start, warm, given = asked
        if index is not None and size.learn_rows is not None:
            index = rows_to_learn_from(model, y, NEIGHBORS_LEARN_FROM * size.learn_rows, rng)
            some = Part.of(model, X, y, weight, index)
    learned = some.learn(start.with_representation(kept), rng, time, warm=warm, **given)
    if (
        size.n_inducing == "auto"
        and objective is not None
        and isinstance(kept, Inducing)
        and not kept.definite
    ):
        learned = grown(learned, start, kept, some, exact, time, given)
    if index is not None:
        learned = on_all_rows(learned, model, X, y, weight)
    return Learned(learned.search, with_status(learned.posterior, trials))


def from_batches(
    model: GP,
    X: Array | RowSource,
    y: Array,
    weight: Array | None,
    rng: np.random.Generator,
    time: Deadline,
    options: dict[str, Any],
) -> Learned:
    """Learned from all rows, which are not in memory: exactly held from some of them first, then in batches of all."""
    some = Part.of(model, X, y, weight, rows_to_learn_from(model, y, LEARN_ROWS, rng))
    start = started(model, some, rng, time, {**options, "objective": "evidence"})[0]
    learned = learn_in_batches(start, X, y, weight, seed=SEED)
    posterior = condition(learned, X, y, weight)
    found = SearchResult(posterior.model, posterior.log_evidence, ())
    return Learned(found, with_status(posterior, ()))


def on_all_rows(learned: Learned, model: GP, X: Array | RowSource, y: Array, weight: Array | None) -> Learned:
    """Conditioned on all rows. Ctrl-C waits for it: without it what was learned would be lost."""
    likelihood = model.likelihood.with_flat(learned.model.likelihood.flat)
    with Postponed() as late:
        posterior = condition(learned.model.with_likelihood(likelihood), X, y, weight)
    search = replace(learned.search, model=learned.model.with_likelihood(likelihood))
    if late.interrupted:
        search = replace(search, stopped=StopReason.INTERRUPTED)
    return Learned(search, posterior)


@dataclass(frozen=True)
class Part:
    """Rows in memory that something is learned from.

    Attributes
    ----------
    likelihood : Likelihood
        That of these rows.
    """

    X: Array
    y: Array
    weight: Array | None
    likelihood: Any

    @classmethod
    def of(
        cls,
        model: GP,
        X: Array | RowSource,
        y: Array,
        weight: Array | None,
        index: NDArray[np.intp] | None,
    ) -> Part:
        """Some rows, all if `index` is None."""
        if index is None:
            return cls(as_rows(X).array, y, weight, model.likelihood)
        part = None if weight is None else weight[index]
        return cls(as_rows(X).take(index), y[index], part, model.likelihood.rows(index))

    def take(self, index: NDArray[np.intp]) -> Part:
        """Some of them."""
        weight = None if self.weight is None else self.weight[index]
        return Part(self.X[index], self.y[index], weight, self.likelihood.rows(index))

    def learn(self, model: GP, rng: Any, time: Deadline, **options: Any) -> Learned:
        """Learn a model from the rows."""
        own = model.with_likelihood(self.likelihood.with_flat(model.likelihood.flat))
        return learn(own, self.X, self.y, self.weight, rng=rng, max_time=time.left, **options)


def rows_to_learn_from(
    model: GP, y: Array, most: int | None, rng: np.random.Generator
) -> NDArray[np.intp] | None:
    """Numbers of the rows, in increasing order; the same share of each class. None for all."""
    if most is None or len(y) <= most:
        return None
    if isinstance(model.likelihood, BinaryLikelihood) or (
        model.likelihood.n_latent > 1 and model.likelihood.discrete
    ):
        return same_shares(np.unique(y, return_inverse=True)[1], most, rng)
    return np.sort(rng.choice(len(y), most, replace=False))


def same_shares(codes: NDArray[np.intp], size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """A random subset with (nearly) the same share of each class, at least one row of each."""
    counts = np.bincount(codes)
    if size < len(counts):
        problem = f"must be at least the number of classes, {len(counts)}, got {size}"
        raise InputError(problem, parameter="learn_rows", value=size)
    quota = np.maximum(1, (counts * size) // len(codes))
    while quota.sum() > size:  # rare classes were rounded up
        quota[np.argmax(quota)] -= 1
    picked = [rng.choice(np.flatnonzero(codes == c), q, replace=False) for c, q in enumerate(quota)]
    return np.sort(np.concatenate(picked)).astype(np.intp)


# --- trials -------------------------------------------------------------------------------------------------


def tried(
    start: GP, some: Part, found: list[Representation], time: Deadline, options: dict[str, Any]
) -> tuple[Representation, tuple[tuple[str, float], ...]]:
    """The candidate that predicts held-out rows best after learning from other rows, and the scores of all."""
    order = np.random.default_rng(SEED).permutation(len(some.y))
    held = min(TRIAL_HELD_OUT, len(order) // HELD_OUT_SHARE)
    test, part = some.take(np.sort(order[:held])), some.take(np.sort(order[held:][:TRIAL_ROWS]))
    scores = []
    for representation in found:
        try:
            learned = part.learn(
                start.with_representation(representation),
                SEED,
                Deadline(time.part(TRIAL_SHARE)),
                warm=True,
                **options,
            )
            noise = test.likelihood.with_flat(learned.model.likelihood.flat)
            f = learned.posterior.predict_f(test.X)
            score = float(np.mean(noise.predictive(f.mean, f.variance).log_prob(test.y)))
        except (ValueError, ArithmeticError):
            score = -np.inf
        scores.append((representation.name, score))
    best = int(np.argmax([score for _, score in scores]))
    return found[best], tuple(scores)


def _starts_dense(model: GP, found: list[Representation]) -> bool:
    return (
        all(r.approximates for r in found) and model.likelihood.n_latent == 1 and not model.inference.samples
    )


def started(
    model: GP, some: Part, rng: np.random.Generator, time: Deadline, options: dict[str, Any]
) -> tuple[GP, float]:
    """The model with values learned from some rows, exactly held, by the whole search over starts; its value a row.

    Approximations have local optima of their own, in which few inducing inputs stand for a smooth function and noise;
    an optimum of the process itself leads past them. If the function has more bumps than such rows can tell from noise,
    neighbors among all rows say where to start.
    """
    if options["objective"] == "evidence":
        rows = TrainingRows(some.X, some.y, some.weight, np.arange(len(some.y)))
        near = neighbor_start(model, rows, Starts.of(model, some.X, some.y, some.weight), time)
        if near is not None:
            return model.replace(near.theta), -np.inf
    count = min(START_ROWS, len(some.y))
    part = some.take(np.sort(rng.choice(len(some.y), count, replace=False)))
    learned = part.learn(model.with_representation(Dense()), rng, Deadline(time.part(START_SHARE)), **options)
    values = learned.model.with_likelihood(model.likelihood.with_flat(learned.model.likelihood.flat))
    return values.with_representation(model.representation), learned.value / count


# --- the number of inducing inputs --------------------------------------------------------------------------


def grown(
    learned: Learned,
    start: GP,
    first: Inducing,
    some: Part,
    exact: float,
    time: Deadline,
    options: dict[str, Any],
) -> Learned:
    """With twice as many inducing inputs, again and again from the same start, while that gains enough.

    It goes on without a gain if a row is worth less than it was to an exactly held process of fewer rows (`exact`):
    then the inducing inputs are too few to tell the function from noise, and so may be twice as many.
    """
    n, m = len(some.y), first.m
    while learned.stopped is None and time.left != 0.0:
        m *= 2
        if m > min(MOST_INDUCING, n // LEAST_PER_INDUCING):
            break
        more = Inducing(m, first.kind, learn=first.learn, seed=first.seed)
        again = some.learn(start.with_representation(more), SEED, time, warm=True, **options)
        gain, poor = (again.value - learned.value) / n, again.value / n < exact - PAYS
        if gain > PAYS or (not first.learn and abs(gain) > PAYS):  # FITC is no bound: its value may fall
            learned = again
        elif not poor:
            break
    return learned


def with_status(posterior: Posterior, trials: tuple[tuple[str, float], ...]) -> Posterior:
    """With what the representation loses, and what was tried, in the status."""
    if not isinstance(posterior, Posterior) or not posterior.model.representation.approximates:
        return posterior
    return posterior.with_loss(trials)
