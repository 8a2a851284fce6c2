"""Estimators whose inference rule samples: a seed from the estimator's own generator, and who warns."""

from __future__ import annotations

import numpy as np

from cavity.gp import GP


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
