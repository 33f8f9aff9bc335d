"""The queries and streams of a server, by name, and what is told of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from time import time
from typing import Any, TypeVar

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.explain.explaining import explained
from watersmeet.hosts.local.durable.run import DurableRun
from watersmeet.hosts.local.host import LocalHost
from watersmeet.model.catalog import Stream
from watersmeet.model.names import nearest
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.types import sql_type
from watersmeet.plan.explaining import Explaining
from watersmeet.plan.nodes import relations_below
from watersmeet.runtime.script import Job
from watersmeet.serve.change_log import ChangeLog
from watersmeet.serve.history import History
from watersmeet.serve.http_error import HttpError
from watersmeet.serve.limits import Limits

T = TypeVar("T")
SAMPLED = ("rows_in", "results", "late_rows", "window_rows", "state_bytes", "watermark_us", "recall", "plan_switches")


class ServedQuery:
    def __init__(self, job: Job, run: DurableRun, limits: Limits) -> None:
        self.name = job.name
        self.job = job
        self.run = run
        self.log = ChangeLog(run.name, job.plan.output_schema, limits.kept_rows, limits.kept_bytes)
        run.on_answers = self.log.add
        self.history = History()
        self._present: tuple[int, pa.Table] | None = None
        self._presenting = Lock()

    def started(self) -> None:
        """What the run has repeated is in the log; what was before is not."""
        self.log.begin_after(self.run.answered_before)

    @property
    def changes(self) -> bool:
        """Whether it has an answer that changes."""
        return self.job.plan.kind == "changes"

    @property
    def streams(self) -> list[str]:
        return self.run.fed.streams

    def metrics(self) -> dict[str, Any]:
        return self.run.latest_json()

    def present(self) -> tuple[pa.Table, int]:
        """The answer, and the batch after which it is that; worked out once for many who ask."""
        if not self.changes:
            raise HttpError(
                409,
                f"the answer of {self.name!r} only grows, so there is no present one",
                "its last rows are at …/rows, and all that come at …/changes",
            )
        with self._presenting:
            if self._present is None or self._present[0] != self.run.number:
                table, number = self.run.present()
                assert table is not None
                self._present = number, table
            return self._present[1], self._present[0]

    def sample(self) -> dict[str, Any]:
        """The numbers of this moment, for the page."""
        metrics = self.run.latest_json()
        return {
            "time_s": round(time(), 3),
            **{name: metrics[name] for name in SAMPLED},
            "newest_us": _known_us(max(clock.newest_us for clock in self.run.fed.clock.clocks.values())),
            "batches": self.run.number + 1,
            "batch_seconds": round(self.run.batch_seconds, 6),
            "taken": {name: self.run.taken(name) for name in self.streams},
        }

    @cached_property
    def _plan_json(self) -> Any:
        return json.loads(explained(self.job.plan, Explaining("json"), LocalHost()))

    @cached_property
    def _plan_text(self) -> str:
        return explained(self.job.plan, Explaining("text"), LocalHost())

    def brief(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "answer": self.job.plan.kind,
            "columns": columns_json(self.job.plan.output_schema),
            "streams": self.streams,
            "batch": self.run.number,
            "metrics": self.metrics(),
        }

    def whole(self) -> dict[str, Any]:
        return {
            **self.brief(),
            "sql": self.job.plan.sql,
            "plan": self._plan_json,
            "plan_text": self._plan_text,
            "checkpoint": {
                "first_batch": self.run.first_number,
                "repeated_batches": self.run.repeated_batches,
                "saved_batch": self.run.snapshot_number,
                "longest_pause_s": round(self.run.snapshot_pause_s, 6),
            },
        }


class ServedStream:
    def __init__(self, stream: Stream, queries: Sequence[ServedQuery]) -> None:
        self.stream = stream
        self.name = stream.name
        self._queries = queries

    @property
    def schema(self) -> pa.Schema:
        """What rows have that are posted."""
        return self.stream.given_schema

    def checked(self, rows: Any) -> list[pa.RecordBatch]:
        return self._queries[0].run.checked(self.name, rows)

    def check_posted(self) -> None:
        if self.stream.source is not None:
            raise HttpError(
                409,
                f"stream {self.name!r} has data of its own, so no rows of it can be posted",
                "leave its source out of the script, then rows are posted",
            )

    def advance(self, until_us: int) -> dict[str, Any]:
        """Tell all queries that no row before this time will come. To tell them again does no harm."""
        try:
            return {
                "stream": self.name,
                "batches": {one.name: one.run.advance(self.name, until_us) for one in self._queries},
            }
        except RunError as error:
            raise HttpError.of(503 if not self._queries[0].run.is_open else 409, error) from None

    def told(self) -> dict[str, Any]:
        """`taken` and `sequences` are what all queries have, as a post counts when all have it."""
        clocks = {one.name: one.run.fed.clock.clocks[self.name] for one in self._queries}
        taken = {one.name: one.run.taken(self.name) for one in self._queries}
        newest_us = max(clock.newest_us for clock in clocks.values())
        return {
            "name": self.name,
            "columns": columns_json(self.schema),
            "time": self.stream.time,
            "lateness_us": self.stream.lateness_us,
            "posted": self.stream.source is None,
            "taken": min(taken.values()),
            "taken_by_query": taken,
            "late_by_query": {name: clock.late_rows for name, clock in clocks.items()},
            "newest_us": _known_us(newest_us),
            "sequences": self._sequences(),
        }

    def _sequences(self) -> dict[str, int]:
        each = [one.run.notes.sequences(self.name) for one in self._queries]
        names = dict.fromkeys(name for some in each for name in some)
        return {name: min(some.get(name, 0) for some in each) for name in names}


class Served:
    def __init__(self, jobs: Iterable[Job], runs: Mapping[str, DurableRun], limits: Limits) -> None:
        self.queries = {job.name: ServedQuery(job, runs[job.name], limits) for job in jobs}
        found = {
            one.name: one
            for query in self.queries.values()
            for one in relations_below(query.job.plan.root)
            if isinstance(one, Stream)
        }
        self.streams = {
            name: ServedStream(stream, [one for one in self.queries.values() if name in one.streams])
            for name, stream in found.items()
        }

    def started(self) -> None:
        for query in self.queries.values():
            query.started()

    def query(self, name: str) -> ServedQuery:
        return _named(name, self.queries, "query")

    def stream(self, name: str) -> ServedStream:
        return _named(name, self.streams, "stream that a query reads")


def _named(name: str, known: Mapping[str, T], what: str) -> T:
    """By its name in any case; `query_1` is `query 1`."""
    for own, one in known.items():
        if name.lower() in (own.lower(), own.lower().replace(" ", "_")):
            return one
    meant = nearest(name, list(known))
    raise HttpError(
        404,
        f"there is no {what} named {name!r}",
        f"did you mean {meant!r}?" if meant else f"there are {', '.join(known)}",
    )


def _known_us(instant_us: int) -> int | None:
    return instant_us if BEGINNING_US < instant_us < FOREVER_US else None


def columns_json(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": sql_type(field.type)} for field in schema]
