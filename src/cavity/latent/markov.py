"""The latent process as a Gaussian Markov process of one input: exact for kernels with a state-space form, O(n) time.

A covariance filter and one backward pass answer everything that the latent protocol asks (`latent.markov_passes` has the
recursions); the form of the kernel comes from `kernels.state_space`. Times may be irregular, repeated and in any order.
Sites may have either sign. With g_k = 1 + tau_k s_k the pivots of the filter, the posterior is proper if and only if as
many of the negative pivots belong to positive sites as to negative ones: g_k <= 0 alone says nothing, since a later site
may rescue an earlier one.

A derivative in the precisions, as Newton methods and gradients of marginal variances need it, is the imaginary part
of a pass with complex precisions.

Nothing is subtracted that is nearly equal: at long length scales and tiny noise this has more digits than a Cholesky
factorization of the covariance matrix.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Kernel, as_inputs
from cavity.kernels.state_space import FactorKind, StateSpace, matern_constants
from cavity.latent.base import (
    Capability,
    Conditioning,
    ImproperPosteriorError,
    Inputs,
    LatentPrior,
    Representation,
)
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER, NotPositiveDefiniteError, covariance_root

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.means.basis import Basis
    from cavity.means.functions import Mean

IMAGINARY = 1e-40
"""Size of complex steps: far below rounding of the real parts, far above the smallest number."""

SINGULAR = 4.0 * float(np.finfo(float).eps)
"""Share of the prior variance below which what an exact observation adds is rounding."""


class Markov(Representation):
    """A Gaussian Markov process of one input: every row costs the same, and so do a million.

    For kernels with an exact state-space form: `Matern` of half-integer order, `Cosine`, `Constant`, `Linear`, `Wiener`,
    `IntegratedWiener`, and their sums, products and multiples.

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
    >>> model.condition(t, y).mean([[50.0]]).round(2), np.sin(50.0).round(2)
    (array([-0.26]), np.float64(-0.26))
    """

    name: ClassVar[str] = "markov"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.WHITENING, Capability.NEGATIVE_SITES}
    )

    def __init__(self) -> None:
        self._set_up({}, ())

    def __repr__(self) -> str:
        return "Markov()"

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> MarkovPrior:
        """The process at the inputs."""
        return MarkovPrior(kernel, inputs, mean_function)


class MarkovPrior(LatentPrior):
    """f ~ N(m, K) at times in any order."""

    representation = Markov()

    def __init__(self, kernel: Kernel, inputs: Inputs, mean_function: Mean | None) -> None:
        super().__init__(kernel, inputs, mean_function)
        if self.X.shape[1] != 1:
            raise ValueError(
                f"the representation 'markov' is for one input column, got {self.X.shape[1]}; use "
                "representation='dense'"
            )
        self.form = kernel.state_space()
        self.system = compiled_system(self.form)
        self.order: NDArray[np.intp] = np.argsort(self.X[:, 0], kind="stable")
        self.t = np.ascontiguousarray(self.X[self.order, 0])

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
            found = MarkovConditioning(self, variance + fraction * scale, observed=True, jitter=fraction * scale)
            if np.all(found.pivots > SINGULAR * self.diagonal[self.order]):
                return found
        raise NotPositiveDefiniteError(
            f"the covariance matrix is not positive definite, even with {JITTER_LADDER[-1]:g} of its mean diagonal "
            f"({scale:.3g}) added: are inputs repeated without noise?"
        )

    # --- products with the covariance -----------------------------------------------------------------------

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""
        return self.kernel._diag(self.kernel.prepare(self.X))

    def times(self, U: Array) -> Array:
        """K U."""
        from cavity.latent import markov_passes

        return self.unsorted(markov_passes.times(self.system, self.t, self.sorted(U)), U)

    @cached_property
    def _white(self) -> MarkovConditioning:
        return self.observe(np.zeros(self.n))

    @property
    def white_jitter(self) -> float:
        """What was added to the diagonal of K for W."""
        return self._white.jitter

    def unwhiten(self, U: Array) -> Array:
        """m + W U, W the Cholesky factor of K in order of time."""
        from cavity.latent.markov_passes import innovations

        white = self._white
        columns = (U if U.ndim == 2 else U[:, None]) / np.sqrt(white.c)[:, None]
        drawn = innovations(self.system, self.t, white.w, white.c, columns, True)
        return (self.mean + self.unsorted(drawn, U).T).T

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        from cavity.latent.markov_passes import innovations_adjoint

        white = self._white
        found = innovations_adjoint(self.system, self.t, white.w, white.c, self.sorted(G), True)
        return np.asarray(found / np.sqrt(white.c)[:, None]).reshape(G.shape)

    def whiten(self, F: Array) -> Array:
        """U with m + W U = F."""
        return self._white.half_solve((F.T - self.mean).T)

    def pull_unwhiten(self, U: Array, G: Array) -> Array:
        """Gradient of sum(G * (W U)), one complex pass for each number of the state space."""
        from cavity.latent.markov_passes import forward, innovations

        noise, G = np.full(self.n, self.white_jitter, dtype=complex), self.sorted(G)

        def slope(name: str, index: int) -> float:
            moved = self.system._replace(
                rate=self.system.rate.astype(complex), variance=self.system.variance.astype(complex)
            )
            getattr(moved, name)[index] += 1j * IMAGINARY
            w, _, c, *_ = forward(moved, self.t, noise, True)
            drawn = innovations(moved, self.t, w, c, U / np.sqrt(c)[:, None], True)
            return float(np.sum(G * drawn.imag) / IMAGINARY)

        blocks, factors = range(len(self.form.blocks)), range(len(self.system.rate))
        return self.pulled(
            np.array([slope("variance", b) for b in blocks]), np.array([slope("rate", f) for f in factors])
        )

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


class MarkovConditioning(Conditioning):
    """What follows from precisions of sites, or from variances of observations, given in the order of the rows.

    Attributes
    ----------
    noise : array (n,)
        Those precisions or variances, in order of time.
    observed : bool
        Whether they are variances.
    pivots : array (n,)
        1 + tau s or s + v, with s the variance of f given what came before.
    """

    def __init__(self, prior: MarkovPrior, noise: Array, *, observed: bool, jitter: float = 0.0) -> None:
        from cavity.latent.markov_passes import forward

        self.prior: MarkovPrior = prior
        self.noise, self.observed, self.jitter = np.asarray(noise, dtype=float)[prior.order], observed, jitter
        self.w, self.s, self.c, self.q, self.pivots, self._kept = forward(
            prior.system, prior.t, self.noise, observed
        )
        if not observed:
            self._require_proper()
        self._log_pivots = float(np.sum(np.log(np.abs(self.pivots))))

    def _require_proper(self) -> None:
        negative = self.pivots < 0
        balance = np.sum(negative & (self.noise > 0)) - np.sum(negative & (self.noise < 0))
        if balance == 0 and np.isfinite(self.pivots).all() and not np.any(self.pivots == 0):
            return
        worst = int(self.prior.order[np.argmin(np.where(np.isfinite(self.pivots), self.pivots, np.inf))])
        raise ImproperPosteriorError(
            f"the posterior is improper: negative site precisions outweigh the prior (first seen at row {worst}); damp "
            "the update or restrict the sites",
            worst,
        )

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
    def smallest_curvature(self) -> float:
        """At most so much: 1 / (1 + |tau_i| var_i) at the negative site with the least, of those that there are."""
        noise = np.zeros(1) if self.observed else np.minimum(self.noise, 0.0)
        var = 0.0 if self.observed else self.prior.sorted(self.var)[:, 0]
        return 1.0 / (1.0 + float(np.max(-noise * var)))

    # --- marginals ------------------------------------------------------------------------------------------

    @cached_property
    def _diagonals(self) -> tuple[Array, Array]:
        return self._backward(self.w, self.s, self.c, self.q)

    def _backward(self, w: Array, s: Array, c: Array, q: Array) -> tuple[Array, Array]:
        from cavity.latent.markov_passes import backward

        prior = self.prior
        var, left = backward(prior.system, prior.t, w, s, c, q)
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
        """R U: by innovations, which a site of no precision does not have."""
        v = self.prior.sorted(U) if self.observed else self.noise[:, None] * self.prior.sorted(U)
        return self._smooth(v, U, self.observed)[0]

    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, Sigma b)."""
        return self._smooth(self.prior.sorted(b), b, False)

    def _smooth(self, columns: Array, like: Array, observed: bool) -> tuple[Array, Array]:
        from cavity.latent.markov_passes import smooth

        prior = self.prior
        alpha, moved = smooth(prior.system, prior.t, self.w, self.s, self.c, self.q, columns, observed)
        return prior.unsorted(alpha, like), prior.unsorted(moved, like)

    def _innovations(self, U: Array) -> Array:
        from cavity.latent.markov_passes import innovations

        prior = self.prior
        return innovations(prior.system, prior.t, self.w, self.c, prior.sorted(U), False)  # type: ignore[no-any-return]

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """R = V' diag(c) V with V the innovations: those of positive and of negative c."""
        v = np.sqrt(np.abs(self.c))[:, None] * self._innovations(U)
        below = self.c < 0
        return (v[~below], v[below]) if below.any() else (v, None)

    def half_solve(self, U: Array) -> Array:
        """sqrt(c) V U; for observations, in order of time."""
        return (np.sqrt(self.c)[:, None] * self._innovations(U)).reshape(U.shape)

    @property
    def half_solve_norm(self) -> float:
        """About the norm of L^-1."""
        return float(np.sqrt(np.max(self.c)))

    def half_solve_transposed(self, U: Array) -> Array:
        """V' sqrt(c) U."""
        from cavity.latent.markov_passes import innovations_adjoint

        prior = self.prior
        columns = np.sqrt(self.c)[:, None] * (U if U.ndim == 2 else U[:, None])
        found = innovations_adjoint(prior.system, prior.t, self.w, self.c, columns, False)
        return prior.unsorted(found, U)

    # --- derivatives ----------------------------------------------------------------------------------------

    def _along(self, direction: Array) -> tuple[Array, ...]:
        """The filter with noise that has a small imaginary part in this direction, in order of the rows."""
        from cavity.latent.markov_passes import forward

        noise = self.noise + 1j * IMAGINARY * direction[self.prior.order]
        return forward(self.prior.system, self.prior.t, noise, self.observed)  # type: ignore[no-any-return]

    def _in_noise(self, d_precision: Array | float, d_variance: Array | float) -> Array:
        """A change of precisions and of variances as one of the noise, in order of the rows: dtau = -tau^2 dv."""
        noise = np.empty(self.prior.n)
        noise[self.prior.order] = self.noise
        if self.observed:
            return np.asarray(d_variance - noise**2 * d_precision)
        return np.asarray(d_precision - noise**2 * d_variance)

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """(Sigma d_mean, (Sigma o Sigma) d_var): the second is minus the change of var with the precisions."""
        first = np.zeros(self.prior.n) if d_mean is None else self.project(d_mean)[1]
        if d_var is None:
            return first, np.zeros(self.prior.n)
        var, _ = self._backward(*self._along(self._in_noise(d_var, 0.0))[:4])
        return first, -var.imag / IMAGINARY

    def apply_squared(self, g: Array) -> Array:
        """(R o R) g: minus the change of the diagonal of R with the noise variances."""
        _, left = self._backward(*self._along(self._in_noise(0.0, g))[:4])
        return np.asarray(-left.imag / IMAGINARY)

    def pull_kernel(
        self,
        left: Array,
        right: Array | None,
        of_R: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> Array:
        """See `Conditioning`: with dtau = d_var and dv = d_unexplained the last two terms are the change of R."""
        from cavity.latent.markov_passes import pull_correction, pull_products

        prior = self.prior
        L = prior.sorted(left)
        d_variance, d_rate = pull_products(
            prior.system, prior.t, L, L if right is None else prior.sorted(right)
        )
        if of_R:
            filtered = self.w, self.s, self.c, self.q, self._kept
            by_variance, by_rate = pull_correction(prior.system, prior.t, *filtered)
            d_variance, d_rate = d_variance + of_R * by_variance, d_rate + of_R * by_rate
        if d_var is not None or d_unexplained is not None:
            direction = self._in_noise(0.0 if d_var is None else d_var, 0.0 if d_unexplained is None else d_unexplained)
            w, s, c, q, _, kept = self._along(direction)
            by_variance, by_rate = pull_correction(prior.system, prior.t, w, s, c, q, kept)
            d_variance = d_variance + by_variance.imag / IMAGINARY
            d_rate = d_rate + by_rate.imag / IMAGINARY
        return prior.pulled(d_variance, d_rate)


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
        return new, MarkovPrior(self.kernel, Inputs(np.vstack([self.prior.X, new])), None)

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
    from cavity.latent.markov_passes import System

    factors = [factor for block in form.blocks for factor in block.factors]
    count, width = max(1, len(factors)), max([factor.size for factor in factors], default=1)
    power = np.zeros((count, width, width, width))
    covariance, drift, strength = np.zeros((count, width, width)), np.zeros((count, width, width)), np.zeros(count)
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
    fixed_noise = (FactorKind.MATERN, FactorKind.ROTATION)
    moving = [
        len(block.factors) > 1 and any(factor.kind not in fixed_noise for factor in block.factors)
        for block in form.blocks
    ]
    blank = [0] * (count - len(factors))  # so that there is always an array to index
    return System(
        start=np.cumsum([0] + [block.size for block in form.blocks]),
        first=np.cumsum([0] + [len(block.factors) for block in form.blocks]),
        kind=np.array([int(factor.kind) for factor in factors] + blank),
        order=np.array([factor.order for factor in factors] + blank),
        size=np.array([factor.size for factor in factors] + blank),
        rate=np.array([factor.rate.value for factor in factors] + blank, dtype=float),
        origin=np.array([factor.origin for factor in factors] + blank, dtype=float),
        power=power,
        strength=strength,
        covariance=covariance,
        drift=drift,
        variance=np.array([block.variance.value for block in form.blocks], dtype=float),
        moving=np.array(moving, dtype=bool),
    )
