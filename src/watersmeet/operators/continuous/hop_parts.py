"""HOP whose rows have very many copies at one instant: where the answer may be made before all of them are."""

from __future__ import annotations

from watersmeet.model.windows import WINDOW_COLUMNS
from watersmeet.operators.continuous import parts
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.lives import Lifetimes
from watersmeet.operators.continuous.net import Net
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.continuous.sources import ChangesSource, StreamSource
from watersmeet.operators.continuous.stepping import By, HopsAtOnce
from watersmeet.operators.continuous.triggers import Timely
from watersmeet.operators.waiting import Waiting
from watersmeet.plan.expressions import Column
from watersmeet.plan.query import Kind


class HopParts:
    """An answer whose instants are made in parts, each of some copies of the rows that come at it."""

    def __init__(self, hops: HopsAtOnce, how: By, rows: Waiting, *, all_given: bool) -> None:
        """rows: those that wait for time to pass them. all_given: every copy, or every window that has one, is an
        answer."""
        hops.by = how
        self.hops, self.how, self._rows = hops, how, rows
        self._copies = hops.hop.most_copies
        self._tells = all_given and self._copies > parts.MOST_COPIES

    @property
    def holds_back(self) -> bool:
        """Whether what was made so far of an instant is not to be seen yet: what changes at it is given together."""
        return self.how == "by windows" and self.hops.has_more

    def end_of_part(self, end: int) -> int:
        """Before which instant a part ends that might go on to this one. Groups are divided at one instant only, as
        rows of the same window may leave at a later one."""
        first_us = self._rows.oldest_us
        if self.how == "by rows" or first_us is None or first_us >= end:
            return end
        return first_us + 1 if self._rows.count_at(first_us) * self._copies > parts.MOST_COPIES else end

    def to_come(self, until: int) -> int:
        """How many answers, at least, come before an instant; 0 if that is not known or not worth telling."""
        return self.hops.left + self._rows.instants_before(until) * self._copies if self._tells else 0


def hop_parts(root: Node, kind: Kind) -> HopParts | None:
    """None if the answer cannot be made of parts. Rows that stay are given one by one; of groups each is of one
    window."""
    top = root.child if isinstance(root, Net) else root
    if kind == "rows" and isinstance(top, FromOne):
        below = top.source.node if isinstance(top.source, ChangesSource) else top
        all_given = not top.predicates and isinstance(below, FromOne) and not below.predicates
        return _over_stream(below, "by rows", all_given)
    if isinstance(top, GroupByOperator) and isinstance(top.child, FromOne):
        keys = [e for _, e in top.child.columns[: top.keys]]
        if any(isinstance(e, Column) and e.name in WINDOW_COLUMNS for e in keys):
            return _over_stream(top.child, "by windows", top.having is None and not top.child.predicates)
    return None


def _over_stream(node: Node, how: By, all_given: bool) -> HopParts | None:
    if not isinstance(node, FromOne) or not isinstance(node.trigger, Timely) or node.negative:
        return None
    source = node.source
    lifetimes = source.lifetimes if isinstance(source, StreamSource) else None
    if not isinstance(lifetimes, Lifetimes) or not isinstance(source, StreamSource):
        return None
    hops = lifetimes.hops_at_once
    return None if hops is None else HopParts(hops, how, source.waiting, all_given=all_given)
