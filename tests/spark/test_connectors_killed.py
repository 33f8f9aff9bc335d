"""A connector's source and sink on Spark are exact however often the process is killed, at every step of a commit."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.spark import processes
from tests.spark.harness import ROOT, worker_environment
from tests.spark.toy import STEPS, add, taken

SECOND = 1_000_000
LONG = 600
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


BESIDE = """
CREATE SINK late WITH (sink='toy', file='late.db');
CREATE SINK bad WITH (sink='toy', file='bad.db');
CREATE STREAM a WITH (source='toy', folder='a', time='ts', lateness='2 seconds', max_rows_per_batch='40',
    on_late='sink late', on_bad='sink bad');
CREATE SINK answers WITH (sink='toy', file='out.db') AS SELECT v FROM a;
"""


def drive(folder: Path) -> int:
    worker_environment()
    with (folder / "driver.log").open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.drive_toy", str(folder)],
            cwd=ROOT,
            env=os.environ | {"WATERSMEET_WARM_DIR": str(folder / "warm")},
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


def killed_again_and_again(folder: Path, chosen: random.Random, arrive: Callable[[int], None]) -> Counter[str]:
    """Lives that are killed at all steps in turn, and one that comes to its end; how often each was the last."""
    killed: Counter[str] = Counter()
    for number in range(KILLS):
        arrive(number)
        step = STEPS[number % len(STEPS)]
        (folder / "die.json").write_text(json.dumps({"step": step, "after": chosen.randrange(3)}))
        drive(folder)
        killed[step] += not (folder / "die.json").exists()
        (folder / "die.json").unlink(missing_ok=True)
    arrive(KILLS)
    assert drive(folder) == 0, (folder / "driver.log").read_text()[-3000:]
    assert sum(killed.values()) >= KILLS // 2
    return killed


@pytest.mark.spark
@pytest.mark.soak
def test_answers_equal_duckdb_whatever_is_killed_at_whichever_step(tmp_path):
    chosen = random.Random(SEED)
    ours, theirs = query(chosen)
    streams = Streams(tmp_path, SEED)
    (tmp_path / "script.sql").write_text(script(ours))
    killed = killed_again_and_again(tmp_path, chosen, lambda life: streams.arrive(60 if life < KILLS else 10))
    print(f"seed {SEED}: killed {dict(killed)}; {ours}")
    database = duckdb.connect()
    for name in streams.rows:
        database.register(name, streams.table(name))
    expected = Counter(database.sql(theirs).fetchall())
    assert expected
    assert Counter(tuple(row.values()) for row in taken(tmp_path / "out.db")) == expected


@pytest.mark.spark
@pytest.mark.soak
def test_each_row_is_answered_or_late_and_each_bad_record_kept_exactly_once_whatever_is_killed(tmp_path):
    """Partitions that are unequal, rows that go back in time, and a partition more every few lives."""
    chosen = random.Random(SEED)
    (tmp_path / "script.sql").write_text(BESIDE)
    known: list[int] = []
    bad: list[str] = []

    def arrive(life: int) -> None:
        for _ in range(60):
            v, partition = len(known), chosen.randrange(2 + life // 4)
            at = 1_000 * SECOND + v * SECOND // 10 - chosen.choice([0, 0, 0, 40 * SECOND]) + 5 * partition * SECOND
            known.append(v)
            add(tmp_path / "a", partition, [(v % 4, v, at)])
        bad.append(f"what? {life}")
        add(tmp_path / "a", chosen.randrange(2), [bad[-1]])

    killed = killed_again_and_again(tmp_path, chosen, arrive)
    answered = [row["v"] for row in taken(tmp_path / "out.db")]
    late = [row["v"] for row in taken(tmp_path / "late.db")]
    kept = [row["raw"] for row in taken(tmp_path / "bad.db")]
    print(f"seed {SEED}: killed {dict(killed)}; {len(answered)} answered, {len(late)} late, {len(kept)} bad")
    assert sorted(answered + late) == known
    assert late
    assert sorted(kept) == sorted(str(one.encode()) for one in bad)
