"""What a check cannot show, as both answers go by it: how words of the query were read as others."""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.model.windows import Each
from watersmeet.plan.nodes import Join, Node, Over, Plan, View, children


def shared_readings(plan: Plan) -> tuple[str, ...]:
    """The words whose meaning was settled when the query was read, before anything was computed."""
    return tuple(dict.fromkeys(word for node in _everything(plan.root) for word in _words(node)))


def _everything(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _everything(child)


def _words(node: Node) -> Iterator[str]:
    if isinstance(node, Over):
        yield "OVER"
    if not isinstance(node, Join):
        return
    if node.kind in ("semi", "anti"):
        yield "EXISTS and IN as joins"
    if node.asof is not None:
        yield "ASOF JOIN"
    for one in node.inputs:
        if isinstance(one.window, Each):
            yield "UNNEST"
        if isinstance(one.relation, View) and one.relation.name.startswith("subquery"):
            yield "subqueries as joins"
