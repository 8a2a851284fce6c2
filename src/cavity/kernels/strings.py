"""Kernels on strings: shared substrings, counted (Rasmussen and Williams, 2006, section 4.4.1).

A string is a row of letter codes, padded with -1 after its end (`encode`, or `cavity.TextEncoder` in a pipeline). So
string kernels are kernels like any other: they add, multiply, and take `.on(columns)` beside numbers.

    Substrings   k = sum_l weights_l k_l,   k_l = sum_{|s| = l} N_s(x) N_s(x')       N_s: how often x holds s
    Words        k = sum_w weights_w N_w(x) N_w(x')                                  a bag of words, or of letters
    Mismatch     substrings of k letters that differ from a pattern in at most m of them
    Gappy        subsequences of k letters, each counting decay^(length from its first to its last letter)

What does not depend on parameters, the counts k_l of all pairs, is computed once for the rows of a fit.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from math import comb
from threading import Lock
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from cavity.kernels.base import Kernel, Rows
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, UNIT, Transform
from cavity.parameters.units import Unit
from cavity.runtime.checks import require_integer
from cavity.runtime.errors import InputError

END = -1.0
"""Code of the places after a string's last letter."""

KEPT_DOUBLES = 40_000_000
"""Counts of pairs that are kept between evaluations (320 MB)."""


def encode(texts: Iterable[str], width: int | None = None) -> Array:
    """Strings as rows of code points, padded with -1.

    Parameters
    ----------
    texts : iterable of str
    width : int, optional
        Columns; the longest string's length by default.

    Examples
    --------
    >>> from cavity.kernels import encode
    >>> encode(["ab", "b"])
    array([[97., 98.],
           [98., -1.]])
    """
    listed = list(texts)
    for row, text in enumerate(listed):
        if not isinstance(text, str):
            raise InputError(f"must be strings, got {text!r}", parameter="texts", row=row)
        if not text:
            raise InputError(
                "has a string of length zero", parameter="texts", row=row, remedy="leave the row out"
            )
    return _padded([[float(ord(letter)) for letter in text] for text in listed], width, "letters")


def _padded(rows: list[list[float]], width: int | None, what: str) -> Array:
    longest = max((len(row) for row in rows), default=1)
    columns = longest if width is None else width
    if longest > columns:
        row = int(np.argmax([len(one) for one in rows]))
        raise InputError(
            f"has {longest} {what}, and there is room for {columns}",
            parameter="texts",
            row=row,
            remedy=f"fit with width={longest} or more, or cut the string",
        )
    out = np.full((len(rows), columns), END)
    for i, codes in enumerate(rows):
        out[i, : len(codes)] = codes
    return out


class _Recent:
    """Arrays seen lately, by key; the oldest go if there are too many numbers in all."""

    def __init__(self, most: int) -> None:
        self._kept: OrderedDict[Any, Array] = OrderedDict()
        self._lock, self._most = Lock(), most

    def find(self, key: Any) -> Array | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Any, value: Array) -> Array:
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and sum(a.size for a in self._kept.values()) > self._most:
                self._kept.popitem(last=False)
        return value


_ROWS, _COUNTS = _Recent(KEPT_DOUBLES // 10), _Recent(KEPT_DOUBLES)
"""Rows by their content, and what was counted of pairs of them: the evaluations of a fit find it again."""


class StringKernel(Kernel):
    """What kernels on padded rows of codes share: `_of_pairs` counts for all pairs of rows, kept by content."""

    _widenable = False
    variance: float

    @abstractmethod
    def _of_pairs(self, A: Array, B: Array) -> Array:
        """What does not depend on free parameters, for all pairs of rows."""

    @abstractmethod
    def _of_self(self, A: Array) -> Array:
        """The same of each row with itself, (parts, n)."""

    @abstractmethod
    def _kind(self) -> tuple[Any, ...]:
        """What `_of_pairs` depends on besides the rows."""

    def _require_rows(self, X: Array) -> None:
        """Refuse what is no row of codes."""
        letters = (np.round(X) == X) & (X >= END)
        ended = np.cumsum(X == END, axis=1) > 0
        good = letters.all(axis=1) & ~(ended & (X >= 0)).any(axis=1) & (X[:, 0] >= 0)
        if not good.all():
            row = int(np.argmin(good))
            what = "a string of length zero" if X[row, 0] == END else "no row of letter codes padded with -1"
            raise InputError(
                f"{type(self).__name__}: row {row} is {what}",
                parameter="X",
                row=row,
                remedy="make rows by cavity.kernels.encode(texts) or cavity.TextEncoder",
            )

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._require_rows(X)
        digest = hashlib.blake2b(np.ascontiguousarray(X).tobytes(), digest_size=8).digest()
        mark = int.from_bytes(digest, "little", signed=True)
        if _ROWS.find(mark) is None:
            _ROWS.keep(mark, X.copy())
        return np.arange(len(X)), np.full(len(X), mark, dtype=np.int64), X

    def _parts_of(self, a: Rows, b: Rows) -> Array:
        """Counts of a tile, (parts, len a, len b)."""
        if len(a[0]) == 0 or len(b[0]) == 0:
            return np.zeros((self._n_parts, len(a[0]), len(b[0])))
        marks = int(a[1][0]), int(b[1][0])
        one, other = _ROWS.find(marks[0]), _ROWS.find(marks[1])
        if one is None or other is None or len(one) * len(other) * self._n_parts > KEPT_DOUBLES:
            return self._of_pairs(a[2], b[2])
        key = (type(self).__name__, *self._kind(), *marks)
        found = _COUNTS.find(key)
        if found is None:
            found = _COUNTS.keep(key, self._of_pairs(one, other))
        return found[:, a[0][0] : a[0][-1] + 1, b[0][0] : b[0][-1] + 1]

    @property
    @abstractmethod
    def _n_parts(self) -> int:
        """Number of parts."""

    # of kernels with one part, times a variance

    def _block(self, a: Rows, b: Rows) -> Array:
        return np.asarray(self.variance * self._parts_of(a, b)[0])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return np.array([np.vdot(G, K) / self.variance])

    def _diag(self, a: Rows) -> Array:
        return np.asarray(self.variance * self._of_self(a[2])[0])

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.array([g @ self._of_self(a[2])[0]])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return np.zeros(a[2].shape), np.zeros(b[2].shape)  # letters do not move continuously

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros(a[2].shape)


def windows(A: Array, B: Array, longest: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """For lengths 1 .. longest: numbers of the substrings that start at each place of A and B, -1 where none does.

    Equal substrings have equal numbers, from 0 on: a substring is the one before its last letter, and that letter.
    """
    width = max(A.shape[1], B.shape[1])
    both = np.full((len(A) + len(B), width), -1, dtype=np.int64)
    both[: len(A), : A.shape[1]], both[len(A) :, : B.shape[1]] = A, B
    _, letters = np.unique(both, return_inverse=True)
    letters = letters.reshape(both.shape) - 1 if (both == -1).any() else letters.reshape(both.shape)
    found, number = [], letters.astype(np.int64)
    for length in range(1, longest + 1):
        if length > 1:
            number = number[:, : both.shape[1] - length + 1]
            if number.shape[1] == 0:
                number = np.full((len(both), 1), -1)
            else:
                last = letters[:, length - 1 : length - 1 + number.shape[1]]
                there = (number >= 0) & (last >= 0)
                pair = np.where(there, number * (letters.max() + 1) + last, -1)
                values, number = np.unique(pair, return_inverse=True)
                number = number.reshape(pair.shape) - (1 if values[0] == -1 else 0)
        found.append((number[: len(A)], number[len(A) :]))
    return found


def count_matrix(number: NDArray[np.intp], columns: int) -> csr_array:
    """How often each row holds each number, sparse."""
    row, place = np.nonzero(number >= 0)
    return csr_array((np.ones(len(row)), (row, number[row, place])), shape=(len(number), columns))


class WeightedCounts(StringKernel):
    """Counts of several kinds, k = sum_l weights_l sum_s N_ls(x) N_ls(x'), with a learned weight for each kind."""

    normalized: bool
    _transforms: ClassVar[dict[str, Transform]] = {"weights": LOG}
    _units: ClassVar = {"weights": Unit.SHARED_VARIANCE}

    @abstractmethod
    def _numbers(self, A: Array, B: Array) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """For each kind: numbers of what the rows of A and B hold, equal for equal things, -1 for nothing."""

    @property
    def _n_parts(self) -> int:
        return int(np.size(self.weights))

    def _of_pairs(self, A: Array, B: Array) -> Array:
        out = np.empty((self._n_parts, len(A), len(B)))
        for place, (first, second) in enumerate(self._numbers(A, B)):
            columns = int(max(first.max(initial=-1), second.max(initial=-1))) + 1
            if columns == 0:
                out[place] = 0.0
                continue
            one, other = count_matrix(first, columns), count_matrix(second, columns)
            out[place] = (one @ other.T).toarray()
            if self.normalized:
                for side, counts in ((out[place], one), (out[place].T, other)):
                    norm = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
                    side /= np.where(norm > 0, norm, 1.0)[:, None]
        return out

    def _of_self(self, A: Array) -> Array:
        out = np.empty((self._n_parts, len(A)))
        for place, (first, _) in enumerate(self._numbers(A, A[:0])):
            columns = int(first.max(initial=-1)) + 1
            own = count_matrix(first, max(columns, 1))
            total = np.asarray(own.multiply(own).sum(axis=1)).ravel()
            out[place] = (total > 0) if self.normalized else total
        return out

    def _block(self, a: Rows, b: Rows) -> Array:
        return cast(Array, np.tensordot(self.weights, self._parts_of(a, b), axes=1))

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return np.array([np.vdot(G, part) for part in self._parts_of(a, b)])

    def _diag(self, a: Rows) -> Array:
        return cast(Array, self.weights @ self._of_self(a[2]))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.asarray(self._of_self(a[2]) @ g)


class Substrings(WeightedCounts):
    """Shared substrings of each length, k = sum_l weights_l k_l, with a learned weight for each length.

    Parameters
    ----------
    weights : array (L,)
        Variance of each length.
    lengths : sequence of int, optional
        1 .. L by default; `Substrings([1.0], lengths=[3])` is the 3-spectrum.
    normalized : bool
        Whether the counts of each length are divided by the roots of those of each string with itself, so that weights
        are variances; a string shorter than l has nothing of length l.

    Examples
    --------
    >>> from cavity.kernels import Substrings, encode
    >>> rows = encode(["banana", "ananas"])
    >>> Substrings([1.0, 1.0, 1.0], normalized=False)(rows)[0, 1]  # 13 + 8 + 5
    np.float64(26.0)
    """

    def __init__(
        self, weights: Any = (1.0, 1.0, 1.0), lengths: Iterable[int] | None = None, normalized: bool = True
    ) -> None:
        self.normalized = bool(normalized)
        self._set_up({"weights": weights})
        count = np.size(self.weights)
        listed = range(1, count + 1) if lengths is None else lengths
        self.lengths: tuple[int, ...] = tuple(int(length) for length in listed)
        if np.ndim(self.weights) != 1 or len(self.lengths) != count or min(self.lengths, default=0) < 1:
            raise ValueError(
                f"Substrings: weights must be a vector with one for each length, got {count} for {self.lengths}"
            )

    def _arguments(self) -> list[str]:
        usual = self.lengths == tuple(range(1, len(self.lengths) + 1))
        own = [] if usual else [f"lengths={list(self.lengths)!r}"]
        return [*super()._arguments(), *own, *([] if self.normalized else ["normalized=False"])]

    def _kind(self) -> tuple[Any, ...]:
        return self.lengths, self.normalized

    def _numbers(self, A: Array, B: Array) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        numbers = windows(A, B, max(self.lengths))
        return [numbers[length - 1] for length in self.lengths]


class Words(StringKernel):
    """A bag of words: k = variance sum_w weights_w N_w(x) N_w(x'), whatever their order.

    Parameters
    ----------
    weights : array (vocabulary,), optional
        Fixed weight of each code, such as the squared inverse document frequencies of `TextEncoder.idf`; codes beyond
        it, which are words never seen before, do not count. All one by default.
    variance : float or Param

    Examples
    --------
    >>> from cavity.kernels import Words
    >>> Words()([[0, 1, 0, -1]], [[0, 2, 0, 0]])  # two times three
    array([[6.]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"variance": LOG}

    def __init__(self, weights: ArrayLike | None = None, variance: Any = 1.0) -> None:
        self.weights = None if weights is None else tuple(np.asarray(weights, dtype=float).ravel().tolist())
        if self.weights is not None and not (np.array(self.weights) >= 0).all():
            raise ValueError(f"Words: weights must not be negative, got {min(self.weights)}")
        self._set_up({"variance": variance})

    def _arguments(self) -> list[str]:
        own = [] if self.weights is None else [repr(list(self.weights))]
        return [*own, *super()._arguments()]

    @property
    def _n_parts(self) -> int:
        return 1

    def _kind(self) -> tuple[Any, ...]:
        return (self.weights,)

    def _weighted(self, A: Array, columns: int) -> csr_array:
        counts = count_matrix(np.where((A >= 0) & (columns > A), A, -1).astype(np.int64), columns)
        if self.weights is None:
            return counts
        return csr_array(counts.multiply(np.sqrt(self.weights)))

    def _of_pairs(self, A: Array, B: Array) -> Array:
        top = max(A.max(initial=0.0), B.max(initial=0.0)) + 1
        columns = int(top) if self.weights is None else len(self.weights)
        return np.asarray((self._weighted(A, columns) @ self._weighted(B, columns).T).toarray())[None]

    def _of_self(self, A: Array) -> Array:
        columns = int(A.max(initial=0.0)) + 1 if self.weights is None else len(self.weights)
        own = self._weighted(A, columns)
        return np.asarray(own.multiply(own).sum(axis=1)).reshape(1, -1)


class Mismatch(StringKernel):
    """Substrings of k letters, counted for all patterns that differ from them in at most m letters.

    Parameters
    ----------
    k, m : int
    letters : int
        Size of the alphabet that patterns are made of.
    variance : float or Param

    Examples
    --------
    >>> from cavity.kernels import Mismatch, encode
    >>> Mismatch(3, 1, letters=4)(encode(["banana", "ananas"]))[0]
    array([68., 60.])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"variance": LOG}

    def __init__(self, k: int = 3, m: int = 1, letters: int = 4, variance: Any = 1.0) -> None:
        self.k = require_integer(k, "Mismatch: k", 1)
        self.m = require_integer(m, "Mismatch: m", 0)
        self.letters = require_integer(letters, "Mismatch: letters", 2)
        if self.m >= self.k:
            raise ValueError(f"Mismatch: m must be below k, got m={m} and k={k}")
        self._set_up({"variance": variance})

    def _arguments(self) -> list[str]:
        return [f"k={self.k}", f"m={self.m}", f"letters={self.letters}", *super()._arguments()]

    @property
    def _n_parts(self) -> int:
        return 1

    def _kind(self) -> tuple[Any, ...]:
        return self.k, self.m, self.letters

    def _patterns(self) -> Array:
        """Number of patterns within m of two substrings that differ in d places, d = 0 .. k."""
        k, m, q = self.k, self.m, self.letters
        found = np.zeros(k + 1)
        for d in range(k + 1):
            for same in range(k - d + 1):  # places where both agree and the pattern does not
                for first in range(d + 1):  # where the pattern follows the first, the second, or neither
                    for second in range(d - first + 1):
                        neither = d - first - second
                        if same + d - first <= m and same + d - second <= m:
                            ways = (
                                comb(k - d, same) * (q - 1) ** same * comb(d, first) * comb(d - first, second)
                            )
                            found[d] += ways * (q - 2) ** neither
        return found

    def _substrings(self, A: Array) -> tuple[Array, csr_array]:
        """The different substrings of k letters, and how often rows hold them."""
        if A.shape[1] < self.k:
            return np.zeros((0, self.k)), csr_array((len(A), 0))
        view = np.lib.stride_tricks.sliding_window_view(A, self.k, axis=1)
        number = np.full(view.shape[:2], -1)
        there = (view >= 0).all(axis=2)
        different, where = np.unique(view[there], axis=0, return_inverse=True)
        number[there] = where.reshape(-1)
        return different, count_matrix(number, len(different))

    def _of_pairs(self, A: Array, B: Array) -> Array:
        (first, one), (second, other) = self._substrings(A), self._substrings(B)
        distance = np.zeros((len(first), len(second)), dtype=np.int64)
        for place in range(self.k):
            distance += first[:, place, None] != second[:, place]
        return np.asarray(one @ self._patterns()[distance] @ other.T.toarray())[None]

    def _of_self(self, A: Array) -> Array:
        return np.array([[float(self._of_pairs(A[i : i + 1], A[i : i + 1])[0, 0, 0]) for i in range(len(A))]])


class Decaying(StringKernel):
    """Kernels with a learned decay between 0 and 1; their parts are the value and its derivative in the decay."""

    _transforms: ClassVar[dict[str, Transform]] = {"decay": UNIT}

    @property
    def _n_parts(self) -> int:
        return 2

    def _block(self, a: Rows, b: Rows) -> Array:
        return np.array(self._parts_of(a, b)[0])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return np.array([np.vdot(G, self._parts_of(a, b)[1])])

    def _diag(self, a: Rows) -> Array:
        return np.asarray(self._of_self(a[2])[0])

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.array([g @ self._of_self(a[2])[1]])


class Gappy(Decaying):
    """Subsequences of k letters with gaps, each counting decay^(length from its first to its last letter).

    Parameters
    ----------
    k : int
    decay : float or Param
        Between 0 and 1, learned: how much a letter between counts against a subsequence.

    Examples
    --------
    >>> from cavity.kernels import Gappy, encode
    >>> Gappy(2, 0.5)(encode(["cat", "car"]))[0, 1]  # "ca" alone, 0.5^4
    np.float64(0.0625)
    """

    def __init__(self, k: int = 2, decay: Any = 0.5) -> None:
        self.k = require_integer(k, "Gappy: k", 1)
        self._set_up({"decay": decay})

    def _arguments(self) -> list[str]:
        return [f"k={self.k}", *super()._arguments()]

    def _kind(self) -> tuple[Any, ...]:
        return self.k, float(self.decay)

    def _of_pairs(self, A: Array, B: Array) -> Array:
        from cavity.kernels.subsequences import gappy_pairs

        first, second = np.ascontiguousarray(A), np.ascontiguousarray(B)
        return np.asarray(gappy_pairs(first, second, self.k, float(self.decay), False))

    def _of_self(self, A: Array) -> Array:
        from cavity.kernels.subsequences import gappy_pairs

        own = np.ascontiguousarray(A)
        return np.asarray(gappy_pairs(own, own, self.k, float(self.decay), True)[:, :, 0])


class Subsets(Kernel):
    """Sets as rows of zeros and ones: k = prod_i (1 + weights_i x_i x'_i), a sum over all subsets that two sets share.

    Parameters
    ----------
    weights : float, array (D,), `ard` or Param
        Of each element; with one the kernel is 2^(number of shared elements).

    Examples
    --------
    >>> from cavity.kernels import Subsets
    >>> Subsets(1.0)([[1, 1, 0, 1]], [[0, 1, 1, 1]])  # two shared elements
    array([[4.]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"weights": LOG}
    _units: ClassVar = {"weights": Unit.GIVEN}
    _columnwise = ("weights",)
    _widenable = False

    def __init__(self, weights: Any = 1.0) -> None:
        self._set_up({"weights": weights})

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        wrong = ~np.isin(X, (0.0, 1.0))
        if wrong.any():
            row = int(np.argwhere(wrong)[0, 0])
            raise InputError(f"Subsets takes zeros and ones, got {X[wrong][0]:g}", parameter="X", row=row)
        log = np.log1p(np.broadcast_to(np.asarray(self.weights, dtype=float), X.shape[1]))
        return X, X * log

    def _block(self, a: Rows, b: Rows) -> Array:
        return np.asarray(np.exp(a[1] @ b[0].T))

    def _gather(self, each: Array) -> Array:
        each = each / (1.0 + np.asarray(self.weights))
        return each if np.ndim(self.weights) else np.array([each.sum()])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return self._gather(np.einsum("ij,ij->j", a[0], (G * K) @ b[0]))

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return np.zeros(a[0].shape), np.zeros(b[0].shape)  # elements do not move continuously

    def _diag(self, a: Rows) -> Array:
        return np.asarray(np.exp(a[1].sum(axis=1)))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self._gather((g * self._diag(a)) @ a[0])

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros(a[0].shape)
