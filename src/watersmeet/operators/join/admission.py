"""What rows of one input must pass: the input's own filters; and the codes they are compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.codes import Codes, Mask, codes_of, encode
from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.evaluate import evaluate_predicate
from watersmeet.operators.join.combinations import own_code
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, Expression


class Admission:
    """Lets through the rows that can match at all: they pass the filters and have no NULL among their codes."""

    def __init__(self, filters: Sequence[Expression], codes: Sequence[Code]) -> None:
        self.filters = tuple(filters)
        self.codes = tuple(dict.fromkeys(codes))
        self.left_out_us = BEGINNING_US  # no row after this instant was left out
        # Each with the column that is its own code, if one is.
        self._columns = [(code, own_code(code.expression)) for code in self.codes]

    def admit(self, rows: Rows) -> tuple[Rows, dict[Code, Codes], Positions | None]:
        """The rows let through, their codes, and where they stood (None: all were let through). Rows that passed this
        door elsewhere are not looked at again."""
        if rows.coded is not None:
            return rows, self._codes_in(rows, rows.coded), None
        rows, kept = self.filtered(rows)
        codes = self._as_they_are(rows)
        if codes is not None:
            return rows, codes, kept
        codes, known = self._encode(rows)
        if known is None or bool(known.all()):
            return rows, codes, kept
        where = np.flatnonzero(known)
        self.left_out(rows)
        rows, kept = _narrow(rows, kept, known)
        return rows, {code: values[where] for code, values in codes.items()}, kept

    def told_of_all(self, rows: Rows) -> tuple[Mask | None, dict[Code, Codes]] | None:
        """Which rows are let through (None: all), and the codes of all of them, if these are columns as they are."""
        codes = None if rows.coded is not None else self._as_they_are(rows)
        if codes is None:
            return None
        mask: Mask | None = None
        for predicate in self.filters:
            if mask is None:
                mask = evaluate_predicate(predicate, columns_of(rows), len(rows))
            else:  # what was left out may be nothing that it can be asked of
                where = np.flatnonzero(mask)
                some = rows.take(where)
                mask = np.zeros(len(rows), np.bool_)
                mask[where] = evaluate_predicate(predicate, columns_of(some), len(some))
        return (None if mask is None or bool(mask.all()) else mask), codes

    def filtered(self, rows: Rows) -> tuple[Rows, Positions | None]:
        """The rows that pass the filters, and where they stood (None: all passed)."""
        kept: Positions | None = None
        given = rows
        for predicate in self.filters:
            rows, kept = _narrow(rows, kept, evaluate_predicate(predicate, columns_of(rows), len(rows)))
        if kept is not None:
            self.left_out(given)
        return rows, kept

    def left_out(self, rows: Rows) -> None:
        """Some of these."""
        self.left_out_us = max(self.left_out_us, int(rows.times.max()))

    def codes_of(self, rows: Rows, at_null: int | None = None) -> dict[Code, Codes]:
        """The codes of all rows; where a value is NULL its code is `at_null`, or arbitrary if that is not given."""
        codes: dict[Code, Codes] = {}
        for code in self.codes:
            values, valid = codes_of(code.expression, columns_of(rows), len(rows))
            if valid is not None and at_null is not None:
                values = np.where(valid, values, at_null)
            codes[code] = np.ascontiguousarray(values)
        return codes

    def _codes_in(self, rows: Rows, coded: Mapping[str, str]) -> dict[Code, Codes]:
        """The codes that came with rows, as views of their columns: each holds int64s that are not NULL."""
        return {code: encode(rows.data.column(coded[code.word])) for code in self.codes}

    def _as_they_are(self, rows: Rows) -> dict[Code, Codes] | None:
        """The codes of rows, if all are columns that are their own codes and no value is NULL."""
        codes: dict[Code, Codes] = {}
        for code, column in self._columns:
            cells = None if column is None else rows.cells(column)
            if cells is None:
                return None
            codes[code] = cells
        return codes

    def _encode(self, rows: Rows) -> tuple[dict[Code, Codes], Mask | None]:
        codes: dict[Code, Codes] = {}
        known: Mask | None = None
        for code in self.codes:
            values, valid = codes_of(code.expression, columns_of(rows), len(rows))
            codes[code] = np.ascontiguousarray(values)  # kernels read them by address, without gaps
            if valid is not None:
                known = valid if known is None else known & valid
        return codes, known


def with_codes(rows: Rows, codes: Mapping[Code, Codes]) -> Rows:
    """Admitted rows with their codes beside them, so that nobody looks at them again."""
    names = {code: f"__code_{number}" for number, code in enumerate(codes)}
    data = rows.data
    for code, name in names.items():
        data = data.append_column(name, pa.array(codes[code]))
    return Rows(data, rows.times, {code.word: name for code, name in names.items()})


def columns_of(rows: Rows) -> Callable[[Column], pa.Array]:
    return lambda column: rows.data.column(column.name)


def _narrow(rows: Rows, kept: Positions | None, mask: Mask) -> tuple[Rows, Positions | None]:
    if bool(mask.all()):
        return rows, kept
    where = np.flatnonzero(mask)
    return rows.take(where), where if kept is None else kept[where]
