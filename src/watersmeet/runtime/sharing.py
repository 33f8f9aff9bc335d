"""Which queries of a script are fed together, as they look at the same streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from watersmeet.model.catalog import Stream
from watersmeet.model.wording import counted, listed
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.script import Job

Streams = Mapping[str, Stream]
MOST_NAMED = 8  # queries in one line


def fed_together(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of a script in groups, of which each is fed by one reading of its streams. Groups come in the order of
    their first jobs, and so do the jobs in each."""
    groups: list[list[int]] = []
    streams = [_streams(job.plan) for job in jobs]
    for number, job in enumerate(jobs):
        mine = [number]
        if may_share(job):
            for group in list(groups):
                if _meet(mine, group, jobs, streams):
                    groups.remove(group)
                    mine = sorted(group + mine)
        groups.append(mine)
    return [[jobs[number] for number in group] for group in sorted(groups)]


def shared_streams(group: Sequence[Job]) -> dict[str, list[str]]:
    """The streams that are read once for several queries, and the names of these."""
    readers: dict[str, list[str]] = {}
    for job in group:
        for name in _streams(job.plan):
            readers.setdefault(name, []).append(job.name)
    return {name: queries for name, queries in readers.items() if len(queries) > 1}


def streams_of(job: Job, group: Sequence[Job]) -> dict[str, list[str]]:
    """The same, of one of these queries."""
    return {name: queries for name, queries in shared_streams(group).items() if job.name in queries}


def shared_words(group: Sequence[Job]) -> list[str]:
    """What a person is told of that: a line for those queries that share the same streams."""
    by_queries: dict[tuple[str, ...], list[str]] = {}
    for stream, queries in shared_streams(group).items():
        by_queries.setdefault(tuple(queries), []).append(stream)
    return [
        f"{listed(names)} {'is' if len(names) == 1 else 'are'} read once for "
        f"{listed(who) if len(who) <= MOST_NAMED else counted(len(who), 'query', 'queries')}"
        for who, names in by_queries.items()
    ]


def may_share(job: Job) -> bool:
    """Which rows a query sheds goes by how it is fed, so that it would shed others."""
    return job.explaining is None and job.plan.options.share == "yes" and job.plan.shedding is None


def is_same_stream(one: Stream, other: Stream) -> bool:
    """Whether two queries look at the same rows. Sources are not compared by what is in them, which may be much."""
    if one is other:
        return True
    if one.name != other.name or one.source is not other.source or one.arrivals is not other.arrivals:
        return False
    return replace(one, source=None) == replace(other, source=None)


def _streams(plan: Plan) -> Streams:
    return {one.name: one for one in streams_below(plan.root)}


def _meet(one: Sequence[int], others: Sequence[int], jobs: Sequence[Job], streams: Sequence[Streams]) -> bool:
    """Whether two groups look at the same stream, and nothing stands against feeding them together."""
    pairs = [(mine, its) for mine in one for its in others]
    if not all(may_share(jobs[number]) for number in (*one, *others)):
        return False
    if not any(streams[mine].keys() & streams[its].keys() for mine, its in pairs):
        return False
    return all(_fit(streams[mine], streams[its]) for mine, its in pairs)


def _fit(one: Streams, other: Streams) -> bool:
    """A stream that must not run ahead of others waits for them: that is nothing to queries that do not look at those,
    and would wait as well."""
    if (_waits_for_others(one) or _waits_for_others(other)) and one.keys() != other.keys():
        return False
    return all(is_same_stream(one[name], other[name]) for name in one.keys() & other.keys())


def _waits_for_others(streams: Streams) -> bool:
    return len(streams) > 1 and any(one.arrival.max_drift_us is not None for one in streams.values())
