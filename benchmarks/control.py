"""Control: moment matching with gradients against its floor and against a textbook loop; one planning decision.

`moments_floor` is the time of one forward and reverse pass (n = 300 data, 5 inputs, 4 outputs, one input
distribution) over that of the floor: for each of the E (E + 1) / 2 output pairs one product of n x (D + 2) matrices for
the exponents, one NumPy exponential of the n x n matrix, and its product with an n x (D + 1) matrix.

`moments_vs_naive` is the time of the textbook computation over ours. Naive: a loop over output pairs in NumPy, with
the n x n x D array of differences and the analytic derivatives of mean, covariance and input-output covariance in the
input mean and in each entry of the input covariance, one at a time, as the formulas are usually printed.

`plan_ms` is one planning decision for the cart-pole with moment matching; one with means alone is printed beside.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks control [--quick]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.report import ratio, result_line, seconds, table
from benchmarks.timing import interleave
from cavity.control import CartPole, Dynamics, Transitions
from cavity.control.planning import CART_POLE, CART_POLE_MOMENTS, Planner, cart_pole_loss, receding_horizon
from cavity.control.uncertain_inputs.decomposition import AnalyticOutput
from cavity.control.uncertain_inputs.gaussian_moments import GaussianMoments

Array = NDArray[np.float64]
N, D, E = 300, 5, 4


@dataclass(frozen=True)
class Problem:
    """Squared exponential models of E outputs, an input distribution, and adjoints of all results."""

    X: Array
    alpha: Array
    inverse: list[Array]
    scales: Array
    variances: Array
    m: Array
    S: Array
    d_mean: Array
    d_cov: Array
    d_cross: Array


def make_problem(n: int = N, d: int = D, e: int = E, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    scales, variances = rng.uniform(1.0, 2.5, (e, d)), rng.uniform(0.5, 2.0, e)
    Y = np.sin(X @ rng.standard_normal((d, e))) + 0.1 * rng.standard_normal((n, e))
    inverse = []
    for s, v in zip(scales, variances):
        Z = X / s
        squares = np.sum(Z**2, axis=1)
        K = v * np.exp(-0.5 * np.maximum(squares[:, None] + squares - 2 * Z @ Z.T, 0.0))
        inverse.append(np.linalg.inv(K + 0.01 * np.eye(n)))
    alpha = np.column_stack([R @ y for R, y in zip(inverse, Y.T)])
    A = 0.3 * rng.standard_normal((d, d))
    d_cov = rng.standard_normal((e, e))
    return Problem(
        X,
        alpha,
        inverse,
        scales,
        variances,
        0.3 * rng.standard_normal(d),
        A @ A.T,
        rng.standard_normal(e),
        d_cov + d_cov.T,
        rng.standard_normal((d, e)),
    )


# --- subjects -----------------------------------------------------------------------------------------------


def ours(p: Problem) -> Callable[[], tuple[Array, Array]]:
    zero = np.zeros((p.X.shape[1] + 1,) * 2)
    outputs = [
        AnalyticOutput(p.X, ((v, np.diag(s**-2.0)),), np.ascontiguousarray(a), R, zero[0], v, zero)
        for a, R, s, v in zip(p.alpha.T, p.inverse, p.scales, p.variances)
    ]
    moments = GaussianMoments(outputs)

    def run() -> tuple[Array, Array]:
        _, cache = moments.forward(p.m, p.S)
        return moments.pull(cache, p.d_mean, p.d_cov, p.d_cross)

    return run


def floor(p: Problem) -> Callable[[], None]:
    n, d, e = len(p.X), p.X.shape[1], p.alpha.shape[1]
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((n, d + 2)), -np.abs(rng.standard_normal((n, d + 2)))
    left, rows, Q = np.abs(left), rng.standard_normal((n, d + 1)), np.empty((n, n))

    def run() -> None:
        for _ in range(e * (e + 1) // 2):
            np.matmul(left, right.T, out=Q)
            np.exp(Q, out=Q)
            Q @ rows

    return run


def naive(p: Problem) -> Callable[[], tuple[Array, Array]]:
    """The textbook loop; returns the same adjoints as ours."""
    d = p.X.shape[1]
    e = p.alpha.shape[1]

    def run() -> tuple[Array, Array]:
        nu, S = p.X - p.m, p.S
        d_m, d_S = np.zeros(d), np.zeros((d, d))
        means = np.zeros(e)
        entries = [(r, s) for r in range(d) for s in range(d)]
        mean_m, mean_S = np.zeros((e, d)), np.zeros((e, d, d))
        for a in range(e):
            A = np.linalg.inv(S + np.diag(p.scales[a] ** 2))
            u = nu @ A
            det = np.linalg.det(S @ np.diag(p.scales[a] ** -2) + np.eye(d))
            w = p.alpha[:, a] * p.variances[a] * det**-0.5 * np.exp(-0.5 * np.sum(nu * u, axis=1))
            means[a] = w.sum()
            q = w @ u
            mean_m[a] = q
            dq_m = np.einsum("i,ir,is->rs", w, u, u) - means[a] * A  # dq_s / dm_r
            d_m += (S @ p.d_cross[:, a]) @ dq_m
            for r, s in entries:
                l_S = 0.5 * (u[:, r] * u[:, s] - A[r, s])  # d log l_i / dS_rs
                mean_S[a, r, s] = w @ l_S
                dq_S = (w * l_S) @ u - A[:, r] * q[s]  # du_i / dS_rs = -A_r u_is
                d_S[r, s] += p.d_cross[:, a] @ (S @ dq_S) + p.d_cross[r, a] * q[s]
        for a in range(e):
            d_m += p.d_mean[a] * mean_m[a]
            d_S += p.d_mean[a] * mean_S[a]
        for a in range(e):
            for b in range(a + 1):
                La, Lb = np.diag(p.scales[a] ** -2), np.diag(p.scales[b] ** -2)
                R = S @ (La + Lb) + np.eye(d)
                T, Ri = np.linalg.solve(R, S), np.linalg.inv(R)
                z = (nu @ La)[:, None, :] + (nu @ Lb)[None, :, :]
                zT = z @ T
                k = -0.5 * np.sum((nu @ La) * nu, axis=1)[:, None] - 0.5 * np.sum((nu @ Lb) * nu, axis=1)
                Q = p.variances[a] * p.variances[b] * np.linalg.det(R) ** -0.5
                Q = Q * np.exp(k + 0.5 * np.sum(z * zT, axis=2))
                W = np.outer(p.alpha[:, a], p.alpha[:, b])
                if a == b:
                    W = W - p.inverse[a]
                G, weight = W * Q, p.d_cov[a, b] * (1.0 if a == b else 2.0)
                y = z @ Ri  # d log Q_ij / dm
                LR = (La + Lb) @ Ri
                for r in range(d):
                    d_m[r] += weight * np.sum(G * y[:, :, r])
                for r, s in entries:
                    d_S[r, s] += weight * np.sum(G * 0.5 * (y[:, :, r] * y[:, :, s] - LR[r, s]))
                d_m -= weight * (means[b] * mean_m[a] + means[a] * mean_m[b])
                d_S -= weight * (means[b] * mean_S[a] + means[a] * mean_S[b])
        return d_m, 0.5 * (d_S + d_S.T)

    return run


def timed(run: Callable[[], object], repeat: int = 1) -> Callable[[int], float]:
    def once(_: int) -> float:
        best = math.inf
        for _ in range(repeat):
            began = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - began)
        return best

    return once


# --- planning -----------------------------------------------------------------------------------------------


def decision_ms(moment_matching: bool = True, steps: int = 60) -> float:
    """Milliseconds of one decision for the cart-pole, with the settings of the success table.

    The median over the steps of a swing-up with 200 transitions (by default all 12 s of it: holding the pole takes
    longer to plan than swinging it up), each step the faster of two runs: what the decision takes when nothing else
    runs.
    """
    system = CartPole()
    model = Dynamics.fit(Transitions.draw(system, 200, rng=0), problem=system, rng=0)
    settings = CART_POLE_MOMENTS if moment_matching else CART_POLE
    planner = Planner(model, cart_pole_loss(system), settings)
    times = [receding_horizon(system, planner, steps).milliseconds for _ in range(2)]
    return float(np.median(np.min(times, axis=0)))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks control", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: under 50 s")
    quick = parser.parse_args(argv).quick
    problem = make_problem()
    with threadpool_limits(1):
        mine, textbook = ours(problem), naive(problem)
        for got, want in zip(mine(), textbook()):  # the same thing, before it is timed
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())
        always = {"floor": timed(floor(problem), 3), "cavity": timed(mine, 3)}
        series = interleave(
            always,
            {"naive": timed(textbook)},
            rounds=30 if quick else 100,
            every=6 if quick else 10,
            budget=20 if quick else 120,
            warm_sometimes=False,
        )
        mean_only, decision = decision_ms(moment_matching=False), decision_ms()
    floor_ratio, naive_ratio = series.ratio("cavity", "floor"), series.ratio("naive", "cavity")
    print(f"moment matching with gradients, n = {N}, {D} inputs, {E} outputs, one thread")
    rows = [
        ["floor (exponentials and products)", seconds(series.median("floor")), ""],
        ["cavity", seconds(series.median("cavity")), f"{ratio(floor_ratio)} the floor"],
        [
            "textbook loop, analytic derivatives",
            seconds(series.median("naive")),
            f"{ratio(naive_ratio)} cavity",
        ],
    ]
    print(table(["", "median", ""], rows))
    print(
        f"a decision for the cart-pole, 200 transitions: {mean_only:.0f} ms with means, {decision:.0f} ms with moments"
    )
    print(result_line({"moments_floor": floor_ratio, "moments_vs_naive": naive_ratio, "plan_ms": decision}))
    return 0
