"""What a query needs of its streams: which columns, and which rows if it has to begin anew."""

from __future__ import annotations

from collections.abc import Iterable

from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import (
    Each,
    Hop,
    Landmark,
    Range,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    Unbounded,
    Until,
    Window,
    counting,
)
from watersmeet.physical.nodes import Columns, LeafNode
from watersmeet.plan.expressions import columns_of
from watersmeet.plan.nodes import Input, Join


def columns_read(one: Input, join: Join, outputs: Columns) -> frozenset[str]:
    """The columns of an input that a join and the select list over it read."""
    expressions = (*(e for _, e in outputs), *join.predicates)
    made = (e for _, e in one.made)
    used = {c.name for e in (*expressions, *made) for c in columns_of(e) if c.stream == one.alias}
    ends = (name for name, _ in one.window.ends) if isinstance(one.window, Until) else ()
    keys = one.window.partition_by if isinstance(one.window, RowsWindow | SteppedRows | Session | Each) else ()
    first = one.relation.first if isinstance(one.relation, Stream) else None
    distinct_keys = () if first is None else first.keys
    lists = (one.window.column,) if isinstance(one.window, Each) else ()
    return frozenset({*used, one.time or "", *keys, *ends, *lists, *distinct_keys})


def reach_us(window: Window | None, outer_us: int) -> int:
    """For how long rows of a window matter, given how long what they make matters."""
    match window:
        case Range(size_us=size):
            # A row is in its window through t + w, and what its leaving causes happens 1 µs later.
            return min(FOREVER_US, size + 1 + outer_us)
        case None:
            return outer_us
        case Until(ends=ends):
            return min(FOREVER_US, max(size for _, size in ends) + 1 + outer_us)
        case Stepped(size_us=size, slide_us=slide):
            return min(FOREVER_US, size + slide + outer_us)
        case Each(within=None):
            return min(FOREVER_US, outer_us + 1)
        case Landmark(every_us=int(every)):
            return min(FOREVER_US, every + 1 + outer_us)
        case Hop(size_us=size):
            return min(FOREVER_US, size + 1 + outer_us)
        case RowsWindow() | SteppedRows() | Each() | Session() | Landmark() | Unbounded():
            return FOREVER_US


def leaf_of(name: str, one: Input, join: Join, outputs: Columns, outer_us: int) -> LeafNode:
    """A stream whose rows live by its window alone, below an answer whose past matters for so long."""
    assert isinstance(one.relation, Stream)
    # The columns with the windows are made of the rows.
    columns = columns_read(one, join, outputs) & frozenset(one.relation.schema.names)
    # Below nothing that reaches further back, the rows in the window now are all a restart needs.
    counts = counting(one.window)
    if counts is not None and outer_us == 0:
        return LeafNode(name, one.relation, columns, 0, counts)
    if isinstance(one.window, Session):
        return LeafNode(name, one.relation, columns, outer_us, one.window)
    return LeafNode(name, one.relation, columns, reach_us(one.window, outer_us))


def joined_leaf(name: str, one: Input, join: Join, outputs: Columns, outer_us: int = 0) -> LeafNode:
    """A stream of a plain join, whose rows matter while others can meet them."""
    assert isinstance(one.relation, Stream)
    columns, rows = columns_read(one, join, outputs), one.window if isinstance(one.window, RowsWindow) else None
    kept_us = min(FOREVER_US, join.retention_us(one.alias) + outer_us)
    if outer_us == 0:
        return LeafNode(name, one.relation, columns, kept_us, rows)
    # How far back a window of so many rows reached some time ago, no time can tell.
    return LeafNode(name, one.relation, columns, FOREVER_US if rows else kept_us)


def unlike(names: Iterable[str], alias: str) -> str:
    """An alias may stand for different inputs in different subqueries: later ones get a number."""
    name, number = alias, 1
    while name in names:
        number += 1
        name = f"{alias}#{number}"
    return name
