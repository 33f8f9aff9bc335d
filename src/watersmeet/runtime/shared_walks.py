"""Which joins of a script are expected to walk together, as EXPLAIN tells it; as they run they go by what they find."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from watersmeet.dataclass import dataclass
from watersmeet.operators.join.shared_walk import WalkSeen, compared
from watersmeet.optimizer.share_walks import expected_walk, took_together, walks_together
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import Code, Route
from watersmeet.plan.identity import neutral_text

Names = tuple[str, ...]
KeptOnce = Mapping[str, Mapping[str, Names]]  # by queries and streams: for whom their rows are kept once


@dataclass(frozen=True)
class Walk:
    """New rows of a stream look for partners once for some joins: what that takes, in nanoseconds a second, and what it
    would if each did by itself. `others` look for the same by the same keys, and walk apart all the same: with them it
    would all take `with_others_ns`, and so it takes `without_others_ns`. That is told of all groups but one."""

    stream: str
    queries: Names
    busy_ns: float
    apart_ns: float
    others: Names = ()
    with_others_ns: float = 0.0
    without_others_ns: float = 0.0


def expected_walks(plans: Mapping[str, PhysicalPlan], kept: KeptOnce) -> list[Walk]:
    """By the rates that are declared, or assumed."""
    alike: dict[Hashable, list[tuple[str, str, WalkSeen]]] = {}
    for query, plan in plans.items():
        for stream, key, seen in _walks(plan, kept.get(query, {})):
            alike.setdefault(key, []).append((query, stream, seen))
    return [walk for walks in alike.values() if len(walks) > 1 for walk in _groups(walks)]


def _groups(walks: list[tuple[str, str, WalkSeen]]) -> Iterator[Walk]:
    every = [seen for _, _, seen in walks]
    together_ns, _ = took_together(every)
    groups = walks_together(every)
    best_ns = sum(took_together([every[place] for place in group])[0] for group in groups)
    for number, group in enumerate(groups):
        busy_ns, apart_ns = took_together([every[place] for place in group])
        others = tuple(query for place, (query, _, _) in enumerate(walks) if number and place not in group)
        names = tuple(walks[place][0] for place in group)
        beside = (others, together_ns, best_ns) if others else ()
        yield Walk(walks[0][1], names, busy_ns, apart_ns, *beside)


def _walks(plan: PhysicalPlan, kept: Mapping[str, Names]) -> Iterator[tuple[str, Hashable, WalkSeen]]:
    """The walks of a join that may be shared, each with its stream and with what must be the same for two."""
    node = plan.root
    if not isinstance(node, WindowJoinNode) or len(node.strategy.join.windows.alternatives) > 1:
        return
    names = {leaf.name: leaf.stream.name for leaf in plan.leaves}
    for route in node.strategy.routes:
        if all(names.get(one) in kept for one in route.visits):
            windows = tuple((names[one], kept[names[one]]) for one in route.visits)
            seen = expected_walk(node.strategy, route.origin)
            yield names[route.origin], (windows, _steps(route)), seen


def _steps(route: Route) -> Hashable:
    places = {alias: place for place, alias in enumerate(route.visits)}

    def at(code: Code) -> tuple[int, str]:
        return places[code.stream], neutral_text(code.expression)

    accesses = [(step.access, None if step.sorted_by is None else at(step.sorted_by)) for step in route.steps]
    return tuple(accesses), tuple((at(bound), how, at(own)) for bound, how, own in compared(route))
