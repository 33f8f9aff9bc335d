"""What the answer should be, by someone else: DuckDB over whole tables, or the slow reference."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.checking.duckdb_expressions import MACROS, InexpressibleError, quoted
from watersmeet.checking.duckdb_sql import Script
from watersmeet.checking.duckdb_windows import raw_name
from watersmeet.checking.rough_values import refuse_rough_values
from watersmeet.errors import SetupError
from watersmeet.io.duckdb_ctrl_c import ctrl_c_as_such
from watersmeet.io.rows import python_rows
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import cast_intervals, cast_timestamps
from watersmeet.plan.nodes import Changes
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below
from watersmeet.reference.continuous import change_log, instants, snapshots
from watersmeet.reference.join import answer
from watersmeet.reference.values import present
from watersmeet.temporary_folders import temporary_folder

Row = tuple[Any, ...]
Tables = Mapping[str, pa.Table]
CHUNK = "#chunk"
CHUNK_INSTANTS = 512  # so many answers are computed by one query


class Oracle(Protocol):
    """Knows the right answer. `name` is how reports call it; `rough` says that some of its numbers are only near."""

    name: str
    rough: bool

    def instants(self) -> list[int]:
        """Where the answer may change, in order."""
        ...

    def answers(self, at: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        """For each instant what belongs there: the whole answer, or for ISTREAM, DSTREAM and RSTREAM what is sent."""
        ...

    def combinations(self) -> list[Row]:
        """The rows of a join that only grows."""
        ...


class Reference:
    """Tries every combination at every instant, in Python."""

    name = "the reference"
    rough = False

    def __init__(self, plan: Plan, tables: Tables) -> None:
        self.plan = plan
        self.tables = tables

    def instants(self) -> list[int]:
        return instants(self.plan, self.tables)

    def answers(self, at: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        if self.plan.kind == "changes":
            for at_us, rows in snapshots(self.plan, self.tables, at):
                yield at_us, [self._presented(row) for row in rows]
            return
        sent: dict[int, list[Row]] = {}
        for _, at_us, row in change_log(self.plan, self.tables):
            sent.setdefault(at_us, []).append(self._presented(row))
        yield from ((at_us, sent.get(at_us, [])) for at_us in at)

    def answer_at(self, at_us: int) -> list[Row]:
        """The whole answer at one instant."""
        ((_, rows),) = snapshots(self.plan, self.tables, [at_us])
        return [self._presented(row) for row in rows]

    def combinations(self) -> list[Row]:
        return answer(self.plan, self.tables)

    def _presented(self, row: Row) -> Row:
        return tuple(present(value, field.type) for value, field in zip(row, self.plan.schema, strict=True))


class DuckDB:
    """Asks DuckDB. Raises InexpressibleError for what it cannot be asked, and where it fails."""

    name = "DuckDB"

    def __init__(self, plan: Plan, tables: Tables) -> None:
        import duckdb

        self.rough = refuse_rough_values(plan.root)
        self.plan = plan
        self._error = duckdb.Error
        self._script = Script(plan.options.boundary)
        self._ran = 0
        self._connection = _database().cursor()  # with temporary tables of its own
        self._connection.execute("SET TimeZone = 'UTC'")
        # Without zones the macros are not needed, nor is the extension they take.
        if plan.options.timezone != "UTC":
            self._prepare_zones()
        # Divisions by zero are NULL, as in the engine.
        self._connection.execute("SET ieee_floating_point_ops = false; SET error_on_division_by_zero = false")
        for relation in {one.name: one for one in relations_below(plan.root)}.values():
            self._register(raw_name(relation), _registered(relation, tables[relation.name]))

    def _prepare_zones(self) -> None:
        try:
            for macro in MACROS:
                self._connection.execute(macro)
        except self._error as error:  # DuckDB without its icu extension
            raise InexpressibleError(f"time zones ({str(error).splitlines()[0]})") from None

    def instants(self) -> list[int]:
        text = self._script.instants(self.plan.root)
        found = self._table(f"SELECT * FROM ({text}) ORDER BY ALL")
        return list(found.column(0).to_pylist())

    def answers(self, at: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        if self.plan.kind == "changes":
            return self._snapshots(at)
        return self._sent(at)

    def combinations(self) -> list[Row]:
        root = self.plan.root
        # Windows that are given once: what enters, whenever that is.
        text = self._script.log(root) if isinstance(root, Changes) else self._script.combinations(root)
        return self._rows(self._table(f"SELECT {_names(self.plan)} FROM ({text})"))

    def _snapshots(self, at: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        text = f"SELECT * FROM ({self._script.snapshot(self.plan.root, quoted(CHUNK))})"
        for start in range(0, len(at), CHUNK_INSTANTS):
            chunk = at[start : start + CHUNK_INSTANTS]
            self._register(CHUNK, pa.table({"#at": pa.array(chunk, pa.int64())}))
            yield from self._by_instant(self._table(text), chunk)

    def _sent(self, at: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        text = self._script.log(self.plan.root)
        yield from self._by_instant(self._table(f'SELECT "#time", {_names(self.plan)} FROM ({text})'), at)

    def _by_instant(self, found: pa.Table, at: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        """The rows of each instant, which stands first in them."""
        rows: dict[int, list[Row]] = {}
        listed = self._rows(found.select(found.column_names[1:]))
        for at_us, row in zip(found.column(0).to_pylist(), listed, strict=True):
            rows.setdefault(at_us, []).append(row)
        return ((at_us, rows.get(at_us, [])) for at_us in at)

    def _rows(self, found: pa.Table) -> list[Row]:
        try:
            table = found.rename_columns(self.plan.schema.names).cast(self.plan.schema)
        except pa.ArrowInvalid as error:
            raise InexpressibleError(f"DuckDB's column types ({error})") from None
        return rows_of(table)

    def _register(self, name: str, table: pa.Table) -> None:
        try:
            self._connection.register(name, table)
        except self._error as error:
            raise InexpressibleError(f"its error: {str(error).splitlines()[0]}") from None

    def _table(self, text: str) -> pa.Table:
        try:
            # Writing a query may have asked for more tables.
            with ctrl_c_as_such():
                for statement in self._script.statements[self._ran :]:
                    self._connection.execute(statement)
                self._ran = len(self._script.statements)
                return self._connection.sql(text).to_arrow_table()
        except self._error as error:
            raise InexpressibleError(f"its error: {str(error).splitlines()[0]}") from None


@cache
def _database() -> Any:
    """One for the process: starting a database takes longer than most checks."""
    import duckdb

    spilled = ExitStack()  # by itself DuckDB would spill to the working folder
    folder = spilled.enter_context(temporary_folder("check-"))
    database = duckdb.connect(config={"temp_directory": str(folder)})
    spilled.callback(database.close)
    atexit.register(spilled.close)
    return database


def need_duckdb() -> None:
    if find_spec("duckdb") is None:
        raise SetupError(
            "a check recomputes the answer with DuckDB, which is not installed", hint="pip install 'watersmeet[check]'"
        )


def rows_of(table: pa.Table) -> list[Row]:
    return [row for batch in table.to_batches() for row in python_rows(batch)]


def _names(plan: Plan) -> str:
    return ", ".join(map(quoted, plan.schema.names))


def _registered(relation: Stream | Table, table: pa.Table) -> pa.Table:
    """The rows as DuckDB sees them: zones and units aside, intervals as microseconds, numbered as they arrived."""
    # DuckDB's names have no case.
    if len({name.lower() for name in table.column_names}) < len(table.column_names):
        raise InexpressibleError(f"columns of {relation.name} that differ only in case")
    columns = {name: _plain(table[name], relation) for name in table.column_names}
    return pa.table({**columns, "#row": pa.array(range(table.num_rows), pa.int64())})


def _plain(column: pa.ChunkedArray, relation: Stream | Table) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_timestamp(kind):
        utc = pa.timestamp("us")
        return pa.chunked_array([cast_timestamps(c, utc, relation.rounding) for c in column.chunks], utc)
    if pa.types.is_duration(kind):
        return pc.cast(cast_intervals(column, pa.duration("us"), relation.rounding), pa.int64())
    return pc.cast(column, pa.date32()) if pa.types.is_date64(kind) else column
