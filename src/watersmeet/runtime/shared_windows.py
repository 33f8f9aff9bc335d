"""Which windows queries that are fed together keep once: those of joins that are given the same rows of a stream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from watersmeet.dataclass import dataclass
from watersmeet.io.time_ordered import reads_in_time_order
from watersmeet.model.catalog import Stream
from watersmeet.model.wording import counted
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.shared_keeping import keep_together
from watersmeet.operators.join.shared_walk import SharedWalks
from watersmeet.operators.join.shared_window import WindowView
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.optimizer.share_walks import ByCost
from watersmeet.physical.nodes import FromManyNode, PhysicalNode, StreamSourceNode, WindowJoinNode
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.runtime.build import Built

K = TypeVar("K", bound=Hashable)
BELOW_CHANGES = (
    "a join below an answer that changes takes the rows of all its streams up to an instant one after the other, and "
    "would find those that others have put there before it is their turn; such joins are shared where they are equal"
)


class Fed(Protocol):
    """A query that is fed together with others."""

    built: Built
    operator: Operator


@dataclass(frozen=True)
class Line(Generic[K]):
    """A stream that is read, the queries that it is read for, and those of them that are given all of its rows."""

    stream: Stream
    readers: Collection[K]
    given_all: Collection[K]


def share_windows(lines: Sequence[Line[K]], runs: Mapping[K, Fed], tell: Callable[[str], None]) -> list[frozenset[K]]:
    """Have joins keep rows together, before the first comes. Gives for each line the queries that do; each of them must
    be given all columns of the rows."""
    together = kept_once(lines, {number: run.built.physical for number, run in runs.items()})
    views = {
        line.stream.name: [[_view(runs[number], line.stream.name) for number in group] for group in groups]
        for line, groups in together
    }
    keep_together(views, SharedWalks(ByCost()), partial(_tell, tell))
    return [frozenset(number for group in groups for number in group) for _, groups in together]


def _tell(tell: Callable[[str], None], stream: str, joins: int) -> None:
    tell(kept_once_words(stream, joins))


def kept_once_words(stream: str, joins: int) -> str:
    return f"the rows of {stream} are kept once for {counted(joins, 'join')}"


def kept_once(lines: Sequence[Line[K]], plans: Mapping[K, PhysicalPlan | None]) -> list[tuple[Line[K], list[list[K]]]]:
    """The queries that keep rows together, by the streams that they keep."""
    alike, found = given_alike(lines, plans), []
    for line in lines:
        groups: dict[Hashable, list[K]] = {}
        for query in line.given_all:
            plan = plans[query]
            if plan is not None and _kept_alias(plan, line.stream.name) is not None:
                groups.setdefault(alike.get((query, line.stream.name)), []).append(query)
        found.append((line, [group for which, group in groups.items() if which is not None and len(group) > 1]))
    return found


def why_kept_apart(
    lines: Sequence[Line[K]], plans: Mapping[K, PhysicalPlan], kept: Mapping[K, Mapping[str, object]]
) -> dict[tuple[K, str], str]:
    """Of joins that keep rows of a stream which other joins keep as well: why they keep their own."""
    found = {}
    for line in lines:
        name = line.stream.name
        keeping = [query for query in line.readers if _kept_alias(plans[query], name) is not None]
        for query in keeping if len(keeping) > 1 else ():
            if name in kept.get(query, {}):
                continue
            if query not in line.given_all:
                why = "it is given only those that concern it"
            elif _goes_by_the_wall(plans[query]):
                why = "it goes by the clock on the wall, which each query looks at by itself"
            else:
                why = "rows may be late, and which of them are goes by all streams that a query looks at"
            found[query, name] = why
    return found


def joined_below(plan: PhysicalPlan, shared: Collection[int]) -> set[str]:
    """The streams whose rows joins below an answer that changes keep. shared: the ids of nodes that are computed once
    for several, whose joins are not the query's own."""
    found: set[str] = set()
    nodes: list[PhysicalNode] = [plan.root]
    while nodes:
        node = nodes.pop()
        if id(node) in shared:
            continue
        if isinstance(node, FromManyNode):
            found |= {one.leaf.stream.name for one in node.sources if isinstance(one, StreamSourceNode)}
        nodes += node.children
    return found


def why_below_apart(
    lines: Sequence[Line[K]], plans: Mapping[K, PhysicalPlan], shared: Collection[int]
) -> dict[tuple[K, str], str]:
    """Of joins below answers that change: why they keep their own rows of streams of which others keep some as well."""
    below = {query: joined_below(plan, shared) for query, plan in plans.items()}
    found = {}
    for line in lines:
        name = line.stream.name
        joining = [query for query in line.readers if name in below[query]]
        plain = [query for query in line.readers if _kept_alias(plans[query], name) is not None]
        for query in joining if len(joining) + len(plain) > 1 else ():
            found[query, name] = BELOW_CHANGES
    return found


def given_alike(
    lines: Sequence[Line[K]], plans: Mapping[K, PhysicalPlan | None]
) -> dict[tuple[K, str], frozenset[int]]:
    """By queries and the streams that they look at: equal for those that are given the same rows of the same stream;
    those that are not there may be given others."""
    fed: dict[K, set[int]] = {}
    for number, line in enumerate(lines):
        for query in line.readers:
            fed.setdefault(query, set()).add(number)
    found = {}
    for line in lines:
        for query in line.given_all:
            plan = plans[query]
            if plan is not None and not _goes_by_the_wall(plan):
                found[query, line.stream.name] = _lateness_of(plan, fed[query])
    return found


def _goes_by_the_wall(plan: PhysicalPlan) -> bool:
    """Whether the clock on the wall decides which rows of a query are late: each query looks at it by itself."""
    return any(
        one.by_arrival or one.arrival.idle_us is not None or one.arrival.max_future_us is not None
        for one in plan.streams.values()
    )


def _lateness_of(plan: PhysicalPlan, fed: Collection[int]) -> frozenset[int]:
    """What decides which rows of a stream are late: all that is read for a query; nothing where that is in time order,
    as no row is late then."""
    return frozenset() if all(map(_is_in_order, plan.streams.values())) else frozenset(fed)


def _is_in_order(stream: Stream) -> bool:
    if stream.is_pushed:  # in whatever order
        return False
    # One that was not opened, for EXPLAIN, is told by what it says.
    return stream.arrival.in_time_order if stream.source is None else reads_in_time_order(stream)


def _kept_alias(plan: PhysicalPlan, stream: str) -> str | None:
    """What a plan that is one plain join calls a stream whose rows it keeps as long as time lets them; None: it is no
    such plan, or has the stream twice."""
    node = plan.root
    if not isinstance(node, WindowJoinNode) or (node.shedding, node.spilling, node.announced) != (None, None, None):
        return None
    if any(leaf.stream.first is not None for leaf in plan.leaves):
        return None
    aliases = [leaf.name for leaf in plan.leaves if leaf.stream.name == stream]
    looked_up = {step.stream for route in node.strategy.routes for step in route.steps}
    return aliases[0] if len(aliases) == 1 and aliases[0] in looked_up else None


def _view(run: Fed, stream: str) -> WindowView:
    plan, join = run.built.physical, run.operator
    assert plan is not None
    alias = _kept_alias(plan, stream)
    assert alias is not None
    assert isinstance(join, WindowJoin)
    return WindowView(join, alias)
