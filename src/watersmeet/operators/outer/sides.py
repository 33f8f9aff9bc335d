"""The inputs of a join that are joins themselves: operators whose rows are its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.outer.last_of_each import last_of_each
from watersmeet.physical.nodes import LookedUp


@dataclass(frozen=True)
class Side:
    """The operator that gives the rows, the streams it reads, and the column with the times of the rows."""

    operator: Operator
    streams: tuple[str, ...]
    time: str


class Sided(Operator):
    """A join with sides, which says of rows that no better answer can come for them."""

    sides: dict[str, Side]
    remembered_us: int
    looked_up: dict[str, LookedUp]
    _answered_us: int

    @property
    def side_operators(self) -> dict[str, Operator]:
        return {alias: side.operator for alias, side in self.sides.items()}

    @property
    def answered_us(self) -> int:
        """Up to where that was said, here or in a side: rows up to it are late if any come after all."""
        inside = [operator.answered_us for operator in self.side_operators.values() if isinstance(operator, Sided)]
        return max(self._answered_us, *inside, BEGINNING_US)

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        return self._needed(alias, rows, complete_until, deletions=False)

    def worth_keeping(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        return self._needed(alias, rows, complete_until, deletions=True)

    def _needed(self, alias: str, rows: Rows, complete_until: int, *, deletions: bool) -> Mask:
        one = self.looked_up.get(alias)
        if one is not None:
            return last_of_each(one.last, rows, complete_until - one.reach_us, deletions=deletions)
        if self.remembered_us >= FOREVER_US:
            return np.ones(len(rows), np.bool_)
        needed: Mask = rows.times + self.remembered_us >= complete_until
        return needed


def passed_on(side: Side, batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
    """What a side has made, as rows of the join above."""
    for batch in batches:
        times = batch.column(side.time).cast(pa.timestamp("us")).view(pa.int64())
        yield Rows(batch, times.to_numpy(zero_copy_only=False))


def split_watermarks(
    inputs: Sequence[str], sides: Mapping[str, Side], watermarks: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """How far each input has come, and how far the streams of each side have. Whatever a side gives once it has been
    told has a time that is not before the least of its streams'."""
    inside = {alias: {stream: watermarks[stream] for stream in side.streams} for alias, side in sides.items()}
    own = {alias: min(inside[alias].values()) if alias in inside else watermarks[alias] for alias in inputs}
    return own, inside


def all_streams(inputs: Sequence[str], sides: Mapping[str, Side]) -> list[str]:
    """The streams that are read, by the names that rows are pushed under."""
    return [stream for alias in inputs for stream in (sides[alias].streams if alias in sides else (alias,))]
