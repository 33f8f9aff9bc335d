"""What DuckDB answers: over all rows, or over what windows hold at an instant."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from tests.outsiders.data import Streams, micros
from tests.outsiders.pairs import Case

FIRST_MODE = """CREATE MACRO first_mode(l) AS l[list_position(
    list_transform(l, lambda e: len(list_filter(l, lambda z: z = e))),
    list_max(list_transform(l, lambda e: len(list_filter(l, lambda z: z = e)))))]"""
FLOOR_DIV = "CREATE MACRO floor_div(a, b) AS ((a) - (((a) % (b)) + (b)) % (b)) // (b)"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    # That rule of DuckDB 2.0 is wrong: HAVING SUM(x) > 0 may lose groups above an outer join.
    database.execute("SET threads = 1; SET TimeZone = 'UTC'; SET disabled_optimizers = 'statistics_propagation'")
    database.execute("SET error_on_division_by_zero = false; SET ieee_floating_point_ops = false")  # NULL, as with us
    database.execute(FLOOR_DIV)
    database.execute(FIRST_MODE)
    return database


class Oracle:
    """DuckDB with the rows of a case: each stream with the time `t` in microseconds and the number `nth` of arrival."""

    def __init__(self, case: Case, streams: Streams) -> None:
        self.db, self.case, self.streams = _database(), case, streams
        for name in case.streams:
            rows, table = streams.rows[name], streams.table(name)
            table = table.append_column("t", pa.array([micros(row["ts"]) for row in rows], pa.int64()))
            self._keep(f"stream_{name}", table.append_column("nth", pa.array(range(len(rows)), pa.int64())))
        self._keep("names", streams.static())
        for name, contents in case.relations:
            self.db.execute(f"CREATE OR REPLACE TABLE {name} AS {contents}")

    def _keep(self, name: str, table: pa.Table) -> None:
        self.db.register("arriving", table)
        self.db.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM arriving")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return self.db.execute(sql).fetchall()
        except duckdb.Error:
            _database.cache_clear()  # its connection takes nothing more
            raise

    def at(self, instant: int, final: bool = False) -> list[tuple[Any, ...]]:
        return self.rows(
            self.case.theirs.replace("$T", f"({instant})").replace("$NONE", f"({instant})" if final else "NULL")
        )

    def instants(self) -> list[int]:
        """All at which something enters or leaves a window."""
        found = {micros(row["ts"]) for name in self.case.streams for row in self.streams.rows[name]}
        for name, _ in self.case.relations:
            found.update(at for row in self.rows(f"SELECT lo, hi FROM {name}") for at in row if at < 3 * 10**18)
        return sorted(found)


def times(case: Case, streams: Streams) -> list[int]:
    return [micros(row["ts"]) for name in case.streams for row in streams.rows[name]]
