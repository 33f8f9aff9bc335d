"""Random tests draw the same cases each time, so that what passes here passes anywhere. With more effort than usual
(`make fuzz`, `make soak`) they draw new ones each time. What is the papers' alone has a target of its own."""

from __future__ import annotations

import gc
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.effort import EFFORT

PAPERS = (Path(__file__).parent / "lab", Path(__file__).parent / "conformance")

settings.register_profile("watersmeet", derandomize=EFFORT == 1)
settings.load_profile("watersmeet")

# A shell starts what runs in the background with Ctrl-C ignored, and all that tests start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in PAPERS):
            item.add_marker(pytest.mark.lab)


def pytest_collection_finish() -> None:
    """What there is by now stays to the end: it need not be looked through for garbage again and again."""
    gc.collect()
    gc.freeze()
