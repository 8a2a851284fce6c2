"""The default prior on the signal variance of classifiers.

Once a latent function is large, making it larger hardly changes the probabilities of labels: the evidence is
nearly flat in the signal variance beyond some point, and where classes separate it has no maximum at all (the
Crabs, Sonar and USPS data, thesis section 6.4). The prior here is flat for all practical purposes inside the
range of signals that labels can tell apart, and keeps the optimizer from running away outside of it.

It is log-normal. Its density over the variance v, which MAP estimation multiplies with the evidence, is a
parabola in log v: it is largest at a signal standard deviation of 4 (probabilities of labels between 0.00003
and 0.99997 are then within one prior standard deviation of f), half a nat lower at 1.5 and 11, and 2 nats lower
at 0.5 and 30.
"""

from __future__ import annotations

import numpy as np

from cavity.hyper import Array, Param
from cavity.kernels import Kernel, Scaled
from cavity.layout import Prior
from cavity.priors import LogNormal

SIGNAL_VARIANCE = 16.0
"""Variance of f where the prior is largest."""

SPREAD = 2.0
"""Standard deviation of the parabola in log variance."""


def weak_prior(unit: float = 1.0) -> LogNormal:
    """The prior of a factor whose kernel has variance `unit`.

    log p(v) = -(log v - mu)^2 / (2 s^2) - log v + ... is a parabola around mu - s^2.
    """
    return LogNormal(float(np.log(SIGNAL_VARIANCE / unit)) + SPREAD**2, SPREAD)


def with_signal_prior(kernel: Kernel, X: Array, prior: Prior | None = None) -> Kernel:
    """The kernel with a prior on each factor `variance * k` that is learned and has none.

    Parameters
    ----------
    prior : Prior, optional
        In place of the weak one, which is in units of the variance of k at the data.
    """
    changes = {}
    for (path, param), (node, name, _) in zip(kernel._paths().items(), kernel._walk()):
        if isinstance(node, Scaled) and name == "variance" and not param.fixed and param.prior is None:
            chosen = prior if prior is not None else weak_prior(_variance(node.kernel, X))
            changes[path] = Param(param.value, prior=chosen, bounds=param.bounds, tie=param.tie)
    if prior is None and any(p.tie is not None for p in changes.values()):
        changes = _one_prior_per_tie(changes)
    return kernel.update(changes) if changes else kernel


def _variance(kernel: Kernel, X: Array) -> float:
    """Mean variance of a kernel at the data."""
    variance = float(np.mean(kernel.diag(X)))
    return variance if np.isfinite(variance) and variance > 0 else 1.0


def _one_prior_per_tie(changes: dict[str, Param]) -> dict[str, Param]:
    """Tied factors are one number: the prior of the first stands for all."""
    seen: set[str] = set()
    out = {}
    for path, param in changes.items():
        if param.tie is None or param.tie not in seen:
            out[path] = param
        if param.tie is not None:
            seen.add(param.tie)
    return out
