"""What a query on Spark says of itself in a savepoint, as its checkpoint has it after its last batch.

Nothing runs: the operators of all buckets are rebuilt here from what the state store holds, and their states brought
together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError, UnsupportedError, WatersmeetError
from watersmeet.hosts.spark.bucket.clocks import BucketClock
from watersmeet.hosts.spark.bucket.log import BucketLog, Manifest
from watersmeet.hosts.spark.bucket.moving import gathered, key_of
from watersmeet.hosts.spark.bucket.rebuilding import rebuilt
from watersmeet.hosts.spark.checkpoints.beginning import Beginning
from watersmeet.hosts.spark.checkpoints.checkpoint import COMMITS, METADATA, OFFSETS
from watersmeet.hosts.spark.checkpoints.members import FOLDER
from watersmeet.hosts.spark.checkpoints.place import SparkPlace
from watersmeet.hosts.spark.checkpoints.replacing import refuse_replaced
from watersmeet.hosts.spark.checkpoints.state_files import (
    Kept,
    NotReadableError,
    Packet,
    RocksReader,
    Stage,
    StateFiles,
    stages_of,
    unpacked_stages,
)
from watersmeet.hosts.spark.jobs.ids import name_of_source
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.jobs.kinds import in_stages, job_of
from watersmeet.hosts.spark.jobs.team import TeamMember
from watersmeet.hosts.spark.packets import to_packet
from watersmeet.hosts.spark.paths import NOTES
from watersmeet.io.connectors.readers import kind_of, reader_of
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.saving import Saved, load_state
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.changes import options_of
from watersmeet.runtime.checkpoints import CheckpointNotes, folder_name
from watersmeet.runtime.kept_of_joins import kept_of_join
from watersmeet.runtime.reloading import loaded
from watersmeet.runtime.savepoints.contents import QueryContents, StreamPlace
from watersmeet.runtime.savepoints.moments import moment_of
from watersmeet.runtime.savepoints.offsets import as_position
from watersmeet.runtime.side_output import side_run

HOST = "Spark"


def is_checkpoint(folder: Path) -> bool:
    """Whether a query on Spark wrote this folder."""
    return (folder / METADATA).is_file()


def checkpoint_of(folder: Path, query: str, *, alone: bool) -> Path:
    """Where a query of a run has its checkpoint: `alone`, it is all that the run has; else it has one of its own below,
    or one together with others."""
    if is_checkpoint(folder) and alone:
        return folder
    for one in sorted(folder.glob(f"{FOLDER}*")):
        together = CheckpointNotes(SparkPlace(None, str(one), is_here=True), NOTES).get("together")
        if together is not None and query in together["queries"]:
            return one
    return folder / folder_name(query)


def newest_batch(folder: Path) -> int:
    """The last that has ended."""
    return max((int(one.name) for one in (folder / COMMITS).glob("*") if one.name.isdigit()), default=-1)


def scripts_of(folder: Path) -> list[str]:
    """Where the script lay whose queries have their checkpoints there."""
    found = [one for one in (folder, *sorted(folder.glob("*/"))) if is_checkpoint(one)]
    noted = (CheckpointNotes(SparkPlace(None, str(one), is_here=True), NOTES).get("script") for one in found)
    return list(dict.fromkeys(one for one in noted if one is not None))


@dataclass(frozen=True)
class Stands:
    """Where a query stands: `contents` after its last batch, in so many `buckets`. `is_answered`: whether all that
    waited was answered then, as a run ended there."""

    contents: QueryContents
    is_answered: bool
    buckets: int


def read_stand(folder: Path, plan: Plan, query: str, together: Sequence[Plan]) -> Stands:
    """Of the checkpoint of a query on this machine, after the last batch that has ended. Nothing is changed, so the
    query may be running. together: the plans of all queries that have it, in their order."""
    refuse_replaced(folder, query)
    notes, slot, team = CheckpointNotes(SparkPlace(None, str(folder), is_here=True), NOTES), 0, None
    owner, begun, run = notes.get("owner"), notes.get("begun"), notes.get("run", "")
    if (shared := notes.get("together")) is not None:
        if query not in shared["queries"]:
            raise RunError(f"{folder} has no query {query!r}; it has {', '.join(shared['queries'])}")
        member = shared["queries"][query]
        owner, slot, team, run = member["owner"], member["slot"], member.get("team"), side_run(run, query)
    if owner is None:
        raise RunError(f"{folder} does not say whose it is", hint="start the query there once more, and stop it")
    running = plan if begun is None else Beginning(**begun).begun(plan)
    if in_stages(running) is not None:
        raise UnsupportedError(
            f"{query} runs in two stages on Spark, and what it remembers there is not what one process would",
            hint="what moves is a query whose streams are cut by one key: EXPLAIN says which are",
        )
    tables = [one for one in plan.relations if isinstance(one, Table)]
    job = job_of(running, {one.name: to_packet(list(loaded(one)), one.schema) for one in tables}, owner["buckets"])
    job = replace(job, slot=slot) if team is None else TeamMember.of(job, team)
    if not job.is_stateless and [job.fingerprint] != owner["states"]:
        raise RunError(
            f"{folder} belongs to another query, or to the same one with other columns:\n{owner['sql']}",
            hint="name the script that was running: --script FILE.sql",
        )
    try:
        files = StateFiles.of(folder, None)
        stage = _stage(files, job) if not job.is_stateless else Stage(None, (), {})
    except NotReadableError as why:
        raise UnsupportedError(f"the state in {folder} cannot be read without Spark: {why}") from None
    batch, (now_us, offsets) = files.version - 1, _offsets(folder / OFFSETS / str(files.version - 1))
    streams = {one.name: one for other in together for one in streams_below(other.root)}
    by_place = dict(zip(streams, offsets, strict=False))
    said = by_place if shared is None else _by_name(streams, offsets)
    found = {name: _place(streams[name], offset) for name, offset in said.items()}
    places = {one.name: found[one.name] for one in streams_below(plan.root)}
    contents = contents_of(job, stage, places, run or owner["run"], batch, now_us, options_of(plan))
    manifests = [Manifest.from_bytes(one.manifest) for one in stage.buckets]
    return Stands(contents, any(map(_is_answered, manifests)), owner["buckets"])


def _is_answered(manifest: Manifest) -> bool:
    """At the end of a run more is answered than the clock of the streams tells."""
    if manifest.clock is None:
        return False
    told_us = Saved(manifest.clock).values["watermark_us"]
    return isinstance(told_us, int) and manifest.complete_until > told_us


def _stage(files: StateFiles, job: SparkJob) -> Stage:
    """That of the query: several may be read together, each with keys of its own."""
    with RocksReader() as reader:
        (number,) = stages_of(files.checkpoint)
        stages = unpacked_stages(files.variables(number, reader))
    own = (one for one in stages if any(kept.bucket in job.bucket_ids for kept in one.buckets))
    return next(own, Stage(None, (), {}))


def _offsets(path: Path) -> tuple[int, list[str]]:
    """The time of a batch, and how far it read each of its sources, in the order of the plan."""
    _, about, *offsets = path.read_text(encoding="utf-8").splitlines()
    return json.loads(about)["batchTimestampMs"] * 1000, offsets


def _by_name(streams: Iterable[str], offsets: Iterable[str]) -> dict[str, str]:
    """Where several queries run as one, sources come and go, and Spark knows them by their names."""
    said = dict(offset.split(":", 1) for offset in offsets if ":" in offset)
    return {name: said.get(name_of_source(name), "-") for name in streams}


def _place(stream: Stream, offset: str) -> StreamPlace:
    """What Spark's own readers note moves nowhere."""
    kind, said = _kind_of(stream), None
    with suppress(ValueError):
        said = json.loads(offset)
    if kind is None or not isinstance(said, dict) or "upto" not in said:
        return StreamPlace(kind or "a source of Spark's", None, BEGINNING_US, FOREVER_US, moves=False)
    place = {"offsets": json.loads(said["upto"]), "inside": None}
    place |= {"files": json.loads(said["files"])} if "files" in said else {}
    place |= {"of": said["of"]} if "of" in said else {}
    return StreamPlace(kind, as_position(kind, place), BEGINNING_US, FOREVER_US)


def _kind_of(stream: Stream) -> str | None:
    """As a run in-process says it: the script was read as one would read it."""
    with suppress(WatersmeetError):
        reader = reader_of(stream)
        try:
            return kind_of(reader)
        finally:
            reader.close()
    return None


def contents_of(
    job: SparkJob,
    stage: Stage,
    places: Mapping[str, StreamPlace],
    run: str,
    batch: int,
    now_us: int,
    options: Mapping[str, str] | None = None,
) -> QueryContents:
    """places: how far streams were read, by their names. now_us: the time of the batch. options: as the query says
    them, if it runs with others."""
    logs = _logs(job, stage)
    operators = [rebuilt(job, log) if log is not None else job.make_operator() for log in logs]
    manifest = next((log.manifest for log in logs if log is not None), Manifest())
    clock = BucketClock(dict(zip(job.clocks, map(stream_of, job.streams), strict=True)), now_us)
    if manifest.clock is not None:
        load_state(clock, Saved(manifest.clock))
    # At the end of a run buckets have answered up to where each had something to answer.
    for log in logs:
        clock.rise_to(BEGINNING_US if log is None else log.manifest.complete_until, now_us)
    whole = job.make_operator()
    key, state = key_of(job, whole), gathered(job, operators)
    return QueryContents(
        sql=job.plan.sql.strip(),
        identity=sum_of(identity_of(job.plan)),
        options=options_of(job.plan) if options is None else options,
        pipeline=choose_pipeline(job.bucket_plan).pipeline,
        host=HOST,
        run=run,
        batch=batch,
        sides={},
        streams={name: _with_ends(name, place, job, logs) for name, place in places.items()},
        moment=moment_of(clock, now_us),
        key=None if key is None else str(key),
        state=state,
        asked=identity_of(job.plan),
        gives=job.plan.kind,
        kept=kept_of_join(job.plan, state),
    )


def _logs(job: SparkJob, stage: Stage) -> list[BucketLog | None]:
    """Of every bucket in its place."""
    layouts = [job.layout(one) for one in job.streams]
    known = {
        kept.bucket: BucketLog(Manifest.from_bytes(kept.manifest), _Segments(kept, stage.packets), layouts)
        for kept in stage.buckets
    }
    if not known and not job.is_stateless:
        raise RunError("no batch of this query has ended, so there is nothing that could go on elsewhere")
    return [known.get(bucket) for bucket in job.bucket_ids]


def _with_ends(name: str, place: StreamPlace, job: SparkJob, logs: list[BucketLog | None]) -> StreamPlace:
    numbers = [number for number, one in enumerate(job.streams) if one.relation.name == name]
    manifests = [log.manifest for log in logs if log is not None]
    newest = [one.newest_us[number] for one in manifests for number in numbers if number in one.newest_us]
    oldest = [one.oldest_us[number] for one in manifests for number in numbers if number in one.oldest_us]
    return replace(place, newest_us=max(newest, default=BEGINNING_US), oldest_us=min(oldest, default=FOREVER_US))


class _Segments:
    """Those of one bucket, to be read only."""

    def __init__(self, kept: Kept, packets: Mapping[Packet, bytes]) -> None:
        self._bucket, self._packets = kept.bucket, packets

    def read(self, stream: int, number: int) -> bytes:
        return self._packets[self._bucket, stream, number]

    def write(self, stream: int, number: int, packet: bytes) -> None:
        raise AssertionError("a state that is only read")

    def remove(self, stream: int, number: int) -> None:
        raise AssertionError("a state that is only read")
