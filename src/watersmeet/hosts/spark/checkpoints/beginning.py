"""A query on Spark that goes on from a savepoint: what its checkpoint notes of that, for all its starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.checkpoints.checkpoint import METADATA, Checkpoint
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream
from watersmeet.hosts.spark.reading.file_stream import FileStream, FolderStream
from watersmeet.io.connectors.history import HistoryThenLive
from watersmeet.model.catalog import Stream, Table
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.plan.query import Plan
from watersmeet.plan.rewrite import with_relations
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.fitting import check_fits, check_kinds
from watersmeet.runtime.savepoints.folder import Savepoint
from watersmeet.runtime.savepoints.offsets import as_offsets

NOTE = "begun"


@dataclass(frozen=True)
class Beginning:
    """`place`, `query`, `mark`: which savepoint, and what of it. `places`: where streams are read from, by name.
    `buckets`: one, where a state does not divide by key; None: as many as the run has."""

    place: str
    query: str
    mark: str
    afresh: bool
    pipeline: str
    places: Mapping[str, Any]
    buckets: int | None = None

    @property
    def for_buckets(self) -> tuple[str, str, str]:
        return self.place, self.query, self.mark

    def begun(self, plan: Plan) -> Plan:
        """A query whose streams are read from there on, and which runs as the state asks."""

        def resumed(relation: Stream | Table) -> Stream | Table:
            if isinstance(relation, Table) or self.places.get(relation.name) is None:
                return relation
            if not isinstance(relation.source, FileStream | ConnectorStream):  # nobody reads it on Spark here
                return relation
            source = connected(relation)
            return replace(relation, source=replace(source, place=self.places[relation.name]))

        plan = replace(plan, root=with_relations(plan.root, resumed))
        if choose_pipeline(plan).pipeline == self.pipeline:
            return plan
        return replace(plan, options=plan.options.but(pipeline=self.pipeline))


def connected(stream: Stream) -> ConnectorStream:
    source = stream.source
    return source.connected(stream) if isinstance(source, FileStream) else source


def kind_of(stream: Stream) -> str | None:
    """What reads it, as a run in-process would say it (`readers.kind_of`)."""
    if not isinstance(stream.source, FileStream | ConnectorStream):
        return "a DataFrame"
    source = connected(stream)
    if isinstance(source, FolderStream):
        return "files of a path"
    connector = source.source.partitioned.connector
    kind = "files of an address" if connector == "files" else connector
    return f"a history, then {kind}" if isinstance(source.source.partitioned.inner, HistoryThenLive) else kind


def noted_beginning(checkpoint: Checkpoint) -> Beginning | None:
    noted = checkpoint.notes.get(NOTE)
    return None if noted is None else Beginning(**noted)


def begin_with(
    checkpoint: Checkpoint, savepoint: Savepoint, query: str, plan: Plan, buckets: int, *, afresh: bool
) -> tuple[Beginning, QueryContents | None]:
    """What a query begins with, noted in its checkpoint; and all of it, unless a start before has begun with it."""
    noted = noted_beginning(checkpoint)
    if noted is None and checkpoint.place.read(METADATA) is not None:
        raise _has_run(checkpoint, "has a run already, which did not begin with this savepoint")
    if noted is not None and noted.mark != savepoint.mark:
        raise _has_run(checkpoint, "is of a run that began with another savepoint")
    if noted is not None and checkpoint.place.read(METADATA) is not None:
        return noted, None
    contents = savepoint.query(query)
    check_fits(contents, plan)
    check_kinds(contents, {one.name: kind_of(one) for one in streams_below(plan.root)})
    made = beginning_with(savepoint, query, contents, plan, buckets, afresh=afresh)
    checkpoint.notes.note(begun=asdict(made))
    return made, contents


def beginning_with(
    savepoint: Savepoint, query: str, contents: QueryContents, plan: Plan, buckets: int, *, afresh: bool = False
) -> Beginning:
    """contents: what the savepoint says of the query, which fits."""
    places = {one.name: _offsets(one.name, contents) for one in streams_below(plan.root)}
    in_one = bool(contents.state.whole) and job_of(plan, {}, buckets).partitioning.buckets > 1
    return Beginning(
        _whole(savepoint.place), query, savepoint.mark, afresh, contents.pipeline, places, 1 if in_one else None
    )


def _offsets(name: str, contents: QueryContents) -> dict[str, Any] | None:
    place = contents.streams[name]
    if place.position is None:
        return None
    found = as_offsets(place.position)
    if found is None:
        raise SetupError(
            f"stream {name!r} was read from {place.kind} in a way that Spark cannot go on with",
            hint="go on in-process: --engine local",
        )
    return found


def _whole(place: Path | str) -> str:
    return place if isinstance(place, str) and "://" in place else str(Path(place).expanduser().absolute())


def _has_run(checkpoint: Checkpoint, what: str) -> SetupError:
    return SetupError(
        f"{checkpoint.folder} {what}",
        hint="begin with a new checkpoint; to go on with this one, leave the savepoint out",
    )
