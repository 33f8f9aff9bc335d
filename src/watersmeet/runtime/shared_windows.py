"""Which windows queries that are fed together keep once: those of joins that are given the same rows of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

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


class Fed(Protocol):
    """A query that is fed together with others."""

    built: Built
    operator: Operator
    streams: Mapping[str, Stream]


def share_windows(lines: Sequence[tuple[Stream, Sequence[Fed]]], tell: Callable[[str], None]) -> None:
    """Have joins keep rows together, before the first comes. lines: the streams that are read, each with the queries
    that are given all rows of it."""
    found: dict[int, tuple[WindowJoin, dict[str, tuple[StreamWindows, WindowView]]]] = {}
    for stream, runs in lines:
        for group in _given_the_same(stream, runs):
            views = [view for run in group if (view := _view(run, stream.name)) is not None]
            if len(views) < 2:
                continue
            tell(f"the rows of {stream.name} are kept once for {counted(len(views), 'join')}")
            windows = StreamWindows(views)
            for view in views:
                found.setdefault(id(view.join), (view.join, {}))[1][view.alias] = (windows, view)
    for join, own in found.values():
        join.keep_by(SharedKeeping(join.keeping, own))


def _given_the_same(stream: Stream, runs: Sequence[Fed]) -> list[list[Fed]]:
    """Queries in whose answers the same rows of a stream count. Which are late is a matter of the other streams too,
    unless it is read in time order: then none is."""
    if stream.by_arrival or stream.arrival.idle_us is not None or stream.arrival.max_future_us is not None:
        return []
    groups: dict[frozenset[str], list[Fed]] = {}
    for run in runs:
        all_in_order = all(map(reads_in_time_order, run.streams.values()))
        groups.setdefault(frozenset() if all_in_order else frozenset(run.streams), []).append(run)
    return list(groups.values())


def kept_alias(plan: PhysicalPlan | None, stream: str) -> str | None:
    """What a plan that is one plain join calls a stream whose rows it keeps as long as time lets them; None: it is no
    such plan, or has the stream twice."""
    if plan is None or not isinstance(plan.root, WindowJoinNode):
        return None
    node = plan.root
    if node.shedding is not None or node.spilling is not None or node.announced is not None:
        return None
    aliases = [leaf.name for leaf in plan.leaves if leaf.stream.name == stream]
    return aliases[0] if len(aliases) == 1 and all(leaf.stream.first is None for leaf in plan.leaves) else None


def _view(run: Fed, stream: str) -> WindowView | None:
    alias, join = kept_alias(run.built.physical, stream), run.operator
    if alias is None or not isinstance(join, WindowJoin) or join.layout.mortal or not join.keeping.keeps_all:
        return None
    return WindowView(join, alias) if alias in join.stores else None
