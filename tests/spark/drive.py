"""A driver for the fault tests: runs one query over file streams to the end, in a process that may be killed.

    python -m tests.spark.drive FOLDER MASTER

FOLDER holds `query.sql`, `streams/NAME/*.parquet`, and gets `checkpoint` and `sink`. Exits with 0 when all input
has been taken in. A query that fails is started again, as a supervisor would.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException

from tests.spark.harness import quiet_session, run_streaming, streaming_frame
from watersmeet import Session

RESTARTS = 5


def main(folder: Path, master: str) -> None:
    spark = quiet_session(master, folder / "scratch", **{"spark.task.maxFailures": "4"})
    session = Session(spark, buckets=2)
    for stream in sorted((folder / "streams").iterdir()):
        schema = pq.read_schema(next(stream.glob("*.parquet")))
        session.stream(stream.name, streaming_frame(spark, stream, schema), time="ts", lateness="2 seconds")
    frame = session.sql((folder / "query.sql").read_text()).dataframe()
    for left in reversed(range(RESTARTS)):
        try:
            run_streaming(spark, frame, folder / "checkpoint", folder / "sink")
            return
        except StreamingQueryException as error:
            print("query failed:", str(error).splitlines()[0], flush=True)
            if not left:
                raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
