"""Windows as groups: `GROUP BY TUMBLE(ts, 10 MINUTES)` of Flink, `GROUP BY tumble(interval '10 minutes')` of Arroyo,
`GROUP BY window(ts, '10 minutes')` of Spark, and `WINDOW TUMBLING (SIZE 10 MINUTES)` of ksqlDB before its GROUP BY.

They mean the windows of the one stream in FROM, where they are put; TUMBLE_START and its like are their columns, and a
window by itself is a struct of both, with the fields start and end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NoReturn, TypeVar, cast

from sqlglot import Token, TokenType, exp

from watersmeet.model.windows import Session
from watersmeet.sql.syntax import (
    Body,
    FromSyntax,
    Length,
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
# Spark's, which say the size before the slide, and are columns of these names wherever groups are selected.
_OF_SPARK = {"WINDOW": "HOP", "SESSION_WINDOW": "SESSION"}
_OF_KSQLDB = {"TUMBLING": "TUMBLE", "HOPPING": "HOP", "SESSION": "SESSION"}
_FORMS_OF_KSQLDB = {
    "TUMBLING": "WINDOW TUMBLING (SIZE 1 HOUR)",
    "HOPPING": "WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES)",
    "SESSION": "WINDOW SESSION (5 MINUTES)",
}
_EDGES = {"start": "window_start", "end": "window_end"}
_HINT = "windows stand in FROM: write FROM TUMBLE(a, 10 MINUTES), and GROUP BY window_start, window_end"


class GroupWindow(exp.Expression, exp.Condition):
    """`TUMBLE(ts, 10 MINUTES)` in an expression, or `column` of it where TUMBLE_START or TUMBLE_END is written.
    `names`: what its groups know it by, in lower case, and what it is by each."""

    arg_types: ClassVar[dict[str, bool]] = {"function": True, "column": False, "names": False}

    @property
    def function(self) -> WindowFunction:
        found = self.args["function"]
        assert isinstance(found, WindowFunction)
        return found

    @property
    def column(self) -> str:
        return str(self.args.get("column") or "")

    @property
    def names(self) -> dict[str, str]:
        return dict(self.args.get("names") or ())

    def is_of(self, other: WindowFunction) -> bool:
        return self.function.window == other.window and self.function.has_days == other.has_days


class GroupWindowParser(GapFillParser):
    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        start = self._curr
        # Every word of a query comes by here.
        written = start.text.upper() if start and self._next.token_type == TokenType.L_PAREN else ""
        of_spark = written == "SESSION_WINDOW" or (written == "WINDOW" and self._at_text_inside())
        if not (of_spark or written in _CALLS) or start.token_type == TokenType.IDENTIFIER:
            return super()._parse_type(parse_interval, fallback_to_identifier)
        word, column = (_OF_SPARK[written], "") if of_spark else _CALLS[written]
        self._advance(2)
        time = self._time_of_windows()
        sizes, offset = self._sizes(word, first=time is None)
        self._close(")")
        if written == "WINDOW":
            size, slide, *shift = sizes if len(sizes) > 1 else sizes * 2
            sizes = [slide, size, *shift]
        names = {written.lower(): ""} if of_spark else {}
        return self._group_window(word, sizes, offset, time, start, column=column, names=names)

    def _group_window(
        self,
        word: str,
        sizes: list[Length],
        offset: int,
        time: Name | None,
        start: Token,
        *,
        column: str = "",
        names: Mapping[str, str],
    ) -> GroupWindow:
        window = self._hop_or_session(word, sizes, offset)
        function = WindowFunction(window, (), time, self._from(start), self._has_days(word, sizes))
        node = GroupWindow(function=function, column=column, names=tuple(names.items()))
        locate(node, self._from(start))
        return node

    def _window_of_groups(self) -> tuple[GroupWindow, ...]:
        """`WINDOW TUMBLING (SIZE 1 HOUR)` of ksqlDB, behind FROM; its columns are WINDOWSTART and WINDOWEND there."""
        start, written = self._curr, self._next.text.upper() if self._next else ""
        if start.text.upper() != "WINDOW" or written not in _OF_KSQLDB or self._tokens_ahead(2) != "(":
            return ()
        self._advance(3)
        found: dict[str, Length] = {}
        while not found or self._match(TokenType.COMMA):
            part = "ADVANCE" if self._match_text_seq("ADVANCE", "BY") else ""
            part = part or ("SIZE" if written == "SESSION" or self._match_text_seq("SIZE") else "")
            if not part or part in found or self._curr.token_type != TokenType.NUMBER:
                self._refuse_part(written)
            found[part] = self._length()
        self._close(")")
        sizes = [found[part] for part in ("ADVANCE", "SIZE") if part in found]
        names = {"windowstart": "window_start", "windowend": "window_end"}
        return (self._group_window(_OF_KSQLDB[written], sizes, 0, None, start, names=names),)

    def _refuse_part(self, written: str) -> NoReturn:
        hints = {
            "GRACE": "leave it out: how late rows may be is said of the stream, CREATE STREAM … WITH (lateness = '…')",
            "RETENTION": "leave it out: what was given is kept by the sink that takes it",
        }
        hint = hints.get(self._curr.text.upper(), f"write {_FORMS_OF_KSQLDB[written]}")
        self.fail(f"expected the size of windows, found {self._found()}", hint=hint)

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
        names = {name: column for one in windows for name, column in one.names.items()}
        names |= dict.fromkeys(_aliases_of_windows(select.items), "")
        if isinstance(function.window, Session):
            function = replace(function, partition_by=tuple(self._key_of_sessions(key) for key in others))
            select = _chosen_before(select)
        assert isinstance(select.tree, SourceSyntax)
        places = span_of(windows[0])
        return replace(
            select,
            items=tuple(made for one in select.items for made in _with_columns(one, names)),
            tree=replace(select.tree, function=function),
            group_by=(*others, _column("window_start", places), _column("window_end", places)),
            having=None if select.having is None else _replaced(select.having, names),
            qualify=None if select.qualify is None else _replaced(select.qualify, names),
            named_windows=tuple((name, _replaced(window, names)) for name, window in select.named_windows),
            distinct_on=tuple(_replaced(one, names) for one in select.distinct_on),
            window_names=tuple(names.items()),
        )

    def _ordered_by_windows(self, body: Body, keys: tuple[OrderKey, ...]) -> tuple[OrderKey, ...]:
        """ORDER BY with what is of the windows that the rows are grouped by."""
        select = body if isinstance(body, SelectSyntax) else None
        source = select.tree if select is not None else None
        function = source.function if isinstance(source, SourceSyntax) else None
        for one in (one for key in keys for one in key.expression.find_all(GroupWindow)):
            if function is None or not one.is_of(function):
                self._refuse_window(one, _NO_VALUE)
        names = dict(select.window_names) if select is not None else {}
        return tuple(replace(key, expression=_replaced(key.expression, names)) for key in keys)

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
        name = item.known_as if isinstance(key, exp.Column) and not key.table else None
        if (name is not None and key.name.lower() == name.text.lower()) or key == exp.Literal.number(place):
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


def _aliases_of_windows(items: Sequence[SelectItem | Star]) -> Iterator[str]:
    for item in items:
        if isinstance(item, SelectItem) and item.alias and _is_whole(item.expression):
            yield item.alias.text.lower()


def _is_whole(node: exp.Expr) -> bool:
    return isinstance(node, GroupWindow) and not node.column


def _with_columns(item: SelectItem | Star, names: Mapping[str, str]) -> Iterator[SelectItem | Star]:
    """What is selected of windows, under the name by which it was asked for."""
    if isinstance(item, Star):
        if item.source is None or names.get(item.source.text.lower()) != "":
            yield item
        else:
            for edge, column in _EDGES.items():
                yield SelectItem(_column(column, item.span), Name(edge, item.span), item.span)
        return
    made = _replaced(item.expression, names)
    alias = item.alias
    if alias is None and made != item.expression:
        asked = item.expression.name if isinstance(item.expression, exp.Column) else ""
        asked = asked or ("window" if _is_whole(item.expression) else "")
        alias = Name(asked, item.span) if asked else None
    yield replace(item, expression=made, alias=alias)


def _replaced(expression: E, names: Mapping[str, str]) -> E:
    """With the columns of FROM for what is of a window: itself, or by one of the names that it has."""

    def by_column(node: exp.Expr) -> exp.Expr:
        span = span_of(node)
        if isinstance(node, GroupWindow):
            return _column(node.column, span) if node.column else _both(span)
        if not isinstance(node, exp.Column):
            return node
        name, table = node.name.lower(), node.table.lower()
        if table and names.get(table) == "" and name in _EDGES:
            return _column(_EDGES[name], span)
        if table or name not in names:
            return node
        return _column(names[name], span) if names[name] else _both(span)

    return cast("E", expression.transform(by_column))


def _both(span: Span | None) -> exp.Expr:
    """A window by itself."""
    parts = [part for edge, column in _EDGES.items() for part in (exp.Literal.string(edge), _column(column, span))]
    made = exp.Anonymous(this="NAMED_STRUCT", expressions=parts)
    if span is not None:
        locate(made, span)
    return made
