"""What a join below a changing answer carries besides the columns asked for: what rows' lives are told from."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa

from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import (
    Bound,
    Hop,
    Landmark,
    Range,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    Unbounded,
    Window,
    counting,
    moves_in_steps,
)
from watersmeet.plan.expressions import Call, Column, Expression, Literal
from watersmeet.plan.functions import result_type
from watersmeet.plan.nodes import Input, Join

# Two underscores, so that no output column of a query is likely to be called that.
SERIAL = "__serial"
# Of the combinations of an outer, semi or anti join: whether what comes after it lets them through, and their time.
PASSES, FOUND_AT = "__passes", "__found_at"
GIVEN_AT = "__given_at"  # the event time of a row that is given
# The time that a row has in the join where that is not its event time: of a changing answer, or in a window that moves
# in steps; and when it leaves such a window, if that is known.
SINCE, UNTIL = "__since", "__until"


def time_column(alias: str) -> str:
    """Where a combination has the event time of its member of one input."""
    return f"__time_{alias}"


def until_column(alias: str) -> str:
    """Where a combination says when its member of one input leaves its window."""
    return f"__until_{alias}"


def member_column(alias: str) -> str:
    """Where a combination says which row of an input it was made of, whether or not it lives by that."""
    return f"__member_{alias}"


def serial_column(alias: str) -> str:
    return f"__serial_{alias}"


def with_lives(join: Join, numbered: Collection[str], announced: Collection[str]) -> Join:
    """A join as the operator sees it: with serial numbers where rows are told apart by them, and an event time for
    every input that is no table. Views, whose rows leave when that is announced, have no end in time. Rows in windows
    that move in steps have the time at which they enter."""
    inputs = tuple(_with_life(one, one.alias in numbered, one.alias in announced, join) for one in join.inputs)
    if not join.moves_in_steps:
        return replace(join, inputs=inputs)
    return replace(join, inputs=inputs, **_at_their_steps(join))


def _with_life(one: Input, numbered: bool, announced: bool, join: Join) -> Input:
    stepped = moves_in_steps(one.window)
    if not numbered and not stepped:
        return one
    schema, time = one.schema, one.time
    if numbered:
        schema = schema.append(pa.field(SERIAL, pa.int64()))
    if time is None or stepped:
        time, schema = SINCE, schema.append(pa.field(SINCE, pa.timestamp("us")))
    window = one.window
    if isinstance(window, Stepped | Landmark) and _longest_us(window) >= FOREVER_US:
        schema, window = schema.append(pa.field(UNTIL, pa.int64())), Unbounded()
    elif isinstance(window, Stepped | Hop | Session | Landmark):
        schema = schema.append(pa.field(UNTIL, pa.int64()))
        # By the steps at which they enter: how long the rows of a window are there at most.
        window = Range(_longest_us(window) - (join.boundary == "closed"))
    # What is declared of a stream, its rate above all, is still true of it.
    stream = Stream(one.relation.name, schema, time)
    if isinstance(one.relation, Stream):
        stream = replace(one.relation, schema=schema, time=time)
    # A view has no window, and a join would refuse a stream without one: its rows leave when that is announced.
    if announced and not isinstance(window, RowsWindow):
        window = Unbounded()
    return replace(one, relation=stream, window=window)


def _longest_us(window: Stepped | Hop | Session | Landmark) -> int:
    if isinstance(window, Landmark):
        return window.every_us or FOREVER_US
    if isinstance(window, Stepped):
        return window.longest_us
    return window.size_us if isinstance(window, Hop) and window.at_once else 1


def _at_their_steps(join: Join) -> dict[str, Any]:
    """What is said of event times, where the join knows only the steps at which rows enter: conditions on the columns,
    and as bounds what follows of them for the steps."""
    windows = {one.alias: one.window for one in join.streams}
    moved = {alias for alias, window in windows.items() if moves_in_steps(window)}

    def stays(bound: Bound) -> bool:
        return not {bound.earlier, bound.later} & moved

    predicates = list(join.predicates)
    bounds = []
    for bound in join.bounds:
        if not stays(bound):
            predicates.append(_condition(bound, join))
        widened = _widened(bound, windows[bound.later])
        bounds += [] if widened is None else [widened]
    choices = []
    for choice in join.choices:
        if all(stays(bound) for way in choice.alternatives for bound in way):
            choices.append(choice)
        else:
            ways = [reduce(partial(_call, "and"), [_condition(b, join) for b in way]) for way in choice.alternatives]
            predicates.append(reduce(partial(_call, "or"), ways))
    return {"predicates": tuple(predicates), "bounds": tuple(bounds), "choices": tuple(choices)}


def _widened(bound: Bound, later: Window | None) -> Bound | None:
    """A row enters at its time or later, and by less than a slide; in a window of rows nobody knows by how much."""
    if isinstance(counting(later), SteppedRows) or isinstance(later, Session):
        return None
    by_us = later.slide_us - 1 if isinstance(later, Stepped) else later.size_us if isinstance(later, Hop) else 0
    return replace(bound, at_most_us=bound.at_most_us + by_us)


def _condition(bound: Bound, join: Join) -> Expression:
    later, earlier = (_call("epoch_us", _time_of(join.input(alias))) for alias in (bound.later, bound.earlier))
    return _call("le", _call("subtract", later, earlier), Literal(bound.at_most_us, pa.int64()))


def _time_of(one: Input) -> Column:
    assert one.time is not None
    return Column(one.alias, one.time, one.schema.field(one.time).type)


def hidden_columns(join: Join, numbered: Collection[str]) -> Iterator[tuple[str, Expression]]:
    """Of a join with lives: the times of all members, and the serial numbers of some."""
    for one in join.streams:
        yield time_column(one.alias), _time_of(one)
        if UNTIL in one.schema.names:
            yield until_column(one.alias), Column(one.alias, UNTIL, pa.int64())
    for alias in numbered:
        yield serial_column(alias), Column(alias, SERIAL, pa.int64())


def _call(function: str, *args: Expression) -> Expression:
    return Call(function, args, result_type(function, [arg.type for arg in args]))
