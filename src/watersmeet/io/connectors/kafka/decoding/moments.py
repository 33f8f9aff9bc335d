"""Moments that Kafka or Debezium knows, written as the event times of a stream are: a deletion has no other time.

It stands in one column with the times of rows that are put there, which may be numbers or text, and is read with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.stream_options import STREAM_OPTIONS
from watersmeet.model.time_format import ISO
from watersmeet.model.time_reading import PER_SECOND, TimeReading, time_reading

_MS = pa.timestamp("ms")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAID = ("time_unit", "time_format", "time_zone")


@dataclass(frozen=True)
class TimeColumn:
    """The column of the event time, and how it is written if it holds no timestamps."""

    name: str | None = None
    reading: TimeReading | None = None

    def written(self, moments: pa.Array, kind: pa.DataType) -> pa.Array:
        """Milliseconds since 1970 as what the column holds."""
        if pa.types.is_timestamp(kind):
            return moments.cast(_MS if kind.tz is None else pa.timestamp("ms", kind.tz)).cast(kind)
        if self.reading is None:
            return pa.nulls(len(moments), kind)
        if self.reading.unit is not None and pa.types.is_integer(kind):
            return pc.cast(moments.cast(_MS).cast(pa.timestamp(self.reading.unit), safe=False), pa.int64()).cast(kind)
        return pa.array([self._text(one) for one in moments.to_pylist()], pa.string()).cast(kind)

    def _text(self, moment: int | None) -> str | None:
        assert self.reading is not None
        if moment is None:
            return None
        if self.reading.unit is not None:
            return format(Decimal(moment) * PER_SECOND[self.reading.unit] / PER_SECOND["ms"], "f")
        try:
            at = _EPOCH + timedelta(milliseconds=moment)
        except OverflowError:  # no year that text has; who reads the column tells of a time that is not there
            return None
        form = self.reading.format or ISO
        return at.isoformat() if form == ISO else at.astimezone(ZoneInfo(self.reading.zone)).strftime(form)


def time_column(name: str | None, options: Mapping[str, str]) -> TimeColumn:
    """The column of this name, by the options of its stream."""
    said = {one: STREAM_OPTIONS[one].parse(options[one]) for one in _SAID if one in options}
    return TimeColumn(name, time_reading(name, said))
