"""Whose a checkpoint is: told by a small file in it, and compared before a query starts there.

The state itself has a guard, which sees a stranger when rows arrive. The file tells sooner, and in words.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from pyspark.sql import SparkSession

from watersmeet.errors import SetupError
from watersmeet.hosts.spark.bucket.archive import with_archive_path
from watersmeet.hosts.spark.checkpoints.relocation import made_at
from watersmeet.hosts.spark.checkpoints.state import read_guard
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.formats import lacking_store
from watersmeet.hosts.spark.jobs.fingerprint import GO_BACK, OTHER_VERSION, is_of_this_format, refusal
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import in_stages, job_of
from watersmeet.hosts.spark.launching.launch import is_connect
from watersmeet.hosts.spark.paths import NOTE, RUN_NOTE, has_scheme
from watersmeet.io.sealed import BrokenSealError, sealed, unsealed
from watersmeet.plan.nodes import Input, Plan, relations_below
from watersmeet.version import VERSION

logger = logging.getLogger("watersmeet")
METADATA = "metadata"  # of Spark's own, there once a query has started
OFFSETS = "offsets"  # a file for each batch, written before it runs
COMMITS = "commits"  # the same, written when it is done
IN_PROCESS = "query.json"  # what a run in-process has in its checkpoint


@dataclass(frozen=True)
class Owner:
    """A query as its checkpoint knows it: `states` has the fingerprint of every stage that keeps some; the rest is for
    people. `streams` are the names of what each stage reads, by the numbers that its state knows them by."""

    sql: str
    buckets: int
    inputs: dict[str, str]
    states: list[str]
    version: str = ""
    streams: dict[str, list[str]] = field(default_factory=dict)
    run: str = ""  # its name, if sinks know it by that: noted twice, as what is answered would come again under another

    @classmethod
    def of(cls, plan: Plan, buckets: int) -> Owner:
        inputs = {
            one.name: ", ".join(f"{field.name} {field.type}" for field in one.schema)
            for one in relations_below(plan.root)
        }
        jobs = list(_jobs(plan, buckets))
        streams = {job.fingerprint: [_called(one) for one in job.streams] for job in jobs}
        return cls(plan.sql.strip(), buckets, inputs, [job.fingerprint for job in jobs], VERSION, streams)

    @property
    def of_another_format(self) -> str | None:
        """A state that this version cannot read, if there is one."""
        return next((state for state in self.states if not is_of_this_format(state)), None)

    def differs_from(self, held: Owner) -> str:
        """What another owner had that this one has not, in words."""
        stranger = held.of_another_format
        if stranger is not None:
            by = f", written by watersmeet {held.version}" if held.version else ""
            return f"{refusal(stranger)[0]}{by}"
        if held.buckets != self.buckets:
            return f"was made with {held.buckets} buckets, and this run has {self.buckets}"
        for name, columns in held.inputs.items():
            if self.inputs.get(name, columns) != columns:
                return f"was made when {name!r} had the columns {columns}; now it has {self.inputs[name]}"
        if " ".join(held.sql.split()) != " ".join(self.sql.split()):
            return f"belongs to another query:\n{held.sql}"
        # What a person could have changed is the same, so something that the planner goes by is not.
        return "was made when rates or other settings spread the rows of this query differently"


class QueryOnSpark(Protocol):
    """A Query of a session on Spark."""

    @property
    def plan(self) -> Plan: ...

    @property
    def host(self) -> Any: ...


def check_checkpoint(query: QueryOnSpark, checkpoint: str) -> None:
    """Refuse a checkpoint of another query, before a `writeStream` of one's own starts with it.

    >>> check_checkpoint(query, "ck")  # doctest: +SKIP
    >>> query.dataframe().writeStream.option("checkpointLocation", "ck").start("answer")  # doctest: +SKIP
    """
    host = query.host
    held = Checkpoint(host.spark, checkpoint)
    held.refuse_in_process()
    held.refuse_others(Owner.of(query.plan, host.buckets))


class Checkpoint:
    """A checkpoint folder, on this machine or wherever Spark's server reads and writes."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark = spark
        self.folder = folder
        self.is_here = is_here(spark, folder)

    def refuse_in_process(self) -> None:
        """Spark would begin anew beside what lies there, and what was answered would come once more."""
        if self.read(IN_PROCESS) is not None and self.read(METADATA) is None:
            raise SetupError(
                f"{self.folder} is the checkpoint of a run in-process, which no query on Spark can go on from",
                hint="give another checkpoint, or go on with this one with --engine local",
            )

    def refuse_others(self, owner: Owner) -> bool:
        """Refuse an owner that is not this checkpoint's; else whether it is certain that this one is, or will be."""
        if self.read(METADATA) is None:
            return True
        held = self._held()
        # Only fingerprints decide. The rest of the note finds words for what differs.
        if held is not None and held.states != owner.states:
            raise SetupError(f"{self.folder} {owner.differs_from(held)}", hint=_way_out(held, owner))
        home = made_at(self.folder) if self.is_here else None
        if home is not None:
            raise SetupError(
                f"{self.folder} was made as {home}, and Spark can go on with a checkpoint only there",
                hint=f"move it back to {home}, or start with a new one",
            )
        return held is not None or self._guard_knows(owner)

    def note(self, owner: Owner) -> None:
        """Write down whose it is, unless it is known. The query runs by now, and its state has a guard as well, so that
        a file that cannot be written does not end it."""
        try:
            held, run = self._held(), self.read_sealed(RUN_NOTE) or ""
            if held is None or held.run != run:
                self.write(json.dumps(asdict(replace(held or owner, run=run))))
        except Exception as error:
            logger.warning("%s/%s cannot be written: %s", self.folder, NOTE, first_useful_line(error))

    def _guard_knows(self, owner: Owner) -> bool:
        """Of a checkpoint without the file: ask its state, which knows nothing before its first rows."""
        guard = read_guard(self.spark, self.folder)
        if guard is None:
            return False
        if guard not in owner.states:
            why, hint = refusal(guard)
            raise SetupError(f"{self.folder} {why}", hint=hint)
        return True

    def _held(self) -> Owner | None:
        text = self.read_sealed(NOTE)
        return None if text is None else Owner(**json.loads(text))

    def read_sealed(self, name: str) -> str | None:
        """What `write` has written; what is damaged is named."""
        text = self.read(name)
        try:
            return None if text is None else bytes(unsealed(name, f"{text.rstrip()}\n".encode())).decode()
        except BrokenSealError as error:
            raise SetupError(
                f"{self.folder}/{name} is damaged: {error}",
                hint="restore the checkpoint from a copy, or start anew with a new one",
            ) from None

    def read(self, name: str) -> str | None:
        if self.is_here:
            path = Path(self.folder) / name
            # A note that was written through Spark is a folder of parts.
            parts = [path] if path.is_file() else sorted(path.glob("part-*"))
            return "\n".join(part.read_text(encoding="utf-8", errors="replace") for part in parts) or None
        try:
            rows = self.spark.read.text(f"{self.folder}/{name}").collect()
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return None
            raise self._told("cannot be read", error) from None
        return "\n".join(row[0] for row in rows)

    def run_name(self) -> str:
        """The name of the run whose checkpoint this is: the same in all its lives, and never that of another. By it
        sinks know what they have taken."""
        run = self.read_sealed(RUN_NOTE)
        if run is None:
            held = self._held()
            run = (held.run if held is not None else "") or uuid4().hex[:12]
            self.write(run, RUN_NOTE)
        return run

    def refuse_newer(self, sink: str, taken: int) -> None:
        """Spark notes a batch before it runs; new ones under numbers that a sink has would be passed over there."""
        newest = self.newest(OFFSETS)
        if taken > newest:
            ends = "no batch has begun by it" if newest < 0 else f"it ends with batch {newest:,}"
            raise SetupError(
                f"{self.folder} is older than what was written with it: sink {sink!r} has batches up to {taken:,}, but "
                f"{ends}",
                hint="restore the checkpoint from a copy that is as new as the sink, or start anew with a new one",
            )

    def repeated_batch(self) -> int | None:
        """The one that a start repeats, if some batch was begun and not committed."""
        begun = self.newest(OFFSETS)
        return begun if begun > self.newest(COMMITS) else None

    def newest(self, log: str) -> int:
        """The last batch of one of Spark's logs, OFFSETS of those that were begun, or COMMITS; -1 if it has none."""
        if self.is_here:
            folder = Path(self.folder) / log
            names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
        else:
            try:
                found = self.spark.read.text(f"{self.folder}/{log}").select("_metadata.file_name").distinct().collect()
            except Exception as error:
                if "PATH_NOT_FOUND" in str(error):
                    return -1
                raise self._told("cannot be read", error) from None
            names = [row[0] for row in found]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def write(self, text: str, name: str = NOTE) -> None:
        """With a sum over it and its name."""
        text = sealed(name, text.encode()).decode().rstrip()
        if self.is_here:
            folder = Path(self.folder)
            folder.mkdir(parents=True, exist_ok=True)
            # Under another name first: a crash must not leave half of it.
            draft = folder / f".{name}.tmp"
            draft.write_text(text + "\n", encoding="utf-8")
            draft.replace(folder / name)
        else:  # Spark writes a folder of that name, and reads it like a file
            line = self.spark.createDataFrame([(text,)], "value string").coalesce(1)
            try:
                line.write.mode("overwrite").text(f"{self.folder}/{name}")
            except Exception as error:
                raise self._told("cannot be written", error) from None

    def _told(self, what: str, error: Exception) -> SetupError:
        store = lacking_store(str(error))
        by_jars = f"Spark knows {store}:// by jars of Hadoop's, in --conf spark.jars; --engine local needs none"
        return SetupError(
            f"the checkpoint {self.folder} {what}: {first_useful_line(error)}", hint=None if store is None else by_jars
        )


def _jobs(plan: Plan, buckets: int) -> Iterator[SparkJob]:
    """The stages of a query that keep a state, as its DataFrame is made of them."""
    staged = in_stages(plan)
    if staged is not None:
        for join in staged.joins.values():
            yield from _jobs(join, buckets)
        yield from _jobs(staged.plan, buckets)
        return
    job = job_of(with_archive_path(plan), {}, buckets)
    if not job.is_stateless:
        yield job


def _called(one: Input) -> str:
    """An input as people know it."""
    name = one.relation.name
    return name if one.alias == name else f"{one.alias} ({name})"


def _way_out(held: Owner, owner: Owner) -> str:
    if held.of_another_format is not None:
        return OTHER_VERSION
    if held.buckets != owner.buckets:
        return f"go on with --buckets {held.buckets} or Session(spark, buckets={held.buckets}), or use a new checkpoint"
    return GO_BACK


def is_here(spark: SparkSession, folder: str) -> bool:
    if is_connect(spark) or has_scheme(folder):
        return False
    default: str | None = spark._jsc.hadoopConfiguration().get("fs.defaultFS")
    return (default or "file:").startswith("file:")
