"""Iceberg tables: as streams of what is added, as sinks, and as tables that are read once."""

from __future__ import annotations

from watersmeet.io.connectors.contract import Connector, Options

_HERE = "watersmeet.io.connectors.iceberg"

ICEBERG = Connector(
    name="iceberg",
    source=f"{_HERE}.source:iceberg_source",
    sink=f"{_HERE}.sink:iceberg_sink",
    table=f"{_HERE}.table:iceberg_table",
    source_options=Options(("table", "catalog", "start"), prefixes=("catalog.",)),
    sink_options=Options(
        ("table", "catalog", "mode", "partition_by", "new_columns", "target_file_size", "commit_every", "keep"),
        prefixes=("catalog.",),
    ),
    table_options=Options(("table", "catalog", "snapshot"), prefixes=("catalog.",)),
    extra="iceberg",
)
