"""The mode of p(f | y): Newton's method that cannot diverge.

    Psi(f) = sum_i w_i log p(y_i | f_i) - 1/2 (f - m)' K^-1 (f - m),   f = m + K a
    g = w d1 - a  (gradient in f),   W = -w d2,   R = (K + W^-1)^-1
    Newton step:  da = (I - R K) g,   df = K da = (K^-1 + W)^-1 g,   decrement^2 = g' df

No inverse of K appears (book, Algorithm 3.1, in residual form so that rounding errors correct themselves). A
step is taken whole if Psi rises enough, otherwise a search along the line, which costs O(n) per trial, finds
a better length. Once the decrement is small, chord steps reuse the last factorization, and one more
factorization at the mode itself confirms it: the decrement there is the residual that is reported.

Where log p is not log-concave, K^-1 + W need not be positive definite. Then a curvature that makes it so
takes the place of W: for scale mixtures of normals the precision E[w | y - f], whose whole step is a step of
EM (iterated reweighted least squares) and cannot decrease Psi; for others the positive part of W. A
stationary point at which K^-1 + W is not positive definite is a saddle and is left along its direction of
negative curvature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.inference.base import InferenceFailedError
from cavity.inference.laplace.flatness import barrier
from cavity.latent.base import Conditioning, ImproperPosteriorError, LatentPrior
from cavity.likelihoods.base import Derivatives, Likelihood
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.numerics.arrays import Array
from cavity.runtime.errors import Setting

TARGET = 1e-7
"""Newton decrement (length of the next step in posterior standard deviations) at which iterations stop."""

CONVERGED = 1e-6
"""Decrement up to which a point counts as the mode; rounding may keep it above TARGET."""

CHORD_FROM = 0.3
"""Decrement below which steps reuse the last factorization."""

CHORD_STEPS = 12
CHORD_RATE = 0.4
"""A chord step, which costs a tenth of a factorization, must reduce the decrement to this fraction of the
last."""

SUFFICIENT = 1e-4
"""Share of the promised increase of the objective that a step must deliver (Armijo)."""

MAX_ITERATIONS = 200

EM_STEPS = 15
EM_GAIN = 1e-2
"""EM steps from each start, at most, and the gain in nats below which Newton's method takes over."""

SADDLE_STEP = 0.3
"""First step away from a saddle, in prior standard deviations along the direction of negative curvature."""

LINE_TRIALS = 60
"""Points tried along a line."""

JUMPS, JUMP_POINTS = 4, 1000
"""Jumps that are climbed from a mode, and the number of observations up to which they are tried."""

SMALLEST_FOR_LANCZOS = 10
"""White coordinates from which one eigenvector is found by Lanczos iterations."""

ROUGHLY = 1e-3
"""Relative accuracy of that eigenvector's eigenvalue: any direction that leads downwards will do."""

ESCAPES = 5
"""Saddles that may be left before a search is given up."""


@dataclass
class LatentPoint:
    """A value of f = m + K a with its objective; arrays have the shape of f."""

    a: Array
    f: Array
    value: float


@dataclass(frozen=True)
class Mode:
    """Where the search ended, with what was computed there.

    Attributes
    ----------
    a, f : arrays
    value : float
        Psi.
    derivatives
        Of log p at f, times the sample weights.
    curvature
        The factorization at the true W of f.
    step : array
        The Newton step that remains, in f.
    residual : float
        Newton decrement.
    clean : bool
        Whether every step was a whole Newton step in a region of positive definite curvature.
    """

    a: Array
    f: Array
    value: float
    derivatives: Any
    curvature: Any
    step: Array
    residual: float
    iterations: int
    clean: bool


class NoModeError(InferenceFailedError):
    """The search for a mode ended at a point that is not one."""


class LogPosterior(ABC):
    """The log posterior density of f up to a constant, and ways to climb it.

    A subclass knows the likelihood's derivatives and how to factorize. What it calls derivatives and
    curvature is its own affair; here they are only handed on.
    """

    prior: Any
    likelihood: Likelihood

    def __init__(self, prior: Any, observations: Observations) -> None:
        self.prior, self.observations, self.m = prior, observations, prior.mean
        self.likelihood, self.y = observations.likelihood, observations.y

    # --- what a subclass knows ------------------------------------------------------------------------------

    @abstractmethod
    def derivatives(self, f: Array) -> Any:
        """Of log p at f, times the sample weights."""

    @abstractmethod
    def slope(self, derivatives: Any) -> Array:
        """The gradient of log p in f, shape of f."""

    @abstractmethod
    def times_W(self, f: Array, derivatives: Any, x: Array, safe: bool) -> Array:
        """W x, with the curvature that `curvature` would take."""

    @abstractmethod
    def curvature(self, f: Array, derivatives: Any, safe: bool = False) -> Any:
        """Factorization for the curvature W at f, or with `safe` for one that is positive semi-definite.

        Raises
        ------
        ImproperPosteriorError
            If K^-1 + W is not positive definite.
        """

    @abstractmethod
    def downward(self, f: Array, derivatives: Any) -> tuple[Array, Array]:
        """(da, K da) along the direction of most negative curvature, of length one in prior sd."""

    @abstractmethod
    def starts(self) -> Iterator[LatentPoint]:
        """Points worth climbing from, for posteriors with several modes."""

    def jumps(self, mode: Mode) -> list[LatentPoint]:
        """Points from which a higher mode may be reached, the most promising first; none by default."""
        return []

    def smallest_curvature(self, mode: Mode) -> float:
        """How much curvature is left in the flattest direction, as a share of what there would be without
        negative curvature of the likelihood: 1 if there is none, 0 where a mode and a saddle merge."""
        return float(mode.curvature.smallest_curvature)

    def log_evidence(self, mode: Mode) -> float:
        """That of the Gaussian at the mode."""
        return mode.value - 0.5 * float(mode.curvature.log_det)

    @abstractmethod
    def at(self, kernel: Any, mean_function: Any, likelihood: Any) -> LogPosterior:
        """The same problem with other hyperparameters."""

    # --- the objective --------------------------------------------------------------------------------------

    def log_likelihood(self, f: Array) -> float:
        """sum_i w_i log p(y_i | f_i), -inf where it overflows."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total = float(self.observations.log_prob(f))
        return total if np.isfinite(total) else -np.inf

    def point(self, a: Array, moved: Array) -> LatentPoint:
        """The point f = m + K a, given a and K a."""
        f = self.m + moved
        return LatentPoint(a, f, self.log_likelihood(f) - 0.5 * float(np.vdot(a, moved)))

    def prior_mean(self) -> LatentPoint:
        """f = m."""
        return LatentPoint(np.zeros_like(self.m), self.m.copy(), self.log_likelihood(self.m))

    def linearized(self, f: Array, safe: bool = False) -> tuple[LatentPoint, Any]:
        """One whole step from any f, which need not be of the form m + K a, and the factorization it took.

        Raises
        ------
        ImproperPosteriorError
            If the curvature at f does not make a proper posterior.
        """
        d = self.derivatives(f)
        curvature = self.curvature(f, d, safe)
        b = self.times_W(f, d, f - self.m, safe) + self.slope(d)
        return self.point(*curvature.project(b)), curvature

    def near(self, f: Array) -> LatentPoint:
        """Where one Newton step from any f leads, then steps with the same factorization while they help."""
        at, curvature = self.linearized(f)
        return self._chord(at, curvature, CHORD_FROM / CHORD_RATE) if np.isfinite(at.value) else at

    # --- steps ----------------------------------------------------------------------------------------------

    def step(self, curvature: Any, a: Array, slope: Array) -> tuple[Array, Array, float]:
        """(da, df, squared decrement)."""
        g = slope - a
        da, df = curvature.project(g)
        return da, df, float(np.vdot(g, df))

    def move(self, at: LatentPoint, da: Array, df: Array, slope: float) -> tuple[LatentPoint, float]:
        """The best point found along a step, and the share of the step that was taken (0 if none is better).

        `slope` is the derivative of Psi along the step at its beginning.
        """
        moved = at.f - self.m
        linear, quadratic = float(np.vdot(da, moved)), float(np.vdot(da, df))
        base = -0.5 * float(np.vdot(at.a, moved))

        def value(t: float) -> float:
            return self.log_likelihood(at.f + t * df) + base - t * linear - 0.5 * t * t * quadratic

        t, best, best_t = 1.0, at.value, 0.0
        v = value(t)
        if v >= at.value + SUFFICIENT * slope:
            return LatentPoint(at.a + da, at.f + df, v), 1.0
        low, high = 0.0, 1.0
        for _ in range(LINE_TRIALS):
            if v > best:
                best, best_t = v, t
            # A step is too long where the objective points back or is not finite.
            ahead = -np.inf
            if v > -np.inf:
                ahead = (
                    float(np.vdot(df, self.slope(self.derivatives(at.f + t * df)))) - linear - t * quadratic
                )
            if ahead > 0 and v >= at.value:
                low = t
            else:
                high = t
            if best_t > 0 and (high - low < 0.2 * high or abs(ahead) < 0.1 * slope):
                break
            t = 0.5 * (low + high) if low > 0 else 0.3 * high
            v = value(t)
        if best_t == 0.0:
            return at, 0.0
        return LatentPoint(at.a + best_t * da, at.f + best_t * df, best), best_t

    # --- searches -------------------------------------------------------------------------------------------

    def em(self, start: LatentPoint) -> LatentPoint:
        """Steps with a safe curvature (for scale mixtures: EM) from a start until they gain little."""
        at = start
        for _ in range(EM_STEPS):
            d = self.derivatives(at.f)
            try:
                curvature = self.curvature(at.f, d, safe=True)
            except ImproperPosteriorError:  # so steep that rounding hides the prior
                break
            da, df, squared = self.step(curvature, at.a, self.slope(d))
            new, share = self.move(at, da, df, squared)
            gain, at = new.value - at.value, new
            if share == 0.0 or gain < EM_GAIN:
                break
        return at

    def newton(self, start: LatentPoint, *, whole_steps: bool = False) -> Mode:
        """The mode that Newton's method reaches from a start; its residual says how closely.

        Raises
        ------
        NoModeError
            If it ends at a point where K^-1 + W is not positive definite, or where Psi is not finite; with
            `whole_steps` at once if the mode would not be `clean`.
        """
        if not np.isfinite(start.value):
            raise NoModeError(
                "the likelihood of the starting point is zero or not finite: check y against the model"
            )
        at, clean, escapes, exact = start, True, 0, False
        smallest, stalled = np.inf, 0
        for iteration in range(1, MAX_ITERATIONS + 1):
            if whole_steps and not clean:
                raise NoModeError("whole steps of Newton's method do not lead to a mode")
            d = self.derivatives(at.f)
            try:
                curvature, exact = self.curvature(at.f, d), True
            except ImproperPosteriorError:
                exact, clean = False, False
                if whole_steps:
                    continue
                try:
                    curvature = self.curvature(at.f, d, safe=True)
                except ImproperPosteriorError:  # so steep that rounding hides the prior
                    break
            da, df, squared = self.step(curvature, at.a, self.slope(d))
            # negative only by rounding, which may be large: then there is no mode
            decrement = float(np.sqrt(abs(squared)))
            stalled = 0 if decrement < 0.5 * smallest else stalled + 1
            smallest = min(smallest, decrement)
            mode = Mode(at.a, at.f, at.value, d, curvature, df, decrement, iteration, clean)
            if exact and (decrement <= TARGET or (stalled > 2 and decrement <= CONVERGED)):
                return mode
            new, share = self.move(at, da, df, squared)
            clean = clean and (share == 1.0 or decrement < CHORD_FROM)
            if share == 0.0 and exact:
                # Along an ascent direction nothing is better: rounding hides the gain. The decrement has more
                # digits than Psi: go on by it while it falls.
                if decrement > CHORD_FROM or stalled > 0:
                    return mode
                new = self._chord(at, curvature, 2.0 * decrement / CHORD_RATE)
            elif share == 0.0 or (not exact and decrement <= CONVERGED):
                escapes += 1
                if escapes > ESCAPES:
                    break
                new = self._leave_saddle(at, d)
            elif exact and share == 1.0 and decrement < CHORD_FROM:
                new = self._chord(new, curvature, decrement)
            at = new
        if exact:
            return mode
        raise NoModeError(
            "Laplace's method found no mode: the curvature of the posterior is not positive definite where "
            "the search ended",
            remedy=("use ", Setting("inference", ("ep", "variational"))),
        )

    def _chord(self, at: LatentPoint, curvature: Any, decrement: float) -> LatentPoint:
        """Steps with the last factorization, as long as they contract."""
        a, f = at.a, at.f
        for _ in range(CHORD_STEPS):
            da, df, squared = self.step(curvature, a, self.slope(self.derivatives(f)))
            new = float(np.sqrt(max(squared, 0.0)))
            if not new < CHORD_RATE * decrement:
                break
            a, f, decrement = a + da, f + df, new
            if new <= TARGET:
                break
        return self.point(a, f - self.m)

    def _leave_saddle(self, at: LatentPoint, derivatives: Any) -> LatentPoint:
        """The better of two points on either side of a saddle, along its direction of negative curvature."""
        da, df = self.downward(at.f, derivatives)
        for size in SADDLE_STEP * 0.25 ** np.arange(8):
            sides = [self.point(at.a + t * da, at.f + t * df - self.m) for t in (size, -size)]
            best = max(sides, key=lambda p: p.value)
            if best.value > at.value:
                return best
        return at


class OneLatent(LogPosterior):
    """One latent value per observation: W = -w d2 is diagonal.

    With `transient`, factors live in shared memory: only the last one made is valid.
    """

    prior: LatentPrior

    def __init__(self, prior: LatentPrior, observations: Observations, transient: bool = False) -> None:
        super().__init__(prior, observations)
        self.transient = transient

    def derivatives(self, f: Array) -> Derivatives:
        """Of log p, times the sample weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            d = self.likelihood.derivatives(self.y, f)
        return Derivatives(*map(self.observations.weighted, d))

    def slope(self, derivatives: Derivatives) -> Array:
        """d1."""
        return derivatives.d1

    def precision(self, f: Array, derivatives: Derivatives, safe: bool) -> Array:
        """W, or a curvature >= 0: EM's weights for scale mixtures, the positive part of W for others."""
        if not safe:
            return -derivatives.d2
        if isinstance(self.likelihood, ScaleMixture):
            return self.observations.weighted(self.likelihood.expected_precision((self.y - f) ** 2))
        return np.maximum(-derivatives.d2, 0.0)

    def times_W(self, f: Array, derivatives: Derivatives, x: Array, safe: bool) -> Array:
        """W x."""
        return self.precision(f, derivatives, safe) * x

    def curvature(self, f: Array, derivatives: Derivatives, safe: bool = False) -> Conditioning:
        """The conditioning on W."""
        return self.prior.condition(self.precision(f, derivatives, safe), transient=self.transient)

    def log_evidence(self, mode: Mode) -> float:
        """That of the Gaussian at the mode, less what nearly flat directions pay."""
        return super().log_evidence(mode) + barrier(mode.curvature).value

    def downward(self, f: Array, derivatives: Derivatives) -> tuple[Array, Array]:
        """In white coordinates f = m + V u, V u for the eigenvector u of the smallest eigenvalue e of V' W V.

        Then V u = K (W V u) / e, which gives a without an inverse of K.
        """
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

        prior, W, r = self.prior, -derivatives.d2, self.prior.white_dim

        def curvature(u: Array) -> Array:
            return prior.unwhiten_adjoint(W * (prior.unwhiten(u) - prior.mean))

        operator = LinearOperator((r, r), matvec=lambda u: curvature(np.ravel(u)), dtype=float)
        try:
            if r < SMALLEST_FOR_LANCZOS:
                values, vectors = np.linalg.eigh(operator @ np.eye(r))
            else:
                values, vectors = eigsh(operator, k=1, which="SA", v0=np.ones(r), tol=ROUGHLY)
        except ArpackNoConvergence:
            raise NoModeError("no direction leads away from a saddle of the posterior") from None
        da = W * (prior.unwhiten(vectors[:, 0]) - prior.mean) / values[0]
        return da, prior.times(da)

    def at(self, kernel: Any, mean_function: Any, likelihood: Any) -> OneLatent:
        """The same problem with other hyperparameters."""
        return OneLatent(self.prior.at(kernel, mean_function), self.observations.under(likelihood))

    # --- starts ---------------------------------------------------------------------------------------------

    def starts(self) -> Iterator[LatentPoint]:
        """The prior mean, the data, and for scale mixtures also a fit with broad noise and leave-one-out."""
        yield self.prior_mean()
        likelihood, y, m = self.likelihood, self.y, self.m
        if not isinstance(likelihood, ScaleMixture):
            for center in np.atleast_2d(likelihood.break_points(y)):
                if center.shape == y.shape and np.isfinite(self.log_likelihood(center)):
                    yield self.linearized(center, safe=True)[0]
            return
        weight = self.observations.weights
        narrow = weight * likelihood.expected_precision(np.zeros(len(y)))
        broad = weight * likelihood.expected_precision(np.full(len(y), float(np.mean((y - m) ** 2))))
        yield self._smooth(narrow)
        yield self._smooth(broad)
        # The residual of each target given the others under narrow normal noise (eq. 5.12).
        given = self.prior.condition(narrow)
        alpha = given.project(narrow * (y - m))[0]
        yield self._smooth(weight * likelihood.expected_precision((alpha / given.unexplained) ** 2))

    def jumps(self, mode: Mode) -> list[LatentPoint]:
        """One observation at a time is believed, or left out, and all of f follows.

        With A the posterior covariance of a safe curvature, f moves by A[:, i] (t - f_i) / A_ii, where t is
        what the observation says f_i is, or what the other observations say. Only points that change f_i by
        more than its posterior sd count; the best of them, by Psi, are returned.
        """
        n, d = len(self.y), mode.derivatives
        if n > JUMP_POINTS:
            return []
        precision = self.precision(mode.f, d, safe=True)
        given = self.prior.condition(precision)
        variance = np.maximum(given.var, np.finfo(float).tiny)
        left = np.maximum(1.0 - precision * variance, np.finfo(float).eps)
        targets = [mode.f - d.d1 * variance / left]
        targets += [b for b in np.atleast_2d(self.likelihood.break_points(self.y)) if b.shape == mode.f.shape]
        found: list[LatentPoint] = []
        for target in targets:
            shift = (target - mode.f) / variance
            far = np.flatnonzero(np.isfinite(shift) & (shift**2 * variance > 1.0))
            if far.size == 0:
                continue
            columns = np.zeros((n, far.size))
            columns[far, np.arange(far.size)] = shift[far]
            a, moved = given.project(columns)
            a += mode.a[:, None]
            moved += (mode.f - self.m)[:, None]
            with np.errstate(over="ignore", invalid="ignore"):
                terms = self.likelihood.log_prob(self.y, self.m + moved.T)
            values = self.observations.weighted(terms).sum(axis=1)
            values -= 0.5 * np.einsum("ij,ij->j", a, moved)
            for k in np.argsort(-values)[:JUMPS]:
                found.append(LatentPoint(a[:, k], self.m + moved[:, k], float(values[k])))
        return sorted((q for q in found if np.isfinite(q.value)), key=lambda q: -q.value)[:JUMPS]

    def _smooth(self, precision: Array) -> LatentPoint:
        """The fit with normal noise of these precisions."""
        return self.point(*self.prior.condition(precision).project(precision * (self.y - self.m)))
