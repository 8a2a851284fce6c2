"""A fit of this package from a cold start, in a process of its own: prints the trace of evidences as JSON.

python cold_fit.py FILE
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from cavity.gp import GP
from cavity.kernels import SE
from cavity.learning.objective import Objective
from cavity.learning.optimizer import maximize
from cavity.learning.starts import Starts
from cavity.likelihoods import Gaussian


def main() -> None:
    with np.load(sys.argv[1]) as arrays:
        X, y, theta = arrays["X"], arrays["y"], arrays["theta"]
    values = np.exp(theta)
    model = GP(values[-2] * SE(values[:-2]), Gaussian(values[-1]))
    trace: list[tuple[float, float]] = []

    class Traced(Objective):
        def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = super().__call__(theta)
            trace.append((time.time(), value))
            return value, gradient

    starts = Starts.of(model, X, y)
    maximize(Traced(model, X, y), model.theta, starts.box, starts.scale, "given")
    print(json.dumps({"trace": trace}))


if __name__ == "__main__":
    main()
