"""Learning hyperparameters: objectives, starts, runs of the optimizer, and the choice among them."""

from cavity.learning.multistart import Learned, learn
from cavity.learning.optimizer import Run

__all__ = ["Learned", "Run", "learn"]
