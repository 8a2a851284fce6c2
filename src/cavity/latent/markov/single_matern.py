# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""The passes of `passes` for one Matern block of one to three states, held in registers.

The filtered covariances follow from the predicted ones, which are all stored: w (n, d) is the first row of each, `rest`
(n, d (d - 1) / 2) the rest of the upper triangle. Derivatives in the rate are contracted on the way, since
A' = gap F A and Q' = gap strength a a', with a the last column of A. P and N are tuples (`small_matrices`): the
covariance of the first state, or zeros, in the arithmetic of the pass. A and Q are (m, 1, d, d).
"""

from __future__ import annotations

import numpy as np

from cavity.latent.markov.small_matrices import (
    FORGOTTEN,
    add,
    add_observed,
    add_scaled,
    apply,
    compiled,
    congruence,
    dot,
    drift_form,
    drift_trace,
    full,
    informed,
    inner,
    noise_form,
    noise_product,
    outer_minus,
    part,
    process_noise,
    read,
    read_matrix,
    read_vector,
    scaled,
    stationary,
    symmetric_apply,
    transition,
    transposed,
    updated,
    upper,
    write,
    write_matrix,
    write_vector,
    zero_vector,
)


@part
def _step(like, x):
    """A of a step of rate times gap x."""
    if x < FORGOTTEN:
        return transition(like, x, np.exp(-x))
    return transition(like, 0.0, 0.0)


@part
def _noise(like, x, variance):
    """Q of it, packed."""
    if x < FORGOTTEN:
        return scaled(process_noise(like, x, np.exp(-x)), variance)
    return stationary(like, variance)


@compiled
def transitions(like, rate, variance, gaps, A, Q):
    """A and Q of steps of these lengths."""
    for k in range(len(gaps)):
        x = rate * gaps[k]
        write_matrix(like, _step(like, x), A[k, 0])
        write_matrix(like, full(_noise(like, x, variance)), Q[k, 0])


@compiled
def forward(P, rate, variance, gaps, which, noise, observed, w, rest, c, q, g):
    """The covariance filter from the covariance P of the first state.

    Transitions are made in this pass and in the next ones: of very many times they take more memory than all else.
    """
    for k in range(len(which)):
        write(P, w[k], rest[k])
        s, v = P[0], noise[k]
        if observed:
            if np.isinf(v):  # nothing was seen there
                g[k], c[k], q[k] = 1.0, 0.0, 1.0
            else:
                g[k] = s + v
                c[k] = 1.0 / g[k]
                q[k] = v * c[k]
        else:
            g[k] = 1.0 + v * s
            q[k] = 1.0 / g[k]
            c[k] = v * q[k]
        P = updated(P, c[k], q[k])
        u = which[k]
        if u >= 0:
            x = rate * gaps[u]
            P = add(congruence(P, _step(P, x)), _noise(P, x, variance))


@compiled
def backward(N, rate, gaps, which, w, c, q, var, left):
    """Marginal variances and the diagonal of R, from N = 0."""
    for k in range(len(which) - 1, -1, -1):
        u = which[k]
        if u >= 0:
            N = congruence(N, transposed(N, _step(N, rate * gaps[u])))
        own = read_vector(N, w[k])
        v = symmetric_apply(N, own)
        wNw = dot(N, own, v)
        left[k] = c[k] + c[k] * c[k] * wNw
        var[k] = q[k] * (own[0] - q[k] * wNw)
        N = informed(N, v, c[k], left[k])


@compiled
def pull_correction(N, rate, variance, gaps, which, w, rest, c, q):
    """tr(R dK) by the variance and the rate."""
    d_rate, d_variance = N[0] * 0.0, N[0] * 0.0
    for k in range(len(which) - 1, -1, -1):
        u = which[k]
        own = read_vector(N, w[k])
        if u >= 0:
            step = _step(N, rate * gaps[u])
            B = congruence(updated(read(N, w[k], rest[k]), c[k], q[k]), step)
            d_rate += gaps[u] * (2.0 * drift_trace(N, B) + variance * noise_form(N, step))
            d_variance += inner(N, _noise(N, rate * gaps[u], variance))
            N = congruence(N, transposed(N, step))
        v = symmetric_apply(N, own)
        N = informed(N, v, c[k], c[k] + c[k] * c[k] * dot(N, own, v))
    d_variance += inner(N, stationary(N, variance))
    return d_variance / variance, d_rate


@compiled
def functionals(P, rate, gaps, which, u, ahead):
    """r_k = h u_k + A'r_{k+1} of a column u (n,), into `ahead` (n, d)."""
    r = zero_vector(P)
    for k in range(len(which) - 1, -1, -1):
        step = which[k]
        if step >= 0:
            r = apply(P, transposed(P, _step(P, rate * gaps[step])), r)
        r = add_observed(P, r, u[k])
        write_vector(P, r, ahead[k])


@compiled
def pull_product(P, rate, variance, gaps, which, left, right):
    """Derivatives of l'K r in variance and rate, from the functionals (n, d) of both; see `passes` on rates."""
    one, other = read_vector(P, left[0]), read_vector(P, right[0])
    first = stationary(P, variance)
    x, y = symmetric_apply(first, one), symmetric_apply(first, other)
    d_variance, d_rate = dot(P, one, y), 0.0
    for k in range(len(which) - 1):
        u = which[k]
        if u >= 0:
            step, noise = _step(P, rate * gaps[u]), _noise(P, rate * gaps[u], variance)
            one, other = read_vector(P, left[k + 1]), read_vector(P, right[k + 1])
            x_noise, y_noise = symmetric_apply(noise, one), symmetric_apply(noise, other)
            x = add_scaled(P, apply(P, step, x), x_noise, 1.0)
            y = add_scaled(P, apply(P, step, y), y_noise, 1.0)
            d_variance += dot(P, one, y_noise)
            d_rate += gaps[u] * (drift_form(P, one, y) + drift_form(P, other, x))
            d_rate += gaps[u] * variance * noise_product(P, one, other)
    return d_variance / variance, d_rate


@compiled
def smooth(P, rate, gaps, which, w, c, q, B, observed, alpha, moved):
    """((I - R K) b, Sigma b) of each column b of B (n, m), or R b and the smoothed means if `observed`."""
    for j in range(B.shape[1]):
        x = zero_vector(P)
        for k in range(len(which)):
            mu, own = x[0], read_vector(P, w[k])
            a = c[k] * (B[k, j] - mu) if observed else q[k] * B[k, j] - c[k] * mu
            alpha[k, j], moved[k, j] = a, mu + own[0] * a
            x = add_scaled(P, x, own, a)
            u = which[k]
            if u >= 0:
                x = apply(P, _step(P, rate * gaps[u]), x)
        r = zero_vector(P)
        for k in range(len(which) - 1, -1, -1):
            u = which[k]
            if u >= 0:
                r = apply(P, transposed(P, _step(P, rate * gaps[u])), r)
            ahead = dot(P, read_vector(P, w[k]), r)
            alpha[k, j] -= c[k] * ahead
            moved[k, j] += q[k] * ahead
            r = add_observed(P, r, alpha[k, j])


@compiled
def evidence(P, A, Q, which, noise, y, w, rest, means, c, a):
    """The filter and its means (n, d), for observations with noise: a = (y - mean) / pivot, |K + V|, y'(K + V)^-1 y."""
    x = zero_vector(P)
    log_det, quadratic, product = 0.0, 0.0, 1.0
    for k in range(len(which)):
        write(P, w[k], rest[k])
        write_vector(P, x, means[k])
        g = P[0] + noise[k]
        c[k] = 1.0 / g
        e = y[k] - x[0]
        a[k] = e * c[k]
        quadratic += e * a[k]
        product *= g
        if not 1e-100 < product < 1e100:  # the logarithm of many factors at once
            log_det += np.log(product)
            product = 1.0
        x = add_scaled(P, x, read_vector(P, P), a[k])
        P = updated(P, c[k], noise[k] * c[k])
        u = which[k]
        if u >= 0:
            step = read_matrix(P, A[u, 0])
            P = add(congruence(P, step), upper(P, read_matrix(P, Q[u, 0])))
            x = apply(P, step, x)
    return log_det + np.log(product), quadratic


@compiled
def pull_evidence(N, rate, variance, gaps, A, Q, which, noise, w, rest, means, c, a, left):
    """Derivatives of that log density in variance and rate; a becomes R y, and `left` the diagonal of R."""
    d_rate, d_variance = 0.0, 0.0
    r = zero_vector(N)
    for k in range(len(which) - 1, -1, -1):
        u = which[k]
        own = read_vector(N, w[k])
        if u >= 0:
            step, M = read_matrix(N, A[u, 0]), outer_minus(N, r)
            B = congruence(updated(read(N, w[k], rest[k]), c[k], noise[k] * c[k]), step)
            d_rate += gaps[u] * (drift_trace(M, B) + 0.5 * variance * noise_form(M, step))
            d_rate += gaps[u] * drift_form(N, r, read_vector(N, means[k + 1]))
            d_variance += inner(M, upper(N, read_matrix(N, Q[u, 0])))
            back = transposed(N, step)
            r, N = apply(N, back, r), congruence(N, back)
        v = symmetric_apply(N, own)
        a[k] -= c[k] * dot(N, own, r)
        left[k] = c[k] + c[k] * c[k] * dot(N, own, v)
        N = informed(N, v, c[k], left[k])
        r = add_observed(N, r, a[k])
    d_variance += inner(outer_minus(N, r), stationary(N, variance))
    return 0.5 * d_variance / variance, d_rate
