"""Rows over HTTP: lines of JSON, an array of JSON, or a stream of Arrow. All rows in the body of a POST are taken, or
there is an error that says which is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import isinf
from typing import Any

import pyarrow as pa

from watersmeet.errors import WatersmeetError
from watersmeet.io.row_texts import json_objects
from watersmeet.serve.arrow_body import read_arrow
from watersmeet.serve.http_error import HttpError

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
JSON = "application/json"
KINDS = f"send lines of JSON as {NDJSON[0]}, an array of JSON as {JSON}, or a stream of Arrow as {ARROW}"

# Checks rows of a stream in any form and gives them as batches.
Check = Callable[[Any], list[pa.RecordBatch]]


def decoded(body: bytes, content_type: str, schema: pa.Schema, check: Check) -> pa.RecordBatch:
    """The rows of a body as one batch of a stream. `schema` is what its rows have, `check` refuses others."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == ARROW:
        return _as_one(_checked(read_arrow(body), check), schema)
    has_decimals = any(pa.types.is_decimal(field.type) for field in schema)
    if kind in NDJSON:
        rows = _of_lines(body, has_decimals)
    elif kind == JSON:
        rows = _of_array(body, has_decimals)
    else:
        message = f"{kind!r} is no form of rows" if kind else "the request does not say in which form its rows are"
        raise HttpError(415, message, f"{KINDS}, in the header Content-Type")
    return _as_one(_checked(_floats(rows, schema) if has_decimals else rows, check), schema)


def _as_one(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=schema)


# ---- JSON -----------------------------------------------------------------------------------------------------------


def _of_lines(body: bytes, has_decimals: bool) -> list[Any]:
    rows: list[Any] = []
    for number, line in enumerate(_text(body).split("\n"), 1):
        if line and not line.isspace():
            rows.append(_object(_parsed(line, has_decimals, f"line {number}"), len(rows) + 1))
    return rows


def _of_array(body: bytes, has_decimals: bool) -> list[Any]:
    found = _parsed(_text(body), has_decimals, "the body")
    rows = found if isinstance(found, list) else [found]
    return [_object(row, number) for number, row in enumerate(rows, 1)]


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise HttpError(400, f"line {line} is not UTF-8; no row of the body was taken") from None


def _parsed(text: str, has_decimals: bool, where: str) -> Any:
    try:
        return (_WITH_DECIMALS if has_decimals else _WITH_FLOATS).decode(text)
    except RecursionError:
        raise HttpError(400, f"{where} is nested too deeply; no row was taken") from None
    except json.JSONDecodeError as error:
        raise HttpError(400, f"{where} is not JSON: {error}; no row was taken", KINDS) from None
    except _NumberError as error:
        raise HttpError(400, f"{where}: {error}; no row was taken") from None
    except ValueError:  # of an integer that Python does not read
        raise HttpError(400, f"{where} has a number of too many digits; no row was taken") from None


class _NumberError(ValueError):
    """A number that no column holds."""


def _finite(text: str) -> float:
    """A number of JSON that a DOUBLE holds: it must not become infinite unseen."""
    value = float(text)
    if isinf(value):
        raise _NumberError(f"{text[:40]} is larger than a DOUBLE can be")
    return value


def _no_constant(name: str) -> Any:
    raise _NumberError(f"JSON has no {name}; null is NULL")


# Made once: to make one takes longer than to read a line.
_WITH_FLOATS = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
_WITH_DECIMALS = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)


def _object(row: Any, number: int) -> Any:
    if not isinstance(row, dict):
        raise HttpError(
            400,
            f"row {number} is {json.dumps(row, default=str)[:40]}, not an object; no row was taken",
            'a row is an object with a value for each column, such as {"k": 1, "ts": "2026-01-31 12:00:00"}',
            row=number,
        )
    return row


def _floats(rows: list[Any], schema: pa.Schema) -> list[Any]:
    """Numbers were read as decimals, so that columns of decimals keep all digits; other columns have floats."""
    others = {field.name for field in schema if not pa.types.is_decimal(field.type)}

    def value(name: str, given: Any) -> Any:
        return _finite(str(given)) if isinstance(given, Decimal) and name in others else given

    made: list[Any] = []
    for row in rows:
        try:
            made.append({name: value(name, given) for name, given in row.items()})
        except _NumberError as error:
            raise HttpError(400, f"row {len(made) + 1}: {error}; no row was taken", row=len(made) + 1) from None
    return made


# ---- which row is wrong ---------------------------------------------------------------------------------------------


def _checked(rows: list[Any] | pa.Table, check: Check) -> list[pa.RecordBatch]:
    try:
        return check(rows)
    except WatersmeetError as error:
        if len(rows) < 2:
            raise HttpError.of(400, error, **({"row": 1} if len(rows) else {})) from None
        number, why = _first_wrong(rows, check, error)
        raise HttpError(400, f"row {number}: {why.message}; no row was taken", why.hint, row=number) from None


def _first_wrong(rows: list[Any] | pa.Table, check: Check, error: WatersmeetError) -> tuple[int, WatersmeetError]:
    """The first row with which it fails, and why."""
    right, wrong = 0, len(rows)  # so many rows from the front are right, and so many are not
    while wrong - right > 1:
        middle = (right + wrong) // 2
        try:
            check(_some(rows, 0, middle))
            right = middle
        except WatersmeetError as why:
            wrong, error = middle, why
    try:
        check(_some(rows, wrong - 1, wrong))
    except WatersmeetError as why:
        error = why
    return wrong, error


def _some(rows: list[Any] | pa.Table, start: int, end: int) -> list[Any] | pa.Table:
    return rows[start:end] if isinstance(rows, list) else rows.slice(start, end - start)


def rows_json(rows: pa.Table) -> str:
    """An array of objects."""
    return "[" + ",".join(line for batch in rows.to_batches() for line in json_objects(batch).to_pylist()) + "]"


def arrow_stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def wants_arrow(accept: str) -> bool:
    """
    >>> wants_arrow("application/vnd.apache.arrow.stream"), wants_arrow("application/json, */*"), wants_arrow("")
    (True, False, False)
    """
    return any(one.partition(";")[0].strip().lower() == ARROW for one in accept.split(","))
