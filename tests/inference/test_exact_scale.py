"""The overall scale integrated out: SciPy's multivariate t, published figures, refits, coverage."""

import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import GP, GPRegressor
from cavity.inference import ExactScale
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.means import Basis

X = np.arange(7.0)[:, None]
Y = np.sin(X[:, 0])
NEW = np.array([[2.5], [7.5]])


def model(rule, mean="zero"):
    return GP(1.0 * SE(1.0), Gaussian(0.01), mean=mean, inference=rule)


def test_published_figures():
    posterior = model(ExactScale(2.5, 2.5)).condition(X, Y)
    assert posterior.log_evidence == pytest.approx(-5.6386656415, abs=1e-9)
    K = np.exp(-0.5 * (X - X.T) ** 2) + 0.01 * np.eye(7)
    assert posterior.log_evidence == pytest.approx(
        stats.multivariate_t(np.zeros(7), K, df=5).logpdf(Y), abs=1e-10
    )
    f = posterior.predict_f(NEW)
    assert f.df == 12
    assert f.mean == pytest.approx([0.5797073883, 0.0714943371], abs=1e-9)
    assert f.scale**2 == pytest.approx([0.0087773940, 0.5116015817], abs=1e-9)
    left_out = model(ExactScale(2.5, 2.5)).leave_one_out(X, Y)
    assert (left_out.df, left_out.mean[3], left_out.scale[3] ** 2) == pytest.approx(
        (11, 0.1152358235, 0.1526445322), abs=1e-9
    )


def test_a_left_out_row_is_a_prediction_of_the_others():
    rule = model(ExactScale(), Basis("constant"))
    left_out = rule.leave_one_out(X, Y)
    for i in (0, 4):
        rest = np.arange(7) != i
        new = rule.condition(X[rest], Y[rest]).predict_y(X[i : i + 1])
        assert (left_out.df, left_out.mean[i], left_out.scale[i]) == pytest.approx(
            (new.df, new.mean[0], new.scale[0])
        )


@pytest.mark.parametrize("mean", ["constant", Basis("linear")])
@pytest.mark.parametrize("rule", [ExactScale(), ExactScale(1.5, 0.7)])
def test_gradient(rule, mean):
    gp = GP(1.3 * SE(0.9), Gaussian(0.05), mean=mean, inference=rule)
    theta = gp.theta
    gradient = gp.evidence(X, Y)[1]
    h = 1e-5
    expected = [
        (gp.replace(theta + h * e).evidence(X, Y)[0] - gp.replace(theta - h * e).evidence(X, Y)[0]) / (2 * h)
        for e in np.eye(len(theta))
    ]
    assert gradient == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_units_of_the_covariance_do_not_matter():
    one = model(ExactScale()).condition(X, Y)
    other = GP(50.0 * SE(1.0), Gaussian(0.5), inference=ExactScale()).condition(X, Y)
    assert other.log_evidence == pytest.approx(one.log_evidence, rel=1e-10)
    assert other.predict_y(NEW).scale == pytest.approx(one.predict_y(NEW).scale, rel=1e-8)
    assert other.variance(NEW) == pytest.approx(one.predict_f(NEW).variance, rel=1e-8)


def test_draws_have_the_spread_of_predictions():
    posterior = model(ExactScale(2.5, 2.5)).condition(X, Y)
    draws = posterior.sample(NEW, 40_000, rng=0)
    assert draws.std(axis=0) == pytest.approx(posterior.predict_f(NEW).sd, rel=0.02)
    kurtosis = stats.kurtosis(draws[:, 1])
    assert kurtosis == pytest.approx(6 / (12 - 4), abs=0.3)


def test_intervals_are_honest_at_eight_rows():
    rng = np.random.default_rng(0)
    held, plugged = 0, 0
    for _ in range(500):
        x = rng.uniform(0, 5, (9, 1))
        A = np.exp(-0.5 * (x - x.T) ** 2) + 0.1 * np.eye(9)
        y = np.exp(rng.normal()) * (np.linalg.cholesky(A) @ rng.standard_normal(9))
        posterior = GP(1.0 * SE(1.0), Gaussian(0.1), inference=ExactScale()).condition(x[:8], y[:8])
        low, high = posterior.predict_y(x[8:]).interval(0.95)
        held += low[0] < y[8] < high[0]
        r = np.linalg.solve(A[:8, :8], y[:8])
        sd = np.sqrt(y[:8] @ r / 8 * (A[8, 8] - A[8, :8] @ np.linalg.solve(A[:8, :8], A[:8, 8])))
        plugged += (
            abs(y[8] - A[8, :8] @ r) < 1.959964 * sd
        )  # the scale of largest evidence, taken for the truth
    assert 0.93 < held / 500 < 0.97  # two standard errors about 0.95
    assert plugged < held - 5


def test_the_estimator_and_its_file(tmp_path):
    fitted = GPRegressor(inference="exact-scale", n_restarts=0, random_state=0).fit(X, Y)
    assert fitted.posterior_.predict_y(NEW).df == 7
    sd = fitted.predict(NEW, return_std=True)[1]
    assert sd == pytest.approx(fitted.predict_dist(NEW).sd)
    fitted.save(tmp_path / "t.cavity")
    again = cavity.load(tmp_path / "t.cavity")
    assert again.predict(NEW, return_std=True)[1] == pytest.approx(sd, rel=1e-9)
    updated = fitted.update([[8.0]], [1.0])
    assert updated.posterior_.predict_y(NEW).df == 8


def test_refusals():
    with pytest.raises(ValueError, match="both be zero or both be positive"):
        ExactScale(1.0, 0.0)
    with pytest.raises(ValueError, match="several targets"):
        model(ExactScale()).condition(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="joint=True"):
        model(ExactScale()).condition(X, Y).predict_f(NEW, joint=True)
    with pytest.raises(ValueError, match="too few rows"):
        model(ExactScale()).condition(X[:1], [0.0])
