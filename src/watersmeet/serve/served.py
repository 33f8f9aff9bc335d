"""The queries and streams of a server, by name, and what is told of them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from threading import Lock
from time import time
from typing import Any, TypeVar

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.explain.explaining import explained
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.watched import WatchedDurable
from watersmeet.hosts.local.host import LocalHost
from watersmeet.model.catalog import Stream
from watersmeet.model.names import nearest
from watersmeet.model.types import sql_type
from watersmeet.plan.explaining import Explaining
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.host import Host
from watersmeet.runtime.script import Job
from watersmeet.runtime.watched import Failure, Watched
from watersmeet.serve.change_log import ChangeLog
from watersmeet.serve.http_error import HttpError
from watersmeet.serve.limits import Limits

T = TypeVar("T")
SAMPLED = ("rows_in", "results", "late_rows", "kept_rows", "state_bytes", "watermark_us", "recall", "plan_switches")


class ServedQuery:
    def __init__(self, job: Job, watched: Watched, host: Host, limits: Limits) -> None:
        self.name = job.name
        self.job = job
        self.watched = watched
        self._host = host
        self.streams = list(_streams_of(job))
        self.log = ChangeLog(watched.life, job.plan.output_schema, limits.kept_rows, limits.kept_bytes)
        watched.on_answers = self.log.add
        self.history = History()
        self._present: tuple[pa.Table, int] | None = None
        self._presenting = Lock()

    def started(self) -> None:
        """What the run has repeated is in the log; what was before is not."""
        self.log.begin_after(self.watched.answered_before)

    @property
    def changes(self) -> bool:
        """Whether it has an answer that changes."""
        return self.job.plan.kind == "changes"

    def metrics(self) -> dict[str, Any]:
        return self.watched.metrics()

    def of_streams(self, metrics: Mapping[str, Any], name: str) -> dict[str, int]:
        """A metric by stream; of a query over one stream, where nobody tells it, what came is that stream's."""
        by_stream: dict[str, int] = metrics.get(name) or {}
        if not by_stream and name == "rows_by_stream" and len(self.streams) == 1:
            return {self.streams[0]: metrics["rows_in"]}
        return by_stream

    def present(self) -> tuple[pa.Table, int]:
        """The answer, and the batch after which it is that; worked out once for many who ask."""
        if not self.changes:
            raise HttpError(
                409,
                f"the answer of {self.name!r} only grows, so there is no present one",
                "its last rows are at …/rows, and all that come at …/changes",
            )
        with self._presenting:
            if self._present is None or self._present[1] != self.watched.number:
                self._present = self.watched.present()
            if self._present is None:
                raise HttpError(
                    409,
                    f"nobody adds up the changes of {self.name!r} where it runs, so there is no present answer",
                    "its last changes are at …/rows, if they can be seen here",
                )
            return self._present

    def check_rows(self) -> None:
        if self.watched.rows_missing is not None:
            raise HttpError(409, f"no rows of {self.name!r} can be shown: {self.watched.rows_missing}")

    def sample(self) -> dict[str, Any]:
        """The numbers of this moment, for the page."""
        metrics = self.metrics()
        newest = self.of_streams(metrics, "newest_by_stream")
        return {
            "time_s": round(time(), 3),
            **{name: metrics[name] for name in SAMPLED},
            "newest_us": max(newest.values(), default=None),
            "batches": self.watched.number + 1,
            "batch_seconds": round(self.watched.batch_seconds, 6),
            "taken": self.of_streams(metrics, "rows_by_stream"),
        }

    @cached_property
    def _plan_json(self) -> Any:
        return json.loads(explained(self.job.plan, Explaining("json"), self._host))

    @cached_property
    def _plan_text(self) -> str:
        return explained(self.job.plan, Explaining("text"), self._host)

    def brief(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.watched.state,
            "failure": self.failure_json(),
            "answer": self.job.plan.kind,
            "presents": self.changes and self.watched.present_is_known,
            "rows_missing": self.watched.rows_missing,
            "columns": columns_json(self.job.plan.output_schema),
            "streams": self.streams,
            "batch": self.watched.number,
            "metrics": self.metrics(),
        }

    @property
    def failure(self) -> Failure | None:
        failure = self.watched.failure
        return None if failure is None else failure.of_query(self.name)

    def failure_json(self) -> dict[str, Any] | None:
        return None if self.failure is None else asdict(self.failure)

    def check_answers(self) -> None:
        """Whether it still gives answers."""
        if self.failure is not None:
            raise HttpError(503, self.failure.error, self.failure.hint, batch=self.failure.batch)

    def whole(self) -> dict[str, Any]:
        return {
            **self.brief(),
            "sql": self.job.plan.sql,
            "plan": self._plan_json,
            "plan_text": self._plan_text,
            **self.watched.about(),
        }


class ServedStream:
    def __init__(self, stream: Stream, queries: Sequence[ServedQuery], runs: Mapping[str, DurableExecution]) -> None:
        """runs: those that rows can be posted to, by query; none where one may only look."""
        self.stream = stream
        self.name = stream.name
        self._queries = queries
        self._runs = {one.name: runs[one.name] for one in queries if one.name in runs}

    @property
    def schema(self) -> pa.Schema:
        """What rows have that are posted."""
        return self.stream.given_schema

    @property
    def is_posted(self) -> bool:
        return bool(self._runs) and self.stream.source is None

    def checked(self, rows: Any) -> list[pa.RecordBatch]:
        return next(iter(self._runs.values())).checked(self.name, rows)

    def check_posted(self) -> None:
        if not self._runs:
            raise HttpError(
                409,
                "this is a run that one may look at, so no rows can be posted",
                "watersmeet serve FILE.sql takes rows by POST",
            )
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
                "batches": {name: run.advance(self.name, until_us) for name, run in self._runs.items()},
            }
        except RunError as error:
            is_open = all(run.is_open for run in self._runs.values())
            raise HttpError.of(409 if is_open else 503, error) from None

    def as_json(self) -> dict[str, Any]:
        """`taken` and `sequences` are what all queries have, as a post counts when all have it."""
        metrics = {one.name: one.metrics() for one in self._queries}
        taken = {one.name: self._of(one, metrics, "rows_by_stream") or 0 for one in self._queries}
        taken |= {name: run.taken(self.name) for name, run in self._runs.items()}  # also what a failed one has not seen
        newest = [self._of(one, metrics, "newest_by_stream") for one in self._queries]
        return {
            "name": self.name,
            "columns": columns_json(self.schema),
            "time": self.stream.time,
            "lateness_us": self.stream.lateness_us,
            "posted": self.is_posted,
            "taken": min(taken.values()),
            "taken_by_query": taken,
            "late_by_query": {one.name: self._of(one, metrics, "late_by_stream") or 0 for one in self._queries},
            "newest_us": max((us for us in newest if us is not None), default=None),
            "sequences": self._sequences(),
        }

    def _of(self, query: ServedQuery, metrics: Mapping[str, Mapping[str, Any]], name: str) -> int | None:
        return query.of_streams(metrics[query.name], name).get(self.name)

    def _sequences(self) -> dict[str, int]:
        each = [run.taken_pushes.sequences(self.name) for run in self._runs.values()]
        names = dict.fromkeys(name for some in each for name in some)
        return {name: min(some.get(name, 0) for some in each) for name in names}


class Served:
    """Queries that one may look at and, of those in `runs`, post rows to."""

    def __init__(
        self,
        jobs: Iterable[Job],
        watched: Mapping[str, Watched],
        limits: Limits,
        host: Host,
        runs: Mapping[str, DurableExecution] | None = None,
    ) -> None:
        self.runs = dict(runs or {})
        self.queries = {job.name: ServedQuery(job, watched[job.name], host, limits) for job in jobs}
        found = {name: one for query in self.queries.values() for name, one in _streams_of(query.job).items()}
        self.streams = {
            name: ServedStream(stream, [one for one in self.queries.values() if name in one.streams], self.runs)
            for name, stream in found.items()
        }

    @classmethod
    def posted(cls, jobs: Sequence[Job], runs: Mapping[str, DurableExecution], limits: Limits) -> Served:
        """All of it: to look at, and to post to."""
        watched = {name: WatchedDurable(run) for name, run in runs.items()}
        return cls(jobs, watched, limits, LocalHost(), runs)

    def started(self) -> None:
        for query in self.queries.values():
            query.started()

    def query(self, name: str) -> ServedQuery:
        return _named(name, self.queries, "query")

    def stream(self, name: str) -> ServedStream:
        return _named(name, self.streams, "stream that a query reads")


def _streams_of(job: Job) -> dict[str, Stream]:
    return {one.name: one for one in streams_below(job.plan.root)}


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


def columns_json(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": sql_type(field.type)} for field in schema]


EVERY_S = 1.0
MOST = 900


class History:
    """What the numbers of a query were in the last minutes, so that a page that is opened has something to draw."""

    def __init__(self) -> None:
        self._samples: deque[dict[str, Any]] = deque(maxlen=MOST)

    def add(self, sample: dict[str, Any]) -> None:
        self._samples.append(sample)

    def since(self, time_s: float) -> list[dict[str, Any]]:
        """What was noted after a time."""
        return [one for one in list(self._samples) if one["time_s"] > time_s]
