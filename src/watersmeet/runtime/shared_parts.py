"""What queries of a script that are fed together have in common, as EXPLAIN tells it of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from watersmeet.dataclass import dataclass
from watersmeet.model.wording import listed
from watersmeet.optimizer.asked_rows import asked_of
from watersmeet.optimizer.choose_join import ends_by_itself
from watersmeet.optimizer.describe import ASSUMED_RATE
from watersmeet.physical.nodes import (
    DistinctNode,
    GroupByNode,
    JoinSourceNode,
    NetNode,
    OverChangingNode,
    OverStreamNode,
    PhysicalNode,
    SetOperationNode,
    TogetherNode,
    TopKNode,
    leaves_below,
)
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.build import Built, build_plan, planned_here
from watersmeet.runtime.common_parts import CommonParts, common_parts
from watersmeet.runtime.predicate_index import index_over
from watersmeet.runtime.script import Job
from watersmeet.runtime.shared_walks import Walk, expected_walks
from watersmeet.runtime.shared_windows import Line, given_alike, kept_once, why_below_apart, why_kept_apart
from watersmeet.runtime.sharing import answered_together, may_share, queries_in_words, shared_streams, shared_tables

Names = tuple[str, ...]


@dataclass(frozen=True)
class PartOnce:
    """A part of answers that is computed once: what it is, for whom, as often as they have it, and how many rows come
    to it in a second."""

    what: str
    queries: Names
    rows_a_second: float

    @property
    def words(self) -> str:
        names = list(dict.fromkeys(self.queries))
        again = f", which {'has' if len(names) == 1 else 'have'} it {len(self.queries)} times"
        often = "" if len(names) == len(self.queries) else again
        return f"{self.what} is computed once for {queries_in_words(names)}{often}"


@dataclass(frozen=True)
class Shared:
    """What one query shares: with whom it is answered once; by the names of streams, for whom these are read once, for
    whom their rows are kept once, and by which column it is found which rows concern it; the walks of its new rows that
    others may look at, too; and the parts of its answer that others have, or it has several times."""

    answered_once_for: Names = ()
    read_once_for: Mapping[str, Names] = field(default_factory=dict)
    kept_once_for: Mapping[str, Names] = field(default_factory=dict)
    given_by: Mapping[str, str] = field(default_factory=dict)
    walks: Sequence[Walk] = ()
    parts: Sequence[PartOnce] = ()
    kept_apart: Mapping[str, str] = field(default_factory=dict)
    """By the names of streams whose rows others keep as well: why it keeps its own."""
    loaded_once_for: Mapping[str, Names] = field(default_factory=dict)
    """By the names of static tables."""


def shared_parts(group: Sequence[Job]) -> dict[str, Shared]:
    """Of each query of a group that is fed together. Those that keep rows together may do so in several windows, if
    their filters let in very different shares of the first rows."""
    if not all(map(may_share, group)):
        return {job.name: Shared() for job in group}
    if len(group) < 2:
        return {job.name: Shared(parts=told_parts(parts_in_common({job.name: planned(job.plan)}))) for job in group}
    alike = {ones[0].name: tuple(job.name for job in ones) for ones in _asking_the_same(group)}
    plans = {job.name: planned(job.plan) for job in group if job.name in alike}
    kept: dict[str, dict[str, Names]] = {name: {} for name in plans}
    lines, given = lines_of_plans(plans)
    for line, groups in kept_once(lines, plans):
        for together in groups:
            for query in together:
                kept[query][line.stream.name] = tuple(together)
    read, loaded = shared_streams(group), shared_tables(group)
    walks = expected_walks(plans, kept)
    common = parts_in_common(plans)
    parts = told_parts(common)
    apart = {**why_kept_apart(lines, plans, kept), **why_below_apart(lines, plans, common.numbers)}
    return {
        job: Shared(
            names if len(names) > 1 else (),
            {stream: tuple(queries) for stream, queries in read.items() if job in queries},
            kept[first],
            given[first],
            [one for one in walks if first in one.queries],
            [one for one in parts if first in one.queries],
            {stream: why for (query, stream), why in apart.items() if query == first},
            {table: tuple(queries) for table, queries in loaded.items() if job in queries},
        )
        for first, names in alike.items()
        for job in names
    }


def _asking_the_same(group: Sequence[Job]) -> list[list[Job]]:
    """Those that are pushed to have answers of their own to be taken."""
    pushed = any(stream.is_pushed for job in group for stream in streams_below(job.plan.root))
    return [[job] for job in group] if pushed else answered_together(group)


def lines_of_plans(plans: Mapping[str, PhysicalPlan]) -> tuple[list[Line[str]], dict[str, dict[str, str]]]:
    """What is read for some queries, and by which column of it it is found which rows concern one of them."""
    asked = {name: asked_of(plan) for name, plan in plans.items()}
    given: dict[str, dict[str, str]] = {name: {} for name in plans}
    lines = []
    for name, stream in {one.name: one for plan in plans.values() for one in plan.streams.values()}.items():
        readers = [query for query, plan in plans.items() if any(one.name == name for one in plan.streams.values())]
        # Of rows that are pushed, a few at a time, every query is given all.
        looks = len(readers) > 1 and not stream.is_pushed
        index = index_over({query: asked[query].get(name, ()) for query in readers}) if looks else None
        by_value = {} if index is None else {query: index.column_of(query) for query in readers if query in index}
        for query, column in by_value.items():
            given[query][name] = column
        lines.append(Line(stream, readers, [query for query in readers if query not in by_value]))
    return lines, given


def told_parts(common: CommonParts) -> list[PartOnce]:
    """As a person is told of them."""
    return [PartOnce(_words(one.node), one.queries, _rate(one.node)) for one in common.parts]


def _words(node: PhysicalNode) -> str:
    """What a part is called."""
    if isinstance(node, NetNode):
        return _words(node.child)
    name = node.kind.upper() if isinstance(node, SetOperationNode) else _WORDS.get(type(node), "the join")
    streams = dict.fromkeys(leaf.stream.name for leaf in leaves_below(node))
    if len(streams) == 1 and isinstance(node, JoinSourceNode):
        return f"the selection from {next(iter(streams))}"
    return f"{name} over {listed(list(streams))}"


_WORDS: Mapping[type, str] = {
    GroupByNode: "GROUP BY",
    DistinctNode: "DISTINCT",
    TopKNode: "ORDER BY … LIMIT",
    OverChangingNode: "OVER",
    OverStreamNode: "OVER",
    TogetherNode: "UNION ALL",
}


def _rate(node: PhysicalNode) -> float:
    known = [leaf.stream.statistics.rows_per_second for leaf in leaves_below(node)]
    return sum(ASSUMED_RATE if one is None else one for one in known)


def parts_in_common(plans: Mapping[str, PhysicalPlan]) -> CommonParts:
    """The parts that plans have in common which run together, or one has several times."""
    return common_parts(plans, given_alike(lines_of_plans(plans)[0], plans))


def built_together(plans: Mapping[str, Plan], *, shares: bool) -> tuple[dict[str, Built], CommonParts | None]:
    """The operators of queries that run together: parts of them that are equal are made once."""
    physical = {name: planned(plan) for name, plan in plans.items()}
    common = parts_in_common(physical) if shares else None
    parts = None if common is None else common.builder()
    built = {}
    for name, plan in plans.items():
        with plan.pointing_at_options():
            built[name] = build_plan(physical[name], parts=parts)
    for part in () if common is None else told_parts(common):
        built[part.queries[0]].shares.append(part.words)
    return built, common


def planned(plan: Plan) -> PhysicalPlan:
    with plan.pointing_at_options():
        return planned_here(plan, to_the_end=ends_by_itself(plan))
