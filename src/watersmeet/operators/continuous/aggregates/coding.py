"""Values as int64 codes in their own order, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import INT64, Mask, encode
from watersmeet.operators.continuous.aggregates.columns import column
from watersmeet.operators.continuous.aggregates.contract import Int64s, frozen
from watersmeet.operators.continuous.aggregates.dictionary import Dictionary
from watersmeet.physical.strategy import is_exact

Renaming = Callable[[Int64s], Int64s]


class Coding(Protocol):
    """Codes of one column. Codes may have to be given anew to make room between them; their order stays."""

    def enter(self, values: pa.Array, lives: Int64s) -> tuple[Int64s, Renaming | None]:
        """The codes of a batch, and how codes given before are called from now on (None: as before)."""
        ...

    def decode(self, codes: Int64s, valid: Mask) -> pa.Array: ...

    def tidy(self) -> None:
        """Forget values that no row has any more; only after all codes of a batch are decoded."""
        ...

    @property
    def nbytes(self) -> int: ...


def coding_of(data_type: pa.DataType) -> Coding:
    return ExactCoding(data_type) if is_exact(data_type) else Dictionary(data_type)


class ExactCoding:
    """Types whose values have an order-preserving int64 image; nothing to remember. -0.0 comes back as 0.0."""

    STATE = ()

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type

    def enter(self, values: pa.Array, lives: Int64s) -> tuple[Int64s, Renaming | None]:
        return frozen(encode(values)), None

    def decode(self, codes: Int64s, valid: Mask) -> pa.Array:
        # Undoes codes.encode, case by case.
        kind = self._type
        if pa.types.is_floating(kind):
            bits = np.where(codes >= 0, codes, INT64.min - codes)
            bits[codes == INT64.max] = np.array(np.nan).view(np.int64)
            return column(pa.float64(), bits, valid).cast(kind)
        if pa.types.is_decimal(kind):
            # The upper word is the sign, over and over.
            words = np.stack([codes, codes >> 63], axis=1)
            return column(pa.decimal128(kind.precision, kind.scale), words, valid).cast(kind)
        if kind == pa.uint64():
            return column(kind, codes ^ INT64.min, valid)
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            return column(pa.int64(), codes, valid).cast(kind)
        return column(kind, codes.astype(np.int64 if kind.bit_width == 64 else np.int32), valid)

    def tidy(self) -> None:
        pass

    @property
    def nbytes(self) -> int:
        return 0
