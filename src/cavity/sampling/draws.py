"""`Draws`: what a sampler of a model drew, with the model and the data.

A draw is a set of hyperparameters and, depending on the sampler, noise variances, indicators of outliers, or latent
values at the training inputs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.latent.base import Inputs
from cavity.likelihoods.scale_mixture import WIDE
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.sampling.noise_given_f import draw_residuals
from cavity.sampling.trace import Trace


@dataclass(frozen=True)
class Draws:
    """Draws of C chains, T of each.

    Attributes
    ----------
    model : GP
        Bound to the data, with the priors that were used.
    X, y : arrays (n, D), (n,)
    trace : Trace
        Positions are `theta` (p may be zero).
    weight : array (n,) or None
        Powers of the likelihood factors.
    noise : array (C, T, n) or None
        Noise variances, if f was integrated out given these; None with `white` None: those of the likelihood.
    white : array (C, T, n) or (C, T, n, L), or None
        White latent values u, f = m + L u.
    latent : array of the shape of `white`, or None
        f itself.
    indicators : array of bool (C, T, n) or None
        Which points are outliers.
    probability : array (n,) or None
        Posterior probability of each point to be an outlier: the average of p(c_i = 1 | everything else), which has
        the same mean as the indicator and less variance.
    method : str
        The sampler.
    nugget : float
        Added to the diagonal of K, relative to its mean, when `white` was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.inference import MCMC
    >>> from cavity.kernels import SE
    >>> x = np.linspace(0, 6, 12)
    >>> rule = MCMC(n_draws=20, warmup=20, chains=2, rng=0, warn=False, progress=False)
    >>> draws = GP(1.0 * SE(1.0), inference=rule).condition(x[:, None], np.sin(x)).draws
    >>> draws.trace.positions.shape
    (2, 20, 3)
    """

    model: Any
    X: Array
    y: Array
    trace: Trace
    weight: Array | None = None
    noise: Array | None = None
    white: Array | None = None
    latent: Array | None = None
    indicators: NDArray[np.bool_] | None = None
    probability: Array | None = None
    method: str = ""
    nugget: float = 0.0

    @cached_property
    def natural(self) -> Array:
        """Hyperparameters in natural units, shape (C, T, p)."""
        t, layout = self.trace, self.model.layout
        values = [layout.to_natural(u) for u in t.pooled]
        return np.array(values).reshape(t.chains, t.draws, t.dim)

    def model_at(self, theta: Array) -> Any:
        """The model with the hyperparameters (p,) of one draw."""
        return self.model.replace(theta) if self.trace.dim else self.model

    def evenly_spread(self, most: int) -> NDArray[np.intp]:
        """Indices of at most `most` pooled draws, spread evenly over all chains."""
        total = self.trace.chains * self.trace.draws
        count = min(most, total)
        return np.floor((np.arange(count) + 0.5) * total / count).astype(np.intp)

    @property
    def outlier_probability(self) -> Array | None:
        """Posterior probability that each training row is an outlier, shape (n,); None if the draws do not tell.

        For a mixture the posterior mean of its indicator; for Student-t and Laplace noise the posterior probability
        that its own noise sd is above three times the scale.
        """
        if self.probability is not None:
            return self.probability
        if self.noise is None:
            return None
        noise = self.noise.reshape(-1, len(self.X))
        thetas = self.trace.pooled if self.trace.dim else self.trace.pooled[:1]
        scale = np.array([float(self.model_at(theta).likelihood.scale) for theta in thetas])
        return np.asarray(np.mean(noise > (WIDE * scale[:, None]) ** 2, axis=0))

    def log_likelihood(self, rng: np.random.Generator | int | None = 0) -> Array:
        """log p(y_i | f_i, noise parameters) of each draw and row, shape (C, T, n); powers if rows have weights.

        If f was integrated out, it is drawn given everything else that was drawn: one factorization for each draw.
        """
        rng, inputs = np.random.default_rng(rng), Inputs(self.X)
        shape = self.trace.chains, self.trace.draws
        latent = None if self.latent is None else self.latent.reshape(-1, *self.latent.shape[2:])
        noise = None if self.noise is None else self.noise.reshape(-1, len(self.X))
        out = np.empty((shape[0] * shape[1], len(self.X)))
        with threads_for(len(self.X)):
            for s, theta in enumerate(self.trace.pooled):
                model = self.model_at(theta)
                if latent is not None:
                    f = latent[s]
                else:
                    variance = self.likelihood_noise(model) if noise is None else noise[s]
                    f = self.y - draw_residuals(model, inputs, self.y, variance, rng)
                out[s] = model.likelihood.log_prob(self.y, f)
        return (out if self.weight is None else self.weight * out).reshape(*shape, -1)

    def likelihood_noise(self, model: Any) -> Array:
        """Noise variances (n,) of a model with Gaussian noise, divided by the sample weights."""
        variance: Array = model.likelihood.noise_variances(len(self.X))[0]
        return variance if self.weight is None else variance / self.weight

    def to_arviz(self, log_likelihood: bool = True) -> Any:
        """ArviZ InferenceData: hyperparameters in natural units, `f` if it was sampled, log densities, data.

        Needs the extra `arviz`. Elements of an array parameter are one variable with a dimension of its own.

        Parameters
        ----------
        log_likelihood : bool
            Whether to add the log likelihood of each row (`log_likelihood`), from which `arviz.loo` and `arviz.waic`
            estimate the density of new data.
        """
        try:
            import arviz
        except ImportError:
            raise ImportError("to_arviz needs ArviZ: install cavity with the extra 'arviz'") from None
        posterior: dict[str, Any] = {}
        grouped: dict[str, list[int]] = {}
        for j, name in enumerate(self.model.names):
            grouped.setdefault(re.sub(r"\[[\d,]+\]$", "", name), []).append(j)
        for path, columns in grouped.items():
            values = self.natural[:, :, columns]
            posterior[path] = values if "[" in self.model.names[columns[0]] else values[:, :, 0]
        if self.latent is not None:
            posterior["f"] = self.latent
        if self.indicators is not None:
            posterior["outlier"] = self.indicators.astype(int)
        elif self.noise is not None:
            posterior["noise_variance"] = self.noise
        return arviz.from_dict(
            posterior=posterior,
            log_likelihood={"y": self.log_likelihood()} if log_likelihood else None,
            sample_stats={"lp": self.trace.log_density},
            observed_data={"y": self.y},
            constant_data={"X": self.X},
        )
