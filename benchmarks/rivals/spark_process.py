"""A process with Spark in it, which is asked for one run after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from benchmarks.rivals.jvm import FailedError, MissingError, compiled
from benchmarks.rivals.load import Outcome, Sending


def opened(whose: str, closing: ExitStack) -> Callable[[Sending, Path], Outcome]:
    """`whose` operators are to be run: ours or its own."""
    try:
        import pyspark
    except ImportError:
        raise MissingError("PySpark is not installed") from None
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    classes = compiled("spark", ["Load.java", "Answers.java", "DueRows.java", "NotedAnswers.java"], str(jars))
    command = [sys.executable, "-m", "benchmarks.rivals.on_spark", whose, str(classes)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    closing.callback(_close, process)

    def run(sending: Sending, folder: Path) -> Outcome:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = asdict(sending) | {
            "query": sending.query.name,
            "keys": str(sending.write_keys(folder)),
            "folder": str(folder),
        }
        print(json.dumps(asked), file=process.stdin, flush=True)
        for line in process.stdout:
            if line.startswith("{"):
                got = json.loads(line)
                if "failed" in got:
                    raise FailedError(got["failed"])
                return Outcome(**got)
        raise FailedError(f"Spark ended with {process.wait()} before it had answered {sending.query.name}")

    return run


def _close(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(30.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
