"""The mode of p(f | y) for one latent value per observation: Newton's method that cannot diverge.

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

from dataclasses import dataclass

import numpy as np

from cavity.latent.dense import DensePrior, ImproperPosteriorError, SiteCorrection
from cavity.likelihoods.base import Derivatives, Likelihood
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.linalg import Array
from cavity.sites import Sites

TARGET = 1e-8
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


@dataclass
class Point:
    """A value of f = m + K a with its objective."""

    a: Array
    f: Array
    value: float


@dataclass(frozen=True)
class Mode:
    """Where the search ended, with what was computed there.

    Attributes
    ----------
    a, f : arrays (n,)
    value : float
        Psi.
    derivatives : Derivatives
        Of log p at f, times the sample weights.
    correction : SiteCorrection
        R at the true curvature W of f.
    residual : float
        Newton decrement.
    clean : bool
        Whether every step was a whole Newton step in a region of positive definite curvature.
    """

    a: Array
    f: Array
    value: float
    derivatives: Derivatives
    correction: SiteCorrection
    residual: float
    iterations: int
    clean: bool

    @property
    def precision(self) -> Array:
        """W at the mode, shape (n,)."""
        return -self.derivatives.d2


class NoModeError(np.linalg.LinAlgError):
    """The search for a mode ended at a point that is not one."""


class ModeProblem:
    """The log posterior density of f up to a constant, and ways to climb it.

    With `memory`, factors live in the workspace array of that name: only the last one made is valid.
    """

    def __init__(
        self,
        prior: DensePrior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None = None,
        memory: str | None = None,
    ) -> None:
        self.prior, self.likelihood, self.y = prior, likelihood, y
        self.weight, self.memory = sample_weight, memory
        self.K, self.m = prior.covariance, prior.mean
        self._no_shift = np.zeros(prior.n)

    # --- the objective --------------------------------------------------------------------------------------

    def log_likelihood(self, f: Array) -> float:
        """sum_i w_i log p(y_i | f_i), -inf where it overflows."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            terms = self.likelihood.log_prob(self.y, f)
            total = float(terms.sum() if self.weight is None else self.weight @ terms)
        return total if np.isfinite(total) else -np.inf

    def derivatives(self, f: Array) -> Derivatives:
        """Of log p, times the sample weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            d = self.likelihood.derivatives(self.y, f)
        return d if self.weight is None else Derivatives(*(self.weight * part for part in d))

    def point(self, a: Array) -> Point:
        """The point f = m + K a."""
        moved = self.K @ a
        f = self.m + moved
        return Point(a, f, self.log_likelihood(f) - 0.5 * float(a @ moved))

    def prior_mean(self) -> Point:
        """f = m."""
        return Point(np.zeros(self.prior.n), self.m.copy(), self.log_likelihood(self.m))

    # --- curvature ------------------------------------------------------------------------------------------

    def condition(self, precision: Array) -> SiteCorrection:
        """R for the given curvature.

        Raises
        ------
        ImproperPosteriorError
            If the negative entries outweigh the prior.
        """
        return self.prior.condition(Sites(self._no_shift, precision), self.memory)

    def safe_precision(self, f: Array, d2: Array) -> Array:
        """A curvature >= 0: EM's weights for scale mixtures, the positive part of W for others."""
        if isinstance(self.likelihood, ScaleMixture):
            w = self.likelihood.expected_precision((self.y - f) ** 2)
            return w if self.weight is None else self.weight * w
        return np.maximum(-d2, 0.0)

    def linearized(self, f: Array, safe: bool = False) -> tuple[Point, SiteCorrection]:
        """One whole step from any f, which need not be of the form m + K a: sites of curvature and slope at
        f.

        Raises
        ------
        ImproperPosteriorError
            If the curvature at f does not make a proper posterior.
        """
        d = self.derivatives(f)
        precision = self.safe_precision(f, d.d2) if safe else -d.d2
        b = precision * (f - self.m) + d.d1
        correction = self.condition(precision)
        return self.point(b - correction.apply(self.K @ b)), correction

    def near(self, f: Array) -> Point:
        """Where one Newton step from any f leads, then steps with the same factorization while they help."""
        at, correction = self.linearized(f)
        return self._chord(at, correction, CHORD_FROM / CHORD_RATE) if np.isfinite(at.value) else at

    # --- steps ----------------------------------------------------------------------------------------------

    def step(self, correction: SiteCorrection, a: Array, d1: Array) -> tuple[Array, Array, float]:
        """(da, df, squared decrement)."""
        g = d1 - a
        da = g - correction.apply(self.K @ g)
        df = self.K @ da
        return da, df, float(g @ df)

    def move(self, at: Point, da: Array, df: Array, slope: float) -> tuple[Point, float]:
        """The best of some points along a step, with the share of the step that was taken (0 if none is
        better).

        `slope` is the derivative of Psi along the step at its beginning.
        """
        moved = at.f - self.m
        linear, quadratic = float(da @ moved), float(da @ df)
        base = -0.5 * float(at.a @ moved)

        def value(t: float) -> float:
            return self.log_likelihood(at.f + t * df) + base - t * linear - 0.5 * t * t * quadratic

        t, best, best_t = 1.0, at.value, 0.0
        v = value(t)
        if v >= at.value + SUFFICIENT * slope:
            return Point(at.a + da, at.f + df, v), 1.0
        low, high = 0.0, 1.0
        for _ in range(60):
            if v > best:
                best, best_t = v, t
            # Slope of the objective at t: a step too long if it points back or the value is not finite.
            if v == -np.inf:
                ahead = -1.0
            else:
                ahead = float(df @ self.derivatives(at.f + t * df).d1) - linear - t * quadratic
            if ahead > 0 and v >= at.value:
                low = t
            else:
                high = t
            if best_t > 0 and (high - low < 0.2 * high or abs(ahead) < 0.1 * slope):
                break
            t = 0.5 * (low + high) if low > 0 else 0.3 * high
            if t < 1e-14:
                break
            v = value(t)
        if best_t == 0.0:
            return at, 0.0
        return Point(at.a + best_t * da, at.f + best_t * df, best), best_t

    # --- searches -------------------------------------------------------------------------------------------

    def em(self, start: Point) -> Point:
        """EM (or clipped Newton) steps from a start until they gain little."""
        at = start
        for _ in range(EM_STEPS):
            d = self.derivatives(at.f)
            correction = self.condition(self.safe_precision(at.f, d.d2))
            da, df, squared = self.step(correction, at.a, d.d1)
            new, share = self.move(at, da, df, squared)
            gain, at = new.value - at.value, new
            if share == 0.0 or gain < EM_GAIN:
                break
        return at

    def newton(self, start: Point) -> Mode:
        """The mode that Newton's method reaches from a start.

        Raises
        ------
        NoModeError
            If it ends at a point where K^-1 + W is not positive definite, or where Psi is not finite.
        """
        if not np.isfinite(start.value):
            raise NoModeError(
                "the likelihood of the starting point is zero or not finite: check y against the model"
            )
        at, clean, escapes = start, True, 0
        smallest, stalled = np.inf, 0
        for iteration in range(1, MAX_ITERATIONS + 1):
            d = self.derivatives(at.f)
            try:
                correction, exact = self.condition(-d.d2), True
            except ImproperPosteriorError:
                correction, exact, clean = self.condition(self.safe_precision(at.f, d.d2)), False, False
            da, df, squared = self.step(correction, at.a, d.d1)
            decrement = float(np.sqrt(max(squared, 0.0)))
            stalled = 0 if decrement < 0.5 * smallest else stalled + 1
            smallest = min(smallest, decrement)
            if exact and (decrement <= TARGET or (stalled > 2 and decrement <= CONVERGED)):
                return Mode(at.a, at.f, at.value, d, correction, decrement, iteration, clean)
            new, share = self.move(at, da, df, squared)
            if share < 1.0:
                clean = clean and decrement < CHORD_FROM
            if share == 0.0 and exact:
                # Nothing along an ascent direction is better: rounding has been reached.
                return Mode(at.a, at.f, at.value, d, correction, decrement, iteration, clean)
            if share == 0.0 or (not exact and decrement <= CONVERGED):
                escapes += 1
                if escapes > 5:
                    break
                new = self._leave_saddle(at, -d.d2)
            elif exact and share == 1.0 and decrement < CHORD_FROM:
                new = self._chord(new, correction, decrement)
            at = new
        raise NoModeError(
            "Laplace's method found no mode: the curvature of the posterior is not positive definite where "
            'the search ended; use inference="ep" or "variational"'
        )

    def _chord(self, at: Point, correction: SiteCorrection, decrement: float) -> Point:
        """Steps with the last factorization, as long as they contract."""
        for _ in range(CHORD_STEPS):
            da, df, squared = self.step(correction, at.a, self.derivatives(at.f).d1)
            new = float(np.sqrt(max(squared, 0.0)))
            if not new < CHORD_RATE * decrement:
                break
            a, f = at.a + da, at.f + df
            at = Point(a, f, at.value)
            if new <= TARGET:
                break
            decrement = new
        return Point(at.a, at.f, self.log_likelihood(at.f) - 0.5 * float(at.a @ (at.f - self.m)))

    def _leave_saddle(self, at: Point, W: Array) -> Point:
        """The better of two points on either side of a saddle, along its direction of negative curvature.

        With K = L L', that is L u for the eigenvector u of the smallest eigenvalue of I + L' W L.
        """
        from scipy.linalg import eigh

        L = np.tril(self.prior.factor.lower)
        M = L.T @ (W[:, None] * L)
        M[np.diag_indices_from(M)] += 1.0
        _, vectors = eigh(M, subset_by_index=[0, 0])
        u = vectors[:, 0]
        da = self.prior.factor.half_solve_transposed(u)
        best = at
        for size in SADDLE_STEP * 0.25 ** np.arange(8):
            for sign in (1.0, -1.0):
                new = self.point(at.a + sign * size * da)
                if new.value > best.value:
                    best = new
            if best is not at:
                return best
        return at
