"""A table with versions, looked up by other columns than its key: each row meets all versions that hold at its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.codes import Mask, identities
from watersmeet.operators.continuous.delta import Int64s, joined
from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.outer.asof_join import AT, KEY, Asked, AsofJoin, Latest, Nearest, int64s
from watersmeet.operators.outer.changes_of_table import ChangesOfTable
from watersmeet.plan.expressions import Expression

MOST_PAIRS = 1 << 20  # that are looked at together
Codes = npt.NDArray[np.void]


@dataclass(frozen=True)
class Held:
    """Versions that are not deletions, by the codes of what is compared, with the times from and until which they hold;
    those that can be equal to nothing are left out."""

    data: pa.RecordBatch
    codes: Codes
    since: Int64s
    until: Int64s

    def pairs(self, codes: Codes, instants: Int64s) -> Iterator[tuple[Positions, Positions]]:
        """Who asks, and the versions that are equal to it and hold at its instant, a number of them at a time."""
        first, last = (np.searchsorted(self.codes, codes, side=side) for side in ("left", "right"))
        ends = np.cumsum(last - first)
        start = 0
        while start < codes.size:
            before = 0 if start == 0 else int(ends[start - 1])
            stop = max(start + 1, int(np.searchsorted(ends, before + MOST_PAIRS, side="right")))
            sizes = (last - first)[start:stop]
            asks = np.repeat(np.arange(start, stop), sizes)
            places = (
                np.arange(asks.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(first[start:stop], sizes)
            )
            holds = (self.since[places] <= instants[asks]) & (instants[asks] < self.until[places])
            yield asks[holds], places[holds]
            start = stop


class Versions(Latest):
    """The rows of the table by their keys, and of these what is compared."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[Expression], compared: Sequence[Expression], changes: ChangesOfTable
    ) -> None:
        super().__init__(schema, keys, (), changes)
        self.compared = list(compared)
        self._held: Held | None = (
            None  # made when it is asked for; rows that have left since hold at no instant to come
        )

    def _hold(self, rows: Rows, kept: Mask) -> None:
        self._held = None
        super()._hold(rows, kept)

    def _is_known(self, columns: Sequence[pa.Array], length: int) -> Mask:
        """NULL tells a row as any other key does: nothing is compared with it."""
        return np.ones(length, np.bool_)

    @property
    def held(self) -> Held:
        if self._held is None:
            self._held = self._made()
        return self._held

    def _made(self) -> Held:
        kept = np.flatnonzero(self._base_at > BEGINNING_US)
        base = pa.RecordBatch.from_arrays(self._base.get(kept), schema=self.schema)
        data = joined([base, pa.RecordBatch.from_arrays(self._columns(), schema=self.schema)], self.schema)
        keys = np.concatenate([kept, int64s(self._recent, KEY)])
        since = np.concatenate([self._base_at[kept], int64s(self._recent, AT)])
        # Stable, so that of equal times the last to arrive is the last.
        order = np.lexsort((since, keys))
        ends = np.full(order.size, FOREVER_US, np.int64)
        same = keys[order][1:] == keys[order][:-1]
        ends[:-1][same] = since[order][1:][same]
        until = np.empty_like(ends)
        until[order] = ends
        assert self.changes is not None
        columns, known = evaluated(self.compared, data)
        there = np.flatnonzero(known & ~self.changes.deletes(data) & (since < until))
        codes = codes_of(columns, data.num_rows)[there]
        sorted_by = np.argsort(codes, kind="stable")
        there = there[sorted_by]
        return Held(data.take(pa.array(there)), codes[sorted_by], since[there], until[there])


def evaluated(expressions: Sequence[Expression], data: pa.RecordBatch) -> tuple[list[pa.Array], Mask]:
    """The values of some expressions, and in which rows none of them is NULL."""
    columns = [evaluate(one, lambda column: data.column(column.name), data.num_rows) for one in expressions]
    known = np.ones(data.num_rows, np.bool_)
    for column in columns:
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    return columns, known


def codes_of(columns: Sequence[pa.Array], length: int) -> Codes:
    first, second = identities(columns, length)
    pairs: Any = np.empty(length, np.dtype([("first", np.uint64), ("second", np.uint64)]))
    pairs["first"], pairs["second"] = first, second
    codes: Codes = pairs
    return codes


class LookupJoin(AsofJoin):
    """Rows wait as those do that look for one version."""

    latest: Versions

    def _asked(self, rows: Rows, instants: Int64s) -> Asked:
        nothing = np.zeros(len(rows), np.int64)
        return Asked(rows, nothing, Nearest(nothing, nothing > 0, instants))

    def _found(self, asked: Asked) -> tuple[Positions, pa.RecordBatch]:
        rows, held = asked.rows, self.latest.held
        columns, matches = evaluated(self.keys, rows.data)
        for condition in self.only:
            matches &= evaluate_predicate(condition, lambda column: rows.data.column(column.name), len(rows))
        asks = np.flatnonzero(matches)
        codes, instants = codes_of(columns, len(rows))[asks], asked.found.sure[asks]
        found = [np.empty(0, np.int64)]
        partners = [held.data.slice(0, 0)]
        for who, places in held.pairs(codes, instants):
            having, chosen = self._holding(rows, asks[who], held.data.take(pa.array(places)))
            found.append(having)
            partners.append(chosen)
        return np.concatenate(found), joined(partners, self.latest.schema)
