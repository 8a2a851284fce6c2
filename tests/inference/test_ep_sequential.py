"""Sequential EP and assumed-density filtering against golden values and the parallel rule."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.gp import GP
from cavity.inference.base import InferenceFailedError
from cavity.inference.ep import EP, SequentialEP
from cavity.inference.exact import Exact
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.likelihoods import Gaussian, Observations, Probit, StudentT
from cavity.means.functions import Constant
from tests.inference.variational_cases import inputs, likelihoods, targets

N = 9
NAMES = sorted(likelihoods(N))
GPC_X = np.array([-2, -1, 0.5, 1, 2.5])[:, None]
GPC_Y = np.array([-1.0, -1, 1, -1, 1])


def prior_of(X, mean=None):
    return DensePrior((1.5 * SE(1.0)).bind(X.shape[1]), X, mean)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_fixed_point_is_that_of_parallel_updates(name, weighted):
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    w = np.linspace(0.5, 2.0, N) if weighted else None
    mean = Constant(0.2)
    one = SequentialEP(tolerance=1e-8).infer(prior_of(X, mean), Observations(likelihood, y, w))
    all_at_once = EP(tolerance=1e-8).infer(prior_of(X, mean), Observations(likelihood, y, w))
    assert one.status.converged
    assert one.status.stage == "sequential ep"
    assert one.log_evidence == pytest.approx(all_at_once.log_evidence, abs=1e-7)
    np.testing.assert_allclose(one.sites.precision, all_at_once.sites.precision, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.sites.shift, all_at_once.sites.shift, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("order", "mean", "log_evidence"),
    [
        (slice(None), [-1.77752832, -1.41360780, -0.01190334, -0.14164855, 1.11662413], -4.27995712),
        (slice(None, None, -1), [-1.77207277, -1.40145919, 0.16192545, 0.03452468, 1.13362823], -4.28026468),
    ],
)
def test_golden_assumed_density_filtering(order, mean, log_evidence):
    X, y = GPC_X[order], GPC_Y[order]
    found = GP(4.0 * SE(1.0), Probit(), inference=SequentialEP(adf=True)).condition(X, y)
    np.testing.assert_allclose(found.mean(GPC_X), mean, atol=1e-8)
    assert found.log_evidence == pytest.approx(log_evidence, abs=1e-8)


def test_assumed_density_filtering_says_that_it_is_no_fixed_point():
    status = GP(4.0 * SE(1.0), Probit(), inference=SequentialEP(adf=True)).condition(GPC_X, GPC_Y).status
    assert not status.converged
    assert status.stage == "adf"
    assert status.iterations == 1
    assert status.residual > 1e-3
    assert "order of the data" in status.message
    with pytest.raises(InferenceFailedError):
        GP(4.0 * SE(1.0), Probit(), inference=SequentialEP(adf=True)).evidence(GPC_X, GPC_Y)


def test_assumed_density_filtering_is_exact_for_gaussian_noise():
    X, y = inputs(N), targets("real", N)
    found = SequentialEP(adf=True).infer(prior_of(X), Observations(Gaussian(0.3), y))
    exact = Exact().infer(prior_of(X), Observations(Gaussian(0.3), y))
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)
    assert found.status.converged  # one pass is a fixed point here, and the moments show it


def test_golden_fixed_point():
    gp = GP(4.0 * SE(1.0), Probit(), inference=SequentialEP(tolerance=1e-11))
    found = gp.condition(GPC_X, GPC_Y)
    assert found.log_evidence == pytest.approx(-4.276611655, abs=1e-9)
    assert found.status.iterations <= 9  # the reference needs 8 sweeps to 1e-13


def test_evidence_and_gradient_are_those_of_the_parallel_rule():
    X, y = inputs(N), targets("real", N)
    likelihood = StudentT(0.3, 3.0)
    value, gradient, _ = SequentialEP(tolerance=1e-9).evidence(prior_of(X), Observations(likelihood, y))
    other, reference, _ = EP(tolerance=1e-9).evidence(prior_of(X), Observations(likelihood, y))
    assert value == pytest.approx(other, abs=1e-8)
    np.testing.assert_allclose(gradient.flat, reference.flat, rtol=1e-6, atol=1e-7)


def test_damping_changes_the_number_of_sweeps_alone():
    X, y = inputs(N), targets("real", N)
    full = SequentialEP().infer(prior_of(X), Observations(StudentT(0.3, 3.0), y))
    half = SequentialEP(damping=0.5).infer(prior_of(X), Observations(StudentT(0.3, 3.0), y))
    assert half.status.iterations > full.status.iterations
    assert half.log_evidence == pytest.approx(full.log_evidence, abs=1e-5)


def test_too_few_sweeps_is_an_error_that_names_the_remedy():
    X, y = inputs(N), targets("real", N)
    with pytest.raises(InferenceFailedError, match="did not converge in 2 sweeps; use inference='ep'"):
        SequentialEP(sweeps=2).infer(prior_of(X), Observations(StudentT(0.3, 3.0), y))
    with pytest.raises(InferenceFailedError, match="at these hyperparameters"):
        SequentialEP(sweeps=2).evidence(prior_of(X), Observations(StudentT(0.3, 3.0), y))


def test_repr_shows_the_options():
    assert repr(SequentialEP(adf=True)) == "SequentialEP(sweeps=100, damping=1.0, adf=True)"
