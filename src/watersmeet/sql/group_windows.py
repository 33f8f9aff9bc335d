"""Windows as groups: `GROUP BY TUMBLE(ts, 10 MINUTES)` of Flink, `GROUP BY tumble(interval '10 minutes')` of Arroyo.

They mean the windows of the one stream in FROM, where they are put; TUMBLE_START and its like are their columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, NoReturn, TypeVar, cast

from sqlglot import TokenType, exp

from watersmeet.model.windows import Session
from watersmeet.sql.syntax import (
    Body,
    FromSyntax,
    Name,
    OrderKey,
    QuerySyntax,
    SelectItem,
    SelectSyntax,
    SourceSyntax,
    Span,
    Star,
    WindowFunction,
    locate,
    span_of,
)
from watersmeet.sql.window_functions import GapFillParser

E = TypeVar("E", bound=exp.Expr)
_WORDS = ("TUMBLE", "HOP", "SESSION")
_COLUMNS = {"": "", "_START": "window_start", "_END": "window_end"}
_CALLS = {word + edge: (word, column) for word in _WORDS for edge, column in _COLUMNS.items()}
_NO_VALUE = "windows are groups or stand in FROM, and are no values"
_HINT = "windows stand in FROM: write FROM TUMBLE(a, 10 MINUTES), and GROUP BY window_start, window_end"


class GroupWindow(exp.Expression, exp.Condition):
    """`TUMBLE(ts, 10 MINUTES)` in an expression, or `column` of it where TUMBLE_START or TUMBLE_END is written."""

    arg_types: ClassVar[dict[str, bool]] = {"function": True, "column": True}

    @property
    def function(self) -> WindowFunction:
        found = self.args["function"]
        assert isinstance(found, WindowFunction)
        return found

    @property
    def column(self) -> str:
        return str(self.args["column"])

    def is_of(self, other: WindowFunction) -> bool:
        return self.function.window == other.window and self.function.has_days == other.has_days


class GroupWindowParser(GapFillParser):
    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        if not any(self._at_call(word) for word in _CALLS):
            return super()._parse_type(parse_interval, fallback_to_identifier)
        start = self._curr
        word, column = _CALLS[start.text.upper()]
        self._advance(2)
        time = self._time_of_windows()
        sizes, offset = self._sizes(word, first=time is None)
        self._close(")")
        window = self._hop_or_session(word, sizes, offset)
        function = WindowFunction(window, (), time, self._from(start), self._has_days(word, sizes))
        node = GroupWindow(function=function, column=column)
        locate(node, self._from(start))
        return node

    def _time_of_windows(self) -> Name | None:
        """`ts` or `a.ts`, which Arroyo leaves out."""
        if self._curr.token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
            return None
        name = self._name("the event time")
        return self._name("the event time") if self._match(TokenType.DOT) else name

    def _grouped_by_windows(self, select: SelectSyntax) -> SelectSyntax:
        """Windows that are groups, put in FROM; any other window in an expression is refused."""
        written = [_as_selected(key, select.items) for key in select.group_by]
        windows = [key for key in written if isinstance(key, GroupWindow)]
        if not windows:
            for one in _windows_in(select):
                self._refuse_window(one, _NO_VALUE)
            return select
        function = windows[0].function
        for one in _windows_in(select):
            if not one.is_of(function):
                self._refuse_window(one, "a query is grouped by one kind of windows")
        if select.grouping_sets is not None or not _is_bare(select.tree):
            self._refuse_window(windows[0], "windows as groups go with one stream that has no other window")
        others = [key for key in written if not isinstance(key, GroupWindow)]
        if isinstance(function.window, Session):
            function = replace(function, partition_by=tuple(self._key_of_sessions(key) for key in others))
            select = _chosen_before(select)
        assert isinstance(select.tree, SourceSyntax)
        places = span_of(windows[0])
        return replace(
            select,
            items=tuple(self._with_columns(one) for one in select.items),
            tree=replace(select.tree, function=function),
            group_by=(*others, _column("window_start", places), _column("window_end", places)),
            having=None if select.having is None else _replaced(select.having),
            qualify=None if select.qualify is None else _replaced(select.qualify),
            named_windows=tuple((name, _replaced(window)) for name, window in select.named_windows),
            distinct_on=tuple(map(_replaced, select.distinct_on)),
        )

    def _ordered_by_windows(self, body: Body, keys: tuple[OrderKey, ...]) -> tuple[OrderKey, ...]:
        """ORDER BY with the columns of the windows that the rows are grouped by."""
        source = body.tree if isinstance(body, SelectSyntax) else None
        function = source.function if isinstance(source, SourceSyntax) else None
        for one in (one for key in keys for one in key.expression.find_all(GroupWindow)):
            if function is None or not one.is_of(function) or not one.column:
                self._refuse_window(one, _NO_VALUE)
        return tuple(replace(key, expression=_replaced(key.expression)) for key in keys)

    def _with_columns(self, item: SelectItem | Star) -> SelectItem | Star:
        if isinstance(item, Star):
            return item
        whole = next((one for one in item.expression.find_all(GroupWindow) if not one.column), None)
        if whole is not None:
            self.fail("a window is two columns here", span_of(whole), hint="select window_start and window_end")
        return replace(item, expression=_replaced(item.expression))

    def _key_of_sessions(self, key: exp.Expr) -> Name:
        if not isinstance(key, exp.Column):
            self.fail(
                "sessions are of rows with equal columns, and this is an expression",
                span_of(key),
                hint="compute it inside: FROM SESSION((SELECT …), 5 MINUTES PARTITION BY k)",
            )
        return Name(key.name, span_of(key) or self._here())

    def _refuse_window(self, window: GroupWindow, message: str) -> NoReturn:
        self.fail(message, span_of(window), hint=_HINT)


def _as_selected(key: exp.Expr, items: Sequence[SelectItem | Star]) -> exp.Expr:
    """The window of the select list that a key names or counts; else the key."""
    for place, item in enumerate(items, 1):
        if isinstance(item, Star) or not isinstance(item.expression, GroupWindow) or item.expression.column:
            continue
        named = item.alias is not None and isinstance(key, exp.Column) and not key.table
        if (named and item.alias and key.name.lower() == item.alias.text.lower()) or key == exp.Literal.number(place):
            return item.expression
    return key


def _windows_in(select: SelectSyntax) -> Iterator[GroupWindow]:
    conditions = [one for one in (select.where, select.having, select.qualify) if one is not None]
    over = [window for _, window in select.named_windows]
    for written in (*select.selected, *select.group_by, *conditions, *select.on, *over, *select.distinct_on):
        yield from written.find_all(GroupWindow)


def _is_bare(tree: FromSyntax) -> bool:
    if not isinstance(tree, SourceSyntax):
        return False
    return not any((tree.window, tree.function, tree.as_of, tree.first, tree.unnest))


def _chosen_before(select: SelectSyntax) -> SelectSyntax:
    """Rows that WHERE leaves out keep no session open: here it stands inside, as windows in FROM come before WHERE."""
    if select.where is None:
        return select
    assert isinstance(select.tree, SourceSyntax)
    source = select.tree
    inner = SelectSyntax(None, False, (Star(None, source.span),), source, select.where, (), (), None, None, source.span)
    chosen = QuerySyntax(inner, (), None, None, (), source.span)
    return replace(select, tree=replace(source, relation=chosen, alias=source.named), where=None)


def _column(name: str, span: Span | None) -> exp.Expr:
    column = exp.column(name)
    if span is not None:
        locate(column, span)
        locate(column.this, span)
    return column


def _replaced(expression: E) -> E:
    def by_column(node: exp.Expr) -> exp.Expr:
        return _column(node.column, span_of(node)) if isinstance(node, GroupWindow) and node.column else node

    return cast("E", expression.transform(by_column))
