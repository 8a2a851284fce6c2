"""f ~ N(m, diag(K_1, .., K_P)) at the training inputs: dense priors of the parts, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Kernel
from cavity.latent.base import Conditioning, FlatDirections, Inputs, LatentPrior, Loss, PriorGradient
from cavity.latent.committee.process import CommitteeProcess
from cavity.latent.dense import DensePrior
from cavity.numerics.arrays import Array
from cavity.rows.base import RowSource

if TYPE_CHECKING:
    from cavity.latent.committee.representation import Committee
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.means.functions import Mean


class CommitteeInputs(Inputs):
    """Training inputs, and those of each part with memory of its own."""

    def __init__(self, X: ArrayLike | RowSource) -> None:
        super().__init__(X)
        self._of_parts: list[Inputs] = []

    def of(self, parts: Sequence[NDArray[np.intp]]) -> list[Inputs]:
        """Those of these parts; the same for all evaluations of a fit."""
        if [len(own) for own in self._of_parts] != [len(part) for part in parts]:
            self._of_parts = [Inputs(self.X[part]) for part in parts]
        return self._of_parts

    def release(self) -> None:
        """Free the memory of all parts."""
        super().release()
        for own in self._of_parts:
            own.release()


class CommitteePrior(LatentPrior):
    """Dense priors of parts of the rows."""

    representation: Committee

    def __init__(
        self, representation: Committee, kernel: Kernel, inputs: Inputs, mean_function: Mean | None
    ) -> None:
        rows = inputs if isinstance(inputs, CommitteeInputs) else CommitteeInputs(inputs.source)
        super().__init__(kernel, rows, mean_function)
        self.representation = representation
        self.parts = representation.partition(self.n)
        self.members = [DensePrior(kernel, own, mean_function) for own in rows.of(self.parts)]

    def joined(self, pieces: Sequence[Array]) -> Array:
        """What the parts found for their rows, in the order of all rows."""
        out = np.empty((self.n, *pieces[0].shape[1:]))
        for part, piece in zip(self.parts, pieces):
            out[part] = piece
        return out

    def each(self, method: Callable[[DensePrior, Array], Array], U: Array) -> Array:
        """A method of every member on its rows of U."""
        return self.joined([method(member, U[part]) for member, part in zip(self.members, self.parts)])

    def condition(self, precision: Array, *, transient: bool = False) -> CommitteeConditioning:
        """Given sites of these precisions, of any sign, shape (n,)."""
        found = [m.condition(precision[p], transient=transient) for m, p in zip(self.members, self.parts)]
        return CommitteeConditioning(self, found)

    def observe(self, variance: Array, *, transient: bool = False) -> CommitteeConditioning:
        """Given observations with these noise variances, shape (n,)."""
        found = [m.observe(variance[p], transient=transient) for m, p in zip(self.members, self.parts)]
        return CommitteeConditioning(self, found)

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""
        return self.joined([member.diagonal for member in self.members])

    def times(self, U: Array) -> Array:
        """K U."""
        return self.each(lambda member, u: member.times(u), U)

    def unwhiten(self, U: Array) -> Array:
        """m + W U."""
        return self.each(lambda member, u: member.unwhiten(u), U)

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        return self.each(lambda member, g: member.unwhiten_adjoint(g), G)

    def whiten(self, F: Array) -> Array:
        """U with m + W U = F."""
        return self.each(lambda member, f: member.whiten(f), F)

    @property
    def white_jitter(self) -> float:
        """The most that was added to the diagonal of a part for W."""
        return max(member.white_jitter for member in self.members)

    def process(
        self, weights: Array, conditioning: Conditioning, basis: BasisWeights | None = None
    ) -> CommitteeProcess:
        """The posterior process anywhere, by the rule of the committee."""
        if basis is not None:
            raise ValueError(
                "a committee takes no basis functions with weights integrated out: use a mean with parameters, or "
                "representation='inducing'"
            )
        assert isinstance(conditioning, CommitteeConditioning)
        return CommitteeProcess(self, weights, conditioning)


class CommitteeConditioning(Conditioning):
    """What the sites or observations of each part make of it."""

    prior: CommitteePrior

    def __init__(self, prior: CommitteePrior, members: Sequence[Conditioning]) -> None:
        self.prior, self.members = prior, list(members)
        self.log_det = float(sum(member.log_det for member in members))
        self.jitter = max(member.jitter for member in members)

    def _pairs(self) -> list[tuple[Conditioning, NDArray[np.intp]]]:
        return list(zip(self.members, self.prior.parts))

    def _each(self, method: Callable[[Conditioning, Array], Array], U: Array) -> Array:
        return self.prior.joined([method(member, U[part]) for member, part in self._pairs()])

    @property
    def noisy_log_det(self) -> float:
        """log |K + diag(variance)|."""
        return float(sum(member.noisy_log_det for member in self.members))

    @property
    def smallest_curvature(self) -> float:
        """Of the part that has least left."""
        return min(member.smallest_curvature for member in self.members)

    def loss(self, weights: Array | None = None) -> Loss:
        """Not known."""
        return Loss(np.nan, "none")

    def flat_directions(self, limit: float) -> FlatDirections:
        """Those of all parts."""
        found = [(member.flat_directions(limit), part) for member, part in self._pairs()]

        def padded(name: str) -> Array:
            columns = []
            for flat, part in found:
                own = np.zeros((self.prior.n, len(flat.share)))
                own[part] = getattr(flat, name)
                columns.append(own)
            return np.hstack(columns)

        share = np.concatenate([flat.share for flat, _ in found])
        return FlatDirections(share, padded("vectors"), padded("by_site"))

    @property
    def var(self) -> Array:
        """Marginal variances of f, shape (n,)."""
        return self.prior.joined([member.var for member in self.members])

    @property
    def unexplained(self) -> Array:
        """The diagonal of R, shape (n,)."""
        return self.prior.joined([member.unexplained for member in self.members])

    def apply(self, U: Array) -> Array:
        """R U."""
        return self._each(lambda member, u: member.apply(u), U)

    def apply_squared(self, g: Array) -> Array:
        """(R o R) g."""
        return self._each(lambda member, x: member.apply_squared(x), g)

    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, Sigma b)."""
        found = [member.project(b[part]) for member, part in self._pairs()]
        return self.prior.joined([a for a, _ in found]), self.prior.joined([x for _, x in found])

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """Those of the parts, one below the other."""
        found = [member.reduce(np.ascontiguousarray(U[part])) for member, part in self._pairs()]
        plus = [p for _, p in found if p is not None]
        return np.vstack([m for m, _ in found]), np.vstack(plus) if plus else None

    def half_solve(self, U: Array) -> Array | None:
        """L^-1 U, part by part; None if a part has no factor."""
        found = [member.half_solve(np.ascontiguousarray(U[part])) for member, part in self._pairs()]
        known = [x for x in found if x is not None]
        return self.prior.joined(known) if len(known) == len(found) else None

    @property
    def half_solve_norm(self) -> float:
        """About the norm of L^-1."""
        return max(member.half_solve_norm for member in self.members)

    def half_solve_transposed(self, U: Array) -> Array:
        """L^-T U."""
        return self._each(lambda member, u: member.half_solve_transposed(np.ascontiguousarray(u)), U)

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """(Sigma d_mean, (Sigma o Sigma) d_var)."""
        found = [member.pull_sites(_of(d_mean, part), _of(d_var, part)) for member, part in self._pairs()]
        return self.prior.joined([a for a, _ in found]), self.prior.joined([b for _, b in found])

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """Gradient in the natural values of the kernel: the sum over the parts."""
        total = np.zeros(self.prior.kernel.flat.size)
        for member, part in self._pairs():
            own = np.ascontiguousarray(left[part]), _of(right, part), d_log_det
            total += member.pull_prior(*own, _of(d_var, part), _of(d_unexplained, part)).kernel
        return PriorGradient(total)


def _of(values: Array | None, part: NDArray[np.intp]) -> Array | None:
    return None if values is None else np.ascontiguousarray(values[part])
