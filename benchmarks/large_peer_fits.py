"""Runs inside the peers' environment, on one thread: whole fits to SARCOS. It imports nothing of this project.

python large_peer_fits.py lightgbm|svgp|gpboost FILE      prints one JSON line: SMSE, MSLL and CPU seconds of the fit

FILE holds standardized inputs, centered targets and the same of the test rows.

lightgbm    leaves chosen from four numbers, the number of trees by early stopping on a tenth of the rows, then all rows
svgp        GPyTorch: 500 inducing inputs from rows, batches of 1024, Adam with steps from 0.01 down to 0.001
gpboost     Vecchia, 20 neighbors, Gaussian kernel with length scales for each input: 10,000 rows, at most 15 iterations
"""

import json
import sys
import time

import numpy as np

EPOCHS, INDUCING, BATCH = 10, 500, 1024
GPBOOST_ROWS, GPBOOST_ITERATIONS = 10_000, 15


def lightgbm(X, y, new):
    import lightgbm as lgb

    held = np.random.default_rng(0).permutation(len(X)) < len(X) // 10
    common = {"objective": "l2", "learning_rate": 0.05, "verbosity": -1, "num_threads": 1, "seed": 0}
    best = None
    for leaves in (31, 63, 127, 255):
        options = {**common, "num_leaves": leaves, "min_data_in_leaf": 10, "feature_fraction": 0.8}
        model = lgb.train(
            options,
            lgb.Dataset(X[~held], y[~held]),
            3000,
            valid_sets=[lgb.Dataset(X[held], y[held])],
            callbacks=[lgb.early_stopping(50, verbose=False)],
        )
        score = float(np.mean((model.predict(X[held]) - y[held]) ** 2))
        if best is None or score < best[0]:
            best = (score, options, model.best_iteration)
    score, options, trees = best
    model = lgb.train(options, lgb.Dataset(X, y), trees)
    return model.predict(new), np.full(len(new), score), f"{options['num_leaves']} leaves, {trees} trees"


def svgp(X, y, new):
    import gpytorch
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    level, size = y.mean(), y.std()
    X, y = torch.tensor(X, dtype=torch.float32), torch.tensor((y - level) / size, dtype=torch.float32)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, Z):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            super().__init__(
                gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True)
            )
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
            )
            self.covar_module.base_kernel.lengthscale = 4.0

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(X[torch.randperm(len(X))[:INDUCING]].clone())
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    steps = EPOCHS * -(-len(X) // BATCH)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda k: 0.1 ** (k / steps))
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(X)).split(BATCH):
            adam.zero_grad()
            loss = -objective(model(X[rows]), y[rows])
            loss.backward()
            adam.step()
            schedule.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        p = likelihood(model(torch.tensor(new, dtype=torch.float32)))
        return level + size * p.mean.numpy(), size**2 * p.variance.numpy(), f"{EPOCHS} epochs"


def gpboost(X, y, new):
    import gpboost as gpb

    some = np.random.default_rng(0).choice(len(X), GPBOOST_ROWS, replace=False)
    model = gpb.GPModel(
        gp_coords=X[some],
        cov_function="gaussian_ard",
        gp_approx="vecchia",
        num_neighbors=20,
        likelihood="gaussian",
        num_parallel_threads=1,
    )
    model.fit(y=y[some], params={"maxit": GPBOOST_ITERATIONS})
    p = model.predict(gp_coords_pred=new, predict_var=True, predict_response=True)
    return p["mu"], p["var"], f"{GPBOOST_ROWS} rows, {GPBOOST_ITERATIONS} iterations"


def main():
    kind, file = sys.argv[1:]
    stored = np.load(file)
    X, y, new, truth = (stored[name] for name in ("X", "y", "new", "truth"))
    begin = time.process_time()
    mean, variance, note = {"lightgbm": lightgbm, "svgp": svgp, "gpboost": gpboost}[kind](X, y, new)
    took = time.process_time() - begin
    loss = 0.5 * (np.log(2 * np.pi * variance) + (truth - mean) ** 2 / variance)
    trivial = 0.5 * (np.log(2 * np.pi * np.var(y)) + truth**2 / np.var(y))
    found = {
        "SMSE": float(np.mean((truth - mean) ** 2) / np.var(truth)),
        "MSLL": float(np.mean(loss - trivial)),
    }
    print(json.dumps({**found, "seconds": took, "note": note}))


if __name__ == "__main__":
    main()
