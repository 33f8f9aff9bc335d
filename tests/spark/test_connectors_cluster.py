"""A connector on a cluster: its partitions are read by several executors, its classes known to the script alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.spark import processes
from tests.spark.harness import ROOT, worker_environment

LONG = 600
# What a user would write: the connector is defined where it is used, in a module that no executor can import.
SCRIPT = '''
import json, os, sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import watersmeet as wm
from tests.spark.harness import quiet_session
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.io.connectors.contract import Connector, NumberedSink, Options, PartitionedSource, Split, SourceBatch
from watersmeet.runtime.run_settings import RunSettings

SCHEMA = pa.schema([("v", pa.int64()), ("reader", pa.string()), ("ts", pa.timestamp("us"))])


@dataclass(frozen=True)
class Numbers(PartitionedSource):
    rows: int
    schema: pa.Schema = SCHEMA
    description: str = "numbers"

    def begin(self):
        return {str(partition): 0 for partition in range(4)}

    def newest(self, after, most_rows=None):
        return {partition: self.rows for partition in self.begin()}

    def splits(self, after, upto):
        return [Split(partition, after[partition], end) for partition, end in upto.items() if end > after[partition]]

    def read(self, split):
        numbers = [int(split.partition) * self.rows + n for n in range(split.after, split.upto)]
        # Executors have working folders of their own.
        reader = pa.array([os.getcwd()] * len(numbers))
        times = pa.array(numbers, pa.int64()).cast(pa.timestamp("us"))
        yield SourceBatch(pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), reader, times], schema=SCHEMA))


class Shelf(NumberedSink):
    def __init__(self, opening):
        self.path = Path(opening.options["path"])
        self.number = -1

    def committed(self):
        return self.number

    def commit(self, number, rows):
        with self.path.open("a") as file:
            for batch in rows:
                file.writelines(json.dumps(row) + "\\n" for row in batch.to_pylist())
        self.number = number


if __name__ == "__main__":
    wm.register_connector(
        Connector(
            "numbers",
            source=lambda opening: Numbers(int(opening.options["rows"])),
            sink=Shelf,
            source_options=Options(("rows",)),
            sink_options=Options(("path",)),
        )
    )
    folder = Path(sys.argv[1])
    spark = quiet_session("local-cluster[2,1,1024]", folder / "scratch")
    text = f"""
        CREATE STREAM a WITH (source='numbers', rows='500', time='ts');
        CREATE STREAM b WITH (source='numbers', rows='500', time='ts');
        CREATE SINK out WITH (sink='numbers', path='{folder / "out.jsonl"}') AS
            SELECT a.v, a.reader FROM a, b WHERE a.v = b.v WINDOW = 1 SECOND;
    """
    (one,) = SparkRun(spark, text, RunSettings(available_now=True, buckets=2, checkpoint=str(folder / "ck"))).run()
    (folder / "late").write_text(str(one.metrics.late_rows))
'''


@pytest.mark.spark
@pytest.mark.soak
def test_partitions_are_read_on_the_executors_by_classes_that_travel_with_the_query(tmp_path):
    worker_environment()
    (tmp_path / "own.py").write_text(SCRIPT)
    log = tmp_path / "driver.log"
    with log.open("wb") as told:
        driver = subprocess.Popen(
            [sys.executable, str(tmp_path / "own.py"), str(tmp_path)],
            cwd=ROOT,
            env=os.environ | {"WATERSMEET_WARM_DIR": str(tmp_path / "warm")},
            stdout=told,
            stderr=told,
            start_new_session=True,
        )
    try:
        assert driver.wait(timeout=LONG) == 0, log.read_text()[-3000:]
    finally:
        for child in processes.descendants(driver.pid):
            processes.kill(child)
        processes.kill_driver(driver)
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(row["v"] for row in found) == list(range(2_000))
    readers = {row["reader"] for row in found}
    assert str(ROOT) not in readers
    assert len(readers) == 2  # both executors took part
    assert (tmp_path / "late").read_text() == "0"
