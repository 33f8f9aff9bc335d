"""Errors raised inside Spark, brought back as what they were, or as the one line that tells what happened."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from watersmeet import errors
from watersmeet.errors import SetupError, WatersmeetError
from watersmeet.version import VERSION

OTHER_WORKERS = (
    f"before Spark starts, set PYSPARK_PYTHON (spark.pyspark.python) to a Python that has watersmeet {VERSION}, as "
    f"{sys.executable} has; or install it there; or send all that is needed along: `watersmeet package wm.tar.gz`, "
    "then --package wm.tar.gz"
)

# A message of ours may have several lines. It ends where Spark goes on: an SQLSTATE, a stack, or an empty line.
_OURS = re.compile(
    r"watersmeet\.errors\.(\w+): (.*?)(?:\s+SQLSTATE: |\n\s*(?:at |JVM stacktrace|=== |\n)|\Z)", re.DOTALL
)
_NOT_THERE = re.compile(r"ModuleNotFoundError: (No module named '(?:watersmeet|numpy|pandas|pyarrow)\b[\w.]*')")
_PYTHON_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_WITHOUT_WORDS = re.compile(r"SQLSTATE: \w+ \(no cause message\)")
_CRASHED = "Python worker exited unexpectedly"
# What Spark wraps around the cause, outermost first.
_WRAPPINGS = re.compile(
    r"""\[STREAM_FAILED\]\ Query\ \[.*?\]\ terminated\ with\ exception:\s*
    |Job\ aborted\ due\ to\ stage\ failure:\s*
    |Task\ \d+\ in\ stage\ \S+\ failed\ \d+\ times?,\ most\ recent\ failure:\s*
    |Lost\ task\ \S+\ in\ stage\ \S+\ \(TID\ \d+\)\ \(.*?\):\s*
    |An\ error\ occurred\ while\ calling\ \S+\s*:?\s*
    |Exception\ thrown\ in\ awaitResult:.*?Caused\ by:\s*
    |(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error):\s*
    |\[FAILED_READ_FILE\.NO_HINT\]\s*
    """,
    re.VERBOSE | re.DOTALL,
)


def ours_in(text: str) -> WatersmeetError | None:
    """The error of this library that a Spark exception's text carries, or None. Workers without it cannot raise one."""
    absent = _NOT_THERE.search(text)
    if absent:
        return SetupError(f"Spark's workers cannot run this query: {absent.group(1)}", hint=OTHER_WORKERS)
    match = _OURS.search(text)
    kind = getattr(errors, match.group(1), None) if match else None
    if match is None or kind is None:
        return None
    message, _, hint = match.group(2).strip().partition("\nhint: ")
    made: WatersmeetError = kind(message.strip(), hint=hint.strip() or None)
    return made


def first_useful_line(error: BaseException | str) -> str:
    """What a Spark exception says, without its wrappings, its stack and its error class."""
    text = str(error)
    trace = _PYTHON_TRACE.search(text)
    if trace and "Py4JJavaError" not in trace.group(1):
        return trace.group(1).strip()
    if trace:  # Python only called what failed in Java, which is told below
        text = text[trace.end() :].lstrip(": \n")
    text = text.split("\n\nJVM stacktrace", 1)[0].strip()
    while match := _WRAPPINGS.match(text):
        text = text[match.end() :]
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    if _WITHOUT_WORDS.fullmatch(line):  # all that Spark says when the process that reads a source's offsets is gone
        return "a Python process that Spark had started was gone before it answered"
    if _CRASHED in line:  # Spark goes on with settings of its own that would tell no more
        return "a Python process of Spark's crashed or was killed, as by a system whose memory is full"
    return re.sub(r"\s*SQLSTATE: \w+$", "", line)


@contextmanager
def friendly() -> Iterator[None]:
    """Turn a Spark failure that one of our errors caused back into that error."""
    try:
        yield
    except Exception as error:
        found = ours_in(str(error))
        if found is None:
            raise
        raise found from None


@contextmanager
def of_query(name: str) -> Iterator[None]:
    """An error says of which of several queries it is; without a name it is said elsewhere, or there is but one."""
    try:
        yield
    except WatersmeetError as error:
        error.message = f"{name}: {error.message}" if name else error.message
        raise
