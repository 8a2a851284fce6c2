"""Further published figures: intervals, decisions, moderation, truncation, evidences of a small set."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from cavity import GP
from cavity.bayes import Beta, Gaussian, best_action, binomial, binomial_test, risk, truncate
from cavity.kernels import SE, Linear
from cavity.likelihoods import LeastSquares, Logit, Probit

COIN = Beta(31, 21)


@pytest.mark.parametrize(
    ("found", "golden"),
    [
        (lambda: COIN.interval(0.5), (0.550834, 0.642811)),
        (lambda: COIN.interval(0.95), (0.461141, 0.724157)),
        (lambda: COIN.highest_density(0.5).intervals[0], (0.553456, 0.645369)),
        (lambda: COIN.highest_density(0.95).intervals[0], (0.463719, 0.726552)),
        (lambda: COIN.centered(0.95, "mean"), (0.464722, 0.727586)),
        (lambda: COIN.centered(0.95, "median"), (0.465903, 0.728888)),
        (lambda: COIN.centered(0.95, "mode"), (0.468231, 0.731769)),
        (lambda: Beta(10, 6).interval(0.95), (0.383804, 0.836636)),
        (lambda: Beta(10, 6).highest_density(0.95).intervals[0], (0.395473, 0.846296)),
    ],
)
def test_intervals(found, golden):
    assert found() == pytest.approx(golden, abs=6e-7)


@pytest.mark.parametrize(
    ("level", "width"), [(0.5, 0.097807), (0.9, 0.182235), (0.95, 0.204991), (0.99, 0.245713)]
)
def test_how_near_to_fair(level, width):
    low, high = COIN.centered(level, 0.5)
    assert (high - low) / 2 == pytest.approx(width, abs=6e-7)


@pytest.mark.parametrize(
    ("width", "action"), [(0.1, 0.5972000), (0.05, 0.5993042), (0.01, 0.5999722), (0.001, 0.5999997)]
)
def test_estimates_of_relaxed_zero_one_loss(width, action):
    assert best_action(COIN, "zero-one", width).action == pytest.approx(action, abs=6e-8)


def test_expected_losses_and_risks():
    assert best_action(COIN).expected_loss == pytest.approx(0.0045425, abs=6e-8)
    assert best_action(COIN, "absolute").expected_loss == pytest.approx(0.0540080, abs=6e-8)

    def squared(theta, a):
        return (theta - a) ** 2

    def difference(theta):
        rules = (lambda x: x / 50, lambda x: (x + 1) / 52)
        first, second = (risk(rule, lambda t: binomial(50, t), theta, squared) for rule in rules)
        return first - second

    assert brentq(difference, 0.05, 0.3) == pytest.approx(0.1447007, abs=6e-8)
    half = np.sqrt(50) / 2
    for theta in (0.1, 0.37, 0.5):  # the same risk everywhere
        minimax = risk(lambda x: (x + half) / (50 + 2 * half), lambda t: binomial(50, t), theta, squared)
        assert minimax == pytest.approx(0.00383776, abs=6e-9)


def test_which_heads_speak_for_a_fair_coin():
    fair = [x for x in range(201) if binomial_test(x, 200).bayes_factor > 1]
    assert (min(fair), max(fair)) == (85, 115)


def test_moderated_probabilities():
    """A latent value of mean 1 and variance 4."""
    one = np.array([1.0]), np.array([4.0])
    assert np.exp(Probit().predictive(*one).log_prob([1.0]))[0] == pytest.approx(0.6726395770, abs=1e-8)
    assert np.exp(Logit().predictive(*one).log_prob([1.0]))[0] == pytest.approx(0.6477264385, abs=1e-8)


@pytest.mark.parametrize(
    ("mean", "variance", "at", "moments", "site"),
    [
        (0.0, 1.0, 0.0, (-0.7978845608, 0.3633802276), (-1.2533141373, 0.5707963268)),
        (0.0, 1.0, 1.0, (-0.2875999709, 0.6296862858), (-0.7766387252, 1.7004130865)),
        (0.0, 1.0, -1.0, (-1.5251352762, 0.1990976656), (-1.9042712333, 0.2485916909)),
        (1.0, 4.0, 0.5, (-0.9271079588, 1.2498088944), (-1.8028713422, 1.8177775237)),
    ],
)
def test_a_gaussian_cut_at_one_side(mean, variance, at, moments, site):
    whole = Gaussian([mean], variance)
    cut = truncate(whole, high=at)
    assert (cut.gaussian.mean[0], cut.gaussian.covariance[0, 0]) == pytest.approx(moments, abs=1e-8)
    alone = cut.gaussian / whole  # what the constraint contributes
    assert (alone.mean[0], alone.covariance[0, 0]) == pytest.approx(site, abs=1e-7)
    assert cut.log_probability == pytest.approx(stats.norm(mean, np.sqrt(variance)).logcdf(at), abs=1e-10)


@pytest.mark.parametrize(("likelihood", "golden"), [(Logit(), -4.5486377), (Probit(), -5.2313636)])
def test_logistic_and_probit_regression_by_expectation_propagation(likelihood, golden):
    x = np.array([-2, -1, -0.5, 0.5, 1, 2])[:, None]
    posterior = GP(Linear(4.0, 4.0), likelihood, inference="ep").condition(x, [-1, -1, 1, -1, 1, 1])
    assert posterior.log_evidence == pytest.approx(golden, abs=6e-7)


def test_left_out_labels_and_the_gradient_of_the_squashing():
    X = np.array([-2, -1, 0.5, 1, 2.5])[:, None]
    y = np.array([-1, -1, 1, -1, 1])
    A = 4 * np.exp(-0.5 * (X - X.T) ** 2) + 0.1 * np.eye(5)
    R = np.linalg.inv(A)
    mean, variance = y - R @ y / np.diag(R), 1 / np.diag(R)
    golden = [-1.4689275108, 0.8091653935, -1.1635437803, 1.2088551633, -1.5486643630]
    assert mean == pytest.approx(golden, abs=1e-9)
    assert variance == pytest.approx(
        [2.4918070462, 2.0458053199, 0.7622007058, 0.7847863372, 3.3426234346], abs=1e-9
    )
    # alpha = 1 / scale and beta = offset / scale, so d/dalpha = -(scale^2 d/dscale + scale offset d/doffset)
    scale, offset, h = 0.5, 0.15, 1e-6

    def objective(a, b):
        return GP(4.0 * SE(1.0), LeastSquares(0.1, 1 / a, b / a, 1e-12)).evidence(X, y)[0]

    by_alpha = (objective(2 + h, 0.3) - objective(2 - h, 0.3)) / (2 * h)
    by_beta = (objective(2, 0.3 + h) - objective(2, 0.3 - h)) / (2 * h)
    assert (by_alpha, by_beta) == pytest.approx((-0.4997144916, -0.2964221237), abs=1e-6)
    names = GP(4.0 * SE(1.0), LeastSquares(0.1, scale, offset, 1e-12)).names
    gradient = GP(4.0 * SE(1.0), LeastSquares(0.1, scale, offset, 1e-12)).evidence(X, y)[1]
    d_scale = (
        gradient[next(i for i, n in enumerate(names) if n.endswith("scale") and "length" not in n)] / scale
    )
    d_offset = gradient[next(i for i, n in enumerate(names) if n.endswith("offset"))]
    assert -(scale**2 * d_scale + scale * offset * d_offset) == pytest.approx(-0.4997144916, abs=1e-8)
    assert scale * d_offset == pytest.approx(-0.2964221237, abs=1e-8)
