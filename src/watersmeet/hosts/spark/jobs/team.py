"""Joins of a group that keep their rows once: together they are one job, with one slot of the state.

They read the same streams, each once, and place rows by the same keys. So rows that any of them lets in travel once,
with the columns that any of them needs, lie once in the log of their bucket, and are walked through once where that is
worth it (operators/join/team.py). Streams go by their own names in it, in the order of these: that stays as it is when
one of the joins is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.errors import of_query
from watersmeet.hosts.spark.jobs.job import AtStart, SparkJob
from watersmeet.hosts.spark.jobs.kinds import JoinJob
from watersmeet.hosts.spark.jobs.layout import PacketLayout
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Operator, Positions, Results, Rows
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.join.let_in import let_in
from watersmeet.operators.join.shared_walk import SharedWalks
from watersmeet.operators.join.team import Team
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.optimizer.kept_once import kept_alike
from watersmeet.optimizer.share_walks import ByCost
from watersmeet.physical.partitioning import Partitioning
from watersmeet.physical.strategy import Code
from watersmeet.plan.identity import neutral_text
from watersmeet.plan.nodes import Input
from watersmeet.runtime.predicate_index import index_over


@dataclass(frozen=True)
class TeamMember(JoinJob):
    """A join as its team knows it: streams in the order of their names, rows as they come."""

    @staticmethod
    def of(job: SparkJob, slot: int) -> TeamMember:
        return TeamMember(job.plan, job.tables, job.buckets, job.start, slot)

    @property
    def streams(self) -> tuple[Input, ...]:
        return tuple(sorted(self.join.streams, key=lambda one: one.relation.name))

    @property
    def clocks(self) -> list[str]:
        return [one.relation.name for one in self.streams]

    def layout(self, one: Input) -> PacketLayout:
        return PacketLayout(self.row_schema(one), one.time or "")

    @cached_property
    def admissions(self) -> dict[str, Admission]:
        """By the names of streams."""
        return {one.relation.name: self.admission(one) for one in self.streams}


@dataclass(frozen=True)
class TeamJob(SparkJob):
    """At least one member, each in the slot by which it is told of; of one start all leave out the same batches."""

    members: tuple[TeamMember, ...] = ()

    @staticmethod
    def of(jobs: Sequence[SparkJob], slot: int) -> TeamJob:
        members = tuple(TeamMember.of(one, one.slot) for one in sorted(jobs, key=lambda one: one.slot))
        start = AtStart(skipped=members[0].start.skipped, shares_memory=members[0].start.shares_memory)
        return TeamJob(members[0].plan, {}, members[0].buckets, start, slot, members)

    @property
    def queries(self) -> Sequence[TeamMember]:
        return self.members

    @cached_property
    def streams(self) -> tuple[Input, ...]:
        return tuple(Input(one.relation.name, one.relation) for one in self.members[0].streams)

    @cached_property
    def partitioning(self) -> Partitioning:
        first = self.members[0]
        called = {one.alias: one.relation.name for one in first.streams}
        dimensions = (
            replace(one, keys={called[alias]: code for alias, code in one.keys.items()})
            for one in first.partitioning.dimensions
        )
        return Partitioning(tuple(dimensions), first.partitioning.reason)

    counts_rows = False
    event_time = None

    @property
    def waits(self) -> bool:
        return False

    def columns_needed(self, one: Input) -> list[str]:
        needed = {name for job in self.members for name in job.columns_needed(job.streams[self.number_of(one)])}
        return [name for name in one.schema.names if name in needed]

    def admission(self, one: Input) -> Admission:
        return AnyOf([job.admissions[one.alias] for job in self.members], self.keys_of(one))

    def make_operator(self, *, tables: bool = True) -> Operator:
        joins, called = {}, {}
        for job in self.members:
            join = job.make_operator()
            assert isinstance(join, WindowJoin)
            joins[str(job.slot)] = join
            called[str(job.slot)] = {one.relation.name: one.alias for one in job.streams}
        return Team(joins, called, SharedWalks(ByCost()))

    def operators(self, operator: Operator) -> Sequence[Operator]:
        assert isinstance(operator, Team)
        return list(operator.joins.values())

    def fits(self, operator: Operator) -> bool:
        return isinstance(operator, Team) and list(operator.joins) == [str(job.slot) for job in self.members]

    def answers(
        self, operator: Operator, batch: Mapping[str, Rows], watermarks: Mapping[str, int]
    ) -> Iterator[tuple[int, Results]]:
        assert isinstance(operator, Team)
        places = {str(job.slot): place for place, job in enumerate(self.members)}
        for name, answers in operator.taken_by_each(batch, watermarks):
            yield places[name], _named(self.members[places[name]], answers)

    def own(self, query: int, stream: int, rows: Rows) -> Rows:
        admission = self.members[query].admissions[self.streams[stream].alias]
        mask = _who_is_let_in(admission, rows)
        return rows if mask is None else rows.take(np.flatnonzero(mask))

    @cached_property
    def fingerprint(self) -> str:
        return " ".join(job.fingerprint for job in self.members)

    def knows(self, guard: str) -> bool:
        """Also a guard that names others that are not in the script any more."""
        return not Counter(self.fingerprint.split()) - Counter(guard.split())

    @property
    def kept_for(self) -> list[int]:
        return [job.slot for job in self.members]


class AnyOf(Admission):
    """Lets in what any of several do. The codes are those that place rows, which no row lacks that one lets in."""

    def __init__(self, ways: Sequence[Admission], codes: Sequence[Code]) -> None:
        super().__init__((), codes)
        texts = (_text_of(way) for way in ways)
        self._ways = list(dict(zip(texts, ways, strict=True)).values())

    def admit(self, rows: Rows) -> tuple[Rows, dict[Code, Codes], Positions | None]:
        any_of = np.zeros(len(rows), np.bool_)
        for way in self._ways:
            mask = _who_is_let_in(way, rows)
            any_of |= True if mask is None else mask
        kept = None if bool(any_of.all()) else np.flatnonzero(any_of)
        rows = rows if kept is None else rows.take(kept)
        return rows, self.codes_of(rows), kept


def _text_of(way: Admission) -> Hashable:
    codes = frozenset(neutral_text(code.expression) for code in way.codes)
    return tuple(map(neutral_text, way.filters)), codes


def _who_is_let_in(admission: Admission, rows: Rows) -> Mask | None:
    return let_in(admission, rows, {code: str(place) for place, code in enumerate(admission.codes)}).mask


def _named(job: SparkJob, answers: Results) -> Results:
    with of_query(job.start.query):
        yield from answers


def teams_among(jobs: Collection[SparkJob]) -> list[list[SparkJob]]:
    """Those of a group, in slots of their own, that may be one job: two and more in each."""
    found: dict[Hashable, list[SparkJob]] = {}
    for job in jobs:
        alike = kept_alike(job.physical, job.partitioning) if isinstance(job, JoinJob) else None
        if alike is not None and not _is_given_its_own(job, jobs):
            found.setdefault(alike, []).append(job)
    return [some for some in found.values() if len(some) > 1]


def _is_given_its_own(job: SparkJob, jobs: Collection[SparkJob]) -> bool:
    """Whether it is given only the rows with some values, among others that ask for values."""
    for one in job.streams:
        name = one.relation.name
        index = index_over({other.slot: other.asked_of(name) for other in jobs})
        if index is not None and job.slot in index:
            return True
    return False
