"""Control: prediction with uncertain inputs, learned dynamics, policy iteration, planning.

Names are looked up on first use, so that importing this package is quick. To add one, add an import for
type checkers. See docs/uncertain_inputs.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.control import mdp as mdp
    from cavity.control import problems as problems
    from cavity.control import value_iteration as value_iteration
    from cavity.control.dynamics.model import Dynamics as Dynamics
    from cavity.control.dynamics.rollouts import Rollout as Rollout
    from cavity.control.dynamics.sampled_functions import DrawnDynamics as DrawnDynamics
    from cavity.control.dynamics.transitions import Transitions as Transitions
    from cavity.control.losses import QuadraticLoss as QuadraticLoss
    from cavity.control.losses import SaturatingLoss as SaturatingLoss
    from cavity.control.losses import tip_distance as tip_distance
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
    from cavity.control.uncertain_inputs.decomposition import NotAnalyticError as NotAnalyticError
    from cavity.control.uncertain_inputs.gaussian_moments import GaussianMoments as GaussianMoments
    from cavity.control.uncertain_inputs.output_moments import OutputMoments as OutputMoments
    from cavity.control.uncertain_inputs.predict import exact_moments as exact_moments
    from cavity.control.uncertain_inputs.predict import predict_gaussian as predict_gaussian
    from cavity.control.uncertain_inputs.trigonometric_moments import TrigonometricMap as TrigonometricMap
    from cavity.control.uncertain_inputs.trigonometric_moments import angle_map as angle_map
    from cavity.control.uncertain_inputs.trigonometric_moments import squash_map as squash_map

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
