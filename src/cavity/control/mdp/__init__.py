"""Finite Markov decision processes (Kuss, 2006, section 7.1): exact solutions, temporal differences, learned models.

`MDP` holds tables, `grid_world` and `from_gymnasium` make some. Known tables: `evaluate`, `policy_iteration`,
`value_iteration`, `linear_program`. From experience: `td`, `sarsa`, `q_learning`, and `dyna` with `DirichletModel`.
"""

from __future__ import annotations

from cavity.control.mdp.dyna import DirichletModel, dyna
from cavity.control.mdp.learning import LearnedValues, Rate, q_learning, sarsa, td
from cavity.control.mdp.solving import (
    Solution,
    evaluate,
    greedy,
    linear_program,
    policy_iteration,
    q_values,
    value_iteration,
)
from cavity.control.mdp.tables import MDP
from cavity.control.mdp.worlds import from_gymnasium, grid_world, random_walk

__all__ = [
    "MDP",
    "DirichletModel",
    "LearnedValues",
    "Rate",
    "Solution",
    "dyna",
    "evaluate",
    "from_gymnasium",
    "greedy",
    "grid_world",
    "linear_program",
    "policy_iteration",
    "q_learning",
    "q_values",
    "random_walk",
    "sarsa",
    "td",
    "value_iteration",
]
