"""The ways to answer a query that must all agree: the reference, the in-process engine, and DuckDB where it can."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests.oracles import duckdb_answer, duckdb_log, duckdb_rows
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Catalog, Stream, Table
from watersmeet.model.time import parse_interval
from watersmeet.model.versions import Versions
from watersmeet.plan.query import Plan
from watersmeet.plan.user_functions import user_function
from watersmeet.plan.walks import inputs_below, is_read
from watersmeet.reference.join import answer

Numbers = npt.NDArray[np.int64]


class Bag(Counter[tuple[Any, ...]]):
    """Rows and how often each is there, which is never 0: so they are compared as dicts are, a Counter in Python."""

    __eq__ = dict.__eq__
    __ne__ = dict.__ne__


@dataclass(frozen=True)
class Source:
    """A stream's rows in the order they arrive, or a static table when `time` is None."""

    name: str
    table: pa.Table
    time: str | None = "ts"
    lateness: str = "0 seconds"
    arrival: Arrival = field(default_factory=Arrival)
    versions: Versions | None = None  # of a table whose changes these are

    def relation(self) -> Stream | Table:
        if self.time is None:
            return Table(self.name, self.table.schema)
        lateness_us = parse_interval(self.lateness)
        return Stream(
            self.name, self.table.schema, self.time, lateness_us, arrival=self.arrival, versions=self.versions
        )

    def keyed(self) -> dict[str, Any]:
        """What a session is told of its versions."""
        return {} if self.versions is None else {"key": self.versions.key, "op": self.versions.op}


# An aggregate of one's own that random queries may ask for.
PATH = user_function("aggregate", "path", lambda x: ">".join(x.to_pylist()), ["STRING"], "STRING", "")

RowsPerBatch = int | None | Mapping[str, int | None]
Runner = Callable[[str, Sequence[Source]], Bag]


def bag(rows: Sequence[tuple[Any, ...]]) -> Bag:
    """Rows with their multiplicities; NaN is made equal to itself."""
    return Bag(tuple("NaN" if isinstance(v, float) and isnan(v) else v for v in row) for row in rows)


def bag_of(table: pa.Table) -> Bag:
    return Bag(zip(*(_comparable(column) for column in table.columns), strict=True))


def _comparable(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column, NaN made equal to itself; only a column of floats has any to look for. Lists are told by
    their words, as they have no hash."""
    values = column.to_pylist()
    if pa.types.is_nested(column.type):
        return list(map(repr, values))
    return ["NaN" if v != v else v for v in values] if pa.types.is_floating(column.type) else values


def bound_plan(sql: str, sources: Sequence[Source]) -> Plan:
    from watersmeet.sql.bind import bind

    catalog = Catalog()
    catalog.functions[PATH.name] = PATH
    for source in sources:
        catalog.add(source.relation())
    return bind(sql, catalog)


def tables_of(sources: Sequence[Source]) -> dict[str, pa.Table]:
    return {source.name: source.table for source in sources}


def by_reference(sql: str, sources: Sequence[Source]) -> Bag:
    return bag(answer(bound_plan(sql, sources), tables_of(sources)))


def by_duckdb(sql: str, sources: Sequence[Source]) -> Bag:
    plan = bound_plan(sql, sources)
    plain = plan.plain_join is not None and all(is_read(one.relation) for one in inputs_below(plan.root))
    grown = duckdb_answer if plain else duckdb_rows
    answered = grown if plan.kind == "rows" else duckdb_log
    return bag(answered(plan, tables_of(sources)))


@dataclass(frozen=True)
class Answered:
    """What the engine gave, and the numbers of the rows that it left out as late, by stream."""

    table: pa.Table
    late: Mapping[str, Numbers]
    metrics: Mapping[str, Any]

    @property
    def bag(self) -> Bag:
        return bag_of(self.table)

    def in_time(self, sources: Sequence[Source]) -> list[Source]:
        """The sources without those rows: what the answer is the answer of."""
        return [replace(source, table=without(source.table, self.late.get(source.name))) for source in sources]


def without(table: pa.Table, numbers: Numbers | None) -> pa.Table:
    return table if numbers is None else table.take(np.delete(np.arange(len(table)), numbers))


def answered(query: Any, **how: Any) -> Answered:
    """Run a query of the in-process engine and note which rows come too late."""
    late: dict[str, list[Numbers]] = {}
    batches = query.batches(on_late_rows=lambda name, rows: late.setdefault(name, []).append(rows), **how)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "late_rows")  # who asks knows
        table = pa.Table.from_batches(batches, schema=query.schema)
    return Answered(table, {name: np.concatenate(rows) for name, rows in late.items()}, query.metrics())


def behind_their_stream(source: Source) -> Numbers:
    """The rows further behind the newest row of their own stream than its lateness: no other may ever be late."""
    times = source.table[source.time].cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_numpy()
    if not times.size:
        return np.empty(0, np.int64)
    newest_before = np.concatenate([times[:1], np.maximum.accumulate(times)[:-1]])
    return np.flatnonzero(times < newest_before - parse_interval(source.lateness))


def by_local_engine(sql: str, sources: Sequence[Source], rows_per_batch: RowsPerBatch = None) -> Bag:
    """The in-process engine; rows enter in batches of at most so many, for all streams or for each by name."""
    return bag_of(local_query(sql, sources, rows_per_batch).to_arrow())


def local_query(sql: str, sources: Sequence[Source], rows_per_batch: RowsPerBatch = None) -> Any:
    import watersmeet

    session = watersmeet.Session()
    session.catalog.functions[PATH.name] = PATH
    for source in sources:
        size = rows_per_batch.get(source.name) if isinstance(rows_per_batch, Mapping) else rows_per_batch
        if source.time is None:
            session.table(source.name, source.table)
        else:
            data = pa.Table.from_batches(source.table.to_batches(size), source.table.schema)
            how = {"time": source.time, "lateness": source.lateness, **source.keyed()}
            session.stream(source.name, data, read="arrival", **how)
    return session.sql(sql)


RUNNERS: dict[str, Runner] = {
    "reference": by_reference,
    "duckdb": by_duckdb,
    "local": by_local_engine,
    "local, row by row": lambda sql, sources: by_local_engine(sql, sources, rows_per_batch=1),
}
