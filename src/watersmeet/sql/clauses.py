"""The clauses of a query: SELECT, set operations, and what follows FROM."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import TokenType, exp

from watersmeet.errors import UnsupportedError
from watersmeet.model.declaration import Setting
from watersmeet.sql.from_syntax import EMIT_WORDS, LIMIT_WORDS, SET_WORDS, FromParser
from watersmeet.sql.grouping_sets import MOST_SETS, Sets, crossed, cube, rollup
from watersmeet.sql.syntax import (
    AllKeys,
    Body,
    Compound,
    Constraint,
    Length,
    LimitSyntax,
    Name,
    NamedSyntax,
    OrderKey,
    QuerySyntax,
    SelectItem,
    SelectSyntax,
    SetKind,
    SourceSyntax,
    Star,
    StreamWord,
    ValuesSyntax,
)

_STREAM_WORDS: dict[str, StreamWord] = {"ISTREAM": "istream", "DSTREAM": "dstream", "RSTREAM": "rstream"}


class QueryParser(FromParser):
    def _query(self, *, nested: bool = False) -> QuerySyntax:
        """A query; `nested` ones stand in parentheses and have no options of their own."""
        start = self._curr
        named = self._named_queries()
        body = self._compound()
        order_by = self._ordered_by_windows(body, self._order_by())
        limit = self._limit()
        every = self._every()
        at_options = self._curr
        emitted = self._emit()
        if emitted is not None and limit is None:
            limit = self._limit()  # where ksqlDB has it
        settings = self._settings_list() if self._match_text_seq("OPTIONS") else ()
        if emitted is not None and any(one.name == "emit" for one in settings):
            self.fail("emit is said twice", emitted.span, hint="leave EMIT out, or the option emit")
        if nested and (settings or emitted):
            self.fail(
                "a subquery has no options of its own",
                self._span(at_options),
                hint="write OPTIONS (…) at the end of the whole query",
            )
        return QuerySyntax(body, order_by, limit, every, settings, self._from(start), named, emitted)

    def _emit(self) -> Setting | None:
        """`EMIT CHANGES` of ksqlDB, its `EMIT FINAL`, and RisingWave's `EMIT ON WINDOW CLOSE`."""
        start = self._curr
        for words, value in EMIT_WORDS.items():
            if self._match_text_seq("EMIT", *words):
                return Setting("emit", value, self._from(start))
        return None

    def _named_queries(self) -> tuple[NamedSyntax, ...]:
        """WITH name AS (…), …"""
        if not self._match(TokenType.WITH):
            return ()
        if self._curr.text.upper() == "RECURSIVE":
            self.fail(
                "WITH RECURSIVE is not supported: a query over streams does not feed itself",
                kind=UnsupportedError,
                hint="write the result of the first query to a sink, and read that as a stream",
            )
        found = [self._named_query()]
        while self._match(TokenType.COMMA):
            found.append(self._named_query([one.name.text.lower() for one in found]))
        return tuple(found)

    def _named_query(self, taken: Sequence[str] = ()) -> NamedSyntax:
        name = self._name("a name after WITH")
        if name.text.lower() in taken:
            self.fail(f"{name.text} is defined twice", name.span, hint="give one of them another name")
        columns = self._names("a column") if self._curr.token_type == TokenType.L_PAREN else ()
        if not self._match(TokenType.ALIAS):
            self.fail(f"expected AS after {name.text}, found {self._found()}", hint="write WITH name AS (SELECT …)")
        if self._curr.text.upper() == "CHANGELOG" and self._next.token_type == TokenType.FROM:
            logged = self._tokens_ahead(2).lower() or "v"
            self.fail(
                "WITH … AS changelog is not part of the language",
                hint=f"the changes of a view are a stream: FROM CHANGES({logged}), with _op, '+' or '-', and _ts",
                kind=UnsupportedError,
            )
        self._open("(")
        query = self._query(nested=True)
        self._close(")")
        return NamedSyntax(name, columns, query)

    def _nested_query(self) -> QuerySyntax:
        return self._query(nested=True)

    def _compound(self) -> Body:
        """UNION and EXCEPT from left to right; INTERSECT binds tighter."""
        start = self._curr
        left = self._intersection()
        while self._curr.token_type in (TokenType.UNION, TokenType.EXCEPT):
            kind, every_row = self._set_word()
            left = Compound(kind, every_row, left, self._intersection(), self._from(start))
        return left

    def _intersection(self) -> Body:
        start = self._curr
        left = self._member()
        while self._curr.token_type == TokenType.INTERSECT:
            kind, every_row = self._set_word()
            left = Compound(kind, every_row, left, self._member(), self._from(start))
        return left

    def _set_word(self) -> tuple[SetKind, bool]:
        kind = SET_WORDS[self._curr.token_type]
        self._advance()
        every_row = bool(self._match(TokenType.ALL))
        if not every_row:
            self._match(TokenType.DISTINCT)
        return kind, every_row

    def _member(self) -> Body:
        if self._match(TokenType.L_PAREN):
            inner = self._query(nested=True)
            self._close(")")
            # Parentheses around a plain query only group.
            plain = not inner.order_by and inner.limit is None and inner.every is None and not inner.named
            return inner.body if plain else inner
        return self._values_alone() if self._curr.token_type == TokenType.VALUES else self._select()

    def _values_alone(self) -> SelectSyntax:
        """As if they were selected from."""
        values = self._constants()
        assert isinstance(values, ValuesSyntax)
        items = tuple(
            SelectItem(exp.column(f"column{n}"), None, values.span) for n, _ in enumerate(values.rows[0], start=1)
        )
        tree = SourceSyntax(values, None, None, values.span)
        return SelectSyntax(None, False, items, tree, None, (), (), None, None, values.span)

    def _select(self) -> SelectSyntax:
        start = self._curr
        if not self._match(TokenType.SELECT):
            self.fail(f"expected SELECT, found {self._found()}")
        word = self._stream_word()
        distinct = bool(self._match(TokenType.DISTINCT))
        distinct_on = self._distinct_on() if distinct else ()
        if not distinct:
            self._match(TokenType.ALL)
        # SELECT ISTREAM DISTINCT and SELECT DISTINCT ISTREAM are both written.
        word = word or self._stream_word()
        items = self._select_list()
        tree = self._nothing(items) or self._from_clause()
        windows_of_groups = self._window_of_groups()
        constraints = self._constraints()
        where = self._expression("a condition after WHERE") if self._match(TokenType.WHERE) else None
        constraints += self._constraints()
        group_by, grouping_sets = self._group_by()
        having = self._expression("a condition after HAVING") if self._match(TokenType.HAVING) else None
        windows = self._named_windows()
        qualify = self._expression("a condition after QUALIFY") if self._match(TokenType.QUALIFY) else None
        windows += () if windows else self._named_windows()
        select = SelectSyntax(
            word,
            distinct and not distinct_on,
            items,
            tree,
            where,
            tuple(constraints),
            (*group_by, *windows_of_groups),
            having,
            self._every(),
            self._from(start),
            grouping_sets,
            windows,
            qualify,
            distinct_on,
        )
        return self._grouped_by_windows(select)

    def _distinct_on(self) -> tuple[exp.Expr, ...]:
        if not self._match(TokenType.ON):
            return ()
        self._open("(")
        found = [self._expression("a column after DISTINCT ON")]
        while self._match(TokenType.COMMA):
            found.append(self._expression("a column after DISTINCT ON"))
        self._close(")")
        return tuple(found)

    def _named_windows(self) -> tuple[tuple[Name, exp.Window], ...]:
        """`WINDOW w AS (PARTITION BY … ORDER BY …), …`"""
        if not self._at_named_window():
            return ()
        self._advance()
        found: dict[str, tuple[Name, exp.Window]] = {}
        while not found or self._match(TokenType.COMMA):
            name = self._name("a name after WINDOW")
            if name.text.lower() in found:
                self.fail(f"the window {name.text} is defined twice", name.span, hint="give one of them another name")
            if not self._match(TokenType.ALIAS) or self._curr.token_type != TokenType.L_PAREN:
                self.fail(
                    f"expected AS and (, found {self._found()}", hint="write WINDOW w AS (PARTITION BY k ORDER BY ts)"
                )
            window = self._parse_window(exp.Identifier(this=name.text, quoted=False), alias=True)
            assert isinstance(window, exp.Window)
            found[name.text.lower()] = (name, window)
        return tuple(found.values())

    def _at_named_window(self) -> bool:
        plain = bool(self._curr) and self._curr.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
        return plain and self._curr.text.upper() == "WINDOW" and self._tokens_ahead(2) == "AS"

    def _stream_word(self) -> StreamWord | None:
        word = _STREAM_WORDS.get(self._curr.text.upper()) if self._curr.token_type == TokenType.VAR else None
        # A column may be called istream: then a comma, FROM, AS or a dot follows it.
        if self._next.token_type in (TokenType.COMMA, TokenType.FROM, TokenType.ALIAS, TokenType.DOT):
            return None
        if word is not None:
            self._advance()
        return word

    def _select_list(self) -> tuple[SelectItem | Star, ...]:
        items = [self._select_item()]
        while self._match(TokenType.COMMA):
            items.append(self._select_item())
        return tuple(items)

    def _select_item(self) -> SelectItem | Star:
        start = self._curr
        if self._match(TokenType.STAR):
            return Star(None, self._from(start))
        # `a.*`, seen by looking two tokens ahead: the parser of expressions would make a column of it.
        named = self._at_name() or self._curr.token_type == TokenType.WINDOW
        if self._next.token_type == TokenType.DOT and named and self._is_star(2):
            self._advance(3)
            return Star(Name(start.text, self._span(start)), self._from(start))
        expression = self._expression("a column or expression to select")
        # Behind AS it can be nothing but a name: that of Arroyo's windows.
        as_window = self._curr.token_type == TokenType.ALIAS and self._next.token_type == TokenType.WINDOW
        if as_window:
            self._advance(2)
        alias = Name(self._prev.text, self._span(self._prev)) if as_window else self._alias("a name after AS")
        return SelectItem(expression, alias, self._from(start))

    def _is_star(self, ahead: int) -> bool:
        position = self._index + ahead
        return position < len(self._tokens) and self._tokens[position].token_type == TokenType.STAR

    def _expression(self, what: str) -> exp.Expr:
        if not self._curr:
            self.fail(f"expected {what}, found the end of the text")
        node = self._parse_disjunction()
        if node is None:
            comma = self._prev.token_type == TokenType.COMMA
            self.fail(f"expected {what}, found {self._found()}", hint="is a comma too many?" if comma else None)
        return node

    # -- after FROM -----------------------------------------------------------------------------------------

    def _constraints(self) -> list[Constraint]:
        found: list[Constraint] = []
        while self._at_constraint():
            found.append(self._constraint())
            # AND must go on with a constraint: a condition here would belong to no clause.
            if self._match(TokenType.AND) and not self._at_constraint():
                self.fail(
                    f"expected WINDOW or DWINDOW after AND, found {self._found()}",
                    hint="conditions on columns go into WHERE, before or after the WINDOW constraints",
                )
        if not found and self._curr.text.upper() in ("WINDOW", "DWINDOW") and not self._at_named_window():
            self.fail(
                "WINDOW is not followed by a constraint",
                hint="write WINDOW = 1 HOUR, WINDOW (A, B) = 5 SECONDS or WINDOW PATH (A, B, C) = (w1, w2)",
            )
        return found

    def _group_by(self) -> tuple[tuple[exp.Expr, ...], Sets | None]:
        """The keys, and by which of them rows are grouped if that is more than one way, or by none."""
        if not self._match(TokenType.GROUP_BY):
            return (), None
        start = self._curr
        if start.token_type == TokenType.ALL and self._next.token_type not in (TokenType.L_PAREN, TokenType.DOT):
            self._advance()
            return (AllKeys(),), None
        keys: list[exp.Expr] = []
        elements = [self._grouping(keys)]
        while self._match(TokenType.COMMA):
            elements.append(self._grouping(keys))
        elements = self._with_totals(elements)
        sets = crossed(elements)
        if len(sets) > MOST_SETS:
            self.fail(f"GROUP BY has {len(sets)} groupings; the limit is {MOST_SETS}", self._from(start))
        plain = all(len(one) == 1 for one in elements)
        return tuple(keys), None if plain and keys else sets

    def _with_totals(self, elements: list[Sets]) -> list[Sets]:
        """`GROUP BY a, b WITH ROLLUP`, as if all of it stood in ROLLUP."""
        for word, made in (("ROLLUP", rollup), ("CUBE", cube)):
            if all(len(one) == 1 for one in elements) and self._match_text_seq("WITH", word):
                return [made([keys for one in elements for keys in one])]
        return elements

    def _grouping(self, keys: list[exp.Expr]) -> Sets:
        """One element of GROUP BY: the ways to group that it stands for."""
        if self._match(TokenType.GROUPING_SETS):
            self._open("(")
            found = [*self._grouping_set(keys)]
            while self._match(TokenType.COMMA):
                found += self._grouping_set(keys)
            self._close(")")
            return tuple(found)
        for word, made in (("ROLLUP", rollup), ("CUBE", cube)):
            if self._curr.text.upper() == word and self._next.token_type == TokenType.L_PAREN:
                self._advance()
                self._open("(")
                parts = [self._key_list(keys)]
                while self._match(TokenType.COMMA):
                    parts.append(self._key_list(keys))
                self._close(")")
                return made(parts)
        if self._curr.token_type == TokenType.L_PAREN and self._next.token_type == TokenType.R_PAREN:
            return (self._key_list(keys),)  # all rows as one group
        return ((self._key(keys),),)

    def _grouping_set(self, keys: list[exp.Expr]) -> Sets:
        if self._curr.token_type == TokenType.L_PAREN:
            return (self._key_list(keys),)
        return self._grouping(keys)

    def _key_list(self, keys: list[exp.Expr]) -> tuple[int, ...]:
        """`(a, b)`, `()` or `a`."""
        if not self._match(TokenType.L_PAREN):
            return (self._key(keys),)
        if self._match(TokenType.R_PAREN):
            return ()
        found = [self._key(keys)]
        while self._match(TokenType.COMMA):
            found.append(self._key(keys))
        self._close(")")
        return tuple(found)

    def _key(self, keys: list[exp.Expr]) -> int:
        """The position of a key; one that is written twice has one."""
        key = self._expression("a column to group by")
        if key not in keys:
            keys.append(key)
        return keys.index(key)

    def _order_by(self) -> tuple[OrderKey, ...]:
        if not self._match(TokenType.ORDER_BY):
            return ()
        keys = [self._order_key()]
        while self._match(TokenType.COMMA):
            keys.append(self._order_key())
        return tuple(keys)

    def _order_key(self) -> OrderKey:
        expression = self._expression("a column to order by")
        descending = bool(self._match(TokenType.DESC))
        if not descending:
            self._match(TokenType.ASC)
        return OrderKey(expression, descending, self._nulls_first())

    def _nulls_first(self) -> bool:
        if not self._match_text_seq("NULLS"):
            return False
        first = bool(self._match_text_seq("FIRST"))
        if not first and not self._match_text_seq("LAST"):
            self.fail(f"expected FIRST or LAST after NULLS, found {self._found()}", hint="NULLs come last by default")
        return first

    def _limit(self) -> LimitSyntax | None:
        """LIMIT, OFFSET and FETCH in any order, as PostgreSQL reads them."""
        start = self._curr
        first: tuple[int, bool] | None = None
        offset: int | None = None
        while self._curr.token_type in LIMIT_WORDS:
            word = self._curr
            self._advance()
            if (offset if word.token_type == TokenType.OFFSET else first) is not None:
                self.fail(
                    f"{word.text.upper()} says again what was said before", self._span(word), hint="leave one out"
                )
            if word.token_type == TokenType.OFFSET:
                offset = self._count("a number of rows after OFFSET")
                self._match_set((TokenType.ROW, TokenType.ROWS))
            else:
                first = self._fetched() if word.token_type == TokenType.FETCH else self._limited()
        if first is None and offset is None:
            return None
        rows, ties = first or (None, False)
        return LimitSyntax(rows, offset or 0, ties, self._from(start))

    def _limited(self) -> tuple[int, bool]:
        rows = self._count("a number of rows after LIMIT")
        if self._match(TokenType.COMMA):
            behind = self._curr.text if self._curr else "10"
            self.fail("LIMIT takes one number", self._span(self._prev), hint=f"write LIMIT {behind} OFFSET {rows}")
        return rows, bool(self._match_text_seq("WITH", "TIES"))

    def _fetched(self) -> tuple[int, bool]:
        """`FETCH FIRST 3 ROWS ONLY`; without a number it is one row."""
        hint = "write FETCH FIRST 10 ROWS ONLY, FETCH FIRST 10 ROWS WITH TIES, or LIMIT 10"
        if not self._match_set((TokenType.FIRST,)) and not self._match_text_seq("NEXT"):
            self.fail(f"expected FIRST or NEXT after FETCH, found {self._found()}", hint=hint)
        rows = self._count("a number of rows") if self._curr.token_type == TokenType.NUMBER else 1
        if not self._match_set((TokenType.ROW, TokenType.ROWS)):
            self.fail(f"expected ROWS, found {self._found()}", hint=hint)
        ties = bool(self._match_text_seq("WITH", "TIES"))
        if not ties and not self._match_text_seq("ONLY"):
            self.fail(f"expected ONLY or WITH TIES, found {self._found()}", hint=hint)
        return rows, ties

    def _every(self) -> Length | None:
        start = self._curr
        if self._curr.token_type == TokenType.IDENTIFIER or not self._match_text_seq("EVERY"):
            return None
        every = self._length()
        if every.us <= 0 and every.count <= 0:
            self.fail("EVERY needs an interval longer than zero", self._from(start))
        return every
