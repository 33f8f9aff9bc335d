"""What it takes to test a condition on a combination: as declared of the functions in it, or by their kinds."""

from __future__ import annotations

from watersmeet.operators.scalar import digests, formatting, json_texts, pieces, regex, text, time_texts
from watersmeet.physical.estimate import Known
from watersmeet.plan.expressions import Call, Column, Expression, walk

# As measured on columns of some thousand values; texts of some ten letters.
COLUMN_NS = 8.0  # to gather the values that belong to combinations
CALL_NS = 4.0
TEXT_NS = 60.0
DEAR_NS = 300.0
BROUGHT_NS = 1000.0  # a function that was brought, if nothing is said of it
_TEXTS = frozenset({*text.FUNCTIONS, *text.LENIENT, *pieces.FUNCTIONS, *formatting.FUNCTIONS, *time_texts.FUNCTIONS})
_DEAR = frozenset({*regex.FUNCTIONS, *digests.FUNCTIONS, *json_texts.FUNCTIONS, *json_texts.LENIENT})


def price_of(condition: Expression) -> tuple[float, Known]:
    """In nanoseconds, and whether somebody has said so."""
    parts = list(walk(condition))
    brought = [part.user for part in parts if isinstance(part, Call) and part.user is not None]
    said = [one.price_ns for one in brought]
    known: Known = "declared" if said and None not in said else "assumed"
    return sum(map(_own_ns, parts)), known


def _own_ns(part: Expression) -> float:
    match part:
        case Column():
            return COLUMN_NS
        case Call(user=user) if user is not None:
            return BROUGHT_NS if user.price_ns is None else user.price_ns
        case Call(function=name):
            return DEAR_NS if name in _DEAR else TEXT_NS if name in _TEXTS else CALL_NS
    return 0.0
