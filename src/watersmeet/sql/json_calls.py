"""JSON in expressions: which values are JSON by what they are made with, casts to it, and paths into it."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from watersmeet.model.types import is_text
from watersmeet.plan.expressions import Aggregate, Call, Expression, Literal
from watersmeet.plan.text_functions import GIVING_JSON
from watersmeet.sql import literals
from watersmeet.sql.clause_binder import ClauseBinder
from watersmeet.sql.syntax import JsonAccess, span_of

JSON_TYPES = ("JSON", "JSONB")


def is_json(value: Expression) -> bool:
    """Whether it is JSON by what it is made with, and no text that may be anything."""
    if isinstance(value, Call) and value.function in ("case", "coalesce"):
        chosen = value.args if value.function == "coalesce" else (*value.args[1:-1:2], value.args[-1])
        return all(is_json(one) or (isinstance(one, Literal) and one.value is None) for one in chosen)
    return isinstance(value, Call | Aggregate) and value.function in GIVING_JSON


def made_json(binder: ClauseBinder, function: str, args: list[Expression], node: exp.Expr) -> Expression:
    """TO_JSON, JSON_ARRAY, JSON_OBJECT: values become JSON, unless they are; the names of fields are text."""
    names = range(0, len(args) if function == "json_object" else 0, 2)
    binder.call(function, args, node)  # which knows what may stand where
    values = [
        one if at in names or is_json(one) else binder.call("to_json", [one], node) for at, one in enumerate(args)
    ]
    return values[0] if function == "to_json" else binder.call(function, values, node)


def cast_to_json(binder: ClauseBinder, value: Expression, node: exp.Cast) -> Expression:
    """`x::JSON`: a text is read, and is an error if it is none; any other value is written."""
    if is_json(value) or not is_text(value.type):
        return value if is_json(value) else binder.call("to_json", [value], node)
    read = binder.call("json_extract", [value, Literal("$", pa.string())], node)
    if not isinstance(node, exp.TryCast):
        return read
    return binder.call("case", [binder.call("json_valid", [value], node), read, literals.NULL], node)


def json_access(binder: ClauseBinder, node: JsonAccess) -> Expression:
    """`j -> path`, `j ->> path`, `j #> '{a,b}'`."""
    name = "json_extract_string" if node.args["as_text"] else "json_extract"
    path = _steps(binder, node) if node.args.get("by_steps") else binder.bind(node.expression)
    return binder.call(name, [_entered(binder, node.this), path], node)


def _entered(binder: ClauseBinder, node: exp.Expr) -> Expression:
    """What a path goes into; a text that is cast to JSON before is read but once."""
    inner = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Cast) and not isinstance(inner, exp.TryCast):
        value = binder.bind(inner.this)
        if is_text(value.type) and binder.scope.text.piece(span_of(inner.args["to"])).upper() in JSON_TYPES:
            return value
    return binder.bind(node)


def _steps(binder: ClauseBinder, node: exp.Expr) -> Expression:
    """The path of PostgreSQL's `j #> '{a,b}'` as one of ours."""
    steps = node.expression.name if isinstance(node.expression, exp.Literal) else ""
    if not (steps.startswith("{") and steps.endswith("}")) or "/" in steps:
        raise binder.error(
            "#> and #>> need a path as PostgreSQL writes it, a constant such as '{a,b}'",
            node,
            hint="write j -> '$.a.b', or j ->> '$.a.b'",
        )
    names = [one.strip().strip('"') for one in steps[1:-1].split(",") if one]
    return Literal("/".join(["", *names]) or "$", pa.string())
