"""Learning hyperparameters: objectives, starts, runs of the optimizer, and the choice among them."""

from cavity.learning.fit import learn
from cavity.learning.multistart import SearchResult
from cavity.learning.optimizer import Run
from cavity.learning.run_choice import Learned

__all__ = ["Learned", "Run", "SearchResult", "learn"]
