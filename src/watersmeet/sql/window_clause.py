"""The window of one source: [RANGE …], [ROWS …], [PARTITION BY … ROWS …], in steps with SLIDE, [LANDMARK …],
[LATCH …], [NOW] or [UNBOUNDED]."""

from __future__ import annotations

from sqlglot import Token, TokenType

from watersmeet.model.time import FOREVER_US, unit_us
from watersmeet.model.windows import Landmark, Range, RowsWindow, Stepped, SteppedRows, Unbounded, Window
from watersmeet.sql.dialect import ExpressionParser
from watersmeet.sql.syntax import Name, WindowClause

_MOST_DIGITS = 18  # so that a sum of a few such numbers is still an int64


class WindowParser(ExpressionParser):
    def _window(self) -> WindowClause | None:
        start = self._curr
        if not self._match(TokenType.L_BRACKET):
            return None
        if self._match_text_seq("LANDMARK"):
            return self._landmark(start)
        window, partition_by = self._window_form()
        window = self._in_steps(window)
        # The mistakes people make are looked for before the bracket is missed.
        if isinstance(window, RowsWindow) and unit_us(self._curr.text) is not None:
            self.fail(
                f"ROWS counts rows, found {self._found()}", hint=f"write [RANGE {window.count} {self._curr.text}]"
            )
        if isinstance(window, RowsWindow | SteppedRows) and self._at_partition_by():
            hint = f"write [PARTITION BY k ROWS {window.count}]"
            self.fail("PARTITION BY stands before ROWS in a window", hint=hint)
        self._close("]")
        return WindowClause(window, partition_by, self._from(start))

    def _landmark(self, start: Token) -> WindowClause:
        """`[LANDMARK '2026-01-01' EVERY 1 DAY]`; the time is read where the times of the stream are known."""
        self._match_text_seq("TIMESTAMP")
        at = self._curr
        if at.token_type not in (TokenType.STRING, TokenType.PLACEHOLDER):
            self.fail(
                f"expected a time after LANDMARK, found {self._found()}",
                hint="write [LANDMARK '2026-01-01 00:00:00'], or with EVERY 1 DAY to begin anew so often",
            )
        self._advance()
        every = self._interval() if self._match_text_seq("EVERY") else None
        self._close("]")
        return WindowClause(Landmark(0, every), (), self._from(start), Name(at.text, self._span(at)))

    def _in_steps(self, window: Window) -> Window:
        """SLIDE, and for a window of time OFFSET: the steps in which it moves."""
        if not self._match_text_seq("SLIDE"):
            return window
        if isinstance(window, RowsWindow):
            if unit_us(self._next.text if self._next else "") is not None:
                self.fail(f"a window of rows moves by rows, found {self._found()}", hint="write [ROWS 100 SLIDE 10]")
            return SteppedRows(window.count, self._count("a number of rows"))
        if not isinstance(window, Range):
            self.fail("SLIDE goes with RANGE or ROWS", hint="write [RANGE 10 MINUTES SLIDE 1 MINUTE]")
        slide_us = self._interval()
        return Stepped(window.size_us, slide_us, self._interval() if self._match_text_seq("OFFSET") else 0)

    def _at_partition_by(self) -> bool:
        return TokenType.PARTITION_BY in (self._curr.token_type, self._next.token_type)

    def _window_form(self) -> tuple[Window, tuple[Name, ...]]:
        if self._match_text_seq("RANGE"):
            # [RANGE UNBOUNDED], as in CQL.
            return (Unbounded() if self._match_text_seq("UNBOUNDED") else Range(self._interval())), ()
        if self._match_text_seq("ROWS"):
            return RowsWindow(self._window_rows()), ()
        if self._match_text_seq("LATCH"):
            return Stepped(FOREVER_US, self._interval()), ()
        if self._match_text_seq("NOW"):
            return Range(0), ()
        if self._match_text_seq("UNBOUNDED"):
            return Unbounded(), ()
        if self._match(TokenType.PARTITION_BY):
            columns = [self._partition_column()]
            while self._match(TokenType.COMMA):
                columns.append(self._partition_column())
            if not self._match_text_seq("ROWS"):
                self.fail(
                    f"PARTITION BY in a window goes with ROWS, found {self._found()}",
                    hint="write [PARTITION BY k ROWS 10]",
                )
            return RowsWindow(self._window_rows()), tuple(columns)
        if self._at_bare_interval():
            hint = f"write [RANGE {self._curr.text} {self._next.text}]"
            self.fail(f"{self._found()} is not a window", hint=hint)
        self.fail(
            f"{self._found()} is not a window",
            hint="write [RANGE 30 SECONDS], [ROWS 100], [PARTITION BY k ROWS 10], [NOW], [LANDMARK '2026-01-01'], "
            "[LATCH 1 HOUR] or [UNBOUNDED]",
        )

    def _partition_column(self) -> Name:
        return self._name("a column to partition by")

    def _window_rows(self) -> int:
        """A window that may hold more rows than a stream has holds all of them."""
        if self._curr.text.isdecimal() and len(self._curr.text.lstrip("0")) > _MOST_DIGITS:
            self._advance()
            return int("9" * _MOST_DIGITS)
        return self._count("a number of rows")

    def _count(self, what: str) -> int:
        text = self._curr.text if self._curr else ""
        if self._curr.token_type != TokenType.NUMBER or not text.isdecimal():
            self.fail(f"expected {what}, found {self._found()}", hint="write a whole number")
        if len(text.lstrip("0")) > _MOST_DIGITS:
            self.fail(f"{text} is {what} beyond what this system can count", hint=f"{_MOST_DIGITS} digits are the most")
        self._advance()
        return int(text)
