"""Where the columns of a few rows lie, told by one call into Arrow: a column that is asked for takes a microsecond."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.time import Times
from watersmeet.operators.contract import Rows
from watersmeet.operators.kernels import arrow_struct
from watersmeet.operators.kernels.memory import address, writable_address
from watersmeet.operators.payload import fixed_width

Addresses = npt.NDArray[np.int64]
_NO_TIMES: Times = np.empty(0, np.int64)


class FewColumns:
    """Of batches of one schema. For any thread."""

    def __init__(self, schema: pa.Schema, time: str | None = None, most_us: int = 0) -> None:
        """time: the column of the event times, none of which may be further from 1970."""
        self.schema = schema
        self._widths = np.array([fixed_width(kind) or 0 for kind in schema.types], np.int64)
        self._time = -1 if time is None else schema.get_field_index(time)
        self._most_us = most_us
        self._structs: deque[tuple[int, npt.NDArray[np.int64]]] = deque()  # those that nobody uses at the moment

    @property
    def widths(self) -> Addresses:
        """Of the values of each column; 0 of those that have none."""
        return self._widths

    def timed(self, batch: pa.RecordBatch) -> Rows | None:
        """Rows with their event times; None if something is wrong with these, or the columns are others."""
        if not batch.schema.equals(self.schema):
            return None
        times = np.empty(batch.num_rows, np.int64)
        addresses, order = self._lay_out(batch, times)
        if order == arrow_struct.UNREAD:
            return None
        times.setflags(write=False)  # as those are that lie in Arrow's memory
        rows = Rows(batch, times)
        known = rows.__dict__
        known["_addresses"], known["_in_order"] = addresses, order == arrow_struct.IN_ORDER
        return rows

    def addresses(self, rows: Rows) -> Addresses | None:
        """The times, then every column: 0 of those that have NULLs or are not of one width; None if the columns are
        others. Valid as long as somebody has the rows."""
        if not rows.data.schema.equals(self.schema):
            return None
        known: Addresses | None = rows.__dict__.get("_addresses")
        if known is None:
            known, _ = self._lay_out(rows.data, _NO_TIMES)
            known[0] = address(rows.times)
            rows.__dict__["_addresses"] = known
        return known

    def rest(self, rows: Rows, start: int, addresses: Addresses) -> Rows:
        """The rows from a place on, which are in order; somebody has worked out where their columns lie."""
        piece = rows.slice(start, rows.times.size)
        piece.__dict__["_addresses"] = addresses
        return piece

    def _lay_out(self, batch: pa.RecordBatch, times: Times) -> tuple[Addresses, int]:
        addresses = np.empty(1 + self._widths.size, np.int64)
        try:
            at, struct = self._structs.pop()
        except IndexError:
            struct = np.zeros(arrow_struct.FIELDS, np.int64)
            at = writable_address(struct)
        batch._export_to_c(at)
        order = arrow_struct.lay_out(at, self._widths, self._time, self._most_us, addresses, times)
        self._structs.append((at, struct))
        return addresses, order
