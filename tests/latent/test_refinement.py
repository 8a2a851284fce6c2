"""The exact mean after a fit with inducing inputs, against the dense process."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, Inducing
from cavity.inference.base import UnsupportedPairError
from cavity.kernels import SE
from cavity.likelihoods import Gaussian, StudentT
from cavity.means import Basis
from cavity.runtime.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (250, 2))
Y = np.sin(2 * X[:, 0]) + np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(250)
NEW = RNG.uniform(0, 6, (20, 2))
KERNEL = 1.5 * SE([1.0, 1.5])


@pytest.mark.parametrize("kind", ["tight", "fitc", "dtc"])
@pytest.mark.parametrize("targets", [1, 2])
def test_means_are_exact_and_variances_stay(kind, targets):
    y = Y if targets == 1 else np.column_stack([Y, -2.0 * Y])
    weight = np.exp(RNG.standard_normal(250))
    exact = GP(KERNEL, Gaussian(0.01), 0.3).condition(X, y, weight)
    rough = GP(KERNEL, Gaussian(0.01), 0.3, representation=Inducing(15, kind)).condition(X, y, weight)
    better = rough.refine(tolerance=1e-9)
    assert np.abs(rough.mean(NEW) - exact.mean(NEW)).max() > 0.05
    np.testing.assert_allclose(better.mean(NEW), exact.mean(NEW), atol=1e-5)
    np.testing.assert_array_equal(better.variance(NEW), rough.variance(NEW))
    np.testing.assert_array_equal(better.covariance(NEW), rough.covariance(NEW))
    draws = better.sample(NEW, 2000, 0)
    np.testing.assert_allclose(draws.mean(axis=0), better.mean(NEW), atol=0.15)
    assert better.process.products >= 2


def test_more_inducing_inputs_need_fewer_products():
    used = [
        GP(KERNEL, Gaussian(0.01), representation=Inducing(m)).condition(X, Y).refine().process.products
        for m in (10, 60)
    ]
    assert used[1] < used[0]


def test_refusals():
    with pytest.raises(UnsupportedPairError, match="inducing inputs, got the representation 'dense'"):
        GP(KERNEL, Gaussian(0.01)).condition(X, Y).refine()
    sparse = {"representation": Inducing(10)}
    with pytest.raises(UnsupportedPairError, match="Gaussian noise"):
        GP(KERNEL, StudentT(0.1, 4.0), **sparse).condition(X, Y).refine()
    with pytest.raises(UnsupportedPairError, match="basis functions"):
        GP(KERNEL, Gaussian(0.01), Basis("linear"), **sparse).condition(X, Y).refine()
    with pytest.raises(InputError, match="exact mean was not reached"):
        GP(KERNEL, Gaussian(0.01), **sparse).condition(X, Y).refine(max_time=0.0)
