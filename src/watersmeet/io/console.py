"""Results on the screen: a table on a terminal, plain tab-separated lines anywhere else."""

from __future__ import annotations

from typing import Any, TextIO

import pyarrow as pa

from watersmeet.io.rows import python_rows

TABLE_ROWS = 1_000  # a terminal table is drawn when this many rows are there, or at the end


class ConsoleSink:
    """Prints rows as they come; after `limit` rows it only counts them."""

    def __init__(self, schema: pa.Schema, out: TextIO, limit: int | None = None) -> None:
        self._schema = schema
        self._out = out
        self._limit = limit
        self._seen = 0
        self._pending: list[list[str]] = []
        self._as_table = out.isatty()
        self._begun = self._as_table  # the names of the columns wait for the first rows: a run may fail before

    def write(self, batch: pa.RecordBatch) -> None:
        room = batch.num_rows if self._limit is None else max(0, self._limit - self._seen)
        rows = [[_shown(value) for value in row] for row in python_rows(batch.slice(0, room))]
        self._seen += batch.num_rows
        if self._as_table:
            self._pending.extend(rows)
            if len(self._pending) >= TABLE_ROWS:
                self._draw()
        else:
            self._begin()
            for row in rows:
                self._print(row)
        self._out.flush()

    def flush(self) -> None:
        """Show the rows that are held back to be drawn together."""
        self._begin()
        if self._as_table and self._pending:
            self._draw()
        self._out.flush()

    def close(self) -> None:
        self._begin()
        if self._as_table:
            self._draw()
        hidden = 0 if self._limit is None else self._seen - self._limit
        if hidden > 0:
            self._out.write(f"… {hidden} more rows\n")
        self._out.flush()

    def abort(self) -> None:
        self._pending.clear()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._print(self._schema.names)

    def _print(self, cells: list[str]) -> None:
        self._out.write("\t".join(cells) + "\n")

    def _draw(self) -> None:
        from rich.console import Console
        from rich.table import Table

        table = Table()
        for field in self._schema:
            table.add_column(field.name, justify="right" if _is_numeric(field.type) else "left")
        for row in self._pending:
            table.add_row(*row)
        self._pending.clear()
        # Values may have [brackets] in them, which rich would take for markup.
        Console(file=self._out, markup=False).print(table)


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\t", "\\t").replace("\n", "\\n")
