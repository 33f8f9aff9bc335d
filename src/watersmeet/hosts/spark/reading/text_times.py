"""Times found in CSV text: Spark takes all of them for instants; those without a zone are readings, as in-process."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampNTZType, TimestampType

_ZONED = r"(?i)(z|[+-]\d\d:?\d\d)\s*$"


def with_readings(found: StructType, read: Callable[[StructType], DataFrame]) -> StructType:
    """The columns that Spark found, those of times without any zone in their text as TIMESTAMP. `read` gives the same
    files with other types."""
    times = [field.name for field in found if isinstance(field.dataType, TimestampType)]
    if not times:
        return found
    texts = read(StructType([StructField(field.name, StringType()) for field in found]))
    zoned = texts.select(*(F.max(F.col(f"`{name}`").rlike(_ZONED)).alias(name) for name in times)).first()
    # One zone in a column makes all of it instants; those without one are then in UTC.
    readings = {name for name in times if zoned is None or not zoned[name]}
    return StructType([StructField(f.name, TimestampNTZType()) if f.name in readings else f for f in found])
