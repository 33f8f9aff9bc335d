"""What Spark prints and raises, cut down to what a user can act on."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from watersmeet.errors import DataError, SetupError
from watersmeet.hosts.spark.errors import first_useful_line, ours_in
from watersmeet.hosts.spark.launching.noise import quiet_stderr
from watersmeet.hosts.spark.progress.listener import MetricsListener

STAGE = (
    "[STREAM_FAILED] Query [id = 1f, runId = 2e] terminated with exception: Job aborted due to stage failure: "
    "Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 9) (localhost executor "
    "driver): "
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[PATH_NOT_FOUND] Path not found: file:/a. SQLSTATE: 42K03", "[PATH_NOT_FOUND] Path not found: file:/a."),
        (
            STAGE + "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
            "file:/a/b.parquet.  SQLSTATE: KD001\n\tat org.apache.spark.Thing\n",
            "Encountered error while reading file file:/a/b.parquet.",
        ),
        (
            STAGE + "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "a.py", line 1, in f\n    g()\nValueError: too many apples\n\n\tat org.apache\n',
            "ValueError: too many apples",
        ),
        (
            "[STREAM_FAILED] Query [id = 1f, runId = 2e] terminated with exception:  SQLSTATE: XXKST (no cause "
            "message)\n=== Streaming Query ===\n",
            "a Python process that Spark had started was gone before it answered",
        ),
        ("", "str"),
    ],
)  # fmt: skip
def test_the_useful_line_of_a_failure_is_found(text: str, line: str) -> None:
    assert first_useful_line(text) == line


def test_our_own_errors_come_back_as_they_were() -> None:
    text = (
        STAGE + "Traceback (most recent call last):\n  …\nwatersmeet.errors.DataError: no time\nhint: add one\n\n\tat x"
    )
    found = ours_in(text)
    assert isinstance(found, DataError)
    assert (found.message, found.hint) == ("no time", "add one")
    assert ours_in("java.lang.OutOfMemoryError") is None


STOPPED = (
    'Exception in thread "stream execution thread for q [id = 1, runId = 2]" java.lang.StackOverflowError\n'
    "\tat java.base/java.util.regex.Pattern$Loop.match(Pattern.java:4870)\n"
)


def test_noise_is_dropped_and_the_rest_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    says = (
        "WARNING: Using incubator modules: a\n\nUsing Spark's default log4j profile: x\n" + STOPPED + "real trouble\n"
    )
    with quiet_stderr() as stderr:
        subprocess.run([sys.executable, "-c", f"import sys; sys.stderr.write({says!r})"], stderr=stderr, check=True)
    shown = ""
    for _ in range(100):
        shown += capfd.readouterr().err
        if shown:
            break
        time.sleep(0.02)
    assert shown == "real trouble\n"


def test_workers_without_the_package_are_named() -> None:
    found = ours_in(
        "org.apache.spark.SparkException: …\nTraceback (most recent call last):\n  File …\n"
        "ModuleNotFoundError: No module named 'watersmeet.hosts.spark'\n\n\tat org.apache.spark…"
    )
    assert isinstance(found, SetupError)
    assert found.message == "Spark's workers cannot run this query: No module named 'watersmeet.hosts.spark'"
    assert "PYSPARK_PYTHON" in str(found)
    assert ours_in("ModuleNotFoundError: No module named 'kafka'") is None


def test_the_end_of_a_query_by_an_error_of_ours_is_logged_in_its_words(caplog: pytest.LogCaptureFixture) -> None:
    said = (
        "[STREAM_FAILED] … watersmeet.errors.DataError: this checkpoint belongs to another query\nhint: go back\n\tat x"
    )
    MetricsListener().onQueryTerminated(SimpleNamespace(id="7", runId="7", exception=said))
    MetricsListener().onQueryTerminated(SimpleNamespace(id="8", runId="8", exception="java.lang.OutOfMemoryError"))
    MetricsListener().onQueryTerminated(SimpleNamespace(id="9", runId="9", exception=None))
    assert caplog.messages == ["query 7: this checkpoint belongs to another query\nhint: go back"]


def test_what_failed_in_java_below_python_is_told() -> None:
    text = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "clientserver.py", line 600, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
py4j.protocol.Py4JJavaError: An error occurred while calling o346.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error \
while reading file file:///b.parquet. Data type mismatches when reading Parquet column [n]. SQLSTATE: KD001
"""
    assert first_useful_line(text) == (
        "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file file:///b.parquet. "
        "Data type mismatches when reading Parquet column [n]."
    )


def test_a_worker_that_was_killed_is_told_without_settings_of_sparks() -> None:
    text = (
        STAGE + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting "
        "'spark.sql.execution.pyspark.udf.faulthandler.enabled' or'spark.python.worker.faulthandler.enabled' "
        "configuration to 'true' for the better Python traceback.\n\tat org.apache.spark.api.python.X"
    )
    assert first_useful_line(text) == (
        "a Python process of Spark's crashed or was killed, as by a system whose memory is full"
    )
