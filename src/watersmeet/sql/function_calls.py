"""Calls of functions: those of the language by any of their names, and those that a user has brought."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import OptionError, underline
from watersmeet.model.types import is_number, is_text
from watersmeet.model.zones import check_zone, zoned_type
from watersmeet.plan.expressions import Call, EventTime, Expression, Literal
from watersmeet.plan.functions import TRUNCATION_UNITS, near_name, scalar_name
from watersmeet.plan.nested_functions import STRUCTS
from watersmeet.plan.time_functions import unit_named
from watersmeet.plan.user_functions import UserFunction
from watersmeet.sql import literals
from watersmeet.sql.clause_binder import ClauseBinder
from watersmeet.sql.equivalents import equivalent
from watersmeet.sql.foreign import FUNCTIONS as FOREIGN
from watersmeet.sql.json_calls import made_json
from watersmeet.sql.months import months_later
from watersmeet.sql.refused_functions import REFUSED
from watersmeet.sql.scope import event_time_type
from watersmeet.sql.syntax import Subquery, span_of


def bind_function(binder: ClauseBinder, node: exp.Anonymous) -> Expression:
    name = node.name.lower()
    if (brought := binder.own_functions.get(name)) is not None:
        located, args = as_declared(binder, brought, binder.bind_all(node.expressions), node)
        return Call(located.call_name, tuple(args), located.result, located)
    if (read := _BY_NAME.get(name)) is not None and (bound := read(binder, node)) is not None:
        return bound
    if (meant := _equivalent(binder, node)) is not None:
        return binder.bind(meant)
    scalar = scalar_name(name)
    if scalar is None:
        raise _unknown(binder, node)
    if scalar in ("date_trunc", "date_diff"):
        _name_unit(binder, scalar, node)
    args = binder.bind_all(node.expressions)
    if scalar == "epoch_ms" and len(args) == 1 and pa.types.is_integer(args[0].type):
        # DuckDB's other way: a number of milliseconds is a time.
        us = binder.call("multiply", [args[0], Literal(1000, pa.int64())], node)
        return binder.call("make_timestamp", [us], node)
    if scalar in ("to_json", "json_array", "json_object"):
        return made_json(binder, scalar, args, node)
    if scalar == "format":
        _check_format(binder, args, node)
    return binder.call(scalar, args, node)


def as_declared(
    binder: ClauseBinder, brought: UserFunction, args: list[Expression], node: exp.Expr
) -> tuple[UserFunction, list[Expression]]:
    """A function that a user has brought, with its place in the text and its types in the zone of the query; and its
    arguments, constants among them of these types."""
    place, zone = span_of(node), binder.scope.zone
    located = replace(
        brought,
        place=underline(binder.scope.text.sql, place) if place else "",
        arguments=tuple(zoned_type(one, zone) for one in brought.arguments),
        result=zoned_type(brought.result, zone),
    )
    try:
        if len(args) == len(located.arguments):
            pairs = zip(args, located.arguments, strict=True)
            args = [literals.fitted(arg, kind) if isinstance(arg, Literal) else arg for arg, kind in pairs]
        located.check([arg.type for arg in args])
    except (TypeError, ValueError) as error:
        raise binder.error(str(error), node) from None
    return located, args


def _equivalent(binder: ClauseBinder, node: exp.Anonymous) -> exp.Expr | None:
    try:
        return equivalent(node)
    except ValueError as error:
        raise binder.error(str(error), node) from None


def _unknown(binder: ClauseBinder, node: exp.Anonymous) -> Exception:
    name = node.name.lower()
    near = near_name(name, binder.own_functions)
    hint = REFUSED.get(name) or FOREIGN.get(name) or (f"did you mean {near}?" if near else None)
    return binder.error(f"there is no function {node.name}", node, hint=hint)


def _event_time(binder: ClauseBinder, node: exp.Anonymous) -> Expression:
    if node.expressions:
        raise binder.error("event_time() takes no arguments: it is the newest member's time", node)
    if not binder.event_time:
        raise binder.error(
            f"event_time() cannot stand in {binder.clause}: it is known once a combination is complete",
            node,
            hint="compare the time columns of the streams instead",
        )
    if all(one.time is None for one in binder.scope.inputs):
        raise binder.error(
            "event_time() is the time of the newest row, and rows of an answer that changes have none",
            node,
            hint="select a time inside the subquery, for example MAX(ts) AS newest",
        )
    return EventTime(event_time_type(binder.scope.inputs, binder.scope.zone))


def _grouping(binder: ClauseBinder, node: exp.Anonymous) -> Expression | None:
    if not (binder.aggregates and node.expressions):
        return None
    return Call("grouping", tuple(binder.bind_all(node.expressions)), pa.int64())


def _text_of_time(binder: ClauseBinder, node: exp.Anonymous) -> None:
    """TO_CHAR(ts, form) has an equivalent; of numbers it is refused."""
    if node.expressions and is_number(binder.bind(node.expressions[0]).type):
        raise binder.error(
            "TO_CHAR is of times, not of numbers",
            node,
            hint="write PRINTF('%.2f', x), FORMAT('{:,}', x) or CAST(x AS STRING)",
        )


def _moved(binder: ClauseBinder, node: exp.Anonymous) -> Expression | None:
    """DATE_ADD and DATE_SUB: of an interval, or of a number of days."""
    if len(node.expressions) != 2:
        return None
    backwards = node.name.lower() == "date_sub"
    start, interval = node.expressions
    if (moved := months_later(binder, start, interval, node, backwards=backwards)) is not None:
        return moved
    value, by = binder.bind_all(node.expressions)
    if not pa.types.is_integer(by.type):
        return binder.call("subtract" if backwards else "add", [value, by], node)
    if isinstance(value, Literal) and is_text(value.type):
        value = binder.converted(value, pa.date32(), node)
    return binder.call("date_plus_days", [value, binder.call("negate", [by], node) if backwards else by], node)


def _instant(binder: ClauseBinder, node: exp.Anonymous) -> Expression | None:
    """TO_TIMESTAMP of a text, or of seconds since 1970."""
    if len(node.expressions) != 1:
        return None
    value = binder.bind(node.expressions[0])
    if not is_number(value.type):
        return binder.converted(value, pa.timestamp("us"), node)
    us = binder.call("multiply", [value, Literal(1_000_000, pa.int64())], node)
    if not pa.types.is_integer(us.type):
        us = binder.converted(binder.call("round", [us], node), pa.int64(), node)
    made = binder.call("make_timestamp", [us], node)
    return binder.converted(made, zoned_type(pa.timestamp("us", tz="UTC"), binder.scope.zone), node)


# What is no plain function of its arguments; None where the next rule has it.
def in_zone(binder: ClauseBinder, node: exp.AtTimeZone) -> Expression:
    """`ts AT TIME ZONE 'America/New_York'`: of an instant what clocks show there, of a reading the instant."""
    value, zone = binder.bind_all([node.this, node.args["zone"]])
    if not (isinstance(zone, Literal) and isinstance(zone.value, str)):
        raise binder.error("AT TIME ZONE needs its zone as a constant", node, hint="write 'America/New_York'")
    try:
        check_zone(zone.value)
    except OptionError as error:
        raise binder.error(error.message.partition(": ")[2], node, hint=error.hint) from None
    if isinstance(value, Literal) and is_text(value.type):
        value = binder.converted(value, pa.timestamp("us"), node)
    made = binder.call("at_time_zone", [value, zone], node)
    assert isinstance(made, Call)
    return made if made.type.tz is None else replace(made, type=zoned_type(made.type, binder.scope.zone))


def struct(binder: ClauseBinder, node: exp.Expr) -> Expression:
    """`STRUCT(x, y AS name)`, `NAMED_STRUCT('name', x)`, `STRUCT_PACK(name := x)` and `{'name': x}`."""
    given = list(node.expressions)
    if node.name.lower() == "named_struct":
        if len(given) % 2 or not all(isinstance(one, exp.Literal) and one.is_string for one in given[::2]):
            raise binder.error(
                "NAMED_STRUCT takes a name and a value for each field", node, hint="write NAMED_STRUCT('a', x)"
            )
        pairs = [(one.name, value) for one, value in zip(given[::2], given[1::2], strict=True)]
    else:
        pairs = [_named_field(one, place) for place, one in enumerate(given, start=1)]
    names = [name for name, _ in pairs]
    if not names or len({name.lower() for name in names}) < len(names):
        raise binder.error("the fields of a struct have names that differ", node, hint="write STRUCT(x AS a, y AS b)")
    bound = binder.bind_all([value for _, value in pairs])
    values = [Literal(None, pa.string()) if one == literals.NULL else one for one in bound]
    args = [part for name, value in zip(names, values, strict=True) for part in (Literal(name, pa.string()), value)]
    kind = pa.struct([pa.field(name, value.type) for name, value in zip(names, values, strict=True)])
    return Call("named_struct", tuple(args), kind)


def _array(binder: ClauseBinder, node: exp.Anonymous) -> Expression:
    """Spark's `array(x, y)`."""
    if any(isinstance(one, Subquery) for one in node.expressions):
        raise binder.error(
            "ARRAY goes around values, not around a query", node, hint="write (SELECT ARRAY_AGG(x) FROM …)"
        )
    return binder.call("list_value", binder.bind_all(node.expressions), node)


def _named_field(node: exp.Expr, place: int) -> tuple[str, exp.Expr]:
    """A field of a struct as it is written, and its name: of a column its own, else by its place as in Spark."""
    if isinstance(node, exp.Alias):
        return node.alias, node.this
    if isinstance(node, exp.PropertyEQ):
        return node.this.name, node.expression
    return (node.name if isinstance(node, exp.Column | exp.Dot) else f"col{place}"), node


_BY_NAME: dict[str, Callable[[ClauseBinder, exp.Anonymous], Expression | None]] = {
    **dict.fromkeys(STRUCTS, struct),
    "array": _array,
    "event_time": _event_time,
    "grouping": _grouping,
    "to_char": _text_of_time,
    "date_add": _moved,
    "date_sub": _moved,
    "to_timestamp": _instant,
}


def _name_unit(binder: ClauseBinder, function: str, node: exp.Anonymous) -> None:
    """A unit is a constant, in quotes or as a bare word; the operators know it by its one name."""
    unit = node.expressions[0] if node.expressions else None
    word = str(unit.this) if isinstance(unit, exp.Literal) else unit.name if isinstance(unit, exp.Column) else ""
    found = unit_named(word)
    if found is None or unit is None:
        times = "ts" if function == "date_trunc" else "a.ts, b.ts"
        raise binder.error(
            f"{function.upper()} needs one of its units as a text constant",
            node,
            hint=f"the units are {', '.join(TRUNCATION_UNITS)}; write {function.upper()}('hour', {times})",
        )
    unit.replace(exp.Literal.string(found))


def _check_format(binder: ClauseBinder, args: list[Expression], node: exp.Expr) -> None:
    form = args[0].value if args and isinstance(args[0], Literal) else None
    if isinstance(form, str) and len(args) > 1 and "{" not in form:
        raise binder.error(
            f"{form!r} has no {{}} in it, so that no value is written",
            node,
            hint="FORMAT is DuckDB's: FORMAT('{} is {:.1f}', s, x); with %s, as in PostgreSQL, write PRINTF",
        )
