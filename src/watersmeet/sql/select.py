"""One SELECT: sources, conditions, select list and grouping, put together as plan nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import UnsupportedError, WindowError
from watersmeet.model.types import sql_type
from watersmeet.model.windows import Each, Hop, Landmark, Session, moves_in_steps
from watersmeet.plan.expressions import (
    Aggregate,
    Call,
    Column,
    EventTime,
    Expression,
    Literal,
    OverCall,
    replaced,
    to_text,
    walk,
)
from watersmeet.plan.functions import BY_TIME
from watersmeet.plan.nodes import Changes, Distinct, GroupBy, Input, Join, Node, Project, is_monotone, schema_of
from watersmeet.sql.context import Context, SubqueryBinder
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.from_clause import FromClause
from watersmeet.sql.grouping import GroupedOutput, bind_keys, check_grouped, is_aggregated
from watersmeet.sql.grouping_sets import grouped_by_sets, is_grouping
from watersmeet.sql.over import OverBinder
from watersmeet.sql.over_rows import ahead_inside, calls_in, is_changing, merged, over_rows
from watersmeet.sql.scope import HIDDEN_TIME, Scope
from watersmeet.sql.sources import ONCE
from watersmeet.sql.syntax import SelectItem, SelectSyntax, Star, span_of
from watersmeet.sql.window_groups import (
    check_growing,
    check_window_groups,
    end_of,
    growing_session,
    is_ungrouped,
    window_inputs,
    with_growing_end,
    with_own_times,
)


@dataclass(frozen=True)
class Answer:
    """A bound query body. `monotone` means a plain join, whose rows never leave the answer; `scope` is what
    ORDER BY may name besides the outputs."""

    node: Node
    outputs: list[GroupedOutput]
    monotone: bool
    scope: Scope
    keys: tuple[Expression, ...] | None = None
    complete: bool = False
    """Whether it is of windows, each of which is given once."""


def bind_select(select: SelectSyntax, context: Context, bind_subquery: SubqueryBinder, changing: str | None) -> Answer:
    """`changing` names the operator around this SELECT that needs windows, such as UNION, or is None."""
    source = FromClause(select, context, bind_subquery)
    scope = source.scope
    outputs = _outputs(select, scope)
    having = ExpressionBinder(scope, "HAVING", aggregates=True).condition(select.having) if select.having else None
    keep = _kept(select, outputs, scope)
    calls = calls_in([*(output.expression for output in outputs), *([] if keep is None else [keep])])
    if keep is not None and not calls:
        raise context.text.error(
            "QUALIFY is about functions of OVER, and here is none",
            span_of(select.qualify) if select.qualify is not None else select.span,
            hint="conditions on rows go into WHERE, on groups into HAVING",
        )
    grouped = select.is_grouped or any(is_aggregated(output.expression) for output in outputs)
    grouped = grouped or (keep is not None and is_aggregated(keep))
    grouped = grouped or (having is not None and is_aggregated(having))
    if having is not None and not grouped:
        raise context.text.error(
            "HAVING needs GROUP BY or an aggregate",
            span_of(select.having or select.group_by[0]),
            hint="conditions on rows go into WHERE",
        )
    keys = bind_keys(select, outputs, scope) if grouped else ()
    for expression, span in source.depends if grouped else ():
        if expression not in keys:
            raise context.text.error(
                f"the query depends on {to_text(expression)}, which is not the same in all rows of a group",
                span,
                hint=f"add {to_text(expression)} to GROUP BY, or join the query's groups in FROM",
            )
    why = "GROUP BY" if select.group_by else "an aggregate" if grouped else "DISTINCT" if select.distinct else changing
    inputs = tuple(one for one in source.inputs if one.alias not in source.looked_up)
    views = [one.alias for one in inputs if one.is_view]
    if why is None and views:
        why = f"a join with {views[0]}, an answer that changes,"
    if why is None and source.has_trees and context.as_view and _have_windows(inputs):
        why = "a join in a subquery"
    final = _is_final(calls, why, inputs, scope)
    if calls and why is None and not final:
        why = is_changing(calls, inputs, scope) or "OVER"
    windows = window_inputs(inputs) if grouped else []
    if windows:
        if select.grouping_sets is not None:
            raise context.text.error(
                "GROUPING SETS, ROLLUP and CUBE do not go with TUMBLE, HOP and SESSION: every group has its window",
                select.span,
                hint="write a query for each grouping, each grouped by window_start and window_end, too",
                kind=UnsupportedError,
            )
        if not any(one.alias in source.sure for one in windows):
            raise context.text.error(
                "groups of windows go by those of a row that is there in any case, and here none is",
                select.span,
                hint="join the groups: FROM (SELECT … GROUP BY window_start, window_end) AS w FULL JOIN …",
                kind=UnsupportedError,
            )
        check_window_groups(select, context, inputs, keys, source.conditions, changing, source.places, source.sure)
        outputs = [replace(o, expression=with_own_times(o.expression, windows, scope, o.span)) for o in outputs]
        having = None if having is None else with_own_times(having, windows, scope, select.span)
        keep = None if keep is None else with_own_times(keep, windows, scope, select.span)
        keys = tuple(with_own_times(key, windows, scope, select.span) for key in keys)
        if (session := growing_session(windows)) is not None:
            check_growing(session, select, context, inputs, keys, source.found.predicates, source.places)
            outputs = [replace(o, expression=with_growing_end(o.expression, session, scope, o.span)) for o in outputs]
            having = None if having is None else with_growing_end(having, session, scope, select.span)
            keep = None if keep is None else with_growing_end(keep, session, scope, select.span)
            keys = tuple(key for key in keys if key != end_of(session))
    # Before the join is made, which would only say that rows could never be forgotten.
    if why is None and any(moves_in_steps(one.window) and not isinstance(one.window, Each) for one in inputs):
        word = "LANDMARK" if any(isinstance(one.window, Landmark) for one in inputs) else "SLIDE"
        _require_windows(f"a join with {word}", inputs, scope, source)
    if why is not None:
        _require_windows(why, inputs, scope, source)
        _require_comparable(outputs, context)
    plain = [(output.name, output.expression) for output in outputs], having
    # Where everything is one group, values of queries beside it are there without rows, too.
    beside = grouped and not keys and not calls
    beside = beside and source.has_values_beside([e for _, e in plain[0]] + ([] if having is None else [having]))
    if grouped:
        # The value of a query is the same in all rows of a group, and stands for itself in none.
        outputs = [replace(output, expression=_of_group(output.expression, source.values)) for output in outputs]
        having = None if having is None else _of_group(having, source.values)
        keep = None if keep is None else _of_group(keep, source.values)
    if source.has_trees and not source.is_one_stream:
        _refuse_order_of_rows([*outputs, *([] if having is None else [GroupedOutput("", having, select.span)])], scope)
    asked = [*(output.expression for output in outputs), *keys, *(one for one in (having, keep) if one is not None)]
    made = source.join(asked, changing=why is not None)
    join, over = made.join, made.over
    below: Join | GroupBy = join
    node: Node
    if grouped:
        _require_comparable([GroupedOutput(to_text(key), key, select.span) for key in keys], context)
        for output in outputs:
            check_grouped(output.expression, keys, output.span, scope)
        if having is not None:
            check_grouped(having, keys, span_of(select.having) if select.having else None, scope)
        if keep is not None:
            check_grouped(keep, keys, span_of(select.qualify) if select.qualify else None, scope)
        below = GroupBy(join, tuple(map(over, keys)), None if having is None else over(having))
    if calls:
        return _over(select, context, source, outputs, keep, keys, below, over, final=final, once=bool(windows))
    columns = tuple((output.name, over(output.expression)) for output in outputs)
    asks = [expression for expression in asked if any(map(is_grouping, walk(expression)))]
    if asks and not grouped:
        raise context.text.error(
            "GROUPING tells by which keys of GROUP BY a row is grouped, and here is none",
            select.span,
            hint="leave it out",
        )
    if beside:
        node = source.aggregated(*plain, select.span)
    elif select.grouping_sets is not None or asks:
        sets = select.grouping_sets or (tuple(range(len(keys))),)
        kept = None if having is None else over(having)
        node = grouped_by_sets(join, tuple(map(over, keys)), sets, kept, columns)
    else:
        node = Project(below, columns)
        around = None if grouped or select.distinct else merged(node)
        if isinstance(around, Changes):
            return Answer(around.child, outputs, True, scope, complete=True)
        if around is not None:
            return Answer(around, outputs, is_monotone(around), scope)
    if (ahead := ahead_inside(inputs, source.places, scope)) is not None:
        raise ahead
    if select.distinct:
        node = Distinct(node)
    if windows and not context.emits_changes:
        return Answer(node, outputs, True, scope, keys, complete=True)
    return Answer(node, outputs, not (grouped or select.distinct or join.views), scope, keys if grouped else None)


def _over(
    select: SelectSyntax,
    context: Context,
    source: FromClause,
    outputs: list[GroupedOutput],
    keep: Expression | None,
    keys: tuple[Expression, ...],
    below: Join | GroupBy,
    over: Callable[[Expression], Expression],
    *,
    final: bool,
    once: bool,
) -> Answer:
    """once: groups of windows that are given when they are complete."""
    scope = source.scope
    if (ahead := ahead_inside(source.inputs, source.places, scope)) is not None:
        raise ahead
    expressions = [*(output.expression for output in outputs), *([] if keep is None else [keep])]
    if select.grouping_sets is not None or any(is_grouping(part) for e in expressions for part in walk(e)):
        raise context.text.error(
            "OVER does not go with GROUPING SETS, ROLLUP and CUBE in one SELECT",
            select.span,
            hint="write it in a query around this one: SELECT *, RANK() OVER (…) AS r FROM (SELECT …) AS x",
            kind=UnsupportedError,
        )
    columns = [(output.name, output.expression) for output in outputs]
    made = over_rows(below, over, columns, keep, keys, source.inputs, scope, final=final)
    if not final:
        read = [Column("", field.name, field.type) for field in schema_of(made.child)]
        _require_comparable([GroupedOutput(one.name, one, select.span) for one in read], context)
    node: Node = made
    grouped = isinstance(below, GroupBy)
    if not grouped and _are_complete(source.inputs):
        if context.emits_changes:
            raise context.text.error(
                "OVER within windows is given once, when they are complete; of its changes nothing is given",
                select.span,
                hint="leave emit = 'changes' out, or use a [RANGE …] window, whose answer comes as its changes",
                kind=UnsupportedError,
            )
        once = True
    if select.distinct:
        node = Distinct(node)
    if once and not context.emits_changes:
        return Answer(node, outputs, True, scope, keys, complete=True)
    return Answer(node, outputs, final and not select.distinct, scope, keys if grouped else None)


def _are_complete(inputs: tuple[Input, ...]) -> bool:
    """Whether all there is are rows in windows that end, or what such windows have given, each there at that end."""
    timed = [one.window for one in inputs if not one.is_table]
    return bool(timed) and all(window == ONCE or isinstance(window, Hop | Session) for window in timed)


def _kept(select: SelectSyntax, outputs: list[GroupedOutput], scope: Scope) -> Expression | None:
    if select.qualify is None:
        return None
    named = {output.name.lower(): output.expression for output in outputs}
    binder = OverBinder(scope, "QUALIFY", aggregates=True, outputs=named, windows=_named_windows(select))
    return binder.condition(select.qualify)


def _named_windows(select: SelectSyntax) -> dict[str, exp.Window]:
    return {name.text.lower(): window for name, window in select.named_windows}


def _is_final(calls: Sequence[OverCall], why: str | None, inputs: tuple[Input, ...], scope: Scope) -> bool:
    """Whether functions of OVER go by event time, over rows that never leave."""
    windowed = any(one.window is not None for one in inputs)
    return bool(calls) and why is None and not windowed and is_changing(calls, inputs, scope) is None


def _refuse_order_of_rows(outputs: list[GroupedOutput], scope: Scope) -> None:
    for output in outputs:
        for part in walk(output.expression):
            if isinstance(part, Aggregate) and (part.function in BY_TIME or part.user is not None):
                raise scope.text.error(
                    f"{part.function.upper()} goes by the order in which combinations came, and rows without a partner "
                    f"come and go",
                    output.span,
                    hint="write MIN or MAX, or join the last rows of a key: FROM a [PARTITION BY k ROWS 1]",
                    kind=UnsupportedError,
                )


def _have_windows(inputs: tuple[Input, ...]) -> bool:
    return all(one.window is not None for one in inputs if one.time is not None)


def _outputs(select: SelectSyntax, scope: Scope) -> list[GroupedOutput]:
    binder = OverBinder(scope, "the select list", aggregates=True, windows=_named_windows(select))
    outputs: list[GroupedOutput] = []
    taken: set[str] = set()
    for item in select.items:
        for name, expression in _expanded(item, scope, binder):
            outputs.append(GroupedOutput(_unique(name, taken), expression, item.span))
    return outputs


def _expanded(item: SelectItem | Star, scope: Scope, binder: ExpressionBinder) -> list[tuple[str, Expression]]:
    if isinstance(item, Star):
        columns = scope.columns(item.source)
        if item.source is not None:
            return [(column.name, column) for column in columns]
        # Columns of USING come first, once.
        covered = {(alias, one.name.lower()) for one in scope.merged for alias in one.covers}
        once = [(one.name, binder.bind(one.expression.copy())) for one in scope.merged]
        others = [column for column in columns if (column.stream, column.name.lower()) not in covered]
        return [*once, *((column.name, column) for column in others)]
    bound = binder.bind(item.expression)
    if item.alias is not None:
        return [(item.alias.text, bound)]
    return [(_readable_name(bound, scope.text.piece(span_of(item.expression) or item.span)), bound)]


def _readable_name(bound: Expression, words: str) -> str:
    """The name of an output column that was given none."""
    match bound:
        case Column(name=name):
            return name
        case EventTime():
            return "event_time"
        case Call(function="field", args=(_, Literal(value=str(name)))):
            return name
    return words


def _unique(name: str, taken: set[str]) -> str:
    """The name, or the name with _1, _2, … if it is taken."""
    chosen, number = name, 0
    while chosen.lower() in taken:
        number += 1
        chosen = f"{name}_{number}"
    taken.add(chosen.lower())
    return chosen


def _require_comparable(outputs: list[GroupedOutput], context: Context) -> None:
    """Rows leave an answer by being equal to those that entered it, and nested values cannot be compared."""
    for output in outputs:
        if pa.types.is_nested(output.expression.type):
            kind = sql_type(output.expression.type)
            raise context.text.error(
                f"rows of an answer that changes are compared, and {output.name} is nested: {kind}",
                output.span,
                hint="select the parts of it that matter before the rows enter, or leave it out",
            )


def _time_named(inputs: tuple[Input, ...]) -> str:
    times = [one.time for one in inputs if one.time is not None]
    return times[0] if len(times) == 1 and times[0] != HIDDEN_TIME else "event_time()"


def _of_group(expression: Expression, values: frozenset[Column]) -> Expression:
    def over_rows(part: Expression) -> Expression | None:
        if isinstance(part, Aggregate):
            return part
        return Aggregate("max", (part,), part.type) if part in values else None

    return replaced(expression, over_rows)


def _require_windows(why: str, inputs: tuple[Input, ...], scope: Scope, source: FromClause) -> None:
    """An answer that changes is over the windows' contents, so every stream must have one of its own."""
    bare = [one.alias for one in inputs if one.time is not None and one.window is None]
    if not bare:
        return
    found, places = source.found, source.places
    if any(is_ungrouped(one) for one in inputs if one.alias == bare[0]):
        raise scope.text.error(
            f"{why} over the windows of {bare[0]} needs both their columns in GROUP BY",
            places[bare[0]],
            hint="write GROUP BY window_start, window_end and what else you group by",
            kind=WindowError,
        )
    if found.bounds or found.choices:
        raise scope.text.error(
            f"{why} needs a window on {bare[0]}: WINDOW constraints between streams say which rows meet, "
            f"not how long a result counts",
            next(iter(found.places.values()), places[bare[0]]),
            hint=f"give the join a window of its own: FROM (SELECT ISTREAM … WINDOW …) [RANGE 1 HOUR] …; "
            f"or write {bare[0]} [RANGE 1 HOUR]",
            kind=WindowError,
        )
    windows = f"write {bare[0]} [RANGE 1 HOUR], {bare[0]} [ROWS 100] or {bare[0]} [UNBOUNDED]"
    by_time = f"what goes by event time is known without a window: OVER (… ORDER BY {_time_named(inputs)}); else "
    raise scope.text.error(
        f"{why} needs a window on {bare[0]}: without one it is not said which rows are in the answer",
        places[bare[0]],
        hint=(by_time if why.startswith("OVER") else "") + windows,
        kind=WindowError,
    )
