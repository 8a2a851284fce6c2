"""Kernels as trees of plain values, which the script of a report evaluates (`assets/whatif.js`).

Each node has a `type` and its numbers; columns are given by their place in a row. Members of the algebra that the
script does not know are refused by name (`NotInPage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.kernels import (
    SE,
    Categorical,
    Constant,
    Cosine,
    GammaExponential,
    Kernel,
    Linear,
    Matern,
    On,
    Periodic,
    Polynomial,
    Power,
    Product,
    RationalQuadratic,
    Scaled,
    Standardized,
    Stationary,
    Sum,
    White,
)

Tree = dict[str, Any]


class NotInPage(Exception):
    """A part of a model that a page cannot compute; its text says which."""


@dataclass(frozen=True)
class Frame:
    """Which columns of a row a kernel sees, and how: (x - center) / scale of each.

    Attributes
    ----------
    dims : tuple of int
    center, scale : tuples of float
    """

    dims: tuple[int, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, width: int) -> Frame:
        """All columns as they are."""
        return cls(tuple(range(width)), (0.0,) * width, (1.0,) * width)

    def on(self, places: Sequence[int]) -> Frame:
        """Some of the columns."""
        center, scale = (tuple(part[d] for d in places) for part in (self.center, self.scale))
        return Frame(tuple(self.dims[d] for d in places), center, scale)

    def standardized(self, center: Sequence[float], scale: Sequence[float]) -> Frame:
        """The columns as a kernel inside sees them: (z - center) / scale of what is seen here."""
        shifted = tuple(c + s * inner for c, s, inner in zip(self.center, self.scale, center))
        return Frame(self.dims, shifted, tuple(s * inner for s, inner in zip(self.scale, scale)))

    def lengths(self, value: Any) -> list[float]:
        """Lengths along the columns, in their own units."""
        return [
            float(v) for v in np.broadcast_to(np.asarray(value, dtype=float), len(self.dims)) * self.scale
        ]


def kernel_tree(kernel: Kernel, frame: Frame) -> Tree:
    """The tree of a kernel.

    >>> kernel_tree(2.0 * SE(0.5).on([1]), Frame.of(3))
    {'type': 'scaled', 'by': 2.0, 'of': {'type': 'stationary', 'form': 'se', 'shape': 0.0, 'dims': [1], 'scale': [0.5]}}
    """
    if isinstance(kernel, Sum | Product):
        kind = "sum" if isinstance(kernel, Sum) else "product"
        return {"type": kind, "of": [kernel_tree(term, frame) for term in kernel.terms]}
    if isinstance(kernel, Scaled):
        return {"type": "scaled", "by": float(kernel.variance), "of": kernel_tree(kernel.kernel, frame)}
    if isinstance(kernel, Power):
        return {"type": "power", "by": kernel.exponent, "of": kernel_tree(kernel.kernel, frame)}
    if isinstance(kernel, On):
        return kernel_tree(kernel.kernel, frame.on(kernel.dims))
    if isinstance(kernel, Standardized):
        return kernel_tree(kernel.kernel, frame.standardized(kernel.center, kernel.scale))
    if isinstance(kernel, Constant):
        return {"type": "constant", "value": float(kernel.variance)}
    if isinstance(kernel, White):
        return {"type": "white", "value": float(kernel.variance)}
    return _leaf(kernel, frame)


def _leaf(kernel: Kernel, frame: Frame) -> Tree:
    """Kernels that look at columns."""
    at: Tree = {"dims": list(frame.dims)}
    moved: Tree = {**at, "center": list(frame.center)}
    if isinstance(kernel, Stationary):
        form, shape = _form(kernel)
        return {
            "type": "stationary",
            "form": form,
            "shape": shape,
            **at,
            "scale": frame.lengths(kernel.lengthscale),
        }
    if isinstance(kernel, Linear | Polynomial):
        degree = kernel.degree if isinstance(kernel, Polynomial) else 1
        slopes = np.broadcast_to(np.asarray(kernel.variance, dtype=float), len(frame.dims)) / np.square(
            frame.scale
        )
        weights = {"variance": slopes.tolist(), "bias": float(kernel._offset)}
        return {"type": "inner", "degree": degree, **moved, **weights}
    if isinstance(kernel, Cosine):
        return {"type": "cosine", **moved, "period": frame.lengths(kernel.period)}
    if isinstance(kernel, Periodic):
        inner = kernel_tree(kernel._wide[0], Frame.of(2 * len(frame.dims)))
        return {"type": "periodic", **moved, "period": frame.lengths(kernel.period), "of": inner}
    if isinstance(kernel, Categorical) and kernel.levels is not None:
        levels = [frame.center[0] + frame.scale[0] * level for level in kernel.levels]
        return {"type": "categorical", **at, "levels": levels, "table": kernel.table.tolist()}
    raise NotInPage(f"the kernel {type(kernel).__name__}")


HALF_INTEGERS = {0.5: "matern12", 1.5: "matern32", 2.5: "matern52"}


def _form(kernel: Stationary) -> tuple[str, float]:
    """Name of the radial function, and its shape parameter."""
    if "loadings" not in kernel._params:
        if isinstance(kernel, SE):
            return "se", 0.0
        if isinstance(kernel, Matern) and kernel.nu in HALF_INTEGERS:
            return HALF_INTEGERS[kernel.nu], 0.0
        if isinstance(kernel, RationalQuadratic):
            return "rq", float(kernel.alpha)
        if isinstance(kernel, GammaExponential):
            return "gamma", float(kernel.gamma)
    raise NotInPage(f"the kernel {type(kernel).__name__}")
