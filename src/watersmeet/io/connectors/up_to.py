"""A source up to a place, in steps as large as somebody asks for: what another has read of it, or all that was there
when a run began."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from watersmeet.io.connectors.contract import PartitionedSource

if TYPE_CHECKING:
    import pyarrow as pa

    from watersmeet.io.connectors.contract import Offsets, SourceBatch, Split

WIDENING, MOST_WIDENINGS = 4, 12


def step_up_to(source: PartitionedSource, after: Offsets, last: Offsets, newest: Callable[[int], Offsets]) -> Offsets:
    """About as far as a limit allows, and not behind the last. newest: how far so many times the limit would allow to
    read now. What came behind the last may be all that it lets through: then more."""
    for widening in range(MOST_WIDENINGS):
        upto = _held_back(source, newest(WIDENING**widening), last)
        if lies_between(source, after, upto):
            return upto
    return last


def _held_back(source: PartitionedSource, reached: Offsets, last: Offsets) -> Offsets:
    """Without what has come since: in partitions that have nothing left to read up to the last."""
    known = {name: one for name, one in reached.items() if name in last}
    ahead = (name for name, one in known.items() if not lies_between(source, {name: one}, {name: last[name]}))
    return {**known, **{name: last[name] for name in ahead}}


def lies_between(source: PartitionedSource, after: Offsets, upto: Offsets) -> bool:
    return _text(after) != _text(upto) and bool(source.splits(after, upto))


def _text(offsets: Offsets) -> str:
    return json.dumps(dict(offsets), sort_keys=True)


class UpTo(PartitionedSource):
    """`place` says how far, as a reader of offsets does: `offsets`, and of files those that were read."""

    def __init__(self, inner: PartitionedSource, place: Mapping[str, Any]) -> None:
        self.inner, self.last = inner, dict(place["offsets"])
        watched = inner.watched()
        if watched is not None and "files" in place:
            watched.remember(place["files"], self.last)

    @property
    def schema(self) -> pa.Schema:
        return self.inner.schema

    @property
    def description(self) -> str:
        return self.inner.description

    def begin(self) -> Offsets:
        return self.inner.begin()

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        if most_rows is None:
            return self.last
        return step_up_to(self.inner, after, self.last, lambda times: self.inner.newest(after, most_rows * times))

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        return self.inner.splits(after, upto)

    def read(self, split: Split) -> Iterator[SourceBatch]:
        return self.inner.read(split)

    def identity(self) -> str | None:
        return self.inner.identity()

    def only(self, columns: Sequence[str]) -> UpTo:
        return UpTo(self.inner.only(columns), {"offsets": self.last})

    def close(self) -> None:
        self.inner.close()
