"""The executors of a cluster: they come when they have been started, which may take a while, or never happen."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark import SparkContext

from watersmeet.errors import SetupError

PATIENCE_S = 30.0  # until it is told that none has come
STEADY_S = 2.0  # when no further one has come for so long, these are all
_POLL_S = 0.1
NONE_YET = (
    "no executor has come yet: the page of the master tells whether it has workers with so much memory and so many "
    "cores free as spark.executor.memory and spark.executor.cores ask for, and the logs of the workers why one did not "
    "start; this goes on waiting until Ctrl-C"
)


def wait_for_executors(context: SparkContext, tell: Callable[[str], None]) -> None:
    """Until some have come, and no more do: into how many parts work is cut goes by their cores."""
    wanted = int(context.getConf().get("spark.executor.instances") or 0)
    begun = steady_since = time.monotonic()
    here, told = 0, False
    while True:
        found, now = executors(context), time.monotonic()
        if found != here:
            here, steady_since = found, now
        if here and (here >= wanted > 0 or now - steady_since >= STEADY_S):
            return
        if not here and not told and now - begun >= PATIENCE_S:
            tell(NONE_YET)
            told = True
        time.sleep(_POLL_S)


def executors(context: SparkContext) -> int:
    scala = context._jsc.sc()
    if scala.isStopped():
        raise gone(context.master)
    return int(scala.getExecutorMemoryStatus().size()) - 1  # the driver is among them


def gone(master: str | None, said: str = "") -> SetupError:
    """Spark ends an application by itself where no master answers, or all its executors fail as they start."""
    return SetupError(
        f"Spark has given up on the master {master}{f': {said}' if said else ''}",
        hint="is a master there, of this version of Spark? do its workers start executors? their logs say why not",
    )
