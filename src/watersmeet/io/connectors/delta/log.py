"""What each version of a Delta table brought, as its log tells it: files with rows that came, or changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import DeltaTable

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError

TAKEN, CAME = "taken", "came"


@dataclass(frozen=True)
class DataFile:
    """A file of rows in a table. `rows` is None if the log does not tell. `change`: what became of its rows, None if
    each tells that itself. `only`: of such rows those that were taken away, or those that came."""

    path: str
    nbytes: int
    rows: int | None
    partition: Mapping[str, Any]
    change: str | None = "insert"
    only: str | None = None


@dataclass(frozen=True)
class Version:
    """`columns`: what the version made the table's columns, if it changed them. `removes`: rows were taken away."""

    number: int
    time_ms: int
    files: tuple[DataFile, ...]
    removes: bool = False
    columns: tuple[str, ...] | None = None


def snapshot(table: DeltaTable) -> Version:
    """All rows of a table as one version, the oldest files first."""
    found = pa.table(table.get_add_actions()).to_pylist()
    found.sort(key=lambda one: (one["modification_time"], one["path"]))
    files = tuple(
        DataFile(_inside(one["path"]), one["size_bytes"], one["num_records"], one.get("partition") or {})
        for one in found
    )
    return Version(table.version(), max((one["modification_time"] for one in found), default=0), files)


def version_file(number: int) -> str:
    return f"_delta_log/{number:020d}.json"


def read_version(files: pa_fs.FileSystem, number: int, *, changes: bool) -> Version | None:
    """What a version brought; None if it is not there. changes: rows that were changed or removed as well."""
    try:
        with files.open_input_stream(version_file(number)) as stream:
            lines = stream.read().decode().splitlines()
    except FileNotFoundError:
        return None
    actions = [json.loads(line) for line in lines if line.strip()]
    added = _of_kind(actions, "add")
    removed = [one for one in _of_kind(actions, "remove") if one.get("dataChange", True)]
    changed = _of_kind(actions, "cdc")
    info = next(iter(_of_kind(actions, "commitInfo")), {})
    found = [_file(one, "insert") for one in added if one.get("dataChange", True)]
    if changes and changed:  # which then say everything
        # In a file they stand in any order, and in a version a row may be in two files: what is taken away comes first.
        found = [replace(_file(one, None), only=only) for only in (TAKEN, CAME) for one in changed]
    elif changes:
        # What is taken away first, so that of a row that is written anew the new one is the last.
        found = [_file(one, "delete") for one in removed] + found
    meta = next(iter(_of_kind(actions, "metaData")), None)
    time_ms = int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)
    return Version(
        number,
        time_ms,
        tuple(found),
        removes=bool(removed),
        columns=None if meta is None else _names(meta["schemaString"]),
    )


def _of_kind(actions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one[kind] for one in actions if one.get(kind) is not None]


def _file(action: dict[str, Any], change: str | None) -> DataFile:
    if action.get("deletionVector") is not None:
        raise SourceError(
            f"{action['path']} has a deletion vector, which is not read as a stream",
            hint="set delta.enableDeletionVectors to false for the table, or read it as a table",
        )
    stats = json.loads(action.get("stats") or "{}")
    partition = action.get("partitionValues") or {}
    return DataFile(_inside(action["path"]), int(action.get("size") or 0), stats.get("numRecords"), partition, change)


def _inside(path: str) -> str:
    """A path as the log writes it, as the store has it."""
    if "://" in path or path.startswith("/"):
        raise SourceError(
            f"the table has a file outside of it, {path}, as shallow clones have",
            hint="read the table it is a clone of",
        )
    return unquote(path)


def _names(schema: str) -> tuple[str, ...]:
    return tuple(field["name"] for field in json.loads(schema)["fields"])
