"""Runs inside the peers' environment: answers one JSON line with one JSON line, for one package.

    python peer_worker.py PACKAGE                             serve requests until the input ends
    python peer_worker.py PACKAGE fit FILE STOP_AT DEADLINE   fit from a cold start and print the trace

It imports nothing of this project. Parameters are logarithms of length scales, signal and noise variance.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time

OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever a package prints goes to the error stream


class Stop(BaseException):
    """Leaves an optimizer."""


class Trace(list):
    """Evidences with the time at which they were seen; ends the fit where it has been told to."""

    stop_at, deadline, most_cpu = float("inf"), float("inf"), float("inf")

    def see(self, value):
        now = time.time()
        self.append((now, float(value)))
        if value >= self.stop_at or now > self.deadline or time.process_time() > self.most_cpu:
            raise Stop


class ScikitLearn:
    distribution = "scikit-learn"

    def __init__(self, X, y, theta):
        import numpy as np
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        self.np, self.X, self.y, self.D = np, X, y, X.shape[1]
        values = np.exp(theta)
        kernel = ConstantKernel(values[-2]) * RBF(values[:-2]) + WhiteKernel(values[-1])
        trace = self.trace = Trace()

        class Traced(GaussianProcessRegressor):
            def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
                found = super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)
                trace.see(found[0] if eval_gradient else found)
                return found

        # The noise is in the kernel; alpha cannot be zero.
        self.model = Traced(kernel, alpha=1e-12)
        self.fixed = None

    def evidence(self, theta):
        if (
            self.fixed is None
        ):  # fitted to two rows, then given all: a fit would evaluate them once for nothing
            self.fixed = self.model.set_params(optimizer=None).fit(self.X[:2], self.y[:2])
            self.fixed.X_train_, self.fixed.y_train_ = self.X, self.y
        order = self.np.concatenate([theta[-2:-1], theta[:-2], theta[-1:]])
        start = time.perf_counter()
        value, gradient = self.fixed.log_marginal_likelihood(order, eval_gradient=True, clone_kernel=False)
        took = time.perf_counter() - start
        return took, value, self.np.concatenate([gradient[1:-1], gradient[:1], gradient[-1:]])

    def fit(self):
        self.model.fit(self.X, self.y)


class GPy:
    distribution = "GPy"

    def __init__(self, X, y, theta):
        import GPy as gpy
        import numpy as np
        from paramz import ObsAr

        self.np, self.trace = np, Trace()
        values = np.exp(theta)
        kernel = gpy.kern.RBF(X.shape[1], variance=values[-2], lengthscale=values[:-2], ARD=True)
        # made of two rows, then given all: otherwise all are evaluated once for nothing
        self.model = gpy.models.GPRegression(X[:2], y[:2, None], kernel, noise_var=values[-1])
        self.model.update_model(False)
        self.model.X, self.model.Y = ObsAr(X), ObsAr(y[:, None])
        self.model.Y_normalized = self.model.Y

    def evidence(self, theta):
        np, model = self.np, self.model
        values = np.exp(theta)
        natural = np.concatenate([values[-2:-1], values[:-2], values[-1:]])
        start = time.perf_counter()
        model[:] = natural
        model.update_model(True)  # one update for all parameters, which computes the gradients too
        value, gradient = model.log_likelihood(), np.array(model.gradient)
        took = time.perf_counter() - start
        model.update_model(False)
        gradient = gradient * natural
        return took, value, np.concatenate([gradient[1:-1], gradient[:1], gradient[-1:]])

    def fit(self):
        original = self.model._objective_grads

        def traced(x):
            value, gradient = original(x)
            self.trace.see(-value)
            return value, gradient

        self.model._objective_grads = traced
        self.model.update_model(True)
        self.model.optimize("lbfgsb", max_iters=1000)


class GPyTorch:
    """Exact Cholesky path in double precision."""

    distribution = "gpytorch"

    def __init__(self, X, y, theta):
        import gpytorch
        import numpy as np
        import torch

        self.np, self.torch, self.gpytorch, self.trace = np, torch, gpytorch, Trace()
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.X, self.y = torch.from_numpy(np.ascontiguousarray(X)), torch.from_numpy(np.ascontiguousarray(y))
        likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.GreaterThan(1e-10)
        )
        scaled = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

        class Model(gpytorch.models.ExactGP):
            def __init__(self, X, y):
                super().__init__(X, y, likelihood)
                self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), scaled

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        self.model = Model(self.X, self.y)
        self.model.train()
        likelihood.train()
        self.likelihood = likelihood
        self.mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, self.model)
        self.parameters = list(self.model.parameters())
        self.set(theta)

    def set(self, theta):
        values = self.torch.from_numpy(self.np.exp(theta))
        kernel = self.model.covar_module
        kernel.base_kernel.lengthscale = values[:-2].reshape(1, -1)
        kernel.outputscale = values[-2]
        self.likelihood.noise = values[-1].reshape(1)

    def value_and_backward(self):
        settings = self.gpytorch.settings
        for parameter in self.parameters:
            parameter.grad = None
        with settings.fast_computations(False, False, False), settings.max_cholesky_size(1_000_000):
            value = self.mll(self.model(self.X), self.y) * len(self.y)
            value.backward()
        return float(value.detach())

    def evidence(self, theta):
        self.set(theta)
        start = time.perf_counter()
        value = self.value_and_backward()
        return time.perf_counter() - start, value, None

    def fit(self):
        from scipy.optimize import minimize

        np, torch = self.np, self.torch
        shapes = [p.shape for p in self.parameters]
        cuts = np.cumsum([p.numel() for p in self.parameters])[:-1]

        def objective(x):
            with torch.no_grad():
                for parameter, part, shape in zip(self.parameters, np.split(x, cuts), shapes):
                    parameter.copy_(torch.from_numpy(part.copy()).reshape(shape))
            try:
                value = self.value_and_backward()
            except RuntimeError:  # not a number in a matrix: a step too far
                return 1e25, np.zeros(len(x))
            self.trace.see(value)
            gradient = np.concatenate([p.grad.detach().numpy().ravel() for p in self.parameters])
            return -value, -gradient

        start = np.concatenate([p.detach().numpy().ravel() for p in self.parameters])
        minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000})


class ScikitLearnLaplace:
    """Binary classification by Laplace's method; theta: logarithms of length scale and signal variance."""

    distribution = "scikit-learn"

    def __init__(self, X, y, theta):
        import numpy as np
        from sklearn.gaussian_process import GaussianProcessClassifier
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        self.np, self.X, self.y, self.theta = np, X, y, theta
        bounds = (1e-8, 1e8)
        length, variance = np.exp(theta)
        kernel = ConstantKernel(variance, bounds) * RBF(length, bounds)
        self.model = GaussianProcessClassifier(kernel)

    def evidence(self, theta):
        fixed = self.model.set_params(optimizer=None).fit(self.X, self.y)
        start = time.perf_counter()
        value, gradient = fixed.log_marginal_likelihood(theta[::-1], eval_gradient=True, clone_kernel=False)
        return time.perf_counter() - start, value, gradient[::-1]

    def fit(self):
        self.model.fit(self.X, self.y)
        return self.model.log_marginal_likelihood_value_


class GPyEP:
    """Binary classification by EP, probit; theta: logarithms of length scale and signal variance."""

    distribution = "GPy"

    def __init__(self, X, y, theta):
        import GPy as gpy
        import numpy as np

        self.np = np
        length, variance = np.exp(theta)
        kernel = gpy.kern.RBF(X.shape[1], variance=variance, lengthscale=length)
        # Run to convergence at every evaluation, from zero sites, instead of once per optimization
        rule = gpy.inference.latent_function_inference.expectation_propagation.EP(
            ep_mode="nested", always_reset=True
        )
        self.model = gpy.core.GP(
            X, (y[:, None] > 0).astype(float), kernel, gpy.likelihoods.Bernoulli(), inference_method=rule
        )

    def evidence(self, theta):
        natural = self.np.exp(theta)[::-1]
        start = time.perf_counter()
        self.model[:] = natural
        value, gradient = self.model.log_likelihood(), self.np.array(self.model.gradient)
        took = time.perf_counter() - start
        return took, value, (gradient * natural)[::-1]


PACKAGES = {
    "sklearn": ScikitLearn,
    "gpy": GPy,
    "gpytorch": GPyTorch,
    "sklearn_laplace": ScikitLearnLaplace,
    "gpy_ep": GPyEP,
}


def load(path):
    import numpy as np

    with np.load(path) as arrays:
        return arrays["X"], arrays["y"], arrays["theta"]


def reply(answer):
    OUT.write(json.dumps(answer) + "\n")
    OUT.flush()


def serve(package):
    import numpy as np

    subject = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "version":
                from importlib.metadata import version

                reply({"version": version(package.distribution)})
            elif request["op"] == "load":
                subject = package(*load(request["file"]))
                reply({})
            elif request["op"] == "fit":
                start, cpu = time.perf_counter(), time.process_time()
                value, stopped = None, False
                if "cpu" in request:
                    subject.trace.most_cpu = cpu + request["cpu"]
                try:
                    value = subject.fit()
                except Stop:
                    stopped = True
                took, cpu = time.perf_counter() - start, time.process_time() - cpu
                if value is None:
                    value = max(seen for _, seen in subject.trace)
                reply({"seconds": took, "cpu": cpu, "value": float(value), "stopped": stopped})
            else:
                took, value, gradient = subject.evidence(np.array(request["theta"]))
                reply(
                    {
                        "seconds": took,
                        "value": float(value),
                        "gradient": None if gradient is None else gradient.tolist(),
                    }
                )
        except Exception as error:
            reply({"error": f"{type(error).__name__}: {error}"})


def main():
    package = PACKAGES[sys.argv[1]]
    if len(sys.argv) > 2 and sys.argv[2] == "fit":
        subject = package(*load(sys.argv[3]))
        subject.trace.stop_at, subject.trace.deadline = map(float, sys.argv[4:6])
        with contextlib.suppress(Stop):
            subject.fit()
        reply({"trace": subject.trace})
    else:
        serve(package)


if __name__ == "__main__":
    main()
