"""
A car on a hill, learned
========================

A hundred random transitions of the mountain car (Kuss, 2006, section 7.3.3) are enough for a model of its motion that
knows how far it can be trusted. The bands grow along the roll-out, most at the foot of the hill, where the motion
bends sharply and random transitions say little.
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity.control import Dynamics, MountainCar, Transitions

car = MountainCar()
model = Dynamics.fit(Transitions.draw(car, 100, rng=0), problem=car, rng=0)
actions = np.array([[-4.0]] * 3 + [[4.0]] * 3)
start = np.array([-0.5, 0.0])
predicted = model.rollout((start, [0.01**2, 0.01**2]), actions)

truth = [start]
for action in actions:
    truth.append(np.ravel(car.step(truth[-1], action)))
truth = np.array(truth)

# %%
# Back first, then up the hill.

fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
step = np.arange(len(truth))
for k, (ax, name) in enumerate(zip(axes, ("position", "speed"))):
    mean, sd = predicted.means[:, k], predicted.sds[:, k]
    ax.fill_between(step, mean - 2 * sd, mean + 2 * sd, color="#0072b2", alpha=0.2, lw=0)
    ax.plot(step, mean, color="#0072b2", label="learned model")
    ax.plot(step, truth[:, k], "--o", color="#d55e00", ms=4, label="the car")
    ax.set(title=name, xlabel="step")
axes[0].legend(frameon=False, fontsize=8)
plt.show()
