"""Runs inside the peers' environment, on one thread: prints one JSON line. It imports nothing of this project.

python large_peer_worker.py sgpr FILE M ROUNDS     CPU seconds of evaluations with gradient (GPyTorch, single precision)
python large_peer_worker.py gpboost FILE K         CPU seconds of a Vecchia fit, and its log likelihood
"""

import json
import sys
import time

import numpy as np


def sgpr(X, y, m, rounds):
    """Collapsed bound of `InducingPointKernel` with its gradient in hyperparameters and inducing inputs."""
    import gpytorch
    import torch

    torch.set_num_threads(1)
    X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
            base.base_kernel.lengthscale = 6.0
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                base, inducing_points=X[:m].clone(), likelihood=likelihood
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = 0.03
    model = Model(likelihood).train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    times = []
    for _ in range(rounds + 1):
        begin = time.process_time()
        model.zero_grad()
        loss = -objective(model(X), y)
        loss.backward()
        times.append(time.process_time() - begin)
    return {"seconds": times[1:], "value": float(-loss) * len(y)}


def gpboost(X, y, k):
    """A fit with its defaults from its own start."""
    import gpboost as gpb

    model = gpb.GPModel(
        gp_coords=X,
        cov_function="gaussian_ard",
        gp_approx="vecchia",
        num_neighbors=k,
        likelihood="gaussian",
        num_parallel_threads=1,
    )
    begin = time.process_time()
    model.fit(y=y)
    took = time.process_time() - begin
    return {"seconds": took, "value": -float(model.get_current_neg_log_likelihood())}


if __name__ == "__main__":
    kind, file, *numbers = sys.argv[1:]
    stored = np.load(file)
    found = {"sgpr": sgpr, "gpboost": gpboost}[kind](stored["X"], stored["y"], *map(int, numbers))
    print(json.dumps(found))
