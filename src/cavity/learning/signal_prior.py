"""The default prior on the signal variance of classifiers.

Once a latent function is large, making it larger hardly changes the probabilities of labels: the evidence is
nearly flat in the signal variance beyond some point, and if classes separate it has no maximum at all (the
Crabs, Sonar and USPS data, Kuss 2006, section 6.4): an optimizer runs away. A signal of nothing, on the other hand,
is a good answer if labels do not depend on the inputs.

So the prior of the signal variance v is half-Cauchy, p(v) proportional to 1 / (1 + (v/S)^2) with S = 20^2. It is
flat for signal standard deviations well below 20, and lower by 0.7 nats at 20, 4.4 nats at 60 and 10 nats at 240.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from cavity.kernels import Kernel, Scaled
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param
from cavity.parameters.priors import HalfCauchy
from cavity.parameters.vector import Prior

SIGNAL_VARIANCE = 400.0
"""Variance of f up to which the prior is flat."""


def weak_prior(unit: float = 1.0) -> HalfCauchy:
    """The prior of a factor whose kernel has variance `unit`."""
    return HalfCauchy(SIGNAL_VARIANCE / unit)


def with_signal_prior(
    kernel: Kernel, X: Array, prior: Prior | None = None, typical: Kernel | None = None
) -> Kernel:
    """The kernel with a prior on each factor `variance * k` that is learned and has none.

    Parameters
    ----------
    prior : Prior, optional
        In place of the weak one, which is in units of the variance of k at the data.
    typical : Kernel, optional
        The same kernel at the values that learning starts from, at which the variance of k is taken: those given may
        be in other units than the inputs (a linear kernel of variance one on inputs of a million).
    """
    changes = {}
    at = kernel if typical is None else typical
    for (path, param), (node, name, _), (there, *_) in zip(
        kernel._paths().items(), kernel._walk(), at._walk()
    ):
        if isinstance(node, Scaled) and name == "variance" and not param.fixed and param.prior is None:
            chosen = prior if prior is not None else weak_prior(_variance(cast(Scaled, there).kernel, X))
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
