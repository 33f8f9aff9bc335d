"""A connector's source and sink on Spark are exact however often the process is killed, at every step of a commit."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.spark import processes
from tests.spark.harness import ROOT, worker_environment
from tests.spark.toy import STEPS, add, taken

SECOND = 1_000_000
LONG = 300
KILLS = int(os.environ.get("KILLS_ON_SPARK", "20"))
SEED = int(os.environ.get("SEED", "1"))
CONDITIONS = ("abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 3000000", "a.k = b.k", "a.v < b.v", "a.k + b.k = 4")
BUCKETS_BY = ("a.k = b.k", "a.v = b.v")


class Streams:
    """What has come so far, in files and for DuckDB."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.rows: dict[str, list[tuple[int, int, int]]] = {"a": [], "b": []}
        self.now = 1_000 * SECOND

    def arrive(self, count: int) -> None:
        for _ in range(count):
            self.now += self.random.randrange(SECOND)
            for name in self.rows:
                row = (self.random.randrange(4), self.random.randrange(6), self.now - self.random.randrange(SECOND))
                self.rows[name].append(row)
                add(self.folder / name, self.random.randrange(3), [row])

    def table(self, name: str) -> pa.Table:
        k, v, ts = zip(*self.rows[name], strict=True)
        return pa.table({"k": k, "v": v, "ts": pa.array(ts, pa.int64()).cast(pa.timestamp("us"))})


def query(chosen: random.Random) -> tuple[str, str]:
    """A random join in our words, and in DuckDB's."""
    where = [chosen.choice(BUCKETS_BY), *chosen.sample(CONDITIONS[1:], chosen.randrange(2))]
    columns = "a.k AS ak, a.v AS av, b.k AS bk, b.v AS bv"
    ours = f"SELECT {columns} FROM a, b WHERE {' AND '.join(where)} WINDOW = 3 SECONDS"
    theirs = f"SELECT {columns} FROM a, b WHERE {' AND '.join([*where, CONDITIONS[0]])}"
    return ours, theirs


def script(select: str) -> str:
    stream = "CREATE STREAM {0} WITH (source='toy', folder='{0}', time='ts', lateness='1 hour'{1});"
    return "\n".join(
        [
            stream.format("a", ", max_rows_per_batch='40'"),
            stream.format("b", ""),
            f"CREATE SINK pairs WITH (sink='toy', file='out.db') AS {select};",
        ]
    )


def drive(folder: Path) -> int:
    worker_environment()
    with (folder / "driver.log").open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.drive_toy", str(folder)],
            cwd=ROOT,
            env=os.environ | {"WATERSMEET_HOT_DIR": str(folder / "warm")},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        return driver.wait(timeout=LONG)
    finally:
        for child in processes.descendants(driver.pid):
            processes.kill(child)
        processes.kill_driver(driver)


@pytest.mark.spark
@pytest.mark.soak
def test_answers_equal_duckdb_whatever_is_killed_at_whichever_step(tmp_path):
    chosen = random.Random(SEED)
    ours, theirs = query(chosen)
    streams = Streams(tmp_path, SEED)
    (tmp_path / "script.sql").write_text(script(ours))
    killed: Counter[str] = Counter()
    for number in range(KILLS):
        streams.arrive(60)
        step = STEPS[number % len(STEPS)]
        (tmp_path / "die.json").write_text(json.dumps({"step": step, "after": chosen.randrange(3)}))
        drive(tmp_path)
        killed[step] += not (tmp_path / "die.json").exists()
        (tmp_path / "die.json").unlink(missing_ok=True)
    streams.arrive(10)
    assert drive(tmp_path) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    print(f"seed {SEED}: killed {dict(killed)}; {ours}")
    assert sum(killed.values()) >= KILLS // 2
    database = duckdb.connect()
    for name in streams.rows:
        database.register(name, streams.table(name))
    expected = Counter(database.sql(theirs).fetchall())
    assert expected
    assert Counter(tuple(row.values()) for row in taken(tmp_path / "out.db")) == expected
