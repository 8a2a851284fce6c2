"""
Splines with error bars, and with gross errors
==============================================

A thin-plate spline is a Gaussian process with a kernel of its own beside a line whose weights are free. So it has an
evidence, by which it learns how smooth to be, error bars, and any noise model. Generalized cross-validation, the
classical criterion for splines, is an objective as well. One point in twenty is off by a lot: Student-t noise does
not follow them, SciPy's interpolator at the best smoothness it could have had still does.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import RBFInterpolator

from cavity import GPRegressor
from cavity.kernels import ThinPlate
from cavity.means import Basis


def truth(x):
    return np.sin(3 * x[:, 0]) + np.cos(4 * x[:, 1]) * x[:, 0]


rng = np.random.default_rng(0)
x = rng.uniform(size=(100, 2))
y = truth(x) + 0.05 * rng.standard_normal(100)
y[::20] += rng.choice([-3.0, 3.0], 5)
line = np.linspace(0, 1, 60)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def error(f):
    return np.sqrt(np.mean((f - truth(grid)) ** 2))


kernel = 1.0 * ThinPlate.over(x)
plain = {"mean": Basis("linear"), "n_restarts": 0, "random_state": 0}
models = {
    "thin plate, Student-t noise": GPRegressor(
        kernel, likelihood="student-t", inference="variational", **plain
    ),
    "thin plate, cross-validation": GPRegressor(kernel, objective="gcv", **plain),
}
found = {name: model.fit(x, y).predict(grid) for name, model in models.items()}
plates = [
    RBFInterpolator(x, y, smoothing=s, kernel="thin_plate_spline")(grid)
    for s in 10.0 ** np.arange(-4, 3, 0.5)
]
found["SciPy, best smoothness"] = min(plates, key=error)

fig, axes = plt.subplots(1, 4, figsize=(14, 3.6), layout="constrained")
for axis, (name, f) in zip(axes, {"truth": truth(grid), **found}.items()):
    axis.contourf(
        line, line, f.reshape(60, 60), levels=np.linspace(-1.2, 2.2, 18), extend="both", cmap="viridis"
    )
    axis.plot(*x[::20].T, "o", mfc="none", color="w", ms=7)
    axis.set(title=name if name == "truth" else f"{name}\nRMSE {error(f):.3f}", xticks=[], yticks=[])
plt.show()
