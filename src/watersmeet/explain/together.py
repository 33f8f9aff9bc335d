"""What queries of a script share, and what that saves: what EXPLAIN of a script says at the end."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.explain.joins import explained_joins
from watersmeet.model.wording import in_bytes, short, time_a_second
from watersmeet.optimizer.choose_partitioning import choose_partitioning
from watersmeet.optimizer.kept_once import kept_alike
from watersmeet.optimizer.spread_keys import spread_along
from watersmeet.physical.estimate import InputEstimate
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.pictures.draw_tree import tree_svg
from watersmeet.pictures.tree import NodeText
from watersmeet.plan.nodes import Input
from watersmeet.runtime.script import Job
from watersmeet.runtime.shared_parts import Names, PartOnce, Shared, planned
from watersmeet.runtime.shared_walks import Walk
from watersmeet.runtime.sharing import queries_in_words, shared_memory

SEVERAL = 4  # buckets: how many there will be is not known, and who places rows alike does not go by that


@dataclass(frozen=True)
class KeptOnce:
    """Rows that some joins keep in one window, which is as wide as the widest needs, and what they would keep apart."""

    queries: Names
    rows: float
    rows_apart: float
    bytes: float
    bytes_apart: float


@dataclass(frozen=True)
class Together:
    """Of queries that are fed together. By stream: who reads it once, whose rows are kept once, and by which columns it
    is found which queries a row concerns; who walks once; which parts of answers are computed once; which of the
    queries keep rows by themselves that others keep as well, and why; who asks the same; for whom static tables are
    loaded once; and the memory that some share."""

    read_once_for: Mapping[str, Names]
    kept_once: Mapping[str, Sequence[KeptOnce]]
    given_by: Mapping[str, Names]
    walks: Sequence[Walk]
    parts: Sequence[PartOnce]
    kept_apart: Mapping[str, Mapping[str, str]]
    answered_once_for: Sequence[Names]
    loaded_once_for: Mapping[str, Names]
    memory: str | None = None
    memory_for: Names = ()
    queries: Names = field(default=())
    kept_once_on_spark: Sequence[Names] = ()
    """Joins whose rows of all their streams lie once in the buckets, as they place them alike."""

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}

    def lines(self) -> Iterator[str]:
        for line in (self._reading, self._keeping, self._giving, self._walking):
            for stream in self.read_once_for:
                yield from line(stream)
        yield from map(_part_words, self.parts)
        for stream in self.read_once_for:
            yield from self._keeping_apart(stream)
        yield from self._answering()

    def drawn(self) -> NodeText:
        """Its streams and parts as what flows into the queries."""
        inputs = [
            NodeText(
                "stream",
                stream,
                (*self._reading(stream), *self._keeping(stream), *self._giving(stream)),
                (*self._walking(stream), *self._keeping_apart(stream)),
            )
            for stream in self.read_once_for
        ]
        parts = [NodeText("join", part.what, (_part_words(part),)) for part in self.parts]
        return NodeText("other", queries_in_words(self.queries), tuple(self._answering()), children=(*inputs, *parts))

    def _reading(self, stream: str) -> Iterator[str]:
        yield f"{stream} is read once for {queries_in_words(self.read_once_for[stream])}"

    def _keeping(self, stream: str) -> Iterator[str]:
        for one in self.kept_once.get(stream, ()):
            yield (
                f"rows of {stream} are kept once for {queries_in_words(one.queries)}: about {short(one.rows)} "
                f"({in_bytes(one.bytes)}), apart {short(one.rows_apart)} ({in_bytes(one.bytes_apart)})"
            )

    def _giving(self, stream: str) -> Iterator[str]:
        if stream in self.given_by:
            yield f"of {stream} it is found by {' and by '.join(self.given_by[stream])} which queries a row concerns"

    def _walking(self, stream: str) -> Iterator[str]:
        for walk in self.walks:
            if walk.stream == stream:
                yield from _walk_words(walk)

    def _keeping_apart(self, stream: str) -> Iterator[str]:
        whys = self.kept_apart.get(stream, {})
        for why in dict.fromkeys(whys.values()):
            who = queries_in_words([query for query, one in whys.items() if one == why])
            yield f"rows of {stream} are kept apart for {who}: {why}"

    def _answering(self) -> Iterator[str]:
        for table, who in self.loaded_once_for.items():
            yield f"table {table} is loaded once for {queries_in_words(who)}"
        for queries in self.answered_once_for:
            yield f"{queries_in_words(queries)} ask the same and are answered once"
        if self.memory is not None:
            yield f"{queries_in_words(self.memory_for)} share a memory of {self.memory}"
        for queries in self.kept_once_on_spark:
            yield f"on Spark all rows are kept once for {queries_in_words(queries)}"


def together_svg(found: Sequence[Together], apart: Sequence[str]) -> str:
    """A picture of what the queries of a script share; below it who shares nothing."""
    drawn = [one.drawn() for one in found]
    root = drawn[0] if len(drawn) == 1 else NodeText("other", "the script", children=tuple(drawn))
    return tree_svg("what the queries share", root, apart)


def together(group: Sequence[Job], shared: Mapping[str, Shared]) -> Together | None:
    """Of a group that is fed together, if it shares anything."""
    parts = {job.name: shared[job.name] for job in group}
    read: dict[str, Names] = {}
    kept: dict[str, set[Names]] = {}
    given: dict[str, list[str]] = {}
    for one in parts.values():
        read |= one.read_once_for
        for stream, queries in one.kept_once_for.items():
            kept.setdefault(stream, set()).add(queries)
        for stream, column in one.given_by.items():
            if column not in given.setdefault(stream, []):
                given[stream].append(column)
    memory, members = shared_memory(group)
    common = list(dict.fromkeys(part for one in parts.values() for part in one.parts))
    if not read and not common:
        return None
    estimates = _Estimates({job.name: job for job in group})
    return Together(
        read,
        {stream: [estimates.kept_once(stream, one) for one in sorted(groups)] for stream, groups in kept.items()},
        {stream: tuple(columns) for stream, columns in given.items()},
        list(dict.fromkeys(walk for one in parts.values() for walk in one.walks)),
        common,
        _by_streams({query: one.kept_apart for query, one in parts.items()}),
        list(dict.fromkeys(one.answered_once_for for one in parts.values() if one.answered_once_for)),
        {table: queries for one in parts.values() for table, queries in one.loaded_once_for.items()},
        None if memory is None else memory.text,
        members,
        tuple(job.name for job in group),
        _kept_once_on_spark([job for job in group if not shared[job.name].given_by]),
    )


def _kept_once_on_spark(jobs: Sequence[Job]) -> list[Names]:
    found: dict[Hashable, list[str]] = {}
    for job in jobs:
        plan = planned(job.plan)
        if isinstance(plan.root, WindowJoinNode):
            chosen = choose_partitioning(plan.strategy, SEVERAL)
            spread = spread_along(job.plan, plan, chosen.dimensions)
            found.setdefault(kept_alike(plan, replace(chosen, dimensions=spread)), []).append(job.name)
    return [tuple(names) for alike, names in found.items() if alike is not None and len(names) > 1]


def _by_streams(apart: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for query, whys in apart.items():
        for stream, why in whys.items():
            found.setdefault(stream, {})[query] = why
    return found


def _walk_words(walk: Walk) -> Iterator[str]:
    who = queries_in_words(walk.queries)
    if len(walk.queries) > 1:
        yield (
            f"new rows of {walk.stream} look for partners once for {who}: about {time_a_second(walk.busy_ns)} of each "
            f"second, apart {time_a_second(walk.apart_ns)}"
        )
    if walk.others:
        yield (
            f"new rows of {walk.stream} do so for {who} apart from those for {queries_in_words(walk.others)}, as they "
            f"find very different numbers: together about {time_a_second(walk.with_others_ns)} of each second, apart "
            f"{time_a_second(walk.without_others_ns)}"
        )


def _part_words(part: PartOnce) -> str:
    apart = len(part.queries) * part.rows_a_second
    return f"{part.words}: {short(part.rows_a_second)} rows a second come to it, apart {short(apart)}"


class _Estimates:
    """What each query is expected to keep of each stream."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self._known: dict[str, dict[str, InputEstimate]] = {}

    def kept_once(self, stream: str, queries: Names) -> KeptOnce:
        each = [one for query in queries if (one := self._of(query).get(stream)) is not None]
        rows, size = [one.rows for one in each], [one.bytes for one in each]
        return KeptOnce(queries, max(rows, default=0.0), sum(rows), max(size, default=0.0), sum(size))

    def _of(self, query: str) -> dict[str, InputEstimate]:
        if query not in self._known:
            joins = explained_joins(planned(self._jobs[query].plan))
            self._known[query] = {
                _name(one): join.estimate.inputs[one.alias]
                for join in joins
                if join.estimate is not None
                for one in join.join.streams
                if one.alias in join.estimate.inputs
            }
        return self._known[query]


def _name(one: Input) -> str:
    return one.relation.name
