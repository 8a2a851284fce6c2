"""Learning hyperparameters: objectives, starts, runs of the optimizer, and the choice among them."""

from cavity.learning.multistart import Learned, Run, learn

__all__ = ["Learned", "Run", "learn"]
