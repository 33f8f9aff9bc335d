"""What every algorithm refuses, said from the query alone, so that a refusal which is not listed here fails a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.model.types import common_type
from watersmeet.model.windows import RowsWindow
from watersmeet.plan.expressions import Call, Expression, streams_of
from watersmeet.plan.nodes import Join, Project
from watersmeet.plan.query import Plan

NO_KEY = "join = 'hash' needs an equality for every input"
NOT_CONNECTED = "a hash join needs equalities that connect all inputs"
TABLE_IN_PIPELINE = "the pipeline joins streams, and a static table brings no new rows"
TABLE_IN_MERGE = "a merge follows event times, and a static table has none"
ROWS_IN_MERGE = "a merge needs windows of time, and ROWS windows count rows"
ENDLESS_MERGE = "a merge needs a window of time between all inputs, and some pair has none"
ALL = (NO_KEY, NOT_CONNECTED, TABLE_IN_PIPELINE, TABLE_IN_MERGE, ROWS_IN_MERGE, ENDLESS_MERGE)

Coded = tuple[str, str]  # an input, and what of it is compared


def refusal(plan: Plan, options: str) -> str | None:
    """The words of the error that this query must give under these options; None if it must be answered."""
    assert isinstance(plan.root, Project)
    assert isinstance(plan.root.child, Join)
    join = plan.root.child
    tables = any(one.is_table for one in join.inputs)
    match _said(options, "join"):
        case "hash":
            return None if all(_all_found(join, order) for order in _orders(join, options)) else NO_KEY
        case "hw" | "xjoin" if not _connected(join):
            return NOT_CONNECTED
        case "hw" | "xjoin" | "nlw":
            return TABLE_IN_PIPELINE if tables else None
        case "merge" if tables:
            return TABLE_IN_MERGE
        case "merge" if any(isinstance(one.window, RowsWindow) for one in join.streams):
            return ROWS_IN_MERGE
        case "merge":
            return ENDLESS_MERGE if max(map(max, join.windows.limits)) >= FOREVER_US else None
    return None


def _said(options: str, name: str) -> str | None:
    found = re.search(rf"\b{name} = '([^']*)'", options)
    return found[1] if found else None


def _orders(join: Join, options: str) -> list[list[str] | None]:
    """In which order the new rows of each stream visit all inputs; None where that is left to the optimizer."""
    said = _said(options, "order")
    if said is None:
        return [None]
    streams = [one.alias for one in join.streams]
    tables = [one.alias for one in join.inputs if one.is_table]
    whole = [_named(part.split(":")[-1]) for part in said.split(";")]
    if ":" not in said:  # new rows come first
        whole = [[stream, *(alias for alias in whole[0] if alias != stream)] for stream in streams]
    return [[*order, *(table for table in tables if table not in order)] for order in whole]


def _named(order: str) -> list[str]:
    return [alias.strip() for alias in order.split(",")]


def _all_found(join: Join, order: Sequence[str] | None) -> bool:
    """Whether every input after the first is found by an equality with one before it."""
    if order is None:
        return _connected(join)
    equal = _equal_inputs(join)
    return all(any({one, before} in equal for before in order[:d]) for d, one in enumerate(order) if d)


def _connected(join: Join) -> bool:
    reached, equal = {join.inputs[0].alias}, _equal_inputs(join)
    while more := {alias for pair in equal if pair & reached for alias in pair - reached}:
        reached |= more
    return len(reached) == len(join.inputs)


def _equal_inputs(join: Join) -> list[set[str]]:
    """The pairs of inputs with something that is equal, by what is written or by what follows from it."""
    groups: list[set[Coded]] = []
    for one in filter(None, map(_equality, join.predicates)):
        touched = [group for group in groups if group & one]
        groups = [group for group in groups if not group & one] + [one.union(*touched)]
    pairs = (({left[0], right[0]}) for group in groups for left, right in product(group, group))
    return [pair for pair in _unique(pairs) if len(pair) == 2]


def _unique(pairs: Iterable[set[str]]) -> list[set[str]]:
    return [set(pair) for pair in dict.fromkeys(map(frozenset, pairs))]


def _equality(predicate: Expression) -> set[Coded] | None:
    if not isinstance(predicate, Call) or predicate.function != "eq":
        return None
    sides = [streams_of(side) for side in predicate.args]
    if any(len(side) != 1 for side in sides) or sides[0] == sides[1]:
        return None
    compared_as: pa.DataType = common_type(*(side.type for side in predicate.args))
    return {(next(iter(side)), f"{arg} as {compared_as}") for side, arg in zip(sides, predicate.args, strict=True)}
