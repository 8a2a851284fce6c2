"""The benchmarks' own machinery: arguments, statistics, the last line, workers. No timing is asserted."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import exact, fits, peers, problems, report, timing
from benchmarks.ours import Evidence, Floor
from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import Gaussian

RESULT = re.compile(r"RESULT floor_1000=\S+ floor_3000=\S+ sklearn=\S+ gpy=\S+ gpytorch=\S+")


def series(**times: float) -> timing.Series:
    return timing.Series([dict(times), dict(times)])


def trace(*pairs: tuple[float, float]) -> peers.Trace:
    return peers.Trace([t for t, _ in pairs], [value for _, value in pairs])


def outcome(**missing: str) -> exact.Outcome:
    """Ours at twice the floor; scikit-learn 4 times, GPy 3 times, GPyTorch 1.5 times slower than ours."""
    found = exact.Outcome(missing=missing)
    for n in exact.SIZES:
        found.series[n] = series(floor=1.0, cavity=2.0, sklearn=8.0, gpy=6.0, gpytorch=3.0)
    found.fits = {
        "cavity": [trace((1.0, -20.0), (2.0, -10.2))],
        "sklearn": [trace((3.0, -20.0), (5.0, -10.0))],
        "gpy": [trace((3.0, -20.0), (9.0, -10.4))],
        "gpytorch": [trace((4.0, -20.0), (8.0, -11.0))],
    }
    for name in missing:
        found.fits.pop(name)
    return found


# --- the command ---


def test_the_name_chooses_the_module_and_the_rest_is_passed_on(monkeypatch):
    calls = []
    monkeypatch.setattr(exact, "main", lambda argv: calls.append(argv) or 0)
    assert command.main(["exact", "--quick"]) == 0
    assert calls == [["--quick"]]


def test_all_runs_every_benchmark_and_fails_if_one_does(monkeypatch, capsys):
    monkeypatch.setattr(command, "available", lambda: ["exact", "problems"])
    monkeypatch.setattr(exact, "main", lambda argv: 0)
    monkeypatch.setattr(problems, "main", lambda argv: 2, raising=False)
    assert command.main(["all"]) == 2
    assert "== problems ==" in capsys.readouterr().out


def test_an_unknown_name_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        command.main(["exakt"])
    assert "exact" in capsys.readouterr().err


def test_missing_data_are_an_error_that_says_where_to_put_them(monkeypatch, capsys, tmp_path):
    from cavity.datasets import locate

    monkeypatch.delenv("CAVITY_DATA", raising=False)
    monkeypatch.setenv("CAVITY_CACHE", str(tmp_path))
    monkeypatch.setattr(locate, "find_spec", lambda name: None)
    assert exact.main(["--quick"]) == 2
    assert "set CAVITY_DATA" in capsys.readouterr().err


@pytest.mark.parametrize("quick", [True, False])
def test_a_run_ends_with_the_result_line(monkeypatch, capsys, quick):
    plans = []
    monkeypatch.setattr(problems, "boston", lambda: None)
    monkeypatch.setattr(exact, "run", lambda plan, boston: plans.append(plan) or outcome())
    assert exact.main(["--quick"] if quick else []) == 0
    assert plans == [exact.QUICK if quick else exact.FULL]
    lines = capsys.readouterr().out.splitlines()
    assert RESULT.fullmatch(lines[-1])
    # the worst over the sizes and the fit: 5/2 s, 3 times, and 8 s without reaching the target against 2 s
    assert lines[-1] == "RESULT floor_1000=2.000 floor_3000=2.000 sklearn=2.500 gpy=3.000 gpytorch=1.500"


def test_packages_that_are_absent_are_named(monkeypatch, capsys):
    monkeypatch.setattr(problems, "boston", lambda: None)
    monkeypatch.setattr(exact, "run", lambda plan, boston: outcome(gpy="not installed"))
    exact.main(["--quick"])
    text = capsys.readouterr().out
    assert "gpy=missing" in text.splitlines()[-1]
    assert "GPy is missing: not installed" in text
    assert RESULT.fullmatch(text.splitlines()[-1])


def test_packages_that_disagree_make_the_run_fail(monkeypatch, capsys):
    found = outcome()
    answer = {"value": -100.001, "gradient": [1.0, 2.0]}
    found.disagreements = exact.disagreements("gpy", -100.0, np.array([1.0, 2.1]), answer)
    monkeypatch.setattr(problems, "boston", lambda: None)
    monkeypatch.setattr(exact, "run", lambda plan, boston: found)
    assert exact.main([]) == 1
    text = capsys.readouterr().out
    assert "evidence -100.001, ours -100.0" in text
    assert "gradients differ by up to 0.1" in text
    agrees = {"value": -100.00001, "gradient": None}
    assert exact.disagreements("gpy", -100.0, np.array([1.0]), agrees) == []


def test_a_fit_that_stops_short_is_a_bound_and_ours_must_not():
    found = outcome()
    assert found.fit_seconds("gpytorch") == (8.0, False)
    assert found.fit_ratio("gpytorch") == (4.0, False)
    assert ">=4.00x" in exact.text_of(found)
    found.fits["cavity"] = [trace((1.0, -20.0), (2.0, -12.0))]
    assert found.fit_ratio("sklearn") == (None, False)
    assert found.figures()["sklearn"] == "unreached"
    assert any("NOT reach" in note for note in exact.notes_of(found))


def test_memory_is_noted_where_it_was_measured():
    found = outcome()
    found.memory = 2.5
    assert "peak memory at n = 5000: 2.50 n^2 doubles" in exact.notes_of(found)


# --- statistics and text ---


def test_ratios_are_medians_of_pairs_not_ratios_of_medians():
    rounds = [{"a": 2.0, "b": 1.0}, {"a": 30.0, "b": 10.0}, {"a": 9.0, "b": 1.0}, {"a": 1.0}]
    found = timing.Series(rounds)
    assert found.ratio("a", "b") == 3.0
    assert found.median("a") == 5.5
    assert found.ratio("a", "c") is None
    assert found.median("c") is None


def test_a_bracketed_ratio_looks_at_the_next_round_too():
    found = timing.Series([{"ours": 1.0, "peer": 8.0}, {"ours": 3.0}, {"ours": 2.0, "peer": 8.0}])
    assert found.ratio("peer", "ours", bracket=True) == 4.0


def test_subjects_take_turns_in_alternating_order():
    calls = []

    def subject(name: str) -> timing.Timed:
        return lambda k: calls.append(f"{name}{k}") or 1.0

    found = timing.interleave({"a": subject("a"), "b": subject("b")}, {"p": subject("p")}, 3, 2, warm_up=1)
    assert calls == ["a0", "b0", "p0", "a1", "b1", "p1", "b2", "a2", "a3", "b3", "p3"]
    assert len(found.times("a")) == 3
    assert len(found.times("p")) == 2


def test_a_budget_ends_the_rounds_but_not_before_five():
    found = timing.interleave({"a": lambda k: 1.0}, {}, 50, 1, budget=0.0, warm_up=0)
    assert len(found.rounds) == timing.FEWEST


def test_times_and_ratios_read_well():
    assert [report.seconds(v) for v in (2.5e-5, 0.0221, 1.234, None)] == ["25 us", "22.1 ms", "1.23 s", "-"]
    assert [report.ratio(1.5), report.ratio(2.0, at_least=True), report.ratio(None)] == [
        "1.50x",
        ">=2.00x",
        "-",
    ]
    assert (
        report.result_line({"a": 1.23456, "b": "missing", "c": None}) == "RESULT a=1.235 b=missing c=missing"
    )
    assert report.table(["x", "time"], [["long name", "1 s"]]).splitlines()[-1] == "long name   1 s"


# --- what is measured ---


def test_the_floor_inverts_in_place_and_ours_is_the_evidence():
    problem = problems.synthetic(40)
    floor, ours = Floor(problem), Evidence(problem)
    assert floor(0) > 0
    assert ours(0) > 0
    inverse = np.triu(floor.work) + np.triu(floor.work, 1).T
    np.testing.assert_allclose(inverse @ floor.matrix, np.eye(40), atol=1e-9)
    value, gradient = ours.value_and_gradient(problem.theta)
    _, log_det = np.linalg.slogdet(floor.matrix)
    closed = -0.5 * problem.y @ inverse @ problem.y - 0.5 * log_det - 20 * np.log(2 * np.pi)
    assert value == pytest.approx(closed, rel=1e-9)
    for i in range(len(problem.theta)):
        step = np.zeros(len(problem.theta))
        step[i] = 1e-5
        up, down = (ours.value_and_gradient(problem.theta + s * step)[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


def test_no_environment_means_all_peers_are_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CAVITY_PEERS", str(tmp_path / "python"))
    workers, missing = peers.start()
    assert workers == {}
    assert set(missing) == set(peers.NAMES)
    monkeypatch.delenv("CAVITY_PEERS")
    assert peers.interpreter().parts[-3:] == (".venv-peers", "bin", "python")


def test_a_worker_answers_and_agrees(monkeypatch, tmp_path):
    """scikit-learn is in this environment as well, so that its worker can be tried here."""
    monkeypatch.setenv("CAVITY_PEERS", sys.executable)
    problem = problems.synthetic(30)
    file = peers.save(problem, tmp_path, "small")
    with peers.Worker("sklearn", peers.interpreter()) as worker:
        assert worker.ask(op="version")["version"]
        with pytest.raises(peers.PeerError, match="nowhere"):
            worker.ask(op="load", file=str(tmp_path / "nowhere.npz"))
        peers.ask_all({"sklearn": worker}, op="load", file=str(file))
        answer = worker.ask(op="evidence", theta=problem.theta.tolist())
    value, gradient = Evidence(problem).value_and_gradient(problem.theta)
    assert answer["seconds"] > 0
    assert exact.disagreements("sklearn", value, gradient, answer) == []


def test_cold_fits_of_ours_and_a_peer_rise_to_the_same_evidence(monkeypatch, tmp_path):
    monkeypatch.setenv("CAVITY_PEERS", sys.executable)
    file = peers.save(problems.synthetic(40), tmp_path, "small")
    ours = peers.cold_fit("cavity", file)
    assert ours.best > ours.values[0]
    assert ours.reach(ours.values[0]) == ours.times[0] > 0
    assert ours.reach(ours.best + 1) is None
    theirs = peers.cold_fit("sklearn", file, stop_at=ours.best - 0.5)
    assert theirs.values[0] == pytest.approx(ours.values[0], rel=1e-8)
    assert theirs.values[-1] >= ours.best - 0.5


def test_a_worker_that_dies_is_reported(tmp_path):
    worker = peers.Worker("nobody", Path(sys.executable))
    with pytest.raises(peers.PeerError, match="nobody: the worker stopped"):
        worker.ask(op="version")
    worker.close()
    with pytest.raises(peers.PeerError, match="the fit failed"):
        peers.cold_fit("cavity", tmp_path / "absent.npz")


def test_evidence_and_gradient_need_less_than_four_matrices():
    assert 1.0 < exact.measure_memory(1500) < 4.0


def test_a_peer_far_behind_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(exact, "SIZES", (30, 200))
    monkeypatch.setattr(exact, "SETTLE", 0.0)
    plan = exact.Plan({30: (1, 1, 1.0), 200: (1, 1, 1.0)}, 1, 1, 1.0, 1e-4, False)
    outcome = exact.Outcome()
    with peers.Worker("sklearn", Path(sys.executable)) as worker:
        for n in exact.SIZES:
            exact.measure_evidence(n, plan, {"sklearn": worker}, outcome, str(tmp_path))
    assert outcome.stopped == {(200, "sklearn")}
    assert outcome.series[30].median("sklearn") > 0
    assert outcome.series[200].median("sklearn") < outcome.series[200].median("cavity")
    assert outcome.disagreements == []
    outcome.fits = {"cavity": [peers.Trace([1.0], [-3.0])], "sklearn": [peers.Trace([2.0], [-3.0])]}
    outcome.missing = dict.fromkeys(("gpy", "gpytorch"), "not asked")
    assert ">=" in exact.text_of(outcome)


def test_a_fit_that_has_no_evaluation_when_its_time_is_up_is_ended(monkeypatch, tmp_path):
    monkeypatch.setenv(peers.PEERS_VARIABLE, sys.executable)
    monkeypatch.setattr(peers, "LAST_WORD", 0.0)
    trace = peers.cold_fit("sklearn", peers.save(problems.synthetic(30), tmp_path, "small"), limit=0.01)
    assert trace.best == -np.inf
    assert trace.reach(-1e9) is None
    outcome = exact.Outcome(fits={"cavity": [peers.Trace([1.0], [-3.0])], "sklearn": [trace]})
    assert outcome.fit_ratio("sklearn") == (trace.times[0], False)
    assert "sklearn none in its time" in exact.notes_of(outcome)[0]


def test_a_peer_gets_half_as_much_again_as_our_time_in_a_quick_run(monkeypatch, tmp_path):
    """However slow the machine is: the limit is in units of our own fits, to which the ratios refer."""
    given = {}

    def cold_fit(name, file, stop_at=None, limit=300.0):
        given[name] = (stop_at, limit)
        return peers.Trace([1.0, 4.0, 9.0], [-30.0, -10.2, -10.0])

    monkeypatch.setattr(peers, "cold_fit", cold_fit)
    for plan, expected in ((exact.QUICK, (-10.5, 6.0)), (exact.FULL, (None, exact.LONGEST_FIT))):
        exact.measure_fits(problems.synthetic(10), plan, ["sklearn"], exact.Outcome(), str(tmp_path))
        assert given["sklearn"] == expected


# --- whole fits ---


def test_the_last_line_of_fits_has_ratios_over_one_start_and_seconds_of_chains():
    found = fits.Outcome(mcmc_seconds=12.0)
    digits = f"digits_{fits.DIGITS_ROWS}"
    for problem, one, default in (("gaussian_500", 2.0, 3.0), (digits, 1.0, 2.0 * fits.DIGITS_BEFORE)):
        found.add(problem, "one start", [one, one], 0.0)
        found.add(problem, "default", [default, default], 0.0)
    line = report.result_line(found.figures())
    assert line == (
        "RESULT gaussian_500=1.500 student_t_500=missing student_t_1000=missing mixture_500=missing "
        "probit_1500=missing softmax=2.000 cavity_fit=missing mcmc_s=12.000"
    )


def test_growth_is_a_power_of_n():
    found = fits.Outcome()
    for n in (100, 200, 400):
        found.add(f"gaussian_{n}", "one start", [1e-6 * n**2], 0.0)
        found.add(f"gaussian_{n}", "default", [1e-6 * n**3], 0.0)
        found.add(f"gaussian_{n}", "GPy", [1e-6 * min(n, 200) ** 3], 0.0, stopped=n == 400)
    found.add("student_t_100", "default", [1.0], 0.0)
    assert fits.exponents(found) == [
        "gaussian, one start: n^2.00 from 100 to 400 rows",
        "gaussian, default: n^3.00 from 100 to 400 rows",
        "gaussian, GPy: n^3.00 from 100 to 200 rows",
    ]


class SlowPeer:
    """A worker that is stopped at its limit."""

    limits: list[float]

    def __init__(self) -> None:
        self.limits = []

    def ask(self, op: str, file: str = "", cpu: float = np.inf) -> dict[str, object]:
        if op == "fit":
            self.limits.append(cpu)
        return {"cpu": cpu, "value": -5.0, "stopped": True}


def test_a_slow_peer_counts_with_a_lower_bound_and_results_are_kept_as_they_come(tmp_path):
    file = tmp_path / "results.jsonl"
    found, peer = fits.Outcome(file=file), SlowPeer()
    found.add("gaussian_20", "one start", [1.0], 0.0)
    found.add("gaussian_20", "default", [2.0], 0.0)
    fits._peers(found, 20, {"gpy": peer})
    assert peer.limits == [2.0 * fits.PATIENCE]
    assert found.figures()["vs_peers"] == fits.PATIENCE
    assert f">={fits.PATIENCE:.2f}x" in fits.against_peers(found)
    again = fits.Outcome(fits.stored(file), file)
    fits._peers(again, 20, {"gpy": peer})
    assert len(peer.limits) == 1
    assert again.results == found.results
    assert fits.patience(1000.0, 240.0) == fits.AT_LEAST * 1000.0


def test_fits_are_timed_with_their_evidences(capsys):
    found = fits.Outcome()
    fits._noise(found, "gaussian", 30, 2)
    ours = found.of("gaussian_30")
    assert len(ours["default"].cpu) == 2
    assert ours["default"].evidence >= ours["one start"].evidence - 1e-6
    assert capsys.readouterr().out.startswith("gaussian_30: one start ")


def test_evidences_of_peers_are_brought_to_the_units_of_the_targets():
    X, y = fits.friedman(40)
    problem, shift = fits.for_peers(X, y)
    values = np.exp(problem.theta)
    sd = y.std()
    ours = GP(values[-2] * sd**2 * SE(values[:-2] * X.std(axis=0)), Gaussian(values[-1] * sd**2))
    theirs = GP(values[-2] * SE(values[:-2]), Gaussian(values[-1]))
    expected = ours.evidence(X, y - y.mean())[0]
    assert theirs.evidence(problem.X, problem.y)[0] + shift == pytest.approx(expected)
