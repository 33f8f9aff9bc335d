"""A driver on Spark for the kill tests of topics: runs a script in a process that kills itself at a step.

    python -m tests.kafka.drive_spark FOLDER [POINT AFTER]

FOLDER holds `script.sql` and gets `checkpoint`. Exits with 0 when all that is there was taken in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.connectors.lives import die_at
from tests.spark.harness import quiet_session
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings


def main(folder: Path, point: str | None = None, after: str = "0") -> None:
    if point is not None:
        die_at(point, int(after))
    spark = quiet_session("local[2]", folder / "scratch")
    choices = RunSettings(available_now=True, buckets=2, checkpoint=str(folder / "checkpoint"))
    SparkRun(spark, (folder / "script.sql").read_text(), choices).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), *sys.argv[2:])
