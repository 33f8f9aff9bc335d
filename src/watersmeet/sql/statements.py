"""CREATE STREAM, CREATE TABLE, CREATE SINK, SET and queries: one statement of a script."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import pyarrow as pa
from sqlglot import Token, TokenType

from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.model.declaration import Setting
from watersmeet.model.types import arrow_type
from watersmeet.plan.memory import Memory
from watersmeet.sql import slips
from watersmeet.sql.clauses import QueryParser
from watersmeet.sql.dialect import BEGINS_QUERY
from watersmeet.sql.foreign import CREATED, PHRASES
from watersmeet.sql.syntax import (
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Explain,
    Name,
    SetEngine,
    SetMemory,
    Statement,
)

_TYPES = (
    "BOOLEAN",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "STRING",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE",
)


class StatementParser(QueryParser):
    def _statement(self) -> Statement | None:
        # sqlglot hands over a semicolon with a comment behind it as a statement of its own.
        if self._match(TokenType.SEMICOLON) or not self._curr:
            return None
        if self._curr.token_type == TokenType.CREATE:
            return self._create()
        if self._curr.text.upper() == "EXPLAIN" and self._curr.token_type != TokenType.IDENTIFIER:
            return self._explain()
        if self._curr.token_type == TokenType.SET:
            return self._set()
        if self._curr.token_type not in (TokenType.L_PAREN, *BEGINS_QUERY):
            self.fail(f"expected a statement, found {self._found()}", hint=_statement_hint(self._curr.text.upper()))
        return self._query()

    def _explain(self) -> Explain:
        """`EXPLAIN [ANALYZE] query` or `EXPLAIN (ANALYZE, FORMAT JSON) query`."""
        start = self._curr
        self._advance()
        analyze, format_ = bool(self._match_text_seq("ANALYZE")), "text"
        in_query = (TokenType.L_PAREN, *BEGINS_QUERY)
        # `EXPLAIN (SELECT …)` is a query in parentheses, not a list of options.
        if self._curr.token_type == TokenType.L_PAREN and self._next.token_type not in in_query:
            self._advance()
            while True:
                if self._match_text_seq("ANALYZE"):
                    analyze = True
                else:
                    format_ = self._plan_format()
                if not self._match(TokenType.COMMA):
                    break
            self._close(")")
        if self._curr.token_type not in in_query:
            self.fail(
                f"expected a query after EXPLAIN, found {self._found()}",
                hint="write EXPLAIN SELECT …, EXPLAIN ANALYZE SELECT … or EXPLAIN (ANALYZE, FORMAT JSON) SELECT …",
            )
        return Explain(self._query(), analyze, "json" if format_ == "json" else "text", self._from(start))

    def _plan_format(self) -> str:
        if not self._match_text_seq("FORMAT"):
            self.fail(f"EXPLAIN has the options ANALYZE and FORMAT, found {self._found()}")
        format_ = self._curr.text.lower() if self._curr else ""
        if format_ not in ("text", "json"):
            self.fail(f"a plan cannot be told as {self._found()}", hint="write FORMAT TEXT or FORMAT JSON")
        self._advance()
        return format_

    def _set(self) -> SetEngine | SetMemory:
        """`SET engine = 'local'` or `SET memory = '64 MB'`, all that a script has to set."""
        start = self._curr
        self._advance()
        name = next((one for one in ("engine", "memory") if self._match_text_seq(one.upper())), None)
        if name is None:
            self.fail(f"SET has engine and memory alone, found {self._found()}", hint=slips.STATEMENTS["SET"])
        if not self._match(TokenType.EQ):
            usual = "SET engine = 'local'" if name == "engine" else "SET memory = '64 MB'"
            self.fail(f"expected =, found {self._found()}", hint=f"write {usual}")
        return self._set_engine(start) if name == "engine" else self._set_memory(start)

    def _set_memory(self, start: Token) -> SetMemory:
        if not self._curr or self._curr.token_type != TokenType.STRING:
            self.fail(f"expected how much, found {self._found()}", hint="write SET memory = '64 MB' or '100000 rows'")
        try:
            memory = Memory.parse(self._curr.text)
        except OptionError as error:
            self.fail(error.message.removeprefix("option "), hint=error.hint)
        self._advance()
        return SetMemory(memory, self._from(start))

    def _set_engine(self, start: Token) -> SetEngine:
        engine = self._curr.text.lower() if self._curr else ""
        if engine not in ("local", "spark"):
            self.fail(f"there is no engine {self._found()}", hint="write SET engine = 'local' or SET engine = 'spark'")
        self._advance()
        return SetEngine("local" if engine == "local" else "spark", self._from(start))

    def _create(self) -> Statement:
        start = self._curr
        self._advance()
        replace = bool(self._match_text_seq("OR", "REPLACE"))
        kind = self._curr.text.upper()
        if kind not in ("STREAM", "TABLE", "VIEW", "SINK"):
            hint = CREATED.get(kind)
            self.fail(f"expected STREAM, TABLE, VIEW or SINK after CREATE, found {self._found()}", hint=hint)
        self._advance()
        if self._curr.text.upper() == "IF" and self._next.token_type == TokenType.NOT:
            self.fail("IF NOT EXISTS is not part of the language", hint="leave it out: what a script creates is new")
        name = self._name(f"a name for the {kind.lower()}")
        if kind == "VIEW":
            return self._create_view(start, name, replace=replace)
        if kind == "SINK":
            if replace:
                self.fail(
                    "a sink is not replaced, its file is",
                    self._from(start),
                    hint="write mode = 'overwrite' in WITH (…)",
                )
            return self._create_sink(start, name)
        schema = self._columns() if self._curr.token_type == TokenType.L_PAREN else None
        settings = self._with(kind)
        if self._curr.token_type == TokenType.ALIAS:
            self.fail(
                f"CREATE {kind} … AS query is not supported",
                kind=UnsupportedError,
                hint="write CREATE VIEW name AS SELECT …, and FROM name [RANGE 1 HOUR]",
            )
        made = CreateStream if kind == "STREAM" else CreateTable
        return made(name.text, schema, _as_dict(settings), self._from(start), name.span, settings, replace)

    def _create_view(self, start: Token, name: Name, *, replace: bool) -> CreateView:
        columns = self._names("a column") if self._curr.token_type == TokenType.L_PAREN else ()
        if not self._match(TokenType.ALIAS):
            self.fail(f"expected AS and a query, found {self._found()}", hint="write CREATE VIEW name AS SELECT …")
        return CreateView(name.text, columns, self._query(nested=True), self._from(start), name.span, replace)

    def _create_sink(self, start: Token, name: Name) -> CreateSink:
        settings = self._with("SINK")
        query = self._query() if self._match(TokenType.ALIAS) else None
        if query is None and self._curr and self._curr.token_type != TokenType.SEMICOLON:
            self.fail(
                f"expected AS and a query, found {self._found()}",
                hint="write CREATE SINK name WITH (…) AS SELECT …; without a query it takes bad records and late rows",
            )
        return CreateSink(name.text, _as_dict(settings), query, self._from(start), name.span, settings)

    def _with(self, kind: str) -> tuple[Setting, ...]:
        if not self._match(TokenType.WITH):
            self.fail(f"expected WITH (…), found {self._found()}", hint=f"write CREATE {kind} … WITH (path = '…', …)")
        return self._settings_list()

    def _columns(self) -> pa.Schema:
        self._open("(")
        fields = [self._column()]
        while self._match(TokenType.COMMA):
            fields.append(self._column(tuple(f.name.lower() for f in fields)))
        self._close(")")
        return pa.schema(fields)

    def _column(self, taken: tuple[str, ...] = ()) -> pa.Field[Any]:
        foreign = _NOT_COLUMNS.get((self._curr.text.upper(), self._next.text.upper()))
        if foreign is not None:
            words = f"{self._curr.text.upper()} {self._next.text.upper()}"
            self.fail(f"{words} is not part of the language", hint=foreign)
        name = self._name("a column name")
        if name.text.lower() in taken:
            self.fail(f"column {name.text} is declared twice", name.span)
        start = self._curr
        sql = self._type_text(name)
        data_type = arrow_type(sql)
        if data_type is None:
            exact = sql.upper().startswith("TIMESTAMP(")
            hint = "write TIMESTAMP, which holds microseconds" if exact else f"the types are {', '.join(_TYPES)}, …"
            self.fail(f"{sql} is not a type", self._from(start), hint=hint)
        nullable = not self._match_text_seq("NOT", "NULL")
        return pa.field(name.text, data_type, nullable)

    def _type_text(self, name: Name) -> str:
        """The words of a type up to the next comma, closing parenthesis or NOT."""
        start = self._curr
        # DOUBLE PRECISION is one token of two words.
        if not start or not all(word.isidentifier() for word in start.text.split()):
            self.fail(f"column {name.text} needs a type, found {self._found()}", hint=f"write {name.text} BIGINT")
        self._advance()
        if start.text.upper() in ("ARRAY", "LIST", "STRUCT", "ROW", "MAP"):
            self._brackets()
        elif self._match(TokenType.L_PAREN):
            self._count("a length")
            if self._match(TokenType.COMMA):
                self._count("a scale")
            self._close(")")
        if start.text.upper() == "TIMESTAMP" and (self._match(TokenType.WITH) or self._match_text_seq("WITHOUT")):
            self._match_text_seq("LOCAL")
            if not self._match_text_seq("TIME", "ZONE"):
                self.fail(f"expected TIME ZONE, found {self._found()}", hint="write TIMESTAMP WITH TIME ZONE")
        while self._match(TokenType.L_BRACKET):
            self._close("]")
        # As written: arrow_type reads types as text, here and in CAST.
        span = self._from(start)
        return self.sql[span[0] : span[1]]

    def _brackets(self) -> None:
        """Over what stands in the brackets of a type that holds others, to the last that closes them."""
        depth = 0
        while self._curr and (depth or self._curr.text in ("(", "<")):
            # Two that close may be one token.
            depth += sum(mark in "(<[" for mark in self._curr.text) - sum(mark in ")>]" for mark in self._curr.text)
            self._advance()
            if depth <= 0:
                return


# What other languages list among the columns, by its first two words.
_NOT_COLUMNS = {
    ("WATERMARK", "FOR"): "leave it out, and say WITH (time = 'ts', lateness = '5 seconds') after the columns",
    ("PRIMARY", "KEY"): "leave it out; a table with versions says WITH (time = 'ts', key = 'id') after the columns",
}


def _statement_hint(word: str) -> str:
    known = slips.STATEMENTS.get(word) or PHRASES.get(word)
    if known is not None:
        return known
    near = get_close_matches(word, ["SELECT", "CREATE", "EXPLAIN"], n=1)
    return f"did you mean {near[0]}?" if near else "a statement begins with SELECT, CREATE, EXPLAIN or SET"


def _as_dict(settings: tuple[Setting, ...]) -> dict[str, str]:
    return {setting.name: setting.value for setting in settings}
