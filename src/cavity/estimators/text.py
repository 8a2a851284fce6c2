"""`TextEncoder`: strings as rows of codes, for the string kernels, in pipelines of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cavity.kernels.strings import _padded, encode
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_one_of
from cavity.runtime.errors import InputError

UNITS = ("letters", "words")


class TextEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Strings as rows of codes, padded with -1, for `Substrings`, `Words`, `Gappy` and `Mismatch`.

    Parameters
    ----------
    unit : {"letters", "words"}
        What a code stands for. Letters never seen before are letters like others, which no training string holds; words
        never seen before have a code of their own beyond the vocabulary.
    width : int, optional
        Room for the longest string to come, in units; that of the longest one at the fit by default. A longer one is
        refused with the width it needs.

    Attributes
    ----------
    width_ : int
    vocabulary_ : dict
        Word to code, with `unit="words"`.
    idf_ : array
        Squared inverse document frequency of each word, (log(texts / texts with the word))^2: weights for `Words`.

    Examples
    --------
    >>> from cavity import TextEncoder
    >>> TextEncoder(width=4).fit_transform(["abc", "bd"])
    array([[ 97.,  98.,  99.,  -1.],
           [ 98., 100.,  -1.,  -1.]])
    """

    def __init__(self, unit: str = "letters", width: int | None = None) -> None:
        self.unit = unit
        self.width = width

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn the room that strings need, and the vocabulary of words."""
        require_one_of(self.unit, "unit", UNITS)
        texts = _texts(X)
        if self.unit == "letters":
            rows = encode(texts, self.width)
        else:
            split = [text.split() for text in texts]
            self.vocabulary_ = {
                word: i for i, word in enumerate(sorted({w for words in split for w in words}))
            }
            held = np.zeros(len(self.vocabulary_))
            for words in split:
                held[[self.vocabulary_[w] for w in set(words)]] += 1
            self.idf_ = np.log(len(texts) / held) ** 2
            rows = self._words(texts, self.width)
        self.width_ = rows.shape[1]
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any) -> Array:
        """Rows of codes (n, width)."""
        check_is_fitted(self, "width_")
        texts = _texts(X)
        return encode(texts, self.width_) if self.unit == "letters" else self._words(texts, self.width_)

    def _words(self, texts: list[str], width: int | None) -> Array:
        unknown = len(self.vocabulary_)
        rows = []
        for row, text in enumerate(texts):
            codes = [float(self.vocabulary_.get(word, unknown)) for word in text.split()]
            if not codes:
                raise InputError(
                    "has a text without words", parameter="X", row=row, remedy="leave the row out"
                )
            rows.append(codes)
        return _padded(rows, width, "words")

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """A name for each place."""
        return np.array([f"{self.unit[:-1]}{i}" for i in range(self.width_)], dtype=object)


def _texts(X: Any) -> list[str]:
    """A list of strings, from a list, a series, or one column."""
    array = np.asarray(X, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"must be one column of texts, got shape {array.shape}", parameter="X")
    for row, text in enumerate(array):
        if not isinstance(text, str):
            raise InputError(f"must hold texts, got {text!r}", parameter="X", row=row)
        if not text:
            raise InputError(
                "has a string of length zero", parameter="X", row=row, remedy="leave the row out"
            )
    return [str(text) for text in array]
