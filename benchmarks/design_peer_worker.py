"""One peer on one problem and seed, in the environment of the peers: a line of JSON.

python benchmarks/design_peer_worker.py botorch hartmann6 0
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.design_problems import PROBLEMS, Array, Problem

warnings.simplefilter("ignore")


def botorch(problem: Problem, seed: int, observe: Callable[[Array], float]) -> tuple[Array, Array, int]:
    """SingleTaskGP and LogEI, or qLogNEI if there is noise; 10 restarts of 512 raw points."""
    import torch
    from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float64)
    X = torch.tensor(problem.design(seed))
    y = torch.tensor([[observe(u)] for u in X.numpy()])
    bounds = torch.stack([torch.zeros(problem.dims), torch.ones(problem.dims)])
    noisy = problem.noise_sd > 0

    def fitted() -> Any:
        model = SingleTaskGP(X, -y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    while len(y) < problem.calls:
        model = fitted()
        if noisy:
            acquisition: Any = qLogNoisyExpectedImprovement(model, X, prune_baseline=True)
        else:
            acquisition = LogExpectedImprovement(model, best_f=(-y).max())
        x, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=10, raw_samples=512)
        X = torch.cat([X, x])
        y = torch.cat([y, torch.tensor([[observe(x[0].numpy())]])])
    best = int(y.argmin())
    if noisy:
        best = int(fitted().posterior(X).mean.argmax())
    return X.numpy(), y.numpy()[:, 0], best


def optuna(problem: Problem, seed: int, observe: Callable[[Array], float]) -> tuple[Array, Array, int]:
    """GPSampler with its defaults, told whether the function is deterministic."""
    import optuna as library

    library.logging.set_verbosity(library.logging.ERROR)
    sampler = library.samplers.GPSampler(
        seed=seed, n_startup_trials=problem.initial, deterministic_objective=problem.noise_sd == 0
    )
    study = library.create_study(sampler=sampler)
    for u in problem.design(seed):
        study.enqueue_trial({f"x{i}": float(v) for i, v in enumerate(u)})

    def objective(trial: Any) -> float:
        u = np.array([trial.suggest_float(f"x{i}", 0.0, 1.0) for i in range(problem.dims)])
        return observe(u)

    study.optimize(objective, n_trials=problem.calls)
    X = np.array([[t.params[f"x{i}"] for i in range(problem.dims)] for t in study.trials])
    y = np.array([t.value for t in study.trials])
    return X, y, int(np.argmin(y))


def skopt(problem: Problem, seed: int, observe: Callable[[Array], float]) -> tuple[Array, Array, int]:
    """`Optimizer` with its defaults (Matern and gp_hedge)."""
    from skopt import Optimizer

    optimizer = Optimizer(
        [(0.0, 1.0)] * problem.dims,
        "GP",
        n_initial_points=problem.initial,
        random_state=seed,
        acq_optimizer="lbfgs",
    )
    X: list[list[float]] = [list(map(float, u)) for u in problem.design(seed)]
    y = [observe(np.array(u)) for u in X]
    optimizer.tell(X, y)
    while len(y) < problem.calls:
        u = optimizer.ask()
        X.append(list(u))
        y.append(observe(np.array(u)))
        optimizer.tell(u, y[-1])
    return np.array(X), np.array(y), int(np.argmin(y))


PEERS = {"botorch": botorch, "optuna": optuna, "skopt": skopt}


def main() -> None:
    peer, name, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    problem = PROBLEMS[name]
    start = time.process_time()
    X, _, best = PEERS[peer](problem, seed, problem.observer(seed))
    seconds = (time.process_time() - start) / (problem.calls - problem.initial)
    regret = np.array([problem.at(u) for u in X]) - problem.optimum
    print(
        json.dumps(
            {
                "method": peer, "problem": name, "seed": seed, "evaluated": float(regret.min()),
                "recommended": float(regret[best]), "seconds": round(seconds, 4),
            }
        ),
        flush=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
