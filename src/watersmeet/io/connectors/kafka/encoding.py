"""Records as they are written: JSON and CSV, as our files have them, and raw bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Protocol

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.io.encoding_threads import encoded
from watersmeet.io.row_texts import csv_lines, json_objects


class Encoder(Protocol):
    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """The value of every row; None makes a record without a value."""


@dataclass(frozen=True)
class JsonEncoder:
    threads: int = 1

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return _in_pieces(rows, json_records, self.threads)


@dataclass(frozen=True)
class CsvEncoder:
    delimiter: str = ","
    threads: int = 1

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return _in_pieces(rows, lambda piece: _as_bytes(csv_lines(piece, self.delimiter)), self.threads)


@dataclass(frozen=True)
class RawEncoder:
    column: str

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return _as_bytes(rows.column(self.column))


def _in_pieces(
    rows: pa.RecordBatch, encode: Callable[[pa.RecordBatch], list[bytes | None]], threads: int
) -> list[bytes | None]:
    return list(chain.from_iterable(encoded(rows, encode, threads)))


def json_records(rows: pa.RecordBatch) -> list[bytes | None]:
    return _as_bytes(json_objects(rows))


def _as_bytes(texts: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = texts.cast(pa.binary()).to_pylist()
    return found
