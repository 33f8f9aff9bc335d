"""How the rows of a stream lie in packets and in the log: the columns a bucket needs, and the codes made of them.

Rows are filtered and encoded once, where they are packed. A code that is a column's own int64 needs no column beside
it; any other has one. What only the filters and the codes were made of stays behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import normalize_time_column, times_of
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.combinations import held_as_code
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column

CODE = "__code"  # how the names of columns begin that hold nothing but codes


@dataclass(frozen=True)
class PacketLayout:
    """`coded` says which columns hold the codes; None where the buckets themselves must let rows in, because rows
    count that can match nothing."""

    schema: pa.Schema
    time: str
    coded: Mapping[Code, str] | None = None

    @staticmethod
    def with_codes(schema: pa.Schema, time: str, codes: Sequence[Code]) -> PacketLayout:
        """The columns of a schema, and those that these codes need beside them."""
        # Numbered in an order that follows from the plan alone: whoever packs, joins or restores counts the same.
        coded = {code: _own_column(code) or f"{CODE}{number}" for number, code in enumerate(codes)}
        beside = [pa.field(name, pa.int64()) for name in coded.values() if name.startswith(CODE)]
        return PacketLayout(pa.schema([*schema, *beside]), time, coded)

    def rows(self, data: pa.RecordBatch) -> Rows:
        return Rows(data, times_of(normalize_time_column(data.column(self.time))), self._by_word)

    @cached_property
    def _by_word(self) -> dict[str, str] | None:
        return None if self.coded is None else {code.word: name for code, name in self.coded.items()}

    def no_rows(self) -> Rows:
        return self.rows(pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self.schema], schema=self.schema))

    def batch(self, rows: Rows, codes: Mapping[Code, Codes]) -> pa.RecordBatch:
        """Rows that were let in, as they travel."""
        if self.coded is None:
            return rows.data
        made = {name: pa.array(codes[code]) for code, name in self.coded.items() if name.startswith(CODE)}
        columns = [made[name] if name in made else rows.data.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def own_columns(codes: Sequence[Code]) -> list[str]:
    """The columns that are their own codes."""
    return [name for name in map(_own_column, codes) if name is not None]


def _own_column(code: Code) -> str | None:
    expression = code.expression
    return expression.name if isinstance(expression, Column) and held_as_code(expression) else None
