"""A source whose new run begins where another run was, also in the middle of a part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from watersmeet.io.connectors.contract import Offsets, PartitionedSource, SourceBatch, Split, WatchedFiles


class ResumedSource(PartitionedSource):
    """`place` says where, as a reader of offsets does: `offsets`, `inside`: of which part so many rows were read, and
    `files`, those that were read last."""

    def __init__(self, inner: PartitionedSource, place: dict[str, Any]) -> None:
        self.inner, self.place = inner, place

    @property
    def schema(self) -> pa.Schema:
        return self.inner.schema

    @property
    def description(self) -> str:
        return self.inner.description

    def begin(self) -> Offsets:
        return dict(self.place["offsets"])

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        return self.inner.newest(after, most_rows)

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        return self.inner.splits(after, upto)

    def read(self, split: Split) -> Iterator[SourceBatch]:
        read = self._rows_read(split)
        for batch in self.inner.read(split):
            gone = min(read, batch.rows.num_rows)
            read -= gone
            if not gone:
                yield batch
            elif gone < batch.rows.num_rows:  # what could not be read before them was told then
                yield SourceBatch(batch.rows.slice(gone))

    def _rows_read(self, split: Split) -> int:
        inside = self.place.get("inside")
        return int(inside[3]) if inside is not None and [split.partition, split.after] == inside[:2] else 0

    def close(self) -> None:
        self.inner.close()

    def identity(self) -> str | None:
        return self.inner.identity()

    def watched(self) -> WatchedFiles | None:
        return self.inner.watched()

    def only(self, columns: Sequence[str]) -> PartitionedSource:
        return ResumedSource(self.inner.only(columns), self.place)

    def note(self, offsets: Offsets) -> None:
        self.inner.note(offsets)
