"""The family of approximations by inducing inputs: three numbers say what becomes of d_i = k_ii - q_ii.

The prior of f is N(m, Q + share D), and the log determinant gains an excess that makes it a bound, or power EP:

    log_det = log|I + (Q + share D) T| + sum_i weight / curve log(1 + curve tau_i d_i)

(weight tau_i d_i if curve is 0). Its derivative in tau_i is the marginal variance, which is therefore that of the
prior times the sites and `spread` = weight d_i / (1 + curve tau_i d_i). So log Z = -1/2 log_det + ... generates the
moments for every kind and sites of any sign, and every inference rule runs on every kind:

    fitc        share 1: the conditional prior of each f_i given u is kept, but not its correlations
    dtc, sor    nothing: f is a function of u. Deterministic training conditional (projected process), subset of
                regressors; they differ in predictions, which have the prior's variance or only that of Q
    vfe         weight 1: Titsias' collapsed bound; with other likelihoods the bound of sparse variational inference
    tight       weight 1, curve 1: the same with q(f_i given u) of variance d_i / (1 + tau_i d_i), a higher bound
    alpha       share alpha, weight 1 - alpha, curve alpha: power EP, from vfe (0) to fitc (1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cavity.numerics.arrays import Array


@dataclass(frozen=True)
class Kind:
    """One of the family.

    Attributes
    ----------
    share : float
        How much of d the prior of the training rows has.
    weight, curve : float
        Of the excess of the log determinant.
    predicts_prior : bool
        Whether predictions far from the inducing inputs have the prior's variance.
    """

    share: float = 0.0
    weight: float = 0.0
    curve: float = 0.0
    predicts_prior: bool = True

    @property
    def apart(self) -> float:
        """The part of d that predictions have and the prior of the training rows has not."""
        return 1.0 - self.share if self.predicts_prior else 0.0

    def weigh(self, site: Array, d: Array, observed: bool) -> tuple[Array, Array]:
        """S and 1 / one, for sites of these precisions or, if `observed`, observations of these variances."""
        if observed:
            S = 1.0 / (site + self.share * d)
            return S, site * S
        left = 1.0 / (1.0 + self.share * site * d)
        return site * left, left

    def excess(self, x: Array) -> float:
        """The excess of the log determinant, x = tau d."""
        if self.weight == 0.0:
            return 0.0
        if self.curve == 0.0:
            return self.weight * float(x.sum())
        return self.weight / self.curve * float(np.log1p(self.curve * x).sum())

    def excess_slope(self, x: Array) -> Array:
        """Its derivative in x."""
        return self.weight / (1.0 + self.curve * x)

    def spread(self, x: Array, d: Array) -> Array:
        """weight d / (1 + curve x)."""
        return d * self.excess_slope(x)

    def spread_slope(self, x: Array) -> Array:
        """The derivative of `spread` in d, tau fixed."""
        return self.weight / (1.0 + self.curve * x) ** 2


KINDS = {
    "fitc": Kind(share=1.0),
    "vfe": Kind(weight=1.0),
    "tight": Kind(weight=1.0, curve=1.0),
    "dtc": Kind(),
    "sor": Kind(predicts_prior=False),
}
"""Kinds by name."""


def as_kind(spec: str | float) -> Kind:
    """A kind from its name, or from the power alpha of power EP in [0, 1]."""
    if isinstance(spec, str) and spec in KINDS:
        return KINDS[spec]
    if isinstance(spec, int | float) and not isinstance(spec, bool) and 0.0 <= spec <= 1.0:
        return Kind(share=float(spec), weight=1.0 - float(spec), curve=float(spec))
    names = ", ".join(map(repr, KINDS))
    raise ValueError(f"kind must be 'auto', one of {names}, or a power of EP between 0 and 1, got {spec!r}")
