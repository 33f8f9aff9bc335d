"""GROUP BY, HAVING and aggregates: what is grouped by, and what may then be selected."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.plan.expressions import Aggregate, Call, Column, EventTime, Expression, Literal, OverCall, to_text, walk
from watersmeet.sql.counting import is_aggregate
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.quotients import warn_of_quotients
from watersmeet.sql.scope import Scope, Text, field_index
from watersmeet.sql.syntax import AllKeys, SelectItem, SelectSyntax, Span, Star, span_of


@dataclass(frozen=True)
class GroupedOutput:
    """One output column, and where it was written."""

    name: str
    expression: Expression
    span: Span
    inside: str | None = None

    @property
    def known_as(self) -> str:
        """What its query calls it, in lower case."""
        return (self.name if self.inside is None else self.inside).lower()


def is_aggregated(expression: Expression) -> bool:
    return any(isinstance(part, Aggregate) for part in walk(expression))


def with_all_keys(select: SelectSyntax, text: Text) -> SelectSyntax:
    """GROUP BY ALL: by what is selected, but for aggregates and constants."""
    if not any(isinstance(key, AllKeys) for key in select.group_by):
        return select
    star = next((item for item in select.items if isinstance(item, Star)), None)
    if star is not None:
        raise text.error(
            "GROUP BY ALL goes by what is listed, and * is all columns", star.span, hint="list the columns"
        )
    listed = [item.expression for item in select.items if isinstance(item, SelectItem)]
    keys = [one.copy() for one in listed if one.find(exp.Column) and not _is_made_of_groups(one, text)]
    others = [key for key in select.group_by if not isinstance(key, AllKeys)]
    return replace(select, group_by=(*keys, *others), grouping_sets=None if keys or others else ((),))


def _is_made_of_groups(node: exp.Expr, text: Text) -> bool:
    calls = node.find_all(exp.Anonymous)
    return node.find(exp.Window, exp.WithinGroup) is not None or any(is_aggregate(one, text.functions) for one in calls)


def bind_keys(select: SelectSyntax, outputs: list[GroupedOutput], scope: Scope) -> tuple[Expression, ...]:
    keys = tuple(_key(node, outputs, scope) for node in select.group_by)
    warn_of_quotients(keys, scope.text)
    return keys


def _key(node: exp.Expr, outputs: list[GroupedOutput], scope: Scope) -> Expression:
    chosen = ordinal(node, outputs, scope, "GROUP BY") or _by_alias(node, outputs, scope)
    if chosen is None:
        return ExpressionBinder(scope, "GROUP BY").bind(node)
    if is_aggregated(chosen.expression):
        raise scope.text.error(
            f"{chosen.name} is an aggregate and cannot be grouped by",
            span_of(node),
            hint="group by plain columns; conditions on aggregates go into HAVING",
        )
    return chosen.expression


def ordinal(node: exp.Expr, outputs: list[GroupedOutput], scope: Scope, clause: str) -> GroupedOutput | None:
    """`GROUP BY 1`: the first output column."""
    if not (isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal()):
        return None
    position = int(node.this)
    if not 1 <= position <= len(outputs):
        raise scope.text.error(
            f"{clause} {position}: the select list has {len(outputs)} columns",
            span_of(node),
            hint=f"write a number from 1 to {len(outputs)}, or a column",
        )
    return outputs[position - 1]


def named_output(node: exp.Expr, outputs: list[GroupedOutput]) -> GroupedOutput | None:
    """A bare name that an output column has."""
    if not isinstance(node, exp.Column) or node.args.get("table") is not None or isinstance(node.this, exp.Star):
        return None
    return next((output for output in outputs if output.known_as == node.name.lower()), None)


def _by_alias(node: exp.Expr, outputs: list[GroupedOutput], scope: Scope) -> GroupedOutput | None:
    """A name of the select list, unless a column of FROM has it too: the column wins, as in SQL."""
    output = named_output(node, outputs)
    if output is None or any(field_index(one.schema, node.name) is not None for one in scope.inputs):
        return None
    return output


def check_grouped(expression: Expression, keys: tuple[Expression, ...], span: Span | None, scope: Scope) -> None:
    """Refuse what has no single value in a group."""
    # In keys first: a whole expression that is grouped by may hold columns that are not.
    if expression in keys or isinstance(expression, Aggregate | Literal):
        return
    match expression:
        case Column():
            name = to_text(expression)
            raise scope.text.error(
                f"{name} is neither grouped by nor inside an aggregate",
                span,
                hint=f"add {name} to GROUP BY, or write for example MAX({name})",
            )
        case EventTime():
            raise scope.text.error(
                "event_time() differs within a group", span, hint="write MAX(event_time()), or group by it"
            )
        case Call(args=args) | OverCall(parts=args):
            for arg in args:
                check_grouped(arg, keys, span, scope)
