"""Estimators whose inference rule samples: a seed from the estimator's own generator, time, and who warns."""

from __future__ import annotations

import numpy as np

from cavity.gp import GP
from cavity.runtime.deadlines import Deadline

LEARNING_SHARE = 0.25
"""Share of the time allowed that learning may take where chains follow."""


def prepared(model: GP, objective: str | None, rng: np.random.Generator) -> GP:
    """The model for one fit: a rule that samples gets a seed, and keeps values that are not to be learned.

    Other rules are left alone, and the generator with them.
    """
    prepare = getattr(model.inference, "for_fit", None)
    if prepare is None:
        return model
    new = model._rebuild({}, (model.kernel, model.mean, model.likelihood))
    new.inference = prepare(rng, learns=objective is not None, warn=False)  # a fit reports for itself
    return new


def samples(model: GP) -> bool:
    """Whether the model's inference rule samples."""
    return hasattr(model.inference, "for_fit")


def time_to_learn(model: GP, time: Deadline) -> float | None:
    """Seconds that learning may take: all that are left, or a share of them where chains follow."""
    return time.part(LEARNING_SHARE) if samples(model) else time.left
