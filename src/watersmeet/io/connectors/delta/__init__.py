"""Delta tables: as streams of what is added or changed, as sinks, and as tables that are read once."""

from __future__ import annotations

from watersmeet.io.connectors.contract import Connector, Options
from watersmeet.io.connectors.lake_options import SECRETS

_STORE = ("fs.", "storage.")
# By any of these a store may be entered.
_SECRET = (
    *(f"fs.{name}" for name in SECRETS),
    "storage.aws_access_key_id", "storage.aws_secret_access_key", "storage.aws_session_token",
    "storage.azure_storage_account_key", "storage.azure_storage_sas_token", "storage.google_service_account_key",
)  # fmt: skip
_HERE = "watersmeet.io.connectors.delta"

DELTA = Connector(
    name="delta",
    source=f"{_HERE}.source:DeltaSource",
    sink=f"{_HERE}.sink:DeltaSink",
    table=f"{_HERE}.opening:delta_table",
    source_options=Options(("path", "start", "changes"), prefixes=_STORE, secret=_SECRET),
    sink_options=Options(
        ("path", "mode", "partition_by", "new_columns", "target_file_size", "commit_every", "compact_every", "keep"),
        prefixes=_STORE,
        secret=_SECRET,
    ),
    table_options=Options(("path", "version"), prefixes=_STORE, secret=_SECRET),
    extra="delta",
)
