"""What a cast gives."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.types import is_text, sql_type

Mask: TypeAlias = "npt.NDArray[np.bool_] | None"


@dataclass(frozen=True)
class Outcome:
    """The values; where they do not fit (None: they all do), and what is said of the first that does not."""

    values: pa.Array
    wrong: Mask = None
    reason: str = ""

    def checked(self, given: pa.Array) -> pa.Array:
        """The values. Raises ArrowInvalid, with a few words, if some that were given do not fit."""
        if self.wrong is None:
            return self.values
        first = given[int(np.argmax(self.wrong))]
        shown = repr(first.as_py()) if is_text(first.type) else str(first)
        raise pa.ArrowInvalid(f"{shown} {self.reason}")


def misfit(target: pa.DataType) -> str:
    return f"does not fit in {sql_type(target)}"


def mask_of(condition: pa.Array) -> Mask:
    """Where a condition holds; None if nowhere."""
    found: npt.NDArray[np.bool_] = pc.fill_null(condition, False).to_numpy(zero_copy_only=False)
    return found if found.any() else None
