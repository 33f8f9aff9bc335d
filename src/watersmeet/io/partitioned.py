"""Rows in a folder for each value of some columns, as Hive and Spark lay them out: day=2026-01-31/hour=12/part.csv."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SinkError
from watersmeet.io.writers import Writer, writable
from watersmeet.model.names import column_named, columns_hint

NULL = "__HIVE_DEFAULT_PARTITION__"
# What Spark and Hive write as %3A and the like in names of folders.
_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
OPEN_FILES = 64
# Folders of Spark's and files that it leaves beside the rows.
_BESIDE = re.compile(r"[._].*")

MakeWriter = Callable[[Path, pa.Schema], Writer]


def partition_columns(name: str, written: str | None, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that partition_by = 'dt, hm' names, by their own spelling; none if nothing is written."""
    if written is None:
        return ()
    columns: list[str] = []
    for part in (one.strip() for one in written.split(",")):
        found = column_named(part, schema.names)
        if found is None:
            raise SinkError(
                f"sink {name!r} is to be partitioned by {part!r}, which is no column of its rows",
                hint=columns_hint(schema.names),
            )
        if not _has_name(schema.field(found).type):
            raise SinkError(
                f"sink {name!r} cannot be partitioned by {found!r}, which is {schema.field(found).type}",
                hint=f"select a text for it, such as DATE_FORMAT({found}, 'yyyy-MM-dd') or CAST({found} AS VARCHAR)",
            )
        columns.append(found)
    if len(set(columns)) == len(schema):
        raise SinkError(f"sink {name!r} is partitioned by all of its columns, so its files would have none")
    return tuple(dict.fromkeys(columns))


def _has_name(kind: pa.DataType) -> bool:
    """Whether values of a type are the same text everywhere."""
    return any(
        is_so(kind) for is_so in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
    )


def folder_name(column: str, value: str | None) -> str:
    """
    >>> folder_name("hm", "12:30"), folder_name("k", None)
    ('hm=12%3A30', 'k=__HIVE_DEFAULT_PARTITION__')
    """
    text = NULL if value is None or value == "" else _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)
    return f"{column}={text}"


def parted(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[Path, pa.Array]]:
    """The folder of every value of some columns, and the numbers of its rows, in their order."""
    coded = [_text(batch.column(name)).dictionary_encode(null_encoding="encode") for name in columns]
    codes = np.stack([one.indices.to_numpy(zero_copy_only=False) for one in coded])
    _, first, group = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(group.ravel(), minlength=len(first)))
    for row, rows in zip(first.tolist(), np.split(order, ends[:-1]), strict=True):
        names = [
            folder_name(name, one.dictionary[one.indices[row].as_py()].as_py())
            for name, one in zip(columns, coded, strict=True)
        ]
        yield Path(*names), pa.array(rows)


class PartitionedSink:
    """Writes into a hidden folder beside the target. On close that takes the target's place, or its files are moved
    into the target if they are to be added."""

    def __init__(
        self, target: Path, columns: Sequence[str], schema: pa.Schema, suffix: str, mode: str, make: MakeWriter
    ) -> None:
        self._target, self._columns, self._suffix, self._mode, self._make = target, tuple(columns), suffix, mode, make
        self._schema = pa.schema([field for field in schema if field.name not in columns])
        if mode == "overwrite" and target.exists():
            check_replaceable(target, columns)
        self._temporary = target.with_name(f".{target.name}.{uuid4().hex[:8]}.tmp")
        self._temporary.mkdir(parents=True)
        self._open: dict[Path, Writer] = {}  # the one that was written to last is the last
        self._parts = 0

    def write(self, batch: pa.RecordBatch) -> None:
        rows = batch.select(self._schema.names)
        with writable(self._target):
            for folder, numbers in parted(batch, self._columns):
                self._writer(self._temporary / folder).write(rows.take(numbers))

    def close(self) -> None:
        with writable(self._target):
            self._finish()

    def _finish(self) -> None:
        for writer in self._open.values():
            writer.close()
        if self._mode != "append" or not self._target.exists():
            if self._target.exists():
                shutil.rmtree(self._target)
            self._temporary.replace(self._target)
            return
        for path in sorted(self._temporary.rglob(f"part-*{self._suffix}")):
            final = self._target / path.relative_to(self._temporary)
            final.parent.mkdir(parents=True, exist_ok=True)
            path.replace(final)
        shutil.rmtree(self._temporary)

    def abort(self) -> None:
        for writer in self._open.values():
            writer.discard()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _writer(self, folder: Path) -> Writer:
        writer = self._open.pop(folder, None)
        if writer is None:
            if len(self._open) >= OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            folder.mkdir(parents=True, exist_ok=True)
            writer = self._make(folder / f"part-{self._parts:05d}-{uuid4().hex[:8]}{self._suffix}", self._schema)
            self._parts += 1
        self._open[folder] = writer
        return writer


def _text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())


def is_partitioned(target: Path, columns: Sequence[str]) -> bool:
    """Whether a folder holds nothing but what is partitioned by these columns."""
    if not target.is_dir() or not columns:
        return False
    rows = [one for one in target.iterdir() if not _BESIDE.fullmatch(one.name)]
    return all(one.is_dir() and one.name.startswith(f"{columns[0]}=") for one in rows)


def check_replaceable(target: Path, columns: Sequence[str]) -> None:
    """Overwriting removes a folder that is partitioned in the same way; no other."""
    if is_partitioned(target, columns):
        return
    raise SinkError(
        f"{target} is not a folder that is partitioned by {columns[0]}, and overwrite would remove it",
        hint="remove it yourself, or choose another path",
    )
