"""The process that forks Spark's Python workers, with what they need loaded before the first of them is forked.

Spark starts it (`spark.python.daemon.module`) where we start Spark on this machine. Its own daemon imports nothing, so
that each worker imports everything by itself: seconds of a processor for each, in the first batches.
"""

from __future__ import annotations

import gc
import sys
from contextlib import redirect_stdout

MODULE = "watersmeet.hosts.spark.daemon"
# Spark has daemons for other work too, such as planning what a source reads, which need nothing of this.
WORKERS = "pyspark.worker"


def main() -> None:
    # Spark reads the port from stdout, so nothing else may be printed there.
    if sys.argv[1:2] == [WORKERS]:
        with redirect_stdout(sys.stderr):
            preload()
    from pyspark.daemon import manager

    manager()


def preload() -> None:
    """Load it all; workers that do not find it loaded do so by themselves."""
    try:
        import pyspark.worker  # noqa: F401

        from watersmeet.hosts.spark.rehearsal import rehearse

        rehearse()
    except Exception as error:
        print(f"watersmeet: workers start without what they need ({type(error).__name__}: {error})", file=sys.stderr)
    gc.collect()
    # What is there now is shared by all workers; were they to look through it for garbage, each would copy it.
    gc.freeze()


if __name__ == "__main__":
    main()
