"""VALUES and series of numbers and times in FROM: static tables that the query says itself."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import SqlError
from watersmeet.model.types import is_instant, sql_type
from watersmeet.plan.constants import MOST_ROWS, Constants, Listed, Selected, Series, constants
from watersmeet.plan.expressions import Column, Expression, Literal
from watersmeet.plan.functions import result_type
from watersmeet.sql import literals
from watersmeet.sql.context import Context
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.named_queries import known_query, with_named
from watersmeet.sql.scope import Scope
from watersmeet.sql.syntax import (
    Body,
    Compound,
    Name,
    QuerySyntax,
    SelectItem,
    SelectSyntax,
    SeriesSyntax,
    SourceSyntax,
    Span,
    Subquery,
    ValuesSyntax,
    span_of,
)

_FORMS = "write generate_series(1, 10), generate_series(1, 10, 2), or of times generate_series(a, b, INTERVAL 1 DAY)"


def says_all_rows(body: Body, context: Context) -> bool:
    """Whether a query reads nothing but rows that it says itself."""
    match body:
        case QuerySyntax():
            return says_all_rows(body.body, with_named(body, context))
        case Compound():
            return says_all_rows(body.left, context) and says_all_rows(body.right, context)
        case SelectSyntax():
            conditions = [one for one in (body.where, body.having, body.qualify) if one is not None]
            items = [item.expression for item in body.items if isinstance(item, SelectItem)]
            written = (*items, *conditions, *body.on, *body.group_by)
            inside = [one.args["query"] for expression in written for one in expression.find_all(Subquery)]
            said = all(_is_said(source, context) for source in body.sources)
            return said and all(says_all_rows(query, context) for query in inside)


def _is_said(source: SourceSyntax, context: Context) -> bool:
    match source.relation:
        case Name() as name:
            known = known_query(name, context)
            return known is not None and says_all_rows(*known)
        case QuerySyntax() as query:
            return says_all_rows(query, context)
    return isinstance(source.relation, ValuesSyntax | SeriesSyntax)


def bind_constants(syntax: ValuesSyntax | SeriesSyntax, name: str, context: Context) -> Constants:
    binder = ExpressionBinder(Scope(context.text, (), context.zone), syntax.word, event_time=False)
    return constants(name, [_listed(syntax, binder) if isinstance(syntax, ValuesSyntax) else _series(syntax, binder)])


def _listed(syntax: ValuesSyntax, binder: ExpressionBinder) -> Selected:
    width = len(syntax.rows[0])
    for row in syntax.rows:
        if len(row) != width:
            raise binder.scope.text.error(
                f"a row of VALUES has {len(row)} values, and the first has {width}",
                span_of(row[-1]) or syntax.span,
                hint="write as many in each row, NULL where there is none",
            )
    columns = [_alike(written, binder) for written in zip(*syntax.rows, strict=True)]
    names = tuple(f"column{n}" for n in range(1, width + 1))
    rows = tuple(zip(*columns, strict=True)) if columns else ((),) * len(syntax.rows)
    shown = tuple((name, Column("", name, column[0].type)) for name, column in zip(names, columns, strict=True))
    return Selected(Listed(rows, names), shown)


def _alike(written: Sequence[exp.Expr], binder: ExpressionBinder) -> list[Expression]:
    """The values of a column in the type that they have in common."""
    values = [binder.bind(one) for one in written]
    if all(value == literals.NULL for value in values):
        return [Literal(None, pa.string())] * len(values)
    try:  # as COALESCE has it, whose values are such a column
        kind = result_type("coalesce", [value.type for value in literals.meet(values)])
    except (TypeError, ValueError) as error:
        wrong = str(error).replace("COALESCE", f"a column of {binder.clause}")
        raise binder.error(
            wrong, next(one for one, v in zip(written, values, strict=True) if v.type != values[0].type)
        ) from None
    return [binder.converted(value, kind, one) for value, one in zip(values, written, strict=True)]


def _series(syntax: SeriesSyntax, binder: ExpressionBinder) -> Selected:
    if len(syntax.args) not in (2, 3):
        raise _misused(syntax, f"{syntax.word} takes a first value, a last one, and a step", binder)
    first, last = _alike(syntax.args[:2], binder)
    step: Expression = Literal(1, pa.int64()) if len(syntax.args) == 2 else binder.bind(syntax.args[2])
    kind = pa.int64()
    if is_instant(first.type):
        kind = first.type if pa.types.is_timestamp(first.type) else pa.timestamp("us")
        (step,) = literals.meet([step, literals.interval(0)])[:1]
        if not pa.types.is_duration(step.type):
            raise _misused(syntax, f"{syntax.word} of times needs an interval as its step", binder)
    elif not all(pa.types.is_integer(one.type) or one == literals.NULL for one in (first, last, step)):
        kinds = ", ".join(sql_type(one.type) for one in (first, last, step))
        raise _misused(syntax, f"{syntax.word} counts whole numbers or times, and these are {kinds}", binder)
    first, last = (binder.converted(one, kind, at) for one, at in zip((first, last), syntax.args, strict=False))
    series = Series(first, last, step, inclusive=syntax.word == "GENERATE_SERIES")
    if isinstance(step, Literal) and step.value == 0:
        raise _misused(syntax, f"the step of {syntax.word} is 0, so it would never end", binder)
    if (series.known_rows or 0) > MOST_ROWS:
        many = f"{syntax.word} gives {series.known_rows:,} rows, which are kept in memory; the limit is {MOST_ROWS:,}"
        raise _misused(syntax, many, binder)
    return Selected(series, ((syntax.word.lower(), Column("", *series.names, kind)),))


def _misused(syntax: SeriesSyntax, message: str, binder: ExpressionBinder, span: Span | None = None) -> SqlError:
    return binder.scope.text.error(message, span or syntax.span, hint=_FORMS)
