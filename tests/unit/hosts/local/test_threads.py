"""`OPTIONS (threads = N)`: the same answers in the promised order, whoever feeds the query, whoever stops it, and in
however many threads its checkpoint was written."""

from __future__ import annotations

import gc
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.durable.test_floods import Numbered
from tests.partitions import in_order
from watersmeet.errors import OptionError
from watersmeet.hosts.local.durable import batch_loop
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators import partitioned
from watersmeet.operators.contract import Rows
from watersmeet.runtime.build import build

NOON_US = 1_767_268_800_000_000
COLUMNS = {"id": "BIGINT", "k": "BIGINT", "v": "DOUBLE", "ts": "TIMESTAMP"}
QUERIES = {
    "join": "SELECT a.k, a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(id) AS m FROM a [RANGE 3 SECONDS] GROUP BY k",
    "distinct": "SELECT DISTINCT k FROM a [RANGE 20 MILLISECONDS]",
    "sets": "SELECT k FROM a [RANGE 2 SECONDS] EXCEPT SELECT k FROM b [RANGE 20 MILLISECONDS]",
    "rows": "SELECT a.k, a.id AS x, b.id AS y FROM a [PARTITION BY k ROWS 2], b [PARTITION BY k ROWS 3] "
    "WHERE a.k = b.k",
    "left join": "SELECT a.k, a.id AS x, b.id AS y FROM a LEFT JOIN b ON a.k = b.k AND ABS(a.ts - b.ts) <= 1 SECOND",
    "table": "SELECT a.k, a.id AS x, b.id AS y, t.name FROM a, b, t WHERE a.k = b.k AND a.k = t.k WINDOW = 1 SECOND",
}
LOGS = ("groups", "distinct", "sets")


def rows_of(seed: int, count: int = 6000) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = NOON_US + np.sort(rng.integers(0, 10_000_000, count))
    keys = pa.array(rng.integers(0, 300, count), mask=rng.random(count) < 0.01)
    values = {"id": np.arange(count), "k": keys, "v": rng.random(count), "ts": pa.array(times, pa.timestamp("us"))}
    return pa.table(values)


A, B = rows_of(1), rows_of(2)
NAMES = pa.table({"k": range(0, 300, 2), "name": [f"n{k}" for k in range(0, 300, 2)]})


def over_tables(**tables: pa.Table) -> wm.Session:
    session = wm.Session()
    for name, rows in {"a": A, "b": B, **tables}.items():
        session.stream(name, rows, time="ts")
    session.table("t", NAMES)
    return session


def pushed(sql: str, threads: int) -> wm.Query:
    session = wm.Session()
    for name in "ab":
        session.stream(name, schema=COLUMNS, time="ts")
    session.table("t", NAMES)
    return session.sql(f"{sql} OPTIONS (threads = {threads})")


def read_by(name: str) -> dict[str, pa.Table]:
    """The rows of the streams that a query reads."""
    return {"a": A} if name in ("groups", "distinct") else {"a": A, "b": B}


def bag(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, rows.to_pylist()))


def is_in_order(log: pa.Table) -> None:
    last = (BEGINNING_US, 0)
    for batch in log.to_batches():
        last = in_order(batch, last)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "WORTH_A_THREAD", 100)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("threads", [2, 5])
def test_a_run_over_tables(name: str, threads: int) -> None:
    one = over_tables().sql(QUERIES[name])
    several = over_tables().sql(f"{QUERIES[name]} OPTIONS (threads = {threads})")
    expected, found = one.to_arrow(), several.to_arrow()
    assert found.num_rows
    assert bag(found) == bag(expected)
    counted = ("rows_in", "results", "stored_rows", "late_rows")
    assert [several.metrics()[word] for word in counted] == [one.metrics()[word] for word in counted]
    if name in LOGS:
        is_in_order(found)


def test_within_a_key_the_order_is_that_of_one_thread() -> None:
    def answers(threads: int) -> list[dict[str, Any]]:
        found = []
        with pushed(QUERIES["join"], threads).start() as run:
            for at in range(0, len(A), 3000):
                for stream, rows in (("a", A), ("b", B)):
                    run.push(stream, rows.slice(at, 3000))
                    found += run.take().to_pylist()
        return found

    one, several = answers(1), answers(3)
    assert one != several
    for key in (0, 7, 299):
        own = [row for row in one if row["k"] == key]
        assert own == [row for row in several if row["k"] == key]
        assert own


def test_files_are_read_for_the_columns_that_parts_need(tmp_path: Path) -> None:
    session = wm.Session()
    for name, rows in {"a": A, "b": B}.items():
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        session.stream(name, str(tmp_path / f"{name}.parquet"), time="ts")
    for sql in (QUERIES["join"], "SELECT DISTINCT k FROM a [RANGE 2 SECONDS] WHERE v > 0.5"):
        assert bag(session.sql(f"{sql} OPTIONS (threads = 2)").to_arrow()) == bag(session.sql(sql).to_arrow())


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", QUERIES)
def test_pushes_small_and_large(name: str) -> None:
    def answers(threads: int) -> list[Counter[str]]:
        found = []
        with pushed(QUERIES[name], threads).start() as run:
            at = 0
            for count in (1, 3, 400, 20, 1500, 76):
                for stream, rows in read_by(name).items():
                    run.push(stream, rows.slice(at, count))
                    found.append(bag(run.take()))
                at += count
            run.finish()
            found.append(bag(run.take()))
        return found

    assert answers(3) == answers(1)


def test_whoever_stops_in_the_middle_leaves_nothing_running() -> None:
    """Each row meets thousands, so that threads wait for room when nobody takes what they find."""
    same = A.set_column(1, "k", pa.array(np.arange(len(A)) % 2))
    sql = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 1 DAY OPTIONS (threads = 2)"
    blocks: Iterator[Any] = iter(over_tables(a=same, b=same).sql(sql).batches())
    assert next(blocks).num_rows
    del blocks
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("watersmeet part"):
            thread.join(20)
            assert not thread.is_alive()


def test_what_goes_wrong_in_a_part_ends_the_run() -> None:
    session = over_tables()

    def failing(x: pa.Array) -> pa.Array:
        raise ValueError("not this one")

    session.function("failing", failing, ["BIGINT"], "BIGINT")
    sql = "SELECT failing(a.id) AS x FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS OPTIONS (threads = 2)"
    with pytest.raises(wm.WatersmeetError, match="not this one"):
        session.sql(sql).to_arrow()


# ---- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", QUERIES)
def test_a_checkpoint_goes_on_with_any_number_of_threads(name: str, tmp_path: Path) -> None:
    def lived(lives: tuple[int, ...]) -> Counter[str]:
        at, folder, sink = 0, tmp_path / str(len(lives)), Numbered(0)
        for threads in lives:
            with pushed(QUERIES[name], threads).start(checkpoint=folder, sink=lambda _: sink) as run:
                for _ in range(12 // len(lives)):
                    for stream, rows in read_by(name).items():
                        run.push(stream, rows.slice(at, 500))
                    at += 500
                run.stop()
        return Counter(map(repr, sink.rows))

    assert lived((2, 3, 1, 2)) == lived((1,))


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", ["join", "groups"])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_parts_of_a_batch_are_repeated_in_the_threads_they_were_answered_in(
    name: str, fails_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_loop, "PART_ROWS", 1000)
    expected = over_tables().sql(QUERIES[name]).to_arrow()
    sink = Numbered(fails_at)
    try:
        with pushed(QUERIES[name], 2).start(checkpoint=tmp_path, sink=lambda _: sink, commit_every="0 s") as run:
            for stream, rows in read_by(name).items():
                run.push(stream, rows)
            run.stop()
    except OSError:
        pass
    sink.left = 0
    with pushed(QUERIES[name], 3).start(checkpoint=tmp_path, sink=lambda _: sink) as run:
        for stream in read_by(name):
            run.end(stream)
        run.stop()
    assert Counter(map(repr, sink.rows)) == bag(expected)


# ---- what is said of it ---------------------------------------------------------------------------------------------


def test_explain_says_by_what_rows_are_divided() -> None:
    shown = over_tables().sql(f"{QUERIES['join']} OPTIONS (threads = 4)")
    assert str(shown.explain()).startswith("in 4 threads, each with the rows of its keys: a.k, b.k\n  select: a.k")
    operators = json.loads(shown.explain(format="json"))["operators"]
    assert (operators["operator"], operators["threads"], operators["keys"]) == (
        "partitioned", 4, {"a": "a.k", "b": "b.k"},
    )  # fmt: skip
    assert operators["below"][0]["operator"] == "window_join"
    assert "in 4 threads" in shown.explain(format="svg")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT a.id FROM a WHERE a.k > 3", "rows that are only selected stay in their order"),
        ("SELECT COUNT(*) AS n FROM a [RANGE 1 SECOND]", "no column keeps together all rows that belong together"),
        (
            "SELECT a.id FROM a [ROWS 9], b [ROWS 9] WHERE a.k = b.k",
            "no column keeps together all rows that belong together",
        ),
        (
            "SELECT COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY k",
            "rows of different keys may be equal, and one that enters as another leaves says nothing",
        ),
        (
            "SELECT a.id FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND OPTIONS (memory = '100 rows')",
            "rows of all keys share the memory that is bounded",
        ),
    ],
)
def test_explain_says_why_there_is_one_thread(sql: str, why: str) -> None:
    sql = sql.replace("OPTIONS (", "OPTIONS (threads = 2, ") if "OPTIONS" in sql else f"{sql} OPTIONS (threads = 2)"
    shown = over_tables().sql(sql)
    assert f"\nin one thread: {why}\n" in " ".join(str(shown.explain()).split("\n    "))
    assert json.loads(shown.explain(format="json"))["one_thread"] == why


@pytest.mark.parametrize(
    ("condition", "own"),
    [("a.k < b.k", "a share of the rows of a"), ("a.k = c.k", "the rows of its keys: a.k, c.k")],
)
def test_explain_says_which_rows_each_thread_has(condition: str, own: str) -> None:
    session = over_tables()
    session.stream("c", A, time="ts")
    read = "a, b" if "b.k" in condition else "a, b, c"
    shown = session.sql(f"SELECT a.id FROM {read} WHERE {condition} WINDOW = 1 SECOND OPTIONS (threads = 2)")
    assert str(shown.explain()).startswith(f"in 2 threads, each with {own}, and with all rows of b\n")
    told = json.loads(shown.explain(format="json"))["operators"]
    assert (told["threads"], told["copied"]) == (2, ["b"])


@pytest.mark.parametrize("given", ["0", "'two'", "257", "'-1'"])
def test_a_number_of_threads_is_one(given: str) -> None:
    with pytest.raises(OptionError, match="is not a number of threads"):
        over_tables().sql(f"{QUERIES['join']} OPTIONS (threads = {given})")


def test_spark_has_buckets_instead() -> None:
    kinds = pytest.importorskip("watersmeet.hosts.spark.jobs.kinds")
    for sql in (QUERIES["join"], QUERIES["groups"]):
        with pytest.raises(OptionError, match="option threads = '2' is for queries in one process"):
            kinds.job_of(pushed(sql, 2).plan, {}, 2).check()


def test_what_comes_after_a_reader_has_left_waits_for_the_parts(monkeypatch: pytest.MonkeyPatch):
    """Few rows go no other way than those that may still be at work in the threads."""
    operator = build(over_tables().sql(f"{QUERIES['join']} OPTIONS (threads = 2)").plan)
    assert isinstance(operator, partitioned.Partitioned)
    where: list[str] = []
    pushed = partitioned._pushed

    def noted(*told: Any) -> Any:
        where.append(threading.current_thread().name)
        return pushed(*told)

    monkeypatch.setattr(partitioned, "_pushed", noted)
    rows = A.combine_chunks().to_batches()[0]
    whole = Rows(rows, np.asarray(rows.column("ts").view(pa.int64())))
    here = threading.current_thread().name
    list(operator.push("a", whole.slice(0, 10)))
    assert where == [here] * 2
    list(operator.push("a", whole))
    operator._leave()
    list(operator.push("b", whole.slice(0, 10)))
    list(operator.settle())
    assert where.count(here) == 2
    assert len(where) == 6
