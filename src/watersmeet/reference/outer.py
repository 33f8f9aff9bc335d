"""Outer, semi and anti joins by their definition: which rows have a partner, and what is given of those without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from watersmeet.plan.nodes import Join
from watersmeet.reference.evaluate import Combination, evaluate, holds
from watersmeet.reference.inputs import NS_PER_US, Member, Members, combination
from watersmeet.reference.order import rank_of_row

Rows = Mapping[str, Sequence[Member]]  # by alias


def growing(join: Join, rows: Rows, found: Iterable[Members]) -> Iterator[Combination]:
    """What a join that only grows gives in the end, `found` being all that match, and at which time."""
    everything = list(found)
    if join.asof is not None:
        yield from (one for one in _latest(join, rows, everything) if _passes(join, one))
        return
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


def _latest(join: Join, rows: Rows, found: Sequence[Members]) -> Iterator[Combination]:
    """Of the partners of a row the one with the latest time, of equal times the greatest by all its columns."""
    left, right = (one.alias for one in join.inputs)
    names = join.input(right).schema.names

    def rank(members: Members) -> tuple[int, object]:
        partner = members[right]
        return partner.at_ns, rank_of_row([partner.values[name] for name in names])

    for row in rows[left]:
        partners = [members for members in found if members[left] is row]
        if partners:
            yield Combination(combination(max(partners, key=rank)).rows, row.time_ns)
        elif join.kind == "asof_left":
            yield Combination(combination(_alone(join, left, row)).rows, row.time_ns)


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
