"""Records as they are written: JSON and CSV, as our files have them, and raw bytes."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.io.row_texts import csv_lines, json_objects


class Encoder(Protocol):
    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """The value of every row; None makes a record without a value."""


@dataclass(frozen=True)
class JsonEncoder:
    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return json_records(rows)


@dataclass(frozen=True)
class CsvEncoder:
    delimiter: str = ","

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return _as_bytes(csv_lines(rows, self.delimiter))


@dataclass(frozen=True)
class RawEncoder:
    column: str

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return _as_bytes(rows.column(self.column))


def json_records(rows: pa.RecordBatch) -> list[bytes | None]:
    return _as_bytes(json_objects(rows))


def _as_bytes(texts: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = texts.cast(pa.binary()).to_pylist()
    return found
