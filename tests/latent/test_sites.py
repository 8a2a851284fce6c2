"""Sites are checked natural parameters."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.latent.sites import Sites


def test_observations_become_sites():
    sites = Sites.of_observations(np.array([1.0, -2.0]), np.array([0.5, 4.0]))
    np.testing.assert_allclose(sites.precision, [2.0, 0.25])
    np.testing.assert_allclose(sites.shift, [2.0, -0.5])
    np.testing.assert_allclose(Sites.of_observations(np.array([3.0, 6.0]), np.array(3.0)).shift, [1.0, 2.0])
    assert len(sites) == 2


def test_empty_sites_say_nothing():
    sites = Sites.zero(3)
    assert not sites.shift.any()
    assert not sites.precision.any()


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"as many shifts as precisions, got \(2,\) and \(3,\)"):
        Sites(np.zeros(2), np.zeros(3))
