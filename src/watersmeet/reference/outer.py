"""Outer, semi and anti joins by their definition: which rows have a partner, and what is given of those without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from watersmeet.errors import DataError
from watersmeet.model.catalog import Stream
from watersmeet.model.versions import DELETES, PUTS
from watersmeet.plan.expressions import columns_of
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
    """Of the partners of a row the one that is nearest in time to an instant, the earlier of two that are as near, of
    equal times the greatest by all its columns. Of versions it is the last to arrive, which must be there and hold."""
    left, right = (one.alias for one in join.inputs)
    relation, asof = join.input(right).relation, join.asof
    assert asof is not None
    names, versions = relation.schema.names, relation.versions if isinstance(relation, Stream) else None
    back = inf if asof.back_us is None else asof.back_us * NS_PER_US
    ahead = inf if asof.ahead_us is None else asof.ahead_us * NS_PER_US

    def rank(members: Members, at_ns: int) -> tuple[int, bool, object]:
        partner = members[right]
        order = rank_of_row([partner.values[name] for name in names]) if versions is None else partner.arrival
        return -abs(partner.at_ns - at_ns), partner.at_ns < at_ns, order

    def holding(members: Members) -> bool:
        op = None if versions is None else versions.op
        if op is not None and deletes(relation.name, op, members[right].values[op]):
            return False
        return all(holds(condition, combination(members)) for condition in asof.holding)

    for row in rows[left]:
        at_ns = evaluate(asof.instant, combination(_alone(join, left, row))) * NS_PER_US
        if asof.key:
            there = _versions_at(join, rows[right], at_ns)
            held = [each for each in found if each[left] is row and id(each[right]) in there and holding(each)]
            alone = [_alone(join, left, row)] if join.kind == "asof_left" and not held else []
            yield from (Combination(combination(each).rows, max(row.at_ns, at_ns)) for each in [*held, *alone])
            continue
        partners = [each for each in found if each[left] is row and -back <= each[right].at_ns - at_ns <= ahead]
        chosen = max(partners, key=lambda each: rank(each, at_ns), default=None)
        sure_ns = at_ns + _certain_ns(None if chosen is None else chosen[right].at_ns - at_ns, ahead)
        if chosen is not None and holding(chosen):
            yield Combination(combination(chosen).rows, max(row.at_ns, int(sure_ns)))
        elif join.kind == "asof_left":
            yield Combination(combination(_alone(join, left, row)).rows, max(row.at_ns, int(sure_ns)))


def _versions_at(join: Join, changes: Sequence[Member], at_ns: int) -> set[int]:
    """The last version of each key at an instant."""
    assert join.asof is not None
    last: dict[tuple[object, ...], Member] = {}
    for one in sorted(changes, key=lambda one: (one.at_ns or 0, one.arrival)):
        if (one.at_ns or 0) <= at_ns:
            last[tuple(one.values[column.name] for key in join.asof.key for column in columns_of(key))] = one
    return {id(one) for one in last.values()}


def _certain_ns(distance: int | None, ahead: float) -> float:
    """How long after an instant it is certain that a partner so much later than it is the nearest: all that could be
    nearer, or as near and later, has come."""
    if distance is None:
        return ahead
    return distance if distance >= 0 else min(ahead, -distance - NS_PER_US)


def deletes(name: str, op: str, value: object) -> bool:
    """Whether a change of a table removes the row of its key."""
    word = value.lower() if isinstance(value, str) else value
    if word not in PUTS | DELETES:
        raise DataError(f"the op {op!r} of {name!r} is {value!r}")
    return word in DELETES


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
