"""Rows as tests write them, and whether two lots of rows are the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?$")
# Sums of floats depend on their order in the last digits.
_CLOSE = 1e-9


def on_day(value: Any, day: date) -> Any:
    """A time of day, as text, as that time on a day; anything else as it is.

    >>> on_day("9:05", date(2026, 1, 1))
    '2026-01-01 09:05:00'
    """
    if not isinstance(value, str) or not _TIME_OF_DAY.match(value.strip()):
        return value
    text = value.strip()
    text = text if text.index(":") == 2 else f"0{text}"
    return f"{day.isoformat()} {text if text.count(':') == 2 else text + ':00'}"


def dated(rows: Any, times: Iterable[str], day: date) -> Any:
    """Rows as dicts or a dict of columns, with their times of day on a day; other forms as they are."""
    if isinstance(rows, Mapping):
        return {name: _dated(value, day) if name in times else value for name, value in rows.items()}
    if isinstance(rows, list | tuple):
        return [dated(row, times, day) if isinstance(row, Mapping) else row for row in rows]
    return rows


def _dated(value: Any, day: date) -> Any:
    return [on_day(one, day) for one in value] if isinstance(value, list | tuple) else on_day(value, day)


def expected_rows(given: Any, schema: pa.Schema, day: date) -> list[Row]:
    """The rows that a test expects; each names the same columns of an answer, not necessarily all."""
    if isinstance(given, pa.Table | pa.RecordBatch):
        given = given.to_pylist()
    if isinstance(given, Mapping):
        given = [given]
    rows = [dict(row) for row in given]
    for row in rows:
        unknown = [name for name in row if name not in schema.names]
        if unknown:
            raise AssertionError(
                f"a row is expected with {unknown[0]!r}, which is no column of the answer: {', '.join(schema.names)}"
            )
        if row.keys() != rows[0].keys():
            raise AssertionError(f"the rows expected name different columns: {list(rows[0])} and {list(row)}")
    return [{name: _value(value, schema.field(name).type, day) for name, value in row.items()} for row in rows]


def _value(value: Any, kind: pa.DataType, day: date) -> Any:
    if not isinstance(value, str):
        return _comparable(value)
    if pa.types.is_timestamp(kind):
        return _comparable(datetime.fromisoformat(on_day(value, day)))
    if pa.types.is_decimal(kind):
        return Decimal(value)
    return date.fromisoformat(value) if pa.types.is_date(kind) else value


def given_rows(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    return [{name: _comparable(row[name]) for name in columns} for row in table.select(columns).to_pylist()]


def _comparable(value: Any) -> Any:
    """Times with and without a zone are both UTC."""
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def same_value(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        try:
            return math.isclose(one, other, rel_tol=_CLOSE) or (math.isnan(one) and math.isnan(other))
        except TypeError:
            return False
    return bool(one == other)


def same_row(one: Row, other: Row) -> bool:
    return all(same_value(value, other[name]) for name, value in one.items())


def unmatched(expected: Sequence[Row], given: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of each that the other has no equal for, as bags."""
    left = list(given)
    missing: list[Row] = []
    for row in expected:
        at = next((i for i, other in enumerate(left) if same_row(row, other)), None)
        if at is None:
            missing.append(row)
        else:
            del left[at]
    return missing, left
