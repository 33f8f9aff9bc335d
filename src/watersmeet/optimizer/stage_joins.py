"""A query in two stages: its joins first, each cut by its own key, then what is made of their combinations.

A combination carries the times of its members, so the second stage knows how long it lasts; it enters as a row of
one stream, which can be cut by another key.
"""

from __future__ import annotations

from dataclasses import field, replace

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream
from watersmeet.model.windows import Range, Until
from watersmeet.plan.expressions import Column, EventTime, Expression, columns_of, replaced
from watersmeet.plan.nodes import Changes, GroupBy, Input, Join, Node, Project, schema_of
from watersmeet.plan.options import Options
from watersmeet.plan.query import Plan
from watersmeet.plan.rewrite import with_children
from watersmeet.plan.walks import children, nodes_below

BIRTH = "__birth"


@dataclass
class Staged:
    """The joins by the names that the second stage knows them under, and the second stage."""

    plan: Plan
    joins: dict[str, Plan] = field(default_factory=dict)


def stage_joins(plan: Plan) -> Staged | None:
    """The plan with its joins taken out, or None if there is none that can be."""
    if any(map(_begins_with_rows_of_a_join, nodes_below(plan.root, into_subqueries=False))):
        return None
    staged = Staged(plan)
    root = _without_joins(plan.root, staged)
    if not staged.joins:
        return None
    rest = replace(plan, root=root, options=plan.options.but(spread=None))
    return Staged(rest, _with_spread_keys(plan.options, staged.joins))


def _with_spread_keys(options: Options, joins: dict[str, Plan]) -> dict[str, Plan]:
    """Keys are of a join: of the one that there is."""
    if options.spread is None:
        return joins
    if len(joins) > 1:
        raise options.wrong(
            "spread",
            f"names keys of a join, and this query has {len(joins)} of them that run by themselves",
            "leave it out, or write each join as a query of its own, into a sink that another reads",
        )
    kept = {"spread": options.text("spread")}
    return {
        name: replace(join, options=replace(join.options, spread=options.spread, written=kept))
        for name, join in joins.items()
    }


def _begins_with_rows_of_a_join(node: Node) -> bool:
    """Aggregates without GROUP BY are a row from the first row of any stream on, which combinations do not tell."""
    return isinstance(node, GroupBy) and not node.keys and _is_apart(node.child)


def _without_joins(node: Node, staged: Staged) -> Node:
    match node:
        case Project(child=Join() as join) if _is_apart(join):
            taken = _take_out(join, [e for _, e in node.columns], staged)
            return Project(taken.join, tuple((column, taken.over(e)) for column, e in node.columns))
        case Project(child=GroupBy(child=Join() as join) as grouped) if _is_apart(join):
            # HAVING is over groups, but its aggregates read columns of the join.
            asked = [*grouped.keys, *(e for _, e in node.columns), *([grouped.having] if grouped.having else [])]
            taken = _take_out(join, asked, staged)
            keys = tuple(taken.over(key) for key in grouped.keys)
            having = None if grouped.having is None else taken.over(grouped.having)
            columns = tuple((column, taken.over(e)) for column, e in node.columns)
            return Project(GroupBy(taken.join, keys, having), columns)
        case Changes(kind="rstream"):
            return node  # sent up to the last event of the streams, which their combinations do not tell
        case Project() | GroupBy() | Join():
            return node
    return with_children(node, [_without_joins(child, staged) for child in children(node)])


def _is_apart(join: Join) -> bool:
    """Several streams, each with a window in time: then a combination's end is known when it begins."""
    plain = not children(join) and not join.deduplicates
    return plain and len(join.streams) > 1 and all(isinstance(one.window, Range) for one in join.streams)


@dataclass(frozen=True)
class _TakenOut:
    """A join as the second stage sees it: a stream of combinations, whose columns have other names."""

    join: Join
    columns: dict[Column, Column]

    def over(self, expression: Expression) -> Expression:
        """The expression over the rows of the first stage."""
        return replaced(expression, lambda part: self.columns[part] if isinstance(part, Column) else None)


def _take_out(join: Join, asked: list[Expression], staged: Staged) -> _TakenOut:
    name = f"join_{len(staged.joins) + 1}"
    # Sorted, as a set has another order in every process, and checkpoints know these names.
    used = sorted({c for e in asked for c in columns_of(e)}, key=lambda c: (c.stream, c.name))
    times = [Column(one.alias, one.time, one.schema.field(one.time).type) for one in join.streams if one.time]
    carried = {c: Column(name, f"c{i}", c.type) for i, c in enumerate(dict.fromkeys([*used, *times]))}
    first = Project(join, (*((new.name, old) for old, new in carried.items()), (BIRTH, EventTime())))
    staged.joins[name] = Plan(first, Options(boundary=join.boundary))
    sizes = [one.window.size_us for one in join.streams if isinstance(one.window, Range)]
    ends = tuple((carried[time].name, size) for time, size in zip(times, sizes, strict=True))
    stream = Stream(name, schema_of(first), BIRTH)
    return _TakenOut(Join((Input(name, stream, Until(ends)),), boundary=join.boundary), carried)
