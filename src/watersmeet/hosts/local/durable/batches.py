"""What a batch brings, as steps, and as a record of the journal."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from watersmeet.hosts.local.durable.push_notes import Note, Notes
from watersmeet.io.connectors.contract import Range
from watersmeet.operators.contract import Rows

_SIZE = struct.Struct("<I")
Noted = tuple[Note, int]  # of how many rows


@dataclass(frozen=True)
class Step:
    """One thing that happens to a stream. Rows of a reader are known by where they lie; those that were pushed are
    written down themselves. `partition` is that of the rows, `partitions` are all that the reader knows of; `bad` are
    the records among the rows that could not be read. A table is known by the number of its load. "more" are further
    answers of the batch before, "given" are rows of the answer itself: they take back what was given of a batch that is
    left out."""

    kind: Literal["read", "pushed", "end", "promise", "flush", "table", "more", "given"]
    stream: str
    rows: pa.RecordBatch | None = None
    range: Range = None
    until_us: int = 0
    notes: Sequence[Noted] = ()  # by which rows that were pushed are known again
    partition: str = ""
    partitions: Sequence[str] = ()
    bad: pa.RecordBatch | None = None
    left_out: int = 0  # that lie there and come elsewhere


@dataclass(frozen=True)
class Ready:
    """A step with its rows, if it has any, whose times were looked at; the records that could not be read; and how many
    rows are skipped because they have no event time."""

    step: Step
    rows: Rows | None = None
    bad: pa.RecordBatch | None = None
    skipped: int = 0


def note_pushes(notes: Notes, steps: Sequence[Step], number: int) -> None:
    """By what the rows of a batch are known again."""
    for step in steps:
        for one, rows in step.notes:
            notes.add(step.stream, one, number, rows)


def together_bad(*parts: pa.RecordBatch | None) -> pa.RecordBatch | None:
    some = [one for one in parts if one is not None and one.num_rows]
    return pa.concat_batches(some) if some else None


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
    rows = pa.concat_batches([step.rows for step in steps])
    return Step("pushed", steps[0].stream, rows, notes=[note for step in steps for note in step.notes])


@dataclass(frozen=True)
class BatchRecord:
    """The steps of a batch in their order, and what the clock on the wall showed. At the end of every batch time is
    looked at. `part_rows`: when a batch has so many answers, those that follow are given under the next number."""

    number: int
    now_s: float
    today_us: int
    steps: Sequence[Step]
    part_rows: int

    def parts(self) -> list[Any]:
        """Its bytes, without copies of rows."""
        bodies: list[pa.Buffer] = []
        told: list[list[Any]] = []
        for step in self.steps:
            match step.kind:
                case "read":
                    told.append(["read", step.stream, step.range, *_partitions_told(step)])
                case "pushed":
                    assert step.rows is not None
                    bodies.append(step.rows.serialize())
                    noted = [[*note.as_json(), rows] for note, rows in step.notes]
                    told.append(["pushed", step.stream, bodies[-1].size, *noted])
                case "given":
                    assert step.rows is not None
                    bodies.append(step.rows.serialize())
                    told.append(["given", "", bodies[-1].size, step.range])
                case "end" | "flush" | "more":
                    told.append([step.kind, step.stream])
                case "table":
                    told.append(["table", step.stream, step.range])
                case "promise":
                    told.append(["promise", step.stream, step.until_us])
        head = json.dumps([self.now_s, self.today_us, self.part_rows, told], separators=(",", ":")).encode()
        return [_SIZE.pack(len(head)), head, *bodies]

    @classmethod
    def from_bytes(cls, number: int, data: bytes, schemas: Mapping[str, pa.Schema]) -> BatchRecord:
        """schemas: of the streams that are pushed, and under no name of the answer."""
        (size,) = _SIZE.unpack_from(data)
        now_s, today_us, part_rows, told = json.loads(data[_SIZE.size : _SIZE.size + size])
        at = _SIZE.size + size
        steps: list[Step] = []
        for kind, stream, *more in told:
            match kind:
                case "read":
                    partition, partitions = (more[1], more[2]) if len(more) > 1 else ("", ())
                    steps.append(Step("read", stream, range=more[0], partition=partition, partitions=partitions))
                case "pushed":
                    body = pa.py_buffer(data)[at : at + more[0]]
                    rows = pa.ipc.read_record_batch(body, schemas[stream])
                    steps.append(Step("pushed", stream, rows, notes=[_noted(one) for one in more[1:]]))
                    at += more[0]
                case "given":
                    body = pa.py_buffer(data)[at : at + more[0]]
                    steps.append(Step(kind, "", pa.ipc.read_record_batch(body, schemas[""]), range=more[1]))
                    at += more[0]
                case "end" | "flush" | "more":
                    steps.append(Step(kind, stream))
                case "table":
                    steps.append(Step("table", stream, range=more[0]))
                case "promise":
                    steps.append(Step("promise", stream, until_us=more[0]))
        return cls(number, now_s, today_us, steps, part_rows)

    @property
    def goes_on(self) -> bool:
        """Whether it is a further part of the batch before."""
        return any(step.kind == "more" for step in self.steps)


def _partitions_told(step: Step) -> list[Any]:
    return [step.partition, list(step.partitions)] if step.partition or step.partitions else []


def _noted(told: Sequence[Any]) -> Noted:
    key, sequence, digest, count = told
    return Note(key, sequence, digest), count
