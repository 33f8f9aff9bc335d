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
    filters = {alias: tests for node in plan.nodes for alias, tests in _filters(node).items()}
    by_stream: dict[str, list[dict[str, AskedRows]]] = {}
    for leaf in plan.leaves:
        by_stream.setdefault(leaf.stream.name, []).append(_by_column(filters.get(leaf.name, ())))
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


def _filters(node: PhysicalNode) -> Mapping[str, Sequence[Expression]]:
    match node:
        case SelectNode() | WindowJoinNode():
            return {
                **node.strategy.filters,
                **({node.only.alias: node.strategy.join.predicates} if isinstance(node, SelectNode) else {}),
            }
        case FromOneNode(source=StreamSourceNode(alias=alias), predicates=predicates):
            return {alias: predicates}
    return {}


def _by_column(tests: Iterable[Expression]) -> dict[str, AskedRows]:
    found: dict[str, AskedRows] = {}
    for test in tests:
        asked = _asked(test)
        # What is tested first may fail, and must then fail of rows with other values as well.
        if asked is None and not _is_sure(test):
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


def _is_sure(test: Expression) -> bool:
    return all(one.function in _SURE for one in walk(test) if isinstance(one, Call))


def _is_indexed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


def _of_any(leaves: Sequence[Mapping[str, AskedRows]]) -> Iterable[AskedRows]:
    """What is asked of a stream that is read several times: a row concerns the query if it concerns any of them."""
    for column, asked in leaves[0].items():
        if all(column in leaf for leaf in leaves):
            yield AskedRows(column, asked.type, frozenset().union(*(leaf[column].values for leaf in leaves)))
