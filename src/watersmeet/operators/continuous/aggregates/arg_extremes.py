"""ARG_MIN and ARG_MAX: the value of one column in the row where another is smallest or largest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import INT64, encode
from watersmeet.operators.continuous.aggregates.coding import coding_of
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s, frozen
from watersmeet.operators.continuous.aggregates.dictionary import Dictionary
from watersmeet.operators.continuous.aggregates.ordered_rows import OrderedRows
from watersmeet.plan.expressions import Aggregate


class ArgExtreme:
    """Rows by what they are compared by, and among equal ones by their place in time: the oldest is taken.

    Both together are 16 bytes in their order, and a dictionary makes one code of them.
    """

    STATE = ("_coding", "_keys", "_rows")

    def __init__(self, aggregate: Aggregate) -> None:
        value = aggregate.args[0].type.field(0).type
        self._turned = aggregate.function == "arg_max"
        self._coding = coding_of(value)
        self._keys = Dictionary(pa.binary())
        self._rows = OrderedRows()

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        assert values is not None
        value, by = values.flatten()
        there = value.is_valid().to_numpy(zero_copy_only=False) & by.is_valid().to_numpy(zero_copy_only=False)
        lives = frozen(np.where(there, changes.diffs, 0))
        codes, renaming = self._coding.enter(value, lives)
        if renaming is not None:
            self._rows.rename(renaming, None)
        keys, other = self._keys.enter(self._places(by, order), lives)
        if other is not None:
            self._rows.rename_keys(lambda known: self._key(other(self._key(known))))
        payloads, valid = self._rows.first(changes, lives, self._key(keys), codes)
        result = self._coding.decode(payloads, valid)
        self._coding.tidy()
        self._keys.tidy()
        return result

    def _key(self, codes: Int64s) -> Int64s:
        # The complement turns the order round, and back again.
        return frozen(~codes if self._turned else codes)

    def _places(self, by: pa.Array, order: Int64s) -> pa.Array:
        """Bytes that sort as the values and then as time does; for the largest the oldest comes last."""
        time = ~order if self._turned else order
        # Turning the highest bit round makes the order of bytes that of signed numbers.
        words = np.stack([encode(by) ^ INT64.min, time ^ INT64.min], axis=1).astype(">i8")
        offsets = 16 * np.arange(len(by) + 1, dtype=np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(words))]
        return pa.Array.from_buffers(pa.large_binary(), len(by), buffers)

    def grow(self, groups: int) -> None:
        self._rows.grow(groups)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._coding.nbytes + self._keys.nbytes
