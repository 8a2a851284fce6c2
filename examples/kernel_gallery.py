"""Draw samples from every covariance function: what functions does a kernel believe in?

Run `python examples/kernel_gallery.py [picture.png]`. Each panel shows three draws from the prior with that
kernel; the same random numbers are used in all panels, so differences are those of the kernels.
"""

from __future__ import annotations

import sys

import numpy as np

from cavity.kernels import (
    SE,
    Categorical,
    Constant,
    Cosine,
    GammaExponential,
    Gibbs,
    IntegratedWiener,
    Kernel,
    Linear,
    Matern,
    NeuralNetwork,
    Normalized,
    Periodic,
    PiecewisePolynomial,
    Polynomial,
    RationalQuadratic,
    Rescaled,
    SpectralMixture,
    Warped,
    White,
    Wiener,
)

COLORS = ("#0072B2", "#D55E00", "#009E73")  # distinguishable also without color vision
STYLES = ("-", "--", "-.")

# title, kernel, range of the inputs
ONE_COLUMN: list[tuple[str, Kernel, tuple[float, float]]] = [
    ("SE(1)", SE(1.0), (-5, 5)),
    ("Matern(1, nu=0.5)", Matern(1.0, nu=0.5), (-5, 5)),
    ("Matern(1, nu=1.5)", Matern(1.0, nu=1.5), (-5, 5)),
    ("Matern(1, nu=2.5)", Matern(1.0, nu=2.5), (-5, 5)),
    ("Matern(1, nu=0.25)", Matern(1.0, nu=0.25), (-5, 5)),
    ("GammaExponential(1, gamma=1.7)", GammaExponential(1.0, 1.7), (-5, 5)),
    ("RationalQuadratic(1, alpha=0.1)", RationalQuadratic(1.0, 0.1), (-5, 5)),
    ("PiecewisePolynomial(2, q=1)", PiecewisePolynomial(2.0, 1), (-5, 5)),
    ("Cosine(period=3)", Cosine(3.0), (-5, 5)),
    ("Periodic(SE(1), period=3)", Periodic(SE(1.0), 3.0), (-5, 5)),
    ("Periodic(SE(1), 1.5) * SE(2)", Periodic(SE(1.0), 1.5) * SE(2.0), (-5, 5)),
    ("SpectralMixture, two peaks", SpectralMixture([1.0, 0.3], [0.2, 1.5], [0.05, 0.1]), (-5, 5)),
    ("Constant(1)", Constant(1.0), (-5, 5)),
    ("Linear(1, bias=1)", Linear(1.0, 1.0), (-5, 5)),
    ("Polynomial(3)", Polynomial(3, 0.1, 1.0), (-5, 5)),
    ("NeuralNetwork(10, bias=10)", NeuralNetwork(10.0, 10.0), (-5, 5)),
    ("Gibbs(0.7, slope=0.4)", Gibbs(0.7, slope=0.4), (-5, 5)),
    ("Wiener()", Wiener(), (0, 10)),
    ("IntegratedWiener()", IntegratedWiener(), (0, 10)),
    ("White(1)", White(1.0), (-5, 5)),
    ('Warped(SE(0.5), "log")', Warped(SE(0.5), "log"), (0.05, 10)),
    ('Rescaled(SE(0.5), "tanh")', Rescaled(SE(0.5), "tanh"), (-5, 5)),
    ("Normalized(Linear() + SE(1))", Normalized(Linear() + SE(1.0)), (-5, 5)),
]


def draw(kernel: Kernel, X: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Samples of the function values at X, one per column of `normal`."""
    values, vectors = np.linalg.eigh(kernel(X))
    # nearly singular matrices are the rule here; the root by eigenvalues needs no jitter
    return vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ normal))


def main(path: str = "kernel_gallery.png") -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(4)
    normal = rng.standard_normal((240, 3))
    columns = 4
    rows = -(-(len(ONE_COLUMN) + 1) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(14, 2.4 * rows), layout="constrained")
    for ax, (title, kernel, (low, high)) in zip(axes.flat, ONE_COLUMN):
        x = np.linspace(low, high, len(normal))
        samples = draw(kernel, x[:, None], normal)
        for sample, color, style in zip(samples.T, COLORS, STYLES):
            if isinstance(kernel, White):
                ax.plot(x[::3], sample[::3], ".", color=color, markersize=3)
            else:
                ax.plot(x, sample, style, color=color, linewidth=1.1)
        ax.set_title(title, fontsize=9)
    categories_panel(axes.flat[len(ONE_COLUMN)], rng)
    for ax in axes.flat[len(ONE_COLUMN) + 1 :]:
        ax.set_visible(False)
    for ax in axes.flat:
        ax.tick_params(labelsize=7)
    figure.suptitle("Three functions drawn from each kernel", fontsize=12)
    figure.savefig(path, dpi=80)
    print(f"wrote {path}")


def categories_panel(ax, rng: np.random.Generator) -> None:
    """One smooth function per level: related, not equal."""
    x = np.linspace(-5, 5, 120)
    X = np.array([(level, v) for level in range(3) for v in x])
    kernel = Categorical(3, correlation=0.8).on(0) * SE(1.5).on(1)
    sample = draw(kernel, X, rng.standard_normal((len(X), 1)))[:, 0].reshape(3, -1)
    for level, (values, color, style) in enumerate(zip(sample, COLORS, STYLES)):
        ax.plot(x, values, style, color=color, linewidth=1.1, label=f"level {level}")
    ax.legend(fontsize=6, frameon=False)
    ax.set_title("Categorical(3, 0.8).on(0) * SE(1.5).on(1)", fontsize=9)


if __name__ == "__main__":
    main(*sys.argv[1:2])
