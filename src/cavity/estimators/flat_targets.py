"""One row, or rows with equal targets: they say nothing about how much targets vary.

The evidence then grows without limit as all variances go to zero, and predictions would be certain everywhere. The
values that a model came with are kept instead, and the level is that of the targets.
"""

from __future__ import annotations

import numpy as np

from cavity.gp import GP
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Gaussian
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.runtime.errors import Message

NOTHING_TO_LEARN = Message(
    (
        "the targets do not vary, so that neither their spread nor the length scales can be learned: kernel and noise "
        "keep the values they came with",
    ),
    remedy=("give a kernel and noise of the size that you expect, or more rows",),
)


def with_level(model: GP, rows: TrainingRows) -> GP | None:
    """The model with the mean function that the data suggest, and all other values as they are.

    None if something can be learned: if the mean function leaves something over, or if a variance is fixed.
    """
    noise = model.likelihood.noise
    open_scale = (
        isinstance(noise, Gaussian | ScaleMixture) and noise.theta.size > 0 and model.kernel.theta.size > 0
    )
    if not open_scale:
        return None
    mean = model.replace(Starts.of(model, rows.X, rows.y, rows.weight).first).mean
    if not np.allclose(mean(rows.X), model.likelihood.latent_targets(rows.y), rtol=1e-9, atol=0.0):
        return None
    return model._rebuild({}, (model.kernel, mean, model.likelihood, model.representation))
