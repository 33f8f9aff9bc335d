"""How evenly the keys of a sample would fill buckets or threads, and which of them to spread if not.

Every result of the exact join counts for its key, and so does every row that comes. From that follows what each of any
number of places has to do, with any keys spread, without another run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.kernels.spread import coordinates
from watersmeet.operators.partition_key import PartitionKey, key_codes
from watersmeet.optimizer.choose_partition_key import choose_partition_key
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, Expression
from watersmeet.plan.query import Plan
from watersmeet.plan.spread import Spread, quoted
from watersmeet.runtime.build import in_threads
from watersmeet.runtime.skew import MOST_KEYS, UNEVEN, Places, in_quotes, proposed

Counts = npt.NDArray[np.int64]
KEY = "key"


@dataclass(frozen=True)
class KeyWork:
    """A key as it may be said, how many rows came with it by alias, and how many results it has in the sample."""

    key: str
    rows: Mapping[str, int]
    results: int


@dataclass(frozen=True)
class Skew:
    """`fullest`: the work of the place that has the most, by the mean of so many `places`. `spread`: the option that
    would do, and `fullest_then` with it, by the mean of now; or `why_none`."""

    places: int
    fullest: float
    keys: tuple[KeyWork, ...] = field(default=())
    spread: str | None = None
    fullest_then: float | None = None
    why_none: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str | None:
        """What to say of it; nothing where places are even enough."""
        if self.fullest < UNEVEN or not self.keys:
            return None
        most = self.keys[0]
        begins = (
            f"of {self.places} buckets or threads the fullest would do {self.fullest:.1f} times the mean: key "
            f"{most.key} has {sum(most.rows.values()):,} rows and {most.results:,} results of the sample"
        )
        if self.spread is None or self.fullest_then is None:
            return f"{begins}, and its rows must lie together: {self.why_none or 'of this query none can be dealt out'}"
        return (
            f"{begins}; with OPTIONS (spread = {in_quotes(self.spread)}) it would do {self.fullest_then:.1f} times, so "
            f"that what waits for it takes {self.fullest_then / self.fullest:.0%} of the time"
        )


class Measured:
    """What a sample has of every key."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.key = _key_of(plan)
        self._results: list[Codes] = []

    @property
    def columns(self) -> tuple[tuple[str, Expression], ...]:
        """What the exact join is to give, so that its results can be counted by key."""
        return () if self.key is None else ((KEY, _first(self.key).expression),)

    def found(self, batch: pa.RecordBatch) -> None:
        if self.key is not None and batch.num_rows:
            self._results.append(key_codes(Code("", Column("", KEY, batch.schema.field(KEY).type)), batch))

    def skew(self, rows_of: Callable[[str], Rows], places: int) -> Skew | None:
        """None where rows are not placed by a key."""
        if self.key is None or self.plan.options.spread is not None:
            return None
        by_alias = {alias: self._keyed(alias, rows_of)[1] for alias in self.key.codes}
        work = _Work(by_alias, np.concatenate([np.empty(0, np.int64), *self._results]), places)
        if work.fullest() < UNEVEN:
            return Skew(places, work.fullest())
        return self._spread(work, self._words(rows_of))

    def _keyed(self, alias: str, rows_of: Callable[[str], Rows]) -> tuple[pa.Array, Codes]:
        """The keys of the rows that have one, and their codes."""
        assert self.key is not None
        column = self.key.column(alias)
        assert column is not None
        values = rows_of(alias).data.column(column).drop_null()
        return values, key_codes(self.key.codes[alias], pa.RecordBatch.from_arrays([values], [column]))

    def _spread(self, work: _Work, words: Callable[[int], str]) -> Skew:
        most = work.largest(MOST_KEYS)
        told = tuple(work.told(at, words(at)) for at in most)
        shares = {
            one.key: {alias: rows / max(work.came[alias], 1) for alias, rows in one.rows.items() if rows}
            for one in told
        }
        for many in range(1, len(most) + 1):
            said, why = proposed(self._places(work.places), [one.key for one in told[:many]], shares)
            if said is None:
                return Skew(work.places, work.fullest(), told[:1], why_none=why)
            split = Spread.parse(said).split
            assert split is not None
            then = work.fullest(most[:many], split)
            if then < UNEVEN or many == len(most):
                break
        if then >= work.fullest():
            return Skew(
                work.places, work.fullest(), told[:1], why_none="it would not be evener with copies of the others"
            )
        return Skew(work.places, work.fullest(), told[:many], said, then)

    def _places(self, places: int) -> Places:
        alone = replace(self.plan, options=self.plan.options.but(threads=places))
        physical = plan_query(replace(self.plan, options=self.plan.options.but(threads=1)))

        def take(spread: Spread) -> object:
            return in_threads(replace(alone, options=alone.options.but(spread=spread)), physical)

        return Places("thread", {}, take, "")

    def _words(self, rows_of: Callable[[str], Rows]) -> Callable[[int], str]:
        assert self.key is not None
        key = self.key

        def words(code: int) -> str:
            for alias in key.codes:
                values, codes = self._keyed(alias, rows_of)
                found = np.flatnonzero(codes == code)
                if found.size:
                    return quoted(str(values[int(found[0])]))
            raise AssertionError("a key that has work has rows")

        return words


class _Work:
    """Rows and results by key, and so by place."""

    def __init__(self, rows: Mapping[str, Codes], results: Codes, places: int) -> None:
        self.places = places
        self.came = {alias: codes.size for alias, codes in rows.items()}
        self._codes = np.unique(np.concatenate([*rows.values()]))
        self._rows = {alias: self._counts(codes) for alias, codes in rows.items()}
        self._results = self._counts(results)
        self._total: Counts = sum(self._rows.values(), start=self._results)
        self._home = coordinates(self._codes, places)

    def _counts(self, codes: Codes) -> Counts:
        known, counts = np.unique(codes, return_counts=True)
        found = np.zeros(self._codes.size, np.int64)
        found[np.searchsorted(self._codes, known)] = counts
        return found

    def largest(self, most: int) -> list[int]:
        """The codes of the keys with the most work, of those that are more than half of what a place should have."""
        order = np.argsort(-self._total, kind="stable")[:most]
        least = self._total.sum() / self.places / 2
        return [int(self._codes[at]) for at in order if self._total[at] >= least] or [int(self._codes[order[0]])]

    def told(self, code: int, words: str) -> KeyWork:
        at = int(np.searchsorted(self._codes, code))
        return KeyWork(words, {alias: int(rows[at]) for alias, rows in self._rows.items()}, int(self._results[at]))

    def fullest(self, spread: Sequence[int] = (), split: str = "") -> float:
        """By the mean of what there is to do where nothing is spread."""
        stays = ~np.isin(self._codes, spread)
        work = np.bincount(self._home[stays], self._total[stays], minlength=self.places)
        for alias, rows in self._rows.items():
            work += rows[~stays].sum() / (self.places if alias == split else 1)
        work += self._results[~stays].sum() / self.places
        return float(work.max() / (max(int(self._total.sum()), 1) / self.places))


def _key_of(plan: Plan) -> PartitionKey | None:
    """The key that places rows, if it is a column of each stream that has it."""
    one = replace(plan, options=plan.options.but(threads=1, spread=None))
    key = choose_partition_key(one, plan_query(one))
    if key is None or not key.codes or any(key.column(alias) is None for alias in key.codes):
        return None
    return key


def _first(key: PartitionKey) -> Code:
    return next(iter(key.codes.values()))
