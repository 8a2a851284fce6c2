"""Mixtures of Gaussian process experts: published figures, the sampler against enumeration."""

import numpy as np
import pytest

from cavity.studies.gp_experts import Expert, Sampler, enumerated, gating

X = 0.5 * np.arange(5)
Y = np.array([0.0, 1.0, 0.1, 1.2, -0.1])
TWO = [Expert(0.0, 1.0, 1.0, 0.05), Expert(1.0, 1.0, 1.0, 0.05)]


def test_published_figures():
    total, shares, best = enumerated(X, Y, TWO)
    assert total == pytest.approx(-6.6315458386, abs=1e-9)
    second = [0.3470878137, 0.6564876518, 0.3452426847, 0.6924479477, 0.2894972661]
    assert shares[:, 1] == pytest.approx(second, abs=1e-9)
    assert best.tolist() == [0, 1, 0, 1, 0]
    found = gating(2.0, X[:4], np.array([0, 1, 0, 1]), 2, 0.7, 1.0)
    assert found == pytest.approx([0.2409434433, 0.5590565567, 0.2], abs=1e-9)


def test_predictions_of_one_expert_are_those_of_a_process():
    from cavity import GP
    from cavity.kernels import SE
    from cavity.likelihoods import Gaussian
    from cavity.means import Constant

    posterior = GP(0.7 * SE(0.4), Gaussian(0.1), mean=Constant(0.3)).condition(X[:, None], Y)
    expert = Expert(0.3, 0.4, 0.7, 0.1)
    new = posterior.predict_y([[0.3], [4.0]])
    mean, variance = expert.predict(X, Y, np.array([0.3, 4.0]))
    assert (mean, variance) == (pytest.approx(new.mean), pytest.approx(new.variance))
    assert expert.log_evidence(X, Y) == pytest.approx(posterior.log_evidence)


def test_reassignments_have_the_right_stationary_distribution():
    """With one width and fixed parameters labels of two points are: together, or apart."""
    rng = np.random.default_rng(0)
    x, y = np.array([0.0, 0.3]), np.array([0.0, 0.4])
    one = Expert(0.0, 1.0, 1.0, 0.05)
    sampler = Sampler(x, y, rng, width=0.5, concentration=0.7)
    sampler.drawn = lambda: one  # one expert is all the prior has
    sampler.experts = [one]
    together = np.empty(6000)
    for k in range(len(together)):
        for i in (0, 1):
            sampler._reassign(i)
        sampler._drop_empty()
        together[k] = sampler.labels[0] == sampler.labels[1]
    # p(same) = 1 / 1.7 a priori, whatever the distance: there is only one other point
    joint, apart = one.log_evidence(x, y), sum(one.log_evidence(x[i : i + 1], y[i : i + 1]) for i in (0, 1))
    expected = np.exp(joint) / (np.exp(joint) + 0.7 * np.exp(apart))
    blocks = together.reshape(60, -1).mean(axis=1)
    assert abs(together.mean() - expected) < 4 * blocks.std(ddof=1) / np.sqrt(60)


def test_densities_integrate_to_one_and_two_branches_are_told_apart():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 30)
    y = np.where(x < 0.5, -1.0, 1.0) + np.where(x < 0.5, 0.02, 0.4) * rng.standard_normal(30)
    sampler = Sampler(x, y, rng)
    for _ in range(15):
        sampler.sweep()
    levels = np.linspace(-12, 12, 4001)
    density = np.exp(sampler.log_density(np.array([0.2, 0.8]), np.tile(levels, (2, 1))))
    assert density.sum(axis=1) * (levels[1] - levels[0]) == pytest.approx([1.0, 1.0], abs=1e-3)
    mean = density @ levels / density.sum(axis=1)
    assert mean[0] == pytest.approx(-1.0, abs=0.15)
    assert mean[1] == pytest.approx(1.0, abs=0.5)
