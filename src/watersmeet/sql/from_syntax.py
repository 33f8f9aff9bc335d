"""FROM: what is read, under which names, and how it is joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NoReturn

from sqlglot import TokenType, exp

from watersmeet.errors import UnsupportedError
from watersmeet.sql import slips
from watersmeet.sql.dialect import BEGINS_QUERY, RESERVED
from watersmeet.sql.foreign import FILE, PHRASES
from watersmeet.sql.foreign import FUNCTIONS as FOREIGN
from watersmeet.sql.group_windows import GroupWindowParser
from watersmeet.sql.syntax import (
    Constraint,
    FromSyntax,
    JoinSyntax,
    JoinWord,
    Name,
    QuerySyntax,
    SelectItem,
    SeriesSyntax,
    SetKind,
    SourceSyntax,
    Star,
    UnnestSyntax,
    ValuesSyntax,
    WindowCondition,
    locate,
)

_AFTER_JOIN_WORDS = (
    TokenType.JOIN, TokenType.OUTER, TokenType.SEMI, TokenType.ANTI, TokenType.ASOF, TokenType.LEFT, TokenType.INNER,
    TokenType.RIGHT, TokenType.FULL,
)  # fmt: skip
SET_WORDS: dict[TokenType, SetKind] = {
    TokenType.UNION: "union",
    TokenType.EXCEPT: "except",
    TokenType.INTERSECT: "intersect",
}
LIMIT_WORDS = (TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH)
_AFTER_QUERY = (*SET_WORDS, TokenType.R_PAREN, TokenType.ORDER_BY, *LIMIT_WORDS)
EMIT_WORDS = {("CHANGES",): "changes", ("FINAL",): "complete", ("ON", "WINDOW", "CLOSE"): "complete"}
# Words that are not reserved, and begin a clause before these.
_NO_ALIASES = frozenset(
    (
        ("FOR", "SYSTEM_TIME"), ("FETCH", "FIRST"), ("FETCH", "NEXT"), ("LATERAL", "VIEW"),
        *(("EMIT", words[0]) for words in EMIT_WORDS),
    )
)  # fmt: skip
# Longer ones first, as the words of one may begin another.
_JOIN_WORDS: tuple[tuple[tuple[str, ...], JoinWord], ...] = (
    (("INNER",), "inner"),
    (("LEFT", "OUTER"), "left"), (("LEFT", "SEMI"), "semi"), (("LEFT", "ANTI"), "anti"), (("LEFT",), "left"),
    (("RIGHT", "OUTER"), "right"), (("RIGHT",), "right"),
    (("FULL", "OUTER"), "full"), (("FULL",), "full"),
    (("SEMI",), "semi"), (("ANTI",), "anti"),
    (("ASOF", "LEFT", "OUTER"), "asof_left"), (("ASOF", "LEFT"), "asof_left"), (("ASOF", "INNER"), "asof"),
    (("ASOF",), "asof"),
    ((), "inner"),
)  # fmt: skip
_JOIN_STARTS = frozenset((*slips.OTHER_JOINS, *(words[0] for words, _ in _JOIN_WORDS if words and words[0] != "INNER")))


class FromParser(GroupWindowParser):
    _lateral = False  # whether a query is read that sees what stands before it

    def _nothing(self, items: Sequence[SelectItem | Star]) -> SourceSyntax | None:
        """What a SELECT reads that has no FROM: a row without columns."""
        # A word that is meant as a name.
        goes_on = slips.is_word(self._curr) and self._next.token_type in (TokenType.FROM, TokenType.COMMA)
        over = not self._curr or self._curr.token_type in (*_AFTER_QUERY, TokenType.SEMICOLON)
        over = over or self._curr.text.upper() in ("OPTIONS", "EVERY", "EMIT")
        over = over or (self._lateral and self._curr.token_type == TokenType.WHERE)
        if goes_on or not over or any(isinstance(item, Star) for item in items):
            return None
        span = items[-1].span
        return SourceSyntax(ValuesSyntax(((),), span), None, None, span)

    def _from_clause(self) -> FromSyntax:
        if not self._match(TokenType.FROM):
            self._fail_without_from()
        return self._sources()

    def _sources(self) -> FromSyntax:
        """What stands between commas, which bind less than JOIN does."""
        start = self._curr
        tree = self._joined()
        while self._match(TokenType.COMMA):
            tree = JoinSyntax("inner", tree, self._joined(), None, self._from(start))
        return tree

    def _joined(self) -> FromSyntax:
        """Joins from left to right."""
        start = self._curr
        tree = self._join_member()
        while True:
            at = self._curr
            if self._match_text_seq("CROSS", "JOIN"):
                tree = JoinSyntax("inner", tree, self._join_member(), None, self._from(start), crossed=True)
                continue
            if (viewed := self._lateral_view()) is not None:
                kept, entries = viewed
                tree = JoinSyntax(kept, tree, entries, None, self._from(start), crossed=kept == "inner")
                continue
            natural = self._curr.token_type == TokenType.NATURAL and self._next.token_type in _AFTER_JOIN_WORDS
            if natural:
                self._advance()
            kind = self._join_word()
            if natural and kind is not None:
                tree = JoinSyntax(kind, tree, self._join_member(), None, self._from(at), natural=True)
            elif kind is not None:
                right = self._join_member()
                within = self._within(tree, right)
                using = () if within else self._using()
                on = None if using else self._on()
                condition = exp.And(this=on, expression=within) if on is not None and within else on
                tree = JoinSyntax(kind, tree, right, condition, self._from(at), using)
            elif self._curr.text.upper() in _JOIN_STARTS and self._curr.token_type != TokenType.IDENTIFIER:
                self._refuse_join()
            else:
                return tree

    def _join_word(self) -> JoinWord | None:
        for words, kind in _JOIN_WORDS:
            if self._match_text_seq(*words, "JOIN"):
                return kind
        return None

    def _join_member(self) -> FromSyntax:
        """One source, or joins in parentheses."""
        if self._curr.token_type != TokenType.L_PAREN or self._at_subquery():
            return self._source()
        self._advance()
        tree = self._sources()
        self._close(")")
        return tree

    def _at_subquery(self) -> bool:
        """Whether a query stands in the parentheses that open here, and not joins of which a query is the first."""
        inside = self._index + 1
        while inside < len(self._tokens) and self._tokens[inside].token_type == TokenType.L_PAREN:
            # (SELECT …) AS a JOIN …, or (SELECT …) UNION …
            after = self._behind_parenthesis(inside)
            if after is not None and self._tokens[after].token_type not in _AFTER_QUERY:
                return False
            inside += 1
        return inside >= len(self._tokens) or self._tokens[inside].token_type in BEGINS_QUERY

    def _behind_parenthesis(self, position: int) -> int | None:
        """Where the text goes on behind the parenthesis that opens at a token."""
        depth = 0
        for at in range(position, len(self._tokens) - 1):
            kind = self._tokens[at].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0:
                return at + 1
        return None

    def _using(self) -> tuple[Name, ...]:
        if not self._match(TokenType.USING):
            return ()
        names = self._names("a column")
        twice = next(
            (one for i, one in enumerate(names) if one.text.lower() in [n.text.lower() for n in names[:i]]), None
        )
        if twice is not None:
            self.fail(f"{twice.text} stands twice in USING", twice.span)
        return names

    def _on(self) -> exp.Expr:
        if self._match(TokenType.ON):
            return self._expression("a condition after ON")
        self.fail(
            f"JOIN needs ON and a condition, found {self._found()}", hint="write JOIN b ON a.k = b.k, or CROSS JOIN b"
        )

    def _at_within(self) -> bool:
        """Whether ksqlDB's WITHIN stands here, which is followed by an interval, or by two in parentheses."""
        plain = bool(self._curr) and self._curr.token_type == TokenType.VAR and self._curr.text.upper() == "WITHIN"
        opened = self._next.token_type == TokenType.L_PAREN and self._tokens_ahead(2)[:1].isdecimal()
        return plain and (opened or self._next.token_type == TokenType.NUMBER)

    def _within(self, left: FromSyntax, right: FromSyntax) -> WindowCondition | None:
        """`JOIN b WITHIN 1 HOUR ON …`, as if ON had said WINDOW (a, b) = 1 HOUR."""
        start = self._curr
        if not self._at_within():
            return None
        self._advance()
        if self._curr.token_type == TokenType.L_PAREN:
            self.fail(
                "WITHIN takes one interval, for both directions",
                hint="say both in ON: b.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts + INTERVAL 2 HOURS",
            )
        size = self._interval()
        at = self._curr
        if self._match_text_seq("GRACE", "PERIOD"):
            self.fail(
                "GRACE PERIOD says how late rows may be, which is said of a stream",
                self._span(at),
                hint="leave it out, and write CREATE STREAM … WITH (lateness = '15 minutes') for both streams",
            )
        streams = [one.named for one in (left, right) if isinstance(one, SourceSyntax)]
        names = tuple(one for one in streams if one is not None)
        if len(names) < 2:
            self.fail(
                "WITHIN stands between two streams",
                self._from(start),
                hint="after the joins write WINDOW (a, c) = 1 HOUR, with AND between such for several pairs",
            )
        made = WindowCondition(constraint=Constraint("pair", names, (size,), self._from(start)))
        locate(made, self._from(start))
        return made

    def _lateral_view(self) -> tuple[JoinWord, SourceSyntax] | None:
        """`LATERAL VIEW explode(items) t AS item` of Spark, and with OUTER for rows without entries, too."""
        start = self._curr
        if not self._match_text_seq("LATERAL", "VIEW"):
            return None
        kind: JoinWord = "left" if self._match_text_seq("OUTER") else "inner"
        if not self._at_call("EXPLODE"):
            self.fail(
                f"LATERAL VIEW goes with EXPLODE, found {self._found()}",
                hint="write CROSS JOIN UNNEST(a.items) WITH ORDINALITY AS t (item, number), which counts from 1",
            )
        self._advance()
        values = self._row()[0]
        alias = self._name("a name") if self._at_name() else None
        columns = (self._name("a name after AS"),) if self._match(TokenType.ALIAS) else ()
        span = self._from(start)
        named = alias or Name("explode", span)
        return kind, SourceSyntax(named, alias, None, span, unnest=UnnestSyntax(values, columns, False, span))

    def _refuse_join(self) -> NoReturn:
        word = self._curr.text.upper()
        if self._next.token_type in _AFTER_JOIN_WORDS or word == "STRAIGHT_JOIN":
            words = word if self._next.token_type == TokenType.JOIN else f"{word} {self._next.text.upper()}"
            self.fail(
                f"{words} joins are not supported",
                hint=slips.OTHER_JOINS.get(self._next.text.upper()) or slips.OTHER_JOINS.get(word),
                kind=UnsupportedError,
            )
        if self._next.token_type in (TokenType.VAR, TokenType.L_PAREN):
            self.fail(f"{word} is not followed by JOIN", hint=f"write JOIN … ON …; {slips.quote(self._curr.text)}")
        self.fail(f"expected an alias, found {self._found()}", hint=slips.quote(self._curr.text))

    def _fail_without_from(self) -> NoReturn:
        # A select list that breaks off ends here: most often a comma is missing, or a word must be quoted.
        at_alias = self._next.token_type in (TokenType.FROM, TokenType.COMMA)
        if slips.is_word(self._curr) and self._curr.text.upper() in RESERVED and at_alias:
            self.fail(f"expected FROM, found {self._found()}", hint=slips.quote(self._curr.text))
        slip = slips.instead_of_from(self._prev, self._curr, self._next) if self._curr else None
        if slip is not None:
            self.fail(slip.message, self._span(slip.at), slip.hint)
        self.fail(f"expected FROM, found {self._found()}", hint="write SELECT … FROM stream [RANGE 1 MINUTE]")

    def _source(self) -> SourceSyntax:
        start = self._curr
        # A list that is taken apart sees what stands before it in any case.
        if self._curr.text.upper() == "LATERAL" and self._next.text.upper() == "UNNEST":
            self._advance()
        if self._curr.text.upper() == "UNNEST" and self._next.token_type == TokenType.L_PAREN:
            return self._unnest()
        read = self._read()
        # The window may stand before the alias or after it.
        window = self._window()
        as_of = self._as_of()
        alias = self._source_alias()
        named = alias is not None and self._curr.token_type == TokenType.L_PAREN and alias.text.upper() not in PHRASES
        columns = self._names("a column") if named else ()
        window = window or self._window()
        as_of = as_of or self._as_of()
        if alias is not None and isinstance(read.relation, SeriesSyntax):
            columns = columns or (alias,)  # the name is that of the column, too
        return replace(read, alias=alias, window=window, span=self._from(start), as_of=as_of, columns=columns)

    def _read(self) -> SourceSyntax:
        """What is read, and what is made of its rows at once."""
        bare = partial(SourceSyntax, alias=None, window=None, span=self._span(self._curr))
        if (in_windows := self._window_function()) is not None:
            return bare(in_windows[0], function=in_windows[1])
        if (deduplicated := self._deduplication()) is not None:
            return bare(deduplicated[0], first=deduplicated[1])
        if (filled := self._gap_fill()) is not None:
            return bare(filled[0], gaps=filled[1])
        if (made := self._changes() or self._constants()) is not None:
            return bare(made)
        lateral = self._at_call("LATERAL")
        if lateral or self._curr.token_type == TokenType.L_PAREN:
            self._advance(2 if lateral else 1)
            query = self._inside_lateral() if lateral else self._nested_query()
            self._close(")")
            return bare(query, lateral=lateral)
        return bare(self._stream_or_table())

    def _stream_or_table(self) -> Name:
        if self._curr.token_type == TokenType.STRING:
            self.fail(f"expected a stream or table, found {self._found()}", hint=FILE)
        name = self._name("a stream or table")
        if self._curr.token_type == TokenType.L_PAREN:
            # TABLE(TUMBLE(…)): what counts is the function inside.
            word = self._next.text if name.text.upper() == "TABLE" else name.text
            known = PHRASES.get(word.upper()) or FOREIGN.get(word.lower())
            self.fail("a function cannot stand in FROM", name.span, hint=known or "name a stream or table")
        if name.text.upper() == "PATTERN" and self._curr.token_type == TokenType.L_BRACKET:
            self.fail("PATTERN is not part of the language", name.span, hint=PHRASES["PATTERN"])
        return name

    def _inside_lateral(self) -> QuerySyntax:
        """A query that may have WHERE without FROM, as it is about the row before it."""
        around, self._lateral = self._lateral, True
        query = self._nested_query()
        self._lateral = around
        return query

    def _constants(self) -> ValuesSyntax | SeriesSyntax | None:
        """`VALUES (…), (…)`, or a series."""
        start = self._curr
        if self._match(TokenType.VALUES):
            rows = [self._row()]
            while self._match(TokenType.COMMA):
                rows.append(self._row())
            return ValuesSyntax(tuple(rows), self._from(start))
        if self._at_call("GENERATE_SERIES"):
            return self._series("GENERATE_SERIES")
        return self._series("RANGE") if self._at_call("RANGE") else None

    def _row(self) -> tuple[exp.Expr, ...]:
        self._open("(")
        values = [self._expression("a value")]
        while self._match(TokenType.COMMA):
            values.append(self._expression("a value"))
        self._close(")")
        return tuple(values)

    def _series(self, word: Literal["GENERATE_SERIES", "RANGE"]) -> SeriesSyntax:
        start = self._curr
        self._advance()
        return SeriesSyntax(word, self._row(), self._from(start))

    def _unnest(self) -> SourceSyntax:
        start = self._curr
        self._advance()
        self._open("(")
        values = self._expression("a list")
        self._close(")")
        numbered = bool(self._match_text_seq("WITH", "ORDINALITY"))
        alias = self._alias("an alias")
        columns = self._names("a column") if self._curr.token_type == TokenType.L_PAREN else ()
        span = self._from(start)
        named = Name("unnest", span) if alias is None else alias
        return SourceSyntax(named, alias, None, span, unnest=UnnestSyntax(values, columns, numbered, span))

    def _as_of(self) -> exp.Expr | None:
        if not self._match_text_seq("FOR", "SYSTEM_TIME"):
            return None
        if not self._match_text_seq("AS", "OF"):
            self.fail(f"expected AS OF, found {self._found()}", hint="write JOIN t FOR SYSTEM_TIME AS OF a.ts ON …")
        return self._expression("a time after AS OF")

    def _source_alias(self) -> Name | None:
        # ASOF is no reserved word and may be an alias, unless a JOIN follows.
        if self._curr.text.upper() in _JOIN_STARTS and self._next.token_type in _AFTER_JOIN_WORDS:
            return None
        return self._alias("an alias")

    def _alias(self, what: str) -> Name | None:
        if self._match(TokenType.ALIAS):
            return self._name(what)
        begins_clause = (self._curr.text.upper(), self._next.text.upper()) in _NO_ALIASES
        return self._name(what) if self._at_name() and not begins_clause and not self._at_within() else None
