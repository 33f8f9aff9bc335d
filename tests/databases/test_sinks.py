"""A table holds what the changes of the batches that were taken come to, whatever they were."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.databases.conftest import POSTGRES
from tests.databases.places import Place, batch
from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import new_start
from watersmeet.io.connectors.contract import NumberedSink

LOG = pa.schema(
    [("_op", pa.string()), ("_ts", pa.timestamp("us")), ("k", pa.int64()), ("w", pa.string()), ("v", pa.float64())]
)
PLAIN = pa.schema([("k", pa.int64()), ("w", pa.string())])


def changed(at: random.Random, present: Counter[tuple[Any, ...]], rows: int, *, keyed: bool) -> list[tuple[Any, ...]]:
    """A stretch of a log, which `present` follows: what leaves was there."""
    log: list[tuple[Any, ...]] = []
    for instant in range(rows):
        key = at.choice([None, 1, 2, 3]), at.choice([None, "", "x"])
        row = *key, at.choice([None, 0.5, 2.0])
        same = [one for one in present.elements() if one[:2] == key]
        if keyed or at.random() < 0.4:
            log += [("-", instant, *one) for one in same[:1]]
            present.subtract(same[:1])
        if at.random() < 0.6:
            log.append(("+", instant, *row))
            present[row] += 1
    present += Counter()
    return log


@pytest.mark.parametrize("keys", [("k", "w"), ()])
@pytest.mark.parametrize("seed", range(2))
def test_a_changing_answer_is_its_table_after_every_batch(place: Place, keys: tuple[str, ...], seed: int) -> None:
    at = random.Random(seed)
    present: Counter[tuple[Any, ...]] = Counter()
    sink = place.sink(LOG, keys=keys, changes="_op")
    for number in range(6):
        log = changed(at, present, at.choice([1, 5, 20]), keyed=bool(keys))
        at.shuffle(log)  # the order within a batch does not matter
        sink.commit(number, [batch(LOG, log[:3]), batch(LOG, log[3:])])
        assert place.rows() == +present
        if at.random() < 0.5:
            sink.close()
            sink = place.sink(LOG, keys=keys, changes="_op")
            assert sink.committed() == number
    sink.close()


FLOATS = pa.schema([("_op", pa.string()), ("_ts", pa.timestamp("us")), ("f", pa.float64()), ("n", pa.int64())])


@pytest.mark.parametrize("keys", [("f",), ()])
def test_both_zeros_and_every_nan_are_one_value(place: Place, keys: tuple[str, ...]) -> None:
    sink = place.sink(FLOATS, keys=keys, changes="_op")
    other_nan = math.copysign(math.nan, -1)
    first = [("+", 0, -0.0, 1), ("+", 0, math.nan, 1), ("+", 0, None, 1), ("+", 0, 1.5, 1)]
    sink.commit(0, [batch(FLOATS, first)])
    second = [("-", 1, 0.0, 1), ("+", 1, -0.0, 2), ("-", 1, other_nan, 1), ("+", 1, math.nan, 3), ("-", 1, 1.5, 1)]
    sink.commit(1, [batch(FLOATS, second)])
    nan = None if place.kind == "sqlite" else "nan"
    expected = Counter([(0.0, 2), (nan, 3), (None, 1)])
    assert Counter((_shown(f), n) for f, n in place.rows().elements()) == expected
    sink.commit(2, [batch(FLOATS, [("-", 2, 0.0, 2), ("-", 2, other_nan, 3)])])
    assert place.rows() == Counter([(None, 1)])


def _shown(value: float | None) -> object:
    return "nan" if value is not None and math.isnan(value) else value


def test_a_number_is_taken_once(place: Place) -> None:
    sink, again = place.sink(PLAIN), place.sink(PLAIN)
    sink.commit(4, [batch(PLAIN, [(1, "a")])])
    again.commit(4, [batch(PLAIN, [(1, "a")])])  # it has not been told that another took it
    again.commit(3, [batch(PLAIN, [(1, "a")])])
    assert place.rows() == Counter([(1, "a")])
    assert place.sink(PLAIN).committed() == again.committed() == 4
    assert place.run("SELECT run, sink, number FROM watersmeet_batches") == [("r1", "answer", 4)]


def test_a_process_that_was_taken_for_dead_cannot_write_beside_its_successor(place: Place) -> None:
    old = place.sink(PLAIN)
    old.commit(0, [batch(PLAIN, [(1, "a")])])
    new = place.sink(PLAIN)
    new.commit(2, [batch(PLAIN, [(2, "b")])])
    for number in (1, 3):  # less than the other has taken would be lost, more would come twice
        with pytest.raises(SinkError, match="has batch 2 of this run, which another process has written"):
            old.commit(number, [batch(PLAIN, [(2, "b"), (3, "c")])])
    new.commit(3, [batch(PLAIN, [(3, "c")])])
    assert place.rows() == Counter([(1, "a"), (2, "b"), (3, "c")])


def test_the_newest_start_of_a_run_owns_the_table(place: Place) -> None:
    first = new_start([])
    old = place.sink(PLAIN, start=first)
    old.commit(0, [batch(PLAIN, [(1, "a")])])
    new = place.sink(PLAIN, start=new_start([first.token]))  # of a copy of the same checkpoint
    assert new.committed() == 0
    with pytest.raises(SinkError, match=r"'answer' is owned by a newer start \(run r1, start 2, since 20"):
        old.commit(1, [batch(PLAIN, [(2, "b")])])
    new.commit(1, [batch(PLAIN, [(3, "c")])])
    with pytest.raises(SinkError, match=r"'answer' is owned by a newer start \(run r1, start 2, since 20"):
        old.commit(1, [batch(PLAIN, [(2, "b")])])  # which would be passed over as if it were there
    with pytest.raises(SinkError, match=r"does not know .* another copy of it has written them"):
        place.sink(PLAIN, start=new_start([first.token]))
    new.commit(2, [batch(PLAIN, [(4, "d")])])  # which that has not disturbed
    assert place.rows() == Counter([(1, "a"), (3, "c"), (4, "d")])


# Of two at once in one process DuckDB refuses one with a conflict, as it does other processes by its lock.
@pytest.mark.parametrize("place", ["sqlite", POSTGRES], indirect=True)
def test_starts_that_claim_a_table_at_once_come_one_after_the_other(place: Place) -> None:
    first = new_start([])
    place.sink(PLAIN, start=first).commit(0, [batch(PLAIN, [(1, "a")])])
    with ThreadPoolExecutor(4) as pool:
        sinks = list(pool.map(lambda _: place.sink(PLAIN, start=new_start([first.token])), range(4)))
        tried = list(pool.map(lambda pair: _outcome(pair[1], pair[0]), enumerate(sinks)))
    assert sorted(tried) == ["owned"] * 3 + ["taken"]
    assert place.rows() == Counter([(1, "a"), (tried.index("taken"), "b")])


def _outcome(sink: NumberedSink, number: int) -> str:
    try:
        sink.commit(1, [batch(PLAIN, [(number, "b")])])
    except SinkError as error:
        return "owned" if "is owned by a newer start" in error.message else error.message
    return "taken"


def test_a_batch_that_meets_another_transaction_is_tried_again_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place("duckdb", {"path": str(tmp_path / "met.duckdb")})
    sink = place.sink(PLAIN)
    with duckdb.connect(place.options["path"]) as other, ThreadPoolExecutor() as threads:
        other.execute("BEGIN; UPDATE watersmeet_batches SET number = number + 1")
        commit = threads.submit(sink.commit, 0, [batch(PLAIN, [(1, "a")])])
        until_s = monotonic() + 20
        while "it is tried again" not in caplog.text and monotonic() < until_s:
            sleep(0.01)
        other.execute("ROLLBACK")
        commit.result(timeout=20)
    assert "it is tried again" in caplog.text
    assert place.rows() == Counter([(1, "a")])


def test_runs_of_one_process_write_to_one_duckdb_file_at_once(tmp_path: Path) -> None:
    place = Place("duckdb", {"path": str(tmp_path / "shared.duckdb")})
    sinks = [place.sink(PLAIN, name=f"table{number}", run=f"r{number}") for number in range(3)]

    def write(sink: NumberedSink) -> None:
        for number in range(25):
            sink.commit(number, [batch(PLAIN, [(number, "a")])])
            sleep(0.002 * (number % 7))  # the file is closed now and then

    with ThreadPoolExecutor() as threads:
        list(threads.map(write, sinks))
    assert all(place.rows(f"table{number}").total() == 25 for number in range(3))


def test_a_duckdb_file_that_another_process_holds_is_waited_for_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place("duckdb", {"path": str(tmp_path / "held.duckdb")})
    sink = place.sink(PLAIN)
    path = place.options["path"]
    hold = f"import duckdb, time; held = duckdb.connect({path!r}); print('held', flush=True); time.sleep(2)"
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        sink.commit(0, [batch(PLAIN, [(1, "a")])])
    assert "is held by another; for 30 s it is tried again" in caplog.text
    assert place.rows() == Counter([(1, "a")])


def test_a_table_that_is_put_back_to_an_older_state_is_told(place: Place) -> None:
    sink = place.sink(PLAIN)
    sink.commit(4, [batch(PLAIN, [(1, "a")])])
    place.run("UPDATE watersmeet_batches SET number = 2")
    with pytest.raises(SinkError, match=r"up to batch 4, but .* has them up to batch 2 only"):
        sink.commit(5, [batch(PLAIN, [(2, "b")])])


def test_sinks_of_a_run_are_known_apart(place: Place) -> None:
    place.sink(PLAIN, "one").commit(0, [batch(PLAIN, [(1, "a")])])
    other = place.sink(PLAIN, "two", table="one", mode="append")
    assert other.committed() == -1
    other.commit(0, [batch(PLAIN, [(2, "b")])])
    assert place.rows("one") == Counter([(1, "a"), (2, "b")])


@pytest.mark.parametrize("step", ["append", "note"])
def test_a_batch_that_fails_leaves_no_trace(place: Place, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = place.sink(PLAIN)
    sink.commit(0, [batch(PLAIN, [(1, "a")])])
    with monkeypatch.context() as broken:
        broken.setattr(type(sink), "_keep" if step == "append" else "_note", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sink.commit(1, [batch(PLAIN, [(2, "b")])])
    assert place.rows() == Counter([(1, "a")])
    sink.commit(1, [batch(PLAIN, [(2, "b")])])
    assert place.rows() == Counter([(1, "a"), (2, "b")])


def test_a_log_may_be_kept_as_such(place: Place) -> None:
    sink = place.sink(LOG, keys=("k",), changes="_op", as_said="log")
    sink.commit(0, [batch(LOG, [("+", 0, 1, "a", 0.5), ("-", 1, 1, "a", 0.5)])])
    assert [row[0] for row in place.run("SELECT _op FROM answer ORDER BY _ts")] == ["+", "-"]
    with pytest.raises(SinkError, match="has changes = 'all'"):
        place.sink(LOG, "other", changes="_op", as_said="all")


def test_all_types_come_back(place: Place) -> None:
    rows = pa.table(
        {
            "truth": [True, None],
            "number": [-(2**63), None],
            "small": pa.array([7, None], pa.int8()),
            "fraction": [0.1, None],
            "price": pa.array([Decimal("12345678901234567890.25"), None], pa.decimal128(30, 2)),
            "day": pa.array([date(1969, 12, 31), None]),
            "moment": pa.array([datetime(2026, 1, 1, 12, 0, 0, 123456), None], pa.timestamp("us")),
            "instant": pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC), None], pa.timestamp("us", "Europe/Berlin")),
            "word": ['a,"b"\n\\N', ""],
            "raw": [b"\x00\xff\\x", None],
        }
    )
    sink = place.sink(rows.schema)
    sink.commit(0, rows.to_batches())
    found = place.load(table="answer")
    expected = rows.set_column(2, "small", rows["small"].cast(pa.int64()))
    zoned = expected["instant"].cast(found.schema.field("instant").type)
    assert found.to_pydict() == expected.set_column(7, "instant", zoned).to_pydict()
    assert found.schema.field("price").type == pa.decimal128(30, 2)
    assert pa.types.is_timestamp(found.schema.field("instant").type)


def test_a_table_of_others_is_left_alone_unless_told(place: Place) -> None:
    place.run("CREATE TABLE answer (w TEXT, k BIGINT, note TEXT)")
    place.sink(PLAIN, run="r0").close()  # nothing is in it
    place.run("INSERT INTO answer VALUES ('theirs', 0, 'x')")
    with pytest.raises(SinkError, match="already holds rows"):
        place.sink(PLAIN)
    place.sink(PLAIN, mode="append").commit(0, [batch(PLAIN, [(1, "a")])])
    assert place.rows() == Counter([("theirs", 0, "x"), ("a", 1, None)])
    place.sink(PLAIN, run="r2", mode="overwrite").commit(0, [batch(PLAIN, [(2, "b")])])
    assert place.rows() == Counter([("b", 2, None)])
    # The same run goes on: nothing is overwritten once more.
    place.sink(PLAIN, run="r2", mode="overwrite").commit(1, [batch(PLAIN, [(3, "c")])])
    assert place.rows() == Counter([("b", 2, None), ("c", 3, None)])


def test_columns_that_do_not_fit_are_refused_by_name(place: Place) -> None:
    place.run("CREATE TABLE answer (k BIGINT)")
    with pytest.raises(SinkError, match="has no column 'w'"):
        place.sink(PLAIN)
    place.run("CREATE TABLE other (k BIGINT, w DATE)")
    with pytest.raises(SinkError, match=r"column 'w' of the table other .* holds date, and .* has string"):
        place.sink(PLAIN, table="other")
    lists = pa.schema([("k", pa.list_(pa.int64()))])
    with pytest.raises(SinkError, match="column 'k' of sink 'answer' is list"):
        place.sink(lists, table="third")


def test_a_table_that_was_dropped_is_missed(place: Place) -> None:
    sink = place.sink(PLAIN)
    sink.commit(0, [batch(PLAIN, [(1, "a")])])
    place.run("DROP TABLE answer")
    with pytest.raises(SinkError, match="answer"):
        sink.commit(1, [batch(PLAIN, [(2, "b")])])
    with pytest.raises(SinkError, match=r"up to batch 0, but .* has no table answer"):
        place.sink(PLAIN, committed=0)
    place.run("DELETE FROM watersmeet_batches")
    with pytest.raises(SinkError, match="no longer knows what sink 'answer' has taken"):
        sink.commit(1, [batch(PLAIN, [(2, "b")])])


def test_a_table_that_was_dropped_is_made_anew_where_all_comes_again(place: Place) -> None:
    place.sink(PLAIN).commit(3, [batch(PLAIN, [(1, "a")])])
    place.run("DROP TABLE answer")
    again = place.sink(PLAIN)  # of the checkpoint nothing counts yet
    assert again.committed() == -1
    again.commit(3, [batch(PLAIN, [(1, "a")])])
    place.run("DROP TABLE answer")
    assert place.sink(PLAIN, committed=3, makes_anew=True).committed() == -1
    assert place.rows() == Counter()


def test_a_run_whose_notes_are_gone_is_told_so(place: Place) -> None:
    place.sink(PLAIN).commit(0, [batch(PLAIN, [(1, "a")])])
    place.run("DROP TABLE watersmeet_batches")
    with pytest.raises(SinkError, match=r"up to batch 0, but .* has no row of it in watersmeet_batches"):
        place.sink(PLAIN, committed=0, mode="append")


def test_names_may_be_anything(place: Place) -> None:
    schema = pa.schema([("select", pa.int64()), ('a "b" % ?', pa.string())])
    for changes in (None, "_op"):
        log = schema if changes is None else pa.schema([("_op", pa.string()), ("_ts", pa.timestamp("us")), *schema])
        row = (1, "'x'") if changes is None else ("+", 0, 1, "'x'")
        name = f"my answer; {changes} --"
        place.sink(log, name, changes=changes, keys=('a "b" % ?',) if changes else ()).commit(0, [batch(log, [row])])
        assert place.rows(name) == Counter([(1, "'x'")])
