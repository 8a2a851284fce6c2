"""Committees: one member is the exact process, several against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, GPClassifier, GPRegressor, load
from cavity.kernels import SE
from cavity.latent import Committee
from cavity.latent.committee.process import RULES
from cavity.likelihoods import Gaussian, Probit
from cavity.means import Basis

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (40, 2))
Y = np.sin(X[:, 0]) + 0.5 + 0.1 * RNG.standard_normal(40)
NEW = RNG.uniform(-4, 4, (6, 2))
KERNEL = 1.5 * SE([1.0, 2.0])


@pytest.mark.parametrize("rule", RULES)
def test_one_member_is_the_exact_process(rule):
    dense, one = (
        GP(KERNEL, Gaussian(0.1), "constant", representation=r) for r in ("dense", Committee(40, rule))
    )
    (value, gradient), (other, same) = dense.evidence(X, Y), one.evidence(X, Y)
    assert other == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(same, gradient, rtol=1e-9, atol=1e-10)
    if rule == "rbcm":  # its only member is not trusted fully where it has learned little
        return
    a, b = dense.condition(X, Y), one.condition(X, Y)
    np.testing.assert_allclose(b.mean(NEW), a.mean(NEW), rtol=1e-9)
    np.testing.assert_allclose(b.variance(NEW), a.variance(NEW), rtol=1e-9)
    np.testing.assert_allclose(b.covariance(NEW), a.covariance(NEW), atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_several_members_against_the_formulas(rule):
    representation = Committee(15, rule, seed=3)
    parts = representation.partition(40)
    assert [len(part) for part in parts] == [14, 13, 13]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(40))
    model = GP(KERNEL, Gaussian(0.1), 0.5, representation=representation)
    members = [GP(KERNEL, Gaussian(0.1), 0.5).condition(X[part], Y[part]) for part in parts]
    posterior = model.condition(X, Y)
    assert posterior.log_evidence == pytest.approx(sum(m.log_evidence for m in members), rel=1e-12)
    v, mu, k = (
        np.array([m.variance(NEW) for m in members]),
        np.array([m.mean(NEW) for m in members]) - 0.5,
        1.5,
    )
    beta = {"poe": 1.0 + 0 * v, "bcm": 1.0 + 0 * v, "gpoe": 0 * v + 1 / 3, "rbcm": 0.5 * np.log(k / v)}[rule]
    precision = (beta / v).sum(axis=0)
    if rule in ("bcm", "rbcm"):
        precision += (1.0 - beta.sum(axis=0)) / k
    np.testing.assert_allclose(posterior.variance(NEW), 1.0 / precision, rtol=1e-9)
    np.testing.assert_allclose(posterior.mean(NEW), 0.5 + (beta * mu / v).sum(axis=0) / precision, rtol=1e-9)
    one = NEW[:1]
    np.testing.assert_allclose(posterior.covariance(one)[0], posterior.variance(one), rtol=1e-6)
    assert posterior.sample(NEW, 4, 0).shape == (4, 6)


def test_a_bayesian_committee_machine_that_predicts_all_rows_is_exact():
    """Rasmussen and Williams (2006), section 8.3.5: if X* = X nothing is lost."""
    few, y = X[:12], Y[:12]
    kernel = 1.5 * SE([0.3, 0.4])  # well conditioned
    machine = GP(kernel, Gaussian(0.1), representation=Committee(4, "bcm")).condition(few, y)
    exact = GP(kernel, Gaussian(0.1)).condition(few, y)
    mean, cov = machine.process.together(few)
    np.testing.assert_allclose(mean, exact.mean(few), atol=1e-7)
    np.testing.assert_allclose(cov, exact.covariance(few), atol=1e-7)


def test_many_members_of_a_stiff_prior_leave_a_proper_density():
    """Far more inputs than directions in which the prior varies: what all members add up to is then nearly exact."""
    rng = np.random.default_rng(5)
    inputs, new = rng.normal(size=(300, 2)), rng.normal(size=(200, 2))
    y = np.sin(inputs[:, 0]) + 0.1 * rng.standard_normal(300)
    model = GP(1e3 * SE(5.0), Gaussian(0.01))
    exact = model.condition(inputs, y)
    mean, cov = model.with_representation(Committee(2, "bcm")).condition(inputs, y).process.together(new)
    np.testing.assert_allclose(mean, exact.mean(new), atol=1e-3)
    np.testing.assert_allclose(np.diagonal(cov), exact.variance(new), rtol=0.01)


def test_far_away_is_the_prior():
    far = np.full((1, 2), 100.0)
    for rule in ("gpoe", "bcm", "rbcm"):
        posterior = GP(KERNEL, Gaussian(0.1), representation=Committee(10, rule)).condition(X, Y)
        assert posterior.variance(far)[0] == pytest.approx(1.5)
    sure = GP(KERNEL, Gaussian(0.1), representation=Committee(10, "poe")).condition(X, Y)
    assert sure.variance(far)[0] == pytest.approx(1.5 / 4)


def test_every_rule_runs_part_by_part_and_estimators_learn(tmp_path):
    labels = np.where(Y > 0.5, 1.0, -1.0)
    for rule in ("ep", "laplace"):
        model = GP(KERNEL, Probit(), inference=rule, representation=Committee(15, seed=3))
        parts = model.representation.partition(40)
        alone = sum(
            GP(KERNEL, Probit(), inference=rule).condition(X[p], labels[p]).log_evidence for p in parts
        )
        assert model.condition(X, labels).log_evidence == pytest.approx(alone, abs=1e-6)
    learned = GPRegressor(KERNEL, representation=Committee(20), n_restarts=0, random_state=0).fit(X, Y)
    assert np.mean((learned.predict(X) - Y) ** 2) < 0.05
    learned.save(tmp_path / "committee.cavity")
    np.testing.assert_array_equal(load(tmp_path / "committee.cavity").predict(NEW), learned.predict(NEW))
    classes = GPClassifier(KERNEL, representation="committee", objective=None).fit(X, labels)
    assert classes.score(X, labels) > 0.9
    several = GPRegressor(KERNEL, mean="zero", representation=Committee(20), objective=None)
    assert several.fit(X, np.column_stack([Y, -Y])).predict(NEW).shape == (6, 2)


def test_refusals():
    with pytest.raises(ValueError, match="m must be an integer >= 1"):
        Committee(0)
    with pytest.raises(ValueError, match="rule must be one of 'gpoe'"):
        Committee(rule="mean")
    with pytest.raises(ValueError, match="committee takes no basis functions"):
        GP(KERNEL, Gaussian(0.1), Basis("linear"), representation="committee").condition(X, Y)
