"""Which windows queries that are fed together keep once: those of joins that are given the same rows of a stream."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol, TypeVar

from watersmeet.io.time_ordered import reads_in_time_order
from watersmeet.model.catalog import Stream
from watersmeet.model.wording import counted
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.shared_keeping import SharedKeeping
from watersmeet.operators.join.shared_window import StreamWindows, WindowView
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.runtime.build import Built

K = TypeVar("K", bound=Hashable)


class Fed(Protocol):
    """A query that is fed together with others."""

    built: Built
    operator: Operator


def share_windows(lines: Sequence[tuple[Stream, Sequence[Fed]]], tell: Callable[[str], None]) -> None:
    """Have joins keep rows together, before the first comes. lines: the streams that are read, each with the queries
    that are given all rows of it."""
    found: dict[int, tuple[WindowJoin, dict[str, tuple[StreamWindows, WindowView]]]] = {}
    for stream, runs in lines:
        by_number = dict(enumerate(runs))
        for group in kept_once(stream, {number: run.built.physical for number, run in by_number.items()}):
            tell(f"the rows of {stream.name} are kept once for {counted(len(group), 'join')}")
            views = [_view(by_number[number], stream.name) for number in group]
            windows = StreamWindows(views)
            for view in views:
                found.setdefault(id(view.join), (view.join, {}))[1][view.alias] = (windows, view)
    for join, own in found.values():
        join.keep_by(SharedKeeping(join.keeping, own))


def kept_once(stream: Stream, plans: Mapping[K, PhysicalPlan | None]) -> list[list[K]]:
    """Of queries that are given all rows of a stream: those that keep them together."""
    # When a stream counts as silent, and which rows are too far ahead, goes by the clock on the wall.
    if stream.by_arrival or stream.arrival.idle_us is not None or stream.arrival.max_future_us is not None:
        return []
    groups: dict[frozenset[str], list[K]] = {}
    for query, plan in plans.items():
        if plan is not None and _kept_alias(plan, stream.name) is not None:
            groups.setdefault(_lateness_of(plan), []).append(query)
    return [group for group in groups.values() if len(group) > 1]


def _lateness_of(plan: PhysicalPlan) -> frozenset[str]:
    """What decides which rows of a stream are late: all streams of a query; nothing where they are read in time order,
    as no row is late then."""
    read = {one.name: one for one in plan.streams.values()}
    return frozenset() if all(map(reads_in_time_order, read.values())) else frozenset(read)


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
