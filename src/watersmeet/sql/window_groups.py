"""Groups of windows: what GROUP BY window_start, window_end asks for, and what equal windows say about times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet.errors import UnsupportedError, WindowError
from watersmeet.model.windows import WINDOW_COLUMNS, Bound, Hop, Session
from watersmeet.plan.expressions import Aggregate, Call, Column, EventTime, Expression, columns_of, replaced, walk
from watersmeet.plan.nodes import Changes, Derived, Input, Join, Node, Project
from watersmeet.plan.walks import children
from watersmeet.sql.context import Context
from watersmeet.sql.scope import Scope, Text
from watersmeet.sql.syntax import SelectSyntax, Span
from watersmeet.sql.window_columns import ONCE, Told, columns_of_windows


def window_inputs(inputs: Iterable[Input]) -> list[Input]:
    """The inputs that are grouped by their windows."""
    return [one for one in inputs if isinstance(one.window, Hop | Session) or one.window == ONCE]


def check_window_groups(
    select: SelectSyntax,
    context: Context,
    inputs: Sequence[Input],
    keys: Sequence[Expression],
    predicates: Sequence[Expression],
    changing: str | None,
    places: dict[str, Span],
    sure: frozenset[str],
) -> None:
    """Refuse what windows that are given once cannot be part of. sure: the inputs that every row has."""
    windows = window_inputs(inputs)
    for one in inputs:
        if one.time is not None and one not in windows:
            raise context.text.error(
                f"{one.alias} is in no window of {windows[0].alias}",
                places.get(one.alias, select.span),
                hint=f"write TUMBLE({one.alias}, …) too, and join on window_start and window_end",
                kind=WindowError,
            )
        if one.is_view:
            raise context.text.error(
                f"{one.alias} is an answer that changes, and a window is given once",
                places.get(one.alias, select.span),
                hint="join it with the groups: FROM (SELECT … GROUP BY window_start, window_end) AS w",
                kind=UnsupportedError,
            )
    # A key that may be missing says nothing of the window that the row is in.
    known = _equal_to([key for key in keys if isinstance(key, Column) and key.stream in sure], predicates, windows)
    for one in windows:
        columns = _columns_of(one)
        missing = [name for name in columns if (one.alias, name) not in known]
        if missing:
            raise context.text.error(
                f"{one.alias}.{missing[0]} is neither grouped by nor equal to what is",
                places.get(one.alias, select.span),
                hint=f"group by {' and '.join(f'{one.alias}.{name}' for name in columns)}, or join on them",
                kind=WindowError,
            )
    if context.emits_changes:
        return
    if changing in ("DSTREAM", "RSTREAM"):
        raise context.text.error(
            f"{changing} goes over an answer that changes, and each of these windows is given once",
            select.span,
            hint="put the groups into FROM (SELECT … GROUP BY window_start, window_end) [RANGE 1 HOUR] AS w; or write "
            "OPTIONS (emit = 'changes')",
            kind=UnsupportedError,
        )


def with_whole_windows(keys: Sequence[Expression], windows: Sequence[Input]) -> tuple[Expression, ...]:
    """The keys, and what they tell of windows by one of their columns: from the start of a window follows its end."""
    told = [
        Column(one.alias, name, one.schema.field(name).type)
        for one in windows
        if any(isinstance(key, Column) and key.stream == one.alias and key.name in _tells(one) for key in keys)
        for name in _columns_of(one)
    ]
    return tuple(dict.fromkeys([*keys, *told]))


def _tells(one: Input) -> Iterable[str]:
    # Which sessions these are is told by their partition, too, without which their rows are not grouped.
    return WINDOW_COLUMNS if isinstance(one.window, Session) else columns_of_windows(one)


def _columns_of(one: Input) -> tuple[str, ...]:
    return WINDOW_COLUMNS if isinstance(one.window, Hop | Session) else (one.time or "",)


def _equal_to(
    keys: Sequence[Expression], predicates: Sequence[Expression], windows: Sequence[Input]
) -> set[tuple[str, str]]:
    """The columns that are grouped by, those that conditions make equal to them, and those that follow from them."""
    known = {(key.stream, key.name) for key in keys if isinstance(key, Column)}
    pairs = [_pair(predicate) for predicate in predicates]
    pairs += _follow_from_each_other(windows)
    for _ in pairs:
        for pair in pairs:
            if pair is not None and pair & known:
                known |= pair
    return known


def _follow_from_each_other(windows: Sequence[Input]) -> list[frozenset[tuple[str, str]] | None]:
    """The columns of the windows of each input, if the windows of all are of one form: where they begin together they
    end together."""
    told = [columns_of_windows(one) for one in windows]
    if len({form for one in told for _, form in one.values() if form is not None}) != 1:
        return []
    return [
        frozenset((one.alias, name) for name, (_, form) in names.items() if form is not None)
        for one, names in zip(windows, told, strict=True)
    ]


def _pair(predicate: Expression) -> frozenset[tuple[str, str]] | None:
    match predicate:
        case Call(function="eq", args=(Column() as a, Column() as b)):
            return frozenset({(a.stream, a.name), (b.stream, b.name)})
    return None


def with_own_times(expression: Expression, windows: Sequence[Input], scope: Scope, span: Span) -> Expression:
    """event_time() in a group of a window: the time of each row, not the instant at which the window is complete."""
    if not any(isinstance(part, EventTime) for part in walk(expression)):
        return expression
    one, *others = windows
    if others:
        raise scope.text.error("event_time() of which input?", span, hint=f"write {one.alias}.{one.time}")
    assert one.time is not None
    time = Column(one.alias, one.time, one.schema.field(one.time).type)
    return replaced(expression, lambda part: time if isinstance(part, EventTime) else None)


def growing_session(windows: Sequence[Input]) -> Input | None:
    """The sessions of which changes are given as rows come."""
    return next((one for one in windows if isinstance(one.window, Session) and one.window.at_once), None)


def end_of(session: Input) -> Column:
    return Column(session.alias, WINDOW_COLUMNS[1], session.schema.field(WINDOW_COLUMNS[1]).type)


def check_growing(
    session: Input,
    select: SelectSyntax,
    context: Context,
    inputs: Sequence[Input],
    keys: Sequence[Expression],
    predicates: Sequence[Expression],
    places: dict[str, Span],
) -> None:
    """The end of a session moves on with every row; so it is one group, whose rows are all its rows."""
    assert isinstance(session.window, Session)
    span = places.get(session.alias, select.span)
    once = "leave emit = 'changes' out: then a session is given once, when it is over"
    if len(inputs) > 1:
        raise context.text.error(
            f"the sessions of {session.alias} grow as rows come, and are joined when they are over",
            span,
            hint=f"{once}; or join the groups: FROM (SELECT … GROUP BY window_start, window_end) AS s, …",
            kind=UnsupportedError,
        )
    own = (*session.window.partition_by, *WINDOW_COLUMNS)
    asked = {key.name if isinstance(key, Column) else "" for key in keys}
    if asked != set(own):
        more = sorted(name for name in asked - set(own) if name)
        by = f", with PARTITION BY {', '.join(more)} in SESSION" if more else ""
        raise context.text.error(
            f"the sessions of {session.alias} grow as rows come, and their changes are those of whole sessions",
            span,
            hint=f"write GROUP BY {', '.join([*more, *own])}{by}; or {once}",
            kind=UnsupportedError,
        )
    if any(column.name not in own[:-1] for predicate in predicates for column in columns_of(predicate)):
        # Without its last row a session would end before its window does.
        raise context.text.error(
            f"WHERE takes rows out of the sessions of {session.alias}, whose end moves on with all of them",
            span,
            hint=f"choose the rows before: SESSION((SELECT * FROM {session.alias} WHERE …), …); put conditions on "
            f"window_end into HAVING; or {once}",
            kind=UnsupportedError,
        )


def with_growing_end(expression: Expression, session: Input, scope: Scope, span: Span) -> Expression:
    """Of a session that grows the end is the latest that its rows have had so far."""
    end = end_of(session)

    def latest(part: Expression) -> Expression | None:
        if isinstance(part, Aggregate):
            if end in walk(part):
                raise scope.text.error(
                    "window_end moves on as rows come, so no row has one by itself",
                    span,
                    hint="aggregate the event time of the rows instead, or leave emit = 'changes' out",
                    kind=UnsupportedError,
                )
            return part
        return Aggregate("max", (end,), end.type) if part == end else None

    return replaced(expression, latest)


def bounds_of_equal_windows(predicate: Expression, scope: Scope, words: str) -> list[Bound]:
    """Rows in one window are not further apart than it is long."""
    match predicate:
        case Call(function="eq", args=(Column() as a, Column() as b)) if a.stream != b.stream:
            if (told := _end_told(a, scope)) is not None and told == _end_told(b, scope):
                return [Bound(a.stream, b.stream, 0, words), Bound(b.stream, a.stream, 0, words)]
            left, right = (_edge_of(scope.input_of(one), one.name) for one in (a, b))
            if left is None or right is None or left[0] != right[0]:
                return []
            # From equal ends a window reaches back by its size, from equal starts it goes on for that.
            after = (left[1], right[1]) if left[0] == "window_end" else (right[1], left[1])
            return [Bound(a.stream, b.stream, after[0] - 1, words), Bound(b.stream, a.stream, after[1] - 1, words)]
    return []


def _end_told(column: Column, scope: Scope) -> Told | None:
    """What a column tells of the end of the window that a group is of, which is its time; None if it does not."""
    match scope.input_of(column):
        case Input(relation=Derived(plan=Changes(kind="complete"))) as one:
            told = columns_of_windows(one).get(column.name)
            return told if told is not None and told[1] is not None else None
    return None


def _edge_of(one: Input | None, name: str) -> tuple[str, int] | None:
    """Which column of a window it is, and how long the windows are, of an input that stands in FROM as TUMBLE or HOP,
    or is a query that selects from one, and is not grouped."""
    match one:
        case Input(relation=Derived(plan=Project(child=Join(inputs=(inside,)), columns=columns))):
            if isinstance(inside.window, Hop):
                return (name, inside.window.size_us) if name in WINDOW_COLUMNS else None
            match dict(columns).get(name):
                case Column(name=below):
                    return _edge_of(inside, below)
    return None


def is_ungrouped(one: Input) -> bool:
    """Whether it is TUMBLE, HOP or SESSION, and nothing groups by its windows."""
    plan = one.relation.plan if isinstance(one.relation, Derived) else None
    project = plan.child if isinstance(plan, Changes) else plan
    match project:
        case Project(child=Join(inputs=(Input(window=Hop() | Session()),))):
            return True
    return False


def check_times_of_windows(node: Node, inputs: Sequence[Input], places: dict[str, Span], text: Text) -> None:
    """Rows that wait for a partner ahead of them come after their time, when their window is over."""
    windows = window_inputs(inputs)
    if windows and _looks_ahead(node):
        raise text.error(
            f"an as-of join that looks ahead gives rows after their time, when the windows of {windows[0].alias} that "
            f"they are in may be over",
            places.get(windows[0].alias),
            hint="join by the latest partner, b.ts <= a.ts; or keep what is given: FROM (SELECT ISTREAM a.window_end, "
            "… ASOF JOIN …) [UNBOUNDED] AS q GROUP BY q.window_end",
            kind=UnsupportedError,
        )


def _looks_ahead(node: Node) -> bool:
    own = node.asof if isinstance(node, Join) else None
    return (own is not None and (own.up_to_us > 0 or own.ahead_us != 0)) or any(map(_looks_ahead, children(node)))
