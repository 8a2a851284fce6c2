"""Every inference rule runs on a representation it has never seen, and agrees with the dense one."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.gp import GP
from cavity.inference import EP, Exact, Laplace, Variational
from cavity.inference.ep import SequentialEP
from cavity.inference.variational import ScaleMixtureEM
from cavity.kernels import SE, Matern
from cavity.latent.base import CapabilityError
from cavity.likelihoods import Gaussian, KnownNoise, MixtureOfGaussians, Poisson, Probit, Softmax, StudentT
from cavity.likelihoods import Laplace as LaplaceNoise
from cavity.means import Basis, Constant
from tests.latent.naive import Naive

N = 25
RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(-3, 3, N))[:, None]
F = np.sin(2 * X[:, 0])
REAL = F + 0.2 * RNG.standard_normal(N)
OUTLIERS = REAL + 3.0 * (np.arange(N) % 7 == 3)
LABELS = np.where(F + 0.3 * RNG.standard_normal(N) > 0, 1.0, -1.0)
COUNTS = RNG.poisson(np.exp(F)).astype(float)
NEW = np.linspace(-4, 4, 9)[:, None]
KERNEL = 1.2 * SE(0.9) + 0.1 * Matern(2.0, nu=2.5)

CASES = {
    "exact": (Exact(), Gaussian(0.05), REAL, "constant"),
    "exact, known noise": (Exact(), KnownNoise(np.linspace(0.01, 0.2, N), 0.01), REAL, "zero"),
    "exact, basis": (Exact(), Gaussian(0.05), REAL, Basis("linear")),
    "laplace, probit": (Laplace(), Probit(), LABELS, Constant(0.2)),
    "laplace, student-t": (Laplace(), StudentT(0.2, 4.0), OUTLIERS, "zero"),
    "ep, probit": (EP(1e-9), Probit(), LABELS, Constant(0.2)),
    "ep, poisson": (EP(1e-9), Poisson(), COUNTS, "zero"),
    "ep, student-t": (EP(1e-9), StudentT(0.2, 4.0), OUTLIERS, "zero"),
    "ep, mixture": (EP(1e-9), MixtureOfGaussians(0.2, 0.1, 10.0), OUTLIERS, "zero"),
    "sequential ep": (SequentialEP(tolerance=1e-9), Probit(), LABELS, "zero"),
    "variational, probit": (Variational(1e-9), Probit(), LABELS, "zero"),
    "variational, student-t": (Variational(1e-9), StudentT(0.2, 4.0), OUTLIERS, "zero"),
    "scale-mixture em": (ScaleMixtureEM(1e-9), LaplaceNoise(0.2), OUTLIERS, "zero"),
}
WEIGHT = np.where(np.arange(N) % 5 == 0, 2.0, 1.0)


def pair(name, mean=None):
    rule, likelihood, y, usual = CASES[name]
    models = [
        GP(KERNEL, likelihood, usual if mean is None else mean, rule, representation)
        for representation in ("dense", Naive())
    ]
    return *models, y


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_posteriors_agree(name, weight):
    dense, naive, y = pair(name)
    mine, other = dense.condition(X, y, weight), naive.condition(X, y, weight)
    assert mine.status.converged
    assert other.status.stage is mine.status.stage
    assert other.log_evidence == pytest.approx(mine.log_evidence, abs=1e-8)
    np.testing.assert_allclose(other.mean(NEW), mine.mean(NEW), atol=1e-8)
    np.testing.assert_allclose(other.variance(NEW), mine.variance(NEW), atol=1e-8)
    if mine.approximation.q is not None:
        np.testing.assert_allclose(other.approximation.q.mean, mine.approximation.q.mean, atol=1e-8)
        np.testing.assert_allclose(other.approximation.q.var, mine.approximation.q.var, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_evidences_and_gradients_agree(name):
    dense, naive, y = pair(name)
    (value, gradient), (other, same) = dense.evidence(X, y), naive.evidence(X, y)
    assert other == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(same, gradient, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_leave_one_out_agrees(name):
    dense, naive, y = pair(name)
    mine, other = dense.leave_one_out(X, y), naive.leave_one_out(X, y)
    np.testing.assert_allclose(other.log_prob(y), mine.log_prob(y), atol=1e-8)


@pytest.mark.parametrize("name", ["exact", "exact, known noise", "exact, basis"])
def test_leave_one_out_learning_agrees(name):
    dense, naive, y = pair(name)
    (value, gradient), (other, same) = (m.leave_one_out_log_prob(X, y) for m in (dense, naive))
    assert other == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(same, gradient, atol=1e-8)


@pytest.mark.parametrize("name", ["exact", "laplace, probit", "ep, student-t", "variational, student-t"])
def test_learning_agrees(name):
    dense, naive, y = pair(name)
    mine, other = (m.learn(X, y, n_restarts=0, rng=0) for m in (dense, naive))
    # the optimizer ends once a step gains less than 1e-10 of the value: the last steps differ by rounding
    assert other.value == pytest.approx(mine.value, abs=1e-6)


def test_several_latent_functions_are_refused_by_name():
    with pytest.raises(CapabilityError, match="'naive' does not give several latent functions"):
        GP(KERNEL, Softmax(3), representation=Naive()).condition(X, np.arange(N) % 3)


def test_representations_by_name():
    assert GP(KERNEL).representation.name == "dense"
    with pytest.raises(
        ValueError, match=r"representation must be one of 'dense', .*, or an object, got 'sparse'"
    ):
        GP(KERNEL, representation="sparse")
