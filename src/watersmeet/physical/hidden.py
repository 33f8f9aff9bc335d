"""What a join below a changing answer carries besides the columns asked for: what rows' lives are told from."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pyarrow as pa

from watersmeet.model.catalog import Stream
from watersmeet.model.windows import Unbounded
from watersmeet.plan.expressions import Column, Expression
from watersmeet.plan.nodes import Input, Join

# Two underscores, so that no output column of a query is likely to be called that.
SERIAL = "__serial"
# Of the combinations of an outer, semi or anti join: whether what comes after it lets them through, and their time.
PASSES, FOUND_AT = "__passes", "__found_at"
GIVEN_AT = "__given_at"  # the event time of a row that is given
SINCE = "__since"  # the event time that a row of a changing answer has in the join


def time_column(alias: str) -> str:
    """Where a combination has the event time of its member of one input."""
    return f"__time_{alias}"


def member_column(alias: str) -> str:
    """Where a combination says which row of an input it was made of, whether or not it lives by that."""
    return f"__member_{alias}"


def serial_column(alias: str) -> str:
    return f"__serial_{alias}"


def with_lives(join: Join, numbered: Collection[str], announced: Collection[str]) -> Join:
    """A join as the operator sees it: with serial numbers where rows are told apart by them, and an event time for
    every input that is no table. Views, whose rows leave when that is announced, have no end in time."""
    inputs = (_with_life(one, one.alias in announced) if one.alias in numbered else one for one in join.inputs)
    return replace(join, inputs=tuple(inputs))


def _with_life(one: Input, announced: bool) -> Input:
    schema, time = one.schema.append(pa.field(SERIAL, pa.int64())), one.time
    if time is None:
        time, schema = SINCE, schema.append(pa.field(SINCE, pa.timestamp("us")))
    # What is declared of a stream, its rate above all, is still true of it.
    known = isinstance(one.relation, Stream)
    stream = replace(one.relation, schema=schema) if known else Stream(one.relation.name, schema, time)
    # A view has no window, and a join would refuse a stream without one: its rows leave when that is announced.
    return replace(one, relation=stream, window=one.window or Unbounded() if announced else one.window)


def hidden_columns(join: Join, numbered: Collection[str]) -> Iterator[tuple[str, Expression]]:
    """Of a join with lives: the times of all members, and the serial numbers of some."""
    for one in join.streams:
        assert one.time is not None
        yield time_column(one.alias), Column(one.alias, one.time, one.schema.field(one.time).type)
    for alias in numbered:
        yield serial_column(alias), Column(alias, SERIAL, pa.int64())
