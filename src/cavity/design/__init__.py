"""Which experiment next? Bayesian optimization and design of experiments that survive bad measurements.

A `Space` says what may be varied, a `History` what was tried; `suggest` is a function of the two, options and a seed.
`Optimizer` (ask and tell) and `minimize` are thin shells around it, `GPSearchCV` is scikit-learn's. Acquisition
functions are pure functions of means and variances, with gradients (`cavity.design.acquisition`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.design import acquisition as acquisition
    from cavity.design.feasibility import Limit as Limit
    from cavity.design.history import History as History
    from cavity.design.history import Status as Status
    from cavity.design.history import Trial as Trial
    from cavity.design.information import greedy_design as greedy_design
    from cavity.design.information import information_gain as information_gain
    from cavity.design.information import integrated_variance_design as integrated_variance_design
    from cavity.design.log import RunLog as RunLog
    from cavity.design.log import read_log as read_log
    from cavity.design.optimizer import Optimizer as Optimizer
    from cavity.design.optimizer import minimize as minimize
    from cavity.design.regret import cumulative_regret as cumulative_regret
    from cavity.design.regret import inference_regret as inference_regret
    from cavity.design.regret import simple_regret as simple_regret
    from cavity.design.search_cv import GPSearchCV as GPSearchCV
    from cavity.design.space import Categorical as Categorical
    from cavity.design.space import Integer as Integer
    from cavity.design.space import LinearConstraint as LinearConstraint
    from cavity.design.space import Real as Real
    from cavity.design.space import Space as Space
    from cavity.design.space import as_input as as_input
    from cavity.design.suggestion import Estimate as Estimate
    from cavity.design.suggestion import Options as Options
    from cavity.design.suggestion import Reason as Reason
    from cavity.design.suggestion import Study as Study
    from cavity.design.suggestion import Suggestion as Suggestion
    from cavity.design.suggestion import suggest as suggest
    from cavity.design.surrogate import Surrogate as Surrogate
    from cavity.latent.moments import moments_of as moments_of

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
