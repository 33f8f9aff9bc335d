"""What a format is to whoever writes records: the bytes of every row."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Encoder(Protocol):
    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """The value of every row; None makes a record without a value."""
