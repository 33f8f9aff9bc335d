"""Files of stores, by addresses such as s3://bucket/folder: as streams, as sinks, and as tables that are read once."""

from __future__ import annotations

from watersmeet.io.connectors.contract import Connector, Options
from watersmeet.io.connectors.lake_options import SECRETS

_HERE = "watersmeet.io.connectors.files"
_SECRET = tuple(f"fs.{name}" for name in SECRETS)
_READING = ("path", "format", "delimiter", "sep", "header", "null_values")

FILES = Connector(
    name="files",
    source=f"{_HERE}.source:files_source",
    sink=f"{_HERE}.sink:files_sink",
    table=f"{_HERE}.source:files_table",
    source_options=Options(_READING, prefixes=("fs.",), secret=_SECRET),
    sink_options=Options(
        ("path", "format", "mode", "partition_by", "compression", "delimiter", "sep", "header", "commit_every"),
        prefixes=("fs.",),
        secret=_SECRET,
    ),
    table_options=Options(_READING, prefixes=("fs.",), secret=_SECRET),
)
