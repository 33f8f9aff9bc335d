"""CAST and TRY_CAST. The table of what comes out is in docs/language.md.

An instant becomes a date, a timestamp or text by what clocks show in the zone of its type, which is the query's. A
date, and text without a zone, become instants by the same clocks; a timestamp is taken as UTC.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.instants import instants
from watersmeet.model.casts.numbers import numbers
from watersmeet.model.casts.outcome import Outcome, misfit
from watersmeet.model.casts.reading import read
from watersmeet.model.casts.writing import written
from watersmeet.model.types import is_instant, is_number, is_text

# A column, or a constant.
Value: TypeAlias = "pa.Array | pa.Scalar"


def cast(value: Value, target: pa.DataType) -> Value:
    """Raises ArrowInvalid, with a few words, if some value does not fit."""
    if value.type == target:
        return value
    if isinstance(value, pa.Scalar):
        return cast(_column(value), target)[0]
    return _outcome(value, target).checked(value)


def try_cast(value: Value, target: pa.DataType) -> Value:
    """CAST, with NULL for what does not fit."""
    if value.type == target:
        return value
    if isinstance(value, pa.Scalar):
        return try_cast(_column(value), target)[0]
    made = _outcome(value, target)
    if made.wrong is None:
        return made.values
    return pc.if_else(pa.array(made.wrong), pa.scalar(None, target), made.values)


def _column(value: pa.Scalar) -> pa.Array:
    return pa.repeat(value, 1) if value.is_valid else pa.nulls(1, value.type)


def _outcome(values: pa.Array, target: pa.DataType) -> Outcome:
    source = values.type
    if pa.types.is_null(source):
        return Outcome(pa.nulls(len(values), target))
    if is_text(source):
        return read(pc.cast(values, pa.string()), target)
    if is_text(target):
        made = written(values)
        return Outcome(pc.cast(made.values, target), made.wrong, made.reason)
    if is_instant(source) and is_instant(target):
        return instants(values, target)
    if is_number(source) or pa.types.is_boolean(source):
        return Outcome(*numbers(values, target), misfit(target))
    return Outcome(pc.cast(values, target))
