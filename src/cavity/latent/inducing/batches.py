"""Rows in batches, one after the other: inducing inputs remember what the batches before have said.

What is known of u = L w is w ~ N(w0, B^-1), white coordinates. Of the rows of a new batch the prior is then

    f ~ N(m + V'w0, V'B^-1 V + share D),      d_i = k_ii - |V_i|^2 as ever,

an inducing prior with L_B^-1 V in the place of V, so that any inference rule finds the sites of the batch. They change
what is known to B' = L_B (I + V~ S V~') L_B' and w0' = w0 + L_B^-T V~ alpha, V~ = L_B^-1 V. Rows need not be kept:
streams (Bui, Nguyen and Turner 2017, with inducing inputs that stay). If their sites are kept, a batch can be visited
again: its sites are taken out, found anew given all others, and put back. At a fixed point the sites are those of the
rule on all rows at once, because a rule asks of each row no more than what all other sites say. Of the variational
rule these are natural-gradient steps of length one on the rows of a batch (dual sites).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from cavity.kernels.base import Kernel
from cavity.latent.base import Conditioning, ImproperPosteriorError
from cavity.latent.inducing.blocks import inverse_transposed, row_products, times_inverse
from cavity.latent.inducing.conditioning import AtInducingInputs, InducingConditioning
from cavity.latent.inducing.prior import KEPT_DOUBLES, InducingPrior
from cavity.latent.sites import Sites
from cavity.means.functions import Mean
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, try_factorize
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.latent.posterior_process import PosteriorProcess


class GivenOthers(InducingPrior):
    """A batch of rows, given what the inducing inputs know of others.

    Parameters
    ----------
    batch : InducingPrior
        Of the rows of the batch, which must be few enough for V to be kept; it is used up.
    known : Knowledge
    """

    def __init__(self, batch: InducingPrior, known: Knowledge) -> None:
        if not batch.keeps:
            limit = KEPT_DOUBLES // batch.m
            raise InputError(
                f"a batch of {batch.n} rows is too large for {batch.m} inducing inputs: at most {limit}"
            )
        d, mean = batch.residual, batch.mean + batch.project_out(known.mean[:, None])[:, 0]
        batch._white()
        V = batch.kept
        assert V is not None
        self.__dict__.update(batch.__dict__)
        self.mean, half = mean, inverse_transposed(known.B)
        V[...] = times_inverse(half, V)
        self.root = batch.root @ half
        self.__dict__.pop("tiles", None)
        self.own = row_products(V, V) + d
        self.__dict__["diagonal"] = self.own - (1.0 - self.kind.share - self.kind.weight) * d

    def _refuse(self) -> NoReturn:
        raise NotImplementedError(
            "a batch is conditioned as it is"
        )  # no rule that ends in sites asks for more

    def at(self, kernel: Kernel, mean_function: Mean | None) -> NoReturn:
        """Refused: what is known of others belongs to these hyperparameters."""
        self._refuse()

    def rows(self, index: NDArray[np.intp]) -> NoReturn:
        """Refused: sites of the other rows of the batch would be lost."""
        self._refuse()


@dataclass(frozen=True)
class Knowledge:
    """w ~ N(mean, B^-1), white coordinates of the inducing values.

    Attributes
    ----------
    mean : array (m,)
    B : Cholesky
    """

    mean: Array
    B: Cholesky

    @classmethod
    def nothing(cls, m: int) -> Knowledge:
        """The prior."""
        return cls(np.zeros(m), Cholesky(np.eye(m)))

    @classmethod
    def of(cls, process: PosteriorProcess) -> Knowledge:
        """What a posterior process on inducing inputs knows."""
        at = process.conditioning
        assert isinstance(at, AtInducingInputs)
        return cls(solve_triangular(at.root, process.weights), at.B)

    def after(self, batch: GivenOthers, weights: Array, conditioning: InducingConditioning) -> Knowledge:
        """With the sites of a batch, which a rule has found given this: with weights alpha."""
        half = inverse_transposed(self.B)
        moved = half @ batch.project_in(weights[:, None])[:, 0]
        return Knowledge(self.mean + moved, self._joined(conditioning))

    def _joined(self, given: InducingConditioning) -> Cholesky:
        """L_B L_B~, the factor of the precision with the sites of a batch."""
        return Cholesky(np.ascontiguousarray(np.tril(self.B.lower) @ np.tril(given.B.lower)))

    def joined(self, given: InducingConditioning, before: Conditioning) -> AtInducingInputs:
        """What predictions need after a batch, in the place of what they needed before it."""
        assert isinstance(before, AtInducingInputs)
        return AtInducingInputs(before.root, self._joined(given), before.degenerate)

    def without(self, batch: InducingPrior, sites: Sites) -> Knowledge:
        """Without sites that it knows, of a batch: those of the others are left.

        Raises
        ------
        ImproperPosteriorError
            If the others leave no proper density.
        """
        one = 1.0 + batch.kind.share * sites.precision * batch.residual
        S, r = sites.precision / one, (sites.shift - sites.precision * batch.mean) / one
        L = np.tril(self.B.lower)
        h = L @ (L.T @ self.mean) - batch.project_in(r[:, None])[:, 0]
        B = L @ L.T
        lower = np.tril_indices(len(B))
        B[lower] -= batch.gram(S)[lower]
        factor = try_factorize(B)
        if factor is None:
            raise ImproperPosteriorError("the sites of the other batches leave no proper density")
        return Knowledge(factor.solve(h), factor)
