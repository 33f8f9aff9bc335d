"""Outer, semi and anti joins by their definition: which rows have a partner, and what is given of those without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from watersmeet.plan.nodes import Join
from watersmeet.reference.evaluate import Combination, evaluate, holds
from watersmeet.reference.inputs import NS_PER_US, Member, Members, combination

Rows = Mapping[str, Sequence[Member]]  # by alias


def growing(join: Join, rows: Rows, found: Iterable[Members]) -> Iterator[Combination]:
    """What a join that only grows gives in the end, `found` being all that match, and at which time."""
    everything = list(found)
    if join.kind in ("inner", "left", "full"):
        yield from (one for one in map(combination, everything) if _passes(join, one))
    certain = dict(join.certain)
    for alias in join.preserved:
        for row in rows[alias]:
            times = [combination(members).event_time_ns for members in everything if members[alias] is row]
            members = _alone(join, alias, row)
            if bool(times) != (join.kind == "semi"):
                continue
            at_us = evaluate(certain[alias], combination(members))
            at_ns = min(times, key=lambda time: time or 0) if times else at_us * NS_PER_US
            one = Combination(combination(members).rows, at_ns)
            if _passes(join, one):
                yield one


def changing(join: Join, rows: Rows, found: Iterable[Members]) -> list[Members]:
    """What the relational operator gives of the rows that are there at one instant."""
    everything = list(found)
    given = everything if join.kind in ("inner", "left", "full") else []
    for alias in join.preserved:
        for row in rows[alias]:
            matched = any(members[alias] is row for members in everything)
            if matched == (join.kind == "semi"):
                given = [*given, _alone(join, alias, row)]
    return given


def _alone(join: Join, alias: str, row: Member) -> Members:
    """A row with NULLs for the other input."""
    return {
        one.alias: row if one.alias == alias else Member(dict.fromkeys(one.schema.names), None, -1)
        for one in join.inputs
    }


def _passes(join: Join, one: Combination) -> bool:
    return all(holds(condition, one) for condition in join.where)
