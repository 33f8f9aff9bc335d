"""A script whose queries are fed together, in every way in which rows may come, and what each of them gave."""

from __future__ import annotations

import datetime as dt
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pa_parquet

import watersmeet as wm
from tests.outsiders.data import SECOND, Row, Streams, micros
from tests.outsiders.expectations import Oracle
from tests.outsiders.judging import judge_given
from tests.outsiders.running import Spread
from tests.outsiders.scripts import Query, Script
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.runtime.script import read_script

WAYS = ("at hand", "in pieces", "flowing", "late", "files")
PIECES = (1, 2, 3, 7, 16, 300)


Late = dict[str, list[npt.NDArray[np.int64]]]


@dataclass
class Given:
    """What a query gave, and which rows were late for it, by their numbers."""

    rows: list[Row]
    late: Late = field(default_factory=dict)

    def late_numbers(self, name: str) -> set[int]:
        return {int(number) for some in self.late.get(name, ()) for number in some}

    def in_time(self, streams: Streams) -> Streams:
        for name in self.late:
            late = self.late_numbers(name)
            kept = [row for number, row in enumerate(streams.rows[name]) if number not in late]
            streams = streams.replaced(name, kept)
        return streams


def judge_script(script: Script, way: str) -> None:
    """Each query gives what DuckDB says of the rows that were in time."""
    draw = random.Random(script.number)
    if way == "late":
        script = replace(script, streams=shaken(script.streams, draw))
    for query, given in zip(script.queries, answers(script, way, draw), strict=True):
        if len(query.case.streams) == 1:
            (name,) = query.case.streams
            assert given.late_numbers(name) == late_rows(script.streams, name), f"{query.case.ours}: what is late"
        try:
            judge_query(query, given.in_time(script.streams), given.rows, draw)
        except AssertionError as error:
            raise AssertionError(f"{query.case.ours}\n{error}") from None


def judge_query(query: Query, streams: Streams, rows: list[Row], draw: random.Random) -> None:
    judge_given(query.case, Oracle(query.case, streams), rows, draw, looks=6)


def late_rows(streams: Streams, name: str) -> set[int]:
    """The rows that a query over this stream alone must leave out."""
    found, newest = set(), -(10**18)
    for number, row in enumerate(streams.rows[name]):
        if micros(row["ts"]) < newest - streams.lateness_us:
            found.add(number)
        newest = max(newest, micros(row["ts"]))
    return found


def shaken(streams: Streams, draw: random.Random) -> Streams:
    """Further out of order than they may be."""
    rows = {
        name: sorted(ones, key=lambda row: micros(row["ts"]) + draw.choice((0, 0, 1, 3, 9)) * SECOND)
        for name, ones in streams.rows.items()
    }
    return Streams(rows, draw.choice((0, SECOND // 2, 2 * SECOND)), streams.names)


def answers(script: Script, way: str, draw: random.Random) -> list[Given]:
    with quiet():
        match way:
            case "at hand":
                return _whole(session_over(script.streams), script)
            case "files":
                return _from_files(script)
            case "in pieces":
                return _by_hand(session_over(script.streams), script, draw.choice(PIECES))
        return _by_hand(_flowing(script.streams, draw), script, draw.choice(PIECES))


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def session_over(streams: Streams) -> wm.Session:
    session = named_session(streams)
    for name in "abc":
        session.stream(name, streams.table(name), time="ts")
    return session


def named_session(streams: Streams) -> wm.Session:
    session = wm.Session()
    session.table("names", streams.static())
    session.aggregate("spread", Spread, ["INT"], "INT")
    session.aggregate("in_order", lambda x: pa.scalar("".join(f"{v};" for v in x.to_pylist())), ["INT"], "STRING")
    return session


def _flowing(streams: Streams, draw: random.Random) -> wm.Session:
    session, lateness = named_session(streams), dt.timedelta(microseconds=streams.lateness_us)
    for name in "abc":
        lots = streams.table(name).to_batches(max_chunksize=draw.choice((1, 3, 1000)))
        rows = pa.Table.from_batches(lots, streams.table(name).schema)
        session.stream(name, rows, time="ts", read="arrival", lateness=lateness)
    return session


def _whole(session: wm.Session, script: Script) -> list[Given]:
    """As a user runs a script."""
    outcomes = session.run(script.text())
    assert len(outcomes) == len(script.queries)
    return [Given([] if one.answer is None else one.answer.to_pylist()) for one in outcomes]


def _from_files(script: Script) -> list[Given]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        session = named_session(script.streams)
        for name in "abc":
            path = Path(folder, f"{name}.parquet")
            pa_parquet.write_table(script.streams.table(name), path, row_group_size=4)
            session.stream(name, path, time="ts")
        return _whole(session, script)


def _by_hand(session: wm.Session, script: Script, batch_rows: int) -> list[Given]:
    """Few rows at a time, and with the rows that were late for each."""
    jobs = read_script(script.text(), session.catalog.copy())
    runs = [PulledExecution(job.plan, batch_rows=batch_rows) for job in jobs]
    found = [Given([]) for _ in runs]
    for run, given in zip(runs, found, strict=True):
        run.on_late_rows = lambda name, numbers, given=given: given.late.setdefault(name, []).append(numbers)
    fed(runs, found)
    return found


def fed(runs: Sequence[PulledExecution], found: Sequence[Given]) -> None:
    for run, block in Pull(runs).answers():
        if block is not None:
            found[runs.index(run)].rows.extend(block.to_pylist())
    for run in runs:
        if run.failure is not None:
            raise run.failure
