"""Signs of loadings that a model does not tell apart: flips leave the target as it is, and draws are shown with one."""

from __future__ import annotations

import numpy as np

from cavity import GP
from cavity.kernels import SE, Coregionalized
from cavity.likelihoods import Gaussian, StudentT, Switch
from cavity.sampling import FunctionTarget
from cavity.sampling.joint_target import JointTarget
from cavity.sampling.sign_flips import SignFlips

NAMES = ("categorical.loadings[0,0]", "categorical.loadings[0,1]", "categorical.loadings[1,0]",
         "categorical.loadings[1,1]", "se.lengthscale", "se.loadings[0,0]", "categorical_2.loadings[0,0]")  # fmt: skip


def test_columns_are_found_by_name() -> None:
    found = SignFlips.of(NAMES, FunctionTarget(lambda U: (U[:, 0], U), dim=9), offset=2)
    assert [at.tolist() for at in found.groups] == [[2, 4], [3, 5], [8]]
    assert SignFlips.of(NAMES[4:6], found.target) is None


def test_flips_leave_the_density_as_it_is() -> None:
    """Two points, with probabilities that a prior makes unequal: chains spend that share of their time at each."""
    target = FunctionTarget(lambda U: (0.8 * U[:, 0], np.full_like(U, 0.8)), dim=1)
    flips = SignFlips.of(("categorical.loadings[0,0]",), target)
    rng, U, counts = np.random.default_rng(0), np.ones((2000, 1)), []
    for _ in range(200):
        U = flips(U, rng)
        counts.append(np.mean(U > 0))
    expected = 1.0 / (1.0 + np.exp(-1.6))
    assert abs(np.mean(counts[40:]) - expected) < 4 * np.sqrt(expected * (1 - expected) / 2000 / 10)


def test_folded_draws_are_the_same_model() -> None:
    """Outputs under two kinds of noise: neither likelihood, nor latent values, nor the process know the sign."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 3, 8)
    rows = np.column_stack([np.arange(8) % 2, x])
    kernel = Coregionalized(SE(1.0), 2, loadings=[[0.9], [-0.7]], variances=[0.1, 0.2])
    noise = Switch({0: Gaussian(0.01), 1: StudentT(0.1, 4.0)}, by=0)
    target = JointTarget(GP(kernel, noise), rows, np.sin(x))
    flips = SignFlips.of(target.model.names, target, target.white_dim)
    U = target.start(3, rng, None, 0.1)
    turned = U.copy()
    turned[:, flips.groups[0]] *= -1.0
    np.testing.assert_allclose(target.latent(turned), target.latent(U), atol=1e-10)
    folded = flips.folded(turned)
    np.testing.assert_array_equal(folded, flips.folded(U))
    assert (folded[:, flips.groups[0][0]] > 0).all()
    assert (folded[:, flips.groups[0][1]] < 0).all()
    np.testing.assert_array_equal(
        np.delete(folded, flips.groups[0], axis=1), np.delete(U, flips.groups[0], axis=1)
    )
