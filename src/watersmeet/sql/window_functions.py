"""Functions in FROM: the windows that rows are in (TUMBLE, HOP, SESSION), each row once, gaps filled."""

from __future__ import annotations

from sqlglot import TokenType, exp

from watersmeet.model.pace import MONDAY_US, Pace
from watersmeet.model.windows import Hop, Session
from watersmeet.sql.dialect import BEGINS_QUERY
from watersmeet.sql.settings import SettingsParser
from watersmeet.sql.syntax import (
    ChangesSyntax,
    Fill,
    FillWord,
    FirstRows,
    GapFillSyntax,
    Length,
    Name,
    QuerySyntax,
    WindowFunction,
)

_FORMS = {
    "TUMBLE": "TUMBLE(a, 10 MINUTES)",
    "HOP": "HOP(a, 1 MINUTE, 10 MINUTES): first the slide, then the size",
    "CUMULATE": "CUMULATE(a, 1 MINUTE, 10 MINUTES): first the step, then the size",
    "SESSION": "SESSION(a, 5 MINUTES PARTITION BY k): a session ends when nothing came for that long",
}

_OF_TWO = {"HOP": "a slide and a size", "CUMULATE": "a step and a size"}


class WindowFunctionParser(SettingsParser):
    def _nested_query(self) -> QuerySyntax:
        raise NotImplementedError  # queries stand above this

    def _expression(self, what: str) -> exp.Expr:
        raise NotImplementedError  # as they do

    def _changes(self) -> ChangesSyntax | None:
        """`CHANGES(view)`, or of a query in parentheses."""
        if not self._at_call("CHANGES"):
            return None
        start = self._curr
        self._advance(2)
        of: Name | QuerySyntax
        if self._match(TokenType.L_PAREN):
            of = self._nested_query()
            self._close(")")
        elif self._curr.token_type in BEGINS_QUERY:
            self.fail("CHANGES goes around a name, or a query in parentheses", hint="write CHANGES((SELECT …))")
        else:
            of = self._name("a view")
        self._close(")")
        return ChangesSyntax(of, self._from(start))

    def _window_function(self) -> tuple[Name | QuerySyntax | ChangesSyntax, WindowFunction] | None:
        """`TUMBLE(s, 10 MINUTES)`, or as the standard has it: `TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), …))`."""
        wrapped = self._at_call("TABLE") and self._tokens_ahead(2) in _FORMS
        if not wrapped and not any(self._at_call(word) for word in _FORMS):
            return None
        if wrapped:
            self._advance(2)
        start, word = self._curr, self._curr.text.upper()
        self._advance(2)
        relation, keys = self._windowed_relation()
        time = self._descriptor()
        sizes, offset = self._sizes(word)
        if self._match(TokenType.PARTITION_BY):
            keys = self._partition_columns()
        if keys and word != "SESSION":
            self.fail(f"{word} has the same windows for all rows", self._from(start), hint="leave PARTITION BY out")
        self._close(")")
        if wrapped:
            self._close(")")
        window = self._hop_or_session(word, sizes, offset)
        return relation, WindowFunction(window, keys, time, self._from(start), self._has_days(word, sizes))

    @staticmethod
    def _has_days(word: str, sizes: list[Length]) -> bool:
        return word in _OF_TWO and any(one.unit != "us" for one in sizes[:2])

    def _at_call(self, word: str) -> bool:
        plain = bool(self._curr) and self._curr.token_type != TokenType.IDENTIFIER
        return plain and self._curr.text.upper() == word and self._next.token_type == TokenType.L_PAREN

    def _tokens_ahead(self, ahead: int) -> str:
        position = self._index + ahead
        return self._tokens[position].text.upper() if position < len(self._tokens) else ""

    def _windowed_relation(self) -> tuple[Name | QuerySyntax | ChangesSyntax, tuple[Name, ...]]:
        relation: Name | QuerySyntax | ChangesSyntax
        if self._match(TokenType.L_PAREN):
            relation = self._nested_query()
            self._close(")")
        else:
            # `TABLE s` of the standard, unless the stream itself is called table.
            if self._curr.text.upper() == "TABLE" and self._next.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
                self._advance()
            relation = self._changes() or self._name("a stream")
        return relation, self._partition_columns() if self._match(TokenType.PARTITION_BY) else ()

    def _partition_columns(self) -> tuple[Name, ...]:
        columns = [self._name("a column to partition by")]
        while self._curr.token_type == TokenType.COMMA and self._tokens_ahead(1) != "DESCRIPTOR":
            self._advance()
            columns.append(self._name("a column to partition by"))
        return tuple(columns)

    def _descriptor(self) -> Name | None:
        """`, DESCRIPTOR(ts)` of the standard, or `, ts` as RisingWave has it."""
        after = self._tokens[self._index + 1 : self._index + 3]
        if [one.token_type for one in after] in (
            [TokenType.VAR, TokenType.COMMA],
            [TokenType.IDENTIFIER, TokenType.COMMA],
        ):
            self._advance()
            return self._name("the event time")
        if self._tokens_ahead(1) != "DESCRIPTOR" or not self._match(TokenType.COMMA):
            return None
        self._advance()
        (column,) = self._names("the event time")[:1]
        return column

    def _sizes(self, word: str, *, first: bool = False) -> tuple[list[Length], int]:
        """The intervals, each after a comma; with `first` they are all that stands in the parentheses."""
        sizes: list[Length] = []
        while (first and not sizes) or self._match(TokenType.COMMA):
            if self._curr.token_type == TokenType.OFFSET:
                break
            if self._curr.token_type not in (TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL, TokenType.DASH):
                self.fail(f"expected an interval, found {self._found()}", hint=f"write {_FORMS[word]}")
            sizes.append(self._length())
        return sizes, self._offset(word, sizes)

    def _offset(self, word: str, sizes: list[Length]) -> int:
        at = self._curr
        if not self._match_text_seq("OFFSET"):
            return 0
        if word == "SESSION":
            hint = f"write {_FORMS[word]}"
            self.fail("SESSION has no OFFSET: a session begins with its first row", self._span(at), hint)
        if len(sizes) > (2 if word in _OF_TWO else 1):
            hint = "leave out OFFSET, or the interval before it"
            self.fail(f"the offset of {word} is said twice", self._span(at), hint)
        return self._interval()

    def _hop_or_session(self, word: str, sizes: list[Length], offset: int) -> Hop | Session:
        least = 2 if word in _OF_TWO else 1
        if len(sizes) < least or len(sizes) > least + (word != "SESSION"):
            missing = _OF_TWO.get(word, "a gap" if word == "SESSION" else "a size")
            self.fail(f"{word} needs {missing}, and {len(sizes) or 'none'} was given", hint=f"write {_FORMS[word]}")
        if any(size.us <= 0 and size.count <= 0 for size in sizes[:least]):
            self.fail(f"an interval of {word} must be longer than zero", hint=f"write {_FORMS[word]}")
        if word == "SESSION":
            return Session(self._fixed(sizes[0], self._prev))
        slide, size = sizes[:2] if word in _OF_TWO else (sizes[0], sizes[0])
        shift = self._fixed(sizes[least], self._prev) if len(sizes) > least else offset
        if slide.unit != "us" and (word != "CUMULATE" or slide == size):
            return self._calendar_hop(slide, size, shift)
        shift += MONDAY_US if word == "CUMULATE" and size.unit == "week" else 0
        slide_us, size_us = (self._fixed(one, self._prev) for one in (slide, size))
        if slide_us > size_us:
            self.fail(
                f"the {'slide' if word == 'HOP' else 'step'} of {word} is longer than its size"
                + (", so rows between two windows would be in none" if word == "HOP" else ""),
                hint=f"first comes the slide, then the size: write {_FORMS[word].partition(':')[0]}",
            )
        if word == "CUMULATE" and size_us % slide_us:
            self.fail("the size of CUMULATE is a whole multiple of its step", hint=f"write {_FORMS[word]}")
        return Hop(size_us, slide_us, shift, cumulates=word == "CUMULATE" and slide_us < size_us)

    def _calendar_hop(self, slide: Length, size: Length, offset_us: int) -> Hop:
        """Windows that begin with days or months, as clocks show them."""
        by_months = slide.unit == "month"
        each, whole = (slide.count, size.count) if by_months else (slide.days, size.days)
        if by_months != (size.unit == "month") or whole % each or not whole:
            self.fail(
                "the size of HOP is a whole multiple of its slide, both in days and weeks or both in months and longer",
                hint="write for example HOP(a, 1 DAY, 1 WEEK) or HOP(a, 1 MONTH, 1 YEAR)",
            )
        origin = MONDAY_US if slide.unit == "week" else 0
        pace = Pace(each, "month" if by_months else "day", offset_us + origin)
        steps = whole // each
        return Hop(pace.longest_us * steps, pace.longest_us, calendar=pace, steps=steps)


_FORM = "DEDUPLICATE(a, 10 MINUTES PARTITION BY k): rows of one k within 10 minutes of one that was given are left out"


class DeduplicationParser(WindowFunctionParser):
    def _deduplication(self) -> tuple[Name, FirstRows] | None:
        """`DEDUPLICATE(s, 10 MINUTES PARTITION BY k)`, or with `TABLE s` and `DESCRIPTOR(ts)` as windows have them."""
        if not self._at_call("DEDUPLICATE"):
            return None
        start = self._curr
        self._advance(2)
        if self._curr.token_type == TokenType.L_PAREN or self._at_call("CHANGES"):
            self.fail(
                "DEDUPLICATE goes over a stream that is declared, as its rows arrive",
                hint="write it inside the query: (SELECT … FROM DEDUPLICATE(a, 10 MINUTES PARTITION BY k))",
            )
        relation, keys = self._windowed_relation()
        time = self._descriptor()
        if not self._match(TokenType.COMMA):
            self.fail(f"DEDUPLICATE needs an interval, found {self._found()}", hint=f"write {_FORM}")
        if self._curr.token_type not in (TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL):
            self.fail(f"expected an interval, found {self._found()}", hint=f"write {_FORM}")
        within = self._interval()
        if within < 0:
            self.fail("the interval of DEDUPLICATE is negative", self._from(start), hint=f"write {_FORM}")
        if self._match(TokenType.PARTITION_BY):
            keys = self._partition_columns()
        self._close(")")
        assert isinstance(relation, Name)
        return relation, FirstRows(within, keys, time, self._from(start))


_GAPS = "GAP_FILL(a, ts, 1 MINUTE, LOCF(x), INTERPOLATE(y) PARTITION BY k)"
_FILLS: dict[str, FillWord] = {
    "LOCF": "locf",
    "FILL_LOCF": "locf",
    "INTERPOLATE": "interpolate",
    "FILL_INTERPOLATE": "interpolate",
    "KEEPNULL": "keepnull",
    "FILL_NULL": "keepnull",
    "CONSTANT": "constant",
    "FILL_CONSTANT": "constant",
}


class GapFillParser(DeduplicationParser):
    def _gap_fill(self) -> tuple[Name | QuerySyntax | ChangesSyntax, GapFillSyntax] | None:
        """`GAP_FILL(s, ts, 1 MINUTE, LOCF(x) PARTITION BY k)`, or with `TABLE s` and `DESCRIPTOR(ts)`."""
        wrapped = self._at_call("TABLE") and self._tokens_ahead(2) == "GAP_FILL"
        if not wrapped and not self._at_call("GAP_FILL"):
            return None
        if wrapped:
            self._advance(2)
        start = self._curr
        self._advance(2)
        relation, keys = self._windowed_relation()
        time = self._descriptor() or self._time_of_gaps()
        step = self._step()
        fills: list[Fill] = []
        while self._match(TokenType.COMMA):
            fills.append(self._fill())
        if self._match(TokenType.PARTITION_BY):
            keys = self._partition_columns()
        self._close(")")
        if wrapped:
            self._close(")")
        return relation, GapFillSyntax(time, step, tuple(fills), keys, self._from(start))

    def _time_of_gaps(self) -> Name | None:
        after = self._tokens[self._index + 2] if self._index + 2 < len(self._tokens) else None
        if self._next.token_type in (TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL) or after is None:
            return None
        if not self._match(TokenType.COMMA):
            self.fail(f"GAP_FILL needs a step, found {self._found()}", hint=f"write {_GAPS}")
        return self._name("the time that goes on by the step")

    def _step(self) -> Length:
        if not self._match(TokenType.COMMA):
            self.fail(f"GAP_FILL needs a step, found {self._found()}", hint=f"write {_GAPS}")
        at = self._curr
        if at.token_type not in (TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL):
            self.fail(f"expected an interval, found {self._found()}", hint=f"write {_GAPS}")
        step = self._length()
        if step.us <= 0 and step.count <= 0:
            self.fail("the step of GAP_FILL must be longer than zero", self._from(at), hint=f"write {_GAPS}")
        return step

    def _fill(self) -> Fill:
        how = _FILLS.get(self._curr.text.upper())
        if how is None or self._next.token_type != TokenType.L_PAREN:
            known = "LOCF(x), INTERPOLATE(x), KEEPNULL(x) or CONSTANT(x, 0)"
            self.fail(f"expected how a column is filled, found {self._found()}", hint=f"write {known}")
        word = self._curr.text.upper()
        self._advance(2)
        column = self._name("the column to fill")
        value = None
        if how == "constant":
            if not self._match(TokenType.COMMA):
                self.fail(f"{word} needs a column and a value, found {self._found()}", hint=f"write {word}(x, 0)")
            value = self._expression("a constant")
        if self._curr.token_type != TokenType.R_PAREN:
            self.fail(f"{word} fills one column, found {self._found()}", hint=f"write {word}(x), {word}(y)")
        self._close(")")
        return Fill(how, column, value)
