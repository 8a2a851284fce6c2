"""Problems of control: mountain car, cart-pole and pendulum, and any Gymnasium environment with boxes for spaces.

Where Gymnasium is installed (`pip install cavity[control]`), importing this module registers the environments
`cavity/MountainCar-v0` and `cavity/CartPoleSwingUp-v0`. Without it the classes work just as well.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .cart_pole import CartPole
from .mountain_car import MountainCar
from .pendulum import Pendulum
from .pictures import animation, picture
from .problem import Policy, Problem, System, Trajectory

if TYPE_CHECKING:
    from .environments import CartPoleEnv, MountainCarEnv, SystemEnv, problem_of

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
    from .environments import register

    register()


def __getattr__(name: str) -> Any:
    if name not in _NEED_GYMNASIUM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not HAS_GYMNASIUM:
        raise ImportError(f"{name} needs Gymnasium: pip install cavity[control]")
    from . import environments

    return getattr(environments, name)
