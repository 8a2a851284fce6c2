"""Peak memory of evidence and gradient, in units of n^2 doubles: `python -m benchmarks.peak_memory N`.

Runs in a process of its own, since the peak of a process never goes down.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks.ours import Evidence
from benchmarks.problems import synthetic
from cavity.numerics.compiled import load_compiled


def resident() -> int:
    """Bytes of memory held now (where the system does not tell, the peak so far)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak()


def peak() -> int:
    """Largest number of bytes held so far, by this program alone.

    The peak that `getrusage` tells is inherited from the process that started this one; the kernel's own record is not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> None:
    """Let the kernel's record of the peak begin anew, where it can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def measure(n: int) -> float:
    """Growth of memory over two evaluations, divided by 8 n^2."""
    Evidence(synthetic(50))(0)  # whatever the first evaluation imports or caches is not counted,
    load_compiled()  # nor the compiler of the passes over large matrices
    forget_peak()
    subject = Evidence(synthetic(n))
    before = resident()
    for k in range(2):
        subject(k)
    return (peak() - before) / (8.0 * n * n)


if __name__ == "__main__":
    print(f"{measure(int(sys.argv[1])):.3f}")
