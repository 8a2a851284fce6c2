"""Modes of hyperparameters: where they are, jumps between them, and chains that know all of them."""

from __future__ import annotations

import numpy as np

from cavity import GP, Param
from cavity.kernels import SE
from cavity.learning.multistart import Learned
from cavity.learning.optimizer import Run
from cavity.learning.run_choice import choose
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Gaussian
from cavity.parameters.priors import LogNormal
from cavity.sampling import modes as module
from cavity.sampling.default_priors import unit_steps
from cavity.sampling.diagnostics import mcse_mean, rhat
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.mcmc import MCMC
from cavity.sampling.modes import HyperJumps, Modes, find_modes
from cavity.sampling.targets import FunctionTarget, HyperTarget


def test_a_jump_is_its_own_inverse():
    rng = np.random.default_rng(0)
    factor = np.array([[1.0, 0.0], [0.6, 0.5]])
    modes = Modes(np.array([[0.0, 0.0], [4.0, 1.0]]), factor)
    jumps = 0
    for theta in 3.0 * rng.standard_normal((200, 2)):
        there = modes.across(theta, rng)
        if there is not None:
            jumps += 1
            np.testing.assert_allclose(modes.across(there, rng), theta, atol=1e-12)
            assert modes.nearest(there) != modes.nearest(theta)
    assert jumps > 20


def test_each_of_several_places_is_as_likely_from_each():
    modes = Modes(np.array([[0.0], [10.0], [20.0]]), np.eye(1))
    rng = np.random.default_rng(0)
    for at in (0.3, 10.3, 20.3):
        found = np.array([modes.across(np.array([at]), rng)[0] for _ in range(400)])
        others = sorted({0.3, 10.3, 20.3} - {at})
        assert sorted({float(np.round(value, 6)) for value in found}) == others
        assert abs(np.mean(np.isclose(found, others[0])) - 0.5) < 4.5 * 0.5 / 20


WEIGHTS = np.array([0.2, 0.8])
CENTERS = np.array([[-6.0, 0.0], [6.0, 3.0]])
SCALES = np.array([1.0, 0.6])


def unequal_hills(U):
    """0.2 N(c_0, I) + 0.8 N(c_1, 0.36 I)."""
    off = (U[:, None] - CENTERS) / SCALES[:, None]
    logs = np.log(WEIGHTS) - 2 * np.log(SCALES) - 0.5 * np.sum(off**2, axis=2)
    value = np.logaddexp(*logs.T)
    share = np.exp(logs - value[:, None])
    return value, -np.einsum("ck,ckd->cd", share, off / SCALES[:, None])


def test_jumps_give_hills_their_shares():
    target = FunctionTarget(unequal_hills, dim=2)
    places = Modes(CENTERS + 0.3, 0.8 * np.eye(2))  # only roughly known
    start = CENTERS[[0, 1, 0, 1]]
    common = {"draws": 800, "warmup": 200, "rng": 0, "progress": False}
    divided = hamiltonian(target, start, **common)
    assert np.all(rhat(divided.positions) > 1.5)
    jumps = HyperJumps(places, target)
    joined = hamiltonian(target, start, between=jumps, **common)
    assert 100 < jumps.accepted < jumps.attempts < 4 * 1000
    assert np.all(rhat(joined.positions) < 1.05)
    for value, truth in ((joined.positions[:, :, 0] > 0, 0.8), (joined.positions[:, :, 1], 2.4)):
        drawn = value.astype(float)
        assert abs(drawn.mean() - truth) < 4.5 * float(mcse_mean(drawn))


def two_ways_to_read_it():
    """Seven points that are a smooth function with noise, or a wiggly one without (GPML, figure 5.5)."""
    X = np.array([-5.0, -3.6, -2.2, -0.3, 1.2, 3.0, 4.6])[:, None]
    y = np.array([-1.3, 0.6, -1.0, 0.3, 1.6, 0.2, 1.5])
    length = Param(1.0, prior=LogNormal(0.5, 1.2))
    noise = Param(0.1, prior=LogNormal(-2.5, 1.8))
    return X, y, GP(Param(1.0, fixed=True) * SE(length), Gaussian(noise), "zero")


def on_a_grid(X, y, model):
    """log l, log noise variance and their posterior probabilities, from matrices of our own."""
    a, b = np.meshgrid(np.linspace(-5, 6, 111), np.linspace(-16, 4, 121), indexing="ij")
    noise = (np.exp(b) + 1e-10)[:, :, None, None] * np.eye(len(y))
    L = np.linalg.cholesky(np.exp(-0.5 * (X - X.T) ** 2 / np.exp(2 * a)[:, :, None, None]) + noise)
    z = np.linalg.solve(L, np.broadcast_to(y[:, None], (*a.shape, len(y), 1)))[..., 0]
    logs = -0.5 * np.sum(z**2, axis=2) - np.sum(np.log(np.diagonal(L, axis1=2, axis2=3)), axis=2)
    logs += -0.5 * ((a - 0.5) / 1.2) ** 2 - 0.5 * ((b + 2.5) / 1.8) ** 2
    p = np.exp(logs - logs.max())
    return a, b, p / p.sum(), logs


def test_modes_uphill_from_ends_and_chains_that_know_them():
    X, y, model = two_ways_to_read_it()
    a, b, p, logs = on_a_grid(X, y, model)
    inner = logs[1:-1, 1:-1]
    around = [
        logs[1 + i : logs.shape[0] - 1 + i, 1 + j : logs.shape[1] - 1 + j]
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
    ]
    peaks = np.argwhere(inner >= np.max(around, axis=0)) + 1
    truth = sorted((a[tuple(k)], b[tuple(k)]) for k in peaks)
    assert len(truth) == 2  # or the example would not be one

    target = HyperTarget(model, X, y)
    ends = [np.array([0.0, -4.0]), np.array([1.5, -1.0]), np.array([1.4, -1.2])]
    found = find_modes(target, ends, unit_steps(target.model, X, y))
    assert found is not None
    assert len(found) == 2
    np.testing.assert_allclose(sorted(map(tuple, found.places)), truth, atol=0.12)
    assert find_modes(target, ends[1:], unit_steps(target.model, X, y)) is None

    rule = MCMC(draws=250, warmup=100, chains=4, seed=0, warn=False, progress=False)
    posterior = rule.sample_posterior(model, X, y, ends=ends)
    assert posterior.trace.info["modes"] == 2
    assert posterior.trace.info["jumps"] > 10
    for drawn, exact in (
        (posterior.trace.positions[:, :, 0], np.sum(p * a)),
        (posterior.trace.positions[:, :, 1], np.sum(p * b)),
        ((posterior.trace.positions[:, :, 0] > 0.8).astype(float), np.sum(p[a > 0.8])),
    ):
        assert abs(drawn.mean() - exact) < 4.5 * float(mcse_mean(drawn))
    assert posterior.status.residual < 1.1


def test_ends_at_a_bound_and_ends_without_a_density():
    X, y, model = two_ways_to_read_it()
    edge = 0.3 + 1e-9
    bounded = Param(1.0, prior=LogNormal(0.5, 1.2), bounds=(edge, 50.0))
    target = HyperTarget(GP(Param(1.0, fixed=True) * SE(bounded), model.likelihood, "zero"), X, y)
    unit = np.array([0.7, 1.3])
    ends = [np.array([np.log(edge), -5.7]), np.array([1.5, -1.0])]
    found = find_modes(target, ends, unit)
    assert found is not None
    assert np.isfinite(target.log_density(found.places)).all()
    rule = MCMC(draws=5, warmup=5, chains=4, seed=0, warn=False, progress=False)
    drawn = rule.sample_posterior(target.model, X, y, ends=ends).trace
    assert np.isfinite(drawn.log_density).all()
    nowhere = FunctionTarget(lambda U: (np.full(len(U), -np.inf), np.zeros(U.shape)), dim=2)
    nowhere.model = target.model
    assert find_modes(nowhere, ends, unit) is None


def test_estimators_tell_their_samplers_where_runs_ended(monkeypatch):
    X, y, model = two_ways_to_read_it()
    rule = MCMC(draws=20, warmup=20, chains=2, seed=0, warn=False, progress=False)
    model = GP(model.kernel, model.likelihood, "zero", rule).bind(1)
    ends = [np.array([0.0, -4.0]), np.array([1.5, -1.0]), np.array([1.5, -1.001])]
    runs = [Run("random", end, end, value, True, 9, 0, "") for end, value in zip(ends, (-9.0, -8.0, -8.1))]
    seen = []

    def watched(target, ends, unit):
        seen.append(ends)
        return find_modes(target, ends, unit)

    monkeypatch.setattr(module, "find_modes", watched)
    rows = TrainingRows.of(X, y, None, merge=False, max_rows=None, rng=np.random.default_rng(0))
    choose(model, Learned(model.replace(ends[1]), -8.0, tuple(runs)), rows)
    np.testing.assert_array_equal(seen, [[ends[1], ends[0]]])  # the best first, none of them twice
    alone = MCMC(draws=20, warmup=20, hyperparameters=False, warn=False, progress=False)
    alone.sample_posterior(model, X, y, ends=ends)
    assert len(seen) == 1  # nothing to look for where hyperparameters keep their values
