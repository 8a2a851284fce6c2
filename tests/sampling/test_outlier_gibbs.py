"""The Gibbs sampler against enumeration, simulation-based calibration, and its own promises."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi2, multivariate_normal

from cavity import GP, Param, fixed
from cavity.inference.base import UnsupportedPairError
from cavity.kernels import SE
from cavity.likelihoods import MixtureOfGaussians, StudentT
from cavity.parameters.priors import Beta, LogNormal, Uniform
from cavity.sampling import outlier_gibbs as module
from cavity.sampling.diagnostics import mcse_mean
from cavity.sampling.mcmc import MCMC
from cavity.sampling.outlier_conditionals import GivenIndicators
from cavity.sampling.outlier_gibbs import gibbs


def small_data(n=9, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 5, n))
    y = np.sin(x) + 0.1 * rng.standard_normal(n)
    y[n // 2] += 1.2
    return x[:, None], y


def test_indicators_and_function_against_enumeration():
    X, y = small_data()
    n, s, k, pi = len(y), 0.15, 8.0, 0.2
    K = 1.5 * np.exp(-0.5 * (X - X.T) ** 2 / 0.8**2)
    Xs = np.array([[1.0], [2.6]])
    cross = 1.5 * np.exp(-0.5 * (X - Xs.T) ** 2 / 0.8**2)
    weights, flags, means, seconds = [], [], [], []
    for c in itertools.product([False, True], repeat=n):
        c = np.array(c)
        A = K + np.diag(np.where(c, s * k, s) ** 2)
        weights.append(
            multivariate_normal.logpdf(y, np.zeros(n), A) + c.sum() * np.log(pi) + (~c).sum() * np.log1p(-pi)
        )
        mean = cross.T @ np.linalg.solve(A, y)
        means.append(mean)
        seconds.append(mean**2 + 1.5 - np.einsum("ij,ij->j", cross, np.linalg.solve(A, cross)))
        flags.append(c)
    p = np.exp(np.array(weights) - np.max(weights))
    p /= p.sum()
    exact_mean = p @ np.array(means)
    rule = MCMC(
        n_draws=1500, warmup=50, chains=2, rng=0, hyperparameters=False, max_draws=1500, progress=False
    )
    posterior = GP(1.5 * SE(0.8), MixtureOfGaussians(pi, s, k), inference=rule).condition(X, y)
    assert posterior.draws.method == "gibbs"
    np.testing.assert_allclose(posterior.outlier_probability, p @ np.array(flags), atol=0.02)
    means, variances = posterior.process.moments_of_draws(Xs)
    for drawn, exact in ((means, exact_mean), (variances + means**2, p @ np.array(seconds))):
        error = mcse_mean(drawn.reshape(2, 750, 2))
        assert np.all(error < 0.02)
        assert np.all(np.abs(drawn.mean(axis=0) - exact) < 4 * error)
    # what the posterior reports is made of these
    np.testing.assert_allclose(posterior.mean(Xs), means.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(posterior.variance(Xs), variances.mean(axis=0) + means.var(axis=0), rtol=1e-10)


def prior_model():
    return GP(
        fixed(1.0) * SE(fixed(1.0)),
        MixtureOfGaussians(
            Param(0.2, prior=Beta(2.0, 6.0)),
            Param(0.3, prior=LogNormal(-1.2, 0.4)),
            Param(6.0, prior=LogNormal(1.8, 0.3)),
        ),
    )


def test_gradient_given_indicators():
    X, y = small_data(12)
    model = GP(
        Param(1.0, prior=LogNormal(0, 1)) * SE(Param(1.0, prior=LogNormal(0, 1))), prior_model().likelihood
    ).bind(1)
    moves = np.array([name.endswith("fraction") is False for name in model.names])
    target = GivenIndicators(model, X, y, moves)
    target.indicators = np.arange(12) % 3 == 0
    u = model.theta[moves] + 0.1
    value, gradient = target.value_and_gradient(u[None])
    h = 1e-5
    numeric = [
        (target.log_density((u + h * e)[None])[0] - target.log_density((u - h * e)[None])[0]) / (2 * h)
        for e in np.eye(len(u))
    ]
    assert np.isfinite(value).all()
    np.testing.assert_allclose(gradient[0], numeric, rtol=1e-6, atol=1e-6)
    assert target.log_density(np.full((1, len(u)), 1e4))[0] == -np.inf


def test_simulation_based_calibration():
    """Parameters drawn from the prior have uniform ranks among the posterior draws of their own data."""
    model, rng = prior_model().bind(1), np.random.default_rng(5)
    X = np.linspace(0, 4, 8)[:, None]
    bins, runs, kept = 5, 60, 9
    ranks = []
    for _ in range(runs):
        truth = model.draw_from_priors(rng)
        f = truth.sample_prior(X, 1, rng)[0]
        y = truth.likelihood.sample(f, rng)
        options = {"n_draws": kept * 4, "warmup": 24, "chains": 1, "leaps": 2, "progress": False}
        trace = gibbs(model.replace(truth.theta), X, y, rng=rng, **options).trace
        ranks.append((trace.thin(4).pooled < truth.theta).sum(axis=0))
    counts = np.stack([np.bincount(r * bins // (kept + 1), minlength=bins) for r in np.array(ranks).T])
    expected = runs / bins
    statistic = ((counts - expected) ** 2 / expected).sum(axis=1)
    assert np.all(statistic < chi2.ppf(1 - 0.001 / 3, bins - 1)), counts


def test_one_seed_and_any_number_of_processes():
    X, y = small_data()
    options = {"n_draws": 20, "warmup": 10, "chains": 2, "progress": False}  # more than one block of rounds
    one = gibbs(prior_model(), X, y, rng=3, **options)
    again = gibbs(prior_model(), X, y, rng=3, **options)
    parallel = gibbs(prior_model(), X, y, rng=3, n_jobs=2, **options)
    for other in (again, parallel):
        np.testing.assert_array_equal(one.trace.positions, other.trace.positions)
        np.testing.assert_array_equal(one.indicators, other.indicators)
        np.testing.assert_allclose(one.probability, other.probability, rtol=1e-12)
    other = gibbs(prior_model(), X, y, rng=4, **options)
    assert not np.array_equal(one.trace.positions, other.trace.positions)


def test_outlier_component_is_the_wider_one():
    X, y = small_data()
    trace = gibbs(prior_model(), X, y, n_draws=30, warmup=10, chains=1, rng=0, progress=False).trace
    inflation = 1 + np.exp(trace.positions[:, :, -1])
    assert np.all(inflation > 1)
    assert trace.names[-1] == "mixtureofgaussians.inflation"


def test_fraction_with_a_prior_that_is_not_conjugate(monkeypatch):
    """All indicators held at zero: the posterior of the fraction is its prior times (1 - pi)^n."""
    low, high, n = 0.1, 0.4, 9
    X, y = small_data(n)
    model = GP(
        fixed(1.0) * SE(fixed(1.0)),
        MixtureOfGaussians(Param(0.2, prior=Uniform(low, high)), fixed(0.3), fixed(5.0)),
    )

    def nothing(self, rng, fraction, sweeps):
        self.c[:] = False
        return 0

    monkeypatch.setattr(module.Indicators, "update", nothing)
    trace = gibbs(model, X, y, n_draws=800, warmup=10, chains=2, rng=0, progress=False).trace
    pi = 1 / (1 + np.exp(-trace.pooled[:, 0]))
    grid = np.linspace(low, high, 20001)
    density = (1 - grid) ** n
    exact = (grid * density).sum() / density.sum()
    assert abs(pi.mean() - exact) < 0.01
    assert low < pi.min() < pi.max() < high


def test_interrupt_keeps_draws():
    X, y = small_data()

    def stop(done, total):
        if done == 25:
            raise KeyboardInterrupt

    found = gibbs(prior_model(), X, y, n_draws=50, warmup=10, chains=2, rng=0, progress=stop)
    assert found.trace.interrupted
    assert found.trace.draws == 15
    assert found.indicators.shape == found.noise.shape == (2, 15, len(y))


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
import numpy as np
from cavity import GP
from cavity.sampling.outlier_gibbs import gibbs
from cavity.kernels import SE
from cavity.likelihoods import MixtureOfGaussians

X = np.linspace(0, 6, 20)[:, None]
def report(done, total):
    if done == 20:
        print("sampling", flush=True)
model = GP(1.0 * SE(1.0), MixtureOfGaussians(0.1, 0.1, 20.0))
found = gibbs(model, X, np.sin(X[:, 0]), n_draws=10**6, warmup=5, chains=2, rng=0, n_jobs=2, progress=report)
drawn = found.trace.draws
print(found.trace.interrupted, drawn, found.indicators.shape == (2, drawn, 20))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of process groups")
def test_interrupt_keeps_draws_of_processes():
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            assert run.stdout.readline() == "sampling\n"
            os.killpg(run.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
            interrupted, draws, consistent = run.stdout.readline().split()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    assert interrupted == consistent == "True"
    assert 0 < int(draws) < 10**6


def test_refusals():
    X, y = small_data()
    with pytest.raises(UnsupportedPairError, match="MixtureOfGaussians"):
        gibbs(GP(SE(1.0), StudentT()), X, y)
    copied = MixtureOfGaussians(Param(0.2, tie="a"), Param(0.2, tie="a"), 5.0)
    with pytest.raises(ValueError, match="tied"):
        gibbs(GP(SE(fixed(1.0)), copied), X, y)
