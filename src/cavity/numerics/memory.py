"""How much memory a fit takes, and a refusal before it is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from cavity.runtime.errors import Described, Setting

MATRICES = {"evidence": 3.0, "loo": 7.0, "gcv": 7.0, "predict": 4.0}
"""n x n matrices alive at the peak: covariance, factor and room for tiles; more for leave-one-out, whose
gradient is dense, and for joint predictions."""

CGROUP = Path("/sys/fs/cgroup")
"""Where Linux tells a container its limits."""


class TooLargeError(Described, MemoryError, ValueError):
    """A problem would not fit into memory."""


def available_memory() -> float:
    """Bytes of memory that can be had now; infinite where the system does not say."""
    return min(_system_memory(), _container_memory())


def _system_memory() -> float:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def _container_memory() -> float:
    """What the control group leaves, infinite outside of one; its cached files can be dropped."""
    try:
        limit = float((CGROUP / "memory.max").read_text())
        used = float((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return limit - used + float(stat.get("inactive_file", 0))
    except (OSError, ValueError):  # no such group, or no limit ("max")
        return float("inf")


def require_memory(n: int, use: str = "evidence", copies: int = 1) -> None:
    """Refuse an n x n problem that cannot fit, before anything is allocated.

    Parameters
    ----------
    use : {"evidence", "loo", "gcv", "predict"}
    copies : int
        Processes that each hold their own matrices.
    """
    per_entry = 8.0 * MATRICES[use] * copies
    needed, free = per_entry * n * n, available_memory()
    if needed <= free:
        return
    sizes = f"about {needed / 2**30:.1f} GiB, but {max(free, 0.0) / 2**30:.1f} GiB are free"
    if use == "predict":
        raise TooLargeError(
            f"a joint prediction at {n} rows needs {sizes}",
            remedy="predict fewer rows at a time, or marginal standard deviations (return_std=True), which take memory "
            "in blocks",
        )
    fewer = (", ", Setting("n_jobs", 1)) if copies > 1 else ()
    raise TooLargeError(
        f"an exact fit of {n} rows needs {sizes}",
        remedy=(
            *("use ", Setting("representation", "inducing"), *fewer),
            ", fewer rows, or a machine with more memory",
        ),
    )
