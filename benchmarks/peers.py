"""Other packages as worker processes in an environment of their own, with this process's thread settings.

The environment is `.venv-peers` beside the project (built by `make bench`), or the interpreter named by the
variable CAVITY_PEERS. A package that is not installed there is reported as missing, never replaced by a
stored figure.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.problems import Problem

HERE = Path(__file__).resolve().parent
PEERS_VARIABLE = "CAVITY_PEERS"
NAMES = ("sklearn", "gpy", "gpytorch")
TITLES = {"sklearn": "scikit-learn", "gpy": "GPy", "gpytorch": "GPyTorch (Cholesky)"}


LAST_WORD = 0.5
"""Seconds that a fit has, after its time is up, to finish an evaluation."""


class PeerError(RuntimeError):
    """A worker process failed."""


def interpreter() -> Path:
    """The peers' Python."""
    given = os.environ.get(PEERS_VARIABLE)
    return Path(given) if given else HERE.parent / ".venv-peers" / "bin" / "python"


def environment(threads: int | None = None) -> dict[str, str]:
    """Environment of every measured process: the same number of threads for all numerical libraries."""
    from cavity.numerics.threads import n_threads

    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads or n_threads())), "PYTHONWARNINGS": "ignore"}


def save(problem: Problem, folder: str | Path, name: str) -> Path:
    """A file that a worker can load."""
    path = Path(folder) / f"{name}.npz"
    np.savez(path, X=problem.X, y=problem.y, theta=problem.theta)
    return path


class Worker:
    """A warm worker: one JSON line in, one out."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the worker
        self._process = subprocess.Popen(
            [str(python), str(HERE / "peer_worker.py"), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment(),
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self.send(**request)
        return self.answer()

    def send(self, **request: Any) -> None:
        """Send a request."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a dead worker is noticed when its answer is read
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def answers_within(self, seconds: float) -> bool:
        """Whether the answer to the last request comes in time; a worker that is late is ended."""
        if select.select([self._process.stdout], [], [], seconds)[0]:
            return True
        self._process.kill()
        return False

    def answer(self) -> dict[str, Any]:
        """Wait for the answer to the last request."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise PeerError(f"{self.name}: the worker stopped. {self._errors.read()[-500:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=30)
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start() -> tuple[dict[str, Worker], dict[str, str]]:
    """Workers of the packages that are there, and a word on each that is not."""
    python = interpreter()
    if not python.is_file():
        reason = f"no environment at {python} (make bench builds it, {PEERS_VARIABLE} names another)"
        return {}, dict.fromkeys(NAMES, reason)
    workers, missing = {name: Worker(name, python) for name in NAMES}, {}
    for worker in workers.values():
        worker.send(op="version")
    for name, worker in list(workers.items()):
        try:
            worker.answer()
        except PeerError as error:
            workers.pop(name).close()
            missing[name] = str(error)
    return workers, missing


def ask_all(workers: Mapping[str, Worker], **request: Any) -> None:
    """The same request to all, at the same time."""
    for worker in workers.values():
        worker.send(**request)
    for worker in workers.values():
        worker.answer()


@dataclass(frozen=True)
class Trace:
    """Evidences seen by an optimizer, with the seconds since its process was started."""

    times: list[float]
    values: list[float]

    @property
    def best(self) -> float:
        return max(self.values)

    def reach(self, target: float) -> float | None:
        """Seconds until the evidence first is at least `target`."""
        return next((t for t, value in zip(self.times, self.values) if value >= target), None)


def cold_fit(name: str, file: Path, stop_at: float | None = None, limit: float = 300.0) -> Trace:
    """Fit in a fresh process; `name` is a peer or "cavity".

    A peer's fit ends early where its evidence reaches `stop_at`, or `limit` seconds after the start; one that is then
    still at its first evaluation, or before it, is ended as it is.
    """
    if name == "cavity":
        command = [sys.executable, str(HERE / "cold_fit.py"), str(file)]
    else:
        command = [str(interpreter()), str(HERE / "peer_worker.py"), name, "fit", str(file)]
    began = time.time()
    if name != "cavity":
        command += [repr(np.inf if stop_at is None else stop_at), repr(began + limit)]
    patience = None if name == "cavity" else limit + LAST_WORD
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), check=False, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return Trace([time.time() - began], [-np.inf])
    if done.returncode != 0:
        raise PeerError(f"{name}: the fit failed. {done.stderr[-500:]}")
    trace = json.loads(done.stdout.splitlines()[-1])["trace"]
    return Trace([t - began for t, _ in trace], [value for _, value in trace])
