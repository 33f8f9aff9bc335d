"""What a batch brings, as steps, and as a record of the journal."""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.idempotency import IdempotencyKey, TakenPushes
from watersmeet.hosts.local.pushed_execution import PUSHED
from watersmeet.io.connectors.contract import SourceBatch
from watersmeet.io.event_times import TimedBatch
from watersmeet.operators.saving import Saved
from watersmeet.runtime.bad_records import refusal
from watersmeet.runtime.clock import QueryClock
from watersmeet.runtime.placing import Placing

_SIZE = struct.Struct("<I")
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
KeyedRows = tuple[IdempotencyKey, int]  # how many rows


@dataclass(frozen=True)
class Begins:
    """What a query begins with: a `Beginning` as its state, where its readers go on, and which pushes are in."""

    state: Saved
    positions: Mapping[str, Any]
    pushed: Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One thing that happens to a stream. Rows of a reader are known by where they lie, and are not there before they
    are read again; those that were pushed are written down themselves. "more" are further answers of the batch before,
    "begin" is how a query begins beside others, "given" is what one gives that takes the place of another. `number`: of
    the load of a table, or how much memory there is."""

    kind: Literal["read", "pushed", "end", "promise", "flush", "table", "more", "begin", "memory", "given"]
    stream: str
    batch: SourceBatch | None = None
    until_us: int = 0
    keys: Sequence[KeyedRows] = ()  # by which rows that were pushed are known again
    number: int = 0
    begins: Begins | None = None
    given: pa.RecordBatch | None = None

    @property
    def num_rows(self) -> int:
        return 0 if self.batch is None else self.batch.rows.num_rows


@dataclass(frozen=True)
class Ready:
    """A step with its rows, if it has any, whose times were looked at."""

    step: Step
    timed: TimedBatch | None = None


@dataclass(frozen=True)
class LeftOut:
    """How many of the rows of a push are no part of the answer, and why."""

    late: int = 0
    skipped: int = 0
    bad: int = 0


@dataclass
class Arrived:
    """A step that waits for a batch. `logged` is told when it is written down, for whoever pushed it, and `left_out`
    when the batch was answered, with None if that failed."""

    step: Step
    rows: int
    logged: Future[int] | None = None
    left_out: Future[LeftOut | None] | None = None


def remember_pushes(taken: TakenPushes, steps: Sequence[Step], number: int) -> None:
    """By what the rows of a batch are known again."""
    for step in steps:
        for key, rows in step.keys:
            taken.add(step.stream, key, number, rows)


def together(steps: Sequence[Step]) -> list[Step]:
    """What was pushed into one stream by many calls, as one step: a stream does not make another late by coming first.
    Nothing moves past what is said of a stream's time."""
    return [as_one([steps[i] for i in places]) for places in mergeable(steps)]


def mergeable(steps: Sequence[Step]) -> list[list[int]]:
    """Which steps may be one, by their places, in the order in which they happen."""
    found: list[list[int]] = []
    pushed: dict[str, list[int]] = {}
    for place, step in enumerate(steps):
        if step.kind == "pushed" and step.stream in pushed:
            pushed[step.stream].append(place)
            continue
        found.append([place])
        if step.kind == "pushed":
            pushed[step.stream] = found[-1]
        else:
            pushed.clear()
    return found


def as_one(steps: Sequence[Step]) -> Step:
    if len(steps) == 1:
        return steps[0]
    batch = SourceBatch.of_all([step.batch for step in steps if step.batch is not None])
    return Step("pushed", steps[0].stream, batch, keys=[one for step in steps for one in step.keys])


class Admission:
    """Makes steps of what has come: their rows are looked at, and what does not fit is refused."""

    def __init__(self, clock: QueryClock) -> None:
        self._clock = clock

    def accepted(self, arrived: Sequence[Arrived]) -> list[Ready]:
        """The steps of a batch with their rows: what was pushed into one stream is one step. Whoever pushed what does
        not fit is told so, and it is in no step."""
        found: list[Ready] = []
        for places in mergeable([one.step for one in arrived]):
            some = [arrived[i] for i in places]
            try:
                step = as_one([one.step for one in some])
                found.append(self._checked(step))
            except Exception:
                fitting = [one.step for one in some if self._fits(one)]
                if fitting:
                    found.append(self._checked(as_one(fitting)))
        return found

    def ready(self, step: Step) -> Ready:
        """A step with its rows and their times, checked, apart from what could not be read."""
        if step.batch is None:
            return Ready(step)
        clock = self._clock.clocks[step.stream]
        if clock.ended:
            raise RunError(f"stream {step.stream!r} has ended, so no more rows of it can come")
        return Ready(
            step, clock.timed_batch(step.batch.rows, step.batch.bad, place=PUSHED if step.kind == "pushed" else None)
        )

    def _checked(self, step: Step) -> Ready:
        """Raises what ends the run before the step is written down: bad records, where the stream does not go on."""
        ready = self.ready(step)
        if ready.timed is not None and ready.timed.bad is not None:
            stream = self._clock.clocks[step.stream].stream
            if not stream.arrival.keeps_going:
                raise refusal(stream, ready.timed.bad)
        return ready

    def _fits(self, one: Arrived) -> bool:
        try:
            self._checked(one.step)
        except Exception as error:
            if one.logged is None:
                raise
            one.logged.set_exception(error)  # only what was pushed can be refused
            return False
        return True


@dataclass(frozen=True)
class BatchRecord:
    """The steps of a batch in their order, and what the clock on the wall showed. At the end of every batch time is
    looked at. `part_rows`: when a batch has so many answers, those that follow are given under the next number.
    `placing`: in which threads it was answered, as the order of the answers goes by that."""

    number: int
    now_s: float
    today_us: int
    steps: Sequence[Step]
    part_rows: int
    placing: Placing = Placing()

    def parts(self) -> list[Any]:
        """Its bytes, without copies of rows."""
        bodies: list[pa.Buffer] = []
        heads: list[list[Any]] = []
        for step in self.steps:
            match step.kind:
                case "read":
                    assert step.batch is not None
                    heads.append(["read", step.stream, step.batch.range, *_partitions_of(step.batch)])
                case "pushed":
                    assert step.batch is not None
                    bodies.append(step.batch.rows.serialize())
                    keys = [[*key.as_json(), rows] for key, rows in step.keys]
                    heads.append(["pushed", step.stream, bodies[-1].size, *keys])
                case "end" | "flush" | "more":
                    heads.append([step.kind, step.stream])
                case "table" | "memory":
                    heads.append([step.kind, step.stream, step.number])
                case "begin":
                    assert step.begins is not None
                    bodies.append(pa.py_buffer(step.begins.state.to_bytes()))
                    heads.append(["begin", "", bodies[-1].size, step.begins.positions, step.begins.pushed])
                case "given":
                    assert step.given is not None
                    bodies.append(step.given.serialize())
                    heads.append(["given", "", bodies[-1].size])
                case "promise":
                    heads.append(["promise", step.stream, step.until_us])
        head = _ENCODE([self.now_s, self.today_us, self.part_rows, heads, *self.placing.as_json()]).encode()
        return [_SIZE.pack(len(head)), head, *bodies]

    @classmethod
    def from_bytes(
        cls, number: int, data: bytes, schemas: Mapping[str, pa.Schema], reshaped: Collection[str] = ()
    ) -> BatchRecord:
        """schemas: of the streams, and under no name of the answer. reshaped: the streams that had other columns."""
        (size,) = _SIZE.unpack_from(data)
        now_s, today_us, part_rows, heads, *placing = json.loads(data[_SIZE.size : _SIZE.size + size])
        at = _SIZE.size + size
        steps: list[Step] = []
        for kind, stream, *more in heads:
            match kind:
                case "read":
                    partition, waiting = (more[1], tuple(more[2])) if len(more) > 1 else ("", ())
                    unread = pa.RecordBatch.from_pylist([], schemas[stream])
                    batch = SourceBatch(unread, range=more[0], partition=partition, waiting=waiting)
                    steps.append(Step("read", stream, batch))
                case "pushed" if stream.lower() in reshaped:
                    raise RunError(
                        f"stream {stream!r} has a new column, but the run before did not end as it should, and rows "
                        "that were pushed without it have to be repeated",
                        hint="start it once more with the columns as they were, stop it, then add the column",
                    )
                case "pushed":
                    body = pa.py_buffer(data)[at : at + more[0]]
                    rows = pa.ipc.read_record_batch(body, schemas[stream])
                    steps.append(Step("pushed", stream, SourceBatch(rows), keys=[_keyed_rows(one) for one in more[1:]]))
                    at += more[0]
                case "end" | "flush" | "more":
                    steps.append(Step(kind, stream))
                case "table" | "memory":
                    steps.append(Step(kind, stream, number=more[0]))
                case "begin":
                    state = Saved.from_bytes(data[at : at + more[0]])
                    steps.append(Step("begin", "", begins=Begins(state, more[1], more[2])))
                    at += more[0]
                case "given":
                    body = pa.py_buffer(data)[at : at + more[0]]
                    steps.append(Step("given", "", given=pa.ipc.read_record_batch(body, schemas[""])))
                    at += more[0]
                case "promise":
                    steps.append(Step("promise", stream, until_us=more[0]))
        return cls(number, now_s, today_us, steps, part_rows, Placing(*placing))

    @property
    def goes_on(self) -> bool:
        """Whether it is a further part of the batch before."""
        return any(step.kind == "more" for step in self.steps)


def _partitions_of(batch: SourceBatch) -> list[Any]:
    return [batch.partition, list(batch.waiting)] if batch.partition or batch.waiting else []


def _keyed_rows(written: Sequence[Any]) -> KeyedRows:
    name, sequence, digest, count = written
    return IdempotencyKey(name, sequence, digest), count
