"""By what the rows of a query go to partitions that work apart from each other: threads, buckets, parts of a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import Times
from watersmeet.operators.codes import Codes, Mask, codes_of, read_only
from watersmeet.operators.few_rows import fresh
from watersmeet.operators.kernels.spread import coordinates, divided, placed_in
from watersmeet.operators.spread_rows import are_spread, homes, is_copied
from watersmeet.physical.partitioning import SpreadKeys
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, Expression

# Rows without a key are grouped together, so they lie together.
AT_NULL = 0

Positions = npt.NDArray[np.int64]
KeysOf = Callable[[pa.RecordBatch], Codes]  # the codes by which rows are placed


@dataclass(frozen=True)
class PartitionKey:
    """What the rows of streams are placed by, by the names that they are pushed under. Of a join, one stream may be
    the `fragment`, of which any row may lie anywhere, and others copied to each partition; and rows of some keys may be
    `spread`. `at_rest`: a state is divided to be moved, and not for parts that have to run beside each other."""

    codes: Mapping[str, Code]
    fragment: str | None = None
    copied: frozenset[str] = frozenset()
    at_rest: bool = False
    spread: SpreadKeys | None = None

    def codes_of(self, name: str, data: pa.RecordBatch) -> Codes:
        """The codes of the keys of a stream's rows."""
        return key_codes(self.codes[name], data)

    def positions(self, name: str, data: pa.RecordBatch, times: Times, parts: int) -> list[Positions]:
        """The positions of the rows of every partition, in their order."""
        if name in self.copied:
            return [np.arange(times.size)] * parts
        if name == self.fragment:
            # In turns, as many may have equal times. Which part begins goes by the rows alone: a batch may be repeated.
            first = int(coordinates(times[:1], parts).sum())
            return [np.arange((part - first) % parts, times.size, parts) for part in range(parts)]
        if self.spread is not None and name in self.codes:
            return [own() for own in self.shares(name, data, times, parts)]
        own = fresh(parts, times.size)
        counts = divided(read_only(self.codes_of(name, data)), own)
        return [positions[:count] for positions, count in zip(own, counts, strict=True)]

    def shares(self, name: str, data: pa.RecordBatch, times: Times, parts: int) -> list[Callable[[], Positions]]:
        """The same for every partition to find by itself, in its own thread."""
        if name in self.copied or name == self.fragment:
            return [partial(_same, one) for one in self.positions(name, data, times, parts)]
        codes = read_only(self.codes_of(name, data))
        if self.spread is not None:
            at, copied = homes(self.spread, name, codes, times, parts), is_copied(self.spread, name)
            anywhere = are_spread(self.spread, codes) if copied else None
            return [partial(_lying_in, part, at, anywhere) for part in range(parts)]
        return [partial(_placed_in, part, parts, codes) for part in range(parts)]

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
        codes = {alias: _of(alias, self.codes[name]) for name, alias in aliases.items()}
        return PartitionKey(codes, at_rest=self.at_rest)


def _same(positions: Positions) -> Positions:
    return positions


def _lying_in(part: int, homes: Positions, anywhere: Mask | None) -> Positions:
    return np.flatnonzero(homes == part if anywhere is None else (homes == part) | anywhere)


def _placed_in(part: int, parts: int, codes: Codes) -> Positions:
    own: Positions = fresh(codes.size)
    return own[: placed_in(part, parts, codes, own)]


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
