"""`SubstringCounts`: how often a string holds each substring, as columns: a weight for each of them can be learned.

`Substrings` gives all substrings of one length the same prior variance: many of them matter a little. Where a single
one decides, its average over all functions that fit is far from that one. `Linear(ard)` on these columns has a
variance for each substring, and the evidence, which compares the two, lets all others vanish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.text import _texts
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError


class SubstringCounts(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Counts of the substrings of given lengths, a column for each that training strings hold.

    Parameters
    ----------
    lengths : sequence of int
    least : int
        In how many training strings a substring must occur; a larger number means fewer columns.

    Attributes
    ----------
    vocabulary_ : dict
        Substring to column. Substrings never seen before do not count.

    Examples
    --------
    >>> from cavity import SubstringCounts
    >>> counts = SubstringCounts([2]).fit(["abab", "ba"])
    >>> counts.get_feature_names_out(), counts.transform(["abab", "bax"])
    (array(['ab', 'ba'], dtype=object), array([[2., 1.],
           [0., 1.]]))
    """

    def __init__(self, lengths: Sequence[int] = (1, 2, 3), least: int = 1) -> None:
        self.lengths, self.least = lengths, least

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn which substrings there are."""
        if not len(self.lengths) or min(self.lengths) < 1:
            raise InputError(f"must be positive, got {self.lengths!r}", parameter="lengths")
        held = Counter(s for text in _texts(X) for s in self._of(text))
        kept = sorted(s for s, n in held.items() if n >= self.least)
        if not kept:
            raise InputError(
                f"no substring is in {self.least} strings",
                parameter="least",
                remedy="lower it, or the lengths",
            )
        self.vocabulary_ = {s: i for i, s in enumerate(kept)}
        self.n_features_in_ = 1
        return self

    def _of(self, text: str) -> Counter[str]:
        return Counter(text[i : i + n] for n in self.lengths for i in range(len(text) - n + 1))

    def transform(self, X: Any) -> Array:
        """Counts, (n, substrings)."""
        check_is_fitted(self, "vocabulary_")
        texts = _texts(X)
        out = np.zeros((len(texts), len(self.vocabulary_)))
        for row, text in enumerate(texts):
            for s, count in self._of(text).items():
                column = self.vocabulary_.get(s)
                if column is not None:
                    out[row, column] = count
        return out

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The substrings."""
        check_is_fitted(self, "vocabulary_")
        return np.array(list(self.vocabulary_), dtype=object)
