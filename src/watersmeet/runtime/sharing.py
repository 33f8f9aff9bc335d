"""Which queries of a script are fed together, as they look at the same streams, and which of them are one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.wording import counted, listed
from watersmeet.optimizer.asked_rows import is_sure
from watersmeet.plan.identity import expression_text, identity_of
from watersmeet.plan.memory import Memory
from watersmeet.plan.nodes import Derived, Join, Node, View
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import shares_memory
from watersmeet.plan.walks import children, streams_below
from watersmeet.runtime.script import Job

MOST_NAMED = 8  # queries in one line


def fed_together(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of a script in groups, of which each is fed by one reading of its streams. Groups come in the order of
    their first jobs, and so do the jobs in each."""
    numbers = _Numbers()
    groups: list[_Group] = []
    for place, job in enumerate(jobs):
        group = _Group.of(place, job, numbers)
        for other in [one for one in groups if one.meets(group)]:
            # By what it has met it may have become one that does not go with this.
            if other.meets(group):
                groups.remove(other)
                group = other.with_all_of(group)
        groups.append(group)
    return [[jobs[place] for place in sorted(one.places)] for one in sorted(groups, key=lambda one: min(one.places))]


def answered_together(group: Sequence[Job]) -> list[list[Job]]:
    """The queries of a group in the order of their first: those that ask the same, which are answered once."""
    alike: dict[Hashable, list[Job]] = {}
    for job in group:
        alike.setdefault(_asked(job), []).append(job)
    return list(alike.values())


def shared_streams(group: Sequence[Job]) -> dict[str, list[str]]:
    """The streams that are read once for several queries, and the names of these."""
    readers: dict[str, list[str]] = {}
    for job in group:
        for name in _streams(job.plan):
            readers.setdefault(name, []).append(job.name)
    return {name: queries for name, queries in readers.items() if len(queries) > 1}


def shared_tables(group: Sequence[Job]) -> dict[str, list[str]]:
    """The static tables that are loaded once for several queries, and the names of these."""
    joining: dict[int, tuple[str, list[str]]] = {}
    for job in group:
        for table in {id(one): one for one in job.plan.relations if isinstance(one, Table)}.values():
            joining.setdefault(id(table), (table.name, []))[1].append(job.name)
    return {name: queries for name, queries in joining.values() if len(queries) > 1}


def shared_words(group: Sequence[Job]) -> list[str]:
    """What a person is told of that: a line for those queries that share the same streams, for those that are answered
    once, and for those that share memory; and for tables that are loaded once."""
    answered = [[job.name for job in alike] for alike in answered_together(group)]
    once = [f"{queries_in_words(names)} ask the same and are answered once" for names in answered if len(names) > 1]
    return [*read_once_words(group), *loaded_once_words(group), *once, *_memory_words(group)]


def shared_memory(group: Sequence[Job]) -> tuple[Memory | None, tuple[str, ...]]:
    """The memory that some of the queries share, and which these are."""
    members = [job for job in group if shares_memory(job.plan)]
    part = members[0].plan.options.memory if len(members) > 1 else None
    return (None, ()) if part is None else (part.whole, tuple(job.name for job in members))


def _memory_words(group: Sequence[Job]) -> list[str]:
    memory, members = shared_memory(group)
    return [] if memory is None else [f"{queries_in_words(members)} share a memory of {memory.text}"]


def fixed_parts_words(jobs: Sequence[Job]) -> list[str]:
    """What a person is told of a memory where its parts do not move: with checkpoints and on Spark."""
    parts = [str(job.plan.options.memory) for job in jobs if shares_memory(job.plan)]
    return [f"{words}, in parts that stay: {listed(parts)}" for words in _memory_words(jobs)]


def read_once_words(group: Sequence[Job]) -> list[str]:
    """Of the streams alone."""
    by_queries: dict[tuple[str, ...], list[str]] = {}
    for stream, queries in shared_streams(group).items():
        by_queries.setdefault(tuple(queries), []).append(stream)
    return [
        f"{listed(names)} {'is' if len(names) == 1 else 'are'} read once for {queries_in_words(who)}"
        for who, names in by_queries.items()
    ]


def loaded_once_words(group: Sequence[Job]) -> list[str]:
    """Of static tables."""
    return [
        f"table {table} is loaded once for {queries_in_words(queries)}"
        for table, queries in shared_tables(group).items()
    ]


def queries_in_words(names: Sequence[str]) -> str:
    return listed(names) if len(names) <= MOST_NAMED else counted(len(names), "query", "queries")


def may_share(job: Job) -> bool:
    """Which rows a query sheds goes by how it is fed, so that it would shed others; those that share memory are fed
    together for its sake."""
    if job.explaining is not None or job.plan.options.share == "no":
        return False
    return job.plan.shedding is None or (shares_memory(job.plan) and not job.plan.options.has("max_lag"))


def apart_words(jobs: Sequence[Job]) -> list[str]:
    """Which queries of a script share nothing with others that look at the same streams, and why."""
    running = [job for job in jobs if job.explaining is None]
    groups = {job.name: place for place, group in enumerate(fed_together(running)) for job in group}
    words = []
    for job in running:
        others = [one for one in running if groups[one.name] != groups[job.name]]
        # That another shares with nobody is said of that one.
        others = [one for one in others if may_share(one)] if may_share(job) else others
        names = [name for name in _streams(job.plan) if any(name in _streams(one.plan) for one in others)]
        if names:
            words.append(f"{job.name} reads {listed(names)} by itself: {_why_apart(job)}")
    return words


def _why_apart(job: Job) -> str:
    if job.plan.options.share == "no":
        return "it says share = 'no'"
    if not may_share(job):
        return "which rows it sheds goes by how it is fed"
    return "one of the streams has max_drift, and waits for those of the same query"


def is_same_stream(one: Stream, other: Stream) -> bool:
    """Whether two queries look at the same rows. Sources are not compared by what is in them, which may be much."""
    if one is other:
        return True
    if one.name != other.name or one.source is not other.source or one.arrivals is not other.arrivals:
        return False
    return replace(one, source=None) == replace(other, source=None)


def _asked(job: Job) -> Hashable:
    """What tells a query from others of its group. What may stand behind a name is told by its being the same object:
    streams of one name are the same in all of a group."""
    plan = job.plan
    tables = tuple(id(one) for one in plan.relations if not isinstance(one, Stream))
    said = tuple(sorted(plan.options.changed().items()))
    return identity_of(plan), said, plan.order, tables, _tested(plan), job.name if not may_share(job) else ""


def _tested(plan: Plan) -> tuple[str, ...]:
    """The conditions as they were written, if there are some that may fail: who is tested first decides about what."""
    tests = [test for one in _joins(plan.root) for test in one.predicates]
    return () if all(map(is_sure, tests)) else tuple(map(expression_text, tests))


def _joins(node: Node) -> Iterator[Join]:
    if isinstance(node, Join):
        yield node
        below = [one.relation.plan for one in node.inputs if isinstance(one.relation, Derived | View)]
    else:
        below = list(children(node))
    for child in below:
        yield from _joins(child)


def _streams(plan: Plan) -> Mapping[str, Stream]:
    return {one.name: one for one in streams_below(plan.root)}


class _Numbers:
    """A number for each stream that is another one than those before."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[Stream, int]]] = {}
        self._next = count()

    def of(self, stream: Stream) -> int:
        known = self._known.setdefault(stream.name, [])
        for other, number in known:
            if is_same_stream(stream, other):
                return number
        known.append((stream, next(self._next)))
        return known[-1][1]


class _Group:
    """Jobs that are fed together: which stream they mean by each name. `alone`: nothing is fed with it. `waits`: if one
    of their streams must not run ahead of others. It waits for those: that is nothing to queries that do not look at
    them, and would wait as well."""

    def __init__(self, places: list[int], streams: Mapping[str, int], *, alone: bool, waits: bool) -> None:
        self.places, self._streams, self._alone, self._waits = places, streams, alone, waits

    @classmethod
    def of(cls, place: int, job: Job, numbers: _Numbers) -> _Group:
        streams = _streams(job.plan)
        waits = len(streams) > 1 and any(one.arrival.max_drift_us is not None for one in streams.values())
        numbered = {name: numbers.of(one) for name, one in streams.items()}
        return cls([place], numbered, alone=not may_share(job), waits=waits)

    def meets(self, other: _Group) -> bool:
        """Whether both look at the same stream, and nothing stands against feeding them together."""
        if self._alone or other._alone:
            return False
        if (self._waits or other._waits) and self._streams.keys() != other._streams.keys():
            return False
        both = self._streams.keys() & other._streams.keys()
        return bool(both) and all(self._streams[name] == other._streams[name] for name in both)

    def with_all_of(self, other: _Group) -> _Group:
        return _Group(
            self.places + other.places,
            {**self._streams, **other._streams},
            alone=False,
            waits=self._waits or other._waits,
        )
