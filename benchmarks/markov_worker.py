"""Runs inside the peers' environment: log evidence with its gradient by celerite2 and tinygp, one line per request.

    python markov_worker.py FILE

FILE (npz) has times t, values y, and `few`, the number of rows for the composite model. A request is the name of a
subject; the answer is its CPU seconds, or the text of an error. It imports nothing of this project. celerite2's own
forward and reverse operators are called directly, without the chain to its parameters.
"""

from __future__ import annotations

import json
import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever a package prints goes to the error stream

import numpy as np  # noqa: E402

NOISE = 0.09


def celerite(term, t, y):
    from celerite2 import backprop

    n = len(t)
    noise = np.full(n, NOISE)

    def run():
        c, a, U, V = term.get_celerite_matrices(t, noise)
        states = len(c)
        d, W, S = backprop.factor_fwd(
            t, c, a, U, V, np.empty(n), np.empty((n, states)), np.empty((n, states, states))
        )
        Y = y[:, None]
        Z, F = backprop.solve_lower_fwd(t, c, U, W, Y, np.empty((n, 1)), np.empty((n, states, 1)))
        value = -0.5 * (np.sum(np.log(d)) + np.sum(Z[:, 0] ** 2 / d) + n * np.log(2 * np.pi))
        room = np.zeros(n), np.zeros(states), np.zeros((n, states)), np.zeros((n, states)), np.zeros((n, 1))
        bW = backprop.solve_lower_rev(t, c, U, W, Y, Z, F, -Z / d[:, None], *room)[3]
        bd = -0.5 / d + 0.5 * Z[:, 0] ** 2 / d**2
        room = np.zeros(n), np.zeros(states), np.zeros(n), np.zeros((n, states)), np.zeros((n, states))
        backprop.factor_rev(t, c, a, U, V, d, W, S, bd, bW, *room)
        return value

    return run


def tinygp_matern(t, y):
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from tinygp import GaussianProcess
    from tinygp.kernels import quasisep

    def log_density(theta):
        kernel = quasisep.Matern52(scale=jnp.exp(theta[0]), sigma=jnp.exp(theta[1]))
        return GaussianProcess(kernel, t, diag=jnp.exp(theta[2])).log_probability(y)

    theta = jnp.array([0.0, 0.0, np.log(NOISE)])
    compiled = jax.jit(jax.value_and_grad(log_density)).lower(theta).compile()
    return lambda: jax.block_until_ready(compiled(theta))


def subject(name, t, y, few):
    if name == "tinygp52":
        return tinygp_matern(t, y)
    from celerite2 import terms

    if name == "celerite32":
        return celerite(terms.Matern32Term(sigma=1.0, rho=1.0), t, y)
    rates = np.geomspace(0.02, 3.0, 28)
    waves = [
        terms.ComplexTerm(a=0.1, b=0.0, c=rate, d=2 * np.pi * (1 + k % 6)) for k, rate in enumerate(rates)
    ]
    return celerite(sum(waves[1:], waves[0]), t[:few], y[:few])


def main() -> None:
    data = np.load(sys.argv[1])
    known = {}
    for line in sys.stdin:
        name = line.strip()
        try:
            if name not in known:
                known[name] = subject(name, data["t"], data["y"], int(data["few"]))
                known[name]()
            begin = time.process_time()
            known[name]()
            answer = {"seconds": time.process_time() - begin}
        except ImportError as error:
            answer = {"missing": str(error)}
        OUT.write(json.dumps(answer) + "\n")
        OUT.flush()


if __name__ == "__main__":
    main()
