"""Dates and times as each other."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.outcome import Mask, Outcome, mask_of

_PLAIN = pa.timestamp("us")


def instants(values: pa.Array, target: pa.DataType) -> Outcome:
    zone = getattr(target, "tz", None)
    if pa.types.is_date(values.type):
        if pa.types.is_date(target):
            return Outcome(pc.cast(values, target))
        midnights = pc.cast(values, _PLAIN)
        if zone is None:
            return Outcome(pc.cast(midnights, target))
        made = at_clocks(midnights, target)
        return Outcome(made.values, made.wrong, f"00:00:00 {made.reason}")
    if values.type.tz is not None and zone is None:
        values = pc.local_timestamp(values)
    # What is finer than the new unit is cut off.
    return Outcome(pc.cast(values, target, safe=False))


def at_clocks(readings: pa.Array, target: pa.DataType) -> Outcome:
    """The first instants at which clocks of the target's zone show these times."""
    found = pc.assume_timezone(readings, target.tz, ambiguous="earliest", nonexistent="earliest")
    skipped: Mask = mask_of(pc.not_equal(pc.local_timestamp(found), readings))
    return Outcome(pc.cast(found, target), skipped, f"does not exist in {target.tz}: clocks skip it there")
