"""The table of what runs on which representation says what the code does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cavity.gp import GP
from cavity.inference import EP, Exact, Laplace, Variational
from cavity.inference.ep import SequentialEP
from cavity.inference.support import NEEDS, support, support_table
from cavity.inference.variational import ScaleMixtureEM
from cavity.kernels import SE
from cavity.latent import base
from cavity.latent.base import CapabilityError
from cavity.latent.committee import Committee
from cavity.latent.dense import Dense
from cavity.latent.inducing import Inducing
from cavity.latent.latent_neighbors import LatentNeighbors
from cavity.latent.markov import Markov
from cavity.latent.neighbors import Neighbors
from cavity.latent.sites import Sites
from cavity.likelihoods import (
    Gaussian,
    MixtureOfGaussians,
    Observations,
    OneVsRest,
    Probit,
    Softmax,
    StudentT,
)
from cavity.sampling import MCMC
from cavity.sampling.annealing.path import Bridge
from tests.latent.naive import Naive

N = 9
X = np.linspace(-2, 2, N)[:, None]
REAL = np.sin(2 * X[:, 0]) + 0.1 * np.cos(9 * X[:, 0])
LABELS = np.where(REAL > 0, 1.0, -1.0)
SHORT = {"n_draws": 4, "warmup": 4, "chains": 2, "rng": 0, "warn": False, "progress": False}


STRANGERS = {
    "naive": Naive(),
    "inducing": Inducing(4, "fitc"),
    "neighbors": Neighbors(4),
    "latent_neighbors": LatentNeighbors(4),
}


def condition(likelihood, y, rule, representation):
    return GP(1.2 * SE(0.8), likelihood, inference=rule, representation=representation).condition(X, y)


RUNS = {
    "exact": lambda r: condition(Gaussian(0.1), REAL, Exact(), r),
    "exact, leave-one-out learning": lambda r: GP(
        1.2 * SE(0.8), Gaussian(0.1), representation=r
    ).leave_one_out_log_prob(X, REAL),
    "laplace": lambda r: condition(Probit(), LABELS, Laplace(), r),
    "laplace, several latent functions": lambda r: condition(Softmax(2), LABELS > 0, Laplace(), r),
    "every rule, several functions that the likelihood keeps apart": lambda r: condition(
        OneVsRest(3), np.arange(N) % 3.0, EP(), r
    ),
    "ep, log-concave likelihoods": lambda r: condition(Probit(), LABELS, EP(), r),
    "ep, other likelihoods": lambda r: condition(StudentT(0.3, 4.0), REAL, EP(), r),
    "ep, its Newton method and continuation (up to 1000 rows)": None,
    "sequential ep, assumed-density filtering": lambda r: condition(Probit(), LABELS, SequentialEP(), r),
    "variational": None,
    "scale-mixture em": None,
    "leave-one-out of every rule": None,
    "mcmc, Gaussian noise": lambda r: condition(Gaussian(0.1), REAL, MCMC(**SHORT), r),
    "mcmc, Student-t and Laplace noise": lambda r: condition(StudentT(0.3, 4.0), REAL, MCMC(**SHORT), r),
    "mcmc, indicators of outliers": lambda r: condition(
        MixtureOfGaussians(0.2, 0.1, 5.0), REAL, MCMC(**SHORT), r
    ),
    "mcmc, latent values (elliptical, hamiltonian)": lambda r: condition(
        Probit(), LABELS, MCMC(hyperparameters=False, **SHORT), r
    ),
    "mcmc, latent values and hyperparameters together": lambda r: condition(
        Probit(), LABELS, MCMC(method="joint", **SHORT), r
    ),
    "annealed importance sampling, assess": lambda r: Bridge(
        GP(1.2 * SE(0.8), representation=r).bind(1).prior(X),
        Observations(Probit(), LABELS),
        sites=Sites(LABELS, np.ones(N)),
    ),
}
"""How each is run; None if other tests of a stranger's representation do (they have no limit of rows to meet)."""


def test_every_algorithm_is_listed():
    assert list(RUNS) == list(NEEDS)


@pytest.mark.parametrize("algorithm", [name for name, run in RUNS.items() if run is not None])
@pytest.mark.parametrize("stranger", STRANGERS)
def test_what_the_table_refuses_is_refused_and_nothing_else(algorithm, stranger, monkeypatch):
    said = support(algorithm, STRANGERS[stranger])
    monkeypatch.setattr(base, "COVARIANCE_LIMIT", 5)
    if said == "yes":
        RUNS[algorithm](STRANGERS[stranger])
    else:
        with pytest.raises(CapabilityError):
            RUNS[algorithm](STRANGERS[stranger])


@pytest.mark.parametrize("rule", [Variational(), ScaleMixtureEM(), EP(effort=1.0)])
@pytest.mark.parametrize("stranger", ["naive", "inducing", "latent_neighbors"])
def test_robust_rules_need_no_covariance_matrix(rule, stranger, monkeypatch):
    y = REAL.copy()
    y[4] += 5.0
    monkeypatch.setattr(base, "COVARIANCE_LIMIT", 5)
    assert np.isfinite(condition(StudentT(0.3, 4.0), y, rule, STRANGERS[stranger]).log_evidence)


def test_the_page_has_the_table():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert (
        support_table(
            [Dense(), Inducing(), Neighbors(), LatentNeighbors(), Committee(), Markov(), Naive()]
        ).replace("| naive |", "| any other |")
        in page
    )
