"""Worker for the competitor: BoTorch's robust relevance pursuit with default settings, in an environment of its own.

    python peer_relevance_pursuit.py data.npz found.npz SEED

reads X, y, X_test, writes mean and variance of f at X_test, and prints one line of JSON. It does not import cavity.
"""

from __future__ import annotations

import json
import sys
import time


def main(data: str, found: str, seed: int) -> None:
    """Fit, predict, report."""
    import numpy as np
    import torch  # type: ignore[import-not-found]
    from botorch.fit import fit_gpytorch_mll  # type: ignore[import-not-found]
    from botorch.models.robust_relevance_pursuit_model import (  # type: ignore[import-not-found]
        RobustRelevancePursuitSingleTaskGP,
    )
    from botorch.models.transforms import Normalize, Standardize  # type: ignore[import-not-found]
    from gpytorch.mlls import ExactMarginalLogLikelihood  # type: ignore[import-not-found]

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    with np.load(data) as stored:
        X, y, X_test = (torch.tensor(stored[name], dtype=torch.float64) for name in ("X", "y", "X_test"))
    started = time.process_time()
    model = RobustRelevancePursuitSingleTaskGP(
        train_X=X,
        train_Y=y[:, None],
        input_transform=Normalize(d=X.shape[1]),
        outcome_transform=Standardize(m=1),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    seconds = time.process_time() - started
    model.eval()
    means, variances = [], []
    with torch.no_grad():
        for block in torch.split(X_test, 2000):
            posterior = model.posterior(block)
            means.append(posterior.mean[:, 0].numpy())
            variances.append(posterior.variance[:, 0].numpy())
        scale = float(model.outcome_transform.stdvs.ravel()[0])
        noise = float(model.likelihood.noise_covar.base_noise.noise.ravel()[0]) * scale**2
    np.savez(found, mean=np.concatenate(means), variance=np.concatenate(variances))
    support = len(model.likelihood.noise_covar.support)
    print(json.dumps({"support": support, "seconds": seconds, "noise variance": noise}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
