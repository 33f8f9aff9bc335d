"""Connectors opened by name, and sources read as a host reads them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from watersmeet.io.connectors.contract import (
    Offsets,
    PartitionedSource,
    SinkOpening,
    SourceOpening,
    Start,
    TableOpening,
)
from watersmeet.io.connectors.registry import connector_named, opener_of


def source(kind: str, columns: pa.Schema | None = None, **options: str) -> Any:
    return _opened(kind, "source", SourceOpening("s", _dotted(options), columns))


def sink(kind: str, schema: pa.Schema, run: str = "0123456789ab", *, start: Start | None = None, **options: str) -> Any:
    return _opened(kind, "sink", SinkOpening("out", _dotted(options), schema, run, start=start))


def table(kind: str, columns: pa.Schema | None = None, **options: str) -> pa.Table:
    found = _opened(kind, "table", TableOpening("t", _dotted(options), columns))
    assert isinstance(found, pa.Table)
    return found


def read_all(
    source: PartitionedSource, after: Offsets, most_rows: int | None = None
) -> tuple[list[dict[str, Any]], Offsets]:
    """All rows behind an offset, read in steps, each of them twice and once by a copy elsewhere; and where they end."""
    rows: list[dict[str, Any]] = []
    while (upto := source.newest(after, most_rows)) != after:
        parts = source.splits(after, upto)
        first = [_rows(source, split) for split in parts]
        elsewhere = pickle.loads(pickle.dumps(source))
        assert first == [_rows(elsewhere, split) for split in parts]
        rows += [row for split in first for row in split]
        after = upto
    return rows, after


def _rows(source: PartitionedSource, split: Any) -> list[dict[str, Any]]:
    found = []
    for batch in source.read(split):
        assert batch.rows.schema.equals(source.schema)
        found += batch.rows.to_pylist()
    return found


def _opened(kind: str, half: str, opening: Any) -> Any:
    connector = connector_named(kind)
    assert connector is not None
    opener = opener_of(connector, half)
    assert opener is not None
    return opener(opening)


def _dotted(options: Mapping[str, str]) -> dict[str, str]:
    """fs__region='…' as fs.region = '…'."""
    return {name.replace("__", "."): value for name, value in options.items()}
