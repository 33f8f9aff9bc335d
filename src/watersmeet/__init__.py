"""watersmeet: continuous queries over sliding windows of data streams.

import watersmeet as wm

session = wm.Session()
session.stream("a", table, time="ts", lateness="2 seconds")
session.sql("SELECT … FROM a [RANGE 30 SECONDS], b [RANGE 1 MINUTE] WHERE a.k = b.k").to_arrow()
"""

from watersmeet.errors import (
    BindError,
    CatalogError,
    DataError,
    OptionError,
    ParseError,
    SinkError,
    SourceError,
    SqlError,
    UnsupportedError,
    WatersmeetError,
    WindowError,
)
from watersmeet.session import Query, Session

__version__ = "0.1.0"
__all__ = [
    "BindError",
    "CatalogError",
    "DataError",
    "OptionError",
    "ParseError",
    "Query",
    "Session",
    "SinkError",
    "SourceError",
    "SqlError",
    "UnsupportedError",
    "WatersmeetError",
    "WindowError",
]
