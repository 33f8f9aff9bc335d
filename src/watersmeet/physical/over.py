"""Bounds on ranks: where only the first rows of every partition are asked for, no more are worked out."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.plan.expressions import Call, Column, Expression, Literal, conjuncts
from watersmeet.plan.nodes import Over
from watersmeet.plan.over_functions import RANKINGS


@dataclass(frozen=True)
class TopRows:
    """The rows of a partition up to a limit, by one of the functions that rank them."""

    function: str
    limit: int


def top_rows(over: Over) -> TopRows | None:
    """What QUALIFY lets through at most, if it bounds a rank and nothing else is asked of the rows around."""
    if over.keep is None or any(call.function not in RANKINGS for _, call in over.calls):
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
