"""Kernels on graphs: golden values, dense formulas, renumbered nodes, derivatives, the encoder, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from cavity import GP, GPClassifier, GraphEncoder
from cavity.io import dumps, loads
from cavity.kernels import SE, Normalized, RandomWalk, WeisfeilerLehman, encode_graphs, parse
from cavity.likelihoods import Gaussian

K3, P3 = ("aaa", [(0, 1), (1, 2), (0, 2)]), ("aaa", [(0, 1), (1, 2)])


def random_graphs(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        size = int(rng.integers(1, 7))
        pairs = [(i, j) for i in range(size) for j in range(i + 1, size) if rng.random() < 0.5]
        found.append(("".join(rng.choice(list("CNO"), size)), pairs))
    return found


GRAPHS = random_graphs(9)
ROWS = encode_graphs(GRAPHS)


def test_golden_walks() -> None:
    rows = encode_graphs([K3, P3])
    K, pull = RandomWalk(0.5).forward(rows)
    np.testing.assert_allclose(
        [K[0, 0], K[0, 1], K[1, 1]], [18.0, 17.6568542495, 17.3333333333], rtol=0, atol=1e-9
    )
    G = np.zeros((2, 2))
    G[0, 0] = 1.0
    natural = pull(G)[0] / (0.5 * 0.5)  # the decay is learned on the logit scale
    assert abs(natural - 36.0) < 1e-9  # 9 / (1 - decay)^2


@pytest.mark.parametrize("decay", [0.1, 0.7, 0.999])
def test_walks_by_the_dense_product_graph(decay: float) -> None:
    def steps(graph):
        A = np.zeros((len(graph[0]), len(graph[0])))
        for i, j in graph[1]:
            A[i, j] = A[j, i] = 1.0
        root = np.sqrt(np.maximum(A.sum(axis=0), 1.0))
        return A / np.outer(root, root)

    expected = np.empty((len(GRAPHS), len(GRAPHS)))
    for a, one in enumerate(GRAPHS):
        for b, other in enumerate(GRAPHS):
            same = np.array([x == y for x in one[0] for y in other[0]], dtype=float)
            S = np.kron(steps(one), steps(other)) * np.outer(same, same)
            expected[a, b] = same @ np.linalg.solve(np.eye(len(S)) - decay * S, same)
    np.testing.assert_allclose(RandomWalk(decay)(ROWS), expected, rtol=1e-10, atol=1e-10)


def test_neighbourhoods_by_their_names() -> None:
    """Labels of each depth spelled out as text, without numbers or dictionaries."""

    def names(graph, depth):
        labels = list(graph[0])
        for _ in range(depth):
            around = [
                sorted(labels[i + j - k] for i, j in graph[1] if k in (i, j)) for k in range(len(labels))
            ]
            labels = [f"({own}:{','.join(near)})" for own, near in zip(labels, around)]
        return labels

    for depth in range(4):
        weights = np.full(depth + 1, 1e-300)  # the last alone
        weights[-1] = 1.0
        expected = [
            [sum(x == y for x in names(one, depth) for y in names(other, depth)) for other in GRAPHS]
            for one in GRAPHS
        ]
        np.testing.assert_allclose(WeisfeilerLehman(weights, normalized=False)(ROWS), expected, atol=1e-12)


@pytest.mark.parametrize("kernel", [WeisfeilerLehman([0.5, 0.3, 1.2]), RandomWalk(0.6)], ids=repr)
def test_numbers_of_nodes_and_room_do_not_matter(kernel) -> None:
    rng = np.random.default_rng(1)
    renumbered = []
    for labels, edges in GRAPHS:
        order = rng.permutation(len(labels))
        place = np.argsort(order)
        renumbered.append(([labels[i] for i in order], [(place[j], place[i]) for i, j in edges]))
    np.testing.assert_allclose(kernel(encode_graphs(renumbered)), kernel(ROWS), rtol=1e-12)
    np.testing.assert_allclose(kernel(encode_graphs(GRAPHS, nodes=9)), kernel(ROWS), rtol=1e-12)


def test_six_cycle_and_two_triangles_look_the_same() -> None:
    ring = ("a" * 6, [(i, (i + 1) % 6) for i in range(6)])
    triangles = ("a" * 6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])
    rows = encode_graphs([ring, triangles])
    np.testing.assert_allclose(WeisfeilerLehman([0.5, 0.25, 0.25])(rows), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (WeisfeilerLehman([0.5, 0.3, 1.2]), ROWS),
        (WeisfeilerLehman([0.5, 0.3], normalized=False), ROWS),
        (Normalized(RandomWalk(0.7)), ROWS),
        (RandomWalk(0.7).on(list(range(21))) * SE(1.3).on(21), np.column_stack([ROWS, np.linspace(0, 1, 9)])),
    ],
    ids=["neighbourhoods", "plain", "walks", "beside numbers"],
)
def test_derivatives_files_and_text(kernel, X) -> None:
    K, pull = kernel.forward(X)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()
    np.testing.assert_allclose(kernel.diag(X), np.diag(K))
    G, h = np.random.default_rng(0).standard_normal(K.shape), 1e-5
    for i, found in enumerate(pull(G)):
        step = h * np.eye(len(kernel.theta))[i]
        up, down = kernel.replace(kernel.theta + step), kernel.replace(kernel.theta - step)
        assert abs(found - np.sum(G * (up(X) - down(X))) / (2 * h)) < 1e-6
    assert parse(repr(kernel)) == kernel
    posterior = GP(kernel, Gaussian(0.1)).condition(X, np.arange(len(X)) % 2.0)
    assert loads(dumps(posterior)).mean(X).tobytes() == posterior.mean(X).tobytes()


def test_encoder_in_a_pipeline() -> None:
    ring = [("C" * n, [(i, (i + 1) % n) for i in range(n)]) for n in (3, 4, 5, 6)]
    path = [("C" * n, [(i, i + 1) for i in range(n - 1)]) for n in (3, 4, 5, 6)]
    model = make_pipeline(
        GraphEncoder(nodes=8), GPClassifier(1.0 * WeisfeilerLehman([1.0, 1.0]), objective=None)
    )
    model.fit(ring + path, [0] * 4 + [1] * 4)
    new = [("C" * 7, [(i, (i + 1) % 7) for i in range(7)]), ("CC", [(0, 1)])]
    assert model.predict(new).tolist() == [0, 1]
    assert len(model[0].get_feature_names_out()) == 36


def test_bad_graphs_have_a_clear_answer() -> None:
    encoder = GraphEncoder().fit(GRAPHS)
    with pytest.raises(ValueError, match=r"label 'Br', which is none of \['C', 'N', 'O'\].*") as caught:
        encoder.transform([(["C", "Br"], [(0, 1)])])
    assert "labels=" in str(caught.value)
    with pytest.raises(ValueError, match="has 9 nodes, and there is room for 6"):
        encoder.transform([("C" * 9, [])])
    for graph, message in (
        (("", []), "graph without nodes"),
        (("CC", [(0, 2)]), r"edge \(0, 2\) in a graph of 2 nodes"),
        (("CC", [(1, 1)]), r"edge \(1, 1\)"),
        (("CC", [(0, 0.5)]), "pairs .labels, edges."),
        (([["C"]], []), "pairs .labels, edges."),
        (3, "pairs .labels, edges."),
    ):
        with pytest.raises(ValueError, match=message):
            GraphEncoder().fit([K3, graph])
    kernel = WeisfeilerLehman()
    for row, message in (
        ([-1.0, -1.0, 0.0], "row 0 is a graph without nodes"),
        ([0.0, -1.0, 1.0], "row 0 is no graph"),
        ([0.0, 0.0, 0.5], "row 0 is no graph"),
        ([0.5, 0.0, 0.0], "row 0 is no graph"),
        ([0.0, 0.0], "columns for N nodes, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            kernel(np.array([row]))
    with pytest.raises(ValueError, match="one for each depth"):
        WeisfeilerLehman(1.0)
