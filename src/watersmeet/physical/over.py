"""How the functions of OVER run: which go together, and how many rows of a partition are asked for at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.plan.expressions import Call, Column, Expression, Frame, Literal, OverCall, conjuncts
from watersmeet.plan.nodes import Over
from watersmeet.plan.over_functions import RANKINGS

COPY = "__copy"
Named = tuple[str, OverCall]


def calls_alike(calls: Sequence[Named]) -> list[tuple[Named, ...]]:
    """The functions by their PARTITION BY and ORDER BY."""
    found: dict[object, list[Named]] = {}
    for name, call in calls:
        found.setdefault((call.partition_by, call.order_by), []).append((name, call))
    return [tuple(alike) for alike in found.values()]


def copy_number(columns: Sequence[tuple[str, Expression]]) -> Named:
    """A number for each of the rows that are equal in all columns."""
    every = tuple(expression for _, expression in columns)
    return COPY, OverCall("row_number", (), pa.int64(), every, (), Frame("range", None))


@dataclass(frozen=True)
class TopRows:
    """The rows of a partition up to a limit, by one of the functions that rank them."""

    function: str
    limit: int


def top_rows(over: Over) -> TopRows | None:
    """What QUALIFY lets through at most, if it bounds a rank and nothing else is asked of the rows around."""
    if over.keep is None or any(call.function not in RANKINGS for _, call in over.calls):
        return None
    if len(calls_alike(over.calls)) > 1:
        return None
    ranks = {name: call.function for name, call in over.calls}
    found = [_bound(part, ranks) for part in conjuncts(over.keep)]
    return min((one for one in found if one is not None), key=lambda one: one.limit, default=None)


def _bound(test: Expression, ranks: dict[str, str]) -> TopRows | None:
    match test:
        case Call(function="le" | "eq" | "lt" as word, args=(Column(stream="", name=name), Literal(value=int(most)))):
            pass
        case Call(function="ge" | "eq" | "gt" as word, args=(Literal(value=int(most)), Column(stream="", name=name))):
            pass
        case _:
            return None
    if name not in ranks:
        return None
    return TopRows(ranks[name], max(0, most - (word in ("lt", "gt"))))
