"""Sources that are made rather than read, on Spark: written once as Parquet files, which Spark then streams.

The folder is named after its content. A query that is started again finds the same files under the same names, so it
goes on from its checkpoint.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from watersmeet.io.providers import NOT_FOR_PROVIDERS, provided
from watersmeet.private_folders import made_private, scratch_folder
from watersmeet.temporary_folders import temporary_folder

PIECES = 16  # so that maxFilesPerTrigger = '1' shows a stream in batches


def as_files(kind: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a source that reads what the given ones ask a provider for."""
    made = provided(kind, {key.lower(): value for key, value in options.items()})
    kept = {key: value for key, value in options.items() if key.lower() in NOT_FOR_PROVIDERS - {"source"}}
    return {**kept, "source": "parquet", "path": str(stored(made))}


def stored(table: pa.Table) -> Path:
    """The folder that holds a table, in files that are taken in the order of its rows."""
    home = scratch_folder()
    folder = home / _name_of(table)
    # The name is the sum of the content, so whatever is whole under it is right; made_private refuses a link or a
    # stranger's folder of that name.
    if os.path.lexists(folder):
        return made_private(folder)
    # In the same folder, so that the rename stays within one file system and readers never see half of it.
    with temporary_folder("draft-") as draft:
        _write(table, draft)
        with suppress(OSError):  # another process was faster
            draft.rename(folder)
    return folder


def _name_of(table: pa.Table) -> str:
    written = hashlib.sha256()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    written.update(sink.getvalue())
    return written.hexdigest()[:32]


def _write(table: pa.Table, folder: Path) -> None:
    """Write the rows in pieces. Spark takes files by their age, so each is made a second younger than the last."""
    size = max(1, -(-table.num_rows // PIECES))
    starts = range(0, max(1, table.num_rows), size)
    for number, start in enumerate(starts):
        path = folder / f"part-{number:02}.parquet"
        pa_parquet.write_table(table.slice(start, size), path)
        path.chmod(0o600)
        age = path.stat().st_mtime - len(starts) + number
        os.utime(path, (age, age))
