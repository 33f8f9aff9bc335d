"""Queries that move by savepoints between a process and buckets, and between numbers of buckets, in the middle of their
streams: without Spark, in whose place the simulation of its stateful stage stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.durable.test_savepoints import QUERIES, Answers, answered, push, rows_of, session
from tests.runners import Source
from tests.spark.simulation import Simulation, another_node, another_worker
from watersmeet.errors import UnsupportedError
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.checkpoints.savepoints import contents_of
from watersmeet.hosts.spark.checkpoints.state_files import Kept, Stage, by_query
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.runtime.savepoints.contents import StreamPlace
from watersmeet.runtime.savepoints.folder import Savepoint, writing_savepoint

Leg = tuple[int, range]  # how many buckets, 0 for a run in-process; and which rows
LEGS: dict[str, Sequence[Leg]] = {
    "laptop, 4, 16, laptop": ((0, range(35)), (4, range(35, 60)), (16, range(60, 90)), (0, range(90, 120))),
    "1, laptop, 6": ((1, range(40)), (0, range(40, 75)), (6, range(75, 120))),
}


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def sources(query: Any) -> list[Source]:
    lateness = {"a": "2 seconds", "b": "0 seconds"}
    schemas = {one.name: one.schema for one in _streams(query)}
    return [Source(name, schemas[name].empty_table(), "ts", lateness[name]) for name in schemas]


def _streams(query: Any) -> list[Any]:
    from watersmeet.plan.walks import streams_below

    return list({one.name: one for one in streams_below(query.plan.root)}.values())


def in_buckets(query: Any, buckets: int, numbers: range, before: Path | None, after: Path, found: Answers) -> None:
    """A part of the streams, by micro-batches of five rows, with nothing left of warm copies now and then."""
    run = Simulation("", sources(query), buckets, plan=query.plan)
    if before is not None:
        begun = (str(before), "query", Savepoint(before).mark)
        run.job = replace(run.job, start=replace(run.job.start, begun=begun))
    schemas = {one.name: one.schema for one in _streams(query)}
    for count, at in enumerate(range(0, len(numbers), 5)):
        some = numbers[at : at + 5]
        run.batch({name: pa.Table.from_pylist(rows_of(name, some), schema) for name, schema in schemas.items()})
        (another_node, another_worker)[count % 2]()
    found.rows.update(map(str, run.table().to_pylist()))
    places = {name: StreamPlace(None, None, BEGINNING_US, FOREVER_US) for name in schemas}
    with writing_savepoint(after) as savepoint:
        savepoint.add("query", contents_of(run.job, stage(run), places, "a run", 7, run.now_ms * 1000))


def stage(run: Simulation) -> Stage:
    held = run.state.variables
    kept = [Kept(key[0], value[0], value[2]) for key, value in held["meta"].items()]
    packets = {(key[0], *place): packet for key, some in held["segments"].items() for place, (packet,) in some.items()}
    (found,) = by_query(kept, packets)
    return found


CHOSEN = "FROM a [PARTITION BY k ROWS 3], b [RANGE 1 MINUTE] WHERE a.k = b.k AND b.x <> 'w1'"


def test_rows_that_wait_are_taken_in_as_buckets_take_rows_in(tmp_path: Path) -> None:
    """They were told apart by a column, and are joined by a code; where the column stayed behind, that is said."""
    QUERIES["chosen"] = f"SELECT a.k, a.x, b.y, b.x AS bx {CHOSEN}"
    QUERIES["chosen, unseen"] = f"SELECT a.k, a.x, b.y {CHOSEN}"
    try:
        moved("chosen", LEGS["laptop, 4, 16, laptop"], tmp_path / "seen")
        with pytest.raises(UnsupportedError, match="rows of b wait for time to go on, and the buckets do not have 'x'"):
            moved("chosen, unseen", LEGS["laptop, 4, 16, laptop"], tmp_path / "unseen")
    finally:
        del QUERIES["chosen"], QUERIES["chosen, unseen"]


WHOLE = {"over"}  # states that do not divide by key, and so run in one bucket


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_state_that_does_not_divide_moves_to_one_bucket_and_back(name: str, tmp_path: Path) -> None:
    moved(name, ((0, range(40)), (1, range(40, 75)), (0, range(75, 100)), (1, range(100, 120))), tmp_path)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_several_buckets_hold_of_such_a_state_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="cannot move into or out of several buckets: "):
        moved(name, ((4, range(20)), (0, range(20, 30))), tmp_path)


@pytest.mark.parametrize("legs", LEGS)
@pytest.mark.parametrize("name", sorted({*QUERIES} - WHOLE))
def test_a_query_moves_between_hosts_and_numbers_of_buckets(name: str, legs: str, tmp_path: Path) -> None:
    moved(name, LEGS[legs], tmp_path)


def moved(name: str, legs: Sequence[Leg], tmp_path: Path) -> None:
    """What a query answers on its way is what it answers where it stays."""
    query = session().sql(QUERIES[name])
    whole = answered(query, tmp_path / "whole", range(120))
    found, before = Answers(), None
    for number, (buckets, numbers) in enumerate(legs):
        after = tmp_path / f"savepoint-{number}"
        if buckets:
            in_buckets(query, buckets, numbers, before, after, found)
        else:
            with query.start(checkpoint=tmp_path / f"{number}", savepoint=before, on_answer=found) as run:
                push(run, query, numbers)
                run.savepoint(after)
        before = after
    with query.start(checkpoint=tmp_path / "last", savepoint=before, on_answer=found) as run:
        run.flush()
    assert found.rows == whole
    assert Counter(found.rows)


NEAR = "SELECT a.k, a.x, b.y, b.x AS w FROM a, b WHERE a.k = b.k WINDOW = {} SECONDS"


def test_a_narrower_window_goes_on_in_buckets_and_back(tmp_path: Path) -> None:
    wide, narrow = (session().sql(NEAR.format(seconds)) for seconds in (40, 4))
    given, found, on_the_way = Answers(), Answers(), tmp_path / "narrow"
    with narrow.start(checkpoint=tmp_path / "from the first row on", on_answer=given) as run:
        push(run, narrow, range(35))
        run.stop()
    with wide.start(checkpoint=tmp_path / "wide", on_answer=Answers()) as run:
        push(run, wide, range(35))
        run.savepoint(tmp_path / "of wide")
    in_buckets(narrow, 4, range(35, 70), tmp_path / "of wide", on_the_way, found)
    with narrow.start(checkpoint=tmp_path / "back", savepoint=on_the_way, on_answer=found) as run:
        push(run, narrow, range(70, 120))
        run.flush()
    assert found.rows == answered(narrow, tmp_path / "alone", range(120)) - given.rows
    assert given.rows
    assert found.rows
