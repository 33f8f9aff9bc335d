"""OVER by definition: of every row the frame is looked up among all rows of its partition, and the function worked out.

Rows stand in a list: where they are of a stream by event time and arrival, in an answer that changes by their values.
Among rows that ORDER BY does not tell apart that order stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.plan.expressions import OverCall
from watersmeet.plan.nodes import Over
from watersmeet.plan.over_functions import OVER_FUNCTIONS, VALUES
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
        case "percent_rank":
            smaller = next(i for i, row in enumerate(rows) if _keys(call, row) == mine)
            return smaller / (len(rows) - 1) if len(rows) > 1 else 0.0
        case "cume_dist":
            return max(i + 1 for i, row in enumerate(rows) if _keys(call, row) == mine) / len(rows)
        case "ntile":
            sizes = [len(rows) // call.offset + (part < len(rows) % call.offset) for part in range(call.offset)]
            return next(part for part in range(call.offset) if at < sum(sizes[: part + 1])) + 1
        case "lag" | "lead":
            return _other_row(call, rows, at)
    frame = [row for i, row in enumerate(rows) if _is_in_frame(call, rows, i, at)]
    if call.function in VALUES:
        values = [evaluate(call.args[0], row) for row in frame]
        values = [value for value in values if value is not None] if call.ignores_nulls else values
        number = {"first_value": 1, "last_value": len(values)}.get(call.function, _number(call, rows[at]))
        return values[number - 1] if number is not None and 0 < number <= len(values) else None
    assert call.function not in OVER_FUNCTIONS
    return aggregate(call.aggregate, frame)


def _number(call: OverCall, row: Combination) -> int | None:
    """Which row is asked for, or how many rows away it is."""
    if call.by is None:
        return call.offset
    given = evaluate(call.by, row)
    assert given is None or isinstance(given, int)
    return given


def _other_row(call: OverCall, rows: list[Combination], at: int) -> Value:
    number = _number(call, rows[at])
    if number is None:
        return None
    ahead = number if call.function == "lead" else -number
    if ahead == 0:
        return evaluate(call.args[0], rows[at])
    others = rows[at + 1 :] if ahead > 0 else rows[:at][::-1]
    values = [evaluate(call.args[0], row) for row in others]
    values = [value for value in values if value is not None] if call.ignores_nulls else values
    if abs(ahead) <= len(values):
        return values[abs(ahead) - 1]
    return evaluate(call.args[1], rows[at]) if len(call.args) > 1 else None


def _is_in_frame(call: OverCall, rows: list[Combination], i: int, at: int) -> bool:
    frame = call.frame
    peers = _keys(call, rows[i]) == _keys(call, rows[at])
    match frame.exclude:
        case "current row" if i == at:
            return False
        case "group" if peers:
            return False
        case "ties" if peers and i != at:
            return False
    if frame.by_keys:
        return _is_in_range(call, rows, i, at, peers=peers)
    away = i - at if frame.unit == "rows" else _groups_away(call, rows, i, at)
    return (frame.start is None or away >= frame.start) and (frame.end is None or away <= frame.end)


def _groups_away(call: OverCall, rows: list[Combination], i: int, at: int) -> int:
    between = rows[min(i, at) : max(i, at) + 1]
    count = len(dict.fromkeys(_keys(call, row) for row in between)) - 1
    return count if i > at else -count


def _is_in_range(call: OverCall, rows: list[Combination], i: int, at: int, *, peers: bool) -> bool:
    """From NULL nothing is so far away: its ends are those of all NULLs."""
    frame, (key,) = call.frame, call.order_by
    here, there = evaluate(key.expression, rows[at]), evaluate(key.expression, rows[i])
    if here is None or there is None:
        return peers or (frame.start is None if i < at else frame.end is None)
    away = there - here if not key.descending else here - there
    return (frame.start is None or bool(away >= frame.start * NS_PER_US)) and (
        frame.end is None or bool(away <= frame.end * NS_PER_US)
    )
