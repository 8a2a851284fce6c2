"""What Poisson, logistic, binomial and negative binomial likelihoods share: compiled tilted moments.

    log p(y|f) = A s - N L(s) + constant,  s = f - offset,  L(s) = exp(s) or log(1 + exp(s)).

See `log_concave_loops` for the rule. Points it does not certify go to adaptive panels.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from cavity.likelihoods import tilted_quadrature
from cavity.likelihoods.base import Likelihood, Power, Tilted, float_rows, require_cavity
from cavity.numerics.arrays import Array


class NaturalForm(NamedTuple):
    """A, N and the constant, each (n,), the offset, and whether L is log(1 + exp) instead of exp."""

    A: Array
    N: Array
    constant: Array
    offset: float
    logistic: bool


class ExponentialFamily(Likelihood):
    """A likelihood with a natural form."""

    @abstractmethod
    def natural_form(self, y: Array) -> NaturalForm:
        """A, N, constant, offset and kind of cumulant for targets y."""

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """A trapezoid rule around the mode that certifies itself."""
        from cavity.likelihoods.log_concave_loops import exponential_family, lattice

        require_cavity(self, precision, power)
        form = self.natural_form(y)
        full = (np.broadcast_to(a, y.shape) for a in (form.A, form.N, form.constant, power))
        A, N, constant, powers, shift, precision = float_rows(*full, shift, precision)
        out, rule = np.empty((6 + self.flat.size, len(y))), np.empty((5, len(y)))
        nodes = lattice()
        exponential_family(
            A, N, constant, form.offset, shift, precision, powers, form.logistic, *nodes, out[:6], rule
        )
        lost = np.isnan(out[1])
        rule[:, lost] = 0.0
        if len(out) > 6:
            out[6:] = self._slopes(y, (shift / precision - form.offset, precision, powers, *nodes, rule))
        if not lost.any():
            return Tilted.of(out)
        return tilted_quadrature.closed_or_panels(
            self, lambda *_: Tilted.of(out[:, ~lost]), ~lost, y, shift, precision, powers, order
        )

    def _slopes(self, y: Array, rule: tuple[Array, ...]) -> Array:
        """d log Z / d flat (P, n), from what the loops take for averages with the nodes of the rule."""
        raise NotImplementedError
