"""From a query to the story of its run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US, Times, format_instant, format_interval, times_of
from watersmeet.model.wording import counted
from watersmeet.operators.evaluate import evaluate_predicate
from watersmeet.plan.expressions import Call, Column, Expression, columns_of
from watersmeet.plan.nodes import GroupBy, Input, Join, Project
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import nodes_below
from watersmeet.plan.window_words import window_text
from watersmeet.runtime.over import constants_as_tables
from watersmeet.timeline.following import Log, Meetings, Numbers, answers, meetings, rows_in, survivors, without_options
from watersmeet.timeline.inputs import Inputs, followed_join, lanes_below
from watersmeet.timeline.lives import Lives, Marks, lives_of
from watersmeet.timeline.story import Answer, Fate, Lane, Match, Row, Story
from watersmeet.timeline.words import shown, values_text

MOST_ANSWERS = 200
MOST_MATCHES = 500
MOST_LABELS = 3  # columns of a row that are named beside it


@dataclass(frozen=True)
class Part:
    """Which part of a run is told: so many rows at most, from one event time to another."""

    rows: int = 40
    start_us: int | None = None
    until_us: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise OptionError(f"a timeline shows a whole number of rows, 1 or more, not {self.rows!r}")
        if self.start_us is not None and self.until_us is not None and self.start_us > self.until_us:
            raise OptionError(
                f"a timeline from {format_instant(self.start_us)} cannot end at {format_instant(self.until_us)}",
                hint="give the earlier time first",
            )

    @staticmethod
    def of(rows: int, since: dt.datetime | str | None, until: dt.datetime | str | None) -> Part:
        """Times as they are given; without a zone they are UTC."""
        return Part(rows, _instant_us("since", since), _instant_us("until", until))

    def holds(self, times: Times) -> Marks:
        start = -FOREVER_US if self.start_us is None else self.start_us
        until = FOREVER_US if self.until_us is None else self.until_us
        held: Marks = (times >= start) & (times <= until)
        return held


def _instant_us(what: str, given: dt.datetime | str | None) -> int | None:
    if given is None:
        return None
    try:
        at = given if isinstance(given, dt.datetime) else dt.datetime.fromisoformat(given)
    except (TypeError, ValueError):
        raise OptionError(f"{what} {given!r} is no time", hint="write it as '2026-01-01 12:00:00'") from None
    in_utc = at if at.tzinfo is not None else at.replace(tzinfo=dt.UTC)
    return (in_utc - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def story_of(plan: Plan, part: Part, sample: int | None = None) -> Story:
    """Run the query over all of its input, or the sample that was taken of it, and tell what happened in a part."""
    plan = constants_as_tables(plan)
    inputs = Inputs.of(plan.root)
    join = followed_join(plan.root)
    met = None if join is None else _met(plan, join, inputs)
    given = met is not None and isinstance(plan.root, Project) and plan.root.child is join
    log = None if given else answers(plan, inputs)
    late = log.late if log is not None else met.late if met is not None else {}
    laid = [_laid(plan, of, one, inputs, late) for of, one in lanes_below(plan.root)]
    places = [number for number, lane in enumerate(laid) if lane.join is join]
    chosen = _chosen(laid, part)
    by_matches = None if met is None else _chosen_by_matches(met, places, laid, chosen, part)
    chosen = by_matches or chosen
    notes = [*_left_out(laid, chosen, by_matches=by_matches is not None), *_not_read(laid, sample)]
    matches: list[Match] = []
    if met is not None and join is not None:
        exact = meetings(without_options(plan), join, inputs) if plan.shedding is not None else None
        matches, remarks = _matches(met, exact, places, laid, chosen)
        notes += remarks
        if plan.shedding is not None and plan.shedding.memory.size is not None:
            notes.append("rows carry their numbers here, so that a little fewer of them fit into the memory")
    lanes = tuple(lane.shown(chosen[number], matches, number) for number, lane in enumerate(laid))
    is_cut = sum(map(len, chosen)) < sum(lane.drawable for lane in laid)
    found = [Answer(one.values, one.at_us, moment=True) for one in matches if not one.lost]
    if log is not None:
        last_us = max((row.at_us for lane in lanes for row in lane.rows if not lane.is_table), default=0)
        seen = _seen(log, part, last_us if is_cut else FOREVER_US)
        found = log.shown(seen)
        if seen.size < log.since.size:
            left = log.since.size - seen.size
            notes.append(f"{left:,} of {log.since.size:,} rows of the answer {_are(left)} left out")
    return Story(plan.sql, lanes, tuple(matches), tuple(found), given, is_cut, tuple(notes))


def _met(plan: Plan, join: Join, inputs: Inputs) -> Meetings | None:
    if plan.kind == "rows":
        return meetings(plan, join, inputs)
    # Below a changing answer who meets is what the same join would give as rows; of other kinds there is no such.
    return meetings(without_options(plan), join, inputs) if join.kind == "inner" and not join.views else None


def _seen(log: Log, part: Part, last_us: int) -> Numbers:
    """The rows of the answer that are there in this part, up to the last row that is drawn: what comes later is made
    by rows that are not."""
    start_us = -FOREVER_US if part.start_us is None else part.start_us
    until_us = min(last_us, FOREVER_US if part.until_us is None else part.until_us)
    return np.flatnonzero((log.since <= until_us) & (log.until >= start_us))[:MOST_ANSWERS]


# ---- lanes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Laid:
    """An input with what became of each of its rows."""

    join: Join
    one: Input
    rows: pa.Table
    times: Times
    timed: Marks
    fates: Sequence[Fate]
    lives: Lives | None
    window: str
    labels: tuple[str, ...]

    @property
    def drawable(self) -> int:
        """How many of its rows have a time."""
        return int(self.timed.sum())

    def shown(self, numbers: set[int], matches: Sequence[Match], own: int) -> Lane:
        """With the rows of these numbers; of a table with those that a match has."""
        if self.one.is_table:
            numbers = {number for one in matches if (number := one.rows[own]) is not None}
        places = np.array(sorted(numbers, key=lambda n: (self.times[n - 1], n)), np.int64) - 1
        rows = tuple(self._row(int(place), values) for place, values in zip(places, self._values(places), strict=True))
        relation = self.one.relation
        return Lane(self.one.alias, relation.name, self.window, rows, self.one.is_table, self.labels)

    def _values(self, places: Numbers) -> list[Mapping[str, Any]]:
        names = self.rows.schema.names
        return [dict(zip(names, row, strict=True)) for row in rows_in(self.rows.take(pa.array(places)))]

    def _row(self, place: int, values: Mapping[str, Any]) -> Row:
        label = " ".join(shown(values[name]) for name in self.labels) or str(place + 1)
        text = values_text(list(values), values.values())
        at_us, fate = int(self.times[place]), self.fates[place]
        row = Row(place + 1, at_us, label, text, fate)
        if self.lives is None or fate != "held" or self.lives.never[place]:
            return row
        until = int(self.lives.until[place])
        return replace(row, since_us=int(self.lives.since[place]), until_us=None if until >= FOREVER_US else until)


def _laid(plan: Plan, join: Join, one: Input, inputs: Inputs, late: Mapping[str, Numbers]) -> _Laid:
    rows = inputs.tables[one.relation.name]
    labels = _label_columns(plan, join, one)
    if one.time is None:
        nothing = np.zeros(rows.num_rows, np.int64)
        marks = np.zeros(rows.num_rows, np.bool_)
        return _Laid(join, one, rows, nothing, marks, ["held"] * rows.num_rows, None, "static table", labels)
    column = rows[one.time].combine_chunks()
    timed = pc.is_valid(column).to_numpy(zero_copy_only=False)
    times = times_of(column.fill_null(0) if column.null_count else column)
    fates = np.full(rows.num_rows, "held", object)
    fates[~_passing(join, one, rows)] = "other"
    taken = timed.copy()
    if isinstance(one.relation, Stream) and one.relation.first is not None:
        first = np.zeros(rows.num_rows, np.bool_)
        first[survivors(plan, one, inputs) - 1] = True
        taken &= first
        fates[~first] = "duplicate"
    too_late = late.get(one.relation.name, np.zeros(0, np.int64)) - 1
    taken[too_late] = False
    fates[too_late] = "late"
    lives = lives_of(join, one, rows, times, taken, changing=plan.kind != "rows")
    return _Laid(join, one, rows, times, timed, list(fates), lives, _window_words(join, one), labels)


def _passing(join: Join, one: Input, rows: pa.Table) -> Marks:
    """Which rows the conditions on their own columns let through."""
    passing = np.ones(rows.num_rows, np.bool_)
    if join.kind != "inner":
        return passing  # a row that matches nothing may be given all the same
    whole = rows.combine_chunks()

    def column(asked: Column) -> pa.Array:
        return whole[asked.name].combine_chunks()

    for predicate in join.predicates:
        columns = columns_of(predicate)
        if columns and all(each.stream == one.alias and each.name in rows.schema.names for each in columns):
            passing &= evaluate_predicate(predicate, column, rows.num_rows)
    return passing


def _window_words(join: Join, one: Input) -> str:
    if one.window is not None:
        return f"[{window_text(one.window)}]"
    if len(join.streams) < 2:
        return ""
    reach_us = join.windows.retention_us(one.alias)
    if reach_us >= FOREVER_US:
        return "can be met for ever"
    return f"can be met for {format_interval(reach_us)}" if reach_us > 0 else "meets earlier rows"


def _label_columns(plan: Plan, join: Join, one: Input) -> tuple[str, ...]:
    """What rows are known by: the columns that are compared or grouped by, else the first that is no time."""
    grouped: list[Expression] = [
        key for node in nodes_below(plan.root) if isinstance(node, GroupBy) and node.child is join for key in node.keys
    ]
    compared = [part for part in join.predicates if isinstance(part, Call)]
    named = [each.name for part in (*compared, *grouped) for each in columns_of(part) if each.stream == one.alias]
    here = [name for name in dict.fromkeys(named) if name in one.relation.schema.names and name != one.time]
    others = [name for name in one.relation.schema.names if name != one.time]
    return tuple(here[:MOST_LABELS] or others[:1])


# ---- which of it is told --------------------------------------------------------------------------------------------


def _chosen(lanes: Sequence[_Laid], part: Part, before: Sequence[set[int]] = ()) -> list[set[int]]:
    """The first rows of all lanes together, by time, beside those that were chosen before: of each lane the numbers."""
    found: list[tuple[int, int, int]] = []
    for lane_number, lane in enumerate(lanes):
        places = np.flatnonzero(lane.timed & part.holds(lane.times))
        first = places[np.argsort(lane.times[places], kind="stable")][: part.rows]
        found += [(int(lane.times[place]), lane_number, int(place) + 1) for place in first]
    chosen: list[set[int]] = [set(numbers) for numbers in before] or [set() for _ in lanes]
    left = part.rows - sum(map(len, chosen))
    others = (one for one in sorted(found) if one[2] not in chosen[one[1]])
    for _, lane_number, number in list(islice(others, left)):
        chosen[lane_number].add(number)
    return chosen


def _chosen_by_matches(
    met: Meetings, places: Sequence[int], lanes: Sequence[_Laid], first: Sequence[set[int]], part: Part
) -> list[set[int]] | None:
    """The rows of the first matches, and others from there on, where none of the first rows met another; None if some
    did, or nobody at all."""
    met_others = (met.members > 0).sum(axis=0) > 1
    if (met_others & _are_drawn(met, places, lanes, first)).any():
        return None
    held = met_others.copy()
    for members, place in zip(met.members, places, strict=True):
        if not lanes[place].one.is_table:
            inside = np.concatenate([[True], part.holds(lanes[place].times)])
            held &= inside[members]
    chosen: list[set[int]] = [set() for _ in lanes]
    columns = np.flatnonzero(held)
    for column in columns[np.argsort(met.at_us[columns], kind="stable")][: part.rows].tolist():
        rows = [(place, int(number)) for place, number in zip(places, met.members[:, column], strict=True) if number]
        new = [(place, number) for place, number in rows if not lanes[place].one.is_table]
        new = [(place, number) for place, number in new if number not in chosen[place]]
        if sum(map(len, chosen)) + len(new) > part.rows:
            break
        for place, number in new:
            chosen[place].add(number)
    times = [lanes[place].times[number - 1] for place, numbers in enumerate(chosen) for number in numbers]
    return _chosen(lanes, replace(part, start_us=int(min(times))), chosen) if times else None


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _left_out(lanes: Sequence[_Laid], chosen: Sequence[set[int]], *, by_matches: bool) -> Iterator[str]:
    all_rows, drawn = sum(lane.drawable for lane in lanes), sum(map(len, chosen))
    if drawn < all_rows:
        which = ", those of the first matches and others from there on" if by_matches else ""
        yield f"{drawn:,} of {all_rows:,} rows {_are(drawn)} drawn{which}; rows, since and until choose others"
    untimed = sum(lane.rows.num_rows - lane.drawable for lane in lanes if not lane.one.is_table)
    if untimed:
        yield f"{counted(untimed, 'row')} without an event time {_are(untimed)} left out"


def _not_read(lanes: Sequence[_Laid], sample: int | None) -> Iterator[str]:
    cut = [lane.one.relation.name for lane in lanes if not lane.one.is_table and lane.rows.num_rows == sample]
    if cut:
        yield f"of {', '.join(dict.fromkeys(cut))} only the first {sample:,} rows were read"


def _matches(
    met: Meetings, exact: Meetings | None, places: Sequence[int], lanes: Sequence[_Laid], chosen: Sequence[set[int]]
) -> tuple[list[Match], list[str]]:
    """Those whose members are all drawn, what bounded memory cost among them, and what there is to say of others."""
    found = _drawn(met, places, lanes, chosen, lost=False)[:MOST_MATCHES]
    notes = []
    if len(found) < met.at_us.size:
        left = met.at_us.size - len(found)
        notes.append(f"{left:,} of {counted(met.at_us.size, 'match', 'matches')} {_are(left)} left out")
    if exact is not None:
        lost = exact.without(met)
        found += _drawn(lost, places, lanes, chosen, lost=True)[:MOST_MATCHES]
        notes.append(f"bounded memory let go of {met.shed_rows:,} rows, which cost {lost.at_us.size:,} matches")
    return found, notes


def _are_drawn(met: Meetings, places: Sequence[int], lanes: Sequence[_Laid], chosen: Sequence[set[int]]) -> Marks:
    """Whether all members are. An answer without a member that is drawn would hang in the air."""
    inside = np.asarray((met.members > 0).any(axis=0), np.bool_)
    for members, place in zip(met.members, places, strict=True):
        if not lanes[place].one.is_table:
            inside &= np.isin(members, np.array([0, *chosen[place]], np.int64))
    return inside


def _drawn(
    met: Meetings, places: Sequence[int], lanes: Sequence[_Laid], chosen: Sequence[set[int]], *, lost: bool
) -> list[Match]:
    kept = np.flatnonzero(_are_drawn(met, places, lanes, chosen))
    kept = kept[np.lexsort((*met.members[::-1, kept], met.at_us[kept]))]
    names = met.values.schema.names
    # A table without columns does not know how many rows it has.
    shown_rows = rows_in(met.values.take(pa.array(kept))) if names else [()] * kept.size
    texts = [values_text(names, row) for row in shown_rows]
    found = []
    for text, column in zip(texts, kept.tolist(), strict=True):
        rows: list[int | None] = [None] * len(lanes)
        for place, number in zip(places, met.members[:, column].tolist(), strict=True):
            rows[place] = number or None
        found.append(Match(tuple(rows), int(met.at_us[column]), text, lost))
    return found
