"""The process that forks Spark's Python workers, with what they need loaded before the first of them is forked.

Spark starts it (`spark.python.daemon.module`) where we start Spark on this machine. Its own daemon imports nothing, so
that each worker imports everything by itself: seconds of a processor for each, in the first batches.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module

from watersmeet.hosts.spark.launching.fork_server import fork_server

MODULE = "watersmeet.hosts.spark.launching.daemon"
WORKERS = "pyspark.worker"


def main() -> None:
    module = sys.argv[1] if len(sys.argv) > 1 else WORKERS
    # Spark reads the port from stdout, so nothing else may be printed there.
    with redirect_stdout(sys.stderr):
        preload(module)
    if module == WORKERS:
        with _told():
            fork_server()
    from pyspark.daemon import manager

    manager()


@contextmanager
def _told() -> Iterator[None]:
    """Whoever does not find loaded what it needs loads it by itself."""
    try:
        yield
    except Exception as error:
        print(f"watersmeet: workers start without what they need ({type(error).__name__}: {error})", file=sys.stderr)


def preload(module: str = WORKERS) -> None:
    """Load what workers of a module of Spark's need."""
    with _told():
        import_module(module)
        if module == WORKERS:
            from watersmeet.hosts.spark.launching.rehearsal import rehearse

            rehearse()
        else:  # they plan what sources read, and files are read mostly
            import_module("watersmeet.hosts.spark.reading.connector_source")
            import_module("watersmeet.io.connectors.local_files")
    gc.collect()
    # What is there now is shared by all workers; were they to look through it for garbage, each would copy it.
    gc.freeze()


if __name__ == "__main__":
    main()
