"""Kernels on strings and sets: golden values, derivatives, the encoder, bad input."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from cavity import GP, GPClassifier, SubstringCounts, TextEncoder
from cavity.io import dumps, loads
from cavity.kernels import (
    SE,
    Gappy,
    Kernel,
    Linear,
    Mismatch,
    Normalized,
    Subsets,
    Substrings,
    Words,
    ard,
    encode,
    parse,
)
from cavity.likelihoods import Gaussian

PAIR = encode(["banana", "ananas"])
TEXTS = encode(["banana", "ananas", "bandana", "cab", "na", "nab"])


def test_golden_counts_by_length() -> None:
    for length, (cross, first) in enumerate(zip((13, 8, 5, 2, 1), (14, 9, 6, 3, 2)), start=1):
        K = Substrings([1.0], lengths=[length], normalized=False)(PAIR)
        assert K[0, 1] == cross
        assert K[0, 0] == first
    weights = 0.5 ** np.arange(1, 7)
    kernel = Substrings(weights, normalized=False)
    assert abs(kernel(PAIR)[0, 1] - 9.28125) < 1e-12
    assert abs(Normalized(kernel)(PAIR)[0, 1] - 0.9041095890) < 1e-9
    slope = np.arange(1, 7) * 0.5 ** np.arange(6)
    G = np.zeros((2, 2))
    G[0, 1] = 1.0
    pulled = kernel.forward(PAIR)[1](G) / weights  # in natural values
    assert abs(pulled @ slope - 26.0625) < 1e-10


@pytest.mark.parametrize(
    ("k", "cross", "own"), [(1, 3.25, 3.5), (2, 0.7275390625, 0.859619140625), (3, 0.1298828125, 0.18359375),
                            (4, 0.0107421875, 0.0263671875)],
)  # fmt: skip
def test_golden_subsequences_with_gaps(k: int, cross: float, own: float) -> None:
    K = Gappy(k, 0.5)(PAIR)
    np.testing.assert_allclose([K[0, 1], K[0, 0]], [cross, own], rtol=1e-12)


def test_subsequences_by_enumeration() -> None:
    def features(text: str, k: int, decay: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for places in combinations(range(len(text)), k):
            key = "".join(text[i] for i in places)
            found[key] = found.get(key, 0.0) + decay ** (places[-1] - places[0] + 1)
        return found

    one, other = features("bandana", 3, 0.7), features("cabana", 3, 0.7)
    expected = sum(v * other.get(s, 0.0) for s, v in one.items())
    assert abs(Gappy(3, 0.7)(encode(["bandana", "cabana"]))[0, 1] - expected) < 1e-12
    np.testing.assert_allclose(Gappy(2, 0.5)(encode(["car"]))[0, 0], 2 * 0.5**4 + 0.5**6)


def test_golden_mismatches() -> None:
    K = Mismatch(3, 1, letters=4)(PAIR)
    assert K[0, 1] == 60
    assert K[0, 0] == 68


def test_golden_inverse_document_frequencies() -> None:
    encoder = TextEncoder("words")
    rows = encoder.fit_transform(["the cat sat on the mat", "the cat ate the rat", "a dog sat"])
    K = Words(encoder.idf_)(rows)
    np.testing.assert_allclose(
        [K[0, 0], K[0, 1], K[0, 2], K[1, 2]], [3.4003096450, 0.8220097695, 0.1644019539, 0.0], atol=1e-9
    )
    unseen = encoder.transform(["the zebra"])
    assert Words(encoder.idf_)(unseen)[0, 0] == Words(encoder.idf_)(encoder.transform(["the"]))[0, 0]


def test_golden_sets() -> None:
    one, other = np.zeros(7), np.zeros(7)
    one[[0, 1, 2, 4]] = 1
    other[[1, 2, 3, 4, 6]] = 1
    assert Subsets(1.0)(one[None], other[None])[0, 0] == pytest.approx(2.0**3)
    assert Subsets(np.arange(1, 8) / 10)(one[None], other[None])[0, 0] == pytest.approx(1.2 * 1.3 * 1.5)


KERNELS: dict[str, tuple[Kernel, np.ndarray]] = {
    "substrings": (Substrings([0.5, 0.3, 1.2]), TEXTS),
    "plain": (Substrings([0.5, 1.2], lengths=[1, 3], normalized=False), TEXTS),
    "words": (Words([0.5] * 200, variance=1.3), TEXTS),
    "mismatch": (Mismatch(2, 1, 5, variance=0.7), TEXTS),
    "gappy": (Gappy(2, 0.4), TEXTS),
    "beside numbers": (
        Substrings([0.5, 0.3]).on(list(range(7))) * SE(1.3).on(7),
        np.column_stack([TEXTS, np.linspace(0, 1, 6)]),
    ),
    "subsets": (Subsets([0.3, 0.7, 1.1]), np.array([[1, 0, 1], [1, 1, 1], [0, 0, 0.0], [0, 1, 1]])),
}


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_tiles_diagonals_and_text(name: str) -> None:
    kernel, X = KERNELS[name]
    K, pull = kernel.forward(X)
    np.testing.assert_allclose(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()
    np.testing.assert_allclose(kernel.diag(X), np.diag(K))
    np.testing.assert_allclose(kernel(X[1:3], X), K[1:3])  # by other rows
    G = np.random.default_rng(0).standard_normal(K.shape)
    found, h = pull(G), 1e-6
    own = kernel.to_theta(kernel._pull_diag(kernel.prepare(X), G[0]))
    for i in range(len(kernel.theta)):
        step = h * np.eye(len(kernel.theta))[i]
        up, down = kernel.replace(kernel.theta + step), kernel.replace(kernel.theta - step)
        assert abs(found[i] - np.sum(G * (up(X) - down(X))) / (2 * h)) < 1e-6
        assert abs(own[i] - np.sum(G[0] * (up.diag(X) - down.diag(X))) / (2 * h)) < 1e-6
    assert parse(repr(kernel)) == kernel
    y = np.arange(len(X)) % 2.0
    posterior = GP(kernel, Gaussian(0.1)).condition(X, y)
    assert loads(dumps(posterior)).mean(X).tobytes() == posterior.mean(X).tobytes()


def test_long_and_new_strings_have_a_clear_answer() -> None:
    encoder = TextEncoder().fit(["abc", "bd"])
    with pytest.raises(ValueError, match="has 5 letters, and there is room for 3"):
        encoder.transform(["abcde"])
    assert TextEncoder(width=8).fit(["abc"]).transform(["abcde"]).shape == (1, 8)
    kernel = Substrings([1.0, 1.0])
    assert kernel(encoder.transform(["abc"]), encoder.transform(["xyz"]))[0, 0] == 0.0  # no letter in common
    for texts, message in ((["a", ""], "length zero"), ([1.0], "must hold texts")):
        with pytest.raises(ValueError, match=message):
            TextEncoder().fit(texts)
    with pytest.raises(ValueError, match="length zero"):
        encode(["a", ""])
    with pytest.raises(ValueError, match="row 0 is a string of length zero"):
        kernel(np.array([[-1.0, -1.0]]))
    with pytest.raises(ValueError, match="no row of letter codes"):
        kernel(np.array([[97.5, -1.0]]))
    with pytest.raises(ValueError, match="zeros and ones"):
        Subsets()(np.array([[2.0]]))


def test_encoder_in_a_pipeline() -> None:
    texts = ["abab", "abba", "ccdd", "dcdc", "aabb", "cdcd"]
    model = make_pipeline(TextEncoder(width=6), GPClassifier(1.0 * Substrings([1.0, 1.0]), objective=None))
    model.fit(texts, [0, 0, 1, 1, 0, 1])
    assert model.predict(["ababab", "ccdcdd"]).tolist() == [0, 1]


def test_a_weight_for_each_substring_finds_the_one_that_decides() -> None:
    rng = np.random.default_rng(5)
    texts = ["".join(rng.choice(list("abc"), 12)) for _ in range(120)]
    labels = np.array(["cab" in text for text in texts])
    model = make_pipeline(
        SubstringCounts([2, 3], least=3), GPClassifier(Linear(ard), random_state=0, n_restarts=0)
    ).fit(texts[:60], labels[:60])
    names = model[0].get_feature_names_out()
    assert names[np.argmax(model[-1].kernel_.variance)] == "cab"
    assert (model.predict(texts[60:]) == labels[60:]).all()
    shared = GPClassifier(Substrings([1.0, 1.0], lengths=[2, 3]), random_state=0, n_restarts=0)
    assert model[-1].log_evidence_ > shared.fit(encode(texts[:60]), labels[:60]).log_evidence_ + 5
    assert not model[0].transform(["zzz"]).any()  # never seen before
    with pytest.raises(ValueError, match="no substring is in 200 strings"):
        SubstringCounts([2], least=200).fit(texts)
    with pytest.raises(ValueError, match="must be positive"):
        SubstringCounts([0]).fit(texts)
