"""Rows that are changes of a table: which of them delete."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.model.versions import DELETES, PUTS, WORDS_HINT
from watersmeet.operators.codes import Mask

_DELETES, _KNOWN = pa.array(sorted(DELETES)), pa.array(sorted(DELETES | PUTS))


@dataclass(frozen=True)
class ChangesOfTable:
    """`name` is the table's, `op` the column that tells what a row does to it; without one, no row deletes."""

    name: str
    op: str | None

    def deletes(self, rows: pa.RecordBatch) -> Mask:
        if self.op is None:
            return np.zeros(rows.num_rows, np.bool_)
        return _is_in(rows.column(self.op), _DELETES)

    def check(self, rows: pa.RecordBatch) -> None:
        """Refuse rows of which it is not known what they do."""
        if self.op is None or rows.num_rows == 0:
            return
        known = _is_in(rows.column(self.op), _KNOWN)
        if bool(known.all()):
            return
        strange = rows.column(self.op).filter(pa.array(~known))
        value = strange[0].as_py()
        problem = "is NULL" if value is None else f"is {value!r}, which is no kind of change,"
        raise DataError(
            f"the op {self.op!r} of {self.name!r} {problem} in {len(strange)} row{'s' * (len(strange) > 1)}",
            hint=WORDS_HINT,
        )


def _is_in(column: pa.Array, words: pa.Array) -> Mask:
    written = pc.utf8_lower(column.cast(pa.string()))
    found: Mask = pc.is_in(written, value_set=words).to_numpy(zero_copy_only=False)
    return found
