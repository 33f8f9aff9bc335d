"""Windows larger than memory: what results need of old rows lies on disk, and no answer changes."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.forked import program
from tests.runners import Source, by_reference
from watersmeet.errors import OptionError, RunError
from watersmeet.operators.keeping.spilling import SpillingMemory
from watersmeet.runtime.build import build

SECOND = 1_000_000
QUERIES = {
    "two streams": "SELECT a.id, b.id AS other, a.name, b.note, b.flag FROM a [RANGE 40 SECONDS], b [RANGE 40 SECONDS] "
    "WHERE a.k = b.k",
    "three streams, other columns": "SELECT a.name, b.note, c.price, c.id FROM a, b, c WHERE a.k = b.k AND "
    "b.k = c.k AND a.name <> c.name WINDOW = 20 SECONDS",
    "rows per key": "SELECT a.id, b.name FROM a [PARTITION BY k ROWS 9], b [RANGE 30 SECONDS] WHERE a.k = b.k",
    "with a table": "SELECT a.name, b.note, t.label FROM a, b, t WHERE a.k = b.k AND b.k = t.k WINDOW = 30 SECONDS",
}
BOUND = "150 KB"


def stream_of(seed: int, rows: int = 1200) -> pa.Table:
    rng = np.random.default_rng(seed)
    ids = np.arange(rows)
    texts = [None if i % 17 == 0 else f"{seed} {i} " + "x" * int(rng.integers(0, 200)) for i in ids]
    columns = {
        "id": ids,
        "k": rng.integers(0, 60, rows),
        "name": pa.array(texts).dictionary_encode() if seed == 2 else pa.array(texts),
        "note": pa.array([list(range(i % 5)) for i in ids]),
        "flag": pa.array([None if i % 3 == 0 else bool(i % 2) for i in ids]),
        "price": pa.array(rng.integers(0, 10**6, rows)).cast(pa.decimal128(24, 2)),
        "ts": pa.array(np.sort(rng.integers(0, 60 * SECOND, rows)), pa.timestamp("us")),
    }
    return pa.table(columns)


def session() -> wm.Session:
    found = wm.Session()
    for seed, name in enumerate("abc"):
        found.stream(name, stream_of(seed), time="ts")
    found.table("t", pa.table({"k": list(range(0, 60, 2)), "label": [f"label {k}" for k in range(0, 60, 2)]}))
    return found


def bag(table: pa.Table) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_the_same_with_a_tiny_bound(name: str) -> None:
    whole = session().sql(QUERIES[name])
    query = session().sql(f"{QUERIES[name]} OPTIONS (memory = '{BOUND}', when_full = 'spill')")
    assert bag(query.to_arrow(batch_rows=100)) == bag(whole.to_arrow())
    told = query.metrics()
    assert told["spilled_rows"] > 500
    assert told["spilled_bytes"] > 50_000
    assert "spilled_rows" not in whole.metrics()


def test_the_answer_is_that_of_the_reference_for_rows_out_of_order() -> None:
    rng = np.random.default_rng(5)
    sources = []
    for seed, name in enumerate("ab"):
        table = stream_of(seed, 200).select(["id", "k", "name", "ts"])
        late = table["ts"].cast(pa.int64()).to_numpy() + rng.integers(0, 3 * SECOND, table.num_rows)
        sources.append(Source(name, table.take(pa.array(np.argsort(late, kind="stable"))), "ts", "3 seconds"))
    sql = "SELECT a.id, a.name, b.id, b.name FROM a, b WHERE a.k = b.k WINDOW = 20 SECONDS"
    found = wm.Session()
    for source in sources:
        found.stream(source.name, source.table, time="ts", lateness="3 seconds", read="arrival")
    query = found.sql(f"{sql} OPTIONS (memory = '80 KB', when_full = 'spill')")
    answer = query.to_arrow(batch_rows=20)
    assert query.metrics()["spilled_rows"] > 0
    assert query.metrics()["late_rows"] == 0
    given = Counter(zip(*(column.to_pylist() for column in answer.columns), strict=True))
    assert given == by_reference(sql, sources)


def test_what_is_in_memory_stays_below_the_bound_and_files_go_with_their_rows() -> None:
    plan = session().sql(f"{QUERIES['two streams']} OPTIONS (memory = '{BOUND}', when_full = 'spill')").plan
    operator = build(plan)
    keeping = operator.keeping
    assert isinstance(keeping, SpillingMemory)
    from watersmeet.operators.contract import Rows

    parts = []
    for start in range(0, 1200, 50):
        for seed, alias in enumerate("ab"):
            piece = stream_of(seed).slice(start, 50).combine_chunks().to_batches()[0]
            times = piece.column("ts").cast(pa.int64()).to_numpy()
            for _ in operator.push(alias, Rows(piece, times)):
                pass
            assert operator.state_bytes <= 150_000
        for _ in operator.advance(dict.fromkeys("ab", int(times[0]))):
            pass
        parts.append(len(keeping.disk._parts))
    assert max(parts) >= 2
    for _ in operator.advance(dict.fromkeys("ab", 10**12)):
        pass
    assert len(keeping.disk._parts) == 0


def test_a_saved_join_goes_on_elsewhere() -> None:
    plan = session().sql(f"{QUERIES['two streams']} OPTIONS (memory = '{BOUND}', when_full = 'spill')").plan
    from watersmeet.operators.contract import Rows
    from watersmeet.operators.saving import Saved

    def pieces() -> Iterator[tuple[str, Rows]]:
        for start in range(0, 1200, 200):
            for seed, alias in enumerate("ab"):
                piece = stream_of(seed).slice(start, 200).combine_chunks().to_batches()[0]
                yield alias, Rows(piece, piece.column("ts").cast(pa.int64()).to_numpy())

    whole = session().sql(QUERIES["two streams"]).to_arrow()
    operator, found = build(plan), []
    for alias, rows in pieces():
        found += operator.push(alias, rows)
        fresh = build(plan)
        fresh.load(Saved.from_bytes(operator.save().to_bytes()))
        operator = fresh
    assert bag(pa.Table.from_batches(found)) == bag(whole)
    assert operator.counters.spilled_rows > 500


LARGE = """
import gc, os, sys
import numpy as np, pyarrow as pa
import watersmeet as wm
SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string()), ("ts", pa.timestamp("us"))])
def resident():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * os.sysconf("SC_PAGESIZE")
most = 0
def rows(seed):
    global most
    rng = np.random.default_rng(seed)
    for part in range(500):  # small ones: what is read ahead is no part of what is measured
        most = max(most, resident())
        texts = pa.array(["%08d" % i * 125 for i in rng.integers(0, 10**8, 100)])
        times = pa.array(np.arange(part * 100, part * 100 + 100) * 1000, pa.timestamp("us"))
        yield pa.record_batch([pa.array(rng.integers(0, 10**6, 100)), texts, times], schema=SCHEMA)
def run(options, parts=None):
    session = wm.Session()
    for seed, name in enumerate("ab"):
        made = rows(seed) if parts is None else (next(rows(seed)) for _ in range(1))
        session.stream(name, pa.RecordBatchReader.from_batches(SCHEMA, made), time="ts")
    query = session.sql("SELECT a.k, a.text, b.text AS other FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR" + options)
    found = sum(batch.num_rows for batch in query.batches(batch_rows=1000))
    return found, query.metrics()
options = sys.argv[1]
run(options, 1)  # kernels are loaded, all is imported
gc.collect()
before = resident()
most = 0
found, told = run(options)
print(found, (max(most, resident()) - before) // 1_000_000, told.get("spilled_bytes", 0))
"""


def measured(options: str) -> tuple[int, int, int]:
    done = program(LARGE, options).communicate()
    assert done.returncode == 0, done.stderr
    found, grown_mb, spilled = map(int, done.stdout.split())
    return found, grown_mb, spilled


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what a process takes")
def test_a_window_of_ten_times_the_bound_runs_in_its_memory() -> None:
    """100 MB of text in windows, with 10 MB: what the process takes, with what reading and answering take."""
    found, grown_mb, spilled = measured(" OPTIONS (memory = '10 MB', when_full = 'spill')")
    expected, without_mb, _ = measured("")
    assert found == expected > 1000
    assert spilled > 90_000_000
    assert without_mb > 95
    assert grown_mb < 60 < without_mb / 1.5


def test_a_folder_that_cannot_be_written_ends_the_run_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    query = session().sql(f"{QUERIES['two streams']} OPTIONS (memory = '{BOUND}', when_full = 'spill')")
    with pytest.raises(
        RunError, match=r"cannot be written to disk, in .*missing: No such file or directory"
    ) as refused:
        query.to_arrow()
    assert "TMPDIR" in str(refused.value)


def test_a_full_disk_ends_the_run_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        return Path("/dev/full").open("w+b", buffering=0)

    monkeypatch.setattr("watersmeet.operators.keeping.spilling.TemporaryFile", full)
    query = session().sql(f"{QUERIES['two streams']} OPTIONS (memory = '{BOUND}', when_full = 'spill')")
    with pytest.raises(RunError, match=r"cannot be written to disk, in .*: No space left on device"):
        query.to_arrow()


def test_keys_that_alone_are_too_much_end_the_run_in_one_sentence() -> None:
    query = session().sql(f"{QUERIES['two streams']} OPTIONS (memory = '30 KB', when_full = 'spill')")
    with pytest.raises(RunError, match=r"memory = '30 KB' is too little to spill: times, keys and indexes"):
        query.to_arrow()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "when_full = 'spill'",
            "option when_full = 'spill' says what to do when memory is full, but there is no",
        ),
        ("memory = '9 rows', when_full = 'spill'", "option memory = '9 rows' counts rows"),
        ("memory = '1 MB', when_full = 'spill', shed = 'rand'", "option shed = 'rand' is about rows that are given up"),
        ("memory = '1 MB', when_full = 'spill', join = 'nlw'", "option join = 'nlw' runs an algorithm as published"),
        ("memory = '1 MB', when_full = 'wait'", "it may be 'shed' or 'spill'"),
    ],
)
def test_what_contradicts_itself_is_refused(options: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        session().sql(f"{QUERIES['two streams']} OPTIONS ({options})")


def test_answers_that_change_refuse_it() -> None:
    with pytest.raises(OptionError, match="when_full = 'spill' is for plain joins of streams"):
        session().sql("SELECT COUNT(*) FROM a [RANGE 5 SECONDS] OPTIONS (memory = '1 MB', when_full = 'spill')")


def test_explain_says_what_lies_where() -> None:
    query = session().sql(f"{QUERIES['two streams']} OPTIONS (memory = '64 MB', when_full = 'spill')")
    assert "up to 64 MB; what results need of the oldest rows beyond that lies on disk" in str(query.explain())
