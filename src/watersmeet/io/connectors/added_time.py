"""The columns of a stream as far as they are known before its source is opened: EXPLAIN, and Spark, ask for them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from watersmeet.io.connectors.registry import connector_of
from watersmeet.model.arriving import is_arrival, named_time
from watersmeet.model.names import column_named

_MOMENT = pa.timestamp("us")


def known_columns(options: Mapping[str, str], declared: pa.Schema) -> pa.Schema | None:
    """The declared columns, and the event time if it is one that a connector adds. None if only the source itself can
    tell: it may have a column of that name that was not declared."""
    given = {key.lower(): value for key, value in options.items()}
    connector, time = connector_of("source", given), given.get("time")
    if connector is None or not time or is_arrival(time) or column_named(named_time(time), declared.names):
        return declared
    if connector.moment is None:
        return None
    return declared.append(pa.field(connector.moment, _MOMENT)) if time == connector.moment else declared
