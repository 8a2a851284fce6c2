"""Where learning starts: typical sizes read off the data, turned into values, spreads and limits of
parameters.

Nothing here changes the model. Every parameter says what it measures (a length along some input columns, a
variance of the function, of the noise, ...: `cavity.learning.guesses`); the data say how large such things
typically are (`cavity.learning.data_scale`). From that come the first start, the draws of later starts for parameters
without a prior of their own, the box that the optimizer stays in, and the scale of each coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from cavity.kernels import Kernel, WithSlopes
from cavity.learning.data_scale import DataScale, resolution, without_far
from cavity.learning.guesses import Guess, Reader, fitted_mean, free_guess
from cavity.likelihoods import Gaussian, GaussianNoise, Switch
from cavity.numerics.arrays import Array
from cavity.parameters.per_latent import PerLatent

if TYPE_CHECKING:
    from cavity.gp import GP
    from cavity.latent.base import Representation
    from cavity.likelihoods.base import Likelihood

__all__ = ["DataScale", "Guess", "Starts"]

DISCRETE_SCALE = (0.0, 2.0)
"""Level and spread to expect of a latent function behind labels."""

SMALL_MOVE = 0.1
"""Unit step of an inducing input, in standard deviations of its column."""

EXPLAINED = 1e-6
"""Targets are explained if what is left over is below this share of them."""

IMPLAUSIBLE = 8.0
"""If the prior density of a data-driven value is this many nats below that of the value given, the latter
is the start."""


def latent_scale(likelihood: Likelihood, y: Array) -> tuple[float, float] | None:
    """Level and spread to expect of the latent function; None if they are those of y itself."""
    from cavity.likelihoods import Binomial, CountLikelihood

    if not likelihood.discrete:
        return None
    if isinstance(likelihood, CountLikelihood) and not isinstance(likelihood, Binomial):
        logs = np.log(y + 0.5)
        return float(np.log(np.mean(y) + 0.5)), max(1.0, float(np.std(logs)))
    return DISCRETE_SCALE


@dataclass(frozen=True)
class Starts:
    """Starting points for the free parameters of a model.

    Attributes
    ----------
    first : array (p,)
        The data-driven start, in `theta`.
    spread : array (p,)
        Standard deviations to expect around it.
    reach : array (p,)
        Those of `draws`.
    box : array (p, 2)
        Limits of the optimizer, in `theta`; a user's own bounds take their place.
    scale : array (p,)
        Size of a unit step of each coordinate.
    blocks : tuple of arrays of int
        Positions in `theta` of the parameters of each term, if the kernel is a sum.
    """

    model: GP
    first: Array
    spread: Array
    reach: Array
    box: Array
    scale: Array
    blocks: tuple[NDArray[np.intp], ...] = ()

    @classmethod
    def of(cls, model: GP, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """For a model bound to the columns of X."""
        guesses = _guesses(model, X, y, sample_weight)
        layout = model.layout
        chosen = [guesses[i] for i in layout.lead]
        step = np.array([g.step for g in chosen])
        first = layout.to_unconstrained(np.array([g.center for g in chosen]))
        first = _plausible(model, first)
        with np.errstate(divide="ignore"):
            low = layout.to_unconstrained(np.array([g.low for g in chosen]))
            high = layout.to_unconstrained(np.array([g.high for g in chosen]))
        # The box must hold what the user gave, and must not cross a bound of the user's.
        low, high = np.minimum(low, model.theta), np.maximum(high, model.theta)
        for i, guess in enumerate(chosen):
            if guess.floor > -np.inf:
                floors = [guess.floor if g is guess else g.center for g in chosen]
                floor = layout.to_unconstrained(np.array(floors))[i]
                low[i], high[i] = max(low[i], floor), max(high[i], floor)
        own = np.array(layout.bounds).reshape(-1, 2)
        low, high = (
            np.where(np.isfinite(own[:, 0]), own[:, 0], low),
            np.where(np.isfinite(own[:, 1]), own[:, 1], high),
        )
        box = np.column_stack([low, high])
        spread = step * np.array([g.spread for g in chosen])
        reach = spread * np.array([g.reach for g in chosen])
        return cls(model, np.clip(first, box[:, 0], box[:, 1]), spread, reach, box, step, _blocks(model))

    def draw(self, rng: np.random.Generator, widen: float = 1.0) -> Array:
        """A random start: from each parameter's own prior if it has one, else around the data-driven
        value."""
        return self._placed(widen * self.spread * rng.standard_normal(len(self.first)), rng)

    def draws(self, rng: np.random.Generator, count: int) -> list[Array]:
        """Several, by Latin hypercube: of each coordinate every quantile from 1 / count to 1 is drawn from once."""
        strata = rng.permuted(np.tile(np.arange(count), (len(self.first), 1)), axis=1)
        normal = ndtri((strata + rng.random(strata.shape)) / count)
        return [self._placed(self.reach * z, rng) for z in normal.T]

    def _placed(self, step: Array, rng: np.random.Generator) -> Array:
        theta = self.model.layout.draw_from_priors(self.first + step, rng)
        return np.clip(theta, self.box[:, 0], self.box[:, 1])


def _guesses(model: GP, X: Array, y: Array, sample_weight: Array | None) -> list[Guess]:
    """One guess per flat value of kernel, mean, likelihood and representation, in this order."""
    from cavity.means.basis import Basis

    if isinstance(model.likelihood, Switch):
        return _guesses_by_group(model, model.likelihood, X, y, sample_weight)
    f_scale = latent_scale(model.likelihood, y)
    plain = f_scale is None and model.likelihood.n_latent == 1  # one function, in the units of y
    reach, finest = 0.0, 0.0
    y = model.likelihood.latent_targets(y)
    if plain and y.ndim == 1 and not isinstance(model.likelihood.noise, GaussianNoise):
        finest = resolution(y)
    if plain and not model.likelihood.log_concave:
        y, reach = without_far(y)  # the noise explains the others
    fitted, rest, level = model.mean, y, None
    if plain:
        fitted, rest = fitted_mean(model.mean, X, y)
    if plain and model.mean.theta.size == 0 and not isinstance(model.mean, Basis):
        # The mean function is fixed: what it leaves over, level included, is the process's to explain.
        rest, level = (y.T - model.mean(X)).T, 0.0
    # What a mean that explains everything leaves over is nothing but rounding.
    least = EXPLAINED * float(np.max(np.abs(y))) if rest is not y else 0.0
    scale = DataScale.of(X, rest, f_scale, sample_weight, level, least)
    reader = Reader(replace(scale, reach=reach, resolution=finest))
    columns = tuple(range(X.shape[1]))
    if isinstance(model.kernel, PerLatent) and f_scale is None:
        # The first function is that of y; the others are logarithms, of a size of about one.
        first, *others = (cast(Kernel, part) for part in model.kernel.parts)
        guesses = reader.kernel(first, columns)
        for kernel in others:
            guesses += reader.kernel(kernel, columns, 1.0 / reader.data.f_sd**2)
    else:
        guesses = reader.kernel(model.kernel, columns)
    of_mean = reader.part(model.mean)
    if fitted is not model.mean:
        of_mean = [replace(g, center=float(v)) for g, v in zip(of_mean, fitted.flat)]
    return guesses + of_mean + reader.part(model.likelihood) + _of_representation(model.representation, X)


def _guesses_by_group(
    model: GP, switch: Switch, X: Array, y: Array, sample_weight: Array | None
) -> list[Guess]:
    """For rows with different likelihoods: the function from rows that observe its values, noise from its own rows."""
    groups = [(one, rows) for one, rows in zip(switch.likelihoods, switch.for_inputs(X)._known)]
    observe = (
        X[:, X.shape[1] // 2 - 1] == 1.0 if isinstance(model.kernel, WithSlopes) else np.ones(len(X), bool)
    )
    plain = [rows[observe[rows]] for one, rows in groups if not one.discrete]
    main = np.sort(np.concatenate([*plain, np.zeros(0, np.intp)]))
    main = main if len(main) else np.arange(len(X))
    weight = None if sample_weight is None else sample_weight[main]
    whole = _guesses(model.with_likelihood(Gaussian()), X[main], y[main], weight)
    start = model.kernel.flat.size + model.mean.flat.size
    noise: list[Guess] = []
    for one, rows in groups:
        rows = rows if len(rows) else main
        targets = y[rows] if one.discrete or one.log_concave else without_far(y[rows])[0]
        scale = DataScale.of(X[rows], targets, latent_scale(one, targets))
        noise += Reader(scale).part(one)
    return whole[:start] + noise + whole[start + 1 :]


def _of_representation(representation: Representation, X: Array) -> list[Guess]:
    """Values that were chosen for the rows, such as inducing inputs, stay where they are in every start."""
    if representation.flat.size == 0:
        return []
    steps = np.resize(
        SMALL_MOVE * np.where(np.ptp(X, axis=0) > 0, X.std(axis=0), 1.0), representation.flat.size
    )
    return [free_guess(float(v), float(s), 0.0) for v, s in zip(representation.flat, steps)]


def _plausible(model: GP, theta: Array) -> Array:
    """The data-driven values, unless a parameter's own prior finds the given one far more likely."""
    layout = model.layout
    x, given = layout.to_natural(theta), layout.to_natural(model.theta)
    out = theta.copy()
    for s, entry in enumerate(layout.free):
        if entry.prior is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                here, there = (float(entry.prior.log_density(v[s : s + 1])[0]) for v in (x, given))
            if not here > there - IMPLAUSIBLE:
                out[s] = model.theta[s]
    return out


def _blocks(model: GP) -> tuple[NDArray[np.intp], ...]:
    """Positions in `theta` of each term's free parameters, for a kernel that is a sum."""
    from cavity.kernels import Sum

    if not isinstance(model.kernel, Sum):
        return ()
    blocks, start = [], 0
    for term in model.kernel.terms:
        stop = start + term.flat.size
        block = np.flatnonzero((model.layout.lead >= start) & (model.layout.lead < stop))
        if block.size:
            blocks.append(block)
        start = stop
    return tuple(blocks)
