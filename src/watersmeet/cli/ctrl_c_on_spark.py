"""Ctrl-C while Spark starts and plans: it ends the command with our words alone.

PySpark takes Ctrl-C for itself when it starts, and has the JVM cancel all jobs in the midst of whatever is being asked
of it, which fails with tracebacks. Its library for calls also logs where one was interrupted.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_INTERRUPTED = "KeyboardInterrupt while sending command."  # of py4j, to the root logger
_IN_THE_MIDST = "reentrant call inside"  # what PySpark's own answer to Ctrl-C fails with


@contextmanager
def without_tracebacks() -> Iterator[None]:
    root = logging.getLogger()
    root.addFilter(_is_news)
    try:
        yield
    finally:
        root.removeFilter(_is_news)


def take_back() -> None:
    """From PySpark, once it has started: Ctrl-C raises KeyboardInterrupt, as everywhere in Python."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_news(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    causes = (error, error and error.__context__)
    return record.msg != _INTERRUPTED and not any(_IN_THE_MIDST in str(one) for one in causes)
