"""Which queries of a script Spark runs as one, and where their checkpoints lie."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.checkpoints.beginning import noted_beginning
from watersmeet.hosts.spark.checkpoints.checkpoint import METADATA, Checkpoint, Owner, remove_checkpoint
from watersmeet.hosts.spark.checkpoints.members import FOLDER, Member, Members, keys_of
from watersmeet.hosts.spark.checkpoints.replacing import finish_replacements, has_left
from watersmeet.hosts.spark.jobs.ids import MOST_BUCKETS
from watersmeet.hosts.spark.jobs.kinds import in_stages, job_of
from watersmeet.hosts.spark.jobs.team import TeamJob, teams_among
from watersmeet.hosts.spark.launching.launch import is_connect
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.hosts.spark.writing.sinks import is_checkpoint, takes_batches
from watersmeet.model.wording import listed
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.checkpoints import query_folders
from watersmeet.runtime.script import Job, is_nameless
from watersmeet.runtime.sharing import fed_together, may_share, queries_in_words, read_once_words

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

    @property
    def shared_words(self) -> list[str]:
        """What a person is told of what they share."""
        if self.members is None:
            return []
        kept = [
            f"the rows of {listed(self.members.by_name[names[0]].streams)} are kept once for {queries_in_words(names)}"
            for names in self.members.teams.values()
            if len(names) > 1
        ]
        return [*read_once_words(self.jobs), *kept]

    def team(self, job: Job) -> int | None:
        return None if self.members is None else self.members.by_name[job.name].team


def groups_of(
    spark: SparkSession, jobs: Sequence[Job], folder: str, buckets: int, *, apart: bool = False
) -> list[Group]:
    """In the order of their first queries. What was begun together goes on together, and what was begun by itself does
    so too; of new ones those go together that read the same streams, unless all are to be apart."""
    folder = folder if has_scheme(folder) else str(Path(folder).expanduser().absolute())
    finish_replacements(spark, folder)
    owners = {job.name: Owner.of(job.plan, buckets, is_shared=True) for job in jobs}
    known = [] if is_connect(spark) else list(_known(spark, folder))
    begun = [_going_on(members, jobs, owners) for members in known]
    together = {job.name for one in begun for job in one.jobs}
    alone = Alone(spark, folder, jobs, owners, others=bool(known))
    if not together and not alone.going_on and (known or alone.known) and all(map(alone.is_new, jobs)):
        raise alone.strangers()
    left = [] if apart else [job for job in jobs if job.name not in together | alone.going_on.keys()]
    new = [job for job in left if alone.is_new(job) and _may_go_together(spark, job, buckets)]
    for number, some in enumerate((some for some in fed_together(new) if len(some) > 1), len(known) + 1):
        begun.append(_new_group(Checkpoint(spark, f"{folder}/{FOLDER}{number}"), some, buckets, owners))
        together |= {job.name for job in some}
    _let_go(begun, alone.dropped, {job.name for job in jobs})
    singles = [Group([job], alone.folder_of(job)) for job in jobs if job.name not in together]
    places = {job.name: place for place, job in enumerate(jobs)}
    return sorted([one for one in [*begun, *singles] if one.jobs], key=lambda one: places[one.jobs[0].name])


def _known(spark: SparkSession, folder: str) -> Iterator[Members]:
    """The groups that a checkpoint knows."""
    for number in count(1):
        members = Members.of(Checkpoint(spark, f"{folder}/{FOLDER}{number}"))
        if members is None:
            return
        yield members


def _going_on(members: Members, jobs: Sequence[Job], owners: Mapping[str, Owner]) -> Group:
    """Those of a group that are in the script. Queries without a name of their own are known by what they ask, as their
    places in the script may change."""
    present: dict[str, Job] = {}
    for name, member in members.by_name.items():
        asked = [job for job in jobs if is_nameless(job) and owners[job.name].is_same(member.owner)]
        found = [job for job in jobs if job.name == name and not is_nameless(job)] or asked
        found = [job for job in found if job not in present.values() and not has_left(members.checkpoint, job.name)]
        if found:
            present[name] = found[0]
            _refuse_apart(found[0], members.checkpoint)
    members.go_on({name: (job.name, owners[job.name]) for name, job in present.items()})
    if present:
        members.checkpoint.refuse_moved()
    return Group([job for job in jobs if job in present.values()], members.checkpoint.folder, members)


def _let_go(begun: Sequence[Group], dropped: Mapping[str, str], asked: Collection[str]) -> None:
    """Of what was kept for queries that are not in the script any more."""
    names = [name for one in begun if one.members is not None for name in one.members.dropped]
    names = [name for name in names if name not in asked]  # else another has taken the place
    for name, folder in dropped.items():
        remove_checkpoint(Path(folder))
        names.append(name)
    if names:
        words = ("is", "its state is") if len(names) == 1 else ("are", "their states are")
        logger.warning("%s %s no longer in the script, and %s let go of", listed(names), *words)


class Alone:
    """Where queries that run by themselves have their checkpoints: `going_on` by name, and `known`, all that are there;
    `dropped` are those that are not in the script any more."""

    def __init__(
        self, spark: SparkSession, folder: str, jobs: Sequence[Job], owners: Mapping[str, Owner], *, others: bool
    ) -> None:
        self._spark, self._folder, self._jobs = spark, folder, jobs
        names = dict(zip([job.name for job in jobs], query_folders([job.name for job in jobs]), strict=True))
        self._is_whole = len(jobs) == 1 and not others
        asked = {"": folder} | {name: f"{folder}/{name}" for name in {*names.values(), *_below(folder)}}
        held = {name: Checkpoint(spark, path) for name, path in asked.items()}
        for one in held.values():
            one.refuse_in_process()
        self.known = {name: one for name, one in held.items() if one.place.read(METADATA) is not None}
        self._is_whole &= self.known.keys() <= {""}
        self.going_on: dict[str, str] = {}
        for job in jobs:
            if self._is_whole and "" in self.known:
                self.going_on[job.name] = ""
                continue
            alike = [name for name, one in self.known.items() if one.belongs_to(owners[job.name])]
            by_name = [] if is_nameless(job) or names[job.name] not in self.known else [names[job.name]]
            by_root = [name for name in alike if name == ""]
            free = [
                name
                for name in [*by_name, *by_root, *(alike if is_nameless(job) else [])]
                if name not in self.going_on.values()
            ]
            if free:
                self.going_on[job.name] = free[0]
        self._names = names
        left = [name for name in self.known if name not in self.going_on.values()]
        self.dropped = {name or "the query that was alone": asked[name] for name in left if self.known[name].is_noted}

    def is_new(self, job: Job) -> bool:
        """Whether nothing of it has begun, with a savepoint neither."""
        return noted_beginning(Checkpoint(self._spark, self.folder_of(job))) is None

    def folder_of(self, job: Job) -> str:
        name = self.going_on.get(job.name, "" if self._is_whole else self._names[job.name])
        return f"{self._folder}/{name}" if name else self._folder

    def strangers(self) -> SetupError:
        these = "this is another" if len(self._jobs) == 1 else f"these are {len(self._jobs)} others"
        if "" in self.known:
            return SetupError(
                f"{self._folder} is the checkpoint of one query, and these are {len(self._jobs)}, none of which it is",
                hint="give another checkpoint",
            )
        names = sorted(self.known) or ["which run as one"]
        return SetupError(
            f"{self._folder} holds the checkpoints of several queries ({', '.join(names)}), and {these}",
            hint="give another checkpoint; of queries that are there some must stay if others are added or dropped",
        )


def _below(folder: str) -> list[str]:
    """The names of folders of checkpoints of single queries, where they can be seen from here."""
    found = [] if has_scheme(folder) else [path.name for path in Path(folder).glob("*/") if is_checkpoint(str(path))]
    return [name for name in found if not name.startswith(FOLDER)]


def _refuse_apart(job: Job, checkpoint: Checkpoint) -> None:
    if job.plan.options.share == "no":
        raise SetupError(
            f"{job.name} says share = 'no', but {checkpoint.folder} was begun with others that read the same streams",
            hint="leave the option out, or start with a new checkpoint",
        )


def _may_go_together(spark: SparkSession, job: Job, buckets: int) -> bool:
    """Whether a query can be run with others. Those apart: in stages, as Spark's operators follow one another; over
    readers of Spark's own, whose place in a checkpoint is fixed; with an archive, which is of one query; and for sinks
    of Spark's own but files, as these take whole streams."""
    if is_connect(spark) or buckets > MOST_BUCKETS or not may_share(job) or in_stages(job.plan) is not None:
        return False
    if not all(isinstance(one.source, FileStream | ConnectorStream) for one in streams_below(job.plan.root)):
        return False
    return (job.plan.shedding is None or job.plan.shedding.archive is None) and takes_batches(job)


def _new_group(checkpoint: Checkpoint, jobs: list[Job], buckets: int, owners: Mapping[str, Owner]) -> Group:
    """Each query has a slot; joins that keep their rows once have another, in which these lie."""
    made = {job.name: replace(job_of(job.plan, {}, buckets), slot=slot) for slot, job in enumerate(jobs)}
    teams = [TeamJob.of(team, len(jobs) + number) for number, team in enumerate(teams_among(made.values()))]
    by_slot = {member.slot: team for team in teams for member in team.members}
    members = {}
    for name, job in made.items():
        team = by_slot.get(job.slot)
        if team is None:
            members[name] = Member(job.slot, keys_of(job, job.slot), owners[name])
        else:
            members[name] = Member(job.slot, keys_of(job, team.slot), owners[name], team.slot, tuple(team.aliases))
    return Group(jobs, checkpoint.folder, Members(checkpoint, members))
