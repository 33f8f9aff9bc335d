"""Rows that are handed over in memory arrive as those that Spark moves, and where they cannot be, Spark moves them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.runners import bag_of
from tests.spark.harness import cut, run_streaming, write_arrivals
from tests.spark.simulation import Simulation, another_worker
from tests.spark.test_processor import QUERIES, expected, six_batches
from watersmeet import Session
from watersmeet.errors import DataError
from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.exchange import handed_over
from watersmeet.hosts.spark.exchange.handed_over import MARK, SUFFIX, hand_over, let_go, rows_of
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.job import AtStart
from watersmeet.hosts.spark.reading.file_stream import ParquetStream

MANY = 1 << 18  # of 8 bytes are more than LEAST_BYTES


@pytest.fixture(autouse=True)
def batch(warm_copies: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int | None], None]]:
    """Says which batch a task that is none of Spark's belongs to."""

    def is_now(number: int | None) -> None:
        monkeypatch.setattr(handed_over, "batch_number", lambda: number)

    warm_state._at_hand.clear()
    is_now(7)
    yield is_now
    warm_state._at_hand.clear()


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    x = np.arange(first, first + count)
    return pa.RecordBatch.from_pydict({"x": x, "text": pa.array(x).cast(pa.string())})


def files() -> list[str]:
    return sorted(path.name for path in memory_folder.folder_of("batch").glob(f"*{SUFFIX}"))


def handed(*parts: pa.RecordBatch) -> list[bytes]:
    places = hand_over(parts)
    assert places is not None
    return places


def test_each_part_is_found_again():
    parts = [numbers(MANY), numbers(3, 99), numbers(MANY).slice(1_000, 77), numbers(0)]
    places = handed(*parts)
    assert all(place[:1] == MARK and len(place) < 500 for place in places)
    assert [pa.Table.from_batches(rows_of(place)) for place in places] == [pa.Table.from_batches([p]) for p in parts]


def test_a_part_that_goes_to_several_buckets_is_written_once():
    part = numbers(MANY)
    one, another = handed(part, part)
    assert one == another
    (name,) = files()
    assert (memory_folder.folder_of("batch") / name).stat().st_size < 1.5 * part.nbytes


def test_few_rows_and_those_of_no_batch_travel_themselves(batch):
    assert hand_over([numbers(1_000)]) is None
    assert hand_over([]) is None
    batch(None)
    assert hand_over([numbers(MANY)]) is None
    assert files() == []


def test_rows_stay_until_the_next_batch(batch):
    (first,) = handed(numbers(MANY))
    handed(numbers(MANY))
    assert len(files()) == 2
    assert rows_of(first)[0].num_rows == MANY
    mapped = rows_of(first)[0]
    batch(8)
    handed(numbers(MANY, 5))
    assert [name.split(".")[0] for name in files()] == ["8"]
    assert mapped == numbers(MANY), "what was mapped stays"
    with pytest.raises(DataError, match=r"somebody removed them\n?.*hint: start the query again"):
        rows_of(first)


def test_a_batch_that_hands_over_nothing_lets_go_of_what_others_left(batch):
    handed(numbers(MANY))
    let_go()
    assert len(files()) == 1
    batch(8)
    let_go()
    assert files() == []


def test_a_batch_that_is_begun_again_after_a_later_one_finds_no_rows_of_that_one(batch):
    handed(numbers(MANY))
    batch(6)
    handed(numbers(MANY))
    assert [name.split(".")[0] for name in files()] == ["6"]


def test_where_there_is_no_room_rows_travel_themselves(monkeypatch):
    monkeypatch.setattr(handed_over, "SHARE_OF_FREE", 1 << 40)
    assert hand_over([numbers(MANY)]) is None
    assert files() == []


def test_where_nothing_can_be_written_rows_travel_themselves(monkeypatch):
    monkeypatch.setenv(memory_folder.WARM_DIR, "/proc/nowhere")
    assert hand_over([numbers(MANY)]) is None


def test_what_was_written_by_half_is_removed(monkeypatch):
    class FullError(OSError):
        pass

    def full(*_: object, **__: object) -> None:
        raise FullError

    monkeypatch.setattr(pa.ipc, "new_stream", full)
    assert hand_over([numbers(MANY)]) is None
    assert files() == []


@pytest.mark.parametrize("name", ["a common key", "a key per pair", "no equality", "rows per key"])
def test_a_query_that_hands_over_gives_the_answer_with_a_crash_at_every_call(name, monkeypatch):
    monkeypatch.setattr(handed_over, "LEAST_BYTES", 1)
    sources, pieces = six_batches(name)
    run = Simulation(QUERIES[name], sources, 2, crash_everywhere=True, after_crash=another_worker)
    run.job = replace(run.job, start=AtStart(shares_memory=True))
    run.group = JobGroup((run.job,))
    assert run.run(pieces) == expected(name, sources, pieces)
    assert run.crashes
    assert files(), "nothing was handed over"


@contextmanager
def seen_in_memory() -> Iterator[set[Path]]:
    """What lies there at any time while a block runs: rows do as long as their batch, at least."""
    here = memory_folder.base_folder()
    before, seen, ended = set(here.glob(f"*/*{SUFFIX}")), set[Path](), threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            seen.update(set(here.glob(f"*/*{SUFFIX}")) - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


SQL = "SELECT a.id, b.id AS other FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"


@pytest.mark.parametrize("packed", [True, False])
def test_on_spark_a_large_batch_is_handed_over_and_a_small_one_is_not(spark, tmp_path, packed, monkeypatch):
    # Spark's workers live longer than a test, so they have the folder that they were started with.
    monkeypatch.undo()
    tables = {}
    for seed, name in enumerate("ab"):
        count = 150_000
        times = pa.array(1_700_000_000_000_000 + np.arange(count) * 50_000, pa.timestamp("us"))
        keys = np.random.default_rng(seed).integers(0, 5_000, count)
        tables[name] = pa.table({"id": np.arange(count), "k": keys, "ts": times})
        write_arrivals(tmp_path / name, cut(tables[name], [30_000, 120_000]))
    session = Session(spark, buckets=2)
    for name in tables:
        folder = str(tmp_path / name)
        frame = ParquetStream(folder, max_files_per_trigger=1)
        rows = spark.readStream.schema("id long, k long, ts timestamp_ntz").option("maxFilesPerTrigger", 1)
        session.stream(name, frame if packed else rows.parquet(folder), time="ts")
    with seen_in_memory() as seen:
        answer = run_streaming(spark, session.sql(SQL).dataframe(), tmp_path / "checkpoint", tmp_path / "sink")
    database = duckdb.connect()  # which answers so many rows sooner than the reference
    for name, table in tables.items():
        database.register(name, table)
    near = "b.ts BETWEEN a.ts - INTERVAL 2 SECONDS AND a.ts + INTERVAL 2 SECONDS"
    wanted = database.sql(f"SELECT a.id, b.id AS other FROM a, b WHERE a.k = b.k AND {near}").to_arrow_table()
    assert wanted.num_rows > 1_000
    assert bag_of(answer) == bag_of(wanted)
    assert {path.name.split(".")[0] for path in seen} == {"1"}, "the second batch is the large one"
