"""Rows in a folder for each value of some columns, as Hive and Spark lay them out: day=2026-01-31/hour=12/part.csv."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SinkError
from watersmeet.model.names import column_named, columns_hint

NULL = "__HIVE_DEFAULT_PARTITION__"
# What Spark and Hive write as %3A and the like in names of folders.
_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


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


def parted(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
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
        yield "/".join(names), pa.array(rows)


def _text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())
