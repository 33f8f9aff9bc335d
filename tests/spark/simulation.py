"""Spark's stateful stage in memory: micro-batches, a clock moved by hand, state that commits or rolls back, crashes.

Everything is deterministic, so a crash can be put at every single call to the state.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa

from tests.runners import Bag, Source, bag_of, bound_plan
from tests.spark.harness import NEVER_US, event_times
from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.output import REPORT, PackedOutput, unpacker
from watersmeet.hosts.spark.bucket.processor import BucketProcessor
from watersmeet.hosts.spark.bucket.stage import BucketStage, _unpickled
from watersmeet.hosts.spark.exchange.messages import NOW
from watersmeet.hosts.spark.exchange.pack import Packing, end_packets, packer, pulse_packets, waiting_packets
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.hosts.spark.packets import to_packet
from watersmeet.model.time import parse_interval
from watersmeet.plan.query import Plan

Pieces = Mapping[str, Sequence[pa.Table]]


def reports_in(frames: Iterable[pd.DataFrame]) -> list[str]:
    """What buckets told in frames that they gave."""
    return [text for frame in frames for text in frame[REPORT] if text is not None]


class CrashError(Exception):
    """The worker dies here."""


@dataclass
class Durable:
    """Committed state: variables by name and key."""

    variables: dict[str, dict[Any, Any]] = field(default_factory=dict)


class Handle:
    """The calls a processor may make, on a state that is thrown away unless the batch succeeds."""

    def __init__(self, state: Durable, called: Callable[[], None]) -> None:
        self.state = state
        self.called = called
        self.key: Any = None

    def getValueState(self, name: str, schema: str) -> Value:  # noqa: N802
        return Value(self, name)

    def getMapState(self, name: str, key_schema: str, schema: str) -> Map:  # noqa: N802
        return Map(self, name)


class Value:
    def __init__(self, handle: Handle, name: str) -> None:
        self.handle = handle
        self.held = handle.state.variables.setdefault(name, {})

    def get(self) -> Any:
        self.handle.called()
        return self.held.get(self.handle.key)

    def exists(self) -> bool:
        return self.get() is not None

    def update(self, value: tuple[Any, ...]) -> None:
        self.handle.called()
        self.held[self.handle.key] = value

    def clear(self) -> None:
        self.handle.called()
        self.held.pop(self.handle.key, None)


class Map:
    def __init__(self, handle: Handle, name: str) -> None:
        self.handle = handle
        self.held = handle.state.variables.setdefault(name, {})

    def _map(self) -> dict[Any, Any]:
        self.handle.called()
        return self.held.setdefault(self.handle.key, {})

    def getValue(self, key: tuple[Any, ...]) -> Any:  # noqa: N802
        return self._map().get(key)

    def containsKey(self, key: tuple[Any, ...]) -> bool:  # noqa: N802
        return key in self._map()

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self._map()[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        self._map().pop(key, None)

    def clear(self) -> None:
        self.handle.called()
        self.held.pop(self.handle.key, None)


class Admitting(BucketProcessor):
    """Notes which rows are in time."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.admitted: dict[str, list[pa.RecordBatch]] = {}

    def _arrived(self, stream: int, *others: Any) -> Any:
        rows = super()._arrived(stream, *others)
        self.admitted.setdefault(self.job.aliases[stream], []).append(rows.data)
        return rows


class Simulation:
    """A query over streams that arrive in pieces, one piece of each per micro-batch.

    crash_at: the numbers of the state calls, over the whole run, at which the worker dies. crash_everywhere: each
    batch is tried again and again, the worker dying at its first call, its second, and so on. after_crash: what is
    lost besides the batch. plan: that of the query, if a session has made it.
    """

    def __init__(
        self,
        sql: str,
        sources: Sequence[Source],
        buckets: int,
        crash_at: Sequence[int] = (),
        *,
        crash_everywhere: bool = False,
        after_crash: Callable[[], None] = lambda: None,
        between_batches: Callable[[], None] = lambda: None,
        plan: Plan | None = None,
    ) -> None:
        tables = {s.name: s.table for s in sources if s.time is None}
        packed = {name: to_packet(table.combine_chunks().to_batches(), table.schema) for name, table in tables.items()}
        self.streams = {s.name: s for s in sources if s.time is not None}
        self.job = job_of(plan or bound_plan(sql, sources), packed, buckets)
        self.crash_at = set(crash_at)
        self.crash_everywhere = crash_everywhere
        self.group = JobGroup((self.job,))
        self.after_crash = after_crash
        self.between_batches = between_batches
        self.state = Durable()
        self.calls = 0
        self.crashes = 0
        self.now_ms = 1_000_000
        self.marks = dict.fromkeys(self.streams, NEVER_US)
        self.watermark_us = NEVER_US
        self.frames: list[pd.DataFrame] = []
        self.admitted: dict[str, list[pa.RecordBatch]] = {}

    def run(self, pieces: Pieces) -> Bag:
        for i in range(max((len(parts) for parts in pieces.values()), default=0)):
            self.batch({name: parts[i] for name, parts in pieces.items() if i < len(parts)})
        return self.answer()

    def pulse(self, after_s: float) -> None:
        """Time goes on, and nothing comes."""
        self.now_ms += int(after_s * 1000)
        self._run(pa.Table.from_batches([pulse_packets(self.group.keys)]).to_pandas())

    def batch(self, arrived: Mapping[str, pa.Table], ended: Sequence[str] = (), run: str = "a run") -> None:
        """One micro-batch; the streams `ended` tell that they have, in a run of that name."""
        self._run(self._packed(arrived, ended, run))
        self._advance(arrived)
        self.between_batches()

    def partitions(self, name: str, arrived: Mapping[str, pa.Table], waiting: Sequence[str]) -> None:
        """One micro-batch of the partitions of a stream, of which others wait to be read."""
        packing = Packing(self.group, name)
        made = [waiting_packets(self.group, name, waiting)]
        for part, (partition, table) in enumerate(arrived.items()):
            made.append(packing.packets(table.combine_chunks().to_batches(), part, partition=partition))
        self._run(pa.Table.from_batches(made).to_pandas())

    def _run(self, packets: pd.DataFrame | None) -> None:
        """Try a batch until it succeeds."""
        survives = 0
        while True:
            attempt = deepcopy(self.state)
            if self.crash_everywhere:
                survives += 1
                self.crash_at = {self.calls + survives}
            try:
                frames, admitted = self._attempt(attempt, packets)
                break
            except CrashError:
                self.crashes += 1
                self.after_crash()
        self.state = attempt
        self.frames += frames
        for alias, rows in admitted.items():
            self.admitted.setdefault(alias, []).extend(rows)

    def answer(self) -> Bag:
        return bag_of(self.table())

    def table(self) -> pa.Table:
        payloads = [p for frame in self.frames for p in frame["payload"] if p is not None]
        batch = pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], ["payload"])
        schema = self.job.plan.output_schema
        found = list(unpacker(schema)(iter([batch])))
        return pa.Table.from_batches(found).cast(schema) if found else schema.empty_table()

    def reports(self) -> dict[int, dict[str, Any]]:
        """What every bucket told last."""
        told = map(json.loads, reports_in(self.frames))
        return {one["bucket"]: one for one in told if one["bucket"] in self.job.bucket_ids}

    def counted(self, name: str) -> int:
        texts = reports_in(self.frames)
        return sum(json.loads(text)["counts"].get(name, 0) for text in texts)

    def _packed(self, arrived: Mapping[str, pa.Table], ended: Sequence[str] = (), run: str = "") -> pd.DataFrame | None:
        made = []
        for name, table in arrived.items():
            if table.num_rows:
                made += packer(self.group, name)(iter(table.combine_chunks().to_batches()))
        made += [end_packets(self.group, {name}, run) for name in ended]
        return pa.Table.from_batches(made).to_pandas() if made else None

    def _attempt(
        self, state: Durable, packets: pd.DataFrame | None
    ) -> tuple[list[pd.DataFrame], dict[str, list[pa.RecordBatch]]]:
        handle = Handle(state, self._called)
        stage = BucketStage([(self.job, PackedOutput(self.job.plan.output_schema))])
        stage.init(handle)  # type: ignore[arg-type]
        processor = Admitting(*_unpickled(stage.shipped)[0], stage.meta, stage.segments)
        # Spark's own watermark decides nothing, so it may stand still.
        times = SimpleNamespace(getCurrentWatermarkInMs=int)
        frames: list[pd.DataFrame] = []
        for key, group in packets.assign(**{NOW: self.now_ms}).groupby("bucket") if packets is not None else ():
            handle.key = (key,)
            frames += processor.turn((key,), iter([group]), times)  # type: ignore[arg-type]
        stage.close()
        return frames, processor.admitted

    def _called(self) -> None:
        self.calls += 1
        if self.calls in self.crash_at:
            raise CrashError

    def _advance(self, arrived: Mapping[str, pa.Table]) -> None:
        """What the watermark must be now, if no stream may be idle."""
        for name, table in arrived.items():
            times = event_times(table, self.streams[name])
            if times.size:
                mark = int(times.max()) - parse_interval(self.streams[name].lateness)
                self.marks[name] = max(self.marks[name], mark)
        self.watermark_us = max(self.watermark_us, min(self.marks.values()))


def same_worker() -> None:
    """The worker caught the failure and goes on: all it had at hand and all warm copies are still there."""


def another_worker() -> None:
    """Another worker of the node takes over: the warm copies are still there."""
    warm_state._at_hand.clear()


def another_node() -> None:
    """Nothing is left but the committed state."""
    warm_state._at_hand.clear()
    _unpickled.cache_clear()
    shutil.rmtree(memory_folder.base_folder(), ignore_errors=True)


LOSSES = {loss.__name__.replace("_", " "): loss for loss in (same_worker, another_worker, another_node)}
