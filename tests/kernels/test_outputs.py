"""Several outputs: golden values, the Kronecker form against the dense one, its gradient, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP
from cavity.inference import Kronecker
from cavity.kernels import SE, Convolved, Coregionalized
from cavity.likelihoods import Gaussian, KnownNoise, StudentT, Switch

W, KAPPA = np.array([[1.0], [0.8], [-0.5]]), np.array([0.1, 0.2, 0.3])
KERNEL = Coregionalized(SE(1.0), 3, loadings=W, variances=KAPPA)
ROWS = np.array([[0, 0.0], [1, 0.5], [0, 1.0], [2, 1.5], [1, 2.0], [0, 2.5], [2, 3.0]])
Y = np.array([0.2, 0.5, 0.9, -0.3, 0.6, 0.1, 0.4])
NOISE = {0: Gaussian(0.01), 1: Gaussian(0.04), 2: Gaussian(0.09)}


def test_golden_values_of_coregionalized_outputs() -> None:
    posterior = GP(KERNEL, Switch(NOISE, by=0)).condition(ROWS, Y)
    assert abs(posterior.log_evidence + 5.0394796098) < 1e-8
    at = np.array([[0, 1.2], [1, 1.2], [2, 1.2]])
    np.testing.assert_allclose(posterior.mean(at), [0.9293021481, 0.8095269844, -0.3606160044], atol=1e-8)
    np.testing.assert_allclose(posterior.variance(at), [0.0204919515, 0.0670255566, 0.0926791618], atol=1e-8)
    assert abs(posterior.covariance(at)[0, 1] - 0.0082024648) < 1e-8


def test_golden_value_of_robust_noise_by_ep() -> None:
    posterior = GP(KERNEL, StudentT(0.2, 4.0), inference="ep").condition(ROWS, Y)
    assert posterior.status.converged
    assert abs(posterior.log_evidence + 5.2319343661) < 1e-6


def test_golden_values_of_convolved_outputs() -> None:
    kernel = Convolved([0.5, 1.0, 2.0], [1.0, 0.7, -0.4])
    K = kernel(ROWS)
    np.testing.assert_allclose([K[0, 1], K[1, 3]], [0.7100248093, -0.5680198474], atol=1e-9)
    assert abs(GP(kernel, Switch(NOISE, by=0)).condition(ROWS, Y).log_evidence + 3.7249905309) < 1e-8


X3, Y3 = np.array([[0.0], [1.0], [2.0]]), np.array([[0.1, 0.2, -0.1], [0.5, 0.4, 0.0], [0.3, 0.9, -0.4]])
ACROSS = np.array([[0.05, 0.02, 0.0], [0.02, 0.08, -0.01], [0.0, -0.01, 0.06]])


def test_golden_values_of_the_kronecker_form() -> None:
    assert abs(Kronecker.of(KERNEL, np.full(3, 0.05), X3, Y3).log_evidence + 5.5944003908) < 1e-8
    assert abs(Kronecker.of(KERNEL, ACROSS, X3, Y3).log_evidence + 5.6511988951) < 1e-8


def test_kronecker_is_the_dense_model() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 2)), rng.standard_normal((12, 3))
    found = Kronecker.of(KERNEL, [0.1, 0.3, 0.2], X, Y)
    long = np.vstack([np.column_stack([np.full(12, o), X]) for o in range(3)])
    dense = GP(KERNEL, KnownNoise(np.repeat([0.1, 0.3, 0.2], 12))).condition(long, Y.T.ravel())
    assert abs(found.log_evidence - dense.log_evidence) < 1e-10
    at = rng.standard_normal((4, 2))
    new = np.vstack([np.column_stack([np.full(4, o), at]) for o in range(3)])
    np.testing.assert_allclose(found.mean(at), dense.mean(new).reshape(3, 4).T, atol=1e-10)
    cov = dense.covariance(new).reshape(3, 4, 3, 4)
    np.testing.assert_allclose(found.covariance(at), np.einsum("ambm->mab", cov), atol=1e-10)


@pytest.mark.parametrize("constants", [False, True])
def test_gradient_of_the_kronecker_form(constants: bool) -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((8, 2)), rng.standard_normal((8, 3)) + 2.0
    base = Kronecker.of(KERNEL, ACROSS, X, Y, constants=constants)
    of_K, of_B, of_noise = base.gradient()
    h = 1e-5

    def difference(make: object) -> float:
        return (make(h).log_evidence - make(-h).log_evidence) / (2 * h)

    direction = rng.standard_normal((3, 3))
    direction = direction + direction.T
    moved = difference(lambda t: Kronecker(SE(1.0), KERNEL.table + t * direction, ACROSS, X, Y, constants))
    assert abs(moved - np.sum(of_B * direction)) < 1e-7
    moved = difference(lambda t: Kronecker(SE(1.0), KERNEL.table, ACROSS + t * direction, X, Y, constants))
    assert abs(moved - np.sum(of_noise * direction)) < 1e-7 * abs(moved)
    moved = difference(lambda t: Kronecker(SE(np.exp(t)), KERNEL.table, ACROSS, X, Y, constants))
    assert abs(moved - SE(1.0).forward(X)[1](of_K)[0]) < 1e-7


def test_bad_outputs_are_named() -> None:
    with pytest.raises(ValueError, match="row 0 of output 1 is nan"):
        Kronecker.of(KERNEL, np.full(3, 0.05), X3, np.where(Y3 == 0.2, np.nan, Y3))
    with pytest.raises(ValueError, match="unknown level 3 at row 0"):
        KERNEL(np.array([[3.0, 0.0]]))
    with pytest.raises(ValueError, match="one number for each output"):
        Convolved([1.0, 2.0], [1.0])
