"""Compiled tilted moments in the cases that are hard for quadrature, against mpmath."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest

from cavity import likelihoods as lk

NODES = mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(5, 100)
"""48 Gauss-Legendre nodes and weights on [-1, 1]."""


def exact(log_p, mean, var, spots):
    """log Z of the normalized cavity, mean and central moments, by Gauss-Legendre between `spots` in mpmath."""
    mean, var = mp.mpf(mean), mp.mpf(var)
    spots = sorted({mp.mpf(s) for s in spots})
    f, w = [], []
    for a, b in itertools.pairwise(spots):
        for x, weight in NODES:
            f.append((a + b) / 2 + (b - a) / 2 * x)
            w.append((b - a) / 2 * weight * mp.exp(log_p(f[-1]) - (f[-1] - mean) ** 2 / (2 * var)))
    z = mp.fsum(w)
    first = mp.fdot(w, f) / z
    central = [mp.fsum(a * (x - first) ** k for a, x in zip(w, f)) / z for k in (2, 3, 4)]
    return mp.log(z / mp.sqrt(2 * mp.pi * var)), first, *central


def compare(tilted, truth, tolerance):
    log_z, mean, var, c3, c4 = (float(t) for t in truth)
    assert tilted.log_z_normalized[0] == pytest.approx(log_z, abs=tolerance * (1 + abs(log_z)))
    assert tilted.mean[0] == pytest.approx(mean, abs=tolerance * var**0.5)
    assert tilted.var[0] == pytest.approx(var, rel=tolerance)
    assert tilted.c3[0] == pytest.approx(c3, abs=tolerance * c4**0.75)
    assert tilted.c4[0] == pytest.approx(c4, rel=tolerance)


def around(center, width):
    steps = [0.0, *(10.0**k for k in np.arange(-1.0, 4.5, 0.5))]
    return [center + sign * k * width for k in steps for sign in (1, -1)]


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize(
    ("scale", "df", "mean", "var"),
    [
        (0.0015, 0.24, 0.3, 0.05),  # noise that has collapsed onto ties
        (0.0015, 0.24, 1e-4, 1e-8),
        (0.01, 0.1, 5.0, 2.0),
        (0.3, 0.8, 12.0, 4.0),  # two modes, an outlier of six cavity sd
        (0.1, 3.0, 4.0, 0.6),  # two modes of comparable mass
        (1.0, 4.0, 0.5, 1.0),
        (1.0, 200.0, 30.0, 9.0),
    ],
)
def test_student_t_with_few_degrees_of_freedom_and_far_outliers(scale, df, mean, var, power):
    with mp.workdps(30):
        s, nu = mp.mpf(scale), mp.mpf(df)
        constant = mp.log(mp.gamma((nu + 1) / 2) / (mp.gamma(nu / 2) * mp.sqrt(nu * mp.pi) * s))

        def log_p(f):
            return power * (constant - (nu + 1) / 2 * mp.log1p((f / s) ** 2 / nu))

        sd = var**0.5
        low, high = min(0.0, mean) - 15 * sd, max(0.0, mean) + 15 * sd
        spots = [x for x in [*around(0.0, scale), *around(mean, sd)] if low <= x <= high] + [low, high]
        truth = exact(log_p, mean, var, spots)
    cavity = np.zeros(1), np.array([mean / var]), np.array([1 / var])
    compare(lk.StudentT(scale, df).tilted(*cavity, power, order=4), truth, 1e-11)


def test_student_t_with_many_degrees_of_freedom_is_nearly_normal():
    # moments of a normal likelihood; what they differ by is of order 1/df
    y, m, v, df = np.array([0.3, -4.0]), np.array([0.1, 2.0]), np.array([0.5, 1e-3]), 1e9
    t = lk.StudentT(0.7, df).tilted(y, m / v, 1 / v, order=4)
    near = lk.Gaussian(0.49).tilted(y, m / v, 1 / v, order=4)
    np.testing.assert_allclose(t.log_z, near.log_z, rtol=1e-6)
    np.testing.assert_allclose(t.mean, near.mean, rtol=1e-6)
    np.testing.assert_allclose(t.c4, near.c4, rtol=1e-6)


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize(("shift", "precision"), [(0.7, 1.3), (0.2, 0.0), (0.4, -0.2), (-6.0, 2.0)])
def test_a_whole_power_of_two_normal_densities_is_a_mixture(count, shift, precision):
    # the integrand itself on dense panels, improper cavities included
    likelihood = lk.MixtureOfGaussians(0.2, 0.5, outlier_scale=2.0)
    x, w = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(-80, 80, 2001)
    f = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * x).ravel()
    w = (0.5 * np.diff(edges)[:, None] * w).ravel()
    y = np.array([0.3])

    def log_integral(flat):
        g = count * likelihood.with_flat(flat).log_prob(y, f) + shift * f - 0.5 * precision * f * f
        return np.log(np.sum(w * np.exp(g - g.max()))) + g.max(), w * np.exp(g - g.max())

    log_z, p = log_integral(likelihood.flat)
    p = p / p.sum()
    mean = p @ f
    t = likelihood.tilted(y, np.array([shift]), np.array([precision]), float(count), order=4)
    np.testing.assert_allclose(t.log_z, log_z, rtol=1e-10)
    np.testing.assert_allclose(t.mean, mean, rtol=1e-10)
    central = [p @ (f - mean) ** k for k in (2, 3, 4)]
    np.testing.assert_allclose([t.var[0], t.c3[0], t.c4[0]], central, rtol=1e-9, atol=1e-12)
    for i, value in enumerate(likelihood.flat):
        h = 1e-4 * value
        ends = [log_integral(likelihood.flat + sign * h * (np.arange(3) == i))[0] for sign in (1, -1)]
        np.testing.assert_allclose(t.d_log_z[i], (ends[0] - ends[1]) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize(("scale", "mean", "var"), [(0.5, 0.2, 1.0), (1e-3, 4.0, 0.5), (3.0, -2.0, 1e-4)])
def test_laplace_against_mpmath(scale, mean, var, power):
    with mp.workdps(30):
        s, sd = mp.mpf(scale), var**0.5
        low, high = min(0.0, mean) - 15 * sd, max(0.0, mean) + 15 * sd
        spots = [x for x in [*around(0.0, scale), *around(mean, sd)] if low <= x <= high] + [low, high]
        truth = exact(lambda f: -power * (abs(f) / s + mp.log(2 * s)), mean, var, spots)
    cavity = np.zeros(1), np.array([mean / var]), np.array([1 / var])
    compare(lk.Laplace(scale).tilted(*cavity, power, order=4), truth, 1e-11)


@pytest.mark.parametrize(
    "likelihood", [lk.StudentT(0.3, 0.5), lk.MixtureOfGaussians(0.1, 0.3), lk.Laplace(0.3)], ids=repr
)
def test_results_repeat_to_the_bit_whatever_was_in_memory(likelihood):
    rng = np.random.default_rng(0)
    y, m, v = rng.normal(size=50) * 5, rng.normal(size=50), rng.gamma(1.0, size=50) + 1e-3
    first = likelihood.tilted(y, m / v, 1 / v, order=4)
    for size in (10, 333, 4096, 77):
        kept = np.full(size, np.nan)
        again = likelihood.tilted(y, m / v, 1 / v, order=4)
        assert len(kept) == size
        for name in ("log_z", "log_z_normalized", "mean", "var", "c3", "c4", "d_log_z"):
            np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


COUNTS = {
    "poisson": (lk.Poisson(), lambda y, f: y * f - mp.exp(f) - mp.loggamma(y + 1)),
    "logit": (lk.Logit(), lambda y, f: -mp.log1p(mp.exp(-y * f))),
    "binomial": (
        lk.Binomial(1000),
        lambda y, f: (
            mp.log(mp.binomial(1000, y)) - y * mp.log1p(mp.exp(-f)) - (1000 - y) * mp.log1p(mp.exp(f))
        ),
    ),
    "negative binomial": (
        lk.NegativeBinomial(0.7),
        lambda y, f: (
            mp.log(mp.gamma(y + mp.mpf(0.7)) / (mp.gamma(mp.mpf(0.7)) * mp.factorial(y)))
            - y * mp.log1p(mp.mpf(0.7) * mp.exp(-f))
            - mp.mpf(0.7) * mp.log1p(mp.exp(f) / mp.mpf(0.7))
        ),
    ),
}


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize(
    ("name", "y", "mean", "var"),
    [
        ("poisson", 0.0, 0.5, 1.0),
        ("poisson", 3.0, -4.0, 9.0),
        ("poisson", 0.0, -50.0, 900.0),  # a wall far from the mode
        ("poisson", 1000.0, 6.0, 0.25),
        ("logit", 1.0, 0.2, 0.8),
        ("logit", -1.0, -30.0, 400.0),  # a step that is narrow for the cavity
        ("binomial", 0.0, -3.0, 2.0),
        ("binomial", 400.0, 0.5, 1e-4),
        ("negative binomial", 5.0, 0.0, 4.0),
        ("negative binomial", 0.0, 8.0, 25.0),
    ],
)
def test_counts_and_labels_against_mpmath(name, y, mean, var, power):
    likelihood, log_p = COUNTS[name]
    with mp.workdps(30):
        sd = var**0.5
        spots = [
            x for x in around(float(np.log(abs(y) + 0.5)), (1 + abs(y)) ** -0.5) if abs(x - mean) <= 12 * sd
        ]
        spots += [mean + k * sd for k in (-12, -6, -3, -1, 0, 1, 3, 6, 12)]
        truth = exact(lambda f: power * log_p(mp.mpf(y), f), mean, var, spots)
    cavity = np.array([y]), np.array([mean / var]), np.array([1 / var])
    compare(likelihood.tilted(*cavity, power, order=4), truth, 1e-10)


def test_no_cavity_of_counts_or_labels_needs_panels(monkeypatch):
    from cavity.likelihoods import tilted_quadrature

    def refuse(*_):
        raise AssertionError("panels")

    monkeypatch.setattr(tilted_quadrature, "tilted", refuse)
    rng = np.random.default_rng(3)
    n = 500
    v = 10.0 ** rng.uniform(-6, 3, n)
    m = np.sqrt(v) * rng.normal(size=n) + rng.normal(size=n)
    for likelihood, y in (
        (lk.Poisson(), rng.poisson(5.0, n)),
        (lk.Logit(), rng.choice([-1.0, 1.0], n)),
        (lk.Binomial(20), rng.integers(0, 21, n)),
        (lk.NegativeBinomial(1.5), rng.poisson(5.0, n)),
    ):
        t = likelihood.tilted(y.astype(float), m / v, 1 / v, order=4)
        assert np.isfinite(t.c4).all()
