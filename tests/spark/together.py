"""Queries that Spark runs as one, without Spark: their stage in memory, as a team and each by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa

from tests.runners import Bag, Source, bag_of, bound_plan
from tests.spark.harness import NEVER_US
from tests.spark.simulation import Durable, Handle, Pieces, Simulation, reports_in
from watersmeet.hosts.spark.bucket.output import QUERY, SIDE, PackedOutput, unpacker
from watersmeet.hosts.spark.bucket.stage import BucketStage
from watersmeet.hosts.spark.exchange.messages import NOW
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.ids import slot_of
from watersmeet.hosts.spark.jobs.job import AtStart, SparkJob
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.hosts.spark.jobs.team import TeamJob, teams_among

# What a query counts as it would alone, whoever keeps its rows.
COUNTED = ("rows_in", "results", "stored_rows", "expired_rows", "late_rows")
HELD = ("kept_rows", "window_rows", "window_rows_by_input", "late", "clock", "rows_by_stream", "newest_by_stream")


def jobs_of(queries: Mapping[str, str], sources: Sequence[Source], buckets: int) -> list[SparkJob]:
    """In slots of their own, in their order."""
    return [
        replace(job_of(bound_plan(sql, sources), {}, buckets, AtStart(query=name)), slot=slot)
        for slot, (name, sql) in enumerate(queries.items())
    ]


def as_teams(jobs: Sequence[SparkJob]) -> list[SparkJob]:
    """Those of a group that may be one job as one, the others as they are."""
    teams = teams_among(jobs)
    made = [TeamJob.of(members, len(jobs) + number) for number, members in enumerate(teams)]
    return [*made, *(job for job in jobs if not any(job in members for members in teams))]


class Together(Simulation):
    """As Simulation, of several jobs; what each query says is told by its slot."""

    def __init__(
        self,
        jobs: Sequence[SparkJob],
        sources: Sequence[Source],
        crash_at: Sequence[int] = (),
        *,
        crash_everywhere: bool = False,
        after_crash: Callable[[], None] = lambda: None,
        between_batches: Callable[[], None] = lambda: None,
    ) -> None:
        self.streams = {source.name: source for source in sources}
        self.crash_at, self.crash_everywhere = set(crash_at), crash_everywhere
        self.after_crash, self.between_batches = after_crash, between_batches
        self.state = Durable()
        self.calls = self.crashes = 0
        self.now_ms = 1_000_000
        self.marks = dict.fromkeys(self.streams, NEVER_US)
        self.watermark_us = NEVER_US
        self.frames: list[pd.DataFrame] = []
        self.admitted: dict[str, list[pa.RecordBatch]] = {}
        self.start(jobs)

    def start(self, jobs: Sequence[SparkJob], gone: Sequence[int] = ()) -> None:
        """Go on with these."""
        self.group = JobGroup(tuple(jobs), tuple(gone))

    def run_all(self, pieces: Pieces) -> None:
        for number in range(max(map(len, pieces.values()))):
            self.batch({name: parts[number] for name, parts in pieces.items() if number < len(parts)})

    @property
    def queries(self) -> dict[int, SparkJob]:
        return {query.slot: query for job in self.group.jobs for query in job.queries}

    def _packed(self, arrived: Mapping[str, pa.Table], *given: Any) -> pd.DataFrame | None:
        """Of streams that are read still."""
        return super()._packed({name: table for name, table in arrived.items() if self.group.reading(name)}, *given)

    def _attempt(
        self, state: Durable, packets: pd.DataFrame | None
    ) -> tuple[list[pd.DataFrame], dict[str, list[pa.RecordBatch]]]:
        handle = Handle(state, self._called)
        outputs = [
            (job, [PackedOutput(query.plan.output_schema, slot=query.slot) for query in job.queries])
            for job in self.group.jobs
        ]
        stage = BucketStage(outputs)
        stage.init(handle)  # type: ignore[arg-type]
        times: Any = SimpleNamespace(getCurrentWatermarkInMs=int)
        frames: list[pd.DataFrame] = []
        for key, group in packets.assign(**{NOW: self.now_ms}).groupby("bucket") if packets is not None else ():
            handle.key = (key,)
            frames += stage.handleInputRows((key,), iter([group]), times)
        stage.close()
        return frames, {}

    def answer_of(self, slot: int) -> Bag:
        found = (frame[frame[QUERY] == slot] for frame in self.frames)
        payloads = [one for frame in found for one in frame["payload"] if one is not None]
        batch = pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], ["payload"])
        schema = self.queries[slot].plan.output_schema
        rows = list(unpacker(schema)(iter([batch])))
        return bag_of(pa.Table.from_batches(rows).cast(schema) if rows else schema.empty_table())

    @property
    def answers(self) -> dict[int, Bag]:
        return {slot: self.answer_of(slot) for slot in sorted(self.queries)}

    def told_of(self, slot: int) -> list[dict[str, Any]]:
        found = map(json.loads, reports_in(self.frames))
        return [one for one in found if slot_of(one["bucket"]) == slot]

    def counts_of(self, slot: int) -> dict[str, int]:
        told = self.told_of(slot)
        return {name: sum(one["counts"].get(name, 0) for one in told) for name in COUNTED}

    def held_of(self, slot: int) -> list[dict[str, Any]]:
        """What was told in every batch of how things stand, by buckets in any order."""
        return [{name: one[name] for name in HELD if name in one} for one in self.told_of(slot) if "kept_rows" in one]

    @property
    def side_packets(self) -> int:
        return sum(int(frame[SIDE].notna().sum()) for frame in self.frames if SIDE in frame)

    @property
    def rows_kept(self) -> int:
        """Of the logs, as the state has them."""
        manifests = [json.loads(bytes(meta[2])) for (key,), meta in self.state.variables["meta"].items() if key >= 0]
        return sum(one["rows"] for manifest in manifests for log in manifest["segments"].values() for one in log)

    @property
    def keys_kept(self) -> set[int]:
        return {key for (key,) in self.state.variables["meta"]}
