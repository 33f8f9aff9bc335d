"""Expressions over whole columns: Arrow in, Arrow out, with SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import cache, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.model.casts import cast, try_cast
from watersmeet.model.types import sql_type
from watersmeet.operators.scalar import (
    arithmetic,
    calendar,
    characters,
    comparisons,
    digests,
    formatting,
    instants,
    json_texts,
    list_elements,
    lists,
    numbers,
    pieces,
    regex,
    subscripts,
    text,
    time_texts,
)
from watersmeet.operators.scalar.user import call_user
from watersmeet.operators.scalar.values import Function, Value, as_array, convert
from watersmeet.plan.expressions import Aggregate, Call, Column, EventTime, Expression, Literal, OverCall, to_text

Columns = Callable[[Column], pa.Array]
EventTimes = Callable[[], pa.Array]

# NULL in any argument of these makes the result NULL.
_FAMILIES = (
    arithmetic, numbers, text, pieces, characters, regex, formatting, digests, json_texts, instants, calendar,
    time_texts, lists, list_elements, subscripts,
)  # fmt: skip
# Constants are cast as columns are.
_CASTS: dict[str, Function] = {
    "cast": lambda args, call: cast(args[0], call.type),
    "try_cast": lambda args, call: try_cast(args[0], call.type),
}
_STRICT: dict[str, Function] = _CASTS | {
    name: function for one in _FAMILIES for name, function in one.FUNCTIONS.items()
}
_LENIENT: dict[str, Function] = comparisons.FUNCTIONS | {
    name: function
    for one in (text, lists, list_elements, subscripts, json_texts)
    for name, function in one.LENIENT.items()
}


# What takes longer over a text than to find out whether the same one was there before.
_DEAR = frozenset({"split_part", "strptime", "try_strptime", *regex.FUNCTIONS})
ENOUGH = 1024  # rows of which many may have the same text


def columns_in(data: pa.RecordBatch) -> Columns:
    return lambda column: data.column(column.name)


def evaluate(expression: Expression, columns: Columns, length: int, event_times: EventTimes | None = None) -> pa.Array:
    """The value of an expression for every row, in exactly the expression's type."""
    if isinstance(expression, Column):  # as most are, and batches may be small
        column = columns(expression)
        if isinstance(column, pa.Array) and column.type == expression.type:
            return column
    return _array(expression, EvaluatedRows(columns, length, event_times))


def evaluate_all(
    expressions: Iterable[Expression], columns: Columns, length: int, event_times: EventTimes | None = None
) -> list[pa.Array]:
    """The same of several expressions, which share what is found out about the columns."""
    rows = EvaluatedRows(columns, length, event_times)
    return [_array(expression, rows) for expression in expressions]


def evaluate_predicate(
    predicate: Expression, columns: Columns, length: int, event_times: EventTimes | None = None
) -> npt.NDArray[np.bool_]:
    """Which rows satisfy a predicate; false and NULL both reject."""
    return _mask(_array(predicate, EvaluatedRows(columns, length, event_times)))


def _mask(condition: pa.Array) -> npt.NDArray[np.bool_]:
    known = pc.fill_null(condition, False) if condition.null_count else condition
    kept: npt.NDArray[np.bool_] = known.to_numpy(zero_copy_only=False)
    return kept


@dataclass(frozen=True)
class EvaluatedRows:
    """The rows an expression is evaluated for."""

    columns: Columns
    length: int
    event_times: EventTimes | None
    _encoded: dict[Column, pa.DictionaryArray | None] = field(default_factory=dict)

    def each_once(self, column: Column) -> pa.DictionaryArray | None:
        """A column of texts as its different values and which of them a row has, NULL being one; None if rows are few,
        or those at the beginning have hardly a text in common."""
        if column not in self._encoded:
            values = self.columns(column)
            sample = values[:ENOUGH] if self.length >= ENOUGH and values.type == pa.string() else None
            common = sample is not None and len(sample.unique()) <= ENOUGH * 3 // 4
            self._encoded[column] = values.dictionary_encode("encode") if common else None
        return self._encoded[column]

    def where(self, kept: npt.NDArray[np.bool_]) -> EvaluatedRows:
        mask = pa.array(kept)
        times = self.event_times
        return EvaluatedRows(
            # Each filter is a copy, and an expression may name a column often.
            cache(lambda column: self.columns(column).filter(mask)),
            int(kept.sum()),
            None if times is None else (lambda: times().filter(mask)),
        )


def _array(expression: Expression, rows: EvaluatedRows) -> pa.Array:
    return as_array(convert(_value(expression, rows), expression.type), rows.length)


def _value(expression: Expression, rows: EvaluatedRows) -> Value:
    match expression:
        case Column():
            return as_array(rows.columns(expression), rows.length)
        case Literal(value=value, type=kind):
            return pa.scalar(value, kind)
        case EventTime():
            if rows.event_times is None:
                raise TypeError("event_time() was asked for where rows have no event times")
            return rows.event_times()
        case Call(function=function) if function in _LAZY:
            return _LAZY[function](expression, rows)
        case Call():
            return _applied(expression, rows)
        case Aggregate() | OverCall():
            raise TypeError(f"{to_text(expression)} is of several rows; it has no value for a single one")


def _applied(call: Call, rows: EvaluatedRows) -> Value:
    if call.user is not None:
        return call_user(call.user, [_array(arg, rows) for arg in call.args], rows.length)
    function = _STRICT.get(call.function) or _LENIENT.get(call.function)
    if function is None:
        raise TypeError(f"there is no function {call.function!r}")
    if call.function in _DEAR:
        match call.args:
            case (Column() as column, *others) if all(isinstance(other, Literal) for other in others):
                texts = rows.each_once(column)
                if texts is not None:
                    return _once_a_text(call, column, texts)
    args = [_value(arg, rows) for arg in call.args]
    # Most of Arrow's functions have no kernel for a NULL without a type.
    if call.function in _STRICT and any(pa.types.is_null(arg.type) for arg in args):
        return pa.scalar(None, call.type)
    try:
        return convert(function(args, call), call.type)
    except pa.ArrowCapacityError:
        raise _data_error(call, "the texts of a batch are longer than 2 GB together") from None
    except pa.ArrowInvalid as error:
        known = _known(args) if call.function in _STRICT else None
        if known is None:
            raise _data_error(call, str(error)) from None
    # What stands beside a NULL need not be right: the result is NULL there.
    return _where_known(call, [_value(arg, rows.where(known)) for arg in call.args], known)


def _once_a_text(call: Call, column: Column, texts: pa.DictionaryArray) -> Value:
    """A function of a column and constants, called for every value that occurs."""
    values = texts.dictionary
    made = _applied(call, EvaluatedRows(lambda _: values, len(values), None, {column: None}))
    return made if isinstance(made, pa.Scalar) else as_array(made, len(values)).take(texts.indices)


def _known(args: list[Value]) -> npt.NDArray[np.bool_] | None:
    """Where no argument is NULL, if one of several is somewhere."""
    columns = [arg for arg in args if isinstance(arg, pa.Array)]
    if len(args) < 2 or not any(column.null_count for column in columns):
        return None
    known: npt.NDArray[np.bool_] = np.logical_and.reduce(
        [column.is_valid().to_numpy(zero_copy_only=False) for column in columns]
    )
    return known


def _where_known(call: Call, args: list[Value], known: npt.NDArray[np.bool_]) -> Value:
    try:
        made = as_array(convert(_STRICT[call.function](args, call), call.type), int(known.sum()))
    except pa.ArrowInvalid as error:
        raise _data_error(call, str(error)) from None
    return made.take(pa.array(np.cumsum(known) - 1, mask=~known))


def _data_error(call: Call, reason: str) -> DataError:
    # This word is all that Arrow's checked kernels say.
    if reason == "overflow":
        return DataError(
            f"{to_text(call)} overflows: a result does not fit in {sql_type(call.type)}",
            hint="cast an operand to a wider type, for example DOUBLE or DECIMAL(38, 0)",
        )
    detail = reason.split("\n", 1)[0].rstrip(".")
    if call.function == "cast":
        return DataError(
            f"CAST({to_text(call.args[0])} AS {sql_type(call.type)}) fails for some row: {detail}",
            hint="write TRY_CAST, which makes them NULL, or guard the cast with CASE WHEN … THEN … END",
        )
    return DataError(f"{to_text(call)} fails for some row: {detail}")


# What follows evaluates an argument only where it decides the result, so that a guard such as
# CASE WHEN x > 0 THEN … protects its branch. Everything is tried on all rows first, which is faster
# and nearly always right.


def _conjunction(call: Call, rows: EvaluatedRows) -> Value:
    return _connected(call, rows, pc.and_kleene, decided=False)


def _disjunction(call: Call, rows: EvaluatedRows) -> Value:
    return _connected(call, rows, pc.or_kleene, decided=True)


def _connected(call: Call, rows: EvaluatedRows, connect: Callable[[Value, Value], Value], decided: bool) -> Value:
    try:
        return reduce(connect, [convert(_value(arg, rows), pa.bool_()) for arg in call.args])
    except DataError:
        result = _array(call.args[0], rows)
        for arg in call.args[1:]:
            # NULL decides nothing: what follows may still make AND false, or OR true.
            open_rows = _mask(pc.fill_null(pc.not_equal(result, decided), True))
            result = connect(result, _where(arg, rows, open_rows, pa.bool_()))
        return result


def _negation(call: Call, rows: EvaluatedRows) -> Value:
    return pc.invert(convert(_value(call.args[0], rows), pa.bool_()))


def _case(call: Call, rows: EvaluatedRows) -> Value:
    *pairs, otherwise = call.args
    try:
        conditions = [_array(condition, rows) for condition in pairs[0::2]]
        values = [convert(_value(value, rows), call.type) for value in (*pairs[1::2], otherwise)]
    except DataError:
        return _case_by_branch(call, rows)
    typed = [convert(condition, pa.bool_()) for condition in conditions]
    return pc.case_when(pc.make_struct(*typed), *values)


def _case_by_branch(call: Call, rows: EvaluatedRows) -> Value:
    """Each condition for the rows no earlier one took, each value for the rows its condition took."""
    result = pa.nulls(rows.length, call.type)
    undecided = np.ones(rows.length, dtype=np.bool_)
    for condition, value in zip(call.args[0:-1:2], call.args[1:-1:2], strict=True):
        taken = _mask(_where(condition, rows, undecided, pa.bool_()))
        result = _filled(result, taken, value, rows)
        undecided &= ~taken
    return _filled(result, undecided, call.args[-1], rows)


def _where(expression: Expression, rows: EvaluatedRows, kept: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """The expression for some rows, NULL for the others."""
    return _filled(pa.nulls(rows.length, kind), kept, expression, rows)


def _filled(result: pa.Array, kept: npt.NDArray[np.bool_], expression: Expression, rows: EvaluatedRows) -> pa.Array:
    values = convert(_array(expression, rows.where(kept)), result.type)
    return pc.replace_with_mask(result, pa.array(kept), values)


def _coalesce(call: Call, rows: EvaluatedRows) -> Value:
    try:
        return pc.coalesce(*[convert(_value(arg, rows), call.type) for arg in call.args])
    except DataError:
        result = convert(_array(call.args[0], rows), call.type)
        for arg in call.args[1:]:
            result = _filled(result, _mask(result.is_null()), arg, rows)
        return result


_LAZY: dict[str, Callable[[Call, EvaluatedRows], Value]] = {
    "and": _conjunction,
    "or": _disjunction,
    "not": _negation,
    "case": _case,
    "coalesce": _coalesce,
}
