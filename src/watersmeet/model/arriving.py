"""Streams whose event time is the moment at which their rows arrive: `time = 'arrival'`."""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock

import numpy as np
import pyarrow as pa

from watersmeet.errors import CatalogError
from watersmeet.model.names import column_named
from watersmeet.model.time import BEGINNING_US, Times

# What `time` says, and the name that the column has in queries unless `arrival_column` says another.
ARRIVAL = "arrival"
MOMENT = pa.timestamp("us")


class Arrivals:
    """When rows that are at hand arrived, which is when they were first read: so many rows at each moment. Who reads
    them again finds the same moments, however many rows are read at a time."""

    def __init__(self) -> None:
        self._until: list[int] = []  # up to which row, counted from 0, each moment holds
        self._moments: list[int] = []
        self._lock = Lock()  # two runs may read the same rows at once

    def __reduce__(self) -> tuple[type[Arrivals], tuple[()]]:
        """Elsewhere nothing is read by row, so nothing of it travels."""
        return Arrivals, ()

    def of(self, before: int, rows: int, now_us: int) -> Times:
        """The moments of some rows, so many of which came before them; those that are new arrive now.

        >>> arrivals = Arrivals()
        >>> arrivals.of(0, 2, 100).tolist(), arrivals.of(2, 1, 300).tolist()
        ([100, 100], [300])
        >>> arrivals.of(1, 3, 900).tolist()
        [100, 300, 900]
        """
        with self._lock:
            known = self._until[-1] if self._until else 0
            if before + rows > known:
                # The clock on the wall may be set back, and time does not go back with it.
                self._moments.append(max([now_us, *self._moments[-1:]]))
                self._until.append(before + rows)
        first = bisect_right(self._until, before)
        last = bisect_right(self._until, before + rows - 1) + 1
        counts = np.diff(np.minimum(np.array(self._until[first:last]), before + rows), prepend=before)
        return np.repeat(np.array(self._moments[first:last], np.int64), counts)

    def moment(self, now_us: int) -> int:
        """The one moment of rows that all arrive at once."""
        with self._lock:
            if not self._moments:
                self._moments.append(now_us)
        return self._moments[0]

    @property
    def last_us(self) -> int:
        return self._moments[-1] if self._moments else BEGINNING_US


def is_arrival(time: object) -> bool:
    """Whether `time` asks for the moment of arrival."""
    return isinstance(time, str) and time.strip().lower() == ARRIVAL


def named_time(time: str) -> str:
    """The column that `time` names: one that is called like the moment of arrival stands in quotes.

    >>> named_time('"arrival"'), named_time("ts")
    ('arrival', 'ts')
    """
    quoted = len(time) > 2 and time.startswith('"') and time.endswith('"')
    return time[1:-1].replace('""', '"') if quoted else time


def with_moments(name: str, schema: pa.Schema, column: str | None) -> pa.Schema:
    """The columns of a stream as queries see them: those that rows bring along, and the moment of their arrival."""
    column = column or ARRIVAL
    found = column_named(column, schema.names)
    if found is None:
        return schema.append(pa.field(column, MOMENT))
    hint = f"give the moment another name: arrival_column = '{_free(schema)}'"
    if found.lower() == ARRIVAL:
        hint += f"; or, if that column is the event time, put it in quotes: time = '\"{found}\"'"
    raise CatalogError(
        f"stream {name!r} has a column {found!r}, so the moment of arrival cannot be called that too", hint=hint
    )


def _free(schema: pa.Schema) -> str:
    """A name that no column has."""
    names = ("arrived", "arrived_at", *(f"arrival_{number}" for number in range(2, len(schema) + 3)))
    return next(name for name in names if column_named(name, schema.names) is None)


def stamped(batch: pa.RecordBatch, field: pa.Field, moments: Times | int) -> pa.RecordBatch:
    """The rows with the moments of their arrival as the last column."""
    times = np.full(batch.num_rows, moments, np.int64) if isinstance(moments, int) else moments
    column = pa.array(times, pa.int64()).cast(field.type)
    arrays, schema = [*batch.columns, column], batch.schema.append(field)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
