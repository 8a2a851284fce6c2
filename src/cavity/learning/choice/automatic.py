"""The choice of the kind of model: what the targets are, which noise they have, which kernel suits the inputs.

In this order, each step with the winner of the last (`screening` says how they are compared):

1. the kind of number that the targets are (`kinds`), and the warps that suit it, under Gaussian noise;
2. kernels (`structures`), the simplest first; whichever predicts rows left out best;
3. noise of counts and of ordered categories; noise whose level changes with the inputs, if residuals say so.

Outliers are looked for at the very end, in a fit of all rows (`outliers`): what is a count, a skewed target or a season
is no outlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.gp import GP
from cavity.kernels import Kernel
from cavity.learning.choice import kinds, structures
from cavity.learning.choice.inflation import inflation
from cavity.learning.choice.kinds import Kind, TargetKind
from cavity.learning.choice.result import Choice
from cavity.learning.choice.screening import Screen, Trial
from cavity.learning.choice.structures import Columns, Season
from cavity.learning.choice.words import in_sentences
from cavity.likelihoods import Gaussian, HeteroscedasticGaussian, Likelihood, NegativeBinomial, Poisson
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import Message
from cavity.runtime.progress import Progress

Build = Callable[[Any, Likelihood], GP]
"""A model of a kernel (one for each latent function) and a likelihood, bound to the columns."""

COMPARING = "comparing kinds of model"
"""What is going on, for the bar."""

FEWEST_FOR_KERNELS = 12
"""Rows below which nothing tells kernels apart."""

MOST_OUTLIERS = 0.1
"""Share of rows that are left out of the comparison as possible outliers, at most."""

CLEAR = 2.0
"""Standard errors by which another density must beat that of the kind of the targets."""

UNLIKELY = 0.01
"""Probability, over all columns, that even noise looks as uneven."""

SMALL_RESIDUAL = 0.05
"""Residuals, in standard deviations, of which the size is all the same."""


@dataclass(frozen=True)
class Chosen:
    """A kind of model, with values learned on some of the rows, and why.

    Attributes
    ----------
    model : GP
    choice : Choice
    inflation : float
        Factor of the variances of a model with Gaussian noise.
    learned : bool
        Whether its values are those of data: not if there was no time.
    set_aside : bool
        Whether they were learned without rows that may be outliers, or may be more than that.
    interrupted : bool
        Whether Ctrl-C ended the search.
    """

    model: GP
    choice: Choice
    inflation: float = 1.0
    learned: bool = True
    set_aside: bool = False
    interrupted: bool = False


@dataclass
class _Search:
    """The state of a choice: the best so far, everything that was tried, and what was seen."""

    screen: Screen
    build: Build
    columns: Columns
    progress: Progress
    best: Trial | None = None
    may_set_aside: bool = False
    set_aside: bool = False
    trials: list[Trial] = field(default_factory=list)
    seen: list[Message] = field(default_factory=list)

    def run(
        self, name: str, kernel: Kernel | list[Kernel], likelihood: Likelihood, start: bool = False
    ) -> Trial | None:
        """A trial from the values of the parts, or from the data."""
        if self.progress.done >= self.progress.total:
            self.progress.extend(1)
        model = self.build(kernel, likelihood)
        found = self.screen.run(name, model, model if start else None)
        if found is not None:
            self.trials.append(found)
        self.progress.advance()
        return found

    def offer(self, found: Trial | None, margin: float = 0.0) -> bool:
        """Keep a trial if it is better than the best so far by so many standard errors."""
        better = found is not None and (self.best is None or found.beats(self.best, margin))
        self.best = found if better else self.best
        return better


def choose(
    X: Array,
    y: Array,
    weight: Array | None,
    build: Build,
    *,
    kernel: Kernel | None = None,
    likelihood: Likelihood | None = None,
    seasons: Sequence[Season] = (),
    several: bool = True,
    rng: np.random.Generator,
    time: Deadline,
) -> Chosen:
    """The kind of model for numbers; a `kernel` or `likelihood` that is given stays.

    `several` says whether several latent functions can be represented, as noise with a level of its own needs.
    """
    kind = kinds.kind_of(y) if likelihood is None else TargetKind(Kind.REAL)
    whole = likelihood is None and kind.kind in (Kind.COUNT, Kind.FEW)
    columns, cycles = Columns.of(X), structures.seen(seasons, X)
    open_kernel = kernel is None and len(y) >= FEWEST_FOR_KERNELS
    simple = structures.isotropic(columns) if kernel is None else kernel
    interrupted = False
    discrete = _discrete_noises(kind, y)
    steps = 1 + len(WARPS.get(kind.kind, ())) + (_kernels(columns, cycles) if open_kernel else 0)
    with Progress(COMPARING, steps + len(discrete)) as progress:
        search = _Search(Screen(X, y, weight, rng, time, whole=whole), build, columns, progress)
        try:
            _noise(search, kind, y, simple, likelihood, may_set_aside=not cycles)
            if open_kernel:
                _kernel(search, cycles)
            if likelihood is None:
                _discrete(search, discrete)
                if several:
                    _changing_noise(search)
        except KeyboardInterrupt:
            interrupted = True
    if likelihood is None and search.best is not None:
        _within(search, kind)
    plainest = build(simple, Gaussian() if likelihood is None else likelihood)
    model = plainest if search.best is None else search.best.model
    factor = 1.0 if search.best is None else inflation(search.best.residual)
    reasons = in_sentences(search.trials, search.best, model, kind, search.seen)
    return Chosen(model, reasons, factor, search.best is not None, search.set_aside, interrupted)


# --- noise of numbers ---------------------------------------------------------------------------------------

WARPS: dict[Kind, tuple[Callable[[Array], Likelihood], ...]] = {
    Kind.POSITIVE: (kinds.positive,),
    Kind.COUNT: (kinds.positive,),
    Kind.SHARE: (kinds.share, kinds.positive),
}
"""Likelihoods that suit a kind of target, with exact inference."""


def _noise(
    search: _Search,
    kind: TargetKind,
    y: Array,
    kernel: Kernel,
    given: Likelihood | None,
    may_set_aside: bool,
) -> None:
    """Gaussian noise of the targets, or of what they are warped to.

    Rows that are far from what others predict even so are set aside, unless they may be a season: a few outliers on one
    side look like a skewed target.
    """
    if given is not None:
        search.offer(search.run("the noise asked for", kernel, given))
        return
    _gaussian_noises(search, kind, y, kernel)
    if search.best is None or kind.kind not in (Kind.REAL, Kind.POSITIVE) or not may_set_aside:
        return
    far = search.screen.far(search.best)
    search.may_set_aside = True
    if 0 < np.mean(far) <= MOST_OUTLIERS:
        search.screen.without(far)
        search.set_aside = True
        search.trials.clear()
        search.best = None
        _gaussian_noises(search, kind, y, kernel)


def _gaussian_noises(search: _Search, kind: TargetKind, y: Array, kernel: Kernel) -> None:
    search.offer(search.run("gaussian", kernel, Gaussian()))
    for suited in WARPS.get(kind.kind, ()):
        search.offer(search.run(suited.__name__, kernel, suited(y)))


def _within(search: _Search, kind: TargetKind) -> None:
    """Predictions end where the targets must, if they do not."""
    best = search.best
    assert best is not None
    leaves = best.reach[0] < kind.lower or best.reach[1] > kind.upper
    if isinstance(best.model.likelihood, Gaussian) and leaves:
        cut = kinds.clipped(kind).with_flat(best.model.likelihood.flat)
        search.best = replace(best, model=best.model.with_likelihood(cut))


def _discrete_noises(kind: TargetKind, y: Array) -> dict[str, Likelihood]:
    """Likelihoods of counts or ordered categories, if targets may be such."""
    found: dict[str, Likelihood] = {}
    if kind.kind is Kind.COUNT or (kind.kind is Kind.FEW and kind.lower == 0.0):
        found |= {"poisson": Poisson(), "negative-binomial": NegativeBinomial()}
    if kind.kind is Kind.FEW:
        found |= {"ordinal": kinds.ordinal(y)}
    return found


def _discrete(search: _Search, noises: dict[str, Likelihood]) -> None:
    """Noise of counts or ordered categories, unless another is clearly better."""
    best = search.best
    if best is None:
        return
    found = [search.run(name, best.model.kernel, noise) for name, noise in noises.items()]
    good = [trial for trial in found if trial is not None]
    if good:
        first = max(good, key=lambda trial: trial.score)
        search.best = best if best.beats(first, CLEAR) else first


def _changing_noise(search: _Search) -> None:
    """Noise with a level of its own function, if residuals depend on the inputs: linear, or if need be any.

    A level that rises at single rows predicts outliers well, without being right: they are set aside before, and its
    rows must be more probable than with tails that are heavy everywhere.
    """
    best = search.best
    if best is None or not isinstance(best.model.likelihood, Gaussian) or not _uneven(search, best):
        return
    regular = _without_far(search, best)
    if regular is None or not _uneven(search, regular):
        return
    noise = HeteroscedasticGaussian(float(best.model.likelihood.flat[0]))
    levels = {"linear": structures.line(search.columns), "smooth": structures.noise_level(search.columns)}
    search.best = heavy = replace(regular, density=regular.heavy_density, gaussian=False)
    for name, level in levels.items():
        tried = search.run(f"heteroscedastic, {name} level", [best.model.kernel, level], noise, start=True)
        if search.offer(tried, 1.0) and tried is not None and not _uneven(search, tried):
            break
    search.best = best if search.best is heavy else search.best


def _without_far(search: _Search, best: Trial) -> Trial | None:
    """The same candidate without rows that are far from what it predicts, if these are few and may be outliers."""
    far = search.screen.far(best)
    if not search.may_set_aside or not 0 < np.mean(far) <= MOST_OUTLIERS:
        return best
    search.screen.without(far)
    search.set_aside = True
    return search.screen.run(best.name, best.model, best.model)


def _uneven(search: _Search, best: Trial) -> bool:
    """Whether the size of residuals differs among four groups of rows along a column: an analysis of variance."""
    from scipy.stats import f_oneway

    size = np.log(best.residual + SMALL_RESIDUAL)
    X = search.screen.predicted_inputs
    for column in X.T[np.ptp(X, axis=0) > 0]:
        groups = np.searchsorted(np.unique(np.quantile(column, [0.25, 0.5, 0.75])), column)
        parts = [part for part in (size[groups == g] for g in np.unique(groups)) if len(part) > 2]
        if len(parts) > 1 and f_oneway(*parts).pvalue < UNLIKELY / X.shape[1]:
            return True
    return False


# --- kernels ------------------------------------------------------------------------------------------------


def _kernels(columns: Columns, seasons: Sequence[Season]) -> int:
    """How many are tried at least."""
    several = len(structures.SHRINKAGE) if len(columns.scale) > 1 else 0
    return 3 + several + len(seasons)


def _kernel(search: _Search, seasons: Sequence[Season]) -> None:
    """Richer kernels, each from the values of the best so far."""
    if search.best is None:
        return
    columns, noise = search.columns, search.best.model.likelihood
    rough = search.offer(search.run("rough", structures.isotropic(columns, rough=True), noise))
    variance, lengthscale = (float(v) for v in search.best.model.kernel.flat[:2])
    if len(columns.scale) > 1:
        for name, spread in structures.SHRINKAGE.items():
            each = structures.relevance(columns, variance, lengthscale, spread, rough)
            search.offer(search.run(name, each, noise, start=True))
    _line(search, noise)
    found = [season for season in seasons if _season(search, search.best.model.kernel, season)]
    if found:  # without them neither smooth nor rough was right
        name = "smooth, with seasons" if rough else "rough, with seasons"
        kernel = structures.isotropic(columns, rough=not rough, variance=variance, lengthscale=lengthscale)
        for season in found:
            kernel = structures.with_season(kernel, season, variance)
        search.offer(search.run(name, kernel, search.best.model.likelihood, start=True))


def _season(search: _Search, kernel: Kernel, season: Season) -> bool:
    """Whether a season beside a kernel is better than the best so far."""
    assert search.best is not None
    kernel = structures.with_season(kernel, season, structures.variance_of(kernel))
    return search.offer(
        search.run(f"season of a {season.name}", kernel, search.best.model.likelihood, start=True)
    )


def _line(search: _Search, noise: Likelihood) -> None:
    """A linear function, alone and beside the best so far."""
    assert search.best is not None
    curved = search.best.model
    line = search.run("linear", structures.line(search.columns), noise)
    search.offer(line)
    slopes = 1.0 / len(search.columns.scale) if line is None else 0.5 * float(line.model.kernel.flat[0])
    kernel = structures.with_line(curved.kernel, search.columns, slopes)
    search.offer(search.run("with a line", kernel, curved.likelihood, start=True))


def choose_kernel_of_classes(
    X: Array,
    targets: Array,
    weight: Array | None,
    build: Callable[[Kernel], GP],
    groups: NDArray[np.intp],
    *,
    rng: np.random.Generator,
    time: Deadline,
) -> Chosen | None:
    """The kernel for classes; None if nothing could be tried."""
    screen, columns = Screen(X, targets, weight, rng, time, groups=groups), Columns.of(X)
    interrupted = False
    with Progress(COMPARING, 1 + _kernels(columns, ())) as progress:
        search = _Search(screen, lambda kernel, _: build(kernel), columns, progress)
        try:
            search.offer(search.run("isotropic", structures.isotropic(columns), Gaussian()))
            _kernel(search, ())
        except KeyboardInterrupt:
            interrupted = True
    if search.best is None:
        return None
    model = search.best.model
    reasons = in_sentences(search.trials, search.best, model, None, search.seen)
    return Chosen(model, reasons, interrupted=interrupted)
