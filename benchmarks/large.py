"""Inducing inputs on SARCOS, in floors: how far from the linear algebra that cannot be avoided.

The floor of an evaluation with n rows and m inducing inputs is the product V V' of an m x n matrix in blocks of rows
(`dsyrk`) and one Cholesky factorization of m. All take turns in one process on one thread, processor time counts, and
every figure is the median over rounds of the ratio to the floor of the same round.

    vfe_1000      log evidence with its gradient, inducing inputs included: Gaussian noise, 40,035 rows, m = 1000
    sites_500     log normalizer with its gradient, sites of either sign on the FITC prior: 20,000 rows, m = 500
    sweep_floor   one sweep of EP for probit classification on the FITC prior: 20,000 rows, m = 500

Neighbors and peers are in `large_neighbors`. Without --quick also the automatic choice on six data sets (`large_fits`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from benchmarks.large_dask import dask_overhead
from benchmarks.large_fits import SETS, auto
from benchmarks.large_neighbors import against_peers, bound_500, neighbor_subjects
from benchmarks.timing import interleave
from cavity import GP, datasets
from cavity.inference.ep.parallel import damped
from cavity.inference.ep.state import EPProblem
from cavity.kernels import SE
from cavity.latent.inducing import Inducing
from cavity.latent.sites import Sites
from cavity.likelihoods import Gaussian, Probit
from cavity.likelihoods.observations import Observations
from cavity.numerics.compiled import load_compiled
from cavity.numerics.threads import small_products

BLOCK = 1024
"""Rows of a block of the floor."""

ROWS = 20_000
"""Rows for sites."""

NEGATIVE = 0.06
"""Share of negative sites."""

TARGETS = {"vfe_1000": 5.0, "sites_500": 9.0, "sweep_floor": 3.0, "neighbors": 1.8}
AT_LEAST = {"sgpr_vs_gpytorch": 1.5, "vecchia_vs_gpboost": 10.0}


def cpu(run: Callable[[], object]) -> Callable[[int], float]:
    def timed(_: int) -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    return timed


def floor(n: int, m: int) -> Callable[[], object]:
    tile = np.random.default_rng(0).standard_normal((BLOCK, m))
    C = np.zeros((m, m), order="F")

    def run() -> object:
        C[:] = 0.0
        for start in range(0, n, BLOCK):
            dsyrk(1.0, tile[: min(BLOCK, n - start)].T, beta=1.0, c=C, lower=1, overwrite_c=1)
        C.reshape(-1, order="F")[:: m + 1] += 1.0
        return lapack.dpotrf(C, lower=1, overwrite_a=1)

    return run


def rows() -> tuple[np.ndarray, np.ndarray]:
    data = datasets.load("sarcos")
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    return X, (data.y - data.y.mean()) / data.y.std()


def subjects(X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], object]]:
    kernel = 1.0 * SE(np.full(X.shape[1], 6.0))

    representation = Inducing(1000, "vfe", learn=True).for_rows(kernel, X)
    model, rows = GP(kernel, Gaussian(0.03), representation=representation).training(X, y)

    few, labels = X[:ROWS], np.where(y[:ROWS] > 0, 1.0, -1.0)
    rng = np.random.default_rng(0)
    tau = np.where(rng.random(ROWS) < NEGATIVE, -0.01, np.exp(rng.standard_normal(ROWS)))
    sites = Sites(y[:ROWS] * tau, tau)
    fitc, its_rows = GP(kernel, Probit(), representation=Inducing(500, "fitc", learn=True)).training(
        few, labels
    )
    problem = EPProblem(fitc.prior(fitc.representation.prepare(few)), Observations(Probit(), labels))

    def given_sites() -> object:
        q = fitc.prior(its_rows.inputs).given(sites)
        return q.log_normalizer, q.pull(1.0)

    return {
        "floor_1000": floor(len(X), 1000),
        "vfe_1000": lambda: model.evidence_of(rows),
        "floor_500": floor(ROWS, 500),
        "sites_500": given_sites,
        "bound_500": bound_500(X, y),
        **neighbor_subjects(X, y),
        "ep_500": lambda: sweeps.append(damped(problem, Sites.zero(ROWS))[2]),
    }


sweeps: list[int] = []
"""Of every run of EP."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks large", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args(argv)
    load_compiled()
    with small_products:
        X, y = rows()
        timed = {name: cpu(run) for name, run in subjects(X, y).items()}
        series = interleave(timed, {}, 3 if options.quick else 9, 1, warm_up=1)
    ratios = {
        "vfe_1000": series.ratio("vfe_1000", "floor_1000"),
        "sites_500": series.ratio("sites_500", "floor_500"),
        "neighbors": series.ratio("neighbors", "neighbor_floor"),
        "sweep_floor": (series.ratio("ep_500", "floor_500") or np.nan) / (sweeps[-1] + 1),
    }
    for name in timed:
        print(f"{name:12s} {series.median(name):8.3f} s")
    print(f"EP: {sweeps[-1]} sweeps after the first")
    for name, target in TARGETS.items():
        print(f"{name:12s} {ratios[name]:6.2f} floors, target {target}")
    ratios |= against_peers(X, y, series.median("bound_500") or np.nan)
    for name, target in AT_LEAST.items():
        print(f"{name:18s} {ratios[name]:6.2f} times, target at least {target}")
    ratios["dask_overhead"] = dask_overhead()
    print(f"dask_overhead {ratios['dask_overhead']:6.2f} of the workers' time, target 0.10")
    if not options.quick:
        near = auto([])
        print(
            f"automatic choice of the representation: near the best on {near} of {len(SETS)} data sets, target 5"
        )
        ratios["auto_near"] = near
    print("RESULT " + " ".join(f"{name}={value:.2f}" for name, value in ratios.items()))
    return 0
