"""What a command may do to a process that is its own, so that rows wait for nothing but rows."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# For how long a thread that reads or serves may keep the others waiting. Python's own 5 ms are more than a batch takes.
SWITCH_S = 0.0005


@contextmanager
def preferring_latency() -> Iterator[None]:
    """Leave what is loaded by now out of all looks for garbage, to the end, and let threads take turns more often."""
    before_s = sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)
