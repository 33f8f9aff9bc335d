"""The stderr of Spark's JVM, without the lines that tell a user nothing."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Whole lines that are dropped.
NOISE = re.compile(
    rb"""\s*$
    |WARNING:\ Using\ incubator\ modules
    |WARNING:\ package\ \S+\ not\ in
    |Using\ Spark's\ default\ log4j\ profile
    |Using\ Spark's\ repl\ log4j\ profile
    |Setting\ default\ log\ level\ to
    |To\ adjust\ logging\ level\ use
    |.*Streaming\ TransformWithStateInPandas\ Python\ worker
    |Picked\ up\ (_JAVA|JDK_JAVA|JAVA_TOOL)_OPTIONS
    |.*load-spark-env\.sh:\ line\ \d+:\ ps:\ command\ not\ found
    # A query that is stopped amid a call of Python's: Spark looks for an interruption in the text of the error by a
    # pattern that a long text is too much for. Nothing else goes wrong.
    |Exception\ in\ thread\ "stream\ execution\ thread\ for\ .*java\.lang\.StackOverflowError
    |\s+at\ java\.base/java\.util\.regex\.
    """,
    re.VERBOSE,
)


@contextmanager
def quiet_stderr() -> Iterator[int]:
    """A file descriptor for a child's stderr; what is no noise goes on to this process's stderr.

    A thread of this process reads it for as long as the child, or a child of its own, holds it open.
    """
    # A pipe, because the JVM writes to the descriptor itself: nothing done to sys.stderr would reach it.
    reading, writing = os.pipe()
    threading.Thread(target=_forward, args=(reading,), name="spark stderr", daemon=True).start()
    try:
        yield writing
    finally:
        # The child has its own copy; if this one stayed open, the reader would never come to the end.
        os.close(writing)


def _forward(reading: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not NOISE.match(line):
                sys.stderr.write(line.decode("utf-8", "replace"))
                sys.stderr.flush()
