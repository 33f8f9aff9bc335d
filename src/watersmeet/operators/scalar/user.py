"""Functions that a user has brought: called with whole columns, and what they give is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError
from watersmeet.model.plain_columns import plain_column
from watersmeet.model.time import cast_calendar_intervals
from watersmeet.model.types import family, sql_type
from watersmeet.operators.scalar.values import as_array, convert
from watersmeet.plan.user_functions import Body, UserFunction

_GUARD = "rows that it cannot take may be kept from it: CASE WHEN … THEN f(x) END"


def call_user(user: UserFunction, args: Sequence[pa.Array], rows: int) -> pa.Array:
    """A value for every row."""
    if rows == 0:
        return pa.array([], user.result)
    made = _ran(user, args)
    if isinstance(made, pa.ChunkedArray):
        made = made.combine_chunks()
    if isinstance(made, np.ndarray):
        made = _from_numpy(user, made)
    if isinstance(made, pa.Scalar):
        made = as_array(made, rows)
    if not isinstance(made, pa.Array):
        raise failed(user, f"returned {type(made).__name__}, not an array of pyarrow", _ARRAYS)
    if len(made) != rows:
        raise failed(user, f"returned {_values(len(made))} for {_rows(rows)}", "it gives one value for every row")
    return in_type(user, made)


_ARRAYS = "return what pyarrow.compute gives, a NumPy array, or pa.array([…])"


def _from_numpy(user: UserFunction, made: np.ndarray[Any, Any]) -> Any:
    try:
        return pa.array(made)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise failed(user, f"returned an array of NumPy that Arrow cannot take: {error}", _ARRAYS) from None


def _ran(user: UserFunction, args: Sequence[pa.Array]) -> Any:
    return _guarded(user, user.body, _as_declared(user, args))


def _as_declared(user: UserFunction, args: Sequence[pa.Array]) -> list[pa.Array]:
    return [convert(arg, kind) for arg, kind in zip(args, user.arguments, strict=True)]


def _guarded(user: UserFunction, body: Body, given: Sequence[pa.Array] = (), *, where: str = "") -> Any:
    try:
        return body(*given)
    except Exception as error:
        raise failed(user, f"raised {type(error).__name__}{where}: {error}", _GUARD) from error


def call_user_aggregate(user: UserFunction, args: Sequence[pa.Array]) -> pa.Scalar:
    """One value for the rows of a group."""
    if user.is_incremental:
        instance = new_instance(user)
        tell(user, instance, "add", args)
        return ask(user, instance)
    return _one_value(user, _ran(user, args))


def new_instance(user: UserFunction) -> Any:
    """What is told the values of one group as they come and go."""
    return _guarded(user, user.body, where=" when it was made")


def tell(user: UserFunction, instance: Any, method: Literal["add", "remove"], args: Sequence[pa.Array]) -> None:
    _guarded(user, getattr(instance, method), _as_declared(user, args), where=f" in {method}")


def ask(user: UserFunction, instance: Any) -> pa.Scalar:
    """What it says of the values that are in the group."""
    return _one_value(user, _guarded(user, instance.result, where=" in result"))


def _one_value(user: UserFunction, made: Any) -> pa.Scalar:
    if pa.types.is_nested(user.result):
        return _nested(user, made)
    if not isinstance(made, pa.Scalar):
        try:
            made = pa.scalar(made)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            raise failed(user, f"returned {type(made).__name__}, not one value", "return a number, a text, …") from None
    return in_type(user, pa.array([made.as_py()], made.type))[0]


def _nested(user: UserFunction, made: Any) -> pa.Scalar:
    """A list, a struct or a map, of Python or of Arrow; an array is a list. What is in it need not know its type."""
    given = made.to_pylist() if isinstance(made, pa.Array | pa.ChunkedArray) else made
    try:
        return pa.scalar(given.as_py() if isinstance(given, pa.Scalar) else given, user.result)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        what = f"returned {type(made).__name__}, which is no {sql_type(user.result)}: {error}"
        raise failed(user, what, "return a list, or a dict with the fields of a struct") from None


def in_type(user: UserFunction, made: pa.Array) -> pa.Array:
    """What was returned, in the type that was declared, if that holds it."""
    made = plain_column(made)
    if pa.types.is_interval(made.type):
        made = _counted(user, made)
    if made.type == user.result:
        return made
    if pa.types.is_null(made.type):
        return pa.nulls(len(made), user.result)
    mismatch = f"returned {sql_type(made.type)}, but it is declared to return {sql_type(user.result)}"
    if family(made.type) != family(user.result):
        raise failed(user, mismatch, f"cast it: pc.cast(result, pa.{user.result}()), or declare what it returns")
    try:
        return pc.cast(made, user.result)
    except pa.ArrowInvalid as error:
        raise failed(user, f"{mismatch}, which does not hold every value: {error}", "declare a wider type") from None


def _counted(user: UserFunction, intervals: pa.Array) -> pa.Array:
    try:
        return cast_calendar_intervals(intervals, "error")
    except DataError as error:
        raise failed(user, f"returned what cannot be counted: {error.message}", error.hint or "") from None


def failed(user: UserFunction, what: str, hint: str) -> DataError:
    place = f"\n{user.place}" if user.place else ""
    return DataError(f"the {user.kind} {user.name} {what}{place}", hint=hint)


def _values(count: int) -> str:
    return f"{count} value{'s' if count != 1 else ''}"


def _rows(count: int) -> str:
    return f"{count} row{'s' if count != 1 else ''}"
