"""Runs inside the peers' environment: BlackJAX on a whitened probit posterior, NUTS or elliptical slice sampling.

    python sampling_worker.py FILE OUT METHOD DRAWS WARMUP CHAINS SEED REPEATS

FILE has the root L of the prior covariance and the labels y. Writes the draws of f to OUT (npz) and prints one JSON
line with seconds of compilation, warm-up and sampling (the shortest of REPEATS runs). It imports nothing of this
project.
"""

from __future__ import annotations

import json
import os
import sys
import time

if os.environ.get("OMP_NUM_THREADS") == "1":
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import numpy as np


def compiled(function, *arguments):
    """The function compiled for these arguments, and the seconds that took."""
    import jax

    start = time.perf_counter()
    ready = jax.jit(function).lower(*arguments).compile()
    return ready, time.perf_counter() - start


def main() -> None:
    began = time.perf_counter()
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    file, out, method, *counts = sys.argv[1:]
    draws, warmup, chains, seed, repeats = map(int, counts)
    data = np.load(file)
    L, y = jnp.asarray(data["L"]), jnp.asarray(data["y"])
    n = len(y)
    imported = time.perf_counter() - began

    def log_likelihood(u):
        return jax.scipy.stats.norm.logcdf(y * (L @ u)).sum()

    def log_density(u):
        return log_likelihood(u) - 0.5 * u @ u

    start_key, warm_key, run_key = jax.random.split(jax.random.key(seed), 3)
    start = 0.1 * jax.random.normal(start_key, (chains, n))
    compiling = warming = 0.0
    if method == "nuts":
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)

        def warm(key, position):
            (state, parameters), _ = adaptation.run(key, position, warmup)
            return state.position, parameters

        ready, compiling = compiled(warm, warm_key, start[0])
        began = time.perf_counter()
        position, parameters = jax.block_until_ready(ready(warm_key, start[0]))
        warming = time.perf_counter() - began
        start = position + 0.1 * start  # all chains begin where the adapted one is
        algorithm = blackjax.nuts(log_density, **parameters)
    else:
        algorithm = blackjax.elliptical_slice(log_likelihood, mean=jnp.zeros(n), cov=jnp.eye(n))

    def run(key, positions):
        states = jax.vmap(algorithm.init)(positions)

        def one(states, key):
            states, _ = jax.vmap(algorithm.step)(jax.random.split(key, chains), states)
            return states, states.position

        return jax.lax.scan(one, states, jax.random.split(key, draws))[1]

    ready, took = compiled(run, run_key, start)
    compiling += took
    sampling = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        U = np.asarray(jax.block_until_ready(ready(run_key, start)))
        sampling = min(sampling, time.perf_counter() - began)
    np.savez(out, f=np.swapaxes(U @ np.asarray(L).T, 0, 1))
    print(json.dumps({"import": imported, "compile": compiling, "warmup": warming, "sampling": sampling}))


if __name__ == "__main__":
    main()
