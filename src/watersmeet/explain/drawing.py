"""A plan as a picture: the streams on the left, the answer on the right, what flows on the lines between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from watersmeet.explain.joins import ExplainedJoin
from watersmeet.explain.text import (
    Line,
    access_of,
    asof_lines,
    bound_lines,
    index_words,
    join_words,
    kept_of,
    kept_words,
    lateness_of,
    output,
    partition_words,
    sort_key,
    spread_words,
    step_lines,
    threshold_lines,
)
from watersmeet.model.catalog import Table
from watersmeet.model.wording import short
from watersmeet.physical.estimate import MemoryEstimate
from watersmeet.physical.nodes import PartitionedNode
from watersmeet.physical.pipeline import WORDS
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import JoinStrategy, Route
from watersmeet.pictures.draw_tree import tree_svg
from watersmeet.pictures.tree import NodeText
from watersmeet.plan.expressions import to_text
from watersmeet.plan.nodes import Changes, Derived, GroupBy, Input, Join, Node, Over, Project, SetOperation, TopK, View
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import children
from watersmeet.plan.window_words import window_text

Joins = Mapping[int, ExplainedJoin]
MOST_COLUMNS = 12  # of a select list that are named in a box


def plan_svg(
    plan: Plan,
    joins: Sequence[ExplainedJoin],
    physical: PhysicalPlan,
    layout: str = "",
    memory: MemoryEstimate | None = None,
) -> str:
    """The plan with how its joins run; below it how a host spreads it, and the options."""
    return tree_svg("how the query runs", plan_tree(plan, joins), notes_of(plan, physical, layout, memory))


def plan_tree(plan: Plan, joins: Sequence[ExplainedJoin]) -> NodeText:
    """What stands in the boxes and on the lines, from the answer to the streams."""
    answers = {"rows": "rows", "changes": "changes", "inserts": "what enters", "deletes": "what leaves"}
    root = _node(plan.root, {id(one.join): one for one in joins})
    return replace(root, above=root.above or _results(plan.root, joins), below=answers.get(plan.kind, "whole answers"))


def notes_of(plan: Plan, physical: PhysicalPlan, layout: str, memory: MemoryEstimate | None) -> list[str]:
    notes = []
    if isinstance(physical.root, PartitionedNode):
        notes.append(partition_words(physical.root))
        spread = spread_words(physical.root, plan.options.spread)
        notes += [] if spread is None else [spread]
    if physical.one_thread is not None:
        notes.append(f"in one thread: {physical.one_thread}")
    if plan.kind != "rows":
        notes.append(f"pipeline: {WORDS[physical.choice.pipeline]}")
    if memory is not None:
        notes.append(
            f"in bounded memory: {short(memory.rows_allowed)} of about {short(sum(memory.rows_needed.values()))} rows, "
            f"kept by {memory.policy}; recall to expect {memory.recall:.1%}"
        )
    changed = plan.options.changed()
    if changed:
        notes.append("options: " + ", ".join(f"{name} = {value}" for name, value in changed.items()))
    return [*notes, *layout.splitlines()]


def _results(root: Node, joins: Sequence[ExplainedJoin]) -> str:
    """Rows a second of an answer that is a join, as far as anything is known of its streams."""
    inside = root.child if isinstance(root, Project) else None
    found = next((one.estimate for one in joins if one.join is inside), None)
    if found is None or any(one.known == "assumed" for one in found.inputs.values()):
        return ""
    return f"~{short(found.results)}/s"


def _node(node: Node, joins: Joins) -> NodeText:
    match node:
        case Project(child=GroupBy() as groups):
            return _groups(node, groups, joins)
        case Project(child=Join() as join) if len(join.inputs) == 1:
            return _selection(node, join, joins)
        case Project(child=child):
            return _over(NodeText("other", "select", _columns(node)), child, joins)
        case Join():
            return _join(node, joins)
        case GroupBy(child=child):
            return _over(NodeText("other", "group by", tuple(map(to_text, node.keys))), child, joins)
        case TopK(child=child, keys=keys):
            return _over(NodeText("other", node.words, (f"by {', '.join(map(sort_key, keys))}",)), child, joins)
        case Over(child=child):
            calls = tuple(to_text(call) for _, call in node.calls)
            kept = () if node.keep is None else (f"kept if {to_text(node.keep)}",)
            return _over(NodeText("other", "over", (*calls, *kept), tuple(kept_of(node))), child, joins)
        case Changes(kind=kind, child=child, every=every):
            words = {"complete": "when the window is complete", "log": "changes"}.get(kind, kind)
            often = () if every is None else (f"every {every}",)
            return _over(NodeText("other", words, often), child, joins)
        case SetOperation(kind=kind, all=keep, left=left, right=right):
            return NodeText("join", kind + " all" * keep, children=(_node(left, joins), _node(right, joins)))
        case _:  # what has no picture of its own is told in the words of the text
            title, *more = (line.text for line in step_lines(node) if isinstance(line, Line))
            return NodeText("other", title, tuple(more), children=tuple(_node(one, joins) for one in children(node)))


def _over(node_text: NodeText, child: Node, joins: Joins) -> NodeText:
    return replace(node_text, children=(_node(child, joins),))


def _columns(node: Project) -> tuple[str, ...]:
    named = [output(name, to_text(expression)) for name, expression in node.columns]
    more = len(named) - MOST_COLUMNS
    return tuple(named) if more <= 1 else (*named[:MOST_COLUMNS], f"and {more} more columns")


def _groups(node: Project, groups: GroupBy, joins: Joins) -> NodeText:
    """The groups and what is said of them, as one: neither is there without the other."""
    keys = ", ".join(map(to_text, groups.keys))
    having = () if groups.having is None else (f"having {to_text(groups.having)}",)
    node_text = NodeText("other", f"group by {keys}" if keys else "one group of all rows", (*_columns(node), *having))
    if len(groups.child.inputs) > 1:
        return _over(node_text, groups.child, joins)
    conditions = _conditions(groups.child)
    return replace(node_text, remarks=conditions, children=(_input(groups.child.inputs[0], None, joins),))


def _selection(node: Project, join: Join, joins: Joins) -> NodeText:
    return NodeText(
        "other", "select", _columns(node), _conditions(join), children=(_input(join.inputs[0], None, joins),)
    )


def _conditions(join: Join) -> tuple[str, ...]:
    return tuple(f"where {to_text(predicate)}" for predicate in join.predicates)


def _join(join: Join, joins: Joins) -> NodeText:
    explained = joins.get(id(join))
    children = tuple(_input(one, explained, joins) for one in join.inputs)
    if explained is None or join.asof is not None:
        lines = threshold_lines(join) if join.asof is None else asof_lines(join, join.asof)
        title, *more = (line.text for line in lines if isinstance(line, Line))
        return NodeText("join", title, tuple(more), children=children)
    conditions = [to_text(one) for one in join.predicates]
    later = [f"then {to_text(one)}" for one in join.where]
    bounds = [line.text for line in bound_lines(join.windows) if isinstance(line, Line) and line.text != "none"]
    bounds = bounds if len(bounds) > 1 else []
    routes = tuple(_routes(explained.strategy))
    title = join_words(join).removesuffix(", no intermediate results")
    return NodeText("join", title, (*conditions, *later), (*bounds, *routes), children=children)


def _routes(strategy: JoinStrategy) -> Iterator[str]:
    """In which order the new rows of each stream visit the others."""
    method = strategy.method
    if method.is_classic:
        yield f"by the algorithm {method.algorithm}"
    if not strategy.routes or (method.is_classic and not method.kind.loops):
        return
    yield "a new row of"
    for route in strategy.routes:
        yield f"- {_route(route, strategy)}"


def _route(route: Route, strategy: JoinStrategy) -> str:
    begins = route.origin if route.start == route.origin else f"{route.origin}: {route.start}"
    visits = [(step.stream, access_of(step, strategy.method)) for step in route.steps]
    if len({access for _, access in visits}) == 1:
        return " -> ".join([begins, *(name for name, _ in visits)]) + f", by {visits[0][1]}"
    return " -> ".join([begins, *(f"{name} by {access}" for name, access in visits)])


def _input(one: Input, explained: ExplainedJoin | None, joins: Joins) -> NodeText:
    """A stream, a table or a subquery where it flows into what reads it."""
    relation = one.relation
    made = "".join(f"with {to_text(e)} as {name} " for name, e in one.made)
    window = made + ("" if one.window is None else f"[{window_text(one.window)}]")
    if isinstance(relation, Derived | View):
        node_text = _node(relation.plan, joins)
        return replace(
            node_text, above=f"as {one.alias}", below=window or ("view" if isinstance(relation, View) else "")
        )
    own = relation.name if relation.name == one.alias else f"{relation.name} as {one.alias}"
    kind = "table" if isinstance(relation, Table) else "stream"
    return NodeText(
        kind,
        f"{kind} {own}",
        remarks=tuple(_kept(one, explained)),
        above=_rate(one, explained),
        below=window,
        name=one.alias,
    )


def _rate(one: Input, explained: ExplainedJoin | None) -> str:
    estimate = None if explained is None or explained.estimate is None else explained.estimate.inputs.get(one.alias)
    # What is only assumed is no rate of this stream; how many rows are kept by it says so.
    return f"{short(estimate.rate)}/s" if estimate is not None and estimate.rate and estimate.known != "assumed" else ""


def _kept(one: Input, explained: ExplainedJoin | None) -> Iterator[str]:
    if lateness_of(one) != "-":
        yield f"lateness {lateness_of(one)}"
    if explained is None or one.alias not in {each.alias for each in explained.strategy.join.inputs}:
        return
    strategy = explained.strategy
    own = strategy.join.input(one.alias)
    kept = kept_words(explained, own)
    yield "not kept" if kept == "not kept" else f"kept for {kept}"
    estimate = None if explained.estimate is None else explained.estimate.inputs.get(one.alias)
    if estimate is not None and kept != "not kept":
        yield f"about {short(estimate.rows)} rows, {estimate.known}"
    index = index_words(strategy, own)
    if index != "-" and not strategy.method.is_classic:
        yield f"index {index}"
