"""A driver for the kill tests of sinks on Spark: runs a script in a process that kills itself at a point.

    python -m tests.spark.drive_sink FOLDER [POINT AFTER MS]

FOLDER holds `script.sql`, may hold `settings.json`, how the run goes, and gets `checkpoint`. POINT is
'module:Class.method before', '… after' or '… amid': so many milliseconds after the call began. Exits with 0 when all
that is there was taken in.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import Any

from tests.spark.harness import quiet_session
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings


def main(folder: Path, point: str | None = None, after: str = "0", amid_ms: str = "0") -> None:
    if point is not None:
        die_at(point, int(after), int(amid_ms))
    spark = quiet_session("local[2]", folder / "scratch")
    choices: dict[str, Any] = {"buckets": 2, "checkpoint": str(folder / "checkpoint")}
    if (folder / "settings.json").exists():
        choices |= json.loads((folder / "settings.json").read_text())
    SparkRun(spark, (folder / "script.sql").read_text(), RunSettings(available_now=True, **choices)).run()


def die_at(point: str, after: int, amid_ms: int) -> None:
    where, when = point.split()
    module, _, name = where.partition(":")
    owner, _, called = name.partition(".")
    kind: Any = getattr(import_module(module), owner)
    method = getattr(kind, called)
    left = [after]

    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            return method(self, *arguments, **named)
        if when == "before":
            die()
        if when == "amid":
            Timer(amid_ms / 1000, die).start()
        given = method(self, *arguments, **named)
        if when == "after":
            die()
        return given

    setattr(kind, called, dying)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), *sys.argv[2:])
