"""Parts that belong to one latent function each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self, cast

from cavity.parameters.param import Parametrized


class PerLatent(Parametrized):
    """Parts that belong to one latent function each: kernels, or mean functions.

    Parameters are listed function by function; parts of a kind are numbered (`se`, `se_2`).
    """

    def __init__(self, parts: Sequence[Parametrized]) -> None:
        self._set_up({}, tuple(parts))

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Parametrized]:
        return iter(self._parts)

    def __getitem__(self, c: int) -> Parametrized:
        return self._parts[c]

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Made definite for data with these columns."""
        parts = tuple(cast(Any, part).bind(n_features, feature_names) for part in self._parts)
        return self._rebuild({}, parts)

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self._parts))}]"
