"""Which queries of a script Spark runs as one, and where their checkpoints lie."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.checkpoints.beginning import noted_beginning
from watersmeet.hosts.spark.checkpoints.checkpoint import METADATA, Checkpoint, Owner
from watersmeet.hosts.spark.checkpoints.members import FOLDER, Member, Members
from watersmeet.hosts.spark.jobs.ids import MOST_BUCKETS, balanced_ids, guard_of
from watersmeet.hosts.spark.jobs.kinds import in_stages, job_of
from watersmeet.hosts.spark.launching.launch import is_connect
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.hosts.spark.writing.sinks import SparkSink, is_checkpoint
from watersmeet.model.wording import listed
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.checkpoints import query_folders
from watersmeet.runtime.script import Job
from watersmeet.runtime.sharing import fed_together, may_share

logger = logging.getLogger("watersmeet")


@dataclass(frozen=True)
class Group:
    """Queries that Spark runs as one, and the folder of their checkpoint. One that runs by itself has no `members`."""

    jobs: list[Job]
    folder: str
    members: Members | None = None

    @property
    def name(self) -> str:
        return listed([job.name for job in self.jobs])

    def slot(self, job: Job) -> int:
        return 0 if self.members is None else self.members.by_name[job.name].slot


def groups_of(
    spark: SparkSession, jobs: Sequence[Job], folder: str, buckets: int, *, apart: bool = False
) -> list[Group]:
    """In the order of their first queries. What was begun together goes on together, and what was begun by itself does
    so too; of new ones those go together that read the same streams, unless all are to be apart."""
    below = _below(folder)
    begun = [] if is_connect(spark) else _begun(spark, below, list(jobs), buckets)
    known = {job.name for one in begun for job in one.jobs}
    left = [job for job in jobs if job.name not in known]
    folders = dict(zip([job.name for job in jobs], checkpoint_folders(below, jobs), strict=True))
    new = [job for job in left if not apart and _may_go_together(spark, job, buckets, folders[job.name])]
    numbers = (n for n in count(1) if Members.of(Checkpoint(spark, f"{below}/{FOLDER}{n}")) is None)
    for together in fed_together(new):
        if len(together) > 1:
            begun.append(_new_group(Checkpoint(spark, f"{below}/{FOLDER}{next(numbers)}"), together, buckets))
            known |= {job.name for job in together}
    alone = [Group([job], folders[job.name]) for job in jobs if job.name not in known]
    places = {job.name: place for place, job in enumerate(jobs)}
    return sorted([*begun, *alone], key=lambda one: places[one.jobs[0].name])


def _begun(spark: SparkSession, folder: str, jobs: Sequence[Job], buckets: int) -> list[Group]:
    """The groups that a checkpoint knows, with those of their queries that are in the script."""
    found: list[Group] = []
    for number in count(1):
        checkpoint = Checkpoint(spark, f"{folder}/{FOLDER}{number}")
        members = Members.of(checkpoint)
        if members is None:
            return found
        present = [job for job in jobs if job.name in members.by_name]
        for job in present:
            _refuse_apart(job, checkpoint)
        owners = {job.name: Owner.of(job.plan, buckets, is_shared=True) for job in present}
        left = members.go_on(owners)
        if left:
            what = "what it kept is let go" if len(left) == 1 else "what they kept is let go"
            verb = "is" if len(left) == 1 else "are"
            logger.warning("%s %s not in the script any more: %s", listed(left), verb, what)
        if present:
            checkpoint.refuse_moved()
            found.append(Group(present, checkpoint.folder, members))
    raise AssertionError


def _refuse_apart(job: Job, checkpoint: Checkpoint) -> None:
    if job.plan.options.share == "no":
        raise SetupError(
            f"{job.name} says share = 'no', but {checkpoint.folder} was begun with others that read the same streams",
            hint="leave the option out, or start with a new checkpoint",
        )


def _may_go_together(spark: SparkSession, job: Job, buckets: int, folder: str) -> bool:
    """Whether a query can be run with others, and is not begun yet. Those apart: in stages, as Spark's operators follow
    one another; over readers of Spark's own, whose place in a checkpoint is fixed; with an archive, which is of one
    query; and for sinks of Spark's own but files, as these take whole streams."""
    if is_connect(spark) or not may_share(job) or buckets > MOST_BUCKETS or in_stages(job.plan) is not None:
        return False
    if not all(isinstance(one.source, FileStream | ConnectorStream) for one in streams_below(job.plan.root)):
        return False
    if job.plan.shedding is not None and job.plan.shedding.archive is not None:
        return False
    checkpoint = Checkpoint(spark, folder)
    if checkpoint.place.read(METADATA) is not None or noted_beginning(checkpoint) is not None:
        return False
    return SparkSink(job, folder).takes_batches


def _new_group(checkpoint: Checkpoint, jobs: list[Job], buckets: int) -> Group:
    members = [(job.name, _member(job.plan, buckets, slot)) for slot, job in enumerate(jobs)]
    return Group(jobs, checkpoint.folder, Members.begin(checkpoint, members))


def _member(plan: Plan, buckets: int, slot: int) -> Member:
    ids = balanced_ids(job_of(plan, {}, buckets).partitioning.buckets, slot)
    return Member(slot, (*ids, guard_of(slot)), Owner.of(plan, buckets, is_shared=True))


def _below(checkpoint: str) -> str:
    return checkpoint if has_scheme(checkpoint) else str(Path(checkpoint).expanduser().absolute())


def checkpoint_folders(checkpoint: str, jobs: Sequence[Job]) -> list[str]:
    """Where each job keeps its checkpoint if it runs by itself."""
    folder = _below(checkpoint)
    names = query_folders([job.name for job in jobs])
    if len(jobs) == 1:
        below = [p.name for p in Path(folder).glob("*/") if is_checkpoint(str(p))]
        if not below:
            return [folder]
        if names[0] not in below and not any(one.startswith(FOLDER) for one in below):
            raise SetupError(
                f"{folder} holds the checkpoints of several queries ({', '.join(sorted(below))}), and this is another",
                hint="give the folder of that query, or another one",
            )
    if is_checkpoint(folder):
        raise SetupError(f"{folder} is the checkpoint of one query, and these are {len(jobs)}", hint="give another one")
    return [f"{folder}/{name}" for name in names]
