"""Control: prediction with uncertain inputs, learned dynamics, policy iteration, planning.

Names are looked up on first use, so that importing this package is quick. To add one, add a line to `_MODULES` and
one to the imports for type checkers. See docs/uncertain_inputs.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

_MODULES = {
    # name: where it lives; a module by its own name is the module itself
    "CartPole": "cavity.control.problems",
    "DrawnDynamics": "cavity.control.drawn_dynamics",
    "Dynamics": "cavity.control.dynamics",
    "ExactModel": "cavity.control.risk",
    "GaussianMoments": "cavity.control.moments",
    "LearnedPolicy": "cavity.control.policy_search",
    "LinearPolicy": "cavity.control.policies",
    "MountainCar": "cavity.control.problems",
    "NotAnalyticError": "cavity.control.analytic",
    "OutputMoments": "cavity.control.output_moments",
    "Pendulum": "cavity.control.problems",
    "Planner": "cavity.control.planning",
    "PlannerSettings": "cavity.control.planning",
    "Problem": "cavity.control.problems",
    "QuadraticLoss": "cavity.control.losses",
    "RBFPolicy": "cavity.control.policies",
    "Rollout": "cavity.control.rollouts",
    "SaturatingLoss": "cavity.control.losses",
    "System": "cavity.control.problems",
    "Trajectory": "cavity.control.problems",
    "Transitions": "cavity.control.transitions",
    "TrigonometricMap": "cavity.control.trigonometric",
    "angle_map": "cavity.control.trigonometric",
    "exact_moments": "cavity.control.uncertain",
    "learn_policy": "cavity.control.policy_search",
    "mdp": "cavity.control.mdp",
    "predict_gaussian": "cavity.control.uncertain",
    "problems": "cavity.control.problems",
    "receding_horizon": "cavity.control.planning",
    "squash_map": "cavity.control.trigonometric",
    "tip_distance": "cavity.control.losses",
    "value_iteration": "cavity.control.value_iteration",
}

__all__ = list(_MODULES)

if TYPE_CHECKING:
    from cavity.control import mdp as mdp
    from cavity.control import problems as problems
    from cavity.control import value_iteration as value_iteration
    from cavity.control.analytic import NotAnalyticError as NotAnalyticError
    from cavity.control.drawn_dynamics import DrawnDynamics as DrawnDynamics
    from cavity.control.dynamics import Dynamics as Dynamics
    from cavity.control.losses import QuadraticLoss as QuadraticLoss
    from cavity.control.losses import SaturatingLoss as SaturatingLoss
    from cavity.control.losses import tip_distance as tip_distance
    from cavity.control.moments import GaussianMoments as GaussianMoments
    from cavity.control.output_moments import OutputMoments as OutputMoments
    from cavity.control.planning import Planner as Planner
    from cavity.control.planning import PlannerSettings as PlannerSettings
    from cavity.control.planning import receding_horizon as receding_horizon
    from cavity.control.policies import LinearPolicy as LinearPolicy
    from cavity.control.policies import RBFPolicy as RBFPolicy
    from cavity.control.policy_search import LearnedPolicy as LearnedPolicy
    from cavity.control.policy_search import learn_policy as learn_policy
    from cavity.control.problems import CartPole as CartPole
    from cavity.control.problems import MountainCar as MountainCar
    from cavity.control.problems import Pendulum as Pendulum
    from cavity.control.problems import Problem as Problem
    from cavity.control.problems import System as System
    from cavity.control.problems import Trajectory as Trajectory
    from cavity.control.risk import ExactModel as ExactModel
    from cavity.control.rollouts import Rollout as Rollout
    from cavity.control.transitions import Transitions as Transitions
    from cavity.control.trigonometric import TrigonometricMap as TrigonometricMap
    from cavity.control.trigonometric import angle_map as angle_map
    from cavity.control.trigonometric import squash_map as squash_map
    from cavity.control.uncertain import exact_moments as exact_moments
    from cavity.control.uncertain import predict_gaussian as predict_gaussian


__getattr__, __dir__ = on_first_use(__name__, _MODULES)
