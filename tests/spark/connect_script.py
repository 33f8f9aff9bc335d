"""What runs on Spark Connect, in a process of its own, since classic and Connect sessions do not share one.

python -m tests.spark.connect_script FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.runners import bag_of, by_reference
from tests.spark.harness import (
    by_spark_batch,
    by_spark_streaming,
    cut,
    expected_of,
    worker_environment,
)
from tests.spark.test_streaming import random_streams
from watersmeet import Session
from watersmeet.hosts.spark.launching.launch import start_spark


def main(folder: Path) -> None:
    worker_environment()
    spark = start_spark(remote="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    sources = random_streams("ab", rows=40)
    sql = "SELECT a.id AS a, b.id AS b, event_time() AS at FROM a, b WHERE a.x = b.x WINDOW = 1 SECOND"

    print("buckets by default:", Session(spark).host.buckets)
    assert by_spark_batch(spark, sql, sources, 2) == by_reference(sql, sources)
    print("batch ok", flush=True)

    session = Session(spark)
    for source in sources:
        session.stream(source.name, source.table, time="ts", lateness="2 seconds")
    assert bag_of(session.sql(sql).to_arrow()) == by_reference(sql, sources)
    print("arrow ok", flush=True)

    pieces = {source.name: cut(source.table, [25]) for source in sources}
    assert by_spark_streaming(spark, sql, sources, pieces, folder, 2) == expected_of(sql, sources, pieces)
    print("streaming ok", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
