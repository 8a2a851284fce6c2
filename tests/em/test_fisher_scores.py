"""Fisher and TOP scores: golden values, enumeration, differences of the log likelihood, pipelines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from cavity import GPClassifier
from cavity.em import HMM, Categorical, FisherScores, GaussianMixture, Mixture, TOPScores
from cavity.kernels import Linear
from cavity.runtime.errors import InputError

START, MOVES = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.4, 0.6]])
SYMBOLS = np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
ALL = np.array(list(itertools.product(range(3), repeat=3)))
GOLDEN = [
    *(0.2765159868, -0.2765159868, -0.2963616318, 0.2963616318, -0.1184123484, 0.1184123484),
    *(0.0207276736, -0.0616979052, 0.0409702315, -0.0053583241, -0.0094597574, 0.0148180816),
]


def by_hand(start=START, moves=MOVES, symbols=SYMBOLS) -> HMM:
    model = HMM(2, emissions=Categorical(3))
    model.startprob_, model.transmat_, model.emissionprob_ = start, moves, symbols
    return model


def log_likelihood(sequence, start, moves, symbols) -> float:
    """By enumeration of the hidden paths."""
    total = 0.0
    for path in itertools.product(range(2), repeat=len(sequence)):
        p = start[path[0]] * symbols[path[0], sequence[0]]
        for a, b, o in zip(path, path[1:], sequence[1:]):
            p *= moves[a, b] * symbols[b, o]
        total += p
    return float(np.log(total))


def test_golden_values() -> None:
    plain = FisherScores(by_hand(), prefit=True, information="identity", by_length=False).fit(ALL)
    one, other = plain.transform(np.array([[0, 1, 2], [1, 1, 2]]))
    assert one == pytest.approx(GOLDEN, abs=1e-9)
    assert one @ one == pytest.approx(0.3628781860, abs=1e-9)
    assert one @ other == pytest.approx(0.1623563559, abs=1e-9)
    p = np.exp([log_likelihood(s, START, MOVES, SYMBOLS) for s in ALL])
    exact = FisherScores(by_hand(), prefit=True, by_length=False).fit(ALL, sample_weight=p)
    assert exact.rank_ == 7
    one, other = exact.transform(np.array([[0, 1, 2], [1, 1, 2]]))
    assert one @ one == pytest.approx(4.3604692783, abs=1e-8)
    assert one @ other == pytest.approx(1.9553802851, abs=1e-8)


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits)
    return e / e.sum(axis=-1, keepdims=True)


def test_scores_are_gradients_of_the_enumerated_likelihood() -> None:
    scores = FisherScores(by_hand(), prefit=True, information="identity", by_length=False)
    found = scores.fit(ALL).transform([[2, 0, 1, 1, 0]])[0]
    logits = np.concatenate([np.log(START), np.log(MOVES).ravel(), np.log(SYMBOLS).ravel()])

    def value(v: np.ndarray) -> float:
        parts = v[:2], v[2:6].reshape(2, 2), v[6:].reshape(2, 3)
        return log_likelihood([2, 0, 1, 1, 0], *(softmax(part) for part in parts))

    h = 1e-5
    differences = [(value(logits + h * e) - value(logits - h * e)) / (2 * h) for e in np.eye(12)]
    assert found == pytest.approx(differences, abs=1e-8)
    halved = (
        FisherScores(by_hand(), prefit=True, information="identity").fit(ALL).transform([[2, 0, 1, 1, 0]])
    )
    assert halved[0] == pytest.approx(found / np.sqrt(5), abs=1e-12)


@pytest.mark.parametrize("model", [GaussianMixture(2, random_state=0), Mixture(2, "poisson", random_state=0)])
def test_scores_of_mixtures(model) -> None:
    """Against differences of the log density in the family's own coordinates."""
    rng = np.random.default_rng(1)
    X = np.vstack([rng.poisson(2, (40, 2)), rng.poisson(9, (40, 2))]).astype(float)
    X += 1e6 * (type(model) is GaussianMixture)  # far from the origin
    scores = FisherScores(model, information="identity").fit(X)
    found, fitted = scores.transform(X[:5]), scores.model_
    at = fitted.family_.pack(fitted.params_, fitted.params_)
    assert found.shape == (5, 2 + len(at))
    r = fitted.predict_proba(X[:5])
    assert found[:, :2] == pytest.approx(r - fitted.weights_, abs=1e-12)
    for j in range(len(at)):
        h = 1e-4 * max(1.0, 1e-6 * abs(at[j]))

        def density(step: float, j: int = j) -> np.ndarray:
            v = at.copy()
            v[j] += step
            logs = fitted.family_.log_prob(fitted.family_.unpack(v, fitted.params_), X[:5])
            return np.logaddexp.reduce(logs + np.log(fitted.weights_), axis=1)

        assert found[:, 2 + j] == pytest.approx((density(h) - density(-h)) / (2 * h), rel=1e-4, abs=1e-5)


def strings(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two hidden Markov models of nearly equal frequencies of symbols, padded to different lengths."""
    rng, rows, labels = np.random.default_rng(seed), np.full((n, 30), -1), np.arange(n) % 2
    for i, label in enumerate(labels):
        sticky = 0.9 if label else 0.5
        model = by_hand(np.array([0.5, 0.5]), np.array([[sticky, 1 - sticky], [1 - sticky, sticky]]))
        length = int(rng.integers(20, 31))
        rows[i, :length] = model.sample(length, random_state=int(rng.integers(1 << 30)))[0][:, 0]
    return rows, labels


def test_pipelines() -> None:
    (X, y), (new, truth) = strings(120, 0), strings(120, 1)
    hmm = HMM(2, emissions=Categorical(3), random_state=0)
    fisher = make_pipeline(FisherScores(hmm), GPClassifier(1.0 * Linear(), random_state=0, n_restarts=0))
    top = make_pipeline(TOPScores(hmm), LogisticRegression(max_iter=2000))
    counts = [np.column_stack([(rows == s).sum(axis=1) for s in range(3)]) for rows in (X, new)]
    plain = np.mean(LogisticRegression().fit(counts[0], y).predict(counts[1]) != truth)
    for pipeline in (fisher, top):
        error = np.mean(pipeline.fit(X, y).predict(new) != truth)
        assert error < plain
        assert error < 0.4
    listed = [row[row >= 0] for row in new]  # sequences as a list are the same
    assert (fisher.predict(listed) == fisher.predict(new)).all()


def test_top_features_are_log_odds_and_their_gradient() -> None:
    X, y = strings(40, 2)
    found = TOPScores(HMM(2, emissions=Categorical(3), random_state=0), by_length=False).fit(X, y)
    features = found.transform(X[:3])
    for i in range(3):
        logs = [
            log_likelihood(X[i][X[i] >= 0][:8].tolist(), m.startprob_, m.transmat_, m.emissionprob_)
            for m in found.models_
        ]
        short = found.transform([X[i][X[i] >= 0][:8]])[0]
        assert short[0] == pytest.approx(logs[1] - logs[0], abs=1e-9)
    own = FisherScores(found.models_[1], prefit=True, information="identity", by_length=False).fit(X)
    assert features[:, 1:13] == pytest.approx(own.transform(X[:3]), abs=1e-12)


def test_bad_sequences() -> None:
    with pytest.raises(InputError, match="one observation at least"):
        FisherScores(by_hand(), prefit=True).fit(np.array([[0, 1], [-1, -1]]))
    with pytest.raises(InputError, match="mixture or HMM"):
        FisherScores(Linear()).fit(ALL)
    with pytest.raises(InputError, match="two classes"):
        TOPScores(GaussianMixture(1)).fit(np.eye(3), [0, 1, 2])
    with pytest.raises(InputError, match="information must be one of"):
        FisherScores(by_hand(), prefit=True, information="full").fit(ALL)
