"""Answers that change, by definition: at every instant the relational query over what the windows hold then.

    change_log(plan, arrivals)   what enters and leaves the answer, instant by instant
    snapshot(plan, arrivals, T)  the answer at T, recomputed from the rows
    instants(plan, arrivals)     where it may change

At T, `[RANGE w]` holds the rows with t <= T <= t + w (half-open: T < t + w), `[ROWS n]` the n latest with t <= T,
with SLIDE what they held at the last step (steps.py); a table all its rows, a view the rows of its answer at T.
`ISTREAM` and `DSTREAM` are the net changes of an answer, `RSTREAM … EVERY d` is all of it at every multiple of d
since the epoch, from the first to the last event time of the streams below it; where all input ended and went on
(`ends`), there is none from the last event before the end until what was answered then. Rows of a subquery with equal
times come in the order of their values; of CHANGES, which is all net changes, each with its sign, those that leave
first. An aggregate without GROUP BY is one row at every instant from the first event
time of the streams below it, also over nothing: groups are there while they have rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.pace import Pace
from watersmeet.model.windows import (
    Boundary,
    Each,
    Hop,
    Landmark,
    Range,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    Unbounded,
)
from watersmeet.plan.expressions import Aggregate, Call, Column, Expression
from watersmeet.plan.nodes import (
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    TopK,
    View,
    schema_of,
)
from watersmeet.plan.query import Plan
from watersmeet.plan.shapes import SelectedJoin, comes_as_stored, growing_join, keeps_arrival, streams_together
from watersmeet.plan.walks import children
from watersmeet.reference.aggregates import aggregate
from watersmeet.reference.combinations import combinations, latest, matches
from watersmeet.reference.evaluate import Combination, evaluate
from watersmeet.reference.inputs import (
    NS_PER_US,
    Arrivals,
    Member,
    Members,
    combination,
    rows_of_stream,
    rows_of_table,
    streams_below,
)
from watersmeet.reference.order import Row, in_order, rank_of_row, same
from watersmeet.reference.outer import changing, growing
from watersmeet.reference.over import over
from watersmeet.reference.steps import InSteps, between_us, entering, held, leaving_us

Op = Literal["+", "-"]
Change: TypeAlias = tuple[Op, int, Row]
# Where all input had come to its end: the last time of each stream by name, and the latest instant answered for.
End: TypeAlias = tuple[Mapping[str, int], int]


def instants(plan: Plan, arrivals: Arrivals) -> list[int]:
    """The instants in microseconds, in order, at which the answer may differ from what it was just before."""
    return _History(plan, arrivals).instants(plan.root)


def snapshot(plan: Plan, arrivals: Arrivals, at_us: int) -> list[Row]:
    """The rows of the answer at one instant, a bag."""
    ((_, rows),) = snapshots(plan, arrivals, [at_us])
    return rows


def snapshots(plan: Plan, arrivals: Arrivals, at: Iterable[int]) -> Iterator[tuple[int, list[Row]]]:
    """The rows of the answer at each of several instants."""
    root = plan.root.child if isinstance(plan.root, Changes) else plan.root
    history = _History(plan, arrivals)
    return ((at_us, history.rows(root, at_us)) for at_us in at)


def change_log(plan: Plan, arrivals: Arrivals, ends: Sequence[End] = ()) -> list[Change]:
    """What comes out, by instant: first what leaves, then what enters, each in the order of the values.

    A join that only grows gives its combinations, at the time of the newest member.
    """
    return list(_History(plan, arrivals, ends).log(plan.root))


class _History:
    """Everything that ever happened in one run of a plan; what is derived from it is computed once."""

    def __init__(self, plan: Plan, arrivals: Arrivals, ends: Sequence[End] = ()) -> None:
        self.ends = ends
        self.boundary: Boundary = plan.options.boundary
        self.arrivals = arrivals
        self._members: dict[int, list[Member]] = {}
        self._stepped: dict[int, list[Member]] = {}
        self._instants: dict[int, list[int]] = {}

    # -- rows of inputs -------------------------------------------------------------------------------------

    def members(self, relation: Stream | Table | Derived) -> list[Member]:
        # By identity: nodes live as long as the plan does.
        known = self._members.get(id(relation))
        if known is None:
            known = self._members[id(relation)] = self._read(relation)
        return known

    def _read(self, relation: Stream | Table | Derived) -> list[Member]:
        match relation:
            case Stream():
                return rows_of_stream(relation, self.arrivals)
            case Table():
                return rows_of_table(relation, self.arrivals)
            case Derived(plan=Changes(kind="complete") as node, time=time):
                # A window is complete just before its end, which is the time of what it gives.
                names = schema_of(node).names
                values = [dict(zip(names, row, strict=True)) for _, _, row in self.log(node)]
                return [Member(row, row[time], arrival) for arrival, row in enumerate(values)]
            case Derived(plan=node, time=time):
                names = schema_of(node).names
                return [
                    Member({**dict(zip(names, row, strict=True)), time: at_us * NS_PER_US}, at_us * NS_PER_US, arrival)
                    for arrival, (_, at_us, row) in enumerate(self.log(node))
                ]

    def _entering(self, one: Input) -> list[Member]:
        """The rows of an input; in a window that moves in steps those that enter it, and when."""
        assert not isinstance(one.relation, View)
        rows = self.members(one.relation)
        if not isinstance(one.window, InSteps):
            return rows
        known = self._stepped.get(id(one))
        if known is None:
            rows = [_with_made(row, one) for row in rows] if one.made else rows
            known = self._stepped[id(one)] = entering(rows, one.window)
        return known

    def _held(self, one: Input, at_us: int) -> list[Member]:
        """What an input contributes at an instant."""
        if isinstance(one.relation, View):
            names = one.relation.schema.names
            rows = sorted(self.rows(one.relation.plan, at_us), key=rank_of_row)
            return [Member(dict(zip(names, row, strict=True)), None, i) for i, row in enumerate(rows)]
        rows_ever, now_ns = self._entering(one), at_us * NS_PER_US
        match one.window:
            case Each(within=RowsWindow() | SteppedRows() as window):
                # Rows are counted, those without entries too, and entries are there with theirs.
                counted = self.members(one.relation)
                if isinstance(window, RowsWindow):
                    inside = latest(counted, window, now_ns)
                else:
                    inside = held(entering(counted, window), window, at_us)
                there = {row.arrival for row in inside}
                return [entry for entry in rows_ever if entry.arrival in there]
            case Stepped() | SteppedRows() | Hop() | Session() | Landmark() | Each() as window:
                return held(rows_ever, window, at_us)
            case Range(size_us=size_us):
                # Times are whole microseconds, so half-open is one less.
                last = size_us - (self.boundary == "half_open")
                return [row for row in rows_ever if row.at_ns <= now_ns <= row.at_ns + last * NS_PER_US]
            case RowsWindow() as window:
                return latest(rows_ever, window, now_ns)
            case Unbounded():
                return [row for row in rows_ever if row.at_ns <= now_ns]
        assert one.is_table, "in an answer that changes every stream has a window"
        return rows_ever

    # -- instants -------------------------------------------------------------------------------------------

    def instants(self, node: Node) -> list[int]:
        known = self._instants.get(id(node))
        if known is None:
            known = self._instants[id(node)] = sorted(set(self._moments(node)))
        return known

    def _moments(self, node: Node) -> Iterator[int]:
        match node:
            case Join(inputs=inputs):
                for one in inputs:
                    yield from self._moments_of_input(one)
            case Changes(kind="rstream", every=Pace() as every):
                yield from self._given_at(node, every)
            case GroupBy(child=join, keys=()):
                # It begins with the first row of any stream, also of one that a subquery makes others of.
                times = (row.at_ns // NS_PER_US for one in streams_below(join) for row in self.members(one))
                yield from (first for first in [min(times, default=None)] if first is not None)
                yield from self._moments(join)
            case _:
                for child in children(node):
                    yield from self._moments(child)

    def _moments_of_input(self, one: Input) -> Iterator[int]:
        if isinstance(one.relation, View):
            yield from self.instants(one.relation.plan)
        elif not isinstance(one.relation, Table):
            times = [row.at_ns // NS_PER_US for row in self.members(one.relation)]
            yield from times
            if isinstance(one.window, InSteps):
                rows = self._entering(one)
                yield from ((row.entered_ns or 0) // NS_PER_US for row in rows)
                yield from leaving_us(rows, one.window)
            if isinstance(one.window, Range):
                # The first instant at which it is not there.
                gone = one.window.size_us + (self.boundary == "closed")
                yield from (time + gone for time in times)

    def _given_at(self, node: Node, every: Pace) -> Iterable[int]:
        times = [row.at_ns // NS_PER_US for stream in streams_below(node) for row in self.members(stream)]
        if not times:
            return ()
        moments = between_us(min(times), max(times), every)
        names = [stream.name for stream in streams_below(node)]
        return [moment for moment in moments if not any(_left_out(moment, names, end) for end in self.ends)]

    # -- what comes out -------------------------------------------------------------------------------------

    def log(self, node: Node) -> Iterator[Change]:
        """The rows a query sends, in order."""
        only_grows = growing_join(node)
        if only_grows is not None:
            yield from self._combinations(only_grows, arrived=keeps_arrival(only_grows.join))
            return
        if branches := streams_together(node):
            # Python's sort is stable: at equal times the first stream comes first.
            yield from sorted((change for one in branches for change in self._branch(one)), key=lambda each: each[1])
            return
        match node:
            case Over(time=str() as time):
                yield from self._over_stream(node, time)
            case Changes(kind="rstream" | "complete", child=child):
                # What is complete is in the answer at one instant only, so that is all of it that enters.
                for at_us in self.instants(node):
                    yield from (("+", at_us, row) for row in sorted(self.rows(child, at_us), key=rank_of_row))
            case Changes(kind="log", child=child):
                yield from (("+", at_us, (op, *row)) for op, at_us, row in self._net_changes(child))
            case Changes(kind=kind, child=child):
                wanted = "+" if kind == "istream" else "-"
                yield from (change for change in self._net_changes(child) if change[0] == wanted)
            case _:
                yield from self._net_changes(node)

    def _branch(self, node: Project | Over) -> Iterator[Change]:
        """Rows of a stream keep their order among others."""
        only_grows = growing_join(node)
        if only_grows is None:
            return self.log(node)
        return self._combinations(only_grows, arrived=comes_as_stored(node))

    def _combinations(self, node: SelectedJoin, *, arrived: bool) -> Iterator[Change]:
        inputs = {i.alias: self._entering(i) for i in node.join.inputs if not isinstance(i.relation, View)}
        all_of_them = self._together if node.join.moves_in_steps else combinations
        found = [
            (one.event_time_ns or 0, tuple(evaluate(expression, one) for _, expression in node.columns))
            for one in growing(node.join, inputs, all_of_them(node.join, inputs))
        ]
        if not arrived:
            found.sort(key=lambda each: rank_of_row(each[1]))
        # Python's sort is stable: among equal times the order above stays.
        for time_ns, row in sorted(found, key=lambda each: each[0]):
            yield "+", time_ns // NS_PER_US, row

    def _over_stream(self, node: Over, time: str) -> Iterator[Change]:
        """Rows of a stream with what is made of those around them, each at its own time."""
        assert isinstance(node.child, Project)
        join = node.child.child
        assert isinstance(join, Join)
        (one,) = join.inputs
        found = sorted(matches(join, {one.alias: self._entering(one)}), key=_ages)
        rows = [tuple(evaluate(e, combination(members)) for _, e in node.child.columns) for members in found]
        times = [(combination(members).event_time_ns or 0) // NS_PER_US for members in found]
        given = [(times[place], row) for place, row in over(node, schema_of(node.child).names, rows)]
        for at_us, row in sorted(given, key=lambda each: (each[0], rank_of_row(each[1]))):
            yield "+", at_us, row

    def _together(self, join: Join, inputs: Mapping[str, Sequence[Member]]) -> Iterator[Members]:
        """Combinations that are in their windows together at some instant: then they are when the last one enters."""
        for members in matches(join, inputs):
            first_us = (combination(members).event_time_ns or 0) // NS_PER_US
            # By identity: another row may have the same values.
            if all(any(row is members[i.alias] for row in self._held(i, first_us)) for i in join.inputs):
                yield members

    def _net_changes(self, node: Node) -> Iterator[Change]:
        before: list[Row] = []
        for at_us in self.instants(node):
            now = self.rows(node, at_us)
            yield from (("-", at_us, row) for row in sorted(_without(before, now), key=rank_of_row))
            yield from (("+", at_us, row) for row in sorted(_without(now, before), key=rank_of_row))
            before = now

    # -- the answer at one instant --------------------------------------------------------------------------

    def rows(self, node: Node, at_us: int) -> list[Row]:
        match node:
            case Project(child=Join() as join, columns=columns):
                found = [combination(members) for members in self._matches(join, at_us)]
                return [tuple(evaluate(expression, one) for _, expression in columns) for one in found]
            case Project(child=GroupBy(child=Join() as join) as grouping, columns=columns):
                always = not grouping.keys and self._has_begun(join, at_us)
                return _grouped(grouping, [e for _, e in columns], self._in_order(join, at_us), always=always)
            case Distinct(child=child):
                return _distinct(self.rows(child, at_us))
            case SetOperation(left=left, right=right):
                return _combined(node, self.rows(left, at_us), self.rows(right, at_us))
            case TopK(child=child):
                return _first(node, schema_of(child).names, self.rows(child, at_us))
            case Over(child=child):
                rows = sorted(self.rows(child, at_us), key=rank_of_row)
                return [row for _, row in over(node, schema_of(child).names, rows)]
        raise AssertionError(f"{type(node).__name__} is not an answer at an instant")

    def _has_begun(self, join: Join, at_us: int) -> bool:
        """Whether a row of any stream has come by then, whatever becomes of it."""
        return any(row.at_ns <= at_us * NS_PER_US for stream in streams_below(join) for row in self.members(stream))

    def _matches(self, join: Join, at_us: int) -> list[Members]:
        held = {one.alias: self._held(one, at_us) for one in join.inputs}
        return changing(join, held, matches(join, held))

    def _in_order(self, join: Join, at_us: int) -> list[Combination]:
        """Oldest first: by the newest member's time, then by time and arrival of each member as FROM lists them."""
        found = sorted(self._matches(join, at_us), key=_ages)
        # Python's sort is stable: among equal times the order above stays.
        return sorted(map(combination, found), key=lambda one: one.event_time_ns or 0)


def _ages(members: Members) -> list[tuple[int, int]]:
    return [(member.time_ns or 0, member.arrival) for member in members.values()]


def _grouped(
    grouping: GroupBy, outputs: Sequence[Expression], rows: Sequence[Combination], *, always: bool
) -> list[Row]:
    """always: everything is one group, which is there without rows too."""
    groups: dict[Row, list[Combination]] = {(): []} if always else {}
    for one in rows:
        groups.setdefault(same([evaluate(key, one) for key in grouping.keys]), []).append(one)
    return [
        tuple(_of_group(output, grouping, group) for output in outputs)
        for group in groups.values()
        if grouping.having is None or _of_group(grouping.having, grouping, group) is True
    ]


def _of_group(expression: Expression, grouping: GroupBy, group: Sequence[Combination]) -> object:
    """An expression over keys and aggregates: those are computed first, and stand in it as columns."""
    values: dict[str, object] = {}

    def over_values(part: Expression) -> Expression:
        if part in grouping.keys or isinstance(part, Aggregate):
            name = str(len(values))
            # Keys are the same in the whole group, so any member will do.
            values[name] = aggregate(part, group) if isinstance(part, Aggregate) else evaluate(part, group[0])
            return Column("", name, part.type)
        if isinstance(part, Call):
            return Call(part.function, tuple(map(over_values, part.args)), part.type)
        return part

    rewritten = over_values(expression)
    return evaluate(rewritten, Combination({"": values}))


def _distinct(rows: Iterable[Row]) -> list[Row]:
    return list({same(row): row for row in rows}.values())


def _without(rows: Iterable[Row], others: Iterable[Row]) -> list[Row]:
    """EXCEPT ALL: each row as often as it occurs more often than among the others."""
    spent = Counter(map(same, others))
    left: list[Row] = []
    for row in rows:
        if spent[same(row)]:
            spent[same(row)] -= 1
        else:
            left.append(row)
    return left


def _combined(node: SetOperation, left: list[Row], right: list[Row]) -> list[Row]:
    if not node.all:
        left, right = _distinct(left), _distinct(right)
    match node.kind:
        case "union":
            return left + right if node.all else _distinct(left + right)
        case "except":
            return _without(left, right)
        case "intersect":
            # Of bags: what is left when that is taken away which the others lack.
            return _without(left, _without(left, right))


def _first(node: TopK, names: Sequence[str], rows: Iterable[Row]) -> list[Row]:
    """The first rows by the keys, NULLs where the key says, then by the whole row."""
    ordered = sorted(rows, key=rank_of_row)
    # From the last key to the first, as each sort keeps the order of equals.
    for key in reversed(node.keys):
        members = [Combination({"": dict(zip(names, row, strict=True))}) for row in ordered]
        keys = [evaluate(key.expression, one) for one in members]
        ordered = in_order(ordered, keys, descending=key.descending, nulls_first=key.nulls_first)
    return ordered[node.offset :][: node.limit]


def _left_out(moment_us: int, streams: Sequence[str], end: End) -> bool:
    newest, answered_us = end
    ended = [newest[name] for name in streams if name in newest]
    return (not ended or max(ended) < moment_us) and moment_us <= answered_us


def _with_made(row: Member, one: Input) -> Member:
    made = {name: evaluate(e, Combination({one.alias: row.values})) for name, e in one.made}
    return replace(row, values={**row.values, **made})
