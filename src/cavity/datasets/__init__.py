"""Data sets for tests, studies and benchmarks: real ones where they are found, synthetic ones from a seed.

    cavity.datasets.load("boston")         # from CAVITY_DATA, a package, the cache, or a download
    cavity.datasets.load("sinc", rng=3)   # the same as make_sinc(rng=3)
    cavity.datasets.names()

The library ships no data files. `describe()` of a data set shows its license and what to cite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cavity.datasets.dataset import Dataset
from cavity.datasets.locate import DatasetNotFoundError, cache_folder
from cavity.datasets.reading import load_source
from cavity.datasets.registry import SOURCES
from cavity.datasets.synthetic import (
    make_book_1d,
    make_clusters_1d,
    make_friedman,
    make_neal,
    make_sinc,
    make_step,
    make_two_arcs,
)
from cavity.runtime.checks import require_one_of

__all__ = [
    "Dataset",
    "DatasetNotFoundError",
    "cache_folder",
    "load",
    "make_book_1d",
    "make_clusters_1d",
    "make_friedman",
    "make_neal",
    "make_sinc",
    "make_step",
    "make_two_arcs",
    "names",
]

_GENERATORS: dict[str, Callable[..., Dataset]] = {
    make.__name__.removeprefix("make_"): make
    for make in (
        make_book_1d,
        make_clusters_1d,
        make_friedman,
        make_neal,
        make_sinc,
        make_step,
        make_two_arcs,
    )
}

KINDS = ("all", "real", "synthetic")


def names(kind: str = "all") -> list[str]:
    """Names that `load` knows.

    Parameters
    ----------
    kind : {"all", "real", "synthetic"}

    Examples
    --------
    >>> from cavity.datasets import names
    >>> "boston" in names()
    True
    """
    require_one_of(kind, "kind", KINDS)
    real = sorted(SOURCES) if kind != "synthetic" else []
    synthetic = sorted(_GENERATORS) if kind != "real" else []
    return real + synthetic


def load(name: str, **options: Any) -> Dataset:
    """A data set by name.

    Parameters
    ----------
    name : str
        One of `names()`.
    **options
        For synthetic sets: the arguments of the generator `make_<name>`, such as `rng`.

    Raises
    ------
    DatasetNotFoundError
        If a real data set is in none of the places looked at; the message lists them and the remedy.

    Examples
    --------
    >>> from cavity import datasets
    >>> "boston" in datasets.names()
    True
    >>> datasets.load("bostom")
    Traceback (most recent call last):
        ...
    ValueError: name: there is no data set 'bostom'; did you mean 'boston'?
    """
    if name in _GENERATORS:
        return _GENERATORS[name](**options)
    if name not in SOURCES:
        from difflib import get_close_matches

        near = get_close_matches(name, names(), n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known are {', '.join(names())}"
        raise ValueError(f"name: there is no data set {name!r}; {hint}")
    if options:
        raise ValueError(
            f"{name!r} is a real data set and takes no options, got {', '.join(sorted(options))}"
        )
    return load_source(SOURCES[name])
