"""Student-t and Laplace noise as scale mixtures of normals: Hamiltonian Monte Carlo on the noise variances.

Each observation has a noise variance v_i of its own, with the mixing density as its prior. Given all of them f is
integrated out exactly (Kuss 2006, section 5.4.2, eq. 5.47). Variances and hyperparameters are sampled together, the
variances in coordinates e_i that have about unit scale under the prior whatever the hyperparameters, so that scale and
degrees of freedom can move without all variances having to follow:

    Student-t:  v = nu s^2 / (2 g), g ~ Gamma(nu/2, 1):   log g = psi(nu/2) + sqrt(psi'(nu/2)) e,
    Laplace:    v = 2 s^2 g,        g ~ Exponential(1):   log g = e,

with psi the digamma function (log g has mean psi and variance psi'). With a = nu/2, D = psi'(a), the log density of e
is a log g - g - log Gamma(a) + 1/2 log D for the first and e - exp(e) for the second. Given the residual r = y - f,

    Student-t:  g ~ Gamma((nu + 1) / 2) / (1 + r^2 / (nu s^2)),   v = nu s^2 / (2 g),
    Laplace:    v = w + s^2 z^2,   w ~ inverse Gaussian(mean s |r|, shape r^2),   z ~ N(0, 1).

The gradient is that of the exact evidence in v (`evidence_given_noise`), d log p / d log v_i = v_i (b_i^2 - R_ii) / 2,
and the chain rule. An evaluation costs one factorization per chain.

After each trajectory the variances and the noise parameters are drawn together given a draw of f (`noise_given_f`),
which lets the degrees of freedom move even if the variances would hold them. (Trajectories of the
hyperparameters alone, with the variances left to this step, took two thirds of the evaluations, and left more effective
draws on some data, but a third of them for the length scales of Friedman's function with outliers.) If several modes of
the hyperparameters are known, chains also jump between them with a draw of f (`mode_jumping`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, zeta

from cavity.inference.base import UnsupportedPairError
from cavity.inference.variational.scale_mixture_em import ScaleMixtureEM
from cavity.latent.base import Inputs
from cavity.likelihoods.laplace import Laplace
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.student_t import StudentT
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.numerics.threads import threads_for
from cavity.runtime.interrupts import Postponed
from cavity.runtime.progress import ProgressLike
from cavity.sampling.affine import WHITE_HMC, AffineTarget, sample_whitened, whitened_at_mode
from cavity.sampling.default_priors import unit_steps, with_proper_priors
from cavity.sampling.draws import Draws
from cavity.sampling.evidence_given_noise import evidence_given_noise
from cavity.sampling.hmc import QUARTER_PERIOD
from cavity.sampling.mode_jumping import JointJumps, Modes, jump_counts
from cavity.sampling.noise_given_f import draw_noise_parameters, draw_residuals, noise_entries
from cavity.sampling.targets import DifferentiableTarget, chain_by_chain, inside
from cavity.sampling.trace import Trace, Until

MOST_DF = 1e12
"""Degrees of freedom beyond which rounding errors would rule: the density counts as zero there."""

LENGTH = 1.5 * QUARTER_PERIOD
"""Length of trajectories, in white coordinates."""

MODE_ROUNDS = 2
"""Times that noise variances and the mode of the hyperparameters are found in turn before sampling."""


# --- mixing densities ---------------------------------------------------------------------------------------


class Mixing(NamedTuple):
    """Noise variances as functions of white coordinates e and of the P natural values of the likelihood.

    `log_variance` (n,), its derivatives `by_white` (n,) and `by_flat` (P, n); the log prior density of e, summed, and
    its derivatives `d_white` (n,) and `d_flat` (P,).
    """

    log_variance: Array
    by_white: Array
    by_flat: Array
    log_prior: float
    d_white: Array
    d_flat: Array


def student_t_mixing(likelihood: StudentT, e: Array) -> Mixing:
    """v = nu s^2 / (2 g) with log g = psi(a) + sqrt(psi'(a)) e, a = nu / 2.

    For many degrees of freedom a log g - g - log Gamma(a) is a difference of numbers of size a log a. In terms of
    x = log(g / a), which is then near zero, it is -a (exp(x) - 1 - x) + (a log a - a - log Gamma(a)).
    """
    s, nu = float(likelihood.scale), float(likelihood.df)
    if nu > MOST_DF:
        raise ValueError(f"df must be at most {MOST_DF:g} to sample noise variances, got {nu!r}")
    a = 0.5 * nu
    D, d_D = float(zeta(2.0, a)), -2.0 * float(zeta(3.0, a))  # psi' and psi''
    root = np.sqrt(D)
    x = float(digamma(a)) - np.log(a) + root * e
    gap = -a * np.expm1(x)  # a - g
    d_log_g = D + 0.5 * d_D / root * e  # in a
    by_flat = np.stack([np.full(len(e), 2.0 / s), 1.0 / nu - 0.5 * d_log_g])
    log_prior = float(np.sum(gap + a * x) + len(e) * (0.5 * np.log(D) + _stirling(a)))
    d_a = float(np.sum(root * e + gap * d_log_g) + 0.5 * len(e) * d_D / D)
    return Mixing(
        2.0 * np.log(s) - x,
        np.full(len(e), -root),
        by_flat,
        log_prior,
        gap * root,
        np.array([0.0, 0.5 * d_a]),
    )


def _stirling(a: float) -> float:
    """a log a - a - log Gamma(a), by its series if the difference would cancel."""
    if a < 1e3:
        return float(a * np.log(a) - a - gammaln(a))
    return float(0.5 * np.log(a) - 0.5 * LOG_2PI - 1.0 / (12.0 * a))


def student_t_white(likelihood: StudentT, log_variance: Array) -> Array:
    """The inverse: e of log variances."""
    a = 0.5 * float(likelihood.df)
    log_g = np.log(a) + 2.0 * np.log(float(likelihood.scale)) - log_variance
    return np.asarray((log_g - digamma(a)) / np.sqrt(zeta(2.0, a)))


def student_t_given(likelihood: StudentT, residuals: Array, rng: np.random.Generator) -> Array:
    """Log variances (n,) drawn given the residuals."""
    s, nu = float(likelihood.scale), float(likelihood.df)
    with np.errstate(divide="ignore"):
        log_g = np.log(rng.standard_gamma(0.5 * (nu + 1.0), len(residuals)))
    log_g -= np.log1p((residuals / s) ** 2 / nu)
    return np.asarray(np.log(0.5 * nu) + 2.0 * np.log(s) - log_g)


def laplace_mixing(likelihood: Laplace, e: Array) -> Mixing:
    """v = 2 s^2 exp(e), exp(e) exponentially distributed."""
    s = float(likelihood.scale)
    g = np.exp(e)
    return Mixing(
        np.log(2.0) + 2.0 * np.log(s) + e,
        np.ones(len(e)),
        np.full((1, len(e)), 2.0 / s),
        float(np.sum(e - g)),
        1.0 - g,
        np.zeros(1),
    )


def laplace_white(likelihood: Laplace, log_variance: Array) -> Array:
    """The inverse: e of log variances."""
    return np.asarray(log_variance - np.log(2.0) - 2.0 * np.log(float(likelihood.scale)))


def laplace_given(likelihood: Laplace, residuals: Array, rng: np.random.Generator) -> Array:
    """Log variances (n,) drawn given the residuals."""
    s = float(likelihood.scale)
    # An inverse Gaussian of mean zero is not defined; one of this mean is nothing beside z^2.
    size = np.maximum(np.abs(residuals) / s, np.finfo(float).tiny ** 0.25)
    with np.errstate(divide="ignore"):
        return np.asarray(
            2.0 * np.log(s) + np.log(rng.wald(size, size**2) + rng.standard_normal(len(size)) ** 2)
        )


class ScaleMixture(NamedTuple):
    """A noise model as a scale mixture: variances at white coordinates, the inverse, draws of log variances."""

    mixing: Callable[[Any, Array], Mixing]
    to_white: Callable[[Any, Array], Array]
    draw_given_residuals: Callable[[Any, Array, np.random.Generator], Array]


SCALE_MIXTURES: dict[type, ScaleMixture] = {
    StudentT: ScaleMixture(student_t_mixing, student_t_white, student_t_given),
    Laplace: ScaleMixture(laplace_mixing, laplace_white, laplace_given),
}
"""Noise models and their mixing densities."""


# --- the target ---------------------------------------------------------------------------------------------


def is_scale_mixture(likelihood: Any) -> bool:
    """Whether this sampler can handle the noise model."""
    return type(likelihood) in SCALE_MIXTURES


class ScaleMixtureTarget(DifferentiableTarget):
    """Posterior of white noise coordinates e (n) and hyperparameters theta (p), f integrated out; d = n + p.

    Parameters
    ----------
    model : GP
        With `StudentT` or `Laplace` noise. Parameters without a prior get a weak proper one.
    X, y : arrays (n, D), (n,)
    hyperparameters : bool
        Whether theta is part of the position; otherwise p = 0.
    """

    def __init__(self, model: Any, X: ArrayLike, y: ArrayLike, hyperparameters: bool = True) -> None:
        if not is_scale_mixture(model.likelihood):
            raise UnsupportedPairError(
                "sampling of noise variances needs StudentT or Laplace noise, got "
                f'{type(model.likelihood).__name__}; use inference="mcmc" with method="auto"'
            )
        bound, data = model.training(X, y, basis_in_kernel=True)
        self.X, self.y = data.X, data.y
        self.model = with_proper_priors(bound, self.X, self.y) if hyperparameters else bound.freeze()
        self._scale_mixture = SCALE_MIXTURES[type(model.likelihood)]
        self.n, self.p = len(self.y), len(self.model.names)
        self.dim = self.n + self.p
        self.names = tuple(f"e[{i}]" for i in range(self.n)) + tuple(self.model.names)
        self._bounds = np.array(self.model.theta_bounds).reshape(-1, 2)
        self._noise = noise_entries(self.model)
        self._inputs = Inputs(self.X)

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient (C, n + p)."""
        return chain_by_chain(self._one, U)

    def _one(self, position: Array) -> tuple[float, Array]:
        nothing = -np.inf, np.zeros(self.dim)
        e, theta = position[: self.n], position[self.n :]
        if not inside(theta, self._bounds):
            return nothing
        try:
            with np.errstate(all="ignore"):
                model = self.model.replace(theta)
                mixing = self._scale_mixture.mixing(model.likelihood, e)
                variances = np.exp(mixing.log_variance)
                if not (np.isfinite(variances).all() and np.all(variances > 0)):
                    return nothing
                found = evidence_given_noise(model, self._inputs, self.y, variances)
                prior, d_prior = model.log_prior(jacobian=True)
        except (ValueError, np.linalg.LinAlgError):  # a value that overflows, or a singular matrix
            return nothing
        slope = variances * found.variances  # in log v
        flat = np.concatenate([found.kernel, found.mean, mixing.by_flat @ slope + mixing.d_flat])
        gradient = np.concatenate([slope * mixing.by_white + mixing.d_white, model.to_theta(flat) + d_prior])
        return found.value + mixing.log_prior + prior, gradient

    def refresh(self, U: Array, rng: np.random.Generator) -> Array:
        """Positions (C, d) with noise parameters and variances drawn anew, each given a draw of f."""
        return np.array([self._refreshed(position, rng) for position in U])

    def _refreshed(self, position: Array, rng: np.random.Generator) -> Array:
        e, theta = position[: self.n], position[self.n :]
        model = self.model.replace(theta)
        residuals = self._residuals(model, e, rng)
        if self._noise.any():
            theta = draw_noise_parameters(self.model, theta, self._noise, residuals, rng)
            model = self.model.replace(theta)
        return self._with_variances(model, residuals, rng)

    def jump(self, U: Array, jumps: JointJumps, rng: np.random.Generator) -> Array:
        """Positions (C, d), after a jump of each chain that attempts one and is accepted."""
        return np.array([self._jumped(position, jumps, rng) for position in U])

    def _jumped(self, position: Array, jumps: JointJumps, rng: np.random.Generator) -> Array:
        e, theta = position[: self.n], position[self.n :]
        found = jumps.attempt(theta, lambda: self.y - self._residuals(self.model.replace(theta), e, rng), rng)
        if found is None:
            return position
        there, f = found
        return self._with_variances(self.model.replace(there), self.y - f, rng)

    def _residuals(self, model: Any, e: Array, rng: np.random.Generator) -> Array:
        """y - f (n,) for a draw of f given the noise variances."""
        variances = np.exp(self._scale_mixture.mixing(model.likelihood, e).log_variance)
        return draw_residuals(model, self._inputs, self.y, variances, rng)

    def _with_variances(self, model: Any, residuals: Array, rng: np.random.Generator) -> Array:
        """The position (d,) of a model and of noise variances drawn given the residuals."""
        log_variances = self._scale_mixture.draw_given_residuals(model.likelihood, residuals, rng)
        return np.concatenate([self._scale_mixture.to_white(model.likelihood, log_variances), model.theta])

    def variances(self, U: Array) -> Array:
        """Noise variances (S, n) of positions (S, d)."""
        out = np.empty((len(U), self.n))
        for s, position in enumerate(U):
            likelihood = self.model.replace(position[self.n :]).likelihood
            out[s] = np.exp(self._scale_mixture.mixing(likelihood, position[: self.n]).log_variance)
        return out

    def whitened(self) -> AffineTarget:
        """The target with its hyperparameters whitened at their mode, given noise variances that suit the data.

        The two are found in turn, starting from the model's hyperparameters.
        """
        position = np.concatenate([np.zeros(self.n), self.model.theta])
        unit = unit_steps(self.model, self.X, self.y)
        for _ in range(MODE_ROUNDS):
            position[: self.n] = self._typical_white(position[self.n :])
            found = whitened_at_mode(self, position, unit, self._bounds, slice(self.n, None))
            position[self.n :] = found.origin
        return found

    def _typical_white(self, theta: Array) -> Array:
        """Coordinates of the noise variances that variational EM finds at these hyperparameters; zeros if it fails."""
        model = self.model.replace(theta)
        try:
            seen = Observations(model.likelihood, self.y)
            found = ScaleMixtureEM().infer(model.prior(self.X), seen)
        except np.linalg.LinAlgError:
            return np.zeros(self.n)
        assert found.sites is not None
        return self._scale_mixture.to_white(model.likelihood, -np.log(found.sites.precision))

    def start(
        self, white: AffineTarget, chains: int, rng: np.random.Generator, modes: Modes | None = None
    ) -> Array:
        """Starting positions (C, d): hyperparameters around their modes, variances near their typical size."""
        if modes is not None:
            typical = {tuple(mode): self._typical_white(mode) for mode in modes.locations}

            def at(mode: Array) -> Array:
                e = typical[tuple(mode)] + 0.5 * rng.standard_normal(self.n)
                return np.concatenate([e, mode])

            return modes.starts(white, at, chains, rng, self._bounds)
        base = np.zeros((chains, self.dim))
        base[:, : self.n] = self._typical_white(white.origin) + 0.5 * rng.standard_normal((chains, self.n))
        return white.start(base, rng, self._bounds)


def sample_noise_variances(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_draws: int = 1000,
    warmup: int = 500,
    chains: int = 4,
    rng: np.random.Generator | int | None = None,
    hyperparameters: bool = True,
    modes: Modes | None = None,
    progress: ProgressLike = None,
    until: Until[Draws] | None = None,
) -> Draws:
    """Sample the noise variances and hyperparameters of a model with Student-t or Laplace noise.

    With `modes` chains start at all of them and jump between them.

    Returns
    -------
    Draws
        Of `theta` and of the noise variances.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import StudentT
    >>> X = np.linspace(0, 6, 12)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[5] += 5.0
    >>> model = GP(1.0 * SE(1.0), StudentT(0.1, 3.0))
    >>> found = sample_noise_variances(
    ...     model, X, y, n_draws=50, warmup=50, chains=2, rng=0, hyperparameters=False, progress=False
    ... )
    >>> int(np.argmax(np.median(found.noise, axis=(0, 1))))
    5
    """
    rng = np.random.default_rng(rng)
    target = ScaleMixtureTarget(model, X, y, hyperparameters)
    jumps = None if modes is None else JointJumps(modes, target.model, target.X, target.y)

    def between(U: Array, rng: np.random.Generator) -> Array:
        return target.refresh(U if jumps is None else target.jump(U, jumps, rng), rng)

    def as_draws(trace: Trace) -> Draws:
        noise = target.variances(trace.pooled).reshape(trace.chains, trace.draws, target.n)
        theta = replace(
            trace,
            positions=trace.positions[:, :, target.n :],
            names=tuple(target.model.names),
            jumps=jump_counts([jumps]),
        )
        return Draws(target.model, target.X, target.y, theta, noise=noise, method="scale-mixture")

    with threads_for(target.n):
        white = target.whitened()
        trace = sample_whitened(
            white,
            target.start(white, chains, rng, modes),
            replace(WHITE_HMC, length=LENGTH),
            n_draws=n_draws,
            warmup=warmup,
            rng=rng,
            between=between,
            progress=progress,
            until=None if until is None else until.of(as_draws),
        )
    with Postponed():  # Ctrl-C while variances are computed does not lose the draws
        return as_draws(trace)
