"""Joins that need no time order do not wait for a stream that is silent, slow or late: what can be answered is at once.

A combination is due when the last of its rows to arrive is in. So after every push the answers so far are those of the
reference over the rows so far, which is what the tests hold the engine to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.conformance.test_window_forms import asked
from tests.runners import Source, by_reference
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.model.catalog import Catalog
from watersmeet.model.time import BEGINNING_US, FOREVER_US, times_of
from watersmeet.operators.answers import as_batch
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.saving import Saved
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import build
from watersmeet.sql import bind
from watersmeet.testing import Trial

SECOND = 1_000_000
LATENESS_US = SECOND
ANY_ORDER = {
    "N-way": "join = 'w_join'",
    "pipeline": "join = 'nlw'",
    "pipeline in order": "join = 'nlw', order = 'c, a, b'",
    "hash pipeline": "join = 'hw', buckets = 3",
    "ripple": "join = 'ripple'",
    "xjoin": "join = 'xjoin', buckets = 5",
    "N-way in turns": "join = 'w_join', turns = 'round_robin'",
    "pipeline in turns": "join = 'nlw', turns = 'round_robin'",
    "hash pipeline in turns": "join = 'hw', turns = 'round_robin'",
    "xjoin in turns": "join = 'xjoin', turns = 'round_robin'",
}
FORMS = ["unequal ranges", "half open", "one window", "pairs", "directed", "path", "plain SQL", "other comparisons"]
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("x", pa.int64()), ("ts", pa.timestamp("us"))])
Bag = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Arrival:
    """A row of a stream, and the number under which it comes among all rows of all streams."""

    number: int
    stream: str
    row: dict[str, int]


def arrivals(seed: int, rows: int = 60) -> list[Arrival]:
    """Rows of three streams: c falls silent and comes back, far behind; b is slow; rows come out of order, some of them
    too late."""
    rng = np.random.default_rng(seed)
    silent = range(rows // 3, rows - 5)
    found = []
    for number in range(rows):
        stream = str(rng.choice(["a", "a", "b", "c"]))
        stream = "a" if stream == "c" and number in silent else stream
        now = number * SECOND // 5 if stream != "c" or number < rows // 3 else rows // 3 * SECOND // 5
        time = max(0, now - int(rng.integers(0, 4 * SECOND)) * int(rng.integers(0, 2)))
        row = {"id": number, "k": int(rng.integers(0, 2)), "x": int(rng.integers(0, 10)), "ts": time}
        found.append(Arrival(number, stream, row))
    return found


def table_of(found: list[Arrival]) -> pa.Table:
    return pa.table({f.name: pa.array([one.row[f.name] for one in found], f.type) for f in SCHEMA}, schema=SCHEMA)


def sources_of(found: list[Arrival]) -> list[Source]:
    late = f"{LATENESS_US} microseconds"
    return [Source(name, table_of([one for one in found if one.stream == name]), "ts", late) for name in "abc"]


def plan_of(form: str, options: str) -> Plan:
    catalog = Catalog()
    for source in sources_of([]):
        catalog.add(source.relation())
    return bind(asked(form, options), catalog)


def rows_of(batches: Any) -> Bag:
    return Counter(row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True))


@cache
def expected_of(form: str, seed: int, admitted: tuple[int, ...]) -> Bag:
    """The reference's answer over these rows; which are late is the same for all algorithms."""
    everything = arrivals(seed)
    return by_reference(asked(form, ""), sources_of([everything[number] for number in admitted]))


def due(whole: Bag, number: int) -> Bag:
    """What all rows up to a number have in common: ids of rows are their numbers."""
    return Counter({row: count for row, count in whole.items() if max(row[:3]) <= number})


@pytest.mark.parametrize("name", ANY_ORDER)
@pytest.mark.parametrize("form", FORMS)
def test_every_push_is_answered_at_once(form: str, name: str) -> None:
    silent = late_rows = 0
    for seed in range(2):
        execution = PushedExecution(plan_of(form, ANY_ORDER[name]), tell=lambda _: None)
        late: set[int] = set()
        execution.on_late = lambda _, rows, late=late: late.update(rows.column("id").to_pylist())
        told, everything = [], arrivals(seed)
        for one in everything:
            (rows,) = execution.rows_of(one.stream, table_of([one]))
            told.append(rows_of(as_batch(answer) for answer in execution.push(one.stream, rows)))
        assert not rows_of(as_batch(answer) for answer in execution.finish())
        late_rows += len(late)
        admitted = [one for one in everything if one.number not in late]
        whole = expected_of(form, seed, tuple(one.number for one in admitted))
        so_far: Bag = Counter()
        for number, found in enumerate(told):
            so_far += found
            assert so_far == due(whole, number), (name, seed, number)
        silent += sum(found.total() for found in told[len(told) // 3 : -5])
    assert silent > 5, "the silent stream held answers back, or the cases are too weak to tell"
    assert late_rows


def batches_of(found: list[Arrival], rng: np.random.Generator) -> Iterator[list[Arrival]]:
    while found:
        count = int(rng.integers(1, 12))
        yield found[:count]
        found = found[count:]


def take(operator: Operator, batch: dict[str, Rows], until_us: int) -> Bag:
    return rows_of(operator.take(batch, dict.fromkeys("abc", until_us)))


@pytest.mark.parametrize("name", ANY_ORDER)
@pytest.mark.parametrize("form", ["unequal ranges", "pairs", "directed", "path"])
def test_a_restart_between_any_two_batches_changes_nothing(form: str, name: str) -> None:
    """As Spark drives operators: whole batches, each answered when it is over, rebuilt from the rows still needed."""
    plan = plan_of(form, ANY_ORDER[name])
    for seed in range(2):
        rng = np.random.default_rng(100 + seed)
        operator = build(plan)
        until_us, newest = BEGINNING_US, dict.fromkeys("abc", BEGINNING_US)
        admitted: list[Arrival] = []
        told: list[tuple[int, Bag]] = []
        for batch in batches_of(arrivals(seed), rng):
            in_time = sorted((one for one in batch if one.row["ts"] >= until_us), key=lambda one: one.row["ts"])
            admitted += in_time
            for one in batch:
                newest[one.stream] = max(newest[one.stream], one.row["ts"] - LATENESS_US)
            until_us = max(until_us, *[min(newest.values())])
            rows = {n: whole([one for one in in_time if one.stream == n]) for n in "abc"}
            told.append((batch[-1].number, take(operator, rows, until_us)))
            assert not operator.waiting_rows()
            if rng.random() < 0.5:
                kept = {n: whole([one for one in admitted if one.stream == n]) for n in "abc"}
                log = {n: r.take(np.flatnonzero(operator.still_needed(n, r, until_us))) for n, r in kept.items()}
                operator = build(plan)
                operator.restore(log, until_us)
        expected = expected_of(form, seed, tuple(sorted(one.number for one in admitted)))
        so_far: Bag = Counter()
        for number, found in told:
            so_far += found
            assert so_far == due(expected, number), (name, seed, number)


def whole(found: list[Arrival]) -> Rows:
    (data,) = table_of(found).combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=SCHEMA)]
    return Rows(data, times_of(data.column("ts")))


def three_streams(**settings: str) -> wm.Session:
    session = wm.Session()
    for name in "abc":
        session.stream(name, schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", **settings)
    return session


def join_of(options: str) -> str:
    return f"SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 10 MINUTES OPTIONS ({options})"


def with_c_silent(trial: Trial) -> None:
    trial.push("c", {"k": 1, "ts": "9:00:00"})
    for second in range(1, 7):
        trial.push("a", {"k": 1, "ts": f"9:00:0{second}"})
        trial.push("b", {"k": 1, "ts": f"9:00:0{second}"})


@pytest.mark.parametrize("options", [*ANY_ORDER.values(), "join = 'auto'"])
def test_all_36_results_come_while_a_stream_is_silent(options: str) -> None:
    with Trial(three_streams().sql(join_of(options))) as trial:
        with_c_silent(trial)
        assert len(trial.answers()) == 36


@pytest.mark.parametrize("options", ["join = 'nlw'", "join = 'hw', turns = 'round_robin'"])
@pytest.mark.parametrize("busy", [False, True], ids=["then all are silent", "while others go on"])
def test_a_run_that_reads_answers_while_an_input_says_nothing(options: str, busy: bool) -> None:
    """c gives one row, then nothing until all answers have come, which would be never if they waited for it."""
    schema = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
    answered = Event()

    def batch(second: int) -> pa.RecordBatch:
        return pa.record_batch([[1], pa.array([second * SECOND], pa.timestamp("us"))], schema=schema)

    def going_on() -> Iterator[pa.RecordBatch]:
        yield from map(batch, range(1, 7))
        second = 7000  # out of the window
        while busy and not answered.wait(0.001):
            yield batch(second)
            second += 1
        answered.wait(10)

    gave_up = Event()

    def silent() -> Iterator[pa.RecordBatch]:
        yield batch(0)
        if not answered.wait(10):
            gave_up.set()

    session = wm.Session()
    for name, made in {"a": going_on(), "b": going_on(), "c": silent()}.items():
        session.stream(name, pa.RecordBatchReader.from_batches(schema, made), time="ts", read="arrival")
    found = 0
    for answers in session.sql(join_of(options)).batches():
        found += answers.num_rows
        if found == 36:
            break
    answered.set()
    assert (found, gave_up.is_set()) == (36, False)


@pytest.mark.parametrize("join", ["merge", "hash, invalidate", "nested_loop", "naive", "hybrid"])
def test_joins_that_follow_time_wait_until_the_silent_stream_is_idle(join: str) -> None:
    options = f"join = '{join.split(',')[0]}'"
    session = three_streams(idle="30 seconds")
    with Trial(session.sql(join_of(options)), today="2026-01-01 09:00:00") as trial:
        with_c_silent(trial)
        assert trial.answers() == []
        trial.wait("20 seconds")
        trial.push("a", {"k": 2, "ts": "9:00:20"})
        trial.push("b", {"k": 2, "ts": "9:00:20"})
        assert trial.answers() == []
        trial.wait("15 seconds")
        assert len(trial.answers()) == 36


@pytest.mark.parametrize("join", ["w_join", "nlw", "hw"])
def test_what_a_silent_stream_held_goes_when_it_is_idle(join: str) -> None:
    """Rows that nothing to come can reach do not gather, although no row of the idle stream comes to meet them."""
    session = three_streams(idle="30 seconds")
    with Trial(session.sql(join_of(f"join = '{join}'")), today="2026-01-01 09:00:00") as trial:
        with_c_silent(trial)
        trial.wait("31 seconds")
        held = []
        for minute in range(1, 60):
            trial.push("a", {"k": 1, "ts": f"9:{minute:02}:00"})
            trial.push("b", {"k": 1, "ts": f"9:{minute:02}:00"})
            held.append(trial.metrics()["stored_rows"] - trial.metrics()["expired_rows"])
        assert max(held[30:]) <= 2 * 24  # a row a minute of two streams, kept for twice the ten minutes at most


MERGE_IN_TURNS = "join = 'merge', turns = 'round_robin'"


def each_in_order(seed: int) -> list[Arrival]:
    """The same streams, none of which is ever behind itself."""
    newest = dict.fromkeys("abc", 0)
    found = []
    for one in arrivals(seed, 90):
        newest[one.stream] = max(newest[one.stream], one.row["ts"])
        found.append(Arrival(one.number, one.stream, one.row | {"ts": newest[one.stream]}))
    return found


def in_order(form: str) -> tuple[Plan, str]:
    sources = [Source(name, table_of([]), "ts") for name in "abc"]
    catalog = Catalog()
    for source in sources:
        catalog.add(source.relation())
    return bind(asked(form, MERGE_IN_TURNS), catalog), asked(form, "")


def test_mode_2_of_a_merge_answers_while_a_stream_is_silent() -> None:
    """The period reaches ten minutes from the first head; what comes within it is joined, whoever is silent."""
    with Trial(three_streams().sql(join_of(MERGE_IN_TURNS))) as trial:
        with_c_silent(trial)
        assert len(trial.answers()) == 36
    with Trial(three_streams().sql(join_of("join = 'merge'"))) as trial:
        with_c_silent(trial)
        assert trial.answers() == []


@pytest.mark.parametrize("form", ["unequal ranges", "half open", "one window", "pairs", "directed", "path"])
def test_a_merge_of_streams_in_their_own_order_finds_everything_once(form: str) -> None:
    plan, plain = in_order(form)
    early = 0
    for seed in range(3):
        everything = each_in_order(seed)
        expected = by_reference(
            plain, [Source(n, table_of([o for o in everything if o.stream == n]), "ts") for n in "abc"]
        )
        execution = PushedExecution(plan, tell=lambda _: None)
        found: Bag = Counter()
        least = dict.fromkeys("abc", BEGINNING_US)
        for one in everything:
            least[one.stream] = one.row["ts"]
            (rows,) = execution.rows_of(one.stream, table_of([one]))
            told = rows_of(as_batch(answer) for answer in execution.push(one.stream, rows))
            times = {o.number: o.row["ts"] for o in everything}
            early += sum(max(times[n] for n in row[:3]) > min(least.values()) for row in told.elements())
            found += told
        found += rows_of(as_batch(answer) for answer in execution.finish())
        assert found == expected, (form, seed)
    assert early, "no answer came before a silent stream had passed it"


@pytest.mark.parametrize("form", ["unequal ranges", "path"])
def test_a_merge_that_restarts_between_batches_gives_nothing_twice(form: str) -> None:
    plan, plain = in_order(form)
    for seed in range(2):
        everything = each_in_order(seed)
        expected = by_reference(
            plain, [Source(n, table_of([o for o in everything if o.stream == n]), "ts") for n in "abc"]
        )
        rng = np.random.default_rng(seed)
        operator, newest = build(plan), dict.fromkeys("abc", BEGINNING_US)
        found: Bag = Counter()
        for batch in batches_of(everything, rng):
            newest |= {one.stream: one.row["ts"] for one in batch}
            # As a batch has them where many tasks have read it: in no order.
            mixed = [batch[i] for i in rng.permutation(len(batch))]
            rows = {n: whole([o for o in mixed if o.stream == n]) for n in "abc"}
            found += take(operator, rows, min(newest.values()))
            assert operator.is_kept_whole
            saved = Saved.from_bytes(operator.save().to_bytes())
            operator = build(plan)
            operator.load(saved)
        found += take(operator, {}, FOREVER_US)
        assert found == expected, (form, seed)


def test_a_merge_in_turns_refuses_a_stream_that_is_out_of_order() -> None:
    session = three_streams(lateness="5 seconds")
    with pytest.raises(UnsupportedError, match="rows of a may be out of order by 5 s"):
        session.sql(join_of(MERGE_IN_TURNS)).start()


def test_rows_are_taken_in_turn_and_a_stream_without_rows_is_passed_over() -> None:
    """The order shows in the results: each is found by the last of its rows to be taken."""
    session = wm.Session()
    times = {"a": [0, 1, 2], "b": [10, 11], "c": [20]}
    for name, seconds in times.items():
        rows = pa.table({"k": [1] * len(seconds), "ts": pa.array([s * SECOND for s in seconds], pa.timestamp("us"))})
        session.stream(name, rows, time="ts")
    select = "SELECT EPOCH_US(a.ts) // 1000000 AS a, EPOCH_US(b.ts) // 1000000 AS b FROM a, b, c"

    def found(options: str) -> list[tuple[int, int]]:
        query = session.sql(f"{select} WHERE a.k = b.k AND b.k = c.k WINDOW = 1 MINUTE OPTIONS ({options})")
        return [(row["a"], row["b"]) for row in query.to_arrow().to_pylist()]

    # a 0, b 10, c 20: the first round; a 1, b 11: the second, without c; then a 2 alone
    assert found("join = 'w_join', turns = 'round_robin'") == [(0, 10), (1, 10), (0, 11), (1, 11), (2, 10), (2, 11)]
    # in time order c is the last, and finds all
    assert found("join = 'w_join'") == [(0, 10), (0, 11), (1, 10), (1, 11), (2, 10), (2, 11)]


def test_turns_are_shown_and_refused_where_order_matters() -> None:
    session = three_streams()
    assert "one row of each stream in turn" in str(session.sql(join_of("turns = 'round_robin'")).explain())
    with pytest.raises(OptionError, match="turns = 'round_robin' does not go with join = 'hash', which follows time"):
        session.sql(join_of("join = 'hash', turns = 'round_robin'"))
    rows = "SELECT a.k FROM a [ROWS 3], b [RANGE 1 MINUTE] WHERE a.k = b.k OPTIONS (turns = 'round_robin')"
    with pytest.raises(UnsupportedError, match="ROWS windows count rows in time order"):
        build(session.sql(rows).plan)
