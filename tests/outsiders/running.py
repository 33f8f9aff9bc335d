"""The same query over the same rows, in every way in which rows may come."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

import watersmeet as wm
from tests.outsiders.data import SCHEMA, Row, Streams, micros, moment
from tests.outsiders.pairs import Case

MODES = ("whole", "whole", "whole", "final", "flowing", "pushed", "pushed", "durable")
Watch = Callable[[list[Row], int | None], None]


@dataclass(frozen=True)
class Piece:
    """A step of a run: rows of a stream; or, where there are none, that the stream goes on to a time, or ends."""

    stream: str
    rows: list[Row]
    until: int | None = None


class Spread:
    """The largest value without the smallest, of those that were told."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, x: pa.Array) -> None:
        self.counts.update(x.to_pylist())

    def remove(self, x: pa.Array) -> None:
        self.counts.subtract(x.to_pylist())

    def result(self) -> pa.Scalar:
        there = +self.counts
        return pa.scalar(max(there) - min(there), pa.int32())


def session_over(case: Case, streams: Streams, mode: str, draw: random.Random) -> wm.Session:
    session = wm.Session()
    lateness = dt.timedelta(microseconds=streams.lateness_us)
    for name in sorted(case.streams):
        if mode in ("whole", "final"):
            session.stream(name, streams.table(name), time="ts")
        elif mode == "flowing":
            session.stream(name, _batches(streams, name, draw), time="ts", lateness=lateness)
        else:
            session.stream(name, schema=SCHEMA, time="ts", lateness=lateness)
    session.table("names", streams.static())
    session.aggregate("spread", Spread, ["INT"], "INT")
    session.aggregate("in_order", lambda x: pa.scalar("".join(f"{v};" for v in x.to_pylist())), ["INT"], "STRING")
    return session


def _batches(streams: Streams, name: str, draw: random.Random) -> pa.RecordBatchReader:
    table = streams.table(name)
    return pa.RecordBatchReader.from_batches(SCHEMA, table.to_batches(max_chunksize=draw.choice((1, 3, 1000))))


def answer(case: Case, streams: Streams, mode: str, draw: random.Random, watch: Watch | None = None) -> list[Row]:
    """All rows that the query gives. `watch` is given the present answer of a changing one, with its instant."""
    session = session_over(case, streams, mode, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "late_rows")
        query = session.sql(case.ours)
        if mode in ("whole", "flowing"):
            return list(query.to_arrow(batch_rows=draw.choice((1, 3, 17, 65536))).to_pylist())
        if mode == "final":
            return list(
                query.final().to_pylist()
                if (case.kind, case.output) == ("changing", "log")
                else query.to_arrow().to_pylist()
            )
        pieces = list(_pieces(case, streams, draw))
        if mode == "pushed":
            return _pushed(query, pieces, streams, case, draw, watch)
        return _durable(query, pieces, draw)


def _pieces(case: Case, streams: Streams, draw: random.Random) -> Iterator[Piece]:
    waiting = {name: list(streams.rows[name]) for name in sorted(case.streams)}
    fair = draw.random() < 0.5
    while any(waiting.values()):
        open_streams = [name for name in waiting if waiting[name]]
        name = min(open_streams, key=lambda one: waiting[one][0]["ts"]) if fair else draw.choice(open_streams)
        count = draw.choice((1, 1, 2, 5, 100))
        rows, waiting[name] = waiting[name][:count], waiting[name][count:]
        yield Piece(name, rows)
        if draw.random() < 0.15 and waiting[name]:
            yield Piece(name, [], min(micros(row["ts"]) for row in waiting[name]))


def _push(run: Any, piece: Piece, draw: random.Random) -> None:
    if piece.rows:
        run.push(piece.stream, piece.rows if draw.random() < 0.3 else pa.Table.from_pylist(piece.rows, SCHEMA))
    else:
        run.advance(piece.stream, moment(piece.until or 0))


def _pushed(
    query: Any, pieces: list[Piece], streams: Streams, case: Case, draw: random.Random, watch: Watch | None
) -> list[Row]:
    given: list[Row] = []
    passed = dict.fromkeys(case.streams, -(10**18))
    with query.start() as run:
        for piece in pieces:
            _push(run, piece, draw)
            reached = (
                piece.until
                if piece.until is not None
                else max(micros(r["ts"]) for r in piece.rows) - streams.lateness_us
            )
            passed[piece.stream] = max(passed[piece.stream], reached)
            given += run.take().to_pylist()
            if watch is not None and draw.random() < 0.3:
                watch(run.answer().to_pylist(), min(passed.values()) - 1)
        run.finish()
        given += run.take().to_pylist()
        if watch is not None:
            watch(run.answer().to_pylist(), None)
    return given


def _durable(query: Any, pieces: list[Piece], draw: random.Random) -> list[Row]:
    """Stopped and started again between pushes."""
    given: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        cuts = sorted(draw.randint(0, len(pieces)) for _ in range(draw.choice((0, 1, 3))))
        for begin, end in pairwise([0, *cuts, len(pieces)]):
            with query.start(
                checkpoint=Path(folder) / "state", on_answer=lambda batch: given.extend(batch.to_pylist())
            ) as run:
                for piece in pieces[begin:end]:
                    _push(run, piece, draw)
                if end == len(pieces):
                    run.finish()
                    break
    return given
