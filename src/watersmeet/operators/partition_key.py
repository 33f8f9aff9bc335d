"""By what the rows of a query go to partitions that work apart from each other: threads, buckets, parts of a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import Codes, codes_of
from watersmeet.operators.kernels.spread import coordinates
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, Expression

# Rows without a key are grouped together, so they lie together.
AT_NULL = 0

KeysOf = Callable[[pa.RecordBatch], Codes]  # the codes by which rows are placed


@dataclass(frozen=True)
class PartitionKey:
    """For every stream, by the name its rows are pushed under, what its rows are placed by."""

    codes: Mapping[str, Code]

    def codes_of(self, name: str, data: pa.RecordBatch) -> Codes:
        """The codes of the keys of a stream's rows."""
        return key_codes(self.codes[name], data)

    def places(self, name: str, data: pa.RecordBatch, parts: int) -> Codes:
        """The partition of every row of a stream."""
        placed: Codes = coordinates(self.codes_of(name, data), parts)
        return placed

    def column(self, name: str) -> str | None:
        """The column of a stream that is its key, if it is a column."""
        expression = self.codes[name].expression
        return expression.name if isinstance(expression, Column) else None

    def shown_in(self, columns: Sequence[tuple[str, Expression]], streams: Iterable[str]) -> frozenset[str]:
        """The names of those columns that are the key of one of some streams."""
        keys = {(stream, self.column(stream)) for stream in streams if stream in self.codes}
        return frozenset(name for name, e in columns if isinstance(e, Column) and (e.stream, e.name) in keys)

    def under(self, aliases: Mapping[str, str]) -> PartitionKey:
        """The key of some streams under the aliases that they have inside, by the names of these."""
        return PartitionKey({alias: _of(alias, self.codes[name]) for name, alias in aliases.items()})


def _of(alias: str, code: Code) -> Code:
    if not isinstance(code.expression, Column):
        return Code(alias, code.expression)
    return Code(alias, Column(alias, code.expression.name, code.expression.type))


def key_codes(code: Code, data: pa.RecordBatch) -> Codes:
    values, valid = codes_of(code.expression, lambda column: data.column(column.name), data.num_rows)
    return np.ascontiguousarray(values if valid is None else np.where(valid, values, AT_NULL))


def keys_in(column: str | None) -> KeysOf:
    """The keys of rows that have them in a column; without one, rows that nobody asks for their key any more, so that
    they may lie anywhere."""
    if column is None:
        return lambda data: np.arange(data.num_rows)
    return lambda data: key_codes(Code("", Column("", column, data.schema.field(column).type)), data)
