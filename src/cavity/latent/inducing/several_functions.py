"""Several latent functions on inducing inputs, coupled by the likelihood: a softmax, or a level and a log noise.

Function c has the prior N(m_c, V_c'V_c + D_c), where D_c = share (k_ii - q_ii). With the L x L curvature W_i of row i
and D_i = diag(D_1i, .., D_Li),

    S_i = (I + W_i D_i)^-1 W_i,        B = I + V S V'  (L m x L m),    B_cd = [c = d] I + V_c diag(S_cd) V_d'
    R   = S - S V'B^-1 V S,            log|I + K W| = log|B| + sum_i log|I + D_i W_i|
    (I - R K) b = M^-1 b - S g,        Sigma b = M^-T (g + D b),      M = I + W D,  g = V'B^-1 V M^-1 b

The posterior is proper if and only if every I + D_i^1/2 W_i D_i^1/2 and B are positive definite. Cotangents are those
of one function (`pullback`), with V_c R_cc = sum_d (B^-1)_cd V_d S_dc and V_c R_cc V_c' = I - (B^-1)_cc.

O(L^2 n m^2) time for L functions, O(L^2 m^2) memory beside the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from cavity.kernels.base import Kernel
from cavity.latent.base import (
    Capability,
    CapabilityError,
    ImproperPosteriorError,
    Inputs,
    Loss,
    PriorGradient,
)
from cavity.latent.inducing.blocks import (
    add_product,
    add_weighted_gram,
    row_products,
    times_inverse_transposed,
)
from cavity.latent.inducing.passes import White
from cavity.latent.inducing.prior import InducingPrior
from cavity.latent.inducing.pullback import of_inducing_inputs
from cavity.latent.multi_latent import SeveralConditioning
from cavity.latent.separate_functions import SeparateConditioning, SeparateFunctions
from cavity.latent.several_process import Expansion, SeveralPosteriorProcess
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, try_factorize
from cavity.numerics.compiled import compiled_passes
from cavity.numerics.tiles import mirror_lower
from cavity.parameters.per_latent import PerLatent
from cavity.rows.base import Arrays, Pass

if TYPE_CHECKING:
    from cavity.latent.inducing.representation import Inducing

INVERSE_ITERATIONS = 20
"""Enough for an eigenvalue that stands out, the only case of interest."""

ROUGHLY = 1e-3
"""Relative accuracy of the eigenvalue of a direction that leads away from a saddle."""


class InducingFunctions(SeparateFunctions):
    """L independent Gaussian processes at n training inputs, held at the same inducing inputs.

    Parameters
    ----------
    representation : Inducing
    kernel : Kernel or PerLatent
    inputs : Inputs
    n_latent : int
    mean_function : PerLatent, optional
    """

    functions: list[InducingPrior]  # type: ignore[assignment]

    def __init__(
        self,
        representation: Inducing,
        kernel: Kernel | PerLatent,
        inputs: Inputs,
        n_latent: int,
        mean_function: PerLatent | None = None,
    ) -> None:
        first = cast(Kernel, kernel[0] if isinstance(kernel, PerLatent) else kernel)
        settled = representation.for_rows(first, inputs.source)
        super().__init__(settled, kernel, inputs, n_latent, mean_function)
        self.m = self.functions[0].m

    @property
    def distinct(self) -> list[InducingPrior]:
        """The priors without repetition."""
        return self.functions[:1] if self.shared else self.functions

    def condition(self, W: Array) -> CoupledConditioning:
        """Given a curvature of any symmetric blocks, shape (n, L, L)."""
        return CoupledConditioning(self, W, W)

    def condition_softmax(self, D: Array) -> CoupledConditioning:
        """Given the curvature D - D R1 (R1'D R1)^-1 R1'D of a softmax, shape (n, L)."""
        W = -D[:, :, None] * (D / D.sum(axis=1, keepdims=True))[:, None, :]
        each = np.arange(self.n_latent)
        W[:, each, each] = 0.0
        W[:, each, each] = -W.sum(axis=2)  # no difference of nearly equal numbers
        return CoupledConditioning(self, W, D)

    def project_in(self, U: Array) -> Array:
        """V U of every function, shape (L m,), for U (n, L)."""
        if self.shared:
            return np.ascontiguousarray(self.functions[0].project_in(U).T).ravel()
        return np.concatenate([p.project_in(u[:, None])[:, 0] for p, u in zip(self.functions, U.T)])

    def project_out(self, w: Array) -> Array:
        """V' w of every function, shape (n, L), for w (L m,)."""
        each = w.reshape(self.n_latent, self.m)
        if self.shared:
            return self.functions[0].project_out(np.ascontiguousarray(each.T))
        return np.column_stack([p.project_out(x[:, None])[:, 0] for p, x in zip(self.functions, each)])

    def _from_white(self, u: Array) -> Array:
        """Values (n, L) without the mean, from white coordinates of all functions."""
        each = u.reshape(self.n_latent, -1)
        return np.column_stack([p.unwhiten(x) for p, x in zip(self.functions, each)])

    def _to_white(self, G: Array) -> Array:
        """The adjoint of that."""
        return np.concatenate([p.unwhiten_adjoint(g) for p, g in zip(self.functions, G.T)])

    def white_size(self) -> int:
        """Number of white coordinates of all functions."""
        return self.n_latent * self.functions[0].white_dim

    def downward(self, W: Array) -> tuple[Array, Array]:
        """(da, K da), shapes (n, L), for the direction of most negative curvature.

        In white coordinates f = m + Y u, with the eigenvector u of the smallest eigenvalue e of Y'W Y: then Y u =
        K (W Y u) / e.
        """
        r = self.white_size()

        def curved(u: Array) -> Array:
            return self._to_white(np.einsum("nij,nj->ni", W, self._from_white(np.ravel(u))))

        operator = LinearOperator((r, r), matvec=curved, dtype=float)
        values, vectors = eigsh(operator, k=1, which="SA", v0=np.ones(r), tol=ROUGHLY)
        da = np.einsum("nij,nj->ni", W, self._from_white(vectors[:, 0])) / values[0]
        return da, self.times(da)

    def process(self, weights: Array, conditioning: SeveralConditioning) -> Any:
        """The posterior processes anywhere, given weights (n, L)."""
        if isinstance(conditioning, SeparateConditioning):
            return super().process(weights, conditioning)
        known = {id(p): Expansion(p.kernel, p.inducing_rows, p.Z) for p in self.functions}
        each = [known[id(p)] for p in self.functions]
        white = self.project_in(weights).reshape(self.n_latent, self.m)
        at_points = np.column_stack([p.root @ w for p, w in zip(self.functions, white)])
        return SeveralPosteriorProcess(each, self.mean_function, weights, conditioning, at_points)

    def _no_root(self, given: Array) -> NoReturn:
        """Refused: there are more white coordinates than values."""
        raise CapabilityError(self.representation.name, Capability.WHITENING)

    unwhiten = whiten = _no_root


class CoupledConditioning:
    """R for any symmetric W, through B = I + V S V'.

    Parameters
    ----------
    prior : InducingFunctions
    W : array (n, L, L)
    curvature : array (n, L) or (n, L, L)
        What W was made of.

    Raises
    ------
    ImproperPosteriorError
        If K^-1 + W is not positive definite.
    """

    def __init__(self, prior: InducingFunctions, W: Array, curvature: Array) -> None:
        self.prior, self.W, self.curvature = prior, W, curvature
        kind = prior.functions[0].kind
        if kind.weight > 0 or not kind.predicts_prior:
            raise ValueError(
                "functions that the likelihood couples need inducing inputs of kind 'auto', 'fitc' or 'dtc', got "
                f"{cast('Inducing', prior.representation).kind!r}"
            )
        self.jitter = max(p.jitter for p in prior.functions)
        self.D = kind.share * np.column_stack([p.residual for p in prior.functions])
        own = self._rows()
        B = _assembled(prior, self._pass(Grams, self.S)[0][0])
        B.reshape(-1)[:: len(B) + 1] += 1.0
        factor = try_factorize(B)
        if factor is None:
            raise ImproperPosteriorError(
                "the posterior is improper: negative curvature of the likelihood outweighs the prior"
            )
        self.B: Cholesky = factor
        self.log_det = factor.log_det + own

    def _rows(self) -> float:
        """S and M^-1 = (I + W D)^-1 of every row; sum_i log|I + D_i W_i|."""
        root, eye = np.sqrt(self.D), np.eye(self.prior.n_latent)
        A = eye + root[:, :, None] * self.W * root[:, None, :]
        try:
            L = np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            worst = int(np.argmin(np.linalg.eigvalsh(A)[:, 0]))
            raise ImproperPosteriorError(
                f"the posterior is improper: the negative curvature of the likelihood at point {worst} outweighs the "
                "variance that it has given the inducing inputs",
                worst,
            ) from None
        self.M_inverse: Array = np.asarray(np.linalg.inv(eye + self.W * self.D[:, None, :]), dtype=float)
        S = self.M_inverse @ self.W
        self.S = 0.5 * (S + S.transpose(0, 2, 1))
        return 2.0 * float(np.log(np.einsum("nii->ni", L)).sum())

    def _pass(self, kind: type[SeveralPass], *given: Array, **options: Any) -> tuple[Arrays, Arrays]:
        """A pass over the rows, with V' of each kernel if it is kept."""
        prior, kept = self.prior, []
        for p in prior.distinct:
            p._white()
            kept += [] if p.kept is None else [p.kept]
        task = kind(tuple(p.tiles for p in prior.distinct), prior.n_latent, len(kept) > 0, **options)
        return prior.inputs.source.map_sum(task, *given, *kept)

    @cached_property
    def smallest_curvature(self) -> float:
        """The smallest eigenvalue of I + Y'W Y, white coordinates Y, if it is below one: by inverse iteration."""
        prior = self.prior
        x, size = np.ones(prior.white_size()), 1.0
        for _ in range(INVERSE_ITERATIONS):
            x = x / np.linalg.norm(x)
            Wf = np.einsum("nij,nj->ni", self.W, prior._from_white(x))
            x = x - prior._to_white(self.project(Wf)[0])  # I - Y'R Y, and R = (I - R K) W
            size = float(np.linalg.norm(x))
        return min(1.0, 1.0 / size)

    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, Sigma b), shapes (n, L)."""
        scaled = _times(self.M_inverse, b)
        g = self.prior.project_out(self.B.solve(self.prior.project_in(scaled)))
        return scaled - _times(self.S, g), _times(self.M_inverse.transpose(0, 2, 1), g + self.D * b)

    @cached_property
    def B_inverse(self) -> Array:
        """B^-1, shape (L, m, L, m)."""
        L, m = self.prior.n_latent, self.prior.m
        return mirror_lower(Cholesky(self.B.lower.copy()).into_inverse()).reshape(L, m, L, m)

    @cached_property
    def explained(self) -> Array:
        """V_c'(B^-1)_cd V_d of every row, shape (n, L, L): what is left of the part that is a function of u."""
        return self._pass(Explained, B_inverse=self.B_inverse)[1][0]

    def training_blocks(self) -> Array:
        """M^-T (V'B^-1 V) M^-1 + D M^-1, shape (n, L, L)."""
        left = self.M_inverse.transpose(0, 2, 1)
        S = left @ self.explained @ self.M_inverse + self.D[:, :, None] * self.M_inverse
        return np.asarray(0.5 * (S + S.transpose(0, 2, 1)))

    marginal_blocks = training_blocks

    def loss(self) -> Loss:
        """The share of information that the inducing inputs do not carry, of each function's own curvature."""
        own = np.maximum(np.einsum("nii->ni", self.W), 0.0)
        d = np.column_stack([p.residual for p in self.prior.functions])
        total = float(own.sum())
        return Loss(
            np.nan, "none", float((own * own * d / (1.0 + own * d)).sum()) / total if total > 0 else 0.0
        )

    def pull_prior(self, left: Array, right: Array, d_log_det: float) -> PriorGradient:
        """See the protocol, and `pullback` for one function."""
        prior, L, m = self.prior, self.prior.n_latent, self.prior.m
        share = prior.functions[0].kind.share
        R_ii = np.einsum("nii->ni", self.S - self.S @ self.explained @ self.S)
        t = share * (left * right + d_log_det * R_ii)
        F_left, F_right = (prior.project_in(x).reshape(L, m) for x in (left, right))
        roots = [p.root for p in prior.functions]
        P_left, P_right = (np.stack([root @ x for root, x in zip(roots, F)]) for F in (F_left, F_right))
        sums = self._pass(
            Cotangents,
            self.S,
            t,
            left,
            right,
            B_inverse=self.B_inverse,
            scale=d_log_det,
            P_left=P_left,
            P_right=P_right,
            learn=cast("Inducing", prior.representation).learn,
        )[0]
        count = len(prior.distinct)
        inner = np.zeros((count, m, m))
        for c in range(L):
            own = inner[0 if prior.shared else c]
            own += 0.5 * (np.outer(F_left[c], F_right[c]) + np.outer(F_right[c], F_left[c]))
            own -= d_log_det * self.B_inverse[c, :, c]
            own.reshape(-1)[:: m + 1] += d_log_det
        found = []
        for k, p in enumerate(prior.distinct):
            inner[k] -= mirror_lower(sums[2][k])
            half = times_inverse_transposed(p.root, -inner[k])
            G_uu = times_inverse_transposed(p.root, np.ascontiguousarray(half.T))
            found.append(of_inducing_inputs(p, sums[0][k][: p.kernel.flat.size], sums[1][k], G_uu))
        of_inputs = sum(g.representation for g in found)
        return PriorGradient(np.concatenate([g.kernel for g in found]), np.asarray(of_inputs))

    def reduce(self, cross: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """U_c = K_uu^-1 k_c and V_c = L_B^-1 (0, .., L_c^-1 k_c, .., 0), for k_c at the inducing inputs."""
        L, m = self.prior.n_latent, self.prior.m
        U, V = [], []
        for c, (p, k) in enumerate(zip(self.prior.functions, cross)):
            white = p.root.T @ k
            U.append(p.root @ white)
            padded = np.zeros((L * m, k.shape[1]))
            padded[c * m : (c + 1) * m] = white
            V.append(self.B.half_solve(padded))
        return U, V


def _times(A: Array, x: Array) -> Array:
    """A_i x_i of every row."""
    return np.asarray(np.einsum("nij,nj->ni", A, x))


def _assembled(prior: InducingFunctions, grams: Array) -> Array:
    """B without its identity, (L m, L m) in the lower triangle, from blocks (c, d), d <= c."""
    L, m = prior.n_latent, prior.m
    B, k = np.zeros((L, m, L, m)), 0
    for c in range(L):
        for d in range(c + 1):
            B[c, :, d] = mirror_lower(grams[k]) if c == d or prior.shared else grams[k]
            k += 1
    return B.reshape(L * m, L * m)


# --- passes over the rows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeveralPass(Pass):
    """A pass that needs V' of every function.

    Attributes
    ----------
    tiles : one for each kernel
    n_latent : int
    kept : bool
        Whether V' of each kernel is given, after all else.
    """

    tiles: tuple[White, ...]
    n_latent: int
    kept: bool

    @property
    def shared(self) -> bool:
        """Whether all functions have one kernel."""
        return len(self.tiles) == 1

    @property
    def m(self) -> int:
        """Number of inducing inputs."""
        return len(self.tiles[0].root)

    def white(self, X: Array, rows: slice, given: Sequence[Array]) -> list[Array]:
        """V' of each function, not to be written to."""
        found = given[-len(self.tiles) :] if self.kept else [t.white(X, rows) for t in self.tiles]
        return list(found) * (self.n_latent if self.shared else 1)


class Grams(SeveralPass):
    """V_c diag(S_cd) V_d' for d <= c; of one kernel, and of c = d, in lower triangles. Given: S (n, L, L)."""

    def start(self) -> Arrays:
        """One matrix for each pair."""
        return (np.zeros((self.n_latent * (self.n_latent + 1) // 2, self.m, self.m)),)

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        V, S, k = self.white(X, rows, given), given[0], 0
        for c in range(self.n_latent):
            for d in range(c + 1):
                weight = np.ascontiguousarray(S[:, c, d])
                if c == d or self.shared:
                    add_weighted_gram(sums[0][k], V[c], weight, keep=True)
                else:
                    sums[0][k] += (V[c] * weight[:, None]).T @ V[d]
                k += 1
        return ()


@dataclass(frozen=True)
class Explained(SeveralPass):
    """V_c'(B^-1)_cd V_d, shape (n, L, L)."""

    B_inverse: Array

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        V, L = self.white(X, rows, given), self.n_latent
        out = np.empty((len(X), L, L))
        for c in range(L):
            for d in range(c + 1):
                out[:, c, d] = out[:, d, c] = row_products(V[c] @ self.B_inverse[c, :, d], V[d])
        return (out,)


@dataclass(frozen=True)
class Cotangents(SeveralPass):
    """Gradients of sum(G * K_fu) + sum_i t_i k_ii, of every kernel and its inducing inputs, and V diag(t) V'.

    Given: S (n, L, L), t, left and right (n, L). G = 2 (scale sum_d S_dc V_d'(B^-1)_dc - t V_c') L_c^-1 of function c,
    and what left and right add.
    """

    B_inverse: Array
    scale: float
    P_left: Array
    P_right: Array
    learn: bool

    def start(self) -> Arrays:
        """Of each kernel."""
        count, width = len(self.tiles), self.tiles[0].inducing_width if self.learn else 0
        size = max(t.kernel.flat.size for t in self.tiles)
        return np.zeros((count, size)), np.zeros((count, self.m, width)), np.zeros((count, self.m, self.m))

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        S, t, left, right = given[:4]
        V = self.white(X, rows, given)
        for k, tiles in enumerate(self.tiles):
            own = list(range(self.n_latent)) if self.shared else [k]
            G, weight = self._product(V, S, own), t[:, own].sum(axis=1)
            if np.any(weight):
                G -= V[own[0]] * weight[:, None]
                add_weighted_gram(sums[2][k], V[own[0]], weight, keep=True)
            G *= 2.0
            G = times_inverse_transposed(tiles.root, G)
            add_product(G, np.ascontiguousarray(right[:, own]), self.P_left[own].T)
            add_product(G, np.ascontiguousarray(left[:, own]), self.P_right[own].T)
            a, K = tiles.tile(X, rows)
            with compiled_passes(tiles.compiled):
                found = tiles.kernel._pull(a, tiles.inducing, G, K) + tiles.kernel._pull_diag(a, weight)
                sums[0][k][: len(found)] += found
                if self.learn:
                    sums[1][k] += tiles.kernel._pull_inputs(a, tiles.inducing, G, K)[1]
        return ()

    def _product(self, V: list[Array], S: Array, own: list[int]) -> Array:
        """scale sum over the functions c of one kernel, and over all d, of S_dc V_d'(B^-1)_dc."""
        G = np.zeros_like(V[0])
        for c in own:
            for d in range(c + 1) if self.shared else range(self.n_latent):
                A = self.B_inverse[d, :, c]
                if self.shared and d < c:
                    A = A + A.T  # S_dc V'A and S_cd V'A'
                G += (self.scale * S[:, d, c])[:, None] * (V[d] @ A)
        return G
