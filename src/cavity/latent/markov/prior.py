# mypy: disable-error-code="call-arg"
"""The process at the training times: products with the covariance, and pullbacks to the kernel."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel
from cavity.kernels.state_space import FactorKind, StateSpace, require_whole_times
from cavity.latent.base import Conditioning, Inputs, LatentPrior, ObservedEvidence
from cavity.latent.markov.conditioning import MarkovConditioning
from cavity.latent.markov.filtered import CHUNK, Filtered, White, filtered
from cavity.latent.markov.process import MarkovProcess
from cavity.latent.markov.single import SingleMatern
from cavity.latent.markov.times import Stretch, TimeInputs, has_exact_markov_form
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER, NotPositiveDefiniteError

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.latent.markov.representation import Markov
    from cavity.means.functions import Mean

MEMORY = 16_000_000
"""Numbers of all transitions that are held at a time (128 MB); beyond it they are made stretch by stretch."""

SINGULAR = 4.0 * float(np.finfo(float).eps)
"""Share of the prior variance below which what an exact observation adds is rounding."""


class MarkovPrior(LatentPrior):
    """f ~ N(m, K) at times in any order."""

    def __init__(
        self, representation: Markov, kernel: Kernel, inputs: Inputs, mean_function: Mean | None
    ) -> None:
        self.representation: Markov = representation
        times = inputs if isinstance(inputs, TimeInputs) else TimeInputs(inputs.X)
        super().__init__(kernel, times, mean_function)
        self._times, self.t, self._in_order = times, times.t, times.in_order
        self.form = kernel.state_space(representation.states)
        if self.form.at_whole_times:
            require_whole_times(times.X[:, 0])
        self.system = compiled_system(self.form)
        self.start: NDArray[np.intp] = self.system.start
        self.dim = int(self.start[-1])
        self._is_single = _is_single_matern(self.form)
        entries = 2 * len(self.form.blocks) * max(block.size for block in self.form.blocks) ** 2
        longest = self.n if self._is_single else CHUNK * max(1, MEMORY // entries // CHUNK)
        self.stretches = times.stretches(self.form.moving, longest)
        self._known: tuple[Array, Array] | None = None

    @property
    def order(self) -> NDArray[np.intp]:
        """Row of each time."""
        return self._times.order

    @property
    def exact(self) -> bool:
        """Whether the state-space form is that of the kernel itself."""
        return has_exact_markov_form(self.kernel, self.X)

    @property
    def single(self) -> SingleMatern | None:
        """Passes of a single Matern process; not kept, since a cycle of references would keep memory too."""
        return SingleMatern(self) if self._is_single else None

    def transitions(self, stretch: Stretch) -> tuple[Array, Array]:
        """A and Q, each (m, B, S, S); those of a single stretch are kept, but not of a single Matern process."""
        from cavity.latent.markov.transitions import transitions

        if self.single is not None:
            return self.single.transitions(stretch.gaps)
        if self._known is not None:
            return self._known
        found: tuple[Array, Array] = transitions(self.system, stretch.gaps, stretch.times)
        if len(self.stretches) == 1:
            self._known = found
        return found

    # --- between the order of the rows and that of time -----------------------------------------------------

    def sorted(self, U: Array) -> Array:
        """Columns in order of time, shape (n, m)."""
        return np.ascontiguousarray(self.by_time(U if U.ndim == 2 else U[:, None]))

    def by_time(self, u: Array) -> Array:
        """Rows in order of time; it may be the same array."""
        usable = (
            self._in_order and u.flags.c_contiguous and u.flags.writeable
        )  # as compiled passes know arrays
        return u if usable else np.ascontiguousarray(u[self.order])

    def unsorted(self, V: Array, like: Array) -> Array:
        """Columns in the order of the rows, in the shape of another array; it may be the same memory."""
        if self._in_order:
            return V.reshape(like.shape)
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

    def observed_evidence(self, residual: Array, variance: Array) -> ObservedEvidence | None:
        """Of a single Matern process with noise."""
        if self.single is None or not np.min(variance) > 0:
            return None
        return self.single.observed_evidence(residual, variance)

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
        from cavity.latent.markov.passes import functionals

        ahead = np.zeros((self.n + 1, U.shape[1], self.dim))
        r = np.zeros((U.shape[1], self.dim))
        for stretch in reversed(self.stretches):
            functionals(
                self.start,
                self.transitions(stretch)[0],
                stretch.which,
                r,
                U[stretch.steps],
                ahead[stretch.steps],
            )
        return ahead

    def _first_covariances(self, ahead: Array) -> Array:
        """cov(x_1, U'f), shape (m, d)."""
        from cavity.latent.markov.transitions import initial_covariance

        return np.asarray(ahead[0] @ initial_covariance(self.system, self.t[0]))

    def times(self, U: Array) -> Array:
        """K U."""
        from cavity.latent.markov import passes

        V = self.sorted(U)
        ahead, out = self._functionals(V), np.empty(V.shape)
        x = self._first_covariances(ahead)
        for stretch in self.stretches:
            A, Q = self.transitions(stretch)
            at, after = stretch.steps, ahead[stretch.steps.stop]
            passes.times(self.start, A, Q, stretch.which, x, ahead[at], after, out[at])
        return self.unsorted(out, U)

    @cached_property
    def _white(self) -> White:
        exact = self.observe(np.zeros(self.n))
        return White(self, exact.filtered, exact.jitter)

    @property
    def white_jitter(self) -> float:
        """What was added to the diagonal of K for W."""
        return self._white.jitter

    def unwhiten(self, U: Array) -> Array:
        """m + W U, W the Cholesky factor of K in order of time."""
        return (self.mean + self._white.unwhiten(U).T).T

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        return self._white.unwhiten_adjoint(G)

    def whiten(self, F: Array) -> Array:
        """U with m + W U = F."""
        return self._white.whiten((F.T - self.mean).T)

    # --- pullbacks ------------------------------------------------------------------------------------------

    def pull_products(self, left: Array, right: Array | None, pulled: Pulled) -> None:
        """Add sum_j left_j' K right_j, columns in order of time; `right` is `left` if it is None."""
        from cavity.latent.markov import passes

        if self.single is not None:
            pulled.add_totals(*self.single.pull_products(left, right), 1.0)
            return
        ahead_l = self._functionals(left)
        ahead_r = ahead_l if right is None else self._functionals(right)
        xl, xr = self._first_covariances(ahead_l), self._first_covariances(ahead_r)
        pulled.add_initial(0.5 * (ahead_l[0].T @ ahead_r[0] + ahead_r[0].T @ ahead_l[0]))
        for stretch in self.stretches:
            A, Q = self.transitions(stretch)
            at, end = stretch.steps, stretch.steps.stop
            ahead = ahead_l[at], ahead_r[at], ahead_l[end], ahead_r[end]
            if self.form.rates_only:
                totals = pulled.rates(A.shape[1:])
                passes.pull_products_to_rates(
                    self.start, A, Q, stretch.which, stretch.gaps, xl, xr, *ahead, *totals
                )
                continue
            GA, GQ = np.zeros_like(A), np.zeros_like(A)
            passes.pull_products(self.start, A, Q, stretch.which, xl, xr, *ahead, GA, GQ)
            pulled.add(stretch, Q, GA, GQ)

    def pull_correction(
        self, given: Filtered, pulled: Pulled, scale: float = 1.0
    ) -> tuple[Array, Array] | None:
        """Add tr(R K), R held, times a number; complex if the filter is.

        Marginal variances and the diagonal of R, in order of time, are returned if they were found on the way.
        """
        from cavity.latent.markov import passes

        if self.single is not None:
            pulled.add_totals(*self.single.pull_correction(given), scale)
            return None
        N = np.zeros((self.dim, self.dim), dtype=given.w.dtype)
        if self.form.rates_only:
            return self._pull_correction_to_rates(given, N, pulled, scale)
        for i, stretch in reversed(list(enumerate(self.stretches))):
            A, Q = self.transitions(stretch)
            GA, GQ = np.zeros(A.shape, N.dtype), np.zeros(A.shape, N.dtype)
            at = stretch.steps
            inner = given.w[at], given.c[at], given.q[at], given.kept[i]
            passes.pull_correction(self.start, A, Q, stretch.which, N, *inner, GA, GQ)
            pulled.add(stretch, Q, GA, GQ, scale)
        pulled.add_initial(scale * N)
        return None

    def _pull_correction_to_rates(
        self, given: Filtered, N: Array, pulled: Pulled, scale: float
    ) -> tuple[Array, Array]:
        from cavity.latent.markov import passes

        var, left = np.empty((2, self.n), N.dtype)
        own = Pulled(self, N.dtype)
        for i, stretch in reversed(list(enumerate(self.stretches))):
            A, Q = self.transitions(stretch)
            at = stretch.steps
            inner = given.w[at], given.s[at], given.c[at], given.q[at], given.kept[i]
            totals = own.rates(A.shape[1:])
            passes.pull_correction_to_rates(
                self.start,
                A,
                Q,
                stretch.which,
                stretch.gaps,
                N,
                not np.iscomplexobj(N),
                *inner,
                *totals,
                var[at],
                left[at],
            )
        own.add_initial(N)
        pulled.add_totals(*own.totals(), scale)
        return var, left

    def to_kernel(self, d_variance: Array, d_rate: Array) -> Array:
        """Gradient in the kernel's natural values, from that in variances of blocks, rates and shapes of factors."""
        out, at = np.zeros(self.kernel.flat.size), 0
        for b, block in enumerate(self.form.blocks):
            out += d_variance[b] * block.variance.slope
            for factor in block.factors:
                out += d_rate[0, at] * factor.rate.slope
                for s, shape in enumerate(factor.shapes, start=1):
                    out += d_rate[s, at] * shape.slope
                at += 1
        return out

    def at_times(self, X: Array) -> MarkovPrior:
        """The same process, without its mean, at other times (m, 1)."""
        return MarkovPrior(self.representation, self.kernel, TimeInputs(X), None)

    def process(
        self, weights: Array, conditioning: Conditioning, basis: BasisWeights | None = None
    ) -> MarkovProcess:
        """The posterior process anywhere."""
        return MarkovProcess(self, weights, cast(MarkovConditioning, conditioning), basis)


class Pulled:
    """Derivatives of a sum in variances (B,), rates and shapes (2, F), of cotangents of the transitions.

    Cotangents may be complex, the state space is not. Those of a single stretch are pulled once, at the end.
    """

    def __init__(self, prior: MarkovPrior, dtype: Any = float) -> None:
        self.prior = prior
        self.d_variance = np.zeros(len(prior.system.variance), dtype)
        self.d_rate = np.zeros((1 + prior.system.shape.shape[1], len(prior.system.rate)), dtype)
        self._waiting: tuple[Stretch, Array, Array, Array] | None = None
        self._rates: tuple[Array, Array, Array] | None = None

    def add(self, stretch: Stretch, Q: Array, GA: Array, GQ: Array, scale: float = 1.0) -> None:
        """Add cotangents of A and Q of a stretch, times a number; their memory is used up."""
        if scale != 1.0:
            GA *= scale
            GQ *= scale
        if self._waiting is not None:
            GA += self._waiting[2]
            GQ += self._waiting[3]
        self._waiting = stretch, Q, GA, GQ
        if len(self.prior.stretches) > 1:
            self._pull()

    def add_totals(self, d_variance: Array, d_rate: Array, scale: float) -> None:
        """Add derivatives, times a number."""
        self.d_variance = self.d_variance + scale * d_variance
        self.d_rate = self.d_rate + scale * d_rate

    def rates(self, shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
        """Cotangents of generators and noise (B, S, S), and of <Q, dQ> (B,), to be added to."""
        if self._rates is None:
            dtype = self.d_variance.dtype
            self._rates = np.zeros(shape, dtype), np.zeros(shape, dtype), np.zeros(shape[0], dtype)
        return self._rates

    def add_initial(self, G: Array) -> None:
        """Add a cotangent of the covariance of the first state."""
        from cavity.latent.markov.transitions import pull_initial

        pull_initial(self.prior.system, self.prior.t[0], G, self.d_variance, self.d_rate)

    def _pull(self) -> None:
        from cavity.latent.markov.transitions import pull_transitions

        if self._waiting is None:
            return
        stretch, Q, GA, GQ = self._waiting
        totals = self.d_variance, self.d_rate
        pull_transitions(self.prior.system, stretch.gaps, stretch.times, Q, GA, GQ, *totals)
        self._waiting = None

    def totals(self) -> tuple[Array, Array]:
        """Derivatives in variances, and in rates and shapes."""
        self._pull()
        if self._rates is not None:
            GF, GD, d_Q = self._rates
            by_rate = np.zeros_like(self.d_rate)
            at = 0
            for b, block in enumerate(self.prior.form.blocks):
                for f, (F, D) in enumerate(block.generators):
                    n = len(F)
                    by_rate[0, at + f] = np.vdot(F, GF[b, :n, :n]) + np.vdot(D, GD[b, :n, :n])
                at += len(block.factors)
            self.add_totals(d_Q / self.prior.system.variance, by_rate, 1.0)
            self._rates = None
        return self.d_variance, self.d_rate


def _is_single_matern(form: StateSpace) -> bool:
    factors = form.blocks[0].factors
    return (
        len(form.blocks) == len(factors) == 1
        and factors[0].kind is FactorKind.MATERN
        and factors[0].size <= 3
    )


def compiled_system(form: StateSpace) -> Any:
    """A state space as the arrays that compiled passes take (`passes.System`)."""
    from cavity.latent.markov.factors import System

    factors = [factor for block in form.blocks for factor in block.factors]
    count, width = max(1, len(factors)), max([factor.size for factor in factors], default=1)
    power = np.zeros((count, width, width, width))
    covariance, drift, strength = (
        np.zeros((count, width, width)),
        np.zeros((count, width, width)),
        np.zeros(count),
    )
    for f, factor in enumerate(factors):
        if factor.kind not in (FactorKind.MATERN, FactorKind.GAUSSIAN, FactorKind.INTEGRATED):
            continue
        n = factor.size
        F, P, strength[f] = factor.generator
        drift[f, :n, :n], covariance[f, :n, :n] = F, P
        if factor.kind is not FactorKind.MATERN:
            continue
        term = np.eye(n)
        for m in range(n):
            power[f, m, :n, :n] = term
            term = term @ (F + np.eye(n)) / (m + 1)
    shape = np.zeros((count, max([len(factor.shapes) for factor in factors], default=0) or 1))
    for f, factor in enumerate(factors):
        shape[f, : len(factor.shapes)] = [part.value for part in factor.shapes]
    keys = [(f.kind, f.order, f.rate.value, f.origin, *shape[i]) for i, f in enumerate(factors)]
    blank = [0] * (count - len(factors))  # so that there is always an array to index
    return System(
        start=np.cumsum([0] + [block.size for block in form.blocks]),
        first=np.cumsum([0] + [len(block.factors) for block in form.blocks]),
        same=np.array([keys.index(key) for key in keys] + blank),
        kind=np.array([int(factor.kind) for factor in factors] + blank),
        size=np.array([factor.size for factor in factors] + blank),
        rate=np.array([factor.rate.value for factor in factors] + blank, dtype=float),
        origin=np.array([factor.origin for factor in factors] + blank, dtype=float),
        shape=shape,
        power=power,
        strength=strength,
        covariance=covariance,
        drift=drift,
        variance=np.array([block.variance.value for block in form.blocks], dtype=float),
    )
