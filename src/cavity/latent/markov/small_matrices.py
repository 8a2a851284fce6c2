# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Algebra of one, two and three states in registers: compiled functions of tuples, chosen by their lengths.

A symmetric matrix is the tuple of its upper triangle by rows, (p00, p01, p02, p11, p12, p22), whose first d entries are
P h; any other matrix A is the tuple of all its rows. The observation is the first entry of the state.

The transitions are those of a Matern process of smoothness d - 1/2 in its balanced state, of unit variance, with
x = rate * gap (see `kernels.state_space`). The length of a tuple is known when a function is compiled, so only one
branch of each remains.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from numba import njit

from cavity.numerics.compiled_helpers import helper

compiled = njit(cache=True, nogil=True, error_model="numpy")
part = helper()

FORGOTTEN = 700.0
"""Value of rate * gap from which nothing of a state is left: exp(-x) underflows."""

SERIES = 0.5
"""Value of x up to which the noise is summed from positive terms; beyond it nothing cancels in P - A P A'."""

TERMS = 16
"""Terms of those sums: the next is below 1e-17 of the first."""

CUBED = np.array([2.0 * 2.0**j / factorial(3 + j) for j in range(TERMS)])[::-1].copy()
FIFTH = np.array([24.0 * 2.0**j / factorial(5 + j) for j in range(TERMS)])[::-1].copy()
"""int_0^x s^m exp(-2 s) ds = exp(-2 x) x^(m + 1) sum_j (2 x)^j m! / (m + 1 + j)!, m = 2 and 4, last term first."""

THIRD = 1.0 / 3.0


# --- transitions ---------------------------------------------------------------------------------------------


@part
def stationary(P, variance):
    """Covariance of the state; the argument P says how many states there are, here and below."""
    if len(P) == 1:
        return (variance,)
    if len(P) == 3:
        return (variance, 0.0, variance)
    return (variance, 0.0, -THIRD * variance, THIRD * variance, 0.0, variance)


@part
def transition(P, x, decay):
    """A, with decay = exp(-x)."""
    if len(P) == 1:
        return (decay,)
    if len(P) == 3:
        return (decay * (1.0 + x), decay * x, -decay * x, decay * (1.0 - x))
    h = 0.5 * x * x
    one = (decay * (1.0 + x + h), decay * (x + 2.0 * h), decay * h)
    two = (-decay * h, decay * (1.0 + x - 2.0 * h), decay * (x - h))
    return one + two + (decay * (h - x), decay * (2.0 * h - 3.0 * x), decay * (1.0 - 2.0 * x + h))


@part
def _series(coefficients, x):
    total = coefficients[0]
    for j in range(1, TERMS):
        total = total * x + coefficients[j]
    return total


@part
def process_noise(P, x, decay):
    """Q, to full relative accuracy."""
    square = decay * decay
    if len(P) == 1:
        return (-np.expm1(-2.0 * x),)
    if len(P) == 3:
        cross = 2.0 * x * x * square
        if x > SERIES:
            return (
                1.0 - square * (1.0 + 2.0 * x * (1.0 + x)),
                cross,
                1.0 - square * (1.0 - 2.0 * x * (1.0 - x)),
            )
        g2 = square * x * x * x * _series(CUBED, x)
        g1 = 0.5 * x * x * square + g2
        g0 = x * square + 2.0 * g1
        return (4.0 * g2, cross, 4.0 * (g0 - 2.0 * g1 + g2))
    if x > SERIES:
        S = stationary(P, 1.0)
        M = congruence(S, transition(P, x, decay))
        return (S[0] - M[0], -M[1], S[2] - M[2], S[3] - M[3], -M[4], S[5] - M[5])
    g4 = square * x**5 * _series(FIFTH, x)
    g3 = 0.25 * (x**4 * square + 2.0 * g4)
    g2 = THIRD * (x**3 * square + 2.0 * g3)
    g1 = 0.5 * x * x * square + g2
    g0 = x * square + 2.0 * g1
    q, r = 16.0 * THIRD, 0.25 * g4
    one = (q * r, q * (0.5 * g3 - r), q * (0.5 * g2 - g3 + r))
    two = (q * (g2 - g3 + r), q * (g1 - 2.5 * g2 + 1.5 * g3 - r))
    return one + two + (q * (g0 - 4.0 * g1 + 5.0 * g2 - 2.0 * g3 + r),)


@part
def drift_trace(N, B):
    """tr(N F B): with A' = x F A the derivative of A P A' contracted with N is twice this with B = A P A'."""
    if len(N) == 1:
        return -N[0] * B[0]
    if len(N) == 3:
        return N[0] * B[1] + N[1] * (B[2] - B[0] - 2.0 * B[1]) - N[2] * (B[1] + 2.0 * B[2])
    low = (-B[0] - 3.0 * (B[1] + B[2]), -B[1] - 3.0 * (B[3] + B[4]), -B[2] - 3.0 * (B[4] + B[5]))
    first = N[0] * B[1] + N[1] * B[3] + N[2] * B[4]
    second = N[1] * B[2] + N[3] * B[4] + N[4] * B[5]
    return first + second + N[2] * low[0] + N[4] * low[1] + N[5] * low[2]


@part
def drift_form(P, r, m):
    """r'F m."""
    if len(P) == 1:
        return -r[0] * m[0]
    if len(P) == 3:
        return r[0] * m[1] - r[1] * (m[0] + 2.0 * m[1])
    return r[0] * m[1] + r[1] * m[2] - r[2] * (m[0] + 3.0 * (m[1] + m[2]))


@part
def noise_form(N, A):
    """strength * a'N a, a the last column of A: the derivative of Q in x, contracted with N."""
    if len(N) == 1:
        return 2.0 * A[0] * A[0] * N[0]
    if len(N) == 3:
        return 4.0 * (A[1] * (A[1] * N[0] + 2.0 * A[3] * N[1]) + A[3] * A[3] * N[2])
    a, b, c = A[2], A[5], A[8]
    cross = a * b * N[1] + a * c * N[2] + b * c * N[4]
    return 16.0 * THIRD * (a * a * N[0] + b * b * N[3] + c * c * N[5] + 2.0 * cross)


@part
def noise_product(P, x, y):
    """strength x_d y_d: the noise, which moves the last entry of the state, between two vectors."""
    if len(P) == 1:
        return 2.0 * x[0] * y[0]
    if len(P) == 3:
        return 4.0 * x[1] * y[1]
    return 16.0 * THIRD * x[2] * y[2]


# --- products ------------------------------------------------------------------------------------------------


@part
def congruence(P, A):
    """A P A'."""
    if len(P) == 1:
        return (A[0] * A[0] * P[0],)
    if len(P) == 3:
        a, b = A[0] * P[0] + A[1] * P[1], A[0] * P[1] + A[1] * P[2]
        c, d = A[2] * P[0] + A[3] * P[1], A[2] * P[1] + A[3] * P[2]
        return (a * A[0] + b * A[1], a * A[2] + b * A[3], c * A[2] + d * A[3])
    a, b, c = _row(P, A[0], A[1], A[2])
    d, e, f = _row(P, A[3], A[4], A[5])
    g, h, i = _row(P, A[6], A[7], A[8])
    one = (a * A[0] + b * A[1] + c * A[2], a * A[3] + b * A[4] + c * A[5], a * A[6] + b * A[7] + c * A[8])
    two = (d * A[3] + e * A[4] + f * A[5], d * A[6] + e * A[7] + f * A[8])
    return one + two + (g * A[6] + h * A[7] + i * A[8],)


@part
def _row(P, a, b, c):
    """(a, b, c) P of a symmetric 3 x 3 matrix."""
    first, second = a * P[0] + b * P[1] + c * P[2], a * P[1] + b * P[3] + c * P[4]
    return first, second, a * P[2] + b * P[4] + c * P[5]


@part
def transposed(P, A):
    """A'."""
    if len(P) == 1:
        return A
    if len(P) == 3:
        return (A[0], A[2], A[1], A[3])
    return (A[0], A[3], A[6], A[1], A[4], A[7], A[2], A[5], A[8])


@part
def apply(P, A, x):
    """A x."""
    if len(P) == 1:
        return (A[0] * x[0],)
    if len(P) == 3:
        return (A[0] * x[0] + A[1] * x[1], A[2] * x[0] + A[3] * x[1])
    low = A[6] * x[0] + A[7] * x[1] + A[8] * x[2]
    return (A[0] * x[0] + A[1] * x[1] + A[2] * x[2], A[3] * x[0] + A[4] * x[1] + A[5] * x[2], low)


@part
def symmetric_apply(P, x):
    """P x."""
    if len(P) == 1:
        return (P[0] * x[0],)
    if len(P) == 3:
        return (P[0] * x[0] + P[1] * x[1], P[1] * x[0] + P[2] * x[1])
    return _row(P, x[0], x[1], x[2])


@part
def dot(P, x, y):
    """x'y."""
    if len(P) == 1:
        return x[0] * y[0]
    if len(P) == 3:
        return x[0] * y[0] + x[1] * y[1]
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


@part
def add(P, Q):
    """P + Q of symmetric matrices."""
    if len(P) == 1:
        return (P[0] + Q[0],)
    if len(P) == 3:
        return (P[0] + Q[0], P[1] + Q[1], P[2] + Q[2])
    return (P[0] + Q[0], P[1] + Q[1], P[2] + Q[2], P[3] + Q[3], P[4] + Q[4], P[5] + Q[5])


@part
def scaled(P, a):
    """a P."""
    if len(P) == 1:
        return (a * P[0],)
    if len(P) == 3:
        return (a * P[0], a * P[1], a * P[2])
    return (a * P[0], a * P[1], a * P[2], a * P[3], a * P[4], a * P[5])


@part
def add_scaled(P, x, w, a):
    """x + a w of vectors."""
    if len(P) == 1:
        return (x[0] + a * w[0],)
    if len(P) == 3:
        return (x[0] + a * w[0], x[1] + a * w[1])
    return (x[0] + a * w[0], x[1] + a * w[1], x[2] + a * w[2])


@part
def add_observed(P, x, a):
    """x + a h."""
    if len(P) == 1:
        return (x[0] + a,)
    if len(P) == 3:
        return (x[0] + a, x[1])
    return (x[0] + a, x[1], x[2])


# --- steps of the filter and the smoother --------------------------------------------------------------------


@part
def updated(P, c, q):
    """The filtered covariance P - c w w', w = P h: q w in the row of the observation, where nothing may cancel."""
    if len(P) == 1:
        return (q * P[0],)
    if len(P) == 3:
        return (q * P[0], q * P[1], P[2] - c * P[1] * P[1])
    inner = (P[3] - c * P[1] * P[1], P[4] - c * P[1] * P[2], P[5] - c * P[2] * P[2])
    return (q * P[0], q * P[1], q * P[2]) + inner


@part
def informed(N, v, c, left):
    """N - c (h v' + v h') + h h' left, with v = N w."""
    if len(N) == 1:
        return (N[0] - 2.0 * c * v[0] + left,)
    if len(N) == 3:
        return (N[0] - 2.0 * c * v[0] + left, N[1] - c * v[1], N[2])
    return (N[0] - 2.0 * c * v[0] + left, N[1] - c * v[1], N[2] - c * v[2], N[3], N[4], N[5])


@part
def outer_minus(N, r):
    """r r' - N."""
    if len(N) == 1:
        return (r[0] * r[0] - N[0],)
    if len(N) == 3:
        return (r[0] * r[0] - N[0], r[0] * r[1] - N[1], r[1] * r[1] - N[2])
    one = (r[0] * r[0] - N[0], r[0] * r[1] - N[1], r[0] * r[2] - N[2])
    return one + (r[1] * r[1] - N[3], r[1] * r[2] - N[4], r[2] * r[2] - N[5])


@part
def inner(N, Q):
    """tr(N Q) of symmetric matrices."""
    if len(N) == 1:
        return N[0] * Q[0]
    if len(N) == 3:
        return N[0] * Q[0] + 2.0 * N[1] * Q[1] + N[2] * Q[2]
    cross = N[1] * Q[1] + N[2] * Q[2] + N[4] * Q[4]
    return N[0] * Q[0] + N[3] * Q[3] + N[5] * Q[5] + 2.0 * cross


# --- between arrays and tuples -------------------------------------------------------------------------------


@part
def read(P, w, rest):
    """A symmetric matrix from its first row and the rest of its upper triangle."""
    if len(P) == 1:
        return (w[0],)
    if len(P) == 3:
        return (w[0], w[1], rest[0])
    return (w[0], w[1], w[2], rest[0], rest[1], rest[2])


@part
def write(P, w, rest):
    """The same the other way."""
    w[0] = P[0]
    if len(P) == 3:
        w[1], rest[0] = P[1], P[2]
    elif len(P) == 6:
        w[1], w[2], rest[0], rest[1], rest[2] = P[1], P[2], P[3], P[4], P[5]


@part
def read_vector(P, row):
    """A vector."""
    if len(P) == 1:
        return (row[0],)
    if len(P) == 3:
        return (row[0], row[1])
    return (row[0], row[1], row[2])


@part
def write_vector(P, x, row):
    """The same the other way."""
    row[0] = x[0]
    if len(P) == 3:
        row[1] = x[1]
    elif len(P) == 6:
        row[1], row[2] = x[1], x[2]


@part
def read_matrix(P, A):
    """Any matrix (d, d)."""
    if len(P) == 1:
        return (A[0, 0],)
    if len(P) == 3:
        return (A[0, 0], A[0, 1], A[1, 0], A[1, 1])
    return (A[0, 0], A[0, 1], A[0, 2], A[1, 0], A[1, 1], A[1, 2], A[2, 0], A[2, 1], A[2, 2])


@part
def write_matrix(P, values, A):
    """The same the other way."""
    if len(P) == 1:
        A[0, 0] = values[0]
    elif len(P) == 3:
        A[0, 0], A[0, 1], A[1, 0], A[1, 1] = values[0], values[1], values[2], values[3]
    else:
        for i in range(3):
            A[i, 0], A[i, 1], A[i, 2] = values[3 * i], values[3 * i + 1], values[3 * i + 2]


@part
def full(P):
    """All rows of a symmetric matrix."""
    if len(P) == 1:
        return (P[0],)
    if len(P) == 3:
        return (P[0], P[1], P[1], P[2])
    return (P[0], P[1], P[2], P[1], P[3], P[4], P[2], P[4], P[5])


@part
def upper(P, A):
    """The upper triangle of a symmetric matrix of which all rows are given."""
    if len(P) == 1:
        return (A[0],)
    if len(P) == 3:
        return (A[0], A[1], A[3])
    return (A[0], A[1], A[2], A[4], A[5], A[8])


@part
def zero_vector(P):
    """Zeros of the type of P's numbers."""
    zero = P[0] * 0.0
    if len(P) == 1:
        return (zero,)
    if len(P) == 3:
        return (zero, zero)
    return (zero, zero, zero)
