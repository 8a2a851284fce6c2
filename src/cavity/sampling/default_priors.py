"""Weak proper priors for parameters that have none, so that a posterior over hyperparameters exists.

Flat priors on hyperparameters can make their posterior improper: a length scale far beyond the data has no effect, so
a likelihood that is flat out there integrates to infinity. Every free parameter without a prior therefore gets one,
centered on what the data say is typical (`learning.starts`, the values that start the optimizer) and wide enough
to be overruled by little data:

- positive quantities (length scales, variances, noise, periods, ...): log-normal around the typical value. Its sd in
  log units is that of the random starts of the optimizer, at least `LOG_SD`; a variance has twice the log sd of a
  standard deviation, so that priors mean the same in both;
- fractions and other values between two ends: uniform between them (a Beta(1, 1) on fractions);
- quantities of either sign (levels, slopes): normal around the typical value, `FREE_SD` of its steps wide.

In the user's units throughout: what depends on the scale of the data is read off the data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cavity.numerics.arrays import Array
from cavity.parameters.param import Param
from cavity.parameters.priors import Beta, LogNormal, Normal, Uniform

LOG_SD = 1.0
"""Least sd of the log of a positive quantity: a factor of 7 either way has 95 % of the mass."""

FREE_SD = 3.0
"""Sd of a quantity of either sign, in steps of the size that the data suggest."""


def with_proper_priors(model: Any, X: Array, y: Array, sample_weight: Array | None = None) -> Any:
    """The model with a weak proper prior for every free parameter that has none.

    Parameters
    ----------
    model : GP
    X, y : arrays (n, D), (n,)
        What typical sizes are read off.

    Returns
    -------
    GP
        Bound to the columns of X. Priors, values, bounds and ties that the user gave are kept. The elements of an
        array parameter share one prior: if typical values differ from column to column, it is wide enough for
        all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> X = np.linspace(0, 10, 20)[:, None]
    >>> with_proper_priors(GP(1.0 * SE(1.0)), X, np.sin(X[:, 0])).log_prior()[0] < 0
    True
    """
    from cavity.learning.starts import Starts

    model, data = model.training(X, y, sample_weight, basis_in_kernel=True)
    X, y, weight = data.X, data.y, data.weight
    paths: dict[str, Param] = model._paths()
    wanted = {p for p, param in paths.items() if param.prior is None and not param.fixed}
    if not wanted:
        return model
    starts = Starts.of(model, X, y, weight)
    slots: dict[str, list[int]] = {}
    for s, entry in enumerate(model.layout.free):
        path = entry.name if entry.name in paths else entry.name[: entry.name.rindex("[")]
        if path in wanted and entry.prior is None:
            slots.setdefault(path, []).append(s)
    changed = {}
    for path, at in slots.items():
        prior = _weak_prior(paths[path], starts.first[at], starts.spread[at], starts.scale[at])
        changed[path] = replace(paths[path], prior=prior)
    return model.update(changed)


def unit_steps(model: Any, X: Array, y: Array, sample_weight: Array | None = None) -> Array:
    """Size of a unit step of each free parameter, shape (p,): one for logarithms, the data's own for levels."""
    from cavity.learning.starts import Starts

    return np.asarray(Starts.of(model, X, y, sample_weight).scale)


def _weak_prior(param: Param, center: Array, spread: Array, step: Array) -> Any:
    """One density for all elements of a parameter, from typical values in unconstrained units."""
    low, high = param.transform.support if param.transform is not None else (0.0, np.inf)
    if np.isfinite(low) and np.isfinite(high):
        return Beta(1.0, 1.0) if (low, high) == (0.0, 1.0) else Uniform(low, high)
    if np.isfinite(low):
        logs = np.log(low + np.exp(center))  # for low = 0 this is `center` itself
        sd = float(np.sqrt(max(LOG_SD, float(np.max(spread))) ** 2 + np.var(logs)))
        return LogNormal(float(np.mean(logs)), sd)
    sd = float(np.sqrt((FREE_SD * float(np.max(step))) ** 2 + np.var(center)))
    return Normal(float(np.mean(center)), sd)
