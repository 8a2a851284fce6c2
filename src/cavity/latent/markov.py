# mypy: disable-error-code="call-arg"
"""The latent process as a Gaussian Markov process of one input: exact for kernels with a state-space form, O(n) time.

A covariance filter and one backward pass answer everything that the latent protocol asks (`latent.markov_passes` has
the recursions); the form of the kernel comes from `kernels.state_space`. Times may be irregular, repeated and in any
order. Sites may have either sign. With g_k = 1 + tau_k s_k the pivots of the filter, the posterior is proper if and
only if as many of the negative pivots belong to positive sites as to negative ones: g_k <= 0 alone says nothing, since
a later site may rescue an earlier one.

A derivative in the precisions, as Newton methods and gradients of marginal variances need it, is the imaginary part
of a pass with complex precisions.

Nothing is subtracted that is nearly equal: at long length scales and tiny noise this has more digits than a Cholesky
factorization of the covariance matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Kernel, as_inputs
from cavity.kernels.state_space import FactorKind, StateSpace, matern_constants
from cavity.latent.base import (
    Capability,
    Conditioning,
    FlatDirections,
    ImproperPosteriorError,
    Inputs,
    LatentPrior,
    PriorGradient,
    Representation,
)
from cavity.latent.negative_sites import NegativeSites
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER, NotPositiveDefiniteError, covariance_root

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.means.basis import Basis
    from cavity.means.functions import Mean

IMAGINARY = 1e-40
"""Size of complex steps: far below rounding of the real parts, far above the smallest number."""

CHUNK = 256
"""Steps between stored covariances, as in `markov_passes`."""

MEMORY = 16_000_000
"""Numbers of all transitions that are held at a time (128 MB); beyond it they are made stretch by stretch."""

FEW_NEGATIVE = 300
"""Negative sites up to which flat directions of the posterior are looked for, at n states each."""

SINGULAR = 4.0 * float(np.finfo(float).eps)
"""Share of the prior variance below which what an exact observation adds is rounding."""


class Markov(Representation):
    """A Gaussian Markov process of one input: every row costs the same, and so do a million.

    For kernels with an exact state-space form: `Matern` of half-integer order, `Cosine`, `Constant`, `Linear`,
    `Wiener`, `IntegratedWiener`, and their sums, products and multiples.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import Matern
    >>> from cavity.latent import Markov
    >>> from cavity.likelihoods import Gaussian
    >>> t = np.linspace(0, 100, 5000)[:, None]
    >>> y = np.sin(t[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(5000)
    >>> model = GP(1.0 * Matern(2.0, nu=2.5), Gaussian(0.01), representation=Markov())
    >>> abs(model.condition(t, y).mean([[50.0]])[0] - np.sin(50.0)) < 0.05
    np.True_
    """

    name: ClassVar[str] = "markov"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.WHITENING, Capability.NEGATIVE_SITES}
    )

    def __init__(self) -> None:
        self._set_up({}, ())

    def __repr__(self) -> str:
        return "Markov()"

    def prepare(self, X: ArrayLike) -> TimeInputs:
        """The times of one fit."""
        return TimeInputs(X)

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> MarkovPrior:
        """The process at the inputs."""
        return MarkovPrior(kernel, inputs, mean_function)


class TimeInputs(Inputs):
    """Times of one fit, sorted once.

    Attributes
    ----------
    order : array of int (n,)
        Row of each time.
    t : array (n,)
        Times in order.
    """

    def __init__(self, X: ArrayLike) -> None:
        super().__init__(X)
        if self.X.ndim != 2 or self.X.shape[1] != 1:
            raise ValueError(
                f"the representation 'markov' is for one input column, got X of shape {self.X.shape}; use "
                "representation='dense'"
            )
        self.order: NDArray[np.intp] = np.argsort(self.X[:, 0], kind="stable")
        self.t = np.ascontiguousarray(self.X[self.order, 0])

    @cached_property
    def _distinct(self) -> tuple[Array, NDArray[np.intp]]:
        """Gaps between different times, each once, and which of them follows each time; -1 for none."""
        gaps = np.diff(self.t)
        moves = np.flatnonzero(gaps > 0)
        distinct, found = np.unique(gaps[moves], return_inverse=True)
        which = np.full(len(self.t), -1, dtype=np.intp)
        which[moves] = found
        return distinct, which

    def stretches(self, moving: bool, longest: int) -> list[Stretch]:
        """All time steps; those of one stretch have at most so many different transitions.

        A transition depends on the gap alone, unless the noise of the state is `moving` with time.
        """
        distinct, which = self._distinct
        if not moving and len(distinct) <= longest:
            return [Stretch(0, which, distinct, np.zeros(len(distinct)))]
        gaps, found = np.append(np.diff(self.t), 0.0), []
        for first in range(0, len(self.t), longest):
            part = slice(first, min(first + longest, len(self.t)))
            moves = np.flatnonzero(gaps[part] > 0)
            own = np.full(part.stop - first, -1, dtype=np.intp)
            own[moves] = np.arange(len(moves))
            found.append(Stretch(first, own, gaps[part][moves], self.t[part][moves]))
        return found


class Stretch(NamedTuple):
    """Consecutive time steps: the first of them, which transition follows each, and gap and time of the transitions."""

    first: int
    which: NDArray[np.intp]
    gaps: Array
    times: Array

    @property
    def steps(self) -> slice:
        """Which of all time steps."""
        return slice(self.first, self.first + len(self.which))


class MarkovPrior(LatentPrior):
    """f ~ N(m, K) at times in any order."""

    representation = Markov()

    def __init__(self, kernel: Kernel, inputs: Inputs, mean_function: Mean | None) -> None:
        times = inputs if isinstance(inputs, TimeInputs) else TimeInputs(inputs.X)
        super().__init__(kernel, times, mean_function)
        self.order, self.t = times.order, times.t
        self.form = kernel.state_space()
        self.system = compiled_system(self.form)
        self.start: NDArray[np.intp] = self.system.start
        self.dim = int(self.start[-1])
        entries = 2 * len(self.form.blocks) * max(block.size for block in self.form.blocks) ** 2
        self.stretches = times.stretches(self.form.moving, max(CHUNK, CHUNK * (MEMORY // entries // CHUNK)))
        self._known: tuple[Array, Array] | None = None

    def transitions(self, stretch: Stretch) -> tuple[Array, Array]:
        """A and Q, each (m, B, S, S); those of a single stretch are kept."""
        from cavity.latent.markov_transitions import transitions

        if self._known is not None:
            return self._known
        found: tuple[Array, Array] = transitions(self.system, stretch.gaps, stretch.times)
        if len(self.stretches) == 1:
            self._known = found
        return found

    # --- between the order of the rows and that of time -----------------------------------------------------

    def sorted(self, U: Array) -> Array:
        """Columns in order of time, shape (n, m)."""
        return np.ascontiguousarray((U if U.ndim == 2 else U[:, None])[self.order])

    def unsorted(self, V: Array, like: Array) -> Array:
        """Columns in the order of the rows, in the shape of another array."""
        out = np.empty_like(V)
        out[self.order] = V
        return out.reshape(like.shape)

    # --- conditioning ---------------------------------------------------------------------------------------

    def condition(self, precision: Array, *, transient: bool = False) -> MarkovConditioning:
        """Given sites of these precisions, of any sign."""
        return MarkovConditioning(self, precision, observed=False)

    def observe(self, variance: Array, *, transient: bool = False) -> MarkovConditioning:
        """Given observations with these noise variances; repeated exact ones may need jitter."""
        scale = float(np.mean(self.diagonal))
        for fraction in JITTER_LADDER:
            added = fraction * scale
            found = MarkovConditioning(self, variance + added, observed=True, jitter=added)
            if np.all(found.pivots > SINGULAR * self.diagonal[self.order]):
                return found
        raise NotPositiveDefiniteError(
            f"the covariance matrix is not positive definite, even with {JITTER_LADDER[-1]:g} of its mean diagonal "
            f"({scale:.3g}) added: are inputs repeated without noise?"
        )

    def filter(self, noise: Array, observed: bool) -> Filtered:
        """The covariance filter, for precisions of sites or variances of observations in order of time."""
        return filtered(self, noise, observed)

    # --- products with the covariance -----------------------------------------------------------------------

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""
        return self.kernel._diag(self.kernel.prepare(self.X))

    def _functionals(self, U: Array) -> Array:
        """Of columns in order of time, shape (n + 1, m, d); zero after the end."""
        from cavity.latent.markov_passes import functionals

        ahead = np.zeros((self.n + 1, U.shape[1], self.dim))
        r = np.zeros((U.shape[1], self.dim))
        for stretch in reversed(self.stretches):
            A, _ = self.transitions(stretch)
            functionals(self.start, A, stretch.which, r, U[stretch.steps], ahead[stretch.steps])
        return ahead

    def _first_covariances(self, ahead: Array) -> Array:
        """cov(x_1, U'f), shape (m, d)."""
        from cavity.latent.markov_transitions import initial_covariance

        return np.asarray(ahead[0] @ initial_covariance(self.system, self.t[0]))

    def times(self, U: Array) -> Array:
        """K U."""
        from cavity.latent import markov_passes

        V = self.sorted(U)
        ahead, out = self._functionals(V), np.empty(V.shape)
        x = self._first_covariances(ahead)
        for stretch in self.stretches:
            A, Q = self.transitions(stretch)
            at, after = stretch.steps, ahead[stretch.steps.stop]
            markov_passes.times(self.start, A, Q, stretch.which, x, ahead[at], after, out[at])
        return self.unsorted(out, U)

    @cached_property
    def _white(self) -> MarkovConditioning:
        return self.observe(np.zeros(self.n))

    @property
    def white_jitter(self) -> float:
        """What was added to the diagonal of K for W."""
        return self._white.jitter

    def unwhiten(self, U: Array) -> Array:
        """m + W U, W the Cholesky factor of K in order of time."""
        white = self._white.filtered
        columns = (U if U.ndim == 2 else U[:, None]) / np.sqrt(white.c)[:, None]
        drawn = white.innovations(self, columns, inverse=True)
        return (self.mean + self.unsorted(drawn, U).T).T

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        white = self._white.filtered
        found = white.innovations_adjoint(self, self.sorted(G), inverse=True)
        return np.asarray(found / np.sqrt(white.c)[:, None]).reshape(G.shape)

    def whiten(self, F: Array) -> Array:
        """U with m + W U = F."""
        return self._white.half_solve((F.T - self.mean).T)

    # --- pullbacks ------------------------------------------------------------------------------------------

    def pull_products(self, left: Array, right: Array) -> tuple[Array, Array]:
        """Derivatives of sum_j left_j' K right_j, columns in order of time, in variances (B,) and rates (F,)."""
        from cavity.latent import markov_passes

        ahead_l, ahead_r = self._functionals(left), self._functionals(right)
        xl, xr = self._first_covariances(ahead_l), self._first_covariances(ahead_r)
        pulled = _Pulled(self)
        pulled.initial(0.5 * (ahead_l[0].T @ ahead_r[0] + ahead_r[0].T @ ahead_l[0]))
        for stretch in self.stretches:
            A, Q = self.transitions(stretch)
            GA, GQ = np.zeros_like(A), np.zeros_like(A)
            at, end = stretch.steps, stretch.steps.stop
            ahead = ahead_l[at], ahead_r[at], ahead_l[end], ahead_r[end]
            markov_passes.pull_products(self.start, A, Q, stretch.which, xl, xr, *ahead, GA, GQ)
            pulled.add(stretch, GA, GQ)
        return pulled.d_variance, pulled.d_rate

    def pull_correction(self, given: Filtered) -> tuple[Array, Array]:
        """Derivatives of tr(R K), R held, in variances (B,) and rates (F,); complex if the filter is."""
        from cavity.latent import markov_passes

        N = np.zeros((self.dim, self.dim), dtype=given.w.dtype)
        pulled = _Pulled(self, given.w.dtype)
        for i, stretch in reversed(list(enumerate(self.stretches))):
            A, Q = self.transitions(stretch)
            GA, GQ = np.zeros(A.shape, N.dtype), np.zeros(A.shape, N.dtype)
            at = stretch.steps
            inner = given.w[at], given.c[at], given.q[at], given.kept[i]
            markov_passes.pull_correction(self.start, A, Q, stretch.which, N, *inner, GA, GQ)
            pulled.add(stretch, GA, GQ)
        pulled.initial(N)
        return pulled.d_variance, pulled.d_rate

    def pulled(self, d_variance: Array, d_rate: Array) -> Array:
        """Gradient in the kernel's natural values, from that in the variances of blocks and rates of factors."""
        out, at = np.zeros(self.kernel.flat.size), 0
        for b, block in enumerate(self.form.blocks):
            out += d_variance[b] * block.variance.slope
            for factor in block.factors:
                out += d_rate[at] * factor.rate.slope
                at += 1
        return out

    def process(
        self, weights: Array, conditioning: Conditioning, basis: BasisWeights | None = None
    ) -> MarkovProcess:
        """The posterior process anywhere."""
        return MarkovProcess(self, weights, cast(MarkovConditioning, conditioning), basis)


class _Pulled:
    """Derivatives in variances and rates, summed over stretches; cotangents may be complex, the state space is not."""

    def __init__(self, prior: MarkovPrior, dtype: Any = float) -> None:
        self.prior = prior
        self.d_variance = np.zeros(len(prior.system.variance), dtype)
        self.d_rate = np.zeros(len(prior.system.rate), dtype)

    def _parts(self, arrays: Sequence[Array]) -> Iterator[tuple[Any, list[Array]]]:
        yield 1.0, [np.ascontiguousarray(array.real) for array in arrays]
        if np.iscomplexobj(arrays[0]):
            yield 1j, [np.ascontiguousarray(array.imag) for array in arrays]

    def add(self, stretch: Stretch, GA: Array, GQ: Array) -> None:
        from cavity.latent.markov_transitions import pull_transitions

        for unit, parts in self._parts((GA, GQ)):
            own = np.zeros(len(self.d_variance)), np.zeros(len(self.d_rate))
            pull_transitions(self.prior.system, stretch.gaps, stretch.times, *parts, *own)
            self.d_variance += unit * own[0]
            self.d_rate += unit * own[1]

    def initial(self, G: Array) -> None:
        from cavity.latent.markov_transitions import pull_initial

        for unit, (part,) in self._parts((G,)):
            own = np.zeros(len(self.d_variance))
            pull_initial(self.prior.system, self.prior.t[0], part, own)
            self.d_variance += unit * own


class Filtered(NamedTuple):
    """What the covariance filter leaves, in order of time: w (n, d); s, c, q, pivots (n,); covariances by stretch."""

    w: Array
    s: Array
    c: Array
    q: Array
    pivots: Array
    kept: list[Array]

    def innovations(self, prior: MarkovPrior, Y: Array, inverse: bool = False) -> Array:
        """V Y, R = V' diag(c) V, or V^-1 Y, for columns in order of time."""
        from cavity.latent import markov_passes

        Y = np.ascontiguousarray(Y)
        out, x = np.empty(Y.shape), np.zeros((Y.shape[1], prior.dim))
        for stretch in prior.stretches:
            A, at = prior.transitions(stretch)[0], stretch.steps
            markov_passes.innovations(
                prior.start, A, stretch.which, x, self.w[at], self.c[at], Y[at], inverse, out[at]
            )
        return out

    def innovations_adjoint(self, prior: MarkovPrior, Y: Array, inverse: bool = False) -> Array:
        """V'Y or V^-T Y."""
        from cavity.latent import markov_passes

        Y = np.ascontiguousarray(Y)
        out, r = np.empty(Y.shape), np.zeros((Y.shape[1], prior.dim))
        for stretch in reversed(prior.stretches):
            A, at = prior.transitions(stretch)[0], stretch.steps
            markov_passes.innovations_adjoint(
                prior.start, A, stretch.which, r, self.w[at], self.c[at], Y[at], inverse, out[at]
            )
        return out


def filtered(prior: MarkovPrior, noise: Array, observed: bool) -> Filtered:
    """Run the covariance filter, in the arithmetic of the noise."""
    from cavity.latent.markov_passes import forward
    from cavity.latent.markov_transitions import initial_covariance

    n, d, dtype = len(noise), prior.dim, noise.dtype
    P = initial_covariance(prior.system, prior.t[0]).astype(dtype)
    w, (s, c, q, g) = np.empty((n, d), dtype), np.empty((4, n), dtype)
    kept = []
    for stretch in prior.stretches:
        A, Q = prior.transitions(stretch)
        at = stretch.steps
        kept.append(np.empty((-(-len(stretch.which) // CHUNK), d, d), dtype))
        inner = noise[at], observed, w[at], s[at], c[at], q[at], g[at], kept[-1]
        forward(prior.start, A, Q, stretch.which, P, *inner)
    return Filtered(w, s, c, q, g, kept)


class MarkovConditioning(Conditioning):
    """What follows from precisions of sites, or from variances of observations, given in the order of the rows.

    Attributes
    ----------
    noise : array (n,)
        Those precisions or variances, in order of time.
    observed : bool
        Whether they are variances.
    """

    def __init__(self, prior: MarkovPrior, noise: Array, *, observed: bool, jitter: float = 0.0) -> None:
        self.prior: MarkovPrior = prior
        self.noise, self.observed, self.jitter = np.asarray(noise, dtype=float)[prior.order], observed, jitter
        self.filtered = prior.filter(self.noise, observed)
        if not observed:
            self._require_proper()

    @property
    def pivots(self) -> Array:
        """1 + tau s or s + v, with s the variance of f given what came before, in order of time."""
        return self.filtered.pivots

    def _require_proper(self) -> None:
        """As many negative pivots must belong to positive sites as to negative ones (inertia)."""
        negative = self.pivots < 0
        balance = np.sum(np.sign(self.noise[negative]))
        if balance == 0.0 and np.isfinite(self.pivots).all() and not np.any(self.pivots == 0):
            return
        worst = int(self.prior.order[np.argmin(np.where(np.isfinite(self.pivots), self.pivots, np.inf))])
        raise ImproperPosteriorError(
            f"the posterior is improper: negative site precisions outweigh the prior (near row {worst}); damp the "
            "update or restrict the sites",
            worst,
        )

    @cached_property
    def _log_pivots(self) -> float:
        return float(np.sum(np.log(np.abs(self.pivots))))

    @property
    def log_det(self) -> float:  # type: ignore[override]
        """log |I + K T|."""
        if not self.observed:
            return self._log_pivots
        with np.errstate(divide="ignore"):
            return self._log_pivots - float(np.sum(np.log(self.noise)))

    @property
    def noisy_log_det(self) -> float:
        """log |K + diag(variance)|."""
        return self._log_pivots

    @cached_property
    def _by_parts(self) -> NegativeSites | None:
        """The same from the sites that are not negative, which says which directions are flat; None if it is dear."""
        count = 0 if self.observed else int(np.sum(self.noise < 0))
        if not 0 < count <= FEW_NEGATIVE:
            return None
        precision = np.empty(self.prior.n)
        precision[self.prior.order] = self.noise
        return NegativeSites(self.prior.condition(np.maximum(precision, 0.0)), precision)

    @cached_property
    def smallest_curvature(self) -> float:
        """If negative sites are many an upper bound, close if one site decides: 1 / (1 + |tau_i| var_i)."""
        if self._by_parts is not None:
            return self._by_parts.smallest_curvature
        if self.observed:
            return 1.0
        return 1.0 / (1.0 + float(np.max(np.maximum(-self.noise, 0.0) * self.var[self.prior.order])))

    def flat_directions(self, limit: float) -> FlatDirections:
        """None are given if negative sites are many."""
        if self._by_parts is not None:
            return self._by_parts.flat_directions(limit)
        return super().flat_directions(limit)

    # --- marginals ------------------------------------------------------------------------------------------

    @cached_property
    def _diagonals(self) -> tuple[Array, Array]:
        return self._backward(self.filtered)

    def _backward(self, given: Filtered) -> tuple[Array, Array]:
        from cavity.latent.markov_passes import backward

        prior, dtype = self.prior, given.w.dtype
        var, left = np.empty((2, prior.n), dtype)
        N = np.zeros((prior.dim, prior.dim), dtype)
        for stretch in reversed(prior.stretches):
            A, at = prior.transitions(stretch)[0], stretch.steps
            inner = given.w[at], given.s[at], given.c[at], given.q[at], var[at], left[at]
            backward(prior.start, A, stretch.which, N, *inner)
        return prior.unsorted(var, var), prior.unsorted(left, left)

    @property
    def var(self) -> Array:
        """Marginal variances of f."""
        return self._diagonals[0]

    @property
    def unexplained(self) -> Array:
        """The diagonal of R."""
        return self._diagonals[1]

    # --- products -------------------------------------------------------------------------------------------

    def apply(self, U: Array) -> Array:
        """R U; of sites (I - R K) T U."""
        V = self.prior.sorted(U)
        return self._smooth(V if self.observed else self.noise[:, None] * V, U, self.observed)[0]

    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, Sigma b)."""
        return self._smooth(self.prior.sorted(b), b, False)

    def _smooth(self, columns: Array, like: Array, observed: bool) -> tuple[Array, Array]:
        from cavity.latent.markov_passes import smooth_backward, smooth_forward

        prior, given = self.prior, self.filtered
        alpha, moved = np.empty(columns.shape), np.empty(columns.shape)
        x = np.zeros((columns.shape[1], prior.dim))
        for stretch in prior.stretches:
            A, at = prior.transitions(stretch)[0], stretch.steps
            inner = given.w[at], given.s[at], given.c[at], given.q[at], columns[at], observed
            smooth_forward(prior.start, A, stretch.which, x, *inner, alpha[at], moved[at])
        x[:] = 0.0
        for stretch in reversed(prior.stretches):
            A, at = prior.transitions(stretch)[0], stretch.steps
            ahead = given.w[at], given.c[at], given.q[at]
            smooth_backward(prior.start, A, stretch.which, x, *ahead, alpha[at], moved[at])
        return prior.unsorted(alpha, like), prior.unsorted(moved, like)

    def _innovations(self, U: Array) -> Array:
        return self.filtered.innovations(self.prior, self.prior.sorted(U))

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """R = V' diag(c) V with V the innovations: those of positive and of negative c."""
        c = self.filtered.c
        v = np.sqrt(np.abs(c))[:, None] * self._innovations(U)
        return (v[c >= 0], v[c < 0]) if np.any(c < 0) else (v, None)

    def half_solve(self, U: Array) -> Array:
        """sqrt(c) V U; for observations, in order of time."""
        return (np.sqrt(self.filtered.c)[:, None] * self._innovations(U)).reshape(U.shape)

    @property
    def half_solve_norm(self) -> float:
        """About the norm of L^-1."""
        return float(np.sqrt(np.max(self.filtered.c)))

    def half_solve_transposed(self, U: Array) -> Array:
        """V' sqrt(c) U."""
        columns = np.sqrt(self.filtered.c)[:, None] * (U if U.ndim == 2 else U[:, None])
        return self.prior.unsorted(self.filtered.innovations_adjoint(self.prior, columns), U)

    # --- derivatives ----------------------------------------------------------------------------------------

    def _along(self, d_precision: Array | float, d_variance: Array | float) -> Filtered:
        """The filter with an imaginary part of the noise: a change of precisions and variances, dtau = -tau^2 dv."""
        order = self.prior.order
        d_precision = np.broadcast_to(d_precision, self.prior.n)[order]
        d_variance = np.broadcast_to(d_variance, self.prior.n)[order]
        own, other = (d_variance, d_precision) if self.observed else (d_precision, d_variance)
        return self.prior.filter(self.noise + 1j * IMAGINARY * (own - self.noise**2 * other), self.observed)

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """(Sigma d_mean, (Sigma o Sigma) d_var): the second is minus the change of var with the precisions."""
        first = np.zeros(self.prior.n) if d_mean is None else self.project(d_mean)[1]
        if d_var is None:
            return first, np.zeros(self.prior.n)
        return first, -self._backward(self._along(d_var, 0.0))[0].imag / IMAGINARY

    def apply_squared(self, g: Array) -> Array:
        """(R o R) g: minus the change of the diagonal of R with the noise variances."""
        return np.asarray(-self._backward(self._along(0.0, g))[1].imag / IMAGINARY)

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """See `Conditioning`: with dtau = d_var and dv = d_unexplained the last two terms are the change of R."""
        prior = self.prior
        L = prior.sorted(left)
        d_variance, d_rate = prior.pull_products(L, L if right is None else prior.sorted(right))
        if d_log_det:
            by_variance, by_rate = prior.pull_correction(self.filtered)
            d_variance, d_rate = d_variance + d_log_det * by_variance, d_rate + d_log_det * by_rate
        if d_var is not None or d_unexplained is not None:
            moved = self._along(
                0.0 if d_var is None else d_var, 0.0 if d_unexplained is None else d_unexplained
            )
            by_variance, by_rate = prior.pull_correction(moved)
            d_variance = d_variance + by_variance.imag / IMAGINARY
            d_rate = d_rate + by_rate.imag / IMAGINARY
        return PriorGradient(prior.pulled(d_variance, d_rate))


class MarkovProcess:
    """The posterior process anywhere: new times join the training times as rows at which nothing was seen."""

    def __init__(
        self,
        prior: MarkovPrior,
        weights: Array,
        conditioning: MarkovConditioning,
        basis: BasisWeights | None = None,
    ) -> None:
        self.prior, self.weights, self.conditioning, self.basis = prior, weights, conditioning, basis
        self.kernel, self.mean_function = prior.kernel, prior.mean_function

    def _joined(self, X: ArrayLike) -> tuple[Array, MarkovPrior]:
        """New inputs, and the prior at training and new times."""
        new = as_inputs(X)
        if new.shape[1] != 1:
            raise ValueError(f"X has {new.shape[1]} columns, but the model was conditioned on 1")
        return new, MarkovPrior(self.kernel, TimeInputs(np.vstack([self.prior.X, new])), None)

    def _covariance_times(self, joined: MarkovPrior, columns: Array) -> Array:
        """k(X*, X) times columns (n, m), shape (new, m)."""
        padded = np.zeros((joined.n, columns.shape[1]))
        padded[: self.prior.n] = columns
        return joined.times(padded)[self.prior.n :]

    def _conditioned(self, joined: MarkovPrior) -> MarkovConditioning:
        known = self.conditioning
        noise = np.full(joined.n, np.inf if known.observed else 0.0)
        noise[self.prior.order] = known.noise
        return MarkovConditioning(joined, noise, observed=known.observed)

    def _features(self, X: Array) -> Array:
        return cast("Basis", self.mean_function).features(X)

    def mean(self, X: ArrayLike) -> Array:
        """Shape (m,), or (m, T) for several targets."""
        new, joined = self._joined(X)
        columns = self.weights if self.weights.ndim == 2 else self.weights[:, None]
        out = self._covariance_times(joined, columns)
        if self.mean_function is not None:
            out = out + self.mean_function(new)[:, None]
        if self.basis is not None:
            out = out + (self._features(new) @ self.basis.shift).reshape(len(new), -1)
        return out if self.weights.ndim == 2 else out[:, 0]

    def _basis_root(self, joined: MarkovPrior, new: Array) -> Array:
        """L_Q^-1 r(x*), shape (p, m); r = h - H'R k(X, x*)."""
        basis = cast("BasisWeights", self.basis)
        return basis.precision.half_solve(
            np.ascontiguousarray((self._features(new) - self._covariance_times(joined, basis.projection)).T)
        )

    def variance(self, X: ArrayLike) -> Array:
        """Shape (m,)."""
        new, joined = self._joined(X)
        out = self._conditioned(joined).var[self.prior.n :]
        if self.basis is not None:
            out = out + np.sum(self._basis_root(joined, new) ** 2, axis=0)
        return np.asarray(np.maximum(out, np.finfo(float).eps * joined.diagonal[self.prior.n :]))

    def covariance(self, X: ArrayLike) -> Array:
        """Shape (m, m)."""
        new, joined = self._joined(X)
        n = self.prior.n
        columns = np.zeros((joined.n, len(new)))
        columns[n + np.arange(len(new)), np.arange(len(new))] = 1.0
        out = self._conditioned(joined).project(columns)[1][n:]
        if self.basis is not None:
            r = self._basis_root(joined, new)
            out = out + r.T @ r
        out = 0.5 * (out + out.T)
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, np.finfo(float).eps * joined.diagonal[n:], out=diagonal)
        return np.asarray(out)

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws, shape (size, m) or, for several targets, (size, m, T)."""
        rng = np.random.default_rng(rng)
        mean = self.mean(X)
        targets = 1 if mean.ndim == 1 else mean.shape[1]
        noise = covariance_root(self.covariance(X))(rng.standard_normal((len(mean), size * targets)))
        draws = noise.reshape(len(mean), size, targets).transpose(1, 0, 2)
        return np.asarray(mean + draws[:, :, 0] if mean.ndim == 1 else mean + draws)


def compiled_system(form: StateSpace) -> Any:
    """A state space as the arrays that compiled passes take (`markov_passes.System`)."""
    from cavity.latent.markov_transitions import System

    factors = [factor for block in form.blocks for factor in block.factors]
    count, width = max(1, len(factors)), max([factor.size for factor in factors], default=1)
    power = np.zeros((count, width, width, width))
    covariance, drift, strength = (
        np.zeros((count, width, width)),
        np.zeros((count, width, width)),
        np.zeros(count),
    )
    for f, factor in enumerate(factors):
        if factor.kind is not FactorKind.MATERN:
            continue
        n = factor.size
        F, P, strength[f] = matern_constants(factor.order)
        drift[f, :n, :n], covariance[f, :n, :n] = F, P
        term = np.eye(n)
        for m in range(n):
            power[f, m, :n, :n] = term
            term = term @ (F + np.eye(n)) / (m + 1)
    blank = [0] * (count - len(factors))  # so that there is always an array to index
    return System(
        start=np.cumsum([0] + [block.size for block in form.blocks]),
        first=np.cumsum([0] + [len(block.factors) for block in form.blocks]),
        kind=np.array([int(factor.kind) for factor in factors] + blank),
        size=np.array([factor.size for factor in factors] + blank),
        rate=np.array([factor.rate.value for factor in factors] + blank, dtype=float),
        origin=np.array([factor.origin for factor in factors] + blank, dtype=float),
        power=power,
        strength=strength,
        covariance=covariance,
        drift=drift,
        variance=np.array([block.variance.value for block in form.blocks], dtype=float),
    )
