"""OVER in a SELECT, as a plan: the rows below it with all that its functions read, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa

from watersmeet.errors import SqlError, UnsupportedError
from watersmeet.plan.expressions import (
    Aggregate,
    Call,
    Column,
    EventTime,
    Expression,
    Literal,
    OverCall,
    replaced,
    walk,
)
from watersmeet.plan.nodes import Changes, Derived, GroupBy, Input, Join, Node, Over, Project, View
from watersmeet.plan.over_functions import OFFSETS, SHARES
from watersmeet.plan.walks import children
from watersmeet.sql.scope import Scope, event_time_type
from watersmeet.sql.syntax import Span

ROWS = "rows"  # what the rows of a join are called below OVER


def calls_in(expressions: Iterable[Expression]) -> tuple[OverCall, ...]:
    """The functions of OVER, each once."""
    parts = (part for expression in expressions for part in walk(expression))
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, OverCall)))


def is_changing(calls: Sequence[OverCall], inputs: Sequence[Input], scope: Scope) -> str | None:
    """Why what the functions give may change with rows to come, in words before `needs a window`; None: it is final."""
    for call in calls:
        if not call.order_by:
            return "OVER without ORDER BY"
        if call.frame.end is None:
            return "OVER with a frame up to the last row"
        if call.function in SHARES:
            return f"{call.function.upper()}, which counts the rows of the whole partition,"
        if call.by is not None and (call.function in OFFSETS or call.frame.start is None):
            return f"{call.function.upper()} with a number that is computed"
        if call.frame.exclude and call.frame.start is None:
            return "EXCLUDE in a frame from the first row"
        if not _is_event_time(call, inputs, scope):
            return "OVER in another order than that of event time"
    return None


def _is_event_time(call: OverCall, inputs: Sequence[Input], scope: Scope) -> bool:
    first = call.order_by[0]
    alone = sum(one.time is not None for one in inputs) == 1
    match first.expression:
        case EventTime():
            return not first.descending
        case Column() as column:
            return alone and not first.descending and scope.is_time(column)
    return False


class OverMaker:
    """Collects what OVER reads of the rows below it, and puts names in its place."""

    def __init__(self, keys: Sequence[Expression]) -> None:
        """keys: of GROUP BY, each a value of a row below."""
        self.keys = keys
        self._base: dict[Expression, Column] = {}
        self._calls: dict[OverCall, Column] = {}
        self._names: set[str] = set()

    def over(self, expression: Expression) -> Expression:
        return replaced(expression, self._placed)

    def _placed(self, part: Expression) -> Expression | None:
        if isinstance(part, OverCall):
            if part not in self._calls:
                self._calls[part] = Column("", self._unique(part.function), part.type)
            return self._calls[part]
        if part in self.keys or isinstance(part, Column | EventTime | Aggregate):
            return self.column(part)
        return None

    def column(self, part: Expression) -> Expression:
        """The name of what stands below. Constants stay what they are."""
        if isinstance(part, Literal):
            return part
        if part not in self._base:
            name = self._unique(part.name if isinstance(part, Column) else "value")
            self._base[part] = Column("", name, part.type)
        return self._base[part]

    def _unique(self, name: str) -> str:
        chosen, number = name, 1
        while chosen.lower() in self._names:
            number += 1
            chosen = f"{name}_{number}"
        self._names.add(chosen.lower())
        return chosen

    @property
    def calls(self) -> tuple[tuple[str, OverCall], ...]:
        return tuple((column.name, call.over(self.column)) for call, column in self._calls.items())

    def columns(self, over: Callable[[Expression], Expression]) -> tuple[tuple[str, Expression], ...]:
        """What stands below, over the inputs of its join."""
        return tuple((column.name, over(part)) for part, column in self._base.items())


def over_rows(
    below: Join | GroupBy,
    over: Callable[[Expression], Expression],
    outputs: Sequence[tuple[str, Expression]],
    keep: Expression | None,
    keys: Sequence[Expression],
    inputs: Sequence[Input],
    scope: Scope,
    *,
    final: bool,
) -> Over:
    """final: functions go by event time, over rows that do not leave. over: expressions of FROM over the join. inputs:
    everything that is read, also what has no name here: a row of a semi join is there at its first partner."""
    maker = OverMaker(keys)
    time: Expression | None = None
    if final:
        time = _time_of(inputs, scope)
        outputs = [(name, _by_one_time(e, time)) for name, e in outputs]
        keep = None if keep is None else _by_one_time(keep, time)
        maker.column(time)
    columns = tuple((name, maker.over(e)) for name, e in outputs)
    kept = None if keep is None else maker.over(keep)
    calls = maker.calls
    if time is None:
        return Over(Project(below, maker.columns(over)), calls, columns, kept)
    assert isinstance(below, Join)
    named = maker.column(time)
    assert isinstance(named, Column)
    project = Project(below, maker.columns(over))
    alone = len(below.inputs) == 1
    return Over(project if alone else _as_stream(project, named.name, below), calls, columns, kept, named.name)


def _time_of(inputs: Sequence[Input], scope: Scope) -> Expression:
    timed = [one for one in inputs if one.time is not None]
    if len(timed) == 1 and timed[0].time is not None:
        return Column(timed[0].alias, timed[0].time, timed[0].schema.field(timed[0].time).type)
    return EventTime(event_time_type(scope.inputs, scope.zone))


def _by_one_time(expression: Expression, time: Expression) -> Expression:
    """All functions go by one and the same column, however it was written."""

    def timed(part: Expression) -> Expression | None:
        if not isinstance(part, OverCall):
            return None
        return replace(part, order_by=(replace(part.order_by[0], expression=time), *part.order_by[1:]))

    return replaced(expression, timed)


def _as_stream(project: Project, time: str, join: Join) -> Project:
    """The rows of a join as those of one stream, so that those of equal times have an order: that of their values."""
    rows = Input(ROWS, Derived(ROWS, project, project.schema, time))
    columns = tuple((field.name, Column(ROWS, field.name, field.type)) for field in project.schema)
    return Project(Join((rows,), boundary=join.boundary), columns)


# -- a query around another ---------------------------------------------------------------------------------------


def merged(node: Project) -> Node | None:
    """A selection from the rows of an OVER as one OVER with fewer rows and other columns: so a bound on a rank is seen
    where ranks are made."""
    match node.child:
        case Join(inputs=(Input(window=None) as one,), kind="inner", predicates=predicates):
            match one.relation:
                case Derived(plan=Over() as inner) | View(plan=Over() as inner):
                    return _around(inner, node, one.alias, predicates)
                case Derived(plan=Changes(kind="complete", child=Over() as inner) as changes):
                    return replace(changes, child=_around(inner, node, one.alias, predicates))
    return None


def _around(inner: Over, node: Project, alias: str, predicates: Sequence[Expression]) -> Over:
    places = dict(inner.columns)

    def placed(part: Expression) -> Expression | None:
        if isinstance(part, EventTime):
            assert inner.time is not None
            return Column("", inner.time, part.type)
        return places[part.name] if isinstance(part, Column) and part.stream == alias else None

    columns = tuple((name, replaced(e, placed)) for name, e in node.columns)
    kept = [*([] if inner.keep is None else [inner.keep]), *(replaced(p, placed) for p in predicates)]
    keep = reduce(lambda a, b: Call("and", (a, b), pa.bool_()), kept) if kept else None
    return replace(inner, columns=columns, keep=keep)


def ahead_inside(inputs: Sequence[Input], places: dict[str, Span], scope: Scope) -> SqlError | None:
    """What a row gets of those after it becomes known after its time, so nothing can be joined or counted by that."""
    for one in inputs:
        if isinstance(one.relation, Derived) and _comes_late(one.relation.plan):
            return scope.text.error(
                f"{one.alias} looks ahead: its rows come after their time, and only a selection goes around",
                places.get(one.alias),
                hint="write it with LAG, or a frame that ends with the current row: each row with those before it",
                kind=UnsupportedError,
            )
    return None


def _comes_late(node: Node) -> bool:
    """Whether rows of a stream come after their time, whatever stands around them."""
    if isinstance(node, Over) and node.time is not None and node.looks_ahead:
        return True
    if isinstance(node, Join):
        return any(isinstance(one.relation, Derived) and _comes_late(one.relation.plan) for one in node.inputs)
    return any(map(_comes_late, children(node)))
