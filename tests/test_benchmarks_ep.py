"""The EP benchmarks: the second opinion must itself be right, false claims must be noticed, runs end with a result."""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks import __main__ as command
from benchmarks import approx, ep_check, ep_problems, ep_stress, peers, timing
from benchmarks.problems import Problem
from cavity.inference.base import Stage, Status
from cavity.kernels import SE, White
from cavity.latent.sites import Sites
from cavity.likelihoods import MixtureOfGaussians
from cavity.parameters.param import fixed

MIXTURE, STUDENT = 7, 1
"""Seeds of easy problems of each family."""


# --- the second opinion -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slope", "precision"), [(0.0, 2.0), (3.0, 0.05), (-40.0, 0.5), (500.0, 80.0), (0.3, 1e-6)]
)
def test_panels_agree_with_adaptive_quadrature_for_student_t(slope, precision):
    problem = ep_problems.make(STUDENT)
    log_t = ep_check.log_noise(problem)
    s = problem.settings
    x = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(log_t(x), stats.t.logpdf(x, s["df"], scale=s["noise"]), rtol=1e-12)
    found = ep_check.tilted(log_t, slope, precision, ep_check._edges(problem, slope, precision))
    center, sd = slope / precision, precision**-0.5
    top = found[0]

    def moment(k, about=0.0):
        def f(x):
            return (x - about) ** k * np.exp(log_t(x) + slope * x - 0.5 * precision * x * x - top)

        marks = sorted({-1.0, -0.1, 0.0, 0.1, 1.0, center - 3 * sd, center, center + 3 * sd})
        ends = [center - 40 * sd - 1, *marks, center + 40 * sd + 1]
        return sum(integrate.quad(f, a, b, epsabs=1e-13, limit=400)[0] for a, b in itertools.pairwise(ends))

    mass = moment(0)
    mean = moment(1) / mass
    assert np.log(mass) == pytest.approx(0.0, abs=1e-9)
    assert found[1] == pytest.approx(mean, rel=1e-7, abs=1e-9)
    assert found[2] == pytest.approx(moment(2, mean) / mass, rel=1e-7)


@pytest.mark.parametrize(("slope", "part"), [(0.0, 0.5), (2.0, -0.5), (-1.0, -0.99), (30.0, 5.0)])
def test_panels_agree_with_the_closed_form_for_mixtures(slope, part):
    """Also for improper cavities, down to minus the wide component's precision."""
    problem = ep_problems.make(MIXTURE)
    s = problem.settings
    precision = part / s["wide"] ** 2
    found = ep_check.tilted(
        ep_check.log_noise(problem), slope, precision, ep_check._edges(problem, slope, precision)
    )
    sds = np.array([s["noise"], s["wide"]])
    p = precision + sds**-2
    logs = np.log([1 - s["fraction"], s["fraction"]]) - np.log(sds) - 0.5 * np.log(p) + 0.5 * slope**2 / p
    total = np.logaddexp.reduce(logs)
    r, means = np.exp(logs - total), slope / p
    mean = r @ means
    np.testing.assert_allclose(found, [total, mean, r @ (1 / p + (means - mean) ** 2)], rtol=1e-9, atol=1e-9)


def test_enumeration_of_a_small_mixture():
    problem = ep_problems.make(MIXTURE)
    problem = replace(problem, X=problem.X[:3], y=problem.y[:3])
    s = problem.settings
    K = ep_check.covariance(problem)
    np.testing.assert_allclose(K, problem.kernel.bind(problem.X.shape[1])(problem.X), rtol=1e-9, atol=1e-12)
    terms = []
    for bits in np.ndindex(2, 2, 2):
        out = np.array(bits)
        density = stats.multivariate_normal(
            np.zeros(3), K + np.diag(np.where(out, s["wide"], s["noise"]) ** 2)
        )
        terms.append(
            density.logpdf(problem.y) + np.log(np.where(out, s["fraction"], 1 - s["fraction"])).sum()
        )
    assert ep_check.exact_log_evidence(problem) == pytest.approx(np.logaddexp.reduce(terms), abs=1e-9)


def test_the_evidence_of_sharp_sites_keeps_its_digits():
    rng = np.random.default_rng(0)
    X, y = np.linspace(-4, 4, 7)[:, None], rng.standard_normal(7)
    noise = {"noise": 1.2e-6, "wide": 1.9e-6, "fraction": 4e-6}
    settings = {"n": 7, "D": 1, "length": 1.4, "variance": 1.8, **noise}
    problem = replace(
        ep_problems.make(MIXTURE),
        X=X,
        y=y,
        kernel=1.8 * SE(1.4) + White(fixed(1.8e-8)),
        likelihood=MixtureOfGaussians(fraction=4e-6, scale=1.2e-6, outlier_scale=1.9e-6),
        settings=settings,
    )
    sites = ep_stress.model_of(problem).condition(X, y).approximation.sites
    found = ep_check.opinion(problem, sites.shift, sites.precision)
    assert found.log_evidence == pytest.approx(ep_check.exact_log_evidence(problem), abs=1e-7)


def test_improper_sites_have_no_opinion():
    problem = ep_problems.make(STUDENT)
    n = len(problem.y)
    assert ep_check.opinion(problem, np.zeros(n), np.full(n, -1e4)).residual == np.inf
    sharp = np.zeros(n)
    sharp[0] = 1e3
    assert ep_check.opinion(problem, np.zeros(n), sharp).residual > 0.1


# --- claims -------------------------------------------------------------------------------------------------


def claimed(problem, change=1.0, stage="ep", converged=True, evidence=0.0, extended=False):
    """A posterior like the library's, with what it claims tampered with."""
    real = ep_stress.model_of(problem).condition(problem.X, problem.y)
    sites = real.approximation.sites
    return SimpleNamespace(
        mean=real.mean,
        variance=real.variance,
        log_evidence=real.log_evidence + evidence,
        status=Status(converged, Stage(stage), extended=extended),
        approximation=SimpleNamespace(sites=Sites(sites.shift * change, sites.precision)),
    )


@pytest.mark.parametrize(
    ("tampered", "took", "kind"),
    [
        ({}, 1.0, "proper"),
        ({}, 11.0, "late"),
        ({"change": 1.0001}, 1.0, "false"),
        ({"evidence": 0.01}, 1.0, "false"),
        ({"extended": True}, 1.0, "false"),
        ({"stage": "power ep"}, 1.0, "power ep"),
        ({"stage": "variational", "converged": False}, 1.0, "variational"),
        ({"converged": False}, 1.0, "failed"),
        ({"evidence": np.nan}, 1.0, "nan"),
    ],
)
def test_what_is_claimed_is_checked(tampered, took, kind):
    problem = ep_problems.make(STUDENT)
    assert ep_stress.classify(problem, claimed(problem, **tampered), took, 10.0)[0] == kind


def test_an_exception_is_a_failure_not_a_crash(monkeypatch):
    def broken(problem):
        raise RuntimeError("no")

    monkeypatch.setattr(ep_stress, "model_of", broken)
    ending = ep_stress.run_one(ep_problems.make(STUDENT))
    assert ending.kind == "failed"
    assert ending.message == "RuntimeError: no"
    assert ep_stress.figures_of([ending])["nan"] == "1"


def test_plain_ep_solves_some_and_not_all():
    assert ep_stress.plain_ep(ep_problems.make(STUDENT))
    assert not ep_stress.plain_ep(ep_problems.make(8))


def test_rates_count_extended_cavities_for_mixtures_only():
    def ending(family, kind, plain):
        return ep_stress.Ending(0, family, kind, "ep", 1.0, 1e-9, plain)

    kinds = ["proper", "extended", "power ep", "proper"]
    endings = [ending("mixture", kind, True) for kind in kinds]
    endings += [ending("student_t", "proper", False), ending("student_t", "variational", False)]
    figures = ep_stress.figures_of(endings)
    assert figures["mixture"] == 75.0
    assert figures["student_t"] == 50.0
    assert figures["plain"] == pytest.approx(100 * 4 / 6)
    assert "1 (25.0 %)" in ep_stress.table_of(endings)


# --- runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]])
def test_a_stress_run_ends_with_the_result_line(capsys, jobs):
    assert command.main(["ep_stress", "--seed", "4", "--count", "4", "--verbose", *jobs]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"RESULT mixture=\S+ student_t=\S+ false=0 nan=0 plain=\S+", lines[-1])
    assert lines[0].startswith("Ending(seed=4")


def test_the_other_questions_about_the_set(capsys):
    assert command.main(["ep_stress", "--seed", "7", "--count", "1", "--at-optimum"]) == 0
    assert "RESULT mixture=100.000 student_t=missing false=0 nan=0 plain=not-run" in capsys.readouterr().out
    assert command.main(["ep_stress", "--seed", "10", "--count", "1", "--along"]) == 0
    assert re.search(r"RESULT along=\d+\.\d+ runs=1", capsys.readouterr().out)


def test_the_settings_follow_the_optimum():
    problem = ep_problems.make(MIXTURE)
    best = ep_stress.at_optimum(problem)
    assert best.settings["length"] != problem.settings["length"]
    np.testing.assert_allclose(ep_check.covariance(best), best.kernel(best.X), rtol=1e-8, atol=1e-12)
    x = np.linspace(-1, 1, 7)
    mine = ep_check.log_noise(best)(x)
    np.testing.assert_allclose(mine, best.likelihood.log_prob(np.zeros(7), x), rtol=1e-10)


def test_approx_compares_with_peers_and_reports_what_is_missing(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    small = Problem(X, np.where(X[:, 0] + 0.5 * rng.standard_normal(30) > 0, 1.0, -1.0), np.array([0.3, 1.0]))
    monkeypatch.setattr(approx, "ionosphere", lambda: small)
    monkeypatch.setattr(approx, "usps", lambda: small)
    monkeypatch.setattr(approx, "QUICK", approx.Plan((5, 5, 1.0), (5, 1.0), 1))
    monkeypatch.setenv("CAVITY_PEERS", sys.executable)  # scikit-learn is here, GPy is not
    assert command.main(["approx", "--quick"]) == 0
    text = capsys.readouterr().out
    assert re.fullmatch(
        r"RESULT ep_vs_gpy=missing laplace_vs_sklearn=\d\S* ep_floor_767=\d\S*", text.splitlines()[-1]
    )
    assert "gpy_ep is missing" in text
    monkeypatch.setenv("CAVITY_PEERS", str(tmp_path / "python"))
    assert approx.run(approx.QUICK).figures()["laplace_vs_sklearn"] is None
    assert not peers.interpreter().is_file()


def test_a_peer_that_disagrees_makes_the_run_fail(monkeypatch, capsys):
    outcome = approx.Outcome(disagreements=["GPy's EP evidence is -1, ours -2"])
    outcome.ep = timing.Series([{"cavity": 1.0, "gpy": 40.0}])
    monkeypatch.setattr(approx, "run", lambda plan: outcome)
    assert approx.main([]) == 1
    out = capsys.readouterr().out
    assert "GPy's EP evidence is -1" in out
    assert "ep_vs_gpy=40.000" in out
