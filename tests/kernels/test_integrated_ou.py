"""The integrated Ornstein-Uhlenbeck process: double integrals, limits, state-space form against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad

from cavity import GP
from cavity.inference import EP
from cavity.kernels import Cosine, IntegratedOU, Linear, Matern, Wiener
from cavity.latent import Dense, Markov
from cavity.latent.base import Inputs
from cavity.likelihoods import Gaussian, StudentT

T = np.array([3.0, 0.2, 1.0, 1.0, 5.0, 40.0, 41.0, 7.0, 200.0, 1e-7, 8.0, 9.5, 10.0, 12.0])[:, None]


@pytest.mark.parametrize(("s", "t", "lengthscale"), [(1.0, 3.0, 2.0), (2.5, 2.5, 0.7), (0.1, 4.0, 30.0)])
def test_it_is_the_double_integral_of_an_exponential(s, t, lengthscale):
    below = dblquad(lambda u, v: np.exp(-(v - u) / lengthscale), 0, s, 0, lambda v: v)[0]
    beyond = dblquad(lambda u, v: np.exp(-(v - u) / lengthscale), s, t, 0, s)[0] if t > s else 0.0
    found = IntegratedOU(lengthscale, start=5.0)([[5.0 + s]], [[5.0 + t]])[0, 0]
    assert found == pytest.approx(2.0 * below + beyond, rel=1e-8)


def test_limits_are_a_line_and_a_wiener_process():
    t = np.array([[0.5], [1.0], [3.0]])
    np.testing.assert_allclose(IntegratedOU(1e9)(t), t * t.T, rtol=1e-8)
    np.testing.assert_allclose(IntegratedOU(1e-9)(t) / 2e-9, np.minimum(t, t.T), rtol=1e-8)


KERNELS = [
    IntegratedOU(2.0, start=-1.0),
    0.7 * IntegratedOU(0.05),
    1.3 * IntegratedOU(1e4, start=-3.0) + 0.5 * Wiener(-3.0),
    Linear(0.01) + 0.3 * IntegratedOU(5.0) + Matern(2.0, nu=1.5) * Cosine(7.0),
    0.3 * IntegratedOU(4.0, start=-1.0)
    + 0.1 * IntegratedOU(30.0, start=-2.0)
    + Wiener(-1.0) * Matern(3.0, nu=0.5),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_state_space_form_is_exact(kernel):
    rng = np.random.default_rng(0)
    U, g, v = rng.standard_normal((len(T), 2)), rng.standard_normal(len(T)), rng.uniform(0.1, 1.0, len(T))
    mine, dense = (form.prior(kernel.bind(1), None, Inputs(T)) for form in (Markov(), Dense()))
    np.testing.assert_allclose(mine.times(U), dense.times(U), rtol=1e-9, atol=1e-11)
    one, other = mine.observe(v), dense.observe(v)
    assert one.noisy_log_det == pytest.approx(other.noisy_log_det, rel=1e-10)
    weights = (U, U[:, ::-1].copy(), 0.7, g, g[::-1].copy())
    np.testing.assert_allclose(one.pull_prior(*weights).kernel, other.pull_prior(*weights).kernel, rtol=1e-7)


@pytest.mark.parametrize(("likelihood", "rule"), [(Gaussian(0.1), "exact"), (StudentT(0.3, 4.0), EP(1e-9))])
def test_evidence_and_its_gradient_equal_those_of_dense_matrices(likelihood, rule):
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0, 20, 60))[:, None]
    y = np.sin(0.5 * t[:, 0]) + 0.2 * rng.standard_normal(len(t))
    models = [GP(KERNELS[0], likelihood, inference=rule, representation=form) for form in ("markov", "dense")]
    (value, gradient), (same, slope) = (model.evidence(t, y) for model in models)
    assert value == pytest.approx(same, rel=1e-8)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-7)
    found = [model.condition(t, y) for model in models]
    new = np.array([[-0.5], [3.0], [25.0], [60.0]])
    np.testing.assert_allclose(found[0].mean(new), found[1].mean(new), atol=1e-8)
    np.testing.assert_allclose(found[0].variance(new), found[1].variance(new), rtol=1e-8)


def test_short_and_long_steps_keep_all_digits():
    """Variances gained over a step, from the closed form in fifty digits."""
    from mpmath import exp, mp, mpf

    mp.dps = 50
    for gap in (1e-9, 1e-3, 0.4, 0.999, 1.001, 30.0):
        x = mpf(gap)
        expected = 2 * (x - 1 + exp(-x))
        assert IntegratedOU(1.0)([[gap]])[0, 0] == pytest.approx(float(expected), rel=2e-15)
        prior = Markov().prior(IntegratedOU(1.0).bind(1), None, Inputs(np.array([[0.0], [gap]])))
        assert prior.diagonal[1] == pytest.approx(float(expected), rel=1e-14)


def test_what_it_refuses():
    with pytest.raises(ValueError, match=r"inputs must not lie before start=2.0, but row 1 is 1.5"):
        IntegratedOU(1.0, start=2.0)([[3.0], [1.5]])
    with pytest.raises(ValueError, match="lengthscale must be a single number"):
        IntegratedOU([1.0, 2.0])
    model = GP(IntegratedOU(1.0) * Cosine(3.0), Gaussian(0.1), representation="markov")
    with pytest.raises(ValueError, match="no exact state-space form"):
        model.condition([[0.0], [1.0]], [0.0, 1.0])
