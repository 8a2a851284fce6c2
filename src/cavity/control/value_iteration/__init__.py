"""Value functions as Gaussian processes: policy iteration, Q-iteration, uncertainty of values.

Kuss (2006), section 7.3.

`policy_iteration` and `q_iteration` take learned `Dynamics` or a `System`, `Support` points and a reward, and give a
policy that can be called. See docs/architecture.md for where this stands.
"""

from __future__ import annotations

from cavity.control.value_iteration.backup import Backup, DivergenceWarning, Round
from cavity.control.value_iteration.factors import Angle, Factor, Line
from cavity.control.value_iteration.large_grids import GridPolicy, LargeGrid, grid_policy_iteration
from cavity.control.value_iteration.next_states import ExactNextStates, LearnedNextStates
from cavity.control.value_iteration.policy_iteration import (
    Evaluation,
    ValuePolicy,
    evaluate,
    policy_iteration,
    sweep,
)
from cavity.control.value_iteration.q_iteration import QPolicy, q_iteration
from cavity.control.value_iteration.rewards import BumpReward, Reward, factors_of, reward_of
from cavity.control.value_iteration.uncertainty import ValueUncertainty, value_uncertainty
from cavity.control.value_iteration.value_gp import Support, ValueGP

__all__ = [
    "Angle",
    "Backup",
    "BumpReward",
    "DivergenceWarning",
    "Evaluation",
    "ExactNextStates",
    "Factor",
    "GridPolicy",
    "LargeGrid",
    "LearnedNextStates",
    "Line",
    "QPolicy",
    "Reward",
    "Round",
    "Support",
    "ValueGP",
    "ValuePolicy",
    "ValueUncertainty",
    "evaluate",
    "factors_of",
    "grid_policy_iteration",
    "policy_iteration",
    "q_iteration",
    "reward_of",
    "sweep",
    "value_uncertainty",
]
