"""Iceberg tables: as streams of what is added, as sinks, and as tables that are read once."""

from __future__ import annotations

from watersmeet.io.connectors.contract import Connector, Options

# An address of a catalog may have a password in it.
_SECRET = (
    "catalog.uri", "catalog.credential", "catalog.token", "catalog.s3.access-key-id", "catalog.s3.secret-access-key",
    "catalog.s3.session-token", "catalog.adls.account-key", "catalog.adls.sas-token", "catalog.gcs.oauth2.token",
)  # fmt: skip
_HERE = "watersmeet.io.connectors.iceberg"

ICEBERG = Connector(
    name="iceberg",
    source=f"{_HERE}.source:IcebergSource",
    sink=f"{_HERE}.sink:IcebergSink",
    table=f"{_HERE}.opening:iceberg_table",
    source_options=Options(("table", "catalog", "start"), prefixes=("catalog.",), secret=_SECRET),
    sink_options=Options(
        ("table", "catalog", "mode", "partition_by", "new_columns", "target_file_size", "commit_every", "keep"),
        prefixes=("catalog.",),
        secret=_SECRET,
    ),
    table_options=Options(("table", "catalog", "snapshot"), prefixes=("catalog.",), secret=_SECRET),
    extra="iceberg",
)
