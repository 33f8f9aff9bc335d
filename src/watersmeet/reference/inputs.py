"""The rows a query reads, in the order they arrive: all that are given. Who runs it says which ones come too late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.model.catalog import Deduplication, Stream, Table
from watersmeet.plan.constants import Constants, Listed, Selected, Series
from watersmeet.plan.nodes import Node
from watersmeet.plan.walks import relations_below
from watersmeet.reference.evaluate import Combination, Row, evaluate, holds
from watersmeet.reference.order import same
from watersmeet.reference.values import Value, plain_column, tick_ns
from watersmeet.reference.written_times import written_times

Arrivals = Mapping[str, pa.Table]
NS_PER_US = 1_000


@dataclass(frozen=True)
class Member:
    """A row with its event time (None in a static table or a view) and its place in the order of arrival."""

    values: Row
    time_ns: int | None
    arrival: int
    since_ns: int | None = None  # when it enters its window, if that is later

    @property
    def entered_ns(self) -> int | None:
        return self.time_ns if self.since_ns is None else self.since_ns

    @property
    def at_ns(self) -> int:
        assert self.time_ns is not None, "only rows of streams have times"
        return self.time_ns


Members = Mapping[str, Member]


def combination(members: Members) -> Combination:
    times = [member.entered_ns for member in members.values() if member.entered_ns is not None]
    return Combination({alias: member.values for alias, member in members.items()}, max(times, default=None))


def rows_of_stream(stream: Stream, arrivals: Arrivals) -> list[Member]:
    rows = _row_dicts(stream, _checked(stream, _table(stream.name, arrivals)))
    found = [Member(row, row[stream.time], arrival) for arrival, row in enumerate(rows)]
    return found if stream.first is None else _first(found, stream.first)


def _first(rows: list[Member], rule: Deduplication) -> list[Member]:
    """Each row, as they arrive, whose time is not near that of one of its key that was taken before."""
    taken: dict[object, list[int]] = {}
    found = []
    for row in rows:
        times = taken.setdefault(same([row.values[key] for key in rule.keys]), [])
        if all(abs(row.at_ns - time) > rule.within_us * NS_PER_US for time in times):
            times.append(row.at_ns)
            found.append(row)
    return found


def rows_of_table(table: Table, arrivals: Arrivals) -> list[Member]:
    if isinstance(table, Constants):
        return [Member(row, None, i) for i, row in enumerate(r for part in table.parts for r in _selected(part))]
    return [Member(row, None, i) for i, row in enumerate(_row_dicts(table, _table(table.name, arrivals)))]


def _selected(part: Selected) -> Iterator[Row]:
    for values in _listed(part.of) if isinstance(part.of, Listed) else _series(part.of):
        below = Combination({"": dict(zip(part.of.names, values, strict=True))})
        if all(holds(condition, below) for condition in part.where):
            yield {name: evaluate(e, below) for name, e in part.columns}


def _listed(listed: Listed) -> Iterator[list[Value]]:
    return ([evaluate(e, Combination({})) for e in row] for row in listed.rows)


def _series(series: Series) -> Iterator[list[Value]]:
    value, stop, step = (evaluate(e, Combination({})) for e in (series.start, series.stop, series.step))
    while None not in (value, stop, step) and (value < stop if step > 0 else value > stop):
        yield [value]
        value += step
    if series.inclusive and value is not None and value == stop and step is not None:
        yield [value]


def _checked(stream: Stream, table: pa.Table) -> pa.Table:
    if stream.reading is not None and not pa.types.is_timestamp(table.schema.field(stream.time).type):
        index = table.schema.get_field_index(stream.time)
        table = table.set_column(index, stream.time, written_times(table[stream.time], stream.reading))
    column = table[stream.time].combine_chunks()
    if column.null_count and stream.arrival.skips_nulls:
        return table.filter(column.is_valid())
    if column.null_count:
        raise DataError(
            f"stream {stream.name!r} has {column.null_count} rows without an event time ({stream.time} is NULL)",
            hint="say on_null = 'skip', or filter them out or fill them in before they enter",
        )
    return table


def _table(name: str, arrivals: Arrivals) -> pa.Table:
    return next(table for given, table in arrivals.items() if given.lower() == name.lower())


def _row_dicts(relation: Stream | Table, table: pa.Table) -> Iterator[Row]:
    columns = [_entered(plain_column(table[name]), name, relation) for name in table.schema.names]
    names = table.schema.names
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _entered(values: list[Value], name: str, relation: Stream | Table) -> list[Value]:
    """Times as the stream takes them in: in whole ticks of its type, finer ones refused or cut."""
    tick = tick_ns(relation.schema.field(name).type)
    if tick is None or not any(value is not None and value % tick for value in values):
        return values
    # Only what is finer than a microsecond is refused; types of a coarser tick, such as dates, are cut.
    if relation.rounding == "error" and tick == NS_PER_US:
        raise DataError(f"column {name!r} of {relation.name!r} has times finer than a microsecond")
    return [value if value is None else value // tick * tick for value in values]


def streams_below(node: Node) -> list[Stream]:
    """The distinct streams that a query reads, also inside its subqueries."""
    return list({one.name: one for one in relations_below(node) if isinstance(one, Stream)}.values())
