"""The rows that a query asks for by constants: of hundreds that say WHERE sensor = …, a row concerns few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.windows import Hop, RowsWindow, Session, SteppedRows, Window
from watersmeet.physical.nodes import (
    ContinuousNode,
    DistinctNode,
    FromManyNode,
    FromOneNode,
    GroupByNode,
    LeafNode,
    NetNode,
    PhysicalNode,
    SelectNode,
    SetOperationNode,
    StreamSourceNode,
    TopKNode,
    WindowJoinNode,
)
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.plan.expressions import Call, Column, Expression, Literal, walk

Value = int | str
# Only below these does a row that no filter lets through bring about nothing at all.
_KINDS = (
    SelectNode, WindowJoinNode, ContinuousNode, FromOneNode, FromManyNode, StreamSourceNode, LeafNode, GroupByNode,
    DistinctNode, SetOperationNode, TopKNode, NetNode,
)  # fmt: skip
# Whatever they are given, these do not fail.
_SURE = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null", "in"))


@dataclass(frozen=True)
class AskedRows:
    """Those with one of some values in a column."""

    column: str
    type: pa.DataType
    values: frozenset[Value]


def asked_of(plan: PhysicalPlan) -> dict[str, tuple[AskedRows, ...]]:
    """By the names of streams: a row that is not among the rows of each brings about nothing but that time goes on."""
    if not all(isinstance(node, _KINDS) for node in plan.nodes) or any(map(_needs_every_row, plan.nodes)):
        return {}
    filters = [one for node in plan.nodes for one in _filters(node, plan)]
    if len(filters) > len({name for name, _ in filters}):  # a leaf that is read twice
        return {}
    of_leaves = dict(filters)
    by_stream: dict[str, list[dict[str, AskedRows]]] = {}
    for leaf in plan.leaves:
        by_stream.setdefault(leaf.stream.name, []).append(_by_column(of_leaves.get(leaf.name, ())))
    found = {name: tuple(_of_any(leaves)) for name, leaves in by_stream.items() if _is_whole(plan, name)}
    return {name: asked for name, asked in found.items() if asked}


def _is_whole(plan: PhysicalPlan, name: str) -> bool:
    """Whether all rows of a stream are given to the operators as they come: first ones are known by all of them."""
    return all(leaf.stream.first is None for leaf in plan.leaves if leaf.stream.name == name)


def _needs_every_row(node: PhysicalNode) -> bool:
    """Whether rows count that it leaves out."""
    match node:
        case SelectNode() | WindowJoinNode():
            counted = any(_counts(one.window) for one in node.strategy.join.streams)
            return counted or (isinstance(node, WindowJoinNode) and (node.shedding or node.spilling) is not None)
        case StreamSourceNode(window=window, made=made):
            return _counts(window) or bool(made)
        case GroupByNode(always=always):
            return always
    return False


def _counts(window: Window | None) -> bool:
    return isinstance(window, RowsWindow | SteppedRows | Session | Hop)


def _filters(node: PhysicalNode, plan: PhysicalPlan) -> list[tuple[str, Sequence[Expression]]]:
    """What rows must be, by the leaves that they enter by."""
    match node:
        case SelectNode() if node is plan.root:
            return [(node.only.alias, node.strategy.join.predicates)]
        case WindowJoinNode(strategy=strategy) if node is plan.root:
            return [(one.alias, strategy.filters.get(one.alias, ())) for one in strategy.join.streams]
        case FromOneNode(source=StreamSourceNode(leaf=leaf), predicates=predicates):
            return [(leaf.name, predicates)]
        case FromManyNode(sources=sources, joining=joining):
            found = [one for one in sources if isinstance(one, StreamSourceNode)]
            return [(one.leaf.name, joining.strategy.filters.get(one.alias, ())) for one in found]
    return []


def _by_column(tests: Iterable[Expression]) -> dict[str, AskedRows]:
    found: dict[str, AskedRows] = {}
    for test in tests:
        asked = _asked(test)
        # What is tested first may fail, and must then fail of rows with other values as well.
        if asked is None and not is_sure(test):
            break
        if asked is not None:
            before = found.get(asked.column)
            values = asked.values if before is None else asked.values & before.values
            found[asked.column] = AskedRows(asked.column, asked.type, values)
    return found


def _asked(test: Expression) -> AskedRows | None:
    if not isinstance(test, Call) or test.function not in ("eq", "in"):
        return None
    asked, *values = test.args
    if test.function == "eq" and isinstance(asked, Literal):
        asked, values = values[0], [asked]
    if not isinstance(asked, Column) or not _is_indexed(asked.type):
        return None
    known = [one.value for one in values if isinstance(one, Literal) and one.type == asked.type]
    if len(known) < len(values) or None in known:
        return None
    return AskedRows(asked.name, asked.type, frozenset(known))


def is_sure(test: Expression) -> bool:
    """Whether a condition does not fail, whatever it is given."""
    return all(one.function in _SURE for one in walk(test) if isinstance(one, Call))


def _is_indexed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


def _of_any(leaves: Sequence[Mapping[str, AskedRows]]) -> Iterable[AskedRows]:
    """What is asked of a stream that is read several times: a row concerns the query if it concerns any of them."""
    for column, asked in leaves[0].items():
        if all(column in leaf for leaf in leaves):
            yield AskedRows(column, asked.type, frozenset().union(*(leaf[column].values for leaf in leaves)))
