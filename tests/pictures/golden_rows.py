"""The catalog of the golden plans with a few rows in each of its streams and tables."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from random import Random

import pyarrow as pa

from tests.plans import golden_catalog
from watersmeet.io.sources import TableSource
from watersmeet.model.catalog import Catalog, Stream, Table

NOON = dt.datetime(2026, 1, 1, 12)
ROWS = 10


def catalog_with_rows(seed: int = 1) -> Catalog:
    """All but the streams whose event time is the moment of arrival."""
    random, catalog = Random(seed), golden_catalog()
    for name in ("a", "b", "c", "zoned", "epochs", "dim", "rates"):
        relation = catalog.find(name)
        assert isinstance(relation, Stream | Table)
        time = relation.time if isinstance(relation, Stream) else None
        columns = [_column(field, field.name == time, random) for field in relation.schema]
        source = TableSource(pa.table(columns, schema=relation.schema), relation.schema)
        catalog.add(replace(relation, source=source), replace=True)
    return catalog


def _column(field: pa.Field, is_time: bool, random: Random) -> pa.Array:
    kind, numbers = field.type, [random.randrange(4) for _ in range(ROWS)]
    if is_time:
        seconds = sorted(random.randrange(60) for _ in range(ROWS))
        return pa.array([NOON + dt.timedelta(seconds=second) for second in seconds]).cast(kind)
    if pa.types.is_string(kind):
        return pa.array(["insert" if field.name == "op" else f"s{number}" for number in numbers], kind)
    if pa.types.is_date(kind):
        return pa.array([NOON.date()] * ROWS, kind)
    return pa.array([Decimal(number) for number in numbers] if pa.types.is_decimal(kind) else numbers).cast(kind)
