"""Which classes and functions may appear in a model file, and under which names.

A part is stored as its registered name and the arguments its constructor takes: what a file can bring to life
is what is registered here, and nothing else. `register` adds a class or a function of one's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from cavity.inference.registry import RULES
from cavity.io.errors import ModelFileError
from cavity.kernels.automatic_relevance import Ard
from cavity.parameters.param import Parametrized

Arguments = Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Codec:
    """How objects of one class are written and read.

    Attributes
    ----------
    name : str
        The name in files.
    kind : type
        Objects of exactly this class; a subclass is something else.
    arguments : callable
        From the object to what is stored: names and values.
    build : callable
        Called with these as keywords; it checks them and gives the object.
    """

    name: str
    kind: type
    arguments: Arguments
    build: Callable[..., Any]


_by_name: dict[str, Codec] = {}
_by_kind: dict[type, Codec] = {}
_functions: dict[str, Callable[..., Any]] = {}

RULE = "inference."
"""How names of inference rules begin."""

HOMES = {
    "CoregionalizedRegressor": "cavity.estimators.files",
    "Dynamics": "cavity.control.files",
    "GP": "cavity.io.posterior",
    "GPClassifier": "cavity.estimators.files",
    "GPForecaster": "cavity.forecasting.files",
    "GPRegressor": "cavity.estimators.files",
    "GaussianMixture": "cavity.em.files",
    "HMM": "cavity.em.files",
    "LinearPolicy": "cavity.control.files",
    "Mixture": "cavity.em.files",
    "OutputsModel": "cavity.tables.files",
    "Posterior": "cavity.io.posterior",
    "RBFPolicy": "cavity.control.files",
    "SamplePosterior": "cavity.io.draws",
    "StackedRegressor": "cavity.estimators.files",
    "StudentTMixture": "cavity.em.files",
    "TableModel": "cavity.tables.files",
}
"""What a file may hold at its root, and the module that registers it: loaded on first use, by these names only."""


def register(thing: Any, name: str | None = None, *, arguments: Arguments | None = None) -> Any:
    """Let a class of parts (kernel, likelihood, mean, prior, rule) or a function be stored in model files.

    It must be registered under the same name before a file that uses it is loaded.

    Parameters
    ----------
    thing : class or function
        Of a class the constructor must accept what `arguments` gives; objects of its subclasses are not meant.
    name : str, optional
        The name in files; that of the class or function by default.
    arguments : callable, optional
        From an object to the keywords that make an equal one. By default every argument of the constructor is
        looked up among the parameters and attributes of the object.

    Returns
    -------
    thing, so that it can be used as a decorator

    Examples
    --------
    >>> import cavity
    >>> from cavity.kernels import SE
    >>> @cavity.io.register
    ... class Bump(SE):
    ...     pass
    """
    label = name if name is not None else getattr(thing, "__name__", None)
    if not isinstance(label, str) or not label.isidentifier():
        raise ValueError(
            f"name must be an identifier, got {label!r}; give one, as in register(thing, 'name')"
        )
    taken = _by_name.get(label) or _functions.get(label)
    same = taken is thing or (isinstance(taken, Codec) and taken.kind is thing)
    if (taken is not None and not same) or label in HOMES:
        raise ValueError(f"{label!r} is registered already; give another name, as in register(thing, 'name')")
    if isinstance(thing, type):
        add(Codec(label, thing, arguments or constructor_arguments, thing))
    elif callable(thing):
        if arguments is not None:
            raise ValueError("arguments are for classes; a function is stored by its name alone")
        _functions[label] = thing
    else:
        raise ValueError(f"only classes and functions can be registered, got {thing!r}")
    return thing


def add(codec: Codec) -> None:
    """Register a codec of this library."""
    _by_name[codec.name] = codec
    _by_kind[codec.kind] = codec


def codec_of(value: Any) -> Codec | None:
    """How to write an object; None for one that is not registered."""
    _load_parts()
    name = type(value).__name__
    if type(value) not in _by_kind and name in HOMES:
        import_module(HOMES[name])
    if type(value) not in _by_kind:
        _load_rule(name)
    return _by_kind.get(type(value))


def codec_named(name: str) -> Codec:
    """How to read an object."""
    _load_parts()
    if name not in _by_name and name in HOMES:
        import_module(HOMES[name])
    if name not in _by_name and name.startswith(RULE):
        _load_rule(name[len(RULE) :])
    if name not in _by_name:
        raise ModelFileError(
            f"it uses {name[:80]!r}, which is not known here: register it with cavity.io.register before loading, "
            "or install the version of cavity that wrote the file"
        )
    return _by_name[name]


def function_name(function: Any) -> str | None:
    """The name of a registered function."""
    return next((name for name, known in _functions.items() if known is function), None)


def function_named(name: str) -> Callable[..., Any]:
    """A registered function."""
    if name not in _functions:
        raise ModelFileError(
            f"it uses the function {name[:80]!r}, which is not registered here; call "
            f"cavity.io.register(function, {name[:80]!r}) before loading"
        )
    return _functions[name]


def _load_parts() -> None:
    """The parts of this library are registered on first use."""
    import_module("cavity.io.parts")


def _load_rule(name: str) -> None:
    """Register the inference rule of that class name, if there is one; rules are many, and some load slowly."""
    if name == "MCMC":
        import_module("cavity.io.draws")  # MCMC has a codec of its own
    for module, kind in [*RULES.values(), ("cavity.inference.ep", "SequentialEP")]:
        if kind == name and RULE + name not in _by_name:
            rule = getattr(import_module(module), kind)
            add(Codec(RULE + name, rule, constructor_arguments, rule))


def field_values(value: Any) -> dict[str, Any]:
    """The fields of a dataclass by name."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def constructor_arguments(part: Any) -> dict[str, Any]:
    """The arguments that make an equal object: parameters as `Param`, parts, other attributes by name.

    Arguments after a star are listed under "*". An argument that is no attribute of the object is left out.
    """
    own = part.params if isinstance(part, Parametrized) else {}
    found: dict[str, Any] = {}
    for name, argument in inspect.signature(type(part).__init__).parameters.items():
        if name == "self" or argument.kind is argument.VAR_KEYWORD:
            continue
        if argument.kind is argument.VAR_POSITIONAL:
            if isinstance(part, Parametrized):  # not the constructor of a class that has none of its own
                found["*"] = list(part.parts)
        elif name in own:
            found[name] = Ard(own[name]) if name in getattr(part, "_ard", ()) else own[name]
        elif hasattr(part, name):
            found[name] = getattr(part, name)
    return found
