"""Problems of control: mountain car, cart-pole and pendulum, and any Gymnasium environment with boxes for spaces.

Where Gymnasium is installed (`pip install cavity[control]`), importing this module registers the environments
`cavity/MountainCar-v0` and `cavity/CartPoleSwingUp-v0`. Without it the classes work just as well.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cavity.control.problems.cart_pole import CartPole
from cavity.control.problems.mountain_car import MountainCar
from cavity.control.problems.pendulum import Pendulum
from cavity.control.problems.pictures import animation, picture
from cavity.control.problems.problem import Policy, Problem, System, Trajectory

if TYPE_CHECKING:
    from cavity.control.problems.environments import CartPoleEnv, MountainCarEnv, SystemEnv, problem_of

__all__ = [
    "CartPole",
    "CartPoleEnv",
    "MountainCar",
    "MountainCarEnv",
    "Pendulum",
    "Policy",
    "Problem",
    "System",
    "SystemEnv",
    "Trajectory",
    "animation",
    "picture",
    "problem_of",
]

_NEED_GYMNASIUM = ("CartPoleEnv", "MountainCarEnv", "SystemEnv", "problem_of")

HAS_GYMNASIUM = find_spec("gymnasium") is not None

if HAS_GYMNASIUM:
    from cavity.control.problems.environments import register

    register()


def __getattr__(name: str) -> Any:
    if name not in _NEED_GYMNASIUM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not HAS_GYMNASIUM:
        raise ImportError(f"{name} needs Gymnasium: pip install cavity[control]")
    from cavity.control.problems import environments

    return getattr(environments, name)
