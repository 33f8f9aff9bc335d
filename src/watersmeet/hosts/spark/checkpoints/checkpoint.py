"""Whose a checkpoint is: told by a small file in it, and compared before a query starts there.

The state itself has a guard, which sees a stranger when rows arrive. The file tells sooner, and in words.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Protocol
from uuid import uuid4

from pyspark.sql import SparkSession

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.bucket.archive import with_archive_path
from watersmeet.hosts.spark.checkpoints.place import SparkPlace, is_here
from watersmeet.hosts.spark.checkpoints.state import read_guard
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.jobs.fingerprint import GO_BACK, OTHER_VERSION, is_of_this_format, refusal
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import in_stages, job_of
from watersmeet.hosts.spark.paths import NOTES
from watersmeet.plan.identity import identity_of
from watersmeet.plan.nodes import Input
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below
from watersmeet.runtime.changes import Held, goes_on_from_savepoint, may_take_the_place
from watersmeet.runtime.checkpoints import CheckpointNotes
from watersmeet.runtime.kept_of_joins import Kept, kept_by
from watersmeet.runtime.skipped_batches import not_repeated
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
    asked: str = ""  # what `watersmeet state diff` compares a script with
    gives: str = ""
    kept: Kept | None = None  # by a join

    @classmethod
    def of(cls, plan: Plan, buckets: int, *, is_shared: bool = False) -> Owner:
        """is_shared: the checkpoint is that of several queries, where each has a state."""
        inputs = {
            one.name: ", ".join(f"{field.name} {field.type}" for field in one.schema)
            for one in relations_below(plan.root)
        }
        jobs = [job for job in _jobs(plan, buckets) if is_shared or not job.is_stateless]
        streams = {job.fingerprint: [_called(one) for one in job.streams] for job in jobs}
        return cls(
            plan.sql.strip(),
            buckets,
            inputs,
            [job.fingerprint for job in jobs],
            VERSION,
            streams,
            asked=identity_of(plan),
            gives=plan.kind,
            kept=kept_by(plan),
        )

    @property
    def held(self) -> Held:
        return Held(self.asked, self.gives, {}, self.kept)

    @property
    def of_another_format(self) -> str | None:
        """A state that this version cannot read, if there is one."""
        return next((state for state in self.states if not is_of_this_format(state)), None)

    def is_same(self, other: Owner) -> bool:
        """Whether both are the same query."""
        return self.states == other.states and self.streams == other.streams

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


BY_SAVEPOINT = (
    "the changed query goes on with what is kept by way of a savepoint: watersmeet savepoint CHECKPOINT OUT --script "
    "OLD.sql, then watersmeet run NEW.sql --engine spark --from OUT --checkpoint NEW"
)
BY_REPLACE = "watersmeet replace CHECKPOINT NEW.sql has the changed query take the place of this one"


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
        self.place = SparkPlace(spark, folder, is_here=is_here(spark, folder))
        self.notes = CheckpointNotes(self.place, NOTES)

    def refuse_in_process(self) -> None:
        """Spark would begin anew beside what lies there, and what was answered would come once more."""
        if self.place.read(IN_PROCESS) is not None and self.place.read(METADATA) is None:
            raise SetupError(
                f"{self.folder} is the checkpoint of a run in-process, which no query on Spark can go on from",
                hint="give another checkpoint, or go on with this one with --engine local",
            )

    def refuse_others(self, owner: Owner) -> bool:
        """Refuse an owner that is not this checkpoint's; else whether it is certain that this one is, or will be."""
        if self.place.read(METADATA) is None:
            return True
        held = self.owner
        # Only fingerprints decide. The rest of the note finds words for what differs.
        if held is not None and held.states != owner.states:
            raise SetupError(f"{self.folder} {owner.differs_from(held)}", hint=way_out(held, owner))
        self.refuse_moved()
        return held is not None or self._guard_knows(owner)

    def refuse_moved(self) -> None:
        home = _made_at(self.folder) if self.place.is_here else None
        if home is not None:
            raise SetupError(
                f"{self.folder} was made as {home}, and Spark can go on with a checkpoint only there",
                hint=f"move it back to {home}, or start with a new one",
            )

    def note(self, owner: Owner) -> None:
        """Write down whose it is, unless it is known. The query runs by now, and its state has a guard as well, so that
        a file that cannot be written does not end it."""
        try:
            held, run = self.owner, self.notes.get("run", "")
            if held is None or held.run != run:
                self.notes.note(owner=asdict(replace(held or owner, run=run)))
        except Exception as error:
            logger.warning("%s/%s cannot be written: %s", self.folder, NOTES["owner"], first_useful_line(error))

    def belongs_to(self, owner: Owner) -> bool:
        """Whether it is the checkpoint of that query alone, as far as is noted. What keeps no state is known by its
        text."""
        held = self.owner
        if held is None:
            return False
        if held.states:
            return held.states == owner.states
        return " ".join(held.sql.split()) == " ".join(owner.sql.split())

    @property
    def is_noted(self) -> bool:
        """Whether it is noted that the checkpoint is one of ours."""
        return self.owner is not None

    def _guard_knows(self, owner: Owner) -> bool:
        """Of a checkpoint without the file: ask its state, which knows nothing before its first rows."""
        guard = read_guard(self.spark, self.folder)
        if guard is None:
            return False
        if guard not in owner.states:
            why, hint = refusal(guard)
            raise SetupError(f"{self.folder} {why}", hint=hint)
        return True

    @property
    def owner(self) -> Owner | None:
        """As it is noted."""
        held = self.notes.get("owner")
        return None if held is None else Owner(**held)

    def run_name(self) -> str:
        """The name of the run whose checkpoint this is: the same in all its lives, and never that of another. By it
        sinks know what they have taken."""
        run = self.notes.get("run")
        if run is None:
            held = self.owner
            run = (held.run if held is not None else "") or uuid4().hex[:12]
            self.notes.note(run=run)
        return str(run)

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

    def left_out(self, asked: frozenset[int], name: str) -> frozenset[int]:
        """The numbers of batches that are left out of a query by this start: of those that are asked for, and those
        that a start before was asked for. `name`: that of the query, of which there may be several.

        Spark repeats the batch that it has begun and not committed, and only that one. It is noted before: should this
        start be killed between the commit of a sink and Spark's own, the next must leave it out as well, or the state
        would have rows whose answers the sink passes over.
        """
        all_noted = self.notes.get("skipped", {})
        noted = frozenset(all_noted.get(name, []))
        if not noted and not asked:
            return frozenset()
        repeated = self.repeated_batch()
        for number in sorted(asked - noted - {repeated}):
            logger.warning("%s: %s", name, not_repeated(number))
        found = (asked | noted) & {repeated}
        if found - noted:
            self.notes.note(skipped={**all_noted, name: sorted(found)})
        return frozenset(found)

    def newest(self, log: str) -> int:
        """The last batch of one of Spark's logs, OFFSETS of those that were begun, or COMMITS; -1 if it has none."""
        return max((int(name) for name in self.place.names(log) if name.isdigit()), default=-1)


def _jobs(plan: Plan, buckets: int) -> Iterator[SparkJob]:
    """The stages of a query, as its DataFrame is made of them."""
    staged = in_stages(plan)
    if staged is not None:
        for join in staged.joins.values():
            yield from _jobs(join, buckets)
        yield from _jobs(staged.plan, buckets)
        return
    yield job_of(with_archive_path(plan), {}, buckets)


def _called(one: Input) -> str:
    """An input as people know it."""
    name = one.relation.name
    return name if one.alias == name else f"{one.alias} ({name})"


def way_out(held: Owner, owner: Owner) -> str:
    if held.of_another_format is not None:
        return OTHER_VERSION
    if held.buckets != owner.buckets:
        return f"go on with --buckets {held.buckets} or Session(spark, buckets={held.buckets}), or use a new checkpoint"
    ways = [BY_SAVEPOINT] if goes_on_from_savepoint(held.held, owner.held) else []
    ways += [BY_REPLACE] if may_take_the_place(held.held, owner.held) else []
    return "; or ".join([*ways, GO_BACK])


def _made_at(folder: str) -> str | None:
    """The folder in which a checkpoint of this machine was made, if that is another and is not there any more. Spark
    writes into it, with whole paths, where the schemas of the state are, so that from another place it would fail in
    its first batch, in words of its own."""
    if sys.platform == "win32":  # where the paths that Spark writes are spelt in another way
        return None
    for named in _schema_files(Path(folder)):
        path = "/" + named.removeprefix("file:").lstrip("/")
        home = path.rpartition("/state/")[0]
        if named.startswith("file:") and home not in ("", folder) and not Path(path).exists():
            return home
    return None


def _schema_files(folder: Path) -> Iterator[str]:
    """As the newest note of every operator with a state names them."""
    for notes in sorted(folder.glob("state/*/_metadata/v2")):
        numbers = [int(one.name) for one in notes.iterdir() if one.name.isdigit()]
        if not numbers:
            continue
        try:
            held = json.loads((notes / str(max(numbers))).read_text(encoding="utf-8").partition("\n")[2])
            yield from (str(path) for store in held["stateStoreInfo"] for path in store["stateSchemaFilePaths"])
        except (OSError, ValueError, KeyError, TypeError):  # written in another way: Spark will say what is wrong
            continue


# What of a folder is a checkpoint: there may be those of other queries below it.
_PARTS = (METADATA, OFFSETS, COMMITS, "state", "sources", "watersmeet*", ".*.crc")


def remove_checkpoint(folder: Path) -> None:
    """One of this machine, of a query that is not asked any more."""
    for path in (path for part in _PARTS for path in folder.glob(part)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    with suppress(OSError):
        folder.rmdir()


_RARELY_S = 60.0  # in a store a note is a job of Spark's


class CommittedBatches:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        # The last of each sink, and the one before: Spark may not have committed the last.
        self._numbers: dict[str, list[int]] = checkpoint.notes.get("committed", {})
        self._write_at_s = 0.0

    def known(self) -> dict[str, int]:
        """The last number that a sink has for good, by its name."""
        if not self._numbers:
            return {}
        committed = self._checkpoint.newest(COMMITS)
        found = {name: [one for one in some if one <= committed] for name, some in self._numbers.items()}
        return {name: max(some) for name, some in found.items() if some}

    def add(self, sink: str, number: int) -> None:
        """The sink has the rows of a batch, which Spark commits next."""
        before = [one for one in self._numbers.get(sink, []) if one < number]
        is_first = sink not in self._numbers
        self._numbers[sink] = [*before[-1:], number]
        if is_first or self._checkpoint.place.is_here or monotonic() >= self._write_at_s:
            self._checkpoint.notes.note(committed=self._numbers)
            self._write_at_s = monotonic() + _RARELY_S
