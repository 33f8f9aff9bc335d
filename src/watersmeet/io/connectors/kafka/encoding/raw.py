"""Raw: the value of a record is the one column of a row."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class RawEncoder:
    column: str

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        found: list[bytes | None] = rows.column(self.column).cast(pa.binary()).to_pylist()
        return found
