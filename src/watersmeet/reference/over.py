"""OVER by definition: of every row the frame is looked up among all rows of its partition, and the function worked out.

Rows stand in a list: where they are of a stream by event time and arrival, in an answer that changes by their values.
Among rows that ORDER BY does not tell apart that order stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.plan.expressions import OverCall
from watersmeet.plan.nodes import Over
from watersmeet.plan.over_functions import OVER_FUNCTIONS
from watersmeet.reference.aggregates import aggregate
from watersmeet.reference.evaluate import Combination, evaluate
from watersmeet.reference.order import Row, in_order, same
from watersmeet.reference.values import Value

NS_PER_US = 1_000


def over(node: Over, names: Sequence[str], rows: Sequence[Row]) -> list[tuple[int, Row]]:
    """The rows that are left, each with its place among those given."""
    members = [Combination({"": dict(zip(names, row, strict=True))}) for row in rows]
    values = {name: _of_all(call, members) for name, call in node.calls}
    found = []
    for place, row in enumerate(rows):
        made = {**dict(zip(names, row, strict=True)), **{name: column[place] for name, column in values.items()}}
        whole = Combination({"": made})
        if node.keep is None or evaluate(node.keep, whole) is True:
            found.append((place, tuple(evaluate(expression, whole) for _, expression in node.columns)))
    return found


def _of_all(call: OverCall, members: Sequence[Combination]) -> list[Value]:
    partitions: dict[Row, list[int]] = {}
    for place, member in enumerate(members):
        partitions.setdefault(same([evaluate(e, member) for e in call.partition_by]), []).append(place)
    values: list[Value] = [None] * len(members)
    for places in partitions.values():
        ordered = _ordered(call, places, members)
        for at, place in enumerate(ordered):
            values[place] = _value(call, [members[one] for one in ordered], at)
    return values


def _ordered(call: OverCall, places: list[int], members: Sequence[Combination]) -> list[int]:
    ordered = list(places)
    # From the last key to the first, as each sort keeps the order of equals.
    for key in reversed(call.order_by):
        keys = [evaluate(key.expression, members[place]) for place in ordered]
        ordered = in_order(ordered, keys, descending=key.descending, nulls_first=key.nulls_first)
    return ordered


def _keys(call: OverCall, member: Combination) -> Row:
    return same([evaluate(key.expression, member) for key in call.order_by])


def _value(call: OverCall, rows: list[Combination], at: int) -> Value:
    mine = _keys(call, rows[at])
    match call.function:
        case "row_number":
            return at + 1
        case "rank":
            return 1 + next(i for i, row in enumerate(rows) if _keys(call, row) == mine)
        case "dense_rank":
            return len(dict.fromkeys(_keys(call, row) for row in rows[: at + 1]))
        case "lag" | "lead":
            other = at - call.offset if call.function == "lag" else at + call.offset
            if 0 <= other < len(rows):
                return evaluate(call.args[0], rows[other])
            return evaluate(call.args[1], rows[at]) if len(call.args) > 1 else None
    frame = [row for i, row in enumerate(rows) if _is_in_frame(call, rows, i, at)]
    if call.function == "first_value":
        return evaluate(call.args[0], frame[0])
    if call.function == "last_value":
        return evaluate(call.args[0], frame[-1])
    assert call.function not in OVER_FUNCTIONS
    return aggregate(call.aggregate, frame)


def _is_in_frame(call: OverCall, rows: list[Combination], i: int, at: int) -> bool:
    frame = call.frame
    if frame.whole:
        return True
    if frame.unit == "rows":
        return i <= at and (frame.preceding is None or i >= at - frame.preceding)
    if _keys(call, rows[i]) == _keys(call, rows[at]):
        return True
    if i > at or frame.preceding is None:
        return i < at
    (key,) = call.order_by
    here, there = evaluate(key.expression, rows[at]), evaluate(key.expression, rows[i])
    if here is None or there is None:
        return False
    return bool(abs(here - there) <= frame.preceding * NS_PER_US)
