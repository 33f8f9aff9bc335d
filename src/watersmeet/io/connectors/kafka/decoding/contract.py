"""What a format is to whoever reads records: columns of those that can be read, and a word on each that cannot.

Many records are decoded at once. If that fails, they are cut in halves until the bad ones stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.io.connectors.kafka.records import Records

Places = npt.NDArray[np.int64]


class UndecodableError(Exception):
    """Some of the records that were given cannot be read: `reason` is one of a few words, `detail` a short sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail.split("\n", 1)[0][:300]


@dataclass(frozen=True)
class Bad:
    """A record that could not be read, by its place among those that were given."""

    place: int
    reason: str
    detail: str


@dataclass(frozen=True)
class Decoded:
    """The rows that were found, of which record each is, and what could not be read."""

    rows: pa.RecordBatch
    places: Places
    bad: list[Bad] = field(default_factory=list)


class Decoder(Protocol):
    """It can be pickled. `schema`: the columns it makes."""

    @property
    def schema(self) -> pa.Schema: ...

    def decode(self, records: Records) -> Decoded: ...


DecodeAll = Callable[[Sequence[bytes]], pa.RecordBatch]


def sorted_out(
    values: Sequence[bytes | None], schema: pa.Schema, decode_all: DecodeAll, empty: tuple[str, str]
) -> Decoded:
    """Decode what can be. `decode_all` gives as many rows as it is given values, or raises UndecodableError; `empty`:
    the reason and the words for a record without a value."""
    if None not in values:
        there, kept, bad = values, np.arange(len(values)), []
    else:
        bad = [Bad(place, *empty) for place, value in enumerate(values) if value is None]
        kept = np.array([place for place, value in enumerate(values) if value is not None], np.int64)
        there = [value for value in values if value is not None]
    batches: list[pa.RecordBatch] = []
    places: list[Places] = []

    def sort(start: int, some: Sequence[bytes]) -> None:
        try:
            rows = decode_all(some)
        except UndecodableError as error:
            if len(some) == 1:
                bad.append(Bad(int(kept[start]), error.reason, error.detail))
                return
            half = len(some) // 2
            sort(start, some[:half])
            sort(start + half, some[half:])
        else:
            batches.append(rows)
            places.append(kept[start : start + len(some)])

    if len(there):
        sort(0, there)  # type: ignore[arg-type]
    if not batches:
        return Decoded(pa.RecordBatch.from_pylist([], schema=schema), kept[:0], bad)
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return Decoded(rows, np.concatenate(places), sorted(bad, key=lambda one: one.place))
