"""What tests of several packages need."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from joblib.externals.loky import get_reusable_executor


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, here and in workers, also where the shell has told processes to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    get_reusable_executor().shutdown(wait=True)  # workers that are started now inherit it
    yield
    signal.signal(signal.SIGINT, before)
