"""Sums over pairs weighted by a matrix, by every way they are made, against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.kernels.distances import second_moments


@pytest.mark.parametrize("columns", [1, 2, 3, 8])
@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize("weights", ["all", "few", "none"])
def test_second_moments(columns: int, size: float, weights: str) -> None:
    """Few weights and large coordinates: a covariance of points that are far from each other."""
    rng = np.random.default_rng(columns)
    za, zb = size * rng.standard_normal((20, columns)), size * rng.standard_normal((30, columns))
    H = rng.standard_normal((20, 30))
    if weights != "all":
        H[rng.random(H.shape) > (0.05 if weights == "few" else -1.0)] = 0.0
    expected = np.einsum("ij,ijc->c", H, (za[:, None] - zb) ** 2)
    found = second_moments(za, zb, H.copy())
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * size**2)
