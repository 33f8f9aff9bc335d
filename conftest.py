"""Random tests draw the same cases each time, so that what passes here passes anywhere. With more effort than usual
(`make fuzz`, `make soak`) they draw new ones each time. What is the papers' alone has a target of its own."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from _pytest.runner import runtestprotocol
from hypothesis import settings

import tests.command_line  # noqa: F401
from tests.effort import EFFORT

# As if there were no Numba, in processes that tests start too: kernels that wheels would not bring are refused, or
# added to the list of those that they do.
os.environ.setdefault("WATERSMEET_KERNELS", "list" if "WATERSMEET_REWRITE" in os.environ else "listed")

TESTS = Path(__file__).parent / "tests"
PAPERS = (str(TESTS / "lab"), str(TESTS / "conformance"))

settings.register_profile("watersmeet", derandomize=EFFORT == 1)
settings.load_profile("watersmeet")

# A shell starts what runs in the background with Ctrl-C ignored, and all that tests start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is not run need not be imported."""
    return True if "not lab" in config.option.markexpr and str(collection_path) in PAPERS else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Most files have no examples: each process that runs tests would import and look through all of them."""
    found = yield
    has_examples = file_path.suffix == ".py" and b">>>" in file_path.read_bytes()
    return [one for one in found if has_examples or not isinstance(one, DoctestModule)]


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(PAPERS):
            item.add_marker(pytest.mark.lab)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Of a test that passes a worker of xdist says so, once: each of its messages takes as long as a small test."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_collection_finish() -> None:
    """What there is by now stays to the end: it need not be looked through for garbage again and again. Tests make many
    objects and little of it that goes in circles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
