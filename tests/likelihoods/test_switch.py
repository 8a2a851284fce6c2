"""A likelihood for each group of rows: every question is that of the group's own likelihood."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, assess
from cavity.inference import MCMC, Exact
from cavity.io import dumps, loads
from cavity.kernels import SE, Categorical, WithSlopes, slopes, values
from cavity.likelihoods import Gaussian, KnownNoise, Poisson, Probit, StudentT, Switch

RNG = np.random.default_rng(0)
GROUP = np.array([0, 2, 1, 0, 1, 2, 0.0])
X = np.column_stack([RNG.standard_normal(7), GROUP])
PARTS = {0: Gaussian(0.2), 1: StudentT(0.3, 4.0), 2: Probit()}
Y = np.array([0.3, 1.0, -0.5, 0.9, 2.0, -1.0, 0.1])
SWITCH = Switch(PARTS, by=1).for_inputs(X)


@pytest.mark.parametrize(
    "question",
    ["derivatives", "parameter_derivatives", "expected_log_prob", "tilted_moments", "log_prob", "slope"],
)
def test_questions_are_answered_by_the_group(question: str) -> None:
    a, b = RNG.standard_normal(7), 0.5 + RNG.random(7)
    given = (Y, a, b) if question in ("expected_log_prob", "tilted_moments") else (Y, a)
    answer = getattr(SWITCH, question)(*given)
    place = 0
    for key, one in PARTS.items():
        rows = np.flatnonzero(key == GROUP)
        alone = getattr(one, question)(*(part[rows] for part in given))
        for mine, other in zip(
            [answer] if isinstance(answer, np.ndarray) else answer,
            [alone] if isinstance(answer, np.ndarray) else alone,
        ):
            if np.ndim(mine) == 2:
                np.testing.assert_allclose(mine[place : place + one.flat.size, rows], other)
                mine[place : place + one.flat.size, rows] = 0.0
            else:
                np.testing.assert_allclose(mine[rows], other)
        place += one.flat.size
    for part in [] if isinstance(answer, np.ndarray) else answer:
        assert np.ndim(part) < 2 or not part.any()  # nothing but the group's own


def test_tilted_moments_and_their_derivatives() -> None:
    shift, precision = RNG.standard_normal(7), 0.5 + RNG.random(7)
    whole = SWITCH.tilted(Y, shift, precision, 0.9, 4)
    for key, one in PARTS.items():
        rows = np.flatnonzero(key == GROUP)
        alone = one.tilted(Y[rows], shift[rows], precision[rows], 0.9, 4)
        for name in ("log_z", "log_z_normalized", "mean", "var", "c3", "c4"):
            np.testing.assert_allclose(getattr(whole, name)[rows], getattr(alone, name))
    assert whole.d_log_z.shape == (3, 7)


def test_rows_and_new_rows_follow_the_inputs() -> None:
    some = SWITCH.rows([1, 4])
    np.testing.assert_allclose(some.log_prob(Y[[1, 4]], np.zeros(2)), SWITCH.log_prob(Y, np.zeros(7))[[1, 4]])
    more = SWITCH.and_new(X[:2])
    np.testing.assert_allclose(
        more.log_prob(np.append(Y, Y[:2]), np.zeros(9))[7:], SWITCH.log_prob(Y, np.zeros(7))[:2]
    )
    assert Switch(PARTS, by=1).rows([0]) == Switch(PARTS, by=1)


def test_bad_groups_and_parts_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"column 1 of the inputs is 5, which has no likelihood; there are 0, 1, 2"
    ):
        Switch(PARTS, by=1).for_inputs(np.array([[0.0, 5.0]]))
    with pytest.raises(ValueError, match="reads column 3"):
        Switch(PARTS, by=3).for_inputs(X)
    with pytest.raises(ValueError, match="belongs to no single rows"):
        Switch({0: KnownNoise([1.0])})
    with pytest.raises(ValueError, match="must be a dict"):
        Switch([Gaussian()])
    bad = Y.copy()
    bad[1] = 0.5
    with pytest.raises(ValueError, match="labels"):
        GP(SE(1.0), Switch(PARTS, by=1)).condition(X, bad)


def test_gaussian_groups_are_exact() -> None:
    X2 = X.copy()
    X2[:, 1] = GROUP == 1
    noise = Switch({0: Gaussian(0.1), 1: Gaussian(0.4)}, by=1)
    model = GP(SE([1.0, 2.0]), noise)
    assert isinstance(model.inference, Exact)
    known = GP(SE([1.0, 2.0]), KnownNoise(np.where(GROUP == 1, 0.4, 0.1))).condition(X2, Y)
    found = model.condition(X2, Y)
    assert abs(found.log_evidence - known.log_evidence) < 1e-12
    expected = known.variance(X2) + np.where(GROUP == 1, 0.4, 0.1)
    np.testing.assert_allclose(found.predict_y(X2).variance, expected)
    _, gradient = model.evidence(X2, Y)
    h = 1e-6
    for i in range(len(model.theta)):
        up, down = (model.replace(model.theta + s * h * np.eye(len(model.theta))[i]) for s in (1, -1))
        difference = (up.evidence(X2, Y)[0] - down.evidence(X2, Y)[0]) / (2 * h)
        assert abs(gradient[i] - difference) < 1e-6


def several_kinds() -> tuple[GP, np.ndarray, np.ndarray]:
    """Gaussian values, a second output under Student-t noise with half of its entries missing, and signs of slopes."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 4, 24))
    f = np.tanh(2 * (x - 2))
    seen = rng.random(24) < 0.5
    first = f + 0.1 * rng.standard_normal(24)
    second = (0.8 * f + 0.1 * rng.standard_t(3, 24))[seen]
    at = lambda output, x: np.column_stack([np.full(len(x), output), x])  # noqa: E731
    signs = slopes(at(0, np.linspace(0.2, 3.8, 5)), 1, kind=2)
    rows = np.vstack([values(at(0, x), 0), values(at(1, x[seen]), 1), signs])
    y = np.concatenate([first, second, np.ones(5)])
    table = Categorical(2, loadings=[[1.0], [0.8]], variances=[0.1, 0.1])
    kernel = WithSlopes(table.on(0) * SE(1.0).on(1))
    return GP(kernel, Switch({0: Gaussian(0.01), 1: StudentT(0.1, 4.0), 2: Probit()}, by=-1)), rows, y


@pytest.mark.parametrize("rule", ["laplace", "ep", "variational"])
def test_one_model_of_several_kinds_of_rows(rule: str) -> None:
    model, rows, y = several_kinds()
    model = model.with_inference(rule).bind(rows.shape[1])
    posterior = model.condition(rows, y)
    assert posterior.status.converged
    again = loads(dumps(posterior))
    assert again.mean(rows).tobytes() == posterior.mean(rows).tobytes()
    prediction = posterior.predict_y(rows)
    assert np.isfinite(prediction.log_prob(y)).all()
    _, gradient = model.evidence(rows, y)
    rng, h = np.random.default_rng(1), 1e-5
    along = rng.standard_normal(len(gradient))
    up, down = (model.replace(model.theta + s * h * along).evidence(rows, y)[0] for s in (1, -1))
    assert abs(gradient @ along - (up - down) / (2 * h)) < 1e-5


@pytest.mark.slow
def test_one_model_of_several_kinds_of_rows_is_certified() -> None:
    model, rows, y = several_kinds()
    found = assess(model, rows, y, inference=["laplace", "ep", "variational"], max_time=120.0, rng=0)
    assert found.certified
    for rule, most in (("laplace", 0.6), ("ep", 0.25), ("variational", 0.25)):
        assert abs(found[rule].evidence_error) < most
    chains = MCMC(n_draws=200, warmup=200, chains=2, rng=0, hyperparameters=False, warn=False)
    drawn = model.with_inference(chains).condition(rows, y)
    by_ep = model.with_inference("ep").condition(rows, y)
    sd = np.sqrt(by_ep.variance(rows))
    assert np.max(np.abs(drawn.mean(rows) - by_ep.mean(rows)) / sd) < 0.4
    assert loads(dumps(drawn)).mean(rows).tobytes() == drawn.mean(rows).tobytes()


@pytest.mark.slow
def test_chains_of_several_kinds_of_rows_converge() -> None:
    model, rows, y = several_kinds()
    drawn = model.with_inference(MCMC(rng=101, progress=False)).condition(rows, y)
    assert drawn.problem is None
    assert drawn.diagnostics()["rhat"].max() < 1.01


def test_counts_beside_measurements() -> None:
    rng = np.random.default_rng(3)
    x = np.repeat(np.linspace(0, 3, 12), 2)
    kind = np.tile([0.0, 1.0], 12)
    f = np.sin(x)
    y = np.where(kind == 0, f + 0.05 * rng.standard_normal(24), rng.poisson(np.exp(f)))
    rows = np.column_stack([kind, x])
    noise = Switch({0: Gaussian(0.01), 1: Poisson()}, by=0)
    posterior = GP(SE(1.0).on(1), noise).condition(rows, y)
    prediction = posterior.predict_y(rows)
    assert prediction.quantile([0.1, 0.9]).shape == (2, 24)
    np.testing.assert_allclose(prediction.mean[kind == 0], posterior.mean(rows)[kind == 0])
    assert (prediction.sample(3, 0)[:, kind == 1] == np.round(prediction.sample(3, 0)[:, kind == 1])).all()
