"""What a plan asks, as text: equal for two plans that must give the same answer from the same state.

The text is what checkpoints and archives are known by, so it must outlive the code that wrote it. Every kind of node
and expression has a word of its own here, whatever its class is called, and nothing is printed by `repr`. What cannot
change the answer is left out: hints, statistics, sources, lateness, options other than boundary and timezone, and the
order of conditions. A host adds lines of its own for what its state depends on besides, such as buckets.

Golden files pin the text (`tests/plans/identity_*`). Whoever must change it raises FORMAT, and with it all sums.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, assert_never

import pyarrow as pa

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.pace import Pace
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import (
    Each,
    Hop,
    Landmark,
    Matrix,
    Range,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    Unbounded,
    Until,
    Window,
)
from watersmeet.plan.constants import Constants, Listed, Selected
from watersmeet.plan.expressions import (
    Aggregate,
    Call,
    Column,
    EventTime,
    Expression,
    Frame,
    Literal,
    OverCall,
    Way,
    conjuncts,
    replaced,
)
from watersmeet.plan.nodes import (
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    SortKey,
    TopK,
    View,
)
from watersmeet.plan.query import Plan
from watersmeet.plan.user_functions import UserFunction

# Of this text, not of what is kept under its sum: those have numbers of their own.
FORMAT = 1
# Of a hexadecimal sum: 128 bits, at which two queries do not meet by chance.
DIGITS = 32
# Comparisons that say the same with their sides exchanged; the first of a pair is the one that is written.
_MIRRORED = {"gt": "lt", "ge": "le"}
_EITHER_WAY = ("eq", "ne")


def identity_of(plan: Plan) -> str:
    """What a plan means, one line a thing, indented below what it belongs to."""
    lines = [f"identity {FORMAT}", f"timezone {plan.options.timezone}", *_node(plan.root)]
    return "\n".join(lines) + "\n"


def sum_of(*texts: str) -> str:
    """The short name of some texts: equal if and only if all of them are.

    >>> sum_of("a", "b") == sum_of("a", "b"), sum_of("a", "b") == sum_of("a\\nb")
    (True, False)
    """
    # As JSON, so that it is told apart where one text ends and the next begins.
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:DIGITS]


# -- nodes --------------------------------------------------------------------------------------------------------


def _node(node: Node) -> Iterator[str]:
    match node:
        case Project(child=child, columns=columns):
            yield "select"
            yield from _below(f"{_name(name)} = {expression_text(e)}" for name, e in columns)
            yield from _below(_node(child))
        case Join():
            yield from _join(node)
        case GroupBy(child=child, keys=keys, having=having):
            yield " ".join(["group by", ", ".join(map(expression_text, keys))]).rstrip()
            yield from _below(f"having {text}" for text in _conditions([] if having is None else [having]))
            yield from _below(_node(child))
        case Distinct(child=child):
            yield "distinct"
            yield from _below(_node(child))
        case SetOperation(kind=kind, all=keeps_copies, left=left, right=right):
            yield f"{kind} all" if keeps_copies else kind
            yield from _below(_node(left))
            yield from _below(_node(right))
        case TopK(child=child, keys=keys):
            yield f"{node.words} by {', '.join(map(_sort_key, keys))}"
            yield from _below(_node(child))
        case Over(child=child, calls=calls, columns=columns, keep=keep, time=time):
            yield "over rows as they change" if time is None else f"over rows by {_name(time)}"
            yield from _below(f"{_name(name)} = {expression_text(call)}" for name, call in calls)
            yield from _below(f"kept {text}" for text in _conditions([] if keep is None else [keep]))
            yield from _below(f"{_name(name)} = {expression_text(e)}" for name, e in columns)
            yield from _below(_node(child))
        case Changes(kind=kind, child=child, every=every):
            yield kind if every is None else f"{kind} every {_pace(every)}"
            yield from _below(_node(child))
        case _:  # two queries must not be the same because a part of them has no words
            assert_never(node)


def _join(join: Join) -> Iterator[str]:
    """The windows between streams stand in their closed form, in which all ways to write them are the same."""
    yield f"{'' if join.kind == 'inner' else f'{join.kind} '}join, windows {join.boundary}"
    # In the order of FROM, which decides between equal event times.
    for one in join.inputs:
        yield from _below(_input(one))
    yield from _below(f"where {text}" for text in _conditions(join.predicates))
    if join.asof is not None:
        yield from _below([f"as of {expression_text(join.asof.instant)}"])
        if join.asof.ahead_us != 0:
            ahead = "any time" if join.asof.ahead_us is None else join.asof.ahead_us
            yield from _below([f"nearest, at most {ahead} later"])
        yield from _below(_versions(join.inputs[1]))
        yield from _below(f"by key {expression_text(key)}" for key in join.asof.key)
        yield from _below(f"holding {text}" for text in _conditions(join.asof.holding))
    yield from _below(f"afterwards {text}" for text in _conditions(join.where))
    closed = join.windows
    streams = [_any_case(name) for name in closed.streams]
    # Sorted, as the directions of WINDOW PATHs are found in the order in which they are written.
    for alternative in sorted(_bounds(streams, matrix) for matrix in closed.alternatives):
        if alternative:
            yield from _below(["within"])
            yield from _below(_below(alternative))


def _versions(one: Input) -> Iterator[str]:
    versions = one.relation.versions if isinstance(one.relation, Stream) else None
    if versions is not None:
        deleted = "" if versions.op is None else f", deleted by {_name(versions.op)}"
        yield f"versions by {', '.join(sorted(map(_name, versions.key)))}{deleted}"


def _bounds(streams: list[str], matrix: Matrix) -> list[str]:
    return [
        f"{later} - {earlier} <= {matrix[u][v]}"
        for u, earlier in enumerate(streams)
        for v, later in enumerate(streams)
        if u != v and matrix[u][v] < FOREVER_US
    ]


def _input(one: Input) -> Iterator[str]:
    """Of a relation its name and columns count: not what is known of its rows, nor where they come from."""
    made = "".join(f" with {_name(name)} = {expression_text(e)}" for name, e in one.made)
    head = f"from {_any_case(one.alias)}{made}{_window(one.window)}:"
    match one.relation:
        case Stream(name=name, schema=schema, time=time, by_arrival=by_arrival, first=first):
            how = f"{_name(time)}, the moment of arrival" if by_arrival else _name(time)
            # Keys are compared together, in whatever order they are named.
            keys = "" if first is None else ", ".join(sorted(map(_name, first.keys)))
            alone = "" if first is None else f", the first within {first.within_us} of {keys}"
            yield f"{head} stream {_any_case(name)} ({_columns(schema)}) by {how}{alone}"
        case Constants(parts=parts):
            yield f"{head} constants"
            yield from _below(line for part in parts for line in _constants(part))
        case Table(name=name, schema=schema):
            yield f"{head} table {_any_case(name)} ({_columns(schema)})"
        case Derived(plan=plan, time=time):
            yield f"{head} stream by {_name(time)}"
            yield from _below(_node(plan))
        case View(plan=plan):
            yield f"{head} view"
            yield from _below(_node(plan))
        case _:
            assert_never(one.relation)


def _constants(part: Selected) -> Iterator[str]:
    yield "select"
    yield from _below(f"{_name(name)} = {expression_text(e)}" for name, e in part.columns)
    yield from _below(f"where {text}" for text in _conditions(part.where))
    if isinstance(part.of, Listed):
        yield from _below(f"values {', '.join(map(expression_text, row))}" for row in part.of.rows)
    else:
        ends = ", ".join(map(expression_text, (part.of.start, part.of.stop, part.of.step)))
        yield f"  series {ends}{' inclusive' * part.of.inclusive}"


def _window(window: Window | None) -> str:
    match window:
        case None:
            return ""
        case Range(size_us=size_us):
            return f" [range {size_us}]"
        case RowsWindow(count=count, partition_by=()):
            return f" [rows {count}]"
        case RowsWindow(count=count, partition_by=keys):
            # Rows are counted by all columns together, in whatever order they are named.
            return f" [rows {count} by {', '.join(sorted(map(_name, keys)))}]"
        case Stepped(slide_us=slide_us) as latch if latch.latches:
            return f" [latch {slide_us}]"
        case Stepped(size_us=size_us, slide_us=slide_us, offset_us=offset_us):
            # Multiples of the slide are the same ones after a shift by a whole slide.
            return f" [range {size_us} slide {slide_us} offset {offset_us % slide_us}]"
        case SteppedRows(count=count, slide=slide, partition_by=keys):
            by = f" by {', '.join(sorted(map(_name, keys)))}" if keys else ""
            return f" [rows {count} slide {slide}{by}]"
        case Hop(calendar=Pace() as pace, steps=steps, at_once=at_once):
            return f" [hop {steps} of {_pace(pace)}{' at once' * at_once}]"
        case Hop(size_us=size_us, slide_us=slide_us, offset_us=offset_us, at_once=at_once, cumulates=True):
            return f" [cumulate {size_us} by {slide_us} offset {offset_us % size_us}{' at once' * at_once}]"
        case Hop(size_us=size_us, slide_us=slide_us, offset_us=offset_us, at_once=at_once):
            return f" [hop {size_us} by {slide_us} offset {offset_us % slide_us}{' at once' * at_once}]"
        case Session(gap_us=gap_us, partition_by=keys, at_once=at_once):
            by = f" by {', '.join(sorted(map(_name, keys)))}" if keys else ""
            return f" [session {gap_us}{by}{' at once' * at_once}]"
        case Each(column=column, names=names, within=within):
            return f"{_window(within)} [each of {_name(column)} as {', '.join(map(_name, names))}]"
        case Landmark(since_us=since_us, every_us=every_us):
            return f" [since {since_us}{'' if every_us is None else f' every {every_us}'}]"
        case Unbounded():
            return " [unbounded]"
        case Until(ends=ends):
            return f" [until {', '.join(f'{_name(column)} + {size_us}' for column, size_us in ends)}]"
        case _:
            assert_never(window)


def _pace(pace: Pace) -> str:
    if pace.unit == "us":
        return f"{pace.every}{f' offset {pace.offset_us % pace.every}' if pace.offset_us % pace.every else ''}"
    return f"{pace} offset {pace.offset_us} in {pace.zone or 'UTC'}"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{_name(field.name)} {field.type}" for field in schema)


def _sort_key(key: SortKey) -> str:
    return expression_text(key.expression) + " desc" * key.descending + " nulls first" * key.nulls_first


# -- expressions --------------------------------------------------------------------------------------------------


def neutral_text(expression: Expression) -> str:
    """An expression over one input, whatever that is called."""

    def without_alias(part: Expression) -> Expression | None:
        return Column("", part.name, part.type) if isinstance(part, Column) else None

    return expression_text(replaced(expression, without_alias))


def expression_text(expression: Expression) -> str:
    """An expression: calls as `name(arguments)`, with the type where it is not a condition."""
    match expression:
        case Column(stream=stream, name=name):
            return f"{_any_case(stream) if stream else ''}.{_name(name)}"
        case Literal(value=value, type=kind):
            return f"{_value(value)}::{kind}"
        case EventTime(type=kind):
            return f"event_time()::{kind}"
        case Call(function="and" | "or" as word):
            return f"{word}({', '.join(_conditions([expression], word))})"
        case Call(function=function, args=args, type=kind, user=user):
            return _call(_versioned(function, user), [expression_text(arg) for arg in args], kind)
        case Aggregate(function=function, args=args, type=kind, distinct=distinct, user=user, order_by=order_by):
            inside = ", ".join(map(expression_text, args)) + _ways(order_by)
            return f"{_versioned(function, user)}({'distinct ' if distinct else ''}{inside})::{kind}"
        case OverCall():
            return _over_call(expression)
        case _:
            assert_never(expression)


def _ways(order_by: tuple[Way, ...]) -> str:
    """By how many of the last values of what is packed an aggregate orders, and which way."""
    ways = [f"{'down' if way.descending else 'up'}{' nulls first' * way.nulls_first}" for way in order_by]
    return f"; ordered {', '.join(ways)}" if ways else ""


def _over_call(call: OverCall) -> str:
    inside = ", ".join(map(expression_text, call.args)) + _ways(call.inside_by)
    about = [
        f"offset {call.offset}" * bool(call.offset or call.function in ("lag", "lead")),
        "" if call.by is None else f"by {expression_text(call.by)}",
        "without nulls" * call.ignores_nulls,
        f"partition by {', '.join(map(expression_text, call.partition_by))}" * bool(call.partition_by),
        f"order by {', '.join(map(_sort_key, call.order_by))}" * bool(call.order_by),
        _frame(call.frame),
    ]
    name = _versioned(call.function, call.user)
    return f"{name}({'distinct ' * call.distinct}{inside}; {'; '.join(filter(None, about))})::{call.type}"


def _frame(frame: Frame) -> str:
    if frame.whole:
        return "all"
    since = "the first" if frame.start is None else -frame.start
    until = "" if frame.end == 0 else f" until {'the last' if frame.end is None else frame.end}"
    return f"{frame.unit} since {since}{until}{f' without {frame.exclude}' if frame.exclude else ''}"


def _versioned(function: str, user: UserFunction | None) -> str:
    """A function that a user has brought is known by its name and the version it was given."""
    return function if user is None or not user.version else f"{function}@{_name(user.version)}"


def _call(function: str, args: list[str], kind: pa.DataType) -> str:
    if function in _MIRRORED:
        function, args = _MIRRORED[function], args[::-1]
    elif function in _EITHER_WAY:
        args = sorted(args)
    elif function == "in":
        # The candidates of IN are a set.
        args = [args[0], *sorted(args[1:])]
    text = f"{function}({', '.join(args)})"
    return text if pa.types.is_boolean(kind) else f"{text}::{kind}"


def _conditions(parts: Iterable[Expression], word: str = "and") -> list[str]:
    """Conditions that AND, or OR, joins together: each once, in an order that does not depend on how they stand."""
    return sorted({expression_text(one) for part in parts for one in conjuncts(part, word)})


def _value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool() | int() | float() | Decimal():
            return str(value).lower()
        case str():
            return json.dumps(value)
        case bytes():
            return f"0x{value.hex()}"
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
    return json.dumps(str(value))


# -- words --------------------------------------------------------------------------------------------------------


def _below(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _any_case(name: str) -> str:
    """Of what is found in any case: aliases and the names of streams and tables. Output columns are not among them."""
    return _name(name.lower())


def _name(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)
