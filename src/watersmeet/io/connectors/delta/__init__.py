"""Delta tables: as streams of what is added or changed, as sinks, and as tables that are read once."""

from __future__ import annotations

from watersmeet.io.connectors.contract import Connector, Options

_STORE = ("fs.", "storage.")
_HERE = "watersmeet.io.connectors.delta"

DELTA = Connector(
    name="delta",
    source=f"{_HERE}.source:delta_source",
    sink=f"{_HERE}.sink:delta_sink",
    table=f"{_HERE}.table:delta_table",
    source_options=Options(("path", "start", "changes"), prefixes=_STORE),
    sink_options=Options(
        ("path", "mode", "partition_by", "new_columns", "target_file_size", "commit_every", "compact_every", "keep"),
        prefixes=_STORE,
    ),
    table_options=Options(("path", "version"), prefixes=_STORE),
    extra="delta",
)
