"""What keeps rows of several inputs apart, one of each: the conditions and windows of their join, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.time import format_interval
from watersmeet.model.windows import Bound, Choice, Range, RowsWindow, Unbounded, range_words
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.plan.expressions import Call, Column, EventTime, Expression, streams_of, to_text, walk
from watersmeet.plan.nodes import Input, Join
from watersmeet.why.asked import Picked

Kind = Literal["condition", "window", "expired", "late", "forgotten", "skipped", "partner", "elsewhere"]


@dataclass(frozen=True)
class Reason:
    """One thing that keeps rows apart: a condition, a window, rows that came since, that one came too late, that
    bounded memory let go of one, that no row of an input that was not asked about joins them; or something that only a
    run can tell."""

    kind: Kind
    text: str


class Meeting:
    """One row of each input of a join, or of some of them: then what is said of others is passed over."""

    def __init__(self, join: Join, picked: Sequence[Picked]) -> None:
        self.join = join
        self.rows = {one.alias: one for one in picked}
        named = [one for one in join.inputs if one.alias in self.rows]
        self.times = {one.alias: _time_of(one, self.rows[one.alias]) for one in named if one.time is not None}
        self.missing = [one.alias for one in join.inputs if one.alias not in self.rows]

    @property
    def event_us(self) -> int:
        """When the last of them is there."""
        return max(self.times.values())

    def reasons(self) -> list[Reason]:
        """Everything that fails, in the order of the query."""
        found = [*self._written()]
        return found or [*self._implied()]

    def _written(self) -> Iterator[Reason]:
        for predicate in (*self.join.predicates, *self.join.where):
            if self._is_known(predicate):
                yield from self._of_condition(predicate)
        for bound in self.join.bounds:
            yield from self._of_bound(bound, bound.written)
        for choice in self.join.choices:
            yield from self._of_choice(choice)
        for one in self.join.streams:
            if one.alias in self.rows:
                yield from self._of_window(one)

    def _implied(self) -> Iterator[Reason]:
        """What windows of the inputs between them ask of rows of which nothing is written."""
        windows = self.join.windows
        known = [(place, alias) for place, alias in enumerate(windows.streams) if alias in self.times]
        for u, earlier in known:
            for v, later in known:
                bound = Bound(earlier, later, windows.limits[u][v], "")
                if self._apart(bound) > bound.at_most_us:
                    yield Reason("window", f"all windows together: {_too_far(bound, self._apart(bound))}")

    def _is_known(self, predicate: Expression) -> bool:
        """Whether it is about these rows alone; their common event time is that of all."""
        whole = any(isinstance(part, EventTime) for part in walk(predicate))
        return streams_of(predicate) <= self.rows.keys() and not (whole and self.missing)

    # ---- conditions -------------------------------------------------------------------------------------------------

    def _of_condition(self, predicate: Expression) -> Iterator[Reason]:
        if bool(evaluate_predicate(predicate, self._column, 1, self._moment)[0]):
            return
        value = evaluate(predicate, self._column, 1, self._moment)[0].as_py()
        outcome = "is NULL, which is not true" if value is None else "does not hold"
        yield Reason("condition", f"{to_text(predicate)} {outcome}: {self._with_values(predicate)}")

    def _with_values(self, predicate: Expression) -> str:
        """Both sides of a comparison, or the columns that it reads."""
        if isinstance(predicate, Call) and len(predicate.args) == 2:
            left, right = (_shown(evaluate(side, self._column, 1, self._moment)[0].as_py()) for side in predicate.args)
            return f"{left} on the left, {right} on the right"
        columns = dict.fromkeys(part for part in walk(predicate) if isinstance(part, Column))
        return ", ".join(f"{to_text(one)} is {_shown(self.rows[one.stream].value(one.name))}" for one in columns)

    def _column(self, column: Column) -> pa.Array:
        return self.rows[column.stream].row.column(column.name)

    def _moment(self) -> pa.Array:
        return pa.array([self.event_us], pa.timestamp("us"))

    # ---- windows ----------------------------------------------------------------------------------------------------

    def _of_bound(self, bound: Bound, written: str) -> Iterator[Reason]:
        if not {bound.later, bound.earlier} <= self.times.keys():
            return
        apart_us = self._apart(bound)
        if apart_us > bound.at_most_us:
            yield Reason("window", f"{written}: {_too_far(bound, apart_us)}")

    def _of_choice(self, choice: Choice) -> Iterator[Reason]:
        """One of several ways has to hold, as of a path that may be walked from either end."""
        ways = [[r for bound in way for r in self._of_bound(bound, bound.written)] for way in choice.alternatives]
        if all(ways):
            yield min(ways, key=len)[0]

    def _of_window(self, one: Input) -> Iterator[Reason]:
        window = one.window
        if isinstance(window, Range):
            limit_us = window.size_us - (self.join.boundary == "half_open")
            for other, at_us in self.times.items():
                bound = Bound(one.alias, other, limit_us, "")
                if other != one.alias and at_us - self.times[one.alias] > limit_us:
                    yield Reason("window", f"{range_words(one.alias, window)}: {_too_far(bound, self._apart(bound))}")
        elif isinstance(window, RowsWindow):
            yield from self._of_rows(one, window)
        elif window is not None and not isinstance(window, Unbounded):
            # How far such windows have moved depends on all rows; whether the rows met is found by running the query.
            return

    def _apart(self, bound: Bound) -> int:
        return self.times[bound.later] - self.times[bound.earlier]

    def _of_rows(self, one: Input, window: RowsWindow) -> Iterator[Reason]:
        """`[ROWS n]`: how many rows came after this one until all were there."""
        mine = self.rows[one.alias]
        times = _times(one, mine.everything)
        here = np.ones(times.size, np.bool_)
        for name in window.partition_by:
            here &= _equal(mine.everything[name], mine.value(name))
        later = (times > self.times[one.alias]) | (
            (times == self.times[one.alias]) & (np.arange(times.size) >= mine.number)
        )
        since = int((here & later & (times <= self.event_us)).sum())
        if since >= window.count:
            of = f" with the same {', '.join(window.partition_by)}" if window.partition_by else ""
            yield Reason(
                "expired",
                f"{one.alias} [ROWS {window.count}]: when the last of them was there, {since:,} rows{of} had come "
                f"after this one",
            )


def _too_far(bound: Bound, apart_us: int) -> str:
    if bound.at_most_us <= 0 and apart_us > 0:
        early = "" if bound.at_most_us == 0 else f", not {format_interval(-bound.at_most_us)} earlier"
        return f"{bound.later} is {format_interval(apart_us)} later than {bound.earlier}{early}"
    much = format_interval(apart_us - bound.at_most_us)
    return f"{bound.later} is {format_interval(apart_us)} later than {bound.earlier}, {much} too much"


def _time_of(one: Input, picked: Picked) -> int:
    assert one.time is not None
    return int(_as_us(picked.row.column(one.time))[0])


def _times(one: Input, rows: pa.Table) -> Any:
    assert one.time is not None
    return _as_us(rows[one.time].combine_chunks())


def _as_us(column: pa.Array) -> Any:
    return column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64()).to_numpy(zero_copy_only=False)


def _equal(column: pa.ChunkedArray, value: Any) -> Any:
    same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), False)
    return same.combine_chunks().to_numpy(zero_copy_only=False)


def _shown(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


def shown_values(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_shown(value)}" for name, value in row.items())
