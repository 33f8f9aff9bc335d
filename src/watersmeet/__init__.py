"""watersmeet: continuous queries over sliding windows of data streams.

import watersmeet as wm

session = wm.Session()
session.stream("a", table, time="ts", lateness="2 seconds")
session.sql("SELECT … FROM a [RANGE 30 SECONDS], b [RANGE 1 MINUTE] WHERE a.k = b.k").to_arrow()
"""

from typing import TYPE_CHECKING, Any

from watersmeet.errors import (
    BindError,
    CatalogError,
    DataError,
    FutureRowsWarning,
    LateRowsWarning,
    MidnightWarning,
    OptionError,
    ParseError,
    SinkError,
    SourceError,
    SqlError,
    UnsupportedError,
    WaitingRowsWarning,
    WatersmeetError,
    WindowError,
)
from watersmeet.importing import undisturbed
from watersmeet.version import VERSION

if TYPE_CHECKING:
    from watersmeet.archive.complete import complete
    from watersmeet.checking import Report, check
    from watersmeet.hosts.spark.packed import ParquetStream
    from watersmeet.session import Query, Session

__version__ = VERSION
__all__ = [
    "BindError",
    "CatalogError",
    "DataError",
    "FutureRowsWarning",
    "LateRowsWarning",
    "MidnightWarning",
    "OptionError",
    "ParquetStream",
    "ParseError",
    "Query",
    "Report",
    "Session",
    "SinkError",
    "SourceError",
    "SqlError",
    "UnsupportedError",
    "WaitingRowsWarning",
    "WatersmeetError",
    "WindowError",
    "check",
    "complete",
]


def __getattr__(name: str) -> Any:
    """Session and Query bring Arrow and NumPy with them, so they are loaded when first asked for."""
    if name in ("Report", "check"):
        from watersmeet import checking

        return getattr(checking, name)
    if name in ("Query", "Session"):
        with undisturbed():
            from watersmeet import session

        return getattr(session, name)
    if name == "complete":
        from watersmeet.archive.complete import complete

        return complete
    if name == "ParquetStream":
        from watersmeet.hosts.spark.packed import ParquetStream

        return ParquetStream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "ParquetStream", "Query", "Report", "Session", "check", "complete"])
