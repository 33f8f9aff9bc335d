"""watersmeet: continuous queries over sliding windows of data streams.

import watersmeet as wm

session = wm.Session()
session.stream("a", table, time="ts", lateness="2 seconds")
session.sql("SELECT … FROM a [RANGE 30 SECONDS], b [RANGE 1 MINUTE] WHERE a.k = b.k").to_arrow()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from watersmeet.errors import (
    BindError,
    CatalogError,
    DataError,
    OptionError,
    ParseError,
    RunError,
    SetupError,
    SinkError,
    SourceError,
    SqlError,
    UnsupportedError,
    WatersmeetError,
    WindowError,
)
from watersmeet.importing import undisturbed
from watersmeet.version import VERSION
from watersmeet.warning import ConnectorWarning, DataWarning, PlanWarning, StateWarning, WatersmeetWarning

if TYPE_CHECKING:
    from watersmeet.archive.complete import complete
    from watersmeet.checking import Report, check
    from watersmeet.hosts.local.async_run import AsyncRun
    from watersmeet.hosts.local.run import Run
    from watersmeet.hosts.spark.reading.file_stream import ParquetStream
    from watersmeet.io.connectors.registering import register_connector
    from watersmeet.model.stream_values import EventTime, Hints, RowPolicy
    from watersmeet.plan.user_functions import register_aggregate, register_function
    from watersmeet.runtime.notices import notices
    from watersmeet.runtime.outcome import Outcome
    from watersmeet.session import Query, Session

__version__ = VERSION
__all__ = [
    "AsyncRun",
    "BindError",
    "CatalogError",
    "ConnectorWarning",
    "DataError",
    "DataWarning",
    "EventTime",
    "Hints",
    "OptionError",
    "Outcome",
    "ParquetStream",
    "ParseError",
    "PlanWarning",
    "Query",
    "Report",
    "RowPolicy",
    "Run",
    "RunError",
    "Session",
    "SetupError",
    "SinkError",
    "SourceError",
    "SqlError",
    "StateWarning",
    "UnsupportedError",
    "WatersmeetError",
    "WatersmeetWarning",
    "WindowError",
    "check",
    "complete",
    "notices",
    "register_aggregate",
    "register_connector",
    "register_function",
]


# They bring Arrow and NumPy with them, so they are loaded when first asked for.
_LOADED_LATER = {
    "AsyncRun": "hosts.local.async_run",
    "EventTime": "model.stream_values",
    "Hints": "model.stream_values",
    "Outcome": "runtime.outcome",
    "ParquetStream": "hosts.spark.reading.file_stream",
    "Query": "session",
    "Report": "checking",
    "RowPolicy": "model.stream_values",
    "Run": "hosts.local.run",
    "Session": "session",
    "check": "checking",
    "complete": "archive.complete",
    "notices": "runtime.notices",
    "register_aggregate": "plan.user_functions",
    "register_connector": "io.connectors.registering",
    "register_function": "plan.user_functions",
}

if not TYPE_CHECKING:  # for which a name that is not there would be there, as Any

    def __getattr__(name: str) -> Any:
        if name not in _LOADED_LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with undisturbed():
            return getattr(import_module(f"watersmeet.{_LOADED_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
