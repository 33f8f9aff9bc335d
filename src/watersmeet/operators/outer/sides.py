"""The inputs of a join that are joins themselves: operators whose rows are its rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import Counters, Operator, Rows
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.outer.last_of_each import last_of_each
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.physical.nodes import LookedUp
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column


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
    def copies_held(self) -> Mapping[str, int]:
        inside = (operator.copies_held for operator in self.side_operators.values())
        return {name: rows for one in inside for name, rows in one.items()}

    @property
    def answered_us(self) -> int:
        """Up to where that was said, here or in a side: rows up to it are late if any come after all."""
        inside = [operator.answered_us for operator in self.side_operators.values() if isinstance(operator, Sided)]
        return max(self._answered_us, *inside, BEGINNING_US)

    @property
    def is_kept_whole(self) -> bool:
        return any(operator.is_kept_whole for operator in self.side_operators.values())

    # ---- how its state divides --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def inputs(self) -> dict[str, pa.Schema]:
        """The columns of its streams and sides."""

    def key_inside(self, key: PartitionKey) -> PartitionKey | None:
        """By the aliases of the join; None: the rows of a side do not tell the key."""
        codes: dict[str, Code] = {}
        for alias, schema in self.inputs.items():
            if alias not in self.sides:
                codes[alias] = key.codes[alias]
                continue
            column = min(self.sides[alias].operator.key_columns(key), default=None)
            if column is None:
                return None
            codes[alias] = Code(alias, Column(alias, column, schema.field(column).type))
        return PartitionKey(codes, copied=frozenset(alias for alias in codes if self._is_copied(alias, key)))

    def _is_copied(self, alias: str, key: PartitionKey) -> bool:
        streams = self.sides[alias].streams if alias in self.sides else (alias,)
        return key.copied.issuperset(streams)

    def undivided_sides(self, key: PartitionKey) -> str | None:
        inside = (side.operator.undivided(key) for side in self.sides.values())
        untold = None if self.key_inside(key) else "the rows of a join inside do not tell the key"
        return next((why for why in inside if why), untold)

    def divided_sides(self, key: PartitionKey) -> KeyedState:
        state = KeyedState(counters={"counters": self.counters}, latest={"answered_us": self._answered_us})
        for alias, side in self.sides.items():
            state.put(f"sides.{alias}", side.operator.divided(key))
        return state

    def take_sides_over(self, state: KeyedState) -> None:
        for alias, side in self.sides.items():
            side.operator.take_rows_over(state.inside(f"sides.{alias}"))
        self.counters = state.counters.get("counters", Counters())
        self._answered_us = state.latest["answered_us"]

    # ---- what a restart would miss ----------------------------------------------------------------------------------

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
