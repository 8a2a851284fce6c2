"""Mixtures of components of any family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cavity.em.components import Components
from cavity.em.families import make_components, nonnegative
from cavity.em.mixture_base import MixtureBase


@dataclass(eq=False, repr=False)
class Mixture(MixtureBase):
    """Mixture of components of any family with a weighted maximum-likelihood step.

    Parameters
    ----------
    n_components : int, "bic" | "icl" | "aic", or an iterable of ints
        Number of components, or how to choose it (a string tries 1 to 10).
    components : str, Components, or list of (family, columns)
        "gaussian", "student-t", "poisson", "categorical", "bernoulli", "exponential"; a family object with
        its settings; `Plugin` for components of your own; a list for several kinds of features at once.
    criterion : {"bic", "icl", "aic"}
        Criterion when `n_components` is an iterable.
    weight_concentration : float
        Dirichlet prior of the mixing weights, >= 1; 1 is none.
    init : {"auto", "k-means++", "random"}
        Starting points; "auto" alternates, k-means++ first.
    n_init : int
        Number of starts; the best is kept, all are reported in `runs_`.
    max_iter, tol : EM steps at most, and the gain in log-likelihood per datum at which to stop.
    accelerate : bool
        SQUAREM extrapolation.
    ordering : {"means", "weights", None}
        Canonical order of the components: by increasing mean (first feature first), by decreasing weight, or
        as EM left them.
    allow_nan : bool
        Integrate missing entries (NaN) out.
    n_jobs : int or None
        Threads: over starts if there are several, else over rows.
    random_state : int, RandomState or None
    progress : bool
        Show a progress bar.

    Attributes
    ----------
    weights_, params_, means_ : parameters
    n_components_ : int
    converged_, status_, n_iter_, history_ : how EM went
    log_likelihood_ : float, of the training data
    runs_ : list of EMResult, one per start
    selection_ : list of Candidate, one per number of components that could be fitted; degenerate ones are
        chosen only if there are no others
    failed_sizes_ : list of str, numbers of components left out because every start collapsed, and why
    degenerate_ : list of int, components that rest on a guard rather than on data

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Mixture
    >>> rng = np.random.default_rng(0)
    >>> counts = np.concatenate([rng.poisson(2, 300), rng.poisson(20, 100)])[:, None]
    >>> model = Mixture(2, components="poisson", random_state=0).fit(counts)
    >>> np.round(model.means_.ravel(), 0)
    array([ 2., 21.])
    """

    components: Any = "gaussian"

    def _family(self) -> Components:
        return make_components(self.components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = nonnegative(self.components)
        return tags
