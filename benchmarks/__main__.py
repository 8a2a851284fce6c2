"""`python -m benchmarks NAME [--quick]`: run one benchmark, or `all`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec

NAMES = (
    "exact",
    "em",
    "approx",
    "ep_stress",
    "classes",
    "control",
    "sampling",
    "large",
    "large_fits",
    "markov",
    "fits",
    "fit_quality",
    "choice",
    "design",
    "rows",
    "relatives",
)
"""Modules of this folder with a function `main(argv) -> exit code`."""


def available() -> list[str]:
    return [name for name in NAMES if find_spec(f"benchmarks.{name}") is not None]


def main(argv: list[str] | None = None) -> int:
    names = available()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=[*names, "all"], help="which benchmark")
    chosen, rest = parser.parse_known_args(argv)
    codes = []
    for name in names if chosen.name == "all" else [chosen.name]:
        if chosen.name == "all":
            print(f"== {name} ==", flush=True)
        codes.append(int(import_module(f"benchmarks.{name}").main(rest)))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
