"""watersmeet: continuous queries over sliding windows of data streams.

import watersmeet as wm

session = wm.Session()
session.stream("a", table, time="ts", lateness="2 seconds")
session.sql("SELECT … FROM a [RANGE 30 SECONDS], b [RANGE 1 MINUTE] WHERE a.k = b.k").to_arrow()
"""

from typing import TYPE_CHECKING, Any

from watersmeet.errors import (
    BadRecordsWarning,
    BindError,
    CatalogError,
    CrossJoinWarning,
    DamagedCheckpointWarning,
    DataError,
    EmptyTableWarning,
    FloodWarning,
    FutureRowsWarning,
    HandoverWarning,
    LateRowsWarning,
    MidnightWarning,
    OldTableWarning,
    OptionError,
    ParseError,
    RunError,
    SetupError,
    SinkError,
    SinkGoneWarning,
    SkippedRowsWarning,
    SourceChangedWarning,
    SourceError,
    SourceGoneWarning,
    SqlError,
    TemporaryFolderWarning,
    TimeUnitWarning,
    UnsupportedError,
    UnusedSinkWarning,
    WaitingRowsWarning,
    WatersmeetError,
    WindowError,
)
from watersmeet.importing import undisturbed
from watersmeet.version import VERSION

if TYPE_CHECKING:
    from watersmeet.archive.complete import complete
    from watersmeet.checking import Report, check
    from watersmeet.hosts.local.async_run import AsyncRun
    from watersmeet.hosts.local.durable.durable_run import DurableRun
    from watersmeet.hosts.local.pushed_run import Run
    from watersmeet.hosts.spark.reading.file_stream import ParquetStream
    from watersmeet.io.connectors.registering import register_connector
    from watersmeet.model.stream_values import EventTime, Hints, RowPolicy
    from watersmeet.runtime.notices import notices
    from watersmeet.runtime.outcome import Outcome
    from watersmeet.session import Query, Session

__version__ = VERSION
__all__ = [
    "AsyncRun",
    "BadRecordsWarning",
    "BindError",
    "CatalogError",
    "CrossJoinWarning",
    "DamagedCheckpointWarning",
    "DataError",
    "DurableRun",
    "EmptyTableWarning",
    "EventTime",
    "FloodWarning",
    "FutureRowsWarning",
    "HandoverWarning",
    "Hints",
    "LateRowsWarning",
    "MidnightWarning",
    "OldTableWarning",
    "OptionError",
    "Outcome",
    "ParquetStream",
    "ParseError",
    "Query",
    "Report",
    "RowPolicy",
    "Run",
    "RunError",
    "Session",
    "SetupError",
    "SinkError",
    "SinkGoneWarning",
    "SkippedRowsWarning",
    "SourceChangedWarning",
    "SourceError",
    "SourceGoneWarning",
    "SqlError",
    "TemporaryFolderWarning",
    "TimeUnitWarning",
    "UnsupportedError",
    "UnusedSinkWarning",
    "WaitingRowsWarning",
    "WatersmeetError",
    "WindowError",
    "check",
    "complete",
    "notices",
    "register_connector",
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
    if name == "Run":
        from watersmeet.hosts.local.pushed_run import Run

        return Run
    if name == "AsyncRun":
        from watersmeet.hosts.local.async_run import AsyncRun

        return AsyncRun
    if name == "DurableRun":
        from watersmeet.hosts.local.durable.durable_run import DurableRun

        return DurableRun
    if name == "Outcome":
        from watersmeet.runtime.outcome import Outcome

        return Outcome
    if name in ("EventTime", "Hints", "RowPolicy"):
        from watersmeet.model import stream_values

        return getattr(stream_values, name)
    if name == "complete":
        from watersmeet.archive.complete import complete

        return complete
    if name == "notices":
        from watersmeet.runtime.notices import notices

        return notices
    if name == "ParquetStream":
        from watersmeet.hosts.spark.reading.file_stream import ParquetStream

        return ParquetStream
    if name == "register_connector":
        with undisturbed():
            from watersmeet.io.connectors.registering import register_connector

        return register_connector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
