"""What-if predictions: those that the script computes in a real browser are those of Python."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from cavity import GP, Inducing
from cavity.kernels import (
    SE,
    Additive,
    Categorical,
    Constant,
    Cosine,
    GammaExponential,
    Linear,
    Matern,
    NeuralNetwork,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Standardized,
    White,
)
from cavity.likelihoods import (
    Clipped,
    Gaussian,
    HeteroscedasticGaussian,
    IntervalWarp,
    Laplace,
    LapseProbit,
    Logit,
    MixtureOfGaussians,
    NegativeBinomial,
    OneVsRest,
    OrdinalProbit,
    Poisson,
    PositiveWarp,
    Probit,
    StudentT,
    WarpedTarget,
)
from cavity.means import Basis
from cavity.means import Linear as LinearMean
from cavity.report import whatif
from cavity.report.kernel_tree import NotInPage
from cavity.report.whatif import LEVEL, as_json, functions, noise_parts, packed, response

CLOSE = 1e-6

KERNELS = {
    "se": 2.0 * SE([0.7, 1.3, 2.0]),
    "matern": 1.5 * Matern(0.9, nu=0.5) + 0.7 * Matern([1.0, 2.0, 3.0], nu=1.5) + Matern(2.0, nu=2.5),
    "smooth and rough": RationalQuadratic(1.1, alpha=0.6) + GammaExponential(1.5, gamma=1.3),
    "linear": Linear([0.5, 0.1, 0.3], bias=2.0) + 0.1 * SE(0.5),
    "polynomial": Polynomial(3, variance=0.2, bias=0.5) + 0.3 * SE(1.0).on([2]) + Constant(0.4),
    "products": (0.8 * SE(1.0).on([0]) * Linear().on([1]) + White(0.05)) * Matern(3.0, nu=2.5).on([2]),
    "periodic": Periodic(SE([0.8, 1.2, 1.0]), period=[1.3, 2.0, 5.0])
    + 0.5 * Periodic(SE(1.0), period=1.7).on([1]),
    "cosine and power": Cosine([1.1, 2.3, 4.0]) + (0.7 * SE(1.0)) ** 2,
    "standardized": 1.3 * Standardized(SE([0.7, 1.5, 2.0]), [2.0, 0.5, 3.0], [1.0, -1.0, 0.2])
    + Standardized(Linear(0.4) + Periodic(SE(1.0), period=0.9).on([1]), [2.0, 0.5, 3.0], [1.0, -1.0, 0.2]),
    "levels": SE(1.0).on([0, 1]) * Categorical(3, correlation=-0.2).on([2]),
}


def inputs(kernel: str, n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    if kernel == "levels":
        X[:, 2] = rng.integers(0, 3, n)
    return X


def content(posterior: Any) -> dict[str, Any]:
    likelihood = posterior.model.likelihood
    X = posterior.process.X
    return {
        "X": packed(X),
        "width": X.shape[1],
        "functions": functions(posterior),
        "response": response(likelihood),
        "level": LEVEL,
    }


@pytest.fixture(scope="module")
def script(browser: Any) -> Any:
    """Predictions of a model by the script."""
    page = browser.new_page()
    page.set_content("<!DOCTYPE html><title>empty</title>")
    page.add_script_tag(content=(files("cavity.report") / "assets" / "whatif.js").read_text(encoding="utf-8"))

    def predict(posterior: Any, X: Any) -> list[dict[str, Any]]:
        code = "([content, X]) => { const model = cavity.load(content); return X.map(model.predict); }"
        return list(page.evaluate(code, [content(posterior), X.tolist()]))

    yield predict
    page.close()


def latent(found: list[dict[str, Any]], name: str, function: int = 0) -> Any:
    return np.array([one["latent"][function][name] for one in found])


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_of_the_page_predicts_as_python_does(script, name):
    X = inputs(name, 30, 0)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    posterior = GP(KERNELS[name], Gaussian(0.02), mean=LinearMean(0.3, [0.1, 0.2, -0.4])).condition(X, y)
    new = np.vstack([inputs(name, 12, 1), X[:2]])
    if name != "levels":
        new = np.vstack([new, [[50.0, -30.0, 8.0]]])  # far away
    found = script(posterior, new)
    np.testing.assert_allclose(latent(found, "mean"), posterior.mean(new), rtol=CLOSE, atol=1e-9)
    np.testing.assert_allclose(latent(found, "variance"), posterior.variance(new), rtol=CLOSE)
    prediction = posterior.predict_y(new)
    low, high = prediction.interval(LEVEL)
    np.testing.assert_allclose([one["lower"] for one in found], low, rtol=CLOSE, atol=1e-8)
    np.testing.assert_allclose([one["upper"] for one in found], high, rtol=CLOSE, atol=1e-8)


NOISES = {
    "student-t": StudentT(0.2, 3.0),
    "heavy tails": StudentT(0.1, 0.6),
    "light tails": StudentT(0.3, 4000.0),
    "laplace": Laplace(0.2),
    "mixture": MixtureOfGaussians(0.1, 0.2, 3.0),
}


@pytest.mark.parametrize("name", NOISES)
def test_intervals_of_robust_noise(script, name):
    X = inputs("se", 25, 2)
    y = np.sin(2 * X[:, 0])
    y[3] += 9.0
    rule = "ep" if name == "laplace" else "laplace"
    posterior = GP(1.0 * SE(1.5), NOISES[name], inference=rule).condition(X, y)
    new = inputs("se", 8, 3)
    found = script(posterior, new)
    prediction = posterior.predict_y(new)
    low, high = prediction.interval(LEVEL)
    np.testing.assert_allclose([one["mean"] for one in found], prediction.mean, rtol=CLOSE)
    np.testing.assert_allclose([one["lower"] for one in found], low, rtol=CLOSE)
    np.testing.assert_allclose([one["upper"] for one in found], high, rtol=CLOSE)


def test_sites_of_negative_precision_have_a_second_matrix(script):
    X = np.linspace(0, 3, 12)[:, None]
    y = np.where(np.arange(12) == 5, 8.0, np.sin(X[:, 0]))
    posterior = GP(1.0 * SE(1.0), StudentT(0.1, 2.0), inference="ep").condition(X, y)
    assert (posterior.approximation.q.sites.precision < 0).any()
    new = np.linspace(-1, 4, 9)[:, None]
    found = script(posterior, new)
    np.testing.assert_allclose(latent(found, "variance"), posterior.variance(new), rtol=CLOSE)
    np.testing.assert_allclose(latent(found, "mean"), posterior.mean(new), rtol=CLOSE)


@pytest.mark.parametrize("likelihood", [Probit(), LapseProbit(0.1), Logit()])
def test_two_classes(script, likelihood):
    X = inputs("se", 30, 4)
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 1, 1.0, -1.0)
    posterior = GP(30.0 * SE(1.5), likelihood, inference="ep").condition(X, y)
    new = np.vstack([inputs("se", 12, 5), [[5.0, 5.0, 5.0]]])
    found = script(posterior, new)
    expected = posterior.predict_y(new).probabilities
    np.testing.assert_allclose([one["probabilities"] for one in found], expected, rtol=CLOSE)


def test_several_classes(script):
    X = inputs("se", 36, 6)
    y = np.digitize(X[:, 0], [-0.7, 0.7]).astype(float)
    posterior = GP(40.0 * SE(1.5), OneVsRest(3), inference="ep").condition(X, y)
    new = inputs("se", 12, 7)
    found = script(posterior, new)
    np.testing.assert_allclose(
        [one["probabilities"] for one in found], posterior.predict_y(new).probabilities, rtol=CLOSE
    )


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(2.5)])
@pytest.mark.parametrize("level", [0.5, 5.0])
def test_counts(script, likelihood, level):
    X = inputs("se", 30, 8)
    y = np.random.default_rng(9).poisson(np.exp(level + X[:, 0])).astype(float)
    posterior = GP(2.0 * SE(1.5), likelihood, mean=level, inference="laplace").condition(X, y)
    new = inputs("se", 8, 10)
    found = script(posterior, new)
    prediction = posterior.predict_y(new)
    low, high = prediction.interval(LEVEL)
    np.testing.assert_allclose([one["mean"] for one in found], prediction.mean, rtol=CLOSE)
    assert [one["lower"] for one in found] == low.tolist()
    assert [one["upper"] for one in found] == high.tolist()


@pytest.mark.parametrize("lowest", [0, 3])
def test_ordered_categories(script, lowest):
    X = inputs("se", 30, 15)
    y = lowest + np.digitize(X[:, 0] + 0.3 * X[:, 1], [-1.0, 0.0, 1.2]).astype(float)
    likelihood = OrdinalProbit([-2.0, 0.1, 2.5], lowest=lowest)
    posterior = GP(9.0 * SE(1.5), likelihood, inference="ep").condition(X, y)
    new = np.vstack([inputs("se", 12, 16), [[9.0, 9.0, 9.0]]])
    found = script(posterior, new)
    prediction = posterior.predict_y(new)
    low, high = prediction.interval(LEVEL)
    np.testing.assert_allclose([one["mean"] for one in found], prediction.mean, rtol=CLOSE)
    assert [one["lower"] for one in found] == low.tolist()
    assert [one["upper"] for one in found] == high.tolist()


@pytest.mark.parametrize("length", [1.5, 8.0])
def test_noise_whose_level_changes(script, length):
    """Also of long length scales, where K has few digits in its inverse."""
    X = inputs("se", 60, 17)
    rng = np.random.default_rng(18)
    y = np.sin(X[:, 0]) + 0.2 * np.exp(0.6 * X[:, 0]) * rng.standard_normal(60)
    kernels = [1.5 * SE([0.7 * length, length, length]), 0.8 * SE([length, 3.0 * length, 3.0 * length])]
    model = GP(kernels, HeteroscedasticGaussian(0.1), ["constant", "zero"], "laplace")
    posterior = model.condition(X, y)
    new = np.vstack([inputs("se", 12, 19), [[9.0, 9.0, 9.0]]])
    found = script(posterior, new)
    for function in (0, 1):
        np.testing.assert_allclose(
            latent(found, "mean", function), posterior.mean(new)[:, function], rtol=CLOSE, atol=1e-9
        )
        np.testing.assert_allclose(
            latent(found, "variance", function), posterior.variance(new)[:, function], rtol=CLOSE
        )
    prediction = posterior.predict_y(new)
    low, high = prediction.interval(LEVEL)
    np.testing.assert_allclose([one["mean"] for one in found], prediction.mean, rtol=CLOSE, atol=1e-9)
    np.testing.assert_allclose([one["lower"] for one in found], low, rtol=CLOSE)
    np.testing.assert_allclose([one["upper"] for one in found], high, rtol=CLOSE)


@pytest.mark.parametrize(
    "warp",
    [
        PositiveWarp(0.4, center=2.0),
        PositiveWarp(1e-3, center=0.7, shift=0.1),
        IntervalWarp(0.0, 6.0, squeeze=0.01),
        Clipped(0.5),
    ],
)
@pytest.mark.parametrize("noise", [Gaussian(0.05), StudentT(0.2, 3.0)])
def test_targets_of_another_range(script, warp, noise):
    X = inputs("se", 25, 13)
    y = np.exp(0.5 * np.sin(2 * X[:, 0]) + 0.3)
    posterior = GP(1.0 * SE(1.5), WarpedTarget(noise, warp)).condition(X, y)
    new = np.vstack([inputs("se", 8, 14), [[9.0, 9.0, 9.0]]])
    found = script(posterior, new)
    prediction = posterior.predict_y(new)
    low, high = prediction.interval(LEVEL)
    np.testing.assert_allclose([one["mean"] for one in found], prediction.mean, rtol=CLOSE)
    np.testing.assert_allclose([one["lower"] for one in found], low, rtol=CLOSE, atol=1e-9)
    np.testing.assert_allclose([one["upper"] for one in found], high, rtol=CLOSE)


def test_inducing_inputs_stand_for_the_rows(script):
    X = inputs("se", 200, 11)
    posterior = GP(1.0 * SE(1.5), Gaussian(0.05), representation=Inducing(15)).condition(X, np.sin(X[:, 0]))
    new = inputs("se", 6, 12)
    found = script(posterior, new)
    np.testing.assert_allclose(latent(found, "mean"), posterior.mean(new), rtol=CLOSE)
    np.testing.assert_allclose(latent(found, "variance"), posterior.variance(new), rtol=CLOSE)


# --- what is refused, and what is escaped -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (GP(NeuralNetwork(), Gaussian(0.1)), "the kernel NeuralNetwork"),
        (GP(Additive(SE(1.0)), Gaussian(0.1)), "the kernel Additive"),
        (GP(Matern(1.0, nu=0.8), Gaussian(0.1)), "the kernel Matern"),
        (
            GP(SE(1.0), Gaussian(0.1), mean=Basis("constant")),
            "basis functions, or several targets at once",
        ),
    ],
)
def test_what_a_page_cannot_compute_is_named(model, reason):
    X = inputs("se", 10, 0)
    posterior = model.condition(X, X[:, 0])
    with pytest.raises(NotInPage, match=reason):
        functions(posterior)


def test_functions_that_depend_on_each_other_are_dense():
    X = inputs("se", 30, 0)
    model = GP(SE(1.0), HeteroscedasticGaussian(0.1), inference="laplace", representation=Inducing(5))
    with pytest.raises(NotInPage, match="depend on each other in this representation"):
        functions(model.condition(X, X[:, 0]))


def test_predictions_with_an_unknown_scale_are_left_out():
    X = inputs("se", 10, 0)
    posterior = GP(SE(1.0), Gaussian(0.1), inference="exact-scale").condition(X, X[:, 0])
    with pytest.raises(NotInPage, match="an overall scale that was integrated out"):
        functions(posterior)


def test_large_models_are_left_out(monkeypatch):
    monkeypatch.setattr(whatif, "MOST_NUMBERS", 50)
    X = inputs("se", 10, 0)
    with pytest.raises(NotInPage, match="10 rows, more than a page should hold"):
        functions(GP(SE(1.0), Gaussian(0.1)).condition(X, X[:, 0]))


def test_the_parts_of_noise_have_its_density():
    from scipy.stats import laplace, norm, t

    y = np.array([0.05, 0.7, 4.0])
    for likelihood, expected in (
        (StudentT(0.5, 2.3), t.pdf(y, 2.3, scale=0.5)),
        (StudentT(0.5, 0.4), t.pdf(y, 0.4, scale=0.5)),
        (Laplace(0.8), laplace.pdf(y, scale=0.8)),
    ):
        weights, variances = noise_parts(likelihood)
        assert weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(
            norm.pdf(y[:, None], scale=np.sqrt(variances)) @ weights, expected, rtol=1e-6
        )


def test_json_cannot_leave_its_script():
    text = as_json({"name": "</script><script>alert(1)</script>\u2028&amp;"})
    assert "<" not in text
    assert ">" not in text
    assert "\u2028" not in text
    import json

    assert json.loads(text)["name"] == "</script><script>alert(1)</script>\u2028&amp;"
