"""How the functions of OVER run: which go together, and how many rows of a partition are asked for at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.plan.expressions import Call, Column, Expression, Frame, Literal, OverCall, columns_of, conjuncts
from watersmeet.plan.nodes import Over
from watersmeet.plan.over_functions import RANKINGS

COPY = "__copy"
MOST_FOLLOWED = 4096  # rows that are kept in order: one that comes moves all behind it
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
    """The rows of a partition up to a limit, by one of the functions that rank them. `alone`: no other function ranks
    them; `unseen`: nothing else looks at where a row stands."""

    function: str
    limit: int
    alone: bool = True
    unseen: bool = False

    @property
    def followed(self) -> bool:
        """Whether these rows are kept in order, rather than worked out anew."""
        return self.function == "row_number" and self.alone and self.limit <= MOST_FOLLOWED


def top_rows(over: Over) -> TopRows | None:
    """What QUALIFY lets through at most, if it bounds a rank and nothing else is asked of the rows around."""
    if over.keep is None or any(call.function not in RANKINGS for _, call in over.calls):
        return None
    if len(calls_alike(over.calls)) > 1:
        return None
    ranks = {name: call.function for name, call in over.calls}
    found = [_bound(part, ranks) for part in conjuncts(over.keep)]
    top = min((one for one in found if one is not None), key=lambda one: one.limit, default=None)
    if top is None:
        return None
    others = [part for part, one in zip(conjuncts(over.keep), found, strict=True) if one is None or not one.unseen]
    looked_at = [column.name for e in (*others, *(e for _, e in over.columns)) for column in columns_of(e)]
    return replace(top, alone=len(set(ranks.values())) == 1, unseen=not ranks.keys() & set(looked_at))


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
    return TopRows(ranks[name], max(0, most - (word in ("lt", "gt"))), unseen=word != "eq" or most == 1)
