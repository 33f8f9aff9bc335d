"""Tables of a user that say how often keys come, read into the counts by which rows are valued (DGR03's estimator)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.operators.codes import codes_of
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.keeping.online_statistics import GivenFrequencies
from watersmeet.operators.keeping.valuation import Valuation
from watersmeet.plan.expressions import Column
from watersmeet.plan.frequencies import FREQUENCY


class KnownFrequencies:
    def __init__(self, layout: Layout, valuation: Valuation) -> None:
        assert isinstance(valuation.keys, GivenFrequencies)
        self._layout, self._counts = layout, valuation.keys

    def read(self, alias: str, rows: pa.RecordBatch) -> None:
        """Take in some rows of the table of a stream: its keys have the types and the names they have in the stream."""
        amounts = _doubles(rows.column(FREQUENCY))
        if not np.all(np.isfinite(amounts) & (amounts >= 0)):
            raise DataError(
                f"the table of frequencies of {alias} has a {FREQUENCY} that is NULL, negative or no number",
                hint="give how often rows of each key come, as a count or a share, from 0",
            )
        positions = self._layout.code_positions[alias]
        codes = np.zeros((len(positions), len(rows)), np.int64)
        known = np.ones(len(rows), np.bool_)
        compared = set(self._counts.own[alias].columns.tolist())
        for code, position in positions.items():
            if position in compared:
                codes[position], valid = codes_of(code.expression, lambda column: _as_in(rows, column), len(rows))
                known &= True if valid is None else valid
        # A key that is NULL meets nobody.
        self._counts.read(alias, np.ascontiguousarray(codes[:, known]), amounts[known])


def _doubles(values: pa.Array) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def _as_in(rows: pa.RecordBatch, column: Column) -> pa.Array:
    """A column of the table, as the stream has it."""
    values = rows.column(column.name)
    try:
        return values if values.type == column.type else values.cast(column.type)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {column.name} of the table of frequencies of {column.stream} is {values.type}, and in the stream "
            f"{column.type}: {error}",
            hint=f"declare it as {column.type} there too",
        ) from None
