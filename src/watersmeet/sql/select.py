"""One SELECT: sources, conditions, select list and grouping, put together as plan nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsupportedError, WindowError
from watersmeet.model.windows import Each, Hop, Landmark, Session, moves_in_steps
from watersmeet.plan.expressions import (
    Aggregate,
    Call,
    Column,
    EventTime,
    Expression,
    Literal,
    OverCall,
    called,
    goes_by_time,
    replaced,
    to_text,
    walk,
)
from watersmeet.plan.nodes import Changes, Distinct, GroupBy, Input, Join, Node, Project
from watersmeet.plan.shapes import is_monotone
from watersmeet.sql.context import Context, SubqueryBinder
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.from_clause import FromClause
from watersmeet.sql.grouping import GroupedOutput, bind_keys, check_grouped, is_aggregated, with_all_keys
from watersmeet.sql.grouping_sets import grouped_by_sets, is_grouping
from watersmeet.sql.lateral import without_lateral
from watersmeet.sql.over import OverBinder
from watersmeet.sql.over_rows import ahead_inside, calls_in, is_changing, merged, over_rows
from watersmeet.sql.scope import Scope
from watersmeet.sql.syntax import SelectItem, SelectSyntax, Span, Star, span_of
from watersmeet.sql.unnesting import without_unnest
from watersmeet.sql.window_columns import ONCE
from watersmeet.sql.window_groups import (
    check_growing,
    check_times_of_windows,
    check_window_groups,
    end_of,
    growing_session,
    is_ungrouped,
    window_inputs,
    with_growing_end,
    with_own_times,
    with_whole_windows,
)

UNION_ALL = "UNION ALL"  # around a SELECT: it needs windows only where it has some


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
    select = with_all_keys(select, context.text)
    select, computed = without_lateral(without_unnest(select, context.text), context.text)
    made = FromClause(select, context, bind_subquery, computed)
    return _SelectBinder(select, context, made, changing).answer()


class _SelectBinder:
    """One SELECT on its way to a plan: what it asks for, whether its answer changes, what windows make of its groups,
    and then its nodes."""

    def __init__(self, select: SelectSyntax, context: Context, source: FromClause, changing: str | None) -> None:
        self.select, self.context, self.source, self.changing = select, context, source, changing
        self.scope = scope = source.scope
        self.outputs = _outputs(select, scope)
        self.having = (
            ExpressionBinder(scope, "HAVING", aggregates=True, outputs=_by_name(self.outputs)).condition(select.having)
            if select.having
            else None
        )
        self.keep = _kept(select, self.outputs, scope)
        self.keys: tuple[Expression, ...] = ()
        self.calls = calls_in([*(output.expression for output in self.outputs), *_there(self.keep)])
        self.grouped = select.is_grouped or any(map(is_aggregated, self._asked()))
        self._check_clauses()
        if self.grouped:
            self.keys = bind_keys(select, self.outputs, scope)
        self._check_dependence()
        self.inputs = tuple(one for one in source.inputs if one.alias not in source.looked_up)
        why = self._why_windows()
        self.final = _is_final(self.calls, why, self.inputs, scope)
        if self.calls and why is None and not self.final:
            why = select.chooses or is_changing(self.calls, self.inputs, scope) or "OVER"
        self.why = why
        """What it is that needs a window on every stream, or None."""
        self.windows = window_inputs(self.inputs) if self.grouped else []

    def answer(self) -> Answer:
        if self.windows:
            self._bind_groups_of_windows()
        self._check_windows()
        beside = self._beside()
        if self.grouped:
            # The value of a query is the same in all rows of a group, and stands for itself in none.
            self._change(lambda expression, _: _of_group(expression, self.source.values))
        if self.source.has_trees and not self.source.is_one_stream:
            having = [GroupedOutput("", one, self.select.span) for one in _there(self.having)]
            _refuse_order_of_rows([*self.outputs, *having], self.scope)
        made = self.source.join(self._asked(), changing=self.why is not None)
        if self.grouped or self.calls:
            check_times_of_windows(made.join, self.inputs, self.source.places, self.context.text)
        below = self._grouped_by(made.join, made.over) if self.grouped else made.join
        if self.calls:
            return self._answer_over(below, made.over)
        node = beside() if beside is not None else self._selected(below, made.join, made.over)
        plain = not self.grouped and not self.select.distinct
        around = merged(node) if plain and isinstance(node, Project) else None
        if isinstance(around, Changes):
            return Answer(around.child, self.outputs, True, self.scope, complete=True)
        if around is not None:
            return Answer(around, self.outputs, is_monotone(around), self.scope)
        if (ahead := ahead_inside(self.source.inputs, self.source.places, self.scope)) is not None:
            raise ahead
        if self.select.distinct:
            node = Distinct(node)
        if self.windows and not self.context.emits_changes:
            return Answer(node, self.outputs, True, self.scope, self.keys, complete=True)
        return Answer(node, self.outputs, is_monotone(node), self.scope, self.keys if self.grouped else None)

    def _asked(self) -> list[Expression]:
        """All that is made of rows."""
        outputs = (output.expression for output in self.outputs)
        return [*outputs, *self.keys, *_there(self.having), *_there(self.keep)]

    def _change(self, change: Callable[[Expression, Span], Expression]) -> None:
        span = self.select.span
        self.outputs = [replace(one, expression=change(one.expression, one.span)) for one in self.outputs]
        self.having = None if self.having is None else change(self.having, span)
        self.keep = None if self.keep is None else change(self.keep, span)

    def _check_clauses(self) -> None:
        select, text = self.select, self.context.text
        if self.keep is not None and not self.calls:
            raise text.error(
                "QUALIFY is about functions of OVER, and here is none",
                span_of(select.qualify) if select.qualify is not None else select.span,
                hint="conditions on rows go into WHERE, on groups into HAVING",
            )
        if self.having is not None and not self.grouped:
            raise text.error(
                "HAVING needs GROUP BY or an aggregate",
                span_of(select.having or select.group_by[0]),
                hint="conditions on rows go into WHERE",
            )
        if self._asks_grouping() and not self.grouped and not self.calls:
            raise text.error(
                "GROUPING tells by which keys of GROUP BY a row is grouped, and here is none",
                select.span,
                hint="leave it out",
            )

    def _asks_grouping(self) -> bool:
        return any(is_grouping(part) for expression in self._asked() for part in walk(expression))

    def _check_dependence(self) -> None:
        for expression, span in self.source.depends(self._asked()) if self.grouped else ():
            if expression not in self.keys:
                raise self.context.text.error(
                    f"the query depends on {to_text(expression)}, which is not the same in all rows of a group",
                    span,
                    hint=f"add {to_text(expression)} to GROUP BY, or join the query's groups in FROM",
                )

    def _why_windows(self) -> str | None:
        if self.select.group_by:
            return "GROUP BY"
        if self.grouped:
            return "an aggregate"
        if self.select.distinct:
            return "DISTINCT"
        bare = all(one.window is None and not one.is_view for one in self.inputs)
        if self.changing is not None and not (bare and self.changing == UNION_ALL):
            return self.changing
        views = [one.alias for one in self.inputs if one.is_view]
        if views:
            return f"a join with {views[0]}, an answer that changes,"
        if self.source.has_trees and self.context.as_view and _have_windows(self.inputs):
            return "a join in a subquery"
        if _have_windows(self.inputs) and self.source.has_no_end:
            return "a join without an end"
        return None

    def _bind_groups_of_windows(self) -> None:
        """Groups of TUMBLE, HOP and SESSION: the columns of their windows are those of the rows that open them."""
        select, context, source, scope = self.select, self.context, self.source, self.scope
        if select.grouping_sets is not None:
            raise context.text.error(
                "GROUPING SETS, ROLLUP and CUBE do not go with TUMBLE, HOP and SESSION: every group has its window",
                select.span,
                hint="write a query for each grouping, each grouped by window_start and window_end, too",
                kind=UnsupportedError,
            )
        if not any(one.alias in source.sure for one in self.windows):
            raise context.text.error(
                "groups of windows go by those of a row that is there in any case, and here none is",
                select.span,
                hint="join the groups: FROM (SELECT … GROUP BY window_start, window_end) AS w FULL JOIN …",
                kind=UnsupportedError,
            )
        self.keys = with_whole_windows(self.keys, self.windows)
        check_window_groups(
            select, context, self.inputs, self.keys, source.conditions, self.changing, source.places, source.sure
        )
        seen = [one for one in self.windows if one in scope.inputs]
        self._change(lambda expression, span: with_own_times(expression, seen, scope, span))
        self.keys = tuple(with_own_times(key, seen, scope, select.span) for key in self.keys)
        session = growing_session(self.windows)
        if session is not None:
            check_growing(session, select, context, self.inputs, self.keys, source.found.predicates, source.places)
            self._change(lambda expression, span: with_growing_end(expression, session, scope, span))
            self.keys = tuple(key for key in self.keys if key != end_of(session))

    def _check_windows(self) -> None:
        """Before the join is made, which would only say that rows could never be forgotten."""
        windows = [one.window for one in self.inputs]
        if self.why is None and any(moves_in_steps(one) and not isinstance(one, Each) for one in windows):
            word = "LANDMARK" if any(isinstance(one, Landmark) for one in windows) else "SLIDE"
            _require_windows(f"a join with {word}", self.inputs, self.scope, self.source)
        if self.why is not None:
            _require_windows(self.why, self.inputs, self.scope, self.source)

    def _beside(self) -> Callable[[], Node] | None:
        """Where everything is one group, values of queries beside it are there without rows, too."""
        if not self.grouped or self.keys or self.calls or not self.source.has_values_beside(self._asked()):
            return None
        plain, having = [(output.name, output.expression) for output in self.outputs], self.having
        return lambda: self.source.aggregated(plain, having, self.select.span)

    def _grouped_by(self, join: Join, over: Callable[[Expression], Expression]) -> GroupBy:
        select, scope, keys = self.select, self.scope, self.keys
        for output in self.outputs:
            check_grouped(output.expression, keys, output.span, scope)
        if self.having is not None:
            check_grouped(self.having, keys, span_of(select.having) if select.having else None, scope)
        if self.keep is not None:
            check_grouped(self.keep, keys, span_of(select.qualify) if select.qualify else None, scope)
        return GroupBy(join, tuple(map(over, keys)), None if self.having is None else over(self.having))

    def _selected(self, below: Join | GroupBy, join: Join, over: Callable[[Expression], Expression]) -> Node:
        columns = tuple((output.name, over(output.expression)) for output in self.outputs)
        sets = self.select.grouping_sets
        if sets is None and not self._asks_grouping():
            return Project(below, columns)
        having = None if self.having is None else over(self.having)
        return grouped_by_sets(
            join, tuple(map(over, self.keys)), sets or (tuple(range(len(self.keys))),), having, columns
        )

    def _answer_over(self, below: Join | GroupBy, over: Callable[[Expression], Expression]) -> Answer:
        select, context, inputs = self.select, self.context, self.source.inputs
        if (ahead := ahead_inside(inputs, self.source.places, self.scope)) is not None:
            raise ahead
        if select.grouping_sets is not None or self._asks_grouping():
            raise context.text.error(
                "OVER does not go with GROUPING SETS, ROLLUP and CUBE in one SELECT",
                select.span,
                hint="write it in a query around this one: SELECT *, RANK() OVER (…) AS r FROM (SELECT …) AS x",
                kind=UnsupportedError,
            )
        columns = [(output.name, output.expression) for output in self.outputs]
        made = over_rows(below, over, columns, self.keep, self.keys, inputs, self.scope, final=self.final)
        complete = bool(self.windows)
        if not self.grouped and _are_complete(inputs):
            if context.emits_changes:
                raise context.text.error(
                    "OVER within windows is given once, when they are complete; of its changes nothing is given",
                    select.span,
                    hint="leave emit = 'changes' out, or use a [RANGE …] window, whose answer comes as its changes",
                    kind=UnsupportedError,
                )
            complete = True
        node = Distinct(made) if select.distinct else made
        if complete and not context.emits_changes:
            return Answer(node, self.outputs, True, self.scope, self.keys, complete=True)
        monotone = self.final and not select.distinct
        return Answer(node, self.outputs, monotone, self.scope, self.keys if self.grouped else None)


def _there(expression: Expression | None) -> tuple[Expression, ...]:
    return () if expression is None else (expression,)


def _are_complete(inputs: tuple[Input, ...]) -> bool:
    """Whether all there is are rows in windows that end, or what such windows have given, each there at that end."""
    timed = [one.window for one in inputs if not one.is_table]
    return bool(timed) and all(window == ONCE or isinstance(window, Hop | Session) for window in timed)


def _kept(select: SelectSyntax, outputs: list[GroupedOutput], scope: Scope) -> Expression | None:
    if select.qualify is None:
        return None
    named = {output.known_as: output.expression for output in outputs}
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
            if isinstance(part, Aggregate) and goes_by_time(part):
                raise scope.text.error(
                    f"{called(part)} goes by the order in which combinations came, and rows without a partner "
                    f"come and go",
                    output.span,
                    hint=f"order it by its values: {called(part)}(x ORDER BY x); or write MIN or MAX, or join "
                    f"the last rows of a key: FROM a [PARTITION BY k ROWS 1]",
                    kind=UnsupportedError,
                )


def _have_windows(inputs: tuple[Input, ...]) -> bool:
    return all(one.window is not None for one in inputs if one.time is not None)


def _by_name(outputs: Sequence[GroupedOutput]) -> dict[str, Expression]:
    """What may be named of a select list behind it: all but OVER, which comes last."""
    return {one.name.lower(): one.expression for one in reversed(outputs) if not calls_in([one.expression])}


def _outputs(select: SelectSyntax, scope: Scope) -> list[GroupedOutput]:
    before: dict[str, Expression] = {}  # items may name those before them
    binder = OverBinder(scope, "the select list", aggregates=True, windows=_named_windows(select), outputs=before)
    outputs: list[GroupedOutput] = []
    taken: set[str] = set()
    for item in select.items:
        inside, first = item.inside.text if isinstance(item, SelectItem) and item.inside else None, len(outputs)
        for name, expression in _expanded(item, scope, binder):
            outputs.append(GroupedOutput(_unique(name, taken), expression, item.span, inside))
        for name, expression in _by_name(outputs[first:]).items():
            before.setdefault(name, expression)
    return outputs


def _expanded(item: SelectItem | Star, scope: Scope, binder: ExpressionBinder) -> list[tuple[str, Expression]]:
    if isinstance(item, Star):
        wanted = [one for one in scope.computed if item.source is None or one.alias.lower() == item.source.text.lower()]
        computed = [(name, binder.bind(e.copy())) for one in wanted for name, e in one.columns]
        if item.source is not None and wanted:
            return computed
        columns = scope.columns(item.source)
        if item.source is not None:
            return [(column.name, column) for column in columns]
        # Columns of USING come first, once.
        covered = {(alias, one.name.lower()) for one in scope.merged for alias in one.covers}
        once = [(one.name, binder.bind(one.expression.copy())) for one in scope.merged]
        others = [column for column in columns if (column.stream, column.name.lower()) not in covered]
        return [*once, *((column.name, column) for column in others), *computed]
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


def _time_named(inputs: tuple[Input, ...]) -> str:
    times = ["event_time()" if one.hides_time else one.time for one in inputs if one.time is not None]
    return times[0] if len(times) == 1 else "event_time()"


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
        clause, verb = ("PARTITION BY", "partition") if why.startswith("OVER") else ("GROUP BY", "group")
        written = f"{clause} window_start, window_end and what else you {verb} by"
        if why == "DISTINCT ON":
            clause, written = why, f"{why} (window_start, window_end, …) and ORDER BY the same before the rest"
        raise scope.text.error(
            f"{why} over the windows of {bare[0]} needs their columns in {clause}",
            places[bare[0]],
            hint=f"write {written}",
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
    windows += "; UNION ALL of streams without windows is a stream" * (why == "UNION")
    by_time = f"what goes by event time is known without a window: OVER (… ORDER BY {_time_named(inputs)}); else "
    raise scope.text.error(
        f"{why} needs a window on {bare[0]}: without one it is not said which rows are in the answer",
        places[bare[0]],
        hint=(by_time if why.startswith("OVER") else "") + windows,
        kind=WindowError,
    )
