"""A driver for the kill tests of connectors: runs a script over toy connectors, in a process that may be killed.

    python -m tests.spark.drive_toy FOLDER

FOLDER holds `script.sql`, with paths below FOLDER, and gets `checkpoint`. Exits with 0 when all input was taken in.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.spark.harness import quiet_session
from tests.spark.toy import TOY
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.io.connectors.registry import register
from watersmeet.runtime.run_settings import RunSettings


def main(folder: Path) -> None:
    os.chdir(folder)
    register(TOY)
    spark = quiet_session("local[2]", folder / "scratch")
    choices = RunSettings(available_now=True, buckets=2, checkpoint=str(folder / "checkpoint"))
    SparkRun(spark, Path("script.sql").read_text(), choices).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
