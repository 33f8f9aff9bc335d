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
MOST_GROUPS = 2**62  # numbers of groups are no larger
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


def parted(batch: pa.RecordBatch, columns: Sequence[str], kept: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The folder of every value of some columns, and its rows, in their order, with the columns that are kept."""
    if not batch.num_rows:
        return
    rows = batch.select(kept)
    coded = [_text(batch.column(name)).dictionary_encode(null_encoding="encode") for name in columns]
    group, groups = np.zeros(batch.num_rows, np.int64), 1
    for one in coded:
        groups *= len(one.dictionary)
        if groups > MOST_GROUPS:
            found, group = np.unique(group, return_inverse=True)
            groups = len(found) * len(one.dictionary)
        group = group * len(one.dictionary) + one.indices.to_numpy(zero_copy_only=False)
    # Rows of one folder mostly come one after the other: these are no copy.
    in_turn = bool((group[1:] >= group[:-1]).all())
    order = np.arange(group.size) if in_turn else np.argsort(group, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(group[order])) + 1, group.size)
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        names = [
            folder_name(name, one.dictionary[one.indices[order[start]].as_py()].as_py())
            for name, one in zip(columns, coded, strict=True)
        ]
        yield "/".join(names), rows.slice(start, end - start) if in_turn else rows.take(pa.array(order[start:end]))


def _text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())
