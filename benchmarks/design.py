"""Bayesian optimization against BoTorch, Optuna's GP sampler and scikit-optimize: regret and time of a suggestion.

    python -m benchmarks design --quick        ours on a few seeds, peers from stored results (under 3 minutes)
    python -m benchmarks design --peers        run the peers too, in the environment of the peers, and store them

Every method has the same initial designs and the k-th observation has the same error. On functions without noise the
regret is that of the best point evaluated; with noise that of the recommendation, which is the smallest posterior mean
for BoTorch and us, and the smallest value seen for Optuna and scikit-optimize, as they have it. Regrets are medians of
log10, except with gross errors, where they are medians as they are. Seeds of the report were not used for tuning.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.design_problems import PROBLEMS

HERE = Path(__file__).resolve().parent
STORED = HERE / "design_results.jsonl"
PEERS = ("botorch", "optuna", "skopt")
FIRST_SEED = 4000
"""Of the report; those below, and from 9000 on, were used for tuning, or seen while this was changed."""

QUICK = {"branin": 20, "hartmann6": 12, "hartmann6_outliers": 6}
FULL = {
    "branin": 20,
    "hartmann6": 20,
    "hartmann6_noisy": 5,
    "hartmann6_outliers": 20,
    "ackley10": 5,
    "levy10": 5,
    "tuning": 5,
}
SHOWN_AS_LOG = {"branin", "hartmann6", "ackley10", "levy10", "tuning"}


@dataclass(frozen=True)
class Outcome:
    """One run of a method on a problem."""

    method: str
    problem: str
    seed: int
    evaluated: float
    recommended: float
    seconds: float


def ours(name: str, seed: int) -> Outcome:
    """One run of `cavity.design`, with its defaults."""
    from cavity.design import History, Options, Space, Study, suggest

    problem = PROBLEMS[name]
    observe = problem.observer(seed)
    space = Space([(0.0, 1.0)] * problem.dims)
    options = Options(n_initial=problem.initial)
    history = History()
    for u in problem.design(seed):
        history = history.with_outcome(space.from_unit(u), observe(u))
    seconds = 0.0
    while len(history) < problem.calls:
        start = time.process_time()
        x = suggest(history, space, options, seed)[0].x
        seconds += time.process_time() - start
        history = history.with_outcome(x, observe(space.to_unit(x)))
    regret = np.array([problem.at(space.to_unit(trial.x)) for trial in history]) - problem.optimum
    best = Study(history, space, options).recommendation
    assert best is not None
    recommended = problem.at(space.to_unit(best.x)) - problem.optimum
    each = seconds / (problem.calls - problem.initial)
    return Outcome("cavity", name, seed, float(regret.min()), float(recommended), round(each, 4))


def stored() -> list[Outcome]:
    """Results of earlier runs; of one that was repeated the last."""
    if not STORED.exists():
        return []
    lines = [Outcome(**json.loads(line)) for line in STORED.read_text().splitlines() if line.strip()]
    return list({(o.method, o.problem, o.seed): o for o in lines}.values())


def store(outcome: Outcome) -> None:
    """Add a result to the file."""
    with open(STORED, "a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def peer(method: str, name: str, seed: int, python: str) -> Outcome:
    """One run of a peer, in its own environment."""
    command = [python, str(HERE / "design_peer_worker.py"), method, name, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Outcome(**json.loads(done.stdout.strip().splitlines()[-1]))


def figure(outcomes: list[Outcome], name: str) -> float:
    """The figure of a problem: median log10 regret, or the median regret of the recommendation."""
    if name in SHOWN_AS_LOG:
        return float(np.median([np.log10(max(o.evaluated, 1e-12)) for o in outcomes]))
    return float(np.median([o.recommended for o in outcomes]))


def table(outcomes: list[Outcome]) -> str:
    """One line for each problem and method."""
    lines = [
        f"{'problem':20s} {'method':10s} {'runs':>4s} {'regret':>8s} {'worst':>8s} {'basin':>6s} {'s':>7s}"
    ]
    for name in PROBLEMS:
        for method in ("cavity", *PEERS):
            of = [o for o in outcomes if (o.problem, o.method) == (name, method)]
            if not of:
                continue
            log = name in SHOWN_AS_LOG
            worst = max(o.evaluated if log else o.recommended for o in of)
            worst = float(np.log10(max(worst, 1e-12))) if log else worst
            basin = np.mean([o.evaluated < 0.1 for o in of])
            seconds = np.mean([o.seconds for o in of])
            lines.append(
                f"{name:20s} {method:10s} {len(of):4d} {figure(of, name):8.2f} {worst:8.2f} {basin:6.0%} {seconds:7.3f}"
            )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks design", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer problems and seeds")
    parser.add_argument("--peers", action="store_true", help="run what is missing of the peers")
    parser.add_argument("--python", default=".venv-peers/bin/python", help="interpreter of the peers")
    parser.add_argument("--problem", action="append", help="only these")
    parser.add_argument("--seeds", type=int, help="number of seeds")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--store", action="store_true", help="keep our results")
    parser.add_argument("--stored", action="store_true", help="run nothing; show what is stored")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else FULL
    known = stored()
    peers = [o for o in known if o.method != "cavity"]
    shown = [o for o in known if o.method == "cavity"]
    found: list[Outcome] = shown if options.stored else []
    for name, count in {} if options.stored else plan.items():
        if options.problem and name not in options.problem:
            continue
        for seed in range(options.first, options.first + (options.seeds or count)):
            found.append(ours(name, seed))
            if options.store:
                store(found[-1])
            print(json.dumps(asdict(found[-1])), flush=True)
            for method in PEERS if options.peers else ():
                if not any((o.method, o.problem, o.seed) == (method, name, seed) for o in peers):
                    peers.append(peer(method, name, seed, options.python))
                    store(peers[-1])
    print(table([*found, *peers]))
    print(result_line(found, peers))
    return 0


def result_line(found: list[Outcome], peers: list[Outcome]) -> str:
    """The last line: our figures, and the share of BoTorch's time on the same problems."""
    parts = []
    for name in ("branin", "hartmann6", "hartmann6_outliers"):
        of = [o for o in found if o.problem == name]
        if of:
            parts.append(f"{name}={figure(of, name):.2f}")
    clean = [o for o in found if o.problem in ("branin", "hartmann6")]
    names = {o.problem for o in clean}
    if clean:
        ms = float(np.mean([np.mean([o.seconds for o in clean if o.problem == n]) for n in names])) * 1e3
        parts.append(f"ms_per_suggestion={ms:.0f}")
        botorch = [o for o in peers if o.method == "botorch" and o.problem in names]
        if botorch:
            theirs = [np.mean([o.seconds for o in botorch if o.problem == n] or [np.nan]) for n in names]
            parts.append(f"vs_botorch_time={ms / 1e3 / float(np.nanmean(theirs)):.3f}")
    return "RESULT " + " ".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
