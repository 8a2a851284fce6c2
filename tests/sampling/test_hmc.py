"""Samplers against distributions known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.parameters.priors import Normal
from cavity.runtime.progress import Progress
from cavity.sampling.adaptation import Acceptance, DualAveraging, Scales, windows
from cavity.sampling.diagnostics import ess_bulk, mcse_mean, mcse_sd, rhat
from cavity.sampling.elliptical_slice import elliptical_slice_sampling
from cavity.sampling.hmc import ChainState, HMCOptions, hamiltonian, leapfrog
from cavity.sampling.importance_sampling import importance
from cavity.sampling.metropolis_hastings import metropolis
from cavity.sampling.targets import FunctionTarget
from cavity.sampling.trace import Recorder, Trace, Until, as_chains


def normal_target(mean, covariance, names=()):
    P = np.linalg.inv(covariance)

    def function(U):
        G = -(U - mean) @ P
        return 0.5 * np.einsum("ij,ij->i", U - mean, G), G

    return FunctionTarget(function, len(mean), names)


MEAN = np.array([1.0, -2.0, 0.5])
SPREAD = np.array([1.0, 10.0, 0.1])
CORRELATION = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 1.0]])
COVARIANCE = SPREAD[:, None] * CORRELATION * SPREAD
TARGET = normal_target(MEAN, COVARIANCE, ("a", "b", "c"))


def check_normal(trace, mean, covariance):
    """Means and standard deviations within four Monte Carlo errors, correlations close."""
    x = trace.positions
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(x.mean((0, 1)) - mean) < 4 * mcse_mean(x))
    assert np.all(np.abs(x.std((0, 1)) - sd) < 4 * mcse_sd(x) + 1e-3 * sd)
    correlation = np.corrcoef(trace.pooled.T)
    assert np.abs(correlation - covariance / np.outer(sd, sd)).max() < 5 / np.sqrt(ess_bulk(x).min())


@pytest.mark.parametrize("options", [{}, {"steps": 8}, {"length": 2.0}, {"center": MEAN}], ids=str)
def test_hmc_on_a_correlated_normal(options):
    start = MEAN + 3 * SPREAD * np.random.default_rng(1).standard_normal((4, 3))
    trace = hamiltonian(TARGET, start, HMCOptions(**options), n_draws=1500, warmup=400, rng=2, progress=False)
    assert trace.positions.shape == (4, 1500, 3)
    assert ess_bulk(trace.positions).min() > 600
    assert rhat(trace.positions).max() < 1.01
    assert trace.divergences.sum() == 0
    assert np.all((trace.acceptance > 0.6) & (trace.acceptance < 0.99))
    check_normal(trace, MEAN, COVARIANCE)
    # Steps are in proportion to the scales of the target, to what a window can tell.
    step = trace.step_size / SPREAD
    np.testing.assert_allclose(step, np.exp(np.mean(np.log(step))), rtol=0.35)
    np.testing.assert_allclose(trace.log_density, TARGET.log_density(trace.pooled).reshape(4, 1500))


def test_metropolis_on_a_correlated_normal():
    start = MEAN + SPREAD * np.random.default_rng(1).standard_normal((8, 3))
    trace = metropolis(TARGET, start, n_draws=6000, warmup=1000, rng=3, progress=False)
    assert ess_bulk(trace.positions).min() > 400
    assert np.all((trace.acceptance > 0.1) & (trace.acceptance < 0.6))
    check_normal(trace, MEAN, COVARIANCE)


def test_elliptical_slice_on_a_normal_likelihood():
    """Prior N(0, diag(s^2)) times N(b | u, V): posterior in closed form."""
    s = np.array([1.0, 2.0, 0.5])
    V = np.array([[1.0, 0.6, 0.0], [0.6, 0.8, 0.1], [0.0, 0.1, 0.3]])
    b = np.array([1.0, -1.0, 0.5])
    cov = np.linalg.inv(np.diag(1 / s**2) + np.linalg.inv(V))
    mean = cov @ np.linalg.solve(V, b)
    likelihood = normal_target(b, V)
    trace = elliptical_slice_sampling(
        likelihood.log_density, np.zeros((4, 3)), n_draws=3000, warmup=50, rng=4, scale=s, progress=False
    )
    check_normal(trace, mean, cov)
    expected = likelihood.log_density(trace.pooled) - 0.5 * ((trace.pooled / s) ** 2).sum(axis=1)
    np.testing.assert_allclose(trace.log_density.ravel(), expected)


def test_elliptical_slice_thinning_makes_draws_less_correlated():
    likelihood = normal_target(np.ones(2), 0.01 * np.eye(2))
    one, five = (
        elliptical_slice_sampling(
            likelihood.log_density, np.ones((4, 2)), n_draws=300, rng=5, thin=k, progress=False
        )
        for k in (1, 5)
    )
    assert ess_bulk(five.positions).min() > 2 * ess_bulk(one.positions).min()
    assert five.evaluations > 3 * one.evaluations


def test_importance_sampling_finds_mass_mean_and_its_own_error():
    q = Normal(0.0, 2.0)
    errors = []
    for seed in range(30):
        found = importance(
            lambda x: 3.0 - 0.5 * (x[:, 0] - 1.0) ** 2,
            lambda rng, size: q.sample(rng, (size, 1)),
            lambda x: q.log_density(x[:, 0]),
            size=2000,
            rng=seed,
        )
        errors.append((found.log_evidence - 3.0 - 0.5 * np.log(2 * np.pi)) / found.log_evidence_error)
    assert abs(np.mean(errors)) < 4 / np.sqrt(30)
    assert 0.6 < np.std(errors) < 1.5
    assert abs(found.mean()[0] - 1.0) < 0.15
    assert abs(found.mean(lambda x: x[:, 0] ** 2) - 2.0) < 0.4
    assert 200 < found.effective_draws < 2000
    assert np.isclose(found.weights.sum(), 1.0)


def test_leapfrog_is_reversible_and_of_second_order():
    rng = np.random.default_rng(0)
    state = ChainState.at(TARGET, MEAN + SPREAD * rng.standard_normal((2, 3)))
    q = rng.standard_normal((2, 3))
    end, p = leapfrog(TARGET, state, q, 0.1 * SPREAD, 7)
    back, r = leapfrog(TARGET, end, -p, 0.1 * SPREAD, 7)
    np.testing.assert_allclose(back.position, state.position, atol=1e-10)
    np.testing.assert_allclose(r, -q, atol=1e-10)

    def energy_error(step, count):
        end, p = leapfrog(TARGET, state, q, step * SPREAD, count)
        H0 = 0.5 * (q**2).sum(1) - state.log_density
        return np.abs(0.5 * (p**2).sum(1) - end.log_density - H0).max()

    assert 3.0 < energy_error(0.1, 10) / energy_error(0.05, 20) < 5.0


def test_rotations_of_the_exact_reference_make_independent_draws():
    sd = np.array([0.1, 3.0])
    target = normal_target(np.array([5.0, -7.0]), np.diag(sd**2))
    trace = hamiltonian(
        target, np.tile([5.0, -7.0], (2, 1)),
        HMCOptions(step=np.pi / 2, scale=sd, center=[5.0, -7.0], jitter=0.0),
        n_draws=1000, warmup=0, rng=1, progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(trace.acceptance, 1.0, atol=1e-9)
    assert trace.evaluations == 2 * 1000
    assert np.all(np.abs((trace.pooled - [5.0, -7.0]).mean(0)) < 4 * sd / np.sqrt(2000))
    np.testing.assert_allclose(trace.pooled.std(0), sd, rtol=0.06)


# --- divergences, support -----------------------------------------------------------------------------------


def funnel(U):
    """v ~ N(0, 9), x_i ~ N(0, exp(v))."""
    v, x = U[:, 0], U[:, 1:]
    value = -(v**2) / 18 - 0.5 * (x**2).sum(1) * np.exp(-v) - 0.5 * x.shape[1] * v
    dv = -v / 9 + 0.5 * (x**2).sum(1) * np.exp(-v) - 0.5 * x.shape[1]
    return value, np.column_stack([dv, -x * np.exp(-v)[:, None]])


def test_divergences_are_counted_on_a_funnel_and_not_on_a_normal():
    start = np.random.default_rng(0).standard_normal((4, 10))
    trace = hamiltonian(
        FunctionTarget(funnel, 10),
        start,
        HMCOptions(steps=10),
        n_draws=400,
        warmup=150,
        rng=1,
        progress=False,
    )
    assert trace.divergences.sum() > 0
    smooth = hamiltonian(
        FunctionTarget(lambda U: (-0.5 * (U**2).sum(1), -U), 10), start, n_draws=600, warmup=300, rng=1,
        progress=False,
    )  # fmt: skip
    assert smooth.divergences.sum() == 0


def test_a_chain_never_leaves_the_support():
    """Exponential density on x > 0: -inf elsewhere."""

    def function(U):
        with np.errstate(invalid="ignore"):
            return np.where(U[:, 0] > 0, -U[:, 0], np.nan), -np.ones_like(U)

    target = FunctionTarget(function, 1)
    assert target.value_and_gradient(np.array([[-1.0]]))[0][0] == -np.inf
    assert target.value_and_gradient(np.array([[-1.0]]))[1][0, 0] == 0.0
    for sample, options in ((hamiltonian, [HMCOptions(steps=4)]), (metropolis, [])):
        trace = sample(target, np.ones((4, 1)), *options, n_draws=1500, warmup=200, rng=1, progress=False)
        assert trace.positions.min() > 0
        assert abs(trace.pooled.mean() - 1.0) < 5 * float(mcse_mean(trace.positions)[0])


# --- reproducible, interruptible ----------------------------------------------------------------------------

SAMPLERS = {
    "hmc": lambda **k: hamiltonian(TARGET, np.tile(MEAN, (2, 1)), **k),
    "metropolis": lambda **k: metropolis(TARGET, np.tile(MEAN, (2, 1)), **k),
    "elliptical": lambda **k: elliptical_slice_sampling(TARGET.log_density, np.tile(MEAN, (2, 1)), **k),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_one_seed_gives_one_result(name):
    first, again, other = (SAMPLERS[name](n_draws=40, warmup=30, rng=s, progress=False) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.positions, again.positions)
    assert not np.array_equal(first.positions, other.positions)
    assert not np.array_equal(first.positions[0], first.positions[1])


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_interrupt_keeps_what_was_drawn(name):
    full = SAMPLERS[name](n_draws=50, warmup=20, rng=1, progress=False)

    def stop(done, total):
        assert total == 70
        if done == 35:
            raise KeyboardInterrupt

    part = SAMPLERS[name](n_draws=50, warmup=20, rng=1, progress=stop)
    assert part.interrupted
    assert not full.interrupted
    assert part.draws == 15
    np.testing.assert_array_equal(part.positions, full.positions[:, :15])

    def at_once(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # nothing was drawn: nothing to keep
        SAMPLERS[name](n_draws=50, warmup=20, rng=1, progress=at_once)


def test_draws_double_until_they_are_enough():
    asked = []

    def never(trace):
        asked.append(trace.draws)
        return False

    recorder = Recorder("test", 2, 1, 10, 5, False, Until(50, never))
    with recorder:
        for t in recorder:
            if t >= 5:
                recorder.add(np.full((2, 1), t), np.zeros(2))
    assert asked == [10, 20, 40]
    np.testing.assert_array_equal(recorder.trace().positions[1, :, 0], np.arange(5, 55))

    once = Recorder("test", 2, 1, 10, 0, False, Until(50, lambda trace: trace.draws >= 20))
    with once:
        for _ in once:
            once.add(np.zeros((2, 1)), np.zeros(2))
    assert once.trace().draws == 20


def test_progress_of_a_run_that_goes_on():
    seen = []
    recorder = Recorder("test", 1, 1, 4, 0, lambda *at: seen.append(at), Until(8, lambda trace: False))
    with recorder:
        for _ in recorder:
            recorder.add(np.zeros((1, 1)), np.zeros(1))
    assert seen == [(i, 4) for i in range(1, 5)] + [(i, 8) for i in range(5, 9)]


@pytest.mark.parametrize("name", ["hmc", "elliptical"])
def test_a_run_that_went_on_is_the_longer_run(name):
    """Draw by draw, because nothing is adapted after warm-up."""
    whole = SAMPLERS[name](n_draws=160, warmup=40, rng=5, progress=False)
    grown = SAMPLERS[name](
        n_draws=40, warmup=40, rng=5, progress=False, until=Until(160, lambda trace: trace.draws >= 160)
    )
    np.testing.assert_array_equal(grown.positions, whole.positions)
    np.testing.assert_array_equal(grown.acceptance, whole.acceptance)


def test_a_shared_progress_counts_all_transitions():
    bar = Progress("both", 140, show=False)
    for seed in (1, 2):
        hamiltonian(TARGET, np.tile(MEAN, (2, 1)), n_draws=50, warmup=20, rng=seed, progress=bar)
    assert bar.done == 140


# --- pieces -------------------------------------------------------------------------------------------------


def test_dual_averaging_finds_the_step_of_a_known_curve():
    adapt = DualAveraging(1.0, 0.8)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        adapt.update(np.exp(-adapt.step) + 0.02 * rng.standard_normal())
    assert abs(adapt.average + np.log(0.8)) < 0.03


def test_a_stuck_chain_is_heeded():
    rates = Acceptance(4, 0.8)
    for _ in range(40):
        found = rates.rate(np.array([1.0, 1.0, 1.0, 0.0]))
    assert found == 0.0
    assert Acceptance(4, 0.8).rate(np.array([1.0, 1.0, 1.0, 0.0])) == 0.75


def test_scales_are_those_of_all_draws_with_ten_draws_of_the_old_ones():
    x = np.random.default_rng(0).normal(3.0, [0.1, 5.0], (50, 4, 2))
    scales = Scales(2)
    for row in x:
        scales.add(row)
    flat = x.reshape(-1, 2)
    np.testing.assert_allclose(scales.mean, flat.mean(0))
    scales.learn()
    np.testing.assert_allclose(scales.scale**2, (flat.var(0) * 200 + 10.0) / 210)


@pytest.mark.parametrize("warmup", [0, 5, 20, 50, 150, 1000])
def test_windows_increase_and_end_before_warmup_does(warmup):
    first, ends = windows(warmup)
    marks = [first, *ends]
    assert marks == sorted(set(marks))
    assert marks[-1] <= warmup
    if ends:
        assert warmup - ends[-1] >= 5


def test_a_trace_thins_maps_and_looks_up_names():
    x = np.arange(24.0).reshape(2, 4, 3)
    trace = Trace(x, np.zeros((2, 4)), names=("a", "b", "c"))
    np.testing.assert_array_equal(trace["b"], x[:, :, 1])
    np.testing.assert_array_equal(trace.thin(2, discard=1).positions, x[:, 1::2])
    np.testing.assert_array_equal(trace.last, x[:, -1])
    doubled = trace.map(lambda U: 2 * U[:, :2], names=("p", "q"), rows=3)
    np.testing.assert_array_equal(doubled.positions, 2 * x[:, :, :2])
    assert doubled.names == ("p", "q")
    with pytest.raises(KeyError, match="there are: a, b, c"):
        trace["z"]
    with pytest.raises(ValueError, match="every must be"):
        trace.thin(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be"),
        ({"steps": 3, "length": 1.0}, "not both"),
        ({"length": -1.0}, "length must be"),
        ({"jitter": 2.0}, "jitter must be"),
        ({"target_acceptance": 1.0}, "target_acceptance must lie strictly between"),
        ({"step": 0.0}, "step must be"),
        ({"scale": [1.0, -1.0, 1.0]}, "scale must be"),
    ],
)
def test_options_of_hmc_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        hamiltonian(TARGET, np.zeros((2, 3)), HMCOptions(**options), rng=0)


def test_numbers_of_transitions_are_checked():
    with pytest.raises(ValueError, match="n_draws must be"):
        hamiltonian(TARGET, np.zeros((2, 3)), n_draws=0)
    with pytest.raises(ValueError, match="warmup must be"):
        hamiltonian(TARGET, np.zeros((2, 3)), warmup=-1)


def test_starts_are_checked():
    with pytest.raises(ValueError, match=r"shape \(chains, 3\)"):
        hamiltonian(TARGET, np.zeros((2, 4)))
    with pytest.raises(ValueError, match="must be finite"):
        as_chains([[np.nan]])
    nowhere = FunctionTarget(lambda U: (np.full(len(U), np.nan), U), 2)
    for sample in (hamiltonian, metropolis):
        with pytest.raises(ValueError, match="start of chain 0 has no density"):
            sample(nowhere, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="likelihood zero"):
        elliptical_slice_sampling(nowhere.log_density, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="thin must be"):
        elliptical_slice_sampling(TARGET.log_density, np.zeros((2, 3)), thin=0)
    with pytest.raises(ValueError, match="no draw of the proposal"):
        importance(nowhere, lambda r, s: np.zeros((s, 2)), lambda x: np.zeros(len(x)), size=10)
    with pytest.raises(ValueError, match="size must be"):
        importance(nowhere, lambda r, s: np.zeros((s, 2)), lambda x: np.zeros(len(x)), size=0)
