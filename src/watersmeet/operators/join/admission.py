"""What rows of one input must pass: the input's own filters; and the codes they are compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import Codes, Mask, codes_of
from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.evaluate import evaluate_predicate
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, Expression


@dataclass(frozen=True)
class Encoded(Rows):
    """Rows that were admitted before, with their codes: they are not looked at again."""

    codes: Mapping[Code, Codes]

    def part(self, start: int, stop: int) -> Encoded:
        codes = {code: values[start:stop] for code, values in self.codes.items()}
        return Encoded(self.data.slice(start, stop - start), self.times[start:stop], codes)


class Admission:
    """Lets through the rows that can match at all: they pass the filters and have no NULL among their codes."""

    def __init__(self, filters: Sequence[Expression], codes: Sequence[Code]) -> None:
        self.filters = tuple(filters)
        self.codes = tuple(dict.fromkeys(codes))

    def admit(self, rows: Rows) -> tuple[Rows, dict[Code, Codes], Positions | None]:
        """The rows let through, their codes, and where they stood (None: all were let through)."""
        if isinstance(rows, Encoded):
            return rows, dict(rows.codes), None
        kept: Positions | None = None
        for predicate in self.filters:
            rows, kept = _narrow(rows, kept, evaluate_predicate(predicate, columns_of(rows), len(rows)))
        codes, known = self._encode(rows)
        if known is None or bool(known.all()):
            return rows, codes, kept
        where = np.flatnonzero(known)
        rows, kept = _narrow(rows, kept, known)
        return rows, {code: values[where] for code, values in codes.items()}, kept

    def codes_of(self, rows: Rows, at_null: int | None = None) -> dict[Code, Codes]:
        """The codes of all rows; where a value is NULL its code is `at_null`, or arbitrary if that is not given."""
        codes: dict[Code, Codes] = {}
        for code in self.codes:
            values, valid = codes_of(code.expression, columns_of(rows), len(rows))
            if valid is not None and at_null is not None:
                values = np.where(valid, values, at_null)
            codes[code] = np.ascontiguousarray(values)
        return codes

    def _encode(self, rows: Rows) -> tuple[dict[Code, Codes], Mask | None]:
        codes: dict[Code, Codes] = {}
        known: Mask | None = None
        for code in self.codes:
            values, valid = codes_of(code.expression, columns_of(rows), len(rows))
            codes[code] = np.ascontiguousarray(values)
            if valid is not None:
                known = valid if known is None else known & valid
        return codes, known


def columns_of(rows: Rows) -> Callable[[Column], pa.Array]:
    return lambda column: rows.data.column(column.name)


def _narrow(rows: Rows, kept: Positions | None, mask: Mask) -> tuple[Rows, Positions | None]:
    if bool(mask.all()):
        return rows, kept
    where = np.flatnonzero(mask)
    return rows.take(where), where if kept is None else kept[where]
