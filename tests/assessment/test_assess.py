"""`assess` where the truth is known: exact inference and tensor quadrature; and what it says when it is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from cavity import GP, GPClassifier, GPRegressor, assess
from cavity.assessment import Assessment, Chains, gold
from cavity.assessment.comparison import measured, total_variation
from cavity.assessment.verdict import duration
from cavity.inference.base import UnsupportedPairError
from cavity.kernels import SE
from cavity.likelihoods import Gaussian, Laplace, Probit, Softmax
from cavity.prediction import CategoricalPrediction, GaussianPrediction


@pytest.fixture(scope="module")
def gaussian() -> tuple[GP, np.ndarray, np.ndarray, Assessment]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (20, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(20)
    model = GP(1.0 * SE(1.0), Gaussian(0.09), mean="constant")
    X_test = np.linspace(-3, 3, 7)[:, None]
    found = assess(
        model, X, y, X_test, np.sin(X_test[:, 0]), inference=["exact", "ep", "laplace"], max_time=20.0, rng=1
    )
    return model, X, y, found


def test_exact_inference_has_no_error(gaussian: tuple[GP, np.ndarray, np.ndarray, Assessment]) -> None:
    _, _, _, found = gaussian
    assert found.certified
    error = found.gold.evidence.standard_error
    for name in ("exact", "ep", "laplace"):
        method = found[name]
        assert abs(method.evidence_error) < 4 * error + 1e-9
        # 4 standard errors of a mean from the fewest effective draws, and of an sd
        assert method.largest_mean_error < 4 / np.sqrt(found.gold.chains.ess)
        assert method.largest_sd_error < 4 / np.sqrt(found.gold.chains.ess)
        assert method.total_variation < 2 * method.total_variation_noise
        assert "use it" in found.verdicts[name]
    assert np.isnan(found["exact"].k_hat)
    assert found["ep"].k_hat < 0.5


def test_predictions_of_the_chains_are_those_of_the_exact_posterior(
    gaussian: tuple[GP, np.ndarray, np.ndarray, Assessment],
) -> None:
    _, _, _, found = gaussian
    exact = found["exact"].predictive
    assert exact.largest_probability_error < 0.05
    assert found.gold_predictive.log_loss == pytest.approx(exact.log_loss, abs=0.05)


def test_table_frame_and_picture(gaussian: tuple[GP, np.ndarray, np.ndarray, Assessment]) -> None:
    _, _, _, found = gaussian
    frame = found.frame
    assert list(frame.index) == ["exact", "ep", "laplace", "MCMC"]
    text = str(found)
    assert "certified" in text
    assert "EP: evidence within" in text
    assert len(found.plot().axes) == 12
    with pytest.raises(KeyError, match="only exact, ep, laplace"):
        found["variational"]


def test_probit_against_tensor_quadrature() -> None:
    """Two points: posterior means by quadrature on a fine grid; Laplace is visibly off, EP is not."""
    X, y = np.array([[0.0], [0.7]]), np.array([1.0, 1.0])
    model = GP(25.0 * SE(1.0), Probit())
    found = assess(model, X, y, inference=["laplace", "ep"], max_time=20.0, rng=0)
    K = 25.0 * np.exp(-0.5 * (X - X.T) ** 2)
    grid = np.linspace(-30, 40, 1201)
    f1, f2 = np.meshgrid(grid, grid, indexing="ij")
    F = np.stack([f1.ravel(), f2.ravel()], axis=1)
    quad = np.einsum("ij,ij->i", F, np.linalg.solve(K, F.T).T)
    weight = np.exp(-0.5 * quad) * norm.cdf(F).prod(axis=1)
    cell = (grid[1] - grid[0]) ** 2
    log_z = np.log(weight.sum() * cell) - np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(K)[1]
    mean = weight @ F / weight.sum()
    assert found.certified
    assert abs(found.gold.evidence.log_evidence - log_z) < 4 * found.gold.evidence.standard_error
    gold = found.gold.chains.pooled
    assert np.all(np.abs(gold.mean(axis=0) - mean) < 5 * gold.std(axis=0) / np.sqrt(found.gold.chains.ess))
    assert abs(found["ep"].evidence_error) < 0.1
    assert found["laplace"].mean_error > 5 * found["ep"].mean_error
    assert "use it" in found.verdicts["ep"]
    assert "use it" not in found.verdicts["laplace"]


def test_no_verdict_without_a_certificate() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 5))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(60) > 0, 1.0, -1.0)
    found = assess(GP(5000.0 * SE(2.0), Probit()), X, y, inference=["ep"], max_time=0.02)
    assert not found.certified
    text = str(found)
    assert "NOT certified" in text
    assert "no verdict" in found.verdicts["ep"]
    assert "would be needed" in " ".join(text.split())


def test_estimators_and_text_labels() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    labels = np.where(X[:, 0] > 0, "yes", "no")
    classifier = GPClassifier(random_state=0, n_restarts=0).fit(X, labels)
    found = assess(classifier, X, labels, X[:10], labels[:10], inference=["ep"], max_time=5.0)
    assert found["ep"].log_evidence == pytest.approx(classifier.log_evidence_, abs=1e-4)
    assert found["ep"].predictive.log_loss == pytest.approx(
        -np.mean(np.log(classifier.predict_proba(X[:10])[np.arange(10), (labels[:10] == "yes").astype(int)])),
        rel=1e-3,
    )
    with pytest.raises(ValueError, match=r"does not know.*maybe"):
        assess(classifier, X, np.where(X[:, 0] > 0, "maybe", "no"))
    with pytest.raises(ValueError, match="call fit first"):
        assess(GPRegressor(), X, X[:, 0])


def test_pairs_that_do_not_apply_are_named() -> None:
    X = np.linspace(0, 1, 6)[:, None]
    found = assess(GP(1.0 * SE(0.5), Laplace(0.2)), X, X[:, 0], inference=["laplace", "ep"], max_time=5.0)
    with pytest.raises(UnsupportedPairError):
        GP(1.0 * SE(0.5), Laplace(0.2), inference="laplace").condition(X, X[:, 0])
    assert "does not apply" in found.verdicts["laplace"]
    assert found["ep"].converged


@pytest.mark.parametrize("max_time", [-1.0, 0.0, float("nan"), float("inf")])
def test_limits_of_time_are_positive_numbers(max_time: float) -> None:
    with pytest.raises(ValueError, match="max_time must be a positive number of seconds"):
        assess(*small_problem(), max_time=max_time)


def test_bad_input_is_refused_before_the_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [5.0, 4.0, 3.0]})
    y = np.array([1.0, -1.0, 1.0])
    model = GP(SE(1.0).on("a"), Probit())
    monkeypatch.setattr("cavity.assessment.gold_standard", lambda *_, **__: pytest.fail("chains were run"))
    with pytest.raises(ValueError, match=r"columns of X are \['b', 'a'\], but those of the data before were"):
        assess(model, frame, y, frame[["b", "a"]])
    with pytest.raises(ValueError, match="X_test must have the columns of X, 2, got 1"):
        assess(model, frame, y, np.zeros((3, 1)))
    for wrong in ("best", ["ep", "best"]):
        with pytest.raises(ValueError, match=r"inference must be .* got 'best'"):
            assess(model, frame, y, inference=wrong)


def test_bad_input() -> None:
    X, y = np.zeros((3, 1)), np.array([1.0, -1.0, 1.0])
    model = GP(SE(1.0), Probit())
    with pytest.raises(ValueError, match="without X_test"):
        assess(model, X, y, y_test=y)
    with pytest.raises(ValueError, match="as many rows, got 2 and 3"):
        assess(model, X, y, X[:2], y)
    with pytest.raises(ValueError, match="one latent function"):
        assess(GP(SE(1.0), Softmax(3)), X, np.array([0, 1, 2]))


def test_total_variation_of_known_shift() -> None:
    """Distance of N(0, 1) and N(1, 1) is 2 Phi(1/2) - 1, up to bins and noise."""
    draws = np.random.default_rng(0).standard_normal((4, 5000, 1))
    chains = Chains(draws, 1.0, 20_000.0, 0, 1.0)
    distance, noise = total_variation(chains, np.array([1.0]), np.array([1.0]))
    assert distance[0] == pytest.approx(2 * norm.cdf(0.5) - 1, abs=0.03)
    same, _ = total_variation(chains, np.array([0.0]), np.array([1.0]))
    assert same[0] < 2 * noise


def test_measures_of_predictions() -> None:
    y = np.array([0.0, 0.0, 3.0, 0.0])
    sure = GaussianPrediction(np.zeros(4), np.ones(4))
    shifted = GaussianPrediction(np.ones(4), np.ones(4))
    found = measured(shifted, sure, y)
    assert found.log_loss == pytest.approx(-np.mean(norm.logpdf(y, 1, 1)))
    assert found.calibration_error == pytest.approx(abs(0.75 - 0.9))
    assert found.largest_probability_error == pytest.approx(norm.cdf(0) - norm.cdf(-1))
    labels = CategoricalPrediction([[0.2, 0.8]] * 4, [-1.0, 1.0])
    found = measured(labels, CategoricalPrediction([[0.5, 0.5]] * 4, [-1.0, 1.0]), np.array([1, 1, -1, 1.0]))
    assert found.calibration_error == pytest.approx(0.05)
    assert found.probability_error == pytest.approx(0.3)


def test_durations() -> None:
    assert duration(12) == "20 s"
    assert duration(100) == "2 min"


# --- Ctrl-C -------------------------------------------------------------------------------------------------


def test_ctrl_c_before_there_are_chains_ends_the_assessment(monkeypatch):
    """Annealing keeps what it has; an assessment cannot be made of that, and must not go on to the chains."""
    evidence = gold.annealed_importance_sampling

    def interrupted(*arguments, **options):
        return replace(evidence(*arguments, **options), interrupted=True)

    monkeypatch.setattr(gold, "annealed_importance_sampling", interrupted)
    monkeypatch.setattr(gold, "sample_latent", lambda *_, **__: pytest.fail("chains ran"))
    with pytest.raises(KeyboardInterrupt):
        assess(*small_problem(), inference=["ep"], max_time=1.0, progress=False)


@pytest.mark.parametrize("step", [350, 300 + 200 + 20])
def test_ctrl_c_while_chains_run_keeps_the_draws_made_so_far(monkeypatch, step):
    """In the first stretch of 200 draws after 300 steps, and in the warm-up of the second."""
    steps = []

    def press(done, total):
        steps.append(done)
        if len(steps) == step:
            raise KeyboardInterrupt

    model, X, y = small_problem()
    chains = gold.sample_latent(
        model, X, y, max_time=1e6, rng=np.random.default_rng(0), enough=1e5, progress=press
    )
    assert chains.interrupted
    assert chains.latent.shape == (8, {350: 50, 520: 200}[step], len(y))
    assert len(steps) == step
    monkeypatch.setattr(gold, "sample_latent", lambda *_, **__: chains)
    found = assess(model, X, y, inference=["ep"], max_time=1.0, progress=False)
    assert "interrupted, with the draws made so far; gold standard" in " ".join(str(found).split())


def small_problem():
    X = np.linspace(-2, 2, 8)[:, None]
    return GP(4.0 * SE(1.0), Probit()), X, np.where(X[:, 0] > 0.3, 1.0, -1.0)
