"""The ways to answer a query that must all agree: the reference, the in-process engine, and DuckDB where it can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pyarrow as pa

from tests.oracles import duckdb_answer, duckdb_log
from watersmeet.model.catalog import Catalog, Stream, Table
from watersmeet.model.time import parse_interval
from watersmeet.plan.nodes import Plan
from watersmeet.reference.join import answer

Bag = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Source:
    """A stream's rows in the order they arrive, or a static table when `time` is None."""

    name: str
    table: pa.Table
    time: str | None = "ts"
    lateness: str = "0 seconds"

    def relation(self) -> Stream | Table:
        if self.time is None:
            return Table(self.name, self.table.schema)
        return Stream(self.name, self.table.schema, self.time, parse_interval(self.lateness))


RowsPerBatch = int | None | Mapping[str, int | None]
Runner = Callable[[str, Sequence[Source]], Bag]


def bag(rows: Sequence[tuple[Any, ...]]) -> Bag:
    """Rows with their multiplicities; NaN is made equal to itself."""
    return Counter(tuple("NaN" if isinstance(v, float) and isnan(v) else v for v in row) for row in rows)


def bag_of(table: pa.Table) -> Bag:
    return bag(list(zip(*(column.to_pylist() for column in table.columns), strict=True)))


def bound_plan(sql: str, sources: Sequence[Source]) -> Plan:
    from watersmeet.sql.bind import bind

    catalog = Catalog()
    for source in sources:
        catalog.add(source.relation())
    return bind(sql, catalog)


def tables_of(sources: Sequence[Source]) -> dict[str, pa.Table]:
    return {source.name: source.table for source in sources}


def by_reference(sql: str, sources: Sequence[Source]) -> Bag:
    return bag(answer(bound_plan(sql, sources), tables_of(sources)))


def by_duckdb(sql: str, sources: Sequence[Source]) -> Bag:
    plan = bound_plan(sql, sources)
    answered = duckdb_answer if plan.kind == "rows" else duckdb_log
    return bag(answered(plan, tables_of(sources)))


def by_local_engine(sql: str, sources: Sequence[Source], rows_per_batch: RowsPerBatch = None) -> Bag:
    """The in-process engine; rows enter in batches of at most so many, for all streams or for each by name."""
    return bag_of(local_query(sql, sources, rows_per_batch).to_arrow())


def local_query(sql: str, sources: Sequence[Source], rows_per_batch: RowsPerBatch = None) -> Any:
    import watersmeet

    session = watersmeet.Session()
    for source in sources:
        size = rows_per_batch.get(source.name) if isinstance(rows_per_batch, Mapping) else rows_per_batch
        if source.time is None:
            session.table(source.name, source.table)
        else:
            data = pa.RecordBatchReader.from_batches(source.table.schema, source.table.to_batches(size))
            session.stream(source.name, data, time=source.time, lateness=source.lateness)
    return session.sql(sql)


def has_local_engine() -> bool:
    import watersmeet

    return hasattr(watersmeet, "Session")


RUNNERS: dict[str, Runner] = {"reference": by_reference, "duckdb": by_duckdb}
if has_local_engine():
    RUNNERS |= {
        "local": by_local_engine,
        "local, row by row": lambda sql, sources: by_local_engine(sql, sources, rows_per_batch=1),
    }
